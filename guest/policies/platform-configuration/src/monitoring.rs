//! Namespaces whose metrics the monitoring of the cluster collects.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, Review, rule, rules};

use crate::reads::NAMESPACES;
use crate::targets::SERVICE_MONITOR;

rules![MSC_18];

rule! {
    /// the cluster monitoring reads the ServiceMonitor
    ///
    /// The namespace of a new ServiceMonitor has the label `openshift.io/cluster-monitoring:
    /// "true"`. The rule is off until `rules` sets its level, because the monitoring of user
    /// workloads reads namespaces without the label. Without cluster state, or if the namespace is
    /// not in the cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// The Prometheus of the cluster only reads namespaces with this label (OpenShift 4.12,
    /// Operators, *Exposing custom metrics for Go-based Operators*). It collects no metrics of
    /// other namespaces.
    ///
    /// # Remediation
    ///
    /// Label the namespace: `oc label namespace my-operator
    /// openshift.io/cluster-monitoring="true"`.
    ///
    /// # Accepted
    ///
    /// A ServiceMonitor in a namespace with the label.
    ///
    /// # Rejected
    ///
    /// A ServiceMonitor in the namespace `my-operator` without it.
    ///
    /// `message: namespace "my-operator" is not labelled openshift.io/cluster-monitoring="true"`
    MSC_18: Warn {
        name: "service-monitor-in-monitored-namespace",
        on: [SERVICE_MONITOR: Create],
        reads: [NAMESPACES],
        enabled_by: [],
        may_skip: true,
        source: ["OCP 4.12 L9281, L23072-23074"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    if review.subject().is_none() || !report.is_on(&MSC_18) {
        return;
    }
    let name = review.namespace();
    let namespace = NAMESPACES.get("", name);
    let Some(namespace) = report.or_skip(&[&MSC_18], "Namespaces", namespace) else { return };
    let Some(namespace) = namespace else {
        report.skip(&MSC_18, "metadata.namespace", "the namespace is not known");
        return;
    };
    let label = namespace.text("/metadata/labels/openshift.io~1cluster-monitoring");
    if label.as_deref() != Some("true") {
        let name = quote(name);
        let message =
            format!("namespace {name} is not labelled openshift.io/cluster-monitoring=\"true\"");
        report.add(&MSC_18, "metadata.namespace", message);
    }
}
