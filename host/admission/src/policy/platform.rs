//! The platform of a cluster, and the identities of its controllers, read from the cluster itself.
//!
//! ```text
//! ClusterVersion `version` ─▶ edition (without one: upstream)
//! known accounts ─▶ their ClusterRoleBinding ─▶ their ClusterRole: all rights? ─▶ identities
//! ```
//!
//! A name alone does not make an account trusted: a user with the right to create the namespace
//! `rukpak-system` can create an account in it as well. An account counts only if a
//! ClusterRoleBinding gives it enough rights that only an administrator of the cluster can have
//! created the binding: API servers do not allow users to grant rights that they do not have. Each
//! object is read by its name, so opgate needs no right to list any.

use std::collections::BTreeMap;

use opgate_cluster::Resource;
use opgate_compat::controllers::{ACCOUNTS, Controller, ServiceAccount};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Profile;
use crate::cluster::{Connection, ReadFailure};

/// The role with all rights that every cluster has.
const CLUSTER_ADMIN: &str = "cluster-admin";

const RBAC: &str = "rbac.authorization.k8s.io";

/// The data to read from a cluster; the configuration sets the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlatformQuery {
    /// The identities of OLM.
    pub olm: bool,
    /// The identities of RukPak.
    pub rukpak: bool,
}

impl PlatformQuery {
    /// Everything.
    pub const ALL: Self = Self { olm: true, rukpak: true };

    fn accounts(self) -> impl Iterator<Item = &'static ServiceAccount> {
        ACCOUNTS.iter().filter(move |account| match account.controller {
            Controller::Olm => self.olm,
            Controller::Rukpak => self.rukpak,
        })
    }

    /// The objects that are read, by API group and resource: their names.
    #[must_use]
    pub fn objects(self) -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
        let names = |name: fn(&ServiceAccount) -> &'static str| {
            let mut names: Vec<_> = self.accounts().map(name).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let all = [
            ("config.openshift.io", "clusterversions", vec!["version"]),
            (RBAC, "clusterrolebindings", names(|account| account.binding)),
            (RBAC, "clusterroles", names(|account| account.role)),
        ];
        all.into_iter().filter(|(_, _, names)| !names.is_empty()).collect()
    }
}

/// The platform of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The edition that matches best.
    pub profile: Profile,
    /// The version of OpenShift.
    pub version: Option<String>,
    /// Users as which OLM runs.
    pub olm: Vec<String>,
    /// Users as which RukPak runs.
    pub rukpak: Vec<String>,
}

impl Platform {
    /// Reads the platform of a cluster. If a read fails, there is no result.
    ///
    /// # Errors
    /// The object that cannot be read.
    pub async fn read(connection: &Connection, wanted: PlatformQuery) -> Result<Self, ReadFailure> {
        let version =
            read_object(connection, "config.openshift.io", "clusterversions", "version").await?;
        let (profile, version) = match version {
            None => (Profile::Upstream, None),
            Some(object) => {
                let version = installed_version(&object);
                let Some((profile, version)) =
                    version.and_then(|version| Some((profile_for_version(&version)?, version)))
                else {
                    let why = "ClusterVersion version: its status names no version of OpenShift";
                    return Err(ReadFailure { is_forbidden: false, reason: why.to_owned() });
                };
                (profile, Some(version))
            }
        };
        let mut found = Self { profile, version, olm: Vec::new(), rukpak: Vec::new() };
        let (mut bindings, mut roles) = (BTreeMap::new(), BTreeMap::new());
        for account in wanted.accounts() {
            if !bindings.contains_key(account.binding) {
                let binding =
                    read_object(connection, RBAC, "clusterrolebindings", account.binding).await?;
                bindings.insert(account.binding, binding);
            }
            let Some(Some(binding)) = bindings.get(account.binding) else { continue };
            if !binds(binding, account) {
                continue;
            }
            let is_trusted = match text(binding, "/roleRef/name") {
                CLUSTER_ADMIN => true,
                name if name == account.role => {
                    if !roles.contains_key(name) {
                        let role =
                            read_object(connection, RBAC, "clusterroles", account.role).await?;
                        roles.insert(account.role, role);
                    }
                    roles.get(name).and_then(Option::as_ref).is_some_and(grants_everything)
                }
                _ => false,
            };
            if is_trusted {
                match account.controller {
                    Controller::Olm => found.olm.push(account.user()),
                    Controller::Rukpak => found.rukpak.push(account.user()),
                }
            }
        }
        Ok(found)
    }

