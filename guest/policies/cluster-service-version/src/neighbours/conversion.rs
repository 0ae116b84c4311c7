//! Conversion webhooks and the cluster: the CRDs that they convert, and the CSVs that convert the
//! same ones.
//!
//! ```text
//! webhooks::conversion ─▶ Target ─┬─▶ CRDS             preserveUnknownFields
//!                                 └─▶ CSVS, conversion ─ on their way out? linked? ─▶ rivals
//! ```
//!
//! Who may write ClusterServiceVersions in one namespace can neither take a CRD over from another
//! namespace by naming its CSV in `spec.replaces` or `spec.skips`, nor by bringing the webhook in
//! later: links count within a namespace, as for OLM, and an UPDATE that adds a CRD, cuts the chain
//! or drops the mark of a copy is judged, also of a CSV that is being deleted.
//!
//! Not prevented: a CSV steps aside and returns. It does not count as a rival while it is being
//! deleted, which a finalizer can prolong, or while its status says `Replacing` or `Deleting`,
//! because during an upgrade the old and the new CSV both define the webhook. Another CSV may then convert the CRD. Recent
//! releases of OLM install nothing from a CSV that is being deleted. Who brings back a status by
//! hand has two webhooks for one CRD, and the one that OLM writes last wins.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{Match, Query, ReadError};
use opgate_sdk::{Document, Shape, is_terminating, rule, rules};

use crate::csv::Csv;
use crate::entries::Findings;
use crate::reads::{CRDS, CSVS};
use crate::targets::{CSV, REGISTRY_BUNDLE};
use crate::webhooks::conversion::{self, Target};

rules![CSV_95, CSV_97];

/// Most versions that one walk along the chain looks at. A namespace usually has two or three.
const STEPS: usize = 256;

pub(super) fn judge(csv: &mut Csv<'_, '_>) {
    if !csv.is_on(&CSV_95) && !csv.is_on(&CSV_97) {
        return;
    }
    let targets = conversion::targets(csv);
    if !targets.is_empty() {
        preserving_in_the_cluster(csv, &targets);
        rivals(csv, &targets);
    }
}

rule! {
    /// a conversion webhook converts CRDs that prune unknown fields
    ///
    /// No CRD in `conversionCRDs` of a definition of type `ConversionWebhook` has
    /// `spec.preserveUnknownFields: true`. At admission the CRDs of the cluster count, in a bundle
    /// those beside the CSV. A CRD that is in neither passes. An UPDATE is judged by the
    /// definitions that it changes, whatever changed in the cluster since. The rule reads CRDs.
    ///
    /// # Why
    ///
    /// The API server calls a conversion webhook only for a CRD that prunes unknown fields, and
    /// OLM lets the CSV fail (OpenShift 4.12, Operators, *Conversion webhook constraints*; OLM
    /// `pkg/controller/install/webhook.go`).
    ///
    /// # Repair
    ///
    /// Give the CRD a structural schema and set `spec.preserveUnknownFields` to `false`. Use
    /// `x-kubernetes-preserve-unknown-fields` in the schema where fields must stay open.
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
        on: [CSV: Create | Update, REGISTRY_BUNDLE: Create | Update],
        reads: [CRDS],
        source: "OCP 4.12 L20208-20210, L20292; OCP 4.15 L14861-15012; OLM pkg/controller/install/webhook.go",
    }
}

fn preserving_in_the_cluster(csv: &mut Csv<'_, '_>, targets: &[Target]) {
    if !csv.is_on(&CSV_95) {
        return;
    }
    let names: BTreeSet<&str> =
        targets.iter().filter(|target| target.is_new).map(|target| &*target.name).collect();
    let mut preserving = BTreeSet::new();
    for name in names {
        let crd = CRDS.get("", name);
        match csv.report.answer(&[&CSV_95], "CustomResourceDefinitions", crd) {
            Some(Some(crd)) if crd.boolean("/spec/preserveUnknownFields") == Some(true) => {
                preserving.insert(name.to_owned());
            }
            Some(_) => {}
            None => return,
        }
    }
    add_preserving(csv, targets, &preserving);
}

/// The names of the CRDs that keep unknown fields.
pub(crate) fn preserving(crds: impl Iterator<Item = Document>) -> BTreeSet<String> {
    let keeps = |crd: &Document| crd.boolean("/spec/preserveUnknownFields") == Some(true);
    crds.filter(keeps).filter_map(|crd| crd.text("/metadata/name")).collect()
}

/// CSV-95 for a CSV and the CRDs beside it that keep unknown fields.
pub(crate) fn in_bundle(csv: &mut Csv<'_, '_>, preserving: &BTreeSet<String>) {
    if csv.is_on(&CSV_95) && !preserving.is_empty() {
        let targets = conversion::targets(csv);
        add_preserving(csv, &targets, preserving);
    }
}

