//! Default projects: namespaces of the cluster's own components.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, Review, rule, rules};

use crate::level::label;
use crate::reads::NAMESPACES;
use crate::targets::{by_name, by_run_level};

rules![PSA_08];

/// Projects that are default by their names.
const DEFAULT_PROJECTS: [&str; 6] =
    ["default", "kube-public", "kube-system", "openshift", "openshift-infra", "openshift-node"];
const RUN_LEVEL: &str = "openshift.io/run-level";

rule! {
    /// workloads do not run in default projects
    ///
    /// No Pod, Deployment, DaemonSet, StatefulSet, Job, CronJob, Subscription or OperatorGroup is
    /// created in `default`, `kube-public`, `kube-system`, `openshift`, `openshift-infra` or
    /// `openshift-node`, or in a namespace with the label `openshift.io/run-level` `0` or `1`.
    /// Users of the system (`system:…`) are exempt, with the service accounts of the namespaces
    /// `kube-*` and `openshift-*`; other service accounts are not. For the label, the rule reads
    /// Namespaces.
    ///
    /// # Why
    ///
    /// These projects are for components of the cluster, and pod security admission, security
    /// context constraints and quotas do not work there (OpenShift 4.15, Operators, *About pod
    /// security admission*). An edition of the documents installs a sample in `default`, so the
    /// rule only warns.
    ///
    /// # Remediation
    ///
    /// Create the object in a separate project.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: Deployment
    /// metadata: {name: app, namespace: my-app}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: Pod
    /// metadata: {name: app, namespace: default}
    /// ```
    ///
    /// `message: do not run workloads in or share access to default project "default"`
    PSA_08: Warn {
        name: "no-workloads-in-default-projects",
        on: [
            by_name::POD: Create,
            by_name::DEPLOYMENT: Create,
            by_name::DAEMON_SET: Create,
            by_name::STATEFUL_SET: Create,
            by_name::JOB: Create,
            by_name::CRON_JOB: Create,
            by_name::SUBSCRIPTION: Create,
            by_name::OPERATOR_GROUP: Create,
            by_run_level::POD: Create,
            by_run_level::DEPLOYMENT: Create,
            by_run_level::DAEMON_SET: Create,
            by_run_level::STATEFUL_SET: Create,
            by_run_level::JOB: Create,
            by_run_level::CRON_JOB: Create,
            by_run_level::SUBSCRIPTION: Create,
            by_run_level::OPERATOR_GROUP: Create,
        ],
        reads: [NAMESPACES],
        source: ["OCP 4.15 L15911-15915", "OCP 4.5 L4739-4749"],
    }
}

pub(crate) fn check_by_name(review: &Review<'_>, report: &mut Report<'_>) {
    if DEFAULT_PROJECTS.contains(&review.namespace()) && !is_system_user(review) {
        report_workload(review, report);
    }
}

pub(crate) fn check_by_run_level(review: &Review<'_>, report: &mut Report<'_>) {
    let name = review.namespace();
    if name.is_empty()
        || DEFAULT_PROJECTS.contains(&name)
        || !report.is_on(&PSA_08)
        || is_system_user(review)
    {
        return;
    }
    let found = report.or_skip(&[&PSA_08], "Namespaces", NAMESPACES.get("", name)).flatten();
    let level = found.and_then(|namespace| label(&namespace, RUN_LEVEL));
    if level.is_some_and(|level| level == "0" || level == "1") {
        report_workload(review, report);
    }
}

fn report_workload(review: &Review<'_>, report: &mut Report<'_>) {
    let message = format!(
        "do not run workloads in or share access to default project {}",
        quote(review.namespace())
    );
    report.add(&PSA_08, "metadata.namespace", message);
}

/// Whether the user is a component of the cluster.
fn is_system_user(review: &Review<'_>) -> bool {
    let user = &review.request.user().username;
    match user.strip_prefix("system:serviceaccount:") {
        Some(account) => account.starts_with("kube-") || account.starts_with("openshift-"),
        None => user.starts_with("system:") && user != "system:anonymous",
    }
}
