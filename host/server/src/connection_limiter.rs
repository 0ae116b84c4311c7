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
const FIRST_TIME: Duration = Duration::from_secs(150);

/// Time for which a response can wait for its client before the connection ends.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Additional time for a connection that ends because of its age.
const LAST_TIME: Duration = Duration::from_secs(75);

/// Minimum number of concurrent handshakes for a port with few connections.
const MIN_HANDSHAKES: usize = 8;

/// The interval at which to search for connections to end.
const SWEEP: Duration = Duration::from_secs(1);

/// Maximum numbers of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// For all sources.
    pub(super) connections: usize,
    /// For one source.
    pub(super) share: usize,
    /// For connections in their handshake.
    pub(super) handshakes: usize,
    /// The age at which a connection ends after its current request.
    pub(super) lifetime: Duration,
}

impl Bounds {
    /// Half of the connections for a source. An API server has at most as many connections to a
    /// webhook as concurrent writes: 600 with its defaults. So three API servers behind one
    /// address are below their share of 4,096. A quarter is for handshakes: an API server can open
    /// all of its connections at once, when the server has restarted, and a handshake that ends is
    /// a failed write. Not more, so that handshakes of one source never use its share of
    /// connections.
    pub(super) fn of(connections: usize, lifetime: Duration) -> Self {
        let (share, handshakes) = ((connections / 2).max(1), (connections / 4).max(MIN_HANDSHAKES));
        Self { connections: connections.max(1), share, handshakes, lifetime }
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
    has_asked: AtomicBool,
    /// Requests whose head was read and whose response was not received yet.
    requests: AtomicU32,
    /// The time since which the connection is busy, or idle.
    since: AtomicU64,
    /// The times of the responses that were not received yet.
    answers: Mutex<Vec<u64>>,
    /// The connection must end when it can.
    retired: AtomicBool,
    retire: Notify,
    gone: AtomicBool,
    go: Notify,
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
            (false, false) if !self.has_asked.load(Ordering::Relaxed) => EvictionRank::Silent,
            (false, false) => EvictionRank::Idle,
            (false, true) => EvictionRank::VerifiedIdle,
            (true, false) => EvictionRank::Busy,
            (true, true) => EvictionRank::VerifiedBusy,
        }
    }

    fn evict(&self) {
        self.gone.store(true, Ordering::Release);
        self.go.notify_one();
    }

    /// The reason why the connection must end at this time.
    fn over(&self, now: u64, lifetime: Duration) -> Option<Expiry> {
        let older = |than: Duration, at: u64| Duration::from_millis(now.saturating_sub(at)) >= than;
        let oldest = self.answers.lock().iter().min().copied();
        if oldest.is_some_and(|answer| older(ANSWER_TIME, answer)) {
            return Some(Expiry::Now);
        }
        let is_silent =
            !self.has_asked.load(Ordering::Relaxed) && !self.in_handshake.load(Ordering::Relaxed);
        if is_silent && older(FIRST_TIME, self.since.load(Ordering::Relaxed)) {
            return Some(Expiry::Now);
        }
        if older(lifetime.saturating_add(LAST_TIME), self.opened) {
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
struct Count {
    open: usize,
    handshakes: usize,
}

#[derive(Debug, Default)]
struct Table {
    seats: HashMap<u64, Arc<ConnectionState>>,
    sources: HashMap<Source, Count>,
    next: u64,
    handshakes: usize,
}

impl Table {
    /// The first to end of the connections that `among` accepts.
    fn first(&self, among: impl Fn(&ConnectionState) -> bool) -> Option<u64> {
        let seats = self.seats.iter().filter(|(_, seat)| among(seat));
        let first =
            seats.min_by_key(|(id, seat)| (seat.rank(), seat.since.load(Ordering::Relaxed), **id));
        first.map(|(id, _)| *id)
    }

    fn remove(&mut self, id: u64) -> Option<Arc<ConnectionState>> {
        let seat = self.seats.remove(&id)?;
        self.handshake_done(&seat);
        if let Some(count) = self.sources.get_mut(&seat.source) {
            count.open -= 1;
            if count.open == 0 {
                self.sources.remove(&seat.source);
            }
        }
        Some(seat)
    }

    fn handshake_done(&mut self, seat: &ConnectionState) {
        if !seat.in_handshake.swap(false, Ordering::Relaxed) {
            return;
        }
        self.handshakes -= 1;
        if let Some(count) = self.sources.get_mut(&seat.source) {
            count.handshakes -= 1;
        }
    }
}

/// The connections of a port.
#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    bounds: Bounds,
    start: Instant,
    evicted: Counter,
    table: Mutex<Table>,
}

/// The slot of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    places: Arc<ConnectionLimiter>,
    seat: Arc<ConnectionState>,
    id: u64,
}

