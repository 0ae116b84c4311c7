//! Evaluates one review: all matching policies are called with the same cluster state, and their
//! verdicts are combined into a decision.

use std::sync::Arc;
use std::time::Instant;

use opgate_document::Account;
use opgate_engine::{CallError, Inputs, SharedCpuTime};

use super::{Evaluate, Evaluation, Observer, POLICY_ERROR_LOG_TARGET};
use crate::cluster::{
    self, ClusterState, EvaluationView, GroundRecorder, ObjectWrite, ReservationLimitReached,
    ResourceId,
};
use crate::policy::{
    AcceptedVerdict, CallContext, CallOutcome, Decision, DecisionBuilder, DecisionInputs, OnError,
    Overload, Policy, PolicyError, ReviewTime, Tenant, call, response, write_log_lines,
};
use crate::review::Review;
use crate::step::{Step, StepRecorder, StepTimer};

/// The policies that evaluate one review.
pub(super) struct ReviewEvaluator<'b, O> {
    pub(super) cluster: &'b ClusterState,
    /// Resources that reviews change and policies read.
    pub(super) conflicting_resources: &'b [ResourceId],
    pub(super) review: &'b Review<'b>,
    /// The part of the decision that does not depend on the verdicts.
    pub(super) builder: DecisionBuilder,
    pub(super) matching: Vec<&'b Arc<Policy>>,
    pub(super) inputs: Arc<Inputs>,
    /// The tenant whose permits and time the calls use.
    pub(super) tenant: Tenant,
    pub(super) deadline: Instant,
    /// CPU time of the review.
    pub(super) time: ReviewTime,
    pub(super) observer: &'b O,
}

impl<O> ReviewEvaluator<'_, O> {
    /// The verdict if the calls of some policies have failed, for this reason.
    fn with_failed_calls(
        &self,
        mut combined: CombinedVerdict,
        why: &str,
        has_failed: impl Fn(&PolicyResult) -> bool,
    ) -> CombinedVerdict {
        for (policy, policy_result) in self.matching.iter().zip(&mut combined.policy_results) {
            if has_failed(policy_result) {
                let error = CallError::CacheNotReady(why.to_owned());
                policy.record_error(error.to_string());
                policy_result.verdict = CallVerdict::Failed(error);
            }
        }
        let mut builder = self.builder.clone();
        // An overload would have been reported earlier.
        let _ = combine(&mut builder, &self.matching, &combined.policy_results);
        let server_state = Some(why.to_owned());
        CombinedVerdict { decision: builder.build(), server_state, ..combined }
    }
}

