//! Servers that keep their certificates in the cluster: two processes and a fake API server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{SERVICE, Server, handshake, wait_until};

use crate::BINARY;

const GROUP: &str = "admissionregistration.k8s.io";
const PLURAL: &str = "validatingwebhookconfigurations";
const NAMESPACE: &str = "opgate-system";

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install_ledger(NAMESPACE);
    cluster.install("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced);
    cluster.install("", "v1", "secrets", "Secret", Scope::Namespaced);
    cluster.install(GROUP, "v1", PLURAL, "ValidatingWebhookConfiguration", Scope::Cluster);
    cluster
}

fn configuration(name: &str, owner: &str, namespace: &str) -> Value {
    let service = json!({"namespace": namespace, "name": "opgate", "path": "/validate"});
    json!({
        "metadata": {
            "name": name,
            "labels": {"opgate.dev/installation": NAMESPACE},
            "annotations": {"opgate.dev/owner": owner},
        },
        "webhooks": [{"name": "v.opgate.dev", "clientConfig": {"service": service}}],
    })
}

fn server(cluster: &FakeCluster, replica: &str) -> Server {
    let kubeconfig = cluster.kubeconfig();
    let arguments = [
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--installation",
        "opgate-system/opgate",
        "--pod-name",
        replica,
        "--certificates",
        "self-managed",
        "--ca-propagation-delay",
        "1s",
    ];
    Server::start(BINARY, None, &arguments)
}

fn decoded(value: &Value) -> Vec<u8> {
    value.as_str().map(|text| STANDARD.decode(text).unwrap()).unwrap_or_default()
}

fn bundle(cluster: &FakeCluster, name: &str) -> Vec<u8> {
    let stored = cluster.stored(GROUP, PLURAL, "", name).unwrap();
    decoded(&stored["webhooks"][0]["clientConfig"]["caBundle"])
}

fn leaf(cluster: &FakeCluster) -> Vec<u8> {
    let secret = cluster.stored("", "secrets", NAMESPACE, "opgate-tls");
    secret.map(|secret| decoded(&secret["data"]["tls.crt"])).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_certificates_and_restore_a_lost_secret() {
    let cluster = cluster();
    let apply = |object| cluster.apply(GROUP, "v1", PLURAL, object);
    apply(configuration("opgate", "opgate-system/opgate", NAMESPACE));
    apply(configuration("other-owner", "other/opgate", NAMESPACE));
    apply(configuration("other-service", "opgate-system/opgate", "other"));
    let mut servers = [server(&cluster, "a"), server(&cluster, "b")];

    let trusted = bundle(&cluster, "opgate");
    for server in &servers {
        handshake(server.address, &trusted, SERVICE).await.unwrap();
    }
    for name in ["other-owner", "other-service"] {
        assert!(bundle(&cluster, name).is_empty(), "{name} is not ours");
    }
    let ends = servers[1].metric("opgate_ca_expiration_timestamp_seconds").await.unwrap();
    assert!(
        ends > servers[1].metric("opgate_certificate_expiration_timestamp_seconds").await.unwrap()
    );
    assert_eq!(servers[0].metric("opgate_leader").await, Some(1.0));
    assert_eq!(servers[1].metric("opgate_leader").await, Some(0.0));
    for replica in ["opgate-replica-a", "opgate-replica-b"] {
        wait_until("what each replica serves", async || {
            let lease = cluster.stored("coordination.k8s.io", "leases", NAMESPACE, replica);
            lease.is_some_and(|lease| {
                let said = &lease["metadata"]["annotations"];
                said["opgate.dev/ca"].is_string() && said["opgate.dev/issuer"].is_string()
            })
        })
        .await;
    }

    // The Secret is lost: the servers create another CA, and answer calls meanwhile.
    let before = leaf(&cluster);
    cluster.delete("", "secrets", NAMESPACE, "opgate-tls");
    let trusts_two = async || {
        let now = bundle(&cluster, "opgate");
        for server in &servers {
            handshake(server.address, &now, SERVICE).await.unwrap();
        }
        let leaf = leaf(&cluster);
        !leaf.is_empty() && leaf != before && now != trusted
    };
    wait_until("another leaf", trusts_two).await;
    let both = bundle(&cluster, "opgate");
    let new = String::from_utf8(both.clone()).unwrap();
    assert_eq!(new.matches("BEGIN CERTIFICATE").count(), 2);
    // Both serve it: of the newest CA alone.
    let newest = new.get(new.rfind("-----BEGIN").unwrap()..).unwrap();
    for server in &servers {
        wait_until("the new leaf is served", async || {
            handshake(server.address, &both, SERVICE).await.unwrap();
            handshake(server.address, newest.as_bytes(), SERVICE).await.is_ok()
        })
        .await;
    }

    // The leader ends in order: the other one leads at once.
    servers[0].signal(rustix::process::Signal::TERM);
    assert!(servers[0].wait().success());
    wait_until("the other one leads", async || {
        servers[1].metric("opgate_leader").await == Some(1.0)
    })
    .await;
    let gone = cluster.stored("coordination.k8s.io", "leases", NAMESPACE, "opgate-replica-a");
    assert!(gone.is_none());
    // No key is in a log.
    for server in &servers {
        assert!(!server.log().iter().any(|line| line.to_string().contains("PRIVATE KEY")));
    }
}
