//! Platforms that pods require of their nodes.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::{Document, Kind, Row, rule, rules};

use super::TERMS;
use crate::level::label;
use crate::subject::{Subject, Violations};
use crate::targets::{CATALOG, CSV, all};

rules![PSA_14, PSA_15];

const ARCH: &str = "kubernetes.io/arch";
const OS: &str = "kubernetes.io/os";
/// Labels of a CSV with the architectures on which its Operator manages workloads.
const ARCH_LABEL: &str = "operatorframework.io/arch.";

/// Creates the pods of `DaemonSet`s, and replaces their required affinity with the name of a node.
const DAEMON_SET_CONTROLLER: &str = "system:serviceaccount:kube-system:daemon-set-controller";
/// Kubelets: they create the mirrors of pods that already run.
const NODE_USER_PREFIX: &str = "system:node:";

rule! {
    /// an Operator for several architectures requires them of its nodes
    ///
    /// If a CSV has more than one label `operatorframework.io/arch.<arch>: supported`, each pod
    /// template in `spec.install.spec.deployments` has a required node affinity. Every entry of its
    /// `nodeSelectorTerms` has in `matchExpressions` the key `kubernetes.io/arch` with the operator
    /// `In` and exactly the labelled architectures as values, and the key `kubernetes.io/os` with
    /// the operator `In` and at least one value. The rule exempts copies that OLM created. The rule
    /// is off until `rules` of the policy sets its level, because nearly no published Operator
    /// meets it. On UPDATE, it does not evaluate a deployment that violated the rule before with
    /// the same labels.
    ///
    /// # Why
    ///
    /// On a cluster with nodes of several architectures, the scheduler puts pods on any node. If
    /// the image has no variant for the node, the pod fails (OpenShift 4.15, Operators, *About node
    /// affinity rules for multi-architecture compute machines and Operator workloads*).
    ///
    /// # Remediation
    ///
    /// Add the affinity below to each deployment, with the architectures of the labels.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// affinity:
    ///   nodeAffinity:
    ///     requiredDuringSchedulingIgnoredDuringExecution:
    ///       nodeSelectorTerms:
    ///       - matchExpressions:
    ///         - {key: kubernetes.io/arch, operator: In, values: [amd64, s390x]}
    ///         - {key: kubernetes.io/os, operator: In, values: [linux]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # A deployment without affinity, and:
    /// labels: {operatorframework.io/arch.amd64: supported, operatorframework.io/arch.s390x: supported}
    /// ```
    ///
    /// `message: deployment "my-operator": set required node affinity rules for kubernetes.io/arch
    /// and kubernetes.io/os to support multi-architecture compute machines`
    PSA_14: Warn {
        name: "multi-arch-operator-node-affinity",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: [],
        source: ["OCP 4.15 L18079-18163, L18231-18241"],
    }
}

rule! {
    /// pods require architectures and operating systems of their nodes
    ///
    /// Each Pod, and the template of each Deployment, DaemonSet and StatefulSet, has a required
    /// node affinity. Every entry of its `nodeSelectorTerms` has in `matchExpressions` the keys
    /// `kubernetes.io/arch` and `kubernetes.io/os`, each with the operator `In` and at least one
    /// value. The rule does not evaluate mirrors that kubelets create, or Pods that the DaemonSet
    /// controller creates: it evaluates their DaemonSet instead, because the controller replaces
    /// the affinity. The rule is off until the setting `multiarch.enforce` is true or `rules` sets
    /// its level. On UPDATE, it does not evaluate an affinity that does not change.
    ///
    /// # Why
    ///
    /// On a cluster with nodes of several architectures, the scheduler puts pods on any node, and
    /// they fail if the image has no variant for the node (OpenShift 4.15, Operators, *Using
    /// required node affinity rules to support multi-architecture compute machines for Operator
    /// projects*).
    ///
    /// # Remediation
    ///
    /// Add the affinity that PSA-14 shows.
    ///
    /// # Accepted
    ///
    /// The Pod of the documents, with a required node affinity for both keys.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: Pod
    /// metadata: {name: s1}
    /// spec: {containers: [{name: app, image: docker.io/org/image}]}
    /// ```
    ///
    /// `message: set required node affinity rules for kubernetes.io/arch and kubernetes.io/os in
    /// every pod spec or pod template`
    PSA_15: Deny {
        name: "pod-node-affinity-for-platform",
        on: [
            all::POD: Create | Update,
            all::DEPLOYMENT: Create | Update,
            all::DAEMON_SET: Create | Update,
            all::STATEFUL_SET: Create | Update,
        ],
        enabled_by: ["/multiarch/enforce"],
        source: ["OCP 4.15 L18095-18163"],
    }
}

