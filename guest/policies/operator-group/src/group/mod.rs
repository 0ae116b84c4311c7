//! An OperatorGroup: the users that write it, its fields, and related objects of the cluster.

pub(crate) mod access;
pub(crate) mod account;
pub(crate) mod annotations;
pub(crate) mod conflict;
pub(crate) mod members;
pub(crate) mod selection;
pub(crate) mod spec;
pub(crate) mod uniqueness;

use std::cell::OnceCell;

use opgate_sdk::cluster::ReadError;
use opgate_sdk::{Document, Report, Review};

use crate::group_surface::Selection;
use crate::namespaces::NamespaceSet;
use crate::{grants, targets};

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    access::check(review, report);
    let Some(object) = review.subject() else { return };
    // Most updates come from OLM, which changes annotations only.
    if review.touches_json(object, "/spec") {
        spec::check(review, object, report);
    }
    if review.touches_json(object, "/metadata/annotations") {
        annotations::check(review, object, report);
    }
    let group = Group { review, object, keeps_targets: OnceCell::new(), targets: OnceCell::new() };
    if !review.is_update() {
        group.check_single_group(report);
        group.check_unique_name(report);
    }
    group.check_annotation_writer(report);
    group.check_account_exists(report);
    group.check_members(report);
    group.check_conflicts(report);
    group.check_selection_not_empty(report);
    grants::check_group(review, object, report);
}

/// The group under review.
struct Group<'r> {
    review: &'r Review<'r>,
    object: &'r Document,
    /// Both are computed once, when a rule first needs them.
    keeps_targets: OnceCell<bool>,
    targets: OnceCell<Result<NamespaceSet, ReadError>>,
}

impl Group<'_> {
    /// Whether the UPDATE does not change the selection of the group.
    fn keeps_targets(&self) -> bool {
        *self.keeps_targets.get_or_init(|| {
            self.review.old_of_update().is_some_and(|old| Selection::selects_same(old, self.object))
        })
    }

    /// The targets that the group will have. The status counts only while the spec is unchanged.
    fn targets(&self) -> Result<&NamespaceSet, ReadError> {
        let found = self.targets.get_or_init(|| {
            if self.keeps_targets() || targets::status_without_spec(self.object).is_some() {
                targets::of(self.object)
            } else {
                targets::select_namespaces(Selection::of(self.object))
            }
        });
        found.as_ref().map_err(Clone::clone)
    }
}
