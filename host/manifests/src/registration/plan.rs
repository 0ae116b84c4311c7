//! Plans the webhooks: their number, and the policies that share one.
//!
//! ```text
//! group, resource and operation ─▶ one class per API group, ─┬─ alone ─▶ one webhook, /validate
//! of each policy                   failure policy,           ├─ resources that can be shared ─▶ few,
//!                                  namespaces, conditions    │                 /validate/{policy}/…
//!                                                            └─ others ─▶ one webhook a policy,
//!                                                                         /validate/{policy}
//! ```
//!
//! One call for several policies is better than several calls: the request is read once, and a request that
//! one policy denies is reserved for none. Policies of a class share a webhook if they match the same
//! versions of their common resources. API servers convert a request to a version of the rules (`matchPolicy:
//! Equivalent`) only if none of the webhook's rules has the version of the request. A policy for `v1` would
//! no longer receive `v2` if it shared a webhook with one for `v1` and `v2`.
//!
//! `/validate` calls every policy that matches, and API servers call every webhook that matches. That path is
//! therefore only for a webhook whose requests no other webhook can match, whatever its failure policy,
//! namespaces and conditions. Otherwise the path names the policies. A policy that matches some of these
//! requests with other parameters, such as another failure policy, does not share the webhook for their
//! resource: its failures must not block them. It shares those for other resources, so that an object costs
//! few calls. One case remains: a policy that matches a resource both by its name and by `*`, in different
//! namespaces or groups, or in namespaces with different labels, may be called twice. It returns the same
//! verdict both times, and API servers show a warning once.
//!
//! Advisory rules share webhooks at the end, across API groups: otherwise a policy with advisory rules for
//! ten groups would have ten webhooks that differ in nothing else. Webhooks that can deny cover one group,
//! because the denial message contains their name.

use std::collections::BTreeSet;

use super::matches::{Match, PolicyFacts};

/// The matches of one webhook.
type WebhookMatches<'w> = Vec<&'w Match<'w>>;
type WebhookPartition<'w> = Vec<WebhookMatches<'w>>;

/// A webhook to be.
#[derive(Debug)]
pub(super) struct PlannedWebhook<'w> {
    /// At least one, all alike.
    pub(super) matches: Vec<&'w Match<'w>>,
    pub(super) policies: Vec<&'w PolicyFacts<'w>>,
    /// Whether other webhooks may match the same requests, so that the path names the policies.
    pub(super) names_policies: bool,
}

/// Plans the webhooks for these matches.
pub(super) fn plan<'w>(matches: &'w [Match<'w>]) -> Vec<PlannedWebhook<'w>> {
    let mut planned = Vec::new();
    for class in group_by(matches, is_alike) {
        if is_independent(&class, matches) {
            planned.push(PlannedWebhook::of(class, false));
            continue;
        }
        let (shared, rest) = split_by_resource(class, matches);
        planned.extend(shared.into_iter().map(|part| PlannedWebhook::of(part, true)));
        let (mut apart, together): (Vec<_>, Vec<_>) = rest
            .iter()
            .copied()
            .partition(|matched| receives_more_requests(matched.policy, &rest, matches));
        if all_receive_same_requests(&together) {
            planned.extend((!together.is_empty()).then(|| PlannedWebhook::of(together, true)));
        } else {
            apart.extend(together);
        }
        let apart = group_by(apart, is_of_one_policy).into_iter();
        planned.extend(apart.map(|of_one| PlannedWebhook::of(of_one, true)));
    }
    // If two have the same name, the one that can deny gets it.
    planned.sort_by_key(|webhook| !webhook.fails_closed());
    merge_across_groups(planned)
}

/// Returns the resources of a class, in as few parts as possible, so that the policies of a part can share a
/// webhook; and the resources that even alone cannot be shared.
fn split_by_resource<'w>(
    class: Vec<&'w Match<'w>>,
    matches: &[Match<'_>],
) -> (WebhookPartition<'w>, WebhookMatches<'w>) {
    let (mut parts, mut rest) = (WebhookPartition::new(), WebhookMatches::new());
    for resource in group_by(class, |a, b| a.resource == b.resource) {
        if !can_share(&resource, matches) {
            rest.extend(resource);
            continue;
        }
        let fits = |part: &&mut WebhookMatches<'w>| {
            can_share(&[part.as_slice(), resource.as_slice()].concat(), matches)
        };
        match parts.iter_mut().find(fits) {
            Some(part) => part.extend(resource),
            None => parts.push(resource),
        }
    }
    // A policy with a separate webhook needs no second one.
    if !rest.is_empty() {
        let (alone, shared): (WebhookPartition<'w>, WebhookPartition<'w>) =
            parts.into_iter().partition(|part| {
                part.iter()
                    .all(|matched| part.first().is_some_and(|a| is_of_one_policy(a, matched)))
            });
        rest.extend(alone.into_iter().flatten());
        parts = shared;
    }
    (parts, rest)
}

