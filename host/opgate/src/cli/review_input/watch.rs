//! Objects that `kubectl get --watch -o json` prints: each object again whenever it changes.
//!
//! With `--output-watch-events` they are in events, such as `{"type": "MODIFIED", "object": {…}}`.

use opgate_document::{Kind, Value};

use super::object_versions::{ObjectKey, ObjectVersions};
use crate::cli::make_review::Manifest;

/// Type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchEvent {
    Added,
    Modified,
    Deleted,
    /// Has only the version that the watch has reached.
    Bookmark,
    /// The watch failed.
    Error,
}

impl WatchEvent {
    /// Returns the type and the object of an event; none if a document is something else.
    pub(super) fn of(document: Value<'_>) -> Option<(Self, Value<'_>)> {
        let object = document.get("/object").filter(|object| object.kind() == Kind::Object)?;
        if document.get("/kind").is_some() {
            return None;
        }
        let event = match document.get("/type")?.text()? {
            "ADDED" => Self::Added,
            "MODIFIED" => Self::Modified,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return None,
        };
        Some((event, object))
    }
}

/// The stored objects of one file.
#[derive(Debug, Default)]
pub(super) struct WatchedObjects {
    file: String,
    versions: ObjectVersions<StoredObject>,
}

/// A version of an object that an API server has stored.
#[derive(Debug)]
struct StoredObject {
    uid: String,
    resource_version: String,
    manifest: Manifest,
}

impl WatchedObjects {
    /// Replaces the version of an object, and returns the previous one: an earlier object of the file with the same
    /// uid and another resource version. Objects that no API server has stored have none.
    pub(super) fn replace(
        &mut self,
        file: &str,
        object: Value<'_>,
        manifest: &Manifest,
    ) -> Option<Manifest> {
        if self.file != file {
            *self = Self { file: file.to_owned(), versions: ObjectVersions::default() };
        }
        let text = |pointer: &str| {
            let text = object.get(pointer).and_then(|value| value.text());
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (uid, resource_version) = (text("/metadata/uid")?, text("/metadata/resourceVersion")?);
        let key = ObjectKey {
            group: manifest.group.clone(),
            resource: manifest.kind.clone(),
            sub_resource: String::new(),
            namespace: manifest.namespace.clone(),
            name: manifest.name.clone(),
        };
        let is_previous = |stored: &&StoredObject| {
            stored.uid == uid && stored.resource_version != resource_version
        };
        let previous = self.versions.get(&key).filter(is_previous);
        let previous = previous.map(|stored| stored.manifest.clone());
        let stored = StoredObject { uid, resource_version, manifest: manifest.clone() };
        self.versions.insert(key, stored, object.size());
        previous
    }
}
