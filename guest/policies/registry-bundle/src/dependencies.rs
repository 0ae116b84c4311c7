//! `metadata/dependencies.yaml`.
//!
//! These rules check whether an item is readable; other rules evaluate the content of a readable
//! constraint. The registry searches every file of `metadata/` for `dependencies`; a file of that
//! name is also evaluated if it has none.

use opgate_sdk::{Document, Fix, Kind, Report, corrections, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, Content, METADATA};

rules![RBF_17, RBF_18];

rule! {
    /// metadata/dependencies.yaml lists readable dependencies
    ///
    /// `dependencies`, in any file directly in `metadata/`, is a list of items with a non-empty
    /// string `type` and an object `value`. These fields of `value` are strings if they are set:
    /// `group`, `version` and `kind` of `olm.gvk`, `packageName` and `version` of `olm.package`,
    /// `failureMessage` of `olm.constraint`, `label` of `olm.label`. A file `dependencies.*` can be
    /// parsed and has the key `dependencies`, or lists `properties`; null, an empty file and no
    /// file at all are allowed. A duplicate key in a mapping is a warning, because the registry
    /// reads the last one. Unknown types violate RBF-18, and the rules CON evaluate the content of
    /// a constraint.
    ///
    /// # Why
    ///
    /// OLM installs the dependencies of the bundle only if the registry can read them. The registry
    /// skips an unreadable file, and the bundle loses its dependencies. See OpenShift 4.12,
    /// Operators, *Bundle format*, Dependencies.
    ///
    /// # Remediation
    ///
    /// Write each dependency as an item with `type` and `value`, and put versions in quotes. Write
    /// each key of a mapping once. Remove the file if the bundle has no dependencies.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: ">0.27.0"}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: prometheus
    /// ```
    ///
    /// `message: couldn't parse dependency of type olm.package`
    ///
    /// If the type is not known, the reason follows: `message: couldn't parse dependency of type
    /// unknown: type is missing`
    pub(crate) RBF_17: Deny {
        name: "readable-bundle-dependencies",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L474-514, L2685-2720", "OCP 4.15 L368-401, L1927-1960", "OCP 4.5 L297-320", "OKD L78-102", "operator-registry pkg/registry/types.go, pkg/lib/bundle/validate.go"],
    }
}

pub(crate) fn check(directory: &BundleDirectory<'_>, settings: &Document, report: &mut Report<'_>) {
    let allows_labels = settings.boolean("/bundle/allowLabelDependency") == Some(true);
    for file in directory.files_in(METADATA) {
        let is_named = file.name().starts_with("dependencies.");
        if let (Content::Invalid(why), true) = (&file.content, is_named) {
            report.add(&RBF_17, file.error_field(), untyped_message(why));
        }
        let Some(object) = directory.first_document(file) else { continue };
        match object.kind("/dependencies") {
            Kind::List => {
                for (index, item) in object.items("/dependencies").enumerate() {
                    let field = file.within(&format!("dependencies[{index}]"));
                    let pointer = file.pointer(&format!("/dependencies/{index}"));
                    check_dependency(&item, field, &pointer, allows_labels, report);
                }
            }
            // The value can be an item without the list.
            Kind::Object if object.kind("/dependencies/type") == Kind::Text => {
                let message = unreadable_message(&object.text_or_empty("/dependencies/type"));
                report.add(&RBF_17, file.within("dependencies"), message);
                report.set_fix(&RBF_17, || {
                    let item =
                        object.raw("/dependencies").filter(|item| item.len() <= MAX_ITEM_BYTES)?;
                    let list = format!("[{}]", String::from_utf8(item).ok()?);
                    let fix = Fix::safe("write a list of dependencies");
                    Some(fix.set(file.pointer("/dependencies"), list))
                });
            }
            Kind::Missing if is_named && object.kind("/properties") != Kind::List => {
                let why = "dependencies is missing: list below it what the bundle depends on, or remove the file";
                report.add(&RBF_17, file.within(""), untyped_message(why));
            }
            Kind::Null | Kind::Missing => {}
            _ => {
                let why = "dependencies is not a list";
                report.add(&RBF_17, file.within("dependencies"), untyped_message(why));
            }
        }
    }
}

