//! What is registered follows from the rules: for each rule of the built-in policies, as the only one
//! that is on, exactly what it looks at.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::matches::PolicyFacts;
use super::testing::webhooks;
use crate::builtin::BUILTINS;
use opgate_admission::cluster::{Options, Source};
use opgate_admission::policy::{
    Configuration, DefaultLevel, Descriptor, Policy, Profile, Rule, Set,
};

/// Group, resource and operation.
type Asked = BTreeSet<(String, String, String)>;

/// Where the kinds are that API servers ask about; documents of files are none of them.
fn resources(kind: &str) -> &'static [(&'static str, &'static str)] {
    const OLM: &str = "operators.coreos.com";
    const RBAC: &str = "rbac.authorization.k8s.io";
    const RUKPAK: &str = "core.rukpak.io";
    match kind {
        "Bundle" => &[(RUKPAK, "bundles")],
        "BundleDeployment" => &[(RUKPAK, "bundledeployments")],
        "ConfigMap" => &[("", "configmaps")],
        "OperatorGroup" => &[(OLM, "operatorgroups")],
        "ClusterServiceVersion" => &[(OLM, "clusterserviceversions")],
        // What OLM looks up is in the status.
        "InstallPlan" => &[(OLM, "installplans"), (OLM, "installplans/status")],
        "ClusterRole" => &[(RBAC, "clusterroles")],
        "ClusterRoleBinding" => &[(RBAC, "clusterrolebindings")],
        "Role" => &[(RBAC, "roles")],
        "RegistryBundle" | "PlainBundle" | "FileBasedCatalog" => &[],
        other => panic!("where are {other}?"),
    }
}

fn looked_at(rule: &Rule) -> Asked {
    let kinds = rule.kinds.iter().flat_map(|kind| resources(kind));
    let asked = kinds.flat_map(|(group, resource)| {
        let operations = rule.operations.iter().map(|operation| operation.as_str().to_owned());
        operations.map(|operation| ((*group).to_owned(), (*resource).to_owned(), operation))
    });
    asked.collect()
}

fn asked(policy: &Policy) -> Asked {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut asked = Asked::new();
    for webhook in webhooks(&[PolicyFacts::of(policy)]) {
        for rule in webhook["rules"].as_array().unwrap() {
            let group = &texts(&rule["apiGroups"])[0];
            for resource in texts(&rule["resources"]) {
                for operation in texts(&rule["operations"]) {
                    asked.insert((group.clone(), resource.clone(), operation));
                }
            }
        }
    }
    asked
}

fn load(configuration: &Configuration) -> Set {
    let set = Set::load(configuration, None, 1, Options::of(Source::Absent)).unwrap();
    assert!(set.broken().is_empty(), "{:?}", set.broken());
    set
}

/// Every descriptor with the name of its policy.
fn described() -> Vec<(String, Descriptor)> {
    let set = load(&Configuration::builtin(Profile::default(), BUILTINS));
    set.policies().iter().map(|p| (p.name.clone(), p.descriptor.clone())).collect()
}

/// A configuration with one copy of a policy for each way to switch one of its rules on, and one with
/// all off.
struct Copies {
    text: String,
    /// The rule that each has on, in the order of the copies.
    rules: Vec<Option<Rule>>,
}

impl Copies {
    fn new() -> Self {
        let text = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n".to_owned();
        Self { text, rules: Vec::new() }
    }

    fn add(&mut self, policy: &str, described: &Descriptor, on: Option<(&Rule, Option<&str>)>) {
        let number = self.rules.len();
        let levels = described.rules.iter().filter_map(|rule| match on {
            Some((on, setting)) if on.id == rule.id => {
                // A setting turns it on without a level.
                setting.is_none().then(|| format!("{}: deny", rule.id))
            }
            _ => Some(format!("{}: off", rule.id)),
        });
        let levels = levels.collect::<Vec<_>>().join(", ");
        writeln!(self.text, "  - name: copy-{number}\n    module: builtin:{policy}").unwrap();
        writeln!(self.text, "    limits: {{concurrency: 1}}\n    rules: {{{levels}}}").unwrap();
        if let Some(setting) = on.and_then(|(_, setting)| setting) {
            let schema: Value = serde_json::from_str(&described.settings_schema).unwrap();
            let (section, name) = setting.trim_start_matches('/').split_once('/').unwrap();
            let property = &schema["properties"][section]["properties"][name];
            let value = if property["type"] == "array" { "[x]" } else { "true" };
            writeln!(self.text, "    settings: {{{section}: {{{name}: {value}}}}}").unwrap();
        }
        self.rules.push(on.map(|(rule, _)| rule.clone()));
    }
}

#[test]
fn what_is_registered_is_what_the_rules_look_at() {
    let described = described();
    let clustered: Vec<_> = described
        .iter()
        .filter(|(_, d)| d.rules.iter().any(|rule| !looked_at(rule).is_empty()))
        .collect();
    let names: Vec<_> = clustered.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["bundle-immutability", "operator-group", "constraint-limits"]);
    let mut copies = Copies::new();
    for (name, descriptor) in clustered {
        copies.add(name, descriptor, None);
        for rule in &descriptor.rules {
            copies.add(name, descriptor, Some((rule, None)));
            for setting in rule.enabled_by.iter().filter(|_| rule.default == DefaultLevel::Off) {
                copies.add(name, descriptor, Some((rule, Some(setting))));
            }
        }
    }
    let configuration =
        Configuration::parse(Path::new("opgate.yaml"), &copies.text, BUILTINS).unwrap();
    let set = load(&configuration);
    assert_eq!(set.policies().len(), copies.rules.len());
    for (policy, rule) in set.policies().iter().zip(&copies.rules) {
        let expected = rule.as_ref().map(looked_at).unwrap_or_default();
        let id = rule.as_ref().map(|rule| rule.id.as_str());
        assert_eq!(asked(policy), expected, "{id:?} of {}", policy.source);
    }
}

/// Kubernetes itself writes ConfigMaps everywhere.
#[test]
fn config_maps_of_rukpak_are_asked_about_in_its_namespace_only() {
    let text = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n  - name: bundle-immutability\n    settings: {rukpak: {systemNamespace: mine}}\n";
    let set = load(&Configuration::parse(Path::new("opgate.yaml"), text, BUILTINS).unwrap());
    let webhooks = webhooks(&[PolicyFacts::of(&set.policies()[0])]);
    let of = |webhook: &&Value| webhook["rules"][0]["resources"][0] == "configmaps";
    let webhook = webhooks.iter().find(of).unwrap();
    let condition = &webhook["namespaceSelector"]["matchExpressions"][0];
    assert_eq!((&condition["operator"], &condition["values"][0]), (&"In".into(), &"mine".into()));
    assert_eq!(webhook["rules"].as_array().unwrap().len(), 1);
}
