//! Makes a verdict that holds whatever the outcome of the requests in progress.
//!
//! ```text
//! gather: evaluate in Stored ─ and, if requests in progress matter, in Pending …, UnionPrefer…
//!    │         needs samples: fetch them, gather again
//! read_directly: a conflict is possible and the watch is not enough ─▶ gather again
//!    │
//!    ├─ all deny ──▶ confirm: one read of the grounds ─ something new ─▶ gather again
//!    │                                                └▶ the denial
//!    ├─ they differ ▶ settle: wait for the watch, then read the objects ─ settled ─▶ gather again
//!    │                                                                  └ no time ─▶ the denial
//!    └─ all allow ─▶ reserve the change ─ a result may have changed ─▶ gather again
//!                                       └▶ the verdict
//! ```

use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::{Key, Resource};
use opgate_document::Account;
use tokio::time::Instant;

use super::await_outcomes::{SettleWait, has_settled_since, max_pending_depth, object_names};
use super::read_need::{DirectReadNeed, ReadConsistency, direct_read_need};
use crate::cluster::{
    CLAIM_RECHECK_INTERVAL, Claim, ClusterState, DenialGround, DirectReadError, DirectReadPlan,
    DirectReader, DirectReads, EvaluationView, LedgerMark, MAX_CONFIRMATIONS, ObjectWrite,
    OpenReservation, PossibleState, QueryScope, RecordedQuery, ReservationCounters,
    ReservationLimitReached, ReservationResult, ResourceId, ShareError, SharedQuery, Source,
    confirm, settle_all,
};
use crate::policy::Overload;
use crate::step::{ClusterWait, StepRecorder, StepTimer};

/// Maximum time of a direct read that replaces a watch that fails.
const FALLBACK_READ_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time for settling ended reservations when the limit is reached.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of rounds with changes by others after which those must wait.
const MAX_ROUNDS_WITHOUT_CLAIM: u32 = 3;

/// Evaluates a request with cluster state as a view shows it.
pub(crate) trait Evaluate {
    /// The combined verdict.
    type Verdict;
    /// The reason why the evaluation failed.
    type Overload: From<EvaluationError>;

    /// The account that samples are charged to.
    fn account(&self) -> Option<&Arc<Account>> {
        None
    }

    /// The recorder of the steps, if the request is traced.
    fn steps(&self) -> Option<&dyn StepRecorder> {
        None
    }

    /// Evaluates the request.
    ///
    /// # Errors
    /// If the server is overloaded.
    fn evaluate(
        &self,
        view: &EvaluationView,
    ) -> impl Future<Output = Result<Evaluation<Self::Verdict>, Self::Overload>>;

    /// Removes violations that depend on kinds without a result.
    fn on_failed_read(&self, verdict: Self::Verdict, why: &str) -> Self::Verdict;

    /// Fails what would allow a request whose reservation the other replicas cannot see.
    fn on_unshared_reservation(&self, verdict: Self::Verdict, why: &str) -> Self::Verdict {
        self.on_failed_read(verdict, why)
    }

    /// Notes in a denial that it depends on unsettled requests about these objects.
    fn with_pending_note(&self, verdict: Self::Verdict, objects: &[String]) -> Self::Verdict;

    /// The change that the request makes if it is allowed. After this, the verdict can be sent in
    /// any case.
    ///
    /// # Errors
    /// If it cannot be sent.
    fn change(&self, verdict: &mut Self::Verdict) -> Result<Option<ObjectWrite>, Self::Overload>;

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
pub(crate) struct Evaluation<V> {
    /// The verdict.
    pub(crate) verdict: V,
    /// Whether it allows the request.
    pub(crate) allows: bool,
    /// Whether it is a valid verdict, not a policy error.
    pub(crate) is_valid: bool,
    /// The queries, by kind.
    pub(crate) queries: Vec<(ResourceId, QueryScope)>,
    /// The queries, with their full precision.
    pub(crate) recorded_queries: Vec<(ResourceId, RecordedQuery)>,
    /// Objects that change the results in other possible states.
    pub(crate) pending_objects: Vec<(ResourceId, Key)>,
    /// Whether the possible state could not show one of them as it may be stored. The verdict then
    /// does not depend on that object's content.
    pub(crate) is_unsure: bool,
    /// The grounds of a denial, the most likely first.
    pub(crate) grounds: Vec<DenialGround>,
    /// Resources that must be listed before the evaluation can succeed, each with the number of
    /// objects.
    pub(crate) needed_samples: Vec<(Resource, usize)>,
}

/// The reason why the decision failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvaluationError {
    /// Other requests changed the same objects repeatedly until the deadline.
    Contention,
    /// The deadline of the request passed before the decision.
    Late,
}

