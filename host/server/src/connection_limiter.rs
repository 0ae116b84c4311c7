//! The open connections of a port, and the order in which they end if there are too many.
//!
//! ```text
//! take(address) ─▶ full, or more than the source's share? ─▶ another connection ends ─▶ ConnectionSlot
//! sweep()       ─▶ no request in time, a response without progress, an old age  ─▶ ends
//! ```
//!
//! No new connection is rejected, because the new one can be an API server and the existing ones
//! can be any clients. The order of ending is: connections without a request so far, then idle
//! ones, then those with a request. Among them, those without a certificate come first, and then
//! the one that has been in this state for the longest time. A source has at most its share:
//! beyond it, one of its connections ends.
//!
//! The state of a connection is in separate atomics. The table is locked when a connection opens,
//! ends its handshake or closes, not for requests.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

/// A client sends a request within this time after its handshake, or the connection ends. An API
/// server that has many writes at once opens a connection for each, and uses another one if that
/// is free first. It keeps the new one unused for up to 90 s, and a write that is sent on it while
/// it ends fails: Go repeats no write on a connection that was not used before. If there are too
/// many connections, those without a request end first, whatever their time.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(150);

/// Time for which a response can wait for its client before the connection ends.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Additional time for a connection that ends because of its age.
const RETIREMENT_GRACE: Duration = Duration::from_secs(75);

/// Minimum number of concurrent handshakes for a port with few connections.
const MIN_HANDSHAKES: usize = 8;

/// The interval at which to search for connections to end.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum numbers of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionBounds {
    /// For all sources.
    pub(super) max_connections: usize,
    /// For one source.
    pub(super) max_per_source: usize,
    /// For connections in their handshake.
    pub(super) max_handshakes: usize,
    /// The age at which a connection ends after its current request.
    pub(super) max_age: Duration,
}

impl ConnectionBounds {
    /// Half of the connections for a source. An API server has at most as many connections to a
    /// webhook as concurrent writes: 600 with its defaults. So three API servers behind one
    /// address are below their share of 4,096. A quarter is for handshakes: an API server can open
    /// all of its connections at once, when the server has restarted, and a handshake that ends is
    /// a failed write. Not more, so that handshakes of one source never use its share of
    /// connections.
    pub(super) fn of(connections: usize, lifetime: Duration) -> Self {
        let (share, handshakes) = ((connections / 2).max(1), (connections / 4).max(MIN_HANDSHAKES));
        Self {
            max_connections: connections.max(1),
            max_per_source: share,
            max_handshakes: handshakes,
            max_age: lifetime,
        }
    }
}

/// One address or, for IPv6, a network of 64 bits, because the owner of one address has all of
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Source(IpAddr);

impl Source {
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// The origin of a request. Certificates distinguish API servers that show one, also behind one
/// address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) source: Source,
    /// A digest of the client's certificate.
    pub(super) client: Option<u64>,
}

impl Origin {
    /// A client without a certificate.
    pub(super) fn of(address: IpAddr) -> Self {
        Self { source: Source::of(address), client: None }
    }
}

/// The state of a connection. Times are milliseconds since the start of the table.
#[derive(Debug)]
struct ConnectionState {
    source: Source,
    opened: u64,
    in_handshake: AtomicBool,
    /// Its client showed a certificate.
    verified: AtomicBool,
    /// A digest of that certificate.
    client: OnceLock<u64>,
    has_requested: AtomicBool,
    /// Requests whose head was read and whose response was not received yet.
    requests: AtomicU32,
    /// The time since which the connection is busy, or idle.
    state_since: AtomicU64,
    /// The times of the responses that were not received yet.
    pending_responses: Mutex<Vec<u64>>,
    /// The connection must end when it can.
    is_retired: AtomicBool,
    retire_notify: Notify,
    is_evicted: AtomicBool,
    evict_notify: Notify,
}

/// The order in which connections end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionRank {
    /// No request so far, and an unknown client.
    Silent,
    Idle,
    VerifiedIdle,
    Busy,
    VerifiedBusy,
}