    /// Whether both are OpenShift, or neither.
    #[must_use]
    pub fn is_same_kind(&self, other: &Self) -> bool {
        self.version.is_some() == other.version.is_some()
    }
}

/// One object of the cluster, by its name.
async fn read_object(
    connection: &Connection,
    group: &str,
    resource: &str,
    name: &str,
) -> Result<Option<Value>, ReadFailure> {
    let of = Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
    };
    let about = |why: &str| format!("{resource}.{group} {name}: {why}");
    let found = connection.get_object(&of, None, name).await;
    let found =
        found.map_err(|refused| ReadFailure { reason: about(&refused.reason), ..refused })?;
    let Some(document) = found else { return Ok(None) };
    let value = serde_json::from_str(&document.root().raw());
    let unread = |error: serde_json::Error| ReadFailure {
        is_forbidden: false,
        reason: about(&error.to_string()),
    };
    value.map(Some).map_err(unread)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The installed version: the newest one whose installation is complete. During an update, that is
/// the one before it.
fn installed_version(cluster_version: &Value) -> Option<String> {
    let history = list(cluster_version, "/status/history");
    let complete = history.iter().find(|entry| text(entry, "/state") == "Completed");
    let version = match complete {
        Some(entry) => text(entry, "/version"),
        None => text(cluster_version, "/status/desired/version"),
    };
    (!version.is_empty() && version.len() <= 64).then(|| version.to_owned())
}

/// The newest known edition that is no newer than a version, or the oldest one.
fn profile_for_version(version: &str) -> Option<Profile> {
    let mut parts = version.split('.');
    let major: u32 = parts.next()?.parse().ok()?;
    let minor: u32 = parts.next()?.parse().ok()?;
    Some(match (major, minor) {
        (0..=3, _) => return None,
        (4, 0..=11) => Profile::Ocp45,
        (4, 12..=14) => Profile::Ocp412,
        _ => Profile::Ocp415,
    })
}

/// Whether a binding of a ClusterRole names an account.
fn binds(binding: &Value, account: &ServiceAccount) -> bool {
    text(binding, "/roleRef/kind") == "ClusterRole"
        && text(binding, "/roleRef/apiGroup") == RBAC
        && list(binding, "/subjects").iter().any(|subject| {
            text(subject, "/kind") == "ServiceAccount"
                && text(subject, "/namespace") == account.namespace
                && text(subject, "/name") == account.name
        })
}

