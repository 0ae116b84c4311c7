//! The names by which a browser may open a page.
//!
//! A website can resolve its own name to the loopback address of a user, and then read a page that only this user
//! can reach, for example through a port-forward. The browser sends the name of the website as `Host`. An IP address
//! and `localhost` cannot be such a name.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use http::header::HOST;
use opgate_text::html::visible_line;

/// Maximum bytes of a host name, and of a name in an error.
pub const MAX_HOST_BYTES: usize = 253;

/// The names of a page.
#[derive(Debug, Clone, Default)]
pub struct HostNames(Vec<String>);

/// Why a request does not get a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostError {
    /// There is no Host header, or several, or it is not text.
    Missing,
    /// Another name than those of the page, shortened.
    Unknown(String),
}

impl HostNames {
    /// Allows these names in addition to IP addresses and `localhost`, whatever their port.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Checks the Host header of a request.
    ///
    /// # Errors
    /// If the page does not have this name.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), HostError> {
        let mut values = headers.get_all(HOST).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(HostError::Missing);
        };
        let host = value.to_str().map_err(|_| HostError::Missing)?;
        if self.has(host) {
            Ok(())
        } else {
            Err(HostError::Unknown(visible_line(host, MAX_HOST_BYTES)))
        }
    }

    fn has(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        let name = name.to_ascii_lowercase();
        if let Some(inner) = name.strip_prefix('[') {
            return inner.strip_suffix(']').is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
        }
        let is_address = name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
        is_address || name == "localhost" || self.0.contains(&name)
    }
}

/// Returns the name before the port. None if what follows it is no port.
fn name_of(host: &str) -> Option<&str> {
    let end = if host.starts_with('[') {
        host.find(']')? + 1
    } else {
        host.find(':').unwrap_or(host.len())
    };
    let (name, rest) = host.split_at_checked(end)?;
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_page_are_allowed() {
        let names = HostNames::new(["Opgate.Example.com".to_owned()]);
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8081", true),
            ("127.0.0.1:8081", true),
            ("10.1.2.3", true),
            ("[::1]:8081", true),
            ("[fd00::1]", true),
            ("opgate.example.com:8081", true),
            ("OPGATE.example.com", true),
            ("", false),
            (":8081", false),
            ("evil.example", false),
            ("evil.localhost", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost:80@evil.example", false),
            ("localhost:", true),
            ("localhost:x", false),
            ("[::1", false),
            ("[::1].evil.example", false),
            ("[evil.example]", false),
            ("::1", false),
            ("0x7f.1", false),
            ("localhost.", false),
            ("sub.opgate.example.com", false),
        ] {
            assert_eq!(names.has(host), expected, "{host}");
        }
    }

    #[test]
    fn one_host_header_is_needed() {
        let names = HostNames::default();
        let mut headers = HeaderMap::new();
        assert_eq!(names.check(&headers), Err(HostError::Missing));
        headers.insert(HOST, "localhost".parse().unwrap());
        assert_eq!(names.check(&headers), Ok(()));
        headers.append(HOST, "localhost".parse().unwrap());
        assert_eq!(names.check(&headers), Err(HostError::Missing));
        headers.insert(HOST, "x.example".parse().unwrap());
        assert_eq!(names.check(&headers), Err(HostError::Unknown("x.example".to_owned())));
    }
}
