//! One request that a rule refuses, from the case files of its policy.

use opgate_sdk::Operation;
use serde_json::{Value, json};

use super::{TENANT, or_empty};
use crate::cases::{Case, all_cases};

const BUNDLES: [&str; 4] = [
    include_str!("../../../guest/policies/bundle-immutability/tests/cases/bundle_create.json"),
    include_str!("../../../guest/policies/bundle-immutability/tests/cases/bundle_update.json"),
    include_str!("../../../guest/policies/bundle-immutability/tests/cases/cluster.json"),
    include_str!("../../../guest/policies/bundle-immutability/tests/cases/deployment.json"),
];
const CONSTRAINTS: &str =
    include_str!("../../../guest/policies/constraint-limits/tests/cases/rules.json");

/// A rule, and a request that breaks it.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) policy: String,
    pub(crate) rule: String,
    /// Name of the case.
    pub(crate) name: String,
    pub(crate) group: &'static str,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) operation: &'static str,
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    pub(crate) namespace: String,
    pub(crate) bad: Value,
    /// What an UPDATE starts from.
    pub(crate) old: Option<Value>,
    pub(crate) settings: Value,
    pub(crate) cluster: Vec<Value>,
}

/// Kind and group by plural.
const KINDS: [(&str, &str, &str, &str); 13] = [
    ("bundles", "Bundle", "core.rukpak.io", "v1alpha1"),
    ("bundledeployments", "BundleDeployment", "core.rukpak.io", "v1alpha1"),
    ("configmaps", "ConfigMap", "", "v1"),
    ("operatorgroups", "OperatorGroup", "operators.coreos.com", "v1"),
    ("clusterserviceversions", "ClusterServiceVersion", "operators.coreos.com", "v1alpha1"),
    ("installplans", "InstallPlan", "operators.coreos.com", "v1alpha1"),
    ("namespaces", "Namespace", "", "v1"),
    ("serviceaccounts", "ServiceAccount", "", "v1"),
    ("clusterroles", "ClusterRole", "rbac.authorization.k8s.io", "v1"),
    ("clusterrolebindings", "ClusterRoleBinding", "rbac.authorization.k8s.io", "v1"),
    ("roles", "Role", "rbac.authorization.k8s.io", "v1"),
    ("rolebindings", "RoleBinding", "rbac.authorization.k8s.io", "v1"),
    ("operators", "Operator", "operators.coreos.com", "v1"),
];
const CLUSTER_SCOPED: [&str; 5] =
    ["Bundle", "BundleDeployment", "Namespace", "ClusterRole", "ClusterRoleBinding"];

fn by_plural(plural: &str) -> (&'static str, &'static str, &'static str) {
    let found = KINDS.iter().find(|(name, ..)| *name == plural);
    found.map(|(_, kind, group, version)| (*kind, *group, *version)).expect(plural)
}

pub(crate) fn plural(kind: &str) -> &'static str {
    KINDS.iter().find(|(_, name, ..)| *name == kind).expect(kind).0
}

/// An object as an API server has it.
fn whole(plural: &str, object: &Value) -> Value {
    let (kind, group, version) = by_plural(plural);
    let api = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut object = object.clone();
    object["apiVersion"] = json!(api);
    object["kind"] = json!(kind);
    if CLUSTER_SCOPED.contains(&kind)
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("namespace");
    }
    object
}

