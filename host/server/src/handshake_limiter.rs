//! Limits the CPU time of handshakes.
//!
//! ```text
//! hello read ─▶ turn() ─▶ HandshakePermit::run ─▶ connection
//!                │           └─ its CPU time, charged to the queue and to the source
//!                └─ one at a time; without debt; the source with the lowest recent CPU time first
//! ```
//!
//! A handshake takes half a millisecond of CPU time, for a client that sends a few hundred bytes.
//! So the handshakes of unknown clients get a share of the CPU, and the rest waits until its
//! timeout. Sources of which a client has shown a valid certificate have a separate queue: they do
//! not wait for unknown clients.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bucket::TokenBucket;
use super::connection_limiter::Source;
use opgate_engine::thread_cpu_time;

/// The part of all CPUs that a queue may use, and the time for which it may use more.
const CPU_DIVISOR: u32 = 4;
const BURST_CPU_TIME: Duration = Duration::from_millis(250);

/// After this time, half of the CPU time of a source counts. Up to this amount there is no
/// difference: an API server that opens dozens of connections does not wait for a client with a
/// new address each time.
const CPU_HALF_LIFE: Duration = Duration::from_secs(10);
const FREE_CPU_TIME: Duration = Duration::from_millis(20);

/// Maximum number of sources whose CPU time is known, and of sources with a certificate.
const MAX_SOURCES: usize = 1_024;
const MAX_VERIFIED_SOURCES: usize = 256;

/// The handshakes of a port.
#[derive(Debug)]
pub(super) struct HandshakeLimiter {
    unverified: Arc<HandshakeQueue>,
    verified: Arc<HandshakeQueue>,
    /// Sources whose clients have shown a certificate, and the last time.
    verified_sources: Mutex<HashMap<Source, Instant>>,
}

/// A queue of handshakes that share a part of the CPU.
#[derive(Debug)]
struct HandshakeQueue {
    /// In nanoseconds of CPU time.
    bucket: TokenBucket,
    state: Mutex<QueueState>,
}

/// The waiting handshakes, and the CPU time of their sources.
#[derive(Debug, Default)]
struct QueueState {
    /// A handshake has the lead: it runs, or waits until the debt is paid.
    has_runner: bool,
    waiting: Vec<Waiter>,
    next_number: u64,
    cpu_times: HashMap<Source, Duration>,
    halved_at: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    source: Source,
    token: oneshot::Sender<RunToken>,
}

/// The right to be next. Dropping it passes it on.
#[derive(Debug)]
struct RunToken(Option<Arc<HandshakeQueue>>);

/// The permit to run a handshake.
#[derive(Debug)]
pub(super) struct HandshakePermit {
    queue: Arc<HandshakeQueue>,
    source: Source,
    token: RunToken,
}

impl HandshakeLimiter {
    /// Creates the queues for a machine with this many CPUs.
    pub(super) fn new(cpus: u32) -> Self {
        let queue = || {
            let part = Duration::from_secs(1) * cpus.max(1) / CPU_DIVISOR;
            let bucket = TokenBucket::new(nanoseconds(BURST_CPU_TIME), nanoseconds(part));
            Arc::new(HandshakeQueue { bucket, state: Mutex::default() })
        };
        Self { unverified: queue(), verified: queue(), verified_sources: Mutex::default() }
    }

    /// Records that a client from this source has shown a valid certificate.
    pub(super) fn mark_verified(&self, source: Source) {
        let mut sources = self.verified_sources.lock();
        if sources.len() >= MAX_VERIFIED_SOURCES && !sources.contains_key(&source) {
            let oldest = sources.iter().min_by_key(|(_, last)| **last).map(|(source, _)| *source);
            oldest.and_then(|oldest| sources.remove(&oldest));
        }
        sources.insert(source, Instant::now());
    }

    /// Waits for the permit of a handshake with a client from this source.
    pub(super) async fn acquire(&self, source: Source) -> HandshakePermit {
        let is_known = self.verified_sources.lock().contains_key(&source);
        let queue = if is_known { &self.verified } else { &self.unverified };
        queue.acquire(source).await
    }
}

