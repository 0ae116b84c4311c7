//! What `opgate manifests network-policy` prints: the clients that may reach the server, and no
//! others.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::BINARY;

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(["manifests", "network-policy"]).args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--output", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One rule for each port, each with a `from`: a rule without `from` admits every client.
#[test]
fn only_named_sources_are_admitted() {
    let api_servers = ["--api-server", "10.0.0.1/32", "--api-server", "fd00::/64"];
    let webhook = json!({
        "from": [{"ipBlock": {"cidr": "10.0.0.1/32"}}, {"ipBlock": {"cidr": "fd00::/64"}}],
        "ports": [{"port": 9443, "protocol": "TCP"}],
    });
    let policy = |ingress: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": "opgate",
                "namespace": "opgate-system",
                "labels": {"app.kubernetes.io/name": "opgate"},
            },
            "spec": {
                "podSelector": {"matchLabels": {"app.kubernetes.io/name": "opgate"}},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        })
    };
    assert_eq!(printed(&api_servers), policy(json!([webhook])));
    let metrics = ["--metrics-from", "monitoring", "--metrics-from", "audit"];
    let namespace = |name: &str| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    let ops = json!({
        "from": [namespace("monitoring"), namespace("audit")],
        "ports": [{"port": 8081, "protocol": "TCP"}],
    });
    assert_eq!(printed(&[&api_servers[..], &metrics].concat()), policy(json!([webhook, ops])));
}

#[test]
fn server_pods_are_selected_by_arguments() {
    let arguments = "--api-server 0.0.0.0/0 --namespace guard --name g --pod-label a=b --pod-label x/c=d \
         --webhook-port 443 --ops-port 80 --metrics-from m";
    let arguments: Vec<_> = arguments.split_whitespace().collect();
    let policy = printed(&arguments);
    for (pointer, expected) in [
        ("/metadata/name", json!("g")),
        ("/metadata/namespace", json!("guard")),
        ("/spec/podSelector/matchLabels", json!({"a": "b", "x/c": "d"})),
        ("/spec/ingress/0/ports/0/port", json!(443)),
        ("/spec/ingress/1/ports/0/port", json!(80)),
    ] {
        assert_eq!(policy.pointer(pointer), Some(&expected), "{pointer}");
    }
    let yaml = run(&arguments);
    let read: Value = serde_saphyr::from_slice(&yaml.stdout).unwrap();
    assert_eq!(read, policy);
}

#[test]
fn wrong_usage_is_rejected_with_a_hint() {
    let api_server = ["--api-server", "10.0.0.1/32"];
    for (arguments, says) in [
        (vec![], "--api-server <CIDR>"),
        (vec!["--api-server", "10.0.0.1"], "for one address 10.0.0.1/32"),
        ([&api_server[..], &["--metrics-from", "A"]].concat(), "not the name of a namespace"),
        ([&api_server[..], &["--pod-label", "app"]].concat(), "write KEY=VALUE"),
        ([&api_server[..], &["--pod-label", "a=b", "--pod-label", "a=c"]].concat(), "a key twice"),
        ([&api_server[..], &["--webhook-port", "0"]].concat(), "--webhook-port <PORT>"),
    ] {
        let output = run(&arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(says) && output.stdout.is_empty(), "{text}");
    }
}
