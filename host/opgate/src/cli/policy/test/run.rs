//! Runs cases through the component of a policy, as a server or a replay would.
//!
//! ```text
//! cases ─▶ by settings, and with or without a cluster ─▶ PolicySet ─▶ decide ─▶ PolicyResult ─▶ compare ─▶ CaseRun
//! ```
//!
//! Cases with the same settings share one loaded policy. All share the engine and the compiled code.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate_casefile::{Case, Diff, Expectation, PolicyResult, Violation, plural, server_version};
use serde_json::{Value, json};

use crate::cli::args::ConfigArgs;
use crate::cli::exit::CommandError;
use crate::cli::runtime;
use opgate_admission::cluster::{ClusterOptions, Snapshot, Source};
use opgate_admission::policy::{
    Configuration, Decision, DefaultLevel, Descriptor, Effect, LoadProgress, MatchResult,
    Measurement, Policy, PolicyConfig, PolicySet, Profile,
};
use opgate_admission::review::{self, Review};
use opgate_builtin_policies::BUILTINS;
use opgate_document::{Document, Text};
use opgate_engine::Compiler;
use opgate_server::DefaultLimits;

/// The reason why a case has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::cli::policy) struct CaseRunError(String);

/// No client waits for a case; the limits of the policy still apply.
const CASE_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Bytes of a message and of a field that a verdict keeps.
const MAX_MESSAGE_BYTES: usize = 4_096;
const MAX_FIELD_BYTES: usize = 1_024;

/// Result of a case.
#[derive(Debug)]
pub(super) enum CaseResult {
    /// As expected.
    Ok,
    /// Otherwise.
    Differs(Diff, PolicyResult),
    /// Otherwise, and the case was changed.
    Updated,
    /// It also holds with its rule off, so that it does not test the rule.
    PassesWithoutRule,
    /// It is accepted because the rule does not evaluate the request, for this reason.
    Vacuous(String),
    /// The rule evaluates the request, and the case states that it does not.
    Evaluated,
    /// There is a policy error, or the case cannot be evaluated.
    Error(CaseRunError),
}

/// A case that was run.
#[derive(Debug)]
pub(super) struct CaseRun {
    pub(super) case: Case,
    pub(super) result: CaseResult,
    /// The decision; none after a policy error.
    pub(super) decision: Option<CaseDecision>,
    pub(super) duration: Duration,
}

/// The decision on the request of a case.
#[derive(Debug)]
pub(in crate::cli::policy) struct CaseDecision {
    pub(in crate::cli::policy) result: PolicyResult,
    /// The rules that were skipped, each with the reason.
    pub(super) skipped: Vec<(String, String)>,
    /// Why the rule of the case does not evaluate the request; none if it does.
    not_evaluated: Option<String>,
}

impl CaseDecision {
    /// Reports whether the rule of the case evaluates the request.
    pub(in crate::cli::policy) fn is_evaluated(&self) -> bool {
        self.not_evaluated.is_none()
    }
}

/// A policy that runs cases.
pub(in crate::cli::policy) struct Runner {
    policy: PolicyConfig,
    config: ConfigArgs,
    pub(in crate::cli::policy) descriptor: Descriptor,
    /// Without a cluster, and with one in files. Further sets share their engine and code.
    without_cluster: PolicySet,
    snapshot: Option<PolicySet>,
    /// With the lists of an API server.
    listed: Option<PolicySet>,
    /// Sets by settings, for further cases.
    loaded_sets: BTreeMap<String, Result<Arc<PolicySet>, CaseRunError>>,
}

