//! Single reads from a cluster, for the doctor: objects of a resource, one object, the version and
//! the clock.
//!
//! Only lists and reads are sent. A list ends where its reader has enough, however large the
//! response.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use kube::core::params::ListParams;
use opgate_cluster::Resource;
use opgate_document::Document;

use super::Connection;
use super::audit::told;
use super::decode::ApiError;
use super::paging::LARGEST_OBJECT;
use super::requests::path;

/// Maximum bytes of `/version`.
const MOST_OF_VERSION: u64 = 64 << 10;

/// Maximum bytes of a response of a pod.
const MOST_OF_POD: u64 = 1 << 20;

/// A selection of objects of a resource.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selected<'s> {
    /// Only objects in this namespace.
    pub namespace: Option<&'s str>,
    /// Only objects with these labels, in the syntax of `kubectl -l`.
    pub labels: Option<&'s str>,
}

/// The reason why a read failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Whether a permission is missing.
    pub is_forbidden: bool,
    /// The reason, in one line.
    pub why: String,
}

impl From<ApiError> for Refused {
    fn from(trouble: ApiError) -> Self {
        let is_forbidden = matches!(trouble, ApiError::Forbidden(_));
        Self { is_forbidden, why: told(&trouble) }
    }
}

/// Version and clock of an API server.
#[derive(Debug, Clone)]
pub struct Release {
    /// `v1.33.1`
    pub version: String,
    /// The clock of the API server, and the local one at the same moment.
    pub clocks: Option<(SystemTime, SystemTime)>,
    /// Duration of the request. The clocks can seem to differ by this much.
    pub took: Duration,
}

impl Connection {
    /// Calls `visit` with the objects of a resource, in pages, until it stops. An object can occur
    /// twice. A resource that the API server does not know has no objects.
    ///
    /// # Errors
    /// The reason why they cannot be listed.
    pub async fn select(
        &self,
        resource: &Resource,
        selected: Selected<'_>,
        mut visit: impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<(), Refused> {
        let params = ListParams {
            label_selector: selected.labels.map(str::to_owned),
            ..ListParams::default()
        };
        let pages = self.every_page(resource, selected.namespace, params, &mut visit);
        Ok(pages.await?)
    }

    /// Reads one object, if it exists.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub async fn one(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Document>, Refused> {
        // A name is a path segment.
        if name.is_empty() || name.contains(['/', '%', '?', '#']) || name.starts_with('.') {
            return Ok(None);
        }
        let at = format!("{}/{name}", path(resource, namespace));
        match self.0.dated(&at, LARGEST_OBJECT).await {
            Ok((document, _)) => Ok(Some(document)),
            Err(ApiError::Absent) => Ok(None),
            Err(ApiError::Forbidden(why)) => {
                let why = format!("forbidden: {why}; grant get on it to this user");
                Err(Refused { is_forbidden: true, why })
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Reads the JSON that a pod returns at a path of a port, through the API server.
    ///
    /// # Errors
    /// The reason why there is no response.
    pub async fn of_pod(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        path: &str,
    ) -> Result<Document, Refused> {
        let is_segment = |text: &str| !text.is_empty() && !text.contains(['/', '%', '?', '#', ':']);
        if !is_segment(namespace) || !is_segment(pod) || pod.starts_with('.') {
            let why = format!("{pod:?} is no name of a pod");
            return Err(Refused { is_forbidden: false, why });
        }
        let at = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{path}");
        let answer = self.0.dated(&at, MOST_OF_POD).await.map_err(|trouble| match trouble {
            ApiError::Absent => Refused { is_forbidden: false, why: format!("it has no {path}") },
            ApiError::Forbidden(why) => {
                let why = format!("forbidden: {why}; grant get on pods/proxy to this user");
                Refused { is_forbidden: true, why }
            }
            trouble => trouble.into(),
        });
        answer.map(|(document, _)| document)
    }

    /// Reads the version and the clock of the API server.
    ///
    /// # Errors
    /// If it does not return them.
    pub async fn release(&self) -> Result<Release, Refused> {
        let (began, sent) = (tokio::time::Instant::now(), SystemTime::now());
        let (document, date) = self.0.dated("/version", MOST_OF_VERSION).await?;
        let took = began.elapsed();
        let text = document.get("/gitVersion").and_then(|version| version.text());
        let version = text.unwrap_or_default().to_owned();
        let half = took.checked_div(2).unwrap_or_default();
        Ok(Release { version, clocks: date.map(|theirs| (theirs, sent + half)), took })
    }
}
