//! An InstallPlan: its fields, the users that approve it, and whether OLM can execute it.

pub(crate) mod querier;
pub(crate) mod spec;

use opgate_sdk::{Document, Report, Review};

use crate::health;

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(plan) = review.subject() else { return };
    spec::check(review, plan, report);
    querier::check(review, plan, report);
    if !review.is_update() {
        health::check(review, report);
    }
}

/// Whether a plan is approved.
fn is_approved(plan: &Document) -> bool {
    plan.boolean("/spec/approved") == Some(true)
}

/// Whether an UPDATE approves a plan.
fn approves(review: &Review<'_>, plan: &Document) -> bool {
    is_approved(plan) && review.old_of_update().is_some_and(|old| !is_approved(old))
}
