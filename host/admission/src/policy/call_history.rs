//! The usual duration of the calls of a policy, so that hardly any call runs twice.
//!
//! The calls of a tenant determine where its next one starts (`permits`). But if the calls of a
//! policy are long for all tenants, as those of an interpreter can be, the first call of each
//! tenant would run twice. So tenants have votes, on each route of the policy:
//!
//! ```text
//! a call ended: long or short ─▶ the vote of its tenant, one of the last 16 tenants ─▶ most are long:
//!                                                        all calls start on worker threads
//! ```
//!
//! A tenant has one vote, and one alone does not decide: its objects do not move the calls of
//! others. Before the first long call there are no votes, and nothing is counted.
//!
//! A call that was stopped on the fast path, and was short when it ran again, had waited for a
//! CPU. The next calls there have patience: they are stopped by their CPU time. Reading it takes a
//! system call, so other calls are stopped by wall-clock time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::permits::{CallClass, Tenant};

/// Maximum number of tenants with a vote on a route.
const MAX_VOTES: usize = 16;

/// Minimum number of tenants whose calls must have been long.
const MIN_LONG_VOTES: usize = 2;

/// Number of calls that have patience after one that had waited.
const PATIENT_CALLS: u32 = 256;

/// The usual duration of the calls of one policy.
#[derive(Debug, Default)]
pub(super) struct CallHistory {
    /// The routes with votes, as bits.
    voted_routes: AtomicU64,
    votes: Mutex<BTreeMap<u32, VecDeque<(Tenant, CallClass)>>>,
    /// The remaining calls that have patience.
    patient_calls_left: AtomicU32,
    /// Calls that ran twice.
    repeated_calls: AtomicU64,
}

/// The first route of a call. There are less than 64.
fn first_route(routes: u64) -> u32 {
    routes.trailing_zeros().min(u64::BITS - 1)
}

fn is_long(votes: &VecDeque<(Tenant, CallClass)>) -> bool {
    let long = votes.iter().filter(|(_, call_class)| *call_class == CallClass::Long).count();
    long >= MIN_LONG_VOTES && long.saturating_mul(2) > votes.len()
}

impl CallHistory {
    /// The expected duration of a call of any tenant.
    pub(super) fn expected_class(&self, routes: u64) -> CallClass {
        let route = first_route(routes);
        if self.voted_routes.load(Ordering::Relaxed) & (1 << route) == 0 {
            return CallClass::Short;
        }
        let is_long = self.votes.lock().get(&route).is_some_and(is_long);
        if is_long { CallClass::Long } else { CallClass::Short }
    }

    /// Records whether a call of a tenant was long or short.
    pub(super) fn record(&self, routes: u64, tenant: Tenant, call_class: CallClass) {
        let route = first_route(routes);
        if call_class == CallClass::Short
            && self.voted_routes.load(Ordering::Relaxed) & (1 << route) == 0
        {
            return;
        }
        let mut all = self.votes.lock();
        let votes = all.entry(route).or_default();
        votes.retain(|(other, _)| *other != tenant);
        votes.push_back((tenant, call_class));
        if votes.len() > MAX_VOTES {
            votes.pop_front();
        }
        if votes.iter().any(|(_, call_class)| *call_class == CallClass::Long) {
            self.voted_routes.fetch_or(1 << route, Ordering::Relaxed);
        } else {
            all.remove(&route);
            self.voted_routes.fetch_and(!(1 << route), Ordering::Relaxed);
        }
    }

    /// Records that a stopped call was short when it ran again.
    pub(super) fn record_cpu_wait(&self) {
        self.patient_calls_left.store(PATIENT_CALLS, Ordering::Relaxed);
    }

    /// Whether the next call on the fast path is stopped by its CPU time.
    pub(super) fn take_patient_call(&self) -> bool {
        if self.patient_calls_left.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Another call can have used the last one.
        let less = |left: u32| left.checked_sub(1);
        self.patient_calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Records that a call runs twice.
    pub(super) fn record_repeat(&self) {
        self.repeated_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls that ran twice.
    pub(super) fn repeated_calls(&self) -> u64 {
        self.repeated_calls.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::permits::Tenants;
    use super::*;

    #[test]
    fn route_long_for_most_tenants_is_long_for_all() {
        let tenants = Tenants::default();
        let of = |n: usize| tenants.of(&format!("ns-{n}"), "");
        let usual = CallHistory::default();
        let (one, other) = (1 << 3, 1 << 4);
        // A single tenant only affects its own calls, however often it votes.
        for _ in 0..100 {
            usual.record(one, of(0), CallClass::Long);
            assert_eq!(usual.expected_class(one), CallClass::Short);
        }
        usual.record(one, of(1), CallClass::Long);
        assert_eq!(usual.expected_class(one), CallClass::Long);
        // A call has several routes: the first counts.
        assert_eq!(usual.expected_class(one | other), CallClass::Long);
        assert_eq!(
            (usual.expected_class(other), usual.expected_class(0)),
            (CallClass::Short, CallClass::Short)
        );
        // Two of four are no majority; the old votes are dropped.
        usual.record(one, of(2), CallClass::Short);
        assert_eq!(usual.expected_class(one), CallClass::Long);
        usual.record(one, of(3), CallClass::Short);
        assert_eq!(usual.expected_class(one), CallClass::Short);
        for n in 4..100 {
            usual.record(one, of(n), CallClass::Long);
        }
        assert_eq!(usual.expected_class(one), CallClass::Long);
        assert_eq!(usual.votes.lock()[&3].len(), MAX_VOTES);
        for n in 0..MAX_VOTES {
            assert!(usual.votes.lock().contains_key(&3), "{n}");
            usual.record(one, of(n), CallClass::Short);
        }
        assert_eq!(usual.expected_class(one), CallClass::Short);
        assert!(usual.votes.lock().is_empty(), "nothing is counted any more");
        usual.record(one, of(1), CallClass::Short);
        assert!(usual.votes.lock().is_empty());
    }

    #[test]
    fn calls_after_a_delayed_call_are_limited_by_cpu_time() {
        let usual = CallHistory::default();
        assert!(!usual.take_patient_call());
        usual.record_cpu_wait();
        let patient = (0..1_000).filter(|_| usual.take_patient_call()).count();
        assert_eq!(patient, 256);
    }
}
