//! Content of a case file, before references are resolved.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The reason why a case is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CaseError(pub(crate) String);

/// Members of the request that a case sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RequestParts {
    /// In the place of the object's.
    pub name: Option<String>,
    /// In the place of the object's.
    pub namespace: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The user's groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// `status`.
    pub sub_resource: Option<String>,
    /// Plural, where it does not follow from the kind.
    pub resource: Option<String>,
    /// Version of the resource, where it is not the object's.
    pub version: Option<String>,
}

/// A file. Its entries are read one by one, so that each error has a place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    pub(crate) rule: String,
    #[serde(default)]
    pub(crate) settings: Value,
    #[serde(default)]
    pub(crate) cluster: Option<Value>,
    #[serde(default, rename = "otherRules")]
    pub(crate) others: OtherRules,
    #[serde(default)]
    pub(crate) accept: Vec<Value>,
    #[serde(default)]
    pub(crate) reject: Vec<Value>,
    #[serde(default)]
    pub(crate) skip: Vec<Value>,
}

/// Findings of other rules than the one of the file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OtherRules {
    #[default]
    Counted,
    Ignored,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) fixes: Option<String>,
    pub(crate) matches: Option<bool>,
    pub(crate) create: Option<Value>,
    pub(crate) update: Option<(Value, Value)>,
    pub(crate) delete: Option<Value>,
    #[serde(default)]
    pub(crate) with: Map<String, Value>,
    #[serde(default)]
    pub(crate) with_old: Map<String, Value>,
    #[serde(default)]
    pub(crate) request: RequestParts,
    pub(crate) directory: Option<Value>,
    pub(crate) catalog: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) files: Map<String, Value>,
    #[serde(default)]
    pub(crate) patch: BTreeMap<String, Map<String, Value>>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
    pub(crate) compressed_size: Option<Value>,
    pub(crate) compressed_size_is_more: Option<Value>,
    pub(crate) settings: Option<Value>,
    pub(crate) cluster: Option<Value>,
    pub(crate) field: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) message_prefix: Option<String>,
    pub(crate) level: Option<String>,
    #[serde(default)]
    pub(crate) violations: Vec<EntryViolation>,
    #[serde(default)]
    pub(crate) other_violations: Vec<EntryViolation>,
    #[serde(default)]
    pub(crate) skipped: BTreeSet<String>,
    pub(crate) audit_annotations: Option<BTreeMap<String, String>>,
    pub(crate) reason: Option<String>,
    pub(crate) fixed: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct EntryViolation {
    pub(crate) rule: Option<String>,
    pub(crate) field: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) message_prefix: Option<String>,
    pub(crate) level: Option<String>,
}

/// The members for the expected outcome, in the order in which they are written.
pub(crate) const OUTCOME_MEMBERS: [&str; 10] = [
    "field",
    "level",
    "message",
    "messagePrefix",
    "violations",
    "otherViolations",
    "skipped",
    "auditAnnotations",
    "reason",
    "fixed",
];

/// Members that a fix changes partially: it replaces their members of the same name.
const MERGED_MEMBERS: [&str; 7] =
    ["with", "withOld", "files", "patch", "directory", "catalog", "request"];

/// Merges an entry that fixes another one: all members of the other one, with the changes of this one.
pub(crate) fn merge_fix(rejected: &Value, fix: &Value) -> Value {
    let mut entry = rejected.as_object().cloned().unwrap_or_default();
    entry.retain(|name, _| name != "name" && !OUTCOME_MEMBERS.contains(&name.as_str()));
    for (name, value) in fix.as_object().into_iter().flatten() {
        // `patch` has the changes of each file.
        let depth =
            usize::from(MERGED_MEMBERS.contains(&name.as_str())) + usize::from(name == "patch");
        merge(entry.entry(name.clone()).or_insert(Value::Null), value, depth);
    }
    Value::Object(entry)
}

fn merge(into: &mut Value, from: &Value, depth: usize) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) if depth > 0 => {
            for (name, value) in from {
                merge(
                    into.entry(name.clone()).or_insert(Value::Null),
                    value,
                    depth.saturating_sub(1),
                );
            }
        }
        (into, from) => from.clone_into(into),
    }
}

/// Returns an object, or the one of this name.
pub(crate) fn resolve_object(value: Value, objects: &Value) -> Result<Value, CaseError> {
    match value {
        Value::String(name) => {
            let found = objects.get(&name).cloned();
            found.ok_or_else(|| CaseError(format!("{} has no {name}", crate::OBJECTS_FILE)))
        }
        value => Ok(value),
    }
}

/// Puts values in their places; null takes away.
pub(crate) fn apply_changes(
    document: &mut Value,
    changes: &Map<String, Value>,
) -> Result<(), CaseError> {
    for (pointer, new) in changes {
        set_at_pointer(document, pointer, new)?;
    }
    Ok(())
}

fn set_at_pointer(document: &mut Value, pointer: &str, new: &Value) -> Result<(), CaseError> {
    let unescaped = |token: &str| token.replace("~1", "/").replace("~0", "~");
    let nothing = || CaseError(format!("there is no place {pointer} in the object"));
    if !pointer.starts_with('/') {
        return Err(CaseError(format!("{pointer:?} is no JSON pointer: it begins with a slash")));
    }
    let (parent, name) = pointer.rsplit_once('/').ok_or_else(nothing)?;
    let name = unescaped(name);
    let mut at = document;
    for token in parent.split('/').skip(1) {
        let token = unescaped(token);
        at = match at {
            Value::Array(list) => {
                let element = token.parse::<usize>().ok().and_then(|index| list.get_mut(index));
                element.ok_or_else(nothing)?
            }
            Value::Object(map) => map.entry(token).or_insert_with(|| json!({})),
            _ => return Err(nothing()),
        };
    }
    match at {
        Value::Object(map) if new.is_null() => drop(map.remove(&name)),
        Value::Object(map) => drop(map.insert(name, new.clone())),
        Value::Array(list) => {
            let index = name.parse::<usize>().ok().filter(|index| *index < list.len());
            match index.and_then(|index| Some((index, list.get_mut(index)?))) {
                Some((index, _)) if new.is_null() => drop(list.remove(index)),
                Some((_, element)) => *element = new.clone(),
                None => list.push(new.clone()),
            }
        }
        at if at.is_null() => *at = Value::Object(Map::from_iter([(name, new.clone())])),
        _ => return Err(nothing()),
    }
    Ok(())
}
