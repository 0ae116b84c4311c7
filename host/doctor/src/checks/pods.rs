//! The pod of a server: its times, probes, resources and privileges.

use std::time::Duration;

use serde_json::Value;

use crate::facts::Facts;
use crate::facts::object::{Kind, list, text};
use crate::facts::workload::Workload;
use crate::finding::{Findings, join_names};
use crate::finding_docs::servers::{
    CPU_LIMIT, EXCESSIVE_PRIVILEGES, NO_MEMORY_LIMIT, NO_READINESS, NO_TOKEN, SHORT_GRACE_PERIOD,
};

/// Default of `--drain-delay` of a server.
pub const DRAIN_DELAY: Duration = Duration::from_secs(15);
/// Default of `--grace-period` of a server.
pub const GRACE_PERIOD: Duration = Duration::from_secs(10);
/// The times that a server needs at most after these: to close idle connections, to end its leases, and to write the
/// last records and traces.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const LEASE_TIMEOUT: Duration = Duration::from_secs(3);
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);

/// Upstream's default of `terminationGracePeriodSeconds`.
const DEFAULT_TERMINATION_SECONDS: u64 = 30;

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let Some(workload) = Workload::of(facts) else { return };
    let at = workload.object;
    let needed = shutdown_time(&workload);
    let given = workload.spec.get("terminationGracePeriodSeconds").and_then(Value::as_u64);
    let given = given.unwrap_or(DEFAULT_TERMINATION_SECONDS);
    if Duration::from_secs(given) < needed {
        let needed = needed.as_secs_f64().ceil();
        let what = format!("{given} s, and a server takes up to {needed} s to end");
        let repair = format!("set it to {} or more", needed + 4.0);
        let field = workload.pod_field("terminationGracePeriodSeconds");
        found.add(&SHORT_GRACE_PERIOD, at, &field, &what, &repair);
    }
    let probe = workload.container.get("readinessProbe");
    if probe.is_none_or(|probe| !text(probe, "/httpGet/path").starts_with("/readyz")) {
        let what = match probe {
            None => "the container has no readiness probe",
            Some(_) => "the readiness probe does not ask /readyz",
        };
        let repair = "httpGet {path: /readyz, port: 8081} on the ops port, every 2 s";
        found.add(&NO_READINESS, at, &workload.field("readinessProbe"), what, repair);
    }
    let limit = |name: &str| workload.container.pointer(&format!("/resources/limits/{name}"));
    if limit("memory").is_none() {
        let repair = "set resources.limits.memory, 512Mi to begin with";
        let what = "there is no memory limit";
        found.add(&NO_MEMORY_LIMIT, at, &workload.field("resources.limits"), what, repair);
    }
    if limit("cpu").is_some() {
        let what = "there is a CPU limit";
        let repair = "remove resources.limits.cpu, and keep the request";
        found.add(&CPU_LIMIT, at, &workload.field("resources.limits.cpu"), what, repair);
    }
    check_privileges(&workload, found);
    check_token(facts, &workload, found);
}

/// Returns the time that a server needs at most from SIGTERM to its end.
fn shutdown_time(workload: &Workload<'_>) -> Duration {
    let is_set = |name: &str, variable: &str| {
        workload.flag(name, Some(variable)).is_some_and(|value| !value.is_empty())
    };
    let has_output = is_set("--record", "OPGATE_RECORD")
        || is_set("--otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT");
    let times = [
        (true, workload.duration_flag("--drain-delay", DRAIN_DELAY)),
        (true, workload.duration_flag("--grace-period", GRACE_PERIOD)),
        (true, CLOSE_TIMEOUT),
        (is_set("--installation", "OPGATE_INSTALLATION"), LEASE_TIMEOUT),
        (has_output, OUTPUT_TIMEOUT),
    ];
    let needed = times.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, time)| time);
    needed.fold(Duration::ZERO, Duration::saturating_add)
}

fn check_privileges(workload: &Workload<'_>, found: &mut Findings) {
    let context = |name: &str| {
        let of_container = workload.container.pointer(&format!("/securityContext/{name}"));
        of_container.or(workload.spec.pointer(&format!("/securityContext/{name}")))
    };
    let is = |name: &str, wanted: bool| context(name) == Some(&Value::Bool(wanted));
    let dropped = list(workload.container, "/securityContext/capabilities/drop");
    let mut missing = Vec::new();
    let non_root = context("runAsUser").and_then(Value::as_i64).is_some_and(|user| user > 0);
    if !is("runAsNonRoot", true) && !non_root {
        missing.push("runAsNonRoot");
    }
    if !is("allowPrivilegeEscalation", false) {
        missing.push("allowPrivilegeEscalation: false");
    }
    if !is("readOnlyRootFilesystem", true) {
        missing.push("readOnlyRootFilesystem");
    }
    if !dropped.iter().any(|one| one == "ALL") {
        missing.push("capabilities.drop: [ALL]");
    }
    if is("privileged", true) {
        missing.push("privileged: false");
    }
    if !missing.is_empty() {
        let what = format!("the container lacks {}", join_names(missing));
        let repair = "set the security context that `opgate manifests all` prints";
        found.add(
            &EXCESSIVE_PRIVILEGES,
            workload.object,
            &workload.field("securityContext"),
            &what,
            repair,
        );
    }
}

fn check_token(facts: &Facts, workload: &Workload<'_>, found: &mut Findings) {
    let reads = workload.flag("--cluster-source", None) != Some("none")
        && workload.flag("--kubeconfig", Some("KUBECONFIG")).is_none()
        && workload.flag("--cluster-state", None).is_none();
    let is_off = |value: Option<&Value>| value == Some(&Value::Bool(false));
    let of_pod = workload.spec.get("automountServiceAccountToken");
    let name = workload.service_account();
    let account = facts.get(Kind::ServiceAccount, &workload.object.namespace, name);
    let of_account = account.and_then(|account| account.at("/automountServiceAccountToken"));
    let is_projected = list(workload.spec, "/volumes").iter().any(|volume| {
        let mut sources = list(volume, "/projected/sources").iter();
        sources.any(|source| source.get("serviceAccountToken").is_some())
    });
    // The setting of the pod takes precedence.
    let is_missing = is_off(of_pod) || of_pod.is_none() && is_off(of_account);
    if reads && is_missing && !is_projected {
        let what = "no token is mounted, and the servers read the cluster";
        let repair = "remove automountServiceAccountToken: false, or set --cluster-source none";
        let field = workload.pod_field("automountServiceAccountToken");
        found.add(&NO_TOKEN, workload.object, &field, what, repair);
    }
}
