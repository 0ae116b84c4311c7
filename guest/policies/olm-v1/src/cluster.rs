//! Requirements for both Operators and Catalogs in a cluster: their scope, and the feature set.

use opgate_sdk::feature_set::{self, FEATURE_GATES, TECH_PREVIEW};
use opgate_sdk::{Document, Fix, Report, Review, rule, rules};

use crate::targets::{CATALOG, OPERATOR};

rules![OL1_08, OL1_09];

pub(crate) fn check(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    if !review.is_update() {
        check_scope(object, report);
        check_feature_set(report);
    }
}

rule! {
    /// Operators and Catalogs of OLM 1.0 have no namespace
    ///
    /// On CREATE, an Operator or a Catalog has no `metadata.namespace`. An API server removes the
    /// field before it calls a webhook; therefore the rule matters for files.
    ///
    /// # Why
    ///
    /// The objects are cluster-scoped (OpenShift 4.15, Operators, *Operator API*). A namespace in
    /// the manifest does not limit the Operator to that namespace.
    ///
    /// # Remediation
    ///
    /// Remove the namespace.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: pipelines-operator}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: pipelines-operator, namespace: default}
    /// ```
    ///
    /// `message: Operator is cluster-scoped; metadata.namespace is ignored`
    OL1_08: Warn {
        name: "no-namespace-on-cluster-scoped-olm-v1",
        on: [OPERATOR: Create, CATALOG: Create],
        source: ["OCP 4.15 L19748, L20556", "operator-controller v0.8.0 api/v1alpha1/operator_types.go"],
    }
}

fn check_scope(object: &Document, report: &mut Report<'_>) {
    if !object.text_or_empty("/metadata/namespace").is_empty() {
        let kind = object.text_or_empty("/kind");
        let message = format!("{kind} is cluster-scoped; metadata.namespace is ignored");
        report.add(&OL1_08, "metadata.namespace", message);
        report.set_fix(&OL1_08, || {
            Some(Fix::safe("remove the namespace").remove("/metadata/namespace"))
        });
    }
}

rule! {
    /// OLM 1.0 runs only with the feature set TechPreviewNoUpgrade
    ///
    /// If an Operator or a Catalog is created, the FeatureGate `cluster` has `spec.featureSet:
    /// TechPreviewNoUpgrade`. Without cluster state, and on a cluster without FeatureGates, the
    /// policy skips the rule.
    ///
    /// # Why
    ///
    /// In OpenShift 4.15, OLM 1.0 is a Technology Preview, and none of its components run without
    /// the feature set (Operators, *Installing an Operator from a catalog*, prerequisites).
    ///
    /// # Remediation
    ///
    /// Use the feature set on a cluster for testing such features: you cannot disable it again.
    ///
    /// # Accepted
    ///
    /// An Operator, on a cluster with `featureSet: TechPreviewNoUpgrade`.
    ///
    /// # Rejected
    ///
    /// A Catalog, on a cluster with `featureSet: ""`.
    ///
    /// `message: OLM 1.0 requires the TechPreviewNoUpgrade feature set`
    OL1_09: Warn {
        name: "olm-v1-requires-tech-preview",
        on: [OPERATOR: Create, CATALOG: Create],
        reads: [FEATURE_GATES],
        source: ["OCP 4.15 L20291, L21749"],
    }
}

fn check_feature_set(report: &mut Report<'_>) {
    if !report.is_on(&OL1_09) {
        return;
    }
    let found = report.or_skip(&[&OL1_09], "FeatureGates", feature_set::of_cluster());
    if found.is_some_and(|found| found != TECH_PREVIEW) {
        let message = "OLM 1.0 requires the TechPreviewNoUpgrade feature set";
        report.add(&OL1_09, "metadata.name", message);
    }
}
