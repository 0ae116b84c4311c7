//! The target of an autoscaler of machines.

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::MACHINE_AUTOSCALER;

rules![MSC_05];

const KIND: &str = "/spec/scaleTargetRef/kind";

rule! {
    /// a MachineAutoscaler scales a MachineSet
    ///
    /// `spec.scaleTargetRef.kind` is `MachineSet`. The rule evaluates an UPDATE only if it changes
    /// the field.
    ///
    /// # Why
    ///
    /// The Cluster Autoscaler Operator supports no other target: it does not scale the group of
    /// machines (OpenShift 4.12, Operators, *Cluster Autoscaler Operator*).
    ///
    /// # Remediation
    ///
    /// Set the name of a MachineSet of the namespace `openshift-machine-api`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// scaleTargetRef: {apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: worker}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// scaleTargetRef:
    ///   {apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDeployment, name: worker}
    /// ```
    ///
    /// `message: currently only MachineSet objects can be targeted, got "MachineDeployment"`
    MSC_05: Deny {
        name: "machine-autoscaler-targets-machine-set",
        on: [MACHINE_AUTOSCALER: Create | Update],
        source: ["OCP 4.12 L24757", "OCP 4.15 L18885", "OCP 4.5 L8472-8478"],
    }
}

/// Maximum bytes of a value in a message.
const MAX_SHOWN_BYTES: usize = 256;

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let kind = object.text_or_empty(KIND);
    if kind != "MachineSet" && review.touches_json(object, KIND) {
        let kind = quote(&shorten(&kind, MAX_SHOWN_BYTES));
        let message = format!("currently only MachineSet objects can be targeted, got {kind}");
        report.add(&MSC_05, "spec.scaleTargetRef.kind", message);
    }
}
