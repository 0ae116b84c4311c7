//! The package of a Subscription, and its other objects in the namespace.

use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::{Report, is_terminating, rule, rules};

use super::Subscription;
use crate::bounded::quote;
use crate::reads::{CSVS, SUBSCRIPTIONS};
use crate::targets::SUBSCRIPTION;

rules![SUB_07, SUB_08];

rule! {
    /// a namespace has one Subscription for a package
    ///
    /// No other Subscription of the namespace has the same `spec.name`, with any catalog source and
    /// channel. A Subscription that is being deleted does not count. The rule evaluates an UPDATE
    /// only if it changes `spec.name`. Of two requests at the same time, opgate denies one. Without
    /// cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// The resolver of OLM rejects a namespace in which two Operators come from the same package,
    /// and then resolves nothing at all there (OpenShift 4.12, Operators, *Subscription
    /// constraint*).
    ///
    /// # Remediation
    ///
    /// Change the Subscription that the message names, or delete it first. To run the same Operator
    /// twice, subscribe to it in two namespaces.
    ///
    /// # Accepted
    ///
    /// A Subscription for the package `etcd` in each of the namespaces `a` and `b`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace scoped has the Subscription etcd for the package etcd.
    /// metadata: {name: etcd-2, namespace: scoped}
    /// spec: {name: etcd, channel: beta}
    /// ```
    ///
    /// `message: Within a namespace, no two Operators may come from the same package: Subscription
    /// "etcd" already subscribes to "etcd"`
    SUB_07: Deny {
        name: "one-subscription-per-package",
        on: [SUBSCRIPTION: Create | Update],
        reads: [SUBSCRIPTIONS],
        source: ["OCP 4.12 L3040", "OCP 4.15 L2209"],
    }
}

impl Subscription<'_> {
    pub(super) fn check_single_subscription(&self, report: &mut Report<'_>) {
        if self.package.is_empty() || !report.is_on(&SUB_07) || !self.touches(&["name"]) {
            return;
        }
        let other = report.or_skip(&[&SUB_07], "Subscriptions", self.other_subscription());
        if let Some(Some(other)) = other {
            let (other, package) = (quote(&other), quote(&self.package));
            let message = format!(
                "Within a namespace, no two Operators may come from the same package: Subscription {other} already subscribes to {package}"
            );
            report.add(&SUB_07, "spec.name", message);
        }
    }

    /// The name of another Subscription of the namespace for the same package.
    fn other_subscription(&self) -> Result<Option<String>, ReadError> {
        let packages = [self.package.clone()];
        let matches = [IndexMatch { index: "package", values: &packages, include_missing: false }];
        let mut found = None;
        let query =
            Query { namespace: Some(self.namespace()), matches: &matches, label_selector: None };
        SUBSCRIPTIONS.each(query, |other| {
            let name = other.text_or_empty("/metadata/name");
            if name != self.name && !is_terminating(&other) {
                found = Some(name);
            }
            found.is_none()
        })?;
        Ok(found)
    }
}

rule! {
    /// no version of an earlier installation remains when a package is subscribed again
    ///
    /// The namespace of a new Subscription has no ClusterServiceVersion with OLM's label for the
    /// package, `operators.coreos.com/<package>.<namespace>`, unless another Subscription of the
    /// namespace has the package, which SUB-07 reports. OLM's copies do not count. The rule does
    /// not evaluate an UPDATE. Without cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// An Operator must be uninstalled completely before it is installed again (OpenShift 4.12,
    /// Operators, *Deleting Operators from a cluster*). A remaining version is neither updated nor
    /// replaced, and the new Subscription may not resolve. CRDs are meant to stay, so only the
    /// version counts, and the rule only warns.
    ///
    /// # Remediation
    ///
    /// Delete the ClusterServiceVersion that the message names, then create the Subscription. If
    /// you want to adopt that version, ignore the warning: OLM adopts it if it is in the channel.
    ///
    /// # Accepted
    ///
    /// The first Subscription for a package in a namespace without any version of it.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # scoped has etcdoperator.v0.9.4 with the label operators.coreos.com/etcd.scoped.
    /// metadata: {name: etcd, namespace: scoped}
    /// spec: {name: etcd}
    /// ```
    ///
    /// `message: uninstall the Operator completely before reinstalling it: ClusterServiceVersion
    /// "etcdoperator.v0.9.4" of package "etcd" still exists`
    SUB_08: Warn {
        name: "no-remaining-csv-on-new-subscription",
        on: [SUBSCRIPTION: Create],
        reads: [CSVS, SUBSCRIPTIONS],
        source: ["OCP 4.12 L6989, L7024, L7644", "OCP 4.15 L4915-4917, L8332-8345"],
    }
}

/// Maximum characters of a name in a label. OLM cuts longer ones.
const MAX_LABEL_CHARS: usize = 63;

impl Subscription<'_> {
    pub(super) fn check_left_over_csv(&self, report: &mut Report<'_>) {
        // A version with a stored Subscription is the one that it has installed.
        let comes_anew = !self.review.is_update() && !self.review.is_audit();
        if !comes_anew || self.package.is_empty() || !report.is_on(&SUB_08) {
            return;
        }
        let needed = "ClusterServiceVersions and Subscriptions";
        let left = report.or_skip(&[&SUB_08], needed, self.left_over_csv()).flatten();
        if let Some(left) = left {
            let (left, package) = (quote(&left), quote(&self.package));
            let message = format!(
                "uninstall the Operator completely before reinstalling it: ClusterServiceVersion {left} of package {package} still exists"
            );
            report.add(&SUB_08, "spec.name", message);
        }
    }

    /// The first version with the label of the package.
    fn left_over_csv(&self) -> Result<Option<String>, ReadError> {
        let operator = format!("{}.{}", self.package, self.namespace());
        let key = truncate_label(&operator);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !key.bytes().all(is_plain) {
            return Ok(None);
        }
        let labels = format!(
            r#"{{"matchExpressions":[{{"key":"operators.coreos.com/{key}","operator":"Exists"}}]}}"#
        );
        let query = Query {
            namespace: Some(self.namespace()),
            label_selector: Some(&labels),
            ..Query::default()
        };
        let left = CSVS.names(query)?;
        let Some(left) = left.into_iter().next() else { return Ok(None) };
        Ok(self.other_subscription()?.is_none().then_some(left.name))
    }
}

/// The name of an Operator as OLM writes it into a label
/// (`pkg/controller/operators/decorators/operator.go`).
fn truncate_label(operator: &str) -> &str {
    match operator.get(..MAX_LABEL_CHARS) {
        Some(cut) if operator.len() > MAX_LABEL_CHARS => cut.trim_end_matches(['.', '_', '-']),
        _ => operator,
    }
}

#[cfg(test)]
mod tests {
    use super::truncate_label;

    #[test]
    fn names_are_cut_as_olm_cuts_them() {
        let long = "a".repeat(60);
        for (operator, label) in [
            ("etcd.scoped".to_owned(), "etcd.scoped".to_owned()),
            (format!("{long}.ab"), format!("{long}.ab")),
            (format!("{long}.abc"), format!("{long}.ab")),
            (format!("{long}-_.b"), long.clone()),
            ("é".repeat(40), "é".repeat(40)),
        ] {
            assert_eq!(truncate_label(&operator), label);
        }
    }
}
