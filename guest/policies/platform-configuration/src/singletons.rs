//! Kinds of which a component reads only the object with one name.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, Review, escape, rule, rules};

use crate::targets::{CLUSTER_AUTOSCALER, CLUSTER_INGRESS, ETCD, SAMPLES_CONFIG};

rules![MSC_04];

/// Resource and group, with the name that the component reads.
const NAMES: [(&str, &str); 4] = [
    ("clusterautoscalers.autoscaling.openshift.io", "default"),
    ("configs.samples.operator.openshift.io", "cluster"),
    ("etcds.operator.openshift.io", "cluster"),
    ("clusteringresses.ingress.openshift.io", "default"),
];

rule! {
    /// a singleton of the platform has the name that its Operator reads
    ///
    /// A new ClusterAutoscaler has the name `default`, a Config of the Cluster Samples Operator and
    /// an Etcd the name `cluster`, and a ClusterIngress the name `default`. The setting
    /// `misc.singletons` sets other names. The rule does not evaluate an UPDATE: names do not
    /// change.
    ///
    /// # Why
    ///
    /// The Operators read one object and ignore all others (OpenShift 4.12, Operators, *Cluster
    /// Operators reference*). Another object has no effect, and no error reports this.
    ///
    /// # Remediation
    ///
    /// Change the name. If the object with this name exists already, change it instead.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: ClusterAutoscaler
    /// metadata: {name: default}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: ClusterAutoscaler
    /// metadata: {name: my-scaler}
    /// ```
    ///
    /// `message: ClusterAutoscaler "my-scaler" has no effect: the Operator only responds to
    /// "default"`
    MSC_04: Warn {
        name: "platform-singleton-name",
        on: [
            CLUSTER_AUTOSCALER: Create,
            SAMPLES_CONFIG: Create,
            ETCD: Create,
            CLUSTER_INGRESS: Create,
        ],
        source: ["OCP 4.12 L24754, L25067, L25298, L25332-25343", "OCP 4.15 L18884", "OCP 4.5 L8472-8478"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let resource = review.request.resource();
    let resource = format!("{}.{}", resource.resource, resource.group);
    let Some((_, known)) = NAMES.iter().find(|(known, _)| *known == resource) else { return };
    let only = review.settings.text(&format!("/misc/singletons/{}", escape(&resource)));
    let only = only.unwrap_or_else(|| (*known).to_owned());
    let name = review.name(object);
    // Without a name, the API server generates one from `generateName`.
    if name == only {
        return;
    }
    let (kind, name, only) = (&review.request.kind().kind, quote(&name), quote(&only));
    let message = format!("{kind} {name} has no effect: the Operator only responds to {only}");
    report.add(&MSC_04, "metadata.name", message);
}
