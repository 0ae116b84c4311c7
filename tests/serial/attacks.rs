//! What tenants may do to a real API server in order to blind or mislead opgate. The tests need
//! `KUBEBUILDER_ASSETS`, which names a directory with a kube-apiserver. During each attack the
//! correct requests must succeed, too.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::Server;
use testkit::control_plane::{ControlPlane, eventually};
use testkit::forwarder::Forwarder;
use testkit::objects::{csv, csvs, denial_message, group, groups, object, resource};

use crate::{BINARY, wait_for_idle_machine};

/// Time of one evaluation in an unoptimised build on a busy machine.
const EVALUATION_TIME: &str = "20s";
/// How long a client waits for an answer that does not come.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for which opgate is stopped.
const MAX_DOWNTIME: Duration = Duration::from_secs(7);

const GOOSE_API: &str = "Goose.v1alpha1.birds.com";
const GEESE_CRD: &str = "geese.birds.com";

/// A cluster that opgate guards.
struct GuardedCluster {
    _plane: ControlPlane,
    admin: Client,
    server: Server,
    forwarder: Forwarder,
}

impl GuardedCluster {
    /// With these namespaces and these groups stored before opgate comes; `None` without binaries.
    async fn start(namespaces: &[&str], stored: Vec<DynamicObject>, time: &str) -> Option<Self> {
        let plane = ControlPlane::start().await?;
        plane.install().await;
        plane.grant().await;
        plane.namespaces(namespaces.iter().map(ToString::to_string)).await;
        plane.groups(stored).await;
        let admin = plane.client("admin").await;
        let kubeconfig = plane.kubeconfig("opgate");
        let configuration = ControlPlane::operator_group(time);
        let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let server = Server::start(BINARY, Some(&configuration), &arguments);
        let forwarder = Forwarder::start().await;
        forwarder.set_targets([server.address]);
        let servers = [server];
        plane.enforce(BINARY, &configuration, forwarder.address, &servers).await;
        let [server] = servers;
        Some(Self { _plane: plane, admin, server, forwarder })
    }

    fn api(&self, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.admin.clone(), namespace, resource)
    }

    async fn create(&self, resource: &ApiResource, object: &DynamicObject) -> kube::Result<()> {
        let namespace = object.metadata.namespace.as_deref().unwrap();
        self.api(namespace, resource).create(&PostParams::default(), object).await.map(drop)
    }

    /// Creates another group where a create did not come about: all are admitted.
    async fn replace_lost_group(&self, lost: &str, namespaces: &[String]) {
        let (mut free, mut broken) = (0, Vec::new());
        for own in namespaces {
            // The API server may have gone on although its client gave up.
            if self.api(own, &groups()).get_opt(lost).await.unwrap().is_some() {
                continue;
            }
            free += 1;
            let again = group(own, "again", &target_spec(own), "");
            if let Err(error) = self.create(&groups(), &again).await {
                broken.push(format!("{own}: {error}"));
            }
        }
        assert!(free > 0, "nothing was lost");
        assert!(broken.is_empty(), "{} of {free}:\n{}", broken.len(), broken.join("\n"));
    }

    /// Kills opgate, starts it again and waits until it is ready.
    async fn restart(&mut self) {
        self.server.restart();
        self.forwarder.set_targets([self.server.address]);
        eventually("readiness", || async {
            (self.server.get("/readyz").await.0 == 200).then_some(())
        })
        .await;
    }

    /// Registers another webhook, which has no server: the API server refuses objects with the
    /// label `refused`.
    async fn reject_labelled(&self) {
        let rule = json!({
            "apiGroups": ["operators.coreos.com"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["operatorgroups"],
        });
        let webhook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "another"},
            "webhooks": [{
                "name": "another.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [rule],
                "objectSelector": {"matchLabels": {"refused": "yes"}},
            }],
        });
        let kind = "ValidatingWebhookConfiguration";
        let configurations = Api::<DynamicObject>::all_with(
            self.admin.clone(),
            &resource("admissionregistration.k8s.io", "v1", kind),
        );
        configurations.create(&PostParams::default(), &object(webhook)).await.unwrap();
        // Into a namespace without groups, where opgate has nothing against it.
        let mut labelled = group("elsewhere", "g", &target_spec("elsewhere"), "");
        labelled.metadata.labels = Some([("refused".to_owned(), "yes".to_owned())].into());
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let elsewhere = self.api("elsewhere", &groups());
        eventually("the other webhook", || async {
            elsewhere.create(&dry, &labelled).await.is_err().then_some(())
        })
        .await;
    }
}

fn target_spec(namespace: &str) -> Value {
    json!({"targetNamespaces": [namespace]})
}

fn account(namespace: &str, name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }))
}

fn scoped(name: &str) -> DynamicObject {
    group("a", "g", &json!({"targetNamespaces": ["a"], "serviceAccountName": name}), "")
}