impl<O: Observer> Evaluate for ReviewEvaluator<'_, O> {
    type Verdict = CombinedVerdict;
    type Overload = Overload;

    fn account(&self) -> Option<&Arc<Account>> {
        self.review.account()
    }

    fn steps(&self) -> Option<&dyn StepRecorder> {
        self.observer.steps()
    }

    async fn evaluate(
        &self,
        evaluation_view: &EvaluationView,
    ) -> Result<Evaluation<CombinedVerdict>, Overload> {
        let own = self.cluster.hidden_object(self.review);
        let reviewed = self.cluster.reviewed_object(self.review);
        let records_reads = self.observer.records_reads();
        let evaluation_view =
            &EvaluationView { hidden: own, reviewed, records_reads, ..evaluation_view.clone() };
        let time = self.time.begin()?;
        let calls = self
            .matching
            .iter()
            .map(|policy| call_policy(policy, self, evaluation_view, time.as_ref()));
        let mut policy_results: Vec<_> = futures_util::future::join_all(calls).await;
        let asked =
            policy_results.iter().flat_map(|policy_result| policy_result.queries.clone()).collect();
        let recorded_queries = policy_results
            .iter_mut()
            .flat_map(|policy_result| std::mem::take(&mut policy_result.recorded_queries))
            .collect();
        let pending_objects = policy_results
            .iter()
            .flat_map(|policy_result| policy_result.pending_objects.clone())
            .collect();
        let needed_samples = policy_results
            .iter()
            .flat_map(|policy_result| policy_result.needed_samples.clone())
            .collect();
        let (overload, decision) = self.time.charge_work(time.as_ref(), || {
            let mut builder = self.builder.clone();
            let overload = combine(&mut builder, &self.matching, &policy_results);
            (overload, builder.build())
        });
        let ended = self.time.end(time.as_ref());
        let overload = overload.or(ended);
        if let Some(overload) = overload
            && decision.denial.is_none()
        {
            // A denial by one policy is final, whatever the verdicts of the others.
            return Err(overload);
        }
        let is_sound = decision.failure.is_none();
        let allows = is_sound && decision.denial.is_none();
        let is_unsure = policy_results.iter().any(|policy_result| policy_result.is_unsure);
        let grounds = decision.denial.as_ref().map_or_else(Vec::new, |denial| {
            let denying = policy_results.iter_mut().filter(|policy_result| policy_result.denies());
            let grounds = denying.map(|policy_result| std::mem::take(&mut policy_result.grounds));
            grounds.flat_map(|grounds| grounds.into_denial_grounds(&denial.message)).collect()
        });
        let verdict = CombinedVerdict::new(decision, policy_results);
        Ok(Evaluation {
            verdict,
            allows,
            is_valid: is_sound,
            queries: asked,
            recorded_queries,
            pending_objects,
            is_unsure,
            grounds,
            needed_samples,
        })
    }

    fn on_failed_read(&self, combined: CombinedVerdict, why: &str) -> CombinedVerdict {
        self.with_failed_calls(combined, why, |result| {
            result.queries.iter().any(|(kind, _)| self.conflicting_resources.contains(kind))
        })
    }

    /// Another request can depend on the object, also if no policy has queried anything for this one.
    fn on_unshared_reservation(&self, combined: CombinedVerdict, why: &str) -> CombinedVerdict {
        self.with_failed_calls(combined, why, |_| true)
    }

    fn with_pending_note(
        &self,
        mut combined: CombinedVerdict,
        objects: &[String],
    ) -> CombinedVerdict {
        combined.pending_objects = objects.to_vec();
        if let Some(denial) = &mut combined.decision.denial {
            let objects = objects.join(", ");
            let why = format!(
                "\nconflicts with {objects}, allowed moments ago and not yet stored; try again"
            );
            denial.message.push_str(&why);
        }
        combined
    }

    fn change(&self, combined: &mut CombinedVerdict) -> Result<Option<ObjectWrite>, Overload> {
        let Inputs { object, old_object, .. } = self.inputs.as_ref();
        let change = || self.cluster.change(self.review, object.as_ref(), old_object.as_ref());
        let write = self.time.charge_work(None, change);
        if write.is_some() {
            // A request without a response is not stored, and so must not be reserved.
            reserve_response_memory(self.review, &mut combined.decision)?;
        }
        Ok(write)
    }

    fn on_reservation_limit(
        &self,
        combined: CombinedVerdict,
        no_room: ReservationLimitReached,
    ) -> Result<CombinedVerdict, Overload> {
        // Policies that cannot block must not block because of the reservations of others.
        if self.matching.iter().any(|policy| policy.is_enforced()) {
            return Err(Overload::ReservationLimit { why: no_room.reason });
        }
        Ok(combined)
    }
}

/// The results of all policies with one cluster state.
pub(super) struct CombinedVerdict {
    pub(super) decision: Decision,
    policy_results: Vec<PolicyResult>,
    /// Objects of unsettled requests that the denial names.
    pending_objects: Vec<String>,
    /// The reason why the calls of some policies count as failed.
    server_state: Option<String>,
}

impl CombinedVerdict {
    fn new(decision: Decision, policy_results: Vec<PolicyResult>) -> Self {
        Self { decision, policy_results, pending_objects: Vec::new(), server_state: None }
    }

    /// The decision, with its inputs if reads were recorded or repeated.
    pub(super) fn into_decision(self, matching: &[&Arc<Policy>]) -> Decision {
        let Self { mut decision, policy_results, pending_objects, server_state } = self;
        let mut inputs = DecisionInputs { pending_objects, server_state, ..Default::default() };
        for (policy, result) in matching.iter().zip(policy_results) {
            inputs.reads.extend(result.call_reads.map(|reads| (policy.name.clone(), reads)));
            let missing = result.missing_reads.into_iter();
            inputs.missing_reads.extend(missing.map(|query| (policy.name.clone(), query)));
        }
        let is_empty = inputs.reads.is_empty()
            && inputs.pending_objects.is_empty()
            && inputs.server_state.is_none()
            && inputs.missing_reads.is_empty();
        decision.inputs = (!is_empty).then(|| Arc::new(inputs));
        decision
    }
}

