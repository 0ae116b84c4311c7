//! The call in progress: what its imports read, and the first policy error.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use opgate_text::one_line;

use crate::cluster::CallCluster;

/// Maximum handles of a call at a time, log lines, and bytes of each, as for a server.
const MAX_HANDLES: usize = 1_000;
const MAX_LOG_LINES: usize = 64;
const MAX_LOG_LINE_BYTES: usize = 2_048;

/// A function of the contract, for example `document.text`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Import(pub(crate) &'static str, pub(crate) &'static str);

/// The state of one call.
#[derive(Default)]
pub(crate) struct Call {
    /// What the policy can query.
    pub(crate) cluster: CallCluster,
    /// The first policy error in an import.
    pub(crate) error: Option<String>,
    /// Log lines.
    pub(crate) log: Vec<String>,
    handles: Rc<Cell<usize>>,
}

thread_local! {
    static CALL: RefCell<Call> = RefCell::default();
}

impl Call {
    /// Starts a call; the previous one is over.
    pub(crate) fn start(cluster: CallCluster) {
        CALL.replace(Self { cluster, ..Self::default() });
    }

    /// Ends the call.
    pub(crate) fn end() -> Self {
        CALL.take()
    }

    /// Uses the call in progress.
    pub(crate) fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        CALL.with_borrow_mut(work)
    }

    /// Records a policy error, unless there is one.
    pub(crate) fn fail(import: Import, why: &str) {
        let Import(interface, function) = import;
        Self::with(|call| {
            call.error.get_or_insert_with(|| format!("{interface}.{function}: {why}"));
        });
    }

    /// Adds a line to the log. The last position is for the last error, which is the text of a panic.
    pub(crate) fn log(is_error: bool, message: &str) {
        Self::with(|call| {
            if call.log.len() == MAX_LOG_LINES && is_error {
                call.log.pop();
            }
            if call.log.len() < MAX_LOG_LINES {
                call.log.push(one_line(message, MAX_LOG_LINE_BYTES));
            }
        });
    }
}

/// A handle of a call, which is counted while it lives.
#[derive(Debug)]
pub(crate) struct HandleCount(Rc<Cell<usize>>);

impl HandleCount {
    /// Counts a handle. Too many are a policy error.
    pub(crate) fn of_call(import: Import) -> Self {
        let handles = Call::with(|call| call.handles.clone());
        handles.set(handles.get().saturating_add(1));
        if handles.get() > MAX_HANDLES {
            Call::fail(import, &format!("more than {MAX_HANDLES} handles at a time"));
        }
        Self(handles)
    }

    /// A handle outside of calls.
    pub(crate) fn uncounted() -> Self {
        Self(Rc::default())
    }
}

impl Drop for HandleCount {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
