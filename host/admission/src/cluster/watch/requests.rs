//! Single requests to an API server.
//!
//! ```text
//! request ─▶ ask ─┬▶ the text of the response, as it arrives ─▶ pages, live
//!                 └▶ ApiError: an error of any size, of which the beginning is read
//! ```
//!
//! A response may come from another server behind the aggregation layer. Only the administrator
//! can add such a server, but it is not the API server: nothing that it sends is read without a
//! limit.

use std::io;
use std::time::{Duration, SystemTime};

use futures_util::{AsyncBufRead, AsyncReadExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use opgate_cluster::{Resource, server_version};
use opgate_document::Document;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::cluster::ResourceCache;
use crate::cluster::store::listing::Listing;
use crate::cluster::watch::busy_retries::retry_after;
use crate::cluster::watch::decode::{ApiError, read_document};
use crate::cluster::watch::parse_limiter::ParseLimiter;
use crate::cluster::watch::token::Token;
use opgate_certs::error_text::with_causes;
use opgate_text::one_line;

/// Time limit of a response, except for a watch: until it begins, and from then on until it ends.
pub(in crate::cluster) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum bytes of an error that are read.
const MAX_ERROR_BYTES: u64 = 64 << 10;

/// Maximum bytes of a response that is read as a whole: discovery of a group, a version.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

/// Maximum number of concurrent pages.
const MAX_CONCURRENT_PAGES: usize = 3;

/// An API server, and limits of concurrent reads from it, for all resources.
pub(in crate::cluster) struct ApiServer {
    client: Client,
    /// The token of a file, which can be replaced at any time.
    token: Option<Token>,
    /// Permits to read a page.
    pub(in crate::cluster) page_permits: Semaphore,
    /// Permits to read an object that is larger than a page.
    pub(in crate::cluster) large_object_permit: Semaphore,
    pub(in crate::cluster) parse_limiter: ParseLimiter,
    /// Notified when a resource is ready again.
    recovered: Notify,
}

impl ApiServer {
    pub(in crate::cluster) fn new(client: Client, token: Option<Token>) -> Self {
        Self {
            client,
            token,
            page_permits: Semaphore::new(MAX_CONCURRENT_PAGES),
            large_object_permit: Semaphore::new(1),
            parse_limiter: ParseLimiter::default(),
            recovered: Notify::new(),
        }
    }

    pub(in crate::cluster) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Permission to parse.
    pub(in crate::cluster) async fn acquire_parse_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.parse_limiter.acquire_small().await
    }

    /// Returns the text of a response. Only its beginning has a time limit.
    pub(in crate::cluster) async fn send(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<impl AsyncBufRead + use<>, ApiError> {
        self.send_dated(request).await.map(|(stream, _)| stream)
    }

    /// As [`send`](Self::send), with the time of the API server's clock, if the response has it. If
    /// the token is rejected and its file now has another one, the request is sent once more.
    pub(in crate::cluster) async fn send_dated(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<(impl AsyncBufRead + use<>, Option<SystemTime>), ApiError> {
        let number = || self.token.as_ref().map(Token::number);
        let before = number();
        match self.send_once(request.clone()).await {
            Err(ApiError::Unauthorized(_)) if number() != before => self.send_once(request).await,
            answer => answer,
        }
    }

    async fn send_once(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<(impl AsyncBufRead + use<>, Option<SystemTime>), ApiError> {
        let asking = async {
            let answer = self.client.send(request.map(Body::from)).await?;
            let status = answer.status();
            let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
            let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
            let pause = retry_after(answer.headers());
            let stream = answer.into_body().into_data_stream().map_err(io::Error::other);
            let stream = stream.into_async_read();
            if status.is_success() {
                return Ok((stream, date));
            }
            let mut text = Vec::new();
            // Without a text, the code remains.
            let _ = std::pin::pin!(stream.take(MAX_ERROR_BYTES)).read_to_end(&mut text).await;
            Err(response_error(status.as_u16(), text, pause))
        };
        with_timeout(asking).await
    }

    /// Reads the document at a path.
    pub(in crate::cluster) async fn document(&self, path: &str) -> Result<Document, ApiError> {
        self.dated_document(path, MAX_DOCUMENT_BYTES).await.map(|(document, _)| document)
    }

    /// Reads the document at a path, of at most this many bytes, and the time of the API server's
    /// clock.
    pub(in crate::cluster) async fn dated_document(
        &self,
        path: &str,
        most: u64,
    ) -> Result<(Document, Option<SystemTime>), ApiError> {
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|e| ApiError::Other(e.to_string()))?;
        let (stream, date) = self.send_dated(request).await?;
        let mut text = Vec::new();
        let mut rest = std::pin::pin!(stream.take(most));
        with_timeout(async { rest.read_to_end(&mut text).await.map_err(ApiError::from) }).await?;
        if u64::try_from(text.len()) == Ok(most) {
            return Err(ApiError::Other(format!("{path} has more than {most} bytes")));
        }
        let _one = self.acquire_parse_permit().await;
        Ok((read_document(text)?, date))
    }

    /// Whether discovery reports that a resource can be watched; `None` without information.
    pub(in crate::cluster) async fn is_watchable(&self, resource: &Resource) -> Option<bool> {
        if resource.is_server_version() {
            return Some(false);
        }
        let document = self.document(&group_path(resource)).await.ok()?;
        let mut resources = document.get("/resources").into_iter().flat_map(|list| list.items());
        let name = |of: &str| of == resource.resource;
        let found = resources
            .find(|one| one.get("/name").and_then(|value| value.text()).is_some_and(name))?;
        let mut verbs = found.get("/verbs")?.items();
        Some(verbs.any(|verb| verb.text() == Some("watch")))
    }

    /// Whether a resource for which the API server responds with 503 is served by another server
    /// behind it, which is down. Then discovery of its group fails in the same way, while the API
    /// server itself is ready. An API server that starts is not ready, and responds with 503 for
    /// custom resources as well.
    pub(in crate::cluster) async fn is_down_behind(&self, resource: &Resource) -> bool {
        let discovery = self.document(&group_path(resource)).await;
        if !matches!(discovery, Err(ApiError::Unavailable(_))) {
            return false;
        }
        let ready = http::Request::get("/readyz").body(Vec::new());
        match ready {
            Ok(request) => self.send(request).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Whether the API server reports that a namespace does not exist: then no object is in it. It
    /// does not report this to clients without permission to list namespaces.
    pub(in crate::cluster) async fn lacks_namespace(&self, name: &str) -> bool {
        // Names of namespaces contain no characters to escape.
        let path = format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{name}&limit=1");
        let Ok(list) = self.document(&path).await else { return false };
        list.get("/kind").and_then(|kind| kind.text()) == Some("NamespaceList")
            && list.get("/items").is_some_and(|items| items.items().next().is_none())
    }

    /// Returns the version of the API server as the only object of its resource.
    pub(in crate::cluster) async fn version(
        &self,
        kind: &ResourceCache,
    ) -> Result<Listing, ApiError> {
        let answer = self.document("/version").await?;
        let none = || ApiError::Other("/version has no gitVersion".to_owned());
        let object = server_version(answer.root()).ok_or_else(none)?;
        let mut listing = kind.empty();
        kind.add_object(&mut listing, object.root(), "");
        Ok(listing)
    }

    /// Waits before the next request about a resource. After an interruption the API server may be
    /// another one, of another version.
    pub(in crate::cluster) async fn pause(&self, kind: &ResourceCache, wait: Duration) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.recovered.notified(), if kind.resource().is_server_version() => {}
        }
    }

    /// Records that a resource is ready again.
    pub(in crate::cluster) fn notify_recovered(&self) {
        self.recovered.notify_waiters();
    }
}

/// Limits the wait for a response, whose absence is an error.
pub(in crate::cluster) async fn with_timeout<T, E: From<ApiError>>(
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let answer = tokio::time::timeout(RESPONSE_TIMEOUT, answer).await;
    answer.unwrap_or_else(|_| Err(ApiError::Other(timeout_text(RESPONSE_TIMEOUT)).into()))
}

/// The error of a response with a code, and a `Status` or the text that a proxy sends instead. An API server
/// that is overloaded asks for a pause of some seconds.
fn response_error(code: u16, text: Vec<u8>, pause: Duration) -> ApiError {
    let text = String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let status = Document::parse(&text).ok();
    let member = |pointer: &str| status.as_ref().and_then(|status| status.get(pointer)?.text());
    match ApiError::from_status(code, member("/message").unwrap_or_else(|| text.trim())) {
        ApiError::Gone => match member("/metadata/continue").filter(|token| !token.is_empty()) {
            Some(token) => ApiError::Expired(token.to_owned()),
            None => ApiError::Gone,
        },
        ApiError::Busy { message, .. } => ApiError::Busy { pause, message },
        error => error,
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        Self::Other(one_line(&with_causes(&error), 512))
    }
}

impl From<io::Error> for ApiError {
    fn from(error: io::Error) -> Self {
        Self::Other(one_line(&with_causes(&error), 512))
    }
}

pub(in crate::cluster) fn timeout_text(waited: Duration) -> String {
    format!("no answer from the API server within {} s", waited.as_secs())
}

/// `/apis/<group>/<version>`
fn group_path(Resource { group, version, .. }: &Resource) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// `/apis/<group>/<version>[/namespaces/<namespace>]/<resource>`
pub(in crate::cluster) fn resource_path(resource: &Resource, namespace: Option<&str>) -> String {
    let (api, resource) = (group_path(resource), &resource.resource);
    match namespace {
        Some(namespace) => format!("{api}/namespaces/{namespace}/{resource}"),
        None => format!("{api}/{resource}"),
    }
}

pub(in crate::cluster) fn label_selector(kind: &ResourceCache) -> Option<String> {
    Some(kind.labels()).filter(|labels| !labels.is_empty()).map(ToString::to_string)
}
