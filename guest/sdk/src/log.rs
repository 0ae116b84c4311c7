//! Lines for the host's log. They carry the policy's name.
//!
//! In native tests the lines of a thread are kept until [`taken`] asks for them.

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

    /// The lines of this thread since it was last asked.
    #[must_use]
    pub fn taken() -> Vec<String> {
        LINES.take()
    }
}
