//! Proxies: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

/// Which proxy is for which address.
#[derive(Debug)]
pub struct Proxies(Option<Matcher>);

/// A proxy.
pub(crate) struct Proxy {
    pub(crate) uri: Uri,
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxies {
    /// Those of the environment: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, also in lower case.
    #[must_use]
    pub fn of_environment() -> Self {
        Self(Some(Matcher::from_env()))
    }

    /// This one for everything but these hosts.
    #[must_use]
    pub fn all(proxy: &str, except: &str) -> Self {
        Self(Some(Matcher::builder().all(proxy).no(except).build()))
    }

    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    pub(crate) fn of(&self, uri: &Uri) -> Option<Proxy> {
        let found = self.0.as_ref()?.intercept(uri)?;
        Some(Proxy { uri: found.uri().clone(), authorization: found.basic_auth().cloned() })
    }
}
