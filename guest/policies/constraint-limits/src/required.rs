//! The needs of a bundle, and APIs that its ClusterServiceVersion requires without a dependency.

use std::collections::BTreeSet;

use opgate_constraint::names::Gvk;
use opgate_sdk::{Document, rule, rules};

use crate::scan::Scan;
use crate::targets::REGISTRY_BUNDLE;

rules![CON_25];

/// The needs of a bundle in all of its files.
#[derive(Default)]
pub(crate) struct Requirements {
    /// APIs.
    pub(crate) gvks: BTreeSet<Gvk>,
    /// Names of packages.
    pub(crate) packages: BTreeSet<String>,
}

rule! {
    /// every API that a CSV requires is a dependency
    ///
    /// Every API under `spec.customresourcedefinitions.required` and
    /// `spec.apiservicedefinitions.required` of a ClusterServiceVersion in a bundle is named by an
    /// `olm.gvk` dependency, an `olm.gvk.required` property, or a `gvk` anywhere in an
    /// `olm.constraint` in `metadata/`. The group of a CRD is the part of its name after the first
    /// dot. If `metadata/` names any package, in a dependency, in `olm.package.required` or in a
    /// constraint, the rule reports nothing: the package can provide the API.
    ///
    /// # Why
    ///
    /// Other Operators can add or remove APIs at any time. OpenShift 4.12, Operators, *Dependency
    /// best practices*, recommends an `olm.gvk` dependency on any API that the Operator requires,
    /// unless the bundle names a package instead.
    ///
    /// # Remediation
    ///
    /// Add the API to `metadata/dependencies.yaml`, with the group, version and kind from the
    /// ClusterServiceVersion.
    ///
    /// # Accepted
    ///
    /// The required API of the next example, with this in `metadata/dependencies.yaml`:
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.gvk
    ///   value: {group: etcd.database.coreos.com, version: v1beta2, kind: EtcdCluster}
    /// ```
    ///
    /// # Rejected
    ///
    /// A ClusterServiceVersion with these fields, without `dependencies.yaml` and
    /// `properties.yaml`:
    ///
    /// ```yaml
    /// spec:
    ///   customresourcedefinitions:
    ///     required:
    ///     - {name: etcdclusters.etcd.database.coreos.com, version: v1beta2, kind: EtcdCluster}
    /// ```
    ///
    /// message: `CSV requires etcdclusters.etcd.database.coreos.com but dependencies.yaml has no
    /// olm.gvk dependency for it`
    CON_25: Warn {
        name: "required-apis-are-dependencies",
        on: [REGISTRY_BUNDLE: Create | Update],
        source: ["OCP 4.12 L3089", "OCP 4.15 L2228-2294"],
    }
}

/// APIs that a CSV requires without a dependency.
pub(crate) fn check(
    csv: &Document,
    at: &str,
    requirements: &Requirements,
    scan: &mut Scan<'_, '_>,
) {
    // A required package can provide any API.
    if !requirements.packages.is_empty() {
        return;
    }
    for (list, is_crd) in [
        ("/spec/customresourcedefinitions/required", true),
        ("/spec/apiservicedefinitions/required", false),
    ] {
        for (index, api) in csv.items(list).enumerate() {
            let [name, group, version, kind] =
                ["/name", "/group", "/version", "/kind"].map(|pointer| api.text_or_empty(pointer));
            let (group, shown) = if is_crd {
                let group = name.split_once('.').map(|(_, group)| group.to_owned());
                (group.unwrap_or_default(), name)
            } else {
                let shown = format!("{kind}.{version}.{group}");
                (group, shown)
            };
            if !requirements.gvks.contains(&Gvk { group, version, kind }) {
                let message = format!(
                    "CSV requires {shown} but dependencies.yaml has no olm.gvk dependency for it"
                );
                let field = format!("{at}{}[{index}]", list.replace('/', "."));
                scan.add(&CON_25, field, message);
            }
        }
    }
}
