//! The few requests that opgate makes to write to its cluster.
//!
//! ```text
//! lease, replicas, certificates, trust ─▶ Api ─┬▶ ApiServer: an API server, by the connection of the policies
//!                                              └▶ Fake: memory, for tests with a clock of their own
//! ```
//!
//! Objects are plain JSON: what this version of opgate does not know stays in an object that it changes. Every
//! change names the version that it is based on, so that two writers never overwrite each other.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use opgate_admission::cluster::Connection;
use opgate_certs::error_text::with_causes;
use opgate_text::one_line;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Time limit of a request with its answer. A leader that stops to write stops within this time: it is less
/// than what lies between the end of a leader's term and the first moment at which another one can begin.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum bytes of an answer: some hundred webhook configurations.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Maximum number of objects in an answer.
const MAX_LIST_OBJECTS: usize = 500;

/// Maximum bytes of an error's text.
const MAX_ERROR_BYTES: usize = 512;

/// The kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// In the namespace of the installation.
    Lease,
    /// In the namespace of the installation.
    Secret,
    /// In the namespace of the installation.
    ConfigMap,
    /// In the namespace of the installation, or for a denial in that of its object.
    Event,
    /// In the namespace of the installation. opgate only lists them.
    EndpointSlice,
    /// Cluster-scoped.
    ValidatingWebhookConfiguration,
}

impl Kind {
    /// Returns `apiVersion`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Lease => "coordination.k8s.io/v1",
            Self::Secret | Self::ConfigMap => "v1",
            Self::Event => "events.k8s.io/v1",
            Self::EndpointSlice => "discovery.k8s.io/v1",
            Self::ValidatingWebhookConfiguration => "admissionregistration.k8s.io/v1",
        }
    }

    /// Returns `kind`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Event => "Event",
            Self::EndpointSlice => "EndpointSlice",
            Self::ValidatingWebhookConfiguration => "ValidatingWebhookConfiguration",
        }
    }

    /// Returns the name in paths and permissions.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Lease => "leases",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Event => "events",
            Self::EndpointSlice => "endpointslices",
            Self::ValidatingWebhookConfiguration => "validatingwebhookconfigurations",
        }
    }

    /// Returns the path of the collection; `namespace` is ignored for cluster-scoped objects.
    pub(crate) fn path(self, namespace: &str) -> String {
        let version = self.api_version();
        let root = if version.contains('/') { "apis" } else { "api" };
        let resource = self.resource();
        match self {
            Self::ValidatingWebhookConfiguration => format!("/{root}/{version}/{resource}"),
            _ => format!("/{root}/{version}/namespaces/{namespace}/{resource}"),
        }
    }
}

/// Why a request has not done what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is no such object.
    #[error("{0}")]
    NotFound(String),
    /// There is an object of that name.
    #[error("{0}")]
    AlreadyExists(String),
    /// Another client has changed the object.
    #[error("{0}")]
    Conflict(String),
    /// The API server does not accept the token: no permission helps.
    #[error(
        "the API server does not accept the token of opgate: {0}; check that its ServiceAccount and Pod exist and that the token volume is current, then replace the pod"
    )]
    Unauthorized(String),
    /// The permission is missing.
    #[error("forbidden: {0}; grant it to the service account of opgate")]
    Forbidden(String),
    /// The API server does not accept the object.
    #[error("{0}")]
    Invalid(String),
    /// No response, or one that leaves the result unknown.
    #[error("{0}")]
    Unavailable(String),
}

impl ApiError {
    /// Reports whether another client wrote first. This is no error: the next round reads its change.
    #[must_use]
    pub fn is_race(&self) -> bool {
        matches!(self, Self::AlreadyExists(_) | Self::Conflict(_))
    }

    /// Creates the error for a response with this code, and a `Status` or another body.
    pub(crate) fn of(code: u16, body: &[u8], about: &str) -> Self {
        let status: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| status.get(name).and_then(Value::as_str);
        let message = text("message").map_or_else(
            || {
                String::from_utf8_lossy(body.get(..MAX_ERROR_BYTES).unwrap_or(body))
                    .trim()
                    .to_owned()
            },
            str::to_owned,
        );
        let message = one_line(&format!("{about}: {code}: {message}"), MAX_ERROR_BYTES);
        match (code, text("reason")) {
            (404 | 410, _) => Self::NotFound(message),
            (409, Some("AlreadyExists")) => Self::AlreadyExists(message),
            (409, _) => Self::Conflict(message),
            (401, _) => Self::Unauthorized(message),
            (403, _) => Self::Forbidden(message),
            (400 | 405 | 413 | 415 | 422, _) => Self::Invalid(message),
            _ => Self::Unavailable(message),
        }
    }
}

/// The answer of a request, later.
pub type ApiFuture<'a, T> = BoxFuture<'a, Result<T, ApiError>>;

/// An API server. Every request ends within [`REQUEST_TIMEOUT`].
pub trait Api: Send + Sync {
    /// Returns the time of the API server from its last response. It is decisive for certificates: API
    /// servers verify them.
    fn date(&self) -> Option<SystemTime>;

