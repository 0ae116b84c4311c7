//! A ClusterServiceVersion that is deleted before its Subscription.

use std::collections::BTreeSet;

use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::identities::is_garbage_collector;
use opgate_sdk::{Report, Review, is_terminating, rule, rules};

use crate::bounded::quote;
use crate::reads::SUBSCRIPTIONS;
use crate::targets::CSV;

rules![SUB_25];

rule! {
    /// a Subscription is deleted before the version that it installed
    ///
    /// When a ClusterServiceVersion is deleted, no Subscription of the namespace has its name as
    /// `status.installedCSV` or `status.currentCSV`. A Subscription that is being deleted does not
    /// count. Copies (label `olm.copiedFrom`) are exempt, and so are requests of OLM
    /// (`identities.olm` or the profile) and of the Kubernetes controllers that clean up. Without
    /// cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// The documented order deletes the Subscription first (OpenShift 4.12, Operators, *Deleting
    /// Operators from a cluster using the CLI*). Without its version, a Subscription remains, and
    /// resolves nothing in its namespace until it is deleted as well.
    ///
    /// # Remediation
    ///
    /// Delete the Subscription that the message names, and then the ClusterServiceVersion.
    ///
    /// # Accepted
    ///
    /// The deletion of `etcdoperator.v0.9.4` after that of its Subscription.
    ///
    /// # Rejected
    ///
    /// The deletion of `etcdoperator.v0.9.4`, while the Subscription `etcd` has:
    ///
    /// ```yaml
    /// status: {installedCSV: etcdoperator.v0.9.4}
    /// ```
    ///
    /// `message: delete Subscription "etcd" before deleting ClusterServiceVersion
    /// "etcdoperator.v0.9.4"`
    SUB_25: Warn {
        name: "subscription-deleted-before-csv",
        on: [CSV: Delete],
        reads: [SUBSCRIPTIONS],
        source: ["OCP 4.12 L1914, L7049-7082, L7148-7155"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let is_copy = review.old.is_some_and(|csv| csv.has("/metadata/labels/olm.copiedFrom"));
    let is_exempt = is_copy || review.may_be_olm() || is_garbage_collector(review.request);
    if is_exempt || review.is_exempt() || !report.is_on(&SUB_25) {
        return;
    }
    let csv = review.old.map_or_else(|| review.request.name().to_owned(), |csv| review.name(csv));
    let found = report.or_skip(&[&SUB_25], "Subscriptions", of(review.namespace(), &csv));
    report.add_each(&SUB_25, found.into_iter().flatten(), |subscription| {
        let (subscription, csv) = (quote(&subscription), quote(&csv));
        let message = format!(
            "delete Subscription {subscription} before deleting ClusterServiceVersion {csv}"
        );
        ("metadata.name".to_owned(), message)
    });
}

/// The Subscriptions of a namespace that have installed a version, or will install it.
fn of(namespace: &str, csv: &str) -> Result<BTreeSet<String>, ReadError> {
    let names = [csv.to_owned()];
    let mut found = BTreeSet::new();
    for index in ["installed", "current"] {
        let matches = [IndexMatch { index, values: &names, include_missing: false }];
        let query = Query { namespace: Some(namespace), matches: &matches, label_selector: None };
        SUBSCRIPTIONS.each(query, |subscription| {
            if !is_terminating(&subscription) {
                found.insert(subscription.text_or_empty("/metadata/name"));
            }
            true
        })?;
    }
    Ok(found)
}
