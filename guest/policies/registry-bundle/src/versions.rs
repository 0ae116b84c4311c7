//! Comparison of Kubernetes versions.

/// Whether a version, as `semver.ParseTolerant` reads it, is at least this minor version of 1.
pub(crate) fn is_at_least(version: &str, minor: u64) -> bool {
    parse(version).is_some_and(|(numbers, is_release)| {
        let wanted = [1, minor, 0];
        numbers > wanted || numbers == wanted && is_release
    })
}

/// The three numbers, and whether the version is a release and not a pre-release.
fn parse(version: &str) -> Option<([u64; 3], bool)> {
    let version = version.trim();
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut parts = version.splitn(3, '.');
    let (major, minor, patch) = (parts.next()?, parts.next(), parts.next());
    // Build metadata does not count in comparisons.
    let (patch, _) = patch.map_or(("0", ""), |p| p.split_once('+').unwrap_or((p, "")));
    let (patch, before) = patch.split_once('-').map_or((patch, None), |(p, pre)| (p, Some(pre)));
    let number = |text: &str| {
        let is_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if is_digits { text.parse().ok() } else { None }
    };
    let numbers = [number(major)?, number(minor.unwrap_or("0"))?, number(patch)?];
    Some((numbers, before.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_versions_are_compared_as_upstream() {
        for version in ["1.25.0", "1.25", "v1.25.0", "1.26.1", "2", " 1.25.0+a ", "1.25.1-rc.1"] {
            assert!(is_at_least(version, 25), "{version}");
        }
        for version in ["", "1.24.9", "1.25.0-rc.1", "x", "1.x", "1", "1.25.+1", "1..0"] {
            assert!(!is_at_least(version, 25), "{version}");
        }
    }
}