/// Reports whether policies can share a webhook without receiving other requests than separately.
fn can_share(class: &[&Match<'_>], matches: &[Match<'_>]) -> bool {
    all_receive_same_requests(class)
        && !class.iter().any(|matched| receives_more_requests(matched.policy, class, matches))
}

/// Puts webhooks together that differ in their API groups only, and cannot deny.
fn merge_across_groups(planned: Vec<PlannedWebhook<'_>>) -> Vec<PlannedWebhook<'_>> {
    let mut all: Vec<PlannedWebhook<'_>> = Vec::new();
    for webhook in planned {
        match all.iter_mut().find(|known| known.differs_in_groups_only(&webhook)) {
            Some(known) => known.matches.extend(webhook.matches),
            None => all.push(webhook),
        }
    }
    all
}

/// Puts together what is alike, in the order in which it comes.
fn group_by<'w>(
    matches: impl IntoIterator<Item = &'w Match<'w>>,
    alike: impl Fn(&Match<'_>, &Match<'_>) -> bool,
) -> Vec<Vec<&'w Match<'w>>> {
    let mut groups: Vec<Vec<&'w Match<'w>>> = Vec::new();
    for matched in matches {
        let found =
            groups.iter_mut().find(|g| g.first().is_some_and(|first| alike(first, matched)));
        match found {
            Some(group) => group.push(matched),
            None => groups.push(vec![matched]),
        }
    }
    groups
}

impl<'w> PlannedWebhook<'w> {
    fn of(matches: Vec<&'w Match<'w>>, is_named: bool) -> Self {
        let mut policies: Vec<&'w PolicyFacts<'w>> = Vec::new();
        for matched in &matches {
            if !policies.iter().any(|known| known.name == matched.policy.name) {
                policies.push(matched.policy);
            }
        }
        Self { matches, policies, names_policies: is_named }
    }

    pub(super) fn fails_closed(&self) -> bool {
        self.matches.iter().any(|matched| matched.fails_closed)
    }

    /// Returns the API groups, each once.
    pub(super) fn groups(&self) -> BTreeSet<&'w str> {
        self.matches.iter().map(|matched| matched.group).collect()
    }

    /// A wildcard is registered separately: it would match requests of the other groups in other versions.
    fn differs_in_groups_only(&self, other: &Self) -> bool {
        let names = |planned: &Self| -> Vec<&str> {
            planned.policies.iter().map(|policy| policy.name).collect()
        };
        let (Some(a), Some(b)) = (self.matches.first(), other.matches.first()) else {
            return false;
        };
        let (groups, more) = (self.groups(), other.groups());
        !self.fails_closed()
            && !other.fails_closed()
            && names(self) == names(other)
            && (self.names_policies == other.names_policies || self.policies.len() == 1)
            && has_same_conditions(a, b)
            && groups.is_disjoint(&more)
            && !groups.union(&more).any(|group| *group == "*")
    }
}

