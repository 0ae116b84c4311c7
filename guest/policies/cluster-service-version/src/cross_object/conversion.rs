//! Conversion webhooks and the cluster: the CRDs that they convert, and other CSVs that convert the
//! same CRDs.
//!
//! ```text
//! webhooks::conversion ─▶ Target ─┬─▶ CRDS             preserveUnknownFields
//!                                 └─▶ CSVS, conversion ─ being removed? linked? ─▶ conflicting CSVs
//! ```
//!
//! Users with write access to ClusterServiceVersions in one namespace cannot take a CRD over from
//! another namespace. Naming its CSV in `spec.replaces` or `spec.skips` has no effect, because
//! links count within a namespace only, as for OLM. Adding the webhook later has no effect either:
//! an UPDATE that adds a CRD, cuts the chain or drops the mark of a copy is evaluated, also for a
//! CSV that is being deleted.
//!
//! One bypass remains: a CSV can stop counting for a time and count again later. A CSV does not
//! count while it is being deleted, which a finalizer can prolong, or while its status is
//! `Replacing` or `Deleting`, because during an upgrade the old and the new CSV both define the
//! webhook. Another CSV may then convert the CRD. Recent releases of OLM install nothing from a CSV
//! that is being deleted. A user who restores a status manually gets two webhooks for one CRD, and
//! the one that OLM writes last takes effect.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::{Document, Shape, is_terminating, rule, rules};

use crate::csv::Csv;
use crate::entries::RuleViolations;
use crate::reads::{CRDS, CSVS};
use crate::targets::{CSV, REGISTRY_BUNDLE};
use crate::webhooks::conversion::{self, ConvertedCrd};

rules![CSV_95, CSV_97];

/// Maximum number of versions that one walk along the chain reads. A namespace usually has two or
/// three.
const MAX_CHAIN_STEPS: usize = 256;

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if !csv.is_on(&CSV_95) && !csv.is_on(&CSV_97) {
        return;
    }
    let targets = conversion::converted_crds(csv);
    if !targets.is_empty() {
        check_preserving_in_cluster(csv, &targets);
        check_single_webhook(csv, &targets);
    }
}

rule! {
    /// a conversion webhook converts CRDs that prune unknown fields
    ///
    /// No CRD in `conversionCRDs` of a definition of type `ConversionWebhook` has
    /// `spec.preserveUnknownFields: true`. At admission the CRDs of the cluster count, and in a
    /// bundle the CRDs of the same bundle. A missing CRD is accepted. On UPDATE, the rule evaluates
    /// only definitions that the request changes, regardless of changes in the cluster. The rule
    /// reads CRDs.
    ///
    /// # Why
    ///
    /// The API server calls a conversion webhook only for a CRD that prunes unknown fields, and OLM
    /// fails the CSV (OpenShift 4.12, Operators, *Conversion webhook constraints*; OLM
    /// `pkg/controller/install/webhook.go`).
    ///
    /// # Remediation
    ///
    /// Give the CRD a structural schema and set `spec.preserveUnknownFields` to `false`. Use
    /// `x-kubernetes-preserve-unknown-fields` in the schema for fields that must stay open.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # In the CRD foos.example.com, which the CSV converts:
    /// spec: {preserveUnknownFields: false}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # In the CRD foos.example.com, which the CSV converts:
    /// spec: {preserveUnknownFields: true}
    /// ```
    ///
    /// `message: crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do
    /// the conversion`
    CSV_95: Deny {
        name: "converted-crds-prune-unknown-fields",
        on: [CSV: Create | Update, REGISTRY_BUNDLE: Create | Update],
        reads: [CRDS],
        source: ["OCP 4.12 L20208-20210, L20292", "OCP 4.15 L14861-15012", "OLM pkg/controller/install/webhook.go"],
    }
}

