//! Conversion webhooks: the install modes of their CSV, and the CRDs that they convert.
//!
//! ```text
//! definitions ─▶ modes
//!      └─ type ConversionWebhook ─▶ Target (definition, CRD) ─▶ owned, once
//!                                     └─▶ cross_object::conversion  the CRDs and CSVs of the cluster
//! ```
//!
//! The API of OLM lets other webhooks have `conversionCRDs`, too. OLM does not read them there.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::{Document, Fix, Kind, Row, Shape, corrections, go, rule, rules};

use super::listed::{OldCrds, adds_crds};
use super::{CONVERSION_WEBHOOK, Definition, Definitions, LIST};
use crate::csv::Csv;
use crate::entries::{Entries, RuleViolations};
use crate::install;
use crate::targets::{CATALOG, CSV};

rules![CSV_92, CSV_93, CSV_94, CSV_96];

const MODES: &str = "/spec/installModes";
const OWNED: &str = "/spec/customresourcedefinitions/owned";
const OWNED_NAMES: Shape = Shape::List(&Shape::Struct(&[("name", Shape::Scalar)]));
/// Bytes of a text that many messages repeat.
const MAX_SHOWN_BYTES: usize = 256;
/// Maximum number of CRDs that the rules evaluate. OLM processes the CRDs in order and stops at the
/// first one that is not in the cluster, so those after thousands have no effect.
const MAX_CRDS: usize = 5_000;
/// Maximum number of names of definitions in a message.
const MAX_SHOWN_NAMES: usize = 16;
/// Maximum number of owned CRDs that a fix compares with a name.
const MAX_COMPARED: usize = 256;

/// A CRD that a definition of type `ConversionWebhook` lists.
#[derive(Debug)]
pub(crate) struct ConvertedCrd {
    /// Index of the definition.
    definition: usize,
    /// The position in its list.
    at: usize,
    /// Name of the CRD.
    pub(crate) name: String,
    /// Whether an UPDATE adds it to the definition, or the definition is new.
    pub(crate) is_new: bool,
}

impl ConvertedCrd {
    pub(crate) fn field(&self) -> String {
        format!("spec.webhookdefinitions[{}].conversionCRDs[{}]", self.definition, self.at)
    }

    /// The pointer of the CRD in the list of its definition.
    fn pointer(&self) -> String {
        format!("{LIST}/{}/conversionCRDs/{}", self.definition, self.at)
    }
}

/// The CRDs that the conversion webhooks of a ClusterServiceVersion convert.
pub(crate) fn converted_crds(csv: &Csv<'_, '_>) -> Vec<ConvertedCrd> {
    converted_crds_of(csv, &Definitions::of(csv))
}

fn converted_crds_of(csv: &Csv<'_, '_>, definitions: &Definitions<'_>) -> Vec<ConvertedCrd> {
    let mut targets = Vec::new();
    for definition in definitions.list.iter().filter(|d| d.converts() && d.has_crds) {
        if targets.len() >= MAX_CRDS {
            break;
        }
        let mut known = OldCrds::of(csv, definitions, definition);
        let crds = Entries::read_first(csv.object, &definition.pointer("/conversionCRDs"), &[""]);
        for (at, name) in crds.iter().filter_map(|(at, crd)| Some((at, crd.text(0)?))) {
            let (definition, is_new) = (definition.index, known.mark_listed(name));
            targets.push(ConvertedCrd { definition, at, name: name.to_owned(), is_new });
        }
    }
    targets.truncate(MAX_CRDS);
    targets
}

/// The field of the first conversion webhook.
pub(crate) fn first_name(csv: &Document) -> Option<String> {
    super::read_all(csv).iter().find(|definition| definition.converts()).map(|d| d.field(".type"))
}

/// The names of the CRDs that another ClusterServiceVersion converts.
pub(crate) fn listed_names(csv: &Document) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // For a definition of another type, nothing else is read.
    let definitions = Entries::read_all(csv, LIST, &["/type", "/conversionCRDs"]);
    let converting = |row: &Row<'_>| {
        row.text(0) == Some(CONVERSION_WEBHOOK)
            && row.kind(1) == Kind::List
            && row.length(1) > Some(0)
    };
    for (index, _) in definitions.iter().filter(|(_, row)| converting(row)) {
        let crds = Entries::read_first(csv, &format!("{LIST}/{index}/conversionCRDs"), &[""]);
        names.extend(crds.iter().filter_map(|(_, crd)| crd.text(0).map(str::to_owned)));
        if names.len() >= MAX_CRDS {
            break;
        }
    }
    names
}

