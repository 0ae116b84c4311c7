//! Proxies: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use crate::Error;

/// Environment variables with the address of a proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// The proxies by address.
#[derive(Debug)]
pub struct Proxies(Option<Matcher>);

/// A proxy.
pub(crate) struct Proxy {
    pub(crate) uri: Uri,
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxies {
    /// Reads the environment: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, also in lower case.
    ///
    /// # Errors
    /// If a value is no address: opgate would otherwise bypass the proxy silently.
    pub fn from_environment() -> Result<Self, Error> {
        for name in PROXY_VARIABLES {
            let value = std::env::var(name).unwrap_or_default();
            if !value.is_empty() && !is_proxy(&value) {
                // The value can contain a password.
                return Err(Error::permanent(format!(
                    "{name} is not the address of a proxy: write http://HOST:PORT"
                )));
            }
        }
        Ok(Self(Some(Matcher::from_env())))
    }

    /// One proxy for all hosts except these.
    #[must_use]
    pub fn all(proxy: &str, except: &str) -> Self {
        Self(Some(Matcher::builder().all(proxy).no(except).build()))
    }

    /// No proxy.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    pub(crate) fn of(&self, uri: &Uri) -> Option<Proxy> {
        let found = self.0.as_ref()?.intercept(uri)?;
        Some(Proxy { uri: found.uri().clone(), authorization: found.basic_auth().cloned() })
    }
}

/// Whether a text is the address of a proxy.
fn is_proxy(text: &str) -> bool {
    Matcher::builder().all(text).build().intercept(&Uri::from_static("https://a")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_proxy_urls_are_detected() {
        for (text, expected) in [
            ("http://proxy.example.com:3128", true),
            ("proxy.example.com:3128", true),
            ("http://user:password@10.0.0.1:3128", true),
            ("ftp://proxy.example.com", false),
            ("http://", false),
            ("a b", false),
        ] {
            assert_eq!(is_proxy(text), expected, "{text}");
        }
    }
}