impl ConnectionLimiter {
    pub(super) fn new(bounds: Bounds, evicted: Counter) -> Arc<Self> {
        let table = Mutex::default();
        Arc::new(Self { bounds, start: Instant::now(), evicted, table })
    }

    fn milliseconds(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Acquires a slot for a connection from an address. If necessary, other connections end.
    pub(super) fn acquire(self: &Arc<Self>, address: IpAddr) -> ConnectionSlot {
        self.take_at(address, Instant::now())
    }

    fn take_at(self: &Arc<Self>, address: IpAddr, now: Instant) -> ConnectionSlot {
        let source = Source::of(address);
        let now = self.milliseconds(now);
        let Bounds { connections, share, handshakes, .. } = self.bounds;
        let mut table = self.table.lock();
        let own = table.sources.get(&source).map_or(0, |count| count.open);
        if own >= share {
            self.evict(&mut table, |seat| seat.source == source);
        } else if table.seats.len() >= connections {
            self.evict(&mut table, |_| true);
        }
        if table.handshakes >= handshakes {
            let counts = table.sources.iter();
            let most = counts.max_by_key(|(_, count)| count.handshakes).map(|(source, _)| *source);
            let is_one = |seat: &ConnectionState| {
                Some(seat.source) == most && seat.in_handshake.load(Ordering::Relaxed)
            };
            self.evict(&mut table, is_one);
        }
        let seat = Arc::new(ConnectionState {
            source,
            opened: now,
            in_handshake: AtomicBool::new(true),
            verified: AtomicBool::new(false),
            client: OnceLock::new(),
            has_asked: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            since: AtomicU64::new(now),
            answers: Mutex::default(),
            retired: AtomicBool::new(false),
            retire: Notify::new(),
            gone: AtomicBool::new(false),
            go: Notify::new(),
        });
        let id = table.next;
        table.next += 1;
        table.handshakes += 1;
        let count = table.sources.entry(source).or_default();
        count.open += 1;
        count.handshakes += 1;
        table.seats.insert(id, seat.clone());
        ConnectionSlot { places: self.clone(), seat, id }
    }

    /// Ends the first connection in this order. Returns whether there was one.
    pub(super) fn evict_one(&self) -> bool {
        self.evict(&mut self.table.lock(), |_| true)
    }

    fn evict(&self, table: &mut Table, among: impl Fn(&ConnectionState) -> bool) -> bool {
        let seat = table.first(among).and_then(|id| table.remove(id));
        if let Some(seat) = &seat {
            seat.evict();
            self.evicted.inc();
        }
        seat.is_some()
    }

    fn sweep_at(&self, now: Instant) {
        let now = self.milliseconds(now);
        let mut table = self.table.lock();
        let over = |seat: &ConnectionState| seat.over(now, self.bounds.lifetime);
        let found = table.seats.iter().filter_map(|(id, seat)| Some((*id, over(seat)?)));
        for (id, over) in found.collect::<Vec<_>>() {
            if over == Expiry::Now
                && let Some(seat) = table.remove(id)
            {
                seat.evict();
            } else if let Some(seat) = table.seats.get(&id)
                && !seat.retired.swap(true, Ordering::Relaxed)
            {
                seat.retire.notify_one();
            }
        }
    }
}

/// Ends connections in some tables whose time is over, while it is polled.
pub(super) async fn sweep(tables: [Arc<ConnectionLimiter>; 2]) {
    loop {
        tokio::time::sleep(SWEEP).await;
        for places in &tables {
            places.sweep_at(Instant::now());
        }
    }
}

impl ConnectionSlot {
    /// Records that the handshake has ended.
    pub(super) fn handshake_done(&self, verified: bool) {
        self.seat.verified.store(verified, Ordering::Relaxed);
        self.seat.since.store(self.places.milliseconds(Instant::now()), Ordering::Relaxed);
        self.places.table.lock().handshake_done(&self.seat);
    }

