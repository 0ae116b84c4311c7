//! Policies in OCI registries.
//!
//! ```text
//! oci://HOST/REPO:TAG@DIGEST ─▶ Reference ─┐
//! config.json of docker ─▶ Credentials ────┼─▶ Registry ─┬─▶ pull   ─▶ Pulled: digest, component
//! CAs, proxies, Limits ─▶ Transport ───────┘      │      ├─▶ push   ─▶ digest
//!                                               Cache    └─▶ verify ─▶ digest
//! ```
//!
//! * [`Reference`]: where an artifact is.
//! * [`Credentials`]: names and passwords by host, from a docker configuration.
//! * `transport`: one request and its answer: TCP, proxy, TLS, HTTP/1.1, within bounds.
//! * `client`: authentication, redirects and retries around it.
//! * `manifest`: which layer of which manifest is the component, and how ours are written.
//! * [`Keys`]: signatures in the format of cosign.
//! * [`Cache`]: what was pulled, by digest.
//!
//! A registry is not trusted. What it serves counts only if it has the digest that was asked for; a tag is the one thing that it is
//! believed, unless there is a signature. Everything that it sends is bounded in bytes and in time.

mod cache;
mod challenge;
mod client;
mod content;
mod credentials;
mod digest;
mod error;
mod manifest;
mod proxy;
mod pull;
mod push;
mod redirect;
mod reference;
mod signature;
mod token;
mod transport;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

pub use cache::Cache;
pub use credentials::Credentials;
pub use digest::Digest;
pub use error::Error;
pub use proxy::Proxies;
pub use pull::Pulled;
pub use reference::{Reference, Repository, SCHEME};
pub use signature::Keys;

use client::Client;
use transport::Transport;

/// Bounds of the conversation with a registry.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// One pull or push from the first look-up to the last byte, with all its retries.
    pub total: Duration,
    /// From the look-up of a name to the end of the handshake.
    pub connect: Duration,
    /// Between a request and the head of its answer, and between two parts of a body.
    pub progress: Duration,
    /// How often a request is sent.
    pub attempts: u32,
    /// Before the second attempt; each further wait is twice as long.
    pub backoff: Duration,
    /// The longest `Retry-After` that is waited for.
    pub longest_wait: Duration,
    /// Bytes of a component.
    pub component: usize,
}

impl Limits {
    /// The bounds for components of at most so many bytes: two minutes in all, four attempts.
    #[must_use]
    pub fn of(component: usize) -> Self {
        Self {
            total: Duration::from_secs(120),
            connect: Duration::from_secs(10),
            progress: Duration::from_secs(20),
            attempts: 4,
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            component,
        }
    }
}

/// How registries are reached.
#[derive(Debug)]
pub struct Options {
    /// Names and passwords.
    pub credentials: Credentials,
    /// A file with CAs that are trusted beside those of the system, PEM.
    pub ca: Option<PathBuf>,
    /// Hosts (`HOST` or `HOST:PORT`, as in the reference) that are spoken to without TLS.
    pub insecure: BTreeSet<String>,
    /// Proxies.
    pub proxies: Proxies,
    /// Bounds.
    pub limits: Limits,
}

/// What can be asked of registries.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    limits: Limits,
}

impl Registry {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// If the file of CAs cannot be used.
    pub fn new(options: Options) -> Result<Self, Error> {
        let Options { credentials, ca, insecure, proxies, limits } = options;
        let transport = Transport::new(ca.as_deref(), proxies, limits)?;
        Ok(Self { client: Client::new(transport, credentials, insecure, limits), limits })
    }

    /// Within the time for all of it.
    async fn in_time<T>(
        &self,
        reference: &Reference,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let done = tokio::time::timeout(self.limits.total, work).await;
        done.unwrap_or_else(|_| {
            let (host, total) = (reference.host(), self.limits.total);
            Err(Error::lasting(format!("not done within {total:?}: {host} is too slow, or it was asked to be waited for too long")))
        })
        .map_err(|error| error.of(reference))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    use crate::challenge::Challenge;
    use crate::manifest::Manifest;
    use crate::{Keys, Reference};

    proptest! {
        /// What registries and administrators write is read or refused.
        #[test]
        fn any_text_is_parsed_without_panic(text in "[a-zA-Z \",=\\\\:/@.\\[\\]{}0-9-]{0,200}", any in any::<Vec<u8>>()) {
            if let Ok(reference) = Reference::parse(&format!("oci://{text}")) {
                prop_assert_eq!(Reference::parse(&reference.to_string()), Ok(reference));
            }
            for bytes in [text.as_bytes(), &any] {
                if let Ok(value) = HeaderValue::from_bytes(bytes) {
                    let name = http::header::WWW_AUTHENTICATE;
                    let _ = Challenge::of(&HeaderMap::from_iter([(name, value)]));
                }
                let _ = Manifest::read(bytes, None);
            }
            let _ = Keys::parse(&text);
        }
    }
}
