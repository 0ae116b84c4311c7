//! The service accounts as which OLM and RukPak run, and what shows that an administrator installed
//! them.
//!
//! ```text
//! fixed profile ──▶ accounts of its platform, by name alone
//! cluster ────────▶ accounts of any platform, whose ClusterRoleBinding gives them the whole cluster
//! ```
//!
//! A namespace and an account prove nothing: a user with permission to create a namespace can create both. A
//! ClusterRoleBinding to a role with all rights can only be created by a user with all of them, because an
//! API server prevents escalation.

/// A controller whose writes policies trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// The Operator Lifecycle Manager, version 0.
    Olm,
    /// RukPak.
    Rukpak,
}

/// Platform of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// OpenShift.
    OpenShift,
    /// Kubernetes with upstream's manifests.
    Upstream,
}

/// A service account in the manifests of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceAccount {
    /// The controller that it belongs to.
    pub controller: Controller,
    /// Its namespace.
    pub namespace: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The ClusterRoleBinding that gives it its rights.
    pub binding: &'static str,
    /// The ClusterRole in it.
    pub role: &'static str,
    /// The platform on which its name alone is trusted, if the administrator has chosen that platform.
    pub platform: Option<Platform>,
}

/// The ClusterRole of OLM, the same in all of its manifests.
pub const OLM_ROLE: &str = "system:controller:operator-lifecycle-manager";

/// Creates an entry for OLM in a namespace: its chart names the binding after the namespace.
const fn olm(namespace: &'static str, binding: &'static str, platform: Platform) -> ServiceAccount {
    ServiceAccount {
        controller: Controller::Olm,
        namespace,
        name: "olm-operator-serviceaccount",
        binding,
        role: OLM_ROLE,
        platform: Some(platform),
    }
}

/// Creates an entry for RukPak, whose account, binding and role have one name.
const fn rukpak(
    namespace: &'static str,
    name: &'static str,
    platform: Option<Platform>,
) -> ServiceAccount {
    ServiceAccount {
        controller: Controller::Rukpak,
        namespace,
        name,
        binding: name,
        role: name,
        platform,
    }
}

/// All of them. RukPak's webhooks have an account as well, which only reads.
pub const ACCOUNTS: [ServiceAccount; 9] = [
    olm(
        "openshift-operator-lifecycle-manager",
        "olm-operator-binding-openshift-operator-lifecycle-manager",
        Platform::OpenShift,
    ),
    // The quickstart of upstream, and the values that its chart comes with.
    olm("olm", "olm-operator-binding-olm", Platform::Upstream),
    olm(
        "operator-lifecycle-manager",
        "olm-operator-binding-operator-lifecycle-manager",
        Platform::Upstream,
    ),
    rukpak("openshift-rukpak", "core-admin", Some(Platform::OpenShift)),
    rukpak("openshift-rukpak", "helm-provisioner-admin", Some(Platform::OpenShift)),
    // v0.16 to v0.19.
    rukpak("rukpak-system", "core-admin", Some(Platform::Upstream)),
    rukpak("rukpak-system", "helm-provisioner-admin", Some(Platform::Upstream)),
    // v0.20 and later.
    rukpak("olmv1-system", "core-admin", None),
    rukpak("olmv1-system", "helm-provisioner-admin", None),
];

impl ServiceAccount {
    /// Returns the user as which it sends requests.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Reports whether a user is this account.
    #[must_use]
    pub fn is_user(&self, user: &str) -> bool {
        parse_user(user) == Some((self.namespace, self.name))
    }
}

/// Returns the namespace and name of the service account that a user is.
#[must_use]
pub fn parse_user(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// Returns the accounts of a controller that are trusted by name on a chosen platform.
pub fn accounts(
    controller: Controller,
    platform: Platform,
) -> impl Iterator<Item = &'static ServiceAccount> {
    let is_one = move |account: &&ServiceAccount| {
        account.controller == controller && account.platform == Some(platform)
    };
    ACCOUNTS.iter().filter(is_one)
}

/// Reports whether the namespace of OLM is the one of the global catalogs: its own, except on OpenShift,
/// which has a separate one for them.
#[must_use]
pub fn has_global_catalogs(namespace_of_olm: &str) -> bool {
    !accounts(Controller::Olm, Platform::OpenShift).any(|olm| olm.namespace == namespace_of_olm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_matches_its_user_and_no_other() {
        for account in ACCOUNTS {
            let user = account.user();
            assert!(account.is_user(&user), "{user}");
            let prefix = user.rsplit_once(':').unwrap().0;
            for other in ["", account.name, prefix, &format!("{user}2"), &format!("x{user}")] {
                assert!(!account.is_user(other), "{other}");
            }
        }
    }

    #[test]
    fn platforms_share_no_account() {
        for controller in [Controller::Olm, Controller::Rukpak] {
            let of = |platform| accounts(controller, platform).map(ServiceAccount::user);
            let upstream: Vec<_> = of(Platform::Upstream).collect();
            assert!(!upstream.is_empty() && of(Platform::OpenShift).count() > 0);
            assert!(of(Platform::OpenShift).all(|user| !upstream.contains(&user)));
        }
    }

    #[test]
    fn catalogs_next_to_olm_are_global_except_on_openshift() {
        assert!(!has_global_catalogs("openshift-operator-lifecycle-manager"));
        assert!(has_global_catalogs("olm") && has_global_catalogs("my-olm"));
    }
}
