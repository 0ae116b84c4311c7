//! Memory accounts: bytes with a limit, charged before the bytes are allocated.
//!
//! ```text
//! budget of the server ◀── account of a request ◀── Charge of its text, of each of its documents
//!      (parent)             (separate limit)          (released when dropped)
//! ```
//!
//! All memory of a [`crate::Text`] or a [`crate::Document`] that grows with its input (indexes, nodes,
//! unescaped texts) is charged to the account that it was created with. An account that refuses a charge is
//! [exhausted](Account::is_exhausted) from then on: the read that needed it returned nothing, so that every
//! later result may be wrong. Code that reads on behalf of others checks that mark before it uses a result.
//! Without an account nothing is counted and nothing is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Step in which an account takes bytes from its parent, so that requests do not contend for one counter with
/// every list that they read.
const PARENT_STEP_BYTES: u64 = 16 << 10;

/// Bits of an account's state for the number of charged bytes; those above count the steps from its parent. 1
/// TiB of each.
const USED_BITS: u32 = 40;
const MAX_USED_BYTES: u64 = (1 << USED_BITS) - 1;

/// A count of bytes with a limit.
#[derive(Debug)]
pub struct Account {
    /// Bytes that are taken, and steps that the parent gave, in one number: both change at once.
    state: AtomicU64,
    limit: u64,
    parent: Option<Arc<Account>>,
    exhausted: AtomicBool,
    parent_exhausted: AtomicBool,
}

fn split(state: u64) -> (u64, u64) {
    (state & MAX_USED_BYTES, state >> USED_BITS)
}

fn number(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Account {
    /// Creates an account with this limit in bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Self::of(limit, None)
    }

    /// Creates an account whose bytes also count against `parent`.
    #[must_use]
    pub fn child(parent: &Arc<Account>, limit: usize) -> Arc<Self> {
        Self::of(limit, Some(parent.clone()))
    }

    fn of(limit: usize, parent: Option<Arc<Account>>) -> Arc<Self> {
        let limit = number(limit).min(MAX_USED_BYTES - PARENT_STEP_BYTES);
        let (state, exhausted) = (AtomicU64::new(0), AtomicBool::new(false));
        let starved = AtomicBool::new(false);
        Arc::new(Self { state, limit, parent, exhausted, parent_exhausted: starved })
    }

    /// Charges bytes; reports whether they are available. Otherwise the account is exhausted from now on.
    ///
    /// Prefer a [`Charge`], which gives back what it took.
    #[must_use]
    pub fn charge(&self, bytes: usize) -> bool {
        let taken = self.try_charge(bytes);
        if !taken {
            self.exhausted.store(true, Ordering::Relaxed);
        }
        taken
    }

    /// [`Account::charge`] for an optional charge: a refusal does not exhaust the account.
    #[must_use]
    pub fn try_charge(&self, bytes: usize) -> bool {
        let bytes = number(bytes);
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let (used, steps) = split(state);
            let wanted = used.saturating_add(bytes);
            if wanted > self.limit {
                return false;
            }
            let missing = match &self.parent {
                Some(_) => wanted.div_ceil(PARENT_STEP_BYTES).saturating_sub(steps),
                None => 0,
            };
            if let Some(parent) = self.parent.as_deref().filter(|_| missing > 0)
                && !parent.try_charge(size(missing * PARENT_STEP_BYTES))
            {
                self.parent_exhausted.store(true, Ordering::Relaxed);
                return false;
            }
            match self.update_state(state, wanted, steps + missing) {
                Ok(()) => return true,
                Err(now) => {
                    state = now;
                    self.return_steps(missing);
                }
            }
        }
    }

    /// Gives back bytes that were taken.
    pub fn release(&self, bytes: usize) {
        let bytes = number(bytes);
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let (used, steps) = split(state);
            let left = used.saturating_sub(bytes);
            // One step is kept: another read is likely.
            let kept = steps.min(left.div_ceil(PARENT_STEP_BYTES) + 1);
            match self.update_state(state, left, kept) {
                Ok(()) => return self.return_steps(steps - kept),
                Err(now) => state = now,
            }
        }
    }

    fn update_state(&self, state: u64, used: u64, steps: u64) -> Result<(), u64> {
        let new = steps << USED_BITS | used;
        let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        self.state.compare_exchange_weak(state, new, done, failed).map(|_| ())
    }

    fn return_steps(&self, steps: u64) {
        if let Some(parent) = self.parent.as_deref().filter(|_| steps > 0) {
            parent.release(size(steps * PARENT_STEP_BYTES));
        }
    }

    /// Returns bytes that are taken now.
    #[must_use]
    pub fn used(&self) -> usize {
        size(split(self.state.load(Ordering::Relaxed)).0)
    }

    /// Returns bytes that can be taken in all.
    #[must_use]
    pub fn limit(&self) -> usize {
        size(self.limit)
    }

    /// Reports whether a charge was refused: values read with this account may have seemed empty.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Reports whether a charge was refused because a parent was exhausted, within the limit of this account:
    /// other accounts caused it.
    #[must_use]
    pub fn is_parent_exhausted(&self) -> bool {
        self.parent_exhausted.load(Ordering::Relaxed)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let (_, steps) = split(*self.state.get_mut());
        self.return_steps(steps);
    }
}

