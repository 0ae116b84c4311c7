//! The current content of a cluster, for an audit: the resources that it serves, the objects that
//! policies read, and all objects.
//!
//! ```text
//! discovery ─▶ Served ─▶ ObjectPages: one object after the other ─▶ evaluated
//! fill: one list for each resource that policies read ─▶ ResourceCache
//! ```
//!
//! Nothing is watched, because an audit ends. The objects that policies read are listed first.
//! Objects that are created during the audit are then evaluated as well, and no evaluated object
//! lacks another one that it needs.

use std::collections::BTreeMap;

use opgate_cluster::Resource;
use opgate_document::{Document, Value};
use tokio::time::Instant;

use crate::cluster::watch::decode::ApiError;
use crate::cluster::watch::object_pages::{ListError, MAX_RESTARTS, error_text};
use crate::cluster::watch::page_backoff::PageBackoff;
use crate::cluster::watch::parse_limiter::ReadPriority;
use crate::cluster::{ClusterState, Connection, ResourceCache};

/// A resource that an API server lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListableResource {
    /// The resource.
    pub resource: Resource,
    /// The kind of its objects.
    pub kind: String,
    /// Whether they are in namespaces.
    pub is_namespaced: bool,
}

/// An API group, and the versions in which it is served, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiGroup {
    /// Its name, empty for the core group.
    pub name: String,
    /// Its versions.
    pub versions: Vec<String>,
}

impl Connection {
    /// Returns the API groups that are served.
    ///
    /// # Errors
    /// If the API server does not list them.
    pub async fn groups(&self, backoff: &mut PageBackoff) -> Result<Vec<ApiGroup>, ListError> {
        let document = self.discover("/apis", backoff).await?;
        let core = ApiGroup { name: String::new(), versions: vec!["v1".to_owned()] };
        let list = document.get("/groups").into_iter().flat_map(|list| list.items());
        let group = |group: Value<'_>| {
            let preferred = text(group, "/preferredVersion/version");
            let all = group.get("/versions").into_iter().flat_map(|list| list.items());
            let all = all.map(|version| text(version, "/version"));
            let mut versions: Vec<_> = std::iter::once(preferred.clone())
                .chain(all.filter(|version| *version != preferred))
                .collect();
            versions.retain(|version| !version.is_empty());
            ApiGroup { name: text(group, "/name"), versions }
        };
        Ok(std::iter::once(core).chain(list.map(group)).collect())
    }

    /// Returns the resources of a group in a version that can be listed.
    ///
    /// # Errors
    /// If the API server does not list them.
    pub async fn resources(
        &self,
        group: &str,
        version: &str,
        backoff: &mut PageBackoff,
    ) -> Result<Vec<ListableResource>, ListError> {
        let api = match group {
            "" => format!("/api/{version}"),
            _ => format!("/apis/{group}/{version}"),
        };
        // A group that discovery lists has resources. Without them, nothing is known of its objects.
        let document = self.discover(&api, backoff).await?;
        let list = document.get("/resources").into_iter().flat_map(|list| list.items());
        let lists = |one: &Value<'_>| {
            let mut verbs = one.get("/verbs").into_iter().flat_map(|verbs| verbs.items());
            verbs.any(|verb| verb.text() == Some("list"))
        };
        let served = |one: Value<'_>| ListableResource {
            resource: Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                resource: text(one, "/name"),
            },
            kind: text(one, "/kind"),
            is_namespaced: one.get("/namespaced").and_then(|v| v.boolean()).unwrap_or_default(),
        };
        // A name is a path segment.
        let is_name =
            |served: &ListableResource| !served.resource.resource.contains(['/', '%', '?']);
        Ok(list.filter(lists).map(served).filter(is_name).collect())
    }

    /// Returns what identifies the schemas of each group and version (`v1`, `apps/v1`): another text after an update of
    /// the API server or of a `CustomResourceDefinition`. Every authenticated user can read it.
    ///
    /// # Errors
    /// If the API server does not serve it.
    pub async fn schema_hashes(
        &self,
        backoff: &mut PageBackoff,
    ) -> Result<BTreeMap<String, String>, ListError> {
        let document = self.discover("/openapi/v3", backoff).await?;
        let paths = document.get("/paths").into_iter().flat_map(|paths| paths.members());
        let schema = |(path, entry): (&str, Value<'_>)| {
            let of_group = path.strip_prefix("apis/").filter(|rest| rest.contains('/'));
            let version = of_group.or_else(|| path.strip_prefix("api/"))?;
            // Its address has the hash.
            Some((version.to_owned(), text(entry, "/serverRelativeURL")))
        };
        Ok(paths.filter_map(schema).collect())
    }

    /// Reads a document of discovery, after the pauses that the API server needs.
    async fn discover(&self, path: &str, backoff: &mut PageBackoff) -> Result<Document, ListError> {
        loop {
            backoff.wait_before_page().await;
            let began = Instant::now();
            match self.0.document(path).await {
                Ok(document) => {
                    backoff.record_page(began.elapsed());
                    return Ok(document);
                }
                Err(error) if backoff.wait_if_busy(&error).await => {}
                Err(error) => return Err(ListError::new(format!("{path}: {error}"), &error)),
            }
        }
    }

    /// Lists once the objects that policies read, with the pauses that the API server needs. Returns
    /// the resources that cannot be listed, each with the reason.
    pub async fn list_all(
        &self,
        cluster: &ClusterState,
        backoff: &mut PageBackoff,
    ) -> Vec<(Resource, String)> {
        let mut failed = Vec::new();
        for kind in cluster.caches() {
            if let Err(trouble) = self.list_into(kind, backoff).await {
                failed.push((kind.resource().clone(), error_text(&trouble)));
            }
        }
        failed
    }

    async fn list_into(
        &self,
        kind: &ResourceCache,
        backoff: &mut PageBackoff,
    ) -> Result<(), ApiError> {
        let (mut restarts, priority) = (0, ReadPriority::Request);
        loop {
            let began = Instant::now();
            let listed = self.0.list_with(kind, kind.namespace(), None, priority, backoff);
            match listed.await {
                Ok(listing) => kind.replace(listing, began),
                Err(ApiError::Absent) => kind.mark_absent(),
                Err(ApiError::Gone | ApiError::Expired(_)) if restarts < MAX_RESTARTS => {
                    restarts += 1;
                    continue;
                }
                Err(trouble) => return Err(trouble),
            }
            return Ok(());
        }
    }
}

fn text(value: Value<'_>, pointer: &str) -> String {
    value.get(pointer).and_then(|value| value.text()).unwrap_or_default().to_owned()
}
