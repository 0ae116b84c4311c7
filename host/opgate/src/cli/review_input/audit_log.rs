//! Reviews from the audit log of an API server.
//!
//! ```text
//! event ─▶ is it a write that reached admission? ─▶ its object ─┬▶ AdmissionReview
//!                                                previous version ┘
//! ```
//!
//! An event has no previous version of its object. It is that of the last event of the log about the same object,
//! so the first update of an object has none. Such events, and those that are no writes, are omitted and counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use opgate_admission::review::Operation;
use opgate_document::{Document, Value};

use super::object_versions::{ObjectKey, ObjectVersions};
use crate::cli::make_review::{ReviewParts, options_of, review_json};

/// The group of audit events.
const GROUP: &str = "audit.k8s.io";

/// Reports whether a document is an audit event, or a list of some.
pub(super) fn is_audit_event(document: Value<'_>) -> bool {
    let group = text(document, "/apiVersion").split_once('/').map(|(group, _)| group);
    group == Some(GROUP) && matches!(text(document, "/kind"), "Event" | "EventList")
}

/// The reason why there is no review of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Omission {
    NoWrite,
    OtherStage,
    Rejected,
    Connect,
    Collection,
    NoObject,
    NoPreviousVersion,
    NoRule,
}

impl Omission {
    fn describe(self) -> &'static str {
        match self {
            Self::NoWrite => "that write no object",
            Self::OtherStage => "of a stage other than ResponseComplete",
            Self::Rejected => "rejected by the API server itself",
            Self::Connect => "that connect to a Pod, Service or Node",
            Self::Collection => "that delete a collection",
            Self::NoObject => "without the object (it needs level RequestResponse)",
            Self::NoPreviousVersion => "without the previous version in an earlier event",
            Self::NoRule => "that no rule evaluates",
        }
    }
}

/// A version of an object.
#[derive(Debug)]
struct ObjectVersion {
    json: Arc<str>,
    /// Whether it is from a response, as the API server has stored it, or from a request.
    is_stored: bool,
}

/// The events of all files of a command.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    versions: ObjectVersions<ObjectVersion>,
    reviews: usize,
    omissions: BTreeMap<Omission, usize>,
}

impl AuditLog {
    /// Returns the review of an event as JSON, or none if the event has none.
    pub(super) fn review(&mut self, event: Value<'_>) -> Option<String> {
        match self.create_review(event) {
            Ok(review) => Some(review),
            Err(omission) => {
                self.omit(omission);
                None
            }
        }
    }

    /// Counts events whose reviews are evaluated.
    pub(super) fn add_evaluated(&mut self, events: usize) {
        self.reviews = self.reviews.saturating_add(events);
    }

    /// Counts an event as omitted, because no rule evaluates its review.
    pub(super) fn set_unevaluated(&mut self) {
        self.reviews = self.reviews.saturating_sub(1);
        self.omit(Omission::NoRule);
    }

    fn omit(&mut self, omission: Omission) {
        let count = self.omissions.entry(omission).or_default();
        *count = count.saturating_add(1);
    }

    /// Returns a line with the numbers of evaluated and omitted events; none without events.
    pub(super) fn summary(&self) -> Option<String> {
        let omitted: usize = self.omissions.values().sum();
        let total = omitted.saturating_add(self.reviews);
        if total == 0 {
            return None;
        }
        let mut line = format!("audit log: {} of {total} events evaluated", self.reviews);
        for (index, (omission, count)) in self.omissions.iter().enumerate() {
            let separator = if index == 0 { "; not evaluated: " } else { ", " };
            line = format!("{line}{separator}{count} {}", omission.describe());
        }
        Some(line)
    }

    /// Forgets the version of an object, and of what changes with it: an object with its scale, and the other way
    /// round.
    fn forget(&mut self, key: &ObjectKey, sub_resource: &str) {
        self.versions.remove(key);
        if matches!(sub_resource, "" | "status" | "scale" | "binding" | "eviction") {
            self.versions.remove(&key.related());
        }
    }

