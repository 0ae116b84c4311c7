//! Leader election: the leader is the only replica that writes shared objects.
//!
//! ```text
//! Lease opgate-leader ◀─ renewed every 2 s by its holder; acquired by another replica after 15 s without a change
//!        │
//! Election::round ─▶ Leadership ─▶ is_leader() before each write; a watch channel for waiting tasks
//! ```
//!
//! The times are those of `client-go`, and so is the way to measure them: a replica counts from the moment at
//! which it *saw* the lease change, with a clock that never jumps. Differences between the calendars of two machines do
//! not matter.
//!
//! **A writer stops before another starts.** A term ends [`LEADER_TERM`] after its holder sent the request to renew
//! it, unless it was renewed again. A request that starts just before ends within
//! [`REQUEST_TIMEOUT`](crate::api::REQUEST_TIMEOUT). Another replica reads the renewal no earlier than it was requested, and
//! waits [`LEASE_EXPIRY`] from then: 10 s + 4 s < 15 s. Every write is also based on a version, so that a request
//! that an API server executes late, or a machine that was suspended, cannot revert a write of a later
//! leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::Installation;
use crate::api::{Api, ApiError, Kind, text, version};
use crate::clock::{Clock, micro_time};

/// Name of the lease.
pub const LEASE_NAME: &str = "opgate-leader";

/// Duration of a term, from the request to renew the lease.
pub const LEADER_TERM: Duration = Duration::from_secs(10);

/// Time without a change of the lease after which another replica acquires it.
pub const LEASE_EXPIRY: Duration = Duration::from_secs(15);

/// Maximum duration of a lease of another version.
const MAX_LEASE_EXPIRY: Duration = Duration::from_secs(60);

/// Interval at which the lease is read or renewed.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum bytes of the name of a leader.
const MAX_HOLDER_BYTES: usize = 253;

/// Whether this replica is the leader. Clones are the same.
#[derive(Debug, Clone)]
pub struct Leadership {
    clock: Arc<dyn Clock>,
    /// Milliseconds of the clock at which the term ends.
    term_end: Arc<AtomicU64>,
    changes: watch::Sender<bool>,
    /// The leader when the lease was read last; empty if it was not.
    holder: Arc<Mutex<String>>,
    gauge: Gauge,
}

impl Leadership {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            term_end: Arc::default(),
            changes: watch::Sender::new(false),
            holder: Arc::default(),
            gauge: Gauge::default(),
        }
    }

    /// Reports whether this replica is the leader now. Must be checked before each write.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        millis(self.clock.elapsed()) < self.term_end.load(Ordering::Acquire)
    }

    /// Changes when this replica begins or ends to be the leader.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.changes.subscribe()
    }

    /// Returns the name of the replica that was the leader when this one read the lease last.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        Some(self.holder.lock().clone()).filter(|holder| !holder.is_empty())
    }

    /// Sets the leader from its identity, which ends with a text for its process.
    fn set_holder(&self, identity: &str) {
        let name = identity.rsplit_once('_').map_or(identity, |(name, _)| name);
        let name = if name.len() <= MAX_HOLDER_BYTES { name } else { "" };
        name.clone_into(&mut self.holder.lock());
    }

    /// Adds its figure to those of the server.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("leader", "Whether this replica is the leader", self.gauge.clone());
    }

    /// Leads until this moment of the clock.
    fn set_term_end(&self, until: Duration) {
        self.term_end.store(millis(until), Ordering::Release);
        self.notify();
    }

    /// Tells those who wait.
    fn notify(&self) {
        let now = self.is_leader();
        self.gauge.set(i64::from(now));
        self.changes.send_if_modified(|was| std::mem::replace(was, now) != now);
    }

    /// Returns the time until the term ends.
    fn remaining_term(&self) -> Duration {
        let until = Duration::from_millis(self.term_end.load(Ordering::Acquire));
        until.saturating_sub(self.clock.elapsed())
    }
}

/// Rounds down to milliseconds: a term is never longer than intended.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The part that one replica takes in the election.
#[derive(Debug)]
pub struct Election {
    namespace: String,
    identity: String,
    clock: Arc<dyn Clock>,
    /// The version of the lease that was seen last, and when it was seen first.
    observed: Option<(String, Duration)>,
    leader: Leadership,
}

