//! The users as which OLM, RukPak and the controllers of Kubernetes send requests.
//!
//! ```text
//! profile ─▶ its list ─┐
//!                      ├─▶ exact user names ─▶ whether a request is theirs
//! settings.identities ─┘   (replaces the list)
//! ```
//!
//! A policy trusts only a controller itself with what only that controller writes. Whole namespaces
//! do not count, and neither do the names of another profile: on OpenShift, anybody who can create
//! a project can create the namespace in which upstream's OLM runs.

use crate::{Document, Operation, Request};

const OPENSHIFT_OLM: [&str; 1] =
    ["system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount"];

/// Upstream's manifests, and those of distributions that use them under another name.
const UPSTREAM_OLM: [&str; 2] = [
    "system:serviceaccount:olm:olm-operator-serviceaccount",
    "system:serviceaccount:operator-lifecycle-manager:olm-operator-serviceaccount",
];

/// RukPak v0.16 to v0.19, `manifests/base`.
const RUKPAK: [&str; 3] = [
    "system:serviceaccount:rukpak-system:core-admin",
    "system:serviceaccount:rukpak-system:helm-provisioner-admin",
    "system:serviceaccount:rukpak-system:webhooks-admin",
];

/// The users as which Kubernetes deletes objects whose owner is gone.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// The identities for one evaluation, by its settings.
/// A policy that uses them has the property `identities` in its settings schema and, if it asks
/// about OLM, `profile`. The host sets both from the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Identities<'d>(pub &'d Document);

impl Identities<'_> {
    /// Whether the request comes from OLM.
    #[must_use]
    pub fn is_olm(self, request: &Request<'_>) -> bool {
        let by_profile: &[&str] = match self.0.text("/profile").as_deref() {
            Some("upstream") => &UPSTREAM_OLM,
            _ => &OPENSHIFT_OLM,
        };
        self.is_one_of("/identities/olm", by_profile, request)
    }

    /// Whether the request comes from RukPak.
    #[must_use]
    pub fn is_rukpak(self, request: &Request<'_>) -> bool {
        self.is_one_of("/identities/rukpak", &RUKPAK, request)
    }

    fn is_one_of(self, setting: &str, by_profile: &[&str], request: &Request<'_>) -> bool {
        let user = &request.user().username;
        if self.0.has(setting) {
            self.0.texts(setting).contains(user)
        } else {
            by_profile.contains(&user.as_str())
        }
    }
}

/// Whether the request comes from a controller of Kubernetes that deletes objects whose owner is
/// gone. Such a controller creates nothing.
#[must_use]
pub fn is_collector(request: &Request<'_>) -> bool {
    request.operation() != Operation::Create
        && COLLECTORS.contains(&request.user().username.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(user: &str) -> Request<'static> {
        to(Operation::Create, user)
    }

    fn to(operation: Operation, user: &str) -> Request<'static> {
        let mut parts = crate::Parts { operation, ..crate::Parts::default() };
        parts.user.username = user.to_owned();
        parts.into()
    }

    fn settings(json: &str) -> Document {
        Document::parse(json).unwrap()
    }

    #[test]
    fn a_profile_has_its_own_olm_and_no_other() {
        let [openshift] = OPENSHIFT_OLM;
        for (profile, own, others) in [
            ("{}", &OPENSHIFT_OLM[..], &UPSTREAM_OLM[..]),
            (r#"{"profile":"ocp-4.15"}"#, &OPENSHIFT_OLM, &UPSTREAM_OLM),
            (r#"{"profile":"ocp-4.12"}"#, &OPENSHIFT_OLM, &UPSTREAM_OLM),
            (r#"{"profile":"ocp-4.5"}"#, &OPENSHIFT_OLM, &UPSTREAM_OLM),
            (r#"{"profile":"upstream"}"#, &UPSTREAM_OLM, &OPENSHIFT_OLM),
        ] {
            let settings = settings(profile);
            let is_olm = |user: &&str| Identities(&settings).is_olm(&by(user));
            assert!(own.iter().all(is_olm), "{profile}");
            assert!(!others.iter().any(is_olm), "{profile}");
            let namespace = openshift.rsplit_once(':').unwrap().0;
            for user in ["", "olm-operator-serviceaccount", "kubernetes-admin", namespace] {
                assert!(!is_olm(&user), "{profile}: {user}");
            }
            assert!(!is_olm(&format!("{openshift}2").as_str()));
        }
    }

    #[test]
    fn a_list_of_the_settings_replaces_that_of_the_profile() {
        let settings =
            settings(r#"{"profile":"upstream","identities":{"olm":["me"],"rukpak":[]}}"#);
        let identities = Identities(&settings);
        assert!(identities.is_olm(&by("me")) && !identities.is_rukpak(&by("me")));
        assert!(!UPSTREAM_OLM.iter().any(|user| identities.is_olm(&by(user))));
        assert!(!RUKPAK.iter().any(|user| identities.is_rukpak(&by(user))));
    }

    #[test]
    fn rukpak_is_its_accounts_and_not_its_namespace() {
        let settings = settings("{}");
        let is_rukpak = |user: &&str| Identities(&settings).is_rukpak(&by(user));
        assert!(RUKPAK.iter().all(is_rukpak));
        assert!(!is_rukpak(&"system:serviceaccount:rukpak-system:default"));
    }

    #[test]
    fn collectors_create_nothing() {
        for user in COLLECTORS {
            assert!(!is_collector(&by(user)), "{user}");
            for operation in [Operation::Update, Operation::Delete] {
                assert!(is_collector(&to(operation, user)), "{user}");
            }
        }
        let other = "system:serviceaccount:kube-system:default";
        assert!(!is_collector(&to(Operation::Delete, other)));
    }
}
