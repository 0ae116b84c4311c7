//! The previous versions of objects in a sequence of events.

use std::collections::{BTreeMap, HashMap};

/// Maximum bytes of all versions. Those of the oldest events are forgotten first.
const MAX_BYTES: usize = 256 << 20;

/// Maximum bytes of one version. A larger object is no object of an API server.
const MAX_VERSION_BYTES: usize = 32 << 20;

/// Bytes of one version in addition to its text and its key.
const OVERHEAD_BYTES: usize = 512;

/// An object of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ObjectKey {
    pub(super) group: String,
    /// The resource, or the kind where the input does not have it.
    pub(super) resource: String,
    /// Empty for the object itself.
    pub(super) sub_resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ObjectKey {
    /// Returns the object of a sub-resource, or the scale of an object.
    pub(super) fn related(&self) -> Self {
        let sub_resource = if self.sub_resource.is_empty() { "scale" } else { "" };
        Self { sub_resource: sub_resource.to_owned(), ..self.clone() }
    }

    fn size(&self) -> usize {
        let Self { group, resource, sub_resource, namespace, name } = self;
        [group, resource, sub_resource, namespace, name].iter().map(|text| text.len()).sum()
    }
}

/// The last version of each object.
#[derive(Debug)]
pub(super) struct ObjectVersions<V> {
    versions: HashMap<ObjectKey, Version<V>>,
    /// The objects in the order of their last events.
    order: BTreeMap<u64, ObjectKey>,
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Version<V> {
    value: V,
    /// Its position in the order.
    position: u64,
    bytes: usize,
}

impl<V> Default for ObjectVersions<V> {
    fn default() -> Self {
        Self { versions: HashMap::new(), order: BTreeMap::new(), next: 0, bytes: 0 }
    }
}

impl<V> ObjectVersions<V> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&V> {
        self.versions.get(key).map(|version| &version.value)
    }

    /// Replaces the version of an object with one of this size.
    pub(super) fn insert(&mut self, key: ObjectKey, value: V, bytes: usize) {
        self.remove(&key);
        if bytes > MAX_VERSION_BYTES {
            return;
        }
        let key_bytes = key.size().saturating_mul(2);
        let bytes = bytes.saturating_add(key_bytes).saturating_add(OVERHEAD_BYTES);
        self.bytes = self.bytes.saturating_add(bytes);
        self.order.insert(self.next, key.clone());
        self.versions.insert(key, Version { value, position: self.next, bytes });
        self.next = self.next.saturating_add(1);
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(version) = self.versions.remove(key) {
            self.order.remove(&version.position);
            self.bytes = self.bytes.saturating_sub(version.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        let empty = String::new;
        ObjectKey {
            group: empty(),
            resource: "pods".to_owned(),
            sub_resource: empty(),
            namespace: empty(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn oldest_versions_are_forgotten_at_the_limit() {
        const LARGE: usize = MAX_VERSION_BYTES;
        let mut versions = ObjectVersions::default();
        let count = MAX_BYTES / LARGE;
        for number in 0..count {
            versions.insert(key(&number.to_string()), number, LARGE - 1_024);
        }
        // A new version of the oldest object is the newest.
        versions.insert(key("0"), 100, LARGE - 1_024);
        versions.insert(key("new"), 101, LARGE - 1_024);
        assert_eq!(versions.get(&key("0")), Some(&100));
        assert_eq!((versions.get(&key("1")), versions.get(&key("new"))), (None, Some(&101)));
        assert!(versions.bytes <= MAX_BYTES);
        versions.insert(key("new"), 102, LARGE + 1);
        assert_eq!(versions.get(&key("new")), None, "too large");
        for number in 0..count {
            versions.remove(&key(&number.to_string()));
        }
        assert!(versions.versions.is_empty() && versions.order.is_empty());
        assert_eq!(versions.bytes, 0);
    }
}
