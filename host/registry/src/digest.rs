//! Digests: SHA-256, the algorithm that every registry supports.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

/// The reason why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DigestError(String);

/// `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Computes the digest of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.add(bytes);
        hasher.finish()
    }

    /// Parses a digest.
    ///
    /// # Errors
    /// If the text has another algorithm or format.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == 64 && hex.bytes().all(is_hex) => Ok(Self(text.to_owned())),
            Some(_) => Err(DigestError(format!(
                "{text:?} is no digest: sha256: and 64 hexadecimal digits in lower case"
            ))),
            None => Err(DigestError(format!(
                "{text:?} is no digest that opgate can verify: use sha256:…"
            ))),
        }
    }

    /// Returns the digest with the name of the algorithm.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the digest as in tags of cosign and in names of files: `sha256-…`.
    pub(crate) fn to_dashed(&self) -> String {
        self.0.replace(':', "-")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Computes a digest of bytes that arrive in parts.
pub(crate) struct Hasher(Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        use fmt::Write as _;
        let mut text = String::from("sha256:");
        for byte in self.0.finish().as_ref() {
            // Writing to a `String` does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Digest(text)
    }
}
