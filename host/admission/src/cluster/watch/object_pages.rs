//! A list of objects page by page, for readers that act between two pages.
//!
//! ```text
//! ObjectPages ─▶ read_page: request ─▶ response, as it arrives ─▶ one object after the other ─▶ reader
//!      ▲                                                                                          │
//!      └──────────── the next page, when the reader asks for it ◀─────────────────────────────────┘
//! ```
//!
//! Between two pages no response is open: the reader can take minutes. If the API server no longer has the version
//! of the list, the rest is listed in the current version where the API server offers that, or the list starts
//! again.

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::AsyncBufReadExt as _;
use kube::core::Request;
use kube::core::params::ListParams;
use opgate_cluster::Resource;
use opgate_document::Document;
use tokio::time::Instant;

use crate::cluster::Connection;
use crate::cluster::watch::decode::{ApiError, PageReader, read_document};
use crate::cluster::watch::page_backoff::PageBackoff;
use crate::cluster::watch::paging::{
    FIRST_PAGE_LIMIT, MAX_PAGE_BYTES, escape_field_value, next_limit,
};
use crate::cluster::watch::requests::{resource_path, with_timeout};

/// The reason why the API server does not list objects or resources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ListError {
    message: String,
    is_busy: bool,
}

impl ListError {
    pub(in crate::cluster) fn new(message: String, error: &ApiError) -> Self {
        Self { message, is_busy: matches!(error, ApiError::Busy { .. }) }
    }

    /// Reports whether the API server has answered 429 several times.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }
}

/// Maximum number of times that a list is restarted because it changes while it is read.
pub(in crate::cluster) const MAX_RESTARTS: u32 = 5;

/// The parts of each object that are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum ListedContent {
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// A list that is read page by page. An object can occur twice: a page that is too large is read again with fewer
/// objects, and a list whose version the API server no longer has can start again.
pub struct ObjectPages<'l> {
    connection: &'l Connection,
    resource: &'l Resource,
    namespace: Option<&'l str>,
    content: ListedContent,
    params: ListParams,
    limit: u32,
    restarts: u32,
}

impl std::fmt::Debug for ObjectPages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectPages").field("resource", self.resource).finish_non_exhaustive()
    }
}

/// A page that was read.
struct ReadPage {
    /// The token of the next page, empty for the last one.
    next: String,
    bytes: usize,
    objects: usize,
    /// The time until its first bytes.
    latency: Duration,
}

/// The reason why there is no page.
enum PageError {
    /// Its objects are larger than expected.
    TooLarge,
    Api(ApiError),
}

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self::Api(error.into())
    }
}

impl<'l> ObjectPages<'l> {
    pub(in crate::cluster) fn new(
        connection: &'l Connection,
        resource: &'l Resource,
        namespace: Option<&'l str>,
        params: ListParams,
    ) -> Self {
        let (content, limit) = (ListedContent::Object, FIRST_PAGE_LIMIT);
        Self { connection, resource, namespace, content, params, limit, restarts: 0 }
    }

    /// Lists only this part of each object.
    pub(in crate::cluster) fn with_content(self, content: ListedContent) -> Self {
        Self { content, ..self }
    }

    /// Calls `visit` with the text of each object of the next page, some hundred at most, after the pause that the
    /// API server needs. Returns whether there is another page.
    ///
    /// # Errors
    /// The reason why the page cannot be read, also if the API server does not know the resource: it is unknown
    /// whether there are objects.
    pub async fn read_next(
        &mut self,
        backoff: &mut PageBackoff,
        mut visit: impl FnMut(Document),
    ) -> Result<bool, ListError> {
        let mut visit = |document| {
            visit(document);
            ControlFlow::Continue(())
        };
        let has_more = self.visit_next(backoff, &mut visit).await;
        has_more.map_err(|trouble| ListError::new(error_text(&trouble), &trouble))
    }

    /// Reads the rest of the list, or until `visit` stops. A resource that the API server does not know has no objects.
    pub(in crate::cluster) async fn visit_all(
        mut self,
        backoff: &mut PageBackoff,
        visit: &mut impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        loop {
            let is_first = self.params.continue_token.is_none();
            match self.visit_next(backoff, visit).await {
                Ok(true) => {}
                Err(ApiError::Absent) if is_first => return Ok(()),
                ended => return ended.map(drop),
            }
        }
    }

