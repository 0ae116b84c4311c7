//! Decodes what an API server sends: a line of a watch, a page of a list, and errors.
//!
//! ```text
//! line ─▶ event ─▶ Kind: an object applied or deleted, a bookmark; the version moves on
//! page ─▶ page ──▶ Listing: its objects; where the list goes on
//!           └────▶ Trouble
//! ```
//!
//! Tenants write the content, which can have any nesting and repetition.

use std::string::FromUtf8Error;

use opgate_document::Document;

use super::Kind;
use super::kind::key_of;
use super::lens::Listing;
use super::reservations::is_newer;
use opgate_certs::words::causes;
use opgate_text::one_line;

/// Takes over one line of a watch, and its version.
pub(crate) fn event(kind: &Kind, line: Vec<u8>, version: &mut String) -> Result<(), Trouble> {
    let document = read_document(line)?;
    let text = |pointer: &str| document.get(pointer).and_then(|v| v.text()).unwrap_or_default();
    let object = document.get("/object");
    let now = text("/object/metadata/resourceVersion");
    if is_newer(version, now) && text("/type") != "ERROR" {
        // The server was reset to an earlier state.
        return Err(Trouble::Gone);
    }
    match (text("/type"), object) {
        ("ADDED" | "MODIFIED", Some(object)) => kind.apply(object, ""),
        ("DELETED", Some(object)) => {
            // An API server has no objects without a name.
            if let Some(key) = key_of(object, "") {
                kind.delete(&key, now, text("/object/metadata/uid"));
            }
        }
        ("BOOKMARK", _) => kind.bookmark(now),
        ("ERROR", _) => {
            let code = document.get("/object/code").and_then(|c| c.integer()).unwrap_or_default();
            let code = u16::try_from(code).unwrap_or_default();
            return Err(Trouble::of(code, text("/object/message")));
        }
        (other, _) => {
            return Err(Trouble::Other(format!("an event of type {:?}", one_line(other, 32))));
        }
    }
    if !now.is_empty() {
        now.clone_into(version);
    }
    Ok(())
}

/// The metadata of a page.
pub(crate) struct Page {
    /// Number of its objects, stored or not.
    pub(crate) count: usize,
    /// The token to continue the list; empty on its last page.
    pub(crate) next: String,
    /// The version up to which the list is complete.
    pub(crate) version: String,
}

/// Adds the objects of a page to a listing. Objects without a namespace get `namespace`.
pub(crate) fn page(
    kind: &Kind,
    listing: &mut Listing,
    json: Vec<u8>,
    namespace: &str,
) -> Result<Page, Trouble> {
    let page = read_document(json)?;
    let mut count = 0;
    for item in page.get("/items").into_iter().flat_map(|items| items.items()) {
        kind.take(listing, item, namespace);
        count += 1;
    }
    let text = |pointer: &str| page.get(pointer).and_then(|v| v.text()).unwrap_or_default();
    let (next, version) = (text("/metadata/continue"), text("/metadata/resourceVersion"));
    Ok(Page { count, next: next.to_owned(), version: version.to_owned() })
}

/// Bytes that are not UTF-8 become U+FFFD: a client that writes protobuf can store anything in
/// `managedFields`.
fn read_document(json: Vec<u8>) -> Result<Document, Trouble> {
    let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Document::deep(String::from_utf8(json).unwrap_or_else(lossy))
        .map_err(|e| Trouble::Other(format!("the API server's answer is not JSON: {e}")))
}

/// The error of one request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The API server does not know the resource.
    #[error("the API server does not know the resource")]
    Absent,
    /// The version to continue from is too old, or in the future.
    #[error("the history that was asked for is gone")]
    Gone,
    /// Watches without any message.
    #[error("watches say nothing")]
    Silence,
    #[error("forbidden: {0}; grant list and watch on it to the service account of opgate")]
    Forbidden(String),
    #[error("{0}")]
    Other(String),
}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of(status.code, &status.message),
            other => Self::Other(one_line(&causes(&other), 512)),
        }
    }
}

impl Trouble {
    fn of(code: u16, message: &str) -> Self {
        let message = one_line(message, 512);
        match code {
            404 => Self::Absent,
            410 => Self::Gone,
            // The request is for the changes after a version that the server has not reached, or no
            // longer has.
            504 if message.contains("Too large resource version") => Self::Gone,
            403 => Self::Forbidden(message),
            _ => Self::Other(format!("{code}: {message}")),
        }
    }
}
