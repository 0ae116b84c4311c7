//! The kinds of objects that the policy evaluates.
//!
//! Pods and workloads occur several times, for rules that match different ones. Each target
//! selects, with labels of namespaces or with conditions, the requests that matter to its rules,
//! and its function evaluates only those rules.

use opgate_sdk::Target;

const OLM: &[&str] = &["operators.coreos.com"];
const CORE: &[&str] = &[""];
const APPS: &[&str] = &["apps"];
const BATCH: &[&str] = &["batch"];
const V1: &[&str] = &["v1"];

/// The labels that the rules read, by name: the time that an API server needs to iterate over
/// labels grows with the square of their number.
const HAS_LEVEL_LABEL: &str = "object != null && has(object.metadata.labels) && ('pod-security.kubernetes.io/enforce' in object.metadata.labels || 'pod-security.kubernetes.io/audit' in object.metadata.labels || 'pod-security.kubernetes.io/warn' in object.metadata.labels || 'pod-security.kubernetes.io/enforce-version' in object.metadata.labels || 'pod-security.kubernetes.io/audit-version' in object.metadata.labels || 'pod-security.kubernetes.io/warn-version' in object.metadata.labels || 'security.openshift.io/scc.podSecurityLabelSync' in object.metadata.labels)";

pub(crate) static NAMESPACE: Target = Target {
    groups: CORE,
    versions: V1,
    resources: &["namespaces"],
    kind: "Namespace",
    conditions: &[("pod-security-labels", HAS_LEVEL_LABEL)],
    ..Target::EMPTY
};

/// `/status` and `/finalize` of a Namespace: the API server stores the labels of such an UPDATE,
/// and its own pod security admission does not evaluate it (kubernetes
/// `staging/src/k8s.io/pod-security-admission/admission/admission.go`). The namespace controller
/// writes both of each Namespace that is deleted: only a change of the labels matters.
pub(crate) static NAMESPACE_PARTS: Target = Target {
    resources: &["namespaces/status", "namespaces/finalize"],
    conditions: &[("pod-security-labels-change", HAS_CHANGED_LABELS)],
    ..NAMESPACE
};

/// Each label by its name, as for [`HAS_LEVEL_LABEL`].
const HAS_CHANGED_LABELS: &str = "object != null && has(object.metadata.labels) && (oldObject == null || !has(oldObject.metadata.labels) || 'pod-security.kubernetes.io/enforce' in object.metadata.labels && !('pod-security.kubernetes.io/enforce' in oldObject.metadata.labels && object.metadata.labels['pod-security.kubernetes.io/enforce'] == oldObject.metadata.labels['pod-security.kubernetes.io/enforce']) || 'pod-security.kubernetes.io/audit' in object.metadata.labels && !('pod-security.kubernetes.io/audit' in oldObject.metadata.labels && object.metadata.labels['pod-security.kubernetes.io/audit'] == oldObject.metadata.labels['pod-security.kubernetes.io/audit']) || 'pod-security.kubernetes.io/warn' in object.metadata.labels && !('pod-security.kubernetes.io/warn' in oldObject.metadata.labels && object.metadata.labels['pod-security.kubernetes.io/warn'] == oldObject.metadata.labels['pod-security.kubernetes.io/warn']) || 'pod-security.kubernetes.io/enforce-version' in object.metadata.labels && !('pod-security.kubernetes.io/enforce-version' in oldObject.metadata.labels && object.metadata.labels['pod-security.kubernetes.io/enforce-version'] == oldObject.metadata.labels['pod-security.kubernetes.io/enforce-version']) || 'pod-security.kubernetes.io/audit-version' in object.metadata.labels && !('pod-security.kubernetes.io/audit-version' in oldObject.metadata.labels && object.metadata.labels['pod-security.kubernetes.io/audit-version'] == oldObject.metadata.labels['pod-security.kubernetes.io/audit-version']) || 'pod-security.kubernetes.io/warn-version' in object.metadata.labels && !('pod-security.kubernetes.io/warn-version' in oldObject.metadata.labels && object.metadata.labels['pod-security.kubernetes.io/warn-version'] == oldObject.metadata.labels['pod-security.kubernetes.io/warn-version']) || 'security.openshift.io/scc.podSecurityLabelSync' in object.metadata.labels && !('security.openshift.io/scc.podSecurityLabelSync' in oldObject.metadata.labels && object.metadata.labels['security.openshift.io/scc.podSecurityLabelSync'] == oldObject.metadata.labels['security.openshift.io/scc.podSecurityLabelSync']))";

pub(crate) static CSV: Target = Target {
    groups: OLM,
    versions: &["v1alpha1"],
    resources: &["clusterserviceversions"],
    kind: "ClusterServiceVersion",
    ..Target::EMPTY
};

pub(crate) static REGISTRY_BUNDLE: Target =
    Target::for_files("RegistryBundle", &["registrybundles"]);

pub(crate) static CATALOG: Target = Target::for_files("FileBasedCatalog", &["filebasedcatalogs"]);

/// The projects that are default by their names.
const DEFAULT_PROJECT_SELECTOR: &str = r#"{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["default","kube-public","kube-system","openshift","openshift-infra","openshift-node"]}]}"#;
/// The projects that are default by their run level.
const RUN_LEVEL_SELECTOR: &str =
    r#"{"matchExpressions":[{"key":"openshift.io/run-level","operator":"In","values":["0","1"]}]}"#;

