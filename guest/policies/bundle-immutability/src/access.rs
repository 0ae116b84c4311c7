//! The users with permission to write BundleDeployments.

use opgate_sdk::identities::is_garbage_collector;
use opgate_sdk::{Operation, Report, Review, rule, rules};

use crate::targets::DEPLOYMENT;

rules![RPK_24];

rule! {
    /// only the configured users and groups write BundleDeployments
    ///
    /// The user who creates, updates or deletes a BundleDeployment, of `v1alpha1` or `v1alpha2`, is
    /// in `rukpak.allowedUsers` or a member of a group in `rukpak.allowedGroups`. The rule is off
    /// until one of these settings is set; an empty list allows no user. A level in `rules` does
    /// not replace the settings: without them the rule reports nothing.
    ///
    /// The rule always accepts RukPak's users (`identities.rukpak`, or those of the profile:
    /// `core-admin` and `helm-provisioner-admin` of `openshift-rukpak`, or of `rukpak-system` under
    /// `upstream`) and service accounts of the namespaces in `rukpak.controllerNamespaces`. If
    /// these namespaces are set, RukPak's users count only if `identities.rukpak` is set, or if the
    /// server has found RukPak in the cluster. The garbage collector and the namespace controller
    /// of Kubernetes and `system:kube-controller-manager` can update and delete, but not create.
    /// The setting `exempt` does not apply, and the rule evaluates every UPDATE, regardless of its
    /// changes. Writes of the status are not evaluated. Existing objects that `opgate check` reads
    /// from a cluster are not evaluated either, because their writers are unknown.
    ///
    /// # Why
    ///
    /// A BundleDeployment installs and removes objects in the whole cluster. OpenShift 4.12,
    /// Operators, *BundleDeployment*, warns to grant access to this API only to users who need it.
    ///
    /// # Remediation
    ///
    /// Write the object as a configured user or as a member of a configured group, or add the user,
    /// a group or the service account of your controller to the settings. `opgate check` writes as
    /// the user `opgate:check`; turn the rule off in the configuration for checks.
    ///
    /// # Accepted
    ///
    /// CREATE by the user `admin` with these settings:
    ///
    /// ```yaml
    /// rukpak:
    ///   allowedUsers: [admin]
    /// ```
    ///
    /// # Rejected
    ///
    /// CREATE by the user `dev` with the same settings.
    ///
    /// `message: BundleDeployment access is restricted: dev is not allowed to create`
    RPK_24: Deny {
        name: "restricted-bundle-deployment-writers",
        on: [DEPLOYMENT: Create | Update | Delete],
        enabled_by: ["/rukpak/allowedUsers", "/rukpak/allowedGroups"],
        no_exemptions: true,
        source: ["OCP 4.12 L1242", "OCP 4.15 L1084, L20041"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let settings = review.settings;
    let (users, groups) = ("/rukpak/allowedUsers", "/rukpak/allowedGroups");
    // A configured level alone does not define the allowed users.
    if review.is_audit() || !settings.has(users) && !settings.has(groups) {
        return;
    }
    let user = review.request.user();
    let allowed = settings.texts(users).contains(&user.username)
        || settings.texts(groups).iter().any(|group| user.groups.contains(group))
        || is_controller(review);
    if !allowed {
        let verb = match review.operation() {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
            Operation::Connect => "connect to",
        };
        let message = format!(
            "BundleDeployment access is restricted: {} is not allowed to {verb}",
            user.username
        );
        report.add(&RPK_24, "", message);
    }
}

/// Whether the user is a controller that must be able to write: RukPak, a garbage collector of
/// Kubernetes, or a service account in a namespace that the settings name.
fn is_controller(review: &Review<'_>) -> bool {
    let Review { request, settings, .. } = *review;
    let account = request.user().username.strip_prefix("system:serviceaccount:");
    let namespace = account.and_then(|account| account.split_once(':')).map(|(ns, _)| ns);
    let namespaces = "/rukpak/controllerNamespaces";
    // Configured namespaces replace the list of RukPak's users in the profile.
    let by_name = settings.has("/identities/rukpak") || !settings.has(namespaces);
    (by_name && review.identities().is_rukpak(request))
        || is_garbage_collector(request)
        || namespace.is_some_and(|own| settings.texts(namespaces).iter().any(|named| named == own))
}
