//! Deprecations. Their references are resolved in the package.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Kind, Report, corrections, rule, rules};

use crate::CATALOG;
use crate::blob::{self, Blob, BlobIdentity, Text, blob_path};
use crate::{go_text, spelling};

rules![FBC_47, FBC_48, FBC_49, FBC_50, FBC_51, FBC_52, FBC_53];

/// An `olm.deprecations` blob.
pub(crate) struct Deprecations {
    at: u32,
    pub(crate) package: String,
    /// References to channels and bundles to resolve: index, schema, name.
    references: Vec<(u32, String, String)>,
}

rule! {
    /// deprecations name a package of the catalog, and have no name
    ///
    /// `package` of an `olm.deprecations` blob names a package of the catalog. The blob has no
    /// `name`, not even an empty one.
    ///
    /// # Why
    ///
    /// Deprecations belong to exactly one package (OpenShift 4.15, Operators, *olm.deprecations
    /// schema*), and `opm validate` rejects deprecations of a missing package.
    ///
    /// # Remediation
    ///
    /// Set `package` to the name of the package, and remove `name`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// schema: olm.deprecations
    /// package: etcd
    /// entries: [{reference: {schema: olm.package}, message: End of life.}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// schema: olm.deprecations
    /// package: etcd
    /// name: etcd
    /// entries: [{reference: {schema: olm.package}, message: End of life.}]
    /// ```
    ///
    /// `message: olm.deprecations of package "etcd" must not have a name`, `message: package name
    /// must be set for deprecation item 0` or `message: cannot apply deprecations to an unknown
    /// package "gone"`
    FBC_47: Deny {
        name: "deprecations-package-without-name",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L653-695", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// deprecations have an entry
    ///
    /// `entries` of an `olm.deprecations` blob has at least one element. Missing entries and `null`
    /// count as none.
    ///
    /// # Why
    ///
    /// A blob without entries deprecates nothing; most likely its entries are lost (OpenShift 4.15,
    /// Operators, *olm.deprecations schema*).
    ///
    /// # Remediation
    ///
    /// Add an entry, or remove the blob.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries: [{reference: {schema: olm.package}, message: End of life.}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.deprecations, package: etcd, entries: []}
    /// ```
    ///
    /// `message: olm.deprecations of package "etcd" has no entries`
    FBC_53: Warn {
        name: "deprecations-have-entries",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L657"],
    }
}

/// Evaluates deprecations separately. `number` is the number of preceding blobs.
pub(crate) fn check(
    blob: &Blob<'_>,
    meta: &BlobIdentity,
    number: usize,
    report: &mut Report<'_>,
) -> Deprecations {
    let package = meta.package.as_str().to_owned();
    if meta.package.is_missing() {
        let message = format!("package name must be set for deprecation item {number}");
        report.add(&FBC_47, blob.path(), message);
    }
    if let Text::Value(_) = meta.name {
        let message =
            format!("olm.deprecations of package {} must not have a name", quote(&package));
        report.add(&FBC_47, blob.field("name"), message);
        report.set_fix(&FBC_47, || {
            Some(Fix::safe("remove the name").remove(blob.absolute(&blob.pointer("name"))))
        });
    }
    let mut deprecations = Deprecations { at: blob.at, package, references: Vec::new() };
    let pointer = blob.pointer("entries");
    let is_empty = match blob.kind("entries") {
        Kind::Missing | Kind::Null => true,
        Kind::List => blob.length("entries") == Some(0),
        kind => {
            let why =
                go_text::wrong_field(kind, "Deprecation.entries", "[]declcfg.DeprecationEntry");
            report.add(&FBC_49, blob.field("entries"), format!("parse deprecation: {why}"));
            return deprecations;
        }
    };
    if is_empty {
        let package = quote(&deprecations.package);
        let message = format!("olm.deprecations of package {package} has no entries");
        report.add(&FBC_53, blob.path(), message);
    }
    let mut seen = BTreeMap::new();
    for (index, item) in (0_u32..).zip(blob.value().items(&pointer)) {
        deprecations.check_entry(blob, index, &item, &mut seen, report);
    }
    deprecations
}

rule! {
    /// deprecations refer to each package, channel and bundle at most once
    ///
    /// `entries` of an `olm.deprecations` blob, if set, is a list. `reference.schema` of each entry
    /// is `olm.package`, `olm.channel` or `olm.bundle`, and no two entries have the same schema and
    /// name. You can deprecate a package, its channels and its bundles at the same time.
    ///
    /// # Why
    ///
    /// OLM has conditions only for these three schemas (OpenShift 4.15, Operators,
    /// *olm.deprecations schema*), and one message for each. `opm validate` rejects other schemas.
    ///
    /// # Remediation
    ///
    /// Correct the schema of the reference, or remove the second entry. Indent `schema` and `name`
    /// below `reference`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries: [{reference: {schema: olm.channel, name: stable}, message: Use the channel fast.}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries: [{reference: null, schema: olm.channel, name: stable, message: Use fast instead.}]
    /// ```
    ///
    /// `message: schema must be set for deprecation entry [0] for package "etcd"`
    FBC_49: Deny {
        name: "valid-deprecation-references",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L657-664, L705", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// a deprecation of the package has no name
    ///
    /// A reference of the schema `olm.package` in an `olm.deprecations` blob has no `name`, or an
    /// empty one.
    ///
    /// # Why
    ///
    /// `package` of the blob already names the package (OpenShift 4.15, Operators,
    /// *olm.deprecations schema*), and `opm validate` rejects a second name.
    ///
    /// # Remediation
    ///
    /// Remove `name` from the reference.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries: [{reference: {schema: olm.package}, message: End of life.}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries: [{reference: {schema: olm.package, name: etcd}, message: End of life.}]
    /// ```
    ///
    /// `message: package name must be empty for deprecated package "etcd" (specified "etcd")`
    FBC_50: Deny {
        name: "package-deprecation-without-name",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L696", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// a deprecation has a message
    ///
    /// `message` of each entry of an `olm.deprecations` blob is a non-empty string.
    ///
    /// # Why
    ///
    /// OLM shows the message on the Subscription, where users read it (OpenShift 4.15, Operators,
    /// *olm.deprecations schema*). `opm validate` rejects an entry without one.
    ///
    /// # Remediation
    ///
    /// Write a message that names the deprecated item and its replacement.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries: [{reference: {schema: olm.package}, message: End of life.}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries: [{reference: {schema: olm.package}, message: ""}]
    /// ```
    ///
    /// `message: invalid deprecation: message must be set`
    FBC_52: Deny {
        name: "deprecation-has-message",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L697", "operator-registry alpha/model/model.go"],
    }
}

impl Deprecations {
    fn check_entry(
        &mut self,
        blob: &Blob<'_>,
        index: u32,
        item: &Document,
        seen: &mut BTreeMap<(String, String), u32>,
        report: &mut Report<'_>,
    ) {
        let list = blob.field("entries");
        let package = quote(&self.package);
        if item.text_or_empty("/message").is_empty() {
            let field = match item.kind("/message") {
                Kind::Missing => format!("{list}[{index}]"),
                _ => format!("{list}[{index}].message"),
            };
            let hint = spelling::spelling_hint(item, "", "message");
            let message = format!("invalid deprecation: message must be set{hint}");
            report.add(&FBC_52, field, message);
        }
        let reference = format!("{list}[{index}].reference");
        let schema = item.text_or_empty("/reference/schema");
        let name = item.text_or_empty("/reference/name");
        if schema.is_empty() {
            let field = match item.kind("/reference") {
                Kind::Missing => format!("{list}[{index}]"),
                _ => reference,
            };
            let mut hint = spelling::spelling_hint(item, "", "reference");
            hint.push_str(&spelling::spelling_hint(item, "/reference", "schema"));
            let message = format!(
                "schema must be set for deprecation entry [{index}] for package {package}{hint}"
            );
            report.add(&FBC_49, field, message);
            report.set_fix(&FBC_49, || Some(indent(item)?.below(&entry_pointer(blob, index))));
            return;
        }
        let written = || {
            let (schema, name) = (quote(&schema), quote(&name));
            format!("declcfg.PackageScopedReference{{Schema:{schema}, Name:{name}}}")
        };
        if let Some(first) = seen.get(&(schema.clone(), name.clone())) {
            let message =
                format!("duplicate deprecation entry {} for package {package}", written());
            report.add(&FBC_49, reference, message);
            report.set_fix(&FBC_49, || {
                let list = blob.pointer("entries");
                let [first, second] = [*first, index].map(|index| format!("{list}/{index}"));
                let is_equal = blob.value().equal(&first, blob.value(), &second);
                let fix = Fix::safe("remove the duplicate");
                is_equal.then(|| fix.remove(entry_pointer(blob, index)))
            });
            return;
        }
        seen.insert((schema.clone(), name.clone()), index);
        match schema.as_str() {
            blob::PACKAGE => {
                if !name.is_empty() {
                    let message = format!(
                        "package name must be empty for deprecated package {package} (specified {})",
                        quote(&name)
                    );
                    report.add(&FBC_50, format!("{reference}.name"), message);
                    report.set_fix(&FBC_50, || {
                        let title = "remove the name";
                        let is_own = name == self.package;
                        let fix = if is_own { Fix::safe(title) } else { Fix::needs_review(title) };
                        let entry = entry_pointer(blob, index);
                        Some(fix.remove(format!("{entry}/reference/name")))
                    });
                }
            }
            blob::CHANNEL | blob::BUNDLE => self.references.push((index, schema, name)),
            _ => {
                let message = format!(
                    "cannot deprecate object {} referenced by entry {index} for package {package}: object schema unknown",
                    written()
                );
                report.add(&FBC_49, format!("{reference}.schema"), message);
                report.set_fix(&FBC_49, || {
                    let words = [blob::PACKAGE, blob::CHANNEL, blob::BUNDLE];
                    let with_prefix = format!("olm.{schema}");
                    let meant = corrections::word(&schema, &words)
                        .or_else(|| corrections::word(&with_prefix, &words))?;
                    let entry = entry_pointer(blob, index);
                    Some(corrections::write(format!("{entry}/reference/schema"), meant))
                });
            }
        }
    }
}

rule! {
    /// a package has one olm.deprecations blob
    ///
    /// No two `olm.deprecations` blobs have the same `package`.
    ///
    /// # Why
    ///
    /// The package of a deprecations blob must be unique in the catalog (OpenShift 4.15, Operators,
    /// *olm.deprecations schema*), and `opm validate` rejects a second one.
    ///
    /// # Remediation
    ///
    /// Put all entries into one blob.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// schema: olm.deprecations
    /// package: etcd
    /// entries:
    /// - {reference: {schema: olm.package}, message: End of life.}
    /// - {reference: {schema: olm.channel, name: stable}, message: Use the channel fast.}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// schema: olm.deprecations
    /// package: etcd
    /// entries: [{reference: {schema: olm.package}, message: End of life.}]
    /// ---
    /// schema: olm.deprecations
    /// package: etcd
    /// entries: [{reference: {schema: olm.channel, name: stable}, message: Use the channel fast.}]
    /// ```
    ///
    /// `message: expected a maximum of one deprecation per package: "etcd"`
    FBC_48: Deny {
        name: "one-deprecations-blob-per-package",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L695", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// deprecated channels and bundles exist
    ///
    /// A reference of the schema `olm.channel` or `olm.bundle` in an `olm.deprecations` blob has
    /// the `name` of a channel or bundle of the package. If the package itself is missing, FBC-47
    /// reports it instead.
    ///
    /// # Why
    ///
    /// The name is required (OpenShift 4.15, Operators, *olm.deprecations schema*). A deprecation
    /// of a missing channel or bundle has no effect, and `opm validate` rejects it.
    ///
    /// # Remediation
    ///
    /// Correct the name, or remove the entry together with the channel or bundle.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries: [{reference: {schema: olm.channel, name: stable}, message: Use the channel fast.}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The package has no channel beta.
    /// entries: [{reference: {schema: olm.channel, name: beta}, message: Use the channel fast.}]
    /// ```
    ///
    /// `message: cannot deprecate channel "beta" for package "etcd": channel not found`
    FBC_51: Deny {
        name: "deprecated-references-exist",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L698-699", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates all deprecations of a document against its other blobs.
pub(crate) fn check_references(
    all: &[Deprecations],
    is_known: impl Fn(&str) -> bool,
    channels: &BTreeSet<&str>,
    bundles: &BTreeSet<&str>,
    report: &mut Report<'_>,
) {
    let mut packages = BTreeSet::new();
    for deprecations in all.iter().filter(|deprecations| !deprecations.package.is_empty()) {
        let package = quote(&deprecations.package);
        let field = blob_path(deprecations.at, ".package");
        if !packages.insert(deprecations.package.as_str()) {
            let message = format!("expected a maximum of one deprecation per package: {package}");
            report.add(&FBC_48, field.clone(), message);
        }
        if !is_known(&deprecations.package) {
            let message = format!("cannot apply deprecations to an unknown package {package}");
            report.add(&FBC_47, field, message);
            continue;
        }
        // A channel is deprecated once.
        let of_channels = deprecations.references.iter();
        let of_channels = of_channels.filter(|(_, schema, _)| schema == blob::CHANNEL);
        let mut taken: BTreeSet<&str> = of_channels.map(|(.., name)| name.as_str()).collect();
        for (index, schema, name) in &deprecations.references {
            let (kind, names) = match schema.as_str() {
                blob::CHANNEL => ("channel", channels),
                _ => ("bundle", bundles),
            };
            if name.is_empty() || !names.contains(name.as_str()) {
                let message = format!(
                    "cannot deprecate {kind} {} for package {package}: {kind} not found",
                    quote(name)
                );
                let field = blob_path(deprecations.at, &format!(".entries[{index}].reference"));
                report.add(&FBC_51, field, message);
                report.set_fix(&FBC_51, || {
                    // Names of bundles differ in their versions, so that a similar one is another one.
                    if kind != "channel" {
                        return None;
                    }
                    // Of a part of the channels, the most similar one can be another one.
                    if names.len() > MAX_COMPARED {
                        return None;
                    }
                    let names: Vec<&str> = names.iter().copied().collect();
                    let meant = corrections::nearest(name, &names)?;
                    if !taken.insert(meant) {
                        return None;
                    }
                    let blob = deprecations.at;
                    let entry = format!("/spec/blobs/{blob}/value/entries/{index}");
                    Some(corrections::propose(format!("{entry}/reference/name"), meant))
                });
            }
        }
    }
}

/// Maximum number of names with which an unknown name is compared.
const MAX_COMPARED: usize = 256;

/// The pointer of an entry in the document.
fn entry_pointer(blob: &Blob<'_>, index: u32) -> String {
    blob.absolute(&format!("{}/{index}", blob.pointer("entries")))
}

/// The schema and the name of an entry as members of its reference.
fn indent(item: &Document) -> Option<Fix> {
    let is_unset = matches!(item.kind("/reference"), Kind::Missing | Kind::Null);
    let schema = item.text("/schema").filter(|schema| is_unset && !schema.is_empty())?;
    let mut members = format!("\"schema\":{}", opgate_sdk::json_string(&schema));
    let name = item.text("/name");
    if let Some(name) = &name {
        members.push_str(",\"name\":");
        members.push_str(&opgate_sdk::json_string(name));
    }
    let fix = Fix::safe("write schema and name below reference");
    let fix = fix.set("/reference", format!("{{{members}}}")).remove("/schema");
    Some(if name.is_some() { fix.remove("/name") } else { fix })
}
