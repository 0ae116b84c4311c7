//! Who may write BundleDeployments.

use opgate_sdk::identities::is_collector;
use opgate_sdk::{Operation, Report, Review, rule, rules};

use crate::targets::DEPLOYMENT;

rules![RPK_24];

rule! {
    /// only the configured users and groups write BundleDeployments
    ///
    /// Who creates, updates or deletes a BundleDeployment, of `v1alpha1` or `v1alpha2`, is in
    /// `rukpak.allowedUsers` or a member of a group in `rukpak.allowedGroups`. The rule is off
    /// until one of these settings is there; an empty list allows nobody. A level in `rules` does
    /// not replace them: with it alone the rule finds nothing.
    ///
    /// The rule never rejects RukPak's users (`identities.rukpak`, or those of the profile:
    /// `core-admin` and `helm-provisioner-admin` of `openshift-rukpak`, or of `rukpak-system` under
    /// `upstream`) and service accounts of the namespaces in `rukpak.controllerNamespaces`. Where
    /// these namespaces are set, RukPak's users count only if `identities.rukpak` is set, or if the
    /// server has found RukPak in the cluster. The garbage collector and the namespace controller
    /// of Kubernetes and `system:kube-controller-manager` may update and delete, not create. The
    /// setting `exempt` does not apply, and what an UPDATE changes makes no difference. Writes of
    /// the status are not judged, and neither are the objects of a cluster that `opgate check`
    /// finds there: nobody knows who wrote them.
    ///
    /// # Why
    ///
    /// A BundleDeployment installs and removes objects in the whole cluster. OpenShift 4.12,
    /// Operators, *BundleDeployment* warns to give access to this API only to those who need it.
    ///
    /// # Repair
    ///
    /// Let a user or a member of the configured groups write the object, or add the user, a group
    /// or the service account of your controller to the settings. `opgate check` writes as the user
    /// `opgate:check`; turn the rule off in the configuration for checks.
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
        on: [DEPLOYMENT: Create | Update | Delete],
        off_until: ["/rukpak/allowedUsers", "/rukpak/allowedGroups"],
        exempt: never,
        source: "OCP 4.12 L1242; OCP 4.15 L1084, L20041",
    }
}

pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let settings = review.settings;
    let (users, groups) = ("/rukpak/allowedUsers", "/rukpak/allowedGroups");
    // A configured level alone does not say who may write.
    if review.is_stored() || !settings.has(users) && !settings.has(groups) {
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

/// Whether the user is a controller that must be able to write: RukPak, a collector of Kubernetes, or
/// whatever runs in a namespace that the settings name.
fn is_controller(review: &Review<'_>) -> bool {
    let Review { request, settings, .. } = *review;
    let account = request.user().username.strip_prefix("system:serviceaccount:");
    let namespace = account.and_then(|account| account.split_once(':')).map(|(ns, _)| ns);
    let namespaces = "/rukpak/controllerNamespaces";
    // Namespaces that somebody names stand in the place of a list that nobody has.
    let by_name = settings.has("/identities/rukpak") || !settings.has(namespaces);
    (by_name && review.identities().is_rukpak(request))
        || is_collector(request)
        || namespace.is_some_and(|own| settings.texts(namespaces).iter().any(|named| named == own))
}
