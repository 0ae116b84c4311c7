//! Who writes OperatorGroups: OPG-19 and OPG-35. Both are off unless the settings name somebody, and
//! nobody is exempt by `exempt`: the settings of the rules themselves say who may.

use opgate_sdk::{Document, Operation};

use crate::Review;
use crate::findings::Findings;
use crate::groups::{PROVIDED_APIS, STATIC};

const OLM_USERS: &str = "/operatorGroup/olmUsers";
const ADMIN_GROUPS: &str = "/operatorGroup/adminGroups";

/// As whom OLM runs where nothing is set: OpenShift's, upstream's and microshift's namespaces.
const OLM: [&str; 3] = [
    "system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount",
    "system:serviceaccount:olm:olm-operator-serviceaccount",
    "system:serviceaccount:operator-lifecycle-manager:olm-operator-serviceaccount",
];

/// As whom Kubernetes takes away what belongs to something that is gone.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

pub(crate) fn judge(review: &Review<'_>, findings: &mut Findings<'_>) {
    static_apis(review, findings);
    admins(review, findings);
}

/// OPG-19: OLM leaves the annotation of a static group alone.
fn static_apis(review: &Review<'_>, findings: &mut Findings<'_>) {
    let (Some(object), Some(old)) = (review.object, review.updates_from()) else { return };
    if review.settings.has(OLM_USERS)
        && object.boolean(STATIC) == Some(true)
        && !object.equal(PROVIDED_APIS, old, PROVIDED_APIS)
        && review.settings.texts(OLM_USERS).contains(&review.request.user.username)
    {
        let message =
            "OLM does not modify the olm.providedAPIs annotation of a static Operator group";
        findings.deny("OPG-19", "metadata.annotations[olm.providedAPIs]", message);
    }
}

/// OPG-35: only the configured groups of users write OperatorGroups.
fn admins(review: &Review<'_>, findings: &mut Findings<'_>) {
    if !review.settings.has(ADMIN_GROUPS) {
        return;
    }
    let user = &review.request.user;
    let allowed = review.settings.texts(ADMIN_GROUPS).iter().any(|g| user.groups.contains(g))
        || is_olm(review.settings, &user.username)
        || (review.request.operation != Operation::Create
            && COLLECTORS.contains(&user.username.as_str()));
    if !allowed {
        findings.deny("OPG-35", "", "only cluster administrators may manage Operator groups");
    }
}

fn is_olm(settings: &Document, username: &str) -> bool {
    if settings.has(OLM_USERS) {
        settings.texts(OLM_USERS).iter().any(|user| user == username)
    } else {
        OLM.contains(&username)
    }
}