/// PSA-08 only warns.
const fn in_project(
    groups: &'static [&'static str],
    versions: &'static [&'static str],
    resources: &'static [&'static str],
    kind: &'static str,
    namespace_selector: &'static str,
) -> Target {
    Target {
        groups,
        versions,
        resources,
        kind,
        namespace_selector,
        advisory: true,
        ..Target::EMPTY
    }
}

/// Targets of the same kinds, in one module for each way to be a default project.
macro_rules! projects {
    ($($module:ident: $labels:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub(crate) mod $module {
            use super::{APPS, BATCH, CORE, OLM, Target, V1, $labels, in_project};

            pub(crate) static POD: Target = in_project(CORE, V1, &["pods"], "Pod", $labels);
            pub(crate) static DEPLOYMENT: Target =
                in_project(APPS, V1, &["deployments"], "Deployment", $labels);
            pub(crate) static DAEMON_SET: Target =
                in_project(APPS, V1, &["daemonsets"], "DaemonSet", $labels);
            pub(crate) static STATEFUL_SET: Target =
                in_project(APPS, V1, &["statefulsets"], "StatefulSet", $labels);
            pub(crate) static JOB: Target = in_project(BATCH, V1, &["jobs"], "Job", $labels);
            pub(crate) static CRON_JOB: Target =
                in_project(BATCH, &["v1", "v1beta1"], &["cronjobs"], "CronJob", $labels);
            pub(crate) static SUBSCRIPTION: Target =
                in_project(OLM, &["v1alpha1"], &["subscriptions"], "Subscription", $labels);
            pub(crate) static OPERATOR_GROUP: Target =
                in_project(OLM, &["v1", "v1alpha2"], &["operatorgroups"], "OperatorGroup", $labels);
        }
    )*};
}

projects! {
    by_name: DEFAULT_PROJECT_SELECTOR, "What may run in a default project, by its name.";
    by_run_level: RUN_LEVEL_SELECTOR, "What may run in a default project, by its run level.";
}

/// Namespaces that enforce the level `restricted`.
const RESTRICTED: &str = r#"{"matchLabels":{"pod-security.kubernetes.io/enforce":"restricted"}}"#;

const IN_POD: &[(&str, &str)] = &[(
    "node-affinity",
    "object != null && has(object.spec.affinity) && has(object.spec.affinity.nodeAffinity)",
)];
const IN_TEMPLATE: &[(&str, &str)] = &[(
    "node-affinity",
    "object != null && has(object.spec.template.spec) && has(object.spec.template.spec.affinity) && has(object.spec.template.spec.affinity.nodeAffinity)",
)];

/// The API server checks the same fields as PSA-16, and the other rules are advice for clusters
/// that enable them: no pod waits for this server.
const fn workload(
    groups: &'static [&'static str],
    versions: &'static [&'static str],
    resources: &'static [&'static str],
    kind: &'static str,
) -> Target {
    Target { groups, versions, resources, kind, advisory: true, ..Target::EMPTY }
}

const POD: Target = workload(CORE, V1, &["pods"], "Pod");
const DEPLOYMENT: Target = workload(APPS, V1, &["deployments"], "Deployment");
const DAEMON_SET: Target = workload(APPS, V1, &["daemonsets"], "DaemonSet");
const STATEFUL_SET: Target = workload(APPS, V1, &["statefulsets"], "StatefulSet");
const JOB: Target = workload(BATCH, V1, &["jobs"], "Job");
const CRON_JOB: Target = workload(BATCH, &["v1", "v1beta1"], &["cronjobs"], "CronJob");

/// Pods and workloads with a node affinity, for PSA-16.
pub(crate) mod with_affinity {
    use super::{IN_POD, IN_TEMPLATE, Target};

    pub(crate) static POD: Target = Target { conditions: IN_POD, ..super::POD };
    pub(crate) static DEPLOYMENT: Target = Target { conditions: IN_TEMPLATE, ..super::DEPLOYMENT };
    pub(crate) static DAEMON_SET: Target = Target { conditions: IN_TEMPLATE, ..super::DAEMON_SET };
    pub(crate) static STATEFUL_SET: Target =
        Target { conditions: IN_TEMPLATE, ..super::STATEFUL_SET };
}

/// All pods and workloads, for PSA-15, which is off by default.
pub(crate) mod all {
    use super::Target;

    pub(crate) static POD: Target = super::POD;
    pub(crate) static DEPLOYMENT: Target = super::DEPLOYMENT;
    pub(crate) static DAEMON_SET: Target = super::DAEMON_SET;
    pub(crate) static STATEFUL_SET: Target = super::STATEFUL_SET;
}

/// Pods and workloads in namespaces that enforce `restricted`, for PSA-09 with `psa.checkWorkloads`.
pub(crate) mod restricted {
    use super::{RESTRICTED, Target};

    const fn allow_controllers(target: &Target) -> Target {
        let enabled_by = &["/psa/checkWorkloads"];
        Target { namespace_selector: RESTRICTED, enabled_by, ..*target }
    }

    pub(crate) static POD: Target = allow_controllers(&super::POD);
    pub(crate) static DEPLOYMENT: Target = allow_controllers(&super::DEPLOYMENT);
    pub(crate) static DAEMON_SET: Target = allow_controllers(&super::DAEMON_SET);
    pub(crate) static STATEFUL_SET: Target = allow_controllers(&super::STATEFUL_SET);
    pub(crate) static JOB: Target = allow_controllers(&super::JOB);
    pub(crate) static CRON_JOB: Target = allow_controllers(&super::CRON_JOB);
}
