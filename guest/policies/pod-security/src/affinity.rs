//! Affinity of pods to nodes: platforms that an Operator supports, and terms that Kubernetes takes.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::{Document, Kind, Row, rule, rules};

use crate::csv::{Faults, Subject};
use crate::level::label;
use crate::targets::{CATALOG, CSV, all, with_affinity};

rules![PSA_14, PSA_15, PSA_16];

const NODE: &str = "affinity.nodeAffinity";
const NODE_POINTER: &str = "/affinity/nodeAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const ARCH: &str = "kubernetes.io/arch";
const OS: &str = "kubernetes.io/os";
/// Labels of a CSV with the architectures on which its Operator manages workloads.
const ARCH_LABEL: &str = "operatorframework.io/arch.";

/// Creates the pods of `DaemonSet`s, and replaces their required affinity by the name of a node.
const DAEMON_SETS: &str = "system:serviceaccount:kube-system:daemon-set-controller";
/// Kubelets: they create the mirrors of pods that run already.
const NODES: &str = "system:node:";

rule! {
    /// an Operator for several architectures requires them of its nodes
    ///
    /// If a CSV has more than one label `operatorframework.io/arch.<arch>: supported`, each pod
    /// template in `spec.install.spec.deployments` has a required node affinity. Every entry of its
    /// `nodeSelectorTerms` has in `matchExpressions` the key `kubernetes.io/arch` with the operator
    /// `In` and exactly the labelled architectures as values, and the key `kubernetes.io/os` with the
    /// operator `In` and at least one value. Copies that OLM made are exempt. On UPDATE, a deployment
    /// that was so before with the same labels is not judged.
    ///
    /// # Why
    ///
    /// On a cluster with nodes of several architectures, the scheduler puts pods on any node. Where
    /// the image has no variant for it, the pod fails (OpenShift 4.15, Operators, *About node affinity
    /// rules for multi-architecture compute machines and Operator workloads*).
    ///
    /// # Repair
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
    /// `message: deployment "my-operator": set required node affinity rules for kubernetes.io/arch and
    /// kubernetes.io/os to support multi-architecture compute machines`
    PSA_14: Warn {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.15 L18079-18163, L18231-18241",
    }
}

rule! {
    /// pods require architectures and operating systems of their nodes
    ///
    /// Each Pod, and the template of each Deployment, DaemonSet and StatefulSet, has a required node
    /// affinity. Every entry of its `nodeSelectorTerms` has in `matchExpressions` the keys
    /// `kubernetes.io/arch` and `kubernetes.io/os`, each with the operator `In` and at least one value.
    /// Pods that the DaemonSet controller creates are judged by their DaemonSet, because the
    /// controller replaces the affinity, and mirrors that kubelets create are not judged. The rule is
    /// off until the setting `multiarch.enforce` is true or `rules` gives it a level. On UPDATE, an
    /// affinity that does not change is not judged.
    ///
    /// # Why
    ///
    /// On a cluster with nodes of several architectures, the scheduler puts pods on any node, and they
    /// fail where the image has no variant (OpenShift 4.15, Operators, *Using required node affinity
    /// rules to support multi-architecture compute machines for Operator projects*).
    ///
    /// # Repair
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
    /// `message: set required node affinity rules for kubernetes.io/arch and kubernetes.io/os in every
    /// pod spec or pod template`
    PSA_15: Deny {
        on: [
            all::POD: Create | Update,
            all::DEPLOYMENT: Create | Update,
            all::DAEMON_SET: Create | Update,
            all::STATEFUL_SET: Create | Update,
        ],
        off_until: ["/multiarch/enforce"],
        source: "OCP 4.15 L18095-18163",
    }
}

rule! {
    /// terms of node affinity have weights and operators that Kubernetes knows
    ///
    /// In the node affinity of a Pod, of the template of a Deployment, DaemonSet or StatefulSet, and
    /// of the pod templates in `spec.install.spec.deployments` of a CSV, each `weight` in
    /// `preferredDuringSchedulingIgnoredDuringExecution` is 1 to 100, and each operator in
    /// `matchExpressions`, preferred or required, is `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or
    /// `Lt`. What is absent counts as 0 and as empty. Copies that OLM made are exempt. On UPDATE, a
    /// value that the old object has in the same place is not judged.
    ///
    /// # Why
    ///
    /// Kubernetes refuses pods with other values (OpenShift 4.15, Operators, *Using preferred node
    /// affinity rules to configure support for multi-architecture compute machines*). It does so at
    /// once for pods and workloads; of an Operator the deployment fails later.
    ///
    /// # Repair
    ///
    /// Use a weight from 1 to 100, and one of the operators.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// - weight: 90
    ///   preference: {matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// - weight: 0
    ///   preference: {matchExpressions: [{key: kubernetes.io/arch, operator: Equals, values: [arm64]}]}
    /// ```
    ///
    /// `message: weight: Invalid value: 0: must be in the range 1-100`, and `operator: Invalid value:
    /// "Equals": not a valid selector operator`
    PSA_16: Deny {
        on: [
            CSV: Create | Update,
            CATALOG: Create | Update,
            with_affinity::POD: Create | Update,
            with_affinity::DEPLOYMENT: Create | Update,
            with_affinity::DAEMON_SET: Create | Update,
            with_affinity::STATEFUL_SET: Create | Update,
        ],
        source: "OCP 4.15 L18290-18312",
    }
}