    /// Reads a page, unless `visit` stops. Returns whether there is another one.
    async fn visit_next(
        &mut self,
        backoff: &mut PageBackoff,
        visit: &mut impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<bool, ApiError> {
        self.params.limit = Some(self.limit);
        backoff.wait_before_page().await;
        match self.read_page(visit).await {
            Ok(ReadPage { next, bytes, objects, latency }) => {
                self.limit = next_limit(self.limit, bytes, objects);
                backoff.record_page(latency);
                let has_more = !next.is_empty();
                self.params.continue_token = Some(next);
                Ok(has_more)
            }
            Err(PageError::TooLarge) => {
                self.limit = (self.limit / 4).max(1);
                Ok(true)
            }
            Err(PageError::Api(error)) if backoff.wait_if_busy(&error).await => Ok(true),
            Err(PageError::Api(ApiError::Gone)) if self.restarts < MAX_RESTARTS => {
                self.restarts += 1;
                self.params.continue_token = None;
                Ok(true)
            }
            Err(PageError::Api(ApiError::Expired(token))) if self.restarts < MAX_RESTARTS => {
                self.restarts += 1;
                self.params.continue_token = Some(token);
                Ok(true)
            }
            Err(PageError::Api(error)) => Err(error),
        }
    }

    /// Reads one page. The page ends early, as if it were the last one, if `visit` stops.
    async fn read_page(
        &self,
        visit: &mut impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<ReadPage, PageError> {
        let request = Request::new(resource_path(self.resource, self.namespace));
        let request = match self.content {
            ListedContent::Object => request.list(&self.params),
            ListedContent::Metadata => request.list_metadata(&self.params),
        };
        let request = request.map_err(|error| ApiError::Other(error.to_string()))?;
        let began = Instant::now();
        let mut stream = std::pin::pin!(self.connection.0.send(request).await?);
        let latency = began.elapsed();
        let (mut text, mut bytes) = (PageReader::default(), 0_usize);
        let most = usize::try_from(self.limit).unwrap_or(usize::MAX);
        loop {
            let part =
                with_timeout(async { stream.fill_buf().await.map_err(ApiError::from) }).await?;
            let length = part.len();
            if length == 0 {
                let page = text.finish()?;
                return Ok(ReadPage { next: page.next, bytes, objects: page.count, latency });
            }
            bytes = bytes.saturating_add(length);
            let mut rest = part;
            while let Some(item) = text.next(&mut rest)? {
                if visit(read_document(item)?).is_break() {
                    return Ok(ReadPage { next: String::new(), bytes, objects: 0, latency });
                }
            }
            // More objects than requested: a server without pages, which would send all of them again.
            if bytes > MAX_PAGE_BYTES && most > 1 && text.count() <= most {
                return Err(PageError::TooLarge);
            }
            stream.consume_unpin(length);
        }
    }
}

impl Connection {
    /// Starts a list of the objects of a resource. Nothing is sent before its first page is read.
    #[must_use]
    pub fn pages<'l>(
        &'l self,
        resource: &'l Resource,
        namespace: Option<&'l str>,
    ) -> ObjectPages<'l> {
        ObjectPages::new(self, resource, namespace, ListParams::default())
    }

    /// [`pages`](Self::pages) with only the metadata of each object.
    #[must_use]
    pub fn metadata_pages<'l>(
        &'l self,
        resource: &'l Resource,
        namespace: Option<&'l str>,
    ) -> ObjectPages<'l> {
        self.pages(resource, namespace).with_content(ListedContent::Metadata)
    }

    /// [`pages`](Self::pages) with the object of one name, if it exists: this needs no other permission.
    #[must_use]
    pub fn pages_of_object<'l>(
        &'l self,
        resource: &'l Resource,
        namespace: Option<&'l str>,
        name: &str,
    ) -> ObjectPages<'l> {
        let field_selector = Some(format!("metadata.name={}", escape_field_value(name)));
        let params = ListParams { field_selector, ..ListParams::default() };
        ObjectPages::new(self, resource, namespace, params)
    }
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
