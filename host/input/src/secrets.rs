//! The parts of Secrets that policies see: names, types, and the names of keys.
//!
//! ```text
//! review of a Secret ─▶ redact ─▶ metadata, type ──────────────────▶ unchanged
//!                                 annotations ─▶ names, and digests of the values
//!                                 data ─┬▶ .dockerconfigjson, … ─▶ names of the hosts, and a digest
//!                                       └▶ any other value ──────▶ a digest
//! review of a bundle ─▶ redact_files ─▶ its Secrets as above, all else unchanged
//! ```
//!
//! A policy cannot put a value that it does not receive into a message, log line or audit annotation. The caller
//! chooses the digest: it shows that a value changes, and must not let readers guess the value.

use std::fmt::Write as _;
use std::sync::Arc;

use opgate_compat::go::base64;
use opgate_document::{Account, Charge, Document, Kind, Text, Value};

/// Computes a text that is equal for equal bytes.
pub type Digest<'d> = &'d dyn Fn(&[u8]) -> String;

/// Members of a Secret that are shown unchanged.
const VISIBLE_MEMBERS: [&str; 4] = ["apiVersion", "kind", "type", "immutable"];

const METADATA: &str = "metadata";

/// Values by name, in base64 and not.
const DATA: &str = "data";
const STRING_DATA: &str = "stringData";

const ANNOTATIONS: &str = "annotations";

/// Key of a docker configuration whose hosts are members of `auths`.
pub const DOCKER_CONFIG_JSON: &str = ".dockerconfigjson";
/// Key of a docker configuration whose hosts are members of the file itself.
pub const DOCKER_CONFIG: &str = ".dockercfg";

/// The member with the digest of a docker configuration.
const DIGEST_MEMBER: &str = "opgate.dev/digest";

/// How the values of one document are replaced.
struct Redactor<'r> {
    digest: Digest<'r>,
    account: Option<&'r Arc<Account>>,
}

impl Redactor<'_> {
    fn write(&self, secret: Value<'_>, json: &mut String) {
        let is_kept = |name: &str| {
            VISIBLE_MEMBERS.contains(&name) || [METADATA, DATA, STRING_DATA].contains(&name)
        };
        write_filtered_object(secret, json, is_kept, |name, member, json| match name {
            METADATA => self.write_metadata(member, json),
            DATA | STRING_DATA => write_object(member, json, |key, value, json| {
                write_string(self.redact_value(key, value, name == DATA).as_deref(), json);
            }),
            _ => json.push_str(&member.raw()),
        });
    }

    /// Writes all metadata except for copies of the object. Tools keep a copy of the object that they
    /// applied in an annotation, with all values: kubectl, kapp, Rancher, Banzai Cloud and others,
    /// each under a different name, some compressed. No rule reads an annotation of a Secret, so all
    /// are treated alike: each is replaced by its name and a digest that shows changes.
    fn write_metadata(&self, metadata: Value<'_>, json: &mut String) {
        write_filtered_object(
            metadata,
            json,
            |name| name != "managedFields",
            |name, member, json| {
                if name == ANNOTATIONS {
                    write_object(member, json, |_, value, json| {
                        write_string(
                            value.text().map(|text| (self.digest)(text.as_bytes())).as_deref(),
                            json,
                        );
                    });
                } else {
                    json.push_str(&member.raw());
                }
            },
        );
    }

    /// The replacement of a value; none if the value is not a text.
    fn redact_value(&self, name: &str, value: Value<'_>, is_encoded: bool) -> Option<String> {
        let text = value.text()?;
        let mut bytes = Vec::new();
        if !is_encoded {
            bytes.extend_from_slice(text.as_bytes());
        } else if base64::decode(text, &mut bytes).is_err() {
            // Not base64 either.
            return Some(format!("!{}", (self.digest)(text.as_bytes())));
        }
        let digest = (self.digest)(&bytes);
        let shown = match name {
            DOCKER_CONFIG_JSON | DOCKER_CONFIG => {
                self.docker_hosts(name, &bytes, &digest).unwrap_or_else(|| digest.clone())
            }
            _ => digest,
        };
        Some(if is_encoded { encode_base64(shown.as_bytes()) } else { shown })
    }

    /// A docker configuration reduced to the names of its hosts; none if it is no such file.
    fn docker_hosts(&self, name: &str, bytes: &[u8], digest: &str) -> Option<String> {
        let json = str::from_utf8(bytes).ok()?.to_owned();
        let charge = self.account.map(Charge::on).unwrap_or_default();
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
}

/// Returns the visible parts of a Secret; an empty document if there is no memory for it, which the account
/// records.
#[must_use]
pub fn redact(secret: &Document, digest: Digest<'_>) -> Document {
    let account = secret.account();
    let redactor = Redactor { digest, account };
    let mut json = String::new();
    redactor.write(secret.root(), &mut json);
    charged_document(json, account)
}

/// Returns the visible parts of a document that represents files (`opgate.dev`): Secrets among its
/// documents are reduced like Secrets under review. `None` if there are none.
#[must_use]
pub fn redact_files(bundle: &Document, digest: Digest<'_>) -> Option<Document> {
    let files = bundle.get("/spec/files")?;
    let has_secret = |file: Value<'_>| {
        file.get("/documents").is_some_and(|documents| documents.items().any(is_secret_object))
    };
    if !files.items().any(has_secret) {
        return None;
    }
    let account = bundle.account();
    let redactor = Redactor { digest, account };
    let mut json = String::new();
    write_members(bundle.root(), &mut json, |name, spec, json| match name {
        "spec" => write_members(spec, json, |name, files, json| match name {
            "files" => write_items(files, json, |file, json| {
                write_members(file, json, |name, documents, json| match name {
                    "documents" => write_items(documents, json, |document, json| {
                        if is_secret_object(document) {
                            redactor.write(document, json);
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

/// Returns bytes in base64 with padding.
#[must_use]
pub fn encode_base64(bytes: &[u8]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_base64() {
        for (text, expected) in
            [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("\u{ff}?>", "w78/Pg==")]
        {
            assert_eq!(encode_base64(text.as_bytes()), expected, "{text}");
        }
    }
}