/// PSA-14.
pub(crate) fn check_labelled(subject: &mut Subject<'_, '_>) {
    let arches = arches(subject.object);
    if arches.len() < 2 || !subject.report.is_on(&PSA_14) {
        return;
    }
    subject.add_new(
        &PSA_14,
        |csv, specs| {
            // An old object with other labels was evaluated with those.
            let is_alike = self::arches(csv) == arches;
            if is_alike { find_unrequired(csv, specs, &arches) } else { Violations::new() }
        },
        |_, spec, _| {
            let message = format!(
                "deployment {}: set required node affinity rules for {ARCH} and {OS} to support multi-architecture compute machines",
                quote(&spec.name)
            );
            (format!("{}.affinity", spec.field()), message)
        },
        |number| *number,
    );
}

/// The architectures in the labels of a CSV.
fn arches(csv: &Document) -> BTreeSet<String> {
    let labels = csv.keys("/metadata/labels");
    let arch = |name: &String| {
        let arch = name.strip_prefix(ARCH_LABEL)?;
        (label(csv, name)? == "supported").then(|| arch.to_owned())
    };
    labels.iter().filter_map(arch).collect()
}

/// The templates that do not require all of these architectures.
fn find_unrequired(
    object: &Document,
    specs: &[PodSpec],
    arches: &BTreeSet<String>,
) -> Violations<usize> {
    let mut found = Violations::new();
    let mut number = 0;
    pods::each(object, specs, &[TERMS], |spec, row| {
        let is_list = row.kind(0) == Kind::List;
        if !is_list || !requires(object, spec, Some(arches)) {
            found.push(number);
        }
        number += 1;
    });
    found
}

/// Whether every term requires an architecture and an operating system. With `arches`, it must be
/// these architectures.
fn requires(object: &Document, spec: &PodSpec, arches: Option<&BTreeSet<String>>) -> bool {
    let terms = format!("{}{TERMS}", spec.pointer());
    let mut number = 0_u32;
    let fits = |row: Row<'_>| {
        let expressions = format!("{terms}/{number}/matchExpressions");
        number += 1;
        row.kind(0) == Kind::List && is_platform(object, &expressions, arches)
    };
    let rows = object.rows(&terms, &["/matchExpressions"]);
    rows.iter().next().is_some() && rows.iter().all(fits)
}

fn is_platform(object: &Document, expressions: &str, arches: Option<&BTreeSet<String>>) -> bool {
    let (mut has_arch, mut has_os) = (false, false);
    let rows = object.rows(expressions, &["/key", "/operator", "/values"]);
    for (index, row) in rows.iter().enumerate() {
        let has_values =
            row.kind(2) == Kind::List && row.length(2).is_some_and(|length| length > 0);
        if row.text(1) != Some("In") || !has_values {
            continue;
        }
        match row.text(0) {
            Some(ARCH) => {
                has_arch = has_arch
                    || arches.is_none_or(|arches| {
                        let values = object.rows(&format!("{expressions}/{index}/values"), &[""]);
                        let values: BTreeSet<&str> =
                            values.iter().filter_map(|row| row.text(0)).collect();
                        values.iter().copied().eq(arches.iter().map(String::as_str))
                    });
            }
            Some(OS) => has_os = true,
            _ => {}
        }
    }
    has_arch && has_os
}

/// PSA-15.
pub(crate) fn check_every_pod(subject: &mut Subject<'_, '_>, is_pod: bool) {
    let object = subject.object;
    let user = &subject.review.request.user().username;
    let is_made = is_pod && (user == DAEMON_SET_CONTROLLER || user.starts_with(NODE_USER_PREFIX));
    if is_made || !subject.report.is_on(&PSA_15) {
        return;
    }
    for spec in subject.specs {
        let is_new = subject.touches_json(&format!("{}/affinity", spec.pointer()));
        if is_new && !requires(object, spec, None) {
            subject.add(&PSA_15, || {
                let message = format!(
                    "set required node affinity rules for {ARCH} and {OS} in every pod spec or pod template"
                );
                (format!("{}.affinity", spec.field()), message)
            });
        }
    }
}