impl Runner {
    /// Loads a policy and grants all its reads: cases define the cluster state.
    pub(in crate::cli::policy) fn load(
        policy: &PolicyConfig,
        config: &ConfigArgs,
    ) -> Result<Self, CommandError> {
        let mut policy = policy.clone();
        (policy.mode, policy.on_error) = Default::default();
        (policy.settings, policy.rules) = (json!({}), BTreeMap::new());
        (policy.excluded_namespaces, policy.excluded_users) = Default::default();
        let module = policy.module.clone();
        // One call at a time. More would take instances that further sets need.
        policy.limits.concurrency = 1;
        // Its reads are unknown until it is loaded, and without a grant it would not load.
        policy.allowed_reads = vec!["*".to_owned()];
        let engine = super::super::load::LoadedComponent::of(&policy, config)?;
        let descriptor = engine.descriptor;
        policy.allowed_reads =
            descriptor.reads.iter().map(|read| read.resource.to_string()).collect();
        if policy.allowed_reads.is_empty() {
            // A policy that imports the interface and reads nothing loads in the same way.
            policy.allowed_reads = vec!["v1/namespaces".to_owned()];
        }
        policy.module = module;
        let absent = load_policy_set(&policy, config, Source::Absent)?;
        Ok(Self {
            policy,
            config: config.clone(),
            descriptor,
            without_cluster: absent,
            snapshot: None,
            listed: None,
            loaded_sets: BTreeMap::new(),
        })
    }

    /// Returns the policy with its default settings, and without a cluster.
    pub(in crate::cli::policy) fn policy(&self) -> Result<&Policy, CommandError> {
        let policy = self.without_cluster.policies().first();
        policy
            .map(AsRef::as_ref)
            .ok_or_else(|| CommandError::engine(anyhow::anyhow!("it was not loaded")))
    }

    /// Runs cases, in their order, and passes each result to `ran`.
    pub(super) fn run(
        &mut self,
        cases: Vec<Case>,
        ran: &mut dyn FnMut(&CaseRun) -> std::io::Result<()>,
    ) -> Result<Vec<CaseRun>, CommandError> {
        let mut all = Vec::with_capacity(cases.len());
        for case in cases {
            let started = Instant::now();
            let evaluated = self.evaluate(&case, None);
            let took = started.elapsed();
            let result = match &evaluated {
                Err(why) => CaseResult::Error(why.clone()),
                Ok((diff, decision)) if !diff.is_empty() => {
                    CaseResult::Differs(diff.clone(), decision.result.clone())
                }
                Ok((_, decision)) if case.expects == Expectation::Accept => {
                    match (&decision.not_evaluated, case.is_evaluated) {
                        (Some(why), true) => CaseResult::Vacuous(why.clone()),
                        (None, false) => CaseResult::Evaluated,
                        _ => CaseResult::Ok,
                    }
                }
                Ok(_) if case.expects != Expectation::Reject => CaseResult::Ok,
                Ok(_) => match self.evaluate(&case, Some("off")) {
                    Ok((diff, _)) if diff.is_empty() => CaseResult::PassesWithoutRule,
                    // Settings that are invalid with the rule off are no error of the case.
                    _ => CaseResult::Ok,
                },
            };
            let decision = evaluated.ok().map(|(_, decision)| decision);
            let one = CaseRun { case, result, decision, duration: took };
            ran(&one)?;
            all.push(one);
        }
        Ok(all)
    }

    /// Evaluates a case repeatedly: returns the cost of each call, and the number of imports per call. None
    /// if the policy does not match it.
    pub(in crate::cli::policy) fn measure(
        &mut self,
        case: &Case,
        calls: usize,
    ) -> Result<Option<(Vec<Measurement>, u64)>, CaseRunError> {
        let set = self.set_of(case, None)?;
        let text = review_text(&case.review())?;
        let review = Review::read_check(&text).map_err(|e| CaseRunError(e.to_string()))?;
        let policy = set.policies().first().filter(|policy| policy.matches(&review));
        let costs = |policy: &Arc<Policy>| {
            let host_calls = policy.count_host_calls(&review);
            ((0..calls).map(|_| policy.measure(&review)).collect(), host_calls)
        };
        Ok(policy.map(costs))
    }

    /// Loads the policy with the settings of a case, with another level of its rule if `level` is set, and
    /// with the cluster state of the case.
    fn set_of(&mut self, case: &Case, level: Option<&str>) -> Result<Arc<PolicySet>, CaseRunError> {
        let mut settings = case.settings.clone();
        if let (Some(level), Some(members)) = (level, settings.as_object_mut()) {
            let rules = members.entry("rules").or_insert_with(|| json!({}));
            if let Some(rules) = rules.as_object_mut() {
                rules.insert(case.rule.clone(), json!(level));
            }
        }
        let groups = self.sampled_groups(case);
        let key = format!("{} {settings} {groups:?}", case.cluster.is_some());
        let known = self.loaded_sets.get(&key).cloned();
        let set = known.unwrap_or_else(|| {
            if self.loaded_sets.len() >= MAX_LOADED_SETS {
                self.loaded_sets.clear();
            }
            let source = if case.cluster.is_some() { Source::Snapshot } else { Source::Absent };
            let set = self.load_set(source, &settings, &groups).map(Arc::new);
            self.loaded_sets.insert(key, set.clone());
            set
        })?;
        if let Some(objects) = &case.cluster {
            self.snapshot_of(objects)?.replace_state(set.cluster());
        }
        Ok(set)
    }

