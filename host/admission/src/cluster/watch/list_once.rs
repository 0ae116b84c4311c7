//! The current content of a cluster, for an audit: the resources that it serves, the objects that
//! policies read, and all objects.
//!
//! ```text
//! discovery ─▶ Served ─▶ objects: page by page, one object after the other ─▶ evaluated
//! fill: one list for each resource that policies read ─▶ ResourceCache
//! ```
//!
//! Nothing is watched, because an audit ends. The objects that policies read are listed first.
//! Objects that are created during the audit are then evaluated as well, and no evaluated object
//! lacks another one that it needs.

use std::ops::ControlFlow;

use futures_util::AsyncBufReadExt as _;
use kube::core::Request;
use kube::core::params::ListParams;
use opgate_cluster::Resource;
use opgate_document::{Document, Value};

use crate::cluster::watch::decode::{ApiError, PageReader, read_document};
use crate::cluster::watch::paging::{FIRST_PAGE_LIMIT, next_limit};
use crate::cluster::watch::parse_limiter::ReadPriority;
use crate::cluster::watch::requests::{resource_path, with_timeout};
use crate::cluster::{ClusterState, Connection, ResourceCache};

/// The reason why the API server does not list objects or resources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ListError(String);

/// Maximum number of times that a list is restarted because it changes while it is read.
const MAX_RESTARTS: u32 = 5;

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

/// A page that was read.
struct ReadPage {
    /// The token of the next page, empty for the last one.
    next: String,
    bytes: usize,
    objects: usize,
}

impl Connection {
    /// Returns the API groups that are served.
    ///
    /// # Errors
    /// If the API server does not list them.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>, ListError> {
        let document =
            self.0.document("/apis").await.map_err(|e| ListError(format!("/apis: {e}")))?;
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
    ) -> Result<Vec<ListableResource>, ListError> {
        let api = match group {
            "" => format!("/api/{version}"),
            _ => format!("/apis/{group}/{version}"),
        };
        let document: Document = match self.0.document(&api).await {
            Ok(document) => document,
            Err(ApiError::Absent) => return Ok(Vec::new()),
            Err(error) => return Err(ListError(format!("{api}: {error}"))),
        };
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

    /// Lists once the objects that policies read. Returns the resources that cannot be listed,
    /// each with the reason.
    pub async fn list_all(&self, cluster: &ClusterState) -> Vec<(Resource, String)> {
        let mut failed = Vec::new();
        for kind in cluster.caches() {
            if let Err(trouble) = self.list_into(kind).await {
                failed.push((kind.resource().clone(), error_text(&trouble)));
            }
        }
        failed
    }

    async fn list_into(&self, kind: &ResourceCache) -> Result<(), ApiError> {
        let mut restarts = 0;
        loop {
            let began = tokio::time::Instant::now();
            match self.0.list(kind, kind.namespace(), None, ReadPriority::Request).await {
                Ok(listing) => kind.replace(listing, began),
                Err(ApiError::Absent) => kind.mark_absent(),
                Err(ApiError::Gone) if restarts < MAX_RESTARTS => {
                    restarts += 1;
                    continue;
                }
                Err(trouble) => return Err(trouble),
            }
            return Ok(());
        }
    }

    /// Calls `visit` with the text of each object of a resource, in pages of some hundred. An
    /// object can occur twice: a list whose version the API server no longer has is read again
    /// from its start.
    ///
    /// # Errors
    /// The reason why they cannot be listed.
    pub async fn for_each_object(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        mut visit: impl FnMut(Document),
    ) -> Result<(), ListError> {
        let mut visit = |document| {
            visit(document);
            ControlFlow::Continue(())
        };
        let all = self.for_each_page(resource, namespace, ListParams::default(), &mut visit);
        all.await.map_err(|trouble| ListError(error_text(&trouble)))
    }

    /// Reads the pages of a list until its end, or until `visit` stops.
    pub(in crate::cluster) async fn for_each_page(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        mut params: ListParams,
        visit: &mut impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        let (mut limit, mut restarts) = (FIRST_PAGE_LIMIT, 0);
        loop {
            params.limit = Some(limit);
            match self.read_page(resource, namespace, &params, visit).await {
                Ok(ReadPage { next, bytes, objects }) => {
                    if next.is_empty() {
                        return Ok(());
                    }
                    limit = next_limit(limit, bytes, objects);
                    params.continue_token = Some(next);
                }
                Err(ApiError::Absent) => return Ok(()),
                Err(ApiError::Gone) if restarts < MAX_RESTARTS => {
                    restarts += 1;
                    params.continue_token = None;
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Reads one page. The page ends early, as if it were the last one, if `visit` stops.
    async fn read_page(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        params: &ListParams,
        visit: &mut impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<ReadPage, ApiError> {
        let request = Request::new(resource_path(resource, namespace)).list(params);
        let request = request.map_err(|error| ApiError::Other(error.to_string()))?;
        let mut stream = std::pin::pin!(self.0.send(request).await?);
        let (mut text, mut bytes) = (PageReader::default(), 0_usize);
        loop {
            let part =
                with_timeout(async { stream.fill_buf().await.map_err(ApiError::from) }).await?;
            let length = part.len();
            if length == 0 {
                let page = text.finish()?;
                return Ok(ReadPage { next: page.next, bytes, objects: page.count });
            }
            bytes = bytes.saturating_add(length);
            let mut rest = part;
            while let Some(item) = text.next(&mut rest)? {
                if visit(read_document(item)?).is_break() {
                    return Ok(ReadPage { next: String::new(), bytes, objects: 0 });
                }
            }
            stream.consume_unpin(length);
        }
    }
}

fn text(value: Value<'_>, pointer: &str) -> String {
    value.get(pointer).and_then(|value| value.text()).unwrap_or_default().to_owned()
}

pub(in crate::cluster) fn error_text(trouble: &ApiError) -> String {
    match trouble {
        ApiError::Forbidden(_) => format!("{trouble}; grant list on it to this user"),
        ApiError::Unauthorized(_) => format!(
            "{trouble}: the token or certificate has expired or was revoked; log in again, or name another kubeconfig or context"
        ),
        _ => trouble.to_string(),
    }
}
