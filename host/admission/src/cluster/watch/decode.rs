//! Decodes messages of an API server: a line of a watch, a page of a list, and errors.
//!
//! ```text
//! line ─▶ Event ────▶ ResourceCache: an object applied or deleted, a bookmark; the version advances
//! page ─▶ PageReader ─▶ item ─▶ Listing: its objects, one after the other; the token of the next page
//!           └──────▶ ApiError
//! ```
//!
//! Tenants write the content, which can have any nesting and repetition.

use std::string::FromUtf8Error;
use std::time::Duration;

use opgate_cluster::Key;
use opgate_document::{Document, Kind as ValueKind};

use crate::cluster::reservations::is_newer;
use crate::cluster::store::cache::{Change, key_of};
use crate::cluster::watch::list_splitter::ListSplitter;
use crate::cluster::{ResolvedRead, ResourceCache};
use opgate_text::one_line;

/// Maximum bytes of an object, in a list or as an event. An API server accepts requests of 3 MiB, and
/// one byte can become six in JSON.
pub(in crate::cluster) const MAX_OBJECT_BYTES: u64 = 32 << 20;

/// A line of a watch.
#[derive(Debug)]
pub(crate) struct Event {
    /// The version of its object.
    version: String,
    content: EventContent,
}

#[derive(Debug)]
enum EventContent {
    /// An object was added or has changed; none without a name.
    Changed(Option<Box<Change>>),
    /// An object was deleted.
    Deleted(Option<Key>, String),
    Bookmark,
    Error(ApiError),
}

impl Event {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is no event.
    pub(crate) fn read(reading: &ResolvedRead, line: Vec<u8>) -> Result<Self, ApiError> {
        let document = read_document(line)?;
        let text = |pointer: &str| document.get(pointer).and_then(|v| v.text()).unwrap_or_default();
        let news = match (text("/type"), document.get("/object")) {
            ("ADDED" | "MODIFIED", Some(object)) => {
                EventContent::Changed(reading.read_change(object, "").map(Box::new))
            }
            ("DELETED", Some(object)) => {
                EventContent::Deleted(key_of(object, ""), text("/object/metadata/uid").to_owned())
            }
            ("BOOKMARK", _) => EventContent::Bookmark,
            ("ERROR", _) => {
                let code = document.get("/object/code").and_then(|c| c.integer());
                let code = u16::try_from(code.unwrap_or_default()).unwrap_or_default();
                EventContent::Error(ApiError::from_status(code, text("/object/message")))
            }
            (other, _) => {
                let other = one_line(other, 32);
                EventContent::Error(ApiError::Other(format!("an event of type {other:?}")))
            }
        };
        Ok(Self { version: text("/object/metadata/resourceVersion").to_owned(), content: news })
    }

    /// Applies it to a kind, with its version.
    ///
    /// # Errors
    /// If it is an error, or the server was reset to an earlier state.
    pub(crate) fn apply_to(
        self,
        kind: &ResourceCache,
        version: &mut String,
    ) -> Result<(), ApiError> {
        let Self { version: now, content: news } = self;
        if is_newer(version, &now) && !matches!(news, EventContent::Error(_)) {
            return Err(ApiError::Gone);
        }
        match news {
            EventContent::Changed(Some(change)) => kind.apply_change(*change),
            EventContent::Deleted(Some(key), uid) => kind.delete(&key, &now, &uid),
            // An API server has no objects without a name.
            EventContent::Changed(None) | EventContent::Deleted(None, _) => {}
            EventContent::Bookmark => kind.record_bookmark(&now),
            EventContent::Error(trouble) => return Err(trouble),
        }
        if !now.is_empty() {
            *version = now;
        }
        Ok(())
    }
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

/// Maximum bytes of a page without its objects.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// The text of a page as it arrives.
#[derive(Debug, Default)]
pub(crate) struct PageReader {
    splitter: ListSplitter,
    count: usize,
}

impl PageReader {
    /// Returns the text of the next object, if these bytes complete it. `bytes` are then the rest.
    ///
    /// # Errors
    /// If it is too large.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, ApiError> {
        let item = self.splitter.next(bytes);
        let held = item.as_ref().map_or(self.splitter.item_bytes(), Vec::len);
        if u64::try_from(held).is_ok_and(|held| held >= MAX_OBJECT_BYTES) {
            return Err(ApiError::Other(format!(
                "an object of more than {MAX_OBJECT_BYTES} bytes"
            )));
        }
        if self.splitter.frame_bytes() > MAX_FRAME_BYTES {
            let text =
                format!("a response of more than {MAX_FRAME_BYTES} bytes without its objects");
            return Err(ApiError::Other(text));
        }
        self.count = self.count.saturating_add(usize::from(item.is_some()));
        Ok(item)
    }