fn add_preserving(csv: &mut Csv<'_, '_>, targets: &[Target], preserving: &BTreeSet<String>) {
    let mut findings = Findings::of(&CSV_95);
    for target in targets.iter().filter(|t| t.is_new && preserving.contains(&t.name)) {
        findings.add(csv, || {
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
    /// and one of the two leads to the other by `spec.replaces` and `spec.skips`, over CSVs that
    /// are there. An UPDATE is judged by the CRDs that it adds, and by all of them if it changes
    /// `replaces` or `skips`. One finding for each CRD. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// A CRD has room for one conversion webhook. A second Operator would overwrite that of the
    /// first one, for the objects of all namespaces (OpenShift 4.12, Operators, *Conversion webhook
    /// constraints*).
    ///
    /// # Repair
    ///
    /// If this CSV is the next version of the other one, name that in `spec.replaces` or
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
        on: [CSV: Create | Update],
        reads: [CSVS],
        source: "OCP 4.12 L20298; OCP 4.15 L14861-15012",
    }
}

fn rivals(csv: &mut Csv<'_, '_>, targets: &[Target]) {
    if !csv.is_on(&CSV_97) {
        return;
    }
    let new_chain = csv.touches("/spec/replaces", &Shape::Scalar)
        || csv.touches("/spec/skips", &Shape::List(&Shape::Scalar));
    if !new_chain && !targets.iter().any(|target| target.is_new) {
        return;
    }
    // Where the chain changes, a CSV that was linked may be a rival.
    let known = match csv.spares().filter(|_| !new_chain) {
        Some(old) => conversion::names(old),
        None => BTreeSet::new(),
    };
    // The first place of each CRD: CSV-96 is about the others.
    let mut wanted: BTreeMap<&str, &Target> = BTreeMap::new();
    for target in targets.iter().filter(|target| !known.contains(&target.name)) {
        wanted.entry(&target.name).or_insert(target);
    }
    let found = of_others(csv, &wanted);
    let Some(found) = csv.report.answer(&[&CSV_97], "ClusterServiceVersions", found) else {
        return;
    };
    let mut findings = Findings::of(&CSV_97);
    for (crd, other) in found {
        let Some(target) = wanted.get(crd.as_str()) else { continue };
        findings.add(csv, || {
            let message = format!(
                "There can only be one conversion webhook on the entire cluster for a given CRD: {crd} is already targeted by ClusterServiceVersion {other}"
            );
            [target.field(), message]
        });
    }
}

/// The CRDs that another ClusterServiceVersion converts, with namespace and name of the first one.
fn of_others(
    csv: &Csv<'_, '_>,
    wanted: &BTreeMap<&str, &Target>,
) -> Result<BTreeMap<String, String>, ReadError> {
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let values: Vec<String> = wanted.keys().map(|&name| name.to_owned()).collect();
    let matches = [Match { index: "conversion", values: &values, absent: false }];
    let mut failed = None;
    CSVS.each(Query { matches: &matches, ..Query::default() }, |other| {
        match counts(csv, &other) {
            Ok(true) => {}
            Ok(false) => return true,
            Err(error) => {
                failed = Some(error);
                return false;
            }
        }
        let [namespace, name] =
            ["/metadata/namespace", "/metadata/name"].map(|pointer| other.text_or_empty(pointer));
        for crd in conversion::names(&other) {
            if wanted.contains_key(crd.as_str()) {
                found.entry(crd).or_insert_with(|| format!("{namespace}/{name}"));
            }
        }
        found.len() < wanted.len()
    })?;
    failed.map_or(Ok(found), Err)
}

/// Whether another ClusterServiceVersion stays, and neither is this one nor linked to it.
fn counts(csv: &Csv<'_, '_>, other: &Document) -> Result<bool, ReadError> {
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
        || leads(namespace, csv.object, &name)?
        || leads(namespace, other, &csv.name)?;
    Ok(!is_linked)
}

/// Whether the chain from a version leads to `target`. A version that no longer exists ends the
/// walk.
fn leads(namespace: &str, from: &Document, target: &str) -> Result<bool, ReadError> {
    let mut seen = BTreeSet::new();
    let mut next = before(from);
    while let Some(name) = next.pop() {
        if name == target {
            return Ok(true);
        }
        if seen.len() < STEPS
            && seen.insert(name.clone())
            && let Some(version) = CSVS.get(namespace, &name)?
        {
            next.extend(before(&version));
        }
    }
    Ok(false)
}

/// The versions that a version replaces or skips. The replaced one is last, because the walk takes
/// the last one first.
pub(super) fn before(version: &Document) -> Vec<String> {
    let mut names = version.texts("/spec/skips");
    names.push(version.text_or_empty("/spec/replaces"));
    names.retain(|name| !name.is_empty());
    names
}