/// Bytes charged to an account, which it returns when it is dropped.
#[derive(Debug, Default)]
pub struct Charge {
    account: Option<Arc<Account>>,
    bytes: AtomicUsize,
}

impl Charge {
    /// Creates an empty charge to an account.
    #[must_use]
    pub fn on(account: &Arc<Account>) -> Self {
        Self { account: Some(account.clone()), bytes: AtomicUsize::new(0) }
    }

    /// Creates an empty charge to the account of another charge.
    #[must_use]
    pub(crate) fn sibling(other: &Self) -> Self {
        Self { account: other.account.clone(), bytes: AtomicUsize::new(0) }
    }

    /// Charges more bytes; reports whether they are available, as [`Account::charge`] does.
    #[must_use]
    pub fn grow(&self, bytes: usize) -> bool {
        let Some(account) = &self.account else { return true };
        let taken = account.charge(bytes);
        if taken {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// [`Charge::grow`] for a caller that can make room and try again: a refusal marks nothing.
    #[must_use]
    pub fn try_grow(&self, bytes: usize) -> bool {
        let Some(account) = &self.account else { return true };
        let taken = account.try_charge(bytes);
        if taken {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Gives back some of it.
    pub fn shrink(&self, bytes: usize) {
        let Some(account) = &self.account else { return };
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        account.release(bytes);
    }

    /// Returns the charged bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the account that is charged.
    #[must_use]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.release(*self.bytes.get_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_grants_up_to_its_limit_and_takes_bytes_back() {
        let account = Account::new(100);
        let charge = Charge::on(&account);
        assert!(charge.grow(60));
        assert!(!account.try_charge(41));
        assert!(!account.is_exhausted());
        assert!(!charge.grow(41));
        assert!(account.is_exhausted());
        assert!(charge.grow(40));
        charge.shrink(10);
        assert_eq!((charge.bytes(), account.used()), (90, 90));
        drop(charge);
        assert_eq!(account.used(), 0);
        assert!(account.is_exhausted(), "what seemed empty did so for good");
    }

    #[test]
    fn child_account_is_charged_to_its_parent() {
        let step = size(PARENT_STEP_BYTES);
        let parent = Account::new(3 * step);
        let (one, other) = (Account::child(&parent, usize::MAX), Account::child(&parent, step));
        assert!(one.charge(1));
        assert_eq!(parent.used(), step);
        assert!(one.charge(step), "into the second step");
        assert_eq!(parent.used(), 2 * step);
        assert!(!other.charge(step + 1), "its own limit");
        assert!(other.charge(step));
        assert_eq!(parent.used(), 3 * step);
        assert!(!one.charge(step), "nothing is left");
        // A child that is exhausted does not exhaust its parent, which continues to serve others.
        assert!(one.is_exhausted() && other.is_exhausted() && !parent.is_exhausted());
        assert!(one.is_parent_exhausted() && !other.is_parent_exhausted(), "who is to blame");
        one.release(step + 1);
        assert_eq!((one.used(), parent.used()), (0, 2 * step), "one step is kept");
        drop((one, other));
        assert_eq!(parent.used(), 0);
    }

    #[test]
    fn concurrent_charges_are_all_released() {
        let parent = Account::new(100 * size(PARENT_STEP_BYTES));
        let child = Account::child(&parent, usize::MAX);
        std::thread::scope(|scope| {
            for thread in 1..5_usize {
                let child = &child;
                scope.spawn(move || {
                    for round in 0..10_000 {
                        let charge = Charge::on(child);
                        let _ = charge.grow(thread * 1_000 + round % 7);
                        let _ = charge.grow(size(PARENT_STEP_BYTES) * (round % 3));
                    }
                });
            }
        });
        assert_eq!(child.used(), 0);
        drop(child);
        assert_eq!(parent.used(), 0);
    }
}
