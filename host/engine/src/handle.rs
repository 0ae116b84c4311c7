//! The handles of a guest: documents, and the request.

use std::sync::Arc;

use opgate_document::{Document, Meter, Value};

use super::limits::HANDLES;

/// The target of a guest's document handle: a document and the path to a value in it.
#[derive(Clone)]
#[expect(unreachable_pub, reason = "the generated module re-exports it")]
pub struct Handle {
    pub(super) document: Arc<Document>,
    pub(super) path: Vec<u32>,
}

impl Handle {
    pub(super) fn whole(document: Arc<Document>) -> Self {
        Self { document, path: Vec::new() }
    }

    /// The value, for a look-up that the meter counts.
    pub(super) fn at<'h>(&'h self, meter: &'h Meter) -> Option<Value<'h>> {
        self.document.root_for(meter).follow(&self.path)
    }
}

/// The target of a guest's request handle: the request of the call.
#[expect(unreachable_pub, reason = "the generated module re-exports it")]
pub enum Asked {}

/// The document handles of one call, by number. wasmtime gives the guest its own numbers for them,
/// so a guest cannot invent one. (wasmtime's general table of resources allocates for each handle.)
#[derive(Default)]
pub(crate) struct Handles {
    slots: Vec<Option<Handle>>,
    /// Numbers of the empty slots.
    free: Vec<u32>,
}

impl Handles {
    /// The number of a new handle; `None` if the guest has the maximum number.
    pub(super) fn push(&mut self, handle: Handle) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            *self.slots.get_mut(usize::try_from(number).ok()?)? = Some(handle);
            return Some(number);
        }
        if self.slots.len() >= HANDLES {
            return None;
        }
        let number = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Some(handle));
        Some(number)
    }

    pub(super) fn get(&self, number: u32) -> Option<&Handle> {
        self.slots.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// Called when the guest drops a handle.
    pub(super) fn remove(&mut self, number: u32) {
        let slot = usize::try_from(number).ok().and_then(|number| self.slots.get_mut(number));
        if slot.is_some_and(|slot| slot.take().is_some()) {
            self.free.push(number);
        }
    }
}
