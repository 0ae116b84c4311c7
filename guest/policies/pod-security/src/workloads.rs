//! Pods and workloads. Each function evaluates the rules of its targets.

use opgate_sdk::{Report, Review, pods};

use crate::subject::Subject;
use crate::{affinity, restricted};

/// PSA-16.
pub(crate) fn with_affinity(review: &Review<'_>, report: &mut Report<'_>) {
    judge(review, report, |subject, _| affinity::terms::judge(subject));
}

/// PSA-15.
pub(crate) fn all(review: &Review<'_>, report: &mut Report<'_>) {
    judge(review, report, |subject, kind| {
        affinity::platforms::of_every_pod(subject, kind == "Pod");
    });
}

/// PSA-09. The setting `psa.checkWorkloads` determines whether there are such requests.
pub(crate) fn restricted(review: &Review<'_>, report: &mut Report<'_>) {
    judge(review, report, |subject, kind| restricted::workload(subject, kind == "Pod"));
}

fn judge(
    review: &Review<'_>,
    report: &mut Report<'_>,
    by: impl FnOnce(&mut Subject<'_, '_>, &str),
) {
    let Some(object) = review.subject() else { return };
    let kind = review.request.kind().kind.as_str();
    let Some(spec) = pods::in_object(object, kind) else { return };
    let specs = [spec];
    by(&mut Subject { review, object, specs: &specs, kind, report, place: "" }, kind);
}
