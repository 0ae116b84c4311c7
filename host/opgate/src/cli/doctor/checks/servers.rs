//! Number of servers, their nodes, and their protection against disruption.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cli::doctor::catalog::servers::{
    BUDGET_SHUT, FEW, GAP, NO_ACCOUNT, NO_BUDGET, ONE_NODE,
};
use crate::cli::doctor::facts::Facts;
use crate::cli::doctor::facts::hooks::{Hook, is_selected};
use crate::cli::doctor::facts::object::{Kind, Object};
use crate::cli::doctor::facts::workload::{Workload, selected};
use crate::cli::doctor::finding::{At, Findings, word};

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let Some(workload) = Workload::of(facts) else {
        if found.needs(facts, Kind::Deployment, "the Deployment of the servers") {
            let why = "no Deployment has pods that the Service selects";
            found.unchecked("the Deployment of the servers", why);
        }
        return;
    };
    // A single Pod has no expected number of replicas.
    if workload.object.kind != Kind::Deployment
        && found.needs(facts, Kind::Deployment, "the Deployment of the servers")
    {
        found.unchecked("the Deployment of the servers", "the pods belong to something else");
    }
    let fails = facts.ours().iter().any(Hook::fails);
    let replicas = workload.replicas();
    let name = word(&workload.object.name);
    let namespace = word(&workload.object.namespace);
    if let Some(replicas) = replicas
        && fails
        && replicas < 2
    {
        let what = format!("failurePolicy is Fail, and there are {replicas} replicas");
        let repair = format!("kubectl -n {namespace} scale deployment {name} --replicas=2");
        found.add(&FEW, workload.object, "spec.replicas", &what, &repair);
    }
    if found.needs(facts, Kind::Budget, "the PodDisruptionBudget") {
        budget(facts, &workload, fails, found);
    }
    strategy(&workload, replicas, fails, found);
    nodes(facts, replicas, found);
    if found.needs(facts, Kind::ServiceAccount, "the ServiceAccount") {
        account(facts, &workload, found);
    }
}

/// Returns a number, or a part of all: rounded up as Kubernetes does, for pods that must stay.
fn part(value: &Value, of: i64) -> Option<i64> {
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
fn allows(budget: &Object, replicas: i64) -> Option<i64> {
    if let Some(least) = budget.at("/spec/minAvailable").filter(|value| !value.is_null()) {
        return part(least, replicas).map(|least| replicas.saturating_sub(least));
    }
    match budget.at("/spec/maxUnavailable").filter(|value| !value.is_null()) {
        Some(most) => part(most, replicas),
        // Upstream's default.
        None => Some(replicas.saturating_sub(1)),
    }
}

fn budget(facts: &Facts, workload: &Workload<'_>, fails: bool, found: &mut Findings) {
    let selects = |budget: &&Object| {
        // Without a selector a budget of policy/v1 selects nothing, and with an empty one all.
        budget.at("/spec/selector").is_some_and(|one| is_selected(Some(one), &workload.labels))
    };
    let budgets: Vec<_> = facts.own(Kind::Budget).filter(selects).collect();
    let (namespace, name) = (&workload.object.namespace, &workload.object.name);
    let selector: Vec<_> = workload.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let repair = format!(
        "kubectl -n {} create poddisruptionbudget {} --selector={} --max-unavailable=1",
        word(namespace),
        word(name),
        word(&selector.join(","))
    );
    let Some(replicas) = workload.replicas().filter(|replicas| *replicas > 0) else { return };
    if budgets.is_empty() {
        if fails {
            let what = "no PodDisruptionBudget selects the pods of the servers";
            found.add(&NO_BUDGET, workload.object, "", what, &repair);
        }
        return;
    }
    for budget in budgets {
        let Some(allowed) = allows(budget, replicas) else {
            found.unchecked(&format!("{}", At::from(budget)), "its numbers cannot be read");
            continue;
        };
        if allowed <= 0 {
            let what = format!("of {replicas} pods it lets none go");
            let repair = "set maxUnavailable: 1 instead";
            found.add(&BUDGET_SHUT, budget, "spec", &what, repair);
        } else if allowed >= replicas && fails && replicas > 1 {
            let what = format!("of {replicas} pods it lets all go");
            found.add(&NO_BUDGET, budget, "spec", &what, "set maxUnavailable: 1");
        }
    }
}

fn strategy(workload: &Workload<'_>, replicas: Option<i64>, fails: bool, found: &mut Findings) {
    let Some(replicas) = replicas.filter(|replicas| *replicas > 0 && fails) else { return };
    let deployment = workload.object;
    let repair = "set type RollingUpdate with maxUnavailable 0 and maxSurge 1";
    if deployment.text("/spec/strategy/type") == "Recreate" {
        let what = "at an update it ends all pods before it starts new ones";
        found.add(&GAP, deployment, "spec.strategy.type", what, repair);
        return;
    }
    let most = deployment.at("/spec/strategy/rollingUpdate/maxUnavailable");
    if let Some(most) = most.and_then(|most| part(most, replicas))
        && most >= replicas
    {
        let what = format!("at an update {most} of {replicas} pods may be gone");
        let field = "spec.strategy.rollingUpdate.maxUnavailable";
        found.add(&GAP, deployment, field, &what, repair);
    }
}

fn nodes(facts: &Facts, replicas: Option<i64>, found: &mut Findings) {
    let what = "whether the servers are on different nodes";
    if !found.needs(facts, Kind::Pod, what) || !found.needs(facts, Kind::Node, what) {
        return;
    }
    let Some(service) = facts.service() else { return };
    let pods: Vec<_> = selected(facts, service).collect();
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
        found.add(&ONE_NODE, service, "", &what, repair);
    }
}

fn account(facts: &Facts, workload: &Workload<'_>, found: &mut Findings) {
    let (namespace, name) = (&workload.object.namespace, workload.account());
    // Every namespace gets this one from its cluster.
    if name == "default" || facts.get(Kind::ServiceAccount, namespace, name).is_some() {
        return;
    }
    let at = At::named(Kind::ServiceAccount, namespace, name);
    let repair = format!("kubectl -n {} create serviceaccount {}", word(namespace), word(name));
    found.add(&NO_ACCOUNT, at, "", "the pods name it, and it does not exist", &repair);
}
