//! The memory of the server that requests hold.
//!
//! ```text
//! --max-request-memory ◀── small requests
//!      (whole)      ◀── large (3/4) ◀── requests with large bodies, each its share
//!
//! a request's account ◀── body ◀── index and nodes of its documents ◀── the parts that policies read
//!                     ◀── memory of their instances ◀── response, until its client has received it
//! ```
//!
//! A request that does not fit gets a 503, and is never evaluated in part. Large bodies never use
//! the memory for small ones: a quarter is for these alone. While they arrive, large bodies get
//! half of their part, so that the other half is left for evaluations; [`super::body_limiter`]
//! decides which of them continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opgate_document::{Account, Charge};

/// Maximum size of a small body. Nearly all writes in a cluster are small.
const MAX_SMALL_BODY_BYTES: usize = 128 << 10;

/// Reserved with the head of a request, for it and for a response of one line.
const HEAD_BYTES: usize = 4 << 10;

/// This part is for small bodies alone.
const SMALL_BODY_DIVISOR: usize = 4;

/// The largest bodies need this many times their size for an evaluation: text, index, nodes.
const EVALUATION_FACTOR: usize = 3;

/// The interval at which free memory is returned, and the bytes of large bodies after which that
/// happens.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);
const TRIM_THRESHOLD_BYTES: usize = 8 << 20;

/// Memory for requests.
#[derive(Debug)]
pub(super) struct RequestMemory {
    total: Arc<Account>,
    large: Arc<Account>,
    /// Large bodies that are not complete; they count in `large` as well.
    arriving: Arc<Account>,
    share: usize,
    /// Bytes of large bodies since free memory was last returned.
    freed_since_trim: AtomicUsize,
}

/// Memory of a response until its client has received it.
#[derive(Debug, Clone)]
pub(super) struct ResponseCharge {
    _charge: Option<Arc<Charge>>,
}

/// There is not enough memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BudgetExceeded;

impl RequestMemory {
    /// Creates a budget of this many bytes, for bodies up to this size.
    pub(super) fn new(bytes: usize, body_limit: usize) -> Self {
        let bytes = bytes.max(body_limit);
        let whole = Account::new(bytes);
        let large = Account::child(&whole, bytes - bytes / SMALL_BODY_DIVISOR);
        let arriving = Account::new((large.limit() / 2).max(body_limit));
        let share = (bytes / 2).max(bytes.min(body_limit.saturating_mul(EVALUATION_FACTOR)));
        Self { total: whole, large, arriving, share, freed_since_trim: AtomicUsize::new(0) }
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.total.used()
    }

    /// All bytes.
    pub(super) fn limit(&self) -> usize {
        self.total.limit()
    }

    /// Reserves memory for a request, by the known size of its body.
    pub(super) fn reserve(&self, body: usize) -> Result<RequestCharge, BudgetExceeded> {
        let mut request = RequestCharge {
            charge: Charge::default(),
            arriving: Charge::default(),
            is_large: false,
            body: 0,
        };
        request.move_charge(self, body > MAX_SMALL_BODY_BYTES, 0)?;
        Ok(request)
    }

    /// Reserves memory for more of a body. A body that becomes large is large from then on. If
    /// there is not enough, nothing has changed, and the caller can free memory and try again.
    pub(super) fn grow(
        &self,
        request: &mut RequestCharge,
        bytes: usize,
    ) -> Result<(), BudgetExceeded> {
        let body = request.body.saturating_add(bytes);
        if body > MAX_SMALL_BODY_BYTES && !request.is_large {
            return request.move_charge(self, true, body);
        }
        if request.is_large && !request.arriving.try_grow(bytes) {
            return Err(BudgetExceeded);
        }
        if !request.charge.try_grow(bytes) {
            if request.is_large {
                request.arriving.shrink(bytes);
            }
            return Err(BudgetExceeded);
        }
        if request.is_large {
            self.freed_since_trim.fetch_add(bytes, Ordering::Relaxed);
        }
        request.body = body;
        Ok(())
    }

    /// Returns memory that large bodies have freed to the system while it is polled. Otherwise the
    /// allocator keeps it for further bodies.
    pub(super) async fn trim_periodically(&self) {
        loop {
            tokio::time::sleep(TRIM_INTERVAL).await;
            if self.freed_since_trim.load(Ordering::Relaxed) >= TRIM_THRESHOLD_BYTES {
                self.freed_since_trim.store(0, Ordering::Relaxed);
                // Not on a thread that serves requests, because it takes a while.
                let _ = tokio::task::spawn_blocking(opgate_system::release_free_memory).await;
            }
        }
    }
}

/// Memory of a request while its body arrives.
#[derive(Debug)]
pub(super) struct RequestCharge {
    charge: Charge,
    /// The charge while the body is large and not complete.
    arriving: Charge,
    is_large: bool,
    body: usize,
}