fn unreadable_message(kind: &str) -> String {
    format!("couldn't parse dependency of type {kind}")
}

/// If no field has the type, upstream's message would end there.
fn untyped_message(why: &str) -> String {
    unreadable_message(&format!("unknown: {why}"))
}

/// The reason why an item has no type, and the field of that error.
fn missing_type_reason(item: &Document) -> (&'static str, &'static str) {
    match (item.kind(""), item.kind("/type")) {
        (Kind::Object, Kind::Missing) => ("", "type is missing"),
        (Kind::Object, Kind::Text) => (".type", "type is empty"),
        (Kind::Object, _) => (".type", "type is not a text"),
        _ => ("", "the item is not an object with type and value"),
    }
}

rule! {
    /// a dependency is of a known type
    ///
    /// The `type` of each dependency in `metadata/` is `olm.package`, `olm.gvk` or
    /// `olm.constraint`, in every profile. The setting `bundle.allowLabelDependency` also allows
    /// `olm.label`, whose `value.label` must not be empty. A missing or empty type violates RBF-17.
    ///
    /// # Why
    ///
    /// OLM resolves only dependencies of known types. OpenShift 4.12, Operators, *Bundle format*,
    /// Dependencies, lists the three; operator-registry also reads `olm.label`, which the documents
    /// do not mention.
    ///
    /// # Remediation
    ///
    /// Use one of the three types: `olm.gvk` for an API, `olm.package` for an Operator, and
    /// `olm.constraint` for anything else.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.constraint
    ///   value: {cel: {rule: 'true'}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.crd
    ///   value: {}
    /// ```
    ///
    /// `message: couldn't parse dependency of type olm.crd`
    RBF_18: Deny {
        name: "known-bundle-dependency-types",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L482-494, L2688-2700", "OCP 4.15 L368-401", "OCP 4.5 L300-308", "OKD L81-90", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

fn check_dependency(
    item: &Document,
    field: String,
    pointer: &str,
    allows_labels: bool,
    report: &mut Report<'_>,
) {
    let kind = item.text_or_empty("/type");
    let fields: &[&str] = match kind.as_str() {
        "olm.gvk" => &["group", "version", "kind"],
        "olm.package" => &["packageName", "version"],
        "olm.constraint" => &["failureMessage"],
        "olm.label" if allows_labels => &["label"],
        "" => {
            let (member, why) = missing_type_reason(item);
            report.add(&RBF_17, field + member, untyped_message(why));
            return;
        }
        _ => {
            report.add(&RBF_18, field + ".type", unreadable_message(&kind));
            report.set_fix(&RBF_18, || known_type(&kind, &format!("{pointer}/type")));
            return;
        }
    };
    let is_text = |name: &&str| {
        matches!(item.kind(&format!("/value/{name}")), Kind::Missing | Kind::Null | Kind::Text)
    };
    if item.kind("/value") != Kind::Object || !fields.iter().all(is_text) {
        let field = if item.has("/value") { field + ".value" } else { field };
        report.add(&RBF_17, field, unreadable_message(&kind));
        report.set_fix(&RBF_17, || {
            let wrong = fields.iter().filter(|name| !is_text(name));
            let mut fixes =
                wrong.map(|name| corrections::text_fix(item, &format!("/value/{name}")));
            let first = fixes.next()??;
            let fix = fixes.try_fold(first, |fix, other| fix.and(other?))?;
            Some(fix.below(pointer))
        });
    } else if kind == "olm.label" && item.text_or_empty("/value/label").is_empty() {
        report.add(&RBF_18, field + ".value", unreadable_message(&kind));
    }
}

/// Maximum size of a dependency that a fix writes into a list, in bytes.
const MAX_ITEM_BYTES: usize = 16 << 10;

/// The type that a wrong one means.
fn known_type(kind: &str, pointer: &str) -> Option<Fix> {
    const TYPES: [&str; 3] = ["olm.gvk", "olm.package", "olm.constraint"];
    let with_prefix = format!("olm.{kind}");
    let same = corrections::word(kind, &TYPES).or_else(|| corrections::word(&with_prefix, &TYPES));
    let meant = same.map(|meant| corrections::write(pointer, meant));
    meant.or_else(|| Some(corrections::propose(pointer, corrections::nearest(kind, &TYPES)?)))
}
