//! ClusterServiceVersions that claim to be OLM's copies.
//!
//! ```text
//! marks ─▶ OLM writes it ───────────────────────────▶ a copy for every rule
//!      └─▶ the original is there, and is the same ──▶ a copy for every rule but OPG-37
//!      └─▶ otherwise ───────────────────────────────▶ judged like any other
//! ```
//!
//! Invariant: a version without marks has been judged as a whole in its namespace since it had any.
//! OLM installs nothing from one with marks.

use opgate_sdk::cluster::ReadError;
use opgate_sdk::copies::Marks;
use opgate_sdk::{Document, Report, Review, Shape};

use super::MODES;
use super::annotations::NOTES;
use crate::reads::CSVS;

/// What a claim to be a copy is worth.
pub(super) struct Examined<'r> {
    /// Whether it is a copy, or unchanged.
    pub(super) is_exempt: bool,
    /// The same for rules that look at more than the comparison with the original covers.
    pub(super) is_olms: bool,
    /// The old object of an UPDATE, if it was judged before.
    pub(super) old: Option<&'r Document>,
}

const API: &[(&str, Shape)] =
    &[("group", Shape::Scalar), ("version", Shape::Scalar), ("kind", Shape::Scalar)];
const RESOURCE: &[(&str, Shape)] =
    &[("name", Shape::Scalar), ("version", Shape::Scalar), ("kind", Shape::Scalar)];
const SECRETS: Shape = Shape::List(&Shape::Struct(&[("name", Shape::Scalar)]));
const DEPLOYMENT: &[(&str, Shape)] = &[(
    "spec",
    Shape::Struct(&[(
        "template",
        Shape::Struct(&[("spec", Shape::Struct(&[("imagePullSecrets", SECRETS)]))]),
    )]),
)];

/// What is kept of the spec of a version, see [`CSVS`].
const KEPT: [(&str, Shape); 6] = [
    ("/spec/installModes", MODES),
    ("/spec/customresourcedefinitions/owned", Shape::List(&Shape::Struct(RESOURCE))),
    ("/spec/apiservicedefinitions/owned", Shape::List(&Shape::Struct(API))),
    ("/spec/replaces", Shape::Scalar),
    ("/spec/skips", Shape::List(&Shape::Scalar)),
    ("/spec/install/spec/deployments", Shape::List(&Shape::Struct(DEPLOYMENT))),
];

/// What rules look at, and [`CSVS`] does not keep.
const MORE: [&str; 2] = ["/spec/install/spec/permissions", "/spec/install/spec/clusterPermissions"];

/// Checks the marks of a version.
pub(super) fn examine<'r>(
    review: &Review<'r>,
    object: &Document,
    marks: &Marks,
    report: &mut Report<'_>,
) -> Examined<'r> {
    let marks_of = |csv: &Document| Marks::of(csv, review.namespace());
    let judged = review.old.filter(|old| marks.lasted(&marks_of(old)));
    if !marks.claim() {
        return Examined { is_exempt: false, is_olms: false, old: judged };
    }
    if review.is_olms() {
        return Examined { is_exempt: true, is_olms: true, old: judged };
    }
    // For example, somebody removes a finalizer or adds a label.
    if judged.is_some() && review.spares().is_some_and(|old| changes_nothing(object, old)) {
        return Examined { is_exempt: true, is_olms: true, old: judged };
    }
    let name = review.name(object);
    let original = marks.original().filter(|elsewhere| *elsewhere != review.namespace());
    let is_copy = |csv: &Document| {
        original.is_some_and(|namespace| is_as_original(csv, namespace, &name) == Ok(true))
    };
    let is_exempt = is_copy(object);
    let what = if is_exempt { "writes a copy" } else { "writes what claims to be a copy" };
    report.unlisted(what);
    // An exempt version was never judged.
    let old = judged.filter(|old| !marks_of(old).claim() || !is_copy(old));
    Examined { is_exempt, is_olms: false, old }
}

fn is_same(left: &Document, right: &Document) -> bool {
    KEPT.iter().all(|(pointer, shape)| shape.equal(left, right, pointer))
}

/// Whether nothing that a rule looks at is new. The marks are the same.
fn changes_nothing(object: &Document, old: &Document) -> bool {
    let same = |pointer: &str| object.equal(pointer, old, pointer);
    is_same(object, old)
        && MORE.into_iter().all(same)
        && NOTES.iter().all(|note| same(&format!("/metadata/annotations/{note}")))
}

/// Whether the original is there, is the same, and is no copy itself.
fn is_as_original(csv: &Document, namespace: &str, name: &str) -> Result<bool, ReadError> {
    let original = CSVS.get(namespace, name)?;
    Ok(original.is_some_and(|original| {
        !Marks::of(&original, namespace).claim() && is_same(csv, &original)
    }))
}
