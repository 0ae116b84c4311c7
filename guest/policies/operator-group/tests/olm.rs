//! OLM at work: it installs an Operator, copies it into other namespaces, and upgrades it. The
//! policy denies none of these requests if OLM is listed, nor, as far as an original allows the
//! decision, if it is not.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

#[allow(dead_code, reason = "shared with other tests")]
mod shorthand;

use std::collections::BTreeMap;

use opgate_operator_group::POLICY;
use opgate_sdk::{Level, UNLISTED_IDENTITY_KEY};
use opgate_sdk_testing::native::verdict;
use serde_json::{Value, json};
use shorthand::{asking, create, csv, group, text};

const OPENSHIFT: &str =
    "system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount";
const UPSTREAM: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";
const NAMESPACES: usize = 20;

/// A cluster in which one user writes.
struct Writer {
    user: &'static str,
    settings: Value,
    /// By resource, namespace and name.
    stored: BTreeMap<(&'static str, String, String), Value>,
    unlisted: usize,
}

impl Writer {
    fn new(user: &'static str, settings: Value) -> Self {
        Self { user, settings, stored: BTreeMap::new(), unlisted: 0 }
    }

    /// Creates or updates an object.
    fn write(&mut self, resource: &'static str, object: &Value) {
        let member = |name: &str| text(&object["metadata"][name]);
        let key = (resource, member("namespace"), member("name"));
        let cluster: Vec<_> = self.stored.values().cloned().collect();
        let mut case = create(object, &cluster);
        case.old = self.stored.get(&key).cloned();
        if case.old.is_some() {
            case.operation = "UPDATE";
        }
        case.request.user = Some(self.user.to_owned());
        case.settings = self.settings.clone();
        let verdict = verdict(&POLICY, &case);
        let denied: Vec<_> = verdict.violations.iter().filter(|v| v.level == Level::Deny).collect();
        assert!(denied.is_empty(), "{} {key:?}: {denied:?}", self.user);
        let unlisted =
            verdict.audit_annotations.iter().filter(|note| note.key == UNLISTED_IDENTITY_KEY);
        self.unlisted += unlisted.count();
        self.stored.insert(key, object.clone());
    }

    fn update(
        &mut self,
        resource: &'static str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let key = (resource, namespace.to_owned(), name.to_owned());
        let mut object = self.stored[&key].clone();
        change(&mut object);
        self.write(resource, &object);
    }
}

const GROUPS: &str = "operatorgroups";
const CSVS: &str = "clusterserviceversions";

fn version(name: &str, replaces: &str, owned: &str) -> Value {
    let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let mut version = asking(csv(&format!("operators/{name}"), "A", owned), &pods);
    version["spec"]["replaces"] = json!(replaces);
    version
}

/// OLM's copy of a version in another namespace.
fn copy(original: &Value, namespace: &str) -> Value {
    let mut copy = original.clone();
    copy["metadata"]["namespace"] = json!(namespace);
    copy["metadata"]["labels"] = json!({"olm.copiedFrom": "operators"});
    copy["metadata"]["annotations"] =
        json!({"olm.operatorGroup": "all", "olm.operatorNamespace": "operators"});
    copy["status"] = json!({"phase": "Succeeded", "reason": "Copied"});
    copy
}

fn installs(writer: &mut Writer) {
    writer.write(GROUPS, &group("operators/all:[*]{}"));
    for (name, replaces, owned) in [
        ("etcd.v1", "", "Etcd.v1.etcd.io"),
        ("etcd.v2", "etcd.v1", "Etcd.v1.etcd.io,Backup.v1.etcd.io"),
    ] {
        writer.write(CSVS, &version(name, replaces, owned));
        writer.update(CSVS, "operators", name, |csv| {
            csv["metadata"]["annotations"] = json!({"olm.operatorGroup": "all",
                "olm.operatorNamespace": "operators", "olm.targetNamespaces": ""});
        });
        writer.update(GROUPS, "operators", "all", |group| {
            group["metadata"]["annotations"] = json!({"olm.providedAPIs": owned});
        });
        let original = writer.stored[&(CSVS, "operators".to_owned(), name.to_owned())].clone();
        for number in 0..NAMESPACES {
            let namespace = format!("team-{number}");
            writer.write(CSVS, &copy(&original, &namespace));
            writer.update(CSVS, &namespace, name, |csv| {
                csv["metadata"]["labels"]["operators.coreos.com/etcd"] = json!("");
            });
        }
    }
    // The previous version is deleted, with its copies.
    writer.update(CSVS, "operators", "etcd.v1", |csv| csv["status"]["phase"] = json!("Replacing"));
    for namespace in ["operators", "team-0"] {
        writer.update(CSVS, namespace, "etcd.v1", |csv| {
            csv["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            csv["metadata"]["finalizers"] = json!([]);
        });
    }
}

#[test]
fn olm_installs_copies_and_upgrades() {
    for (user, settings) in [
        (OPENSHIFT, json!({})),
        (OPENSHIFT, json!({"profile": "ocp-4.12"})),
        (OPENSHIFT, json!({"ratcheting": false})),
        (UPSTREAM, json!({"profile": "upstream"})),
        ("me", json!({"identities": {"olm": ["me"]}})),
    ] {
        let mut writer = Writer::new(user, settings);
        installs(&mut writer);
        assert_eq!(writer.unlisted, 0, "{user}");
    }
}

/// The originals are sufficient. The log contains two annotations of the group, and each copy.
#[test]
fn an_olm_that_is_not_listed_installs_as_well_and_is_named() {
    let mut writer = Writer::new(UPSTREAM, json!({}));
    installs(&mut writer);
    assert_eq!(writer.unlisted, 2 + 2 * NAMESPACES);
}
