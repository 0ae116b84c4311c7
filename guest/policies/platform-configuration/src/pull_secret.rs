//! The global pull secret. The rule only compares, and no content leaves this module.

use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::SECRET;

rules![MSC_03];

rule! {
    /// the data of the global pull secret does not change
    ///
    /// An UPDATE of the Secret `pull-secret` in the namespace `openshift-config` does not change
    /// `data`. The webhook gets such requests only if the setting `misc.globalPullSecret` is
    /// `true`, and no requests for other Secrets. The violation contains none of the content.
    ///
    /// # Why
    ///
    /// The Machine Config Operator distributes the new pull secret to all nodes, which can limit
    /// the usability of the cluster during that time (OpenShift 4.12, Operators, *Accessing images
    /// for Operators from private registries*).
    ///
    /// # Remediation
    ///
    /// Change it in a maintenance window. If only some namespaces need the credentials, put a
    /// Secret into each of them, and name it in `imagePullSecrets` of their service accounts.
    ///
    /// # Accepted
    ///
    /// An update of the labels.
    ///
    /// # Rejected
    ///
    /// An update of `data[.dockerconfigjson]`.
    ///
    /// `message: Cluster resources must adjust to the new global pull secret, which can temporarily
    /// limit the usability of the cluster.`
    MSC_03: Warn {
        name: "global-pull-secret-unchanged",
        on: [SECRET: Update],
        source: ["OCP 4.12 L9643-9673"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let (Some(object), Some(old)) = (review.subject(), review.old_of_update()) else { return };
    if review.namespace() != "openshift-config" || review.name(object) != "pull-secret" {
        return;
    }
    // Files may have `stringData`, which API servers merge into `data`.
    let changed = ["data", "stringData"].into_iter().find(|member| {
        let pointer = format!("/{member}");
        !object.equal(&pointer, old, &pointer)
    });
    if let Some(changed) = changed {
        let message = "Cluster resources must adjust to the new global pull secret, which can temporarily limit the usability of the cluster.";
        report.add(&MSC_03, changed, message);
    }
}