/// Whether a role gives full control of a cluster: all verbs on all resources, the right to grant
/// any right, or tokens of any account. Only users with full control can bind it.
fn grants_everything(role: &Value) -> bool {
    list(role, "/rules").iter().any(|rule| {
        let has = |pointer: &str, name: &str| {
            list(rule, pointer).iter().any(|one| one.as_str() == Some(name))
        };
        let is_any_name = list(rule, "/resourceNames").is_empty();
        let is_everything = has("/apiGroups", "*")
            && has("/resources", "*")
            && (has("/verbs", "*") || has("/verbs", "escalate"));
        let is_anybody = has("/apiGroups", "")
            && has("/resources", "serviceaccounts/token")
            && has("/verbs", "create");
        is_any_name && (is_everything || is_anybody)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn version_is_the_newest_complete_one() {
        let history = |entries: &[(&str, &str)]| {
            let entries = entries.iter().map(|(state, v)| json!({"state": state, "version": v}));
            json!({"status": {
                "desired": {"version": "4.17.0"},
                "history": entries.collect::<Vec<_>>(),
            }})
        };
        for (entries, expected) in [
            (
                &[("Partial", "4.16.1"), ("Completed", "4.15.9"), ("Completed", "4.14.1")][..],
                "4.15.9",
            ),
            (&[("Completed", "4.16.1"), ("Completed", "4.15.9")], "4.16.1"),
            (&[("Partial", "4.16.1")], "4.17.0"),
            (&[], "4.17.0"),
        ] {
            assert_eq!(installed_version(&history(entries)).as_deref(), Some(expected));
        }
        assert_eq!(installed_version(&json!({"status": {}})), None);
        assert_eq!(installed_version(&json!({})), None);
    }

    #[test]
    fn edition_is_the_newest_known_one_up_to_the_version() {
        for (version, expected) in [
            ("4.1.0", Some(Profile::Ocp45)),
            ("4.5.41", Some(Profile::Ocp45)),
            ("4.11.9", Some(Profile::Ocp45)),
            ("4.12.0", Some(Profile::Ocp412)),
            ("4.14.0-rc.1", Some(Profile::Ocp412)),
            ("4.15.0", Some(Profile::Ocp415)),
            ("4.21.3", Some(Profile::Ocp415)),
            ("5.0.0", Some(Profile::Ocp415)),
            ("3.11.0", None),
            ("4", None),
            ("latest", None),
        ] {
            assert_eq!(profile_for_version(version), expected, "{version}");
        }
    }

    #[test]
    fn only_roles_with_all_permissions_prove_a_controller() {
        let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        let olm =
            ["watch", "list", "get", "create", "update", "patch", "delete", "escalate", "bind"];
        for (rules, expected) in [
            (vec![rule(&["*"], &["*"], &["*"])], true),
            (vec![rule(&["*"], &["*"], &olm)], true),
            (vec![rule(&[""], &["serviceaccounts/token"], &["create"])], true),
            (vec![rule(&[""], &["pods"], &["get"]), rule(&["*"], &["*"], &["*"])], true),
            (vec![], false),
            (vec![rule(&["*"], &["*"], &["get", "list", "watch"])], false),
            (vec![rule(&["core.rukpak.io"], &["*"], &["*"])], false),
            (vec![rule(&["*"], &["bundledeployments"], &["*"])], false),
            (vec![json!({"nonResourceURLs": ["*"], "verbs": ["*"]})], false),
            (
                vec![
                    json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["a"]}),
                ],
                false,
            ),
            (
                vec![
                    json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"], "resourceNames": ["a"]}),
                ],
                false,
            ),
        ] {
            assert_eq!(grants_everything(&json!({"rules": rules})), expected, "{rules:?}");
        }
    }

    #[test]
    fn binding_must_name_the_account_itself() {
        let Some(account) = ACCOUNTS.iter().find(|account| account.namespace == "olm") else {
            panic!("no such account");
        };
        let binding = |kind: &str, namespace: &str, name: &str, role: &str| {
            json!({
                "roleRef": {"apiGroup": RBAC, "kind": role, "name": account.role},
                "subjects": [{"kind": kind, "namespace": namespace, "name": name}],
            })
        };
        for (kind, namespace, name, role, expected) in [
            ("ServiceAccount", "olm", account.name, "ClusterRole", true),
            ("ServiceAccount", "operator-lifecycle-manager", account.name, "ClusterRole", false),
            ("ServiceAccount", "olm", "default", "ClusterRole", false),
            ("User", "olm", account.name, "ClusterRole", false),
            ("Group", "", "system:serviceaccounts:olm", "ClusterRole", false),
            ("ServiceAccount", "olm", account.name, "Role", false),
        ] {
            assert_eq!(
                binds(&binding(kind, namespace, name, role), account),
                expected,
                "{kind} {name}"
            );
        }
        assert!(!binds(&json!({}), account));
    }

    #[test]
    fn only_needed_platform_objects_are_read() {
        let all = PlatformQuery::ALL.objects();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|(_, _, names)| !names.is_empty() && names.len() <= 5));
        let none = PlatformQuery { olm: false, rukpak: false };
        assert_eq!(none.objects(), [("config.openshift.io", "clusterversions", vec!["version"])]);
    }
}
