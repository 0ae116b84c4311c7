//! Deprecations: FBC-47 to FBC-53. What they refer to is looked for in the package.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::blob::{self, Blob, Meta, Text, place};
use crate::findings::Findings;
use crate::{go_text, spelling};

/// An `olm.deprecations` blob.
pub(crate) struct Deprecations {
    at: u32,
    pub(crate) package: String,
    /// References to channels and bundles that are to be looked for: index, schema, name.
    sought: Vec<(u32, String, String)>,
}

/// Judges deprecations by themselves. `number` is how many came before.
pub(crate) fn judge(
    blob: &Blob<'_>,
    meta: &Meta,
    number: usize,
    findings: &mut Findings<'_>,
) -> Deprecations {
    let package = meta.package.as_str().to_owned();
    if meta.package.is_lacking() {
        let message = format!("package name must be set for deprecation item {number}");
        findings.add("FBC-47", blob.path(), message);
    }
    if let Text::Is(_) = meta.name {
        let message =
            format!("olm.deprecations of package {} must not have a name", quote(&package));
        findings.add("FBC-47", blob.field("name"), message);
    }
    let mut deprecations = Deprecations { at: blob.at, package, sought: Vec::new() };
    let pointer = blob.pointer("entries");
    let is_empty = match blob.kind("entries") {
        Kind::Missing | Kind::Null => true,
        Kind::List => blob.length("entries") == Some(0),
        kind => {
            let why =
                go_text::wrong_field(kind, "Deprecation.entries", "[]declcfg.DeprecationEntry");
            findings.add("FBC-49", blob.field("entries"), format!("parse deprecation: {why}"));
            return deprecations;
        }
    };
    if is_empty {
        let package = quote(&deprecations.package);
        let message = format!("olm.deprecations of package {package} has no entries");
        findings.add("FBC-53", blob.path(), message);
    }
    let mut seen = BTreeSet::new();
    for (index, item) in (0_u32..).zip(blob.value().items(&pointer)) {
        deprecations.entry(blob, index, &item, &mut seen, findings);
    }
    deprecations
}

impl Deprecations {
    fn entry(
        &mut self,
        blob: &Blob<'_>,
        index: u32,
        item: &Document,
        seen: &mut BTreeSet<(String, String)>,
        findings: &mut Findings<'_>,
    ) {
        let list = blob.field("entries");
        let package = quote(&self.package);
        if item.text_or_empty("/message").is_empty() {
            let field = match item.kind("/message") {
                Kind::Missing => format!("{list}[{index}]"),
                _ => format!("{list}[{index}].message"),
            };
            let hint = spelling::hint(item, "", "message");
            let message = format!("invalid deprecation: message must be set{hint}");
            findings.add("FBC-52", field, message);
        }
        let reference = format!("{list}[{index}].reference");
        let schema = item.text_or_empty("/reference/schema");
        let name = item.text_or_empty("/reference/name");
        if schema.is_empty() {
            let field = match item.kind("/reference") {
                Kind::Missing => format!("{list}[{index}]"),
                _ => reference,
            };
            let mut hint = spelling::hint(item, "", "reference");
            hint.push_str(&spelling::hint(item, "/reference", "schema"));
            let message = format!(
                "schema must be set for deprecation entry [{index}] for package {package}{hint}"
            );
            findings.add("FBC-49", field, message);
            return;
        }
        let written = || {
            let (schema, name) = (quote(&schema), quote(&name));
            format!("declcfg.PackageScopedReference{{Schema:{schema}, Name:{name}}}")
        };
        if seen.contains(&(schema.clone(), name.clone())) {
            let message =
                format!("duplicate deprecation entry {} for package {package}", written());
            findings.add("FBC-49", reference, message);
            return;
        }
        seen.insert((schema.clone(), name.clone()));
        match schema.as_str() {
            blob::PACKAGE => {
                if !name.is_empty() {
                    let message = format!(
                        "package name must be empty for deprecated package {package} (specified {})",
                        quote(&name)
                    );
                    findings.add("FBC-50", format!("{reference}.name"), message);
                }
            }
            blob::CHANNEL | blob::BUNDLE => self.sought.push((index, schema, name)),
            _ => {
                let message = format!(
                    "cannot deprecate object {} referenced by entry {index} for package {package}: object schema unknown",
                    written()
                );
                findings.add("FBC-49", format!("{reference}.schema"), message);
            }
        }
    }
}

/// Judges all deprecations of a document against the rest of it.
pub(crate) fn judge_references(
    all: &[Deprecations],
    is_known: impl Fn(&str) -> bool,
    channels: &BTreeSet<&str>,
    bundles: &BTreeSet<&str>,
    findings: &mut Findings<'_>,
) {
    let mut packages = BTreeSet::new();
    for deprecations in all.iter().filter(|deprecations| !deprecations.package.is_empty()) {
        let package = quote(&deprecations.package);
        let field = place(deprecations.at, ".package");
        if !packages.insert(deprecations.package.as_str()) {
            let message = format!("expected a maximum of one deprecation per package: {package}");
            findings.add("FBC-48", field.clone(), message);
        }
        if !is_known(&deprecations.package) {
            let message = format!("cannot apply deprecations to an unknown package {package}");
            findings.add("FBC-47", field, message);
            continue;
        }
        for (index, schema, name) in &deprecations.sought {
            let (kind, names) = match schema.as_str() {
                blob::CHANNEL => ("channel", channels),
                _ => ("bundle", bundles),
            };
            if name.is_empty() || !names.contains(name.as_str()) {
                let message = format!(
                    "cannot deprecate {kind} {} for package {package}: {kind} not found",
                    quote(name)
                );
                let field = place(deprecations.at, &format!(".entries[{index}].reference"));
                findings.add("FBC-51", field, message);
            }
        }
    }
}