/// What became of the call of one policy.
enum CallVerdict {
    Accepted(AcceptedVerdict),
    Failed(CallError),
    /// It did not start.
    NotStarted(Overload),
}

/// The result of one policy.
struct PolicyResult {
    verdict: CallVerdict,
    queries: Vec<(ResourceId, cluster::QueryScope)>,
    recorded_queries: Vec<(ResourceId, cluster::RecordedQuery)>,
    pending_objects: Vec<(ResourceId, opgate_cluster::Key)>,
    is_unsure: bool,
    grounds: GroundRecorder,
    needed_samples: Vec<(opgate_cluster::Resource, usize)>,
    call_reads: Option<cluster::CallReads>,
    missing_reads: Vec<String>,
}

impl PolicyResult {
    /// Whether its policy denies the request.
    fn denies(&self) -> bool {
        matches!(&self.verdict, CallVerdict::Accepted(verdict) if verdict.denies())
    }

    fn from_overload(overload: Overload) -> Self {
        let (asked, recorded_queries, pending_objects, needed_samples) = Default::default();
        let (is_unsure, grounds) = Default::default();
        Self {
            verdict: CallVerdict::NotStarted(overload),
            queries: asked,
            recorded_queries,
            pending_objects,
            is_unsure,
            grounds,
            needed_samples,
            call_reads: None,
            missing_reads: Vec::new(),
        }
    }
}

/// The cause of a call that an overload prevents, in its step.
const OVERLOAD_CAUSE: &str = "overload";

/// Calls one policy, writes its log lines, and accepts its verdict.
async fn call_policy<O: Observer>(
    policy: &Arc<Policy>,
    evaluator: &ReviewEvaluator<'_, O>,
    evaluation_view: &EvaluationView,
    time: Option<&Arc<SharedCpuTime>>,
) -> PolicyResult {
    let ReviewEvaluator { inputs, tenant, deadline, observer, .. } = evaluator;
    let started = Instant::now();
    let context = CallContext {
        review: evaluator.review,
        tenant: *tenant,
        shared_time: time,
        deadline: *deadline,
        step: StepTimer::start(observer.steps()),
    };
    let step = context.step;
    let asked = call(policy, inputs, evaluation_view, context).await;
    let CallOutcome { call, dropped_error: dropped } = match asked {
        Ok(asked) => asked,
        Err(overload) => {
            end_call_step(step, policy, || (Vec::new(), Some(OVERLOAD_CAUSE.to_owned())));
            return PolicyResult::from_overload(overload);
        }
    };
    let trace_id = observer.steps().map(StepRecorder::trace_id);
    // The policy error has the last line of a call that panicked.
    let is_panic = matches!(call.result, Err(CallError::Panic(_)));
    let line_count = call.log.len().saturating_sub(usize::from(is_panic));
    write_log_lines(&policy.name, trace_id, call.log.get(..line_count).unwrap_or_default());
    let mut accepted_verdict = evaluator.time.charge_work(time, || {
        call.result
            .and_then(|verdict| AcceptedVerdict::of(policy, verdict, evaluator.review.account()))
    });
    if let (Ok(accepted_verdict), Some(error)) = (&mut accepted_verdict, dropped) {
        let rules = policy.advisory_rules_for(evaluator.review);
        tracing::warn!(
            policy = policy.name, rules = ?rules, cause = %error, trace_id,
            "advisory rules dropped after a policy error"
        );
        accepted_verdict.set_dropped(policy, rules, &error);
    }
    observer.on_call(policy, started.elapsed());
    end_call_step(step, policy, || rules_and_error(&accepted_verdict));
    // A call that wants a sample is repeated with it.
    if let Err(error) = &accepted_verdict
        && !matches!(error, CallError::SampleNeeded(_))
    {
        policy.record_error(error.to_string());
        let uid = opgate_text::one_line(inputs.request.uid(), 128);
        tracing::error!(
            target: POLICY_ERROR_LOG_TARGET, policy = policy.name, uid, cause = %error, trace_id,
            "policy evaluation failed"
        );
    }
    let mut reader = call.reader.and_then(cluster::Reader::of);
    if let Some(reader) = &mut reader {
        observer.on_queries(policy, reader.take_query_stats());
    }
    let asked = reader.as_ref().map(|reader| reader.queries().to_vec()).unwrap_or_default();
    let pending_objects =
        reader.as_ref().map(|reader| reader.pending_objects().to_vec()).unwrap_or_default();
    let needed_samples =
        reader.as_ref().map(|reader| reader.needed_samples().to_vec()).unwrap_or_default();
    let is_unsure = reader.as_ref().is_some_and(cluster::Reader::is_unsure);
    let grounds = reader.as_mut().map(cluster::Reader::take_grounds).unwrap_or_default();
    let call_reads = reader.as_mut().and_then(cluster::Reader::take_call_reads);
    let missing_reads =
        reader.as_mut().map(cluster::Reader::take_missing_reads).unwrap_or_default();
    let recorded_queries = reader.map(cluster::Reader::into_recorded_queries).unwrap_or_default();
    PolicyResult {
        verdict: match accepted_verdict {
            Ok(verdict) => CallVerdict::Accepted(verdict),
            Err(error) => CallVerdict::Failed(error),
        },
        queries: asked,
        recorded_queries,
        pending_objects,
        is_unsure,
        grounds,
        needed_samples,
        call_reads,
        missing_reads,
    }
}

