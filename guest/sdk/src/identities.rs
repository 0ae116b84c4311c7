//! The users as which OLM, RukPak and the controllers of Kubernetes send requests.
//!
//! ```text
//! profile ─▶ its accounts (opgate_compat::controllers) ─┐
//!                                                         ├─▶ whether a request is theirs
//! settings.identities (replaces them) ────────────────────┘
//! ```
//!
//! A policy trusts only a controller itself with data that only that controller writes. Whole namespaces do
//! not count, and neither do the names of another profile: on OpenShift, all users with the permission to
//! create a project can create the namespace in which upstream's OLM or RukPak runs. A server that reads the profile from the
//! cluster sets the lists to the detected names.

use opgate_compat::controllers::{self, Controller, Platform};

use crate::{Document, Operation, Request};

/// The users as which Kubernetes deletes objects whose owner is gone.
const GARBAGE_COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// The identities for one evaluation, by its settings.
/// A policy that uses them has the properties `identities` and `profile` in its settings schema. The
/// host sets both from the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Identities<'d>(pub &'d Document);

impl Identities<'_> {
    /// Reports whether the request comes from OLM.
    #[must_use]
    pub fn is_olm(self, request: &Request<'_>) -> bool {
        self.is_one_of("/identities/olm", Controller::Olm, request)
    }

    /// Reports whether the request comes from RukPak.
    #[must_use]
    pub fn is_rukpak(self, request: &Request<'_>) -> bool {
        self.is_one_of("/identities/rukpak", Controller::Rukpak, request)
    }

    /// Returns the namespaces in which OLM runs.
    #[must_use]
    pub fn olm_namespaces(self) -> Vec<String> {
        const SETTING: &str = "/identities/olm";
        if self.0.has(SETTING) {
            let users = self.0.texts(SETTING);
            let namespace = |user: &String| Some(controllers::parse_user(user)?.0.to_owned());
            return users.iter().filter_map(namespace).collect();
        }
        let accounts = controllers::accounts(Controller::Olm, self.platform());
        accounts.map(|account| account.namespace.to_owned()).collect()
    }

    fn platform(self) -> Platform {
        match self.0.text("/profile").as_deref() {
            Some("upstream") => Platform::Upstream,
            _ => Platform::OpenShift,
        }
    }

    fn is_one_of(self, setting: &str, controller: Controller, request: &Request<'_>) -> bool {
        let user = &request.user().username;
        if self.0.has(setting) {
            return self.0.texts(setting).contains(user);
        }
        controllers::accounts(controller, self.platform()).any(|account| account.is_user(user))
    }
}

/// Reports whether the request comes from a controller of Kubernetes that deletes objects whose owner is
/// gone. Such a controller creates nothing.
#[must_use]
pub fn is_garbage_collector(request: &Request<'_>) -> bool {
    request.operation() != Operation::Create
        && GARBAGE_COLLECTORS.contains(&request.user().username.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(user: &str) -> Request<'static> {
        to(Operation::Create, user)
    }

    fn to(operation: Operation, user: &str) -> Request<'static> {
        let mut parts = crate::RequestParts { operation, ..crate::RequestParts::default() };
        parts.user.username = user.to_owned();
        parts.into()
    }

    fn settings(json: &str) -> Document {
        Document::parse(json).unwrap()
    }

    fn users(controller: Controller, platform: Platform) -> Vec<String> {
        controllers::accounts(controller, platform).map(controllers::ServiceAccount::user).collect()
    }

    #[test]
    fn profile_has_its_own_controllers_and_no_others() {
        for (profile, own, others) in [
            ("{}", Platform::OpenShift, Platform::Upstream),
            (r#"{"profile":"ocp-4.15"}"#, Platform::OpenShift, Platform::Upstream),
            (r#"{"profile":"ocp-4.12"}"#, Platform::OpenShift, Platform::Upstream),
            (r#"{"profile":"ocp-4.5"}"#, Platform::OpenShift, Platform::Upstream),
            (r#"{"profile":"upstream"}"#, Platform::Upstream, Platform::OpenShift),
        ] {
            let settings = settings(profile);
            let identities = Identities(&settings);
            let is_olm = |user: &str| identities.is_olm(&by(user));
            let is_rukpak = |user: &str| identities.is_rukpak(&by(user));
            assert!(users(Controller::Olm, own).iter().all(|user| is_olm(user)), "{profile}");
            assert!(users(Controller::Rukpak, own).iter().all(|user| is_rukpak(user)), "{profile}");
            for user in users(Controller::Olm, others) {
                assert!(!is_olm(&user), "{profile}: {user}");
            }
            for user in users(Controller::Rukpak, others) {
                assert!(!is_rukpak(&user), "{profile}: {user}");
            }
            for user in ["", "olm-operator-serviceaccount", "kubernetes-admin"] {
                assert!(!is_olm(user) && !is_rukpak(user), "{profile}: {user}");
            }
            let other = "system:serviceaccount:rukpak-system:default";
            assert!(!is_rukpak(other), "{profile}");
        }
    }

    #[test]
    fn lists_of_the_settings_replace_those_of_the_profile() {
        let settings =
            settings(r#"{"profile":"upstream","identities":{"olm":["me"],"rukpak":[]}}"#);
        let identities = Identities(&settings);
        assert!(identities.is_olm(&by("me")) && !identities.is_rukpak(&by("me")));
        for controller in [Controller::Olm, Controller::Rukpak] {
            for user in users(controller, Platform::Upstream) {
                assert!(!identities.is_olm(&by(&user)) && !identities.is_rukpak(&by(&user)));
            }
        }
    }

    #[test]
    fn namespaces_of_olm_follow_from_the_profile_or_the_list() {
        for (json, namespaces) in [
            ("{}", &["openshift-operator-lifecycle-manager"][..]),
            (r#"{"profile":"upstream"}"#, &["olm", "operator-lifecycle-manager"]),
            (r#"{"identities":{"olm":["me","system:serviceaccount:a:b"]}}"#, &["a"]),
            (r#"{"profile":"upstream","identities":{"olm":[]}}"#, &[]),
        ] {
            assert_eq!(Identities(&settings(json)).olm_namespaces(), namespaces, "{json}");
        }
    }

    #[test]
    fn garbage_collectors_are_trusted_only_without_create() {
        for user in GARBAGE_COLLECTORS {
            assert!(!is_garbage_collector(&by(user)), "{user}");
            for operation in [Operation::Update, Operation::Delete] {
                assert!(is_garbage_collector(&to(operation, user)), "{user}");
            }
        }
        let other = "system:serviceaccount:kube-system:default";
        assert!(!is_garbage_collector(&to(Operation::Delete, other)));
    }
}