    fn create_review(&mut self, event: Value<'_>) -> Result<String, Omission> {
        let stage = text(event, "/stage");
        let verb = text(event, "/verb");
        let sub_resource = text(event, "/objectRef/subresource");
        let mut operation = match verb {
            _ if text(event, "/objectRef/resource").is_empty() => return Err(Omission::NoWrite),
            _ if matches!(sub_resource, "exec" | "attach" | "portforward" | "proxy") => {
                return Err(Omission::Connect);
            }
            "create" => Operation::Create,
            "update" | "patch" => Operation::Update,
            "delete" => Operation::Delete,
            "deletecollection" => return Err(Omission::Collection),
            _ => return Err(Omission::NoWrite),
        };
        if stage != "ResponseComplete" {
            return Err(Omission::OtherStage);
        }
        let code = event.get("/responseStatus/code").and_then(|code| code.integer()).unwrap_or(0);
        let is_stored = (200..300).contains(&code);
        if !is_stored && !text(event, "/responseStatus/message").contains("admission webhook \"") {
            return Err(Omission::Rejected);
        }
        if operation == Operation::Update && code == 201 {
            operation = Operation::Create;
        }
        let response = event.get("/responseObject").filter(|object| is_object(*object));
        let request = event.get("/requestObject").filter(|object| is_object(*object));
        // A patch is no object. Without the response, the request has no defaults.
        let request = request.filter(|_| matches!(verb, "create" | "update"));
        let is_dry_run = is_dry_run(event);
        let is_change = is_stored && !is_dry_run;
        let object = match (operation, response.or(request)) {
            (Operation::Delete, _) => response,
            (_, Some(object)) => Some(object),
            (_, None) => {
                if is_change {
                    // What is known of it is older.
                    self.forget(&object_key(event, None), sub_resource);
                }
                return Err(Omission::NoObject);
            }
        };
        let key = object_key(event, object);
        let base = request.map_or("", |request| text(request, "/metadata/resourceVersion"));
        let previous = previous_version(&self.versions, &key, object, base);
        let (new, old) = match operation {
            Operation::Delete => {
                let old = previous.or_else(|| response.map(raw)).ok_or(Omission::NoPreviousVersion);
                ("null".into(), old)
            }
            Operation::Update => {
                (object.map_or("null".into(), raw), previous.ok_or(Omission::NoPreviousVersion))
            }
            _ => (object.map_or("null".into(), raw), Ok("null".into())),
        };
        if is_change {
            self.forget(&key, sub_resource);
            if let Some(object) = object {
                let version = ObjectVersion { json: raw(object), is_stored: response.is_some() };
                let bytes = version.json.len();
                self.versions.insert(key.clone(), version, bytes);
            }
        }
        let old = old?;
        let typed = if operation == Operation::Delete { old.as_ref() } else { new.as_ref() };
        let (api_version, kind) = type_of(typed).ok_or(Omission::NoObject)?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        // The name of a request is that of the client, and empty if the API server generates it.
        let has_name = operation != Operation::Create
            || !sub_resource.is_empty()
            || request.is_none_or(|request| !text(request, "/metadata/name").is_empty());
        let name = if has_name { key.name.as_str() } else { "" };
        let is_namespace = key.group.is_empty() && key.resource == "namespaces";
        let namespace = if is_namespace { &key.name } else { &key.namespace };
        let user = event.get("/impersonatedUser").or_else(|| event.get("/user"));
        Ok(review_json(&ReviewParts {
            uid: text(event, "/auditID"),
            kind: (group, version, &kind),
            resource: (&key.group, text(event, "/objectRef/apiVersion"), &key.resource),
            sub_resource,
            name,
            namespace,
            operation,
            user: &user.map_or("{}".into(), |user| user.raw()),
            object: &new,
            old_object: &old,
            is_dry_run,
            options: &options_of(operation, is_dry_run).to_string(),
        }))
    }
}

/// Returns the text of a member, or an empty one.
fn text<'d>(value: Value<'d>, pointer: &str) -> &'d str {
    value.get(pointer).and_then(|value| value.text()).unwrap_or_default()
}

fn raw(value: Value<'_>) -> Arc<str> {
    Arc::from(&*value.raw())
}

/// Reports whether a value is an object of a resource, and not the status of a failure or a deletion.
fn is_object(value: Value<'_>) -> bool {
    let (api_version, kind) = (text(value, "/apiVersion"), text(value, "/kind"));
    !kind.is_empty() && !api_version.is_empty() && (api_version, kind) != ("v1", "Status")
}

/// Returns `apiVersion` and kind of an object.
fn type_of(json: &str) -> Option<(String, String)> {
    #[derive(serde::Deserialize)]
    struct Type {
        #[serde(rename = "apiVersion")]
        api_version: String,
        kind: String,
    }
    let Type { api_version, kind } = serde_json::from_str(json).ok()?;
    Some((api_version, kind))
}

fn name_of<'d>(event: Value<'d>, object: Option<Value<'d>>) -> &'d str {
    match (text(event, "/objectRef/name"), object) {
        ("", Some(object)) => text(object, "/metadata/name"),
        (name, _) => name,
    }
}

/// Reports whether a request stores nothing: by its query, or by the options of a deletion.
fn is_dry_run(event: Value<'_>) -> bool {
    let query = text(event, "/requestURI").split_once('?').map_or("", |(_, query)| query);
    let options = event.get("/requestObject/dryRun").filter(|_| text(event, "/verb") == "delete");
    query.split('&').any(|parameter| parameter == "dryRun=All")
        || options.is_some_and(|options| options.length() != Some(0))
}

/// Returns the object of an event. A sub-resource with a separate kind, such as `scale`, is another object.
fn object_key(event: Value<'_>, object: Option<Value<'_>>) -> ObjectKey {
    let sub_resource = match text(event, "/objectRef/subresource") {
        // The object is that of the resource.
        "status" | "finalize" | "approval" | "ephemeralcontainers" | "resize" => "",
        other => other,
    };
    let (group, resource) =
        (text(event, "/objectRef/apiGroup"), text(event, "/objectRef/resource"));
    // An API server names a Namespace as its own namespace, but not in the event of its creation.
    let is_namespace = group.is_empty() && resource == "namespaces";
    let namespace = if is_namespace { "" } else { text(event, "/objectRef/namespace") };
    ObjectKey {
        group: group.to_owned(),
        resource: resource.to_owned(),
        sub_resource: sub_resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name_of(event, object).to_owned(),
    }
}

