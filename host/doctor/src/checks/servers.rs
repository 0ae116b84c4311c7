//! Number of servers, their nodes, and their protection against disruption.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::facts::Facts;
use crate::facts::hooks::{Hook, is_selected};
use crate::facts::object::{Kind, Object};
use crate::facts::workload::{Workload, selected_pods};
use crate::finding::{Findings, ObjectReference, shell_word};
use crate::finding_docs::servers::{
    EVICTIONS_BLOCKED, NO_DISRUPTION_BUDGET, NO_SERVICE_ACCOUNT, SINGLE_NODE, TOO_FEW_REPLICAS,
    UPDATE_INTERRUPTS,
};

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let Some(workload) = Workload::of(facts) else {
        if found.require_kind(facts, Kind::Deployment, "the Deployment of the servers") {
            let why = "no Deployment has pods that the Service selects";
            found.add_unchecked("the Deployment of the servers", why);
        }
        return;
    };
    // A single Pod has no expected number of replicas.
    if workload.object.kind != Kind::Deployment
        && found.require_kind(facts, Kind::Deployment, "the Deployment of the servers")
    {
        found.add_unchecked("the Deployment of the servers", "the pods belong to something else");
    }
    let fails = facts.own_hooks().iter().any(Hook::fails_closed);
    let replicas = workload.replicas();
    let name = shell_word(&workload.object.name);
    let namespace = shell_word(&workload.object.namespace);
    if let Some(replicas) = replicas
        && fails
        && replicas < 2
    {
        let what = format!("failurePolicy is Fail, and there are {replicas} replicas");
        let repair = format!("kubectl -n {namespace} scale deployment {name} --replicas=2");
        found.add(&TOO_FEW_REPLICAS, workload.object, "spec.replicas", &what, &repair);
    }
    if found.require_kind(facts, Kind::PodDisruptionBudget, "the PodDisruptionBudget") {
        check_budget(facts, &workload, fails, found);
    }
    check_strategy(&workload, replicas, fails, found);
    check_nodes(facts, replicas, found);
    if found.require_kind(facts, Kind::ServiceAccount, "the ServiceAccount") {
        check_account(facts, &workload, found);
    }
}

/// Returns a number, or a part of all: rounded up as Kubernetes does, for pods that must stay.
fn resolve_int_or_percent(value: &Value, of: i64) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some(of.saturating_mul(percent).saturating_add(99).checked_div(100).unwrap_or_default())
        }
        _ => None,
    }
}

/// Returns the number of these pods that a budget allows to evict.
fn allowed_evictions(budget: &Object, replicas: i64) -> Option<i64> {
    if let Some(least) = budget.at("/spec/minAvailable").filter(|value| !value.is_null()) {
        return resolve_int_or_percent(least, replicas).map(|least| replicas.saturating_sub(least));
    }
    match budget.at("/spec/maxUnavailable").filter(|value| !value.is_null()) {
        Some(most) => resolve_int_or_percent(most, replicas),
        // Upstream's default.
        None => Some(replicas.saturating_sub(1)),
    }
}

fn check_budget(facts: &Facts, workload: &Workload<'_>, fails: bool, found: &mut Findings) {
    let selects = |budget: &&Object| {
        // Without a selector a budget of policy/v1 selects nothing, and with an empty one all.
        budget.at("/spec/selector").is_some_and(|one| is_selected(Some(one), &workload.labels))
    };
    let budgets: Vec<_> = facts.own_objects(Kind::PodDisruptionBudget).filter(selects).collect();
    let (namespace, name) = (&workload.object.namespace, &workload.object.name);
    let selector: Vec<_> = workload.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let repair = format!(
        "kubectl -n {} create poddisruptionbudget {} --selector={} --max-unavailable=1",
        shell_word(namespace),
        shell_word(name),
        shell_word(&selector.join(","))
    );
    let Some(replicas) = workload.replicas().filter(|replicas| *replicas > 0) else { return };
    if budgets.is_empty() {
        if fails {
            let what = "no PodDisruptionBudget selects the pods of the servers";
            found.add(&NO_DISRUPTION_BUDGET, workload.object, "", what, &repair);
        }
        return;
    }
    for budget in budgets {
        let Some(allowed) = allowed_evictions(budget, replicas) else {
            found.add_unchecked(
                &format!("{}", ObjectReference::from(budget)),
                "its numbers cannot be read",
            );
            continue;
        };
        if allowed <= 0 {
            let what = format!("of {replicas} pods it lets none go");
            let repair = "set maxUnavailable: 1 instead";
            found.add(&EVICTIONS_BLOCKED, budget, "spec", &what, repair);
        } else if allowed >= replicas && fails && replicas > 1 {
            let what = format!("of {replicas} pods it lets all go");
            found.add(&NO_DISRUPTION_BUDGET, budget, "spec", &what, "set maxUnavailable: 1");
        }
    }
}

fn check_strategy(
    workload: &Workload<'_>,
    replicas: Option<i64>,
    fails: bool,
    found: &mut Findings,
) {
    let Some(replicas) = replicas.filter(|replicas| *replicas > 0 && fails) else { return };
    let deployment = workload.object;
    let repair = "set type RollingUpdate with maxUnavailable 0 and maxSurge 1";
    if deployment.text("/spec/strategy/type") == "Recreate" {
        let what = "at an update it ends all pods before it starts new ones";
        found.add(&UPDATE_INTERRUPTS, deployment, "spec.strategy.type", what, repair);
        return;
    }
    let most = deployment.at("/spec/strategy/rollingUpdate/maxUnavailable");
    if let Some(most) = most.and_then(|most| resolve_int_or_percent(most, replicas))
        && most >= replicas
    {
        let what = format!("at an update {most} of {replicas} pods may be gone");
        let field = "spec.strategy.rollingUpdate.maxUnavailable";
        found.add(&UPDATE_INTERRUPTS, deployment, field, &what, repair);
    }
}

fn check_nodes(facts: &Facts, replicas: Option<i64>, found: &mut Findings) {
    let what = "whether the servers are on different nodes";
    if !found.require_kind(facts, Kind::Pod, what) || !found.require_kind(facts, Kind::Node, what) {
        return;
    }
    let Some(service) = facts.service() else { return };
    let pods: Vec<_> = selected_pods(facts, service).collect();
    let on: BTreeSet<_> = pods.iter().map(|pod| pod.text("/spec/nodeName")).collect();
    let usable = |node: &&Object| node.at("/spec/unschedulable") != Some(&Value::Bool(true));
    let others = facts.all(Kind::Node).filter(usable).count() > 1;
    if let (Some(first), 1, true) = (on.first(), on.len(), others)
        && pods.len() > 1
        && replicas != Some(1)
        && !first.is_empty()
    {
        let what = format!("{} pods are on the node {first}", pods.len());
        let repair = "spread them with topologySpreadConstraints, then kubectl rollout restart";
        found.add(&SINGLE_NODE, service, "", &what, repair);
    }
}

fn check_account(facts: &Facts, workload: &Workload<'_>, found: &mut Findings) {
    let (namespace, name) = (&workload.object.namespace, workload.service_account());
    // Every namespace gets this one from its cluster.
    if name == "default" || facts.get(Kind::ServiceAccount, namespace, name).is_some() {
        return;
    }
    let at = ObjectReference::named(Kind::ServiceAccount, namespace, name);
    let repair =
        format!("kubectl -n {} create serviceaccount {}", shell_word(namespace), shell_word(name));
    found.add(&NO_SERVICE_ACCOUNT, at, "", "the pods name it, and it does not exist", &repair);
}
