//! Differences between two configurations. The members are part of the stable interface: docs/diff.md.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::facts::{Facts, PolicyMatch};
use super::reviews::ReviewDifferences;

/// Everything that differs.
#[derive(Debug, Default, Serialize)]
pub(super) struct Difference {
    pub(super) different: bool,
    pub(super) general: Vec<FieldChange>,
    pub(super) policies: Vec<ObjectChange>,
    pub(super) rules: Vec<RuleChange>,
    pub(super) requests: Vec<RequestChange>,
    pub(super) webhooks: Vec<ObjectChange>,
    pub(super) permissions: Vec<PermissionChange>,
    pub(super) reads: Vec<ReadChange>,
    /// Only with `--reviews`.
    pub(super) reviews: Option<ReviewDifferences>,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Removed,
    Added,
    Changed,
}

/// A value that differs; null where there is none.
#[derive(Debug, Serialize)]
pub(super) struct FieldChange {
    pub(super) field: String,
    pub(super) old: Value,
    pub(super) new: Value,
}

/// A policy or a webhook, with the fields that differ: all of them where it is added or removed.
#[derive(Debug, Serialize)]
pub(super) struct ObjectChange {
    pub(super) name: String,
    pub(super) change: Change,
    pub(super) fields: Vec<FieldChange>,
}

/// A rule whose level differs: none if its policy is not called.
#[derive(Debug, Serialize)]
pub(super) struct RuleChange {
    pub(super) policy: String,
    pub(super) rule: String,
    pub(super) title: String,
    pub(super) old: Option<&'static str>,
    pub(super) new: Option<&'static str>,
}

/// Requests for a resource, with the policies that want to see them in another way than before.
#[derive(Debug, Serialize)]
pub(super) struct RequestChange {
    /// Added: sent now and not before. Removed: the other way round.
    pub(super) change: Change,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) operations: Vec<&'static str>,
    pub(super) old: Vec<PolicyMatch>,
    pub(super) new: Vec<PolicyMatch>,
}

/// A permission of the server.
#[derive(Debug, Serialize)]
pub(super) struct PermissionChange {
    pub(super) change: Change,
    /// Namespace; none for all.
    pub(super) namespace: Option<String>,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) verbs: Vec<String>,
}

/// A declared read of a policy.
#[derive(Debug, Serialize)]
pub(super) struct ReadChange {
    pub(super) change: Change,
    pub(super) policy: String,
    pub(super) resource: String,
    /// Namespace; none for all.
    pub(super) namespace: Option<String>,
    /// The members that differ: `fields`, `labels`, `optional`.
    pub(super) differs: Vec<&'static str>,
}

impl Difference {
    pub(super) fn of(old: &Facts, new: &Facts) -> Self {
        let mut general = field_changes(&old.general, &new.general);
        general.extend(order_change(&old.order, &new.order));
        Self {
            different: false,
            general,
            policies: object_changes(&old.policies, &new.policies, field_changes),
            rules: rule_changes(old, new),
            requests: request_changes(old, new),
            webhooks: object_changes(&old.webhooks, &new.webhooks, field_changes),
            permissions: permission_changes(old, new),
            reads: read_changes(old, new),
            reviews: None,
        }
    }

    /// Finds out whether anything differs.
    pub(super) fn update_different(&mut self) {
        self.different = !(self.general.is_empty()
            && self.policies.is_empty()
            && self.rules.is_empty()
            && self.requests.is_empty()
            && self.webhooks.is_empty()
            && self.permissions.is_empty()
            && self.reads.is_empty()
            && self.reviews.as_ref().is_none_or(|reviews| reviews.different.is_empty()));
    }
}

/// Returns the keys of both, each once and in order, with their values.
fn merge_keys<'f, K: Ord, V>(
    old: &'f BTreeMap<K, V>,
    new: &'f BTreeMap<K, V>,
) -> impl Iterator<Item = (&'f K, Option<&'f V>, Option<&'f V>)> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    keys.into_iter().map(|key| (key, old.get(key), new.get(key)))
}

fn change_of<V>(old: Option<&V>, new: Option<&V>) -> Change {
    match (old, new) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        _ => Change::Changed,
    }
}

/// Maps of any kind whose values are JSON.
trait SortedFields {
    fn sorted(&self) -> BTreeMap<String, Value>;
}

impl SortedFields for BTreeMap<String, Value> {
    fn sorted(&self) -> BTreeMap<String, Value> {
        self.clone()
    }
}

