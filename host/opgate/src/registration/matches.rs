//! What policies want to see: resource by resource and operation by operation, so that plans can
//! compare it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::names::{is_domain, is_label};
use opgate_admission::policy::{MatchCondition, MatchRule, Policy, Requests};
use opgate_admission::review::Operation;
use opgate_files::GROUP;

/// What counts of a policy here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PolicyFacts<'p> {
    pub(crate) name: &'p str,
    pub(crate) requests: &'p [Requests],
    /// Whether requests shall rather fail than pass without the policy.
    pub(crate) blocks: bool,
    pub(crate) time: Duration,
    pub(crate) excluded: &'p [String],
}

impl<'p> PolicyFacts<'p> {
    pub(crate) fn of(policy: &'p Policy) -> Self {
        Self {
            name: &policy.name,
            requests: &policy.requests,
            blocks: policy.can_block(),
            time: policy.limits.time,
            excluded: policy.excluded_namespaces(),
        }
    }

    /// What the policy wants to see, each resource and operation once.
    ///
    /// # Errors
    /// Where it asks for something that an API server would not take into its configuration.
    pub(crate) fn matches(&'p self) -> Result<Vec<Match<'p>>, String> {
        let mut matches: Vec<Match<'p>> = Vec::new();
        for Requests { rule, namespace, can_deny } in self.requests {
            check(rule).map_err(|why| format!("policy {}: {why}", self.name))?;
            // No version matches no request.
            if rule.versions.is_empty() {
                continue;
            }
            // Documents for files never come from an API server.
            for group in rule.groups.iter().filter(|group| *group != GROUP) {
                for resource in &rule.resources {
                    for &operation in &rule.operations {
                        let more = Match {
                            policy: self,
                            blocks: self.blocks && *can_deny,
                            group,
                            resource,
                            operation,
                            versions: rule.versions.iter().map(String::as_str).collect(),
                            namespaces: namespace.as_deref().map(|name| BTreeSet::from([name])),
                            namespace_labels: &rule.namespace_labels,
                            conditions: BTreeSet::from([rule.conditions.as_slice()]),
                        };
                        match matches.iter_mut().find(|known| known.is_about(&more)) {
                            Some(known) => known.merge(more),
                            None => matches.push(more),
                        }
                    }
                }
            }
        }
        Ok(matches)
    }
}

/// A resource and an operation that a policy wants to see.
#[derive(Debug)]
pub(crate) struct Match<'p> {
    pub(crate) policy: &'p PolicyFacts<'p>,
    /// Whether these requests shall rather fail than pass without the policy.
    pub(crate) blocks: bool,
    pub(crate) group: &'p str,
    pub(crate) resource: &'p str,
    pub(crate) operation: Operation,
    pub(crate) versions: BTreeSet<&'p str>,
    /// Only in these; `None` for everywhere.
    pub(crate) namespaces: Option<BTreeSet<&'p str>>,
    /// Only in namespaces that this selector (JSON) selects; empty for everywhere.
    pub(crate) namespace_labels: &'p str,
    /// Only where all conditions of one of these hold.
    pub(crate) conditions: BTreeSet<&'p [MatchCondition]>,
}

impl Match<'_> {
    fn is_about(&self, other: &Self) -> bool {
        self.group == other.group
            && self.resource == other.resource
            && self.operation == other.operation
            && self.namespace_labels == other.namespace_labels
    }

    /// Does without conditions: what only warns would cost every write of its kind, and is left out.
    pub(crate) fn without_conditions(&mut self) -> bool {
        let is_narrowed = self.conditions.iter().all(|list| !list.is_empty());
        if is_narrowed && !self.blocks {
            let Self { policy, resource, operation, .. } = self;
            let (policy, operation) = (policy.name, operation.as_str());
            tracing::warn!(
                policy,
                resource,
                operation,
                "without matchConditions API servers would send all of them: left out"
            );
            return false;
        }
        self.conditions.clear();
        true
    }

    /// Versions of one rule and namespaces of another may be too much together; the policy is not
    /// asked about what is too much.
    fn merge(&mut self, more: Self) {
        self.blocks |= more.blocks;
        self.conditions.extend(more.conditions);
        self.versions.extend(more.versions);
        match (&mut self.namespaces, more.namespaces) {
            (Some(known), Some(more)) => known.extend(more),
            (namespaces, _) => *namespaces = None,
        }
    }
}

/// Whether an API server would take what a policy asks for: it comes out of the sandbox, and one
/// word that it refuses would cost all other policies their webhooks.
fn check(rule: &MatchRule) -> Result<(), String> {
    let group = |text: &str| text.is_empty() || text == "*" || is_domain(text);
    let version = |text: &str| text == "*" || is_label(text);
    let resource = |text: &str| match text.split_once('/') {
        Some((name, sub)) => version(name) && version(sub),
        None => version(text),
    };
    let wrong = |what: &str, texts: &[String], is_right: &dyn Fn(&str) -> bool| {
        let wrong = texts.iter().find(|text| !is_right(text))?;
        let wrong = opgate_text::one_line(wrong, 64);
        Some(format!("asks for requests of the {what} {wrong:?}, which cannot exist"))
    };
    let wrong = wrong("group", &rule.groups, &group)
        .or_else(|| wrong("version", &rule.versions, &version))
        .or_else(|| wrong("resource", &rule.resources, &resource));
    wrong.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn what_cannot_exist_is_refused() {
        let cases = [
            (requests("Core", &["v1"], &["x"], WRITES), "group \"Core\""),
            (requests("g.io", &["v 1"], &["x"], WRITES), "version \"v 1\""),
            (requests("g.io", &["v1"], &["x", "X"], WRITES), "resource \"X\""),
            (requests("g.io", &["v1"], &["a/b/c"], WRITES), "resource \"a/b/c\""),
            (requests("g.io", &["v1"], &["a/"], WRITES), "resource \"a/\""),
        ];
        for (wanted, expected) in cases {
            let wanted = [wanted];
            let error = policy("a", &wanted).matches().unwrap_err();
            let expected =
                format!("policy a: asks for requests of the {expected}, which cannot exist");
            assert_eq!(error, expected);
        }
    }
}
