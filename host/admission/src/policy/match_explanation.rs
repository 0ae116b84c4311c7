//! Explanations of why a policy matches a review or does not, after the decision.
//!
//! ```text
//! review ─▶ PolicySet::attention ─┬▶ matched: the rules that evaluate it, and those of them that are off
//!                                 └▶ not matched: the first mismatch of the match rule that comes nearest
//! ```

use std::collections::BTreeSet;
use std::fmt;

use super::{
    Decision, DroppedRules, EffectiveMatchRule, MatchRule, Mode, NamePatterns, Policy, PolicySet,
    SkippedRule,
};
use crate::review::{Operation, Review};

/// Maximum number of names in a sentence.
const MAX_LISTED_NAMES: usize = 6;

/// The setting that only the host sets, for files.
const FILES_SETTING: &str = "/files";

/// The relation of a policy to a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchResult {
    /// The policy matches it.
    Matched(MatchedRules),
    /// The policy does not match it.
    Mismatched(MismatchReason),
    /// The policy failed to load: the reason.
    LoadFailed(String),
}

/// The part of a policy that matches a review.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MatchedRules {
    /// Rules that evaluate it and are on, in the order of the policy.
    pub rules: Vec<String>,
    /// Rules that would evaluate it and are off.
    pub rules_off: Vec<String>,
    /// Conditions in CEL that only an API server evaluates, each a name and an expression.
    pub conditions: Vec<(String, String)>,
}

/// The reason why a policy does not match a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MismatchReason {
    /// Its mode is `off`.
    Mode,
    /// It matches other resources: these.
    Resource(Vec<String>),
    /// It matches other versions of the resource.
    Version(Vec<String>),
    /// It matches the resource itself, or other sub-resources.
    SubResource(Vec<String>),
    /// It matches other operations.
    Operation(Vec<Operation>),
    /// The rules for such requests are off.
    RulesOff(Vec<String>),
    /// None of these settings is set, as JSON pointers.
    Setting(Vec<String>),
    /// It matches requests in another namespace only.
    Namespace(String),
    /// The name of the namespace does not match the patterns.
    NamespacePattern(String),
    /// The name of the object does not match the patterns.
    NamePattern(String),
    /// The labels of the namespace do not match this selector, which is JSON.
    Selector(String),
    /// The configuration excludes the namespace.
    ExcludedNamespace(String),
    /// The configuration excludes the user.
    ExcludedUser(String),
}

impl MismatchReason {
    /// The identifier for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Resource(_) => "resource",
            Self::Version(_) => "version",
            Self::SubResource(_) => "subresource",
            Self::Operation(_) => "operation",
            Self::RulesOff(_) => "rules-off",
            Self::Setting(_) => "setting",
            Self::Namespace(_) => "namespace",
            Self::NamespacePattern(_) => "namespace-pattern",
            Self::NamePattern(_) => "name-pattern",
            Self::Selector(_) => "selector",
            Self::ExcludedNamespace(_) => "excluded-namespace",
            Self::ExcludedUser(_) => "excluded-user",
        }
    }

    /// The progress of the comparison: of several match rules the one counts that comes nearest.
    fn rank(&self) -> u8 {
        match self {
            Self::Mode | Self::Resource(_) => 0,
            Self::Version(_) => 1,
            Self::SubResource(_) => 2,
            Self::Operation(_) => 3,
            Self::Setting(_) => 4,
            Self::RulesOff(_) => 5,
            Self::Namespace(_) => 6,
            Self::NamespacePattern(_) => 7,
            Self::NamePattern(_) => 8,
            Self::Selector(_) => 9,
            Self::ExcludedNamespace(_) | Self::ExcludedUser(_) => 10,
        }
    }

    /// Merges the mismatch of another match rule of the same rank.
    fn join(&mut self, other: Self) {
        match (self, other) {
            (
                Self::Resource(all)
                | Self::Version(all)
                | Self::SubResource(all)
                | Self::RulesOff(all)
                | Self::Setting(all),
                Self::Resource(more)
                | Self::Version(more)
                | Self::SubResource(more)
                | Self::RulesOff(more)
                | Self::Setting(more),
            ) => {
                for one in more {
                    if !all.contains(&one) {
                        all.push(one);
                    }
                }
            }
            (Self::Operation(all), Self::Operation(more)) => {
                all.extend(more);
                all.sort();
                all.dedup();
            }
            _ => {}
        }
    }
}

