//! References to images, as `reference.ParseNormalizedNamed` and `reference.Parse` read them, with
//! their texts.
//!
//! ```text
//! [domain/]path[:tag][@digest]
//! ```

/// The reason why a text is no reference to an image, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReferenceError(String);

/// The message of a violation is this text.
impl From<ReferenceError> for String {
    fn from(error: ReferenceError) -> Self {
        error.0
    }
}

const INVALID: &str = "invalid reference format";
const UPPERCASE: &str = "invalid reference format: repository name must be lowercase";
/// Upstream's error for a reference that would be valid in lower case.
const LOWERCASE: &str = "repository name must be lowercase";
const TOO_LONG: &str = "repository name must not be more than 255 characters";
/// Names of repositories, without tag and digest.
const MAX_NAME_BYTES: usize = 255;

/// Returns the error of the reference.
#[must_use]
pub fn error(reference: &str) -> Option<ReferenceError> {
    parse(reference).err()
}

/// Returns the error of `reference.Parse`: it adds no default, so that a domain need not look like one
/// (`Registry/a`).
#[must_use]
pub fn plain_error(reference: &str) -> Option<ReferenceError> {
    let Some((path, digest)) = plain_parts(reference) else {
        let why = if reference.is_empty() {
            "repository name must have at least one component"
        } else if plain_parts(&reference.to_lowercase()).is_some() {
            LOWERCASE
        } else {
            INVALID
        };
        return Some(ReferenceError(why.to_owned()));
    };
    if path.len() > MAX_NAME_BYTES {
        return Some(ReferenceError(TOO_LONG.to_owned()));
    }
    digest.and_then(|digest| check_digest(digest).err())
}

/// Returns path and digest of a well-formed reference.
fn plain_parts(reference: &str) -> Option<(&str, Option<&str>)> {
    let (named, digest) = match reference.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (reference, None),
    };
    let last = named.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match named.get(last..).and_then(|last| last.find(':')) {
        Some(colon) => (named.get(..last + colon)?, named.get(last + colon + 1..)),
        None => (named, None),
    };
    let path = match name.split_once('/') {
        Some((domain, path)) if is_domain(domain) || is_address(domain) => path,
        _ => name,
    };
    let well_formed = path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(looks_like_digest);
    well_formed.then_some((path, digest))
}

/// Reports whether a domain is an IPv6 address in brackets, with a port or without.
fn is_address(domain: &str) -> bool {
    let Some((address, port)) = domain.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    else {
        return false;
    };
    let is_inner = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    !address.is_empty()
        && address.bytes().all(is_inner)
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_number))
}

/// Returns the digest of a reference that has a valid one, with or without a tag: the digest takes
/// precedence. The text before the digest is not checked: clients that pull images accept more registries
/// (`[fd00::1]:5000/a`) than [`error`] does.
#[must_use]
pub fn digest(reference: &str) -> Option<&str> {
    let (named, digest) = reference.split_once('@')?;
    let is_named = !named.is_empty() && !named.contains(char::is_whitespace);
    (is_named && looks_like_digest(digest) && check_digest(digest).is_ok()).then_some(digest)
}

fn parse(reference: &str) -> Result<(), ReferenceError> {
    if reference.len() == 64 && reference.bytes().all(is_lower_hex) {
        return Err(ReferenceError(format!(
            "invalid repository name ({reference}), cannot specify 64-byte hexadecimal strings"
        )));
    }
    let (domain, rest) = split_domain(reference);
    // Upstream ends the name at the first colon, even at that of a digest.
    let name = rest.split(':').next().unwrap_or(rest);
    let has_upper = if name.is_ascii() {
        name.bytes().any(|byte| byte.is_ascii_uppercase())
    } else {
        name.chars().any(char::is_uppercase)
    };
    if has_upper {
        return Err(ReferenceError(UPPERCASE.to_owned()));
    }
    let Some((path, digest)) = parts(domain, rest) else {
        let (domain, rest) = (domain.map(str::to_lowercase), rest.to_lowercase());
        let why = parts(domain.as_deref(), &rest).map_or(INVALID, |_| LOWERCASE);
        return Err(ReferenceError(why.to_owned()));
    };
    // Docker's own domain, and its library where the path has one component only.
    let prefix = match domain {
        Some("docker.io" | "index.docker.io") | None if path.contains('/') => "docker.io/".len(),
        Some("docker.io" | "index.docker.io") | None => "docker.io/library/".len(),
        Some(domain) => domain.len() + 1,
    };
    if prefix + path.len() > MAX_NAME_BYTES {
        return Err(ReferenceError(TOO_LONG.to_owned()));
    }
    digest.map_or(Ok(()), check_digest)
}

/// Returns path and digest of a well-formed reference. Text that only resembles a domain may be a part of the
/// path: `my_registry.example.com/a`.
fn parts<'r>(domain: Option<&str>, rest: &'r str) -> Option<(&'r str, Option<&'r str>)> {
    let (named, digest) = match rest.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match named.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (named, None),
    };
    let well_formed = domain.is_none_or(|domain| is_domain(domain) || is_component(domain))
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(looks_like_digest);
    well_formed.then_some((path, digest))
}

/// Splits the part before the first slash, which is a domain if it looks like one.
fn split_domain(reference: &str) -> (Option<&str>, &str) {
    match reference.split_once('/') {
        Some((domain, rest)) if domain.contains(['.', ':']) || domain == "localhost" => {
            (Some(domain), rest)
        }
        _ => (None, reference),
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (domain, None),
    };
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    host.split('.').all(is_part) && port.is_none_or(is_number)
}

