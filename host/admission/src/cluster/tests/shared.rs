//! Two and three replicas with one ledger, in virtual time: of requests that exclude each other, one is stored.
//!
//! An API server stores what a replica allows after a while, or never; every replica sees objects and ledger
//! with another delay. All delays are drawn from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{BoxStream, unfold};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::decide::SoleObjectRequest;
use super::*;
use crate::cluster::{LedgerStore, StoreError, StoredLedger};

/// The time that a new ledger is not used, and some more.
const LEDGER_START: Duration = Duration::from_secs(12);

/// Numbers from a seed.
#[derive(Debug)]
struct Random(Mutex<u64>);

impl Random {
    fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock();
        // xorshift64*
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn millis(&self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }
}

/// What the API server stores.
#[derive(Debug, Default)]
struct Stored {
    version: u64,
    /// The objects, with their versions and uids.
    objects: BTreeMap<String, (u64, String)>,
    ledger: Option<StoredLedger>,
}

/// An API server. Clones are the same.
#[derive(Debug, Clone)]
struct TestApi {
    stored: Arc<Mutex<Stored>>,
    random: Arc<Random>,
    watches: Arc<Mutex<Vec<mpsc::UnboundedSender<Arc<Document>>>>>,
    /// The share of requests of a hundred that get no response.
    lost_percent: u64,
    /// The longest time in milliseconds before a read or write of the ledger has its effect.
    max_ledger_delay: u64,
}

impl TestApi {
    fn new(seed: u64, lost_percent: u64) -> Self {
        let (stored, watches) = (Arc::default(), Arc::default());
        let random = Arc::new(Random(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)));
        Self { stored, random, watches, lost_percent, max_ledger_delay: 8 }
    }

    /// Whether several appends can take longer than the API server waits.
    fn is_slow(&self) -> bool {
        self.max_ledger_delay > 1_000
    }

    /// A write of the ledger: the response can be lost, and the write can be late.
    async fn write<T>(
        &self,
        write: impl FnOnce(&mut Stored) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        sleep(self.random.millis(self.max_ledger_delay)).await;
        let result = write(&mut self.stored.lock());
        sleep(self.random.millis(4)).await;
        if self.random.below(100) < self.lost_percent {
            return Err(StoreError::Unknown("no response".to_owned()));
        }
        result
    }

    fn store(&self, name: &str, uid: &str) {
        let mut stored = self.stored.lock();
        stored.version += 1;
        let version = stored.version;
        stored.objects.entry(name.to_owned()).or_insert((version, uid.to_owned()));
        let event = object(name, &version.to_string(), uid, "x");
        for watch in &*self.watches.lock() {
            let _ = watch.send(event.clone());
        }
    }

    fn names(&self) -> Vec<String> {
        self.stored.lock().objects.keys().cloned().collect()
    }
}

impl LedgerStore for TestApi {
    fn read(&self) -> BoxFuture<'_, Result<Option<StoredLedger>, StoreError>> {
        Box::pin(self.write(|stored| Ok(stored.ledger.clone())))
    }

    /// Shows what is stored some time later; it leaves out what was replaced meanwhile, and breaks off.
    fn watch(&self) -> BoxStream<'_, Result<Option<StoredLedger>, StoreError>> {
        Box::pin(unfold(None, move |shown| async move {
            let mut now = self.stored.lock().ledger.clone();
            while now == shown {
                sleep(Duration::from_millis(5)).await;
                now = self.stored.lock().ledger.clone();
            }
            sleep(self.random.millis(20)).await;
            if self.random.below(100) < self.lost_percent {
                return None;
            }
            Some((Ok(now.clone()), now))
        }))
    }

    fn create(&self, text: String) -> BoxFuture<'_, Result<StoredLedger, StoreError>> {
        Box::pin(self.write(move |stored| {
            if stored.ledger.is_some() {
                return Err(StoreError::Conflict("it exists".to_owned()));
            }
            stored.version += 1;
            let version = stored.version.to_string();
            let ledger = StoredLedger { uid: format!("l-{version}"), version, text, age: None };
            stored.ledger = Some(ledger.clone());
            Ok(ledger)
        }))
    }

    fn replace<'a>(
        &'a self,
        uid: &'a str,
        version: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<StoredLedger, StoreError>> {
        Box::pin(self.write(move |stored| {
            let is_it = |ledger: &StoredLedger| ledger.uid == uid && ledger.version == version;
            if !stored.ledger.as_ref().is_some_and(is_it) {
                return Err(StoreError::Conflict("another version".to_owned()));
            }
            stored.version += 1;
            let version = stored.version.to_string();
            let ledger = StoredLedger { uid: uid.to_owned(), version, text, age: None };
            stored.ledger = Some(ledger.clone());
            Ok(ledger)
        }))
    }

    fn delete<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.write(|stored| {
            stored.ledger = None;
            Ok(())
        }))
    }

    fn version_of<'a>(&'a self, _: &'a ResourceCache) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async {
            sleep(self.random.millis(5)).await;
            Some(self.stored.lock().version)
        })
    }
}

impl DirectReadSource for TestApi {
    fn list<'a>(
        &'a self,
        kind: &'a ResourceCache,
        _: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, DirectReadError>> {
        Box::pin(async {
            sleep(self.random.millis(5)).await;
            let stored = self.stored.lock();
            let mut listing = Listing { version: stored.version.to_string(), ..kind.empty() };
            for (name, (version, uid)) in &stored.objects {
                let object = object(name, &version.to_string(), uid, "x");
                kind.add_object(&mut listing, object.root(), "");
            }
            Ok(listing)
        })
    }
}

