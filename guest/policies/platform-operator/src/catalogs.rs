//! Catalog sources other than the one of platform Operators.

use std::collections::BTreeSet;

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::operator_hub::{self, EnabledSources};
use opgate_sdk::{Report, Review, rule, rules};

use crate::package::SOURCE;
use crate::reads::{CATALOG_SOURCES, OPERATORS};
use crate::targets::{CATALOG_SOURCE, OPERATOR, OPERATOR_HUB};

rules![PLT_08, PLT_09];

rule! {
    /// redhat-operators is the only catalog source when a PlatformOperator is created
    ///
    /// If a PlatformOperator is created, no CatalogSource of the namespaces in
    /// `subscription.globalNamespaces` (by default `openshift-marketplace` and `olm`) has another
    /// name than `redhat-operators`. The message lists all of their names. Without cluster state,
    /// the policy skips the rule.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Managing platform Operators* requires that only
    /// `redhat-operators` is enabled while platform Operators are in Technology Preview. Other
    /// pages of the same document add other catalogs; therefore the rule only warns.
    ///
    /// # Remediation
    ///
    /// Disable the other default sources in the OperatorHub `cluster`, and move your own catalogs
    /// to the namespaces of their Subscriptions.
    ///
    /// # Accepted
    ///
    /// Only the CatalogSource `redhat-operators` is in `openshift-marketplace`.
    ///
    /// # Rejected
    ///
    /// `certified-operators` exists in that namespace, too.
    ///
    /// `message: only the redhat-operators catalog source may be enabled while platform Operators
    /// are used; found [certified-operators redhat-operators]`
    PLT_08: Warn {
        name: "platform-operator-single-catalog-source",
        on: [OPERATOR: Create],
        reads: [CATALOG_SOURCES],
        source: ["OCP 4.12 L10442", "OCP 4.15 L7374", "openshift/platform-operators internal/sourcer/registry_sourcer.go"],
    }
}

/// Checks the catalog sources other than `redhat-operators`.
pub(crate) fn check_other_catalogs(review: &Review<'_>, report: &mut Report<'_>) {
    if !report.is_on(&PLT_08) {
        return;
    }
    let names = other_catalog_names(&operator_hub::global_namespaces(review.settings));
    let Some(names) = report.or_skip(&[&PLT_08], "CatalogSources", names) else { return };
    if names.iter().any(|name| name != SOURCE) {
        let names = names.into_iter().collect::<Vec<_>>().join(" ");
        let message = format!(
            "only the redhat-operators catalog source may be enabled while platform Operators are used; found [{names}]"
        );
        report.add(&PLT_08, "metadata.name", message);
    }
}

fn other_catalog_names(namespaces: &[String]) -> Result<BTreeSet<String>, ReadError> {
    let mut names = BTreeSet::new();
    for namespace in namespaces {
        let query = Query { namespace: Some(namespace), ..Query::default() };
        names.extend(CATALOG_SOURCES.names(query)?.into_iter().map(|found| found.name));
    }
    Ok(names)
}

rule! {
    /// no other catalog source is enabled while there are platform Operators
    ///
    /// While the cluster has a PlatformOperator, the rule reports a new CatalogSource with another
    /// name than `redhat-operators` in the namespaces of `subscription.globalNamespaces` (by
    /// default `openshift-marketplace` and `olm`). It also reports an OperatorHub `cluster` that
    /// enables another default source (`catalog.defaults`). A source is enabled if its entry in
    /// `spec.sources` enables it, or if it has no entry and `spec.disableAllDefaultSources` is not
    /// `true`.
    ///
    /// The rule does not evaluate an UPDATE of a CatalogSource. On UPDATE of the OperatorHub, it
    /// evaluates the sources that the request enables. With the setting `ratcheting` off, it
    /// evaluates both completely. The rule does not evaluate requests for the subresource `status`.
    /// Without cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// The restriction that PLT-08 explains applies as long as platform Operators are in use, not
    /// only when they are created.
    ///
    /// # Remediation
    ///
    /// Create the CatalogSource in the namespace of the Subscriptions that use it, and leave the
    /// other default sources disabled.
    ///
    /// # Accepted
    ///
    /// A CatalogSource in a tenant's namespace.
    ///
    /// # Rejected
    ///
    /// The CatalogSource `example-catalog` in `openshift-marketplace`.
    ///
    /// `message: platform Operators are in use: only the redhat-operators catalog source may be
    /// enabled`
    PLT_09: Warn {
        name: "no-other-catalog-with-platform-operators",
        on: [CATALOG_SOURCE: Create | Update, OPERATOR_HUB: Create | Update],
        reads: [OPERATORS],
        may_skip: true,
        source: ["OCP 4.12 L10442", "OCP 4.15 L7374"],
    }
}

pub(crate) fn check_catalog_source(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(source) = review.subject() else { return };
    let is_global = || {
        operator_hub::global_namespaces(review.settings)
            .iter()
            .any(|global| global == review.namespace())
    };
    // The name and the namespace of an object never change.
    if review.ratchet_base().is_none() && review.name(source) != SOURCE && is_global() {
        report_in_use(&["metadata.name".to_owned()], report);
    }
}

pub(crate) fn check_operator_hub(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(hub) = review.subject() else { return };
    // No other object has an effect.
    if review.name(hub) != "cluster" {
        return;
    }
    let mut defaults = operator_hub::default_sources(review.settings);
    defaults.retain(|name| name != SOURCE);
    let too_many = |report: &mut Report<'_>| {
        report.skip(&PLT_09, "spec.sources", operator_hub::TOO_MANY_SOURCES);
    };
    let Some(after) = EnabledSources::of(hub, &defaults) else { return too_many(report) };
    let mut before = None;
    if let Some(old) = review.ratchet_base() {
        before = EnabledSources::of(old, &defaults);
        if before.is_none() {
            return too_many(report);
        }
    }
    let mut fields: Vec<String> = Vec::new();
    for name in &defaults {
        let was_enabled =
            before.as_ref().is_some_and(|sources| sources.enabling_field(name).is_some());
        if let Some(field) = after.enabling_field(name).filter(|_| !was_enabled)
            && !fields.contains(&field)
        {
            fields.push(field);
        }
    }
    report_in_use(&fields, report);
}

fn report_in_use(fields: &[String], report: &mut Report<'_>) {
    if fields.is_empty() || !report.is_on(&PLT_09) {
        return;
    }
    let answer = OPERATORS.any(Query::default());
    if report.or_skip(&[&PLT_09], "PlatformOperators", answer) == Some(true) {
        for field in fields {
            let message = "platform Operators are in use: only the redhat-operators catalog source may be enabled";
            report.add(&PLT_09, field.as_str(), message);
        }
    }
}
