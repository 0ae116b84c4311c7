//! What calls of a policy usually are, so that hardly any runs twice.
//!
//! The calls of a tenant decide where its next one starts (`fair.rs`). But if the calls of a policy are
//! long for everybody, as those of an interpreter can be, the first call of each tenant would run twice.
//! So tenants have votes, on each route of the policy:
//!
//! ```text
//! a call ended: long or short ─▶ the vote of its tenant, one of the last 16 tenants ─▶ most are long:
//!                                                                     calls of all start apart
//! ```
//!
//! A tenant has one vote, and one alone does not decide: its objects do not move the calls of others. As
//! long as no call was long there are no votes, and nothing is counted.
//!
//! A call that was stopped in the fast lane, and was short when it ran again, had waited for a CPU. The
//! next calls there have patience: they are stopped by their CPU time. To read it takes a system call,
//! so that other calls are stopped by elapsed time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::fair::{Pace, Tenant};

/// Tenants that have a vote on a route.
const VOTES: usize = 16;

/// Tenants whose calls must have been long, at least.
const LEAST: usize = 2;

/// Calls that have patience after one that had waited.
const PATIENT: u32 = 256;

/// What calls of one policy usually are.
#[derive(Debug, Default)]
pub(super) struct Usual {
    /// The routes with votes, as bits.
    voted: AtomicU64,
    votes: Mutex<BTreeMap<u32, VecDeque<(Tenant, Pace)>>>,
    /// Further calls that have patience.
    patient: AtomicU32,
    /// Calls that ran twice.
    repeated: AtomicU64,
}

/// The first route of a call. There are less than 64.
fn first(routes: u64) -> u32 {
    routes.trailing_zeros().min(u64::BITS - 1)
}

fn is_long(votes: &VecDeque<(Tenant, Pace)>) -> bool {
    let long = votes.iter().filter(|(_, pace)| *pace == Pace::Long).count();
    long >= LEAST && long.saturating_mul(2) > votes.len()
}

impl Usual {
    /// The expected duration of a call of anybody.
    pub(super) fn pace(&self, routes: u64) -> Pace {
        let route = first(routes);
        if self.voted.load(Ordering::Relaxed) & (1 << route) == 0 {
            return Pace::Short;
        }
        let is_long = self.votes.lock().get(&route).is_some_and(is_long);
        if is_long { Pace::Long } else { Pace::Short }
    }

    /// Whether a call of a tenant was long or short.
    pub(super) fn note(&self, routes: u64, tenant: Tenant, pace: Pace) {
        let route = first(routes);
        if pace == Pace::Short && self.voted.load(Ordering::Relaxed) & (1 << route) == 0 {
            return;
        }
        let mut all = self.votes.lock();
        let votes = all.entry(route).or_default();
        votes.retain(|(other, _)| *other != tenant);
        votes.push_back((tenant, pace));
        if votes.len() > VOTES {
            votes.pop_front();
        }
        if votes.iter().any(|(_, pace)| *pace == Pace::Long) {
            self.voted.fetch_or(1 << route, Ordering::Relaxed);
        } else {
            all.remove(&route);
            self.voted.fetch_and(!(1 << route), Ordering::Relaxed);
        }
    }

    /// A call that was stopped was short when it ran again.
    pub(super) fn had_waited(&self) {
        self.patient.store(PATIENT, Ordering::Relaxed);
    }

    /// Whether the next call in the fast lane is stopped by its CPU time.
    pub(super) fn takes_patience(&self) -> bool {
        if self.patient.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Another call can have taken the last one meanwhile.
        let less = |left: u32| left.checked_sub(1);
        self.patient.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// A call runs twice.
    pub(super) fn repeats(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls that ran twice.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fair::Tenants;
    use super::*;

    #[test]
    fn route_long_for_most_tenants_is_long_for_all() {
        let tenants = Tenants::default();
        let of = |n: usize| tenants.of(&format!("ns-{n}"), "");
        let usual = Usual::default();
        let (one, other) = (1 << 3, 1 << 4);
        // However often one tenant says so, its calls are its own business.
        for _ in 0..100 {
            usual.note(one, of(0), Pace::Long);
            assert_eq!(usual.pace(one), Pace::Short);
        }
        usual.note(one, of(1), Pace::Long);
        assert_eq!(usual.pace(one), Pace::Long);
        // A call fits several routes: the first counts.
        assert_eq!(usual.pace(one | other), Pace::Long);
        assert_eq!((usual.pace(other), usual.pace(0)), (Pace::Short, Pace::Short));
        // Two of four are not most of them; the old votes go.
        usual.note(one, of(2), Pace::Short);
        assert_eq!(usual.pace(one), Pace::Long);
        usual.note(one, of(3), Pace::Short);
        assert_eq!(usual.pace(one), Pace::Short);
        for n in 4..100 {
            usual.note(one, of(n), Pace::Long);
        }
        assert_eq!(usual.pace(one), Pace::Long);
        assert_eq!(usual.votes.lock()[&3].len(), VOTES);
        for n in 0..VOTES {
            assert!(usual.votes.lock().contains_key(&3), "{n}");
            usual.note(one, of(n), Pace::Short);
        }
        assert_eq!(usual.pace(one), Pace::Short);
        assert!(usual.votes.lock().is_empty(), "nothing is counted any more");
        usual.note(one, of(1), Pace::Short);
        assert!(usual.votes.lock().is_empty());
    }

    #[test]
    fn after_a_call_that_had_waited_the_next_have_patience() {
        let usual = Usual::default();
        assert!(!usual.takes_patience());
        usual.had_waited();
        let patient = (0..1_000).filter(|_| usual.takes_patience()).count();
        assert_eq!(patient, 256);
    }
}