impl fmt::Display for MismatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => f.write_str("its mode is off"),
            Self::Resource(all) if all.is_empty() => f.write_str("it has no match rules"),
            Self::Resource(all) => write!(f, "it matches other resources: {}", list_names(all)),
            Self::Version(all) => write!(f, "it matches other versions: {}", list_names(all)),
            Self::SubResource(all) => write!(f, "it matches {} only", list_names(all)),
            Self::Operation(all) => {
                let all: Vec<_> = all.iter().map(|one| one.as_str().to_owned()).collect();
                write!(f, "it matches other operations: {}", list_names(&all))
            }
            Self::RulesOff(all) if all.len() == 1 => {
                write!(f, "its rule for this is off: {}", list_names(all))
            }
            Self::RulesOff(all) => write!(f, "all its rules for this are off: {}", list_names(all)),
            Self::Setting(all) if all.iter().all(|one| one == FILES_SETTING) => {
                f.write_str("it matches this only in files (opgate check)")
            }
            Self::Setting(all) => {
                let dotted = |one: &String| one.trim_start_matches('/').replace('/', ".");
                let all: Vec<_> =
                    all.iter().filter(|one| *one != FILES_SETTING).map(dotted).collect();
                write!(f, "it matches this only with a setting: {}", list_names(&all))
            }
            Self::Namespace(name) => write!(f, "it matches this only in namespace {name}"),
            Self::NamespacePattern(text) => write!(f, "the namespace is excluded by name: {text}"),
            Self::NamePattern(text) => write!(f, "the object is excluded by name: {text}"),
            Self::Selector(selector) => {
                write!(f, "the labels of the namespace do not fit the selector {selector}")
            }
            Self::ExcludedNamespace(name) => {
                write!(f, "the configuration excludes namespace {name} (exclude.namespaces)")
            }
            Self::ExcludedUser(name) => {
                write!(f, "the configuration excludes user {name} (exclude.users)")
            }
        }
    }
}

