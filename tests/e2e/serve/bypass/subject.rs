//! One request that a rule refuses, from the cases of its policy.

use opgate_sdk_testing::Case;
use serde_json::{Value, json};

use super::{TENANT, or_empty};
use crate::policy::cases::{POLICIES, cases_of};

/// A rule, and a request that breaks it.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) policy: String,
    pub(crate) rule: String,
    /// Name of the case.
    pub(crate) name: String,
    pub(crate) group: String,
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
const KINDS: [(&str, &str, &str, &str); 31] = [
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
    ("operatorconditions", "OperatorCondition", "operators.coreos.com", "v2"),
    ("olmconfigs", "OLMConfig", "operators.coreos.com", "v1"),
    ("operatorhubs", "OperatorHub", "config.openshift.io", "v1"),
    ("featuregates", "FeatureGate", "config.openshift.io", "v1"),
    ("clusterversions", "ClusterVersion", "config.openshift.io", "v1"),
    ("platformoperators", "PlatformOperator", "platform.openshift.io", "v1alpha1"),
    ("pods", "Pod", "", "v1"),
    ("deployments", "Deployment", "apps", "v1"),
    ("daemonsets", "DaemonSet", "apps", "v1"),
    ("statefulsets", "StatefulSet", "apps", "v1"),
    ("jobs", "Job", "batch", "v1"),
    ("cronjobs", "CronJob", "batch", "v1"),
    ("customresourcedefinitions", "CustomResourceDefinition", "apiextensions.k8s.io", "v1"),
    ("catalogsources", "CatalogSource", "operators.coreos.com", "v1alpha1"),
    ("subscriptions", "Subscription", "operators.coreos.com", "v1alpha1"),
    ("catalogs", "Catalog", "catalogd.operatorframework.io", "v1alpha1"),
    ("machineautoscalers", "MachineAutoscaler", "autoscaling.openshift.io", "v1beta1"),
    ("priorityclasses", "PriorityClass", "scheduling.k8s.io", "v1"),
];
const CLUSTER_SCOPED: [&str; 14] = [
    "Bundle",
    "BundleDeployment",
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "OLMConfig",
    "OperatorHub",
    "FeatureGate",
    "ClusterVersion",
    "PlatformOperator",
    "CustomResourceDefinition",
    "Operator",
    "Catalog",
    "PriorityClass",
];

pub(crate) fn plural(kind: &str) -> &'static str {
    KINDS.iter().find(|(_, name, ..)| *name == kind).expect(kind).0
}

/// An object as an API server has it.
fn with_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    let is_global = CLUSTER_SCOPED.contains(&object["kind"].as_str().unwrap_or_default());
    if let Some(metadata) = object["metadata"].as_object_mut().filter(|_| is_global) {
        metadata.remove("namespace");
    }
    object
}

impl Subject {
    pub(crate) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The name of the object.
    pub(crate) fn object_name(&self) -> String {
        let name = self.bad["metadata"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    }

    /// An object of the same name that violates no rule.
    pub(crate) fn valid_object(&self) -> Value {
        if let Some(old) = &self.old {
            return old.clone();
        }
        let class = "core-rukpak-io-plain";
        let source = json!({"type": "image", "image": {"ref": "a@sha256:0"}});
        let bundle = json!({"provisionerClassName": class, "source": source});
        let mut object = self.empty_object();
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
            "PlatformOperator" => {
                object["spec"] = json!({"package": {"name": "another-operator"}});
            }
            "CustomResourceDefinition" => object["spec"] = self.valid_definition(),
            "CatalogSource" => {
                object["spec"] = json!({"sourceType": "grpc", "image": "a@sha256:0"});
            }
            "Subscription" => {
                object["spec"] = json!({"name": "another", "source": "another",
                    "sourceNamespace": "another"});
            }
            "InstallPlan" => {
                object["spec"] = json!({"approval": "Manual", "approved": false,
                    "clusterServiceVersionNames": []});
            }
            "Operator" => object["spec"] = json!({"packageName": "another"}),
            "Catalog" => object["spec"] = json!({"source": source}),
            "MachineAutoscaler" => {
                object["spec"] = json!({"minReplicas": 1, "maxReplicas": 2, "scaleTargetRef": {
                    "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "a"}});
            }
            "Namespace" | "OperatorCondition" | "OLMConfig" | "OperatorHub" | "FeatureGate"
            | "ClusterVersion" | "Pod" | "Deployment" | "DaemonSet" | "StatefulSet" => {}
            "ClusterRole" | "Role" => object["rules"] = json!([]),
            "ClusterRoleBinding" => {
                object["roleRef"] = self.bad["roleRef"].clone();
                object["subjects"] = json!([]);
            }
            other => panic!("what is an innocent {other}?"),
        }
        object
    }

    /// The spec of a CRD with this name and one version.
    fn valid_definition(&self) -> Value {
        let name = self.object_name();
        let (plural, group) = name.split_once('.').unwrap_or((&name, "a.io"));
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Innocent"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        })
    }

    /// An object of the same name with nothing in it.
    pub(crate) fn empty_object(&self) -> Value {
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
    for policy in POLICIES {
        let cases = cases_of(policy);
        for (_, rule) in rules.iter().filter(|(name, _)| name == policy.name) {
            let breaks = |case: &&Case| {
                case.violations.iter().any(|finding| finding.rule == *rule)
                    && case.request.sub_resource.is_none()
                    && case.resource()[0] != "opgate.dev"
                    && (policy.reads().is_empty()
                        || case.cluster.is_some()
                        || is_request_only(policy.name))
            };
            let found = cases.iter().filter(breaks).map(|case| subject(policy.name, rule, case));
            let mut found: Vec<_> = found.collect();
            found.sort_by_key(|subject| match subject.operation {
                "CREATE" => 0,
                "UPDATE" => 1,
                _ => 2,
            });
            all.extend(found);
        }
    }
    all
}

/// Whether most rules of a policy evaluate the request alone.
fn is_request_only(policy: &str) -> bool {
    policy != "operator-group"
}

/// The value of `settings` in a configuration. The configuration has the levels next to `settings`.
fn settings(settings: Option<&Value>) -> Value {
    let mut settings = or_empty(settings);
    let members = settings.as_object_mut().expect("settings");
    members.remove("rules");
    // Who is exempt is no case of a rule.
    members.remove("exempt");
    settings
}

fn subject(policy: &str, rule: &str, case: &Case) -> Subject {
    let [group, version, _, kind] = case.resource();
    let (name, namespace) = case.key();
    let typed = |object: &Value| {
        let mut object = with_server_fields(object);
        let api = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        object["apiVersion"] = json!(api);
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!(name);
        }
        object
    };
    let old = case.old.as_ref().map(typed);
    let is_global = CLUSTER_SCOPED.contains(&kind.as_str());
    Subject {
        policy: policy.to_owned(),
        rule: rule.to_owned(),
        name: case.name.clone(),
        operation: case.operation,
        user: match case.request.user.as_deref() {
            None | Some("" | "kubernetes-admin") => TENANT.to_owned(),
            Some(user) => user.to_owned(),
        },
        groups: case.request.groups.clone(),
        namespace: if is_global { String::new() } else { namespace },
        bad: case.object.as_ref().map(typed).or_else(|| old.clone()).expect("an object"),
        old: old.filter(|_| case.operation == "UPDATE"),
        settings: settings(Some(&case.settings)),
        cluster: case.cluster.iter().flatten().map(with_server_fields).collect(),
        group,
        version,
        kind,
    }
}
