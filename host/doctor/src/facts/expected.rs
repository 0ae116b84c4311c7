//! Objects that follow from the configuration of the servers: webhooks and read permissions.

use std::collections::BTreeMap;
use std::path::Path;

use opgate_admission::policy::{
    Builtin, Configuration, ModuleSource, PolicySet, Profile, Trust, ValueOrigin,
};
use opgate_controller::config_map_ledger::LEDGER_NAME;
use opgate_text::one_line;
use serde_json::Value;

use super::Facts;
use super::object::{Kind, list, text};
use super::workload::Workload;
use opgate_manifests::SYSTEM_NAMESPACE;
use opgate_manifests::read_roles::Permissions;
use opgate_manifests::registration::WebhookRegistration;
use opgate_manifests::registration::matches::PolicyFacts;
use opgate_manifests::registration::server::Target;

/// Instead of a Service: only the paths are compared.
const PLACEHOLDER_URL: &str = "https://opgate";

/// Objects that follow from the configuration.
#[derive(Debug, Default, Clone)]
pub struct ExpectedObjects {
    /// Source of the configuration, for messages.
    pub(crate) source: String,
    /// Why there is none: what is wrong in it.
    pub(crate) error: Option<String>,
    /// Why nothing is known about it, although it may be right.
    pub(crate) unknown_reason: Option<String>,
    /// The webhooks with and without `matchConditions`; their URLs begin with [`PLACEHOLDER_URL`].
    pub(crate) webhooks: Vec<Value>,
    pub(crate) without_conditions: Vec<Value>,
    /// Names of the policies.
    pub(crate) policies: Vec<String>,
    pub(crate) permissions: Vec<RequiredPermission>,
    /// The reads of an audit.
    pub(crate) audit_permissions: Vec<RequiredPermission>,
    /// The profile and the identities, if they are known.
    pub trust: Option<Trust>,
}

/// The verbs that a server needs for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequiredPermission {
    /// In all namespaces without one.
    pub(crate) namespace: Option<String>,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verbs: Vec<String>,
    /// Only objects of these names; all without.
    pub(crate) names: Vec<String>,
}

impl RequiredPermission {
    /// Returns `pods` or `deployments.apps`.
    pub(crate) fn display_resource(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }
}

/// Returns the configuration of the servers and its source, for a platform that is known. Files that it names
/// are not opened: it comes from a cluster.
///
/// # Errors
/// What is known without a configuration: why there is none, or what is wrong in it.
pub fn find_configuration(
    facts: &Facts,
    builtins: &'static [Builtin],
) -> Result<(String, Configuration), Box<ExpectedObjects>> {
    let unknown = |source: &str, why: &str| {
        Box::new(ExpectedObjects {
            source: source.to_owned(),
            unknown_reason: Some(why.to_owned()),
            ..ExpectedObjects::default()
        })
    };
    let Some(workload) = Workload::of(facts) else {
        return Err(unknown(
            "",
            "no Deployment of the servers is known; name a file with --config",
        ));
    };
    if workload.flag("--config", Some("OPGATE_CONFIG")).is_none() {
        let mut configuration = Configuration::builtin(Profile::default(), builtins);
        set_platform(facts, &mut configuration);
        return Ok(("the default configuration".to_owned(), configuration));
    }
    let Some((name, key)) = workload.config_map() else {
        let why = "the servers do not read it from a ConfigMap; name the file with --config";
        return Err(unknown("", why));
    };
    let namespace = &facts.installation.namespace;
    let source = one_line(&format!("ConfigMap {namespace}/{name}, {key}"), 256);
    let Some(map) = facts.get(Kind::ConfigMap, namespace, name) else {
        return Err(unknown(&source, "there is no such ConfigMap"));
    };
    let Some(text) = map.at("/data").and_then(|data| data.get(&key)).and_then(Value::as_str) else {
        return Err(unknown(&source, "the ConfigMap has no such key"));
    };
    let mut configuration = Configuration::parse(Path::new(&key), text, builtins)
        .map_err(|errors| Box::new(ExpectedObjects::unusable(&source, &errors.to_string())))?;
    let foreign = configuration.policies.iter();
    let foreign = foreign.filter(|policy| !matches!(policy.module, ModuleSource::Builtin(_)));
    let foreign: Vec<_> = foreign.map(|policy| policy.name.as_str()).collect();
    if !foreign.is_empty() {
        let names = one_line(&foreign.join(", "), 256);
        let why = format!(
            "{names} of it are from files or registries: name a copy that can read them with --config"
        );
        return Err(unknown(&source, &why));
    }
    set_platform(facts, &mut configuration);
    Ok((source, configuration))
}

/// Sets the platform that the servers detected, if it is known.
pub fn set_platform(facts: &Facts, configuration: &mut Configuration) {
    if let Some(Ok(platform)) = &facts.platform {
        configuration.set_platform(platform.clone());
    }
    configuration.assume_any_cluster();
}

impl ExpectedObjects {
    /// Returns what is known of a configuration that cannot be used, with the error.
    #[must_use]
    pub fn unusable(source: &str, error: &str) -> Self {
        Self { source: source.to_owned(), error: Some(one_line(error, 1_024)), ..Self::default() }
    }