pub(super) fn check(csv: &mut Csv<'_, '_>, definitions: &Definitions<'_>) {
    check_install_modes(csv, definitions);
    let mut violations = RuleViolations::of(&CSV_93);
    for definition in definitions.list.iter().filter(|d| d.converts() && !d.has_crds) {
        // Go omits an empty list.
        let differs = |old: &Definition| !old.converts() || old.has_crds;
        if definitions.is_new(definition, differs) {
            violations.add(csv, || {
                let message = "unable to manager conversion webhook: conversion webhook must have at least one CRD specified";
                [definition.field(".conversionCRDs"), message.to_owned()]
            });
        }
    }
    if !csv.is_on(&CSV_94) && !csv.is_on(&CSV_96) {
        return;
    }
    let targets = converted_crds_of(csv, definitions);
    if !targets.is_empty() {
        check_owned(csv, &targets);
        check_single_conversion(csv, definitions, &targets);
    }
}

rule! {
    /// a CSV with a conversion webhook supports AllNamespaces only
    ///
    /// If an entry of `spec.webhookdefinitions` has the type `ConversionWebhook`, or any
    /// `conversionCRDs`, then no entry of `spec.installModes` with another type than
    /// `AllNamespaces` has `supported: true`, and none with this type has `supported: false`. A CSV
    /// without install modes is accepted. With the setting `csv.conversionRequiresModes`,
    /// `AllNamespaces` must be listed with `supported: true`, as OLM v1 requires. There is one
    /// violation for each such definition. On UPDATE, the rule evaluates only definitions to which
    /// the request adds a CRD or gives another type, or all of them if it changes the install
    /// modes.
    ///
    /// # Why
    ///
    /// A CRD has one conversion webhook for the whole cluster, so an Operator that serves only some
    /// namespaces cannot have it (OpenShift 4.12, Operators, *Conversion webhook constraints*).
    ///
    /// # Remediation
    ///
    /// Set `supported: false` for the other install modes, and `supported: true` for
    /// `AllNamespaces`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   installModes:
    ///   - {type: OwnNamespace, supported: false}
    ///   - {type: AllNamespaces, supported: true}
    ///   webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [a.example.com]}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   installModes:
    ///   - {type: OwnNamespace, supported: true}
    ///   - {type: AllNamespaces, supported: true}
    ///   webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [a.example.com]}]
    /// ```
    ///
    /// `message: only AllNamespaces InstallModeType is supported when conversionCRDs is present`
    CSV_92: Deny {
        name: "conversion-webhook-needs-all-namespaces",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20286-20289, L20120-20128", "OCP 4.15 L14861-15012", "api pkg/validation/internal/csv.go", "OLM pkg/controller/install/webhook.go"],
    }
}

fn check_install_modes(csv: &mut Csv<'_, '_>, definitions: &Definitions<'_>) {
    let concerned = || definitions.list.iter().filter(|d| d.converts() || d.has_crds);
    if !csv.is_on(&CSV_92) || concerned().next().is_none() || is_singleton(csv) {
        return;
    }
    let mut violations = RuleViolations::of(&CSV_92);
    let are_new = install::modes_differ(csv);
    for definition in concerned() {
        let is_spared = || !are_new && !adds_crds(csv, definitions, definition);
        if !violations.is_full() && is_spared() {
            continue;
        }
        violations.add(csv, || {
            let member = if definition.has_crds { ".conversionCRDs" } else { ".type" };
            let message =
                "only AllNamespaces InstallModeType is supported when conversionCRDs is present";
            [definition.field(member), message.to_owned()]
        });
        let object = csv.object;
        csv.fix(&CSV_92, || support_all_namespaces_only(object));
    }
}

/// The install modes of which only `AllNamespaces` is supported.
fn support_all_namespaces_only(csv: &Document) -> Option<Fix> {
    const MAX_MODES: usize = 16;
    let modes = Entries::read_first(csv, MODES, &["/type", "/supported"]);
    let mut fix = Fix::needs_review("support the install mode AllNamespaces only");
    let (mut has_all, mut changes) = (false, 0_usize);
    for (index, mode) in modes.iter().take(MAX_MODES) {
        let is_all = mode.text(0) == Some("AllNamespaces");
        has_all |= is_all;
        if mode.boolean(1).unwrap_or_default() != is_all {
            fix = fix.set(format!("{MODES}/{index}/supported"), is_all.to_string());
            changes = changes.saturating_add(1);
        }
    }
    (has_all && changes > 0).then_some(fix)
}

