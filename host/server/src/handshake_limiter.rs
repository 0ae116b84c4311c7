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

use super::bucket::Bucket;
use super::connection_limiter::Source;
use opgate_engine::processor_time;

/// The part of all CPUs that a queue may use, and the time for which it may use more.
const PART: u32 = 4;
const AT_ONCE: Duration = Duration::from_millis(250);

/// After this time, half of the CPU time of a source counts. Up to this amount there is no
/// difference: an API server that opens dozens of connections does not wait for a client with a
/// new address each time.
const CPU_HALF_LIFE: Duration = Duration::from_secs(10);
const FREE_CPU_TIME: Duration = Duration::from_millis(20);

/// Maximum number of sources whose CPU time is known, and of sources with a certificate.
const MOST_SOURCES: usize = 1_024;
const MOST_KNOWN: usize = 256;

/// The handshakes of a port.
#[derive(Debug)]
pub(super) struct HandshakeLimiter {
    unverified: Arc<HandshakeQueue>,
    known: Arc<HandshakeQueue>,
    /// Sources whose clients have shown a certificate, and the last time.
    sources: Mutex<HashMap<Source, Instant>>,
}

/// A queue of handshakes that share a part of the CPU.
#[derive(Debug)]
struct HandshakeQueue {
    /// In nanoseconds of CPU time.
    bucket: Bucket,
    line: Mutex<QueueState>,
}

/// The waiting handshakes, and the CPU time of their sources.
#[derive(Debug, Default)]
struct QueueState {
    /// A handshake has the lead: it runs, or waits until the debt is paid.
    is_led: bool,
    waiting: Vec<Waiter>,
    next: u64,
    spent: HashMap<Source, Duration>,
    halved: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    source: Source,
    lead: oneshot::Sender<RunToken>,
}

/// The right to be next. Dropping it passes it on.
#[derive(Debug)]
struct RunToken(Option<Arc<HandshakeQueue>>);

/// The permit to run a handshake.
#[derive(Debug)]
pub(super) struct HandshakePermit {
    lane: Arc<HandshakeQueue>,
    source: Source,
    lead: RunToken,
}

impl HandshakeLimiter {
    /// Creates the queues for a machine with this many CPUs.
    pub(super) fn new(processors: u32) -> Self {
        let lane = || {
            let part = Duration::from_secs(1) * processors.max(1) / PART;
            let bucket = Bucket::new(nanoseconds(AT_ONCE), nanoseconds(part));
            Arc::new(HandshakeQueue { bucket, line: Mutex::default() })
        };
        Self { unverified: lane(), known: lane(), sources: Mutex::default() }
    }

    /// Records that a client from this source has shown a valid certificate.
    pub(super) fn mark_verified(&self, source: Source) {
        let mut sources = self.sources.lock();
        if sources.len() >= MOST_KNOWN && !sources.contains_key(&source) {
            let oldest = sources.iter().min_by_key(|(_, last)| **last).map(|(source, _)| *source);
            oldest.and_then(|oldest| sources.remove(&oldest));
        }
        sources.insert(source, Instant::now());
    }

    /// Waits for the permit of a handshake with a client from this source.
    pub(super) async fn turn(&self, source: Source) -> HandshakePermit {
        let is_known = self.sources.lock().contains_key(&source);
        let lane = if is_known { &self.known } else { &self.unverified };
        lane.turn(source).await
    }
}

impl HandshakeQueue {
    async fn turn(self: &Arc<Self>, source: Source) -> HandshakePermit {
        let number = {
            let mut line = self.line.lock();
            line.next += 1;
            line.next
        };
        let mut lead = self.lead(number, source).await;
        loop {
            let wait = self.bucket.wait(Instant::now().into_std());
            if wait.is_zero() {
                return HandshakePermit { lane: self.clone(), source, lead };
            }
            tokio::time::sleep(wait).await;
            // A handshake that arrived during the wait can be before this one.
            let next = self.wait(number, source);
            drop(lead);
            lead = match next.await {
                Ok(lead) => lead,
                Err(_) => self.lead(number, source).await,
            };
        }
    }

