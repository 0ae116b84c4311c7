//! The external data stores that preceded catalog sources.

use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::OPERATOR_SOURCE;

rules![MSC_16];

rule! {
    /// an OperatorSource names an application registry
    ///
    /// `spec.type` is `appregistry`, and `spec.endpoint` and `spec.registryNamespace` are not
    /// empty. The rule is on in the profile `ocp-4.5`, if the configuration names that profile, and
    /// where `rules` sets its level. On UPDATE, the rule evaluates only the fields that the request
    /// changes.
    ///
    /// # Why
    ///
    /// The Marketplace Operator of OpenShift 4.5 reads bundles from an application registry, and
    /// supports no other data store (OpenShift 4.5, Operators, *OperatorSource CRD*). It creates no
    /// catalog from another object.
    ///
    /// # Remediation
    ///
    /// Add the missing fields. On OpenShift 4.6 and later, use a CatalogSource.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   type: appregistry
    ///   endpoint: https://quay.io/cnr
    ///   registryNamespace: community-operators
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {type: git, endpoint: "https://quay.io/cnr", registryNamespace: community-operators}
    /// ```
    ///
    /// `message: OperatorSource community-operators: spec.type must be appregistry`
    MSC_16: Warn {
        name: "operator-source-registry-namespace-required",
        on: [OPERATOR_SOURCE: Create | Update],
        enabled_by: ["/profile"],
        source: ["OCP 4.5 L1395-1431"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let is_legacy = review.settings.text_or_empty("/profile") == "ocp-4.5";
    if !is_legacy && !report.is_configured(&MSC_16) {
        return;
    }
    for (member, only) in [("type", "appregistry"), ("endpoint", ""), ("registryNamespace", "")] {
        let (field, pointer) = (format!("spec.{member}"), format!("/spec/{member}"));
        let value = object.text_or_empty(&pointer);
        let is_right = if only.is_empty() { !value.is_empty() } else { value == only };
        if !is_right && review.touches_json(object, &pointer) {
            let name = review.name(object);
            let what = if only.is_empty() { "must not be empty" } else { "must be appregistry" };
            report.add(&MSC_16, &field, format!("OperatorSource {name}: {field} {what}"));
        }
    }
}