/// Whether a ClusterServiceVersion supports all namespaces and nothing else.
fn is_singleton(csv: &Csv<'_, '_>) -> bool {
    let must_say_so = csv.review.settings.boolean("/csv/conversionRequiresModes") == Some(true);
    let modes = Entries::read_all(csv.object, MODES, &["/type", "/supported"]);
    let mut says_so = false;
    for (_, mode) in modes.iter() {
        let (is_all, is_on) =
            (mode.text(0) == Some("AllNamespaces"), mode.boolean(1) == Some(true));
        if is_all != is_on {
            return false;
        }
        says_so |= is_all;
    }
    says_so || !must_say_so
}

rule! {
    /// a conversion webhook lists a CRD
    ///
    /// Every entry of `spec.webhookdefinitions` with the type `ConversionWebhook` has at least one
    /// entry in `conversionCRDs`. On UPDATE, the rule evaluates only definitions that the request
    /// changes.
    ///
    /// # Why
    ///
    /// OLM writes the webhook into the CRDs that the definition lists. Without any CRD, the CSV
    /// fails (OLM `pkg/controller/install/webhook.go`).
    ///
    /// # Remediation
    ///
    /// List the CRDs that the webhook converts, `<plural>.<group>`, or remove the definition.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - {type: ConversionWebhook, conversionCRDs: [webhooktests.webhook.operators.coreos.io]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{type: ConversionWebhook, generateName: cwebhooktest.kb.io}]}
    /// ```
    ///
    /// `message: unable to manager conversion webhook: conversion webhook must have at least one
    /// CRD specified`
    CSV_93: Deny {
        name: "conversion-webhook-lists-crds",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20182-20190, L20295", "OLM pkg/controller/install/webhook.go"],
    }
}

rule! {
    /// a conversion webhook converts CRDs that the CSV owns
    ///
    /// Every entry of `conversionCRDs` in a definition of type `ConversionWebhook` is the `name` of
    /// an entry of `spec.customresourcedefinitions.owned`. OLM ignores `conversionCRDs` of other
    /// webhooks. On UPDATE, the rule evaluates only CRDs that the request adds to a definition, and
    /// CRDs that are no longer owned.
    ///
    /// # Why
    ///
    /// The webhook gets every object of the CRD, of all versions. OLM does not allow an Operator to
    /// take over the objects of another one (OpenShift 4.12, Operators, *Conversion webhook
    /// constraints*; OLM `pkg/controller/install/webhook.go`).
    ///
    /// # Remediation
    ///
    /// Add the CRD to the owned ones, or remove it from `conversionCRDs`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   customresourcedefinitions: {owned: [{name: a.example.com, version: v1, kind: A}]}
    ///   webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [a.example.com]}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: a.v1.0.0}
    /// spec: {webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [b.example.com]}]}
    /// ```
    ///
    /// `message: csv a.v1.0.0 does not own CRD b.example.com`
    CSV_94: Deny {
        name: "conversion-webhook-for-owned-crds",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20190, L20295", "OCP 4.15 L14861-15012", "OLM pkg/controller/install/webhook.go"],
    }
}

