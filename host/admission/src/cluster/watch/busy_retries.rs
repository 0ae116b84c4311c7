//! Repetitions of requests to an API server that is overloaded.
//!
//! ```text
//! response 429 ─▶ retry_after ─▶ BusyRetries: the pause, within limits ─▶ the same request, a few times
//! ```

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// How often a request is sent to an API server that answers 429, and limits of the pause that it asks for.
const MAX_ATTEMPTS: u32 = 5;
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The attempts of one request, or of the requests one after the other of which none has succeeded.
#[derive(Debug, Clone)]
pub struct BusyRetries {
    max_attempts: u32,
    attempts: u32,
}

impl Default for BusyRetries {
    fn default() -> Self {
        Self { max_attempts: MAX_ATTEMPTS, attempts: 0 }
    }
}

impl BusyRetries {
    /// No repetition: the caller has its own.
    pub(in crate::cluster) fn none() -> Self {
        Self { max_attempts: 0, attempts: 0 }
    }

    /// Reports whether requests are repeated at all.
    pub(in crate::cluster) fn is_enabled(&self) -> bool {
        self.max_attempts > 0
    }

    /// Waits as long as the API server asks, within limits. Returns whether to send the request again.
    pub async fn wait(&mut self, pause: Duration) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        if self.attempts >= self.max_attempts {
            return false;
        }
        tokio::time::sleep(pause.clamp(MIN_PAUSE, MAX_PAUSE)).await;
        true
    }

    /// Notes a response other than 429.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// Returns the pause that a response asks for, zero if it names no seconds.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds =
        headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn pause_is_that_of_the_response_within_limits() {
        for (header, expected) in [
            (None, 1),
            (Some("0"), 1),
            (Some(" 7 "), 7),
            (Some("3600"), 30),
            (Some("18446744073709551616"), 1),
            (Some("Sun, 29 Nov 2026 00:00:00 GMT"), 1),
        ] {
            let value = header.map(|text| (RETRY_AFTER, HeaderValue::from_static(text)));
            let pause = retry_after(&value.into_iter().collect());
            let (mut retries, began) = (BusyRetries::default(), Instant::now());
            assert!(retries.wait(pause).await, "{header:?}");
            assert_eq!(began.elapsed(), Duration::from_secs(expected), "{header:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn request_is_sent_a_few_times_only() {
        let mut retries = BusyRetries::default();
        let mut attempts = 1;
        while retries.wait(Duration::ZERO).await {
            attempts += 1;
        }
        assert_eq!(attempts, MAX_ATTEMPTS);
        retries.reset();
        assert!(retries.wait(Duration::ZERO).await, "another request");
        assert!(!BusyRetries::none().wait(Duration::ZERO).await);
    }
}
