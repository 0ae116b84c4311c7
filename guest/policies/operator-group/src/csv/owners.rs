//! Two ClusterServiceVersions that own the same APIs.
//!
//! A version that replaces the other is not a second owner. The chain of `spec.replaces` and
//! `spec.skips` defines which version replaces which.

use std::collections::BTreeSet;

use opgate_sdk::cluster::{IndexMatch, MAX_INDEX_VALUES, Query, ReadError};
use opgate_sdk::{Document, Report, Review, Shape, is_terminating, rule, rules};

use crate::kinds::CSV;
use crate::lists;
use crate::olm_reason::{self, OlmReason};
use crate::reads::CSVS;

rules![OPG_28, OPG_29];

const RESOURCES: &str = "/spec/customresourcedefinitions/owned";
const SERVICES: &str = "/spec/apiservicedefinitions/owned";
const REPLACES: &str = "/spec/replaces";
const SKIPS: &str = "/spec/skips";

const RESOURCE_NAMES: Shape = Shape::List(&Shape::Struct(&[("name", Shape::Scalar)]));
const SERVICE_NAMES: Shape =
    Shape::List(&Shape::Struct(&[("group", Shape::Scalar), ("version", Shape::Scalar)]));

/// Maximum number of versions in one walk along the chain. A namespace usually has two or three.
const MAX_CHAIN_STEPS: usize = 256;

pub(super) fn check(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let new_chain =
        review.touches(object, REPLACES, &Shape::Scalar) || review.touches_json(object, SKIPS);
    let csv = OwnerCsv { name: review.name(object), namespace: review.namespace(), object };
    if new_chain || review.touches(object, RESOURCES, &RESOURCE_NAMES) {
        // A changed chain may lead to another owner of previous APIs.
        check_resources(&csv, review.ratchet_base().filter(|_| !new_chain), report);
    }
    if new_chain || review.touches(object, SERVICES, &SERVICE_NAMES) {
        check_services(&csv, report);
    }
}

rule! {
    /// a CRD has one owner in a namespace
    ///
    /// No other CSV in the namespace owns a CRD (`spec.customresourcedefinitions.owned[].name`)
    /// that this CSV owns, unless one of them leads to the other by `spec.replaces` and
    /// `spec.skips`, over existing CSVs. Another CSV does not count if it has the label
    /// `olm.copiedFrom`, if it is being deleted, or if it has the phase `Replacing` or `Deleting`
    /// and some CSV in the namespace names it in `spec.replaces`. On UPDATE, the rule evaluates
    /// only the CRDs that the request adds, or all of them if it changes `replaces` or `skips`.
    /// Copies are exempt as for OPG-20. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// OLM marks such a CSV as failed with the reason `OwnerConflict`, because two Operators would
    /// serve the same CRD in one namespace (OLM `pkg/controller/operators/olm/operator.go`).
    ///
    /// # Remediation
    ///
    /// If this CSV is the next version of the other one, set the other one in `spec.replaces` or
    /// `spec.skips`. Otherwise delete the other CSV, or use another namespace.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # etcdoperator.v0.9.0 owns the same CRD.
    /// metadata: {name: etcdoperator.v0.9.2}
    /// spec: {replaces: etcdoperator.v0.9.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # etcdoperator.v0.9.0 owns the same CRD.
    /// metadata: {name: other.v1.0.0}
    /// spec: {customresourcedefinitions: {owned: [{name: etcdclusters.etcd.database.coreos.com}]}}
    /// ```
    ///
    /// `message: conflicting CRD owner in namespace: csv etcdoperator.v0.9.0 owns the same CRD;
    /// replace it with spec.replaces, or remove it first`
    OPG_28: Deny {
        name: "one-crd-owner-per-namespace",
        on: [CSV: Create | Update],
        reads: [CSVS],
        source: ["OLM pkg/controller/operators/olm/operator.go"],
    }
}