    /// Records the certificate of the client.
    pub(super) fn identify(&self, certificate: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write(certificate);
        let _ = self.seat.client.set(hasher.finish());
    }

    /// The source of the connection.
    pub(super) fn source(&self) -> Source {
        self.seat.source
    }

    /// Counts the requests of this connection.
    pub(super) fn requests(&self) -> Requests {
        Requests { places: self.places.clone(), seat: self.seat.clone() }
    }

    /// Ends when the connection must end.
    pub(super) async fn evicted(&self) {
        while !self.seat.gone.load(Ordering::Acquire) {
            self.seat.go.notified().await;
        }
    }

    /// Ends when the connection should end after its current request.
    pub(super) async fn retired(&self) {
        while !self.seat.retired.load(Ordering::Relaxed) {
            self.seat.retire.notified().await;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.table.lock().remove(self.id);
    }
}

/// Counts the requests of a connection.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    places: Arc<ConnectionLimiter>,
    seat: Arc<ConnectionState>,
}

/// A request in progress: from its head until its response was received.
#[derive(Debug)]
pub(super) struct RequestGuard {
    requests: Requests,
    /// The time of the response.
    answered: Option<u64>,
}

impl Requests {
    /// The origin of the requests.
    pub(super) fn origin(&self) -> Origin {
        Origin { source: self.seat.source, client: self.seat.client.get().copied() }
    }

    /// Records that the head of a request has arrived.
    pub(super) fn begin(&self) -> RequestGuard {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, now: Instant) -> RequestGuard {
        self.seat.has_asked.store(true, Ordering::Relaxed);
        if self.seat.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            self.seat.since.store(self.places.milliseconds(now), Ordering::Relaxed);
        }
        RequestGuard { requests: self.clone(), answered: None }
    }
}

impl RequestGuard {
    /// Records that the response is complete. Now the client must receive it.
    pub(super) fn answered(&mut self) {
        self.answered_at(Instant::now());
    }