impl ConnectionState {
    fn rank(&self) -> EvictionRank {
        let is_busy = self.requests.load(Ordering::Relaxed) > 0;
        match (is_busy, self.verified.load(Ordering::Relaxed)) {
            (false, false) if !self.has_requested.load(Ordering::Relaxed) => EvictionRank::Silent,
            (false, false) => EvictionRank::Idle,
            (false, true) => EvictionRank::VerifiedIdle,
            (true, false) => EvictionRank::Busy,
            (true, true) => EvictionRank::VerifiedBusy,
        }
    }

    fn evict(&self) {
        self.is_evicted.store(true, Ordering::Release);
        self.evict_notify.notify_one();
    }

    /// The reason why the connection must end at this time.
    fn expiry(&self, now: u64, lifetime: Duration) -> Option<Expiry> {
        let older = |than: Duration, at: u64| Duration::from_millis(now.saturating_sub(at)) >= than;
        let oldest = self.pending_responses.lock().iter().min().copied();
        if oldest.is_some_and(|answer| older(RESPONSE_TIMEOUT, answer)) {
            return Some(Expiry::Now);
        }
        let is_silent = !self.has_requested.load(Ordering::Relaxed)
            && !self.in_handshake.load(Ordering::Relaxed);
        if is_silent && older(FIRST_REQUEST_TIMEOUT, self.state_since.load(Ordering::Relaxed)) {
            return Some(Expiry::Now);
        }
        if older(lifetime.saturating_add(RETIREMENT_GRACE), self.opened) {
            return Some(Expiry::Now);
        }
        older(lifetime, self.opened).then_some(Expiry::Soon)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Now,
    /// After the current request.
    Soon,
}

#[derive(Debug, Default)]
struct SourceCounts {
    open: usize,
    handshakes: usize,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    connections: HashMap<u64, Arc<ConnectionState>>,
    sources: HashMap<Source, SourceCounts>,
    next: u64,
    handshakes: usize,
}

impl ConnectionTable {
    /// The first to end of the connections that `among` accepts.
    fn first_to_evict(&self, among: impl Fn(&ConnectionState) -> bool) -> Option<u64> {
        let seats = self.connections.iter().filter(|(_, state)| among(state));
        let first = seats.min_by_key(|(id, state)| {
            (state.rank(), state.state_since.load(Ordering::Relaxed), **id)
        });
        first.map(|(id, _)| *id)
    }

    fn remove(&mut self, id: u64) -> Option<Arc<ConnectionState>> {
        let state = self.connections.remove(&id)?;
        self.handshake_done(&state);
        if let Some(count) = self.sources.get_mut(&state.source) {
            count.open -= 1;
            if count.open == 0 {
                self.sources.remove(&state.source);
            }
        }
        Some(state)
    }

    fn handshake_done(&mut self, state: &ConnectionState) {
        if !state.in_handshake.swap(false, Ordering::Relaxed) {
            return;
        }
        self.handshakes -= 1;
        if let Some(count) = self.sources.get_mut(&state.source) {
            count.handshakes -= 1;
        }
    }
}

/// The connections of a port.
#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    bounds: ConnectionBounds,
    start: Instant,
    evicted: Counter,
    table: Mutex<ConnectionTable>,
}

/// The slot of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    limiter: Arc<ConnectionLimiter>,
    state: Arc<ConnectionState>,
    id: u64,
}

impl ConnectionLimiter {
    pub(super) fn new(bounds: ConnectionBounds, evicted: Counter) -> Arc<Self> {
        let table = Mutex::default();
        Arc::new(Self { bounds, start: Instant::now(), evicted, table })
    }