/// A tenant stores an object that no reader with a limit of depth can read. What comes after it is
/// seen all the same, by a server that watches and by one that lists.
#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_object_hides_no_others() {
    let _turn = wait_for_idle_machine().await;
    let Some(mut cluster) =
        GuardedCluster::start(&["a", "tenant"], Vec::new(), EVALUATION_TIME).await
    else {
        return;
    };
    let accounts = resource("", "v1", "ServiceAccount");
    let mut fields = json!({});
    for _ in 0..600 {
        fields = json!({"f:a": fields});
    }
    let deep = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "deep",
            "namespace": "tenant",
            "managedFields": [{
                "manager": "tenant",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2024-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            }],
        },
    });
    let path = "/api/v1/namespaces/tenant/serviceaccounts";
    let post = hyper::Request::post(path)
        .header("content-type", "application/json")
        .body(deep.to_string().into_bytes());
    let stored = cluster.admin.request_text(post.unwrap()).await.unwrap();
    assert!(stored.matches("f:a").count() >= 500, "not stored as it was sent: {stored}");

    for (name, restarted) in [("watched", false), ("listed", true)] {
        let missing = denial_message(cluster.create(&groups(), &scoped(name)).await);
        assert!(missing.contains(&format!("ServiceAccount {name} not found")), "{missing}");
        cluster.create(&accounts, &account("a", name)).await.unwrap();
        if restarted {
            cluster.restart().await;
        }
        let what = format!("the account {name}");
        eventually(&what, || async { cluster.create(&groups(), &scoped(name)).await.ok() }).await;
        cluster.api("a", &groups()).delete("g", &DeleteParams::default()).await.unwrap();
    }
}

/// How a tenant makes opgate allow a change of a group that is never stored.
#[derive(Clone, Copy, Debug)]
enum UnstoredWrite {
    /// A CREATE of the same name: the API server answers 409.
    ConflictingCreate,
    /// An UPDATE that another webhook refuses.
    RejectedUpdate,
}

