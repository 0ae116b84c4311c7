//! Whether the policies know the cluster and its controllers.

use opgate_admission::policy::{Origin, Profile};

use crate::cli::doctor::catalog::identities::{PROFILE, UNTRUSTED};
use crate::cli::doctor::facts::Facts;
use crate::cli::doctor::facts::object::Kind;
use crate::cli::doctor::finding::{At, Findings, word};

const WHAT: &str = "profile and identities";

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let Some(trust) = &facts.expected.trust else {
        let why = match &facts.platform {
            Some(Err(why)) => why.as_str(),
            _ if facts.olm.is_empty() => return,
            _ => "what the servers have found in the cluster is not in files: examine the cluster",
        };
        return found.unchecked(WHAT, why);
    };
    if let Some(Ok(platform)) = &facts.platform
        && trust.origin == Origin::Configuration
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
            &PROFILE,
            At::other("the profile of the configuration"),
            "profile",
            &what,
            repair,
        );
    }
    if !found.needs(facts, Kind::ClusterRoleBinding, WHAT) {
        return;
    }
    for user in facts.olm.iter().filter(|user| !trust.olm.users.contains(user)) {
        let what = format!(
            "it has the role of OLM, and policies do not trust it: they trust {}",
            trust.olm
        );
        let repair = format!("add {} to identities.olm in the configuration", word(user));
        found.add(&UNTRUSTED, At::other(user), "", &what, &repair);
    }
}
