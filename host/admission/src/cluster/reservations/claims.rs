//! Gives priority to requests that others have delayed too often.
//!
//! An evaluation is repeated if a reservation that was made during it can change the results of
//! its queries. Frequent writes could repeat a long evaluation forever. After some rounds it
//! claims the objects of its queries: changes that could change the results wait until it has its
//! decision.
//!
//! ```text
//! round 1, 2, 3: Outdated ─▶ Claim (queries) ─▶ round 4 ─▶ reserved; the claim ends
//!                               └─ writes that may change the results: MustWait ─ wait ─┘
//! ```
//!
//! Claims are numbered. A request with a claim waits only for older ones, so there is no deadlock.
//! A claim expires after a while, so that a slow evaluation does not delay others for long.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::ResourceId;
use crate::cluster::reservations::{RecordedQuery, ReservedChange};

/// Maximum number of claims.
const MAX_CLAIMS: usize = 64;

/// The time after which a claim expires.
const CLAIM_TTL: Duration = Duration::from_secs(1);

/// All claims.
#[derive(Debug, Default)]
pub struct Claims {
    state: Mutex<State>,
    claim_dropped: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    active: Vec<ActiveClaim>,
}

#[derive(Debug)]
struct ActiveClaim {
    number: u64,
    expires_at: Instant,
    queries: Vec<(ResourceId, RecordedQuery)>,
}

/// Claims the objects of queries until it is dropped.
#[derive(Debug)]
pub struct Claim<'c> {
    claims: &'c Claims,
    number: u64,
}

impl Claims {
    /// Claims the objects of queries; none if there are too many claims.
    pub(crate) fn claim(&self, asked: Vec<(ResourceId, RecordedQuery)>) -> Option<Claim<'_>> {
        let mut state = self.state.lock();
        if state.active.len() >= MAX_CLAIMS {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.active.push(ActiveClaim {
            number,
            expires_at: Instant::now() + CLAIM_TTL,
            queries: asked,
        });
        Some(Claim { claims: self, number })
    }

    /// Whether there are any claims.
    pub(in crate::cluster) fn has_claims(&self) -> bool {
        !self.state.lock().active.is_empty()
    }

    /// Whether a change must wait for an older claim than that of its request.
    pub(in crate::cluster) fn must_wait(
        &self,
        made: &[(ResourceId, ReservedChange)],
        own: Option<&Claim<'_>>,
    ) -> bool {
        let now = Instant::now();
        let state = self.state.lock();
        state.active.iter().any(|held| {
            let of = |cache: ResourceId| {
                held.queries
                    .iter()
                    .filter(move |(of, _)| *of == cache)
                    .map(|(_, question)| question)
            };
            held.expires_at > now
                && own.is_none_or(|own| held.number < own.number)
                && made.iter().any(|(cache, made)| made.affects(of(*cache)))
        })
    }

    /// Notified when a claim is dropped, but not when it expires.
    pub(crate) fn claim_dropped(&self) -> &Notify {
        &self.claim_dropped
    }
}

/// Maximum wait for a claim before another check.
pub(crate) const CLAIM_RECHECK_INTERVAL: Duration = CLAIM_TTL;

impl Claim<'_> {
    /// Claims the objects of the queries of this round.
    pub(crate) fn set_queries(&self, asked: Vec<(ResourceId, RecordedQuery)>) {
        let mut state = self.claims.state.lock();
        if let Some(held) = state.active.iter_mut().find(|held| held.number == self.number) {
            held.queries = asked;
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.state.lock().active.retain(|held| held.number != self.number);
        self.claims.claim_dropped.notify_waiters();
    }
}
