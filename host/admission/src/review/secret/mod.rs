//! The parts of Secrets that policies see: names, types, and the names of keys. Only this module decides it, for
//! Secrets under review and for those that are read from the cluster.
//!
//! ```text
//! review of a Secret or a bundle ─▶ opgate_input::secrets, with `digest` ─▶ without values
//! declared read of Secrets ─▶ check_read ─▶ rejected unless it only reads names and types
//! ```
//!
//! A digest is computed with a key of this process, so that a policy sees whether a value changes, and no reader can
//! guess the value. So no reservation, report or replay can keep a value.

use std::fmt::Write as _;
use std::sync::OnceLock;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use opgate_document::Document;
use opgate_engine::wit;
use opgate_input::secrets;

use super::GroupVersionName;

/// Whether a request for a resource, with an object of a kind, is for Secrets.
pub(super) fn is_secret(resource: &GroupVersionName<'_>, kind: &GroupVersionName<'_>) -> bool {
    (resource.group.is_empty() && resource.name == "secrets")
        || (kind.group.is_empty() && kind.name == "Secret")
}

/// The visible parts of a Secret; an empty document if there is no memory for it, which the
/// account records.
pub(super) fn redact(secret: &Document) -> Document {
    secrets::redact(secret, &digest)
}

/// The visible parts of a document that represents files (`opgate.dev`): Secrets among its
/// documents are reduced like Secrets under review. `None` if there are none.
pub(super) fn redact_files(bundle: &Document) -> Option<Document> {
    secrets::redact_files(bundle, &digest)
}

/// A text that is equal for equal bytes, in this process. Without random numbers there is no key
/// and the text is empty: a policy then sees no change, and no reader can guess a value.
fn digest(bytes: &[u8]) -> String {
    static KEY: OnceLock<Option<hmac::Key>> = OnceLock::new();
    let key = KEY.get_or_init(|| hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok());
    let Some(key) = key else { return String::new() };
    hmac::sign(key, bytes).as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The part of a declared read of Secrets that exceeds names and types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SecretReadError(String);

/// Checks a declared read of Secrets: a policy may read their names and types, and the names of
/// their keys.
///
/// # Errors
/// The part that exceeds this.
pub(crate) fn check_read(read: &wit::ClusterRead) -> Result<(), SecretReadError> {
    let more = |what: &str, pointer: &str| {
        Err(SecretReadError(format!(
            "{what} {pointer:?}: of Secrets, a policy reads no more than /type, /immutable and the names of the keys of /data and /stringData"
        )))
    };
    if let Some(field) = read.fields.iter().find(|f| !["/type", "/immutable"].contains(&f.as_str()))
    {
        return more("the field", field);
    }
    if let Some(field) = read.keys.iter().find(|f| !["/data", "/stringData"].contains(&f.as_str()))
    {
        return more("the keys of", field);
    }
    let is_known = |field: &str| ["/type", "/data/#", "/metadata/name"].contains(&field);
    match read.indexes.iter().find(|index| !is_known(&index.field)) {
        Some(index) => more("an index of", &index.field),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
