//! `--explain`: the part of each policy in a decision, and the cluster state that the verdict depends on.
//!
//! ```text
//! Set::decide ─ calls, reads ─▶ Trace ─┐
//! Set::attention ──────────────────────┼▶ Explanation ─▶ lines below the review, or JSON
//! Decision: skipped rules, violations ─┘
//! ```

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use opgate_admission::cluster::QueryStats;
use opgate_admission::evaluation::Observer;
use opgate_admission::policy::{
    Decision, MatchResult, MatchedRules, MismatchReason, Policy, PolicySet, SkippedRule,
};
use opgate_admission::review::Review;
use opgate_text::one_line;

use crate::cli::kinds::misspelling_hint;
use crate::cli::output::DIMMED;

/// Names in a line.
const MAX_NAMES: usize = 12;

/// Notes what policies do while a review is decided.
#[derive(Debug, Default)]
pub(super) struct Trace(Mutex<BTreeMap<String, PolicyTrace>>);

#[derive(Debug, Default)]
struct PolicyTrace {
    duration: Duration,
    reads: Vec<QueryStats>,
}

impl Observer for Trace {
    fn on_call(&self, policy: &Policy, took: Duration) {
        self.0.lock().entry(policy.name.clone()).or_default().duration += took;
    }

    fn on_queries(&self, policy: &Policy, tallies: Vec<QueryStats>) {
        self.0.lock().entry(policy.name.clone()).or_default().reads = tallies;
    }
}

/// Explanations of all policies for a review.
#[derive(Debug, Default, Serialize)]
pub(super) struct Explanation {
    policies: Vec<PolicyExplanation>,
}

/// Explanation of one policy.
#[derive(Debug, Serialize)]
struct PolicyExplanation {
    policy: String,
    matched: bool,
    /// Why it does not match: a word, and a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(rename = "durationMicroseconds", skip_serializing_if = "Option::is_none")]
    microseconds: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evaluated: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedRuleRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    off: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reads: Vec<ReadSummary>,
    /// Match conditions, which the API server evaluates before it calls opgate; opgate does not evaluate
    /// them.
    #[serde(rename = "matchConditions", skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
}

/// A rule that was not evaluated.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SkippedRuleRecord {
    rule: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct ReadSummary {
    resource: String,
    queries: u64,
    unanswered: u64,
    objects: u64,
}

#[derive(Debug, Serialize)]
struct Condition {
    name: String,
    expression: String,
}

/// Returns in one line why a review was not evaluated; none if it was. Rules that match objects of every kind
/// also match an object of an unknown kind. Such a match does not count as an evaluation. Of the policies, only
/// those `addressed` by the URL of the review have decided; all if it names none.
pub(super) fn not_evaluated_reason(
    set: &PolicySet,
    review: &Review<'_>,
    decision: &Decision,
    addressed: Option<&[String]>,
) -> Option<String> {
    if !decision.violations.is_empty() {
        return None;
    }
    let is_whole = review.sub_resource.is_empty();
    let misspelt =
        is_whole.then(|| misspelling_hint(&review.kind.group, &review.kind.name)).flatten();
    if misspelt.is_none() && set.has_evaluated(review, decision, |name| decides(addressed, name)) {
        return None;
    }
    misspelt.or_else(|| {
        let results = match_results(set, review, addressed);
        Some(mismatch_summary(&results, review, addressed.is_some()))
    })
}

/// Reports whether a policy is one of those that a URL names.
fn decides(addressed: Option<&[String]>, policy: &str) -> bool {
    addressed.is_none_or(|names| names.iter().any(|name| name == policy))
}

/// Returns the relation of each addressed policy to a review.
pub(super) fn match_results<'s>(
    set: &'s PolicySet,
    review: &Review<'_>,
    addressed: Option<&[String]>,
) -> Vec<(&'s str, MatchResult)> {
    let mut results = set.match_results(review);
    results.retain(|(policy, _)| decides(addressed, policy));
    results
}

