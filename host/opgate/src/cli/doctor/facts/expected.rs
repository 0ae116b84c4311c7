//! Objects that follow from the configuration of the servers: webhooks and read permissions.

use std::collections::BTreeMap;
use std::path::Path;

use opgate_admission::cluster::Source;
use opgate_admission::policy::{Configuration, ModuleSource, PolicySet, Trust, ValueOrigin};
use opgate_certs::error_text::with_causes;
use opgate_text::one_line;
use serde_json::Value;

use super::Facts;
use super::object::{Kind, list, text};
use super::workload::Workload;
use crate::builtin::BUILTINS;
use crate::cli::args::ConfigArgs;
use crate::cli::exit::CommandError;
use opgate_manifests::SYSTEM_NAMESPACE;
use opgate_manifests::permissions::Permissions;
use opgate_manifests::registration::WebhookRegistration;
use opgate_manifests::registration::matches::PolicyFacts;
use opgate_manifests::registration::server::Target;

/// Instead of a Service: only the paths are compared.
const PLACEHOLDER_URL: &str = "https://opgate";

/// Objects that follow from the configuration.
#[derive(Debug, Default, Clone)]
pub(in crate::cli::doctor) struct ExpectedObjects {
    /// Source of the configuration, for messages.
    pub(in crate::cli::doctor) source: String,
    /// Why there is none: what is wrong in it.
    pub(in crate::cli::doctor) error: Option<String>,
    /// Why nothing is known about it, although it may be right.
    pub(in crate::cli::doctor) unknown_reason: Option<String>,
    /// The webhooks with and without `matchConditions`; their URLs begin with [`PLACEHOLDER_URL`].
    pub(in crate::cli::doctor) webhooks: Vec<Value>,
    pub(in crate::cli::doctor) without_conditions: Vec<Value>,
    /// Names of the policies.
    pub(in crate::cli::doctor) policies: Vec<String>,
    pub(in crate::cli::doctor) permissions: Vec<RequiredPermission>,
    /// The profile and the identities, if they are known.
    pub(in crate::cli::doctor) trust: Option<Trust>,
}

/// The verbs that a server needs for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::doctor) struct RequiredPermission {
    /// In all namespaces without one.
    pub(in crate::cli::doctor) namespace: Option<String>,
    pub(in crate::cli::doctor) group: String,
    pub(in crate::cli::doctor) resource: String,
    pub(in crate::cli::doctor) verbs: Vec<String>,
    /// Only objects of these names; all without.
    pub(in crate::cli::doctor) names: Vec<String>,
}

/// Returns the objects that follow from the configuration on the command line, or from that of the servers.
///
/// # Errors
/// If the file that is named cannot be used, or the engine fails.
pub(in crate::cli::doctor) fn load_expected(
    facts: &Facts,
    config: &ConfigArgs,
) -> Result<ExpectedObjects, CommandError> {
    if let Some(path) = &config.config {
        let mut configuration = config.configuration()?;
        add_platform(facts, &mut configuration);
        let set = config.load_all_or_fail(&configuration, Source::Absent)?;
        return Ok(expected_of_set(facts, &set, path.display().to_string()));
    }
    Ok(expected_of_servers(facts, config))
}

/// Uses the configuration of the servers. Files that it names are not opened: it comes from a cluster.
fn expected_of_servers(facts: &Facts, config: &ConfigArgs) -> ExpectedObjects {
    let unknown = |source: &str, why: &str| ExpectedObjects {
        source: source.to_owned(),
        unknown_reason: Some(why.to_owned()),
        ..ExpectedObjects::default()
    };
    let Some(workload) = Workload::of(facts) else {
        return unknown("", "no Deployment of the servers is known; name a file with --config");
    };
    if workload.flag("--config", Some("OPGATE_CONFIG")).is_none() {
        let source = "the default configuration".to_owned();
        let configuration =
            Configuration::builtin(opgate_admission::policy::Profile::default(), BUILTINS);
        return expected_of_configuration(facts, config, configuration, source);
    }
    let Some((name, key)) = workload.config_map() else {
        let why = "the servers do not read it from a ConfigMap; name the file with --config";
        return unknown("", why);
    };
    let namespace = &facts.installation.namespace;
    let source = one_line(&format!("ConfigMap {namespace}/{name}, {key}"), 256);
    let Some(map) = facts.get(Kind::ConfigMap, namespace, name) else {
        return unknown(&source, "there is no such ConfigMap");
    };
    let Some(text) = map.at("/data").and_then(|data| data.get(&key)).and_then(Value::as_str) else {
        return unknown(&source, "the ConfigMap has no such key");
    };
    let configuration = match Configuration::parse(Path::new(&key), text, BUILTINS) {
        Ok(configuration) => configuration,
        Err(errors) => {
            let broken = Some(one_line(&errors.to_string(), 1_024));
            return ExpectedObjects { source, error: broken, ..ExpectedObjects::default() };
        }
    };
    let foreign = configuration.policies.iter();
    let foreign = foreign.filter(|policy| !matches!(policy.module, ModuleSource::Builtin(_)));
    let foreign: Vec<_> = foreign.map(|policy| policy.name.as_str()).collect();
    if !foreign.is_empty() {
        let names = one_line(&foreign.join(", "), 256);
        let why = format!(
            "{names} of it are from files or registries: name a copy that can read them with --config"
        );
        return unknown(&source, &why);
    }
    expected_of_configuration(facts, config, configuration, source)
}

/// Adds the platform that the servers detected, if it is known.
fn add_platform(facts: &Facts, configuration: &mut Configuration) {
    if let Some(Ok(platform)) = &facts.platform {
        configuration.set_platform(platform.clone());
    }
    configuration.assume_any_cluster();
}

fn expected_of_configuration(
    facts: &Facts,
    config: &ConfigArgs,
    mut configuration: Configuration,
    source: String,
) -> ExpectedObjects {
    add_platform(facts, &mut configuration);
    match config.load_all_or_fail(&configuration, Source::Absent) {
        Ok(set) => expected_of_set(facts, &set, source),
        Err(failure) => {
            let broken = Some(one_line(&with_causes(failure.error.as_ref()), 1_024));
            ExpectedObjects { source, error: broken, ..ExpectedObjects::default() }
        }
    }
}

fn expected_of_set(facts: &Facts, set: &PolicySet, source: String) -> ExpectedObjects {
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
            let broken = Some(one_line(&why, 1_024));
            return ExpectedObjects { source, error: broken, ..ExpectedObjects::default() };
        }
    };
    ExpectedObjects {
        source,
        webhooks: with,
        without_conditions: without,
        policies: policies.iter().map(|policy| policy.name.clone()).collect(),
        permissions: [
            permissions_of_roles(&Permissions::with_defaults().of(&policies, set.platform_query())),
            managed_object_permissions(facts),
        ]
        .concat(),
        trust: Some(set.trust()).filter(|trust| trust.origin != ValueOrigin::Default).cloned(),
        ..ExpectedObjects::default()
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
