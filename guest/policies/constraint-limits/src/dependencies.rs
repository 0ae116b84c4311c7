//! What the files of a bundle and the blobs of a catalog depend on.
//!
//! ```text
//! dependencies.yaml ─▶ olm.package, olm.gvk, olm.constraint ─┐
//! properties.yaml ───▶ olm.package.required, …               ├─▶ Needs ─▶ required APIs (CON-25)
//! olm.bundle ────────▶ the same properties                   ┘
//! ```

use std::collections::BTreeSet;

use opgate_constraint::cel;
use opgate_constraint::constraint::{self, Options};
use opgate_constraint::names::Gvk;
use opgate_constraint::properties::{self, Property};
use opgate_constraint::range::Range;
use opgate_sdk::{Document, Kind};

use crate::encoding::base64;
use crate::findings::Findings;
use crate::{annotations, config_map};

/// An object in base64, in the value of a property.
const DATA: &str = "/data";

/// What a bundle needs, by all of its files.
#[derive(Default)]
pub(crate) struct Needs {
    /// APIs.
    pub(crate) gvks: BTreeSet<Gvk>,
    /// Names of packages.
    pub(crate) packages: BTreeSet<String>,
}

/// A dependency or property in files.
struct Item<'d> {
    kind: String,
    value: Option<Document>,
    /// The place of the value.
    field: &'d str,
}

impl Item<'_> {
    fn text(&self, name: &str) -> String {
        let value = self.value.as_ref();
        value.map(|value| value.text_or_empty(&format!("/{name}"))).unwrap_or_default()
    }

    fn field(&self, name: &str) -> String {
        let has = self.value.as_ref().is_some_and(|value| value.has(&format!("/{name}")));
        if has { format!("{}.{name}", self.field) } else { self.field.to_owned() }
    }

    fn gvk(&self) -> Gvk {
        let [group, version, kind] = ["group", "version", "kind"].map(|name| self.text(name));
        Gvk { group, version, kind }
    }

    fn is_admitted(&self, findings: &mut Findings<'_>) -> bool {
        self.value.as_ref().is_none_or(|value| findings.admits(value, "", self.field))
    }

    /// JSON as it is written; what was YAML comes without white space.
    fn raw(&self) -> Vec<u8> {
        self.value.as_ref().and_then(|value| value.raw("")).unwrap_or_default()
    }
}

/// The list `dependencies` of a document, whose place is `at`.
pub(crate) fn dependencies(
    document: &Document,
    at: &str,
    needs: &mut Needs,
    findings: &mut Findings<'_>,
) {
    for (index, item) in document.items("/dependencies").enumerate() {
        let field = format!("{at}.dependencies[{index}].value");
        let item =
            Item { kind: item.text_or_empty("/type"), value: item.at("/value"), field: &field };
        match item.kind.as_str() {
            "olm.package" => package(&item, needs, findings),
            "olm.gvk" => gvk(&item, needs, findings),
            "olm.constraint" => {
                own_constraint(&item, needs, findings);
                if findings.is_enabled("CON-23", "/bundle/dependenciesCelOnly") {
                    cel_only(&item, findings);
                }
            }
            _ => {}
        }
    }
    if findings.is_enabled("CON-24", "") {
        mixed(document, at, findings);
    }
}

/// Types of properties that are looked at: most others need no handle.
const READ: [&str; 6] = [
    "olm.constraint",
    "olm.gvk.required",
    "olm.package.required",
    "olm.label.required",
    "olm.csv.metadata",
    "olm.bundle.object",
];

/// Where a list of properties stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// `properties.yaml`.
    Bundle,
    /// A blob, whose properties are judged by the policy for catalogs: what cannot be read is told once
    /// (FBC-37, FBC-38), and CON-18 is about what ClusterServiceVersions say.
    Catalog,
}

