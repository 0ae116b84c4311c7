//! Facts that follow from a configuration, in a comparable representation: each fact has a key.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use opgate_admission::policy::{
    Configuration, ModuleSource, Policy, PolicyConfig, PolicySet, SignatureKey, Trust,
    TrustedUsers, ValueOrigin,
};
use opgate_manifests::SYSTEM_NAMESPACE;
use opgate_manifests::read_roles::Permissions;
use opgate_manifests::registration::WebhookRegistration;
use opgate_manifests::registration::matches::{Match, PolicyFacts};
use opgate_manifests::registration::server::{Service, Target};

/// Placeholder for facts that servers read from their cluster.
const AUTO: &str = "auto";

/// Everything that is compared.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Facts about all policies, by key.
    pub(super) general: BTreeMap<String, Value>,
    /// Names of the policies, in the order in which they serve.
    pub(super) order: Vec<String>,
    /// Facts about each policy: field and value.
    pub(super) policies: BTreeMap<String, BTreeMap<String, Value>>,
    /// Level and title of rules, by policy and rule.
    pub(super) rules: BTreeMap<(String, String), (&'static str, String)>,
    /// Policies that match requests, by group, resource and operation.
    pub(super) requests: BTreeMap<(String, String, &'static str), BTreeSet<PolicyMatch>>,
    /// Webhooks by name, without what does not come from the policies.
    pub(super) webhooks: BTreeMap<String, Map<String, Value>>,
    /// Namespace (empty for all), group, resource and verb.
    pub(super) permissions: BTreeSet<[String; 4]>,
    /// Declared reads, by policy, resource and namespace (empty for all).
    pub(super) reads: BTreeMap<[String; 3], StoredParts>,
}

/// The match of a policy for a resource and an operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyMatch {
    pub(super) policy: String,
    pub(super) versions: Vec<String>,
    /// Namespaces; none for all.
    pub(super) namespaces: Option<Vec<String>>,
    /// A label selector, JSON; empty for all.
    pub(super) namespace_labels: String,
    /// Lists of expressions, of which one must hold completely; empty for no conditions.
    pub(super) conditions: Vec<Vec<String>>,
    /// `Fail` if these requests shall rather fail than pass without the policy.
    pub(super) failure_policy: &'static str,
}

/// The stored parts of objects that a policy reads.
#[derive(Debug, Clone)]
pub(super) struct StoredParts(opgate_admission::cluster::ResolvedRead);

impl StoredParts {
    /// Returns the names of the members that differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let (a, b) = (&self.0, &other.0);
        let same_fields =
            a.declaration.is_within(&b.declaration) && b.declaration.is_within(&a.declaration);
        let all = [
            ("fields", !same_fields),
            ("labels", a.labels != b.labels),
            ("optional", a.optional != b.optional),
        ];
        all.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

impl Facts {
    /// # Errors
    /// Fails if a policy matches requests that an API server would not accept in its configuration.
    pub(super) fn of(
        configuration: &Configuration,
        set: &PolicySet,
        conditions: bool,
    ) -> serde_json::Result<Self> {
        let mut facts = Self::default();
        facts.add_general(configuration);
        let loaded = |name: &str| set.policies().iter().find(|policy| policy.name == name);
        for config in &configuration.policies {
            facts.order.push(config.name.clone());
            let module = loaded(&config.name).map(|policy| policy.module.digest());
            facts.policies.insert(config.name.clone(), policy_facts(config, module));
        }
        for policy in set.policies() {
            facts.add_policy(policy);
        }
        let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
        facts.permissions =
            permissions_of(&Permissions::with_defaults().of(&policies, set.platform_query()));
        let policies: Vec<_> = policies.iter().map(|policy| PolicyFacts::of(policy)).collect();
        facts.add_registration(&policies, conditions)?;
        Ok(facts)
    }

    fn add_general(&mut self, configuration: &Configuration) {
        let mut add = |key: &str, value: Value| self.general.insert(key.to_owned(), value);
        let Trust { profile, olm, rukpak, .. } = Trust::of(configuration);
        let is_auto = configuration.platform_query().is_some();
        add("profile", (if is_auto { AUTO } else { profile }).into());
        for (key, TrustedUsers { users, origin }) in [("olm", olm), ("rukpak", rukpak)] {
            // Identities from a profile are equivalent to configured ones. Those of a cluster are not known
            // here.
            let is_known = origin == ValueOrigin::Configuration || !is_auto;
            let users: BTreeSet<_> = users.into_iter().collect();
            let value = if is_known { json!(users) } else { AUTO.into() };
            add(&format!("identities.{key}"), value);
        }
        add("check.warningsAsErrors", configuration.warnings_as_errors.into());
        add("docsUrl", configuration.docs_url().into());
    }

    fn add_policy(&mut self, policy: &Policy) {
        for rule in &policy.descriptor.rules {
            let key = (policy.name.clone(), rule.id.clone());
            self.rules.insert(key, (policy.effective_level(rule), rule.title.clone()));
        }
        for reading in &policy.reads {
            let namespace = reading.namespace.clone().unwrap_or_default();
            let key = [policy.name.clone(), reading.resource.to_string(), namespace];
            self.reads.insert(key, StoredParts(reading.clone()));
        }
    }

