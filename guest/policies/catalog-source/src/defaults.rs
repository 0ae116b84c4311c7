//! The default catalog sources of OpenShift, which the Marketplace Operator manages.

use opgate_sdk::go::quote;
use opgate_sdk::operator_hub::{self, EnabledSources};
use opgate_sdk::{Report, rule, rules};

use crate::reads::OPERATOR_HUBS;
use crate::source::Source;
use crate::targets::CATALOG_SOURCE;

rules![CAT_22];

const NAMESPACE: &str = "openshift-marketplace";
const CONFIG: &str = "/spec/grpcPodConfig";
const FIELD: &str = "spec.grpcPodConfig";

/// Users that write the default sources: the Marketplace Operator and the Cluster Version Operator.
const DEFAULT_SOURCE_WRITERS: [&str; 2] = [
    "system:serviceaccount:openshift-marketplace:marketplace-operator",
    "system:serviceaccount:openshift-cluster-version:default",
];

rule! {
    /// the pods of default catalog sources are not changed
    ///
    /// An UPDATE of a default CatalogSource in `openshift-marketplace` does not change
    /// `spec.grpcPodConfig`, unless the OperatorHub `cluster` disables the source: in an entry of
    /// `spec.sources`, or with `spec.disableAllDefaultSources` and no entry. The default sources
    /// are those of the setting `catalog.defaults`: `redhat-operators`, `certified-operators`,
    /// `redhat-marketplace` and `community-operators`. The rule ignores other fields, such as
    /// `spec.image`. It exempts requests of the Marketplace Operator and the Cluster Version
    /// Operator. The rule reads OperatorHubs.
    ///
    /// # Why
    ///
    /// The Marketplace Operator reverts the change (OpenShift 4.15, Operators, *Catalog source pod
    /// scheduling*).
    ///
    /// # Remediation
    ///
    /// Disable the default source in the OperatorHub `cluster`, and create your own CatalogSource
    /// with the same image.
    ///
    /// # Accepted
    ///
    /// A new `spec.image` of `redhat-operators`, or any change of `example-catalog`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: redhat-operators, namespace: openshift-marketplace}
    /// spec: {grpcPodConfig: {nodeSelector: {a: b}}}   # new
    /// ```
    ///
    /// `message: the Marketplace Operator reverts changes to spec.grpcPodConfig of default catalog
    /// source "redhat-operators"; disable it in OperatorHub cluster first`
    CAT_22: Warn {
        name: "default-catalog-source-pods-unchanged",
        on: [CATALOG_SOURCE: Update],
        reads: [OPERATOR_HUBS],
        may_skip: true,
        source: ["OCP 4.15 L2890-2896, L5433-5452, L7176-7208", "OCP 4.12 L1783, L4649"],
    }
}

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    let review = source.review;
    let Some(old) = review.old_of_update() else { return };
    if review.namespace() != NAMESPACE || source.object.equal(CONFIG, old, CONFIG) {
        return;
    }
    let name = review.name(source.object);
    if !operator_hub::default_sources(review.settings).contains(&name)
        || DEFAULT_SOURCE_WRITERS.contains(&review.request.user().username.as_str())
        || !report.is_on(&CAT_22)
    {
        return;
    }
    let hub = OPERATOR_HUBS.get("", "cluster");
    let Some(hub) = report.or_skip(&[&CAT_22], "OperatorHubs", hub) else { return };
    let enabled = match &hub {
        // Without an OperatorHub, all of them are enabled.
        None => true,
        Some(hub) => match EnabledSources::of(hub, std::slice::from_ref(&name)) {
            Some(enabled) => enabled.enabling_field(&name).is_some(),
            None => return report.skip(&CAT_22, "spec.sources", operator_hub::TOO_MANY_SOURCES),
        },
    };
    if enabled {
        let message = format!(
            "the Marketplace Operator reverts changes to spec.grpcPodConfig of default catalog source {}; disable it in OperatorHub cluster first",
            quote(&name)
        );
        report.add(&CAT_22, FIELD, message);
    }
}