impl RequestCharge {
    /// Charges a body of this size to a separate account.
    fn move_charge(
        &mut self,
        memory: &RequestMemory,
        is_large: bool,
        body: usize,
    ) -> Result<(), BudgetExceeded> {
        let arriving = if is_large { Charge::on(&memory.arriving) } else { Charge::default() };
        if !arriving.try_grow(body) {
            return Err(BudgetExceeded);
        }
        let account = if is_large {
            Account::child(&memory.large, memory.share)
        } else {
            Account::child(&memory.total, memory.share)
        };
        let charge = Charge::on(&account);
        if !charge.try_grow(HEAD_BYTES.saturating_add(body)) {
            return Err(BudgetExceeded);
        }
        *self = Self { charge, arriving, is_large, body };
        Ok(())
    }

    /// Bytes that it holds.
    pub(super) fn charged_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Whether the received part of its body is large.
    pub(super) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Whether its body is large with this many bytes more.
    pub(super) fn will_be_large(&self, bytes: usize) -> bool {
        self.is_large || self.body.saturating_add(bytes) > MAX_SMALL_BODY_BYTES
    }

    /// The charge of the body, for its text, and its account.
    pub(super) fn into_parts(self) -> (Charge, Arc<Account>) {
        let account = self.charge.account().cloned();
        // There is always one. Without it, nothing would be left for this request.
        (self.charge, account.unwrap_or_else(|| Account::new(0)))
    }
}

impl ResponseCharge {
    /// Creates the charge from the memory that a decision reserved for its response.
    pub(super) fn for_charge(charge: Option<Arc<Charge>>) -> Self {
        Self { _charge: charge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_BYTES: usize = 1 << 20;

    /// Reads a body in pieces. At first only its announced length is known.
    fn read(
        memory: &RequestMemory,
        announced: usize,
        bytes: usize,
    ) -> Result<RequestCharge, BudgetExceeded> {
        let mut request = memory.reserve(announced)?;
        for _ in 0..bytes / (64 << 10) {
            memory.grow(&mut request, 64 << 10)?;
        }
        Ok(request)
    }

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let memory = RequestMemory::new(8 << 20, BODY_BYTES);
        for announced in [BODY_BYTES, 0] {
            let read_all =
                || read(&memory, announced, BODY_BYTES).ok().map(RequestCharge::into_parts);
            let mut large: Vec<_> = std::iter::from_fn(read_all).take(100).collect();
            assert_eq!(large.len(), 5, "6 of 8 MiB, and a head for each");
            let mut small: Vec<_> = std::iter::from_fn(|| {
                read(&memory, MAX_SMALL_BODY_BYTES, MAX_SMALL_BODY_BYTES).ok()
            })
            .take(100)
            .collect();
            assert!(small.len() > 6, "{}", small.len());
            assert!(memory.used() <= memory.limit());
            assert_eq!(read(&memory, BODY_BYTES, BODY_BYTES).err(), Some(BudgetExceeded));
            // Memory that one request returns is available to another.
            drop((large.pop(), small.pop()));
            assert!(read(&memory, announced, BODY_BYTES).is_ok());
            drop((large, small));
            assert!(memory.used() < 64 << 10, "but for what accounts keep at hand");
        }
    }

    #[test]
    fn unfinished_large_bodies_leave_half_of_their_part() {
        let memory = RequestMemory::new(8 << 20, BODY_BYTES);
        let mut arriving: Vec<_> =
            std::iter::from_fn(|| read(&memory, BODY_BYTES, BODY_BYTES).ok()).take(100).collect();
        assert_eq!(arriving.len(), 3, "of the 6 MiB for large bodies");
        // A complete body frees memory for the next one, and a rejection marks nothing.
        let mut refused = memory.reserve(BODY_BYTES).unwrap();
        assert_eq!(memory.grow(&mut refused, 64 << 10), Err(BudgetExceeded));
        let complete = arriving.pop().unwrap().into_parts();
        assert_eq!(memory.grow(&mut refused, 64 << 10), Ok(()));
        assert!(!refused.into_parts().1.is_exhausted());
        drop((arriving, complete));
    }

    #[test]
    fn one_request_has_its_share() {
        let memory = RequestMemory::new(64 << 20, 7 << 20);
        let (charge, account) = read(&memory, 7 << 20, 7 << 20).unwrap().into_parts();
        assert!(charge.grow(24 << 20));
        assert!(!charge.grow(1 << 20), "half of it, or three times the largest body");
        assert!(account.is_exhausted());
    }

    #[test]
    fn response_is_charged_until_it_is_sent() {
        let memory = RequestMemory::new(8 << 20, BODY_BYTES);
        let (charge, account) = memory.reserve(0).unwrap().into_parts();
        let room = Charge::on(&account);
        assert!(room.grow(100 << 10));
        let paid = ResponseCharge::for_charge(Some(Arc::new(room)));
        drop((charge, account));
        assert!(memory.used() >= 100 << 10);
        drop(paid.clone());
        assert!(memory.used() >= 100 << 10);
        drop(paid);
        assert_eq!(memory.used(), 0);
    }
}
