//! Streams with time limits.
//!
//! hyper has one timeout for the head of a request, which also runs while a kept-alive connection
//! is idle. An API server keeps connections for 90 s, so that timeout must be long, but a head
//! that has started must end soon. The first byte after a response starts the short timeout, and
//! the request ends it. A client whose system accepts no bytes is disconnected, too. For a client
//! that accepts bytes but does not read the response, see [`super::connection_limiter`]. For h2, where hyper
//! has no timeout before the first frame, [`Activity`] measures the time without a request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Time limit for a client to accept bytes of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests of a connection, to measure the time without one.
#[derive(Clone, Default)]
pub(super) struct Activity(Arc<(AtomicUsize, AtomicUsize)>);

/// A request in progress.
pub(super) struct ActiveRequest(Activity);

impl Activity {
    /// Keep the result while a request is served.
    pub(super) fn begin(&self) -> ActiveRequest {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        self.0.1.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    /// Ends when there was no request for a period of this length.
    pub(super) async fn wait_idle(&self, period: Duration) {
        loop {
            let before = self.0.1.load(Ordering::Relaxed);
            tokio::time::sleep(period).await;
            let none = self.0.0.load(Ordering::Relaxed) == 0;
            if none && self.0.1.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Shared between the stream and the service: whether a request is being served.
#[derive(Clone, Default)]
pub(super) struct RequestInProgress(Arc<AtomicBool>);

impl RequestInProgress {
    /// Records that the head has been read.
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Records that the response is on its way. The next bytes are another head.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The stream under HTTP.
pub(super) struct TimeoutStream<S> {
    stream: S,
    /// Under HTTP/1.1, the time limit for a head.
    head_timeout: Option<(RequestInProgress, Duration)>,
    /// Runs since the first byte of a head.
    head_timer: Option<Pin<Box<Sleep>>>,
    /// Runs while the client accepts nothing.
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    pub(super) fn new(stream: S, head: Option<(RequestInProgress, Duration)>) -> Self {
        Self { stream, head_timeout: head, head_timer: None, write_timer: None }
    }

    /// Fails if a write has been pending for too long.
    fn check_write_timeout<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_timer = None;
            return written;
        }
        let timer =
            self.write_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some((in_progress, limit)) = &self.head_timeout else {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        };
        let (in_progress, limit) = (in_progress.0.load(Ordering::Relaxed), *limit);
        if in_progress {
            self.head_timer = None;
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                let got_some = buffer.filled().len() > before;
                if got_some && !in_progress && self.head_timer.is_none() {
                    self.head_timer =
                        Some(Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match self.head_timer.as_mut().map(|timer| timer.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                _ => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_write_timeout(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_write_timeout(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.check_write_timeout(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
