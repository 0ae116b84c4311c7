//! Lines for the host's log.

use wasmtime::component::{LinkerInstance, WasmStr};

use super::{Context, Import, Severity, State};
use crate::limits::MAX_HOSTCALL_BYTES;

/// Maximum log lines of one call, and bytes of each.
const MAX_LINES: usize = 64;
const MAX_LINE_BYTES: usize = 2_048;

pub(super) fn define(log: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    log.func_wrap("log", |mut store: Context<'_>, (severity, message): (Severity, WasmStr)| {
        let import = Import("log", "log");
        let message = import.text(&store, "a line", &message, MAX_HOSTCALL_BYTES)?;
        let line = opgate_text::one_line(&message, MAX_LINE_BYTES);
        let log = &mut store.data_mut().log;
        // The last position is for the last error, which is the text of a panic.
        if log.len() == MAX_LINES && severity == Severity::Error {
            log.pop();
        }
        if log.len() < MAX_LINES {
            log.push((severity, line));
        }
        Ok(())
    })
}
