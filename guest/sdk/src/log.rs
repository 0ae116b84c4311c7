//! Lines for the host's log. The host adds the name of the policy.
//!
//! In native tests, the lines of a thread are kept until [`taken`] returns them.

/// Something that an administrator should look at.
pub fn warn(message: &str) {
    sink::warn(message);
}

#[cfg(not(target_arch = "wasm32"))]
pub use sink::taken;

#[cfg(target_arch = "wasm32")]
mod sink {
    use crate::bindings::opgate::policy::log::{Severity, log};

    pub(super) fn warn(message: &str) {
        log(Severity::Warn, message);
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod sink {
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn warn(message: &str) {
        LINES.with_borrow_mut(|lines| lines.push(message.to_owned()));
    }

    /// The lines of this thread since the last call.
    #[must_use]
    pub fn taken() -> Vec<String> {
        LINES.take()
    }
}