impl Election {
    /// Creates a replica that has not read the lease yet. `unique` distinguishes processes of the same name.
    #[must_use]
    pub fn new(installation: &Installation, unique: &str, clock: Arc<dyn Clock>) -> Self {
        Self {
            namespace: installation.namespace.clone(),
            identity: format!("{}_{unique}", installation.replica),
            leader: Leadership::new(clock.clone()),
            clock,
            observed: None,
        }
    }

    /// Returns a handle that reports whether this replica is the leader.
    #[must_use]
    pub fn leader(&self) -> Leadership {
        self.leader.clone()
    }

    /// Renews the lease, or acquires it if no other replica holds it.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected. The term continues until its end.
    pub async fn renew_or_acquire(&mut self, api: &dyn Api) -> Result<(), ApiError> {
        let requested_at = self.clock.elapsed();
        let result = self.try_acquire(api, requested_at).await;
        match result {
            Ok(true) => {
                self.leader.set_holder(&self.identity);
                self.leader.set_term_end(requested_at.saturating_add(LEADER_TERM));
            }
            Ok(false) => self.leader.set_term_end(Duration::ZERO),
            Err(_) => self.leader.notify(),
        }
        match result {
            Err(trouble) if !trouble.is_race() => Err(trouble),
            _ => Ok(()),
        }
    }

    /// Tries to hold the lease; `asked` is the moment of the request.
    async fn try_acquire(
        &mut self,
        api: &dyn Api,
        requested_at: Duration,
    ) -> Result<bool, ApiError> {
        let mut lease = match api.get(Kind::Lease, &self.namespace, LEASE_NAME).await {
            Ok(lease) => lease,
            Err(ApiError::NotFound(_)) => {
                let lease = json!({
                    "apiVersion": Kind::Lease.api_version(),
                    "kind": Kind::Lease.name(),
                    "metadata": {
                        "name": LEASE_NAME,
                        "namespace": self.namespace,
                        "labels": {crate::NAME_LABEL.0: crate::NAME_LABEL.1},
                    },
                    "spec": self.spec(0, None),
                });
                let made = api.create(Kind::Lease, &self.namespace, lease).await?;
                self.observed = Some((version(&made).to_owned(), self.clock.elapsed()));
                return Ok(true);
            }
            Err(trouble) => return Err(trouble),
        };
        // Others must wait from a moment after the request, not before it.
        let seen = self.clock.elapsed();
        let now = version(&lease);
        let since = match &self.observed {
            Some((version, since)) if version == now => *since,
            _ => {
                self.observed = Some((now.to_owned(), seen));
                seen
            }
        };
        let holder = text(&lease, "/spec/holderIdentity");
        let is_mine = holder == self.identity;
        if !is_mine && !holder.is_empty() && seen.saturating_sub(since) < takeover_delay(&lease) {
            self.leader.set_holder(holder);
            return Ok(false);
        }
        let transitions = number_at(&lease, "/spec/leaseTransitions");
        let spec = if is_mine {
            self.spec(transitions, lease.pointer("/spec/acquireTime").cloned())
        } else {
            self.spec(transitions.saturating_add(1), None)
        };
        // Members that other clients added to the lease stay.
        merge(&mut lease, spec);
        // A term begins with its request. Here that was before the lease was read.
        let renewed = api.replace(Kind::Lease, &self.namespace, lease).await?;
        debug_assert!(requested_at <= seen);
        self.observed = Some((version(&renewed).to_owned(), self.clock.elapsed()));
        Ok(true)
    }

    fn spec(&self, transitions: u64, acquired: Option<Value>) -> Value {
        let now = micro_time(self.clock.system_time());
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_EXPIRY.as_secs(),
            "leaseTransitions": transitions,
            "acquireTime": acquired.unwrap_or_else(|| json!(now)),
            "renewTime": now,
        })
    }

    /// Ends the leadership, so that another replica can acquire the lease immediately. Must be called when all
    /// tasks that check [`Leadership::is_leader`] have ended.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected: then the lease expires.
    pub async fn release(&mut self, api: &dyn Api) -> Result<(), ApiError> {
        self.leader.set_term_end(Duration::ZERO);
        let mut lease = api.get(Kind::Lease, &self.namespace, LEASE_NAME).await?;
        if text(&lease, "/spec/holderIdentity") != self.identity {
            return Ok(());
        }
        merge(&mut lease, json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
        api.replace(Kind::Lease, &self.namespace, lease).await.map(drop)
    }

    /// Takes part until it is dropped. The first error of a row is logged.
    pub async fn run(&mut self, api: &dyn Api) {
        let mut trouble = false;
        loop {
            let was = *self.leader.changes.borrow();
            match self.renew_or_acquire(api).await {
                Ok(()) => trouble = false,
                Err(error) => {
                    if !std::mem::replace(&mut trouble, true) {
                        tracing::warn!(%error, lease = LEASE_NAME, "the lease cannot be read or renewed");
                    }
                }
            }
            let is = *self.leader.changes.borrow();
            if was != is {
                tracing::info!(leader = is, "leader");
            }
            // The end of a term that was not renewed is reported when it is reached.
            let left = self.leader.remaining_term();
            let wait = if left.is_zero() { RETRY_INTERVAL } else { RETRY_INTERVAL.min(left) };
            tokio::time::sleep(wait).await;
            self.leader.notify();
        }
    }
}

