//! Who writes OperatorGroups: OPG-19 and OPG-35. Both are off unless the settings name somebody, and
//! nobody is exempt by `exempt`: the settings of the rules themselves say who may.

use opgate_sdk::identities::is_collector;

use crate::Review;
use crate::findings::Findings;
use crate::groups::{PROVIDED_APIS, STATIC};

const OLM_USERS: &str = "/operatorGroup/olmUsers";
const ADMIN_GROUPS: &str = "/operatorGroup/adminGroups";

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
        || is_olm(review)
        || is_collector(review.request);
    if !allowed {
        findings.deny("OPG-35", "", "only cluster administrators may manage Operator groups");
    }
}

/// OLM as the setting of these rules has it, otherwise as the configuration does.
fn is_olm(review: &Review<'_>) -> bool {
    if review.settings.has(OLM_USERS) {
        review.settings.texts(OLM_USERS).contains(&review.request.user.username)
    } else {
        review.is_olms()
    }
}
