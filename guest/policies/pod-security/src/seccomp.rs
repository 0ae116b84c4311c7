//! Seccomp profiles in bundles for versions of OpenShift that do not support them.

use opgate_sdk::openshift;
use opgate_sdk::pods;
use opgate_sdk::{Document, Kind, Report, rule, rules};

use crate::targets::REGISTRY_BUNDLE;

rules![PSA_12];

/// The last version without support.
const LAST_UNSUPPORTED: openshift::Version = (4, 10);

rule! {
    /// bundles for OpenShift 4.10 set no seccomp profile
    ///
    /// If the annotation `com.redhat.openshift.versions` in the metadata of a bundle includes v4.10
    /// or an earlier version (`v4.9`, which means that version and later ones, `=v4.10`,
    /// `v4.9-v4.12` or a list), the pod templates of the CSV in `manifests/` have no
    /// `seccompProfile`, neither in the security context of the pod nor in that of a container. The
    /// rule does not evaluate bundles without the annotation, or with an invalid one (RBF-21). It
    /// reports each template once.
    ///
    /// # Why
    ///
    /// OpenShift 4.10 does not support setting the profile (OpenShift 4.12, Operators, *Ensuring
    /// Operator workloads run in namespaces set to the restricted pod security level*).
    ///
    /// # Remediation
    ///
    /// Remove the profile, or publish the bundle for v4.11 and later only.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations: {com.redhat.openshift.versions: v4.11-v4.12}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # A CSV with seccompProfile {type: RuntimeDefault}, and:
    /// annotations: {com.redhat.openshift.versions: v4.9-v4.12}
    /// ```
    ///
    /// `message: setting the seccomp profile is not supported in OpenShift Container Platform 4.10`
    PSA_12: Warn {
        name: "no-seccomp-profile-for-openshift-4-10",
        on: [REGISTRY_BUNDLE: Create | Update],
        source: ["OCP 4.12 L21875, L21911-21934"],
    }
}

const PROFILE: &str = "/securityContext/seccompProfile";

pub(crate) fn check(bundle: &Document, report: &mut Report<'_>) {
    let columns = [
        "/path",
        "/documents/0/kind",
        "/documents/0/annotations",
        "/documents/0/annotations/com.redhat.openshift.versions",
    ];
    let files = bundle.rows("/spec/files", &columns);
    let is_in = |path: &str, directory: &str| {
        path.strip_prefix(directory).is_some_and(|name| !name.contains('/'))
    };
    // The registry reads the first file with annotations, in the order of their paths.
    let metadata = files
        .iter()
        .filter(|row| row.kind(2) == Kind::Object && is_in(row.text_or_empty(0), "metadata/"))
        .min_by_key(|row| row.text_or_empty(0));
    let versions = metadata.and_then(|row| row.text(3)).and_then(openshift::earliest_version);
    if versions.is_none_or(|earliest| earliest > LAST_UNSUPPORTED) {
        return;
    }
    for (index, row) in files.iter().enumerate() {
        if row.text(1) != Some("ClusterServiceVersion")
            || !is_in(row.text_or_empty(0), "manifests/")
        {
            continue;
        }
        let place = format!("spec.files[{index}].documents[0]");
        let Some(csv) = bundle.at(&format!("/spec/files/{index}/documents/0")) else { continue };
        for field in profile_fields(&csv) {
            let message =
                "setting the seccomp profile is not supported in OpenShift Container Platform 4.10";
            report.add(&PSA_12, format!("{place}.{field}"), message);
        }
    }
}

/// The first profile of each pod template.
fn profile_fields(csv: &Document) -> Vec<String> {
    let mut found = Vec::new();
    let is_set = |kind| !matches!(kind, Kind::Missing | Kind::Null);
    pods::each(csv, &pods::in_csv(csv), &[PROFILE], |spec, row| {
        let mut first =
            is_set(row.kind(0)).then(|| format!("{}.securityContext.seccompProfile", spec.field()));
        if first.is_none() {
            spec.each(csv, &[PROFILE], |container| {
                if first.is_none() && is_set(container.row.kind(0)) {
                    first = Some(format!("{}.securityContext.seccompProfile", container.field()));
                }
            });
        }
        found.extend(first);
    });
    found
}
