//! The CatalogSources without which OLM resolves nothing.

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{Report, Review, operator_hub, rule, rules};

use crate::reads::CATALOG_SOURCES;
use crate::targets::{INSTALL_PLAN, SUBSCRIPTION};

rules![SUB_19];

rule! {
    /// the catalogs are healthy when something is installed
    ///
    /// When a Subscription or an InstallPlan is created, `status.connectionState.lastObservedState`
    /// is `READY` for the CatalogSources of its namespace and of the namespaces in the setting
    /// `subscription.globalNamespaces`, by default `openshift-marketplace`, `olm`, and those of OLM
    /// outside of OpenShift (SUB-02). A CatalogSource that OLM has not tried to reach yet has no
    /// such state, and does not count. The rule does not evaluate an UPDATE. Without cluster state,
    /// the policy skips the rule.
    ///
    /// # Why
    ///
    /// OLM resolves dependencies from all catalogs. If one of them does not respond, all
    /// installations and updates fail with the condition `CatalogSourcesUnhealthy` (OpenShift 4.12,
    /// Operators, *Catalog health requirements*). The condition is temporary, so the rule only
    /// warns.
    ///
    /// # Remediation
    ///
    /// Check the pod of the CatalogSource that the message names. Delete an unused catalog, or
    /// disable a default one in the OperatorHub `cluster`.
    ///
    /// # Accepted
    ///
    /// All CatalogSources of `openshift-marketplace` are `READY`.
    ///
    /// # Rejected
    ///
    /// A new Subscription, while `community-operators` is in the state `TRANSIENT_FAILURE`:
    ///
    /// `message: CatalogSourcesUnhealthy: catalog source openshift-marketplace/community-operators
    /// is TRANSIENT_FAILURE`
    SUB_19: Warn {
        name: "catalogs-healthy-on-install",
        on: [SUBSCRIPTION: Create, INSTALL_PLAN: Create],
        reads: [CATALOG_SOURCES],
        source: ["OCP 4.12 L1704-1713, L1864, L4251, L7549-7553", "OCP 4.15 L1436-1444"],
    }
}

/// Checks the catalogs for an object that is created.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    if !report.is_on(&SUB_19) {
        return;
    }
    let found = report.or_skip(&[&SUB_19], "CatalogSources", unhealthy_sources(review));
    report.add_each(&SUB_19, found.into_iter().flatten(), |message| {
        ("metadata.namespace".to_owned(), message)
    });
}

fn unhealthy_sources(review: &Review<'_>) -> Result<Vec<String>, ReadError> {
    let mut namespaces = operator_hub::global_namespaces(review.settings);
    namespaces.push(review.namespace().to_owned());
    namespaces.sort_unstable();
    namespaces.dedup();
    let mut found = Vec::new();
    for namespace in &namespaces {
        let query = Query { namespace: Some(namespace), ..Query::default() };
        CATALOG_SOURCES.each(query, |source| {
            let state = source.text_or_empty("/status/connectionState/lastObservedState");
            if !matches!(state.as_str(), "" | "READY") {
                let name = source.text_or_empty("/metadata/name");
                found.push(format!(
                    "CatalogSourcesUnhealthy: catalog source {namespace}/{name} is {state}"
                ));
            }
            found.len() <= Report::MAX_VIOLATIONS
        })?;
    }
    // During a change, the host can list an object twice: the stored and the pending state.
    found.dedup();
    Ok(found)
}
