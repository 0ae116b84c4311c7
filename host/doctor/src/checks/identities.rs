//! Whether the policies know the cluster and its controllers.

use opgate_admission::policy::{Profile, ValueOrigin};

use crate::facts::Facts;
use crate::facts::object::Kind;
use crate::finding::{Findings, ObjectReference, shell_word};
use crate::finding_docs::identities::{UNTRUSTED_OLM_USER, WRONG_PROFILE};

const CHECK_NAME: &str = "profile and identities";

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let Some(trust) = &facts.expected.trust else {
        let why = match &facts.platform {
            Some(Err(why)) => &why.to_string(),
            _ if facts.olm_accounts.is_empty() => return,
            _ => "what the servers have found in the cluster is not in files: examine the cluster",
        };
        return found.add_unchecked(CHECK_NAME, why);
    };
    if let Some(Ok(platform)) = &facts.platform
        && trust.origin == ValueOrigin::Configuration
        && (trust.profile == Profile::Upstream.as_str()) != (platform.profile == Profile::Upstream)
    {
        let what = match &platform.version {
            Some(version) => {
                format!("it is {}, and the cluster is OpenShift {version}", trust.profile)
            }
            None => format!("it is {}, and the cluster is not OpenShift", trust.profile),
        };
        let repair = "remove `profile` from the configuration, or set it to auto";
        found.add(
            &WRONG_PROFILE,
            ObjectReference::other("the profile of the configuration"),
            "profile",
            &what,
            repair,
        );
    }
    if !found.require_kind(facts, Kind::ClusterRoleBinding, CHECK_NAME) {
        return;
    }
    for user in facts.olm_accounts.iter().filter(|user| !trust.olm.users.contains(user)) {
        let what = format!(
            "it has the role of OLM, and policies do not trust it: they trust {}",
            trust.olm
        );
        let repair = format!("add {} to identities.olm in the configuration", shell_word(user));
        found.add(&UNTRUSTED_OLM_USER, ObjectReference::other(user), "", &what, &repair);
    }
}