fn check_owned(csv: &mut Csv<'_, '_>, targets: &[ConvertedCrd]) {
    if !csv.is_on(&CSV_94) {
        return;
    }
    let wanted: BTreeSet<&str> = targets.iter().map(|target| &*target.name).collect();
    let rows = Entries::read_all(csv.object, OWNED, &["/name"]);
    let names = rows.iter().filter_map(|(_, row)| row.text(0));
    let owned: BTreeSet<&str> = names.filter(|name| wanted.contains(name)).collect();
    let was_owned: BTreeSet<String> = match csv.review.ratchet_base() {
        Some(old) if csv.touches(OWNED, &OWNED_NAMES) => {
            let rows = Entries::read_all(old, OWNED, &["/name"]);
            let names = rows.iter().filter_map(|(_, row)| row.text(0));
            names.filter(|name| wanted.contains(name)).map(str::to_owned).collect()
        }
        _ => BTreeSet::new(),
    };
    let own = go::shorten(&csv.name, MAX_SHOWN_BYTES);
    let mut violations = RuleViolations::of(&CSV_94);
    let mut proposed = BTreeSet::new();
    for target in targets.iter().filter(|target| !owned.contains(target.name.as_str())) {
        if target.is_new || was_owned.contains(&target.name) {
            violations.add(csv, || {
                [target.field(), format!("csv {own} does not own CRD {}", target.name)]
            });
            csv.fix(&CSV_94, || {
                let all: Vec<&str> = rows.iter().filter_map(|(_, row)| row.text(0)).collect();
                if all.len() > MAX_COMPARED {
                    return None;
                }
                let same = corrections::word(&target.name, &all);
                let meant = same.or_else(|| corrections::nearest(&target.name, &all))?;
                let is_converted = targets.iter().any(|other| other.name == meant);
                let write = if same.is_some() { corrections::write } else { corrections::propose };
                let is_free = !is_converted && proposed.insert(meant.to_owned());
                is_free.then(|| write(target.pointer(), meant))
            });
        }
    }
}

rule! {
    /// a CRD has one conversion webhook in a CSV
    ///
    /// No CRD is listed more than once in `conversionCRDs` of the definitions of type
    /// `ConversionWebhook`, neither in two of them nor in one. There is one violation for each CRD.
    /// Its message has the names of the definitions in their order. On UPDATE, the rule evaluates
    /// only CRDs that the request adds to a definition.
    ///
    /// # Why
    ///
    /// A CRD can have one conversion webhook: the last definition would take effect (OpenShift
    /// 4.12, Operators, *Conversion webhook constraints*). OLM v1 rejects such a bundle
    /// (operator-controller `rukpak/render/registryv1/validators/validator.go`).
    ///
    /// # Remediation
    ///
    /// Remove the CRD from all definitions but one.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - {type: ConversionWebhook, generateName: a, conversionCRDs: [foos.example.com]}
    ///   - {type: ConversionWebhook, generateName: b, conversionCRDs: [bars.example.com]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - {type: ConversionWebhook, generateName: a, conversionCRDs: [foos.example.com]}
    ///   - {type: ConversionWebhook, generateName: b, conversionCRDs: [foos.example.com]}
    /// ```
    ///
    /// `message: conversion webhooks [a,b] reference same custom resource definition
    /// 'foos.example.com'`
    CSV_96: Deny {
        name: "one-conversion-webhook-per-crd",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20298", "operator-controller internal/operator-controller/rukpak/render/registryv1/validators/validator.go"],
    }
}

fn check_single_conversion(
    csv: &mut Csv<'_, '_>,
    definitions: &Definitions<'_>,
    targets: &[ConvertedCrd],
) {
    // Sorted once: names can be long, and listed for many CRDs.
    let mut by_name: Vec<&Definition> = definitions.list.iter().collect();
    by_name.sort_by(|left, right| left.name.cmp(&right.name));
    let ranks: BTreeMap<usize, usize> =
        by_name.iter().enumerate().map(|(rank, definition)| (definition.index, rank)).collect();
    let mut listed: BTreeMap<&str, Vec<&ConvertedCrd>> = BTreeMap::new();
    for target in targets {
        listed.entry(&target.name).or_default().push(target);
    }
    let mut violations = RuleViolations::of(&CSV_96);
    for (crd, listings) in listed {
        let [_, second, ..] = listings.as_slice() else { continue };
        if !listings.iter().any(|target| target.is_new) {
            continue;
        }
        violations.add(csv, || {
            let mut order: Vec<usize> =
                listings.iter().filter_map(|t| ranks.get(&t.definition).copied()).collect();
            order.sort_unstable();
            let in_order = order.iter().filter_map(|&rank| by_name.get(rank));
            let names: Vec<_> = in_order
                .take(MAX_SHOWN_NAMES)
                .map(|d| go::shorten(&d.name, MAX_SHOWN_BYTES))
                .collect();
            let names = names.join(",");
            let message = format!(
                "conversion webhooks [{names}] reference same custom resource definition '{crd}'"
            );
            [second.field(), message]
        });
        csv.fix(&CSV_96, || {
            let mut same = listings.iter().filter(|target| target.definition == second.definition);
            let is_first = same.next().is_some_and(|first| first.at < second.at);
            let fix = Fix::safe("remove the duplicate");
            is_first.then(|| fix.remove(second.pointer()))
        });
    }
}
