//! ServiceAccounts, Pods, and the workloads that make Pods.

use opgate_sdk::Target;

const V1: &[&str] = &["v1"];

pub(crate) static SERVICE_ACCOUNT: Target = Target {
    groups: &[""],
    versions: V1,
    resources: &["serviceaccounts"],
    kind: "ServiceAccount",
    ..Target::EMPTY
};

/// With `pods/ephemeralcontainers`, which adds containers to a Pod that runs: they can be privileged.
pub(crate) static POD: Target = Target {
    groups: &[""],
    versions: V1,
    resources: &["pods", "pods/ephemeralcontainers"],
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
pub(crate) static REPLICA_SET: Target =
    Target { resources: &["replicasets"], kind: "ReplicaSet", ..APPS };
pub(crate) static JOB: Target = Target { resources: &["jobs"], kind: "Job", ..BATCH };
pub(crate) static CRON_JOB: Target = Target { resources: &["cronjobs"], kind: "CronJob", ..BATCH };
