//! The document handles of a guest, with the check of undeclared reads, and the handle of its request.

use std::sync::Arc;

use opgate_cluster::access::{Access, UndeclaredRead};
use opgate_cluster::{Declaration, Resource};
use opgate_document::{Document, Meter, Value};

use super::call_error::{CallError, Import};
use super::limits::MAX_HANDLES;

/// The fields that a policy declares to read from objects of a resource.
#[derive(Debug, Clone)]
pub struct DeclaredRead {
    /// The resource.
    pub resource: Resource,
    /// The fields.
    pub declaration: Declaration,
}

/// The target of a guest's document handle: a document and the path to a value in it.
#[derive(Clone)]
#[expect(unreachable_pub, reason = "the generated module re-exports it")]
pub struct Handle {
    pub(super) document: Arc<Document>,
    pub(super) path: Vec<u32>,
    /// The declared read of the object, and the pointer to the value in it; none for a whole
    /// document.
    declared_part: Option<(Arc<DeclaredRead>, String)>,
}

impl Handle {
    pub(super) fn of_document(document: Arc<Document>) -> Self {
        Self { document, path: Vec::new(), declared_part: None }
    }

    /// A stored object, of which only the declared fields are present.
    pub(super) fn of_stored(document: Arc<Document>, scope: Option<Arc<DeclaredRead>>) -> Self {
        let part = scope.map(|scope| (scope, String::new()));
        Self { document, path: Vec::new(), declared_part: part }
    }

    /// The value at a pointer, which exists at this path.
    pub(super) fn child(&self, pointer: &str, path: Vec<u32>) -> Self {
        let part = self.declared_part.as_ref().and_then(|(scope, base)| {
            let pointer = format!("{base}{pointer}");
            // A declared field is completely present.
            let is_whole = scope.declaration.check(&pointer, Access::Scalar).is_ok();
            (!is_whole).then(|| (scope.clone(), pointer))
        });
        Self { document: self.document.clone(), path, declared_part: part }
    }

    /// Checks that everything is present that a read of the value at a pointer needs.
    pub(super) fn check(
        &self,
        import: Import,
        pointer: &str,
        access: Access,
    ) -> Result<(), CallError> {
        self.check_declared(import, |declaration, base| {
            if base.is_empty() {
                return declaration.check(pointer, access);
            }
            declaration.check(&format!("{base}{pointer}"), access)
        })
    }

    /// Checks a column of the elements of a list in this way.
    pub(super) fn check_column(
        &self,
        import: Import,
        pointer: &str,
        column: &str,
    ) -> Result<(), CallError> {
        self.check_declared(import, |declaration, base| {
            declaration.check_column(&format!("{base}{pointer}"), column)
        })
    }

    /// Checks a column of one value in this way.
    pub(super) fn check_cell(
        &self,
        import: Import,
        pointer: &str,
        column: &str,
    ) -> Result<(), CallError> {
        self.check_declared(import, |declaration, base| {
            declaration.check_cell(&format!("{base}{pointer}{column}"))
        })
    }

    fn check_declared(
        &self,
        import: Import,
        check: impl FnOnce(&Declaration, &str) -> Result<(), UndeclaredRead>,
    ) -> Result<(), CallError> {
        let Some((scope, base)) = &self.declared_part else { return Ok(()) };
        check(&scope.declaration, base)
            .map_err(|error| CallError::Pointer(import, error.message(&scope.resource)))
    }

    /// The value, for a look-up that the meter counts.
    pub(super) fn value<'h>(&'h self, meter: &'h Meter) -> Option<Value<'h>> {
        self.document.root_metered(meter).follow(&self.path)
    }
}

/// The target of a guest's request handle: the request of the call.
#[expect(unreachable_pub, reason = "the generated module re-exports it")]
pub enum RequestHandle {}

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
        if self.slots.len() >= MAX_HANDLES {
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
