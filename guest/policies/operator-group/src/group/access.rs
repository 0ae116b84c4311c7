//! Users that write OperatorGroups. Both rules are off unless the settings name users. The setting
//! `exempt` does not apply to them: their own settings name the users with write access.

use opgate_sdk::identities::is_garbage_collector;
use opgate_sdk::{Report, Review, rule, rules};

use crate::group_surface::{PROVIDED_APIS, STATIC_PROVIDED_APIS};
use crate::kinds::GROUP;

rules![OPG_19, OPG_35];

const OLM_USERS: &str = "/operatorGroup/olmUsers";
const ADMIN_GROUPS: &str = "/operatorGroup/adminGroups";

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    check_static_apis(review, report);
    check_writers(review, report);
}

rule! {
    /// OLM does not change the annotation olm.providedAPIs of a static OperatorGroup
    ///
    /// None of the users in the setting `operatorGroup.olmUsers` changes the annotation
    /// `olm.providedAPIs` of an OperatorGroup with `spec.staticProvidedAPIs: true`. Any other user
    /// may change it. The rule reports nothing while the setting is missing, even if `rules` sets
    /// its level. The settings `exempt` and `ratcheting` do not apply to it.
    ///
    /// # Why
    ///
    /// An administrator sets the annotation of a static group, and OLM does not modify it
    /// (OpenShift 4.12, Operators, *Static Operator groups*). The rule enforces this for OLM.
    ///
    /// # Remediation
    ///
    /// Change the annotation as an administrator, not as OLM. If the denied user is not OLM, remove
    /// it from `operatorGroup.olmUsers`.
    ///
    /// # Accepted
    ///
    /// An UPDATE of `olm.providedAPIs` of a static group by a cluster administrator.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # UPDATE by a user in operatorGroup.olmUsers; before: Goose.v1alpha1.birds.com.
    /// metadata: {annotations: {olm.providedAPIs: Moose.v1alpha1.mammals.com}}
    /// spec: {staticProvidedAPIs: true}
    /// ```
    ///
    /// `message: OLM does not modify the olm.providedAPIs annotation of a static Operator group`
    OPG_19: Deny {
        name: "static-provided-apis-unchanged-by-olm",
        on: [GROUP: Update],
        enabled_by: ["/operatorGroup/olmUsers"],
        no_exemptions: true,
        source: ["OCP 4.12 L3827, L3838-3840"],
    }
}

fn check_static_apis(review: &Review<'_>, report: &mut Report<'_>) {
    let (Some(object), Some(old)) = (review.object, review.old_of_update()) else { return };
    if review.settings.has(OLM_USERS)
        && object.boolean(STATIC_PROVIDED_APIS) == Some(true)
        && !object.equal(PROVIDED_APIS, old, PROVIDED_APIS)
        && review.settings.texts(OLM_USERS).contains(&review.request.user().username)
    {
        let message =
            "OLM does not modify the olm.providedAPIs annotation of a static Operator group";
        report.add(&OPG_19, "metadata.annotations[olm.providedAPIs]", message);
    }
}

rule! {
    /// only the configured groups of users write OperatorGroups
    ///
    /// Only members of the groups of users in the setting `operatorGroup.adminGroups` create,
    /// change and delete OperatorGroups. OLM may as well: the users in `operatorGroup.olmUsers` if
    /// that is set, otherwise the identities of OLM. The garbage collector, the namespace
    /// controller and the controller manager of Kubernetes may change and delete groups, but not
    /// create them. The rule reports nothing while `adminGroups` is missing, even if `rules` sets
    /// its level. The settings `exempt` and `ratcheting` do not apply. The rule does not evaluate
    /// writes of the status, or the groups of a cluster that `opgate check` reads, because their
    /// author is unknown.
    ///
    /// # Why
    ///
    /// Users with write access to OperatorGroups determine where Operators are installed and with
    /// which permissions. Regular users lack that permission on purpose (OpenShift 4.12, Operators,
    /// *Understanding Operator installation policy*). RBAC normally ensures it; the rule protects
    /// clusters whose RBAC is too permissive.
    ///
    /// # Remediation
    ///
    /// Ask a cluster administrator to write the group, or add one of your user groups to
    /// `adminGroups`. Turn the rule off in the configuration for `opgate check`: its user,
    /// `opgate:check`, is in no group.
    ///
    /// # Accepted
    ///
    /// CREATE by a member of `system:masters`, where `adminGroups` is `[system:masters]`.
    ///
    /// # Rejected
    ///
    /// CREATE, UPDATE or DELETE by the user `developer`, in none of the groups.
    ///
    /// `message: only cluster administrators may manage Operator groups`
    OPG_35: Deny {
        name: "operator-group-writers-allowed",
        on: [GROUP: Create | Update | Delete],
        enabled_by: ["/operatorGroup/adminGroups"],
        no_exemptions: true,
        source: ["OCP 4.12 L7939", "OCP 4.15 L5622-5627"],
    }
}

fn check_writers(review: &Review<'_>, report: &mut Report<'_>) {
    if review.is_audit() || !review.settings.has(ADMIN_GROUPS) {
        return;
    }
    let user = review.request.user();
    let allowed = review.settings.texts(ADMIN_GROUPS).iter().any(|g| user.groups.contains(g))
        || is_olm(review)
        || is_garbage_collector(review.request);
    if !allowed {
        report.add(&OPG_35, "", "only cluster administrators may manage Operator groups");
    }
}

/// Whether OLM sends the request: by the setting of these rules, otherwise by the identities.
fn is_olm(review: &Review<'_>) -> bool {
    if review.settings.has(OLM_USERS) {
        review.settings.texts(OLM_USERS).contains(&review.request.user().username)
    } else {
        review.may_be_olm()
    }
}
