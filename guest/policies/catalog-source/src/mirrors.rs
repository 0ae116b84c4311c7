//! The registry of a catalog's image in a restricted network.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, rule, rules};

use crate::source::{IMAGE, Source, TEMPLATE};
use crate::targets::CATALOG_SOURCE;

rules![CAT_23];

const MIRRORS: &str = "/restrictedNetwork/mirrors";

rule! {
    /// the image of a catalog is on a mirror registry
    ///
    /// `spec.image`, and the annotation `olm.catalogImageTemplate`, begin with a registry of the
    /// setting `restrictedNetwork.mirrors` (`mirror.example.com:5000`) or with a repository of it
    /// (`mirror.example.com:5000/olm`). The port must match; the comparison ignores case. The rule
    /// is off until you set it. The rule evaluates an UPDATE only if it changes the image or the
    /// annotation.
    ///
    /// # Why
    ///
    /// A cluster in a restricted network cannot pull from the registries of Red Hat (OpenShift
    /// 4.12, Operators, *Using Operator Lifecycle Manager on restricted networks*).
    ///
    /// # Remediation
    ///
    /// Mirror the catalog, and set the image of the mirror.
    ///
    /// # Accepted
    ///
    /// With `restrictedNetwork: {mirrors: ['mirror.example.com:5000']}`:
    ///
    /// ```yaml
    /// spec: {image: 'mirror.example.com:5000/olm/redhat-operator-index:v4.12'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {image: 'registry.redhat.io/redhat/redhat-operator-index:v4.12'}
    /// ```
    ///
    /// `message: catalog image "registry.redhat.io/redhat/redhat-operator-index:v4.12" is not on a
    /// configured mirror registry`
    CAT_23: Deny {
        name: "catalog-image-from-mirror-registry",
        on: [CATALOG_SOURCE: Create | Update],
        enabled_by: ["/restrictedNetwork/mirrors"],
        source: ["OCP 4.12 L9802-9825"],
    }
}

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    if !report.is_on(&CAT_23) {
        return;
    }
    let mirrors = source.review.settings.texts(MIRRORS);
    for field in [IMAGE, TEMPLATE] {
        let image = source.text(field);
        let is_mirrored = mirrors.iter().any(|mirror| is_mirrored_by(image, mirror));
        if !image.is_empty() && !is_mirrored && source.touches(&[field]) {
            let message =
                format!("catalog image {} is not on a configured mirror registry", quote(image));
            report.add(&CAT_23, field.name(), message);
        }
    }
}

/// Whether an image is on a registry, or in a repository of one.
fn is_mirrored_by(image: &str, mirror: &str) -> bool {
    let mirror = mirror.trim_end_matches('/');
    let Some((start, rest)) = image.split_at_checked(mirror.len()) else { return false };
    let ends = |c: char| c == '/' || mirror.contains('/') && matches!(c, ':' | '@');
    start.eq_ignore_ascii_case(mirror)
        && if rest.is_empty() { mirror.contains('/') } else { rest.starts_with(ends) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_and_repositories() {
        for (image, mirror, expected) in [
            ("mirror.example.com:5000/olm/a:v1", "mirror.example.com:5000", true),
            ("mirror.example.com:5000/olm/a:v1", "mirror.example.com:5000/", true),
            ("Mirror.example.com/a", "mirror.example.com", true),
            ("mirror.example.com:5000/olm/a:v1", "mirror.example.com", false),
            ("mirror.example.com.evil.org/a", "mirror.example.com", false),
            ("mirror.example.com", "mirror.example.com", false),
            ("evil.org/mirror.example.com/a", "mirror.example.com", false),
            ("m.example.com/olm/a@sha256:1", "m.example.com/olm/a", true),
            ("m.example.com/olm/a:v1", "m.example.com/olm/a", true),
            ("m.example.com/olm/a", "m.example.com/olm/a", true),
            ("m.example.com/olm/ab", "m.example.com/olm/a", false),
            ("a", "m.example.com", false),
        ] {
            assert_eq!(is_mirrored_by(image, mirror), expected, "{image} {mirror}");
        }
    }
}
