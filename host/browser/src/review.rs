//! Reads the envelope of an AdmissionReview. The objects stay raw text.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use opgate_document::Document;
use opgate_input::secrets::{redact, redact_files};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bindings::types::Operation;
use crate::requests::RequestHandle;

/// The group of documents that represent files.
const FILES_GROUP: &str = "opgate.dev";

/// The reason why a text is no review.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    #[error("not an AdmissionReview: {0}")]
    Shape(#[from] serde_json::Error),
    #[error("not an AdmissionReview: request is missing")]
    NoRequest,
    #[error("request.operation is {0:?}, not CREATE, UPDATE, DELETE or CONNECT")]
    Operation(String),
    #[error("the object is not valid: {0}")]
    Object(String),
}

/// A request for review.
#[derive(Debug)]
pub(crate) struct Review {
    pub(crate) operation: Operation,
    pub(crate) request: RequestHandle,
    pub(crate) object: Option<Arc<Document>>,
    pub(crate) old_object: Option<Arc<Document>>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    request: Option<RequestParts<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RequestParts<'a> {
    uid: Option<String>,
    kind: Option<TypeParts>,
    resource: Option<TypeParts>,
    sub_resource: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    operation: Option<String>,
    user_info: Option<UserParts>,
    dry_run: Option<bool>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TypeParts {
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    resource: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UserParts {
    username: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
}

impl TypeParts {
    /// Whether this is a resource or kind of a group.
    fn is(&self, group: &str, name: Option<&str>, wanted: &str) -> bool {
        self.group.as_deref().unwrap_or_default() == group && name == Some(wanted)
    }
}

/// A text that is equal for equal bytes, as long as that of a server. It needs no key: the values are those of the
/// user, and stay in the browser.
fn digest(bytes: &[u8]) -> String {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(bytes);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

impl Review {
    /// Reads a review.
    pub(crate) fn read(json: &str) -> Result<Self, ReviewError> {
        let envelope: Envelope<'_> = serde_json::from_str(json)?;
        let parts = envelope.request.ok_or(ReviewError::NoRequest)?;
        let operation = match parts.operation.as_deref().unwrap_or_default() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            other => return Err(ReviewError::Operation(opgate_text::one_line(other, 128))),
        };
        let kind = parts.kind.unwrap_or_default();
        let resource = parts.resource.unwrap_or_default();
        let is_secret = resource.is("", resource.resource.as_deref(), "secrets")
            || kind.is("", kind.kind.as_deref(), "Secret");
        let is_of_files = resource.group.as_deref() == Some(FILES_GROUP);
        let visible = |document: Document| match (is_secret, is_of_files) {
            (true, _) => redact(&document, &digest),
            (false, true) => redact_files(&document, &digest).unwrap_or(document),
            (false, false) => document,
        };
        let document = |part: Option<&RawValue>| {
            let text = part.map(RawValue::get).filter(|text| *text != "null");
            let document = text.map(|text| Document::of(text.to_owned())).transpose();
            let document = document.map_err(|error| ReviewError::Object(error.to_string()))?;
            Ok::<_, ReviewError>(document.map(|document| Arc::new(visible(document))))
        };
        let (object, old_object) = (document(parts.object)?, document(parts.old_object)?);
        let user = parts.user_info.unwrap_or_default();
        let mut name = parts.name.unwrap_or_default();
        if name.is_empty() {
            let own = |document: &Arc<Document>| {
                document.get("/metadata/name").and_then(|name| name.text()).map(str::to_owned)
            };
            name = old_object.iter().chain(&object).find_map(own).unwrap_or_default();
        }
        let texts = |group: Option<String>, version: Option<String>, name: Option<String>| {
            [group, version, name].map(Option::unwrap_or_default)
        };
        let request = RequestHandle {
            uid: parts.uid.unwrap_or_default(),
            kind: texts(kind.group, kind.version, kind.kind),
            resource: texts(resource.group, resource.version, resource.resource),
            sub_resource: parts.sub_resource.unwrap_or_default(),
            name,
            namespace: parts.namespace.unwrap_or_default(),
            username: user.username.unwrap_or_default(),
            user_uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            dry_run: parts.dry_run.unwrap_or_default(),
        };
        Ok(Self { operation, request, object, old_object })
    }

    /// Whether the object is a Namespace.
    pub(crate) fn is_namespace(&self) -> bool {
        let [group, _, resource] = &self.request.resource;
        group.is_empty() && resource == "namespaces"
    }
}
