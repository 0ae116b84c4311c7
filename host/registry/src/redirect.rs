//! Follows redirects, and limits the hosts that get credentials.

use std::collections::BTreeSet;

use http::{HeaderValue, StatusCode, Uri};

use crate::Error;

/// Whether a response is a redirect.
pub(crate) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Whether two addresses are of the same scheme, host and port: other addresses get no credentials.
pub(crate) fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| {
        uri.port_u16().or(match uri.scheme_str() {
            Some("https") => Some(443),
            Some("http") => Some(80),
            _ => None,
        })
    };
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    one.scheme() == other.scheme() && host(one) == host(other) && port(one) == port(other)
}

/// Whether the set has a host, with or without its port.
pub(crate) fn is_insecure_host(insecure: &BTreeSet<String>, authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    insecure.contains(authority) || insecure.contains(host)
}

/// Returns the target of a redirect.
///
/// # Errors
/// If the target is no address, or one without TLS. opgate follows a redirect without TLS only if both hosts are named as hosts
/// without TLS. A request that began with TLS keeps TLS: otherwise the server could redirect it to an address where others can
/// read and change it.
pub(crate) fn redirect_target(
    from: &Uri,
    location: Option<&HeaderValue>,
    insecure: &BTreeSet<String>,
) -> Result<Uri, Error> {
    let text = location.and_then(|location| location.to_str().ok());
    let text = text.ok_or_else(|| Error::permanent("a redirect without an address"))?;
    let whole = if text.starts_with('/') && !text.starts_with("//") {
        let authority = from.authority().map_or("", http::uri::Authority::as_str);
        format!("{}://{authority}{text}", from.scheme_str().unwrap_or("https"))
    } else {
        text.to_owned()
    };
    // The query can contain a secret.
    let shown = text.split('?').next().unwrap_or_default();
    let wrong = |why: &str| Err(Error::permanent(format!("a redirect to {shown:?}: {why}")));
    let Ok(uri) = whole.parse::<Uri>() else { return wrong("not an address") };
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    if authority.is_empty() || authority.contains('@') {
        return wrong("not an address with a host alone");
    }
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if from.scheme_str() == Some("https") => {
            wrong("from https only https is followed, whatever --registry-insecure names")
        }
        Some("http") if is_insecure_host(insecure, authority) => Ok(uri),
        _ => wrong("only https is followed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_require_tls_or_a_named_host() {
        let insecure = BTreeSet::from(["localhost:5000".to_owned()]);
        for (from, location, expected) in [
            ("https://a.io/v2/x", "https://cdn.io/b?sig=s", Some("https://cdn.io/b?sig=s")),
            ("https://a.io/v2/x", "/v2/y", Some("https://a.io/v2/y")),
            ("http://localhost:5000/v2/x", "/v2/y", Some("http://localhost:5000/v2/y")),
            (
                "http://localhost:5000/v2/x",
                "http://localhost:5000/y",
                Some("http://localhost:5000/y"),
            ),
            ("https://a.io/v2/x", "http://a.io/v2/x", None),
            ("https://a.io/v2/x", "http://localhost:5000/v2/x", None),
            ("http://localhost:5000/v2/x", "https://a.io/v2/x", Some("https://a.io/v2/x")),
            ("http://localhost:5000/v2/x", "http://a.io/v2/x", None),
            ("https://a.io/v2/x", "http://localhost:5001/", None),
            ("https://a.io/v2/x", "//cdn.io/b", None),
            ("https://a.io/v2/x", "file:///etc/passwd", None),
            ("https://a.io/v2/x", "https://user:password@cdn.io/", None),
            ("https://a.io/v2/x", "", None),
            ("https://a.io/v2/x", "y", None),
        ] {
            let location = HeaderValue::from_str(location).unwrap();
            let found = redirect_target(&from.parse().unwrap(), Some(&location), &insecure);
            assert_eq!(
                found.ok().map(|uri| uri.to_string()).as_deref(),
                expected,
                "{from} {location:?}"
            );
        }
        let located = HeaderValue::from_static("http://cdn.io/b?sig=hush");
        let said = redirect_target(&"https://a.io/".parse().unwrap(), Some(&located), &insecure)
            .unwrap_err();
        assert!(!said.to_string().contains("hush"), "{said}");
    }

    #[test]
    fn credentials_stay_with_scheme_host_and_port() {
        for (one, other, expected) in [
            ("https://a.io/x", "https://A.io:443/y", true),
            ("https://a.io/x", "http://a.io/x", false),
            ("https://a.io/x", "https://a.io:8443/x", false),
            ("https://a.io/x", "https://b.a.io/x", false),
        ] {
            assert_eq!(
                is_same_origin(&one.parse().unwrap(), &other.parse().unwrap()),
                expected,
                "{one} {other}"
            );
        }
    }
}
