//! Objects of a cluster as the API server would send them if a user created them today.
//!
//! * Without their status: a CREATE has none of kinds that have a status of their own, whatever its user
//!   wrote.
//! * With group, version and kind, which the elements of a typed list do not have.
//! * Objects that are being deleted are excluded: they are not created again.
//! * Their writers are unknown: rules for the user do not match ([`Request::text`]).

use std::sync::Arc;

use opgate_input::objects::{Found, Wrong};
use opgate_upstream::kinds::plural;

use super::Part;
use crate::content::{Content, File, Origin};
use crate::json::quoted;
use crate::reviews::{Layout, Object, Request, Resolver, Subject};

/// The subjects of a section.
#[derive(Debug, Default)]
pub struct Subjects {
    /// The objects.
    pub subjects: Vec<Subject>,
    /// The number of objects that are on their way out, which are not among them.
    pub leaving: usize,
    /// Elements that are no objects, one line each.
    pub wrong: Vec<String>,
}

impl Part {
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
                located: Arc::clone(&located),
                written: None,
            };
            self.objects_of(index, &mut |found| match found {
                Ok(found) if is_leaving(&found) => all.leaving += 1,
                Ok(found) => {
                    let (object, resource) = (object(found.pointer), plural(found.kind));
                    all.subjects.push(subject(self.file.shown.clone(), &found, object, resource));
                }
                Err(Wrong { pointer, why }) => {
                    let layout = Layout::Object(object(&pointer));
                    let place = Resolver::new(&layout).place("");
                    let (line, column) = place.map_or((1, 1), |place| (place.line, place.column));
                    all.wrong.push(format!("{}:{line}:{column}: {why}", self.file.shown));
                }
            });
        }
        all
    }
}

/// Returns an object that an API server has sent, which has no places in a file. `None` if it is on its way
/// out.
#[must_use]
pub fn live(source: String, found: &Found<'_, '_>, resource: &str) -> Option<Subject> {
    if is_leaving(found) {
        return None;
    }
    let file = File::part(String::new(), source.clone(), Content::Other, Origin::Nowhere);
    let (file, located, pointer) = (Arc::new(file), Arc::default(), String::new());
    let object = Object { file, index: 0, pointer, located, written: None };
    Some(subject(source, found, object, resource.to_owned()))
}

fn subject(source: String, found: &Found<'_, '_>, object: Object, resource: String) -> Subject {
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
        object: Layout::Object(Object { written: Some(written(found).into()), ..object }),
        old: None,
        prefix: String::new(),
        is_stored: true,
        recorded: None,
    };
    Subject {
        source,
        kind: request.kind.clone(),
        name: request.name.clone(),
        namespace: Some(request.namespace.clone()),
        requests: vec![request],
        broken: Vec::new(),
        not_evaluated: None,
    }
}

/// Returns the object as it would be sent.
fn written(found: &Found<'_, '_>) -> String {
    let mut json = String::with_capacity(found.value.size());
    json.push('{');
    for (name, text) in [("apiVersion", found.api_version), ("kind", found.kind)] {
        if !found.is_complete() {
            json.extend([&quoted(name), ":", &quoted(text), ","]);
        }
    }
    for (name, value) in found.value.members() {
        let is_said = !found.is_complete() && matches!(name, "apiVersion" | "kind");
        if name == "status" || is_said {
            continue;
        }
        json.push_str(&quoted(name));
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
fn is_leaving(found: &Found<'_, '_>) -> bool {
    let text = |pointer: &str| found.value.get(pointer).and_then(|value| value.text());
    let is_csv =
        found.kind == "ClusterServiceVersion" && found.group_version().0 == "operators.coreos.com";
    text("/metadata/deletionTimestamp").is_some()
        || is_csv && matches!(text("/status/phase"), Some("Replacing" | "Deleting"))
}
