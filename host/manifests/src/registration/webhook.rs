//! One webhook of the configuration, as a plan describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ValidatingWebhook,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::WebhookRegistration;
use super::matches::Match;
use super::plan::{PlannedWebhook, split_resource};
use opgate_admission::policy::MatchCondition as PolicyCondition;
use opgate_admission::review::Operation;

/// Group and resource whose webhook has the name in the documentation of RukPak, `vbundles.core.rukpak.io`,
/// also if it covers other resources.
const DOCUMENTED_RESOURCE: (&str, &str) = ("core.rukpak.io", "bundles");

/// End of the names of webhooks for groups that make no name with three segments themselves.
const WEBHOOK_NAME_SUFFIX: &str = "opgate.dev";

/// The label by which API servers select namespaces by name; they set it themselves.
pub(crate) const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// From the end of a policy's time to the API server's patience: for the way, the wait for a turn
/// and opgate's own margin, so that opgate answers first and names the slow policy.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(1);

/// Minimum and maximum of `timeoutSeconds`: a lower value helps no client, and Kubernetes allows no higher
/// one.
const MIN_TIMEOUT_SECONDS: i32 = 5;
pub(super) const MAX_TIMEOUT_SECONDS: i32 = 30;

impl PlannedWebhook<'_> {
    /// Builds the webhook configuration; `others` have their names already.
    pub(super) fn webhook(
        &self,
        registration: &WebhookRegistration,
        others: &[ValidatingWebhook],
    ) -> ValidatingWebhook {
        // A webhook that denies nothing must not block requests when opgate is absent.
        let failure_policy = if self.fails_closed() { "Fail" } else { "Ignore" };
        ValidatingWebhook {
            name: self.name(others),
            admission_review_versions: to_strings(["v1", "v1beta1"]),
            client_config: registration.target.client_config(&registration.ca, self.path()),
            failure_policy: Some(failure_policy.to_owned()),
            match_conditions: self.conditions(),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(self.namespaces(&registration.exempt)),
            rules: Some(self.rules()),
            // Reservations are written to the ledger, but not for dry runs: these are checked as well.
            side_effects: "NoneOnDryRun".to_owned(),
            timeout_seconds: Some(self.timeout_seconds()),
            ..ValidatingWebhook::default()
        }
    }

    /// Returns the path. API servers accept only segments that are DNS names, which names of policies are.
    fn path(&self) -> String {
        let names = self.policies.iter().map(|policy| policy.name);
        match self.policies.as_slice() {
            [_] => ["/validate"].into_iter().chain(names).collect::<Vec<_>>().join("/"),
            _ if self.names_policies => {
                ["/validate"].into_iter().chain(names).collect::<Vec<_>>().join("/")
            }
            _ => "/validate".to_owned(),
        }
    }

    /// Builds the name from `v`, the first resource and the group, as documented. Denials and audit
    /// annotations start with it. A webhook for several groups, which denies nothing, has the name of its
    /// policy instead.
    fn name(&self, others: &[ValidatingWebhook]) -> String {
        let documented =
            |matched: &&Match<'_>| (matched.group, matched.resource) == DOCUMENTED_RESOURCE;
        let first = self.matches.iter().copied().find(documented).or(self.matches.first().copied());
        let resource = first.map_or("", |matched| matched.resource);
        let suffix = match self.policies.as_slice() {
            [only] => only.name,
            _ if self.fails_closed() => "fail",
            _ => "ignore",
        };
        let (label, domain) = match first.map_or("", |matched| matched.group) {
            _ if self.groups().len() > 1 => (format!("v{suffix}"), WEBHOOK_NAME_SUFFIX.to_owned()),
            group => {
                let label = format!("v{}", resource.replace('/', "-").replace('*', "all"));
                let domain = match group {
                    "" => format!("core.{WEBHOOK_NAME_SUFFIX}"),
                    "*" => format!("all.{WEBHOOK_NAME_SUFFIX}"),
                    group if group.contains('.') => group.to_owned(),
                    group => format!("{group}.{WEBHOOK_NAME_SUFFIX}"),
                };
                (label, domain)
            }
        };
        let is_taken = |name: &str| others.iter().any(|other| other.name == name);
        let plain = format!("{label}.{domain}");
        if !is_taken(&plain) {
            return plain;
        }
        // The name of a policy is not added to itself.
        let label = if self.groups().len() > 1 { label } else { format!("{label}-{suffix}") };
        let mut name = format!("{label}.{domain}");
        let mut number = 1;
        while is_taken(&name) {
            number += 1;
            name = format!("{label}-{number}.{domain}");
        }
        name
    }

    /// Combines entries with the same group, versions and operations in one rule.
    fn rules(&self) -> Vec<RuleWithOperations> {
        let mut operations: BTreeMap<_, BTreeSet<Operation>> = BTreeMap::new();
        for matched in &self.matches {
            let key = (matched.group, matched.resource, &matched.versions);
            operations.entry(key).or_default().insert(matched.operation);
        }
        let mut rules: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for ((group, resource, versions), operations) in operations {
            rules.entry((group, versions, operations)).or_default().insert(resource);
        }
        let rules = rules.into_iter().map(|((group, versions, operations), resources)| {
            // API servers reject a wildcard together with specific values.
            let every = versions.contains("*");
            let versions = versions.iter().copied().filter(|version| !every || *version == "*");
            let is_left = |inner: &&str| {
                !resources.iter().any(|outer| outer != inner && covers(outer, inner))
            };
            RuleWithOperations {
                api_groups: Some(to_strings([group])),
                api_versions: Some(to_strings(versions)),
                operations: Some(to_strings(operations.iter().map(|operation| operation.as_str()))),
                resources: Some(to_strings(resources.iter().copied().filter(is_left))),
                scope: Some("*".to_owned()),
            }
        });
        rules.collect()
    }

    /// Returns the conditions under which requests are sent. If there are several lists, one of them must
    /// hold.
    fn conditions(&self) -> Option<Vec<MatchCondition>> {
        let lists = &self.matches.first()?.conditions;
        let condition = |name: &str, expression: &str| MatchCondition {
            name: name.to_owned(),
            expression: expression.to_owned(),
        };
        if lists.is_empty() || lists.iter().any(|list| list.is_empty()) {
            return None;
        }
        if let Some(only) = lists.first().filter(|_| lists.len() == 1) {
            return Some(only.iter().map(|one| condition(&one.name, &one.expression)).collect());
        }
        let all = |list: &&[_]| {
            let inner: Vec<_> =
                list.iter().map(|one: &PolicyCondition| format!("({})", one.expression)).collect();
            format!("({})", inner.join(" && "))
        };
        let either: Vec<_> = lists.iter().map(all).collect();
        Some(vec![condition("any-rule", &either.join(" || "))])
    }

    /// Returns the namespace selector. API servers apply it to objects in namespaces and to namespaces
    /// themselves; all other cluster-scoped objects are always sent.
    ///
    /// Policies limited to some namespaces exempt all others already. A namespace that is both matched and
    /// exempt is exempt: both conditions are registered, so that administrators can see them.
    fn namespaces(&self, exempt: &[String]) -> LabelSelector {
        let by_all = |name: &&String| self.policies.iter().all(|p| p.excluded.contains(name));
        let excluded = self.policies.first().map(|policy| policy.excluded).unwrap_or_default();
        let mut without: Vec<&str> = Vec::new();
        for name in exempt.iter().chain(excluded.iter().filter(by_all)) {
            if !without.contains(&name.as_str()) {
                without.push(name);
            }
        }
        let only = self.matches.first().and_then(|matched| matched.namespaces.as_ref());
        let mut conditions = Vec::new();
        if let Some(only) = only {
            conditions.push(selector_requirement("In", only.iter().copied()));
            if only.iter().all(|name| without.contains(name)) {
                let (groups, namespaces) = (self.groups(), only);
                tracing::warn!(
                    ?groups,
                    ?namespaces,
                    "policies matched requests in exempt namespaces only: they will not see them"
                );
            }
        }
        if only.is_none_or(|only| only.iter().any(|name| without.contains(name))) {
            conditions.push(selector_requirement("NotIn", without));
        }
        let labels = self.matches.first().map_or("", |matched| matched.namespace_labels);
        let selector: LabelSelector = serde_json::from_str(labels).unwrap_or_default();
        conditions.splice(0..0, selector.match_expressions.unwrap_or_default());
        LabelSelector { match_expressions: Some(conditions), match_labels: selector.match_labels }
    }

    /// Returns the timeout. Long calls of several policies run in parallel, so that the slowest counts.
    fn timeout_seconds(&self) -> i32 {
        let slowest = self.policies.iter().map(|policy| policy.time).max();
        timeout_seconds_for(slowest.unwrap_or_default())
            .clamp(MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS)
    }
}

