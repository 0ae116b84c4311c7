//! An OperatorCondition: its entries, and the users that change them.

pub(crate) mod access;
pub(crate) mod entries;

use opgate_sdk::{Report, Review};

pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(condition) = review.subject() else { return };
    entries::judge(review, condition, report);
    access::judge(review, condition, report);
}

pub(crate) fn judge_status(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(condition) = review.subject() else { return };
    entries::judge_status(review, condition, report);
}