    fn answered_at(&mut self, now: Instant) {
        let now = self.requests.places.milliseconds(now);
        self.requests.seat.answers.lock().push(now);
        self.answered = Some(now);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let seat = &self.requests.seat;
        if let Some(answered) = self.answered {
            let mut answers = seat.answers.lock();
            if let Some(at) = answers.iter().position(|answer| *answer == answered) {
                answers.swap_remove(at);
            }
        }
        if seat.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            let now = self.requests.places.milliseconds(Instant::now());
            seat.since.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { connections: 8, share: 4, handshakes: 3, lifetime: Duration::from_secs(600) };

    fn places(bounds: Bounds) -> Arc<ConnectionLimiter> {
        ConnectionLimiter::new(bounds, Counter::default())
    }

    /// An address of the source with a number.
    fn from(source: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, source])
    }

    fn is_gone(place: &ConnectionSlot) -> bool {
        place.evicted().now_or_never().is_some()
    }

    /// The slot of a client after its handshake.
    fn greeted(places: &Arc<ConnectionLimiter>, source: u8, verified: bool) -> ConnectionSlot {
        let place = places.acquire(from(source));
        place.handshake_done(verified);
        place
    }

    #[test]
    fn new_connection_evicts_the_least_important_one() {
        let places = places(Bounds { share: 8, ..BOUNDS });
        let quiet = |verified, source| {
            let place = greeted(&places, source, verified);
            drop(place.requests().begin());
            place
        };
        let verified_busy = greeted(&places, 1, true);
        let _request = verified_busy.requests().begin();
        let busy = greeted(&places, 2, false);
        let _other = busy.requests().begin();
        let verified_idle = greeted(&places, 3, true);
        let (idle, idle_later) = (quiet(false, 4), quiet(false, 5));
        let silent = greeted(&places, 6, false);
        let handshakes = [places.acquire(from(7)), places.acquire(from(8))];
        let order =
            [&silent, &handshakes[0], &handshakes[1], &idle, &idle_later, &verified_idle, &busy];
        let mut newcomers = Vec::new();
        for (index, goes) in order.iter().enumerate() {
            assert!(!is_gone(goes), "{index}");
            // A slot of a verified and busy client, so that it does not end before the others.
            let newcomer = greeted(&places, 9, true);
            std::mem::forget(newcomer.requests().begin());
            newcomers.push(newcomer);
            assert!(is_gone(goes), "{index}");
        }
        assert!(!is_gone(&verified_busy) && newcomers.iter().all(|newcomer| !is_gone(newcomer)));
        assert_eq!(places.table.lock().seats.len(), BOUNDS.connections);
        assert_eq!(places.evicted.get(), 7);
    }

    /// An API server with its defaults, after a restart of the server.
    #[test]
    fn burst_of_handshakes_of_an_api_server_fits() {
        let places = places(Bounds::of(4_096, Duration::MAX));
        let unused = greeted(&places, 1, false);
        let burst: Vec<_> = (0..600).map(|_| places.acquire(from(1))).collect();
        assert!(!burst.iter().any(is_gone));
        let flood: Vec<_> = (0..4_096).map(|_| places.acquire(from(1))).collect();
        assert!(!is_gone(&unused) && is_gone(&flood[0]), "handshakes end handshakes");
    }

    #[test]
    fn a_source_has_no_more_than_its_share() {
        let places = places(BOUNDS);
        let other = greeted(&places, 1, false);
        let own: Vec<_> = (0..6).map(|_| greeted(&places, 2, false)).collect();
        assert!(!is_gone(&other), "there is room for the others");
        assert_eq!(
            own.iter().map(is_gone).collect::<Vec<_>>(),
            [true, true, false, false, false, false]
        );
        // An IPv6 network is one source, and a mapped IPv4 address is that IPv4 address.
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("fd00::1:2:3:4"), source("fd00::5:6:7:8"));
        assert_ne!(source("fd00:0:0:1::1"), source("fd00::1"));
        assert_eq!(source("::ffff:10.0.0.2"), Source(from(2)));
    }

    #[test]
    fn source_with_most_handshakes_is_evicted_first() {
        let places = places(BOUNDS);
        let flood = [places.acquire(from(1)), places.acquire(from(1))];
        let mut others = vec![places.acquire(from(2))];
        others.push(places.acquire(from(3)));
        assert_eq!(flood.iter().map(is_gone).collect::<Vec<_>>(), [true, false]);
        assert!(others.iter().all(|other| !is_gone(other)));
        others[0].handshake_done(false);
        others.push(places.acquire(from(4)));
        assert!(!is_gone(&flood[1]), "one handshake has ended");
        drop((flood, others));
        let table = places.table.lock();
        assert!(table.seats.is_empty() && table.sources.is_empty() && table.handshakes == 0);
    }

    #[test]
    fn overdue_connections_are_evicted() {
        let places = places(BOUNDS);
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let handshake = places.take_at(from(1), at(0));
        let silent = greeted(&places, 1, true);
        let idle = greeted(&places, 2, false);
        drop(idle.requests().begin_at(at(1)));
        let slow = greeted(&places, 2, false);
        let mut taken = slow.requests().begin_at(at(1));
        taken.answered_at(at(2));
        let mut left = slow.requests().begin_at(at(3));
        left.answered_at(at(5));
        drop(taken);
        places.sweep_at(at(14));
        assert!(!is_gone(&slow) && !is_gone(&idle));
        places.sweep_at(at(16));
        assert!(is_gone(&slow) && !is_gone(&idle));
        places.sweep_at(at(95));
        assert!(!is_gone(&silent), "a client may keep a connection for later");
        places.sweep_at(at(152));
        assert!(is_gone(&silent) && !is_gone(&handshake), "a handshake has its own time-out");
        places.sweep_at(at(599));
        assert!(idle.retired().now_or_never().is_none());
        places.sweep_at(at(601));
        assert!(idle.retired().now_or_never().is_some() && !is_gone(&idle));
        places.sweep_at(at(676));
        assert!(is_gone(&idle));
    }
}