    /// Evaluates a case.
    pub(in crate::cli::policy) fn decide(
        &mut self,
        case: &Case,
    ) -> Result<CaseDecision, CaseRunError> {
        self.evaluate(case, None).map(|(_, decision)| decision)
    }

    /// Evaluates a case, with another level of its rule if `level` is set, and compares the result.
    fn evaluate(
        &mut self,
        case: &Case,
        level: Option<&str>,
    ) -> Result<(Diff, CaseDecision), CaseRunError> {
        let set = self.set_of(case, level)?;
        let decision = runtime::block_on(self.call_policy(&set, case))
            .map_err(|error| CaseRunError(error.to_string()))??;
        let mut diff = case.compare(&decision.result, |rule| self.level(rule));
        for finding in &mut diff.missing {
            let own = self.level(&finding.rule).map(str::to_owned);
            finding.level = finding.level.take().or(own);
        }
        Ok((diff, decision))
    }

    /// Returns the level of a rule; none if settings decide it.
    pub(super) fn level(&self, rule: &str) -> Option<&'static str> {
        match self.descriptor.rule(rule)?.default {
            DefaultLevel::Deny => Some("deny"),
            DefaultLevel::Warn => Some("warn"),
            DefaultLevel::Off => None,
        }
    }

    /// Returns the groups of custom resources in the cluster state of a case that the policy may sample.
    fn sampled_groups(&self, case: &Case) -> Vec<String> {
        if self.descriptor.samples.is_empty() {
            return Vec::new();
        }
        let objects = case.cluster.iter().flatten();
        let groups =
            objects.filter_map(|object| object.get("apiVersion")?.as_str()?.split_once('/'));
        let mut groups: Vec<_> = groups.map(|(group, _)| group.to_owned()).collect();
        // For an evaluated definition, its objects are included, too.
        let evaluated = case.object.iter().chain(&case.old);
        groups
            .extend(evaluated.filter_map(|o| Some(o.pointer("/spec/group")?.as_str()?.to_owned())));
        groups.sort();
        groups.dedup();
        groups
    }

    /// Returns the policy with the settings of a case, for objects that an API server lists.
    pub(super) fn listed_set(&mut self, case: &Case) -> Result<PolicySet, CaseRunError> {
        self.load_set(Source::Listed, &case.settings, &[])
    }

    /// Returns the policy with default settings and this cluster state, with which further sets share engine and code.
    fn base_set(&mut self, source: Source) -> Result<&PolicySet, CaseRunError> {
        let base = match source {
            Source::Snapshot => &mut self.snapshot,
            Source::Listed => &mut self.listed,
            _ => return Ok(&self.without_cluster),
        };
        if base.is_none() {
            let set = load_policy_set(&self.policy, &self.config, source);
            *base = Some(set.map_err(|failure| CaseRunError(failure.error.to_string()))?);
        }
        base.as_ref().ok_or_else(|| CaseRunError("it was not loaded".to_owned()))
    }

    /// Returns the policy with the settings of a case.
    fn load_set(
        &mut self,
        source: Source,
        settings: &Value,
        groups: &[String],
    ) -> Result<PolicySet, CaseRunError> {
        let mut policy = self.policy.clone();
        for group in groups {
            // Groups of Kubernetes itself are none of custom resources, and need no grant.
            let _ = policy.allowed_samples.add(&format!("*.{group}"));
        }
        let mut settings = settings.clone();
        let mut profile = None;
        if let Some(members) = settings.as_object_mut() {
            let wrong =
                |name: &str, e: serde_json::Error| CaseRunError(format!("settings: {name}: {e}"));
            if let Some(rules) = members.remove("rules") {
                policy.rules = serde_json::from_value(rules).map_err(|e| wrong("rules", e))?;
            }
            if let Some(named) = members.remove("profile") {
                let named: Profile =
                    serde_json::from_value(named).map_err(|e| wrong("profile", e))?;
                profile = Some(named);
            }
        }
        policy.settings = settings;
        let mut configuration = Configuration::builtin(profile.unwrap_or_default(), BUILTINS);
        configuration.is_profile_set = profile.is_some();
        configuration.policies = vec![policy];
        let room = DefaultLimits::of(Path::new("/"));
        let compiler = Compiler::in_subprocess(room.subprocess_bytes)
            .map_err(|e| CaseRunError(e.to_string()))?;
        let cache = self.config.cache(&configuration);
        let base = self.base_set(source)?;
        let set = base.load_replacing(&configuration, cache, compiler, &LoadProgress::default());
        let set = set.map_err(|e| CaseRunError(format!("settings: {e}")))?;
        match set.broken() {
            [] => Ok(set),
            [broken, ..] => Err(CaseRunError(broken.error.to_string())),
        }
    }

    /// Builds the cluster state of a case. Objects that the policy reads may omit their version.
    fn snapshot_of(&self, objects: &[Value]) -> Result<Snapshot, CaseRunError> {
        let mut snapshot = Snapshot::default();
        for object in objects {
            let mut object = server_version(object).unwrap_or_else(|| object.clone());
            self.complete_object(&mut object);
            let text = object.to_string();
            let document =
                Document::parse(&text).map_err(|e| CaseRunError(format!("cluster: {e}")))?;
            snapshot.add(document).map_err(|e| CaseRunError(format!("cluster: {e}")))?;
        }
        Ok(snapshot)
    }

    fn complete_object(&self, object: &mut Value) {
        let Some(resource) = object.get("kind").and_then(Value::as_str).map(plural) else { return };
        let written = object.get("apiVersion").and_then(Value::as_str);
        let group = written.map(|api| api.split_once('/').map_or("", |(group, _)| group));
        let reads = self.descriptor.reads.iter().map(|read| &read.resource);
        let is_it = |read: &&opgate_cluster::Resource| {
            read.resource == resource && group.is_none_or(|group| read.group == group)
        };
        let Some(read) = reads.into_iter().find(is_it) else { return };
        let api = if read.group.is_empty() {
            read.version.clone()
        } else {
            format!("{}/{}", read.group, read.version)
        };
        if let Some(members) = object.as_object_mut() {
            members.insert("apiVersion".to_owned(), json!(api));
        }
    }

    /// Decides on the request of a case.
    async fn call_policy(
        &self,
        set: &PolicySet,
        case: &Case,
    ) -> Result<CaseDecision, CaseRunError> {
        let text = dry_run_text(case)?;
        let review = Review::read_check(&text).map_err(|e| CaseRunError(e.to_string()))?;
        let decided = set.decide(&review, None, Instant::now() + CASE_TIMEOUT, &()).await;
        let decision = decided.map_err(|e| CaseRunError(e.to_string()))?;
        let not_evaluated = self.not_evaluated_reason(set, &review, &case.rule);
        Ok(CaseDecision { not_evaluated, ..self.case_decision(case, decision)? })
    }

    /// Returns why a rule does not evaluate a request; none if it does.
    fn not_evaluated_reason(
        &self,
        set: &PolicySet,
        review: &Review<'_>,
        rule: &str,
    ) -> Option<String> {
        let is_listed = |rules: &[String]| rules.iter().any(|id| id == rule);
        if !set.policies().first()?.evaluates(review, rule) {
            return Some(match set.match_results(review).into_iter().next()?.1 {
                MatchResult::Mismatched(why) => format!("its policy does not match it: {why}"),
                MatchResult::LoadFailed(why) => why,
                MatchResult::Matched(matched) if is_listed(&matched.rules_off) => {
                    "it is off".to_owned()
                }
                MatchResult::Matched(matched) => {
                    let others = matched.rules.join(", ");
                    format!("its policy matches the request for other rules: {others}")
                }
            });
        }
        // A match rule without a list is for all rules of the policy, whatever their kinds.
        let is_named = self.descriptor.matches.iter().any(|requests| is_listed(&requests.rules));
        let kinds = &self.descriptor.rule(rule)?.kinds;
        let is_kind = |kind: &String| *kind == *review.kind.name || kind == ANY_KIND;
        let is_other = !is_named && !kinds.is_empty() && !kinds.iter().any(is_kind);
        is_other.then(|| format!("its kinds are {}", kinds.join(", ")))
    }

    /// Returns what a decision states about a case.
    pub(super) fn case_decision(
        &self,
        case: &Case,
        decision: Decision,
    ) -> Result<CaseDecision, CaseRunError> {
        if let Some(policy_error) = decision.policy_errors.into_iter().next() {
            return Err(CaseRunError(policy_error.cause));
        }
        let finding = |found: opgate_admission::policy::Violation| Violation {
            level: Some(if found.effect == Effect::Deny { "deny" } else { "warn" }.to_owned()),
            rule: found.rule,
            field: Some(found.field),
            message: found.message,
            is_prefix: false,
        };
        let own = format!("{}.", self.policy.name);
        let notes = decision.audit_annotations.iter();
        let notes = notes.filter_map(|(key, value)| Some((key.strip_prefix(&own)?, value)));
        let expected = |key: &str| {
            case.audit_annotations.as_ref().is_some_and(|notes| notes.contains_key(key))
        };
        // The host adds one itself.
        let notes = notes.filter(|(key, _)| *key != "skipped-rules" || expected(key));
        let denied = decision.denial.map(|denial| denial.reason);
        let skipped: Vec<_> =
            decision.skipped.into_iter().map(|skipped| (skipped.rule, skipped.reason)).collect();
        let fixes = decision.violations.iter().filter_map(|violation| {
            Some((violation.rule.clone(), (**violation.fix.as_ref()?).clone()))
        });
        let fixes = fixes.collect();
        let result = PolicyResult {
            fixes,
            violations: decision.violations.into_iter().map(finding).collect(),
            skipped: skipped.iter().map(|(rule, _)| rule.clone()).collect(),
            audit_annotations: notes.map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            // Without a denial, clients do not see the reason of a verdict.
            reason: denied.map_or_else(
                || case.reason.clone(),
                |reason| Some(reason).filter(|reason| reason != "Forbidden"),
            ),
        };
        Ok(CaseDecision { result, skipped, not_evaluated: None })
    }
}

