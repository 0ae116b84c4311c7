//! The matches of policies by resource and operation, so that plans can compare them.

use std::collections::BTreeSet;
use std::time::Duration;

use opgate_admission::policy::{EffectiveMatchRule, MatchCondition, Policy};
use opgate_admission::review::Operation;
use opgate_files::GROUP;

/// The facts about a policy that affect its registration.
#[derive(Debug, Clone, Copy)]
pub struct PolicyFacts<'p> {
    /// Its name in the configuration.
    pub name: &'p str,
    /// The requests that it matches with its settings.
    pub requests: &'p [EffectiveMatchRule],
    /// Whether requests shall rather fail than pass without the policy.
    pub fails_closed: bool,
    /// CPU time of a call.
    pub time: Duration,
    /// Namespaces that the configuration excludes.
    pub excluded: &'p [String],
}

impl<'p> PolicyFacts<'p> {
    /// Returns the facts about a policy.
    #[must_use]
    pub fn of(policy: &'p Policy) -> Self {
        Self {
            name: &policy.name,
            requests: &policy.match_rules,
            fails_closed: policy.can_block(),
            time: policy.limits.cpu_time,
            excluded: policy.excluded_namespaces(),
        }
    }

    /// Returns the matches of the policy, each resource and operation once.
    pub(super) fn matches(&'p self) -> Vec<Match<'p>> {
        let mut matches: Vec<Match<'p>> = Vec::new();
        for requests in self.requests {
            let EffectiveMatchRule { rule, namespace, can_deny, .. } = requests;
            // A rule without versions matches no request.
            if rule.versions.is_empty() {
                continue;
            }
            // Documents for files never come from an API server.
            for group in rule.groups.iter().filter(|group| *group != GROUP) {
                for resource in &rule.resources {
                    for &operation in &rule.operations {
                        let more = Match {
                            policy: self,
                            fails_closed: self.fails_closed && *can_deny,
                            group,
                            resource,
                            operation,
                            versions: rule.versions.iter().map(String::as_str).collect(),
                            namespaces: namespace.as_deref().map(|name| BTreeSet::from([name])),
                            namespace_labels: &requests.namespace_labels,
                            conditions: BTreeSet::from([requests.conditions.as_slice()]),
                            has_policy_conditions: !rule.conditions.is_empty(),
                        };
                        match matches.iter_mut().find(|known| known.matches_same_requests(&more)) {
                            Some(known) => known.merge(more),
                            None => matches.push(more),
                        }
                    }
                }
            }
        }
        matches
    }
}

/// A resource and an operation that a policy wants to see.
#[derive(Debug)]
pub struct Match<'p> {
    /// The policy.
    pub policy: &'p PolicyFacts<'p>,
    /// Whether these requests shall rather fail than pass without the policy.
    pub fails_closed: bool,
    /// Its API group.
    pub group: &'p str,
    /// With the subresource, if any.
    pub resource: &'p str,
    /// CREATE, UPDATE, DELETE or CONNECT.
    pub operation: Operation,
    /// API versions.
    pub versions: BTreeSet<&'p str>,
    /// Only in these; `None` for everywhere.
    pub namespaces: Option<BTreeSet<&'p str>>,
    /// Only in namespaces that this selector (JSON) selects; empty for everywhere.
    pub namespace_labels: &'p str,
    /// Lists of conditions, of which one must hold completely.
    pub conditions: BTreeSet<&'p [MatchCondition]>,
    /// Whether the policy itself narrows all of them by conditions, not only by names.
    pub has_policy_conditions: bool,
}

impl Match<'_> {
    fn matches_same_requests(&self, other: &Self) -> bool {
        self.group == other.group
            && self.resource == other.resource
            && self.operation == other.operation
            && self.namespace_labels == other.namespace_labels
    }

    /// Removes conditions: advisory rules would cost every write of their kind, and are omitted.
    pub(super) fn without_conditions(&mut self) -> bool {
        if self.has_policy_conditions && !self.fails_closed {
            let Self { policy, resource, operation, .. } = self;
            let (policy, operation) = (policy.name, operation.as_str());
            tracing::warn!(
                policy,
                resource,
                operation,
                "without matchConditions API servers would send all of them: omitted"
            );
            return false;
        }
        self.conditions.clear();
        true
    }

    /// Merges another entry. Versions of one rule and namespaces of another may match too many requests
    /// together; the server does not call the policy for the superfluous ones.
    fn merge(&mut self, more: Self) {
        self.fails_closed |= more.fails_closed;
        self.conditions.extend(more.conditions);
        self.has_policy_conditions &= more.has_policy_conditions;
        self.versions.extend(more.versions);
        match (&mut self.namespaces, more.namespaces) {
            (Some(known), Some(more)) => known.extend(more),
            (namespaces, _) => *namespaces = None,
        }
    }
}
