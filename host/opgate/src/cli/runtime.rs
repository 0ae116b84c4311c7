//! The runtime of a thread, on which commands evaluate reviews one after another.

use std::cell::OnceCell;
use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
}

/// Runs a future to its end on the runtime of this thread, which has timers and no I/O.
///
/// # Errors
/// If the system provides no runtime.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    RUNTIME.with(|cell| {
        if let Some(runtime) = cell.get() {
            return Ok(runtime.block_on(future));
        }
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(cell.get_or_init(|| runtime).block_on(future))
    })
}
