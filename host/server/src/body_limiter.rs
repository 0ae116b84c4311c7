//! Bodies that are still arriving: their memory, and the order in which they end when others need
//! it.
//!
//! ```text
//! begin(origin) ─▶ Arrival ─ push(bytes) ─▶ no memory ─▶ the slowest body of the largest origin ends (503)
//!                    │                                     └─ until there is memory, or no body is left
//!                    ├─ no bytes for a while ─▶ too slow (408)
//!                    └─ finish() ─▶ the bytes, and their memory
//! ```
//!
//! Memory is charged for bytes that have arrived. An unfinished body costs its sender nothing and
//! holds that memory, so its time is limited: a body without progress ends soon, and when memory
//! is needed the slowest body of the origin with the highest usage ends first. *Usage* is bytes ×
//! time, and bodies that have just begun come last: an API server that sends megabytes in
//! milliseconds loses none of them to a slow client, even if it sends many at a time, and even
//! behind the same address. A slow body completes as long as the memory is not needed.
//!
//! The bytes belong to the table, not to the task that reads them, so that their memory is free at
//! once when a body ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection_limiter::Origin;
use super::request_memory::{BudgetExceeded, RequestCharge, RequestMemory};

/// Minimum bytes per second of a body. An API server sends megabytes in milliseconds; a body of 7
/// MiB would not even arrive within its ten seconds at five times this rate.
const MIN_BYTES_PER_SECOND: u64 = 128 << 10;

/// Time for which a body may be slower, at its start or later: a lost packet is sent again within
/// it.
const SLOW_BODY_GRACE: Duration = Duration::from_secs(2);

/// Maximum number of unfinished bodies. API servers with their defaults have 600 requests in flight each.
const MAX_BODIES: usize = 4_096;

/// A body that is younger does not end while there is an older one. A busy server takes this long
/// to read a few large bodies at a time.
const MIN_EVICTION_AGE: Duration = Duration::from_millis(250);

/// The reason why a body ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// Less than [`MIN_BYTES_PER_SECOND`] for longer than [`SLOW_BODY_GRACE`].
    Slow,
    /// Others needed its memory.
    Evicted,
    /// There is no memory, and no other body to end.
    Full,
}

impl BodyError {
    /// The label value for metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Evicted => "evicted",
            Self::Full => "full",
        }
    }
}

/// The bodies that are arriving.
#[derive(Debug)]
pub(super) struct BodyLimiter {
    memory: Arc<RequestMemory>,
    table: Mutex<BodyTable>,
}

#[derive(Debug, Default)]
struct BodyTable {
    bodies: HashMap<u64, Arc<ArrivingBody>>,
    next: u64,
}

#[derive(Debug)]
struct ArrivingBody {
    origin: Origin,
    is_large: AtomicBool,
    started: Instant,
    received: AtomicUsize,
    /// None after the end of the body.
    content: Mutex<Option<BodyContent>>,
    evicted: Notify,
}

#[derive(Debug)]
struct BodyContent {
    bytes: Vec<u8>,
    memory: RequestCharge,
}

/// One arriving body. It leaves the table when this is dropped.
#[derive(Debug)]
pub(super) struct Arrival {
    limiter: Arc<BodyLimiter>,
    body: Arc<ArrivingBody>,
    id: u64,
    /// The time at which it is too slow, unless more arrives.
    slow_at: Instant,
}

impl ArrivingBody {
    /// Bytes × milliseconds.
    fn memory_time(&self, now: Instant) -> u128 {
        let received = self.received.load(Ordering::Relaxed).saturating_add(1);
        u128::try_from(received).unwrap_or(u128::MAX).saturating_mul(self.age(now).as_millis() + 1)
    }

