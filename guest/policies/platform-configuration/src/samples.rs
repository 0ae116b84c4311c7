//! Image streams and templates that the Cluster Samples Operator manages.

use opgate_sdk::{Report, Review, Setting, escape, rule, rules};

use crate::targets::{IMAGE_STREAM, TEMPLATE};

rules![MSC_06];

const ANNOTATION: Setting = Setting {
    pointer: "/misc/sampleVersionAnnotation",
    default: "samples.operator.openshift.io/version",
};

/// The user name of the Operator.
const OPERATOR: &str =
    "system:serviceaccount:openshift-cluster-samples-operator:cluster-samples-operator";

rule! {
    /// the Cluster Samples Operator sets the version of a managed sample
    ///
    /// An UPDATE of an ImageStream or a Template in the namespace `openshift` does not change the
    /// annotation `samples.operator.openshift.io/version`. The setting
    /// `misc.sampleVersionAnnotation` sets another name. An object without the annotation is not a
    /// managed sample. Requests of the Operator itself are exempt.
    ///
    /// # Why
    ///
    /// The Operator compares the annotation with its own version. It replaces a sample with another
    /// version, or stops updating it (OpenShift 4.12, Operators, *Cluster Samples Operator*).
    ///
    /// # Remediation
    ///
    /// Keep the annotation unchanged: the rule allows other changes. To keep changes over an
    /// upgrade, list the sample in `spec.skippedImagestreams` or `spec.skippedTemplates` of the
    /// Config `cluster`.
    ///
    /// # Accepted
    ///
    /// An update of `spec` with the same annotation.
    ///
    /// # Rejected
    ///
    /// An update that removes `samples.operator.openshift.io/version`.
    ///
    /// `message: modifications to managed samples are allowed as long as the version annotation is
    /// not modified or deleted`
    MSC_06: Warn {
        name: "managed-sample-version-unchanged",
        on: [IMAGE_STREAM: Update, TEMPLATE: Update],
        source: ["OCP 4.12 L25076-25079"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let (Some(object), Some(old)) = (review.subject(), review.old_of_update()) else { return };
    if review.namespace() != "openshift" || review.request.user().username == OPERATOR {
        return;
    }
    let annotation = ANNOTATION.of(review.settings);
    let pointer = format!("/metadata/annotations/{}", escape(&annotation));
    if old.has(&pointer) && !object.equal(&pointer, old, &pointer) {
        let message = "modifications to managed samples are allowed as long as the version annotation is not modified or deleted";
        report.add(&MSC_06, format!("metadata.annotations[{annotation}]"), message);
    }
}