/// The kind of rules that evaluate objects of every kind.
const ANY_KIND: &str = "any manifest";

/// Returns the text of the review of a case: a dry run, so that no case is in the way of the next.
pub(super) fn dry_run_text(case: &Case) -> Result<Arc<Text>, CaseRunError> {
    let mut review = case.review();
    if let Some(request) = review.get_mut("request").and_then(Value::as_object_mut) {
        request.insert("dryRun".to_owned(), json!(true));
    }
    review_text(&review)
}

fn review_text(review: &Value) -> Result<Arc<Text>, CaseRunError> {
    review::text(review.to_string().into_bytes()).map_err(|e| CaseRunError(e.to_string()))
}

/// Sets that are kept for further cases.
const MAX_LOADED_SETS: usize = 16;

/// Returns a set with the policy alone.
fn load_policy_set(
    policy: &PolicyConfig,
    config: &ConfigArgs,
    source: Source,
) -> Result<PolicySet, CommandError> {
    let mut configuration = Configuration::builtin(Profile::default(), BUILTINS);
    configuration.policies = vec![policy.clone()];
    let (room, loading) = (DefaultLimits::of(Path::new("/")), LoadProgress::default());
    let set = config.load_set_of(
        &configuration,
        usize::MAX,
        ClusterOptions::of(source),
        room,
        &loading,
    )?;
    match set.broken() {
        [] => Ok(set),
        [broken, ..] => Err(CommandError::engine(broken.error.clone())),
    }
}

/// Texts of a case go out as one line, within the limits of a verdict.
pub(super) fn to_single_lines(mut case: Case) -> Case {
    for finding in &mut case.violations {
        finding.message = opgate_text::one_line(&finding.message, MAX_MESSAGE_BYTES);
        finding.field =
            finding.field.as_deref().map(|at| opgate_text::one_line(at, MAX_FIELD_BYTES));
    }
    for note in case.audit_annotations.iter_mut().flat_map(|notes| notes.values_mut()) {
        *note = opgate_text::one_line(note, MAX_MESSAGE_BYTES);
    }
    case
}
