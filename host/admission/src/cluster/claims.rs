//! Who was in the way of others too often goes first.
//!
//! An evaluation is repeated where something was reserved meanwhile that may change what it has asked. One that
//! takes long could be repeated for ever, by whoever writes often. After some rounds it lays claim to what it
//! asks about: what would change the answers waits until it is decided.
//!
//! ```text
//! round 1, 2, 3: Outdated ─▶ Claim (questions) ─▶ round 4 ─▶ reserved; the claim ends
//!                               └─ writes that may change the answers: Claimed ─ wait ─┘
//! ```
//!
//! Claims are numbered: one that has a claim waits for older ones only, so that nobody waits in a circle. A
//! claim lapses after a while, so that a slow evaluation does not hold up others for long.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::reservations::{Made, Question};

/// Claims at one time.
const MOST: usize = 64;

/// A claim holds for so long.
const HOLDS: Duration = Duration::from_secs(1);

/// All claims.
#[derive(Debug, Default)]
pub struct Claims {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    number: u64,
    until: Instant,
    asked: Vec<(usize, Question)>,
}

/// What is asked about is not changed by others, until this is dropped.
#[derive(Debug)]
pub struct Claim<'c> {
    claims: &'c Claims,
    number: u64,
}

impl Claims {
    /// Lays claim to what was asked about; none where there are too many.
    pub(super) fn claim(&self, asked: Vec<(usize, Question)>) -> Option<Claim<'_>> {
        let mut state = self.state.lock();
        if state.held.len() >= MOST {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.held.push(Held { number, until: Instant::now() + HOLDS, asked });
        Some(Claim { claims: self, number })
    }

    /// Whether there are any.
    pub(super) fn are_there(&self) -> bool {
        !self.state.lock().held.is_empty()
    }

    /// Whether what would be made has to wait for a claim that is older than one's own.
    pub(super) fn forbid(&self, made: &[(usize, Made)], own: Option<&Claim<'_>>) -> bool {
        let now = Instant::now();
        let state = self.state.lock();
        state.held.iter().any(|held| {
            let of = |kind: usize| {
                held.asked.iter().filter(move |(of, _)| *of == kind).map(|(_, question)| question)
            };
            held.until > now
                && own.is_none_or(|own| held.number < own.number)
                && made.iter().any(|(kind, made)| made.answers(of(*kind)))
        })
    }

    /// Told whenever a claim ends; one that lapses tells nobody.
    pub(super) fn ended(&self) -> &Notify {
        &self.ended
    }
}

/// The longest that one waits for a claim before looking again.
pub(super) const LOOK_AGAIN: Duration = HOLDS;

impl Claim<'_> {
    /// Lays claim to what was asked this time.
    pub(super) fn asks(&self, asked: Vec<(usize, Question)>) {
        let mut state = self.claims.state.lock();
        if let Some(held) = state.held.iter_mut().find(|held| held.number == self.number) {
            held.asked = asked;
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.state.lock().held.retain(|held| held.number != self.number);
        self.claims.ended.notify_waiters();
    }
}
