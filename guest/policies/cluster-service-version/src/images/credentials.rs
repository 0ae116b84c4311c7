//! Permissions of Operators that get their cloud credentials as tokens.

use opgate_sdk::rbac::{self, Permissions};
use opgate_sdk::{Document, rule, rules};

use super::features;
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_98];

const GROUP: &str = "cloudcredential.openshift.io";
const RESOURCE: &str = "credentialsrequests";
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const FEATURES: [&str; 2] = ["token-auth-aws", "token-auth-azure"];

rule! {
    /// a ClusterServiceVersion that gets cloud tokens has permissions for CredentialsRequests
    ///
    /// If the annotation `features.operators.openshift.io/token-auth-aws` or
    /// `features.operators.openshift.io/token-auth-azure` is `"true"`, the rules of
    /// `spec.install.spec.clusterPermissions` grant the verbs `create`, `delete`, `get`, `list`,
    /// `patch`, `update` and `watch` on `credentialsrequests` of `cloudcredential.openshift.io`.
    /// The verbs may be in several rules; `*` counts, and a rule with `resourceNames` does not.
    /// There is one warning for each annotation, with the missing verbs. On UPDATE, the rule
    /// evaluates only annotations that are new, and permissions that change.
    ///
    /// # Why
    ///
    /// The Operator creates a CredentialsRequest, and the Cloud Credential Operator responds with a
    /// Secret (OpenShift 4.15, Operators, *CCO-based workflow for OLM-managed Operators*). Without
    /// the permission the Operator gets no credentials. Users can create the CredentialsRequest
    /// themselves, so this is a warning.
    ///
    /// # Remediation
    ///
    /// Add the rule below, or describe how users create the CredentialsRequest.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// clusterPermissions:
    /// - rules:
    ///   - apiGroups: [cloudcredential.openshift.io]
    ///     resources: [credentialsrequests]
    ///     verbs: [create, delete, get, list, patch, update, watch]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// annotations: {features.operators.openshift.io/token-auth-azure: "true"}
    /// ```
    ///
    /// `message: the CSV declares features.operators.openshift.io/token-auth-azure but
    /// clusterPermissions do not grant create, delete, get, list, patch, update, watch on
    /// cloudcredential.openshift.io credentialsrequests`
    CSV_98: Warn {
        name: "token-auth-credentials-request-permissions",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.15 L16202-16255, L16637-16656, L16708-16755"],
    }
}

/// Whether the permissions allow the Operator to get its credentials as tokens.
pub(super) fn are_granted(csv: &Document) -> bool {
    missing_verbs(csv).is_empty()
}

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    let object = csv.object;
    let mut declared =
        FEATURES.into_iter().filter(|feature| features::declares_feature(object, feature));
    let Some(first) = declared.next() else { return };
    // The description of a CSV in a catalog has no permissions.
    if !csv.is_on(&CSV_98) || !csv.has_member_set("install") {
        return;
    }
    let are_permissions_new = csv.touches_json("/spec/install/spec/clusterPermissions");
    let old = csv.ratchet_base();
    let is_new = |feature: &&str| {
        are_permissions_new || old.is_none_or(|old| !features::declares_feature(old, feature))
    };
    let evaluated: Vec<&str> = [first].into_iter().chain(declared).filter(is_new).collect();
    if evaluated.is_empty() {
        return;
    }
    let missing = missing_verbs(object);
    if missing.is_empty() {
        return;
    }
    for feature in evaluated {
        let annotation = format!("{}{feature}", features::FEATURE_PREFIX);
        let message = format!(
            "the CSV declares {annotation} but clusterPermissions do not grant {} on {GROUP} {RESOURCE}",
            missing.join(", ")
        );
        csv.add(&CSV_98, &format!("metadata.annotations[{annotation}]"), message);
    }
}

/// Verbs that no rule grants.
fn missing_verbs(csv: &Document) -> Vec<&'static str> {
    let mut missing = VERBS.to_vec();
    rbac::each(csv, Permissions::Cluster, |rule| {
        let is_about = rule.has_group(&[GROUP, "*"])
            && rule.has_resource(&[RESOURCE, "*"])
            && rule.is_unnamed();
        if is_about {
            missing.retain(|verb| !rule.has_verb(&[verb, "*"]));
        }
        !missing.is_empty()
    });
    missing
}
