//! Pods, and the workloads that make them.

use opgate_sdk::Target;

const V1: &[&str] = &["v1"];

/// With `pods/resize`, which changes the resources of a Pod that runs.
pub(crate) static POD: Target = Target {
    groups: &[""],
    versions: V1,
    resources: &["pods", "pods/resize"],
    kind: "Pod",
    ..Target::EMPTY
};

const APPS: Target = Target { groups: &["apps"], versions: V1, ..Target::EMPTY };
const BATCH: Target = Target { groups: &["batch"], versions: V1, ..Target::EMPTY };

pub(crate) static DEPLOYMENT: Target =
    Target { resources: &["deployments"], kind: "Deployment", ..APPS };
pub(crate) static STATEFUL_SET: Target =
    Target { resources: &["statefulsets"], kind: "StatefulSet", ..APPS };
pub(crate) static DAEMON_SET: Target =
    Target { resources: &["daemonsets"], kind: "DaemonSet", ..APPS };
pub(crate) static JOB: Target = Target { resources: &["jobs"], kind: "Job", ..BATCH };
pub(crate) static CRON_JOB: Target = Target { resources: &["cronjobs"], kind: "CronJob", ..BATCH };