/// Sets fields of the `spec`.
fn merge(lease: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else { return };
    if let Some(lease) = lease.as_object_mut() {
        let spec = lease.entry("spec").or_insert_with(|| json!({}));
        if !spec.is_object() {
            *spec = json!({});
        }
        if let Some(spec) = spec.as_object_mut() {
            spec.extend(fields);
        }
    }
}

fn number_at(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the time to wait for the holder of a lease: its duration, but at least that of this version and at
/// most a minute, for every writer.
fn takeover_delay(lease: &Value) -> Duration {
    Duration::from_secs(number_at(lease, "/spec/leaseDurationSeconds"))
        .clamp(LEASE_EXPIRY, MAX_LEASE_EXPIRY)
}

/// Returns a word that no other process has.
#[must_use]
pub fn unique_suffix() -> String {
    let mut bytes = [0_u8; 8];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        // Without random numbers there is no TLS either. The process id distinguishes the replicas of a
        // machine.
        return format!("{}", std::process::id());
    }
    format!("{:016x}", u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Connectivity, FakeApiServer, FakeClock, run_ready};

    const SECOND: Duration = Duration::from_secs(1);

    fn replica(name: &str, clock: &Arc<FakeClock>) -> Election {
        let installation = Installation {
            namespace: "opgate-system".to_owned(),
            service: "opgate".to_owned(),
            replica: name.to_owned(),
        };
        Election::new(&installation, "1", clock.clone())
    }

    #[test]
    fn leader_leads_until_it_resigns_or_stops_renewing() {
        let fake = FakeApiServer::default();
        let (a_line, b_line) = (fake.client("a"), fake.client("b"));
        // The calendars differ by years.
        let clocks = [FakeClock::at(SECOND * 1_000_000_000), FakeClock::at(SECOND)];
        let (mut a, mut b) = (replica("a", &clocks[0]), replica("b", &clocks[1]));
        let pass = |time: Duration| clocks.iter().for_each(|clock| clock.advance(time));
        run_ready(a.renew_or_acquire(&a_line)).unwrap();
        run_ready(b.renew_or_acquire(&b_line)).unwrap();
        assert!(a.leader().is_leader() && !b.leader().is_leader());
        for _ in 0..30 {
            pass(RETRY_INTERVAL);
            run_ready(a.renew_or_acquire(&a_line)).unwrap();
            run_ready(b.renew_or_acquire(&b_line)).unwrap();
            assert!(a.leader().is_leader() && !b.leader().is_leader());
        }
        // Given up: the other one need not wait.
        run_ready(a.release(&a_line)).unwrap();
        assert!(!a.leader().is_leader());
        run_ready(b.renew_or_acquire(&b_line)).unwrap();
        assert!(b.leader().is_leader());
        // Cut off: its term ends before the other one begins.
        fake.set_connectivity("b", Connectivity::Down);
        let mut without = 0;
        for _ in 0..20 {
            pass(SECOND);
            run_ready(a.renew_or_acquire(&a_line)).unwrap();
            run_ready(b.renew_or_acquire(&b_line)).unwrap_err();
            let (a, b) = (a.leader().is_leader(), b.leader().is_leader());
            assert!(!(a && b));
            without += u64::from(!a && !b);
        }
        assert!(a.leader().is_leader());
        assert!(without >= crate::api::REQUEST_TIMEOUT.as_secs(), "{without}");
        // The replica reconnects, and has only lost the leadership.
        fake.set_connectivity("b", Connectivity::Up);
        run_ready(b.renew_or_acquire(&b_line)).unwrap();
        assert!(!b.leader().is_leader());
        let lease = fake.stored(Kind::Lease, "opgate-system", LEASE_NAME).unwrap();
        assert_eq!(text(&lease, "/spec/holderIdentity"), "a_1");
        assert_eq!(number_at(&lease, "/spec/leaseTransitions"), 2);
    }

    /// Checks that there are never two leaders, with any lost message and any difference of the calendars,
    /// and that a write that begins in a term ends before the next term begins.
    #[test]
    fn two_replicas_never_lead_at_once() {
        for seed in 1..=40_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let fake = FakeApiServer::default();
            let names = ["a", "b", "c"];
            let clock = FakeClock::at(SECOND * 1_700_000_000);
            let mut replicas = names.map(|name| replica(name, &clock));
            let lines = names.map(|name| fake.client(name));
            let mut last: Option<(usize, Duration)> = None;
            let mut terms = 0;
            for _ in 0..2_000 {
                clock.advance(Duration::from_millis(random(1_500)));
                let who = usize::try_from(random(3)).unwrap();
                if random(25) == 0 {
                    let fates = [
                        Connectivity::Up,
                        Connectivity::Up,
                        Connectivity::Down,
                        Connectivity::ResponsesLost,
                    ];
                    fake.set_connectivity(names[who], fates[usize::try_from(random(4)).unwrap()]);
                }
                if random(200) == 0 {
                    fake.remove(Kind::Lease, "opgate-system", LEASE_NAME);
                    // The lease is deleted: only versions protect against this case.
                    last = None;
                    for replica in &replicas {
                        replica.leader.set_term_end(Duration::ZERO);
                    }
                }
                let _ = run_ready(replicas[who].renew_or_acquire(&lines[who]));
                let leaders: Vec<_> =
                    (0..3).filter(|i| replicas[*i].leader().is_leader()).collect();
                assert!(leaders.len() <= 1, "seed {seed}: {leaders:?}");
                if let Some(leader) = leaders.first() {
                    if let Some((before, at)) = last
                        && before != *leader
                    {
                        terms += 1;
                        let between = clock.elapsed().abs_diff(at);
                        assert!(between >= crate::api::REQUEST_TIMEOUT, "seed {seed}: {between:?}");
                    }
                    last = Some((*leader, clock.elapsed()));
                }
            }
            assert!(terms > 0, "seed {seed}: the lead never moves");
        }
    }

    #[test]
    fn invalid_lease_is_eventually_acquired() {
        for spec in [
            json!(null),
            json!({}),
            json!("x"),
            json!({"holderIdentity": "x", "leaseDurationSeconds": u64::MAX}),
            json!({"holderIdentity": "x", "leaseDurationSeconds": -1, "leaseTransitions": u64::MAX}),
            json!({"holderIdentity": 7, "renewTime": "9999-12-31T23:59:59Z"}),
        ] {
            let fake = FakeApiServer::default();
            let metadata = json!({"name": LEASE_NAME, "annotations": {"kept": "yes"}});
            let lease = json!({"metadata": metadata, "spec": spec});
            fake.put(Kind::Lease, "opgate-system", lease);
            let clock = FakeClock::at(SECOND);
            let mut replica = replica("a", &clock);
            run_ready(replica.renew_or_acquire(&fake.client("a"))).unwrap();
            clock.advance(MAX_LEASE_EXPIRY);
            run_ready(replica.renew_or_acquire(&fake.client("a"))).unwrap();
            assert!(replica.leader().is_leader(), "{spec}");
            let lease = fake.stored(Kind::Lease, "opgate-system", LEASE_NAME).unwrap();
            assert_eq!(crate::api::annotation(&lease, "kept"), "yes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn election_reports_start_and_end_of_leadership() {
        let fake = FakeApiServer::default();
        let clock: Arc<dyn Clock> = Arc::new(crate::clock::SystemClock::default());
        let installation = Installation {
            namespace: "n".to_owned(),
            service: "s".to_owned(),
            replica: "a".to_owned(),
        };
        let mut election = Election::new(&installation, &unique_suffix(), clock.clone());
        let leader = election.leader();
        let mut changes = leader.changes();
        let line = fake.client("a");
        tokio::spawn(async move { election.run(&line).await });
        changes.wait_for(|leads| *leads).await.unwrap();
        fake.set_connectivity("a", Connectivity::Down);
        let before = clock.elapsed();
        changes.wait_for(|leads| !*leads).await.unwrap();
        assert!(clock.elapsed().abs_diff(before) <= LEADER_TERM + SECOND && !leader.is_leader());
        fake.set_connectivity("a", Connectivity::Up);
        changes.wait_for(|leads| *leads).await.unwrap();
    }
}
