//! `metadata/dependencies.yaml`.
//!
//! Whether an item can be read at all is asked here; what a readable constraint may say is the matter
//! of other rules. The registry looks for `dependencies` in every file of `metadata/`; a file of that
//! name is also looked at where it has none.

use opgate_sdk::{Document, Kind, Report, rule, rules};

use crate::folder::{BUNDLE, Content, Folder, METADATA};

rules![RBF_17, RBF_18];

rule! {
    /// metadata/dependencies.yaml lists dependencies that can be read
    ///
    /// `dependencies`, in any file directly in `metadata/`, is a list of items with a non-empty
    /// string `type` and an object `value`. These fields of `value` are strings where they are set:
    /// `group`, `version` and `kind` of `olm.gvk`, `packageName` and `version` of `olm.package`,
    /// `failureMessage` of `olm.constraint`, `label` of `olm.label`. A file `dependencies.*` can be
    /// parsed and has the key `dependencies`, or lists `properties`; null, an empty file and no file
    /// at all are allowed. A key that is in a mapping twice is a warning, because the registry reads the
    /// last one. Unknown types break RBF-18, and the rules CON judge what a constraint says.
    ///
    /// # Why
    ///
    /// OLM installs what the bundle depends on, and can do so only where the registry can read it. The
    /// registry passes over a file that it cannot read, and the bundle loses its dependencies. See OpenShift 4.12, Operators, *Bundle format*, Dependencies.
    ///
    /// # Repair
    ///
    /// Write each dependency as an item with `type` and `value`, and put versions in quotes. Write each
    /// key of a mapping once. Remove the file where the bundle depends on nothing.
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
    /// Where the type is not known, the reason follows: `message: couldn't parse dependency of type
    /// unknown: type is missing`
    pub(crate) RBF_17: Deny {
        on: [BUNDLE: Create | Update],
        source: "OCP 4.12 L474-514, L2685-2720; OCP 4.15 L368-401, L1927-1960; OCP 4.5 L297-320; OKD L78-102; operator-registry pkg/registry/types.go, pkg/lib/bundle/validate.go",
    }
}

pub(crate) fn judge(folder: &Folder<'_>, settings: &Document, report: &mut Report<'_>) {
    let allows_labels = settings.boolean("/bundle/allowLabelDependency") == Some(true);
    for file in folder.files_in(METADATA) {
        let is_named = file.name().starts_with("dependencies.");
        if let (Content::Failed(why), true) = (&file.content, is_named) {
            report.add(&RBF_17, file.error_field(), untyped(why));
        }
        let Some(object) = folder.first(file) else { continue };
        match object.kind("/dependencies") {
            Kind::List => {
                for (index, item) in object.items("/dependencies").enumerate() {
                    let field = file.within(&format!("dependencies[{index}]"));
                    dependency(&item, field, allows_labels, report);
                }
            }
            // What stands there may be an item without the list.
            Kind::Object if object.kind("/dependencies/type") == Kind::Text => {
                let message = unreadable(&object.text_or_empty("/dependencies/type"));
                report.add(&RBF_17, file.within("dependencies"), message);
            }
            Kind::Missing if is_named && object.kind("/properties") != Kind::List => {
                let why = "dependencies is missing: list below it what the bundle depends on, or remove the file";
                report.add(&RBF_17, file.within(""), untyped(why));
            }
            Kind::Null | Kind::Missing => {}
            _ => {
                let why = "dependencies is not a list";
                report.add(&RBF_17, file.within("dependencies"), untyped(why));
            }
        }
    }
}

fn unreadable(kind: &str) -> String {
    format!("couldn't parse dependency of type {kind}")
}

/// Where nothing says what type it is, upstream's text would end there.
fn untyped(why: &str) -> String {
    unreadable(&format!("unknown: {why}"))
}

/// Why an item has no type, and where that shows.
fn without_type(item: &Document) -> (&'static str, &'static str) {
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
    /// `olm.label`, whose `value.label` must not be empty. A missing or empty type breaks RBF-17.
    ///
    /// # Why
    ///
    /// OLM resolves dependencies of known types only. OpenShift 4.12, Operators, *Bundle format*,
    /// Dependencies, lists the three; operator-registry also reads `olm.label`, which the documents
    /// do not mention.
    ///
    /// # Repair
    ///
    /// Use one of the three types: `olm.gvk` for an API, `olm.package` for an Operator, and
    /// `olm.constraint` for anything else.
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
        on: [BUNDLE: Create | Update],
        source: "OCP 4.12 L482-494, L2688-2700; OCP 4.15 L368-401; OCP 4.5 L300-308; OKD L81-90; operator-registry pkg/lib/bundle/validate.go",
    }
}

fn dependency(item: &Document, field: String, allows_labels: bool, report: &mut Report<'_>) {
    let kind = item.text_or_empty("/type");
    let fields: &[&str] = match kind.as_str() {
        "olm.gvk" => &["group", "version", "kind"],
        "olm.package" => &["packageName", "version"],
        "olm.constraint" => &["failureMessage"],
        "olm.label" if allows_labels => &["label"],
        "" => {
            let (member, why) = without_type(item);
            report.add(&RBF_17, field + member, untyped(why));
            return;
        }
        _ => {
            report.add(&RBF_18, field + ".type", unreadable(&kind));
            return;
        }
    };
    let is_text = |name: &&str| {
        matches!(item.kind(&format!("/value/{name}")), Kind::Missing | Kind::Null | Kind::Text)
    };
    if item.kind("/value") != Kind::Object || !fields.iter().all(is_text) {
        let field = if item.has("/value") { field + ".value" } else { field };
        report.add(&RBF_17, field, unreadable(&kind));
    } else if kind == "olm.label" && item.text_or_empty("/value/label").is_empty() {
        report.add(&RBF_18, field + ".value", unreadable(&kind));
    }
}
