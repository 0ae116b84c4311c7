//! Storage classes that the Cluster Storage Operator creates.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::STORAGE_CLASS;

rules![MSC_07];

rule! {
    /// the storage classes of the Cluster Storage Operator are not deleted
    ///
    /// A StorageClass that the setting `misc.operatorStorageClasses` lists is not deleted. The rule
    /// is off until the setting lists names or `rules` sets its level. It does not evaluate an
    /// UPDATE.
    ///
    /// # Why
    ///
    /// While the Operator runs, it creates the storage class again (OpenShift 4.12, Operators,
    /// *Cluster Storage Operator*). Until then, claims without a class find no default.
    ///
    /// # Remediation
    ///
    /// Set the annotation `storageclass.kubernetes.io/is-default-class` of the class to `"false"`,
    /// and that of another one to `"true"`.
    ///
    /// # Accepted
    ///
    /// An update of the annotation.
    ///
    /// # Rejected
    ///
    /// With `misc.operatorStorageClasses: [gp3-csi]`, the deletion of the StorageClass `gp3-csi`.
    ///
    /// `message: storage class "gp3-csi" cannot be deleted as long as the Operator runs`
    MSC_07: Deny {
        name: "managed-storage-class-not-deleted",
        on: [STORAGE_CLASS: Delete],
        enabled_by: ["/misc/operatorStorageClasses"],
        source: ["OCP 4.12 L25135", "OCP 4.15 L19116"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let name = review.request.name();
    if review.settings.texts("/misc/operatorStorageClasses").iter().any(|listed| listed == name) {
        let name = quote(name);
        let message =
            format!("storage class {name} cannot be deleted as long as the Operator runs");
        report.add(&MSC_07, "metadata.name", message);
    }
}
