//! Samples of a cluster in files: the first objects of every kind, whole, in any version.

use std::collections::BTreeMap;
use std::sync::Arc;

use opgate_cluster::{Key, Resource};
use opgate_document::{Text, Value};
use opgate_engine::reader::Sample;
use parking_lot::RwLock;

use super::{MAX_SAMPLE_BYTES, MAX_SAMPLE_OBJECTS};
use crate::cluster::store::cache::key_of;

/// Maximum bytes of the objects of all kinds together.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// The custom resources in files, if a policy may sample them.
#[derive(Debug, Default)]
pub(in crate::cluster) struct FileSamples {
    state: RwLock<State>,
    is_enabled: bool,
}

#[derive(Debug, Default)]
struct State {
    kinds: BTreeMap<(String, String), KindObjects>,
    bytes: usize,
}

/// The objects of a kind.
#[derive(Debug, Default)]
struct KindObjects {
    objects: BTreeMap<Key, Arc<Text>>,
    bytes: usize,
    /// Whether there are more.
    is_truncated: bool,
}

impl FileSamples {
    /// Starts to keep objects.
    pub(in crate::cluster) fn enabled() -> Self {
        Self { is_enabled: true, ..Self::default() }
    }

    /// Forgets everything.
    pub(in crate::cluster) fn clear(&self) {
        *self.state.write() = State::default();
    }

    /// Adds an object, or replaces the one of its name.
    pub(in crate::cluster) fn put(
        &self,
        group: &str,
        resource: &str,
        object: Value<'_>,
        namespace: &str,
    ) {
        if !self.is_enabled || !group.contains('.') {
            return;
        }
        let Some(key) = key_of(object, namespace) else { return };
        let mut state = self.state.write();
        let State { kinds, bytes } = &mut *state;
        let kept = kinds.entry((group.to_owned(), resource.to_owned())).or_default();
        if let Some(old) = kept.objects.remove(&key) {
            kept.bytes = kept.bytes.saturating_sub(old.len());
            *bytes = bytes.saturating_sub(old.len());
        }
        let size = object.size();
        let is_room = kept.objects.len() < MAX_SAMPLE_OBJECTS
            && kept.bytes.saturating_add(size) <= MAX_SAMPLE_BYTES
            && bytes.saturating_add(size) <= MAX_TOTAL_BYTES;
        let text = is_room.then(|| Text::new(object.raw().into_owned()).ok()).flatten();
        let Some(text) = text else {
            kept.is_truncated = true;
            return;
        };
        kept.bytes = kept.bytes.saturating_add(size);
        *bytes = bytes.saturating_add(size);
        kept.objects.insert(key, Arc::new(text));
    }

    /// Removes an object.
    pub(in crate::cluster) fn remove(&self, group: &str, resource: &str, key: &Key) {
        let mut state = self.state.write();
        let State { kinds, bytes } = &mut *state;
        let kept = kinds.get_mut(&(group.to_owned(), resource.to_owned()));
        if let Some(kept) = kept
            && let Some(old) = kept.objects.remove(key)
        {
            kept.bytes = kept.bytes.saturating_sub(old.len());
            *bytes = bytes.saturating_sub(old.len());
        }
    }

    /// The objects of a resource, in the order of their names; `None` if the files have none.
    pub(in crate::cluster) fn sample(&self, resource: &Resource, limit: usize) -> Option<Sample> {
        let state = self.state.read();
        let kept = state.kinds.get(&(resource.group.clone(), resource.resource.clone()))?;
        let objects: Vec<_> = kept.objects.values().take(limit).cloned().collect();
        let complete = !kept.is_truncated && objects.len() == kept.objects.len();
        (complete || !objects.is_empty()).then_some(Sample { objects, complete })
    }
}