/// Reports whether a path component has lower case letters and digits, with `.`, `_`, `__` or any number of
/// `-` between them.
fn is_component(component: &str) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|byte| byte.is_some_and(is_inner))
        && bytes.split(is_inner).all(|between| {
            matches!(between, b"" | b"." | b"_" | b"__") || between.iter().all(|byte| *byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
        && tag.bytes().next().is_some_and(is_word)
}

/// Reports whether a text is an algorithm and at least 32 hexadecimal digits.
fn looks_like_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_part)
        && hex.len() >= 32
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn check_digest(digest: &str) -> Result<(), ReferenceError> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or((digest, ""));
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ if algorithm.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            return Err(ReferenceError("invalid checksum digest format".to_owned()));
        }
        _ => return Err(ReferenceError("unsupported digest algorithm".to_owned())),
    };
    if hex.len() != length {
        return Err(ReferenceError("invalid checksum digest length".to_owned()));
    }
    if !hex.bytes().all(is_lower_hex) {
        return Err(ReferenceError("invalid checksum digest format".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let hex = "abcd1234".repeat(8);
        for reference in [
            "x",
            "foo-bundle:v0.1.0",
            "registry.io/image",
            "localhost:5000/a/b__c.d--e:1.0",
            "my_registry.example.com/a:1.0",
            &format!("quay.io/operator-framework/foo-bundle:v0.1.0@sha256:{hex}"),
            &format!("example.com/example-inc/example-operator-bundle@sha256:{hex}"),
        ] {
            assert_eq!(error(reference), None, "{reference}");
        }
        for (reference, why) in [
            ("not an image", INVALID),
            ("", INVALID),
            ("a//b", INVALID),
            ("a:", INVALID),
            ("quay.io/a..b/c", INVALID),
            ("quay.io/a@sha256:12", INVALID),
            ("quay.io/Foo/bar", UPPERCASE),
            ("My_registry.example.com/a", LOWERCASE),
            ("my_registry.example.com:5000/a", INVALID),
            ("a.b./c", INVALID),
            (&format!("quay.io/a@ssha256:{hex}"), "unsupported digest algorithm"),
            (&format!("quay.io/a@sha256:{hex}00"), "invalid checksum digest length"),
            (&format!("quay.io/a@sha256:{}", hex.to_uppercase()), "invalid checksum digest format"),
            (
                &format!("quay.io/{}", "a".repeat(250)),
                "repository name must not be more than 255 characters",
            ),
            (
                &hex,
                &format!(
                    "invalid repository name ({hex}), cannot specify 64-byte hexadecimal strings"
                ),
            ),
        ] {
            assert_eq!(
                error(reference).map(|why| why.to_string()).as_deref(),
                Some(why),
                "{reference}"
            );
            assert_eq!(digest(reference), None, "{reference}");
        }
    }

    #[test]
    fn plain_references() {
        let hex = "abcd1234".repeat(8);
        for (reference, why) in [
            ("x", None),
            (&hex, None),
            ("foo/v1", None),
            ("Registry/a:B", None),
            ("localhost:5000/a/b__c.d--e:1.0", None),
            ("my_registry.example.com/a:1.0", None),
            ("[fd00::1]:5000/a", None),
            ("[fd00::1]/a:b", None),
            (&format!("quay.io/a:1@sha256:{hex}"), None),
            ("", Some("repository name must have at least one component")),
            ("Foo", Some(LOWERCASE)),
            ("quay.io/Foo/bar", Some(LOWERCASE)),
            ("foo/v{foobar}", Some(INVALID)),
            ("quay.io/a:{b", Some(INVALID)),
            ("a//b", Some(INVALID)),
            ("a:", Some(INVALID)),
            ("[]/a", Some(INVALID)),
            ("[fd00::1]5/a", Some(INVALID)),
            (&format!("quay.io/{}", "a".repeat(255)), None),
            (&format!("quay.io/{}", "a".repeat(256)), Some(TOO_LONG)),
            (&format!("quay.io/a@ssha256:{hex}"), Some("unsupported digest algorithm")),
        ] {
            assert_eq!(
                plain_error(reference).map(|why| why.to_string()).as_deref(),
                why,
                "{reference}"
            );
        }
    }

    #[test]
    fn digests() {
        let hex = "abcd1234".repeat(8);
        let sha256 = format!("sha256:{hex}");
        let sha512 = format!("sha512:{hex}{hex}");
        for (reference, expected) in [
            (format!("a@{sha256}"), Some(&sha256)),
            (format!("localhost:5000/a/b:v1.0.0@{sha256}"), Some(&sha256)),
            (format!("quay.io/a@{sha512}"), Some(&sha512)),
            (format!("[fd00::1]:5000/a@{sha256}"), Some(&sha256)),
            (format!("a b@{sha256}"), None),
            (format!("a@{sha256} "), None),
            ("localhost:5000/a".to_owned(), None),
            ("quay.io/a:sha256".to_owned(), None),
            ("quay.io/a@sha256".to_owned(), None),
            ("quay.io/a@latest".to_owned(), None),
            (format!("@{sha256}"), None),
            (sha256.clone(), None),
            (format!("a@{sha256}@{sha256}"), None),
            (format!("a@{sha512}00"), None),
        ] {
            assert_eq!(digest(&reference), expected.map(String::as_str), "{reference}");
        }
    }
}
