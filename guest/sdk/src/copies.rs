//! Marks by which a ClusterServiceVersion claims to be a copy that OLM made of another one.
//!
//! OLM treats every version with such a mark as a copy and installs nothing from it. Every user can write the
//! marks, so they are only a claim. A policy that treats copies differently must determine the writer of the
//! version, or its original.
//!
//! A status update can bypass a policy, so the invariant covers the other marks: a version that loses or
//! changes a mark is evaluated as if it were new. See [`CopyMarks::is_old_evaluated`].
//!
//! ```text
//! marks ─▶ OLM writes it ───────────────────────────▶ a copy
//!      └─▶ the original is there, and is the same ──▶ a copy, except where a rule wants OLM
//!      └─▶ otherwise ───────────────────────────────▶ evaluated like any other
//! ```

use crate::cluster::ReadError;
use crate::{ClusterRead, Document, Kind, Report, Review, Row, Shape};

const COPIED_FROM: &str = "/metadata/labels/olm.copiedFrom";
const REASON: &str = "/status/reason";
/// Annotation with the namespace of a member's OperatorGroup.
pub const OPERATOR_NAMESPACE: &str = "/metadata/annotations/olm.operatorNamespace";

/// The marks of one ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyMarks {
    /// The label, whatever its value.
    label: Option<String>,
    /// Whether the reason in the status is `Copied`.
    reason: bool,
    /// The namespace in the annotation, if it is another one.
    other_namespace: Option<String>,
}

impl CopyMarks {
    /// Creates the marks of a version in this namespace.
    #[must_use]
    pub fn of(csv: &Document, namespace: &str) -> Self {
        let fields = csv.fields("", &[COPIED_FROM, REASON, OPERATOR_NAMESPACE]);
        let row = fields.iter().next().unwrap_or(Row::EMPTY);
        let is_labelled = !matches!(row.kind(0), Kind::Missing | Kind::Null);
        Self {
            label: is_labelled.then(|| row.text_or_empty(0).to_owned()),
            reason: row.text(1) == Some("Copied"),
            other_namespace: row.text(2).filter(|other| *other != namespace).map(str::to_owned),
        }
    }

    /// Reports whether the version claims to be a copy.
    #[must_use]
    pub fn claims_copy(&self) -> bool {
        self.label.is_some() || self.reason || self.other_namespace.is_some()
    }

    /// Reports whether the version itself declares it, and not only its group in another namespace.
    #[must_use]
    pub fn are_explicit(&self) -> bool {
        self.label.is_some() || self.reason
    }

    /// Returns the namespace of the original, if the marks name one.
    #[must_use]
    pub fn original_namespace(&self) -> Option<&str> {
        let named = self.label.as_deref().or(self.other_namespace.as_deref());
        named.filter(|namespace| !namespace.is_empty())
    }

    /// Reports whether the object before an UPDATE counts as evaluated: it claimed nothing, or still claims
    /// the same. Otherwise a version that drops or changes a mark would be admitted without an evaluation of
    /// what it is now.
    #[must_use]
    pub fn is_old_evaluated(&self, old: &Self) -> bool {
        !old.claims_copy() || old == self
    }
}

/// Comparison for a version that claims to be a copy.
#[derive(Debug)]
pub struct CopyComparison {
    /// ClusterServiceVersions of the cluster.
    pub read: &'static ClusterRead,
    /// Stored parts of the spec: a copy has the same as its original.
    pub compared_fields: &'static [(&'static str, Shape)],
    /// Other fields that the rules of the policy evaluate, and the read does not store. If an UPDATE changes
    /// neither, nothing is evaluated.
    pub other_fields: &'static [&'static str],
}

/// Result of verifying a claim to be a copy.
#[derive(Debug)]
pub struct CopyCheck<'r> {
    /// Whether it is a copy, or unchanged.
    pub is_exempt: bool,
    /// Whether OLM may be the writer, for rules that evaluate more than the comparison with the original
    /// covers.
    pub may_be_olm: bool,
    /// The old object of an UPDATE, if it was evaluated before.
    pub old: Option<&'r Document>,
}

impl CopyComparison {
    /// Checks the marks of a version.
    ///
    /// Invariant: a version without marks has been evaluated as a whole in its namespace since it
    /// had any. OLM installs nothing from one with marks.
    pub fn check_copy<'r>(
        &self,
        review: &Review<'r>,
        object: &Document,
        marks: &CopyMarks,
        report: &mut Report<'_>,
    ) -> CopyCheck<'r> {
        let marks_of = |csv: &Document| CopyMarks::of(csv, review.namespace());
        let evaluated_old = review.old.filter(|old| marks.is_old_evaluated(&marks_of(old)));
        if !marks.claims_copy() {
            return CopyCheck { is_exempt: false, may_be_olm: false, old: evaluated_old };
        }
        if review.may_be_olm() {
            return CopyCheck { is_exempt: true, may_be_olm: true, old: evaluated_old };
        }
        // For example, a user removes a finalizer or adds a label.
        if evaluated_old.is_some()
            && review.ratchet_base().is_some_and(|old| self.is_unchanged(object, old))
        {
            return CopyCheck { is_exempt: true, may_be_olm: true, old: evaluated_old };
        }
        let name = review.name(object);
        let original =
            marks.original_namespace().filter(|elsewhere| *elsewhere != review.namespace());
        let is_copy = |csv: &Document| {
            original.is_some_and(|space| self.equals_original(csv, space, &name) == Ok(true))
        };
        let is_exempt = is_copy(object);
        let what = if is_exempt { "writes a copy" } else { "writes what claims to be a copy" };
        report.warn_unlisted_user(what);
        // An exempt version was never evaluated.
        let old = evaluated_old.filter(|old| !marks_of(old).claims_copy() || !is_copy(old));
        CopyCheck { is_exempt, may_be_olm: false, old }
    }

    fn has_equal_fields(&self, left: &Document, right: &Document) -> bool {
        self.compared_fields.iter().all(|(pointer, shape)| shape.equal(left, right, pointer))
    }

    /// Reports whether no field that a rule evaluates is new. The marks are the same.
    fn is_unchanged(&self, object: &Document, old: &Document) -> bool {
        self.has_equal_fields(object, old)
            && self.other_fields.iter().all(|pointer| object.equal(pointer, old, pointer))
    }

    /// Reports whether the original exists, is equal, and is no copy itself.
    fn equals_original(
        &self,
        csv: &Document,
        namespace: &str,
        name: &str,
    ) -> Result<bool, ReadError> {
        let original = self.read.get(namespace, name)?;
        Ok(original.is_some_and(|original| {
            !CopyMarks::of(&original, namespace).claims_copy()
                && self.has_equal_fields(csv, &original)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(json: &str) -> CopyMarks {
        CopyMarks::of(&Document::parse(json).unwrap(), "here")
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
            assert_eq!(
                (marks.claims_copy(), marks.original_namespace()),
                (claims, original),
                "{json}"
            );
        }
    }

    #[test]
    fn lost_or_changed_mark_counts_as_new() {
        let all = [PLAIN, LABEL, EMPTY, REASON, ELSEWHERE, NOWHERE, BOTH];
        for old in all {
            for new in all {
                let lasted = old == PLAIN || old == new;
                assert_eq!(marks(new).is_old_evaluated(&marks(old)), lasted, "{old} to {new}");
            }
        }
    }
}