fn check_resources(csv: &OwnerCsv<'_>, old: Option<&Document>, report: &mut Report<'_>) {
    if !report.is_on(&OPG_28) {
        return;
    }
    let known: BTreeSet<_> = match old {
        Some(old) => {
            let rows = old.rows(RESOURCES, &["/name"]);
            rows.iter().filter_map(|owned| owned.text(0).map(str::to_owned)).collect()
        }
        None => BTreeSet::new(),
    };
    let shared = csv.find_resource_owner(&known);
    if let Some(Some(other)) = report.or_skip(&[&OPG_28], "ClusterServiceVersions", shared) {
        let message = format!(
            "conflicting CRD owner in namespace: csv {other} owns the same CRD; replace it with spec.replaces, or remove it first"
        );
        let field = "spec.customresourcedefinitions.owned";
        olm_reason::add(report, OlmReason::OwnerConflict, &OPG_28, field, message);
    }
}

rule! {
    /// an API service has one owner
    ///
    /// No other CSV in the cluster owns an API service (group and version in
    /// `spec.apiservicedefinitions.owned`) that this CSV owns. Other CSVs do not count for the same
    /// reasons as for OPG-28; `replaces` and `skips` lead only to CSVs of the same namespace. The
    /// rule evaluates an UPDATE only if it changes the owned API services, `replaces` or `skips`.
    /// Copies are exempt as for OPG-20. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// An API service exists once in a cluster and is identified by group and version (OpenShift
    /// 4.12, Operators, *Owned API services*). The Operator that is installed later cannot adopt it
    /// (OLM `pkg/controller/operators/olm/operator.go`).
    ///
    /// # Remediation
    ///
    /// Remove one of the two Operators. If this CSV is the next version of the other one, install
    /// it in the same namespace and set the other one in `spec.replaces`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The other CSV owns v1alpha1 of b.example.com.
    /// spec: {apiservicedefinitions: {owned: [{group: a.example.com, version: v1alpha1}]}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The CSV other/packages.v1.0.0 owns the same API service.
    /// spec: {apiservicedefinitions: {owned: [{group: packages.example.com, version: v1}]}}
    /// ```
    ///
    /// `message: unable to adopt APIService: csv other/packages.v1.0.0 owns it`
    OPG_29: Warn {
        name: "one-api-service-owner",
        on: [CSV: Create | Update],
        reads: [CSVS],
        source: ["OCP 4.12 L20916", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

fn check_services(csv: &OwnerCsv<'_>, report: &mut Report<'_>) {
    if !report.is_on(&OPG_29) {
        return;
    }
    let shared = csv.find_service_owner();
    if let Some(Some(other)) = report.or_skip(&[&OPG_29], "ClusterServiceVersions", shared) {
        let field = "spec.apiservicedefinitions.owned";
        report.add(&OPG_29, field, format!("unable to adopt APIService: csv {other} owns it"));
    }
}

/// Whether another version releases its APIs: it is being deleted, or replaced. The phase alone is
/// not sufficient: a user with write access to the status could hide an owner, create another one,
/// and show the first one again.
///
/// The version under review owns its APIs as long as it exists. Otherwise a finalizer or a phase
/// would allow it to own any API.
fn is_being_replaced(other: &Document) -> Result<bool, ReadError> {
    if is_terminating(other) {
        return Ok(true);
    }
    if !matches!(other.text_or_empty("/status/phase").as_str(), "Replacing" | "Deleting") {
        return Ok(false);
    }
    let namespace = other.text_or_empty("/metadata/namespace");
    let names = [other.text_or_empty("/metadata/name")];
    let matches = [IndexMatch { index: "replaces", values: &names, include_missing: false }];
    CSVS.any(Query { namespace: Some(&namespace), matches: &matches, ..Query::default() })
}

/// The ClusterServiceVersion under review.
struct OwnerCsv<'r> {
    name: String,
    namespace: &'r str,
    object: &'r Document,
}

impl OwnerCsv<'_> {
    /// Another version in the namespace that owns one of its custom resource definitions, except
    /// the known ones.
    fn find_resource_owner(&self, known: &BTreeSet<String>) -> Result<Option<String>, ReadError> {
        let rows = self.object.rows(RESOURCES, &["/name"]);
        let names = rows.iter().filter_map(|owned| owned.text(0));
        let names: BTreeSet<_> = names.filter(|name| !known.contains(*name)).collect();
        let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
        self.find_owner("crd", &names, Some(self.namespace))
    }

    /// Another version in the cluster that owns one of its API services.
    fn find_service_owner(&self) -> Result<Option<String>, ReadError> {
        let rows = self.object.rows(SERVICES, &["/group", "/version"]);
        // Only these: the other APIs of another version can be a megabyte, and are not read.
        let services = rows.iter().map(|owned| {
            let (group, version) = (owned.text_or_empty(0), owned.text_or_empty(1));
            format!("{group}/{version}")
        });
        let mut values: Vec<_> = services.collect();
        values.sort_unstable();
        values.dedup();
        self.find_owner("apiservice", &values, None)
    }

    /// The first version that is a second owner of one of the values.
    fn find_owner(
        &self,
        index: &str,
        values: &[String],
        namespace: Option<&str>,
    ) -> Result<Option<String>, ReadError> {
        for values in values.chunks(MAX_INDEX_VALUES) {
            let matches = [IndexMatch { index, values, include_missing: false }];
            let mut found = Ok(None);
            CSVS.each(Query { namespace, matches: &matches, ..Query::default() }, |other| {
                // The read excludes OLM's label, so the result contains no copies.
                found = self.is_other_owner(&other).map(|is| is.then(|| self.name_of(&other)));
                found == Ok(None)
            })?;
            if found != Ok(None) {
                return found;
            }
        }
        Ok(None)
    }

    /// Name of another version, with its namespace if it differs.
    fn name_of(&self, other: &Document) -> String {
        let name = other.text_or_empty("/metadata/name");
        match other.text_or_empty("/metadata/namespace") {
            namespace if namespace == self.namespace => name,
            namespace => format!("{namespace}/{name}"),
        }
    }

    fn is_other_owner(&self, other: &Document) -> Result<bool, ReadError> {
        Ok(!is_being_replaced(other)? && self.is_unrelated(other)?)
    }

    /// Whether another version is a different one, and neither replaces this one nor is replaced by
    /// it.
    fn is_unrelated(&self, other: &Document) -> Result<bool, ReadError> {
        if other.text_or_empty("/metadata/namespace") != self.namespace {
            return Ok(true);
        }
        let name = other.text_or_empty("/metadata/name");
        Ok(name != self.name
            && !self.replaces_transitively(self.object, &name)?
            && !self.replaces_transitively(other, &self.name)?)
    }

    /// Whether the chain from a version leads to `target`. A version that no longer exists ends the
    /// walk.
    fn replaces_transitively(&self, from: &Document, target: &str) -> Result<bool, ReadError> {
        let mut seen = BTreeSet::new();
        let mut next = previous_versions(from);
        while let Some(name) = next.pop() {
            if name == target {
                return Ok(true);
            }
            if seen.len() < MAX_CHAIN_STEPS
                && seen.insert(name.clone())
                && let Some(version) = CSVS.get(self.namespace, &name)?
            {
                next.extend(previous_versions(&version));
            }
        }
        Ok(false)
    }
}

/// The versions that a version replaces or skips. The replaced one is last, because the walk takes
/// the last one first.
fn previous_versions(version: &Document) -> Vec<String> {
    let mut names = lists::texts(version, SKIPS);
    names.push(version.text_or_empty(REPLACES));
    names.retain(|name| !name.is_empty());
    names
}
