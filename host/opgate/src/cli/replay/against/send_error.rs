//! The reasons why a server gives no response to a review, and the limits that they name.

use std::time::Duration;

use http::header::{LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use opgate_text::one_line;

/// Maximum time of a request, with its connection.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Attempts to send a review to an overloaded server.
pub(super) const MAX_ATTEMPTS: usize = 4;

/// Maximum bytes of a response. A response of opgate has at most 96 KiB.
pub(super) const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// Maximum bytes of an error of the server, in one line.
pub(super) const MAX_ERROR_BYTES: usize = 2 << 10;

/// The reason why a review has no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// No connection, or a broken one.
    #[error("{0}")]
    Connection(String),
    /// The time is over.
    #[error("no response within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout,
    /// The response is too large.
    #[error("the response has more than {} MiB; is this the URL of a webhook?", MAX_RESPONSE_BYTES >> 20)]
    TooLarge,
    /// A response without a decision.
    #[error("{status}: {detail}")]
    Status {
        /// HTTP status.
        status: StatusCode,
        /// The text of the server, in one line.
        detail: String,
    },
    /// A server that was still overloaded at the last attempt.
    #[error(
        "{status}: {detail} ({} attempts); try again when the server has less load",
        MAX_ATTEMPTS
    )]
    Overload {
        /// HTTP status.
        status: StatusCode,
        /// The text of the server, in one line.
        detail: String,
        /// The pause that the server asks for.
        retry_after: Duration,
    },
}

impl SendError {
    /// Reports whether other reviews can have a response: the review is too large or invalid, or a policy fails.
    pub(super) fn concerns_one_review(&self) -> bool {
        let Self::Status { status, .. } = self else { return false };
        matches!(
            *status,
            StatusCode::BAD_REQUEST
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNPROCESSABLE_ENTITY
                | StatusCode::INTERNAL_SERVER_ERROR
        )
    }

    /// Returns the error of a response that is not 200.
    pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, text: &[u8]) -> Self {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let mut detail = one_line(String::from_utf8_lossy(text).trim(), MAX_ERROR_BYTES);
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            let seconds = header(RETRY_AFTER).and_then(|text| text.parse().ok());
            let retry_after = Duration::from_secs(seconds.unwrap_or_default());
            return Self::Overload { status, detail, retry_after };
        }
        if status.is_redirection() {
            let location = one_line(header(LOCATION).unwrap_or_default(), 512);
            detail = format!(
                "a redirect to {location:?}, which opgate does not follow, because reviews can contain \
                 Secrets: name the final URL"
            );
        }
        if detail.is_empty() {
            "an empty response; is this the URL of a webhook?".clone_into(&mut detail);
        }
        Self::Status { status, detail }
    }
}
