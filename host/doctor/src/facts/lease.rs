//! The Leases of servers: their age, and the reported state of the cluster cache.

use std::time::{Duration, SystemTime};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use opgate_controller::replicas::{LEASE_NAME_PREFIX, STATE_ANNOTATION};
use opgate_server::ClusterStatus;
use serde_json::Value;

use super::object::{Kind, Object, list, text};
use super::workload::selected_pods;
use super::{FactError, Facts};

/// A Lease that was not renewed for this long is stale, and for two of its terms if they are longer: a server renews
/// its own three times in a term.
const MIN_STALE_AGE: Duration = Duration::from_secs(60);
const STALE_TERMS: u32 = 2;

/// Maximum duration of a Lease that is accepted.
const MAX_TERM_SECONDS: u64 = 300;

/// Maximum bytes of an annotation that is read.
const MAX_STATE_BYTES: usize = 16 << 10;

/// Returns a time as an API server writes it.
pub(crate) fn parse_time(value: &Value) -> Option<SystemTime> {
    let time: MicroTime = serde_json::from_value(value.clone()).ok()?;
    Some(time.0.into())
}

/// Returns the time at which a Lease was renewed.
pub(super) fn renew_time(lease: &Object) -> Option<SystemTime> {
    parse_time(lease.at("/spec/renewTime")?)
}

/// Returns the Lease of the server in a pod.
pub(crate) fn lease_of<'f>(facts: &'f Facts, pod: &Object) -> Option<&'f Object> {
    facts.get(Kind::Lease, &pod.namespace, &format!("{LEASE_NAME_PREFIX}{}", pod.name))
}

/// Returns the time since the last renewal of a Lease, if that is too long.
pub(crate) fn stale_age(facts: &Facts, lease: &Object) -> Option<Duration> {
    let age = facts.cluster_time().duration_since(renew_time(lease)?).unwrap_or_default();
    let term = lease.at("/spec/leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default();
    let term = Duration::from_secs(term.min(MAX_TERM_SECONDS));
    (age > term.saturating_mul(STALE_TERMS).max(MIN_STALE_AGE)).then_some(age)
}

/// Returns the last state of the cluster cache that the server of a Lease reported. A Lease without an
/// annotation is valid.
pub(crate) fn cache_state(lease: &Object) -> Result<ClusterStatus, FactError> {
    let Some(said) = lease.annotation(STATE_ANNOTATION) else {
        return Ok(ClusterStatus::default());
    };
    if said.len() > MAX_STATE_BYTES {
        return Err(FactError(format!(
            "its annotation {STATE_ANNOTATION} has more than {MAX_STATE_BYTES} bytes"
        )));
    }
    serde_json::from_str(said)
        .map_err(|error| FactError(format!("its annotation {STATE_ANNOTATION}: {error}")))
}

/// Returns the pods of servers whose containers run.
pub(crate) fn running_pods(facts: &Facts) -> Vec<&Object> {
    let runs = |pod: &&Object| {
        let mut statuses = pod.list("/status/containerStatuses").iter();
        text(&pod.value, "/status/phase") != "Pending"
            && !statuses.any(|status| status.pointer("/state/waiting").is_some())
    };
    let pods = facts.service().into_iter().flat_map(|service| selected_pods(facts, service));
    pods.filter(runs).collect()
}

/// Returns the time for which a pod has been ready.
pub(crate) fn ready_duration(facts: &Facts, pod: &Object) -> Option<Duration> {
    let mut conditions = list(&pod.value, "/status/conditions").iter();
    let ready =
        conditions.find(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True");
    let since = parse_time(ready?.get("lastTransitionTime")?)?;
    facts.cluster_time().duration_since(since).ok()
}

/// Returns the running pods without a current Lease that reports their state.
pub(super) fn pods_without_state(facts: &Facts) -> Vec<String> {
    let is_silent =
        |pod: &&Object| lease_of(facts, pod).is_none_or(|lease| stale_age(facts, lease).is_some());
    running_pods(facts).into_iter().filter(is_silent).map(|pod| pod.name.clone()).collect()
}
