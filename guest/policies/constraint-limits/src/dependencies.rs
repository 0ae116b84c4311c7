//! `dependencies.yaml` of a bundle: packages, APIs and constraints.

use std::collections::BTreeSet;

use opgate_compat::range::Range;
use opgate_constraint::{cel, properties as list};
use opgate_sdk::corrections::ScalarText;
use opgate_sdk::{Document, Fix, Kind, corrections, rule, rules};

use crate::checks::CON_22;
use crate::item::Item;
use crate::properties;
use crate::required::Requirements;
use crate::scan::Scan;
use crate::targets::REGISTRY_BUNDLE;

rules![CON_19, CON_20, CON_21, CON_23, CON_24];

/// The list `dependencies` of a document. `at` is the field of the document.
pub(crate) fn check(
    document: &Document,
    at: &str,
    requirements: &mut Requirements,
    scan: &mut Scan<'_, '_>,
) {
    for (index, item) in document.items("/dependencies").enumerate() {
        let field = format!("{at}.dependencies[{index}].value");
        let place = pointer(at).map(|at| format!("{at}/dependencies/{index}/value"));
        let item =
            Item { kind: item.text_or_empty("/type"), value: item.at("/value"), field: &field };
        match item.kind.as_str() {
            "olm.package" => check_package(&item, place.as_deref(), requirements, scan),
            "olm.gvk" => check_api(&item, requirements, scan),
            "olm.constraint" => {
                properties::check_constraint(&item, requirements, scan);
                if scan.report.is_on(&CON_23) {
                    check_cel_only(&item, scan);
                }
            }
            _ => {}
        }
    }
    if scan.report.is_on(&CON_24) {
        check_mixed(document, at, scan);
    }
}

rule! {
    /// a package dependency names a package
    ///
    /// In the files in `metadata/` of a bundle, every item of `dependencies` whose type is
    /// `olm.package` has `value.packageName`, a string that is not empty.
    ///
    /// # Why
    ///
    /// Without a name OLM does not know what to install, and operator-registry rejects the bundle
    /// with the same words. OpenShift 4.12, Operators, *Dependencies*: the information must include
    /// the name of the package.
    ///
    /// # Remediation
    ///
    /// Set `packageName` to the name of the package in the catalog.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: '>0.27.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {version: '>0.27.0'}
    /// ```
    ///
    /// message: `Package name is empty`
    CON_19: Deny {
        name: "package-dependency-name",
        on: [REGISTRY_BUNDLE: Create | Update],
        source: ["OCP 4.12 L486, L505-514, L2692, L2711-2720", "OCP 4.15 L368-401, L1927-1960", "OCP 4.5 L302-305", "OKD L83-86, L94-97", "operator-registry pkg/registry/types.go"],
    }
}

rule! {
    /// a package dependency has a version or a semver range
    ///
    /// In the files in `metadata/` of a bundle, every item of `dependencies` whose type is
    /// `olm.package` has `value.version`: an exact version or a semver range (CON-09 defines the
    /// syntax). It is a string; a version that YAML reads as a number is rejected.
    ///
    /// # Why
    ///
    /// OLM selects the package by the range, and operator-registry rejects the bundle with the same
    /// words. OpenShift 4.12, Operators, *Dependencies*: the information must include the version.
    ///
    /// # Remediation
    ///
    /// Write a whole version such as `0.5.2` or a range such as `>0.5.1`, in quotes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: '0.5.2'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: newer than 0.27}
    /// ```
    ///
    /// message: `Invalid semver format version`. If `version` is missing or empty, the message is
    /// `Package version is empty`.
    CON_20: Deny {
        name: "package-dependency-version",
        on: [REGISTRY_BUNDLE: Create | Update],
        source: ["OCP 4.12 L486, L2692, L3121, L3132", "OCP 4.15 L368-401", "OCP 4.5 L302-305", "OKD L83-86", "operator-registry pkg/registry/types.go"],
    }
}

/// A package and the meaning of its range.
/// The pointer of a document of a bundle, whose field this is.
fn pointer(at: &str) -> Option<String> {
    let (file, document) = at.strip_prefix("spec.files[")?.split_once("].documents[")?;
    Some(format!("/spec/files/{file}/documents/{}", document.strip_suffix(']')?))
}

