//! The registration follows from the rules: for each rule of the built-in policies, enabled alone, it covers
//! exactly the requests that the rule matches.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use opgate_admission::cluster::{ClusterOptions, Source};
use opgate_admission::policy::{
    Configuration, DefaultLevel, Descriptor, Policy, PolicySet, Profile, Rule,
};
use opgate_builtin_policies::BUILTINS;
use opgate_manifests::registration::WebhookRegistration;
use opgate_manifests::registration::matches::PolicyFacts;
use opgate_manifests::registration::server::Target;

/// Group, resource and operation.
type RequestSet = BTreeSet<(String, String, String)>;

/// Returns the resources of a kind; none for documents of files.
fn resources_of(kind: &str) -> &'static [(&'static str, &'static str)] {
    const OLM: &str = "operators.coreos.com";
    const RBAC: &str = "rbac.authorization.k8s.io";
    const RUKPAK: &str = "core.rukpak.io";
    const CONFIG: &str = "config.openshift.io";
    const AUTOSCALING: &str = "autoscaling.openshift.io";
    match kind {
        "any custom resource" => &[("*", "*")],
        "Bundle" => &[(RUKPAK, "bundles")],
        "BundleDeployment" => &[(RUKPAK, "bundledeployments")],
        "Catalog" => &[("catalogd.operatorframework.io", "catalogs")],
        "CatalogSource" => &[(OLM, "catalogsources")],
        "ClusterAutoscaler" => &[(AUTOSCALING, "clusterautoscalers")],
        "ClusterIngress" => &[("ingress.openshift.io", "clusteringresses")],
        "ClusterRole" => &[(RBAC, "clusterroles")],
        "ClusterRoleBinding" => &[(RBAC, "clusterrolebindings")],
        "ClusterServiceVersion" => &[(OLM, "clusterserviceversions")],
        "ClusterVersion" => &[(CONFIG, "clusterversions")],
        "Config" => &[("samples.operator.openshift.io", "configs")],
        "ConfigMap" => &[("", "configmaps")],
        "CredentialsRequest" => &[("cloudcredential.openshift.io", "credentialsrequests")],
        "CronJob" => &[("batch", "cronjobs")],
        "CustomResourceDefinition" => &[("apiextensions.k8s.io", "customresourcedefinitions")],
        "DaemonSet" => &[("apps", "daemonsets")],
        "Deployment" => &[("apps", "deployments")],
        "Etcd" => &[("operator.openshift.io", "etcds")],
        "FeatureGate" => &[(CONFIG, "featuregates")],
        "ImageStream" => &[("image.openshift.io", "imagestreams")],
        // The rule evaluates the status that the installer writes.
        "Infrastructure" => &[(CONFIG, "infrastructures/status")],
        "InstallPlan" => &[(OLM, "installplans")],
        "Job" => &[("batch", "jobs")],
        "MachineAutoscaler" => &[(AUTOSCALING, "machineautoscalers")],
        "MachineConfig" => &[("machineconfiguration.openshift.io", "machineconfigs")],
        "Namespace" => &[("", "namespaces")],
        // The configuration of all nodes.
        "Node" => &[(CONFIG, "nodes")],
        "OLMConfig" => &[(OLM, "olmconfigs")],
        "Operator" => &[("operators.operatorframework.io", "operators")],
        "OperatorCondition" => &[(OLM, "operatorconditions")],
        "OperatorGroup" => &[(OLM, "operatorgroups")],
        "OperatorHub" => &[(CONFIG, "operatorhubs")],
        "OperatorSource" => &[(OLM, "operatorsources")],
        "PerformanceProfile" => &[("performance.openshift.io", "performanceprofiles")],
        "PlatformOperator" => &[("platform.openshift.io", "platformoperators")],
        "Pod" => &[("", "pods")],
        "Role" => &[(RBAC, "roles")],
        "Secret" => &[("", "secrets")],
        "ServiceMonitor" => &[("monitoring.coreos.com", "servicemonitors")],
        "StatefulSet" => &[("apps", "statefulsets")],
        "StorageClass" => &[("storage.k8s.io", "storageclasses")],
        "Subscription" => &[(OLM, "subscriptions")],
        "Template" => &[("template.openshift.io", "templates")],
        "RegistryBundle" | "PlainBundle" | "FileBasedCatalog" | "OperatorProject"
        | "any manifest" => &[],
        other => panic!("where are {other}?"),
    }
}

