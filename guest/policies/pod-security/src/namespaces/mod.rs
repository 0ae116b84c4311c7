//! Labels of Namespaces for pod security admission.
//!
//! ```text
//! labels ─┬─▶ levels     values, and namespaces whose level is fixed, PSA-01, PSA-02, PSA-17
//!         ├─▶ sync       the label synchronisation, PSA-03 to PSA-05
//!         └─▶ catalogs   catalogs that need more than restricted, PSA-06, PSA-07
//! ```
//!
//! An UPDATE of the subresource `status` or `finalize` also sets labels. There, the policy
//! evaluates only a label that changes.

pub(crate) mod catalogs;
pub(crate) mod levels;
pub(crate) mod sync;

use opgate_sdk::{Document, Report, Review, Shape, escape};

use crate::level::{ENFORCE, VERSION, label};

/// Label that turns the synchronisation of the other labels on and off.
const SYNC: &str = "security.openshift.io/scc.podSecurityLabelSync";
/// Labels of the modes.
const MODE_LABELS: [&str; 3] =
    [ENFORCE, "pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/warn"];

/// Labels with the versions of the modes.
const VERSION_LABELS: [&str; 3] = [
    VERSION,
    "pod-security.kubernetes.io/audit-version",
    "pod-security.kubernetes.io/warn-version",
];

/// A Namespace under evaluation.
struct LabelledNamespace<'a> {
    review: &'a Review<'a>,
    object: &'a Document,
    name: String,
}

impl LabelledNamespace<'_> {
    /// The value of a label.
    fn get(&self, name: &str) -> Option<String> {
        label(self.object, name)
    }

    /// Whether a label is new or changes.
    fn is_new(&self, name: &str) -> bool {
        let pointer = pointer(name);
        // The namespace controller writes the subresources of every Namespace that is deleted, also
        // if `ratcheting` is off.
        if !self.review.request.sub_resource().is_empty() {
            let old = self.review.old_of_update();
            return old.is_none_or(|old| !Shape::Scalar.equal(self.object, old, &pointer));
        }
        self.review.touches(self.object, &pointer, &Shape::Scalar)
    }
}

/// The pointer of a label.
fn pointer(label: &str) -> String {
    format!("/metadata/labels/{}", escape(label))
}

/// The field of a label.
fn field(label: &str) -> String {
    format!("metadata.labels[{label}]")
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let namespace = LabelledNamespace { review, object, name: review.name(object) };
    // Most writes of namespaces do not concern these labels.
    if !MODE_LABELS
        .into_iter()
        .chain(VERSION_LABELS)
        .chain([SYNC])
        .any(|label| namespace.is_new(label))
    {
        return;
    }
    levels::check(&namespace, report);
    sync::check(&namespace, report);
    catalogs::check(&namespace, report);
}