/// The list of properties of a document: `[{type, value}]` or `[{property: {type, value}}]`.
pub(crate) fn properties(
    document: &Document,
    source: Source,
    at: &str,
    needs: &mut Needs,
    findings: &mut Findings<'_>,
) {
    let types = document.rows("/properties", &["/type", "/property/type"]);
    for (index, row) in types.iter().enumerate() {
        // `null` stands for nothing, as everywhere.
        let has_type = !matches!(row.kind(0), Kind::Missing | Kind::Null);
        let (kind, step) = if has_type { (row.text(0), "") } else { (row.text(1), "property") };
        let Some(kind) = kind.filter(|kind| READ.contains(kind)) else { continue };
        let dot = if step.is_empty() { "" } else { "." };
        let slash = if step.is_empty() { "" } else { "/" };
        let field = format!("{at}.properties[{index}]{dot}{step}.value");
        let value = document.at(&format!("/properties/{index}{slash}{step}/value"));
        let item = Item { kind: kind.to_owned(), value, field: &field };
        match item.kind.as_str() {
            "olm.constraint" => own_constraint(&item, needs, findings),
            "olm.gvk.required" => {
                needs.gvks.insert(item.gvk());
                property(&item, source, findings);
            }
            "olm.package.required" => {
                needs.packages.insert(item.text("packageName"));
                property(&item, source, findings);
            }
            "olm.label.required" => property(&item, source, findings),
            "olm.csv.metadata" => {
                if let Some(value) = &item.value {
                    let at = format!("{field}.annotations");
                    annotations::each(value, None, "/annotations", &at, findings);
                }
            }
            "olm.bundle.object" => object(&item, findings),
            _ => {}
        }
    }
}

/// In files there is advice as well.
fn options(findings: &Findings<'_>) -> Options {
    Options { advice: true, ..findings.options }
}

fn property(item: &Item<'_>, source: Source, findings: &mut Findings<'_>) {
    if !item.is_admitted(findings) {
        return;
    }
    let value = item.raw();
    let property = Property { index: 0, kind: &item.kind, value: &value };
    let mut found = properties::check(property, &options(findings));
    found.retain(|found| source == Source::Bundle || found.rule != "CON-18");
    findings.extend(item.field, found);
}

fn own_constraint(item: &Item<'_>, needs: &mut Needs, findings: &mut Findings<'_>) {
    if !item.is_admitted(findings) {
        return;
    }
    let report = constraint::check(&item.raw(), &options(findings));
    if let Some(constraint) = &report.constraint {
        needs.gvks.extend(constraint.gvks().cloned());
        needs.packages.extend(constraint.packages().map(|package| package.name.clone()));
    }
    findings.extend(item.field, report.findings);
}

/// A ClusterServiceVersion inside of a catalog, which will be created as it is.
fn object(item: &Item<'_>, findings: &mut Findings<'_>) {
    let Some(value) = &item.value else { return };
    let size = value.size(DATA).unwrap_or_default();
    if !findings.can_decode(size) {
        return;
    }
    let Some(bytes) = value.text(DATA).and_then(|data| base64(data.as_bytes())) else { return };
    if let Ok(text) = std::str::from_utf8(&bytes) {
        config_map::object(text, &format!("{}.data", item.field), findings);
    }
}

/// CON-19, CON-20, and what is said of ranges.
fn package(item: &Item<'_>, needs: &mut Needs, findings: &mut Findings<'_>) {
    let name = item.text("packageName");
    if name.is_empty() {
        findings.add("CON-19", &item.field("packageName"), "Package name is empty");
    }
    let field = item.field("version");
    let version = item.value.as_ref().map(|value| (value.kind("/version"), value.text("/version")));
    match version {
        Some((Kind::Text, Some(text))) if !text.is_empty() => match Range::parse(&text) {
            Ok(range) => {
                let mut found = Vec::new();
                properties::ranged(&name, &text, &range, true, "/version", &mut found);
                findings.extend(item.field, found);
            }
            Err(_) => findings.add("CON-20", &field, "Invalid semver format version"),
        },
        None | Some((Kind::Missing | Kind::Null | Kind::Text, _)) => {
            findings.add("CON-20", &field, "Package version is empty");
        }
        // A version that YAML takes for a number.
        Some(_) => findings.add("CON-20", &field, "Invalid semver format version"),
    }
    needs.packages.insert(name);
}