    fn milliseconds(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Acquires a slot for a connection from an address. If necessary, other connections end.
    pub(super) fn acquire(self: &Arc<Self>, address: IpAddr) -> ConnectionSlot {
        self.acquire_at(address, Instant::now())
    }

    fn acquire_at(self: &Arc<Self>, address: IpAddr, now: Instant) -> ConnectionSlot {
        let source = Source::of(address);
        let now = self.milliseconds(now);
        let ConnectionBounds {
            max_connections: connections,
            max_per_source: share,
            max_handshakes: handshakes,
            ..
        } = self.bounds;
        let mut table = self.table.lock();
        let own = table.sources.get(&source).map_or(0, |count| count.open);
        if own >= share {
            self.evict(&mut table, |state| state.source == source);
        } else if table.connections.len() >= connections {
            self.evict(&mut table, |_| true);
        }
        if table.handshakes >= handshakes {
            let counts = table.sources.iter();
            let busiest =
                counts.max_by_key(|(_, count)| count.handshakes).map(|(source, _)| *source);
            let is_one = |state: &ConnectionState| {
                Some(state.source) == busiest && state.in_handshake.load(Ordering::Relaxed)
            };
            self.evict(&mut table, is_one);
        }
        let state = Arc::new(ConnectionState {
            source,
            opened: now,
            in_handshake: AtomicBool::new(true),
            verified: AtomicBool::new(false),
            client: OnceLock::new(),
            has_requested: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            state_since: AtomicU64::new(now),
            pending_responses: Mutex::default(),
            is_retired: AtomicBool::new(false),
            retire_notify: Notify::new(),
            is_evicted: AtomicBool::new(false),
            evict_notify: Notify::new(),
        });
        let id = table.next;
        table.next += 1;
        table.handshakes += 1;
        let count = table.sources.entry(source).or_default();
        count.open += 1;
        count.handshakes += 1;
        table.connections.insert(id, state.clone());
        ConnectionSlot { limiter: self.clone(), state, id }
    }

    /// Ends the first connection in this order. Returns whether there was one.
    pub(super) fn evict_one(&self) -> bool {
        self.evict(&mut self.table.lock(), |_| true)
    }

    fn evict(&self, table: &mut ConnectionTable, among: impl Fn(&ConnectionState) -> bool) -> bool {
        let state = table.first_to_evict(among).and_then(|id| table.remove(id));
        if let Some(state) = &state {
            state.evict();
            self.evicted.inc();
        }
        state.is_some()
    }

    fn sweep_at(&self, now: Instant) {
        let now = self.milliseconds(now);
        let mut table = self.table.lock();
        let over = |state: &ConnectionState| state.expiry(now, self.bounds.max_age);
        let found = table.connections.iter().filter_map(|(id, state)| Some((*id, over(state)?)));
        for (id, over) in found.collect::<Vec<_>>() {
            if over == Expiry::Now
                && let Some(state) = table.remove(id)
            {
                state.evict();
            } else if let Some(state) = table.connections.get(&id)
                && !state.is_retired.swap(true, Ordering::Relaxed)
            {
                state.retire_notify.notify_one();
            }
        }
    }
}

/// Ends connections in some tables whose time is over, while it is polled.
pub(super) async fn sweep_periodically(tables: [Arc<ConnectionLimiter>; 2]) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        for limiter in &tables {
            limiter.sweep_at(Instant::now());
        }
    }
}

impl ConnectionSlot {
    /// Records that the handshake has ended.
    pub(super) fn handshake_done(&self, verified: bool) {
        self.state.verified.store(verified, Ordering::Relaxed);
        self.state.state_since.store(self.limiter.milliseconds(Instant::now()), Ordering::Relaxed);
        self.limiter.table.lock().handshake_done(&self.state);
    }

    /// Records the certificate of the client.
    pub(super) fn identify(&self, certificate: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write(certificate);
        let _ = self.state.client.set(hasher.finish());
    }

    /// The source of the connection.
    pub(super) fn source(&self) -> Source {
        self.state.source
    }

    /// Counts the requests of this connection.
    pub(super) fn requests(&self) -> RequestTracker {
        RequestTracker { limiter: self.limiter.clone(), state: self.state.clone() }
    }

    /// Ends when the connection must end.
    pub(super) async fn wait_for_eviction(&self) {
        while !self.state.is_evicted.load(Ordering::Acquire) {
            self.state.evict_notify.notified().await;
        }
    }

