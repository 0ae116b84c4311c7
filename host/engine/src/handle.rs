//! The handles of a guest: documents, and the request.

use std::sync::Arc;

use opgate_document::{Document, Meter, Value};

use super::limits::HANDLES;

/// What a document handle of a guest stands for: a document and the way to a value in it.
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

/// What the request handle of a guest stands for: the request of the call.
#[expect(unreachable_pub, reason = "the generated module re-exports it")]
pub enum Asked {}

/// The document handles of one call, by number. wasmtime gives the guest numbers of its own for them, so
/// that a guest cannot make one up. (Its general table of resources allocates for each.)
#[derive(Default)]
pub(crate) struct Handles {
    slots: Vec<Option<Handle>>,
    /// Numbers of the empty ones.
    free: Vec<u32>,
}

impl Handles {
    /// The number of a new handle; `None` where the guest has as many as it may have.
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

    /// The guest has dropped it.
    pub(super) fn remove(&mut self, number: u32) {
        let slot = usize::try_from(number).ok().and_then(|number| self.slots.get_mut(number));
        if slot.is_some_and(|slot| slot.take().is_some()) {
            self.free.push(number);
        }
    }
}
