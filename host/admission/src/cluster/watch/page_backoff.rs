//! Pauses between the pages of lists that no request waits for.
//!
//! ```text
//! page ─┬▶ 429: the pause that the API server asks for, then the same page, a few times
//!       └▶ it came late: a pause as long as that, then the next page, also that of another list
//! ```

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::watch::decode::ApiError;

/// How often a page is requested from an API server that answers 429, and limits of the pause that it asks for.
const MAX_ATTEMPTS: u32 = 5;
const MIN_BUSY_PAUSE: Duration = Duration::from_secs(1);
const MAX_BUSY_PAUSE: Duration = Duration::from_secs(30);

/// A response that begins later is slow. The next request is sent after a pause as long as it took, up to a maximum: the
/// lists take at most half of the time of a slow API server.
const SLOW_RESPONSE: Duration = Duration::from_millis(500);
const MAX_SLOW_PAUSE: Duration = Duration::from_secs(5);

/// The pauses of one list, or of all lists of an audit.
#[derive(Debug, Clone)]
pub struct PageBackoff {
    /// Maximum number of attempts for a page.
    max_attempts: u32,
    attempts: u32,
    /// The end of the pause after a slow page.
    paused_until: Option<Instant>,
}

impl Default for PageBackoff {
    fn default() -> Self {
        Self { max_attempts: MAX_ATTEMPTS, attempts: 0, paused_until: None }
    }
}

impl PageBackoff {
    /// No pauses: a request waits, or the caller has its own.
    pub(in crate::cluster) fn none() -> Self {
        Self { max_attempts: 0, attempts: 0, paused_until: None }
    }

    /// Waits if this error asks for it. Returns whether to request the page again.
    pub(in crate::cluster) async fn wait_if_busy(&mut self, error: &ApiError) -> bool {
        let ApiError::Busy { pause, .. } = error else { return false };
        self.attempts = self.attempts.saturating_add(1);
        if self.attempts >= self.max_attempts {
            return false;
        }
        tokio::time::sleep((*pause).clamp(MIN_BUSY_PAUSE, MAX_BUSY_PAUSE)).await;
        true
    }

    /// Waits for the end of the pause after a slow page.
    pub(in crate::cluster) async fn wait_before_page(&mut self) {
        if let Some(end) = self.paused_until.take() {
            tokio::time::sleep_until(end).await;
        }
    }

    /// Notes a page that was read, whose response began after this time.
    pub(in crate::cluster) fn record_page(&mut self, latency: Duration) {
        self.attempts = 0;
        let is_slow = self.max_attempts > 0 && latency > SLOW_RESPONSE;
        self.paused_until = is_slow.then(|| Instant::now() + latency.min(MAX_SLOW_PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(seconds: u64) -> ApiError {
        ApiError::Busy { pause: Duration::from_secs(seconds), message: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_those_that_an_api_server_needs() {
        for (error, expected) in [
            (busy(0), Some(1)),
            (busy(7), Some(7)),
            (busy(3_600), Some(30)),
            (ApiError::Gone, None),
        ] {
            let (mut backoff, began) = (PageBackoff::default(), Instant::now());
            let goes_on = backoff.wait_if_busy(&error).await;
            assert_eq!(goes_on, expected.is_some(), "{error:?}");
            assert_eq!(began.elapsed(), Duration::from_secs(expected.unwrap_or_default()));
        }
        for (latency, expected) in [(400, 0), (800, 800), (60_000, 5_000)] {
            let (mut backoff, began) = (PageBackoff::default(), Instant::now());
            backoff.record_page(Duration::from_millis(latency));
            backoff.wait_before_page().await;
            assert_eq!(began.elapsed(), Duration::from_millis(expected), "{latency} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn page_is_requested_a_few_times_only() {
        let mut backoff = PageBackoff::default();
        let mut attempts = 1;
        while backoff.wait_if_busy(&busy(1)).await {
            attempts += 1;
        }
        assert_eq!(attempts, MAX_ATTEMPTS);
        backoff.record_page(Duration::ZERO);
        assert!(backoff.wait_if_busy(&busy(1)).await, "another page");
        assert!(!PageBackoff::none().wait_if_busy(&busy(1)).await);
    }
}