    /// Ends when the connection should end after its current request.
    pub(super) async fn wait_for_retirement(&self) {
        while !self.state.is_retired.load(Ordering::Relaxed) {
            self.state.retire_notify.notified().await;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limiter.table.lock().remove(self.id);
    }
}

/// Counts the requests of a connection.
#[derive(Debug, Clone)]
pub(super) struct RequestTracker {
    limiter: Arc<ConnectionLimiter>,
    state: Arc<ConnectionState>,
}

/// A request in progress: from its head until its response was received.
#[derive(Debug)]
pub(super) struct RequestGuard {
    requests: RequestTracker,
    /// The time of the response.
    responded_at: Option<u64>,
}

impl RequestTracker {
    /// The origin of the requests.
    pub(super) fn origin(&self) -> Origin {
        Origin { source: self.state.source, client: self.state.client.get().copied() }
    }

    /// Records that the head of a request has arrived.
    pub(super) fn begin(&self) -> RequestGuard {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, now: Instant) -> RequestGuard {
        self.state.has_requested.store(true, Ordering::Relaxed);
        if self.state.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            self.state.state_since.store(self.limiter.milliseconds(now), Ordering::Relaxed);
        }
        RequestGuard { requests: self.clone(), responded_at: None }
    }
}

impl RequestGuard {
    /// Records that the response is complete. Now the client must receive it.
    pub(super) fn mark_responded(&mut self) {
        self.mark_responded_at(Instant::now());
    }

