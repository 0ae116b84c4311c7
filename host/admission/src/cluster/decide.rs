//! Makes verdicts that hold whatever the outcome of the requests in progress.
//!
//! ```text
//! evaluate in Stored ─ wants a sample or an exact result? ─▶ list, direct read, again
//!      │
//!      ├─ no reservation touched ───────────────────────────────────────────▶ verdict
//!      └─ touched ─▶ evaluate in Pending …, UnionPrefer… ─ all allow, all deny ─▶ verdict
//!                           │
//!                           └─ they differ ─▶ wait for the watch, then one direct read of the touched
//!                              objects ─▶ settled: again; time is over: deny
//! verdict denies ─▶ confirm: one read of its grounds ─▶ news: again; otherwise deny
//! verdict allows, changes something ─▶ reserve ─ a query result may have changed ─▶ again; after three
//!                              rounds with a claim, for which others wait (claims); limit reached:
//!                              settle ended reservations, once
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use opgate_cluster::{Key, Resource};
use opgate_document::Account;
use tokio::time::Instant;

use super::claims::CLAIM_RECHECK_INTERVAL;
use super::confirm::{self, confirm};
use super::reservations::MAX_WORLDS;
use super::settling::settle_all;
use super::view::{DirectReadPlan, EvaluationView, PossibleState, QueryScope};
use super::{
    ClusterState, Counters, Direct, Ground, Question, ReservationLimitReached, Reserved,
    ResourceCache, Source, Write,
};

/// Maximum wait for the watch before a direct read. The watch usually takes milliseconds.
const MAX_WATCH_WAIT: Duration = Duration::from_millis(50);

/// Maximum time of a direct read that replaces a watch that fails.
const FALLBACK_READ_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time for settling ended reservations when the limit is reached.
const SETTLE: Duration = Duration::from_secs(1);

/// Maximum number of objects of a request that are read directly. A verdict that depends on more
/// requests in progress is a denial.
const MAX_DIRECT_READS: usize = 32;

/// Number of rounds with changes by others after which those must wait.
const MAX_ROUNDS_WITHOUT_CLAIM: u32 = 3;

/// The handling of queries that need an exact result while the watch of their resource fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnWatchFailure {
    /// opgate reads from the API server directly.
    Read,
    /// The call ends with a policy error.
    Fail,
}

/// Evaluates a request with cluster state as a lens shows it.
pub trait Evaluate {
    /// The combined verdict.
    type Verdict;
    /// The reason why the evaluation failed.
    type Overload: From<EvaluationError>;

    /// The account that samples are charged to.
    fn account(&self) -> Option<&Arc<Account>> {
        None
    }

    /// Evaluates the request.
    ///
    /// # Errors
    /// If the server is overloaded.
    fn judge(
        &self,
        lens: &EvaluationView,
    ) -> impl Future<Output = Result<Evaluation<Self::Verdict>, Self::Overload>>;

    /// Removes violations that depend on kinds without a result.
    fn without_answer(&self, verdict: Self::Verdict, why: &str) -> Self::Verdict;

    /// Notes in a denial that it depends on unsettled requests about these objects.
    fn with_pending_note(&self, verdict: Self::Verdict, objects: &[String]) -> Self::Verdict;

    /// The change that the request makes if it is allowed. After this, the verdict can be sent in
    /// any case.
    ///
    /// # Errors
    /// If it cannot be sent.
    fn change(&self, verdict: &mut Self::Verdict) -> Result<Option<Write>, Self::Overload>;

    /// The verdict for an allowed request that cannot be reserved.
    ///
    /// # Errors
    /// If it must not be allowed.
    fn on_reservation_limit(
        &self,
        verdict: Self::Verdict,
        no_room: ReservationLimitReached,
    ) -> Result<Self::Verdict, Self::Overload>;
}