    /// Returns the objects that follow from a configuration, whose policies are loaded.
    #[must_use]
    pub fn of(facts: &Facts, set: &PolicySet, source: &str) -> Self {
        let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
        let of: Vec<_> = policies.iter().map(|policy| PolicyFacts::of(policy)).collect();
        let exempt = vec![SYSTEM_NAMESPACE.to_owned(), facts.installation.namespace.clone()];
        let webhooks = |conditions: bool| {
            let registration = WebhookRegistration {
                name: "opgate".to_owned(),
                target: Target::Url(PLACEHOLDER_URL.to_owned()),
                exempt: exempt.clone(),
                supports_conditions: conditions,
                ca: Vec::new(),
            };
            let webhook_configuration = registration.of(&of);
            let webhook_configuration =
                serde_json::to_value(webhook_configuration).map_err(|error| error.to_string())?;
            Ok::<_, String>(list(&webhook_configuration, "/webhooks").to_vec())
        };
        // Log messages of the registration are for the user who applies it.
        let silence = tracing::subscriber::NoSubscriber::default();
        let both = tracing::subscriber::with_default(silence, || (webhooks(true), webhooks(false)));
        let (with, without) = match both {
            (Ok(with), Ok(without)) => (with, without),
            (Err(why), _) | (_, Err(why)) => {
                return Self::unusable(source, &why);
            }
        };
        Self {
            source: source.to_owned(),
            webhooks: with,
            without_conditions: without,
            policies: policies.iter().map(|policy| policy.name.clone()).collect(),
            permissions: [
                permissions_of_roles(
                    &Permissions::with_defaults().of(&policies, set.platform_query()),
                ),
                managed_object_permissions(facts),
            ]
            .concat(),
            audit_permissions: permissions_of_roles(
                &Permissions::with_defaults().of_audit(&policies, set.platform_query()),
            ),
            trust: Some(set.trust()).filter(|trust| trust.origin != ValueOrigin::Default).cloned(),
            ..Self::default()
        }
    }
}

/// Returns the permissions for the objects that servers manage: Leases, the Secret, the registration, for
/// which the leader reads the endpoints of the Service.
fn managed_object_permissions(facts: &Facts) -> Vec<RequiredPermission> {
    let Some(workload) = Workload::of(facts) else { return Vec::new() };
    let (certificates, registration) =
        (workload.manages_certificates(), workload.manages_registration());
    if !certificates && !registration {
        return Vec::new();
    }
    let need = |kind: Kind, verbs: &[&str], name: Option<&str>| {
        let (group, resource, _) = kind.names();
        let own = facts.installation.namespace.clone();
        RequiredPermission {
            namespace: kind.is_namespaced().then_some(own),
            group: group.to_owned(),
            resource: resource.to_owned(),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            names: name.map(str::to_owned).into_iter().collect(),
        }
    };
    let registrations = facts.registrations();
    let name = registrations.first().map_or("opgate", |object| object.name.as_str());
    let mut needs = vec![
        need(Kind::Lease, &["create", "get", "list", "update"], None),
        need(Kind::ConfigMap, &["create"], None),
        need(Kind::ConfigMap, &["delete", "get", "update", "watch"], Some(LEDGER_NAME)),
        need(Kind::ValidatingWebhookConfiguration, &["list"], None),
        need(Kind::ValidatingWebhookConfiguration, &["get", "update"], Some(name)),
    ];
    if registration {
        needs.push(need(Kind::EndpointSlice, &["list"], None));
    }
    if certificates {
        needs.push(need(Kind::Secret, &["get", "update"], Some(super::DEFAULT_SECRET)));
    }
    needs
}

/// Returns the rules of the roles in a list.
fn permissions_of_roles(roles: &Value) -> Vec<RequiredPermission> {
    let mut needs: Vec<RequiredPermission> = Vec::new();
    let texts = |value: &Value, pointer: &str| {
        let all = list(value, pointer).iter().filter_map(Value::as_str);
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut seen = BTreeMap::new();
    for role in list(roles, "/items").iter().filter(|role| text(role, "/kind").ends_with("Role")) {
        let namespace = Some(text(role, "/metadata/namespace")).filter(|name| !name.is_empty());
        for rule in list(role, "/rules") {
            let (verbs, names) = (texts(rule, "/verbs"), texts(rule, "/resourceNames"));
            for group in texts(rule, "/apiGroups") {
                for resource in texts(rule, "/resources") {
                    let key = (namespace, group.clone(), resource.clone(), names.clone());
                    let index = *seen.entry(key).or_insert(needs.len());
                    match needs.get_mut(index) {
                        Some(need) => need.verbs.extend(verbs.iter().cloned()),
                        None => needs.push(RequiredPermission {
                            namespace: namespace.map(str::to_owned),
                            group: group.clone(),
                            resource,
                            verbs: verbs.clone(),
                            names: names.clone(),
                        }),
                    }
                }
            }
        }
    }
    needs
}