fn check_preserving_in_cluster(csv: &mut Csv<'_, '_>, targets: &[ConvertedCrd]) {
    if !csv.is_on(&CSV_95) {
        return;
    }
    let names: BTreeSet<&str> =
        targets.iter().filter(|target| target.is_new).map(|target| &*target.name).collect();
    let mut preserving = BTreeSet::new();
    for name in names {
        let crd = CRDS.get("", name);
        match csv.report.or_skip(&[&CSV_95], "CustomResourceDefinitions", crd) {
            Some(Some(crd)) if crd.boolean("/spec/preserveUnknownFields") == Some(true) => {
                preserving.insert(name.to_owned());
            }
            Some(_) => {}
            None => return,
        }
    }
    report_preserving(csv, targets, &preserving);
}

/// The names of the CRDs that keep unknown fields.
pub(crate) fn preserving_crds(crds: impl Iterator<Item = Document>) -> BTreeSet<String> {
    let keeps = |crd: &Document| crd.boolean("/spec/preserveUnknownFields") == Some(true);
    crds.filter(keeps).filter_map(|crd| crd.text("/metadata/name")).collect()
}

/// CSV-95 for a CSV and the CRDs of its bundle that keep unknown fields.
pub(crate) fn check_preserving_in_bundle(csv: &mut Csv<'_, '_>, preserving: &BTreeSet<String>) {
    if csv.is_on(&CSV_95) && !preserving.is_empty() {
        let targets = conversion::converted_crds(csv);
        report_preserving(csv, &targets, preserving);
    }
}

fn report_preserving(
    csv: &mut Csv<'_, '_>,
    targets: &[ConvertedCrd],
    preserving: &BTreeSet<String>,
) {
    let mut violations = RuleViolations::of(&CSV_95);
    for target in targets.iter().filter(|t| t.is_new && preserving.contains(&t.name)) {
        violations.add(csv, || {
            let message = "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion";
            [target.field(), message.to_owned()]
        });
    }
}

rule! {
    /// a CRD has one conversion webhook in the cluster
    ///
    /// No other CSV of the cluster has a definition of type `ConversionWebhook` for a CRD that this
    /// CSV converts. Another CSV does not count if it is a copy (label `olm.copiedFrom`), if it is
    /// being deleted or has the phase `Replacing` or `Deleting`, or if it is in the same namespace
    /// and one of the two leads to the other by `spec.replaces` and `spec.skips`, over existing
    /// CSVs. On UPDATE, the rule evaluates only CRDs that the request adds, or all of them if it
    /// changes `replaces` or `skips`. There is one violation for each CRD. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// A CRD can have one conversion webhook. A second Operator would overwrite the webhook of the
    /// first one, for the objects of all namespaces (OpenShift 4.12, Operators, *Conversion webhook
    /// constraints*).
    ///
    /// # Remediation
    ///
    /// If this CSV is the next version of the other one, name the other one in `spec.replaces` or
    /// `spec.skips`. Otherwise remove the other Operator first, or do not install this one.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # webhook-operator.v0.0.1 in the same namespace converts the same CRD.
    /// metadata: {name: webhook-operator.v0.0.2}
    /// spec: {replaces: webhook-operator.v0.0.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # operators/webhook-operator.v0.0.1 converts the same CRD.
    /// metadata: {name: other-operator.v1.0.0}
    /// spec: {webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [foos.example.com]}]}
    /// ```
    ///
    /// `message: There can only be one conversion webhook on the entire cluster for a given CRD:
    /// foos.example.com is already targeted by ClusterServiceVersion
    /// operators/webhook-operator.v0.0.1`
    CSV_97: Deny {
        name: "one-conversion-webhook-across-csvs",
        on: [CSV: Create | Update],
        reads: [CSVS],
        source: ["OCP 4.12 L20298", "OCP 4.15 L14861-15012"],
    }
}