/// One server.
struct Replica {
    cluster: Arc<ClusterState>,
    direct: DirectReader,
}

impl Replica {
    /// Starts a server whose watch shows events up to `max_lag` milliseconds late.
    fn start(api: &TestApi, number: usize, max_lag: u64) -> Self {
        let cluster = Arc::new(cluster(ClusterOptions::of(Source::Live)));
        apply_list(&cluster.caches[0], "0", &[]);
        let (shared, mut requests) = cluster.share_reservations(&format!("replica-{number}"));
        let store: Arc<dyn LedgerStore> = Arc::new(api.clone());
        tokio::task::spawn_local(async move {
            exchange_ledger(&shared, &*store, &mut requests).await;
        });
        let (sender, mut events) = mpsc::unbounded_channel::<Arc<Document>>();
        api.watches.lock().push(sender);
        let (of, random) = (cluster.clone(), api.random.clone());
        tokio::task::spawn_local(async move {
            while let Some(event) = events.recv().await {
                sleep(random.millis(max_lag)).await;
                of.caches[0].apply(event.root(), "");
            }
        });
        let (of, source) = (cluster.clone(), api.clone());
        tokio::task::spawn_local(async move {
            watch::settle_reservations::settle_forever(&of.caches[0], &source).await;
        });
        Self { cluster, direct: DirectReader::new(api.clone()) }
    }

    fn is_ledger_ready(&self) -> bool {
        self.cluster.ledger_status().is_some_and(|status| status.problem.is_none())
    }

    async fn decide(&self, name: &str, uid: &str) -> Result<String, DecideFailure> {
        let consistency = ReadConsistency {
            direct: Some(&self.direct),
            always: false,
            conflicting_resources: &[ResourceId(0)],
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        decide(
            &self.cluster,
            consistency,
            deadline,
            &SoleObjectRequest::named(&self.cluster, name, uid),
        )
        .await
    }
}

/// Sends one request to each replica within `spread` milliseconds. Returns the verdicts.
async fn race(api: &TestApi, replicas: &[Replica], spread: u64, round: u64) -> Vec<String> {
    let start = Instant::now();
    let requests = replicas.iter().enumerate().map(async |(number, replica)| {
        sleep_until(start + api.random.millis(spread + 1)).await;
        let (name, uid) = (format!("object-{number}"), format!("u-{round}-{number}"));
        let verdict = replica.decide(&name, &uid).await;
        if verdict == Ok("allowed".to_owned()) {
            // Other webhooks, and the write.
            sleep(api.random.millis(1_500)).await;
            if api.random.below(10) < 8 {
                api.store(&name, &uid);
            }
        }
        verdict.unwrap_or_else(|error| format!("{error:?}"))
    });
    join_all(requests).await
}

async fn run_seed(seed: u64, replicas: usize, lost_percent: u64) {
    run(seed, replicas, TestApi::new(seed, lost_percent)).await;
}

async fn run(seed: u64, replicas: usize, api: TestApi) {
    let max_lag = [2, 50, 4_000][usize::try_from(seed % 3).unwrap()];
    let spread = [0, 1, 5, 20, 100][usize::try_from(seed % 5).unwrap()];
    LocalSet::new()
        .run_until(async {
            let replicas: Vec<_> =
                (0..replicas).map(|number| Replica::start(&api, number, max_lag)).collect();
            // A new ledger is not used at once.
            while replicas.iter().any(|replica| !replica.is_ledger_ready()) {
                sleep(Duration::from_millis(100)).await;
            }
            let verdicts = race(&api, &replicas, spread, 0).await;
            let names = api.names();
            assert!(names.len() <= 1, "seed {seed}: {names:?} are stored: {verdicts:?}");
            if api.lost_percent == 0 && !api.is_slow() {
                let allowed = verdicts.iter().filter(|verdict| *verdict == "allowed").count();
                assert!(allowed >= 1, "seed {seed}: no request was allowed: {verdicts:?}");
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn replicas_store_one_of_the_requests_that_exclude_each_other() {
    for seed in 1..=200 {
        run_seed(seed, 2 + usize::try_from(seed % 2).unwrap(), 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lost_responses_of_the_ledger_let_no_second_request_pass() {
    for seed in 1..=200 {
        run_seed(seed, 2, 30).await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_writes_of_the_ledger_let_no_second_request_pass() {
    for seed in 1..=100 {
        let api = TestApi { max_ledger_delay: 3_600, ..TestApi::new(seed, 0) };
        run(seed, 2, api).await;
    }
}

#[tokio::test(start_paused = true)]
async fn request_without_a_ledger_is_not_allowed() {
    LocalSet::new()
        .run_until(async {
            let api = TestApi::new(7, 100);
            let replica = Replica::start(&api, 0, 2);
            sleep(LEDGER_START).await;
            let verdict = replica.decide("object", "u").await;
            assert_ne!(verdict, Ok("allowed".to_owned()));
            // Nothing is left of it.
            assert_eq!(replica.cluster.caches[0].status().reservations, 0);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn ledger_is_empty_again_after_the_requests() {
    LocalSet::new()
        .run_until(async {
            let api = TestApi::new(11, 0);
            let replicas = [Replica::start(&api, 0, 2), Replica::start(&api, 1, 2)];
            sleep(LEDGER_START).await;
            race(&api, &replicas, 0, 0).await;
            sleep(Duration::from_secs(60)).await;
            for replica in &replicas {
                let status = replica.cluster.ledger_status().unwrap();
                assert_eq!((status.entries, status.waiting, status.problem), (0, 0, None));
                assert_eq!(replica.cluster.caches[0].status().reservations, 0);
            }
        })
        .await;
}