impl SortedFields for serde_json::Map<String, Value> {
    fn sorted(&self) -> BTreeMap<String, Value> {
        self.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

fn field_changes(old: &impl SortedFields, new: &impl SortedFields) -> Vec<FieldChange> {
    let (old, new) = (old.sorted(), new.sorted());
    let value = |value: Option<&Value>| value.cloned().unwrap_or_default();
    merge_keys(&old, &new)
        .map(|(field, old, new)| FieldChange {
            field: field.clone(),
            old: value(old),
            new: value(new),
        })
        .filter(|field| field.old != field.new)
        .collect()
}

/// Findings of several policies come in their order.
fn order_change(old: &[String], new: &[String]) -> Option<FieldChange> {
    let common = |these: &[String], others: &[String]| -> Vec<String> {
        these.iter().filter(|name| others.contains(name)).cloned().collect()
    };
    let (old, new) = (common(old, new), common(new, old));
    let field = || FieldChange {
        field: "order of policies".to_owned(),
        old: old.clone().into(),
        new: new.clone().into(),
    };
    (old != new).then(field)
}

fn object_changes<F: SortedFields + Default>(
    old: &BTreeMap<String, F>,
    new: &BTreeMap<String, F>,
    fields: impl Fn(&F, &F) -> Vec<FieldChange>,
) -> Vec<ObjectChange> {
    let none = F::default();
    let compare = |(name, old, new): (&String, Option<&F>, Option<&F>)| {
        let (change, name) = (change_of(old, new), name.clone());
        let fields = fields(old.unwrap_or(&none), new.unwrap_or(&none));
        (change != Change::Changed || !fields.is_empty()).then_some(ObjectChange {
            name,
            change,
            fields,
        })
    };
    merge_keys(old, new).filter_map(compare).collect()
}

fn rule_changes(old: &Facts, new: &Facts) -> Vec<RuleChange> {
    let compare = merge_keys(&old.rules, &new.rules).filter_map(|((policy, rule), old, new)| {
        let title = new.or(old).map(|(_, title)| title.clone()).unwrap_or_default();
        let (old, new) = (old.map(|(level, _)| *level), new.map(|(level, _)| *level));
        let (policy, rule) = (policy.clone(), rule.clone());
        (old != new).then_some(RuleChange { policy, rule, title, old, new })
    });
    compare.collect()
}

fn request_changes(old: &Facts, new: &Facts) -> Vec<RequestChange> {
    let mut all: Vec<RequestChange> = Vec::new();
    for ((group, resource, operation), old, new) in merge_keys(&old.requests, &new.requests) {
        if old == new {
            continue;
        }
        let change = change_of(old, new);
        let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
        let only =
            |of: &BTreeSet<PolicyMatch>, other| of.difference(other).cloned().collect::<Vec<_>>();
        let (old, new) = (only(&old, &new), only(&new, &old));
        let is_alike = |one: &&mut RequestChange| {
            one.change == change
                && one.group == *group
                && one.resource == *resource
                && one.old == old
                && one.new == new
        };
        match all.iter_mut().find(is_alike) {
            Some(one) => one.operations.push(operation),
            None => all.push(RequestChange {
                change,
                group: group.clone(),
                resource: resource.clone(),
                operations: vec![operation],
                old,
                new,
            }),
        }
    }
    all
}

fn permission_changes(old: &Facts, new: &Facts) -> Vec<PermissionChange> {
    let removed = old.permissions.difference(&new.permissions).map(|one| (Change::Removed, one));
    let added = new.permissions.difference(&old.permissions).map(|one| (Change::Added, one));
    let mut all: Vec<PermissionChange> = Vec::new();
    for (change, [namespace, group, resource, verb]) in removed.chain(added) {
        let namespace = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
        let is_alike = |one: &&mut PermissionChange| {
            one.change == change
                && one.namespace == namespace
                && one.group == *group
                && one.resource == *resource
        };
        match all.iter_mut().find(is_alike) {
            Some(one) => one.verbs.push(verb.clone()),
            None => all.push(PermissionChange {
                change,
                group: group.clone(),
                resource: resource.clone(),
                verbs: vec![verb.clone()],
                namespace,
            }),
        }
    }
    all
}

fn read_changes(old: &Facts, new: &Facts) -> Vec<ReadChange> {
    let compare = merge_keys(&old.reads, &new.reads).filter_map(
        |([policy, resource, namespace], old, new)| {
            let differs = match (old, new) {
                (Some(old), Some(new)) => old.differences(new),
                _ => Vec::new(),
            };
            let change = change_of(old, new);
            let namespace = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
            let (policy, resource) = (policy.clone(), resource.clone());
            let is_one = change != Change::Changed || !differs.is_empty();
            is_one.then_some(ReadChange { change, policy, resource, namespace, differs })
        },
    );
    compare.collect()
}
