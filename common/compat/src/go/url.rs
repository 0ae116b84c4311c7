//! URLs as Go's `net/url` reads those of requests, with its texts.

use super::ip::Ip;
use super::{quote, quote_bytes};

/// The reason why a text is no URL, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(String);

/// The message of a violation is this text.
impl From<UrlError> for String {
    fn from(error: UrlError) -> Self {
        error.0
    }
}

/// Checks as `url.ParseRequestURI` whether a text is an absolute URL, or an absolute path.
///
/// # Errors
/// Go's text.
pub fn check_request_uri(text: &str) -> Result<(), UrlError> {
    check(text.as_bytes()).map_err(|why| UrlError(format!("parse {}: {why}", quote(text))))
}

/// Context of an escape: not every character can be escaped everywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
    Other,
}

fn check(text: &[u8]) -> Result<(), UrlError> {
    if text.iter().any(u8::is_ascii_control) {
        return Err(UrlError("net/url: invalid control character in URL".to_owned()));
    }
    if text.is_empty() {
        return Err(UrlError("empty url".to_owned()));
    }
    if text == b"*" {
        return Ok(());
    }
    let (scheme, rest) = scheme(text)?;
    // The query is not decoded.
    let rest = cut(rest, b'?').map_or(rest, |(rest, _)| rest);
    let Some(path) = rest.strip_prefix(b"/") else {
        return match scheme {
            [] => Err(UrlError("invalid URI for request".to_owned())),
            _ => Ok(()),
        };
    };
    match path.strip_prefix(b"/").filter(|_| !scheme.is_empty()) {
        None => unescape(rest, Part::Other).map(drop),
        Some(rest) => {
            let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, b""));
            check_authority(scheme, authority)?;
            unescape(path, Part::Other).map(drop)
        }
    }
}

fn cut(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == at)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Returns the scheme, empty for none, and what follows it.
fn scheme(text: &[u8]) -> Result<(&[u8], &[u8]), UrlError> {
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err(UrlError("missing protocol scheme".to_owned())),
            b':' => {
                return Ok(text.split_at_checked(index).map_or((b"", text), |(scheme, rest)| {
                    (scheme, rest.get(1..).unwrap_or_default())
                }));
            }
            _ => break,
        }
    }
    Ok((b"", text))
}

fn check_authority(scheme: &[u8], authority: &[u8]) -> Result<(), UrlError> {
    let Some(at) = authority.iter().rposition(|&byte| byte == b'@') else {
        return check_host(scheme, authority);
    };
    let (user, host) = authority.split_at_checked(at).unwrap_or((b"", authority));
    check_host(scheme, host.get(1..).unwrap_or_default())?;
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
    if !user.iter().all(is_valid) {
        return Err(UrlError("net/url: invalid userinfo".to_owned()));
    }
    let (name, password) = cut(user, b':').unwrap_or((user, b""));
    unescape(name, Part::Other)?;
    unescape(password, Part::Other).map(drop)
}

fn check_port(port: &[u8]) -> Result<(), UrlError> {
    let is_valid = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_valid {
        Ok(())
    } else {
        Err(UrlError(format!("invalid port {} after host", quote_bytes(port))))
    }
}

fn check_host(scheme: &[u8], host: &[u8]) -> Result<(), UrlError> {
    match host.iter().rposition(|&byte| byte == b'[') {
        Some(0) => return check_literal(host),
        Some(_) => return Err(UrlError("invalid IP-literal".to_owned())),
        None => {}
    }
    // Databases have lists of hosts with ports, which Go reads where the scheme is another one.
    let is_colon = |byte: &u8| *byte == b':';
    let is_http = [&b"http"[..], b"https"].iter().any(|http| scheme.eq_ignore_ascii_case(http));
    let colon =
        if is_http { host.iter().position(is_colon) } else { host.iter().rposition(is_colon) };
    if let Some(colon) = colon {
        check_port(host.get(colon..).unwrap_or_default())?;
    }
    unescape(host, Part::Host).map(drop)
}

