//! `identities` of the configuration reach each policy that knows them, and the settings of a policy
//! go first.

use std::path::Path;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Snapshot, Source};
use opgate::policy::{Configuration, Decision, PolicySet};
use opgate::review::{self, Review};
use opgate_document::Document;
use serde_json::{Value, json};

const OPENSHIFT_OLM_USER: &str =
    "system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount";
const UPSTREAM_OLM_USER: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";
const RUKPAK_USER: &str = "system:serviceaccount:rukpak-system:core-admin";
const OPENSHIFT_RUKPAK_USER: &str = "system:serviceaccount:openshift-rukpak:core-admin";

fn load(text: &str) -> PolicySet {
    let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    let configuration =
        Configuration::parse(Path::new("opgate.yaml"), &format!("{head}{text}"), BUILTINS).unwrap();
    PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Snapshot)).unwrap()
}

fn group(namespace: &str, apis: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": "g", "namespace": namespace,
            "annotations": {"olm.providedAPIs": apis}},
        "spec": {"targetNamespaces": ["shared"]},
    })
}

async fn decide(set: &PolicySet, user: &str, request: Value) -> Decision {
    let mut snapshot = Snapshot::default();
    let rival = group("other", "Goose.v1.birds.com");
    snapshot.add(Document::parse(&rival.to_string()).unwrap()).unwrap();
    snapshot.replace_state(set.cluster());
    let mut request = request;
    request["uid"] = json!("u");
    request["name"] = json!("g");
    request["dryRun"] = json!(true);
    request["userInfo"] = json!({"username": user});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request,
    });
    let text = review::text(review.to_string().into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    set.decide(&review, None, deadline, &()).await.unwrap()
}

/// What OLM writes, as this user.
async fn write_apis(set: &PolicySet, user: &str) -> Decision {
    let of = |name: &str| json!({"group": "operators.coreos.com", "version": "v1", "resource": name, "kind": name});
    let request = json!({
        "kind": of("OperatorGroup"), "resource": of("operatorgroups"), "operation": "UPDATE",
        "namespace": "ns", "object": group("ns", "Goose.v1.birds.com"),
        "oldObject": group("ns", ""),
    });
    decide(set, user, request).await
}

/// A copy whose properties OLM could not read.
async fn write_copy(set: &PolicySet, user: &str) -> Decision {
    let of = |name: &str| json!({"group": "operators.coreos.com", "version": "v1alpha1", "resource": name, "kind": name});
    let metadata = json!({"name": "c", "namespace": "ns", "labels": {"olm.copiedFrom": "x"},
        "annotations": {"olm.properties": "{"}});
    let request = json!({
        "kind": of("ClusterServiceVersion"), "resource": of("clusterserviceversions"),
        "operation": "CREATE", "namespace": "ns", "object": {"metadata": metadata, "spec": {}},
    });
    decide(set, user, request).await
}

async fn delete_deployment(set: &PolicySet, user: &str) -> Decision {
    let of = |name: &str| json!({"group": "core.rukpak.io", "version": "v1alpha1", "resource": name, "kind": name});
    let request = json!({
        "kind": of("BundleDeployment"), "resource": of("bundledeployments"),
        "operation": "DELETE", "oldObject": {"metadata": {"name": "g"}, "spec": {}},
    });
    decide(set, user, request).await
}

#[tokio::test]
async fn configuration_sets_the_identities_of_controllers() {
    let own = "settings: {identities: {olm: [own]}}";
    let groups = "  - name: operator-group\n";
    let constraints = "  - name: constraint-limits\n";
    let bundles = "  - name: bundle-immutability\n    settings: {rukpak: {allowedUsers: [root]}}\n";
    let all = format!("policies:\n{groups}{constraints}{bundles}");
    let first = format!("policies:\n{groups}    {own}\n{constraints}    {own}\n{bundles}");
    for (head, policies, olm, others, rukpak) in [
        (
            "",
            &all,
            OPENSHIFT_OLM_USER,
            [UPSTREAM_OLM_USER, "me", "own"],
            Some(OPENSHIFT_RUKPAK_USER),
        ),
        (
            "profile: auto\n",
            &all,
            OPENSHIFT_OLM_USER,
            [UPSTREAM_OLM_USER, "me", "own"],
            Some(OPENSHIFT_RUKPAK_USER),
        ),
        (
            "profile: upstream\n",
            &all,
            UPSTREAM_OLM_USER,
            [OPENSHIFT_OLM_USER, "me", "own"],
            Some(RUKPAK_USER),
        ),
        (
            "identities: {olm: [me]}\n",
            &all,
            "me",
            [OPENSHIFT_OLM_USER, UPSTREAM_OLM_USER, "own"],
            Some(OPENSHIFT_RUKPAK_USER),
        ),
        (
            "identities: {olm: [me]}\n",
            &first,
            "own",
            [OPENSHIFT_OLM_USER, UPSTREAM_OLM_USER, "me"],
            Some(OPENSHIFT_RUKPAK_USER),
        ),
        (
            "identities: {rukpak: [me]}\n",
            &all,
            OPENSHIFT_OLM_USER,
            [UPSTREAM_OLM_USER, "me", "own"],
            Some("me"),
        ),
        (
            "identities: {rukpak: []}\n",
            &all,
            OPENSHIFT_OLM_USER,
            [UPSTREAM_OLM_USER, "me", "own"],
            None,
        ),
    ] {
        let set = load(&format!("{head}{policies}"));
        for user in others.into_iter().chain([olm]) {
            let is_olm = user == olm;
            for (decision, policy) in [
                (write_apis(&set, user).await, "operator-group"),
                (write_copy(&set, user).await, "constraint-limits"),
            ] {
                assert_eq!(decision.denial.is_none(), is_olm, "{head}{policy}: {user}");
                let note = format!("{policy}.unlisted-identity");
                let noted = decision.audit_annotations.get(&note);
                assert_eq!(noted.is_none(), is_olm, "{head}{policy}: {user}");
                assert!(noted.is_none_or(|note| note.starts_with(user)), "{noted:?}");
            }
        }
        for user in [RUKPAK_USER, OPENSHIFT_RUKPAK_USER, "me", UPSTREAM_OLM_USER] {
            let allowed = delete_deployment(&set, user).await.denial.is_none();
            assert_eq!(allowed, Some(user) == rukpak, "{head}: {user}");
        }
    }
}