    /// The number of objects so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The bytes of the object that is not complete.
    pub(crate) fn item_bytes(&self) -> usize {
        self.splitter.item_bytes()
    }

    /// The metadata after all objects.
    ///
    /// # Errors
    /// If it was no page, or a part of one.
    pub(crate) fn finish(self) -> Result<Page, ApiError> {
        let Self { splitter: split, count } = self;
        let none = || ApiError::Other("the API server's answer is no list".to_owned());
        let page = read_document(split.finish().ok_or_else(none)?)?;
        // Go writes an empty list as null.
        let items = page.get("/items").ok_or_else(none)?;
        if !matches!(
            (items.kind(), items.length()),
            (ValueKind::Null, _) | (ValueKind::List, Some(0))
        ) {
            return Err(none());
        }
        let text = |pointer: &str| page.get(pointer).and_then(|v| v.text()).unwrap_or_default();
        let (next, version) = (text("/metadata/continue"), text("/metadata/resourceVersion"));
        Ok(Page { count, next: next.to_owned(), version: version.to_owned() })
    }
}

/// Reads an object of a list. One without a namespace gets `namespace`.
pub(crate) fn read_item(
    reading: &ResolvedRead,
    item: Vec<u8>,
    namespace: &str,
) -> Result<Option<Change>, ApiError> {
    Ok(reading.read_change(read_document(item)?.root(), namespace))
}

/// Bytes that are not UTF-8 become U+FFFD: a client that writes protobuf can store anything in
/// `managedFields`.
pub(in crate::cluster) fn read_document(json: Vec<u8>) -> Result<Document, ApiError> {
    let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Document::parse_deep(String::from_utf8(json).unwrap_or_else(lossy))
        .map_err(|e| ApiError::Other(format!("the API server's answer is not JSON: {e}")))
}

/// The error of one request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The API server does not know the resource.
    #[error("the API server does not know the resource")]
    Absent,
    /// The version to continue from is too old, or in the future.
    #[error("the requested version is no longer available")]
    Gone,
    /// As [`Gone`](Self::Gone), with a token that continues the list after its last page, in the current version.
    #[error("the requested version is no longer available")]
    Expired(String),
    /// The API server asks for a pause.
    #[error("429: {message}")]
    Busy {
        /// The pause.
        pause: Duration,
        /// The text of the response.
        message: String,
    },
    /// Watches without any message.
    #[error("the watch returns no messages")]
    Silence,
    /// The API server does not accept the credentials.
    #[error("the API server does not accept the credentials (401: {0})")]
    Unauthorized(String),
    /// Objects that were kept by name can be read.
    #[error("there is memory again for objects that are kept by name")]
    Memory,
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The resource cannot be watched, or not even listed.
    #[error("{0}")]
    NotAllowed(String),
    /// The API server cannot serve the resource now.
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Other(String),
}

impl ApiError {
    /// The text for users, with the missing permission, or how to fix the token.
    pub(in crate::cluster) fn message_for(&self, kind: &ResourceCache) -> String {
        let on = match self {
            Self::Forbidden(_) if kind.resource().is_server_version() => "get on /version",
            // Only lists are needed.
            Self::Forbidden(_) if kind.is_polled() => "list on it",
            Self::Forbidden(_) => "list and watch on it",
            Self::Unauthorized(why) => return token_rejected_text(why),
            _ => return self.to_string(),
        };
        format!("{self}; grant {on} to the service account of opgate")
    }

    /// The error of a response with this code.
    pub(in crate::cluster) fn from_status(code: u16, message: &str) -> Self {
        let message = one_line(message, 512);
        match code {
            404 => Self::Absent,
            410 => Self::Gone,
            429 => Self::Busy { pause: Duration::ZERO, message },
            // The request is for the changes after a version that the server has not reached, or
            // no longer has.
            504 if message.contains("Too large resource version") => Self::Gone,
            401 => Self::Unauthorized(message),
            403 => Self::Forbidden(message),
            405 => Self::NotAllowed(format!("{code}: {message}")),
            503 => Self::Unavailable(format!("{code}: {message}")),
            _ => Self::Other(format!("{code}: {message}")),
        }
    }
}

/// The text for a response with 401. No grant helps: the API server cannot identify the client.
pub(in crate::cluster) fn token_rejected_text(why: &str) -> String {
    format!(
        "the API server does not accept the token of opgate (401: {why}): it has expired, its ServiceAccount or Pod \
         was deleted, or audience or clocks differ; check that `kubectl get serviceaccount` shows it and that the \
         token volume of the pod is current, then replace the pod"
    )
}