impl From<EvaluationError> for Overload {
    fn from(unsettled: EvaluationError) -> Self {
        match unsettled {
            EvaluationError::Contention => Self::Contention,
            EvaluationError::Late => Self::Late,
        }
    }
}

/// Decides a request before the deadline.
///
/// # Errors
/// If no decision was reached.
pub(crate) async fn decide<E: Evaluate>(
    cluster: &ClusterState,
    consistency: ReadConsistency<'_>,
    deadline: Instant,
    evaluator: &E,
) -> Result<E::Verdict, E::Overload> {
    if cluster.options().source != Source::Live {
        // No request is in progress, and no direct read is needed.
        return Ok(evaluator.evaluate(&EvaluationView::default()).await?.verdict);
    }
    let mut run = Run {
        cluster,
        consistency,
        deadline,
        evaluator,
        evaluation_view: EvaluationView::default(),
        read_plan: DirectReadPlan::default(),
        settle_wait: SettleWait::default(),
        confirmations: 0,
        rounds: 0,
        claim: None,
        has_settled: false,
        ledger_mark: None,
    };
    loop {
        // Before any query: all reservations from now on are detected.
        let seen = cluster.counters();
        run.ledger_mark = cluster.ledger_mark(run.evaluation_view.direct_reads.as_deref());
        let Some((mut evaluations, read_need)) = run.gather().await? else { continue };
        match run.read_directly(read_need).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(reason) => {
                let stored = stored_evaluation(evaluations)?;
                return Ok(evaluator.on_failed_read(stored.verdict, &reason.to_string()));
            }
        }
        let allowing = evaluations.iter().filter(|evaluation| evaluation.allows).count();
        if allowing == 0 {
            if run.confirm(&evaluations).await {
                continue;
            }
            return Ok(stored_evaluation(evaluations)?.verdict);
        }
        if allowing < evaluations.len() || evaluations.iter().any(|e| e.is_unsure) {
            if run.settle(&seen, &evaluations).await? {
                continue;
            }
            return run.deny(evaluations);
        }
        if let Some(verdict) = run.reserve(&seen, &mut evaluations).await? {
            return Ok(verdict);
        }
    }
}

/// The decision about one request: its steps, and what they have learned so far. A step that learns something
/// new has the request evaluated again.
struct Run<'r, E> {
    cluster: &'r ClusterState,
    consistency: ReadConsistency<'r>,
    deadline: Instant,
    evaluator: &'r E,
    /// The cluster state of the next evaluation.
    evaluation_view: EvaluationView,
    /// All queries that were read directly.
    read_plan: DirectReadPlan,
    settle_wait: SettleWait,
    /// The number of confirmed denials.
    confirmations: u32,
    /// The number of attempts to reserve that came too late.
    rounds: u32,
    /// The priority over other requests after too many rounds.
    claim: Option<Claim<'r>>,
    /// Whether ended reservations were settled because the limit was reached.
    has_settled: bool,
    /// What was known of the ledger of all replicas before the first query of this round.
    ledger_mark: Option<LedgerMark>,
}

/// The evaluations in all possible states, that of the stored objects first, and what they need to be read directly.
type Gathered<'r, E> = (Vec<Evaluation<<E as Evaluate>::Verdict>>, DirectReadNeed<'r>);