/// Returns the whole seconds after which a policy with this time limit has responded.
pub(super) fn timeout_seconds_for(time: Duration) -> i32 {
    let needed = time.saturating_add(TIMEOUT_MARGIN);
    let seconds = needed.as_secs().saturating_add(u64::from(needed.subsec_nanos() > 0));
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn selector_requirement<'t>(
    operator: &str,
    names: impl IntoIterator<Item = &'t str>,
) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: NAMESPACE_NAME_LABEL.to_owned(),
        operator: operator.to_owned(),
        values: Some(to_strings(names)),
    }
}

fn to_strings<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

/// Reports whether every request for `inner` is one for `outer`.
fn covers(outer: &str, inner: &str) -> bool {
    let ((resource, sub), (other, other_sub)) = (split_resource(outer), split_resource(inner));
    (resource == "*" || resource == other) && (sub == "*" || sub == other_sub)
}

#[cfg(test)]
mod tests {
    use opgate_admission::policy::{EffectiveMatchRule, NamePatterns, Scope};
    use serde_json::{Value, json};

    use super::super::matches::PolicyFacts;
    use super::*;
    use crate::registration::testing::*;

    #[test]
    fn a_policy_has_a_webhook_for_each_of_its_groups() {
        let wanted = [
            requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITE_OPERATIONS),
            requests(
                RUKPAK,
                &["v1alpha1", "v1alpha2"],
                &["bundledeployments"],
                &[Operation::Delete, Operation::Create, Operation::Update],
            ),
            in_namespace("rukpak-system", requests("", &["v1"], &["configmaps"], WRITE_OPERATIONS)),
            requests("apps", &["v1"], &["deployments/scale"], &[Operation::Update]),
            requests("*", &["*"], &["*/*"], &[Operation::Connect]),
        ];
        let policies = [policy("a", &wanted)];
        let expected = [
            "vbundles.core.rukpak.io /validate/a Fail",
            "vconfigmaps.core.opgate.dev /validate/a Fail",
            "vdeployments-scale.apps.opgate.dev /validate/a Fail",
            "vall-all.all.opgate.dev /validate/a Fail",
        ];
        assert_eq!(summaries(&policies), expected);
        let webhooks = webhooks(&policies);
        let expected = json!({
            "name": "vbundles.core.rukpak.io",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"caBundle": "Q0E=", "url": "https://opgate.test/validate/a"},
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "opgate-system"],
            }]},
            "rules": [
                {
                    "apiGroups": ["core.rukpak.io"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["bundles"],
                    "scope": "*",
                },
                {
                    "apiGroups": ["core.rukpak.io"],
                    "apiVersions": ["v1alpha1", "v1alpha2"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["bundledeployments"],
                    "scope": "*",
                },
            ],
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 5,
        });
        assert_eq!(webhooks[0], expected);
        assert_eq!(webhooks[1]["rules"][0]["apiGroups"], json!([""]));
        assert_eq!(webhooks[2]["rules"][0]["resources"], json!(["deployments/scale"]));
        assert_eq!(webhooks[3]["rules"][0]["apiGroups"], json!(["*"]));
    }

    #[test]
    fn related_requests_share_one_rule() {
        let wanted = [
            requests("g.io", &["v1"], &["things"], &[Operation::Update]),
            requests("g.io", &["v1"], &["others", "things"], &[Operation::Create]),
            requests("g.io", &["v1"], &["others"], &[Operation::Update]),
            requests("g.io", &["v2", "*"], &["*", "wild", "wild/status"], &[Operation::Delete]),
            requests("g.io", &[], &["never"], WRITE_OPERATIONS),
        ];
        let rule = |versions: &[&str], operations: &[&str], resources: &[&str]| {
            json!({
                "apiGroups": ["g.io"],
                "apiVersions": versions,
                "operations": operations,
                "resources": resources,
                "scope": "*",
            })
        };
        let expected = json!([
            rule(&["*"], &["DELETE"], &["*", "wild/status"]),
            rule(&["v1"], &["CREATE", "UPDATE"], &["others", "things"]),
        ]);
        assert_eq!(webhooks(&[policy("a", &wanted)])[0]["rules"], expected);
        assert!(webhooks(&[policy("a", &[])]).is_empty());
    }

    #[test]
    fn names_are_unique() {
        let here = in_namespace("x", requests("g.io", &["v1"], &["things"], &[Operation::Create]));
        let there = in_namespace("y", requests("g.io", &["v1"], &["things"], &[Operation::Update]));
        let where_ever = requests("g.io", &["v1"], &["things"], &[Operation::Delete]);
        let wanted = [here, there, where_ever];
        let expected = [
            "vthings.g.io /validate/a Fail",
            "vthings-a.g.io /validate/a Fail",
            "vthings-a-2.g.io /validate/a Fail",
        ];
        assert_eq!(summaries(&[policy("a", &wanted)]), expected);
    }

    #[test]
    fn namespaces_are_selected_and_exempt() {
        let bundles = requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITE_OPERATIONS);
        let condition = |operator: &str, values: &[&str]| {
            let key = "kubernetes.io/metadata.name";
            json!({"key": key, "operator": operator, "values": values})
        };
        let selected = |policies: &[PolicyFacts<'_>]| {
            webhooks(policies)[0]["namespaceSelector"]["matchExpressions"].clone()
        };
        let exempt = condition("NotIn", &["kube-system", "opgate-system"]);
        let cases = [
            (vec![bundles.clone()], json!([exempt])),
            (vec![in_namespace("x", bundles.clone())], json!([condition("In", &["x"])])),
            (
                vec![in_namespace("y", bundles.clone()), in_namespace("x", bundles.clone())],
                json!([condition("In", &["x", "y"])]),
            ),
            (vec![in_namespace("x", bundles.clone()), bundles.clone()], json!([exempt])),
            (
                vec![in_namespace("kube-system", bundles.clone())],
                json!([condition("In", &["kube-system"]), exempt]),
            ),
        ];
        for (wanted, expected) in cases {
            assert_eq!(selected(&[policy("a", &wanted)]), expected);
        }
        // A namespace excluded by a policy is exempt if no other policy of the webhook matches it.
        let wanted = [bundles];
        let (few, many) = (texts(&["b", "kube-system"]), texts(&["a", "b"]));
        let few = PolicyFacts { excluded: &few, ..policy("few", &wanted) };
        let many = PolicyFacts { excluded: &many, ..policy("many", &wanted) };
        let none = policy("none", &wanted);
        let more = condition("NotIn", &["kube-system", "opgate-system", "a", "b"]);
        assert_eq!(selected(&[many]), json!([more]));
        let more = condition("NotIn", &["kube-system", "opgate-system", "b"]);
        assert_eq!(selected(&[few, many]), json!([more]));
        assert_eq!(selected(&[many, none]), json!([exempt]));
    }

    #[test]
    fn match_conditions_are_registered() {
        let pods = |conditions: &[(&str, &str)]| {
            with_conditions(conditions, requests("", &["v1"], &["pods"], &[Operation::Create]))
        };
        let shown = |wanted: &[EffectiveMatchRule]| {
            webhooks(&[policy("a", wanted)])[0]["matchConditions"].clone()
        };
        let (one, two) = (("one", "a"), ("two", "b || c"));
        let both = json!([
            {"name": "one", "expression": "a"},
            {"name": "two", "expression": "b || c"},
        ]);
        let either = json!([{"name": "any-rule", "expression": "((a)) || ((b || c))"}]);
        let cases = [
            (vec![pods(&[])], json!(null)),
            (vec![pods(&[one, two])], both),
            (vec![pods(&[one]), pods(&[one])], json!([{"name": "one", "expression": "a"}])),
            (vec![pods(&[one]), pods(&[two])], either),
            (vec![pods(&[one]), pods(&[])], json!(null)),
        ];
        for (wanted, expected) in cases {
            assert_eq!(shown(&wanted), expected);
        }
        // A limit of one policy must not apply to another.
        let (few, all) = ([pods(&[one])], [pods(&[])]);
        let both = webhooks(&[policy("a", &few), policy("b", &all)]);
        let path = |webhook: &Value| webhook["clientConfig"]["url"].clone();
        assert_eq!(path(&both[0]), "https://opgate.test/validate/a");
        assert_eq!(path(&both[1]), "https://opgate.test/validate/b");
        assert_eq!(both[1]["matchConditions"], json!(null));
    }

    #[test]
    fn namespaces_are_selected_by_labels() {
        let pods = requests("", &["v1"], &["pods"], &[Operation::Create]);
        let selector =
            r#"{"matchLabels":{"level":"0"},"matchExpressions":[{"key":"a","operator":"Exists"}]}"#;
        let wanted = [pods.clone(), with_namespace_labels(selector, pods)];
        let both = webhooks(&[policy("a", &wanted)]);
        assert_eq!(both.len(), 2);
        let exempt = json!({
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "opgate-system"],
        });
        let expected = json!({
            "matchLabels": {"level": "0"},
            "matchExpressions": [{"key": "a", "operator": "Exists"}, exempt],
        });
        assert_eq!(both[1]["namespaceSelector"], expected);
    }

    #[test]
    fn timeouts_are_longer_than_the_limits() {
        let wanted = [requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITE_OPERATIONS)];
        let seconds = |times: &[u64]| {
            let names = ["a", "b"];
            let policies: Vec<_> = times
                .iter()
                .zip(names)
                .map(|(&time, name)| PolicyFacts {
                    time: Duration::from_millis(time),
                    ..policy(name, &wanted)
                })
                .collect();
            webhooks(&policies)[0]["timeoutSeconds"].as_i64().unwrap()
        };
        for (times, expected) in [
            (vec![100], 5),
            (vec![4_000], 5),
            (vec![4_001], 6),
            (vec![20_000], 21),
            (vec![29_000], 30),
            (vec![30_000], 30),
            (vec![100, 10_500], 12),
        ] {
            assert_eq!(seconds(&times), expected, "{times:?}");
        }
    }

    /// A policy for one team has a separate webhook, and API servers do not call it for other teams.
    #[test]
    fn a_policy_is_registered_within_its_scope() {
        let rule = requests("", &["v1"], &["pods"], WRITE_OPERATIONS).rule;
        let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let scope = Scope {
            namespace_selector: r#"{"matchLabels": {"team": "a"}}"#.to_owned(),
            namespaces: NamePatterns::new(list(&["team-*"]), Vec::new()).unwrap(),
            names: NamePatterns::default(),
        };
        let mut labelled = rule.clone();
        labelled.namespace_labels =
            r#"{"matchExpressions": [{"key": "b", "operator": "Exists"}]}"#.to_owned();
        let narrow = [EffectiveMatchRule::new(labelled, None, true, &scope)];
        let wide = [EffectiveMatchRule::new(rule, None, true, &Scope::default())];
        let policies = [policy("narrow", &narrow), policy("wide", &wide)];
        assert_eq!(
            summaries(&policies),
            [
                "vpods.core.opgate.dev /validate/narrow Fail",
                "vpods-wide.core.opgate.dev /validate/wide Fail",
            ]
        );
        let webhooks = webhooks(&policies);
        let selected = &webhooks[0]["namespaceSelector"]["matchExpressions"];
        assert_eq!(selected[0], json!({"key": "b", "operator": "Exists"}));
        assert_eq!(selected[1], json!({"key": "team", "operator": "In", "values": ["a"]}));
        let condition = json!([{
            "name": "opgate.dev/configured-namespaces",
            "expression": "!has(request.namespace) || request.namespace == '' || ((request.namespace.startsWith('team-')))",
        }]);
        assert_eq!(webhooks[0]["matchConditions"], condition);
        assert_eq!(webhooks[1].get("matchConditions"), None);
    }
}
