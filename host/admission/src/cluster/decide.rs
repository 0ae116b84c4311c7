//! What is allowed is what is stored: a verdict that holds whatever becomes of the requests under way.
//!
//! ```text
//! judge(Stored) ─ asked what must be exact? ─▶ direct read, again
//!       │
//!       ├─ no reservation touched ───────────────────────────────────────────▶ verdict
//!       └─ touched ─▶ judge(Applied …, Together, Apart) ─ all allow, all deny ──▶ verdict
//!                            │
//!                            └─ they differ ─▶ wait for the watch, then one direct read of what was
//!                               touched ─▶ settled: again; time is over: deny
//! verdict allows, changes something ─▶ reserve ─ what was asked may have changed ─▶ again; after three
//!                               rounds with a claim, for which others wait (claims)
//! ```

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use opgate_cluster::Key;
use tokio::time::Instant;

use super::claims::LOOK_AGAIN;
use super::lens::{Lens, Needed, Scope, World};
use super::{Cluster, Counters, Direct, Kind, NoRoom, Question, Reserved, Source, Write};

/// The longest that one who needs to know waits for the watch before asking directly: the watch
/// usually takes milliseconds.
const WATCH_FIRST: Duration = Duration::from_millis(50);

/// The longest that a direct read takes in place of a watch that fails.
const INSTEAD: Duration = Duration::from_secs(3);

/// Objects of one request that are read directly. A verdict that hangs on more requests under way
/// than this is a denial.
const MOST_READ: usize = 32;

/// After so many rounds in which others changed what was asked, they have to wait.
const MOST_ROUNDS: u32 = 3;

/// What becomes of questions that must be exact while the watch of their resource fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Interrupted {
    /// The API server is asked directly.
    Read,
    /// The call is a fault.
    Fail,
}

/// One who judges a request by the cluster as a lens shows it.
pub trait Judge {
    /// What it says in the end.
    type Verdict;
    /// Why it says nothing.
    type Overload: From<Unsettled>;

    /// Judges.
    ///
    /// # Errors
    /// Where there is too much to do.
    fn judge(
        &self,
        lens: &Lens,
    ) -> impl Future<Output = Result<Asked<Self::Verdict>, Self::Overload>>;

    /// Takes back what rests on the kinds about which there is no answer.
    fn without_answer(&self, verdict: Self::Verdict, why: &str) -> Self::Verdict;

    /// Says in a denial that it rests on requests about these objects that are not settled.
    fn resting_on(&self, verdict: Self::Verdict, objects: &[String]) -> Self::Verdict;

    /// What it changes where it is allowed. After this nothing keeps the verdict from being said.
    ///
    /// # Errors
    /// Where it cannot be said.
    fn change(&self, verdict: &mut Self::Verdict) -> Result<Option<Write>, Self::Overload>;

    /// What becomes of an allowed request that cannot be reserved.
    ///
    /// # Errors
    /// Where it must not pass.
    fn without_room(&self, verdict: Self::Verdict) -> Result<Self::Verdict, Self::Overload>;
}

/// A judgement, and what it rests on.
#[derive(Debug)]
pub struct Asked<V> {
    /// What was said.
    pub verdict: V,
    /// Whether it allows.
    pub allows: bool,
    /// Whether it is one at all, not a fault.
    pub is_sound: bool,
    /// What was asked, by kind.
    pub asked: Vec<(usize, Scope)>,
    /// The same, as exactly as it was asked.
    pub questions: Vec<(usize, Question)>,
    /// Objects that make the answers other ones in other worlds.
    pub touched: Vec<(usize, Key)>,
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsettled {
    /// Others changed the same objects again and again until the time was up.
    Contention,
    /// Too much is reserved.
    NoRoom,
    /// The time of the request was over before it was decided.
    Late,
}

/// What must be known exactly.
#[derive(Debug, Clone, Copy)]
pub struct Exactness<'d> {
    /// Who is asked directly.
    pub direct: Option<&'d Direct>,
    /// Always, not only while a watch fails.
    pub always: bool,
    /// Kinds that come under review and are read: two requests can get in each other's way there.
    pub contested: &'d [usize],
}

