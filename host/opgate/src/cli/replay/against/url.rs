//! The URL of a webhook, and the address of its server.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use http::Uri;
use http::uri::Authority;
use opgate_text::one_line;

/// Part of a path before the names of policies.
const POLICIES_PATH: &str = "/validate/";

/// The URL to which an API server would send reviews.
#[derive(Debug, Clone)]
pub(super) struct WebhookUrl {
    text: String,
    uri: Uri,
    server: ServerAddress,
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_line(&self.text, 512).fmt(f)
    }
}

impl WebhookUrl {
    /// Reads a URL of the command line.
    ///
    /// # Errors
    /// What is wrong with it, in one sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let example = "write https://HOST:PORT/validate";
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}: {example}"))?;
        let default_port = match uri.scheme_str() {
            Some("https") => 443,
            Some("http") => 80,
            _ => return Err(format!("not a URL of a webhook: {example}")),
        };
        let Some(authority) = uri.authority() else {
            return Err(format!("a URL without a host: {example}"));
        };
        let server = ServerAddress::of(authority, Some(default_port))?;
        Ok(Self { text: text.to_owned(), server, uri })
    }

    /// Reports whether the server is contacted over TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// Returns the names of the policies that decide, with `/` between them; none if all do.
    pub(super) fn policies(&self) -> Option<&str> {
        let (_, names) = self.uri.path().split_once(POLICIES_PATH)?;
        (!names.is_empty()).then_some(names)
    }

    /// Returns path and query.
    pub(super) fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", |path| path.as_str())
    }

    /// Returns the value of the header `Host`.
    pub(super) fn authority(&self) -> &str {
        self.uri.authority().map_or("", Authority::as_str)
    }

    /// Returns the server that the URL names.
    pub(super) fn server(&self) -> &ServerAddress {
        &self.server
    }
}

/// Host and port of a server.
#[derive(Debug, Clone)]
pub(super) struct ServerAddress {
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl ServerAddress {
    /// Reads `HOST:PORT` of the command line.
    ///
    /// # Errors
    /// What is wrong with it, in one sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let authority = text.parse::<Authority>();
        Self::of(&authority.map_err(|error| format!("not HOST:PORT: {error}"))?, None)
    }

    fn of(authority: &Authority, default_port: Option<u16>) -> Result<Self, String> {
        if authority.as_str().contains('@') {
            return Err("a user name in an address: opgate sends none, leave it out".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().or(default_port).ok_or("no port: write HOST:PORT")?;
        if host.is_empty() {
            return Err("no host: write HOST:PORT".to_owned());
        }
        Ok(Self { host, port })
    }

    /// Resolves the name.
    ///
    /// # Errors
    /// If it has no address.
    pub(super) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let addresses: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if addresses.is_empty() {
            return Err(io::Error::other("the name has no address"));
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_names_server_and_policies() {
        for (text, address, policies) in [
            ("https://opgate.opgate-system.svc/validate", "opgate.opgate-system.svc:443", None),
            ("https://[::1]:8443/validate?timeout=5s", "[::1]:8443", None),
            ("https://a/validate/pod-security/x?timeout=5s", "a:443", Some("pod-security/x")),
            ("http://127.0.0.1/validate/", "127.0.0.1:80", None),
        ] {
            let url = WebhookUrl::parse(text).unwrap();
            assert_eq!((url.server().to_string().as_str(), url.policies()), (address, policies));
        }
    }

    #[test]
    fn unusable_addresses_are_rejected_with_the_fix() {
        for text in ["127.0.0.1:8443", "ftp://a/validate", "/validate", "https://"] {
            let error = WebhookUrl::parse(text).unwrap_err();
            assert!(error.contains("write https://HOST:PORT/validate"), "{text}: {error}");
        }
        assert!(WebhookUrl::parse("https://u:p@a/validate").unwrap_err().contains("leave it out"));
        for text in ["localhost", ":8443", ""] {
            let error = ServerAddress::parse(text).unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }
}