/// The result of an evaluation, and its queries.
#[derive(Debug)]
pub struct Evaluation<V> {
    /// The verdict.
    pub verdict: V,
    /// Whether it allows the request.
    pub allows: bool,
    /// Whether it is a valid verdict, not a policy error.
    pub is_sound: bool,
    /// The queries, by kind.
    pub asked: Vec<(usize, QueryScope)>,
    /// The queries, with their full precision.
    pub questions: Vec<(usize, Question)>,
    /// Objects that change the results in other possible states.
    pub touched: Vec<(usize, Key)>,
    /// Whether the possible state could not show one of them as it may be stored. The verdict then
    /// does not depend on that object's content.
    pub is_unsure: bool,
    /// The grounds of a denial, the most likely first.
    pub grounds: Vec<Ground>,
    /// Resources that must be listed before the evaluation can succeed, each with the number of
    /// objects.
    pub wanted: Vec<(Resource, usize)>,
}

/// The reason why the decision failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationError {
    /// Other requests changed the same objects repeatedly until the deadline.
    Contention,
    /// The deadline of the request passed before the decision.
    Late,
}

/// The queries that need an exact result.
#[derive(Debug, Clone, Copy)]
pub struct ReadConsistency<'d> {
    /// The source of direct reads.
    pub direct: Option<&'d Direct>,
    /// Always, not only while a watch fails.
    pub always: bool,
    /// Kinds that are both reviewed and read: two requests for them can conflict.
    pub contested: &'d [usize],
}

