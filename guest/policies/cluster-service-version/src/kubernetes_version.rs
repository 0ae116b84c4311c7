//! Versions of Kubernetes, as OLM reads and compares them.

/// Whether OLM can compare a version with that of the cluster.
pub(crate) fn is_read_by_olm(version: &str) -> bool {
    Version::parse(without_v(version)).is_some()
}

/// A version without the `v` before it, which OLM removes.
pub(crate) fn without_v(text: &str) -> &str {
    text.strip_prefix('v').unwrap_or(text)
}

/// A version in the syntax of `coreos/go-semver`: with leading zeroes, and any identifiers. The
/// minimum may be a pre-release. This has no effect: a pre-release is less than the version without
/// it, and servers have versions without it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Version<'v> {
    /// Major, minor and patch.
    pub(crate) numbers: [i64; 3],
    /// Build metadata with the plus sign.
    pub(crate) build: &'v str,
}

impl<'v> Version<'v> {
    /// Parses a version.
    pub(crate) fn parse(text: &'v str) -> Option<Self> {
        let (version, build) = text.split_at(text.find('+').unwrap_or(text.len()));
        let (version, pre) = version.split_once('-').unwrap_or((version, ""));
        let is_identifier = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        };
        if !is_identifier(pre) || !is_identifier(build.strip_prefix('+').unwrap_or_default()) {
            return None;
        }
        let mut numbers = [0; 3];
        let mut parts = version.splitn(3, '.');
        for number in &mut numbers {
            *number = parts.next()?.parse().ok()?;
        }
        Some(Self { numbers, build: if build == "+" { "" } else { build } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_olm_reads_them() {
        for (text, numbers, build) in [
            ("1.25.4", [1, 25, 4], ""),
            ("1.25.4+abc.d-e", [1, 25, 4], "+abc.d-e"),
            ("01.2.3-rc.1", [1, 2, 3], ""),
            ("1.2.3-a+b", [1, 2, 3], "+b"),
            ("1.2.3+", [1, 2, 3], ""),
        ] {
            assert_eq!(Version::parse(text), Some(Version { numbers, build }), "{text}");
        }
        for text in ["", "1.21", "1.2.3.4", "1.b.3", "1.2.3-a_b", "1.2.3+a+b", "one"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