/// Reports whether one webhook can serve both.
fn is_alike(a: &Match<'_>, b: &Match<'_>) -> bool {
    a.group == b.group && a.fails_closed == b.fails_closed && has_same_conditions(a, b)
}

fn has_same_conditions(a: &Match<'_>, b: &Match<'_>) -> bool {
    a.namespaces == b.namespaces
        && a.namespace_labels == b.namespace_labels
        && a.conditions == b.conditions
}

fn is_of_one_policy(a: &Match<'_>, b: &Match<'_>) -> bool {
    a.policy.name == b.policy.name
}

/// Reports whether there may be a request that is among both.
fn overlap(a: &Match<'_>, b: &Match<'_>) -> bool {
    let either = |a: &str, b: &str| a == b || a == "*" || b == "*";
    let (resource, sub) = split_resource(a.resource);
    let (other, other_sub) = split_resource(b.resource);
    let apart = match (&a.namespaces, &b.namespaces) {
        (Some(a), Some(b)) => a.is_disjoint(b),
        _ => false,
    };
    a.operation == b.operation
        && either(a.group, b.group)
        && either(resource, other)
        && either(sub, other_sub)
        && !apart
}

/// Splits resource and sub-resource, as API servers and `MatchRule::matches` read them: `pods/*` includes
/// `pods`.
pub(super) fn split_resource(resource: &str) -> (&str, &str) {
    resource.split_once('/').unwrap_or((resource, ""))
}

