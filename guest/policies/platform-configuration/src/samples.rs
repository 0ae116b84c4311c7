//! Image streams and templates that the Cluster Samples Operator manages.

use opgate_sdk::{Report, Review, Setting, escape, rule, rules};

use crate::targets::{IMAGE_STREAM, TEMPLATE};

rules![MSC_06];

const ANNOTATION: Setting = Setting {
    pointer: "/misc/sampleVersionAnnotation",
    default: "samples.operator.openshift.io/version",
};

/// The Operator itself.
const OPERATOR: &str =
    "system:serviceaccount:openshift-cluster-samples-operator:cluster-samples-operator";

rule! {
    /// the version of a managed sample is left to the Cluster Samples Operator
    ///
    /// An UPDATE of an ImageStream or a Template in the namespace `openshift` leaves the annotation
    /// `samples.operator.openshift.io/version` as it is. The setting `misc.sampleVersionAnnotation`
    /// gives another name. An object without the annotation is not a managed sample. Requests of
    /// the Operator itself are exempt.
    ///
    /// # Why
    ///
    /// The Operator compares the annotation with its own version. A sample with another one is
    /// replaced, or no longer updated (OpenShift 4.12, Operators, *Cluster Samples Operator*).
    ///
    /// # Repair
    ///
    /// Leave the annotation as it is: other changes are allowed. To keep changes over an upgrade,
    /// list the sample in `spec.skippedImagestreams` or `spec.skippedTemplates` of the Config
    /// `cluster`.
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
        on: [IMAGE_STREAM: Update, TEMPLATE: Update],
        source: "OCP 4.12 L25076-25079",
    }
}

pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let (Some(object), Some(old)) = (review.subject(), review.updates_from()) else { return };
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