/// The member that has the name of the package or the range under another name.
fn rename(item: &Item<'_>, place: Option<&str>, name: &str, right: &str) -> Option<Fix> {
    let value = item.value.as_ref()?;
    let is_text = value.kind(&format!("/{name}")) == Kind::Text;
    let is_free = value.kind(&format!("/{right}")) == Kind::Missing;
    let fix = Fix::safe(format!("rename {name} to {right}"));
    let pointer = format!("{}/{name}", place?);
    (is_text && is_free).then(|| fix.rename_key(pointer, right))
}

/// The version or range that a wrong one means.
fn correct_version(item: &Item<'_>, place: Option<&str>) -> Option<Fix> {
    let value = item.value.as_ref()?;
    let fix = if let Some(text) = value.text("/version") {
        let range = corrections::version_range(&text)?;
        corrections::write("/version", &range)
    } else {
        let scalar = ScalarText::read(value, "/version")?;
        Range::parse(&scalar.text).ok()?;
        scalar.fix("/version")
    };
    Some(fix.below(place?))
}

fn check_package(
    item: &Item<'_>,
    place: Option<&str>,
    requirements: &mut Requirements,
    scan: &mut Scan<'_, '_>,
) {
    let name = item.text("packageName");
    if name.is_empty() {
        scan.add(&CON_19, item.field("packageName"), "Package name is empty");
        scan.report.set_fix(&CON_19, || rename(item, place, "name", "packageName"));
    }
    let field = item.field("version");
    let version = item.value.as_ref().map(|value| (value.kind("/version"), value.text("/version")));
    match version {
        Some((Kind::Text, Some(text))) if !text.is_empty() => {
            if let Ok(range) = Range::parse(&text) {
                let mut found = Vec::new();
                list::check_range(&name, &text, &range, true, "/version", &mut found);
                scan.add_problems(item.field, found.into());
            } else {
                scan.add(&CON_20, field, "Invalid semver format version");
                scan.report.set_fix(&CON_20, || correct_version(item, place));
            }
        }
        None | Some((Kind::Missing | Kind::Null | Kind::Text, _)) => {
            scan.add(&CON_20, field, "Package version is empty");
            scan.report.set_fix(&CON_20, || rename(item, place, "versionRange", "version"));
        }
        // A version that YAML reads as a number.
        Some(_) => {
            scan.add(&CON_20, field, "Invalid semver format version");
            scan.report.set_fix(&CON_20, || correct_version(item, place));
        }
    }
    requirements.packages.insert(name);
}

rule! {
    /// an API dependency has a group, a version and a kind
    ///
    /// In the files in `metadata/` of a bundle, every item of `dependencies` whose type is
    /// `olm.gvk` has `value.group`, `value.version` and `value.kind`, strings that are not empty.
    /// The rule reports each missing field. CON-22 evaluates the syntax of the names.
    ///
    /// # Why
    ///
    /// The three fields name one API. If one is missing, OLM finds no Operator that provides it,
    /// and operator-registry rejects the bundle with the same words. OpenShift 4.12, Operators,
    /// *Dependencies*, describes the type by group, version and kind.
    ///
    /// # Remediation
    ///
    /// Set all three fields, as the CRD or the API service that you need has them.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.gvk
    ///   value: {group: etcd.database.coreos.com, version: v1beta2, kind: EtcdCluster}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.gvk
    ///   value: {version: v1beta2, kind: EtcdCluster}
    /// ```
    ///
    /// message: `API Group is empty`. For the other fields the message is `API Version is empty`
    /// and `API Kind is empty`.
    CON_21: Deny {
        name: "api-dependency-fields",
        on: [REGISTRY_BUNDLE: Create | Update],
        source: ["OCP 4.12 L490, L510-514, L2696", "OCP 4.15 L368-401", "OCP 4.5 L306-308", "OKD L87-88, L98-102", "operator-registry pkg/registry/types.go"],
    }
}

/// An API. CON-22 evaluates the syntax of its names.
fn check_api(item: &Item<'_>, requirements: &mut Requirements, scan: &mut Scan<'_, '_>) {
    let gvk = item.gvk();
    for (name, text, message) in [
        ("group", &gvk.group, "API Group is empty"),
        ("version", &gvk.version, "API Version is empty"),
        ("kind", &gvk.kind, "API Kind is empty"),
    ] {
        if text.is_empty() {
            scan.add(&CON_21, item.field(name), message);
        }
    }
    for (name, message) in gvk.name_errors() {
        scan.add(&CON_22, item.field(name), message);
    }
    requirements.gvks.insert(gvk);
}