/// Decides a request before the deadline.
///
/// # Errors
/// If no decision was reached.
pub async fn decide<J: Evaluate>(
    cluster: &ClusterState,
    exactness: ReadConsistency<'_>,
    deadline: Instant,
    judge: &J,
) -> Result<J::Verdict, J::Overload> {
    let mut lens = EvaluationView::default();
    if cluster.options().source != Source::Live {
        // No request is in progress, and no direct read is needed.
        return Ok(judge.judge(&lens).await?.verdict);
    }
    let mut needed = DirectReadPlan::default();
    let mut patience = SettleWait::default();
    let (mut rounds, mut claim) = (0, None);
    let (mut confirmed, mut has_settled) = (0, false);
    loop {
        // Before any query: all reservations from now on are detected.
        let seen = cluster.counters();
        let mut worlds = vec![judge.judge(&lens).await?];
        if fetch_samples(&mut lens, exactness.direct, judge.account(), &worlds, deadline).await {
            continue;
        }
        let mut closer = direct_read_need(cluster, exactness, &mut needed, &worlds);
        if let (DirectReadNeed::Enough, Some(stored)) = (&closer, worlds.first())
            && stored.is_sound
            && !stored.touched.is_empty()
        {
            // In one possible state, an evaluation can follow references to objects that it does
            // not query in another.
            let mut applied = 0;
            while applied < deepest(cluster, &worlds) {
                let lens =
                    EvaluationView { world: PossibleState::Pending(applied), ..lens.clone() };
                worlds.push(judge.judge(&lens).await?);
                applied += 1;
            }
            for world in [PossibleState::UnionPreferPending, PossibleState::UnionPreferStored] {
                let lens = EvaluationView { world, ..lens.clone() };
                worlds.push(judge.judge(&lens).await?);
            }
            if fetch_samples(&mut lens, exactness.direct, judge.account(), &worlds, deadline).await
            {
                continue;
            }
            // In another possible state it can have more queries.
            closer = direct_read_need(cluster, exactness, &mut needed, &worlds);
        }
        let read = match closer {
            DirectReadNeed::Enough => None,
            DirectReadNeed::Read(direct) => Some(direct.fresh(cluster, &needed, deadline).await),
            DirectReadNeed::Instead(direct, why) => {
                // Direct reads instead of a failed watch must not use the whole time of the
                // request.
                let soon = deadline.min(Instant::now() + FALLBACK_READ_TIMEOUT);
                let read = direct.fresh(cluster, &needed, soon).await;
                Some(read.map_err(|error| format!("{why}; read directly: {error}")))
            }
            DirectReadNeed::Fail(why) => Some(Err(why)),
        };
        match read {
            None => {}
            Some(Ok(fresh)) => {
                lens.fresh = Some(fresh.into());
                continue;
            }
            Some(Err(why)) => return Ok(judge.without_answer(first(worlds)?.verdict, &why)),
        }
        let all = |allows: bool| worlds.iter().all(|world| world.allows == allows);
        if all(false) {
            if confirmed < confirm::MAX_ROUNDS
                && let (Some(direct), Some(stored)) = (exactness.direct, worlds.first())
                && stored.is_sound
                && !stored.grounds.is_empty()
            {
                confirmed += 1;
                let read = confirm(cluster, direct, &stored.grounds, deadline).await;
                let new = read.namespaces.iter().filter(|(kind, scope)| needed.add(*kind, scope));
                let has_new = new.count() > 0;
                if has_new && let Ok(fresh) = direct.fresh(cluster, &needed, deadline).await {
                    lens.fresh = Some(fresh.into());
                }
                if has_new || read.is_outdated {
                    continue;
                }
            }
            return Ok(first(worlds)?.verdict);
        }
        if !all(true) || worlds.iter().any(|world| world.is_unsure) {
            let mut touched: Vec<_> = worlds.iter().flat_map(|w| w.touched.clone()).collect();
            touched.sort();
            touched.dedup();
            // Requests that were settled during the evaluation need no wait.
            if was_settled(cluster, &seen)
                || patience.wait(cluster, exactness.direct, &touched, deadline).await
            {
                if Instant::now() >= deadline {
                    return Err(EvaluationError::Contention.into());
                }
                continue;
            }
            let named = names(cluster, &touched);
            let denied = worlds.into_iter().find(|world| !world.allows);
            // No evaluation denies, but the requests in progress cannot be evaluated.
            let denied = denied.ok_or(EvaluationError::Contention)?;
            return Ok(judge.with_pending_note(denied.verdict, &named));
        }
        let allowed = worlds.first_mut().ok_or(EvaluationError::Contention)?;
        let Some(write) = judge.change(&mut allowed.verdict)? else {
            return Ok(first(worlds)?.verdict);
        };
        if Instant::now() >= deadline {
            // The client has given up: the request will not be stored.
            return Err(EvaluationError::Late.into());
        }
        let asked: Vec<_> =
            worlds.iter_mut().flat_map(|world| std::mem::take(&mut world.questions)).collect();
        loop {
            // Registered before the attempt, so that no end of a claim is missed.
            let mut ended = std::pin::pin!(cluster.claims.ended().notified());
            ended.as_mut().enable();
            match cluster.reserve(&write, &seen, &asked, claim.as_ref()) {
                Ok(Reserved::Made) => return Ok(first(worlds)?.verdict),
                Ok(_) if Instant::now() >= deadline => {
                    return Err(EvaluationError::Contention.into());
                }
                Ok(Reserved::Outdated) => break,
                Ok(Reserved::Claimed) => {
                    let until = deadline.min(Instant::now() + CLAIM_RECHECK_INTERVAL);
                    let _ = tokio::time::timeout_at(until, ended).await;
                }
                Err(no_room) => match exactness.direct.filter(|_| !has_settled) {
                    Some(direct) => {
                        has_settled = true;
                        let until = deadline.min(Instant::now() + SETTLE);
                        let settled = settle_all(cluster, direct.api());
                        let _ = tokio::time::timeout_at(until, settled).await;
                    }
                    None => return judge.on_reservation_limit(first(worlds)?.verdict, no_room),
                },
            }
        }
        rounds += 1;
        match &claim {
            Some(claim) => claim.set_queries(asked),
            None if rounds >= MAX_ROUNDS_WITHOUT_CLAIM => claim = cluster.claims.claim(asked),
            None => {}
        }
    }
}