    /// Bytes per second.
    fn rate(&self, now: Instant) -> u128 {
        let received = u128::try_from(self.received.load(Ordering::Relaxed)).unwrap_or(u128::MAX);
        received.saturating_mul(1_000_000) / self.age(now).as_micros().max(1)
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Ends it. Returns the freed bytes.
    fn evict(&self) -> usize {
        let content = self.content.lock().take();
        let freed = content.as_ref().map_or(0, |content| content.memory.charged_bytes());
        drop(content);
        self.evicted.notify_one();
        freed
    }
}

impl BodyTable {
    /// Ends bodies of one origin until `bytes` are free. Returns whether any body ended.
    fn evict_for(&mut self, bytes: usize, among_large: bool) -> bool {
        let now = Instant::now();
        let is_old = |body: &ArrivingBody| body.age(now) >= MIN_EVICTION_AGE;
        let is_right = |body: &ArrivingBody| !among_large || body.is_large.load(Ordering::Relaxed);
        let has_old = self.bodies.values().any(|body| is_right(body) && is_old(body));
        let is_candidate = |body: &ArrivingBody| is_right(body) && (is_old(body) || !has_old);
        let candidates = || self.bodies.iter().filter(|(_, body)| is_candidate(body));
        let mut weights: HashMap<Origin, u128> = HashMap::new();
        for (_, body) in candidates() {
            let weight = weights.entry(body.origin).or_default();
            *weight = weight.saturating_add(body.memory_time(now));
        }
        let heaviest = weights.into_iter().max_by_key(|(_, weight)| *weight);
        let Some((heaviest, _)) = heaviest else { return false };
        let of_it = candidates().filter(|(_, body)| body.origin == heaviest);
        let mut slowest: Vec<_> = of_it.map(|(id, body)| (body.rate(now), *id)).collect();
        slowest.sort_unstable();
        let mut freed = 0_usize;
        for (_, id) in slowest {
            freed = freed.saturating_add(self.bodies.remove(&id).map_or(0, |body| body.evict()));
            if freed >= bytes {
                break;
            }
        }
        true
    }
}

impl BodyLimiter {
    pub(super) fn new(memory: Arc<RequestMemory>) -> Arc<Self> {
        Arc::new(Self { memory, table: Mutex::default() })
    }

    /// Begins the body of a request, with this length if the client has announced it.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn begin(
        self: &Arc<Self>,
        origin: Origin,
        announced: usize,
    ) -> Result<Arrival, BodyError> {
        let memory = loop {
            match self.memory.reserve(announced) {
                Ok(memory) => break memory,
                Err(BudgetExceeded) if self.table.lock().evict_for(1, false) => {}
                Err(BudgetExceeded) => return Err(BodyError::Full),
            }
        };
        let is_large = AtomicBool::new(memory.is_large());
        let bytes = Vec::with_capacity(announced);
        let now = Instant::now();
        let body = Arc::new(ArrivingBody {
            origin,
            is_large,
            started: now,
            received: AtomicUsize::new(0),
            content: Mutex::new(Some(BodyContent { bytes, memory })),
            evicted: Notify::new(),
        });
        let mut table = self.table.lock();
        if table.bodies.len() >= MAX_BODIES {
            table.evict_for(1, false);
        }
        let id = table.next;
        table.next += 1;
        table.bodies.insert(id, body.clone());
        drop(table);
        Ok(Arrival { limiter: self.clone(), body, id, slow_at: now + SLOW_BODY_GRACE })
    }
}

impl Arrival {
    /// Ends when the body must end.
    pub(super) async fn wait_for_error(&self) -> BodyError {
        tokio::select! {
            () = self.body.evicted.notified() => BodyError::Evicted,
            () = tokio::time::sleep_until(self.slow_at) => BodyError::Slow,
        }
    }

    /// Bytes so far.
    pub(super) fn received(&self) -> usize {
        self.body.received.load(Ordering::Relaxed)
    }

