//! Converts an error of wasmtime to a policy error.

use wasmtime::Trap;

use super::call_clock::CallClock;
use super::call_error::CallError;
use super::limits::MAX_HOSTCALL_BYTES;
use super::memory_limiter::Limiter;

/// Maximum length of the text of a trap.
const MAX_TEXT: usize = 512;

/// Converts an error of wasmtime to a policy error, with the record of the limiter and the last
/// log line of the guest. Only this function creates a text from it. The text never has a
/// backtrace, which would name functions of the guest.
pub(super) fn to_call_error(
    error: &wasmtime::Error,
    limiter: &Limiter,
    clock: &CallClock,
    panic: Option<String>,
) -> CallError {
    if let Some(fault) = error.downcast_ref::<CallError>().or(limiter.hit.as_ref()) {
        return fault.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => clock.interruption_error(),
        Some(Trap::StackOverflow) => CallError::Stack,
        // The stack of a guest's language is at the start of its memory. A stack overflow is an
        // access below 0.
        Some(Trap::MemoryOutOfBounds) if panic.is_none() => CallError::Bounds,
        trap => panic.map_or_else(
            || {
                let text = trap.map_or_else(|| error.root_cause().to_string(), ToString::to_string);
                if text.contains("fuel allocated for hostcalls") {
                    return CallError::ResultTooLarge(MAX_HOSTCALL_BYTES);
                }
                CallError::Trap(opgate_text::one_line(&text, MAX_TEXT))
            },
            CallError::Panic,
        ),
    }
}