impl HandshakeQueue {
    async fn acquire(self: &Arc<Self>, source: Source) -> HandshakePermit {
        let number = {
            let mut line = self.state.lock();
            line.next_number += 1;
            line.next_number
        };
        let mut token = self.acquire_token(number, source).await;
        loop {
            let wait = self.bucket.wait(Instant::now().into_std());
            if wait.is_zero() {
                return HandshakePermit { queue: self.clone(), source, token };
            }
            tokio::time::sleep(wait).await;
            // A handshake that arrived during the wait can be before this one.
            let next = self.enqueue(number, source);
            drop(token);
            token = match next.await {
                Ok(token) => token,
                Err(_) => self.acquire_token(number, source).await,
            };
        }
    }

    /// Returns the lead, at once if no handshake has it.
    async fn acquire_token(self: &Arc<Self>, number: u64, source: Source) -> RunToken {
        loop {
            let next = {
                let mut line = self.state.lock();
                if !line.has_runner {
                    line.has_runner = true;
                    return RunToken(Some(self.clone()));
                }
                line.enqueue(number, source)
            };
            if let Ok(token) = next.await {
                return token;
            }
        }
    }

    fn enqueue(&self, number: u64, source: Source) -> oneshot::Receiver<RunToken> {
        self.state.lock().enqueue(number, source)
    }

    /// Gives the lead to the next handshake.
    fn pass_on_token(self: Arc<Self>) {
        let mut token = RunToken(Some(self.clone()));
        loop {
            let next = self.state.lock().next_waiter();
            let Some(next) = next else {
                // No handshake is left: `has_runner` is off.
                token.0 = None;
                return;
            };
            match next.token.send(token) {
                Ok(()) => return,
                // The client is gone.
                Err(back) => token = back,
            }
        }
    }

    fn charge(&self, source: Source, time: Duration) {
        let now = Instant::now();
        self.bucket.spend(nanoseconds(time), now.into_std());
        self.state.lock().charge(source, time, now);
    }
}

impl QueueState {
    fn enqueue(&mut self, number: u64, source: Source) -> oneshot::Receiver<RunToken> {
        if self.waiting.len() >= MAX_SOURCES {
            self.waiting.retain(|waiter| !waiter.token.is_closed());
        }
        let (token, next) = oneshot::channel();
        self.waiting.push(Waiter { number, source, token });
        next
    }

    /// The first of the waiting handshakes. If there is none, no handshake has the lead.
    fn next_waiter(&mut self) -> Option<Waiter> {
        self.waiting.retain(|waiter| !waiter.token.is_closed());
        let had = |source| {
            let spent = self.cpu_times.get(source).copied().unwrap_or_default();
            spent.as_nanos() / FREE_CPU_TIME.as_nanos()
        };
        let waiting = self.waiting.iter().enumerate();
        let first = waiting.min_by_key(|(_, waiter)| (had(&waiter.source), waiter.number));
        let first = first.map(|(at, _)| at);
        self.has_runner = first.is_some();
        first.map(|at| self.waiting.swap_remove(at))
    }

    fn charge(&mut self, source: Source, time: Duration, now: Instant) {
        let halved = *self.halved_at.get_or_insert(now);
        if now.saturating_duration_since(halved) >= CPU_HALF_LIFE {
            self.halved_at = Some(now);
            self.cpu_times.retain(|_, spent| {
                *spent /= 2;
                *spent >= Duration::from_micros(1)
            });
        }
        if self.cpu_times.len() >= MAX_SOURCES && !self.cpu_times.contains_key(&source) {
            let least = self.cpu_times.iter().max_by_key(|(_, spent)| Reverse(**spent));
            let least = least.map(|(source, _)| *source);
            least.and_then(|least| self.cpu_times.remove(&least));
        }
        *self.cpu_times.entry(source).or_default() += time;
    }
}

impl Drop for RunToken {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.pass_on_token();
        }
    }
}

