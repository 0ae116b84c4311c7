//! ClusterServiceVersions that depend on others, and those that others depend on.
//!
//! ```text
//! UPDATE, DELETE ─▶ removed APIs ─▶ CSVS that require them ─▶ CSVS that still own them
//! CREATE in a namespace of a tenant ────▶ required APIs, conversion webhooks
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::ReadError;
use opgate_sdk::{Document, Operation, Report, Review, is_terminating, rule, rules};

use super::apis::{self, Api, ApiLocation, Apis, Role};
use crate::csv::Csv;
use crate::reads::CSVS;
use crate::targets::CSV;
use crate::webhooks;

rules![CSV_100, CSV_101];

const OWNED: [&str; 2] =
    ["/spec/customresourcedefinitions/owned", "/spec/apiservicedefinitions/owned"];

rule! {
    /// the Operator of a tenant has no dependencies and no conversion webhook
    ///
    /// In the namespaces that the setting `operatorGroup.tenantNamespaces` lists, by name or as
    /// `prefix*`, a new CSV has no entry in `spec.customresourcedefinitions.required` and in
    /// `spec.apiservicedefinitions.required`, and no definition of type `ConversionWebhook`. The
    /// rule reports no violation while the setting is missing, even where `rules` gives it a level.
    ///
    /// # Why
    ///
    /// Such an Operator is installed once for each tenant. OLM resolves dependencies for a whole
    /// namespace, and a CRD has one conversion webhook for the cluster, so both work for one
    /// instance only (OpenShift 4.12, Operators, *Operators in multitenant clusters*).
    ///
    /// # Remediation
    ///
    /// Install the Operator once for all tenants, in a namespace that the setting does not list.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The setting is [team1-operator].
    /// metadata: {name: etcdoperator.v0.9.4, namespace: team1-operator}
    /// spec: {customresourcedefinitions: {owned: [{name: a.example.com, version: v1, kind: A}]}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: vault.v0.1.0, namespace: team1-operator}
    /// spec: {customresourcedefinitions: {required: [{name: etcdclusters.database.coreos.com}]}}
    /// ```
    ///
    /// `message: multiple instances of an Operator: the Operator cannot have dependencies on other
    /// Operators`
    CSV_100: Deny {
        name: "self-contained-tenant-operators",
        on: [CSV: Create],
        enabled_by: ["/operatorGroup/tenantNamespaces"],
        source: ["OCP 4.12 L4747-4756", "OCP 4.15 L2946-2979"],
    }
}

pub(super) fn check_tenant(csv: &mut Csv<'_, '_>) {
    let setting = "/operatorGroup/tenantNamespaces";
    let own = csv.review.namespace();
    let covers = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => own.starts_with(prefix),
        None => own == pattern,
    };
    if csv.review.operation() != Operation::Create
        || !csv.is_on(&CSV_100)
        || !csv.review.settings.texts(setting).iter().any(covers)
    {
        return;
    }
    let has = |list: &&&str| csv.object.length(list).is_some_and(|length| length > 0);
    let lists =
        ["/spec/customresourcedefinitions/required", "/spec/apiservicedefinitions/required"];
    if let Some(list) = lists.iter().find(has) {
        let field = format!("{}[0]", list.trim_start_matches('/').replace('/', "."));
        let message = "multiple instances of an Operator: the Operator cannot have dependencies on other Operators";
        csv.add(&CSV_100, &field, message);
    }
    if let Some(field) = webhooks::conversion::first_name(csv.object) {
        let message =
            "multiple instances of an Operator: the Operator cannot ship a CRD conversion webhook";
        csv.add(&CSV_100, &field, message);
    }
}

