//! Marks by which a ClusterServiceVersion claims to be a copy that OLM made of another one.
//!
//! OLM treats every version with such a mark as a copy and installs nothing from it. Anybody can
//! write the marks, so they are only a claim. A policy that treats copies differently must find out
//! who wrote the version, or what it was copied from.
//!
//! A status update can bypass a policy, so the invariant is about the other marks: a version that
//! loses or changes a mark is evaluated as if it were new. See [`Marks::lasted`].

use crate::Document;

const COPIED_FROM: &str = "/metadata/labels/olm.copiedFrom";
const REASON: &str = "/status/reason";
/// Annotation with the namespace of a member's OperatorGroup.
pub const OPERATOR_NAMESPACE: &str = "/metadata/annotations/olm.operatorNamespace";

/// The marks of one ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The label, whatever its value.
    label: Option<String>,
    /// Whether the reason in the status is `Copied`.
    reason: bool,
    /// The namespace in the annotation, if it is another one.
    elsewhere: Option<String>,
}

impl Marks {
    /// The marks of a version in this namespace.
    #[must_use]
    pub fn of(csv: &Document, namespace: &str) -> Self {
        Self {
            label: csv.has(COPIED_FROM).then(|| csv.text_or_empty(COPIED_FROM)),
            reason: csv.text_or_empty(REASON) == "Copied",
            elsewhere: csv.text(OPERATOR_NAMESPACE).filter(|other| other != namespace),
        }
    }

    /// Whether the version claims to be a copy.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.label.is_some() || self.reason || self.elsewhere.is_some()
    }

    /// Whether the version itself says so, not only that its group is in another namespace.
    #[must_use]
    pub fn are_outright(&self) -> bool {
        self.label.is_some() || self.reason
    }

    /// The namespace of the original, if the marks name one.
    #[must_use]
    pub fn original(&self) -> Option<&str> {
        let named = self.label.as_deref().or(self.elsewhere.as_deref());
        named.filter(|namespace| !namespace.is_empty())
    }

    /// Whether the object before an UPDATE counts as evaluated: it claimed nothing, or still claims
    /// the same. Otherwise a version that drops or changes a mark would be admitted without an
    /// evaluation of what it is now.
    #[must_use]
    pub fn lasted(&self, old: &Self) -> bool {
        !old.claim() || old == self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(json: &str) -> Marks {
        Marks::of(&Document::parse(json).unwrap(), "here")
    }

    const PLAIN: &str = r#"{"metadata":{"annotations":{"olm.operatorNamespace":"here"}}}"#;
    const LABEL: &str = r#"{"metadata":{"labels":{"olm.copiedFrom":"a"}}}"#;
    const EMPTY: &str = r#"{"metadata":{"labels":{"olm.copiedFrom":""}}}"#;
    const REASON: &str = r#"{"status":{"reason":"Copied"}}"#;
    const ELSEWHERE: &str = r#"{"metadata":{"annotations":{"olm.operatorNamespace":"b"}}}"#;
    const NOWHERE: &str = r#"{"metadata":{"annotations":{"olm.operatorNamespace":""}}}"#;
    const BOTH: &str = r#"{"metadata":{"labels":{"olm.copiedFrom":"a"},"annotations":{"olm.operatorNamespace":"b"}}}"#;

    #[test]
    fn each_mark_is_a_claim_and_some_name_the_original() {
        for (json, claims, original) in [
            (PLAIN, false, None),
            ("{}", false, None),
            (r#"{"status":{"reason":"InstallSucceeded"}}"#, false, None),
            (LABEL, true, Some("a")),
            (EMPTY, true, None),
            (REASON, true, None),
            (ELSEWHERE, true, Some("b")),
            (NOWHERE, true, None),
            (BOTH, true, Some("a")),
        ] {
            let marks = marks(json);
            assert_eq!((marks.claim(), marks.original()), (claims, original), "{json}");
        }
    }

    #[test]
    fn what_loses_or_changes_a_mark_counts_as_new() {
        let all = [PLAIN, LABEL, EMPTY, REASON, ELSEWHERE, NOWHERE, BOTH];
        for old in all {
            for new in all {
                let lasted = old == PLAIN || old == new;
                assert_eq!(marks(new).lasted(&marks(old)), lasted, "{old} to {new}");
            }
        }
    }
}
