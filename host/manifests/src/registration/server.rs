//! Address of opgate for API servers: a Service, or a URL.

use std::collections::BTreeMap;

use clap::Args;
use http::Uri;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};

use super::names::is_label;
use opgate_controller::{INSTALLATION_LABEL, NAME_LABEL};

/// The reason why a text is no address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct AddressError(String);

/// Port of a Service that names none.
const HTTPS: u16 = 443;

/// Flags for the address of opgate, of which one is required.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ServerArgs {
    /// Service in front of the server; port 443 unless a port is named
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", value_parser = service)]
    service: Option<Service>,
    /// URL of a server without a Service; opgate appends the paths
    #[arg(long, value_name = "URL", value_parser = base_url)]
    url: Option<String>,
}

/// A Service, as `--service` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    name: String,
    port: u16,
}

impl Service {
    /// Creates it with the default port.
    #[must_use]
    pub fn of(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), port: HTTPS }
    }
}

/// Address of opgate for API servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A Service of the cluster.
    Service(Service),
    /// Without a slash at the end.
    Url(String),
}

impl ServerArgs {
    /// Returns the address.
    ///
    /// # Errors
    /// If no flag names one.
    pub fn target(self) -> anyhow::Result<Target> {
        match (self.service, self.url) {
            (Some(service), _) => Ok(Target::Service(service)),
            (None, Some(url)) => Ok(Target::Url(url)),
            (None, None) => anyhow::bail!("no server: give --service or --url"),
        }
    }
}

impl Target {
    /// Labels of the webhook configuration: a server behind a Service may change it itself.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let installation = match self {
            Self::Service(service) => Some(label(INSTALLATION_LABEL, &service.namespace)),
            Self::Url(_) => None,
        };
        [label(NAME_LABEL.0, NAME_LABEL.1)].into_iter().chain(installation).collect()
    }

    /// Returns `NAMESPACE/SERVICE`, for a server behind a Service.
    pub(super) fn owner(&self) -> Option<String> {
        match self {
            Self::Service(Service { namespace, name, .. }) => Some(format!("{namespace}/{name}")),
            Self::Url(_) => None,
        }
    }

    pub(super) fn client_config(&self, ca: &[u8], path: String) -> WebhookClientConfig {
        let (service, url) = match self {
            Self::Service(Service { namespace, name, port }) => {
                let service = ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    path: Some(path),
                    port: Some(i32::from(*port)),
                };
                (Some(service), None)
            }
            Self::Url(base) => (None, Some(format!("{base}{path}"))),
        };
        WebhookClientConfig { ca_bundle: Some(ByteString(ca.to_vec())), service, url }
    }
}

fn service(text: &str) -> Result<Service, AddressError> {
    let wrong = || {
        AddressError(format!("{text:?} is not in the format NAMESPACE/NAME or NAMESPACE/NAME:PORT"))
    };
    let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => {
            let port: Option<u16> = port.parse().ok();
            (name, port.filter(|port| *port > 0).ok_or_else(wrong)?)
        }
        None => (rest, HTTPS),
    };
    if is_label(namespace) && is_label(name) {
        Ok(Service { namespace: namespace.to_owned(), name: name.to_owned(), port })
    } else {
        Err(wrong())
    }
}

/// Parses the part of the webhooks' URLs before `/validate`.
fn base_url(text: &str) -> Result<String, AddressError> {
    let wrong =
        |why: &str| AddressError(format!("{text:?} {why}: write https://HOST[:PORT][/PREFIX]"));
    let url = text.parse::<Uri>();
    let url = url.map_err(|error| wrong(&format!("is not a URL ({error})")))?;
    if url.scheme_str() != Some("https") {
        return Err(wrong("is not an https URL, and API servers call no other"));
    }
    let authority = url.authority().filter(|authority| !authority.host().is_empty());
    let authority = authority.ok_or_else(|| wrong("names no host"))?;
    // The parser drops fragments.
    if authority.as_str().contains('@') || url.query().is_some() || text.contains('#') {
        return Err(wrong("has a user, a query or a fragment, which API servers refuse"));
    }
    Ok(format!("https://{authority}{}", url.path().trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_service_or_url() {
        let right = |namespace: &str, name: &str, port| Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        };
        assert_eq!(service("opgate-system/opgate"), Ok(right("opgate-system", "opgate", 443)));
        assert_eq!(service("a/b:9443"), Ok(right("a", "b", 9443)));
        for wrong in ["", "opgate", "a/", "/b", "a/b/c", "a/b:", "a/b:0", "a/b:65536", "A/b"] {
            let error = service(wrong).unwrap_err().to_string();
            assert!(error.contains("NAMESPACE/NAME:PORT"), "{wrong}");
        }
        for (url, base) in [
            ("https://127.0.0.1:9443", "https://127.0.0.1:9443"),
            ("https://opgate.example.com/", "https://opgate.example.com"),
            ("https://[::1]/a/b/", "https://[::1]/a/b"),
        ] {
            assert_eq!(base_url(url), Ok(base.to_owned()));
        }
        for (wrong, why) in [
            ("", "is not a URL"),
            ("https://a b", "is not a URL"),
            ("http://a", "is not an https URL"),
            ("a:9443", "is not an https URL"),
            ("/validate", "is not an https URL"),
            ("https://:9443", "names no host"),
            ("https://a/?", "a query"),
            ("https://a?b=c", "a query"),
            ("https://a/#b", "a fragment"),
            ("https://u:p@a", "a user"),
        ] {
            let error = base_url(wrong).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("write https://HOST"), "{error}");
        }
    }
}