impl<'r, E: Evaluate> Run<'r, E> {
    /// Evaluates the request with the stored objects and, if requests in progress can change the verdict, in
    /// every other possible state. `None` if samples were fetched that an evaluation needs.
    async fn gather(&mut self) -> Result<Option<Gathered<'r, E>>, E::Overload> {
        let mut evaluations = vec![self.evaluator.evaluate(&self.evaluation_view).await?];
        if self.fetch_samples(&evaluations).await {
            return Ok(None);
        }
        let read_need = self.direct_read_need(&evaluations);
        let has_pending =
            |stored: &Evaluation<_>| stored.is_valid && !stored.pending_objects.is_empty();
        let is_enough = matches!(read_need, DirectReadNeed::NotNeeded);
        if !is_enough || !evaluations.first().is_some_and(has_pending) {
            return Ok(Some((evaluations, read_need)));
        }
        // In one possible state, an evaluation can follow references to objects that it does not query in
        // another.
        let mut applied = 0;
        while applied < max_pending_depth(self.cluster, &all_pending_objects(&evaluations)) {
            evaluations.push(self.evaluate_in(PossibleState::Pending(applied)).await?);
            applied += 1;
        }
        for state in [PossibleState::UnionPreferPending, PossibleState::UnionPreferStored] {
            evaluations.push(self.evaluate_in(state).await?);
        }
        if self.fetch_samples(&evaluations).await {
            return Ok(None);
        }
        // In another possible state it can have more queries.
        let read_need = self.direct_read_need(&evaluations);
        Ok(Some((evaluations, read_need)))
    }

    async fn evaluate_in(
        &self,
        state: PossibleState,
    ) -> Result<Evaluation<E::Verdict>, E::Overload> {
        let evaluation_view = EvaluationView { state, ..self.evaluation_view.clone() };
        self.evaluator.evaluate(&evaluation_view).await
    }

    /// Reads from the API server what the watch cannot show exactly enough. `true` if there is something new.
    async fn read_directly(&mut self, need: DirectReadNeed<'r>) -> Result<bool, DirectReadError> {
        let read = match need {
            DirectReadNeed::NotNeeded => return Ok(false),
            DirectReadNeed::Read(direct) => self.read_planned(direct, self.deadline).await?,
            DirectReadNeed::ReadInstead(direct, reason) => {
                // Direct reads instead of a failed watch must not use the whole time of the request.
                let soon = self.deadline.min(Instant::now() + FALLBACK_READ_TIMEOUT);
                let read = self.read_planned(direct, soon).await;
                read.map_err(|error| DirectReadError(format!("{reason}; read directly: {error}")))?
            }
            DirectReadNeed::Fail(reason) => return Err(DirectReadError(reason)),
        };
        self.evaluation_view.direct_reads = Some(read.into());
        Ok(true)
    }

    /// Reads directly what is in the plan.
    async fn read_planned(
        &self,
        direct: &DirectReader,
        deadline: Instant,
    ) -> Result<DirectReads, DirectReadError> {
        let timer = self.start_step();
        let read = direct.read_all(self.cluster, &self.read_plan, deadline).await;
        timer.end_wait(ClusterWait::DirectRead, || read.as_ref().err().map(ToString::to_string));
        read
    }

    fn start_step(&self) -> StepTimer<'r> {
        StepTimer::start(self.evaluator.steps())
    }

    fn direct_read_need(&mut self, evaluations: &[Evaluation<E::Verdict>]) -> DirectReadNeed<'r> {
        let queries = evaluations.iter().flat_map(|evaluation| &evaluation.queries);
        let direct_reads = self.evaluation_view.direct_reads.as_deref();
        direct_read_need(self.cluster, self.consistency, &mut self.read_plan, direct_reads, queries)
    }

    /// Lists the samples that the evaluations need, if any. Each of them has a result afterwards, so this ends.
    async fn fetch_samples(&mut self, evaluations: &[Evaluation<E::Verdict>]) -> bool {
        let mut needed: Vec<(Resource, usize)> = Vec::new();
        for (resource, limit) in evaluations.iter().flat_map(|e| &e.needed_samples) {
            match needed.iter_mut().find(|(known, _)| known == resource) {
                Some((_, max)) => *max = (*max).max(*limit),
                None => needed.push((resource.clone(), *limit)),
            }
        }
        if needed.is_empty() {
            return false;
        }
        let samples = self.evaluation_view.samples.take();
        let mut samples = samples.map(Arc::unwrap_or_clone).unwrap_or_default();
        let source = self.consistency.direct.map(DirectReader::sample_source);
        let timer = self.start_step();
        samples.fetch(&needed, source, self.evaluator.account(), self.deadline).await;
        timer.end_wait(ClusterWait::Sample, || None);
        self.evaluation_view.samples = Some(Arc::new(samples));
        true
    }

    /// Confirms a denial by a direct read of its grounds. `true` if they have changed.
    async fn confirm(&mut self, evaluations: &[Evaluation<E::Verdict>]) -> bool {
        let (Some(direct), Some(stored)) = (self.consistency.direct, evaluations.first()) else {
            return false;
        };
        if self.confirmations >= MAX_CONFIRMATIONS || !stored.is_valid || stored.grounds.is_empty()
        {
            return false;
        }
        self.confirmations += 1;
        let timer = self.start_step();
        let read = confirm(self.cluster, direct, &stored.grounds, self.deadline).await;
        timer.end_wait(ClusterWait::Confirmation, || None);
        let new = read.empty_namespaces.iter();
        let has_new = new.filter(|(id, scope)| self.read_plan.add(*id, scope)).count() > 0;
        if has_new && let Ok(read) = self.read_planned(direct, self.deadline).await {
            self.evaluation_view.direct_reads = Some(read.into());
        }
        has_new || read.is_outdated
    }

    /// Waits until a request in progress on which the verdict depends is settled. `false` if that is not
    /// possible in time.
    async fn settle(
        &mut self,
        seen: &[ReservationCounters],
        evaluations: &[Evaluation<E::Verdict>],
    ) -> Result<bool, E::Overload> {
        let objects = all_pending_objects(evaluations);
        // Requests that were settled during the evaluation need no wait.
        let is_settled =
            has_settled_since(self.cluster, seen) || self.wait_until_settled(&objects).await;
        if is_settled && Instant::now() >= self.deadline {
            return Err(EvaluationError::Contention.into());
        }
        Ok(is_settled)
    }

    async fn wait_until_settled(&mut self, objects: &[(ResourceId, Key)]) -> bool {
        let timer = self.start_step();
        let direct = self.consistency.direct;
        let is_settled = self.settle_wait.wait(self.cluster, direct, objects, self.deadline).await;
        let error = || (!is_settled).then(|| "not settled in time".to_owned());
        timer.end_wait(ClusterWait::PendingRequests, error);
        is_settled
    }

    /// The denial of a request whose verdict depends on requests in progress.
    fn deny(&self, evaluations: Vec<Evaluation<E::Verdict>>) -> Result<E::Verdict, E::Overload> {
        let objects = object_names(self.cluster, &all_pending_objects(&evaluations));
        let denied = evaluations.into_iter().find(|evaluation| !evaluation.allows);
        // No evaluation denies, but the requests in progress cannot be evaluated.
        let denied = denied.ok_or(EvaluationError::Contention)?;
        Ok(self.evaluator.with_pending_note(denied.verdict, &objects))
    }

    /// Reserves the change of an allowed request. `None` if another request may have changed a result.
    async fn reserve(
        &mut self,
        seen: &[ReservationCounters],
        evaluations: &mut Vec<Evaluation<E::Verdict>>,
    ) -> Result<Option<E::Verdict>, E::Overload> {
        let allowed = evaluations.first_mut().ok_or(EvaluationError::Contention)?;
        let Some(write) = self.evaluator.change(&mut allowed.verdict)? else {
            return Ok(Some(stored_evaluation(std::mem::take(evaluations))?.verdict));
        };
        if Instant::now() >= self.deadline {
            // The client has given up: the request will not be stored.
            return Err(EvaluationError::Late.into());
        }
        self.record_cached_reads(evaluations);
        let queries = evaluations.iter_mut().flat_map(|e| std::mem::take(&mut e.recorded_queries));
        let queries: Vec<_> = queries.collect();
        loop {
            // Registered before the attempt, so that no end of a claim is missed.
            let mut dropped = std::pin::pin!(self.cluster.claims().claim_dropped().notified());
            dropped.as_mut().enable();
            match self.cluster.reserve(&write, seen, &queries, self.claim.as_ref()) {
                Ok(ReservationResult::Made(open)) => {
                    let shared = match open {
                        Some(open) => self.share(*open, &queries).await,
                        None => Ok(()),
                    };
                    let mut stored = || stored_evaluation(std::mem::take(evaluations));
                    return match shared {
                        Ok(()) => Ok(Some(stored()?.verdict)),
                        Err(ShareError::Outdated) if Instant::now() < self.deadline => break,
                        Err(ShareError::Outdated | ShareError::Late) => {
                            Err(EvaluationError::Contention.into())
                        }
                        Err(ShareError::Full(limit)) => {
                            self.evaluator.on_reservation_limit(stored()?.verdict, limit).map(Some)
                        }
                        Err(ShareError::Unavailable(reason)) => {
                            let verdict = stored()?.verdict;
                            Ok(Some(self.evaluator.on_unshared_reservation(verdict, &reason)))
                        }
                    };
                }
                Ok(_) if Instant::now() >= self.deadline => {
                    return Err(EvaluationError::Contention.into());
                }
                Ok(ReservationResult::Outdated) => break,
                Ok(ReservationResult::MustWait) => {
                    let until = self.deadline.min(Instant::now() + CLAIM_RECHECK_INTERVAL);
                    let _ = tokio::time::timeout_at(until, dropped).await;
                }
                Err(limit) => {
                    if let Some(direct) = self.consistency.direct.filter(|_| !self.has_settled) {
                        self.has_settled = true;
                        let until = self.deadline.min(Instant::now() + SETTLE_TIMEOUT);
                        let settled = settle_all(self.cluster, direct.source());
                        let _ = tokio::time::timeout_at(until, settled).await;
                    } else {
                        let stored = stored_evaluation(std::mem::take(evaluations))?;
                        return self
                            .evaluator
                            .on_reservation_limit(stored.verdict, limit)
                            .map(Some);
                    }
                }
            }
        }
        self.count_round(queries);
        Ok(None)
    }

    /// Notes for the ledger which resources were not only read directly: what an evaluation has seen
    /// of them is as old as the cache.
    fn record_cached_reads(&mut self, evaluations: &[Evaluation<E::Verdict>]) {
        let Some(mark) = &mut self.ledger_mark else { return };
        let Some(direct) = self.evaluation_view.direct_reads.as_deref() else { return };
        for (id, scope) in evaluations.iter().flat_map(|evaluation| &evaluation.queries) {
            if direct.listing(*id, scope).is_none() {
                mark.record_cached_read(*id);
            }
        }
    }

    /// Waits until all replicas can see the reservation.
    async fn share(
        &self,
        open: OpenReservation,
        queries: &[(ResourceId, RecordedQuery)],
    ) -> Result<(), ShareError> {
        // No request changes the other resources after an evaluation.
        let conflicting = self.consistency.conflicting_resources;
        let shared = |(id, query): &(ResourceId, RecordedQuery)| {
            let cache = self.cluster.cache(*id).filter(|_| conflicting.contains(id))?.clone();
            Some(SharedQuery { id: *id, cache, query: query.clone() })
        };
        let mark = self.ledger_mark.clone().unwrap_or_default();
        let timer = self.start_step();
        let queries = queries.iter().filter_map(shared).collect();
        let shared = open.share(queries, mark, self.deadline).await;
        timer.end_wait(ClusterWait::LedgerWrite, || shared.as_ref().err().map(ShareError::text));
        shared
    }

    /// Counts an attempt that came too late. After some, the request gets priority.
    fn count_round(&mut self, queries: Vec<(ResourceId, RecordedQuery)>) {
        self.rounds += 1;
        match &self.claim {
            Some(claim) => claim.set_queries(queries),
            None if self.rounds >= MAX_ROUNDS_WITHOUT_CLAIM => {
                self.claim = self.cluster.claims().claim(queries);
            }
            None => {}
        }
    }
}

/// The evaluation of the stored objects.
fn stored_evaluation<V>(evaluations: Vec<Evaluation<V>>) -> Result<Evaluation<V>, EvaluationError> {
    evaluations.into_iter().next().ok_or(EvaluationError::Contention)
}

/// The objects in progress that change the result of any evaluation.
fn all_pending_objects<V>(evaluations: &[Evaluation<V>]) -> Vec<(ResourceId, Key)> {
    let objects = evaluations.iter().flat_map(|evaluation| evaluation.pending_objects.clone());
    let mut objects: Vec<_> = objects.collect();
    objects.sort();
    objects.dedup();
    objects
}
