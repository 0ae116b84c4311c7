//! Probes of containers that run for ever.

use opgate_sdk::pods::PodSpec;
use opgate_sdk::{Document, Report, go};

use crate::Container;
use crate::rules::RES_3;

const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Reports whether the containers of a pod run for ever. Those of Jobs end, and so do those that are not
/// restarted when they end.
pub(crate) fn runs_for_ever(object: &Document, spec: &PodSpec, kind: &str) -> bool {
    let policy = object.text(&format!("{}/restartPolicy", spec.pointer()));
    !matches!(kind, "Job" | "CronJob") && policy.is_none_or(|policy| policy == "Always")
}

pub(crate) fn check_probe(
    object: &Document,
    container: &Container,
    probe: &str,
    report: &mut Report<'_>,
) {
    let has = |handler: &str| object.has(&format!("{}/{probe}/{handler}", container.pointer));
    if !PROBE_HANDLERS.into_iter().any(has) {
        let message = format!("container {} has no {probe}: add one", go::quote(&container.name));
        report.add(&RES_3, format!("{}.{probe}", container.field), message);
    }
}
