//! A policy with mistakes of authors: one rule compares only one of the fields that it evaluates with the old object,
//! and does not match the sub-resource `scale`. The other one matches Pods only.

#![allow(missing_docs, reason = "an example")]

use opgate_sdk::{Report, Review, Target, policy, rule, rules};

static DEPLOYMENT: Target = Target {
    groups: &["apps"],
    versions: &["v1"],
    resources: &["deployments"],
    kind: "Deployment",
    ..Target::EMPTY
};

static POD: Target =
    Target { groups: &[""], versions: &["v1"], resources: &["pods"], kind: "Pod", ..Target::EMPTY };

rule! {
    /// A Deployment with more than ten replicas is approved
    ///
    /// # Why
    ///
    /// Capacity is reserved.
    ///
    /// # Remediation
    ///
    /// Ask for an approval.
    ///
    /// # Accepted
    ///
    /// `replicas: 10`
    ///
    /// # Rejected
    ///
    /// `replicas: 11`
    WRK_1: Deny {
        on: [DEPLOYMENT: Create | Update],
        source: ["tests"],
    }
}

rule! {
    /// A container has a limit of memory
    ///
    /// # Why
    ///
    /// Nodes run out of memory.
    ///
    /// # Remediation
    ///
    /// Set it.
    ///
    /// # Accepted
    ///
    /// `limits: {memory: 1Gi}`
    ///
    /// # Rejected
    ///
    /// `limits: {}`
    WRK_2: Warn {
        on: [POD: Create],
        source: ["tests"],
    }
}

rules![WRK_1, WRK_2];

policy! {
    name: "workloads",
    title: "workloads fit into their clusters",
    rules: [RULES],
    routes: [DEPLOYMENT => check_replicas, POD => check_limits],
}

fn check_replicas(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(deployment) = review.subject() else { return };
    let is_approved = deployment.has("/metadata/annotations/approved");
    let is_large = deployment.integer("/spec/replicas").is_some_and(|replicas| replicas > 10);
    if is_large && !is_approved && review.touches_json(deployment, "/spec/replicas") {
        report.add(&WRK_1, "spec.replicas", "more than 10 replicas need an approval");
    }
}

fn check_limits(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(pod) = review.subject() else { return };
    if !pod.has("/spec/containers/0/resources/limits/memory") {
        let field = "spec.containers[0].resources.limits";
        report.add(&WRK_2, field, "the container has no limit of memory");
    }
}
