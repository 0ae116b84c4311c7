//! The parts of Secrets that policies see: names, types, and the names of keys. Only this module
//! decides it, for Secrets under review and for those that are read from the cluster.
//!
//! ```text
//! review of a Secret ─▶ shown ─▶ metadata, type ──────────────────▶ unchanged
//!                               annotations ─▶ names, and digests of the values
//!                               data ─┬▶ .dockerconfigjson, … ─▶ names of the hosts, and a digest
//!                                     └▶ any other value ──────▶ a digest
//! review of a bundle ─▶ in_files ─▶ its Secrets as above, all else unchanged
//! declared read of Secrets ─▶ check_read ─▶ rejected unless it only reads names and types
//! ```
//!
//! A policy cannot put a value that it does not receive into a message, log line or audit
//! annotation, and no reservation, report or replay can keep it. A digest is computed with a key
//! of this process, so that a policy sees whether a value changes, and no reader can guess the
//! value.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use opgate_compat::go::base64;
use opgate_document::{Account, Charge, Document, Kind, Text, Value};
use opgate_engine::wit;

use super::GroupVersionName;

/// Members of a Secret that are shown unchanged.
const VISIBLE_MEMBERS: [&str; 4] = ["apiVersion", "kind", "type", "immutable"];

const METADATA: &str = "metadata";

/// Values by name, in base64 and not.
const DATA: &str = "data";
const STRING_DATA: &str = "stringData";

const ANNOTATIONS: &str = "annotations";

/// Docker configurations: hosts are members of `auths`, or of the file itself.
const DOCKER_CONFIG_JSON: &str = ".dockerconfigjson";
const DOCKER_CONFIG: &str = ".dockercfg";

/// The member with the digest of a docker configuration.
const DIGEST_MEMBER: &str = "opgate.dev/digest";

/// Whether a request for a resource, with an object of a kind, is for Secrets.
pub(super) fn is_secret(resource: &GroupVersionName<'_>, kind: &GroupVersionName<'_>) -> bool {
    (resource.group.is_empty() && resource.name == "secrets")
        || (kind.group.is_empty() && kind.name == "Secret")
}

/// The visible parts of a Secret; an empty document if there is no memory for it, which the
/// account records.
pub(super) fn redact(secret: &Document) -> Document {
    let account = secret.account();
    let mut json = String::new();
    write_redacted(secret.root(), account, &mut json);
    charged_document(json, account)
}

/// The visible parts of a document that represents files (`opgate.dev`): Secrets among its
/// documents are reduced like Secrets under review. `None` if there are none.
pub(super) fn redact_files(bundle: &Document) -> Option<Document> {
    let files = bundle.get("/spec/files")?;
    let has_secret = |file: Value<'_>| {
        file.get("/documents").is_some_and(|documents| documents.items().any(is_secret_object))
    };
    if !files.items().any(has_secret) {
        return None;
    }
    let account = bundle.account();
    let mut json = String::new();
    write_members(bundle.root(), &mut json, |name, spec, json| match name {
        "spec" => write_members(spec, json, |name, files, json| match name {
            "files" => write_items(files, json, |file, json| {
                write_members(file, json, |name, documents, json| match name {
                    "documents" => write_items(documents, json, |document, json| {
                        if is_secret_object(document) {
                            write_redacted(document, account, json);
                        } else {
                            json.push_str(&document.raw());
                        }
                    }),
                    _ => json.push_str(&documents.raw()),
                });
            }),
            _ => json.push_str(&files.raw()),
        }),
        _ => json.push_str(&spec.raw()),
    });
    Some(charged_document(json, account))
}

/// Whether a value is a Secret.
fn is_secret_object(value: Value<'_>) -> bool {
    value.kind() == Kind::Object
        && value.get("/kind").and_then(|kind| kind.text()) == Some("Secret")
}

/// Writes an object, each member by `each`; another value unchanged.
fn write_members<'v>(
    value: Value<'v>,
    json: &mut String,
    each: impl FnMut(&str, Value<'v>, &mut String),
) {
    if value.kind() == Kind::Object {
        write_object(value, json, each);
    } else {
        json.push_str(&value.raw());
    }
}

/// Writes a list, each item by `each`; another value unchanged.
fn write_items<'v>(
    value: Value<'v>,
    json: &mut String,
    mut each: impl FnMut(Value<'v>, &mut String),
) {
    if value.kind() != Kind::List {
        return json.push_str(&value.raw());
    }
    json.push('[');
    for (index, item) in value.items().enumerate() {
        if index > 0 {
            json.push(',');
        }
        each(item, json);
    }
    json.push(']');
}

/// A document of this account.
fn charged_document(json: String, account: Option<&Arc<Account>>) -> Document {
    let charge = account.map(Charge::on).unwrap_or_default();
    let text = charge.grow(json.len()).then(|| Text::with_charge(json, charge).ok()).flatten();
    let Some(text) = text else { return Document::default() };
    let end = text.len();
    Document::part(Arc::new(text), 0..end)
}

