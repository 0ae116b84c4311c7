//! Marks by which a ClusterServiceVersion claims to be a copy that OLM made of another one.
//!
//! OLM treats every version with such a mark as a copy and installs nothing from it. Every user can write the
//! marks, so they are only a claim. A policy that treats copies differently must determine the writer of the
//! version, or its original.
//!
//! A status update can bypass a policy, so the invariant covers the other marks: a version that loses or
//! changes a mark is evaluated as if it were new. See [`Marks::lasted`].
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
pub struct Marks {
    /// The label, whatever its value.
    label: Option<String>,
    /// Whether the reason in the status is `Copied`.
    reason: bool,
    /// The namespace in the annotation, if it is another one.
    elsewhere: Option<String>,
}

impl Marks {
    /// Creates the marks of a version in this namespace.
    #[must_use]
    pub fn of(csv: &Document, namespace: &str) -> Self {
        let fields = csv.fields("", &[COPIED_FROM, REASON, OPERATOR_NAMESPACE]);
        let row = fields.iter().next().unwrap_or(Row::EMPTY);
        let is_labelled = !matches!(row.kind(0), Kind::Missing | Kind::Null);
        Self {
            label: is_labelled.then(|| row.text_or_empty(0).to_owned()),
            reason: row.text(1) == Some("Copied"),
            elsewhere: row.text(2).filter(|other| *other != namespace).map(str::to_owned),
        }
    }

    /// Reports whether the version claims to be a copy.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.label.is_some() || self.reason || self.elsewhere.is_some()
    }

    /// Reports whether the version itself declares it, and not only its group in another namespace.
    #[must_use]
    pub fn are_outright(&self) -> bool {
        self.label.is_some() || self.reason
    }

    /// Returns the namespace of the original, if the marks name one.
    #[must_use]
    pub fn original(&self) -> Option<&str> {
        let named = self.label.as_deref().or(self.elsewhere.as_deref());
        named.filter(|namespace| !namespace.is_empty())
    }

    /// Reports whether the object before an UPDATE counts as evaluated: it claimed nothing, or still claims
    /// the same. Otherwise a version that drops or changes a mark would be admitted without an evaluation of
    /// what it is now.
    #[must_use]
    pub fn lasted(&self, old: &Self) -> bool {
        !old.claim() || old == self
    }
}

/// Comparison for a version that claims to be a copy.
#[derive(Debug)]
pub struct Comparison {
    /// ClusterServiceVersions of the cluster.
    pub read: &'static ClusterRead,
    /// Stored parts of the spec: a copy has the same as its original.
    pub kept: &'static [(&'static str, Shape)],
    /// Other fields that the rules of the policy evaluate, and the read does not store. If an UPDATE changes
    /// neither, nothing is evaluated.
    pub more: &'static [&'static str],
}

/// Result of verifying a claim to be a copy.
#[derive(Debug)]
pub struct Examined<'r> {
    /// Whether it is a copy, or unchanged.
    pub is_exempt: bool,
    /// Whether OLM may be the writer, for rules that evaluate more than the comparison with the original
    /// covers.
    pub may_be_olm: bool,
    /// The old object of an UPDATE, if it was evaluated before.
    pub old: Option<&'r Document>,
}

impl Comparison {
    /// Checks the marks of a version.
    ///
    /// Invariant: a version without marks has been evaluated as a whole in its namespace since it
    /// had any. OLM installs nothing from one with marks.
    pub fn examine<'r>(
        &self,
        review: &Review<'r>,
        object: &Document,
        marks: &Marks,
        report: &mut Report<'_>,
    ) -> Examined<'r> {
        let marks_of = |csv: &Document| Marks::of(csv, review.namespace());
        let judged = review.old.filter(|old| marks.lasted(&marks_of(old)));
        if !marks.claim() {
            return Examined { is_exempt: false, may_be_olm: false, old: judged };
        }
        if review.may_be_olm() {
            return Examined { is_exempt: true, may_be_olm: true, old: judged };
        }
        // For example, a user removes a finalizer or adds a label.
        if judged.is_some()
            && review.ratchet_base().is_some_and(|old| self.changes_nothing(object, old))
        {
            return Examined { is_exempt: true, may_be_olm: true, old: judged };
        }
        let name = review.name(object);
        let original = marks.original().filter(|elsewhere| *elsewhere != review.namespace());
        let is_copy = |csv: &Document| {
            original.is_some_and(|space| self.is_as_original(csv, space, &name) == Ok(true))
        };
        let is_exempt = is_copy(object);
        let what = if is_exempt { "writes a copy" } else { "writes what claims to be a copy" };
        report.warn_unlisted_user(what);
        // An exempt version was never evaluated.
        let old = judged.filter(|old| !marks_of(old).claim() || !is_copy(old));
        Examined { is_exempt, may_be_olm: false, old }
    }

    fn is_same(&self, left: &Document, right: &Document) -> bool {
        self.kept.iter().all(|(pointer, shape)| shape.equal(left, right, pointer))
    }

    /// Reports whether no field that a rule evaluates is new. The marks are the same.
    fn changes_nothing(&self, object: &Document, old: &Document) -> bool {
        self.is_same(object, old)
            && self.more.iter().all(|pointer| object.equal(pointer, old, pointer))
    }

    /// Reports whether the original exists, is equal, and is no copy itself.
    fn is_as_original(
        &self,
        csv: &Document,
        namespace: &str,
        name: &str,
    ) -> Result<bool, ReadError> {
        let original = self.read.get(namespace, name)?;
        Ok(original.is_some_and(|original| {
            !Marks::of(&original, namespace).claim() && self.is_same(csv, &original)
        }))
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
    fn lost_or_changed_mark_counts_as_new() {
        let all = [PLAIN, LABEL, EMPTY, REASON, ELSEWHERE, NOWHERE, BOTH];
        for old in all {
            for new in all {
                let lasted = old == PLAIN || old == new;
                assert_eq!(marks(new).lasted(&marks(old)), lasted, "{old} to {new}");
            }
        }
    }
}