    fn mark_responded_at(&mut self, now: Instant) {
        let now = self.requests.limiter.milliseconds(now);
        self.requests.state.pending_responses.lock().push(now);
        self.responded_at = Some(now);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let state = &self.requests.state;
        if let Some(answered) = self.responded_at {
            let mut answers = state.pending_responses.lock();
            if let Some(at) = answers.iter().position(|answer| *answer == answered) {
                answers.swap_remove(at);
            }
        }
        if state.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            let now = self.requests.limiter.milliseconds(Instant::now());
            state.state_since.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const BOUNDS: ConnectionBounds = ConnectionBounds {
        max_connections: 8,
        max_per_source: 4,
        max_handshakes: 3,
        max_age: Duration::from_secs(600),
    };

    fn limiter(bounds: ConnectionBounds) -> Arc<ConnectionLimiter> {
        ConnectionLimiter::new(bounds, Counter::default())
    }

    /// An address of the source with a number.
    fn address_of(source: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, source])
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.wait_for_eviction().now_or_never().is_some()
    }

    /// The slot of a client after its handshake.
    fn acquire_and_handshake(
        limiter: &Arc<ConnectionLimiter>,
        source: u8,
        verified: bool,
    ) -> ConnectionSlot {
        let slot = limiter.acquire(address_of(source));
        slot.handshake_done(verified);
        slot
    }

    #[test]
    fn new_connection_evicts_the_least_important_one() {
        let limiter = limiter(ConnectionBounds { max_per_source: 8, ..BOUNDS });
        let quiet = |verified, source| {
            let slot = acquire_and_handshake(&limiter, source, verified);
            drop(slot.requests().begin());
            slot
        };
        let verified_busy = acquire_and_handshake(&limiter, 1, true);
        let _request = verified_busy.requests().begin();
        let busy = acquire_and_handshake(&limiter, 2, false);
        let _other = busy.requests().begin();
        let verified_idle = acquire_and_handshake(&limiter, 3, true);
        let (idle, idle_later) = (quiet(false, 4), quiet(false, 5));
        let silent = acquire_and_handshake(&limiter, 6, false);
        let handshakes = [limiter.acquire(address_of(7)), limiter.acquire(address_of(8))];
        let order =
            [&silent, &handshakes[0], &handshakes[1], &idle, &idle_later, &verified_idle, &busy];
        let mut newcomers = Vec::new();
        for (index, goes) in order.iter().enumerate() {
            assert!(!is_evicted(goes), "{index}");
            // A slot of a verified and busy client, so that it does not end before the others.
            let newcomer = acquire_and_handshake(&limiter, 9, true);
            std::mem::forget(newcomer.requests().begin());
            newcomers.push(newcomer);
            assert!(is_evicted(goes), "{index}");
        }
        assert!(
            !is_evicted(&verified_busy) && newcomers.iter().all(|newcomer| !is_evicted(newcomer))
        );
        assert_eq!(limiter.table.lock().connections.len(), BOUNDS.max_connections);
        assert_eq!(limiter.evicted.get(), 7);
    }

    /// An API server with its defaults, after a restart of the server.
    #[test]
    fn burst_of_handshakes_of_an_api_server_fits() {
        let limiter = limiter(ConnectionBounds::of(4_096, Duration::MAX));
        let unused = acquire_and_handshake(&limiter, 1, false);
        let burst: Vec<_> = (0..600).map(|_| limiter.acquire(address_of(1))).collect();
        assert!(!burst.iter().any(is_evicted));
        let flood: Vec<_> = (0..4_096).map(|_| limiter.acquire(address_of(1))).collect();
        assert!(!is_evicted(&unused) && is_evicted(&flood[0]), "handshakes end handshakes");
    }

    #[test]
    fn connections_of_a_source_are_limited_to_its_share() {
        let limiter = limiter(BOUNDS);
        let other = acquire_and_handshake(&limiter, 1, false);
        let own: Vec<_> = (0..6).map(|_| acquire_and_handshake(&limiter, 2, false)).collect();
        assert!(!is_evicted(&other), "there is room for the others");
        assert_eq!(
            own.iter().map(is_evicted).collect::<Vec<_>>(),
            [true, true, false, false, false, false]
        );
        // An IPv6 network is one source, and a mapped IPv4 address is that IPv4 address.
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("fd00::1:2:3:4"), source("fd00::5:6:7:8"));
        assert_ne!(source("fd00:0:0:1::1"), source("fd00::1"));
        assert_eq!(source("::ffff:10.0.0.2"), Source(address_of(2)));
    }

    #[test]
    fn source_with_most_handshakes_is_evicted_first() {
        let limiter = limiter(BOUNDS);
        let flood = [limiter.acquire(address_of(1)), limiter.acquire(address_of(1))];
        let mut others = vec![limiter.acquire(address_of(2))];
        others.push(limiter.acquire(address_of(3)));
        assert_eq!(flood.iter().map(is_evicted).collect::<Vec<_>>(), [true, false]);
        assert!(others.iter().all(|other| !is_evicted(other)));
        others[0].handshake_done(false);
        others.push(limiter.acquire(address_of(4)));
        assert!(!is_evicted(&flood[1]), "one handshake has ended");
        drop((flood, others));
        let table = limiter.table.lock();
        assert!(table.connections.is_empty() && table.sources.is_empty() && table.handshakes == 0);
    }

    #[test]
    fn overdue_connections_are_evicted() {
        let limiter = limiter(BOUNDS);
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let handshake = limiter.acquire_at(address_of(1), at(0));
        let silent = acquire_and_handshake(&limiter, 1, true);
        let idle = acquire_and_handshake(&limiter, 2, false);
        drop(idle.requests().begin_at(at(1)));
        let slow = acquire_and_handshake(&limiter, 2, false);
        let mut taken = slow.requests().begin_at(at(1));
        taken.mark_responded_at(at(2));
        let mut left = slow.requests().begin_at(at(3));
        left.mark_responded_at(at(5));
        drop(taken);
        limiter.sweep_at(at(14));
        assert!(!is_evicted(&slow) && !is_evicted(&idle));
        limiter.sweep_at(at(16));
        assert!(is_evicted(&slow) && !is_evicted(&idle));
        limiter.sweep_at(at(95));
        assert!(!is_evicted(&silent), "a client may keep a connection for later");
        limiter.sweep_at(at(152));
        assert!(is_evicted(&silent) && !is_evicted(&handshake), "a handshake has its own time-out");
        limiter.sweep_at(at(599));
        assert!(idle.wait_for_retirement().now_or_never().is_none());
        limiter.sweep_at(at(601));
        assert!(idle.wait_for_retirement().now_or_never().is_some() && !is_evicted(&idle));
        limiter.sweep_at(at(676));
        assert!(is_evicted(&idle));
    }
}
