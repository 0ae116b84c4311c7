//! The resources that the policy evaluates.
//!
//! Most rules warn, so their targets are advisory. Match conditions exclude requests that cannot
//! violate a rule. Targets that would match requests of the whole cluster exist only if a setting
//! enables them: the host sets `files` for `opgate check`.

use opgate_sdk::Target;

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
pub(crate) const CONFIG: &str = "config.openshift.io";
pub(crate) const PERFORMANCE: &str = "performance.openshift.io";

/// A kind for which the rules only warn.
const fn advisory(
    groups: &'static [&'static str],
    versions: &'static [&'static str],
    resources: &'static [&'static str],
    kind: &'static str,
) -> Target {
    Target { groups, versions, resources, kind, advisory: true, ..Target::EMPTY }
}

const V1: &[&str] = &["v1"];
const CORE: &[&str] = &[""];

/// Roles that an aggregation label adds to `view` or `edit`.
pub(crate) static CLUSTER_ROLE: Target = Target {
    conditions: &[(
        "aggregated",
        "object != null && has(object.metadata.labels) && ('rbac.authorization.k8s.io/aggregate-to-view' in object.metadata.labels || 'rbac.authorization.k8s.io/aggregate-to-edit' in object.metadata.labels)",
    )],
    ..advisory(&[RBAC], V1, &["clusterroles"], "ClusterRole")
};

/// ConfigMaps with content and the label that requests the merged bundle.
pub(crate) static CONFIG_MAP: Target = Target {
    conditions: &[(
        "trusted-ca",
        "object != null && has(object.metadata.labels) && 'config.openshift.io/inject-trusted-cabundle' in object.metadata.labels && (has(object.data) || has(object.binaryData))",
    )],
    ..advisory(CORE, V1, &["configmaps"], "ConfigMap")
};

/// The policy matches no Secret unless a setting enables it, and then only the one with this name.
pub(crate) static SECRET: Target = Target {
    conditions: &[("pull-secret", "request.name == 'pull-secret'")],
    namespace_selector: r#"{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["openshift-config"]}]}"#,
    enabled_by: &["/files", "/misc/globalPullSecret"],
    ..advisory(CORE, V1, &["secrets"], "Secret")
};

const AUTOSCALING: &[&str] = &["autoscaling.openshift.io"];

pub(crate) static CLUSTER_AUTOSCALER: Target =
    advisory(AUTOSCALING, &["v1", "v1alpha1"], &["clusterautoscalers"], "ClusterAutoscaler");

/// Also known as `configs.samples`.
pub(crate) static SAMPLES_CONFIG: Target =
    advisory(&["samples.operator.openshift.io"], V1, &["configs"], "Config");

pub(crate) static ETCD: Target = advisory(&["operator.openshift.io"], V1, &["etcds"], "Etcd");

pub(crate) static CLUSTER_INGRESS: Target = advisory(
    &["ingress.openshift.io"],
    &["v1", "v1alpha1"],
    &["clusteringresses"],
    "ClusterIngress",
);

pub(crate) static MACHINE_AUTOSCALER: Target = Target {
    groups: AUTOSCALING,
    versions: &["v1beta1", "v1alpha1"],
    resources: &["machineautoscalers"],
    kind: "MachineAutoscaler",
    ..Target::EMPTY
};

/// The namespace of the samples.
const SAMPLES_NAMESPACE: &str = r#"{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["openshift"]}]}"#;
/// Image imports write image streams often, without changing the annotations.
const HAS_CHANGED_ANNOTATIONS: &[(&str, &str)] = &[(
    "annotations",
    "object != null && oldObject != null && has(oldObject.metadata.annotations) && !(has(object.metadata.annotations) && object.metadata.annotations == oldObject.metadata.annotations)",
)];

pub(crate) static IMAGE_STREAM: Target = Target {
    namespace_selector: SAMPLES_NAMESPACE,
    conditions: HAS_CHANGED_ANNOTATIONS,
    ..advisory(&["image.openshift.io"], V1, &["imagestreams"], "ImageStream")
};

