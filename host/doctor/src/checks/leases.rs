//! Leases that expired although the pods of their servers run.

use std::time::Duration;

use opgate_controller::lease::LEASE_NAME;

use crate::facts::Facts;
use crate::facts::lease::{lease_of, ready_duration, running_pods, stale_age};
use crate::facts::object::Kind;
use crate::facts::workload::Workload;
use crate::finding::{Findings, shell_word};
use crate::finding_docs::replicas::LEASE_STALE;

/// A server that has been ready for this long has a Lease.
const FIRST_LEASE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let what = "whether the servers renew their Leases";
    if !found.require_kind(facts, Kind::Lease, what) || !found.require_kind(facts, Kind::Pod, what)
    {
        return;
    }
    let pods = running_pods(facts);
    let namespace = shell_word(&facts.installation.namespace);
    let flag = |workload: Workload<'_>| {
        workload.flag("--installation", Some("OPGATE_INSTALLATION")).is_some()
    };
    let publishes = Workload::of(facts).is_some_and(flag);
    for pod in &pods {
        let name = shell_word(&pod.name);
        let repair = format!(
            "kubectl -n {namespace} logs {name} | grep -i lease; if its token is refused: kubectl -n {namespace} delete pod {name}"
        );
        match lease_of(facts, pod) {
            Some(lease) => {
                if let Some(age) = stale_age(facts, lease) {
                    let seconds = age.as_secs();
                    let what = format!("its pod runs, and it was not renewed for {seconds} s");
                    found.add(&LEASE_STALE, lease, "spec.renewTime", &what, &repair);
                }
            }
            None if publishes
                && ready_duration(facts, pod).is_some_and(|time| time > FIRST_LEASE_TIMEOUT) =>
            {
                found.add(&LEASE_STALE, *pod, "", "its server has no Lease", &repair);
            }
            None => {}
        }
    }
    let leader = facts.get(Kind::Lease, &facts.installation.namespace, LEASE_NAME);
    if let Some(lease) = leader.filter(|_| !pods.is_empty())
        && let Some(age) = stale_age(facts, lease)
    {
        let what = format!("no server leads: it was not renewed for {} s", age.as_secs());
        let repair = "see the log of the servers; permissions for Leases, DOC-60";
        found.add(&LEASE_STALE, lease, "spec.renewTime", &what, repair);
    }
}
