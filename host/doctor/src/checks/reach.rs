//! From the Service to a server that is ready.

use serde_json::Value;

use crate::facts::Facts;
use crate::facts::object::{Kind, Object, list, string_map, text};
use crate::facts::related_objects::is_slice_of;
use crate::facts::workload::{Workload, contains_labels, selected_pods};
use crate::finding::{Findings, ObjectReference, shell_word};
use crate::finding_docs::reach::{NO_ENDPOINTS, NO_PODS, NO_SERVICE, NOT_ALL_READY, WRONG_PORT};

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let installation = &facts.installation;
    if !found.require_kind(facts, Kind::Service, "the Service and its endpoints") {
        return;
    }
    let Some(service) = facts.service() else {
        let at =
            ObjectReference::named(Kind::Service, &installation.namespace, &installation.service);
        let what = match facts.own_hooks().len() {
            1 => "it does not exist, and a webhook calls it".to_owned(),
            count => format!("it does not exist, and {count} webhooks call it"),
        };
        let repair = "create the Service, or delete the registration";
        found.add(&NO_SERVICE, at, "", &what, repair);
        return;
    };
    let pods: Vec<_> = selected_pods(facts, service).collect();
    check_selector(facts, service, &pods, found);
    check_ready(facts, service, &pods, found);
    check_ports(facts, service, found);
}

/// Reports whether a pod serves.
pub(super) fn is_ready(pod: &Object) -> bool {
    let mut conditions = pod.list("/status/conditions").iter();
    conditions.any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True")
}

fn check_selector(facts: &Facts, service: &Object, pods: &[&Object], found: &mut Findings) {
    let labels = string_map(service.at("/spec/selector"));
    let templates = facts.own_objects(Kind::Deployment).filter(|deployment| {
        contains_labels(&string_map(deployment.at("/spec/template/metadata/labels")), &labels)
    });
    let is_external = service.text("/spec/type") == "ExternalName";
    if is_external || !pods.is_empty() || !labels.is_empty() && templates.count() > 0 {
        return;
    }
    // Endpoints that another controller manages.
    let by_hand = labels.is_empty()
        && (facts.ensure_known(Kind::EndpointSlice).is_err()
            || slices(facts, service).next().is_some());
    if by_hand || labels.is_empty() && !facts.is_cluster {
        return;
    }
    if facts.ensure_known(Kind::Pod).is_err() && facts.ensure_known(Kind::Deployment).is_err() {
        found.require_kind(facts, Kind::Pod, "the selector of the Service");
        return;
    }
    let shown: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let what = match shown.as_slice() {
        [] => "there is no selector, and nobody has given it endpoints".to_owned(),
        shown => format!("no pod and no Deployment has the labels {}", shown.join(",")),
    };
    let namespace = shell_word(&service.namespace);
    let repair = format!("compare with kubectl -n {namespace} get pods --show-labels");
    found.add(&NO_PODS, service, "spec.selector", &what, &repair);
}

fn slices<'f>(facts: &'f Facts, service: &'f Object) -> impl Iterator<Item = &'f Object> {
    let all = facts.all(Kind::EndpointSlice);
    all.filter(|slice| slice.namespace == service.namespace && is_slice_of(slice, &service.name))
}

/// Returns the number of endpoints that are ready.
pub(super) fn count_ready_endpoints(facts: &Facts, service: &Object) -> usize {
    let all = slices(facts, service).flat_map(|slice| slice.list("/endpoints"));
    // Without a word an endpoint is ready.
    let is_ready =
        |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    all.filter(is_ready).map(|endpoint| list(endpoint, "/addresses").len()).sum()
}

fn check_ready(facts: &Facts, service: &Object, pods: &[&Object], found: &mut Findings) {
    if service.text("/spec/type") == "ExternalName" {
        found.add_unchecked("endpoints", "the Service is of the type ExternalName");
        return;
    }
    let namespace = shell_word(&service.namespace);
    let repair = format!(
        "kubectl -n {namespace} get pods, then describe and logs of those that are not ready"
    );
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let pods_known = facts.ensure_known(Kind::Pod).is_ok();
    let are_known = found.require_kind(facts, Kind::EndpointSlice, "endpoints of the Service");
    // Without them the pods tell.
    let none = if are_known {
        count_ready_endpoints(facts, service) == 0
    } else {
        pods_known && ready == 0
    };
    if none {
        let what = match (pods_known, pods.len()) {
            (true, 0) => "no endpoint is ready: there is no pod".to_owned(),
            (true, count) => format!("no endpoint is ready; {ready} of {count} pods are"),
            (false, _) => "no endpoint is ready".to_owned(),
        };
        found.add(&NO_ENDPOINTS, service, "", &what, &repair);
        return;
    }
    let workload = Workload::of(facts);
    let wanted = workload.as_ref().and_then(|workload| Some((workload, workload.replicas()?)));
    if let Some((workload, wanted)) = wanted
        && found.require_kind(facts, Kind::Pod, "how many servers are ready")
        && i64::try_from(ready).is_ok_and(|ready| ready < wanted)
    {
        let what = format!("{ready} of {wanted} pods are ready");
        found.add(&NOT_ALL_READY, workload.object, "spec.replicas", &what, &repair);
    }
}

fn check_ports(facts: &Facts, service: &Object, found: &mut Findings) {
    let workload = Workload::of(facts);
    let mut called: Vec<_> =
        facts.own_hooks().iter().filter_map(|h| Some(h.service()?.port)).collect();
    called.sort_unstable();
    called.dedup();
    if called.is_empty() {
        called.push(443);
    }
    if service.text("/spec/type") == "ExternalName" {
        return;
    }
    for port in called {
        let is_it = |one: &&Value| one.get("port").and_then(Value::as_i64) == Some(port);
        let Some(entry) = service.list("/spec/ports").iter().find(is_it) else {
            let what = format!("webhooks call port {port}, which it does not have");
            let repair =
                format!("give the Service a port {port} with the targetPort of the servers");
            found.add(&WRONG_PORT, service, "spec.ports", &what, &repair);
            continue;
        };
        let Some(workload) = &workload else {
            found.add_unchecked(
                "the target port of the Service",
                "no Deployment of the servers is known",
            );
            continue;
        };
        let target = match entry.get("targetPort") {
            Some(Value::String(name)) => {
                named_port(workload.spec, name).ok_or_else(|| name.clone())
            }
            Some(number) => Ok(number.as_i64().unwrap_or_default()),
            None => Ok(port),
        };
        let listens = workload.port();
        let what = match target {
            Ok(target) if target == listens => continue,
            Ok(target) => format!("it leads to port {target}, and the servers listen on {listens}"),
            Err(name) => format!("no container has a port named {name:?}"),
        };
        let repair = format!("set targetPort to {listens}, the port of --listen");
        found.add(&WRONG_PORT, service, "spec.ports", &what, &repair);
    }
}

/// Returns the port with a name, of any container.
fn named_port(spec: &Value, name: &str) -> Option<i64> {
    let ports = list(spec, "/containers").iter().flat_map(|container| list(container, "/ports"));
    let mut ports = ports.filter(|port| text(port, "/name") == name);
    ports.next()?.get("containerPort")?.as_i64()
}
