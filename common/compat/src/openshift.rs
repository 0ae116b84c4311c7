//! Versions of OpenShift that a bundle names in `com.redhat.openshift.versions`.

/// Major and minor version.
pub type Version = (u32, u32);

/// Returns the earliest version that a text includes: `vX.Y`, which also includes later ones, `=vX.Y`,
/// `vX.Y-vX.Y` in order, or a list of versions with commas. The documents only have ranges and single
/// versions; published bundles use the other notations, too. None for any other text.
#[must_use]
pub fn earliest_version(text: &str) -> Option<Version> {
    let text = text.trim();
    if let Some((from, to)) = text.split_once('-') {
        let (from, to) = (version(from)?, version(to)?);
        return (from <= to).then_some(from);
    }
    if let Some(exact) = text.strip_prefix('=') {
        return version(exact);
    }
    let versions: Option<Vec<Version>> = text.split(',').map(version).collect();
    versions?.into_iter().min()
}

fn version(text: &str) -> Option<Version> {
    let (major, minor) = text.trim().strip_prefix('v')?.split_once('.')?;
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
    fn versions_or_ranges() {
        for (text, expected) in [
            ("v4.7", (4, 7)),
            ("v4.7-v4.9", (4, 7)),
            ("=v4.8", (4, 8)),
            ("v4.6,v4.5", (4, 5)),
            ("v4.5, v4.6", (4, 5)),
            ("v4.9-v4.9", (4, 9)),
            ("v4.9-v4.10", (4, 9)),
        ] {
            assert_eq!(earliest_version(text), Some(expected), "{text}");
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
            assert_eq!(earliest_version(text), None, "{text}");
        }
    }
}
