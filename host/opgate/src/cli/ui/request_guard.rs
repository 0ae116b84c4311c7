//! Requests that may be answered: from a browser that has opened this page by the loopback interface.
//!
//! A website must not use the page through the browser of a user: the Host header stops names that resolve to the
//! loopback address, Origin, Sec-Fetch-Site and a token in the page stop inputs from other pages.

use std::fmt::Write as _;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use opgate_ui::HostNames;
use thiserror::Error;

/// The secret of a page, which it sends with an input.
#[derive(Clone)]
pub(super) struct Token(String);

impl Token {
    /// Creates a random one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn create() -> Result<Self, Unspecified> {
        let mut bytes = [0_u8; 16];
        rand::fill(&mut bytes)?;
        let mut text = String::new();
        for byte in bytes {
            // Writing to a text does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on the value.
    pub(super) fn is(&self, other: &[u8]) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), other).is_ok()
    }
}

/// Why a request gets no answer.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum GuardError {
    #[error("this page is not known by that name: open it by the address that `opgate ui` printed")]
    Host,
    #[error("this form belongs to another page: send the form of this page")]
    Origin,
}

/// Checks the name by which the page was opened.
///
/// # Errors
/// If it is neither an IP address nor `localhost`.
pub(super) fn check_host(headers: &HeaderMap) -> Result<(), GuardError> {
    HostNames::default().check(headers).map_err(|_| GuardError::Host)
}

/// Checks that this page sent an input, as far as the headers tell.
///
/// # Errors
/// If another page sent it.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), GuardError> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST.as_str()).unwrap_or_default();
    let is_own = text(ORIGIN.as_str()).is_none_or(|origin| origin == format!("http://{host}"));
    let site = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    if is_own && site { Ok(()) } else { Err(GuardError::Origin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_equal_only_themselves() {
        let (one, other) = (Token::create().unwrap(), Token::create().unwrap());
        assert_eq!(one.as_str().len(), 32);
        assert!(one.is(one.as_str().as_bytes()));
        for wrong in [other.as_str(), "", one.as_str().split_at(1).1] {
            assert!(!one.is(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn forms_of_other_pages_are_rejected() {
        for (origin, site, expected) in [
            (None, None, true),
            (Some("http://127.0.0.1:8090"), Some("same-origin"), true),
            (Some("http://127.0.0.1:8090"), Some("none"), true),
            (Some("http://127.0.0.1:9000"), None, false),
            (Some("https://127.0.0.1:8090"), None, false),
            (Some("null"), Some("same-origin"), false),
            (Some("http://evil.example"), Some("cross-site"), false),
            (None, Some("same-site"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "127.0.0.1:8090".parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            if let Some(site) = site {
                headers.insert("sec-fetch-site", site.parse().unwrap());
            }
            assert_eq!(check_origin(&headers).is_ok(), expected, "{origin:?} {site:?}");
        }
    }
}