/// PSA-14.
pub(crate) fn platforms(subject: &mut Subject<'_, '_>) {
    let arches = labelled(subject.object);
    if arches.len() < 2 || !subject.report.is_on(&PSA_14) {
        return;
    }
    // With other labels, every deployment is judged.
    let same_labels = subject.review.spares().is_some_and(|old| labelled(old) == arches);
    let object = subject.object;
    subject.add_new(
        &PSA_14,
        |document, specs| {
            let is_old = !std::ptr::eq(document, object);
            if is_old && !same_labels { Faults::new() } else { unrequired(document, specs, &arches) }
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

/// The architectures that the labels of a CSV name, if there are several labels.
fn labelled(csv: &Document) -> BTreeSet<String> {
    let labels = csv.keys("/metadata/labels");
    let arch = |name: &String| {
        let arch = name.strip_prefix(ARCH_LABEL)?;
        (label(csv, name)? == "supported").then(|| arch.to_owned())
    };
    labels.iter().filter_map(arch).collect()
}

/// The templates that do not require all of these architectures.
fn unrequired(object: &Document, specs: &[PodSpec], arches: &BTreeSet<String>) -> Faults<usize> {
    let mut found = Faults::new();
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

const TERMS: &str =
    "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

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
pub(crate) fn required(subject: &mut Subject<'_, '_>, is_pod: bool) {
    let object = subject.object;
    let user = &subject.review.request.user().username;
    let is_made = is_pod && (user == DAEMON_SETS || user.starts_with(NODES));
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

/// A value that Kubernetes refuses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wrong {
    /// Index of the spec.
    spec: usize,
    is_preferred: bool,
    /// Index of the term.
    term: usize,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Weight(i64),
    /// An operator, with the index of its expression.
    Operator(usize, String),
}

/// PSA-16.
pub(crate) fn terms(subject: &mut Subject<'_, '_>) {
    if !subject.report.is_on(&PSA_16) {
        return;
    }
    subject.add_new(&PSA_16, wrong, |_, spec, wrong| texts(spec, wrong), |wrong| wrong.spec);
}

fn texts(spec: &PodSpec, wrong: &Wrong) -> (String, String) {
    let Wrong { is_preferred, term, what, .. } = wrong;
    let at = format!("{}.{NODE}", spec.field());
    match what {
        What::Weight(weight) => (
            format!("{at}.{PREFERRED}[{term}].weight"),
            format!("weight: Invalid value: {weight}: must be in the range 1-100"),
        ),
        What::Operator(expression, operator) => {
            let term = if *is_preferred {
                format!("{PREFERRED}[{term}].preference")
            } else {
                format!("{REQUIRED}.nodeSelectorTerms[{term}]")
            };
            let operator = quote(operator);
            (
                format!("{at}.{term}.matchExpressions[{expression}].operator"),
                format!("operator: Invalid value: {operator}: not a valid selector operator"),
            )
        }
    }
}

/// What Kubernetes refuses, in the order of the object.
fn wrong(object: &Document, specs: &[PodSpec]) -> Faults<Wrong> {
    let columns = ["/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution", TERMS];
    let mut found = Faults::new();
    let mut spec_number = 0;
    pods::each(object, specs, &columns, |spec, row| {
        let [preferred, required] = [0, 1].map(|column| row.kind(column) == Kind::List);
        if preferred || required {
            let mut search = Search { object, spec: spec_number, found: &mut found };
            if preferred {
                search.preferred(&format!("{}{NODE_POINTER}/{PREFERRED}", spec.pointer()));
            }
            if required {
                search.required(&format!("{}{TERMS}", spec.pointer()));
            }
        }
        spec_number += 1;
    });
    found
}

struct Search<'s> {
    object: &'s Document,
    spec: usize,
    found: &'s mut Faults<Wrong>,
}

impl Search<'_> {
    fn preferred(&mut self, list: &str) {
        let columns =
            ["/weight", "/preference/matchExpressions", "/preference/matchExpressions/0/operator"];
        for (term, row) in self.object.rows(list, &columns).iter().enumerate() {
            // What is no integer at all is refused before anything else looks at it.
            let weight = match row.kind(0) {
                Kind::Missing | Kind::Null => Some(0),
                Kind::Number => self.object.integer(&format!("{list}/{term}/weight")),
                _ => None,
            };
            if let Some(weight) = weight.filter(|weight| !(1..=100).contains(weight)) {
                let what = What::Weight(weight);
                self.found.push(Wrong { spec: self.spec, is_preferred: true, term, what });
            }
            self.operators(row, 1, true, term, || {
                format!("{list}/{term}/preference/matchExpressions")
            });
        }
    }

    fn required(&mut self, list: &str) {
        let columns = ["/matchExpressions", "/matchExpressions/0/operator"];
        for (term, row) in self.object.rows(list, &columns).iter().enumerate() {
            self.operators(row, 0, false, term, || format!("{list}/{term}/matchExpressions"));
        }
    }

    /// The operators of a term. `column` has its expressions, the next one the operator of the first.
    fn operators(
        &mut self,
        row: Row<'_>,
        column: usize,
        is_preferred: bool,
        term: usize,
        pointer: impl FnOnce() -> String,
    ) {
        if row.kind(column) != Kind::List {
            return;
        }
        match row.length(column) {
            None | Some(0) => {}
            Some(1) => self.operator(row, column + 1, is_preferred, term, 0),
            Some(_) => {
                let rows = self.object.rows(&pointer(), &["/operator"]);
                for (expression, row) in rows.iter().enumerate() {
                    self.operator(row, 0, is_preferred, term, expression);
                }
            }
        }
    }

    fn operator(
        &mut self,
        row: Row<'_>,
        column: usize,
        is_preferred: bool,
        term: usize,
        expression: usize,
    ) {
        let operator = row.text_or_empty(column);
        let is_read = matches!(row.kind(column), Kind::Text | Kind::Missing | Kind::Null);
        if is_read && !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt")
        {
            let what = What::Operator(expression, operator.to_owned());
            self.found.push(Wrong { spec: self.spec, is_preferred, term, what });
        }
    }
}
