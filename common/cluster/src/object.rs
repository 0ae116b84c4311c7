//! The stored parts of one object.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash as _, Hasher};
use std::sync::Arc;

use opgate_document::{Document, Text, Value, equal};

use crate::Key;
use crate::labels::Labels;
use crate::tokens::Tokens;
use crate::words::{INDEX_ENTRY_BYTES, MAX_INDEXED_VALUES};

/// The stored parts of one object. Cheap to share, immutable.
#[derive(Debug)]
pub struct Object {
    pub(crate) key: Arc<Key>,
    pub(crate) labels: Labels,
    pub(crate) resource_version: Box<str>,
    pub(crate) uid: Box<str>,
    /// Per index.
    pub(crate) tokens: Box<[Tokens]>,
    pub(crate) text: Arc<Text>,
    pub(crate) _attachment: Option<Attachment>,
}

/// Something that lives as long as an object, such as a charge for its bytes.
pub type Attachment = Box<dyn fmt::Debug + Send + Sync>;

impl Object {
    /// Returns an object of which this text is kept, and nothing to find it by.
    #[must_use]
    pub fn of_text(key: Key, text: Text) -> Self {
        Self {
            key: Arc::new(key),
            labels: Labels::default(),
            resource_version: Box::default(),
            uid: Box::default(),
            tokens: Box::default(),
            text: Arc::new(text),
            _attachment: None,
        }
    }

    /// Returns the namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn shared_key(&self) -> Arc<Key> {
        self.key.clone()
    }

    /// Returns the object with held data.
    #[must_use]
    pub fn with_attachment(self, attachment: Attachment) -> Self {
        Self { _attachment: Some(attachment), ..self }
    }

    /// Returns the object with a namespace, unless it has one.
    #[must_use]
    pub fn with_default_namespace(mut self, namespace: &str) -> Self {
        if self.key.namespace.is_empty() && !namespace.is_empty() {
            self.key = Arc::new(Key::new(namespace, &self.key.name));
        }
        self
    }

    /// Returns `metadata.resourceVersion`, empty if missing.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// Returns `metadata.uid`, empty if missing.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Reports whether the same is kept of both. What is kept of an object has its uid, its version and its
    /// labels in it.
    #[must_use]
    pub fn is_identical(&self, other: &Self) -> bool {
        *self.key == *other.key && **self.text == **other.text && self.tokens == other.tokens
    }

    /// Reports whether the stored parts of both are equal except for their versions: a policy evaluates both
    /// alike.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        if self.is_identical(other) {
            return true;
        }
        if *self.key != *other.key || self.tokens != other.tokens {
            return false;
        }
        self.equals_except(other, &["resourceVersion"])
    }

    /// Reports whether the same is kept of both but for what an API server chooses for each new object: two
    /// requests to create the same object.
    #[must_use]
    pub fn is_copy_of(&self, other: &Self) -> bool {
        const SERVER_FIELDS: [&str; 4] =
            ["resourceVersion", "uid", "creationTimestamp", "managedFields"];
        *self.key == *other.key
            && self.tokens == other.tokens
            && self.equals_except(other, &SERVER_FIELDS)
    }

    /// Reports whether the kept fields are equal, besides some members of the metadata.
    fn equals_except(&self, other: &Self, except: &[&str]) -> bool {
        let (left, right) = (self.document(), other.document());
        let (left, right) = (left.root(), right.root());
        match (left.get("/metadata"), right.get("/metadata")) {
            (Some(ours), Some(theirs)) => {
                equal_except(ours, theirs, except) && equal_except(left, right, &["metadata"])
            }
            _ => false,
        }
    }

    /// Returns the fields that are kept, as a document.
    #[must_use]
    pub fn document(&self) -> Document {
        Document::part(self.text.clone(), 0..self.text.len())
    }

    /// Feeds the key and what is kept to a hasher, except for the version: objects with the same hash are
    /// [equivalent](Self::is_equivalent). Equivalent ones can have different hashes.
    pub fn hash_content(&self, hasher: &mut impl Hasher) {
        self.key.hash(hasher);
        for tokens in &self.tokens {
            tokens.len().hash(hasher);
            tokens.iter().for_each(|token| token.hash(hasher));
        }
        let text: &str = &self.text;
        let version = format!("\"resourceVersion\":\"{}\"", self.resource_version);
        // In the text of a value, quotes have escapes: this is a member.
        match text.split_once(&version) {
            Some(parts) => parts.hash(hasher),
            None => (text, ()).hash(hasher),
        }
    }

    /// Returns a label's value as JSON: with escapes, which no valid value needs.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(&self.text, key)
    }

    /// Returns the bytes that it takes, in a store, in addition to its contents.
    #[must_use]
    pub fn size(&self) -> usize {
        let tokens = self.tokens.iter().map(|tokens| {
            let filed = if tokens.len() > MAX_INDEXED_VALUES { 1 } else { tokens.len() };
            tokens.heap_bytes().saturating_add(filed.saturating_mul(INDEX_ENTRY_BYTES))
        });
        let labels = self.labels.indexed_count().saturating_mul(INDEX_ENTRY_BYTES);
        [
            OBJECT_OVERHEAD_BYTES,
            size_of_val(&*self.tokens),
            self.text.len(),
            self.text.index_size(),
            self.key.namespace.len(),
            self.key.name.len(),
            self.resource_version.len(),
            self.uid.len(),
            self.labels.heap_bytes(),
            labels,
        ]
        .into_iter()
        .chain(tokens)
        .fold(0, usize::saturating_add)
    }
}

/// Bytes of an object without content: its parts, what the allocator adds for each, and its place in a store.
const OBJECT_OVERHEAD_BYTES: usize =
    size_of::<Object>() + size_of::<Key>() + size_of::<Text>() + 192;

/// Reports whether two objects have the same members, besides some.
fn equal_except(left: Value<'_>, right: Value<'_>, except: &[&str]) -> bool {
    let names = |value: Value<'_>| {
        let names = value.members().map(|(name, _)| name.to_owned());
        names.filter(|name| !except.contains(&name.as_str())).collect::<BTreeSet<_>>()
    };
    let is_alike = |name: &String| {
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        equal(left.get(&pointer), right.get(&pointer))
    };
    let ours = names(left);
    ours == names(right) && ours.iter().all(is_alike)
}
