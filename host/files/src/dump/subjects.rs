//! Objects of a cluster as the API server would send them if a user created them today.
//!
//! * Without their status: a CREATE has none of kinds that have a status of their own, whatever its user
//!   wrote.
//! * With group, version and kind, which the elements of a typed list do not have.
//! * Objects that are being deleted are excluded: they are not created again.
//! * Their writers are unknown: rules for the user do not match ([`Request::text`]).

use std::sync::Arc;

use opgate_compat::kinds::plural;
use opgate_input::objects::{ObjectError, TypedObject};

use super::DumpPart;
use crate::content::{Content, File, Origin};
use crate::json::json_string;
use crate::reviews::{LocationResolver, Object, Request, RequestObject, Subject};

/// The subjects of a section.
#[derive(Debug, Default)]
pub struct Subjects {
    /// The objects.
    pub subjects: Vec<Subject>,
    /// The number of objects that are on their way out, which are not among them.
    pub terminating: usize,
    /// Elements that are no objects, one line each.
    pub errors: Vec<String>,
}

impl DumpPart {
    /// Returns the subjects of the section.
    #[must_use]
    pub fn subjects(&self) -> Subjects {
        let mut all = Subjects::default();
        let count = self.file.documents().map_or(0, crate::content::Documents::len);
        for index in 0..count {
            let located = Arc::default();
            let object = |pointer: &str| Object {
                file: self.file.clone(),
                index,
                pointer: pointer.to_owned(),
                locator: Arc::clone(&located),
                original_json: None,
            };
            self.visit_document(index, &mut |found| match found {
                Ok(found) if is_terminating(&found) => all.terminating += 1,
                Ok(found) => {
                    let (object, resource) = (object(found.pointer), plural(found.kind));
                    all.subjects.push(subject(
                        self.file.display_path.clone(),
                        &found,
                        object,
                        resource,
                    ));
                }
                Err(ObjectError { pointer, message: why }) => {
                    let layout = RequestObject::Object(object(&pointer));
                    let place = LocationResolver::new(&layout).resolve("");
                    let (line, column) = place.map_or((1, 1), |place| (place.line, place.column));
                    all.errors.push(format!("{}:{line}:{column}: {why}", self.file.display_path));
                }
            });
        }
        all
    }
}

/// Returns an object that an API server has sent, which has no places in a file. `None` if it is on its way
/// out.
#[must_use]
pub fn live_subject(
    source: String,
    found: &TypedObject<'_, '_>,
    resource: &str,
) -> Option<Subject> {
    if is_terminating(found) {
        return None;
    }
    let file = File::new_part(String::new(), source.clone(), Content::Other, Origin::NoFile);
    let (file, located, pointer) = (Arc::new(file), Arc::default(), String::new());
    let object = Object { file, index: 0, pointer, locator: located, original_json: None };
    Some(subject(source, found, object, resource.to_owned()))
}

fn subject(
    source: String,
    found: &TypedObject<'_, '_>,
    object: Object,
    resource: String,
) -> Subject {
    let text = |pointer: &str| {
        let value = found.value.get(pointer).and_then(|value| value.text());
        value.unwrap_or_default().to_owned()
    };
    let (group, version) = found.group_version();
    let request = Request {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: found.kind.to_owned(),
        resource,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        object: RequestObject::Object(Object {
            original_json: Some(object_json(found).into()),
            ..object
        }),
        old: None,
        prefix: String::new(),
        is_stored: true,
        recorded: None,
        template: None,
    };
    Subject {
        source,
        kind: request.kind.clone(),
        name: request.name.clone(),
        namespace: Some(request.namespace.clone()),
        requests: vec![request],
        unreadable: Vec::new(),
        not_evaluated: None,
    }
}

/// Returns the object as it would be sent.
fn object_json(found: &TypedObject<'_, '_>) -> String {
    let mut json = String::with_capacity(found.value.size());
    json.push('{');
    for (name, text) in [("apiVersion", found.api_version), ("kind", found.kind)] {
        if !found.declares_type() {
            json.extend([&json_string(name), ":", &json_string(text), ","]);
        }
    }
    for (name, value) in found.value.members() {
        let is_said = !found.declares_type() && matches!(name, "apiVersion" | "kind");
        if name == "status" || is_said {
            continue;
        }
        json.push_str(&json_string(name));
        json.push(':');
        json.push_str(&value.raw());
        json.push(',');
    }
    if json.ends_with(',') {
        json.pop();
    }
    json.push('}');
    json
}

/// Reports whether an object is deleted and waits for its finalizers, or OLM replaces or deletes it: the
/// rules apply to its replacement.
fn is_terminating(found: &TypedObject<'_, '_>) -> bool {
    let text = |pointer: &str| found.value.get(pointer).and_then(|value| value.text());
    let is_csv =
        found.kind == "ClusterServiceVersion" && found.group_version().0 == "operators.coreos.com";
    text("/metadata/deletionTimestamp").is_some()
        || is_csv && matches!(text("/status/phase"), Some("Replacing" | "Deleting"))
}