fn check_single_webhook(csv: &mut Csv<'_, '_>, targets: &[ConvertedCrd]) {
    if !csv.is_on(&CSV_97) {
        return;
    }
    let new_chain = csv.touches("/spec/replaces", &Shape::Scalar)
        || csv.touches("/spec/skips", &Shape::List(&Shape::Scalar));
    if !new_chain && !targets.iter().any(|target| target.is_new) {
        return;
    }
    // If the chain changes, a CSV that was linked may now conflict.
    let known = match csv.ratchet_base().filter(|_| !new_chain) {
        Some(old) => conversion::listed_names(old),
        None => BTreeSet::new(),
    };
    // The first location of each CRD. CSV-96 reports the others.
    let mut by_name: BTreeMap<&str, &ConvertedCrd> = BTreeMap::new();
    for target in targets.iter().filter(|target| !known.contains(&target.name)) {
        by_name.entry(&target.name).or_insert(target);
    }
    let found = other_webhooks(csv, &by_name);
    let Some(found) = csv.report.or_skip(&[&CSV_97], "ClusterServiceVersions", found) else {
        return;
    };
    let mut violations = RuleViolations::of(&CSV_97);
    for (crd, other) in found {
        let Some(target) = by_name.get(crd.as_str()) else { continue };
        violations.add(csv, || {
            let message = format!(
                "There can only be one conversion webhook on the entire cluster for a given CRD: {crd} is already targeted by ClusterServiceVersion {other}"
            );
            [target.field(), message]
        });
    }
}

/// The CRDs that another ClusterServiceVersion converts, with namespace and name of the first one.
fn other_webhooks(
    csv: &Csv<'_, '_>,
    by_name: &BTreeMap<&str, &ConvertedCrd>,
) -> Result<BTreeMap<String, String>, ReadError> {
    let mut found = BTreeMap::new();
    if by_name.is_empty() {
        return Ok(found);
    }
    let values: Vec<String> = by_name.keys().map(|&name| name.to_owned()).collect();
    let matches = [IndexMatch { index: "conversion", values: &values, include_missing: false }];
    let mut failed = None;
    CSVS.each(Query { matches: &matches, ..Query::default() }, |other| {
        match is_relevant(csv, &other) {
            Ok(true) => {}
            Ok(false) => return true,
            Err(error) => {
                failed = Some(error);
                return false;
            }
        }
        let [namespace, name] =
            ["/metadata/namespace", "/metadata/name"].map(|pointer| other.text_or_empty(pointer));
        for crd in conversion::listed_names(&other) {
            if by_name.contains_key(crd.as_str()) {
                found.entry(crd).or_insert_with(|| format!("{namespace}/{name}"));
            }
        }
        found.len() < by_name.len()
    })?;
    failed.map_or(Ok(found), Err)
}

/// Whether another ClusterServiceVersion stays, and is neither this one nor linked to it.
fn is_relevant(csv: &Csv<'_, '_>, other: &Document) -> Result<bool, ReadError> {
    let phase = other.text_or_empty("/status/phase");
    if is_terminating(other) || matches!(phase.as_str(), "Replacing" | "Deleting") {
        return Ok(false);
    }
    let namespace = csv.review.namespace();
    if other.text_or_empty("/metadata/namespace") != namespace {
        return Ok(true);
    }
    let name = other.text_or_empty("/metadata/name");
    let is_linked = name == csv.name
        || replaces_transitively(namespace, csv.object, &name)?
        || replaces_transitively(namespace, other, &csv.name)?;
    Ok(!is_linked)
}

/// Whether the chain from a version leads to `target`. A version that no longer exists ends the
/// walk.
fn replaces_transitively(
    namespace: &str,
    from: &Document,
    target: &str,
) -> Result<bool, ReadError> {
    let mut seen = BTreeSet::new();
    let mut next = previous_versions(from);
    while let Some(name) = next.pop() {
        if name == target {
            return Ok(true);
        }
        if seen.len() < MAX_CHAIN_STEPS
            && seen.insert(name.clone())
            && let Some(version) = CSVS.get(namespace, &name)?
        {
            next.extend(previous_versions(&version));
        }
    }
    Ok(false)
}

/// The versions that a version replaces or skips. The replaced one is last, because the walk starts
/// with the last one.
pub(super) fn previous_versions(version: &Document) -> Vec<String> {
    let mut names = version.texts("/spec/skips");
    names.push(version.text_or_empty("/spec/replaces"));
    names.retain(|name| !name.is_empty());
    names
}
