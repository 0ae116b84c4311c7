//! Who may create CRDs.

use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::CRD;

rules![CRD_09];

const GROUPS: &str = "/crd/adminGroups";

rule! {
    /// only administrators and OLM create CRDs
    ///
    /// The user who creates a CRD is in one of the groups of the setting `crd.adminGroups`, or is
    /// one of OLM's service accounts (setting `identities.olm`, or those of the profile). The rule
    /// finds nothing while the setting is missing, even where `rules` gives it a level. Files have
    /// no user and are not judged.
    ///
    /// # Why
    ///
    /// A CRD is there for the whole cluster, so only cluster administrators create them (OpenShift
    /// 4.12, Operators, *Extending the Kubernetes API with custom resource definitions*). RBAC
    /// usually sees to it. The rule is for clusters whose roles are wider than that.
    ///
    /// # Repair
    ///
    /// Ask an administrator to install the Operator or to create the CRD. Components of the
    /// platform that create CRDs, such as the Cluster Version Operator, need a group in the list:
    /// that of the service accounts of their namespace will do.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Any CRD, by the user
    /// # system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount
    /// spec: {group: stable.example.com}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Any CRD, by the user developer, who is in the group system:authenticated.
    /// spec: {group: stable.example.com}
    /// ```
    ///
    /// `message: only cluster administrators can create CRDs`
    CRD_09: Deny {
        on: [CRD: Create],
        off_until: ["/crd/adminGroups"],
        source: "OCP 4.12 L4838-4847, L5241, L7946; OCP 4.15 L3019-3098",
    }
}

pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    if !review.creates()
        || !report.is_on(&CRD_09)
        || !review.settings.has(GROUPS)
        || review.is_of_a_file()
        || review.is_olms()
    {
        return;
    }
    let groups = review.settings.texts(GROUPS);
    if !review.request.user().groups.iter().any(|group| groups.contains(group)) {
        report.add(&CRD_09, "metadata.name", "only cluster administrators can create CRDs");
    }
}