impl HandshakePermit {
    /// Runs a handshake. Its CPU time counts until its end. The next one starts when this one
    /// waits for its client.
    pub(super) async fn run<T>(self, handshake: impl Future<Output = T>) -> T {
        let Self { queue, source, token } = self;
        let (mut handshake, mut token) = (pin!(handshake), Some(token));
        poll_fn(|cx| {
            let before = thread_cpu_time();
            let polled = handshake.as_mut().poll(cx);
            queue.charge(source, thread_cpu_time().saturating_sub(before));
            token = None;
            polled
        })
        .await
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures_util::FutureExt as _;
    use tokio::task::JoinSet;

    use super::*;

    const HANDSHAKE_CPU_TIME: Duration = Duration::from_millis(1);

    fn source(number: u8) -> Source {
        Source::of(IpAddr::from([10, 0, 0, number]))
    }

    impl HandshakePermit {
        /// A handshake that uses this much CPU time.
        fn spend_cpu(self) {
            self.queue.charge(self.source, HANDSHAKE_CPU_TIME);
        }
    }

    /// Handshakes from this many sources, without a pause.
    fn flood(limiter: &Arc<HandshakeLimiter>, sources: u8, each: usize) -> JoinSet<()> {
        let mut flood = JoinSet::new();
        for number in 0..sources {
            for _ in 0..each {
                let limiter = limiter.clone();
                flood.spawn(async move {
                    loop {
                        limiter.acquire(source(number)).await.spend_cpu();
                    }
                });
            }
        }
        flood
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_sources_get_a_limited_share_of_cpu_time() {
        let limiter = Arc::new(HandshakeLimiter::new(2));
        let flood = flood(&limiter, 10, 50);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let spent = limiter.unverified.state.lock().cpu_times.clone();
        let all: Duration = spent.values().sum();
        // Half of one of two CPUs for ten seconds, the amount that is available at once, and the
        // last one.
        let most = Duration::from_secs(5) + BURST_CPU_TIME + HANDSHAKE_CPU_TIME;
        assert!(all <= most && all >= most / 2, "{all:?}");
        // No source has more than another.
        let (least, most) = (spent.values().min(), spent.values().max());
        assert!(
            *most.unwrap() <= *least.unwrap() + FREE_CPU_TIME + HANDSHAKE_CPU_TIME,
            "{least:?} {most:?}"
        );
        assert_eq!(spent.len(), 10);
        drop(flood);
    }

    #[tokio::test(start_paused = true)]
    async fn source_with_less_usage_goes_first() {
        let limiter = Arc::new(HandshakeLimiter::new(1));
        let flood = flood(&limiter, 1, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // One handshake of 1 ms is the debt, which a quarter of a CPU pays in 4 ms.
        let came = Instant::now();
        limiter.acquire(source(1)).await.spend_cpu();
        assert!(came.elapsed() <= 8 * HANDSHAKE_CPU_TIME, "{:?}", came.elapsed());
        drop(flood);
    }

    #[tokio::test(start_paused = true)]
    async fn known_source_does_not_wait_for_unknown_ones() {
        let limiter = Arc::new(HandshakeLimiter::new(1));
        limiter.mark_verified(source(9));
        let flood = flood(&limiter, 5, 50);
        tokio::time::sleep(Duration::from_secs(1)).await;
        for _ in 0..100 {
            let turn = limiter.acquire(source(9)).now_or_never();
            turn.expect("it need not wait").spend_cpu();
        }
        drop(flood);
        for number in 0..=255 {
            limiter.mark_verified(source(number));
            limiter.mark_verified(Source::of(IpAddr::from([10, 0, 1, number])));
        }
        assert_eq!(limiter.verified_sources.lock().len(), MAX_VERIFIED_SOURCES);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_handshake_does_not_block_others() {
        let limiter = Arc::new(HandshakeLimiter::new(1));
        let first = limiter.acquire(source(0)).await;
        let mut waiting: Vec<_> =
            (0..8).map(|number| Box::pin(limiter.acquire(source(number)))).collect();
        for turn in &mut waiting {
            assert!(turn.as_mut().now_or_never().is_none(), "one at a time");
        }
        drop(first);
        // The one that has the lead now, and others that do not.
        waiting.drain(..5);
        assert!(waiting.remove(0).now_or_never().is_some());
        waiting.clear();
        let line = limiter.unverified.state.lock();
        assert!(!line.has_runner && line.waiting.is_empty());
        drop(line);
        for number in 0..u32::try_from(2 * MAX_SOURCES).unwrap() {
            let source = Source::of(IpAddr::from(number.to_be_bytes()));
            limiter.unverified.state.lock().charge(source, HANDSHAKE_CPU_TIME, Instant::now());
        }
        assert_eq!(limiter.unverified.state.lock().cpu_times.len(), MAX_SOURCES);
    }
}
