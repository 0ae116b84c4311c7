//! Checks that Bundles and BundleDeployments share: provisioner class, pinned content, names.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Verdict};

/// Provisioners that RukPak ships, OCP 4.15 L21008-21012.
const KNOWN_PROVISIONERS: [&str; 2] = ["core-rukpak-io-plain", "core-rukpak-io-registry"];

/// `/spec/source` → `spec.source`. None of the pointers used here has an escape.
pub(crate) fn field(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// RPK-12 for one required text, here a provisioner class.
pub(crate) fn required_text(object: &Document, pointer: &str, verdict: &mut Verdict) {
    if object.text_or_empty(pointer).is_empty() {
        let field = field(pointer);
        let message = format!("{field}: Required value");
        verdict.deny("RPK-12", field, message);
    }
}

/// RPK-12 for a source that must stand next to a provisioner class.
pub(crate) fn required_object(object: &Document, pointer: &str, verdict: &mut Verdict) {
    if !object.has(pointer) {
        let field = field(pointer);
        let message = format!("{field}: Required value");
        verdict.deny("RPK-12", field, message);
    }
}

/// The pattern `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`.
fn is_class_name(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.iter().all(|&b| alphanumeric(b) || b == b'-')
        && bytes.first().is_some_and(|&b| alphanumeric(b))
        && bytes.last().is_some_and(|&b| alphanumeric(b))
}

/// RPK-13: the pattern of a provisioner class. An absent one is RPK-12's.
pub(crate) fn class_pattern(object: &Document, pointer: &str, verdict: &mut Verdict) {
    let class = object.text_or_empty(pointer);
    if !class.is_empty() && !is_class_name(&class) {
        let field = field(pointer);
        let message = format!(
            "{field}: Invalid value: {}: {field} in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            quote(&class)
        );
        verdict.deny("RPK-13", field, message);
    }
}

/// RPK-16: somebody reconciles this provisioner class.
pub(crate) fn class_known(
    object: &Document,
    pointer: &str,
    settings: &Document,
    verdict: &mut Verdict,
) {
    let class = object.text_or_empty(pointer);
    if !is_class_name(&class) {
        return;
    }
    let known = if settings.has("/rukpak/provisioners") {
        settings.texts("/rukpak/provisioners").contains(&class)
    } else {
        KNOWN_PROVISIONERS.contains(&class.as_str())
    };
    if !known {
        let field = field(pointer);
        let message = format!(
            "{field} {} is not a known provisioner; only the provisioner with that ID reconciles this object",
            quote(&class)
        );
        verdict.warn("RPK-16", field, message);
    }
}

/// Whether an image reference has a part `@<algorithm>:<digest>`. The digest's form is not checked:
/// the documentation prints `my-bundle@sha256:xyz123`.
fn is_pinned(image: &str) -> bool {
    image.rsplit_once('@').is_some_and(|(_, digest)| {
        digest
            .split_once(':')
            .is_some_and(|(algorithm, value)| !algorithm.is_empty() && !value.is_empty())
    })
}

/// RPK-17: the source names content that cannot move.
pub(crate) fn pinned(object: &Document, source: &str, verdict: &mut Verdict) {
    let mut movable = |pointer: String, what: &str, name: &str| {
        let message = format!(
            "use a digest-based image or a Git commit reference when creating the bundle: {what} {} can move to other content",
            quote(name)
        );
        verdict.warn("RPK-17", field(&pointer), message);
    };
    let image = object.text_or_empty(&format!("{source}/image/ref"));
    if !image.is_empty() && !is_pinned(&image) {
        movable(format!("{source}/image/ref"), "image", &image);
    }
    for (member, what) in [("branch", "Git branch"), ("tag", "Git tag")] {
        let pointer = format!("{source}/git/ref/{member}");
        let name = object.text_or_empty(&pointer);
        if !name.is_empty() {
            movable(pointer, what, &name);
        }
    }
}

/// RPK-14 and RPK-15: a name that is no longer than `limit` characters.
pub(crate) fn name_length(rule: &str, name: &str, limit: usize, verdict: &mut Verdict) {
    if name.chars().count() > limit {
        let message = format!("metadata.name: Too long: may not be longer than {limit}");
        verdict.deny(rule, "metadata.name", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_follow_the_pattern() {
        for name in ["a", "core-rukpak-io-plain", "0", "a--b"] {
            assert!(is_class_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "invalid/class-name", "a.b", "é", "-"] {
            assert!(!is_class_name(name), "{name}");
        }
    }

    #[test]
    fn only_a_digest_pins_an_image() {
        for image in ["my-bundle@sha256:xyz123", "quay.io/a/b:v1@sha256:0123"] {
            assert!(is_pinned(image), "{image}");
        }
        for image in ["quay.io/org/my-bundle:latest", "a", "a@", "a@sha256", "a@:x", "a@sha256:"] {
            assert!(!is_pinned(image), "{image}");
        }
    }
}