    /// Adds bytes that have arrived.
    ///
    /// # Errors
    /// If the body ends here.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), BodyError> {
        loop {
            let is_large = {
                let mut content = self.body.content.lock();
                let Some(BodyContent { bytes, memory }) = content.as_mut() else {
                    return Err(BodyError::Evicted);
                };
                if self.limiter.memory.grow(memory, data.len()) == Ok(()) {
                    bytes.extend_from_slice(data);
                    self.body.received.store(bytes.len(), Ordering::Relaxed);
                    self.body.is_large.store(memory.is_large(), Ordering::Relaxed);
                    break;
                }
                memory.will_be_large(data.len())
            };
            if !self.limiter.table.lock().evict_for(data.len(), is_large) {
                return Err(BodyError::Full);
            }
        }
        let now = Instant::now();
        let worth = u64::try_from(data.len()).unwrap_or(u64::MAX).saturating_mul(1_000)
            / MIN_BYTES_PER_SECOND;
        self.slow_at =
            (self.slow_at.max(now) + Duration::from_millis(worth)).min(now + SLOW_BODY_GRACE);
        Ok(())
    }

    /// Completes the body.
    ///
    /// # Errors
    /// If it was ended before.
    pub(super) fn finish(self) -> Result<(Vec<u8>, RequestCharge), BodyError> {
        let content = self.body.content.lock().take();
        content.map(|BodyContent { bytes, memory }| (bytes, memory)).ok_or(BodyError::Evicted)
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let body = self.limiter.table.lock().bodies.remove(&self.id);
        // Its memory is returned without the lock.
        drop(body);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MIB: usize = 1 << 20;
    const LIMIT_BYTES: usize = 7 * MIB;

    fn limiter() -> Arc<BodyLimiter> {
        BodyLimiter::new(Arc::new(RequestMemory::new(128 * MIB, LIMIT_BYTES)))
    }

    fn pod_origin(number: u8) -> Origin {
        Origin::of([10, 0, 0, number].into())
    }

    /// Sends bytes in frames, at once.
    fn send(arrival: &mut Arrival, bytes: usize) -> Result<(), BodyError> {
        let frame = vec![b' '; 64 << 10];
        (0..bytes.div_ceil(frame.len())).try_for_each(|_| arrival.push(&frame))
    }

    /// A body that stops just before its end.
    fn unfinished_body(limiter: &Arc<BodyLimiter>, origin: Origin) -> Arrival {
        let mut arrival = limiter.begin(origin, LIMIT_BYTES).unwrap();
        // Another body of the same client may end it already.
        let _ = send(&mut arrival, LIMIT_BYTES - MIB);
        arrival
    }

    fn is_evicted(arrival: &Arrival) -> bool {
        arrival.body.content.lock().is_none()
    }

    async fn advance_time(milliseconds: u64) {
        tokio::time::advance(Duration::from_millis(milliseconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_bodies_give_way_to_others() {
        let api_server = pod_origin(1);
        for pods in [1, 40] {
            let limiter = limiter();
            let mut held = Vec::new();
            for number in 0..40_u8 {
                held.push(unfinished_body(&limiter, pod_origin(100 + number % pods)));
                advance_time(10).await;
            }
            advance_time(300).await;
            // Four at once, for a while.
            for _ in 0..20 {
                let mut few: Vec<_> =
                    (0..4).map(|_| limiter.begin(api_server, LIMIT_BYTES).unwrap()).collect();
                for _ in 0..7 {
                    for arrival in &mut few {
                        send(arrival, MIB).unwrap();
                    }
                    advance_time(1).await;
                }
                for arrival in few {
                    assert_eq!(arrival.finish().unwrap().0.len(), LIMIT_BYTES, "{pods}");
                }
            }
            let left = held.iter().filter(|arrival| !is_evicted(arrival)).count();
            assert!(left <= 6, "{left} of 40 are left, from {pods} addresses");
            assert!(
                held.iter()
                    .any(|arrival| arrival.wait_for_error().now_or_never()
                        == Some(BodyError::Evicted))
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_of_one_address_ends_first() {
        let limiter = limiter();
        let shared = pod_origin(1);
        let mut slow = limiter.begin(shared, LIMIT_BYTES).unwrap();
        for _ in 0..60 {
            send(&mut slow, 64 << 10).unwrap();
            advance_time(100).await;
        }
        let mut fast: Vec<_> =
            (0..8).map(|_| limiter.begin(shared, LIMIT_BYTES).unwrap()).collect();
        for arrival in &mut fast {
            send(arrival, 6 * MIB).unwrap();
            advance_time(2).await;
        }
        assert!(is_evicted(&slow));
        assert_eq!(slow.push(b" "), Err(BodyError::Evicted));
        assert!(!fast.iter().any(is_evicted));
        // The certificate of a client makes it a separate origin.
        assert_ne!(shared, Origin { client: Some(7), ..shared });
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_alone_completes_and_a_stalled_one_ends() {
        let limiter = limiter();
        let mut slow = limiter.begin(pod_origin(1), LIMIT_BYTES).unwrap();
        for _ in 0..LIMIT_BYTES / (64 << 10) {
            // 1 MiB a second.
            let waited =
                tokio::time::timeout(Duration::from_micros(62_500), slow.wait_for_error()).await;
            assert_eq!(waited.ok(), None);
            send(&mut slow, 64 << 10).unwrap();
        }
        assert_eq!(slow.finish().unwrap().0.len(), LIMIT_BYTES);
        let mut stalled = unfinished_body(&limiter, pod_origin(1));
        let began = Instant::now();
        let error = loop {
            tokio::select! {
                error = stalled.wait_for_error() => break error,
                // An occasional byte is no progress.
                () = tokio::time::sleep(Duration::from_millis(300)) => stalled.push(b" ").unwrap(),
            }
        };
        assert_eq!(error, BodyError::Slow);
        assert_eq!(began.elapsed().as_secs(), SLOW_BODY_GRACE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_unfinished_bodies_is_bounded() {
        let limiter = BodyLimiter::new(Arc::new(RequestMemory::new(128 * MIB, LIMIT_BYTES)));
        let begin = |number: u8| limiter.begin(pod_origin(number), 0).unwrap();
        let api_server = begin(1);
        let many: Vec<_> = (0..MAX_BODIES + 10).map(|_| begin(2)).collect();
        assert!(limiter.table.lock().bodies.len() <= MAX_BODIES);
        assert!(!is_evicted(&api_server));
        drop((many, api_server));
        assert!(limiter.table.lock().bodies.is_empty());
        assert!(limiter.memory.used() < 64 << 10);
    }
}
