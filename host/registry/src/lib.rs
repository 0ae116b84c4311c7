//! Policies in OCI registries.
//!
//! ```text
//! oci://HOST/REPO:TAG@DIGEST ─▶ Reference ─┐
//! config.json of docker ─▶ Credentials ────┼─▶ Registry ─┬─▶ pull   ─▶ PulledComponent: digest, component
//! CAs, proxies, Limits ─▶ Transport ───────┘      │      ├─▶ push   ─▶ digest
//!                                               Cache    └─▶ verify ─▶ digest
//! ```
//!
//! * [`Reference`]: the location of an artifact.
//! * [`Credentials`]: names and passwords by host, from a docker configuration.
//! * `transport`: one request and its response: TCP, proxy, TLS, HTTP/1.1, within limits.
//! * `client`: authentication, redirects and retries around it.
//! * `manifest`: finds the component's layer in manifests, and writes manifests.
//! * [`PublicKeys`]: signatures in the format of cosign.
//! * [`Cache`]: pulled content by digest.
//!
//! opgate does not trust a registry. It uses content only if the content has the requested digest. Without a signature, it trusts the
//! registry for one thing: the digest of a tag. Bytes and time of each response are limited.

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
pub use digest::{Digest, DigestError};
pub use error::Error;
pub use proxy::Proxies;
pub use pull::PulledComponent;
pub use push::Interfaces;
pub use reference::{Reference, ReferenceError, Repository, SCHEME};
pub use signature::{PublicKeys, SignatureError};

use client::Client;
use transport::Transport;

/// Limits of a session with a registry.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time of one pull or push, from the first look-up to the last byte, with all retries.
    pub total_timeout: Duration,
    /// Time from the look-up of a name to the end of the handshake.
    pub connect_timeout: Duration,
    /// Time between a request and the head of its response, and between two parts of a body.
    pub progress_timeout: Duration,
    /// Maximum number of attempts of a request.
    pub max_attempts: u32,
    /// Wait before the second attempt; each further wait doubles.
    pub initial_backoff: Duration,
    /// Maximum `Retry-After` that opgate honors.
    pub max_retry_wait: Duration,
    /// Maximum bytes of a component.
    pub max_component_bytes: usize,
}

impl Limits {
    /// Returns the limits for components of at most this size: two minutes in total, four attempts.
    #[must_use]
    pub fn of(component: usize) -> Self {
        Self {
            total_timeout: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(10),
            progress_timeout: Duration::from_secs(20),
            max_attempts: 4,
            initial_backoff: Duration::from_millis(500),
            max_retry_wait: Duration::from_secs(30),
            max_component_bytes: component,
        }
    }
}

/// Options for the connections to registries.
#[derive(Debug)]
pub struct Options {
    /// Names and passwords.
    pub credentials: Credentials,
    /// A PEM file with CAs to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// Hosts (`HOST` or `HOST:PORT`, as in the reference) that opgate contacts without TLS.
    pub insecure: BTreeSet<String>,
    /// Proxies.
    pub proxies: Proxies,
    /// Limits.
    pub limits: Limits,
}

/// A client for registries.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    limits: Limits,
}

impl Registry {
    /// Creates a client without a connection.
    ///
    /// # Errors
    /// If the file of CAs is unusable.
    pub fn new(options: Options) -> Result<Self, Error> {
        let Options { credentials, ca, insecure, proxies, limits } = options;
        let transport = Transport::new(ca.as_deref(), proxies, limits)?;
        Ok(Self { client: Client::new(transport, credentials, insecure, limits), limits })
    }

    /// Runs an operation within the total time.
    async fn with_timeout<T>(
        &self,
        reference: &Reference,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let done = tokio::time::timeout(self.limits.total_timeout, work).await;
        done.unwrap_or_else(|_| {
            let (host, total) = (reference.host(), self.limits.total_timeout);
            Err(Error::permanent(format!("not done within {total:?}: {host} is too slow, or it was asked to be waited for too long")))
        })
        .map_err(|error| error.with_reference(reference))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    use crate::challenge::Challenge;
    use crate::manifest::Manifest;
    use crate::{PublicKeys, Reference};

    proptest! {
        /// Texts of registries and administrators are parsed or rejected.
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
                let _ = Manifest::parse(bytes, None);
            }
            let _ = PublicKeys::parse(&text);
        }
    }
}