/// What is allowed and never stored makes no wrong CSV right, and no right one wrong.
#[tokio::test(flavor = "multi_thread")]
async fn unstored_write_does_not_change_decisions() {
    let _turn = wait_for_idle_machine().await;
    let mode = "OwnNamespace InstallModeType not supported";
    let conflict = "intersecting operatorgroups provide the same apis";
    // Target of the stored group (`own` stands for its namespace), target of the group that is
    // never stored, and the denial of a CSV for one other namespace, if any.
    let table = [
        ("OPG-22 is not switched off", "own", "elsewhere", Some(mode)),
        ("OPG-25 is not switched off", "shared", "elsewhere", Some(conflict)),
        ("OPG-22 is not made up", "elsewhere", "own", None),
        ("OPG-25 is not made up", "elsewhere", "shared", None),
    ];
    let cases: Vec<_> = table
        .into_iter()
        .flat_map(|case| {
            [(case, UnstoredWrite::ConflictingCreate), (case, UnstoredWrite::RejectedUpdate)]
        })
        .enumerate()
        .map(|(number, (case, way))| (format!("case-{number}"), case, way))
        .collect();
    let spec = |own: &str, target: &str| target_spec(if target == "own" { own } else { target });
    let mut namespaces = vec!["shared", "rival", "elsewhere"];
    let mut stored = vec![group("rival", "g", &target_spec("shared"), GOOSE_API)];
    for (own, (_, before, ..), _) in &cases {
        namespaces.push(own);
        stored.push(group(own, "g", &spec(own, before), ""));
    }
    let Some(cluster) = GuardedCluster::start(&namespaces, stored, EVALUATION_TIME).await else {
        return;
    };
    cluster.reject_labelled().await;
    let mut broken = Vec::new();
    for (own, (what, _, never, denial), way) in &cases {
        let never = spec(own, never);
        let lost = match way {
            UnstoredWrite::ConflictingCreate => {
                cluster.create(&groups(), &group(own, "g", &never, "")).await
            }
            UnstoredWrite::RejectedUpdate => {
                let change = json!({"metadata": {"labels": {"refused": "yes"}}, "spec": never});
                let change = Patch::Merge(&change);
                let api = cluster.api(own, &groups());
                api.patch("g", &PatchParams::default(), &change).await.map(drop)
            }
        };
        let Err(kube::Error::Api(lost)) = lost else { panic!("{what}: not refused: {lost:?}") };
        let expected = match way {
            UnstoredWrite::ConflictingCreate => "already exists",
            UnstoredWrite::RejectedUpdate => "another.example.com",
        };
        assert!(lost.message.contains(expected), "{what}: {}", lost.message);
        let verdict =
            cluster.create(&csvs(), &csv(own, "v1", &["SingleNamespace"], GEESE_CRD)).await;
        let is_right = match (&verdict, denial) {
            (Ok(()), None) => true,
            (Err(kube::Error::Api(status)), Some(denial)) => {
                status.code == 403 && status.message.contains(denial)
            }
            _ => false,
        };
        if !is_right {
            broken.push(format!("{what}, {way:?}: {verdict:?}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A group that opgate allows and another webhook refuses does not block another group.
#[tokio::test(flavor = "multi_thread")]
async fn group_rejected_by_another_webhook_blocks_no_requests() {
    let _turn = wait_for_idle_machine().await;
    let namespaces = ["a", "b", "shared", "elsewhere"];
    let Some(cluster) = GuardedCluster::start(&namespaces, Vec::new(), EVALUATION_TIME).await
    else {
        return;
    };
    cluster.reject_labelled().await;
    let mut lost = group("a", "lost", &target_spec("shared"), GOOSE_API);
    lost.metadata.labels = Some([("refused".to_owned(), "yes".to_owned())].into());
    let Err(refusal) = cluster.create(&groups(), &lost).await else { panic!("not refused") };
    assert!(refusal.to_string().contains("another.example.com"), "{refusal}");

    let mut broken = Vec::new();
    let same_api = group("b", "g", &target_spec("shared"), GOOSE_API);
    let same_namespace = group("a", "g", &target_spec("a"), "");
    for group in [same_api, same_namespace] {
        if let Err(error) = cluster.create(&groups(), &group).await {
            broken.push(error.to_string());
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// What needs a group that was created a moment before is admitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_csv_right_after_its_group_is_admitted() {
    let _turn = wait_for_idle_machine().await;
    let names: Vec<_> = (0..50).map(|number| format!("own-{number}")).collect();
    let namespaces: Vec<_> = names.iter().map(String::as_str).collect();
    let Some(cluster) = GuardedCluster::start(&namespaces, Vec::new(), EVALUATION_TIME).await
    else {
        return;
    };
    for own in &names {
        cluster.create(&groups(), &group(own, "g", &target_spec(own), "")).await.unwrap();
        let right_after = csv(own, "v1", &["OwnNamespace"], GEESE_CRD);
        cluster.create(&csvs(), &right_after).await.unwrap_or_else(|e| panic!("{own}: {e}"));
    }
}

/// Requests whose clients gave up while opgate stood still leave nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn timed_out_requests_block_no_other_requests() {
    let _turn = wait_for_idle_machine().await;
    // Enough that some are inside of opgate when it is stopped.
    let names: Vec<_> = (0..100).map(|number| format!("own-{number}")).collect();
    let namespaces: Vec<_> = names.iter().map(String::as_str).collect();
    // Less than the clients wait, so that the API server gives up, too.
    let Some(cluster) = GuardedCluster::start(&namespaces, Vec::new(), "5s").await else { return };
    let mut running: FuturesUnordered<_> = names
        .iter()
        .map(|own| {
            let first = group(own, "first", &target_spec(own), "");
            let cluster = &cluster;
            async move {
                let create = async { cluster.create(&groups(), &first).await.is_ok() };
                let created = tokio::time::timeout(MAX_DOWNTIME, create).await.unwrap_or(false);
                (own, created)
            }
        })
        .collect();
    let (_, created) = running.next().await.unwrap();
    assert!(created);
    cluster.server.signal(Signal::STOP);
    let lost = running.filter_map(async |(own, created)| (!created).then(|| own.clone()));
    let lost: Vec<_> = lost.collect().await;
    cluster.server.signal(Signal::CONT);
    cluster.replace_lost_group("first", &lost).await;
}

/// Requests that reach opgate when the API server has given up, over a network that stood still,
/// leave nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn late_requests_block_no_other_requests() {
    let _turn = wait_for_idle_machine().await;
    let names: Vec<_> = (0..20).map(|number| format!("own-{number}")).collect();
    let mut namespaces: Vec<_> = names.iter().map(String::as_str).collect();
    namespaces.push("elsewhere");
    let Some(cluster) = GuardedCluster::start(&namespaces, Vec::new(), EVALUATION_TIME).await
    else {
        return;
    };
    // What is sent over a connection that is open already needs no answer before it.
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let elsewhere = cluster.api("elsewhere", &groups());
    let other = group("elsewhere", "g", &target_spec("elsewhere"), "");
    eventually("open connections", || async {
        join_all((0..100).map(|_| elsewhere.create(&dry, &other))).await;
        let open = cluster.server.metric("opgate_connections ").await;
        (open >= Some(1.0)).then_some(())
    })
    .await;
    let answered = async || cluster.server.metric("opgate_requests_total{code=\"200\"}").await;
    let before = answered().await;

    cluster.forwarder.hold(true);
    join_all(names.iter().map(|own| {
        let late = group(own, "late", &target_spec(own), "");
        let cluster = &cluster;
        async move {
            let create = cluster.api(own, &groups());
            tokio::time::timeout(CLIENT_TIMEOUT, create.create(&PostParams::default(), &late)).await
        }
    }))
    .await;
    cluster.forwarder.hold(false);
    eventually("late requests", || async { (answered().await > before).then_some(()) }).await;

    cluster.replace_lost_group("late", &names).await;
}