/// Returns the previous version, if it is one of the same object in the same API version as `object`, and older. `base`
/// is the version that the client has changed, if it names one.
fn previous_version(
    versions: &ObjectVersions<ObjectVersion>,
    key: &ObjectKey,
    object: Option<Value<'_>>,
    base: &str,
) -> Option<Arc<str>> {
    let ObjectVersion { json, is_stored } = versions.get(key)?;
    let document = Document::parse(json).ok()?;
    // What a client has sent names the version before.
    let stored = text(document.root(), "/metadata/resourceVersion");
    let stored = if *is_stored { stored } else { "" };
    if !base.is_empty() && !stored.is_empty() && base != stored {
        return None;
    }
    if let Some(object) = object {
        // Logs of several API servers need not be in the order of the writes.
        let number = |version: &str| version.parse::<u64>().ok();
        let new = number(text(object, "/metadata/resourceVersion"));
        if number(stored).zip(new).is_some_and(|(stored, new)| stored > new) {
            return None;
        }
        let both = |pointer| (text(document.root(), pointer), text(object, pointer));
        let is_same = |(stored, new)| stored == new;
        // What a client creates has no uid yet.
        let is_same_uid =
            |(stored, new): (&str, &str)| stored.is_empty() || new.is_empty() || stored == new;
        if !is_same(both("/apiVersion"))
            || !is_same(both("/kind"))
            || !is_same_uid(both("/metadata/uid"))
        {
            return None;
        }
    }
    Some(json.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    /// An event of a write, with these members instead of the usual ones.
    fn event(verb: &str, object: &Json, changes: &Json) -> Json {
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": "1",
            "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/one", "verb": verb,
            "user": {"username": "jane"}, "responseStatus": {"code": 200},
            "objectRef": {"resource": "configmaps", "namespace": "ns", "name": "a", "apiVersion": "v1"},
            "responseObject": object,
        });
        for (name, value) in changes.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    fn object(kind: &str, version: u32) -> Json {
        let metadata = json!({"name": "a", "uid": "u", "resourceVersion": version.to_string()});
        json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
    }

    /// Whether each event has a review, and the version of its older object.
    fn old_versions(events: &[Json]) -> Vec<Option<String>> {
        let mut log = AuditLog::default();
        let review = |event: &Json| {
            let document = Document::parse(&event.to_string()).unwrap();
            let review: Json = serde_json::from_str(&log.review(document.root())?).unwrap();
            let old = &review["request"]["oldObject"]["metadata"]["resourceVersion"];
            Some(old.as_str().unwrap_or_default().to_owned())
        };
        events.iter().map(review).collect()
    }

    #[test]
    fn older_object_is_the_previous_version_or_unknown() {
        let update =
            |version, changes: &Json| event("update", &object("ConfigMap", version), changes);
        let create =
            event("create", &object("ConfigMap", 1), &json!({"responseStatus": {"code": 201}}));
        let none = json!({});
        let base = |version: u32| json!({"requestObject": object("ConfigMap", version)});
        let known = |version: &str| Some(version.to_owned());
        for (what, events, expected) in [
            (
                "in order",
                vec![create.clone(), update(2, &none), update(3, &none)],
                vec![known(""), known("1"), known("2")],
            ),
            ("first update", vec![update(2, &none), update(3, &none)], vec![None, known("2")]),
            ("other base", vec![create.clone(), update(4, &base(3))], vec![known(""), None]),
            ("same base", vec![create.clone(), update(4, &base(1))], vec![known(""), known("1")]),
            (
                "wrong order",
                vec![create.clone(), update(3, &none), update(2, &none)],
                vec![known(""), known("1"), None],
            ),
            (
                "write without an object",
                vec![create.clone(), update(2, &json!({"responseObject": null})), update(3, &none)],
                vec![known(""), None, None],
            ),
            (
                "deletion as a dry run",
                vec![
                    create.clone(),
                    event(
                        "delete",
                        &Json::Null,
                        &json!({"requestObject": {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}}),
                    ),
                    update(2, &none),
                ],
                vec![known(""), known("1"), known("1")],
            ),
            (
                "deletion",
                vec![create.clone(), event("delete", &Json::Null, &none), update(2, &none)],
                vec![known(""), known("1"), None],
            ),
            (
                "Namespace, which its creation does not name as its namespace",
                vec![
                    event(
                        "create",
                        &object("Namespace", 1),
                        &json!({"responseStatus": {"code": 201}, "objectRef": {"resource": "namespaces", "name": "a", "apiVersion": "v1"}}),
                    ),
                    event(
                        "update",
                        &object("Namespace", 2),
                        &json!({"objectRef": {"resource": "namespaces", "namespace": "a", "name": "a", "apiVersion": "v1"}}),
                    ),
                ],
                vec![known(""), known("1")],
            ),
        ] {
            assert_eq!(old_versions(&events), expected, "{what}");
        }
    }
}