/// Lists the samples that the evaluations want, if any. Each of them has a result afterwards, so
/// this ends.
async fn fetch_samples<V>(
    lens: &mut EvaluationView,
    direct: Option<&Direct>,
    payer: Option<&Arc<Account>>,
    worlds: &[Evaluation<V>],
    deadline: Instant,
) -> bool {
    let mut wanted: Vec<(Resource, usize)> = Vec::new();
    for (resource, limit) in worlds.iter().flat_map(|world| &world.wanted) {
        match wanted.iter_mut().find(|(known, _)| known == resource) {
            Some((_, most)) => *most = (*most).max(*limit),
            None => wanted.push((resource.clone(), *limit)),
        }
    }
    if wanted.is_empty() {
        return false;
    }
    let mut samples = lens.samples.take().map(Arc::unwrap_or_clone).unwrap_or_default();
    samples.fetch(&wanted, direct.map(Direct::samples), payer, deadline).await;
    lens.samples = Some(Arc::new(samples));
    true
}

/// Whether any request was settled since.
fn was_settled(cluster: &ClusterState, seen: &[Counters]) -> bool {
    let now = cluster.counters();
    seen.iter().zip(&now).any(|(seen, now)| seen.settled != now.settled)
}

/// The evaluation of the stored objects.
fn first<V>(worlds: Vec<Evaluation<V>>) -> Result<Evaluation<V>, EvaluationError> {
    worlds.into_iter().next().ok_or(EvaluationError::Contention)
}

/// Maximum number of possible states for requests about one object in any of the evaluations.
fn deepest<V>(cluster: &ClusterState, worlds: &[Evaluation<V>]) -> usize {
    let touched = worlds.iter().flat_map(|world| &world.touched);
    let deepest = touched.map(|(kind, key)| depth(cluster, *kind, key)).max().unwrap_or_default();
    // If there are more requests, the last possible state shows none of them.
    deepest.min(MAX_WORLDS + 1)
}

fn depth(cluster: &ClusterState, kind: usize, key: &Key) -> usize {
    cluster.kinds().get(kind).map_or(0, |kind| kind.pending(key).0)
}

fn names(cluster: &ClusterState, touched: &[(usize, Key)]) -> Vec<String> {
    let pending = touched.iter().filter(|(kind, key)| depth(cluster, *kind, key) > 0);
    let name = |(kind, key): &(usize, Key)| {
        let resource = cluster.kinds().get(*kind).map(|kind| &kind.resource().resource);
        let resource = resource.map_or("object", String::as_str);
        if key.namespace.is_empty() {
            format!("{resource} {}", key.name)
        } else {
            format!("{resource} {}/{}", key.namespace, key.name)
        }
    };
    pending.take(3).map(name).collect()
}

/// Whether the queries need a direct read.
enum DirectReadNeed<'d> {
    Enough,
    Read(&'d Direct),
    /// The handling of a watch that fails.
    Instead(&'d Direct, String),
    Fail(String),
}

fn direct_read_need<'d, V>(
    cluster: &ClusterState,
    exactness: ReadConsistency<'d>,
    needed: &mut DirectReadPlan,
    worlds: &[Evaluation<V>],
) -> DirectReadNeed<'d> {
    let mut closer = DirectReadNeed::Enough;
    for (kind, scope) in worlds.iter().flat_map(|world| &world.asked) {
        if !exactness.contested.contains(kind) {
            continue;
        }
        let failing = cluster.kinds().get(*kind).filter(|kind| kind.is_interrupted());
        match (failing, exactness.direct) {
            (None, _) if !exactness.always => {}
            (Some(kind), None) => return DirectReadNeed::Fail(interruption(kind)),
            (Some(kind), _) if cluster.options().interrupted == OnWatchFailure::Fail => {
                return DirectReadNeed::Fail(interruption(kind));
            }
            (Some(failing), Some(direct)) if needed.add(*kind, scope) => {
                closer = DirectReadNeed::Instead(direct, interruption(failing));
            }
            (None, Some(direct)) if needed.add(*kind, scope) => {
                if let DirectReadNeed::Enough = closer {
                    closer = DirectReadNeed::Read(direct);
                }
            }
            _ => {}
        }
    }
    closer
}

