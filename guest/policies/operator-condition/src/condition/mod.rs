//! An OperatorCondition: its entries, and the users that change them.

pub(crate) mod access;
pub(crate) mod entries;

use opgate_sdk::{Report, Review};

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(condition) = review.subject() else { return };
    entries::check(review, condition, report);
    access::check(review, condition, report);
}

pub(crate) fn check_status(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(condition) = review.subject() else { return };
    entries::check_status(review, condition, report);
}