/// Rules with the settings that they need to match these kinds.
const REQUIRED_SETTINGS: [(&str, &str, &[&str]); 6] = [
    (
        "PSA-09",
        "/psa/checkWorkloads",
        &["Pod", "Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob"],
    ),
    ("CAT-21", "/catalog/secretsNamespace", &["Secret"]),
    ("OL1-12", "/olmv1/target", &["ClusterServiceVersion"]),
    ("MSC-03", "/misc/globalPullSecret", &["Secret"]),
    ("MSC-10", "/misc/customResources", &["any custom resource"]),
    ("MSC-11", "/misc/customResources", &["any custom resource"]),
];

/// Returns the setting that a rule needs to match a kind.
fn required_setting(rule: &Rule, kind: &str) -> Option<&'static str> {
    let mut all = REQUIRED_SETTINGS.iter().filter(|(id, ..)| *id == rule.id);
    all.find(|(.., kinds)| kinds.contains(&kind)).map(|(_, setting, _)| *setting)
}

/// Returns the requests that a rule matches, with or without a setting.
fn matched_requests(rule: &Rule, setting: Option<&str>) -> RequestSet {
    let is_asked = |kind: &&String| {
        let needed = required_setting(rule, kind);
        needed.is_none() || needed == setting
    };
    let kinds = rule.kinds.iter().filter(is_asked).flat_map(|kind| resources_of(kind));
    let asked = kinds.flat_map(|(group, resource)| {
        let operations = rule.operations.iter().map(|operation| operation.as_str().to_owned());
        operations.map(|operation| ((*group).to_owned(), (*resource).to_owned(), operation))
    });
    let mut asked: RequestSet = asked.collect();
    let status = |resource: &str| {
        ("operators.coreos.com".to_owned(), format!("{resource}/status"), "UPDATE".to_owned())
    };
    match rule.id.as_str() {
        // OLM records resolved objects in the status.
        id if id.starts_with("CON-") && rule.kinds.iter().any(|kind| kind == "InstallPlan") => {
            let plans = asked.iter().filter(|on| on.1 == "installplans");
            let statuses = plans.map(|(group, resource, operation)| {
                (group.clone(), format!("{resource}/status"), operation.clone())
            });
            let statuses: Vec<_> = statuses.collect();
            asked.extend(statuses);
        }
        // Labels of a Namespace can be set through its sub-resources, too.
        id if id.starts_with("PSA-") => {
            let update = |of: &str| (String::new(), format!("namespaces{of}"), "UPDATE".to_owned());
            if asked.contains(&update("")) {
                asked.extend(["/status", "/finalize"].map(update));
            }
        }
        // Updates are of files only.
        "OL1-12" => asked.retain(|(.., operation)| operation == "CREATE"),
        // Writes of the object itself do not change a status.
        "CND-07" => asked = RequestSet::from([status("clusterserviceversions")]),
        "CND-01" => drop(asked.insert(status("operatorconditions"))),
        _ => {}
    }
    asked
}

