//! Policy `disruption-budgets`: PodDisruptionBudgets must allow evictions.
//!
//! ```text
//! PodDisruptionBudget ─▶ Budget ─────────────────────────────▶ PDB-1
//!                          └─▶ workloads that it selects ────▶ PDB-2, PDB-4
//! Deployment, StatefulSet, scale ─▶ Workload
//!                          └─▶ budgets that select its pods ─▶ PDB-3
//! ```

mod budget;
mod rules;
mod workload;

use std::collections::BTreeMap;

use budget::Budget;
use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{ClusterRead, Document, Report, Review, Target, go, policy};
use rules::{PDB_1, PDB_2, PDB_3, PDB_4};
use workload::Workload;

static BUDGET: Target = Target {
    groups: &["policy"],
    versions: &["v1"],
    resources: &["poddisruptionbudgets"],
    kind: "PodDisruptionBudget",
    ..Target::EMPTY
};

/// `kubectl scale` and autoscalers write the sub-resource, which has the replicas only.
static DEPLOYMENT: Target = Target {
    groups: &["apps"],
    versions: &["v1"],
    resources: &["deployments", "deployments/scale"],
    kind: "Deployment",
    ..Target::EMPTY
};

static STATEFUL_SET: Target = Target {
    groups: &["apps"],
    versions: &["v1"],
    resources: &["statefulsets", "statefulsets/scale"],
    kind: "StatefulSet",
    ..Target::EMPTY
};

static BUDGETS: ClusterRead = ClusterRead {
    group: "policy",
    version: "v1",
    resource: "poddisruptionbudgets",
    fields: &["/spec/selector", "/spec/minAvailable", "/spec/maxUnavailable"],
    ..ClusterRead::EMPTY
};

static DEPLOYMENTS: ClusterRead = ClusterRead {
    group: "apps",
    version: "v1",
    resource: "deployments",
    fields: &["/spec/replicas", "/spec/template/metadata/labels"],
    ..ClusterRead::EMPTY
};

static STATEFUL_SETS: ClusterRead = ClusterRead { resource: "statefulsets", ..DEPLOYMENTS };

policy! {
    name: "disruption-budgets",
    title: "PodDisruptionBudgets allow evictions",
    rules: [rules::RULES],
    routes: [BUDGET => check_budget, DEPLOYMENT => check_deployment, STATEFUL_SET => check_stateful_set],
}

fn check_budget(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    if !review.touches_json(object, "/spec") {
        return;
    }
    let budget = Budget::of(object);
    if budget.always_blocks() {
        let (field, message) = budget.remediation();
        report.add(&PDB_1, field, message);
    }
    let selected = find_workloads(review.namespace(), |it| budget.selects(it));
    let Some(selected) = report.or_skip(&[&PDB_2, &PDB_4], "workloads", selected) else { return };
    if selected.is_empty() {
        return;
    }
    let pods = selected.iter().fold(0_i64, |sum, it| sum.saturating_add(it.replicas));
    if budget.blocks(pods) && !budget.always_blocks() {
        let needed = budget.min_available(pods);
        let message = format!(
            "{needed} of the {pods} pods of {} must stay, so that none can go: lower it, or add replicas first",
            list_names(&selected)
        );
        report.add(&PDB_2, budget.field(), message);
    }
    let own = review.name(object);
    let others = find_budgets(review.namespace(), |name, other| {
        name != own && selected.iter().any(|it| other.selects(it))
    });
    if let Some(others) = report.or_skip(&[&PDB_4], "PodDisruptionBudgets", others)
        && let Some((other, _)) = others.into_iter().next()
    {
        let message = format!(
            "PodDisruptionBudget {} selects pods of the same workload, and pods with two budgets cannot be evicted: \
             change one of the selectors",
            go::quote(&other)
        );
        report.add(&PDB_4, "spec.selector", message);
    }
}

fn check_deployment(review: &Review<'_>, report: &mut Report<'_>) {
    check_workload(review, report, "Deployment", &DEPLOYMENTS);
}

fn check_stateful_set(review: &Review<'_>, report: &mut Report<'_>) {
    check_workload(review, report, "StatefulSet", &STATEFUL_SETS);
}

fn check_workload(
    review: &Review<'_>,
    report: &mut Report<'_>,
    kind: &'static str,
    stored: &ClusterRead,
) {
    let Some(object) = review.subject() else { return };
    let found = ScaledWorkload::of(review, object, kind, stored).and_then(|scaled| match scaled {
        Some(scaled) => scaled.blocking_budgets(review),
        None => Ok(Vec::new()),
    });
    let needed = "PodDisruptionBudgets and workloads";
    for (name, budget, pods) in report.or_skip(&[&PDB_3], needed, found).into_iter().flatten() {
        let name = go::quote(&name);
        let message = if budget.always_blocks() {
            format!("PodDisruptionBudget {name} never allows an eviction: change it first")
        } else {
            let needed = budget.min_available(pods);
            format!(
                "PodDisruptionBudget {name} needs {needed} of the {pods} pods that it selects, so that none can go: \
                 keep more replicas, or change it first"
            )
        };
        report.add(&PDB_3, "spec.replicas", message);
    }
}

