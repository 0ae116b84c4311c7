//! Resource types, their objects, and the changes of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Scope;

/// Group and plural, which name a resource type in all its versions.
pub(super) type ResourceType = (String, String);

/// Namespace (empty for objects of the cluster) and name, in the order of lists.
pub(super) type Key = (String, String);

pub(super) type Objects = BTreeMap<Key, Arc<Value>>;

pub(super) struct Resource {
    pub(super) versions: BTreeSet<String>,
    pub(super) kind: String,
    pub(super) scope: Scope,
    pub(super) objects: Objects,
}

pub(super) struct Change {
    pub(super) version: u64,
    pub(super) of: ResourceType,
    pub(super) key: Key,
    pub(super) old: Option<Arc<Value>>,
    pub(super) new: Option<Arc<Value>>,
}

pub(super) fn resource_type(group: &str, plural: &str) -> ResourceType {
    (group.to_owned(), plural.to_owned())
}

pub(super) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
