//! Reads of one resource type: selectors, the version in which objects are shown, and the events of
//! watches.

use bytes::Bytes;
use serde_json::{Value, json};

use super::request::ApiRequest;
use super::resource::{Change, ResourceType, api_version};

/// What a request wants to see of a type's objects, and how.
#[derive(Clone)]
pub(super) struct ReadRequest {
    pub(super) of: ResourceType,
    pub(super) version: String,
    pub(super) namespace: Option<String>,
    pub(super) call: ApiRequest,
}

impl ReadRequest {
    pub(super) fn is_selected(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let label = |key: &str| metadata["labels"][key].as_str();
        let field = |key: &str| metadata[key.trim_start_matches("metadata.")].as_str();
        self.namespace.as_ref().is_none_or(|namespace| metadata["namespace"] == **namespace)
            && selects(self.call.query("labelSelector"), label)
            && selects(self.call.query("fieldSelector"), field)
    }

    pub(super) fn render(&self, object: &Value) -> Value {
        if self.call.partial {
            let (kind, metadata) = ("PartialObjectMetadata", &object["metadata"]);
            return json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        }
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version(&self.of.0, &self.version));
        object
    }

    /// The event that a watch sends for a change. An object that begins or ceases to match its
    /// selector counts as added or deleted.
    pub(super) fn event_line(&self, change: &Change) -> Option<Bytes> {
        let seen = |object: &&Value| self.is_selected(object);
        let old = change.old.as_deref().filter(seen);
        match (old, change.new.as_deref().filter(seen)) {
            (None, None) => None,
            (None, Some(new)) => Some(line("ADDED", &self.render(new))),
            (Some(_), Some(new)) => Some(line("MODIFIED", &self.render(new))),
            (Some(old), None) => {
                let mut last = self.render(old);
                last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                Some(line("DELETED", &last))
            }
        }
    }
}

pub(super) fn line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

/// Whether a selector takes what has these values: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`,
/// `a notin (b,c)`, or many of them between commas.
fn selects<'a>(selector: &str, value: impl Fn(&str) -> Option<&'a str>) -> bool {
    let mut inside = false;
    let mut terms = selector.split(|c| {
        inside = c == '(' || (inside && c != ')');
        c == ',' && !inside
    });
    terms.all(|term| {
        let operators =
            [(" notin ", false), (" in ", true), ("!=", false), ("==", true), ("=", true)];
        for (operator, wanted) in operators {
            if let Some((key, values)) = term.split_once(operator) {
                let mut values = values.trim().trim_matches(['(', ')']).split(',');
                let value = value(key.trim());
                return values.any(|one| value == Some(one.trim())) == wanted;
            }
        }
        let key = term.trim().trim_start_matches('!');
        key.is_empty() || value(key).is_some() != term.contains('!')
    })
}