impl Subject {
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The name of the object.
    pub(crate) fn object_name(&self) -> String {
        let name = self.bad["metadata"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    }

    /// An object of the same name that nobody objects to.
    pub(crate) fn innocent(&self) -> Value {
        if let Some(old) = &self.old {
            return old.clone();
        }
        let class = "core-rukpak-io-plain";
        let source = json!({"type": "image", "image": {"ref": "a@sha256:0"}});
        let bundle = json!({"provisionerClassName": class, "source": source});
        let mut object = self.bare();
        match self.kind.as_str() {
            "BundleDeployment" if self.version == "v1alpha1" => {
                object["spec"] = json!({"provisionerClassName": class, "template": {
                    "metadata": {"labels": {"a": "b"}}, "spec": bundle}});
            }
            "Bundle" | "BundleDeployment" => object["spec"] = bundle,
            "ConfigMap" => object["immutable"] = json!(true),
            "OperatorGroup" => object["spec"] = json!({"targetNamespaces": [self.namespace]}),
            "ClusterServiceVersion" => {
                let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
                let modes = modes.map(|mode| json!({"type": mode, "supported": true}));
                object["spec"] = json!({"installModes": modes});
            }
            "ClusterRole" | "Role" => object["rules"] = json!([]),
            "ClusterRoleBinding" => {
                object["roleRef"] = self.bad["roleRef"].clone();
                object["subjects"] = json!([]);
            }
            other => panic!("what is an innocent {other}?"),
        }
        object
    }

    /// An object of the same name with nothing in it.
    pub(crate) fn bare(&self) -> Value {
        let mut object = json!({"apiVersion": self.api_version(), "kind": self.kind,
            "metadata": {"name": self.object_name()}});
        if !self.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        object
    }
}

/// For each rule the cases that might do, creations first.
pub(crate) fn subjects(rules: &[(String, String)]) -> Vec<Subject> {
    let mut all: Vec<Subject> = Vec::new();
    for (policy, rule) in rules {
        let mut found: Vec<Subject> = match policy.as_str() {
            "bundle-immutability" => of_bundles(rule),
            "operator-group" => of_groups(rule),
            _ => of_constraints(rule),
        };
        found.sort_by_key(|subject| match subject.operation {
            "CREATE" => 0,
            "UPDATE" => 1,
            _ => 2,
        });
        all.extend(found.into_iter().map(|found| Subject { policy: policy.clone(), ..found }));
    }
    all
}

/// Settings as they stand under `settings`: levels stand beside them.
fn settings(settings: Option<&Value>) -> Value {
    let mut settings = or_empty(settings);
    let members = settings.as_object_mut().expect("settings");
    members.remove("rules");
    // Who is exempt is no case of a rule.
    members.remove("exempt");
    settings
}

fn of_bundles(rule: &str) -> Vec<Subject> {
    let cases = BUNDLES.iter().flat_map(|json| {
        let cases: Vec<Value> = serde_json::from_str(json).expect("cases");
        cases
    });
    let breaks = |case: &Value| {
        let expected = case["expected"].as_array().expect("findings");
        expected.iter().any(|finding| finding["rule"] == rule) && case.get("subResource").is_none()
    };
    cases.filter(breaks).map(|case| of_bundle(rule, &case)).collect()
}

fn of_bundle(rule: &str, case: &Value) -> Subject {
    let text = |key: &str, default: &str| case[key].as_str().unwrap_or(default).to_owned();
    let kind = text("kind", "Bundle");
    let group = if kind == "ConfigMap" { "" } else { "core.rukpak.io" };
    let version = if kind == "ConfigMap" { "v1".to_owned() } else { text("version", "v1alpha1") };
    let api = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let name = if kind == "Bundle" { "combo-tag-ref" } else { "my-bundle-deployment" };
    let with_spec = |spec: &Value| json!({"metadata": {"name": name}, "spec": spec});
    let from_source = |source: &Value| {
        with_spec(&json!({"source": source, "provisionerClassName": "core-rukpak-io-plain"}))
    };
    let typed = |mut object: Value| {
        object["apiVersion"] = json!(api);
        object["kind"] = json!(kind);
        object
    };
    let given = |whole: &str, spec: &str| {
        case.get(whole).cloned().or_else(|| case.get(spec).map(with_spec)).map(typed)
    };
    let source = || case.get("source").map(from_source).map(typed);
    let old = given("oldObject", "oldSpec");
    let bad = given("object", "spec").or_else(source).or_else(|| old.clone());
    let cluster = case["cluster"].as_array().into_iter().flatten();
    let operation = match text("operation", "CREATE").as_str() {
        "CREATE" => "CREATE",
        "UPDATE" => "UPDATE",
        _ => "DELETE",
    };
    Subject {
        policy: String::new(),
        rule: rule.to_owned(),
        name: text("name", ""),
        group,
        version,
        operation,
        user: text("user", TENANT),
        groups: Vec::new(),
        namespace: text("namespace", ""),
        bad: bad.expect("an object"),
        old: old.filter(|_| operation == "UPDATE"),
        settings: settings(case.get("settings")),
        cluster: cluster
            .map(|entry| whole(entry["resource"].as_str().expect("a name"), &entry["object"]))
            .collect(),
        kind,
    }
}

fn of_groups(rule: &str) -> Vec<Subject> {
    let breaks = |case: &Case| {
        case.expected.iter().any(|expected| expected.finding.rule == rule)
            && case.cluster.is_some()
            && case.request.sub_resource.is_empty()
    };
    all_cases().filter(breaks).map(|case| of_group(rule, &case)).collect()
}

fn of_group(rule: &str, case: &Case) -> Subject {
    let (kind, group, _) = by_plural(&case.request.resource.resource);
    let version = case.request.resource.version.clone();
    let typed = |object: &Value| {
        let mut object = whole(plural(kind), object);
        object["apiVersion"] = json!(format!("{group}/{version}"));
        object
    };
    let old = case.old.as_ref().map(typed);
    let operation = match case.request.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        _ => "DELETE",
    };
    let kinds = case.cluster.iter().flatten();
    Subject {
        policy: String::new(),
        rule: rule.to_owned(),
        name: case.name.clone(),
        group,
        kind: kind.to_owned(),
        operation,
        user: match case.request.user.username.as_str() {
            "kubernetes-admin" => TENANT.to_owned(),
            user => user.to_owned(),
        },
        groups: case.request.user.groups.clone(),
        namespace: case.request.namespace.clone(),
        bad: case.object.as_ref().map(typed).or_else(|| old.clone()).expect("an object"),
        old: old.filter(|_| operation == "UPDATE"),
        settings: settings(Some(&case.settings)),
        cluster: kinds.flat_map(|(plural, list)| list.iter().map(|o| whole(plural, o))).collect(),
        version,
    }
}