    /// Reads one object.
    fn get<'a>(&'a self, kind: Kind, namespace: &'a str, name: &'a str) -> ApiFuture<'a, Value>;

    /// Returns the objects of a namespace (or of the cluster) with a label `key=value`.
    fn list<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        label: (&'a str, &'a str),
    ) -> ApiFuture<'a, Vec<Value>>;

    /// Makes an object that must not exist; gives it as it was stored.
    fn create<'a>(&'a self, kind: Kind, namespace: &'a str, object: Value) -> ApiFuture<'a, Value>;

    /// Replaces the version of an object that `metadata.resourceVersion` names, and no other; gives it as it
    /// was stored.
    fn replace<'a>(&'a self, kind: Kind, namespace: &'a str, object: Value)
    -> ApiFuture<'a, Value>;

    /// Changes the fields that `patch` has, if the object has the version that the patch names; gives it as it
    /// was stored.
    fn merge<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        name: &'a str,
        patch: Value,
    ) -> ApiFuture<'a, Value>;

    /// Deletes this version of an object, and no other.
    fn delete<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        name: &'a str,
        version: &'a str,
    ) -> ApiFuture<'a, ()>;
}

/// Returns the text at a path of an object (`/metadata/name`), or nothing.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns `metadata.resourceVersion`.
#[must_use]
pub fn version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// Returns the value of an annotation, or nothing.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the value of a label, or nothing.
#[must_use]
pub fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    let labels = object.pointer("/metadata/labels");
    labels.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// A real one.
#[derive(Clone)]
pub struct ApiServer {
    client: Client,
    date: Arc<Mutex<Option<SystemTime>>>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Creates a client for a connection, with its credentials.
    #[must_use]
    pub fn of(connection: &Connection) -> Self {
        Self { client: connection.client(), date: Arc::default() }
    }

    async fn send(
        &self,
        method: &str,
        path: String,
        body: Option<Value>,
    ) -> Result<Value, ApiError> {
        let about = format!("{method} {}", path.split('?').next().unwrap_or_default());
        let lost = |why: String| {
            ApiError::Unavailable(one_line(&format!("{about}: {why}"), MAX_ERROR_BYTES))
        };
        let asking = async {
            let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
            let media =
                if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .header(http::header::CONTENT_TYPE, media)
                .header(http::header::ACCEPT, "application/json")
                .body(Body::from(bytes))
                .map_err(|e| ApiError::Invalid(format!("{about}: {e}")))?;
            let response = self.client.send(request).await.map_err(|e| lost(with_causes(&e)))?;
            let code = response.status();
            let date = response.headers().get(http::header::DATE);
            let date = date.and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
            *self.date.lock() = date;
            let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
            let body = body.map_err(|e| lost(e.to_string()))?.to_bytes();
            if !code.is_success() {
                return Err(ApiError::of(code.as_u16(), &body, &about));
            }
            serde_json::from_slice(&body).map_err(|e| lost(format!("no JSON: {e}")))
        };
        let response = tokio::time::timeout(REQUEST_TIMEOUT, asking).await;
        response.unwrap_or_else(|_| {
            Err(lost(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())))
        })
    }
}

impl Api for ApiServer {
    fn date(&self) -> Option<SystemTime> {
        *self.date.lock()
    }

    fn get<'a>(&'a self, kind: Kind, namespace: &'a str, name: &'a str) -> ApiFuture<'a, Value> {
        let path = format!("{}/{name}", kind.path(namespace));
        Box::pin(self.send("GET", path, None))
    }

    fn list<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        (key, value): (&'a str, &'a str),
    ) -> ApiFuture<'a, Vec<Value>> {
        // Keys and values are names: `/` is the only character that is not plain in a query.
        let key = key.replace('/', "%2F");
        let path = format!(
            "{}?labelSelector={key}%3D{value}&limit={MAX_LIST_OBJECTS}",
            kind.path(namespace)
        );
        Box::pin(async move {
            let mut list = self.send("GET", path, None).await?;
            Ok(match list.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            })
        })
    }

    fn create<'a>(&'a self, kind: Kind, namespace: &'a str, object: Value) -> ApiFuture<'a, Value> {
        Box::pin(self.send("POST", kind.path(namespace), Some(object)))
    }

    fn replace<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        object: Value,
    ) -> ApiFuture<'a, Value> {
        let path = format!("{}/{}", kind.path(namespace), text(&object, "/metadata/name"));
        Box::pin(async move {
            if version(&object).is_empty() {
                return Err(ApiError::Invalid(format!("PUT {path}: no version to replace")));
            }
            self.send("PUT", path, Some(object)).await
        })
    }

    fn merge<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        name: &'a str,
        patch: Value,
    ) -> ApiFuture<'a, Value> {
        Box::pin(self.send("PATCH", format!("{}/{name}", kind.path(namespace)), Some(patch)))
    }

    fn delete<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        name: &'a str,
        version: &'a str,
    ) -> ApiFuture<'a, ()> {
        let path = format!("{}/{name}", kind.path(namespace));
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": version},
        });
        Box::pin(async move { self.send("DELETE", path, Some(options)).await.map(drop) })
    }
}
