//! A Subscription: its package, source, namespace and configuration.
//!
//! ```text
//! spec ─▶ Subscription ─┬─▶ rules about one field or several
//!                       └─▶ group of the namespace ─┐
//!                           PackageManifest ────────┴▶ catalog
//! ```

pub(crate) mod affinity;
pub(crate) mod approval;
pub(crate) mod catalog;
pub(crate) mod channel;
pub(crate) mod env;
pub(crate) mod group;
pub(crate) mod package;
pub(crate) mod provided;
pub(crate) mod source;
pub(crate) mod trusted;
pub(crate) mod volumes;

use opgate_sdk::{Document, Report, Review, Row, Shape};

use crate::health;

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let subscription = Subscription::of(review, object);
    subscription.check_source(report);
    let group = subscription.check_group(report);
    subscription.check_single_subscription(report);
    subscription.check_left_over_csv(report);
    subscription.check_approval_rules(report);
    subscription.check_older_channel(report);
    subscription.check_catalog(group.as_ref(), report);
    subscription.check_volume_mounts(report);
    subscription.check_trusted_ca(report);
    subscription.check_env(report);
    subscription.check_affinity(report);
    if !review.is_update() {
        health::check(review, report);
    }
}

/// The Subscription under review. Missing texts are empty, as for OLM.
struct Subscription<'r> {
    review: &'r Review<'r>,
    object: &'r Document,
    name: String,
    package: String,
    source: String,
    source_namespace: String,
    channel: String,
    starting_csv: String,
    approval: String,
}

impl<'r> Subscription<'r> {
    fn of(review: &'r Review<'r>, object: &'r Document) -> Self {
        let fields = object.fields(
            "",
            &[
                "/spec/name",
                "/spec/source",
                "/spec/sourceNamespace",
                "/spec/channel",
                "/spec/startingCSV",
                "/spec/installPlanApproval",
            ],
        );
        let row = fields.iter().next();
        let text = |column| row.as_ref().map_or("", |row: &Row<'_>| row.text_or_empty(column));
        Self {
            review,
            object,
            name: review.name(object),
            package: text(0).to_owned(),
            source: text(1).to_owned(),
            source_namespace: text(2).to_owned(),
            channel: text(3).to_owned(),
            starting_csv: text(4).to_owned(),
            approval: text(5).to_owned(),
        }
    }

    fn namespace(&self) -> &'r str {
        self.review.namespace()
    }

    /// Whether a rule must evaluate the texts of the spec with these names: one of them is new.
    fn touches(&self, names: &[&str]) -> bool {
        let is_new = |name: &&str| {
            self.review.touches(self.object, &format!("/spec/{name}"), &Shape::Scalar)
        };
        self.review.ratchet_base().is_none() || names.iter().any(is_new)
    }

    /// Whether OLM has installed the Operator.
    fn is_installed(&self) -> bool {
        !self.installed_csv().is_empty()
    }

    /// The version that OLM has installed. The API server keeps the status of the old object.
    fn installed_csv(&self) -> String {
        let of = |object: &Document| object.text_or_empty("/status/installedCSV");
        let old = self.review.old_of_update().map(of).filter(|name| !name.is_empty());
        old.unwrap_or_else(|| of(self.object))
    }
}

/// Whether an approval strategy is Manual. OLM treats every other one as Automatic.
fn is_manual(approval: &str) -> bool {
    approval == "Manual"
}
