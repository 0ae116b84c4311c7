//! The pod security level that a namespace enforces by its labels.

use opgate_sdk::cluster::ReadError;
use opgate_sdk::{Document, escape};

use crate::reads::NAMESPACES;

/// Label with the level.
pub(crate) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
pub(crate) const VERSION: &str = "pod-security.kubernetes.io/enforce-version";
pub(crate) const RESTRICTED: &str = "restricted";

/// The level `restricted`, at the version that the namespace enforces.
#[derive(Debug)]
pub(crate) struct Restricted {
    /// `N` of `v1.N`; none for the latest.
    minor: Option<u32>,
    /// The namespace, if the users count that OpenShift assigns to its pods.
    namespace: Option<Document>,
}

/// Annotation with the users that OpenShift assigns to the pods of a namespace: the first one, and
/// the count.
const USER_RANGE: &str = "/metadata/annotations/openshift.io~1sa.scc.uid-range";

impl Restricted {
    /// None if the namespace enforces another level, or does not exist (yet).
    ///
    /// # Errors
    /// Without a cluster to query.
    pub(crate) fn of(namespace: &str) -> Result<Option<Self>, ReadError> {
        let Some(namespace) = NAMESPACES.get("", namespace)? else { return Ok(None) };
        if label(&namespace, ENFORCE).as_deref() != Some(RESTRICTED) {
            return Ok(None);
        }
        let minor = label(&namespace, VERSION).and_then(|version| minor(&version));
        Ok(Some(Self { minor, namespace: Some(namespace) }))
    }

    /// The level for templates, in which OpenShift assigns no users.
    pub(crate) fn for_templates(self) -> Self {
        Self { namespace: None, ..self }
    }

    /// Whether OpenShift assigns this user to pods of the namespace. It does so before the policy
    /// evaluates them.
    pub(crate) fn assigns(&self, user: i64) -> bool {
        let range = self.namespace.as_ref().and_then(|namespace| namespace.text(USER_RANGE));
        range.and_then(|range| is_in(&range, user)).unwrap_or_default()
    }

    /// Whether the level includes a check that exists since Kubernetes 1.`minor`.
    pub(crate) fn has_since(&self, minor: u32) -> bool {
        self.minor.is_none_or(|own| own >= minor)
    }
}

/// The text of a label.
pub(crate) fn label(object: &Document, name: &str) -> Option<String> {
    object.text(&format!("/metadata/labels/{}", escape(name)))
}

/// Whether a number is in a range: `<first>/<count>` or `<first>-<last>`.
fn is_in(range: &str, number: i64) -> Option<bool> {
    if let Some((first, count)) = range.split_once('/') {
        let first: i64 = first.parse().ok()?;
        let end = first.checked_add(count.parse().ok()?)?;
        return Some((first..end).contains(&number));
    }
    let (first, last) = range.split_once('-')?;
    let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
    Some((first..=last).contains(&number))
}

/// Whether Kubernetes accepts a text as a version of the levels.
pub(crate) fn is_version(text: &str) -> bool {
    text == "latest" || minor(text).is_some()
}

/// `N` of `v1.N`. An invalid version counts as the latest, as in Kubernetes.
fn minor(version: &str) -> Option<u32> {
    let digits = version.strip_prefix("v1.")?;
    let is_number = digits == "0" || !digits.starts_with('0');
    let is_number = is_number && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_users() {
        for (range, number, expected) in [
            ("1000680000/10000", 1_000_680_000, Some(true)),
            ("1000680000/10000", 1_000_689_999, Some(true)),
            ("1000680000/10000", 1_000_690_000, Some(false)),
            ("1000680000/10000", 0, Some(false)),
            ("5-7", 7, Some(true)),
            ("5-7", 8, Some(false)),
            ("", 7, None),
            ("7", 7, None),
            ("1/x", 1, None),
            ("9223372036854775807/9", 1, None),
        ] {
            assert_eq!(is_in(range, number), expected, "{range}: {number}");
        }
    }

    #[test]
    fn versions() {
        for (version, expected) in [
            ("v1.0", Some(0)),
            ("v1.19", Some(19)),
            ("v1.105", Some(105)),
            ("latest", None),
            ("", None),
            ("v1.", None),
            ("v1.01", None),
            ("1.19", None),
            ("v2.0", None),
            ("v1.19.3", None),
            ("v1.99999999999", None),
        ] {
            assert_eq!(minor(version), expected, "{version}");
        }
    }
}