    /// Returns the lead, at once if no handshake has it.
    async fn lead(self: &Arc<Self>, number: u64, source: Source) -> RunToken {
        loop {
            let next = {
                let mut line = self.line.lock();
                if !line.is_led {
                    line.is_led = true;
                    return RunToken(Some(self.clone()));
                }
                line.wait(number, source)
            };
            if let Ok(lead) = next.await {
                return lead;
            }
        }
    }

    fn wait(&self, number: u64, source: Source) -> oneshot::Receiver<RunToken> {
        self.line.lock().wait(number, source)
    }

    /// Gives the lead to the next handshake.
    fn pass_on(self: Arc<Self>) {
        let mut lead = RunToken(Some(self.clone()));
        loop {
            let next = self.line.lock().next();
            let Some(next) = next else {
                // No handshake is left: `is_led` is off.
                lead.0 = None;
                return;
            };
            match next.lead.send(lead) {
                Ok(()) => return,
                // The client is gone.
                Err(back) => lead = back,
            }
        }
    }

    fn spend(&self, source: Source, time: Duration) {
        let now = Instant::now();
        self.bucket.spend(nanoseconds(time), now.into_std());
        self.line.lock().spend(source, time, now);
    }
}

impl QueueState {
    fn wait(&mut self, number: u64, source: Source) -> oneshot::Receiver<RunToken> {
        if self.waiting.len() >= MOST_SOURCES {
            self.waiting.retain(|waiter| !waiter.lead.is_closed());
        }
        let (lead, next) = oneshot::channel();
        self.waiting.push(Waiter { number, source, lead });
        next
    }

    /// The first of the waiting handshakes. If there is none, no handshake has the lead.
    fn next(&mut self) -> Option<Waiter> {
        self.waiting.retain(|waiter| !waiter.lead.is_closed());
        let had = |source| {
            let spent = self.spent.get(source).copied().unwrap_or_default();
            spent.as_nanos() / FREE_CPU_TIME.as_nanos()
        };
        let waiting = self.waiting.iter().enumerate();
        let first = waiting.min_by_key(|(_, waiter)| (had(&waiter.source), waiter.number));
        let first = first.map(|(at, _)| at);
        self.is_led = first.is_some();
        first.map(|at| self.waiting.swap_remove(at))
    }

    fn spend(&mut self, source: Source, time: Duration, now: Instant) {
        let halved = *self.halved.get_or_insert(now);
        if now.saturating_duration_since(halved) >= CPU_HALF_LIFE {
            self.halved = Some(now);
            self.spent.retain(|_, spent| {
                *spent /= 2;
                *spent >= Duration::from_micros(1)
            });
        }
        if self.spent.len() >= MOST_SOURCES && !self.spent.contains_key(&source) {
            let least = self.spent.iter().max_by_key(|(_, spent)| Reverse(**spent));
            let least = least.map(|(source, _)| *source);
            least.and_then(|least| self.spent.remove(&least));
        }
        *self.spent.entry(source).or_default() += time;
    }
}

impl Drop for RunToken {
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            lane.pass_on();
        }
    }
}