rule! {
    /// an API that another CSV requires keeps a provider
    ///
    /// If an UPDATE removes an owned API from a CSV, or if a CSV is deleted, no other CSV of the
    /// cluster requires an API that then has no owner. CSVs that are being deleted do not count,
    /// neither as users nor as owners. An API is a version of a CRD (name, version and kind) or of
    /// an API service (group, version and kind). A successor that owns the API is a provider like
    /// any other. Copies are exempt, as the provider (label `olm.copiedFrom`, reason `Copied`, or
    /// the annotation `olm.operatorNamespace` with another namespace), and as the CSV that requires
    /// it (label). The rule only warns: an Operator is uninstalled by deleting its CSV. There is
    /// one violation for each API. Its message names the first CSV that requires the API. The rule
    /// reads CSVs.
    ///
    /// # Why
    ///
    /// The other Operator stops working, or stays pending from then on (OpenShift 4.12, Operators,
    /// *Dependency resolution*).
    ///
    /// # Remediation
    ///
    /// Remove the Operator that requires the API first, or install another provider.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Deleted, and no other CSV requires the API:
    /// spec: {customresourcedefinitions: {owned: [{name: as.example.com, version: v1, kind: A}]}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Deleted, and operators/b.v1.0.0 requires the API:
    /// spec: {customresourcedefinitions: {owned: [{name: as.example.com, version: v1, kind: A}]}}
    /// ```
    ///
    /// `message: A.v1.example.com is required by ClusterServiceVersion operators/b.v1.0.0 and would
    /// have no provider`
    CSV_101: Warn {
        name: "required-apis-keep-provider",
        on: [CSV: Update | Delete],
        reads: [CSVS],
        source: ["OCP 4.12 L2571-2577, L3182-3237, L7075", "OCP 4.5 L780-781"],
    }
}

/// The APIs that an UPDATE removes.
pub(super) fn check_updated(csv: &mut Csv<'_, '_>) {
    let Some(old) = csv.review.old_of_update() else { return };
    let is_same = |list: &str| csv.object.equal(list, old, list);
    if !csv.is_on(&CSV_101) || OWNED.iter().all(|list| is_same(list)) {
        return;
    }
    let (before, after) = (Apis::of(old, Role::Owned), Apis::of(csv.object, Role::Owned));
    if !after.is_complete {
        csv.report.skip(&CSV_101, "spec", "the CSV owns too many APIs to compare them");
        return;
    }
    let after = after.by_api();
    let mut gone = before.by_api();
    gone.retain(|api, _| !after.contains_key(api));
    let own = (csv.review.namespace(), csv.name.as_str());
    // The element is gone, so the location is its list.
    report_missing_provider(own, &gone, ApiLocation::list, csv.report);
}

/// A version that is deleted, with all its APIs.
pub(super) fn check_removed(review: &Review<'_>, old: &Document, report: &mut Report<'_>) {
    let name = review.name(old);
    let gone = Apis::of(old, Role::Owned).by_api();
    report_missing_provider((review.namespace(), &name), &gone, ApiLocation::element, report);
}

fn report_missing_provider(
    own: (&str, &str),
    gone: &BTreeMap<Api, ApiLocation>,
    field: impl Fn(ApiLocation) -> String,
    report: &mut Report<'_>,
) {
    if gone.is_empty() || !report.is_on(&CSV_101) {
        return;
    }
    let found = apis_without_provider(own, &gone.keys().cloned().collect());
    let Some(found) = report.or_skip(&[&CSV_101], "ClusterServiceVersions", found) else { return };
    report.add_count(&CSV_101, found.len().saturating_sub(Report::MAX_VIOLATIONS));
    for (api, (namespace, name)) in found.iter().take(Report::MAX_VIOLATIONS) {
        let field = gone.get(api).map(|location| field(*location)).unwrap_or_default();
        let message = format!(
            "{api} is required by ClusterServiceVersion {namespace}/{name} and would have no provider"
        );
        report.add(&CSV_101, field, message);
    }
}

/// The APIs that other CSVs require and no other CSV owns, each with the first CSV that requires
/// it.
fn apis_without_provider(
    own: (&str, &str),
    gone: &BTreeSet<Api>,
) -> Result<BTreeMap<Api, (String, String)>, ReadError> {
    let is_other = |other: &Document, (namespace, name): &(String, String)| {
        (namespace.as_str(), name.as_str()) != own && !is_terminating(other)
    };
    let mut required: BTreeMap<Api, (String, String)> = BTreeMap::new();
    apis::visit_csvs(Role::Required, gone, |other, shared| {
        let key = apis::key(other);
        if is_other(other, &key) {
            for api in shared {
                required.entry(api).or_insert_with(|| key.clone());
            }
        }
        true
    })?;
    apis::visit_csvs(Role::Owned, &required.keys().cloned().collect(), |other, shared| {
        if is_other(other, &apis::key(other)) {
            required.retain(|api, _| !shared.contains(api));
        }
        !required.is_empty()
    })?;
    Ok(required)
}