/// Checks an address of version 6 in brackets, and a port.
fn check_literal(host: &[u8]) -> Result<(), UrlError> {
    let close = host
        .iter()
        .rposition(|&byte| byte == b']')
        .ok_or_else(|| UrlError("missing ']' in host".to_owned()))?;
    let port = host.get(close + 1..).unwrap_or_default();
    check_port(port)?;
    let name = host.get(1..close).unwrap_or_default();
    let zone = name.windows(3).position(|escape| escape == b"%25").unwrap_or(name.len());
    let (address, zone) = name.split_at_checked(zone).unwrap_or((name, b""));
    let mut decoded = unescape(address, Part::Host)?;
    decoded.extend(unescape(zone, Part::Zone)?);
    match Ip::parse(&decoded).map_err(|why| UrlError(format!("invalid host: {why}")))? {
        Ip::V4(_) => Err(UrlError("invalid IP-literal".to_owned())),
        Ip::V6(..) => Ok(()),
    }
}

/// Bytes that a host may have as they are.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!\"$&'()*+,-.:;<=>[]_~".contains(&byte)
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, UrlError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            if part != Part::Other && byte.is_ascii() && !is_host_byte(byte) {
                return Err(UrlError(format!(
                    "invalid character {} in host name",
                    quote_bytes(&[byte])
                )));
            }
            decoded.push(byte);
            rest = after;
            continue;
        }
        let hex = |byte: &u8| char::from(*byte).to_digit(16);
        let number = match after {
            [high, low, ..] => hex(high).zip(hex(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        let escape = rest.get(..3).unwrap_or(rest);
        let number = number.and_then(|number| u8::try_from(number).ok()).filter(|&number| {
            match part {
                Part::Other => true,
                // In a host only bytes that are not ASCII are escaped, and the sign of a zone.
                Part::Host => number >= 0x80 || escape == b"%25",
                Part::Zone => escape == b"%25" || number == b' ' || is_host_byte(number),
            }
        });
        let Some(number) = number else {
            return Err(UrlError(format!("invalid URL escape {}", quote_bytes(escape))));
        };
        decoded.push(number);
        rest = rest.get(3..).unwrap_or_default();
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_uris_valid_in_go_are_accepted() {
        for text in [
            "http://foo.com",
            "http://foo.com/path?x=%#fragment",
            "/",
            "//looks.like.a.host/path",
            "//not.a.user@%66%6f%6f.com/just/a/path/also",
            "*",
            "mailto:dev@example.com",
            "http:no-slash",
            "http://192.168.0.1:8080/",
            "http://192.168.0.1:/",
            "http://user:p@ss@example.com/",
            "http://h%c3%b6st/",
            "postgres://a:1,b:2/db",
            "http://[fe80::1]:8080/",
            "http://[fe80::1%25en0]/",
            "http://[fe80::1%25%65%6e%301-._~]:8080/",
            "https://[::ffff:192.0.2.1]",
        ] {
            assert_eq!(check_request_uri(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn errors_match_go() {
        for (text, error) in [
            ("", "empty url"),
            ("foo.html", "invalid URI for request"),
            ("../dir/", "invalid URI for request"),
            (" http://foo.com", "invalid URI for request"),
            ("https//coreos.com/docs/", "invalid URI for request"),
            ("1http://a", "invalid URI for request"),
            ("http://a\tb", "net/url: invalid control character in URL"),
            ("://a", "missing protocol scheme"),
            ("http://a b/", "invalid character \" \" in host name"),
            ("http://192.168.0.%31/", "invalid URL escape \"%31\""),
            ("http://a/%z", "invalid URL escape \"%z\""),
            ("http://a/%zé", "invalid URL escape \"%z\\xc3\""),
            ("http://a:b@c:d/", "invalid port \":d\" after host"),
            ("http://a:1,b:2/", "invalid port \":1,b:2\" after host"),
            ("http://a b@c/", "net/url: invalid userinfo"),
            ("http://%zz@c/", "invalid URL escape \"%zz\""),
            ("http://[::1", "missing ']' in host"),
            ("http://a[::1]/", "invalid IP-literal"),
            ("http://[::1]a/", "invalid port \"a\" after host"),
            ("http://[1.2.3.4]/", "invalid IP-literal"),
            ("http://[fe80::%31]/", "invalid URL escape \"%31\""),
            ("http://[fe80::1%en0]/", "invalid URL escape \"%en\""),
            ("http://[fe80::1%25%2f]/", "invalid URL escape \"%2f\""),
            ("http://[a]/", "invalid host: ParseAddr(\"a\"): unable to parse IP"),
        ] {
            let expected = format!("parse {}: {error}", quote(text));
            assert_eq!(check_request_uri(text).unwrap_err().to_string(), expected);
        }
    }
}