/// Ends the step of a call with its violated rules and its error, if the request is traced.
fn end_call_step<'v>(
    step: StepTimer<'_>,
    policy: &Policy,
    result: impl FnOnce() -> (Vec<&'v str>, Option<String>),
) {
    if step.is_on() {
        let (rules, error) = result();
        let version = &policy.descriptor.version;
        let (policy, rules, error) = (&policy.name, &rules, error.as_deref());
        step.end(Step::Call { policy, version, rules, error });
    }
}

/// The violated rules or the policy error of a call. A call that wants a sample is repeated with it.
fn rules_and_error(verdict: &Result<AcceptedVerdict, CallError>) -> (Vec<&str>, Option<String>) {
    match verdict {
        Ok(verdict) => (verdict.violated_rules(), None),
        Err(CallError::SampleNeeded(_)) => (Vec::new(), None),
        // The text of an error can contain what a policy has read.
        Err(error) => (Vec::new(), Some(error.cause().to_owned())),
    }
}

/// Combines the results into a decision. Returns the overload that keeps a policy from blocking.
fn combine(
    builder: &mut DecisionBuilder,
    matching: &[&Arc<Policy>],
    policy_results: &[PolicyResult],
) -> Option<Overload> {
    let mut overload = None;
    for (policy, policy_result) in matching.iter().zip(policy_results) {
        match &policy_result.verdict {
            CallVerdict::Accepted(verdict) => builder.add_verdict(policy, verdict.clone()),
            CallVerdict::Failed(CallError::Listing(resource)) if policy.is_enforced() => {
                let (policy, resource) = (policy.name.clone(), resource.clone());
                overload = overload.or(Some(Overload::Listing { policy, resource }));
            }
            CallVerdict::Failed(error) if error.is_overload() && policy.is_enforced() => {
                let (policy, why) = (policy.name.clone(), error.to_string());
                overload = overload.or(Some(Overload::Starved { policy, why }));
            }
            CallVerdict::NotStarted(reason) if policy.is_enforced() => {
                overload = overload.or(Some(reason.clone()));
            }
            CallVerdict::NotStarted(reason) => {
                let error = policy_error(policy, reason.to_string(), "overload");
                builder.add_policy_error(error, policy.mode, policy.on_error);
            }
            CallVerdict::Failed(error) => {
                // The users whose requests a policy evaluates can determine its load.
                let on_error = match policy.on_error {
                    OnError::Allow if !error.can_be_allowed() => OnError::FailurePolicy,
                    on_error => on_error,
                };
                let error = policy_error(policy, error.to_string(), error.cause());
                builder.add_policy_error(error, policy.mode, on_error);
            }
        }
    }
    overload
}

fn policy_error(policy: &Policy, cause: String, class: &'static str) -> PolicyError {
    PolicyError { policy: policy.name.clone(), cause, class }
}

/// Reserves memory for the response, so that a decision can be sent.
pub(super) fn reserve_response_memory(
    review: &Review<'_>,
    decision: &mut Decision,
) -> Result<(), Overload> {
    let Some(account) = review.account() else { return Ok(()) };
    // After memory was denied, look-ups may have seemed empty. A response is measured once.
    let is_whole = !account.is_exhausted();
    let has_room = |decision: &mut Decision| {
        decision.has_response_memory()
            || decision.reserve_response_memory(account, response::body_size(review, decision))
    };
    if is_whole && has_room(decision) { Ok(()) } else { Err(Overload::Memory) }
}
