//! Clients that network policies allow to call the servers.

use serde_json::Value;

use crate::facts::Facts;
use crate::facts::hooks::is_selected;
use crate::facts::object::{Kind, Object, list, text};
use crate::facts::workload::Workload;
use crate::finding::Findings;
use crate::finding_docs::reach::PORT_BLOCKED;
use crate::finding_docs::servers::{NO_CLIENT_CA, NO_NETWORK_POLICY, OPEN_TO_ALL_PODS};

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let Some(workload) = Workload::of(facts) else { return };
    if !found.require_kind(facts, Kind::NetworkPolicy, "who can call the servers") {
        return;
    }
    let selects = |policy: &&Object| {
        is_selected(policy.at("/spec/podSelector"), &workload.labels) && applies_to_ingress(policy)
    };
    let policies: Vec<_> = facts.own_objects(Kind::NetworkPolicy).filter(selects).collect();
    let has_ca = workload.flag("--client-ca", Some("OPGATE_CLIENT_CA")).is_some();
    let (object, field) = (workload.object, workload.field("args"));
    let print = "opgate manifests network-policy --api-server CIDR | kubectl apply -f -";
    match (has_ca, policies.is_empty()) {
        (false, true) => {
            let what = "there is no --client-ca, and no NetworkPolicy selects the pods";
            found.add(&OPEN_TO_ALL_PODS, object, &field, what, print);
        }
        (false, false) => {
            let is_open = |rule: &Value| {
                list(rule, "/from").is_empty() && admits(rule, workload.port(), workload.spec)
            };
            let mut rules = policies.iter().flat_map(|policy| policy.list("/spec/ingress"));
            let what = if rules.any(is_open) {
                "there is no --client-ca, and the NetworkPolicy admits everybody to the webhook port"
            } else {
                "there is no --client-ca"
            };
            let repair = "name the API servers with opgate manifests network-policy --api-server CIDR, or give them a client certificate";
            found.add(&NO_CLIENT_CA, object, &field, what, repair);
        }
        (true, true) => {
            let what = "no NetworkPolicy selects the pods";
            found.add(&NO_NETWORK_POLICY, object, "", what, print);
        }
        (true, false) => {}
    }
    let port = workload.port();
    let admits = |policy: &&Object| {
        policy.list("/spec/ingress").iter().any(|rule| admits(rule, port, workload.spec))
    };
    if let Some(first) = policies.first()
        && !policies.iter().any(admits)
    {
        let what = format!("no rule admits anybody to port {port}");
        found.add(&PORT_BLOCKED, *first, "spec.ingress", &what, print);
    }
}

fn applies_to_ingress(policy: &Object) -> bool {
    let types = policy.list("/spec/policyTypes");
    types.is_empty() || types.iter().any(|one| one == "Ingress")
}

/// Reports whether a rule admits any client to a port.
fn admits(rule: &Value, port: i64, spec: &Value) -> bool {
    let ports = list(rule, "/ports");
    ports.is_empty()
        || ports.iter().any(|one| {
            let is_tcp = matches!(text(one, "/protocol"), "" | "TCP");
            let end = one.get("endPort").and_then(Value::as_i64);
            let is_port = match one.get("port") {
                None | Some(Value::Null) => true,
                Some(Value::String(name)) => list(spec, "/containers").iter().any(|container| {
                    list(container, "/ports").iter().any(|of| {
                        text(of, "/name") == name
                            && of.get("containerPort").and_then(Value::as_i64) == Some(port)
                    })
                }),
                Some(from) => {
                    from.as_i64().is_some_and(|from| from <= port && port <= end.unwrap_or(from))
                }
            };
            is_tcp && is_port
        })
}
