//! Pauses between the requests of an audit, for which no client waits: pages of lists, and discovery.
//!
//! ```text
//! request ─┬▶ 429: BusyRetries: the pause that the API server asks for, then the same request, a few times
//!          └▶ it came late: a pause as long as that, then the next request, also that of another list
//! ```

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::watch::busy_retries::BusyRetries;
use crate::cluster::watch::decode::ApiError;

/// A response that begins later is slow. The next request is sent after a pause as long as it took, up to a maximum: the
/// lists take at most half of the time of a slow API server.
const SLOW_RESPONSE: Duration = Duration::from_millis(500);
const MAX_SLOW_PAUSE: Duration = Duration::from_secs(5);

/// The pauses of one list, or of all requests of an audit.
#[derive(Debug, Clone, Default)]
pub struct PageBackoff {
    retries: BusyRetries,
    /// The end of the pause after a slow page.
    paused_until: Option<Instant>,
}

impl PageBackoff {
    /// No pauses: a request waits, or the caller has its own.
    #[must_use]
    pub fn none() -> Self {
        Self { retries: BusyRetries::none(), paused_until: None }
    }

    /// Waits if this error asks for it. Returns whether to send the request again.
    pub(in crate::cluster) async fn wait_if_busy(&mut self, error: &ApiError) -> bool {
        match error {
            ApiError::Busy { pause, .. } => self.retries.wait(*pause).await,
            _ => false,
        }
    }

    /// Waits for the end of the pause after a slow page.
    pub(in crate::cluster) async fn wait_before_page(&mut self) {
        if let Some(end) = self.paused_until.take() {
            tokio::time::sleep_until(end).await;
        }
    }

    /// Notes a page or a document that was read, whose response began after this time.
    pub(in crate::cluster) fn record_page(&mut self, latency: Duration) {
        self.retries.reset();
        let is_slow = self.retries.is_enabled() && latency > SLOW_RESPONSE;
        self.paused_until = is_slow.then(|| Instant::now() + latency.min(MAX_SLOW_PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_are_those_that_an_api_server_needs() {
        let busy = |seconds| ApiError::Busy {
            pause: Duration::from_secs(seconds),
            message: String::new(),
        };
        for (error, expected) in [(busy(7), Some(7)), (ApiError::Gone, None)] {
            let (mut backoff, began) = (PageBackoff::default(), Instant::now());
            let is_repeated = backoff.wait_if_busy(&error).await;
            assert_eq!(is_repeated, expected.is_some(), "{error:?}");
            assert_eq!(began.elapsed(), Duration::from_secs(expected.unwrap_or_default()));
        }
        assert!(!PageBackoff::none().wait_if_busy(&busy(1)).await);
        for (latency, expected) in [(400, 0), (800, 800), (60_000, 5_000)] {
            let (mut backoff, began) = (PageBackoff::default(), Instant::now());
            backoff.record_page(Duration::from_millis(latency));
            backoff.wait_before_page().await;
            assert_eq!(began.elapsed(), Duration::from_millis(expected), "{latency} ms");
        }
    }
}
