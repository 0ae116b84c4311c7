//! Single reads from a cluster, for the doctor and the reports of an audit: objects of a resource, one
//! object, the version and the clock.
//!
//! Only lists and reads are sent. A list ends where its reader has enough, however large the
//! response.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use kube::core::params::ListParams;
use opgate_cluster::Resource;
use opgate_document::Document;

use crate::cluster::Connection;
use crate::cluster::watch::decode::ApiError;
use crate::cluster::watch::decode::MAX_OBJECT_BYTES;
use crate::cluster::watch::object_pages::{ListedContent, ObjectPages, error_text};
use crate::cluster::watch::page_backoff::PageBackoff;
use crate::cluster::watch::requests::resource_path;

/// Maximum bytes of `/version`.
const MAX_VERSION_BYTES: u64 = 64 << 10;

/// Maximum bytes of a response of a pod.
const MAX_POD_RESPONSE_BYTES: u64 = 1 << 20;

/// A selection of objects of a resource.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListFilter<'s> {
    /// Only objects in this namespace.
    pub namespace: Option<&'s str>,
    /// Only objects with these labels, in the syntax of `kubectl -l`.
    pub labels: Option<&'s str>,
}

/// The reason why a read failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFailure {
    /// Whether a permission is missing.
    pub is_forbidden: bool,
    /// The reason, in one line.
    pub reason: String,
}

impl From<ApiError> for ReadFailure {
    fn from(error: ApiError) -> Self {
        let is_forbidden = matches!(error, ApiError::Forbidden(_));
        Self { is_forbidden, reason: error_text(&error) }
    }
}

/// Version and clock of an API server.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// `v1.33.1`
    pub version: String,
    /// The clock of the API server, and the local one at the same moment.
    pub clocks: Option<(SystemTime, SystemTime)>,
    /// Duration of the request. The clocks can seem to differ by this much.
    pub duration: Duration,
}

impl Connection {
    /// Calls `visit` with the objects of a resource, in pages, until it stops. An object can occur
    /// twice. A resource that the API server does not know has no objects.
    ///
    /// # Errors
    /// The reason why they cannot be listed.
    pub async fn for_each_selected(
        &self,
        resource: &Resource,
        selected: ListFilter<'_>,
        mut visit: impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<(), ReadFailure> {
        let pages = self.selected_pages(resource, selected);
        Ok(pages.visit_all(&mut PageBackoff::none(), &mut visit).await?)
    }

    /// [`for_each_selected`](Self::for_each_selected) with only the metadata of each object, and with the pauses that
    /// the API server needs.
    ///
    /// # Errors
    /// The reason why they cannot be listed.
    pub async fn for_each_metadata(
        &self,
        resource: &Resource,
        selected: ListFilter<'_>,
        backoff: &mut PageBackoff,
        mut visit: impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<(), ReadFailure> {
        let pages = self.selected_pages(resource, selected).with_content(ListedContent::Metadata);
        Ok(pages.visit_all(backoff, &mut visit).await?)
    }

    fn selected_pages<'l>(
        &'l self,
        resource: &'l Resource,
        selected: ListFilter<'l>,
    ) -> ObjectPages<'l> {
        let params = ListParams {
            label_selector: selected.labels.map(str::to_owned),
            ..ListParams::default()
        };
        ObjectPages::new(self, resource, selected.namespace, params)
    }

    /// Reads one object, if it exists, after the pauses that an overloaded API server asks for.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub async fn get_object(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Document>, ReadFailure> {
        // A name is a path segment.
        if name.is_empty() || name.contains(['/', '%', '?', '#']) || name.starts_with('.') {
            return Ok(None);
        }
        let at = format!("{}/{name}", resource_path(resource, namespace));
        let mut backoff = PageBackoff::default();
        let read = loop {
            match self.0.dated_document(&at, MAX_OBJECT_BYTES).await {
                Err(error) if backoff.wait_if_busy(&error).await => {}
                read => break read,
            }
        };
        match read {
            Ok((document, _)) => Ok(Some(document)),
            Err(ApiError::Absent) => Ok(None),
            Err(ApiError::Forbidden(why)) => {
                let why = format!("forbidden: {why}; grant get on it to this user");
                Err(ReadFailure { is_forbidden: true, reason: why })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the JSON that a pod returns at a path of a port, through the API server.
    ///
    /// # Errors
    /// The reason why there is no response.
    pub async fn get_from_pod(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        path: &str,
    ) -> Result<Document, ReadFailure> {
        let is_segment = |text: &str| !text.is_empty() && !text.contains(['/', '%', '?', '#', ':']);
        if !is_segment(namespace) || !is_segment(pod) || pod.starts_with('.') {
            let why = format!("{pod:?} is no name of a pod");
            return Err(ReadFailure { is_forbidden: false, reason: why });
        }
        let at = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{path}");
        let answer =
            self.0.dated_document(&at, MAX_POD_RESPONSE_BYTES).await.map_err(|error| match error {
                ApiError::Absent => {
                    ReadFailure { is_forbidden: false, reason: format!("it has no {path}") }
                }
                ApiError::Forbidden(why) => {
                    let why = format!("forbidden: {why}; grant get on pods/proxy to this user");
                    ReadFailure { is_forbidden: true, reason: why }
                }
                error => error.into(),
            });
        answer.map(|(document, _)| document)
    }

    /// Reads the version and the clock of the API server.
    ///
    /// # Errors
    /// If it does not return them.
    pub async fn server_info(&self) -> Result<ServerInfo, ReadFailure> {
        let (began, sent) = (tokio::time::Instant::now(), SystemTime::now());
        let (document, date) = self.0.dated_document("/version", MAX_VERSION_BYTES).await?;
        let took = began.elapsed();
        let text = document.get("/gitVersion").and_then(|version| version.text());
        let version = text.unwrap_or_default().to_owned();
        let half = took.checked_div(2).unwrap_or_default();
        Ok(ServerInfo { version, clocks: date.map(|theirs| (theirs, sent + half)), duration: took })
    }
}
