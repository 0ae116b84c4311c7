//! The content of the ledger, and its text.
//!
//! ```text
//! {"checksum": "…",          of the exact text of "ledger": other writers are detected
//!  "ledger": {
//!    "format": 1,
//!    "revision": 7,          one more with each write: of two states, the newer one is known
//!    "established": "…",     the uid of the object, once no entry of a lost ledger can be stored
//!    "versions": {"group/resource": 1234},
//!    "entries": [{"id": {"replica": "…", "number": 3}, …}]}}
//! ```
//!
//! `versions` has a *watermark* for each resource: the ledger no longer has the changes that were
//! stored up to this version. An evaluation of an older view may miss them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::change::{Content, EntryId, ReplicaId, Resource, Tenant, digest};
use crate::limits::Usage;

/// Maximum size of the text.
pub const MAX_DOCUMENT_BYTES: usize = 512 << 10;

/// Maximum number of resources with a watermark. They are the resources that policies query.
pub const MAX_RESOURCES: usize = 128;

/// Maximum of `hold`. An entry with more is not from an opgate server.
pub const MAX_HOLD: Duration = Duration::from_secs(120);

/// The format of the text.
const FORMAT: u32 = 1;

/// Bytes of an entry besides its texts: field names, quotes, numbers of 20 digits.
const ENTRY_BYTES: usize = 224;

/// A change that a replica allows, or has allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// Its identity.
    pub id: EntryId,
    /// The number of times it was extended for a further equal request.
    pub renewal: u32,
    /// The tenant that makes the change.
    pub tenant: Tenant,
    /// The resource of the object.
    pub resource: Resource,
    /// The namespace of the object; empty for a cluster-scoped one.
    pub namespace: Box<str>,
    /// The name of the object.
    pub name: Box<str>,
    /// The uids of a new object, one for each request. Empty if they are unknown or too many: then
    /// no uid identifies the object.
    pub uids: Vec<Box<str>>,
    /// The `resourceVersion` that is changed; empty for a new object.
    pub base_version: Box<str>,
    /// The milliseconds after this entry was written until which the change can be stored.
    pub hold: u64,
    /// The new state of the object.
    pub content: Content,
}

impl Entry {
    /// Whether the object is created, not changed.
    pub fn is_creation(&self) -> bool {
        self.base_version.is_empty()
    }

    /// The time after the import for which the change can be stored.
    pub fn hold(&self) -> Duration {
        Duration::from_millis(self.hold)
    }

    /// An upper bound of the size of the text.
    pub(crate) fn size(&self) -> usize {
        let uids: usize = self.uids.iter().map(|uid| text_size(uid) + 3).sum();
        let texts = [
            self.id.replica.as_str(),
            &self.tenant.namespace,
            &self.tenant.user,
            self.resource.as_str(),
            &self.namespace,
            &self.name,
            &self.base_version,
            self.content.text(),
        ];
        ENTRY_BYTES + uids + texts.into_iter().map(text_size).sum::<usize>()
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage { entries: 1, bytes: self.size() }
    }
}

/// The size of a text in JSON, without quotes.
fn text_size(text: &str) -> usize {
    let size = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(size).sum()
}

/// One state of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Document {
    /// The number of writes so far.
    pub revision: u64,
    /// The uid of the object of the ledger, once this was the ledger for long enough that no change
    /// of an earlier one can still be stored. A copy in another object has the wrong uid.
    pub established: Option<Box<str>>,
    /// The watermarks.
    pub versions: BTreeMap<Resource, u64>,
    /// The entries.
    pub entries: BTreeMap<EntryId, Arc<Entry>>,
}

/// The reason why a text is not a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DocumentError {
    /// The text has another syntax.
    #[error("the ledger is not in the format of opgate: {0}")]
    Syntax(String),
    /// The text was written by a later version of opgate. It is not replaced.
    #[error("the ledger has format {0}: this version of opgate reads format {FORMAT}")]
    Format(u64),
    /// The text was changed by another writer.
    #[error("the ledger was changed by another writer: its checksum is {found}, not {expected}")]
    Checksum {
        /// The checksum in the text.
        found: String,
        /// The checksum of the text.
        expected: String,
    },
    /// A limit is exceeded.
    #[error("the ledger has {value} {what}: at most {limit} are possible")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// Two entries have the same identity.
    #[error("the ledger has entry {number} of replica {replica:?} twice")]
    Duplicate {
        /// The replica.
        replica: ReplicaId,
        /// The number.
        number: u64,
    },
    /// An older state was written again.
    #[error("the ledger went back from revision {from} to {to}")]
    WentBack {
        /// The revision that was seen.
        from: u64,
        /// The revision that is there.
        to: u64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'t> {
    checksum: String,
    #[serde(borrow)]
    ledger: &'t RawValue,
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u64,
}

#[derive(Serialize)]
struct LedgerText<'d> {
    format: u32,
    revision: u64,
    established: Option<&'d str>,
    versions: &'d BTreeMap<Resource, u64>,
    entries: Vec<&'d Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnedLedgerText {
    #[serde(rename = "format")]
    _format: u32,
    revision: u64,
    established: Option<Box<str>>,
    versions: BTreeMap<Resource, u64>,
    entries: Vec<Entry>,
}