/// Decides a request. It ends at the deadline at the latest.
///
/// # Errors
/// Where there is no verdict.
pub async fn decide<J: Judge>(
    cluster: &Cluster,
    exactness: Exactness<'_>,
    deadline: Instant,
    judge: &J,
) -> Result<J::Verdict, J::Overload> {
    let mut lens = Lens::default();
    if cluster.options().source != Source::Live {
        // Nothing is under way, and there is nobody to ask.
        return Ok(judge.judge(&lens).await?.verdict);
    }
    let mut needed = Needed::default();
    let mut patience = Patience::default();
    let (mut rounds, mut claim) = (0, None);
    loop {
        // Before anything is asked: what is reserved from now on is noticed.
        let seen = cluster.counters();
        let mut worlds = vec![judge.judge(&lens).await?];
        let mut closer = look_closer(cluster, exactness, &mut needed, &worlds);
        if let (Closer::Enough, Some(stored)) = (&closer, worlds.first())
            && stored.is_sound
            && !stored.touched.is_empty()
        {
            // In one world it may follow what it sees to objects that it does not ask for in another.
            let mut applied = 0;
            while applied < deepest(cluster, &worlds) {
                let lens = Lens { world: World::Applied(applied), ..lens.clone() };
                worlds.push(judge.judge(&lens).await?);
                applied += 1;
            }
            for world in [World::Together, World::Apart] {
                let lens = Lens { world, ..lens.clone() };
                worlds.push(judge.judge(&lens).await?);
            }
            // In another world it may ask for more.
            closer = look_closer(cluster, exactness, &mut needed, &worlds);
        }
        let read = match closer {
            Closer::Enough => None,
            Closer::Read(direct) => Some(direct.fresh(cluster, &needed, deadline).await),
            Closer::Instead(direct, why) => {
                // A view of the past is not worth the whole time of the request.
                let soon = deadline.min(Instant::now() + INSTEAD);
                let read = direct.fresh(cluster, &needed, soon).await;
                Some(read.map_err(|error| format!("{why}; read directly: {error}")))
            }
            Closer::Fail(why) => Some(Err(why)),
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
            return Ok(first(worlds)?.verdict);
        }
        if !all(true) {
            let mut touched: Vec<_> = worlds.iter().flat_map(|w| w.touched.clone()).collect();
            touched.sort();
            touched.dedup();
            // What was settled while it was judged needs no wait.
            if was_settled(cluster, &seen)
                || patience.wait(cluster, exactness.direct, &touched, deadline).await
            {
                if Instant::now() >= deadline {
                    return Err(Unsettled::Contention.into());
                }
                continue;
            }
            let named = names(cluster, &touched);
            let denied = worlds.into_iter().find(|world| !world.allows);
            let denied = denied.ok_or(Unsettled::Contention)?;
            return Ok(judge.resting_on(denied.verdict, &named));
        }
        let allowed = worlds.first_mut().ok_or(Unsettled::Contention)?;
        let Some(write) = judge.change(&mut allowed.verdict)? else {
            return Ok(first(worlds)?.verdict);
        };
        if Instant::now() >= deadline {
            // Whoever asked has given up: nothing will be stored.
            return Err(Unsettled::Late.into());
        }
        let asked: Vec<_> =
            worlds.iter_mut().flat_map(|world| std::mem::take(&mut world.questions)).collect();
        loop {
            // Registered before it is tried: no end is missed.
            let mut ended = std::pin::pin!(cluster.claims.ended().notified());
            ended.as_mut().enable();
            match cluster.reserve(&write, &seen, &asked, claim.as_ref()) {
                Ok(Reserved::Made) => return Ok(first(worlds)?.verdict),
                Ok(_) if Instant::now() >= deadline => return Err(Unsettled::Contention.into()),
                Ok(Reserved::Outdated) => break,
                Ok(Reserved::Claimed) => {
                    let until = deadline.min(Instant::now() + LOOK_AGAIN);
                    let _ = tokio::time::timeout_at(until, ended).await;
                }
                Err(NoRoom) => return judge.without_room(first(worlds)?.verdict),
            }
        }
        rounds += 1;
        match &claim {
            Some(claim) => claim.asks(asked),
            None if rounds >= MOST_ROUNDS => claim = cluster.claims.claim(asked),
            None => {}
        }
    }
}