impl HandshakePermit {
    /// Runs a handshake. Its CPU time counts until its end. The next one starts when this one
    /// waits for its client.
    pub(super) async fn run<T>(self, handshake: impl Future<Output = T>) -> T {
        let Self { lane, source, lead } = self;
        let (mut handshake, mut lead) = (pin!(handshake), Some(lead));
        poll_fn(|cx| {
            let before = processor_time();
            let polled = handshake.as_mut().poll(cx);
            lane.spend(source, processor_time().saturating_sub(before));
            lead = None;
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

    const COST: Duration = Duration::from_millis(1);

    fn source(number: u8) -> Source {
        Source::of(IpAddr::from([10, 0, 0, number]))
    }

    impl HandshakePermit {
        /// A handshake that uses this much CPU time.
        fn spend(self) {
            self.lane.spend(self.source, COST);
        }
    }

    /// Handshakes from this many sources, without a pause.
    fn flood(handshakes: &Arc<HandshakeLimiter>, sources: u8, each: usize) -> JoinSet<()> {
        let mut flood = JoinSet::new();
        for number in 0..sources {
            for _ in 0..each {
                let handshakes = handshakes.clone();
                flood.spawn(async move {
                    loop {
                        handshakes.turn(source(number)).await.spend();
                    }
                });
            }
        }
        flood
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_sources_get_a_limited_share_of_cpu_time() {
        let handshakes = Arc::new(HandshakeLimiter::new(2));
        let flood = flood(&handshakes, 10, 50);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let spent = handshakes.unverified.line.lock().spent.clone();
        let all: Duration = spent.values().sum();
        // Half of one of two CPUs for ten seconds, the amount that is available at once, and the
        // last one.
        let most = Duration::from_secs(5) + AT_ONCE + COST;
        assert!(all <= most && all >= most / 2, "{all:?}");
        // No source has more than another.
        let (least, most) = (spent.values().min(), spent.values().max());
        assert!(*most.unwrap() <= *least.unwrap() + FREE_CPU_TIME + COST, "{least:?} {most:?}");
        assert_eq!(spent.len(), 10);
        drop(flood);
    }

    #[tokio::test(start_paused = true)]
    async fn source_with_less_usage_goes_first() {
        let handshakes = Arc::new(HandshakeLimiter::new(1));
        let flood = flood(&handshakes, 1, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // One handshake of 1 ms is the debt, which a quarter of a CPU pays in 4 ms.
        let came = Instant::now();
        handshakes.turn(source(1)).await.spend();
        assert!(came.elapsed() <= 8 * COST, "{:?}", came.elapsed());
        drop(flood);
    }

    #[tokio::test(start_paused = true)]
    async fn known_source_does_not_wait_for_unknown_ones() {
        let handshakes = Arc::new(HandshakeLimiter::new(1));
        handshakes.mark_verified(source(9));
        let flood = flood(&handshakes, 5, 50);
        tokio::time::sleep(Duration::from_secs(1)).await;
        for _ in 0..100 {
            let turn = handshakes.turn(source(9)).now_or_never();
            turn.expect("it need not wait").spend();
        }
        drop(flood);
        for number in 0..=255 {
            handshakes.mark_verified(source(number));
            handshakes.mark_verified(Source::of(IpAddr::from([10, 0, 1, number])));
        }
        assert_eq!(handshakes.sources.lock().len(), MOST_KNOWN);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_handshake_does_not_block_others() {
        let handshakes = Arc::new(HandshakeLimiter::new(1));
        let first = handshakes.turn(source(0)).await;
        let mut waiting: Vec<_> =
            (0..8).map(|number| Box::pin(handshakes.turn(source(number)))).collect();
        for turn in &mut waiting {
            assert!(turn.as_mut().now_or_never().is_none(), "one at a time");
        }
        drop(first);
        // The one that has the lead now, and others that do not.
        waiting.drain(..5);
        assert!(waiting.remove(0).now_or_never().is_some());
        waiting.clear();
        let line = handshakes.unverified.line.lock();
        assert!(!line.is_led && line.waiting.is_empty());
        drop(line);
        for number in 0..u32::try_from(2 * MOST_SOURCES).unwrap() {
            let source = Source::of(IpAddr::from(number.to_be_bytes()));
            handshakes.unverified.line.lock().spend(source, COST, Instant::now());
        }
        assert_eq!(handshakes.unverified.line.lock().spent.len(), MOST_SOURCES);
    }
}
