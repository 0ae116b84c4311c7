//! Versions: those of Kubernetes that are compared, and those of OpenShift that a bundle names.

/// Whether a version, as `semver.ParseTolerant` reads it, is that minor version of 1 or later.
pub(crate) fn is_at_least(version: &str, minor: u64) -> bool {
    parse(version).is_some_and(|(numbers, is_release)| {
        let wanted = [1, minor, 0];
        numbers > wanted || numbers == wanted && is_release
    })
}

/// The three numbers, and whether it is a release and no earlier.
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

/// `vX.Y`, `=vX.Y`, `vX.Y-vX.Y` in order, or a list of versions with commas (decision J-9).
pub(crate) fn is_openshift_range(text: &str) -> bool {
    let text = text.trim();
    if let Some((from, to)) = text.split_once('-') {
        return match (openshift(from), openshift(to)) {
            (Some(from), Some(to)) => from <= to,
            _ => false,
        };
    }
    if let Some(exact) = text.strip_prefix('=') {
        return openshift(exact).is_some();
    }
    text.split(',').all(|version| openshift(version).is_some())
}

fn openshift(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.trim().strip_prefix('v')?.split_once('.')?;
    let number = |text: &str| {
        let is_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if is_digits { text.parse().ok() } else { None }
    };
    Some((number(major)?, number(minor)?))
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

    #[test]
    fn openshift_versions_are_versions_or_ranges() {
        for text in ["v4.7", "v4.7-v4.9", "=v4.8", "v4.5,v4.6", "v4.5, v4.6", "v4.9-v4.9"] {
            assert!(is_openshift_range(text), "{text}");
        }
        for text in [
            "",
            "latest",
            "v4.9-v4.7",
            "4.7",
            "v4",
            "v4.7.1",
            "<versions>",
            "v4.7-",
            "v4.7,",
            "=",
            "v4.x",
        ] {
            assert!(!is_openshift_range(text), "{text}");
        }
    }
}