fn of_constraints(rule: &str) -> Vec<Subject> {
    let cases: Vec<Value> = serde_json::from_str(CONSTRAINTS).expect("cases");
    let breaks = |case: &&Value| {
        let expected = case["expected"].as_array().expect("findings");
        expected.iter().any(|finding| finding[0] == rule)
            && case.get("csv").is_some()
            && case.get("old").is_none()
            && case.get("labels").is_none()
    };
    cases.iter().filter(breaks).map(|case| of_constraint(rule, case)).collect()
}

fn of_constraint(rule: &str, case: &Value) -> Subject {
    let written = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let annotations = case["csv"].as_object().expect("annotations").iter();
    let annotations: serde_json::Map<_, _> =
        annotations.map(|(name, value)| (name.clone(), json!(written(value)))).collect();
    Subject {
        policy: String::new(),
        rule: rule.to_owned(),
        name: case["name"].as_str().expect("a name").to_owned(),
        group: "operators.coreos.com",
        version: "v1alpha1".to_owned(),
        kind: "ClusterServiceVersion".to_owned(),
        operation: "CREATE",
        user: TENANT.to_owned(),
        groups: Vec::new(),
        namespace: "ns".to_owned(),
        bad: json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "c", "namespace": "ns", "annotations": annotations},
            "spec": {},
        }),
        old: None,
        settings: settings(case.get("settings")),
        cluster: Vec::new(),
    }
}