/// `a, b and 3 more`
fn list_names(all: &[String]) -> String {
    let shown: Vec<_> = all.iter().take(MAX_LISTED_NAMES).map(String::as_str).collect();
    let shown = shown.join(", ");
    match all.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `team-* but not team-b`
fn describe_patterns(names: &NamePatterns, name: &str) -> String {
    let quoted = opgate_text::one_line(name, 253);
    let shown = |list: &[String]| list_names(list);
    let (include, exclude) = (names.include(), names.exclude());
    match (include.is_empty(), exclude.is_empty()) {
        (true, _) => format!("{quoted} is one of {}", shown(exclude)),
        (false, true) => format!("{quoted} is none of {}", shown(include)),
        (false, false) => {
            format!("{quoted} is none of {}, or one of {}", shown(include), shown(exclude))
        }
    }
}

fn contains_or_any(wanted: &[String], found: &str) -> bool {
    wanted.iter().any(|one| one == "*" || one == found)
}

/// `deployments.apps`
fn qualified_name(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// The resources of a match rule.
fn qualified_resources(rule: &MatchRule) -> Vec<String> {
    let of = |group: &String| {
        rule.resources.iter().map(|resource| qualified_name(resource, group)).collect()
    };
    rule.groups.iter().flat_map(|group| -> Vec<String> { of(group) }).collect()
}

/// The mismatch between a match rule and the kind of request, if there is one.
fn kind_mismatch(rule: &MatchRule, review: &Review<'_>) -> Option<MismatchReason> {
    let (group, name) = (&review.resource.group, &review.resource.name);
    let base = |wanted: &str| wanted.split_once('/').unwrap_or((wanted, "")).0.to_owned();
    let is_resource = |wanted: &&String| {
        let base = base(wanted);
        base == "*" || base == **name
    };
    let of_it: Vec<_> = rule.resources.iter().filter(is_resource).collect();
    if !contains_or_any(&rule.groups, group) || of_it.is_empty() {
        return Some(MismatchReason::Resource(qualified_resources(rule)));
    }
    if !contains_or_any(&rule.versions, &review.resource.version) {
        return Some(MismatchReason::Version(rule.versions.clone()));
    }
    let is_sub = |wanted: &&&String| {
        let sub = wanted.split_once('/').map_or("", |(_, sub)| sub);
        sub == "*" || sub == review.sub_resource
    };
    if !of_it.iter().any(|wanted| is_sub(&wanted)) {
        return Some(MismatchReason::SubResource(of_it.into_iter().cloned().collect()));
    }
    (!rule.operations.contains(&review.operation))
        .then(|| MismatchReason::Operation(rule.operations.clone()))
}

/// The mismatch between a review and the configuration or the labels of the namespace, within a
/// match rule that otherwise matches.
fn scope_mismatch(requests: &EffectiveMatchRule, review: &Review<'_>) -> Option<MismatchReason> {
    let scope = requests.scope();
    if let Some(only) = requests.namespace.as_ref().filter(|only| **only != review.namespace) {
        return Some(MismatchReason::Namespace(only.clone()));
    }
    if !scope.namespaces.matches_namespace_of(review) {
        let shown = describe_patterns(&scope.namespaces, &review.namespace);
        return Some(MismatchReason::NamespacePattern(format!("{shown} (match.namespaces)")));
    }
    if !scope.names.matches_name_of(review) {
        let shown = describe_patterns(&scope.names, &review.name);
        return Some(MismatchReason::NamePattern(format!("{shown} (match.names)")));
    }
    let selector = || opgate_text::one_line(&requests.namespace_labels, 256);
    (!requests.matches_namespace_labels(review)).then(|| MismatchReason::Selector(selector()))
}

impl Policy {
    fn is_off(&self, rule: &str) -> bool {
        self.descriptor.rule(rule).is_some_and(|rule| self.effective_level(rule) == "off")
    }

    /// The mismatch between one of its match rules and a review; none if only the configuration of
    /// the policy excludes the review.
    fn mismatch(&self, rule: &MatchRule, review: &Review<'_>) -> Option<MismatchReason> {
        if let Some(other) = kind_mismatch(rule, review) {
            return Some(other);
        }
        if !rule.enabled_by.is_empty() && !self.has_setting(&rule.enabled_by) {
            return Some(MismatchReason::Setting(rule.enabled_by.clone()));
        }
        if !rule.rules.is_empty() && rule.rules.iter().all(|rule| self.is_off(rule)) {
            return Some(MismatchReason::RulesOff(rule.rules.clone()));
        }
        if let Some(only) = &rule.namespace {
            let only = only.of(&self.settings);
            if only != review.namespace {
                return Some(MismatchReason::Namespace(only));
            }
        }
        if !rule.namespaces.matches_namespace_of(review) {
            return Some(MismatchReason::NamespacePattern(describe_patterns(
                &rule.namespaces,
                &review.namespace,
            )));
        }
        if !rule.names.matches_name_of(review) {
            return Some(MismatchReason::NamePattern(describe_patterns(&rule.names, &review.name)));
        }
        None
    }

    /// Whether one of its rules evaluates a review, whatever the labels of the namespace are. A selector of labels only
    /// saves requests: without it, the rule has the same result.
    #[must_use]
    pub fn evaluates(&self, review: &Review<'_>, rule: &str) -> bool {
        let is_for_rule = |requests: &&MatchRule| {
            requests.rules.is_empty() || requests.rules.iter().any(|id| id == rule)
        };
        let mut matches = self.descriptor.matches.iter().filter(is_for_rule);
        !self.is_off(rule) && matches.any(|requests| self.mismatch(requests, review).is_none())
    }

    /// Explains the relation of the policy to a review.
    fn match_result(&self, review: &Review<'_>) -> MatchResult {
        if self.matches(review) {
            return MatchResult::Matched(self.matched_rules(review));
        }
        if self.mode == Mode::Off {
            return MatchResult::Mismatched(MismatchReason::Mode);
        }
        if self.match_rules.iter().any(|requests| requests.matches(review)) {
            let user = || self.excluded_users.iter().any(|user| *user == review.username);
            return MatchResult::Mismatched(if user() {
                MismatchReason::ExcludedUser(opgate_text::one_line(&review.username, 253))
            } else {
                MismatchReason::ExcludedNamespace(opgate_text::one_line(&review.namespace, 253))
            });
        }
        let taken = self.match_rules.iter().find(|requests| requests.rule.matches(review));
        if let Some(narrowed) = taken.and_then(|requests| scope_mismatch(requests, review)) {
            return MatchResult::Mismatched(narrowed);
        }
        let mut nearest = MismatchReason::Resource(Vec::new());
        for rule in &self.descriptor.matches {
            let Some(away) = self.mismatch(rule, review) else { continue };
            match away.rank().cmp(&nearest.rank()) {
                std::cmp::Ordering::Greater => nearest = away,
                std::cmp::Ordering::Equal => nearest.join(away),
                std::cmp::Ordering::Less => {}
            }
        }
        MatchResult::Mismatched(nearest)
    }

    /// The rules that match a review, on or off.
    fn matching_rules(&self, review: &Review<'_>) -> BTreeSet<&str> {
        let mut rules = BTreeSet::new();
        for requests in self.match_rules.iter().filter(|requests| requests.matches(review)) {
            if requests.rule.rules.is_empty() {
                let all = self.descriptor.rules.iter();
                let looks = |rule: &&super::Rule| {
                    rule.operations.is_empty() || rule.operations.contains(&review.operation)
                };
                rules.extend(all.filter(looks).map(|rule| rule.id.as_str()));
            }
            rules.extend(requests.rule.rules.iter().map(String::as_str));
        }
        rules
    }

    /// The rules and conditions of a matching policy that apply to a review.
    fn matched_rules(&self, review: &Review<'_>) -> MatchedRules {
        let matching = self.match_rules.iter().filter(|requests| requests.matches(review));
        let rules = self.matching_rules(review);
        let mut conditions = Vec::new();
        for requests in matching {
            for condition in &requests.rule.conditions {
                let condition = (condition.name.clone(), condition.expression.clone());
                if !conditions.contains(&condition) {
                    conditions.push(condition);
                }
            }
        }
        let known = self.descriptor.rules.iter().filter(|rule| rules.contains(rule.id.as_str()));
        let (off, rules) = known.map(|rule| rule.id.clone()).partition(|rule| self.is_off(rule));
        MatchedRules { rules, rules_off: off, conditions }
    }
}

impl PolicySet {
    /// Whether a review was evaluated: a policy has reported a violation, or one of those that decided has evaluated
    /// a rule. Costs little if one has.
    #[must_use]
    pub fn has_evaluated(
        &self,
        review: &Review<'_>,
        decision: &Decision,
        decides: impl Fn(&str) -> bool,
    ) -> bool {
        if !decision.violations.is_empty() || !decision.policy_errors.is_empty() {
            return true;
        }
        let is_missed = |policy: &str, rule: &str| {
            let is_skipped = |s: &SkippedRule| s.policy == policy && s.rule == rule;
            let is_dropped =
                |d: &DroppedRules| d.policy == policy && d.rules.iter().any(|known| known == rule);
            decision.skipped.iter().any(is_skipped) || decision.dropped.iter().any(is_dropped)
        };
        let deciding = self.policies().iter().filter(|policy| decides(&policy.name));
        deciding.filter(|policy| policy.matches(review)).any(|policy| {
            let evaluates = |rule: &str| !policy.is_off(rule) && !is_missed(&policy.name, rule);
            policy.matching_rules(review).into_iter().any(evaluates)
        })
    }

    /// Explains the relation of each policy of the configuration to a review that this set has
    /// decided.
    #[must_use]
    pub fn match_results(&self, review: &Review<'_>) -> Vec<(&str, MatchResult)> {
        let serving = self.policies().iter();
        let serving = serving.map(|policy| (policy.name.as_str(), policy.match_result(review)));
        let broken = self.broken().iter();
        let broken = broken.map(|broken| {
            (broken.name.as_str(), MatchResult::LoadFailed(broken.error.to_string()))
        });
        let off = self.off().iter();
        let off = off.map(|name| (name.as_str(), MatchResult::Mismatched(MismatchReason::Mode)));
        serving.chain(broken).chain(off).collect()
    }
}
