//! Webhooks of others for the same requests, or for the servers themselves.

use super::reach::count_ready_endpoints;
use crate::facts::Facts;
use crate::facts::hooks::Hook;
use crate::facts::object::Kind;
use crate::facts::related_objects::{matched_resources, overlaps, third_party_hooks};
use crate::facts::workload::Workload;
use crate::finding::{Findings, join_names, shell_word};
use crate::finding_docs::other_webhooks::{
    BACKEND_UNAVAILABLE, SERVER_MUTATION, SLOW_WEBHOOK, START_DEADLOCK,
};

/// Maximum timeout of other webhooks, in seconds, before it is reported.
const MAX_TIMEOUT_SECONDS: i64 = 10;

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    found.require_kind(facts, Kind::MutatingWebhookConfiguration, "mutating webhooks of others");
    let asked = matched_resources(facts);
    let workload = Workload::of(facts).filter(|_| facts.installation.url.is_none());
    for hook in third_party_hooks(facts) {
        let same: Vec<_> = hook.rules().filter(|rule| overlaps(rule, &asked)).collect();
        if !same.is_empty() {
            let about = asked
                .iter()
                .filter(|(group, name)| same.iter().any(|rule| rule.covers(group, name)));
            let about = join_names(about.map(|(_, name)| name.as_str()));
            if hook.fails_closed() {
                check_backend(facts, &hook, &about, found);
            }
            if hook.timeout_seconds() > MAX_TIMEOUT_SECONDS {
                let what =
                    format!("{} for {about} may take {} s", hook.name(), hook.timeout_seconds());
                let repair = "lower its timeoutSeconds, or set --reservation-ttl of opgate to it";
                found.add(&SLOW_WEBHOOK, hook.object, &hook.field("timeoutSeconds"), &what, repair);
            }
        }
        if let Some(workload) = &workload {
            check_server_objects(facts, &hook, workload, found);
        }
    }
}

/// Reports a webhook without a running backend.
fn check_backend(facts: &Facts, hook: &Hook<'_>, about: &str, found: &mut Findings) {
    let Some(called) = hook.service() else { return };
    let key = (called.namespace.to_owned(), called.name.to_owned());
    // Manifests do not have what others install.
    if facts.unreachable.contains(&key) || !facts.is_cluster {
        return;
    }
    let why = match facts.get(Kind::Service, called.namespace, called.name) {
        None => "does not exist",
        Some(service) if service.text("/spec/type") == "ExternalName" => return,
        Some(_) if facts.ensure_known(Kind::EndpointSlice).is_err() => {
            found.require_kind(facts, Kind::EndpointSlice, "whether webhooks of others answer");
            return;
        }
        Some(service) if count_ready_endpoints(facts, service) == 0 => "has no ready endpoint",
        Some(_) => return,
    };
    let service = format!("{}/{}", called.namespace, called.name);
    let what = format!("{} refuses {about}: the Service {service} {why}", hook.name());
    let repair = format!(
        "repair it, or kubectl delete {} {} if it is gone for good",
        if hook.is_mutating() {
            "mutatingwebhookconfiguration"
        } else {
            "validatingwebhookconfiguration"
        },
        shell_word(&hook.object.name)
    );
    found.add(&BACKEND_UNAVAILABLE, hook.object, &hook.field("clientConfig"), &what, &repair);
}

/// Webhooks that match the servers themselves.
fn check_server_objects(
    facts: &Facts,
    hook: &Hook<'_>,
    workload: &Workload<'_>,
    found: &mut Findings,
) {
    let namespace = facts.namespace_labels(&facts.installation.namespace);
    let of_pods =
        hook.matches("", "pods", Some(&namespace)) && hook.selects_object(&workload.labels);
    let of_deployment = hook.matches("apps", "deployments", Some(&namespace))
        && hook.selects_object(&workload.object.labels());
    let about = match (of_pods, of_deployment) {
        (true, _) => "pods",
        (false, true) => "deployments",
        (false, false) => return,
    };
    let field = hook.field("namespaceSelector");
    let repair = "exempt the namespace of opgate in it";
    if hook.fails_closed() {
        let what = format!("{} refuses {about} of opgate while it is down", hook.name());
        found.add(&START_DEADLOCK, hook.object, &field, &what, repair);
    } else if hook.is_mutating() {
        let what = format!("{} may change {about} of opgate", hook.name());
        found.add(&SERVER_MUTATION, hook.object, &field, &what, repair);
    }
}
