//! A stream that does not wait for ever for the head of a request.
//!
//! hyper has one time-out for the head, which also runs while a kept-alive connection is idle. An
//! API server keeps connections for 90 s, so that time-out must be long; but a head that has begun
//! must end soon. The first byte after a response starts the short time, the request ends it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Shared between the stream and the service behind it: whether a request is being served.
#[derive(Clone, Default)]
pub(super) struct Serving(Arc<AtomicBool>);

impl Serving {
    /// The head has been read.
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The response is on its way; what comes next is another head.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The stream under HTTP/1.1.
pub(super) struct HeadGuard<S> {
    stream: S,
    serving: Serving,
    limit: Duration,
    /// Runs since the first byte of a head.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> HeadGuard<S> {
    pub(super) fn new(stream: S, serving: Serving, limit: Duration) -> Self {
        Self { stream, serving, limit, timer: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let serving = self.serving.0.load(Ordering::Relaxed);
        if serving {
            self.timer = None;
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                let got_some = buffer.filled().len() > before;
                if got_some && !serving && self.timer.is_none() {
                    self.timer =
                        Some(Box::pin(tokio::time::sleep_until(Instant::now() + self.limit)));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match self.timer.as_mut().map(|timer| timer.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                _ => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