/// Explains why no policy matched a review.
fn mismatch_summary(
    attention: &[(&str, MatchResult)],
    review: &Review<'_>,
    is_addressed: bool,
) -> String {
    let asked =
        |(_, attention): &&(&str, MatchResult)| matches!(attention, MatchResult::Matched(_));
    let looked: Vec<_> = attention.iter().filter(asked).map(|(policy, _)| *policy).collect();
    if !looked.is_empty() {
        return format!("no rule of {} was evaluated", list_some(&looked));
    }
    let path = review.resource_path();
    let sub = &review.sub_resource;
    let slash = if sub.is_empty() { "" } else { "/" };
    let policy = if is_addressed { "no policy in the URL of the review" } else { "no policy" };
    let what = format!(
        "{policy} matches {} of {}{slash}{sub}",
        review.operation.as_str(),
        path.trim_start_matches('/')
    );
    let what = one_line(&what, 512);
    // Only near misses are named: a policy that matches except for one condition.
    let near = attention.iter().filter_map(|(policy, attention)| match attention {
        MatchResult::Mismatched(MismatchReason::Resource(_)) => None,
        MatchResult::Mismatched(why) => Some(format!("{policy}: {why}")),
        _ => None,
    });
    let near: Vec<_> = near.take(3).collect();
    if near.is_empty() { what } else { format!("{what} ({})", near.join("; ")) }
}

impl Explanation {
    pub(super) fn of(
        attention: Vec<(&str, MatchResult)>,
        decision: Option<&Decision>,
        trace: &Trace,
    ) -> Self {
        let noted = trace.0.lock();
        let one = |(policy, attention): (&str, MatchResult)| {
            let mut explained = PolicyExplanation {
                policy: policy.to_owned(),
                matched: false,
                reason: None,
                message: None,
                microseconds: None,
                evaluated: Vec::new(),
                skipped: Vec::new(),
                off: Vec::new(),
                reads: Vec::new(),
                conditions: Vec::new(),
            };
            match attention {
                MatchResult::Matched(matched_rules) => {
                    explained.add_evaluation(matched_rules, decision, noted.get(policy));
                }
                MatchResult::Mismatched(why) => {
                    explained.reason = Some(why.code());
                    explained.message = Some(why.to_string());
                }
                MatchResult::LoadFailed(why) => {
                    explained.reason = Some("broken");
                    explained.message =
                        Some(format!("policy failed to load: {}", one_line(&why, 512)));
                }
            }
            explained
        };
        Self { policies: attention.into_iter().map(one).collect() }
    }

    /// Writes the lines below a review.
    pub(super) fn write(&self, out: &mut impl io::Write, indent: &str) -> io::Result<()> {
        for one in self.policies.iter().filter(|one| one.matched) {
            one.write(out, indent)?;
        }
        // Most policies match entirely different objects: one line for all of them with the same reason.
        let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
        for one in self.policies.iter().filter(|one| !one.matched) {
            let why = match one.reason {
                Some("resource") => "they match other resources",
                _ => one.message.as_deref().unwrap_or_default(),
            };
            match by_reason.iter_mut().find(|(known, _)| *known == why) {
                Some((_, policies)) => policies.push(&one.policy),
                None => by_reason.push((why, vec![&one.policy])),
            }
        }
        for (why, policies) in by_reason {
            let why = match policies.len() {
                1 => why.replacen("they match", "it matches", 1),
                _ => why.to_owned(),
            };
            writeln!(out, "{indent}{DIMMED}not matched {}: {why}{DIMMED:#}", list_some(&policies))?;
        }
        Ok(())
    }
}

