//! The users with permission to create CRDs.

use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::CRD;

rules![CRD_09];

const GROUPS: &str = "/crd/adminGroups";

rule! {
    /// only administrators and OLM create CRDs
    ///
    /// The user who creates a CRD is in one of the groups of the setting `crd.adminGroups`, or is
    /// one of OLM's service accounts (setting `identities.olm`, or those of the profile). The rule
    /// reports nothing if the setting is missing, even if `rules` sets a level for it. Files have
    /// no user and are not evaluated.
    ///
    /// # Why
    ///
    /// A CRD affects the whole cluster, so only cluster administrators create CRDs (OpenShift 4.12,
    /// Operators, *Extending the Kubernetes API with custom resource definitions*). RBAC usually
    /// enforces this. The rule is for clusters with more permissive roles.
    ///
    /// # Remediation
    ///
    /// Ask an administrator to install the Operator or to create the CRD. Components of the
    /// platform that create CRDs, such as the Cluster Version Operator, need a group in the list,
    /// such as the group of the service accounts of their namespace.
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
    /// # Any CRD, by the user developer, a member of the group system:authenticated.
    /// spec: {group: stable.example.com}
    /// ```
    ///
    /// `message: only cluster administrators can create CRDs`
    CRD_09: Deny {
        name: "crd-creation-by-administrators",
        on: [CRD: Create],
        enabled_by: ["/crd/adminGroups"],
        source: ["OCP 4.12 L4838-4847, L5241, L7946", "OCP 4.15 L3019-3098"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    if review.is_update()
        || !report.is_on(&CRD_09)
        || !review.settings.has(GROUPS)
        || review.is_from_file()
        || review.may_be_olm()
    {
        return;
    }
    let groups = review.settings.texts(GROUPS);
    if !review.request.user().groups.iter().any(|group| groups.contains(group)) {
        report.add(&CRD_09, "metadata.name", "only cluster administrators can create CRDs");
    }
}