fn registered_requests(policy: &Policy) -> RequestSet {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut asked = RequestSet::new();
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

fn webhooks(policies: &[PolicyFacts<'_>]) -> Vec<Value> {
    let registration = WebhookRegistration {
        name: "opgate".to_owned(),
        target: Target::Url("https://opgate.test".to_owned()),
        exempt: vec!["kube-system".to_owned(), "opgate-system".to_owned()],
        supports_conditions: true,
        ca: b"CA".to_vec(),
    };
    let configuration = serde_json::to_value(registration.of(policies)).unwrap();
    configuration["webhooks"].as_array().unwrap().clone()
}

fn load(configuration: &Configuration) -> PolicySet {
    let set = PolicySet::load(configuration, None, 1, ClusterOptions::of(Source::Absent)).unwrap();
    assert!(set.broken().is_empty(), "{:?}", set.broken());
    set
}

/// Returns every descriptor with the name of its policy.
fn descriptors() -> Vec<(String, Descriptor)> {
    let set = load(&Configuration::builtin(Profile::default(), BUILTINS));
    set.policies().iter().map(|p| (p.name.clone(), p.descriptor.clone())).collect()
}

/// A configuration with one copy of a policy for each way to switch one of its rules on, and one with
/// all off.
struct PolicyCopies {
    text: String,
    /// The matches of each copy, in their order, with the reason.
    expected: Vec<(String, RequestSet)>,
}

impl PolicyCopies {
    fn new() -> Self {
        let text = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n".to_owned();
        Self { text, expected: Vec::new() }
    }

    /// Adds a case with one rule on: by its level, unless the setting enables it.
    fn add(&mut self, policy: &str, all: &Descriptor, on: Option<&Rule>, setting: Option<&str>) {
        let number = self.expected.len();
        let levels = all.rules.iter().filter_map(|rule| match on {
            Some(on) if on.id == rule.id => {
                let turns_on = rule.enabled_by.iter().any(|known| Some(known.as_str()) == setting);
                (!turns_on).then(|| format!("{}: deny", rule.id))
            }
            _ => Some(format!("{}: off", rule.id)),
        });
        let levels = levels.collect::<Vec<_>>().join(", ");
        writeln!(self.text, "  - name: copy-{number}\n    module: builtin:{policy}").unwrap();
        writeln!(self.text, "    limits: {{concurrency: 1}}\n    rules: {{{levels}}}").unwrap();
        if let Some(setting) = setting {
            let schema: Value = serde_json::from_str(&all.settings_schema).unwrap();
            let mut schema_node = &schema;
            let names: Vec<_> = setting.split('/').skip(1).collect();
            for name in &names {
                schema_node = &schema_node["properties"][name];
            }
            let mut value = Self::example_value(schema_node).to_string();
            for name in names.iter().rev() {
                value = format!("{{{name}: {value}}}");
            }
            writeln!(self.text, "    settings: {value}").unwrap();
        }
        let why = format!("{:?} with {setting:?}", on.map(|rule| &rule.id));
        let expected = on.map(|rule| matched_requests(rule, setting)).unwrap_or_default();
        self.expected.push((why, expected));
    }

    /// Returns a value that a schema allows, and that is not nothing.
    fn example_value(schema: &Value) -> Value {
        match schema["type"].as_str() {
            Some("array") => match &schema["items"]["enum"][0] {
                Value::Null if schema["items"]["pattern"].is_string() => json!(["x/x"]),
                Value::Null => json!(["x"]),
                known => json!([known]),
            },
            Some("boolean") => json!(true),
            Some("object") => json!({"x": ["x/x"]}),
            Some("string") if schema["enum"].is_null() => json!("x"),
            _ => schema["enum"][0].clone(),
        }
    }
}

#[test]
fn registered_rules_equal_the_evaluated_requests() {
    let described = descriptors();
    let clustered: Vec<_> = described
        .iter()
        .filter(|(_, d)| d.rules.iter().any(|rule| !matched_requests(rule, None).is_empty()))
        .collect();
    let names: Vec<_> = clustered.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "bundle-immutability",
        "operator-group",
        "constraint-limits",
        "cluster-service-version",
        "pod-security",
        "operator-condition",
        "platform-operator",
        "crd-upgrade",
        "catalog-source",
        "subscription",
        "olm-v1",
        "platform-configuration",
    ];
    assert_eq!(names, expected);
    let mut copies = PolicyCopies::new();
    for (name, descriptor) in clustered {
        copies.add(name, descriptor, None, None);
        for rule in &descriptor.rules {
            copies.add(name, descriptor, Some(rule), None);
            for setting in rule.enabled_by.iter().filter(|_| rule.default == DefaultLevel::Off) {
                copies.add(name, descriptor, Some(rule), Some(setting));
            }
            let settings: BTreeSet<_> =
                rule.kinds.iter().filter_map(|kind| required_setting(rule, kind)).collect();
            let is_new = |setting: &&str| !rule.enabled_by.iter().any(|known| known == setting);
            for setting in settings.into_iter().filter(is_new) {
                copies.add(name, descriptor, Some(rule), Some(setting));
            }
        }
    }
    let configuration =
        Configuration::parse(Path::new("opgate.yaml"), &copies.text, BUILTINS).unwrap();
    let set = load(&configuration);
    assert_eq!(set.policies().len(), copies.expected.len());
    let mut wrong = Vec::new();
    for (policy, (why, expected)) in set.policies().iter().zip(&copies.expected) {
        let asked = registered_requests(policy);
        if asked != *expected {
            wrong.push(format!("{why} of {}: {asked:?}, not {expected:?}", policy.source));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