    fn add_registration(
        &mut self,
        policies: &[PolicyFacts<'_>],
        conditions: bool,
    ) -> serde_json::Result<()> {
        let service = Service::of("opgate-system", "opgate");
        let registration = WebhookRegistration {
            name: "opgate".to_owned(),
            exempt: vec![SYSTEM_NAMESPACE.to_owned(), service.namespace.clone()],
            target: Target::Service(service),
            supports_conditions: conditions,
            ca: Vec::new(),
        };
        for wanted in registration.matches(policies) {
            let Match { group, resource, operation, .. } = wanted;
            let key = (group.to_owned(), resource.to_owned(), operation.as_str());
            self.requests.entry(key).or_default().insert(PolicyMatch::of(&wanted));
        }
        for webhook in registration.of(policies).webhooks.into_iter().flatten() {
            let Value::Object(mut webhook) = serde_json::to_value(webhook)? else {
                continue;
            };
            let client = webhook.remove("clientConfig").unwrap_or_default();
            let path = client.pointer("/service/path").cloned().unwrap_or_default();
            webhook.insert("path".to_owned(), path);
            if let Some(selector) = webhook.get_mut("namespaceSelector") {
                sort_values(selector);
            }
            if let Some(Value::String(name)) = webhook.remove("name") {
                self.webhooks.insert(name, webhook);
            }
        }
        Ok(())
    }
}

impl PolicyMatch {
    fn of(wanted: &Match<'_>) -> Self {
        let owned = |texts: &BTreeSet<&str>| texts.iter().map(|&text| text.to_owned()).collect();
        let always = wanted.conditions.iter().any(|list| list.is_empty());
        let lists = wanted.conditions.iter().filter(|_| !always);
        let list = |list: &&[opgate_admission::policy::MatchCondition]| {
            list.iter().map(|condition| condition.expression.clone()).collect()
        };
        Self {
            policy: wanted.policy.name.to_owned(),
            versions: owned(&wanted.versions),
            namespaces: wanted.namespaces.as_ref().map(owned),
            namespace_labels: wanted.namespace_labels.to_owned(),
            conditions: lists.map(list).collect(),
            failure_policy: if wanted.fails_closed { "Fail" } else { "Ignore" },
        }
    }
}

/// Returns the configured facts of a policy, with defaults. `digest` is the digest of its component, if it is
/// loaded: a policy that is off needs none.
fn policy_facts(config: &PolicyConfig, digest: Option<&str>) -> BTreeMap<String, Value> {
    let mut said = BTreeMap::new();
    let mut add = |field: &str, value: Value| said.insert(field.to_owned(), value);
    // A component that only moved to another path is unchanged.
    let module = match (&config.module, digest) {
        (ModuleSource::Builtin(name), _) => Some(format!("builtin:{name}")),
        (_, digest) => digest.map(|digest| format!("sha256:{digest}")),
    };
    add("module", module.into());
    let key = config.signature.as_ref().map(|key| match key {
        SignatureKey::File(path) => path.display().to_string(),
        SignatureKey::Pem(text) => text.trim().to_owned(),
    });
    add("signature.key", key.into());
    add("signature.repository", config.signed_repository.clone().into());
    add("mode", config.mode.as_str().into());
    add("onError", config.on_error.as_str().into());
    add("limits.time", format!("{:?}", config.limits.cpu_time).into());
    add("limits.memory", config.limits.memory.into());
    add("limits.concurrency", config.limits.concurrency.into());
    let sorted = |texts: &[String]| {
        let texts: BTreeSet<_> = texts.iter().collect();
        json!(texts)
    };
    add("exclude.namespaces", sorted(&config.excluded_namespaces));
    add("exclude.users", sorted(&config.excluded_users));
    let selector = &config.scope.namespace_selector;
    add("match.namespaceSelector", serde_json::from_str(selector).unwrap_or_default());
    for (name, names) in [("namespaces", &config.scope.namespaces), ("names", &config.scope.names)]
    {
        add(&format!("match.{name}.include"), sorted(names.include()));
        add(&format!("match.{name}.exclude"), sorted(names.exclude()));
    }
    add("allowedReads", sorted(&config.allowed_reads));
    let grants = config.allowed_samples.rules();
    let grants: BTreeSet<_> =
        grants.map(|(group, resource)| format!("{resource}.{group}")).collect();
    add("allowedSamples", json!(grants));
    collect_leaves("settings", &config.settings, &mut said);
    said
}

/// Collects the members of an object by their paths, down to values that are no objects.
fn collect_leaves(path: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                collect_leaves(&format!("{path}.{name}"), value, into);
            }
        }
        other => {
            into.insert(path.to_owned(), other.clone());
        }
    }
}

/// Sorts the values of an expression, whose order is irrelevant.
fn sort_values(selector: &mut Value) {
    let expressions = selector.get_mut("matchExpressions").and_then(Value::as_array_mut);
    for expression in expressions.into_iter().flatten() {
        if let Some(values) = expression.get_mut("values").and_then(Value::as_array_mut) {
            values.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        }
    }
}

/// Returns the rules of all roles in a list of objects.
fn permissions_of(list: &Value) -> BTreeSet<[String; 4]> {
    let list_of = |value: &Value, name: &str| -> Vec<Value> {
        value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let texts = |value: &Value, name: &str| -> Vec<String> {
        list_of(value, name).iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let mut all = BTreeSet::new();
    for role in list_of(list, "items") {
        let namespace = role.pointer("/metadata/namespace").and_then(Value::as_str);
        for rule in list_of(&role, "rules") {
            let names = texts(&rule, "resourceNames");
            let single = |resource: String| match names.as_slice() {
                [] => vec![resource],
                names => names.iter().map(|name| format!("{resource}/{name}")).collect(),
            };
            for group in texts(&rule, "apiGroups") {
                for resource in texts(&rule, "resources").into_iter().flat_map(single) {
                    let namespace = namespace.unwrap_or_default().to_owned();
                    let one = |verb| [namespace.clone(), group.clone(), resource.clone(), verb];
                    all.extend(texts(&rule, "verbs").into_iter().map(one));
                }
            }
        }
    }
    all
}
