//! The stored parts of one object.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use opgate_document::{Document, Text, Value, equal};

use crate::Key;
use crate::labels::Labels;
use crate::tokens::Tokens;
use crate::words::{FILED_BYTES, MAX_FILED};

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
    pub(crate) _held: Option<Held>,
}

/// Something that lives as long as an object, such as a charge for its bytes.
pub type Held = Box<dyn fmt::Debug + Send + Sync>;

impl Object {
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
    pub fn holding(self, held: Held) -> Self {
        Self { _held: Some(held), ..self }
    }

    /// Returns the object with a namespace, unless it has one.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
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
    pub fn is_same(&self, other: &Self) -> bool {
        *self.key == *other.key && **self.text == **other.text && self.tokens == other.tokens
    }

    /// Reports whether the stored parts of both are equal except for their versions: a policy evaluates both
    /// alike.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        if self.is_same(other) {
            return true;
        }
        if *self.key != *other.key || self.tokens != other.tokens {
            return false;
        }
        self.agrees_with(other, &["resourceVersion"])
    }

    /// Reports whether the same is kept of both but for what an API server chooses for each new object: two
    /// requests to create the same object.
    #[must_use]
    pub fn is_copy_of(&self, other: &Self) -> bool {
        const CHOSEN: [&str; 4] = ["resourceVersion", "uid", "creationTimestamp", "managedFields"];
        *self.key == *other.key && self.tokens == other.tokens && self.agrees_with(other, &CHOSEN)
    }

    /// Reports whether the kept fields are equal, besides some members of the metadata.
    fn agrees_with(&self, other: &Self, besides: &[&str]) -> bool {
        let (left, right) = (self.document(), other.document());
        let (left, right) = (left.root(), right.root());
        match (left.get("/metadata"), right.get("/metadata")) {
            (Some(ours), Some(theirs)) => {
                alike(ours, theirs, besides) && alike(left, right, &["metadata"])
            }
            _ => false,
        }
    }

    /// Returns the fields that are kept, as a document.
    #[must_use]
    pub fn document(&self) -> Document {
        Document::part(self.text.clone(), 0..self.text.len())
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
            let filed = if tokens.len() > MAX_FILED { 1 } else { tokens.len() };
            tokens.bytes().saturating_add(filed.saturating_mul(FILED_BYTES))
        });
        let labels = self.labels.filed().saturating_mul(FILED_BYTES);
        [
            EACH,
            size_of_val(&*self.tokens),
            self.text.len(),
            self.text.index_size(),
            self.key.namespace.len(),
            self.key.name.len(),
            self.resource_version.len(),
            self.uid.len(),
            self.labels.bytes(),
            labels,
        ]
        .into_iter()
        .chain(tokens)
        .fold(0, usize::saturating_add)
    }
}

/// Bytes of an object without content: its parts, what the allocator adds for each, and its place in a store.
const EACH: usize = size_of::<Object>() + size_of::<Key>() + size_of::<Text>() + 192;

/// Reports whether two objects have the same members, besides some.
fn alike(left: Value<'_>, right: Value<'_>, besides: &[&str]) -> bool {
    let names = |value: Value<'_>| {
        let names = value.members().map(|(name, _)| name.to_owned());
        names.filter(|name| !besides.contains(&name.as_str())).collect::<BTreeSet<_>>()
    };
    let is_alike = |name: &String| {
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        equal(left.get(&pointer), right.get(&pointer))
    };
    let ours = names(left);
    ours == names(right) && ours.iter().all(is_alike)
}
