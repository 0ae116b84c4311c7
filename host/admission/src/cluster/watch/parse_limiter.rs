//! Reads large responses of an API server outside the threads that serve requests.
//!
//! ```text
//! up to 64 KiB ─▶ here, one at a time
//! more ─────────▶ one at a time ─┬▶ a thread that runs when no other one wants the CPU ─┐
//!                                └▶ a thread like any other, if that one does not ──────┴▶ as read
//!                                   start in time, or if a request waits
//! ```
//!
//! Tenants determine the size of their objects and how often they change. Reading and indexing an
//! object of 1.4 MB takes some 10 ms, in which a thread serves no request. The result is awaited
//! before the next event of the same resource is read, so events keep their order. Events of other
//! resources only wait for it if they are large, too.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::cluster::watch::decode::ApiError;

/// Maximum bytes of a text that is read on a thread that serves requests: less than a millisecond.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// Time limit of the low-priority thread. On a busy machine, a cache must not fall behind; the
/// large objects of a page together stay below the time limit of a response.
const IDLE_READ_TIMEOUT: Duration = Duration::from_millis(200);

/// Stack of that thread, as large as that of the runtime's threads.
const READER_STACK_BYTES: usize = 2 << 20;

/// The party that waits for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum ReadPriority {
    /// A cache, for which the result is early enough.
    Cache,
    /// A request, or a user at a terminal.
    Request,
}

/// Limits how much is read at a time, for all resources.
#[derive(Debug)]
pub(in crate::cluster) struct ParseLimiter {
    small: Semaphore,
    large: Semaphore,
    /// The low-priority thread. Only one runs at a time.
    idle: Arc<Semaphore>,
}

impl Default for ParseLimiter {
    fn default() -> Self {
        let one = || Semaphore::new(1);
        Self { small: one(), large: one(), idle: Arc::new(one()) }
    }
}

impl ParseLimiter {
    /// Permission to read something small.
    pub(in crate::cluster) async fn acquire_small(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.small.acquire().await.ok()
    }

    /// Reads a text. `read` may be called twice with the same one, and the first result counts.
    pub(in crate::cluster) async fn read<T: Send + 'static>(
        &self,
        text: Vec<u8>,
        waiting: ReadPriority,
        read: impl Fn(Vec<u8>) -> Result<T, ApiError> + Clone + Send + 'static,
    ) -> Result<T, ApiError> {
        if text.len() <= MAX_INLINE_BYTES {
            let _one = self.acquire_small().await;
            return read(text);
        }
        let _one = self.large.acquire().await.ok();
        let text = Arc::new(text);
        let read = move || read(Vec::clone(&text));
        if waiting == ReadPriority::Cache
            && let Some(found) = self.read_when_idle(read.clone()).await
        {
            return found;
        }
        let found = tokio::task::spawn_blocking(read).await;
        found.unwrap_or_else(|error| Err(ApiError::Other(format!("it could not be read: {error}"))))
    }

    /// The result of `read` on a thread of the lowest priority, if there is one in time.
    async fn read_when_idle<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permit = self.idle.clone().try_acquire_owned().ok()?;
        let (answer, answered) = oneshot::channel();
        let run = move || {
            let _permit = permit;
            // If the system does not allow it, the thread runs with normal priority.
            let _ = opgate_system::set_idle_priority();
            if !answer.is_closed() {
                let _ = answer.send(read());
            }
        };
        let thread =
            std::thread::Builder::new().name("opgate-idle".into()).stack_size(READER_STACK_BYTES);
        thread.spawn(run).ok()?;
        tokio::time::timeout(IDLE_READ_TIMEOUT, answered).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{ThreadId, current};

    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "as readers do")]
    fn length(text: Vec<u8>) -> Result<(usize, ThreadId), ApiError> {
        let read = (text.len(), current().id());
        drop(text);
        Ok(read)
    }

    #[tokio::test]
    async fn large_texts_are_read_on_another_thread() {
        let readers = ParseLimiter::default();
        let here = current().id();
        for (bytes, waiting, is_here) in [
            (MAX_INLINE_BYTES, ReadPriority::Cache, true),
            (MAX_INLINE_BYTES, ReadPriority::Request, true),
            (MAX_INLINE_BYTES + 1, ReadPriority::Cache, false),
            (MAX_INLINE_BYTES + 1, ReadPriority::Request, false),
        ] {
            let (read, thread) = readers.read(vec![0; bytes], waiting, length).await.unwrap();
            assert_eq!((read, thread == here), (bytes, is_here), "{bytes} {waiting:?}");
        }
    }

    #[tokio::test]
    async fn busy_reader_threads_delay_reads_only_briefly() {
        let readers = ParseLimiter::default();
        let (busy, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(parking_lot::Mutex::new(wait));
        let idle = |name: Option<&str>| name == Some("opgate-idle");
        let read = move |text: Vec<u8>| {
            if idle(current().name()) {
                // Waits while the processor is busy.
                let _ = wait.lock().recv();
            }
            Ok(text.len())
        };
        for _ in 0..3 {
            let read = readers
                .read(vec![0; MAX_INLINE_BYTES + 1], ReadPriority::Cache, read.clone())
                .await;
            assert_eq!(read.unwrap(), MAX_INLINE_BYTES + 1);
            assert_eq!(readers.idle.available_permits(), 0, "one such thread");
        }
        // Small texts do not wait for large ones.
        let _large = readers.large.acquire().await.unwrap();
        assert_eq!(readers.read(vec![0; 1], ReadPriority::Cache, read).await.unwrap(), 1);
        drop(busy);
    }

    #[tokio::test]
    async fn panicking_reader_is_an_error() {
        let readers = ParseLimiter::default();
        let read = |_: Vec<u8>| -> Result<(), ApiError> { panic!("a bug") };
        let error = readers
            .read(vec![0; MAX_INLINE_BYTES + 1], ReadPriority::Cache, read)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("could not be read"), "{error}");
    }
}
