//! Evaluates one review: all matching policies are called with the same cluster state, and their
//! verdicts are combined into a decision.

use std::sync::Arc;
use std::time::Instant;

use super::decision::{AcceptedVerdict, DecisionBuilder};
use super::dispatch::CallOutcome as Called;
use super::permits::Tenant;
use super::review_time::ReviewTime;
use super::set::Observer;
use super::{Decision, OnError, Overload, Policy, PolicyError, dispatch, response};
use crate::cluster::{
    self, ClusterState, Evaluate, Evaluation, EvaluationView, Grounds, ReservationLimitReached,
    Write,
};
use crate::review::Review;
use opgate_document::Account;
use opgate_engine::{CallError, Inputs, SharedTime};

/// The policies that evaluate one review.
pub(super) struct ReviewEvaluator<'b, O> {
    pub(super) cluster: &'b ClusterState,
    /// Kinds (positions) that reviews change and policies read.
    pub(super) contested: &'b [usize],
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

impl<O: Observer> Evaluate for ReviewEvaluator<'_, O> {
    type Verdict = CombinedVerdict;
    type Overload = Overload;

    fn account(&self) -> Option<&Arc<Account>> {
        self.review.account()
    }

    async fn judge(&self, lens: &EvaluationView) -> Result<Evaluation<CombinedVerdict>, Overload> {
        let own = self.cluster.own(self.review);
        let reviewed = self.cluster.reviewed(self.review);
        let lens = &EvaluationView { own, reviewed, ..lens.clone() };
        let time = self.time.begin()?;
        let calls =
            self.matching.iter().map(|policy| call_policy(policy, self, lens, time.as_ref()));
        let mut answers: Vec<_> = futures_util::future::join_all(calls).await;
        let asked = answers.iter().flat_map(|answer| answer.asked.clone()).collect();
        let questions =
            answers.iter_mut().flat_map(|answer| std::mem::take(&mut answer.questions)).collect();
        let touched = answers.iter().flat_map(|answer| answer.touched.clone()).collect();
        let wanted = answers.iter().flat_map(|answer| answer.wanted.clone()).collect();
        let (overload, decision) = self.time.charged(time.as_ref(), || {
            let mut builder = self.builder.clone();
            let overload = combine(&mut builder, &self.matching, &answers);
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
        let is_unsure = answers.iter().any(|answer| answer.is_unsure);
        let grounds = decision.denial.as_ref().map_or_else(Vec::new, |denial| {
            let denying = answers.iter_mut().filter(|answer| answer.denies());
            let grounds = denying.map(|answer| std::mem::take(&mut answer.grounds));
            grounds.flat_map(|grounds| grounds.of_denial(&denial.message)).collect()
        });
        let verdict = CombinedVerdict { decision, answers };
        Ok(Evaluation {
            verdict,
            allows,
            is_sound,
            asked,
            questions,
            touched,
            is_unsure,
            grounds,
            wanted,
        })
    }

    fn without_answer(&self, mut judged: CombinedVerdict, why: &str) -> CombinedVerdict {
        for (policy, answer) in self.matching.iter().zip(&mut judged.answers) {
            if answer.asked.iter().any(|(kind, _)| self.contested.contains(kind)) {
                let fault = CallError::NotCurrent(why.to_owned());
                policy.note_error(fault.to_string());
                answer.finding = Ok(Err(fault));
            }
        }
        let mut builder = self.builder.clone();
        // An overload would have been reported earlier.
        let _ = combine(&mut builder, &self.matching, &judged.answers);
        CombinedVerdict { decision: builder.build(), ..judged }
    }

    fn with_pending_note(
        &self,
        mut judged: CombinedVerdict,
        objects: &[String],
    ) -> CombinedVerdict {
        if let Some(denial) = &mut judged.decision.denial {
            let objects = objects.join(", ");
            let why = format!(
                "\nconflicts with {objects}, allowed moments ago and not yet stored; try again"
            );
            denial.message.push_str(&why);
        }
        judged
    }

    fn change(&self, judged: &mut CombinedVerdict) -> Result<Option<Write>, Overload> {
        let Inputs { object, old_object, .. } = self.inputs.as_ref();
        let change = || self.cluster.change(self.review, object.as_ref(), old_object.as_ref());
        let write = self.time.charged(None, change);
        if write.is_some() {
            // A request without a response is not stored, and so must not be reserved.
            reserve_response_memory(self.review, &mut judged.decision)?;
        }
        Ok(write)
    }

    fn on_reservation_limit(
        &self,
        judged: CombinedVerdict,
        no_room: ReservationLimitReached,
    ) -> Result<CombinedVerdict, Overload> {
        // Policies that cannot block must not block because of the reservations of others.
        if self.matching.iter().any(|policy| policy.is_enforced()) {
            return Err(Overload::NoRoom { why: no_room.why });
        }
        Ok(judged)
    }
}

/// The results of all policies with one cluster state.
pub(super) struct CombinedVerdict {
    pub(super) decision: Decision,
    answers: Vec<PolicyResult>,
}

/// The result of one policy.
struct PolicyResult {
    finding: Result<Result<AcceptedVerdict, CallError>, Overload>,
    asked: Vec<(usize, cluster::QueryScope)>,
    questions: Vec<(usize, cluster::Question)>,
    touched: Vec<(usize, opgate_cluster::Key)>,
    is_unsure: bool,
    grounds: Grounds,
    wanted: Vec<(opgate_cluster::Resource, usize)>,
}

impl PolicyResult {
    /// Whether its policy denies the request.
    fn denies(&self) -> bool {
        matches!(&self.finding, Ok(Ok(finding)) if finding.denies())
    }

    fn failed(overload: Overload) -> Self {
        let (asked, questions, touched, wanted) = Default::default();
        let (is_unsure, grounds) = Default::default();
        Self { finding: Err(overload), asked, questions, touched, is_unsure, grounds, wanted }
    }
}

/// Calls one policy, writes its log lines, and accepts its verdict.
async fn call_policy<O: Observer>(
    policy: &Arc<Policy>,
    bench: &ReviewEvaluator<'_, O>,
    lens: &EvaluationView,
    time: Option<&Arc<SharedTime>>,
) -> PolicyResult {
    let ReviewEvaluator { inputs, tenant, deadline, observer, .. } = bench;
    let started = Instant::now();
    let by = (bench.review, *tenant);
    let asked = dispatch::validate(policy, inputs, lens, by, (time, *deadline)).await;
    let Called { call, dropped } = match asked {
        Ok(asked) => asked,
        Err(overload) => return PolicyResult::failed(overload),
    };
    super::load::log(&policy.name, &call.log);
    let mut finding = bench.time.charged(time, || {
        call.result.and_then(|verdict| AcceptedVerdict::of(policy, verdict, bench.review.account()))
    });
    if let (Ok(finding), Some(fault)) = (&mut finding, dropped) {
        let rules = policy.advisory_rules_for(bench.review);
        tracing::warn!(
            policy = policy.name, rules = ?rules, cause = %fault,
            "advisory rules dropped after a policy error"
        );
        finding.set_dropped(policy, rules, &fault);
    }
    observer.called(policy, started.elapsed());
    // A call that wants a sample is repeated with it.
    if let Err(fault) = &finding
        && !matches!(fault, CallError::SampleNeeded(_))
    {
        policy.note_error(fault.to_string());
        let uid = opgate_text::one_line(inputs.request.uid(), 128);
        tracing::error!(policy = policy.name, uid, cause = %fault, "policy evaluation failed");
    }
    let mut reader = call.reader.and_then(cluster::Reader::of);
    if let Some(reader) = &mut reader {
        observer.read(policy, reader.take_tallies());
    }
    let asked = reader.as_ref().map(|reader| reader.asked().to_vec()).unwrap_or_default();
    let touched = reader.as_ref().map(|reader| reader.touched().to_vec()).unwrap_or_default();
    let wanted = reader.as_ref().map(|reader| reader.wanted().to_vec()).unwrap_or_default();
    let is_unsure = reader.as_ref().is_some_and(cluster::Reader::is_unsure);
    let grounds = reader.as_mut().map(cluster::Reader::take_grounds).unwrap_or_default();
    let questions = reader.map(cluster::Reader::questions).unwrap_or_default();
    PolicyResult { finding: Ok(finding), asked, questions, touched, is_unsure, grounds, wanted }
}

/// Combines the results into a decision. Returns the overload that keeps a policy from blocking.
fn combine(
    builder: &mut DecisionBuilder,
    matching: &[&Arc<Policy>],
    answers: &[PolicyResult],
) -> Option<Overload> {
    let mut overload = None;
    for (policy, answer) in matching.iter().zip(answers) {
        match &answer.finding {
            Ok(Ok(finding)) => builder.finding(policy, finding.clone()),
            Ok(Err(CallError::Listing(resource))) if policy.is_enforced() => {
                let (policy, resource) = (policy.name.clone(), resource.clone());
                overload = overload.or(Some(Overload::Listing { policy, resource }));
            }
            Ok(Err(fault)) if fault.is_overload() && policy.is_enforced() => {
                let (policy, why) = (policy.name.clone(), fault.to_string());
                overload = overload.or(Some(Overload::Starved { policy, why }));
            }
            Err(error) if policy.is_enforced() => overload = overload.or(Some(error.clone())),
            Err(error) => {
                let fault = fault_of(policy, error.to_string(), "overload");
                builder.fault(fault, policy.mode, policy.on_error);
            }
            Ok(Err(fault)) => {
                // The users whose requests a policy evaluates can determine its load.
                let on_error = match policy.on_error {
                    OnError::Allow if !fault.can_be_allowed() => OnError::FailurePolicy,
                    on_error => on_error,
                };
                let fault = fault_of(policy, fault.to_string(), fault.class());
                builder.fault(fault, policy.mode, on_error);
            }
        }
    }
    overload
}

fn fault_of(policy: &Policy, cause: String, class: &'static str) -> PolicyError {
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
        decision.has_room() || decision.make_room(account, response::size(review, decision))
    };
    if is_whole && has_room(decision) { Ok(()) } else { Err(Overload::Memory) }
}