fn interruption(kind: &ResourceCache) -> String {
    let status = kind.status();
    let error = status.error.map(|error| format!(": {error}")).unwrap_or_default();
    let seconds = kind.time_since_contact().as_secs();
    format!("the watch of {} fails, it was last heard of {seconds} s ago{error}", kind.resource())
}

/// Waits until the outcome of requests in progress is known.
#[derive(Debug, Default)]
struct SettleWait {
    /// The times when the wait for each object started, and when it was last read.
    of: HashMap<(usize, Key), (Instant, Option<Instant>)>,
}

impl SettleWait {
    /// Waits until a request about `touched` is settled; `false` if that is not possible in time.
    async fn wait(
        &mut self,
        cluster: &ClusterState,
        direct: Option<&Direct>,
        touched: &[(usize, Key)],
        deadline: Instant,
    ) -> bool {
        if touched.len() > MAX_DIRECT_READS {
            return false;
        }
        let before = pending(cluster, touched);
        loop {
            // Registered before any check, so that no change is missed.
            let mut told: Vec<_> = touched
                .iter()
                .filter_map(|(kind, _)| cluster.kinds().get(*kind))
                .map(|kind| Box::pin(kind.settled().notified()))
                .collect();
            for told in &mut told {
                told.as_mut().enable();
            }
            let now = Instant::now();
            if before.is_empty() || pending(cluster, touched) != before {
                return true;
            }
            let due: Vec<_> = before
                .iter()
                .map(|(object, (_, ends))| {
                    let (first, read) = *self.of.entry(object.clone()).or_insert((now, None));
                    let at = match (read, ends) {
                        (None, _) => first + MAX_WATCH_WAIT,
                        (Some(read), Some(ends)) if read < *ends => *ends,
                        _ => now + MAX_WATCH_WAIT,
                    };
                    (object, at)
                })
                .collect();
            let Some(next) = due.iter().map(|(_, at)| *at).min() else { return false };
            if next >= deadline || now >= deadline {
                return false;
            }
            if next > now {
                let woken = select_all(told.iter_mut().map(|told| told.as_mut()));
                if tokio::time::timeout_at(next, woken).await.is_ok() {
                    continue;
                }
            }
            let Some(direct) = direct else { return false };
            let asked = Instant::now();
            let due: Vec<_> = due.into_iter().filter(|(_, at)| *at <= asked).collect();
            let due: Vec<_> = due.into_iter().map(|(object, _)| object.clone()).collect();
            let reads = due.iter().map(|(kind, key)| direct.learn(cluster, *kind, key));
            let read = tokio::time::timeout_at(deadline, join_all(reads)).await;
            for object in due {
                self.of.entry(object).and_modify(|(_, read)| *read = Some(asked));
            }
            let failed = read.map_or(true, |read| read.iter().any(Result::is_err));
            if failed {
                return pending(cluster, touched) != before;
            }
        }
    }
}

type Unknown = Vec<((usize, Key), (usize, Option<Instant>))>;

/// The number of requests in progress about these objects, and the time when the last one ends.
fn pending(cluster: &ClusterState, touched: &[(usize, Key)]) -> Unknown {
    let pending = |object: &(usize, Key)| {
        let (count, ends) = cluster.kinds().get(object.0)?.pending(&object.1);
        (count > 0).then(|| (object.clone(), (count, ends)))
    };
    touched.iter().filter_map(pending).collect()
}