impl PolicyExplanation {
    fn add_evaluation(
        &mut self,
        matched_rules: MatchedRules,
        decision: Option<&Decision>,
        noted: Option<&PolicyTrace>,
    ) {
        self.matched = true;
        let MatchedRules { rules, rules_off: off, conditions } = matched_rules;
        let skipped = decision.into_iter().flat_map(|decision| &decision.skipped);
        let skipped = skipped.filter(|skipped| skipped.policy == self.policy);
        self.skipped = skipped
            .map(|SkippedRule { rule, reason, .. }| SkippedRuleRecord {
                rule: rule.clone(),
                reason: reason.clone(),
            })
            .collect();
        for dropped in decision.into_iter().flat_map(|decision| &decision.dropped) {
            if dropped.policy == self.policy {
                let skipped_rule = |rule: &String| SkippedRuleRecord {
                    rule: rule.clone(),
                    reason: format!("dropped after a policy error: {}", dropped.cause),
                };
                self.skipped.extend(dropped.rules.iter().map(skipped_rule));
            }
        }
        let is_skipped =
            |rule: &String| self.skipped.iter().any(|skipped_rule| skipped_rule.rule == *rule);
        self.evaluated = rules.into_iter().filter(|rule| !is_skipped(rule)).collect();
        self.off = off;
        let condition = |(name, expression)| Condition { name, expression };
        self.conditions = conditions.into_iter().map(condition).collect();
        let Some(noted) = noted else { return };
        self.microseconds = Some(u64::try_from(noted.duration.as_micros()).unwrap_or(u64::MAX));
        let read = |tally: &QueryStats| ReadSummary {
            resource: tally.resource.clone(),
            queries: tally.queries,
            unanswered: tally.without_result,
            objects: tally.objects,
        };
        self.reads = noted.reads.iter().map(read).collect();
    }

    fn write(&self, out: &mut impl io::Write, indent: &str) -> io::Result<()> {
        let Self { policy, evaluated, skipped, off, reads, conditions, .. } = self;
        let names = |all: &[String]| list_some(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let took = self.microseconds.map(|took| format!(" in {}", milliseconds(took)));
        let took = took.unwrap_or_default();
        let did = match evaluated.len() {
            0 => "no rule evaluated".to_owned(),
            1 => format!("1 rule evaluated ({})", names(evaluated)),
            count => format!("{count} rules evaluated ({})", names(evaluated)),
        };
        writeln!(out, "{indent}matched {policy}: {did}{took}")?;
        // Rules that miss the same stand together.
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for skipped_rule in skipped {
            by_reason.entry(&skipped_rule.reason).or_default().push(&skipped_rule.rule);
        }
        for (reason, rules) in by_reason {
            writeln!(out, "{indent}  skipped {}: {reason}", list_some(&rules))?;
        }
        if !off.is_empty() {
            writeln!(out, "{indent}  {DIMMED}off: {}{DIMMED:#}", names(off))?;
        }
        for ReadSummary { resource, queries, unanswered, objects } in reads {
            let count = |count: u64, one: &str, more: &str| match count {
                1 => format!("1 {one}"),
                count => format!("{count} {more}"),
            };
            let (queries, objects) =
                (count(*queries, "query", "queries"), count(*objects, "object", "objects"));
            let without = match unanswered {
                0 => String::new(),
                count => format!(", {count} without an answer"),
            };
            writeln!(out, "{indent}  read {resource}: {queries}, {objects}{without}")?;
        }
        for Condition { name, expression } in conditions {
            let expression = one_line(expression, 256);
            writeln!(
                out,
                "{indent}  {DIMMED}condition of API servers, not evaluated here: {name}: {expression}{DIMMED:#}"
            )?;
        }
        Ok(())
    }
}

/// Returns `0.4 ms`.
fn milliseconds(microseconds: u64) -> String {
    format!("{}.{} ms", microseconds / 1_000, microseconds % 1_000 / 100)
}

/// Returns `a b and 3 more`.
pub(super) fn list_some(all: &[&str]) -> String {
    let max = if super::verbosity::is_verbose() { usize::MAX } else { MAX_NAMES };
    let shown = all.iter().take(max).copied().collect::<Vec<_>>().join(" ");
    match all.len().saturating_sub(max) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
