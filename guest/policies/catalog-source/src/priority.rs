//! The priority class of a catalog's pod.

use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, Report, rule, rules};

use crate::reads::PRIORITY_CLASSES;
use crate::source::{PRIORITY_ANNOTATION, PRIORITY_CLASS, Source};
use crate::targets::CATALOG_SOURCE;

rules![CAT_09, CAT_10];

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    // The schema accepts no value of another type.
    if source.kind(PRIORITY_CLASS) == Kind::Text {
        check_priority_class_exists(source, report);
        check_single_priority_class(source, report);
    }
}

rule! {
    /// the priority class of a catalog's pod exists
    ///
    /// `spec.grpcPodConfig.priorityClassName` is empty, `system-cluster-critical`,
    /// `system-node-critical`, or the name of a PriorityClass of the cluster. The rule evaluates an
    /// UPDATE only if it changes the field. Without cluster state, the policy skips the rule for
    /// other names.
    ///
    /// # Why
    ///
    /// Kubernetes rejects a pod whose priority class does not exist, and the catalog never starts
    /// (OpenShift 4.12, Operators, *Overriding the priority class name for catalog source pods*).
    ///
    /// # Remediation
    ///
    /// Create the PriorityClass first, or use one that Kubernetes provides. An empty string gives
    /// the pod the default priority.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {grpcPodConfig: {priorityClassName: system-cluster-critical}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {grpcPodConfig: {priorityClassName: nope}}
    /// ```
    ///
    /// `message: spec.grpcPodConfig.priorityClassName: PriorityClass "nope" does not exist`
    CAT_09: Deny {
        name: "catalog-source-priority-class-exists",
        on: [CATALOG_SOURCE: Create | Update],
        reads: [PRIORITY_CLASSES],
        source: ["OCP 4.12 L1689, L10155-10169", "OCP 4.15 L7247-7256"],
    }
}

fn check_priority_class_exists(source: &Source<'_>, report: &mut Report<'_>) {
    let name = source.text(PRIORITY_CLASS);
    if matches!(name, "" | "system-cluster-critical" | "system-node-critical")
        || !source.touches(&[PRIORITY_CLASS])
        || !report.is_on(&CAT_09)
    {
        return;
    }
    let found = PRIORITY_CLASSES.get("", name);
    if let Some(None) = report.or_skip(&[&CAT_09], "PriorityClasses", found) {
        let field = PRIORITY_CLASS.name();
        let message = format!("{field}: PriorityClass {} does not exist", quote(name));
        report.add(&CAT_09, field, message);
    }
}

rule! {
    /// a catalog sets its priority class once
    ///
    /// If `spec.grpcPodConfig.priorityClassName` is set, the annotation
    /// `operatorframework.io/priorityclass` is absent, empty or has the same value. The rule
    /// evaluates an UPDATE only if it changes one of the two.
    ///
    /// # Why
    ///
    /// The annotation takes precedence, and the field has no effect (OpenShift 4.12, Operators,
    /// *Overriding the priority class name for catalog source pods*; operator-lifecycle-manager
    /// `pkg/controller/registry/reconciler/reconciler.go`).
    ///
    /// # Remediation
    ///
    /// Remove the annotation. It is the older way to set the priority class.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   annotations: {operatorframework.io/priorityclass: system-cluster-critical}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   annotations: {operatorframework.io/priorityclass: system-node-critical}
    /// spec: {grpcPodConfig: {priorityClassName: system-cluster-critical}}
    /// ```
    ///
    /// `message: annotation operatorframework.io/priorityclass takes precedence over
    /// spec.grpcPodConfig.priorityClassName`
    CAT_10: Warn {
        name: "one-catalog-source-priority-class",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L10176-10188", "OCP 4.15 L7258-7272"],
    }
}

fn check_single_priority_class(source: &Source<'_>, report: &mut Report<'_>) {
    let annotation = source.text(PRIORITY_ANNOTATION);
    if !annotation.is_empty()
        && annotation != source.text(PRIORITY_CLASS)
        && source.touches(&[PRIORITY_ANNOTATION, PRIORITY_CLASS])
    {
        let message = "annotation operatorframework.io/priorityclass takes precedence over spec.grpcPodConfig.priorityClassName";
        report.add(&CAT_10, PRIORITY_ANNOTATION.name(), message);
        report.set_fix(&CAT_10, || {
            let fix = Fix::needs_review("remove the older annotation");
            Some(fix.remove(PRIORITY_ANNOTATION.pointer()))
        });
    }
}
