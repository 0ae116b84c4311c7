//! Reservations of the servers, and the ledger in which they share them.

use opgate_server::{ClusterStatus, NEARLY_FULL_PERCENT};

use crate::facts::object::Object;
use crate::finding::{Findings, join_names};
use crate::finding_docs::reservations::{LEDGER_UNUSABLE, LOCAL_RESERVATIONS, RESERVATION_LIMIT};

/// Checks the reported states of the pods of servers.
pub(super) fn check(states: &[(&Object, ClusterStatus)], found: &mut Findings) {
    for (pod, state) in states {
        for one in state.reservations.iter().filter(|one| one.percent >= NEARLY_FULL_PERCENT) {
            let what = format!(
                "{} uses {} % of the reservations of {} that it may have",
                one.tenant, one.percent, one.resource
            );
            let repair =
                "find out in the audit log of the API server why its requests are not stored";
            found.add(&RESERVATION_LIMIT, *pod, &one.resource, &what, repair);
        }
        if let Some(problem) = &state.ledger_problem {
            let what = format!("it reports the ledger of reservations: {problem}");
            let repair = "see the reasons in operate/reservations.md#replicas";
            found.add(&LEDGER_UNUSABLE, *pod, "", &what, repair);
        }
    }
    let local: Vec<&Object> =
        states.iter().filter(|(_, state)| state.local_reservations).map(|(pod, _)| *pod).collect();
    if let [first, _, ..] = local.as_slice() {
        let servers = join_names(local.iter().map(|pod| pod.name.as_str()));
        let what = format!("{} servers do not share their reservations: {servers}", local.len());
        let repair = "remove reservations: local from opgate.yaml, and restart the servers";
        found.add(&LOCAL_RESERVATIONS, *first, "", &what, repair);
    }
}
