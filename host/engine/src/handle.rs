//! The handles of a guest: documents, and the request.

use std::sync::Arc;

use opgate_document::{Document, Meter, Value};

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