/// A workload as it was and as it will be.
struct ScaledWorkload {
    old: Option<Workload>,
    new: Workload,
}

impl ScaledWorkload {
    /// Returns none if the request does not affect budgets.
    fn of(
        review: &Review<'_>,
        object: &Document,
        kind: &'static str,
        stored: &ClusterRead,
    ) -> Result<Option<Self>, ReadError> {
        let name = review.name(object);
        if review.request.sub_resource() == "scale" {
            // The labels of the pods are those of the workload that is stored.
            let Some(stored) = stored.get(review.namespace(), &name)? else { return Ok(None) };
            let replicas = |scale: &Document| scale.integer("/spec/replicas").unwrap_or(0);
            let of = |scale: &Document| Workload {
                replicas: replicas(scale),
                ..Workload::of(kind, &stored, name.clone())
            };
            return Ok(Some(Self { old: review.ratchet_base().map(of), new: of(object) }));
        }
        let is_same = !review.touches_json(object, "/spec/replicas")
            && !review.touches_json(object, "/spec/template/metadata/labels");
        let of = |object: &Document| Workload::of(kind, object, name.clone());
        Ok((!is_same).then(|| Self { old: review.ratchet_base().map(of), new: of(object) }))
    }

    /// Returns the budgets that allow no eviction of its pods, but did allow one before, each with the number
    /// of pods.
    fn blocking_budgets(
        &self,
        review: &Review<'_>,
    ) -> Result<Vec<(String, Budget, i64)>, ReadError> {
        let mut found = Vec::new();
        if self.new.replicas <= 0 {
            return Ok(found);
        }
        let selecting = find_budgets(review.namespace(), |_, budget| budget.selects(&self.new))?;
        for (name, budget) in selecting {
            let others = find_workloads(review.namespace(), |it| {
                !it.is_same_as(&self.new) && budget.selects(it)
            })?;
            let rest = others.iter().fold(0_i64, |sum, it| sum.saturating_add(it.replicas));
            let pods = rest.saturating_add(self.new.replicas);
            let was_blocked = self.old.as_ref().is_some_and(|old| {
                budget.selects(old)
                    && old.replicas > 0
                    && budget.blocks(rest.saturating_add(old.replicas))
            });
            // A workload that was blocked already may stay blocked, but fewer replicas make it worse.
            let is_worse = self.old.as_ref().is_some_and(|old| self.new.replicas < old.replicas);
            if budget.blocks(pods) && (!was_blocked || is_worse) {
                found.push((name, budget, pods));
            }
        }
        Ok(found)
    }
}

/// Returns the budgets of a namespace for which a condition holds, each once: during a pending request, the
/// cluster state may contain both the stored and the future version.
fn find_budgets(
    namespace: &str,
    holds: impl Fn(&str, &Budget) -> bool,
) -> Result<BTreeMap<String, Budget>, ReadError> {
    let mut found = BTreeMap::new();
    BUDGETS.each(Query { namespace: Some(namespace), ..Query::default() }, |object| {
        let (name, budget) = (object.text_or_empty("/metadata/name"), Budget::of(&object));
        if holds(&name, &budget) {
            found.insert(name, budget);
        }
        true
    })?;
    Ok(found)
}

/// Returns the workloads of a namespace for which a condition holds, each once, with the fewer replicas.
fn find_workloads(
    namespace: &str,
    holds: impl Fn(&Workload) -> bool,
) -> Result<Vec<Workload>, ReadError> {
    let mut found: Vec<Workload> = Vec::new();
    for (kind, read) in [("Deployment", &DEPLOYMENTS), ("StatefulSet", &STATEFUL_SETS)] {
        read.each(Query { namespace: Some(namespace), ..Query::default() }, |object| {
            let workload = Workload::of(kind, &object, object.text_or_empty("/metadata/name"));
            match found.last_mut().filter(|last| last.is_same_as(&workload)) {
                Some(last) if holds(&workload) => {
                    last.replicas = last.replicas.min(workload.replicas);
                }
                Some(_) => {}
                None if workload.replicas > 0 && holds(&workload) => found.push(workload),
                None => {}
            }
            true
        })?;
    }
    Ok(found)
}

/// Returns the first workloads, for a message.
fn list_names(workloads: &[Workload]) -> String {
    const MAX_SHOWN_WORKLOADS: usize = 3;
    let mut names: Vec<String> = workloads
        .iter()
        .take(MAX_SHOWN_WORKLOADS)
        .map(|it| format!("{} {}", it.kind, go::quote(&it.name)))
        .collect();
    if workloads.len() > MAX_SHOWN_WORKLOADS {
        names.push(format!("{} more", workloads.len().saturating_sub(MAX_SHOWN_WORKLOADS)));
    }
    names.join(", ")
}
