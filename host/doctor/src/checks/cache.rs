//! State of the cluster cache, from the Leases of the servers or from their responses. The same state has the
//! reservations, for `reservations`.

use std::collections::BTreeSet;

use opgate_server::{ClusterStatus, ResourceCacheStatus, ResourceState};

use super::reservations;
use crate::facts::lease::{self, running_pods};
use crate::facts::object::{Kind, Object};
use crate::facts::{FactError, Facts};
use crate::finding::{Findings, join_names, shell_word};
use crate::finding_docs::Doc;
use crate::finding_docs::cache::{CACHE_NOT_READY, TOKEN_REJECTED, WATCH_FAILED};

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    if !found.require_kind(facts, Kind::Pod, "what the servers know of the cluster") {
        return;
    }
    let mut states = Vec::new();
    for pod in running_pods(facts) {
        match cache_state(facts, pod) {
            Ok(state) => {
                check_cache(facts, pod, &state, found);
                states.push((pod, state));
            }
            Err(why) => {
                found.add_unchecked(
                    &format!("what the server {} knows of the cluster", pod.name),
                    &why.to_string(),
                );
            }
        }
    }
    reservations::check(&states, found);
}

fn cache_state(facts: &Facts, pod: &Object) -> Result<ClusterStatus, FactError> {
    if let Some(said) = facts.cache_states.get(&pod.name) {
        return said.clone();
    }
    let known = facts
        .ensure_known(Kind::Lease)
        .map_err(|why| FactError(format!("{}: {why}", Kind::Lease.resource())));
    match lease::lease_of(facts, pod) {
        Some(lease) if lease::stale_age(facts, lease).is_none() => lease::cache_state(lease),
        Some(_) => Err(FactError("its Lease is old, and it was not asked".to_owned())),
        None => known.and(Err(FactError("it has no Lease, and was not asked".to_owned()))),
    }
}

fn check_cache(facts: &Facts, pod: &Object, state: &ClusterStatus, found: &mut Findings) {
    let (namespace, name) = (shell_word(&facts.installation.namespace), shell_word(&pod.name));
    let all = |is: &dyn Fn(&ResourceState) -> bool| -> Vec<_> {
        state.resources.iter().filter(|one| is(one)).collect()
    };
    // A starting server has not listed everything yet; it is not ready, which is a separate finding.
    let lacks = |one: &ResourceState| match one.state {
        ResourceCacheStatus::Unseen | ResourceCacheStatus::Stale => true,
        ResourceCacheStatus::Listing => super::reach::is_ready(pod),
        _ => false,
    };
    let told = |doc: &'static Doc,
                of: &[&ResourceState],
                what: &str,
                repair: &str,
                found: &mut Findings| {
        if of.is_empty() {
            return;
        }
        let resources = join_names(of.iter().map(|one| one.resource.as_str()));
        let why = of.iter().find_map(|one| one.error.as_deref()).unwrap_or("no reason is known");
        let policies: BTreeSet<_> = of.iter().flat_map(|one| &one.needed_by).collect();
        let policies = policies.into_iter().map(String::as_str);
        let needs = match join_names(policies).as_str() {
            "" => String::new(),
            policies => format!(", which {policies} need"),
        };
        let what = format!("{what} {} resources: {resources}{needs}: {why}", of.len());
        found.add(doc, pod, "", &what, repair);
    };
    let refused = all(&|one| one.unauthorized);
    let replace = format!(
        "check the ServiceAccount, its token and the clocks, then: kubectl -n {namespace} delete pod {name}"
    );
    told(&TOKEN_REJECTED, &refused, "the API server refuses its token (401) for", &replace, found);
    let lacking = all(&|one| !one.unauthorized && lacks(one));
    let repair = "if it is forbidden, grant what opgate manifests rbac prints; otherwise see the health of the API server";
    told(&CACHE_NOT_READY, &lacking, "it has no current view of", repair, found);
    let failing = all(&|one| !one.unauthorized && one.state == ResourceCacheStatus::Interrupted);
    let repair = "wait for a restart of the API server to end; otherwise see its health";
    told(&WATCH_FAILED, &failing, "it cannot watch", repair, found);
}