rule! {
    /// an olm.constraint in dependencies.yaml is a CEL expression, as the registry reads it
    ///
    /// In the files in `metadata/` of a bundle, every item of `dependencies` whose type is
    /// `olm.constraint` has `value.cel.rule`, a CEL expression that compiles and is a `bool`. The
    /// rule is off unless `bundle.dependenciesCelOnly` is `true`, which makes it deny, or the
    /// configuration gives it a level. Constraints in `properties.yaml` are not checked.
    ///
    /// # Why
    ///
    /// The validation of bundles in operator-registry reads such a dependency only as CEL, so it
    /// rejects `gvk`, `package` and compound constraints. OpenShift 4.12, Operators,
    /// *Dependencies*, allows them, so the rule is off by default.
    ///
    /// # Remediation
    ///
    /// Write the constraint as a CEL expression, or move it from `dependencies.yaml` to
    /// `properties.yaml`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.constraint
    ///   value:
    ///     cel: {rule: 'properties.exists(p, p.type == "certified")'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.constraint
    ///   value:
    ///     all: {constraints: [{gvk: {group: a.b, version: v1, kind: K}}]}
    /// ```
    ///
    /// message: `The CEL field is missing`. If `rule` is empty, the message is `The CEL expression
    /// is missing`. If it does not compile, the message begins with `Invalid CEL expression:`.
    CON_23: Deny {
        name: "registry-constraint-cel-only",
        on: [REGISTRY_BUNDLE: Create | Update],
        enabled_by: ["/bundle/dependenciesCelOnly"],
        source: ["OCP 4.12 L494, L2700", "operator-registry pkg/registry/types.go"],
    }
}

/// The registry reads a constraint among dependencies only as `{"cel": {"rule": …}}`.
fn check_cel_only(item: &Item<'_>, scan: &mut Scan<'_, '_>) {
    let value = item.value.as_ref();
    let field = item.field;
    if !value.is_some_and(|value| value.has("/cel")) {
        scan.add(&CON_23, field, "The CEL field is missing");
        return;
    }
    let rule = value.map(|value| value.text_or_empty("/cel/rule")).unwrap_or_default();
    if rule.is_empty() {
        scan.add(&CON_23, format!("{field}.cel"), "The CEL expression is missing");
        return;
    }
    if let Err(fault) = cel::check(&rule) {
        let message = format!("Invalid CEL expression: {fault}");
        scan.add(&CON_23, format!("{field}.cel.rule"), message);
    }
}

rule! {
    /// dependencies on one Operator are by package or by API, not both
    ///
    /// In a document in `metadata/` of a bundle, no `olm.gvk` dependency has a group with a label
    /// that is the name of a package in an `olm.package` dependency: the two appear to be one
    /// Operator. Dependencies of both types on unrelated Operators are accepted. The rule is off
    /// until the configuration gives it a level.
    ///
    /// # Why
    ///
    /// OLM can satisfy the two dependencies with two different Operators: one that provides the
    /// API, and one that has the version. OpenShift 4.12, Operators, *Dependency caveats*, advises
    /// Operators to stick to one mechanism. The rule cannot determine the intent with certainty, so
    /// it is off by default.
    ///
    /// # Remediation
    ///
    /// Keep one dependency: the package if the version matters, or the API if any provider is
    /// sufficient.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: '>0.27.0'}
    /// - type: olm.gvk
    ///   value: {group: etcd.database.coreos.com, version: v1beta2, kind: EtcdCluster}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: etcd, version: '>3.1.0'}
    /// - type: olm.gvk
    ///   value: {group: etcd.database.coreos.com, version: v1beta2, kind: EtcdCluster}
    /// ```
    ///
    /// message: `olm.package and olm.gvk dependencies may be satisfied by two different Operators;
    /// Operators should stick to one mechanism or the other`
    CON_24: Warn {
        name: "dependency-by-package-or-api",
        on: [REGISTRY_BUNDLE: Create | Update],
        enabled_by: [],
        source: ["OCP 4.12 L3153-3169", "OCP 4.15 L2228-2294"],
    }
}

/// A package, and an API of a group that contains the name of the package: they appear to be one
/// Operator. The rule does not report unrelated Operators, as in the example of the documentation.
fn check_mixed(document: &Document, at: &str, scan: &mut Scan<'_, '_>) {
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
            scan.add(&CON_24, format!("{at}.dependencies[{index}]"), message);
        }
    }
}