/// Whether anything was settled since.
fn was_settled(cluster: &Cluster, seen: &[Counters]) -> bool {
    let now = cluster.counters();
    seen.iter().zip(&now).any(|(seen, now)| seen.settled != now.settled)
}

/// The judgement of what is stored.
fn first<V>(worlds: Vec<Asked<V>>) -> Result<Asked<V>, Unsettled> {
    worlds.into_iter().next().ok_or(Unsettled::Contention)
}

/// Most requests about one object that any of the judgements touches.
fn deepest<V>(cluster: &Cluster, worlds: &[Asked<V>]) -> usize {
    let touched = worlds.iter().flat_map(|world| &world.touched);
    touched.map(|(kind, key)| depth(cluster, *kind, key)).max().unwrap_or_default()
}

fn depth(cluster: &Cluster, kind: usize, key: &Key) -> usize {
    cluster.kinds().get(kind).map_or(0, |kind| kind.pending(key).0)
}

fn names(cluster: &Cluster, touched: &[(usize, Key)]) -> Vec<String> {
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

/// Whether what was asked has to be read directly.
enum Closer<'d> {
    Enough,
    Read(&'d Direct),
    /// Instead of a watch that fails: how.
    Instead(&'d Direct, String),
    Fail(String),
}

fn look_closer<'d, V>(
    cluster: &Cluster,
    exactness: Exactness<'d>,
    needed: &mut Needed,
    worlds: &[Asked<V>],
) -> Closer<'d> {
    let mut closer = Closer::Enough;
    for (kind, scope) in worlds.iter().flat_map(|world| &world.asked) {
        if !exactness.contested.contains(kind) {
            continue;
        }
        let failing = cluster.kinds().get(*kind).filter(|kind| kind.is_interrupted());
        match (failing, exactness.direct) {
            (None, _) if !exactness.always => {}
            (Some(kind), None) => return Closer::Fail(interruption(kind)),
            (Some(kind), _) if cluster.options().interrupted == Interrupted::Fail => {
                return Closer::Fail(interruption(kind));
            }
            (Some(failing), Some(direct)) if needed.add(*kind, scope) => {
                closer = Closer::Instead(direct, interruption(failing));
            }
            (None, Some(direct)) if needed.add(*kind, scope) => {
                if let Closer::Enough = closer {
                    closer = Closer::Read(direct);
                }
            }
            _ => {}
        }
    }
    closer
}

fn interruption(kind: &Kind) -> String {
    let status = kind.status();
    let error = status.error.map(|error| format!(": {error}")).unwrap_or_default();
    let seconds = kind.silence().as_secs();
    format!("the watch of {} fails, it was last heard of {seconds} s ago{error}", kind.resource())
}

/// Waits until it is known what became of requests under way.
#[derive(Debug, Default)]
struct Patience {
    /// When each object was first waited for, and last read.
    of: HashMap<(usize, Key), (Instant, Option<Instant>)>,
}

impl Patience {
    /// Waits until something of `touched` is settled; `false` where that cannot be known in time.
    async fn wait(
        &mut self,
        cluster: &Cluster,
        direct: Option<&Direct>,
        touched: &[(usize, Key)],
        deadline: Instant,
    ) -> bool {
        if touched.len() > MOST_READ {
            return false;
        }
        let before = pending(cluster, touched);
        loop {
            // Registered before anything is looked at: nothing is missed.
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
                        (None, _) => first + WATCH_FIRST,
                        (Some(read), Some(ends)) if read < *ends => *ends,
                        _ => now + WATCH_FIRST,
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

/// Those of the objects about which requests are under way: how many, and when the last one ends.
fn pending(cluster: &Cluster, touched: &[(usize, Key)]) -> Unknown {
    let pending = |object: &(usize, Key)| {
        let (count, ends) = cluster.kinds().get(object.0)?.pending(&object.1);
        (count > 0).then(|| (object.clone(), (count, ends)))
    };
    touched.iter().filter_map(pending).collect()
}