/// Reports whether a policy that shares a webhook with others of its class also receives requests that it
/// matches with other parameters: for example without a failure policy of `Fail`.
fn receives_more_requests(
    policy: &PolicyFacts<'_>,
    class: &[&Match<'_>],
    matches: &[Match<'_>],
) -> bool {
    let of_class = |a: &Match<'_>| class.iter().any(|b| std::ptr::eq(*b, a));
    let mut elsewhere = matches.iter().filter(|a| a.policy.name == policy.name && !of_class(a));
    elsewhere.any(|a| class.iter().any(|b| b.policy.name != policy.name && overlap(a, b)))
}

/// Reports whether the policies of a class receive all their requests in a shared webhook.
fn all_receive_same_requests(class: &[&Match<'_>]) -> bool {
    let same = |a: &Match<'_>, b: &Match<'_>| {
        !overlap(a, b) || is_of_one_policy(a, b) || a.versions == b.versions
    };
    class.iter().all(|a| class.iter().all(|b| same(a, b)))
}

/// Reports whether the policies of a class can share a webhook, and no other webhook can match its requests.
fn is_independent(class: &[&Match<'_>], matches: &[Match<'_>]) -> bool {
    all_receive_same_requests(class)
        && class.iter().all(|a| matches.iter().all(|b| !overlap(a, b) || is_alike(a, b)))
}

#[cfg(test)]
mod tests {
    use crate::registration::testing::*;
    use opgate_admission::review::Operation;

    #[test]
    fn shared_webhooks_call_each_policy_exactly_once() {
        let bundles = [requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITE_OPERATIONS)];
        let deployments =
            [requests(RUKPAK, &["v1alpha1"], &["bundledeployments"], WRITE_OPERATIONS)];
        let newer = [requests(RUKPAK, &["v1alpha1", "v1alpha2"], &["bundles"], WRITE_OPERATIONS)];
        let deletions = [requests(RUKPAK, &["v1"], &["bundles"], &[Operation::Delete])];
        let somewhere = [in_namespace("x", bundles[0].clone())];
        let elsewhere = [in_namespace("y", bundles[0].clone())];
        let all = [requests("*", &["*"], &["*"], WRITE_OPERATIONS)];
        let shared = "vbundles.core.rukpak.io /validate Fail";
        let both = "vbundles.core.rukpak.io /validate/a/b Fail";
        let a = "vbundles.core.rukpak.io /validate/a Fail";
        let b = "vbundles-b.core.rukpak.io /validate/b Fail";
        let cases = [
            // The webhooks are the same, for different resources.
            (vec![policy("a", &bundles), policy("b", &bundles)], vec![shared]),
            (vec![policy("b", &deployments), policy("a", &bundles)], vec![shared]),
            (vec![policy("a", &bundles), policy("b", &deletions)], vec![shared]),
            // `v1alpha2` would be sent unconverted, and would not match `a`.
            (vec![policy("a", &bundles), policy("b", &newer)], vec![a, b]),
            // Two failure policies for one request, and for two.
            (
                vec![advisory_policy("b", &bundles), policy("a", &bundles)],
                vec![a, "vbundles-b.core.rukpak.io /validate/b Ignore"],
            ),
            (
                vec![policy("a", &bundles), policy("b", &bundles), advisory_policy("c", &bundles)],
                vec![both, "vbundles-c.core.rukpak.io /validate/c Ignore"],
            ),
            (
                vec![
                    policy("a", &bundles),
                    policy("b", &bundles),
                    advisory_policy("c", &deletions),
                    advisory_policy("d", &deletions),
                ],
                vec![shared, "vbundles-ignore.core.rukpak.io /validate Ignore"],
            ),
            (
                vec![
                    policy("a", &bundles),
                    policy("b", &bundles),
                    advisory_policy("c", &deployments),
                ],
                vec![shared, "vbundledeployments.core.rukpak.io /validate/c Ignore"],
            ),
            // Everywhere and somewhere.
            (
                vec![policy("a", &bundles), policy("b", &bundles), policy("c", &somewhere)],
                vec![both, "vbundles-c.core.rukpak.io /validate/c Fail"],
            ),
            (
                vec![policy("a", &somewhere), policy("b", &somewhere), policy("c", &elsewhere)],
                vec![shared, "vbundles-c.core.rukpak.io /validate/c Fail"],
            ),
            // By name and by wildcard.
            (
                vec![policy("a", &bundles), policy("b", &bundles), policy("c", &all)],
                vec![both, "vall.all.opgate.dev /validate/c Fail"],
            ),
        ];
        for (policies, expected) in cases {
            assert_eq!(summaries(&policies), expected);
        }
        // One that blocks some requests and only warns of others does not block those others.
        let mut advice = bundles[0].clone();
        advice.can_deny = false;
        let mixed = [deployments[0].clone(), advice];
        let policies = [policy("a", &bundles), policy("b", &bundles), policy("c", &mixed)];
        let expected = [
            both,
            "vbundledeployments.core.rukpak.io /validate/c Fail",
            "vbundles-c.core.rukpak.io /validate/c Ignore",
        ];
        assert_eq!(summaries(&policies), expected);
        // Advisory rules need one webhook for several groups, unless one of them is every group.
        let things = requests("g.io", &["v1"], &["things"], WRITE_OPERATIONS);
        let there = in_namespace("x", requests("h.io", &["v1"], &["things"], WRITE_OPERATIONS));
        let advice = [bundles[0].clone(), things, there, all[0].clone()];
        let named = |names: [&str; 3], end: &str| names.map(|name| format!("{name} {end}"));
        let expected =
            named(["va.opgate.dev", "vthings.h.io", "vall.all.opgate.dev"], "/validate/a Ignore");
        assert_eq!(summaries(&[advisory_policy("a", &advice)]), expected);
        let rules = webhooks(&[advisory_policy("a", &advice)])[0]["rules"].clone();
        let groups = rules.as_array().unwrap().iter().map(|rule| rule["apiGroups"][0].clone());
        assert_eq!(groups.collect::<Vec<_>>(), [RUKPAK, "g.io"]);
        let ab = [policy("a", &bundles), policy("b", &bundles)];
        assert_eq!(webhooks(&ab)[0]["rules"].as_array().unwrap().len(), 1);
    }
}
