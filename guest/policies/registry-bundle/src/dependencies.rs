//! `metadata/dependencies.yaml`: RBF-17 and RBF-18.
//!
//! Whether an item can be read at all is asked here; what a readable constraint may say is the matter
//! of other rules. The registry looks for `dependencies` in every file of `metadata/`; a file of that
//! name is also looked at where it has none.

use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::{Content, Folder};
use crate::layout::METADATA;

pub(crate) fn judge(folder: &Folder<'_>, settings: &Document, findings: &mut Findings<'_>) {
    let allows_labels = settings.boolean("/bundle/allowLabelDependency") == Some(true);
    for file in folder.files_in(METADATA) {
        let is_named = file.name().starts_with("dependencies.");
        if let (Content::Failed(why), true) = (&file.content, is_named) {
            findings.deny("RBF-17", file.error_field(), untyped(why));
        }
        let Some(object) = folder.first(file) else { continue };
        match object.kind("/dependencies") {
            Kind::List => {
                for (index, item) in object.items("/dependencies").enumerate() {
                    let field = file.within(&format!("dependencies[{index}]"));
                    dependency(&item, field, allows_labels, findings);
                }
            }
            // What stands there may be an item without the list.
            Kind::Object if object.kind("/dependencies/type") == Kind::Text => {
                let message = unreadable(&object.text_or_empty("/dependencies/type"));
                findings.deny("RBF-17", file.within("dependencies"), message);
            }
            Kind::Missing if is_named => {
                let why = "dependencies is missing: list below it what the bundle depends on, or remove the file";
                findings.deny("RBF-17", file.within(""), untyped(why));
            }
            Kind::Null | Kind::Missing => {}
            _ => {
                let why = "dependencies is not a list";
                findings.deny("RBF-17", file.within("dependencies"), untyped(why));
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

fn dependency(item: &Document, field: String, allows_labels: bool, findings: &mut Findings<'_>) {
    let kind = item.text_or_empty("/type");
    let fields: &[&str] = match kind.as_str() {
        "olm.gvk" => &["group", "version", "kind"],
        "olm.package" => &["packageName", "version"],
        "olm.constraint" => &["failureMessage"],
        "olm.label" if allows_labels => &["label"],
        "" => {
            let (member, why) = without_type(item);
            findings.deny("RBF-17", field + member, untyped(why));
            return;
        }
        _ => {
            findings.deny("RBF-18", field + ".type", unreadable(&kind));
            return;
        }
    };
    let is_text = |name: &&str| {
        matches!(item.kind(&format!("/value/{name}")), Kind::Missing | Kind::Null | Kind::Text)
    };
    if item.kind("/value") != Kind::Object || !fields.iter().all(is_text) {
        let field = if item.has("/value") { field + ".value" } else { field };
        findings.deny("RBF-17", field, unreadable(&kind));
    } else if kind == "olm.label" && item.text_or_empty("/value/label").is_empty() {
        findings.deny("RBF-18", field + ".value", unreadable(&kind));
    }
}
