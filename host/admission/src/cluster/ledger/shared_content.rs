//! The new state of an object in an entry of the ledger: what policies see of it, as JSON.
//!
//! The text begins with a digest of the fields that its replica keeps. A replica with another
//! configuration keeps other fields, and cannot tell from the text which queries the object
//! matches.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use opgate_cluster::{Declaration, Key, Object, Outline};
use opgate_document::{Document, Value};
use serde_json::Value as Json;

use crate::cluster::ResourceCache;
use crate::cluster::reservations::ChangeContent;

/// Bytes of the digest of a declaration.
const DIGEST_BYTES: usize = 8;

/// Metadata that the API server chooses for each request: it is not part of the change.
const SERVER_FIELDS: [&str; 2] = ["uid", "resourceVersion"];

/// What policies see of one resource, over all caches of this replica.
#[derive(Debug)]
pub(in crate::cluster) struct SharedContent {
    declaration: Declaration,
    digest: String,
}

impl SharedContent {
    /// The content of a resource that these caches keep; `None` without a cache.
    pub(in crate::cluster) fn of(caches: &[Arc<ResourceCache>]) -> Option<Self> {
        let mut declarations = caches.iter().map(|cache| cache.declaration());
        let first = declarations.next()?.clone();
        let declaration = declarations.fold(first, |all, more| all.union(more));
        let signature = digest(&SHA256, declaration.signature().as_bytes());
        let bytes = signature.as_ref().iter().take(DIGEST_BYTES);
        let digest = bytes.map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        Some(Self { declaration: declaration.with_index_fields(), digest })
    }

    /// The text of an object; `None` if it cannot be read.
    pub(in crate::cluster) fn encode(&self, object: Value<'_>) -> Option<String> {
        let text = self.declaration.project_text(object).ok()?;
        let mut json: Json = serde_json::from_str(&text).ok()?;
        if let Some(metadata) = json.get_mut("metadata").and_then(Json::as_object_mut) {
            metadata.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()));
        }
        Some(format!("{}{json}", self.digest))
    }

    /// The content of an entry for one cache. `text` is none if the entry has the object by
    /// reference.
    pub(in crate::cluster) fn decode(
        &self,
        cache: &ResourceCache,
        key: &Key,
        text: Option<&str>,
        uid: &str,
    ) -> ChangeContent {
        let unknown = || ChangeContent::Outline(Arc::new(Outline::unknown(key.clone())));
        let json = text.and_then(|text| text.strip_prefix(&*self.digest));
        let Some(mut json) = json.and_then(|json| serde_json::from_str::<Json>(json).ok()) else {
            return unknown();
        };
        if let Some(metadata) = json.get_mut("metadata").and_then(Json::as_object_mut) {
            metadata.insert("uid".to_owned(), uid.into());
        }
        let Ok(document) = Document::parse(&json.to_string()) else { return unknown() };
        match cache.project(document.root(), &key.namespace) {
            Ok(object) => content(object, key, cache),
            Err(_) => unknown(),
        }
    }
}

fn content(object: Option<Object>, key: &Key, cache: &ResourceCache) -> ChangeContent {
    match object {
        // No API server stores an object under the name of another one.
        Some(object) if object.key() != key => ChangeContent::Removed,
        object => cache.limit_content(object.map(Arc::new)),
    }
}

/// The name of a resource in the ledger.
pub(super) fn resource_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{group}/{resource}") }
}
