//! Pods and workloads. Each function evaluates the rules of its targets.

use opgate_sdk::{Report, Review, pods};

use crate::subject::Subject;
use crate::{affinity, restricted};

/// PSA-16.
pub(crate) fn check_affinity(review: &Review<'_>, report: &mut Report<'_>) {
    check_subject(review, report, |subject, _| affinity::terms::check(subject));
}

/// PSA-15.
pub(crate) fn check_platforms(review: &Review<'_>, report: &mut Report<'_>) {
    check_subject(review, report, |subject, kind| {
        affinity::platforms::check_every_pod(subject, kind == "Pod");
    });
}

/// PSA-09. The setting `psa.checkWorkloads` determines whether there are such requests.
pub(crate) fn check_restricted(review: &Review<'_>, report: &mut Report<'_>) {
    check_subject(review, report, |subject, kind| {
        restricted::check_workload(subject, kind == "Pod");
    });
}

fn check_subject(
    review: &Review<'_>,
    report: &mut Report<'_>,
    by: impl FnOnce(&mut Subject<'_, '_>, &str),
) {
    let Some(object) = review.subject() else { return };
    let kind = review.request.kind().kind.as_str();
    let Some(spec) = pods::in_object(object, kind) else { return };
    let specs = [spec];
    by(&mut Subject { review, object, specs: &specs, kind, report, field_prefix: "" }, kind);
}