fn write_redacted(secret: Value<'_>, account: Option<&Arc<Account>>, json: &mut String) {
    let is_kept = |name: &str| {
        VISIBLE_MEMBERS.contains(&name) || [METADATA, DATA, STRING_DATA].contains(&name)
    };
    write_filtered_object(secret, json, is_kept, |name, member, json| match name {
        METADATA => write_metadata(member, json),
        DATA | STRING_DATA => write_object(member, json, |key, value, json| {
            write_string(redact_value(key, value, name == DATA, account).as_deref(), json);
        }),
        _ => json.push_str(&member.raw()),
    });
}

/// Writes all metadata except for copies of the object. Tools keep a copy of the object that they
/// applied in an annotation, with all values: kubectl, kapp, Rancher, Banzai Cloud and others,
/// each under a different name, some compressed. No rule reads an annotation of a Secret, so all
/// are treated alike: each is replaced by its name and a digest that shows changes.
fn write_metadata(metadata: Value<'_>, json: &mut String) {
    write_filtered_object(
        metadata,
        json,
        |name| name != "managedFields",
        |name, member, json| {
            if name == ANNOTATIONS {
                write_object(member, json, |_, value, json| {
                    write_string(value.text().map(|text| digest(text.as_bytes())).as_deref(), json);
                });
            } else {
                json.push_str(&member.raw());
            }
        },
    );
}

/// Writes an object, each value by `each`. A Secret has no other objects.
fn write_object<'v>(
    value: Value<'v>,
    json: &mut String,
    each: impl FnMut(&str, Value<'v>, &mut String),
) {
    write_filtered_object(value, json, |_| true, each);
}

fn write_filtered_object<'v>(
    value: Value<'v>,
    json: &mut String,
    is_kept: impl Fn(&str) -> bool,
    mut each: impl FnMut(&str, Value<'v>, &mut String),
) {
    if value.kind() != Kind::Object {
        json.push_str("null");
        return;
    }
    json.push('{');
    for (index, (name, member)) in value.members().filter(|(name, _)| is_kept(name)).enumerate() {
        if index > 0 {
            json.push(',');
        }
        write_string(Some(name), json);
        json.push(':');
        each(name, member, json);
    }
    json.push('}');
}

/// Writes a text, or a non-text value.
fn write_string(text: Option<&str>, json: &mut String) {
    match text {
        Some(text) => json.push_str(&serde_json::Value::from(text).to_string()),
        None => json.push_str("null"),
    }
}

/// The replacement of a value; none if the value is not a text.
fn redact_value(
    name: &str,
    value: Value<'_>,
    is_encoded: bool,
    account: Option<&Arc<Account>>,
) -> Option<String> {
    let text = value.text()?;
    let mut bytes = Vec::new();
    if !is_encoded {
        bytes.extend_from_slice(text.as_bytes());
    } else if base64::decode(text, &mut bytes).is_err() {
        // Not base64 either.
        return Some(format!("!{}", digest(text.as_bytes())));
    }
    let digest = digest(&bytes);
    let shown = match name {
        DOCKER_CONFIG_JSON | DOCKER_CONFIG => {
            docker_hosts(name, &bytes, &digest, account).unwrap_or_else(|| digest.clone())
        }
        _ => digest,
    };
    Some(if is_encoded { encode_base64(shown.as_bytes()) } else { shown })
}

/// A docker configuration reduced to the names of its hosts; none if it is no such file.
fn docker_hosts(
    name: &str,
    bytes: &[u8],
    digest: &str,
    account: Option<&Arc<Account>>,
) -> Option<String> {
    let json = str::from_utf8(bytes).ok()?.to_owned();
    let charge = account.map(Charge::on).unwrap_or_default();
    if !charge.grow(json.len()) {
        return None;
    }
    let file = Document::parse_charged(json, charge).ok()?;
    if file.root().kind() != Kind::Object {
        return None;
    }
    let mut shown = String::new();
    let none = |_: &str, _: Value<'_>, json: &mut String| json.push_str("{}");
    if name == DOCKER_CONFIG {
        write_object(file.root(), &mut shown, |_, _, json| {
            // There is no other position for it.
            let _ = write!(json, "{{\"{DIGEST_MEMBER}\":\"{digest}\"}}");
        });
        return Some(shown);
    }
    shown.push('{');
    if let Some(auths) = file.get("/auths") {
        shown.push_str("\"auths\":");
        write_object(auths, &mut shown, none);
        shown.push(',');
    }
    let _ = write!(shown, "\"{DIGEST_MEMBER}\":\"{digest}\"}}");
    Some(shown)
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

/// Base64 with padding.
fn encode_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for part in bytes.chunks(3) {
        let group = [0, 1, 2].map(|at| u32::from(part.get(at).copied().unwrap_or_default()));
        let bits = (group[0] << 16) | (group[1] << 8) | group[2];
        for place in 0..4_usize {
            let index = usize::try_from((bits >> (18 - 6 * place)) & 63).unwrap_or_default();
            let letter = LETTERS.get(index).filter(|_| place <= part.len());
            text.push(char::from(letter.copied().unwrap_or(b'=')));
        }
    }
    text
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