pub(crate) static TEMPLATE: Target = Target {
    namespace_selector: SAMPLES_NAMESPACE,
    conditions: HAS_CHANGED_ANNOTATIONS,
    ..advisory(&["template.openshift.io"], V1, &["templates"], "Template")
};

pub(crate) static STORAGE_CLASS: Target = Target {
    groups: &["storage.k8s.io"],
    versions: V1,
    resources: &["storageclasses"],
    kind: "StorageClass",
    ..Target::EMPTY
};

pub(crate) static MACHINE_CONFIG: Target =
    advisory(&["machineconfiguration.openshift.io"], V1, &["machineconfigs"], "MachineConfig");

/// Only the installer and a few controllers write a status.
pub(crate) static INFRASTRUCTURE_STATUS: Target =
    advisory(&[CONFIG], V1, &["infrastructures/status"], "Infrastructure");

/// Every object that `opgate check` reads from files.
pub(crate) static MANIFEST: Target =
    Target { enabled_by: &["/files"], ..advisory(&["*"], &["*"], &["*"], "any manifest") };

/// Custom resources of the kinds that a setting names, with an annotation that a rule reads.
pub(crate) static CUSTOM_RESOURCE: Target = Target {
    conditions: &[
        ("group", "request.resource.group != ''"),
        (
            "annotated",
            "object != null && has(object.metadata.annotations) && ('ansible.operator-sdk/reconcile-period' in object.metadata.annotations || 'ansible.operator-sdk/max-runner-artifacts' in object.metadata.annotations || 'ansible.sdk.operatorframework.io/verbosity' in object.metadata.annotations)",
        ),
    ],
    enabled_by: &["/misc/customResources"],
    ..advisory(&["*"], &["*"], &["*"], "any custom resource")
};

/// A project of an Ansible or Helm Operator.
pub(crate) static PROJECT: Target = Target::for_files("OperatorProject", &["operatorprojects"]);

pub(crate) static CREDENTIALS_REQUEST: Target =
    advisory(&["cloudcredential.openshift.io"], V1, &["credentialsrequests"], "CredentialsRequest");

pub(crate) static OPERATOR_SOURCE: Target =
    advisory(&["operators.coreos.com"], V1, &["operatorsources"], "OperatorSource");

pub(crate) static PERFORMANCE_PROFILE: Target = advisory(
    &[PERFORMANCE],
    &["v2", "v1", "v1alpha1"],
    &["performanceprofiles"],
    "PerformanceProfile",
);

/// The configuration of all nodes, not a node.
pub(crate) static NODE_CONFIG: Target = advisory(&[CONFIG], V1, &["nodes"], "Node");

pub(crate) static SERVICE_MONITOR: Target =
    advisory(&["monitoring.coreos.com"], V1, &["servicemonitors"], "ServiceMonitor");

const RUKPAK: &[&str] = &["core.rukpak.io"];
const RUKPAK_VERSIONS: &[&str] = &["v1alpha1", "v1alpha2"];

pub(crate) static BUNDLE: Target = advisory(RUKPAK, RUKPAK_VERSIONS, &["bundles"], "Bundle");

pub(crate) static BUNDLE_DEPLOYMENT: Target =
    advisory(RUKPAK, RUKPAK_VERSIONS, &["bundledeployments"], "BundleDeployment");

pub(crate) static PLATFORM_OPERATOR: Target =
    advisory(&["platform.openshift.io"], &["v1alpha1"], &["platformoperators"], "PlatformOperator");

/// The kind of OLM 1.0.
pub(crate) static OPERATOR: Target =
    advisory(&["operators.operatorframework.io"], &["v1alpha1"], &["operators"], "Operator");

pub(crate) static CATALOG: Target =
    advisory(&["catalogd.operatorframework.io"], &["v1alpha1"], &["catalogs"], "Catalog");
