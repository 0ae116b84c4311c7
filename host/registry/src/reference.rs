//! References: `oci://HOST/REPOSITORY`, then `:TAG`, `@DIGEST` or both, by the rules of docker.

use std::fmt;

use crate::Digest;

/// The reason why a text is no reference and no repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReferenceError(String);

/// The scheme of references in a configuration and on the command line.
pub const SCHEME: &str = "oci://";

/// Docker's registry, and the host of its API.
const DOCKER_REGISTRY: &str = "docker.io";
const DOCKER_API_HOST: &str = "registry-1.docker.io";

/// The location of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Parses a reference with its scheme. It names a tag or a digest. There is no default tag: you choose the version.
    ///
    /// # Errors
    /// If the text has another format; the error describes the problem.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let wrong = |why: &str| Err(ReferenceError(format!("{text:?} is not a reference: {why}")));
        let Some(name) = text.strip_prefix(SCHEME) else {
            return wrong("write oci://HOST/REPOSITORY@sha256:…");
        };
        if name.contains("://") {
            return wrong("write the host behind oci://, without another scheme");
        }
        let Some((host, rest)) = name.split_once('/') else {
            return wrong("write oci://HOST/REPOSITORY@sha256:…");
        };
        if !(host.contains(['.', ':']) || host == "localhost") {
            return wrong(
                "name the host of the registry first, such as docker.io or localhost:5000",
            );
        }
        if let Some(why) = opgate_compat::image::plain_error(name) {
            return wrong(&why.to_string());
        }
        // The parser of addresses would read another host from a text with a user or a path.
        let authority = host.parse::<http::uri::Authority>();
        if !authority.is_ok_and(|a| {
            a.as_str() == host && !host.contains('@') && a.port().is_some() == has_port(host)
        }) {
            return wrong("the host is not valid");
        }
        let (named, digest) = match rest.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (rest, None),
        };
        let (repository, tag) = match named.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag.to_owned())),
            None => (named, None),
        };
        let digest = match digest.map(Digest::parse).transpose() {
            Ok(digest) => digest,
            Err(why) => return wrong(&why.to_string()),
        };
        if tag.is_none() && digest.is_none() {
            return wrong("add the digest (@sha256:…) or a tag");
        }
        let repository = match (host, repository.contains('/')) {
            (DOCKER_REGISTRY, false) => format!("library/{repository}"),
            _ => repository.to_owned(),
        };
        Ok(Self { host: host.to_ascii_lowercase(), repository, tag, digest })
    }

    /// Host and port of the registry, as written.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Host and port of its API.
    pub(crate) fn api_host(&self) -> &str {
        if self.host == DOCKER_REGISTRY { DOCKER_API_HOST } else { &self.host }
    }

    /// The path of the repository.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the reference with this digest.
    #[must_use]
    pub fn with_digest(&self, digest: &Digest) -> Self {
        Self { digest: Some(digest.clone()), ..self.clone() }
    }

    /// Returns a reference to another manifest of the repository.
    pub(crate) fn with_tag(&self, tag: String) -> Self {
        Self { tag: Some(tag), digest: None, ..self.clone() }
    }
}

/// A repository: a host and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    host: String,
    path: String,
}

impl Repository {
    /// Parses `HOST/REPOSITORY`.
    ///
    /// # Errors
    /// If the text has another format.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let wrong = || {
            ReferenceError(format!(
                "{text:?} is not a repository: write HOST/REPOSITORY, without a tag or a digest"
            ))
        };
        if text.contains("://") || text.contains('@') {
            return Err(wrong());
        }
        let read = Reference::parse(&format!("{SCHEME}{text}:x")).map_err(|_| wrong())?;
        Ok(Self::of(&read))
    }

    /// Returns the repository in the name of an image, which can have a tag or a digest.
    pub(crate) fn of_image(text: &str) -> Option<Self> {
        let named = Reference::parse(&format!("{SCHEME}{text}"));
        named.or_else(|_| Reference::parse(&format!("{SCHEME}{text}:x"))).ok().map(|r| Self::of(&r))
    }

    /// Returns the repository of a reference. Docker's registry has a second name, which other tools write.
    fn of(reference: &Reference) -> Self {
        let host = match reference.host() {
            "index.docker.io" => DOCKER_REGISTRY,
            host => host,
        };
        Self { host: host.to_owned(), path: reference.repository().to_owned() }
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)
    }
}

/// Whether a port follows the host, which may be an address in brackets.
fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed_like_docker() {
        let hex = "0123abcd".repeat(8);
        let pinned = format!("oci://ghcr.io/team/policies/a@sha256:{hex}");
        let both = format!("oci://localhost:5000/a:1.0@sha256:{hex}");
        for (text, host, repository, tag, has_digest) in [
            (pinned.as_str(), "ghcr.io", "team/policies/a", None, true),
            (both.as_str(), "localhost:5000", "a", Some("1.0"), true),
            ("oci://localhost/a:v1", "localhost", "a", Some("v1"), false),
            ("oci://docker.io/a:v1", "docker.io", "library/a", Some("v1"), false),
            ("oci://docker.io/team/a:v1", "docker.io", "team/a", Some("v1"), false),
            ("oci://[::1]:5000/a:v1", "[::1]:5000", "a", Some("v1"), false),
            ("oci://Registry.Example.com/a:V1", "registry.example.com", "a", Some("V1"), false),
        ] {
            let read = Reference::parse(text).unwrap();
            assert_eq!(
                (read.host(), read.repository(), read.tag()),
                (host, repository, tag),
                "{text}"
            );
            assert_eq!(read.digest().is_some(), has_digest, "{text}");
            assert_eq!(Reference::parse(&read.to_string()).unwrap(), read, "{text}");
        }
        assert_eq!(
            Reference::parse("oci://docker.io/a:v1").unwrap().api_host(),
            "registry-1.docker.io"
        );
    }

    #[test]
    fn invalid_reference_reports_cause() {
        let sha512 = format!("oci://ghcr.io/a@sha512:{}", "ab".repeat(64));
        for (text, why) in [
            ("ghcr.io/a:v1", "write oci://HOST/REPOSITORY"),
            ("oci://ghcr.io", "write oci://HOST/REPOSITORY"),
            ("oci://team/a:v1", "name the host of the registry first"),
            ("oci://https://ghcr.io/a:v1", "without another scheme"),
            ("oci://ghcr.io/a", "add the digest"),
            ("oci://ghcr.io/A:v1", "must be lowercase"),
            ("oci://ghcr.io/a:v1/../b", "invalid reference format"),
            ("oci://ghcr.io/a@sha256:12", "invalid reference format"),
            ("oci://user@ghcr.io/a:v1", "invalid reference format"),
            ("oci://ghcr.io/a:v1?x=y", "invalid reference format"),
            (sha512.as_str(), "use sha256"),
        ] {
            let said = Reference::parse(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
