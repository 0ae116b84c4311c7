//! Objects and a cluster for the tests of these modules. Most tests run the policy's searches for
//! the account `scoped` in the namespace `scoped`.

use opgate_sdk::Document;
use opgate_sdk::cluster::Cluster;

use super::{SearchError, missing_permissions, widened_account};
use crate::POLICY;

pub(super) const ALL: &str = r#"{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}"#;
pub(super) const CREATE_CRDS: &str = r#"{"apiGroups":["apiextensions.k8s.io"],"resources":["customresourcedefinitions"],"verbs":["create"]}"#;
pub(super) const READ_CRDS: &str = r#"{"apiGroups":["apiextensions.k8s.io"],"resources":["customresourcedefinitions"],"verbs":["get","list","watch"]}"#;
pub(super) const SCOPED: &str = r#"{"kind":"ServiceAccount","name":"scoped","namespace":"scoped"}"#;
pub(super) const PODS: &str =
    r#"{"apiGroups":["","apps"],"resources":["pods","deployments"],"verbs":["get","create"]}"#;

pub(super) fn parse(json: &str) -> Document {
    Document::parse(json).unwrap_or_else(|e| panic!("{json}: {e}"))
}

/// Runs a test in a cluster with these objects, each with its resource.
pub(super) fn with_objects<T>(objects: &[(&str, String)], test: impl FnOnce() -> T) -> T {
    let mut cluster = Cluster::new(&POLICY.reads(), &parse("{}"));
    for (resource, object) in objects {
        cluster.insert(resource, &parse(object));
    }
    cluster.run(test)
}

/// The roles through which the account can write resources reserved for OLM.
pub(super) fn account(objects: &[(&str, String)]) -> Result<Option<String>, SearchError> {
    with_objects(objects, || widened_account("scoped", "scoped")).complete()
}

/// The message for a role `r` that the account has through a binding `b`.
pub(super) const THROUGH_B: &str = r#"ClusterRole "r" through ClusterRoleBinding "b""#;

/// The missing permissions of the account: field and permission of each violation.
pub(super) fn missing(held: &[(&str, String)], csv: &Document) -> Vec<(String, String)> {
    let found = with_objects(held, || missing_permissions("scoped", "scoped", csv, None));
    found
        .complete()
        .unwrap()
        .into_iter()
        .map(|missing| (missing.field, missing.permission))
        .collect()
}

/// A role, in a namespace unless that is empty.
pub(super) fn role(namespace: &str, name: &str, rules: &str) -> String {
    let metadata = format!(r#"{{"name":"{name}","namespace":"{namespace}"}}"#);
    format!(r#"{{"metadata":{metadata},"rules":[{rules}]}}"#)
}

pub(super) fn binding(
    namespace: &str,
    name: &str,
    kind: &str,
    role: &str,
    subjects: &str,
) -> String {
    let metadata = format!(r#"{{"name":"{name}","namespace":"{namespace}"}}"#);
    let role =
        format!(r#"{{"apiGroup":"rbac.authorization.k8s.io","kind":"{kind}","name":"{role}"}}"#);
    format!(r#"{{"metadata":{metadata},"roleRef":{role},"subjects":[{subjects}]}}"#)
}

/// An OperatorGroup.
pub(super) fn group(namespace: &str, account: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"g","namespace":"{namespace}"}},"spec":{{"serviceAccountName":"{account}"}}}}"#
    )
}

/// A ClusterServiceVersion with these rules.
pub(super) fn csv(permissions: &str, cluster_permissions: &str) -> Document {
    let list = |rules: &str| {
        if rules.is_empty() {
            "[]".to_owned()
        } else {
            format!(r#"[{{"serviceAccountName":"op","rules":[{rules}]}}]"#)
        }
    };
    parse(&format!(
        r#"{{"spec":{{"install":{{"spec":{{"permissions":{},"clusterPermissions":{}}}}}}}}}"#,
        list(permissions),
        list(cluster_permissions)
    ))
}

/// The account has these rules in its namespace.
pub(super) fn in_namespace(rules: &str) -> Vec<(&'static str, String)> {
    vec![
        ("roles", role("scoped", "scoped", rules)),
        ("rolebindings", binding("scoped", "b", "Role", "scoped", SCOPED)),
    ]
}

/// The account has these rules everywhere.
pub(super) fn in_cluster(rules: &str) -> Vec<(&'static str, String)> {
    vec![
        ("clusterroles", role("", "r", rules)),
        ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
    ]
}

/// Elements of a list: too many if each costs a call, few if each costs a comparison.
pub(super) const MANY_ELEMENTS: usize = 60_000;

/// This number of different texts.
pub(super) fn numbered_items(count: usize) -> String {
    (0..count).map(|n| format!("\"n{n}\"")).collect::<Vec<_>>().join(",")
}