/// CON-21, CON-22.
fn gvk(item: &Item<'_>, needs: &mut Needs, findings: &mut Findings<'_>) {
    let gvk = item.gvk();
    for (name, text, message) in [
        ("group", &gvk.group, "API Group is empty"),
        ("version", &gvk.version, "API Version is empty"),
        ("kind", &gvk.kind, "API Kind is empty"),
    ] {
        if text.is_empty() {
            findings.add("CON-21", &item.field(name), message);
        }
    }
    for (name, message) in gvk.faults() {
        findings.add("CON-22", &item.field(name), message);
    }
    needs.gvks.insert(gvk);
}

/// CON-23: the registry reads a constraint among dependencies as `{"cel": {"rule": …}}` alone.
fn cel_only(item: &Item<'_>, findings: &mut Findings<'_>) {
    let value = item.value.as_ref();
    let field = item.field;
    if !value.is_some_and(|value| value.has("/cel")) {
        findings.add("CON-23", field, "The CEL field is missing");
        return;
    }
    let rule = value.map(|value| value.text_or_empty("/cel/rule")).unwrap_or_default();
    if rule.is_empty() {
        findings.add("CON-23", &format!("{field}.cel"), "The CEL expression is missing");
        return;
    }
    if let Err(fault) = cel::check(&rule) {
        let message = format!("Invalid CEL expression: {fault}");
        findings.add("CON-23", &format!("{field}.cel.rule"), message);
    }
}

/// CON-24: a package, and an API of a group that has the package's name in it, which look like one
/// Operator. Unrelated Operators, as in the documents' example, are not meant.
fn mixed(document: &Document, at: &str, findings: &mut Findings<'_>) {
    let mut packages = BTreeSet::new();
    for item in document.items("/dependencies") {
        if item.text_or_empty("/type") == "olm.package" {
            packages.insert(item.text_or_empty("/value/packageName"));
        }
    }
    packages.remove("");
    for (index, item) in document.items("/dependencies").enumerate() {
        let group = item.text_or_empty("/value/group");
        if item.text_or_empty("/type") == "olm.gvk"
            && group.split('.').any(|label| packages.contains(label))
        {
            let message = "olm.package and olm.gvk dependencies may be satisfied by two different Operators; Operators should stick to one mechanism or the other";
            findings.add("CON-24", &format!("{at}.dependencies[{index}]"), message);
        }
    }
}

/// CON-25: APIs that a CSV requires and nothing depends on.
pub(crate) fn required(csv: &Document, at: &str, needs: &Needs, findings: &mut Findings<'_>) {
    // A package that is required may bring any API.
    if !needs.packages.is_empty() {
        return;
    }
    for (list, is_crd) in [
        ("/spec/customresourcedefinitions/required", true),
        ("/spec/apiservicedefinitions/required", false),
    ] {
        for (index, api) in csv.items(list).enumerate() {
            let [name, group, version, kind] =
                ["/name", "/group", "/version", "/kind"].map(|pointer| api.text_or_empty(pointer));
            let (group, shown) = if is_crd {
                let group = name.split_once('.').map(|(_, group)| group.to_owned());
                (group.unwrap_or_default(), name)
            } else {
                let shown = format!("{kind}.{version}.{group}");
                (group, shown)
            };
            if !needs.gvks.contains(&Gvk { group, version, kind }) {
                let message = format!(
                    "CSV requires {shown} but dependencies.yaml has no olm.gvk dependency for it"
                );
                let field = format!("{at}{}[{index}]", list.replace('/', "."));
                findings.add("CON-25", &field, message);
            }
        }
    }
}

/// The blob of a bundle in a catalog.
pub(crate) fn bundle(blob: &Document, at: &str, findings: &mut Findings<'_>) {
    properties(blob, Source::Catalog, at, &mut Needs::default(), findings);
}

/// The blob of a channel in a catalog.
pub(crate) fn channel(blob: &Document, at: &str, findings: &mut Findings<'_>) {
    let entries = blob.rows("/entries", &["/skipRange"]);
    for (index, entry) in entries.iter().enumerate() {
        if let Some(range) = entry.text(0) {
            let field = || format!("{at}.entries[{index}].skipRange");
            annotations::skip_range(range, field, findings);
        }
    }
}
