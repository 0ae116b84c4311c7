//! The imports of policies.
//!
//! Imports are look-ups in memory; none of them waits. Texts of a guest stay in its memory until
//! their length has been checked ([`WasmStr`]), so that an error names the import and the limit.
//! The work of an import is charged to the meter of the call, and its memory to the account.
//!
//! ```text
//! guest ─▶ texts within bounds ─▶ look (meter, account) ─▶ State::ensure_complete ─▶ answer (account) ─▶ guest
//! ```

mod cluster;
mod document;
mod log;
mod request;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::component::{Linker, WasmStr};
use wasmtime::{AsContext as _, CallHook, Store, StoreContextMut};

use super::bindings::{Severity, generated, types};
use super::call_error::{CallError, Import};
use super::document_handle::{Handle, RequestHandle};
use super::limits::{MAX_HOSTCALL_BYTES, MAX_POINTER_BYTES};
use super::state::State;
use opgate_text::units::bytes;

/// The version of the contract.
macro_rules! interface {
    ($name:literal) => {
        concat!("opgate:policy/", $name, "@0.7.0")
    };
}

/// The store of a call, for an import.
type Context<'s> = StoreContextMut<'s, State>;

/// Maximum bytes of the texts of an import while they are still in the guest's memory. The guest's
/// own memory limit is far below.
const MAX_GUEST_TEXT_BYTES: usize = 1 << 40;

/// Defines all imports.
pub(super) fn define(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    // It has only types.
    linker.instance(interface!("types"))?;
    request::define(&mut linker.instance(interface!("request"))?)?;
    document::define(&mut linker.instance(interface!("document"))?)?;
    log::define(&mut linker.instance(interface!("log"))?)?;
    cluster::define(&mut linker.instance(interface!("cluster"))?)
}

/// Limits the bytes that are copied from the guest, as [`MAX_HOSTCALL_BYTES`] does for the whole
/// store, but names the import that got too many. wasmtime counts the arguments of imports and the
/// result of the guest together. With these hooks, only the imports count the arguments, and they
/// know their names.
pub(super) fn limit_copied_bytes(store: &mut Store<State>) {
    store.set_hostcall_fuel(MAX_HOSTCALL_BYTES);
    store.call_hook(|mut store, hook| {
        match hook {
            CallHook::CallingHost => store.set_hostcall_fuel(MAX_GUEST_TEXT_BYTES),
            CallHook::ReturningFromWasm => store.set_hostcall_fuel(MAX_HOSTCALL_BYTES),
            CallHook::CallingWasm | CallHook::ReturningFromHost => {}
        }
        Ok(())
    });
}

/// Counts the calls of imports.
pub(crate) fn count_calls(store: &mut Store<State>, calls: Arc<AtomicU64>) {
    store.set_hostcall_fuel(MAX_HOSTCALL_BYTES);
    store.call_hook(move |_, hook| {
        if matches!(hook, CallHook::CallingHost) {
            calls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
}

impl Import {
    /// A text of the guest with at most this many bytes.
    fn text<'s>(
        self,
        store: &'s Context<'_>,
        what: &str,
        text: &WasmStr,
        most: usize,
    ) -> wasmtime::Result<Cow<'s, str>> {
        let text = text.to_str(store.as_context())?;
        if text.len() > most {
            let why = format!("{what} of {} bytes, more than {}", text.len(), bytes(most));
            return Err(CallError::ImportLimit(self, why).into());
        }
        Ok(text)
    }

    fn pointer<'s>(
        self,
        store: &'s Context<'_>,
        pointer: &WasmStr,
    ) -> wasmtime::Result<Cow<'s, str>> {
        let pointer = self.text(store, "a pointer", pointer, MAX_POINTER_BYTES)?;
        // It would match no object, and appear as a value that is always absent.
        match opgate_document::pointer_error(&pointer) {
            None => Ok(pointer),
            Some(why) => Err(CallError::Pointer(self, opgate_text::one_line(&why, 512)).into()),
        }
    }

    /// Fails if a list of the guest is too long.
    fn check_count(self, what: &str, count: usize, most: usize) -> Result<(), CallError> {
        if count > most {
            return Err(CallError::ImportLimit(self, format!("{count} {what}, more than {most}")));
        }
        Ok(())
    }
}
