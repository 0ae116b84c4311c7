//! A change that a request makes, and the identities of what the replicas share.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Number of bytes of a digest that are kept.
const DIGEST_BYTES: usize = 16;

/// One run of a replica. It differs after each start, so that a restarted replica does not mistake
/// the entries of its predecessor for its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplicaId(Box<str>);

impl ReplicaId {
    /// An identity, for example of the uid of the pod and the time of its start.
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The identity.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryId {
    /// The replica that wrote the entry.
    pub replica: ReplicaId,
    /// The number of the entry at this replica.
    pub number: u64,
}

/// A request that waits for its entry, or whose outcome is unknown. The caller chooses the number;
/// it is free again when the request is outdated, failed or settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The name of a resource with its group, as in `operators.coreos.com/operatorgroups`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resource(Box<str>);

impl Resource {
    /// A resource.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The namespace (empty for cluster-scoped objects) and the user of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// The namespace.
    pub namespace: Box<str>,
    /// The user.
    pub user: Box<str>,
}

/// The state of an object after a change, as policies see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// A projection of the object, in the caller's encoding. Two changes with equal text are the
    /// same change, so it has no value that differs for each request.
    Whole(Box<str>),
    /// The digest of a projection that is too large. Importers read the object directly when it is
    /// stored, and cannot tell before what it contains.
    Reference(Box<str>),
}

impl Content {
    /// The content of a projection, by reference if it has more than `max_bytes`.
    pub(crate) fn of(projection: &str, max_bytes: usize) -> Self {
        if projection.len() <= max_bytes {
            Self::Whole(projection.into())
        } else {
            Self::Reference(digest(projection.as_bytes()).into())
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Whole(text) | Self::Reference(text) => text,
        }
    }
}

/// The change of one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    /// The tenant that makes it.
    pub tenant: Tenant,
    /// The resource of the object.
    pub resource: Resource,
    /// The namespace of the object; empty for a cluster-scoped one.
    pub namespace: Box<str>,
    /// The name of the object.
    pub name: Box<str>,
    /// Whether the object is created, not changed.
    pub is_creation: bool,
    /// The projection of the new state.
    pub projection: Box<str>,
}

/// The digest of a text, in hexadecimal.
pub(crate) fn digest(text: &[u8]) -> String {
    let sum = Sha256::digest(text);
    sum.iter().take(DIGEST_BYTES).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
