//! `WWW-Authenticate`: the credentials that a registry requires.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, Uri};

/// The reason why no credentials are sent to the address of a challenge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RealmError(String);

/// The authentication that a registry requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// Name and password in each request.
    Basic,
    /// A token from this address, for this service.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Returns the first challenge that opgate supports; it prefers a token.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().take(8);
        let all: Vec<_> =
            values.filter_map(|value| value.to_str().ok()).flat_map(parse_challenges).collect();
        let bearer = all.iter().find(|challenge| matches!(challenge, Self::Bearer { .. }));
        bearer.or_else(|| all.first()).cloned()
    }
}

/// Returns the address of the token server: `https`, or a host that opgate may contact without TLS.
///
/// # Errors
/// If the address is neither.
pub(crate) fn parse_realm(
    text: &str,
    is_insecure: impl Fn(&str) -> bool,
) -> Result<Uri, RealmError> {
    let uri: Uri =
        text.parse().map_err(|_| RealmError(format!("the realm {text:?} is not an address")))?;
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let is_plain = uri.scheme_str() == Some("http") && is_insecure(authority);
    if authority.is_empty()
        || authority.contains('@')
        || !(is_plain || uri.scheme_str() == Some("https"))
    {
        return Err(RealmError(format!(
            "the realm {text:?} is no https address: no credentials are sent there"
        )));
    }
    Ok(uri)
}

/// Parses the challenges of one value: `Scheme key="value", key=value, Scheme …`.
fn parse_challenges(value: &str) -> Vec<Challenge> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = value;
    // The size of the head limits the parts of a value; each iteration consumes at least a byte.
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if word.is_empty() {
            break;
        }
        let after = behind.trim_start_matches([' ', '\t']);
        let Some(value) = after.strip_prefix('=') else {
            found.push((word.to_ascii_lowercase(), Vec::new()));
            rest = behind;
            continue;
        };
        let value = value.trim_start_matches([' ', '\t']);
        let (value, behind) = if let Some(quoted) = value.strip_prefix('"') {
            unquote(quoted)
        } else {
            let end = value.find([' ', '\t', ',']).unwrap_or(value.len());
            let (value, behind) = value.split_at_checked(end).unwrap_or((value, ""));
            (value.to_owned(), behind)
        };
        if let Some((_, parameters)) = found.last_mut() {
            parameters.push((word.to_ascii_lowercase(), value));
        }
        rest = behind;
    }
    let challenge = |(scheme, parameters): (String, Vec<(String, String)>)| {
        let get = |name: &str| {
            let found = parameters.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        match scheme.as_str() {
            "basic" => Some(Challenge::Basic),
            "bearer" => Some(Challenge::Bearer { realm: get("realm")?, service: get("service") }),
            _ => None,
        }
    };
    found.into_iter().filter_map(challenge).collect()
}

/// Returns the text in front of the closing quote, without escapes, and the text after it.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    (value, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be none")]
    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
    }

    #[test]
    fn challenges_are_read() {
        for (values, expected) in [
            (vec!["Basic realm=\"x\""], Some(Challenge::Basic)),
            (
                vec![
                    "Bearer realm=\"https://auth.example.com/token\",service=\"registry\",scope=\"repository:a:pull,push\"",
                ],
                bearer("https://auth.example.com/token", Some("registry")),
            ),
            (vec!["bearer realm = https://a/t , service=b"], bearer("https://a/t", Some("b"))),
            (vec!["Basic realm=\"x, Bearer realm=y\""], Some(Challenge::Basic)),
            (vec!["Basic realm=\"x\", Bearer realm=\"https://a/t\""], bearer("https://a/t", None)),
            (
                vec!["Basic realm=\"x\"", "Bearer realm=\"https://a/t\""],
                bearer("https://a/t", None),
            ),
            (vec!["Bearer realm=\"https://a/\\\"t\""], bearer("https://a/\"t", None)),
            (vec!["Bearer service=\"x\""], None),
            (vec!["Negotiate"], None),
            (vec!["Bearer realm=\"never closed"], bearer("never closed", None)),
            (vec!["=,=,\"\",,"], None),
            (vec![], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
            }
            assert_eq!(Challenge::of(&headers), expected, "{values:?}");
        }
    }

    #[test]
    fn tokens_are_fetched_over_tls() {
        let insecure = |host: &str| host == "localhost:5001";
        for (text, is_good) in [
            ("https://auth.example.com/token", true),
            ("http://localhost:5001/token", true),
            ("http://localhost:5002/token", false),
            ("http://169.254.169.254/latest/meta-data", false),
            ("file:///etc/passwd", false),
            ("https://user:password@auth.example.com/token", false),
            ("/token", false),
            ("", false),
        ] {
            assert_eq!(parse_realm(text, insecure).is_ok(), is_good, "{text}");
        }
    }
}