impl Document {
    /// The text to store.
    ///
    /// # Errors
    /// If it is too large, which the limits of the machine prevent.
    pub fn encode(&self) -> Result<String, DocumentError> {
        let text = LedgerText {
            format: FORMAT,
            revision: self.revision,
            established: self.established.as_deref(),
            versions: &self.versions,
            entries: self.entries.values().map(|entry| &**entry).collect(),
        };
        let text = serde_json::to_string(&text).map_err(|error| syntax(&error))?;
        let text = format!(r#"{{"checksum":"{}","ledger":{text}}}"#, digest(text.as_bytes()));
        check("bytes", text.len(), MAX_DOCUMENT_BYTES)?;
        Ok(text)
    }

    /// Reads the stored text.
    ///
    /// # Errors
    /// If it is not the ledger as a replica wrote it.
    pub fn decode(text: &str) -> Result<Self, DocumentError> {
        check("bytes", text.len(), MAX_DOCUMENT_BYTES)?;
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        let expected = digest(envelope.ledger.get().as_bytes());
        if envelope.checksum != expected {
            return Err(DocumentError::Checksum { found: envelope.checksum, expected });
        }
        let any: AnyFormat =
            serde_json::from_str(envelope.ledger.get()).map_err(|error| syntax(&error))?;
        if any.format != u64::from(FORMAT) {
            return Err(DocumentError::Format(any.format));
        }
        let ledger: OwnedLedgerText =
            serde_json::from_str(envelope.ledger.get()).map_err(|error| syntax(&error))?;
        check("watermarks", ledger.versions.len(), MAX_RESOURCES)?;
        let mut entries = BTreeMap::new();
        for entry in ledger.entries {
            if entry.hold() > MAX_HOLD {
                let limit = u64::try_from(MAX_HOLD.as_millis()).unwrap_or(u64::MAX);
                let what = "milliseconds of an entry";
                return Err(DocumentError::Limit { what, value: entry.hold, limit });
            }
            let id = entry.id.clone();
            if entries.insert(id.clone(), Arc::new(entry)).is_some() {
                return Err(DocumentError::Duplicate { replica: id.replica, number: id.number });
            }
        }
        let OwnedLedgerText { revision, established, versions, .. } = ledger;
        Ok(Self { revision, established, versions, entries })
    }

    /// Number and bytes of all entries.
    pub fn usage(&self) -> Usage {
        self.entries.values().fold(Usage::default(), |usage, entry| usage.plus(entry.usage()))
    }

    /// Raises the watermark of a resource to at least this version.
    pub(crate) fn raise_version(&mut self, resource: &Resource, version: u64) {
        let watermark = self.versions.entry(resource.clone()).or_default();
        *watermark = version.max(*watermark);
    }
}

fn syntax(error: &serde_json::Error) -> DocumentError {
    DocumentError::Syntax(error.to_string())
}

fn check(what: &'static str, value: usize, limit: usize) -> Result<(), DocumentError> {
    if value <= limit {
        return Ok(());
    }
    let number = |number| u64::try_from(number).unwrap_or(u64::MAX);
    Err(DocumentError::Limit { what, value: number(value), limit: number(limit) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, text: &str) -> Entry {
        Entry {
            id: EntryId { replica: ReplicaId::new("a\"1"), number },
            renewal: u32::MAX,
            tenant: Tenant { namespace: "team\n".into(), user: "é\\".into() },
            resource: Resource::new("apps/deployments"),
            namespace: "team".into(),
            name: "web".into(),
            uids: vec!["u-1".into(), "u-2".into()],
            base_version: "".into(),
            hold: 120_000,
            content: Content::of(text, 64),
        }
    }

    fn document() -> Document {
        let entries = [entry(u64::MAX, r#"{"a":"b"}"#), entry(2, &"x".repeat(65))];
        Document {
            revision: 7,
            established: Some("uid".into()),
            versions: BTreeMap::from([(Resource::new("apps/deployments"), 12)]),
            entries: entries.into_iter().map(|e| (e.id.clone(), Arc::new(e))).collect(),
        }
    }

    #[test]
    fn decoded_text_equals_the_encoded_document() {
        let text = document().encode().unwrap();
        assert_eq!(Document::decode(&text), Ok(document()));
    }

    #[test]
    fn size_is_an_upper_bound() {
        for entry in document().entries.values() {
            let text = serde_json::to_string(entry).unwrap();
            assert!(text.len() < entry.size(), "{} {}: {text}", text.len(), entry.size());
            assert!(entry.size() < text.len() + 64, "{} {}: {text}", text.len(), entry.size());
        }
    }

    #[test]
    fn edited_text_is_detected() {
        let text = document().encode().unwrap();
        let edited = text.replace("\"revision\":7", "\"revision\":8");
        assert!(matches!(Document::decode(&edited), Err(DocumentError::Checksum { .. })));
        let formatted = text.replace("\"revision\":7", "\"revision\": 7");
        assert!(matches!(Document::decode(&formatted), Err(DocumentError::Checksum { .. })));
        assert!(matches!(Document::decode("{}"), Err(DocumentError::Syntax(_))));
    }

    #[test]
    fn text_out_of_bounds_is_rejected() {
        let encode = |ledger: &str| {
            format!(r#"{{"checksum":"{}","ledger":{ledger}}}"#, digest(ledger.as_bytes()))
        };
        let later = encode(r#"{"format":2,"anything":1}"#);
        assert_eq!(Document::decode(&later), Err(DocumentError::Format(2)));

        let mut long = document();
        let held = Entry { hold: 120_001, ..entry(3, "x") };
        long.entries.insert(held.id.clone(), Arc::new(held));
        let text = long.encode().unwrap();
        assert!(matches!(Document::decode(&text), Err(DocumentError::Limit { .. })));

        let one = serde_json::to_string(&entry(1, "x")).unwrap();
        let twice = encode(&format!(
            r#"{{"format":1,"revision":1,"established":null,"versions":{{}},"entries":[{one},{one}]}}"#
        ));
        assert!(matches!(Document::decode(&twice), Err(DocumentError::Duplicate { .. })));

        let large = " ".repeat(MAX_DOCUMENT_BYTES + 1);
        assert!(matches!(Document::decode(&large), Err(DocumentError::Limit { .. })));
    }
}
