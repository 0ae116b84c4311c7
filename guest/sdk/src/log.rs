//! Lines for the host's log. The host adds the name of the policy.
//!
//! In native tests, the lines of a thread go to stderr, which a failing test shows, and are kept until
//! [`take_lines`] returns them.

/// Logs a message for debugging the policy.
pub fn debug(message: &str) {
    sink::log(Severity::Debug, message);
}

/// Logs a message that may be useful for an administrator.
pub fn info(message: &str) {
    sink::log(Severity::Info, message);
}

/// Logs a message that an administrator should read.
pub fn warn(message: &str) {
    sink::log(Severity::Warn, message);
}

/// Logs an error of the policy.
pub fn error(message: &str) {
    sink::log(Severity::Error, message);
}

use crate::bindings::opgate::policy::log::Severity;

#[cfg(not(target_arch = "wasm32"))]
pub use sink::take_lines;

#[cfg(target_arch = "wasm32")]
mod sink {
    use super::Severity;
    use crate::bindings::opgate::policy::log;

    pub(super) fn log(severity: Severity, message: &str) {
        log::log(severity, message);
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod sink {
    use std::cell::RefCell;

    use super::Severity;

    thread_local! {
        static LOGGED_LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[expect(clippy::print_stderr, reason = "the test harness keeps it for tests that fail")]
    pub(super) fn log(severity: Severity, message: &str) {
        eprintln!("{severity:?}: {message}");
        LOGGED_LINES.with_borrow_mut(|lines| lines.push(message.to_owned()));
    }

    /// Returns the lines of this thread since the last call.
    #[must_use]
    pub fn take_lines() -> Vec<String> {
        LOGGED_LINES.take()
    }
}
