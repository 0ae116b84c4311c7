//! CRDs of a bundle, and the APIs that its `ClusterServiceVersion` owns. After api
//! `pkg/validation/internal/bundle.go`.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, names, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, File};
use crate::manifests::{CRD, CSV, Manifest};

rules![RBF_07, RBF_08, RBF_09];

/// One version of an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ApiKey {
    group: String,
    version: String,
    kind: String,
}

impl ApiKey {
    fn quoted(&self) -> String {
        quote(&names::group_version_kind(&self.group, &self.version, &self.kind))
    }

    fn group_kind(&self) -> (String, String) {
        (self.group.clone(), self.kind.clone())
    }
}

/// A key and its field.
struct LocatedKey {
    key: ApiKey,
    field: String,
}

rule! {
    /// every CRD that the ClusterServiceVersion owns is in manifests/
    ///
    /// For each entry of `spec.customresourcedefinitions.owned` in the ClusterServiceVersion, a CRD
    /// in `manifests/` defines the same group, version and kind. The group of the entry is the part
    /// of its `name` after the first dot. Versions of the CRD are those in `spec.versions`, or
    /// `spec.version` of a `v1beta1` CRD without that list. Only the first document of a file
    /// counts (RBF-32). If a CRD is missing and an unreadable file has the kind in its name, the
    /// rule is skipped: that file can contain the CRD. In the legacy format (RBF-28) the rule
    /// applies to each version directory.
    ///
    /// # Why
    ///
    /// OLM installs the CRDs from the bundle. Without the CRD the Operator cannot serve an API that
    /// it claims to own. The registry rejects such a bundle, see OpenShift 4.12, Operators, *Bundle
    /// format*.
    ///
    /// # Remediation
    ///
    /// Add the CRD, correct `name`, `version` and `kind` of the entry, or remove the entry if the
    /// Operator does not own the API. Move a CRD that is a later document of a file to a separate
    /// file.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: ClusterServiceVersion
    /// metadata: {name: etcdoperator.v0.9.4}
    /// spec:
    ///   customresourcedefinitions:
    ///     owned:
    ///     - {name: etcdclusters.etcd.database.coreos.com, version: v1beta2, kind: EtcdCluster}
    /// ---
    /// kind: CustomResourceDefinition
    /// spec:
    ///   group: etcd.database.coreos.com
    ///   names: {kind: EtcdCluster}
    ///   versions: [{name: v1beta2}]
    /// ```
    ///
    /// The two documents are two files in `manifests/`.
    ///
    /// # Rejected
    ///
    /// This ClusterServiceVersion without that CRD, or with a CRD that has only the version `v1`.
    ///
    /// `message: owned CRD "etcd.database.coreos.com/v1beta2, Kind=EtcdCluster" not found in bundle
    /// "etcdoperator.v0.9.4"`
    RBF_07: Deny {
        name: "owned-crds-in-bundle",
        on: [BUNDLE: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L305", "OCP 4.15 L274-278", "OCP 4.5 L201, L220", "OKD L23", "api pkg/validation/internal/bundle.go", "operator-registry pkg/lib/validation/bundle.go"],
    }
}

rule! {
    /// every CRD in manifests/ is owned by the ClusterServiceVersion
    ///
    /// For every CRD in `manifests/`, `spec.customresourcedefinitions.owned` of the
    /// ClusterServiceVersion has an entry with its group and kind. Further versions of a CRD need
    /// no entry if the version of one entry exists in `manifests/` (RBF-07). A bundle without a
    /// ClusterServiceVersion violates only RBF-06.
    ///
    /// # Why
    ///
    /// The ClusterServiceVersion lists the APIs that an Operator provides. An API in the bundle
    /// that it does not list has no owner. `operator-sdk bundle validate` reports an error, see
    /// OpenShift 4.12, Operators, *Validating Operator bundles*.
    ///
    /// # Remediation
    ///
    /// Add an entry to `spec.customresourcedefinitions.owned`, or remove the CRD from the bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: ClusterServiceVersion
    /// spec:
    ///   customresourcedefinitions:
    ///     owned: [{name: memcacheds.cache.example.com, version: v1alpha1, kind: Memcached}]
    /// ```
    ///
    /// # Rejected
    ///
    /// If the ClusterServiceVersion `etcdoperator.v0.9.4` has no such entry:
    ///
    /// ```yaml
    /// kind: CustomResourceDefinition
    /// spec:
    ///   group: cache.example.com
    ///   names: {kind: Memcached}
    ///   versions: [{name: v1alpha1}]
    /// ```
    ///
    /// `message: CRD "cache.example.com/v1alpha1, Kind=Memcached" is present in bundle
    /// "etcdoperator.v0.9.4" but not defined in CSV`
    RBF_08: Deny {
        name: "bundle-crds-owned-by-csv",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L22661-22667", "OCP 4.15 L17241-17400", "api pkg/validation/internal/bundle.go"],
    }
}

rule! {
    /// manifests/ contains each version of a CRD only once
    ///
    /// The CRDs in `manifests/` define each group, version and kind once: neither two files nor two
    /// entries of `spec.versions` define the same one.
    ///
    /// # Why
    ///
    /// The cluster can have only one definition of an API version, and two definitions are
    /// ambiguous. The validators of operator-framework/api reject such a bundle.
    ///
    /// # Remediation
    ///
    /// Remove the duplicate. Define several versions of a kind in `spec.versions` of one CRD.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: CustomResourceDefinition
    /// spec:
    ///   group: etcd.database.coreos.com
    ///   names: {kind: EtcdCluster}
    ///   versions: [{name: v1beta2}, {name: v1}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: CustomResourceDefinition
    /// spec:
    ///   group: etcd.database.coreos.com
    ///   names: {kind: EtcdCluster}
    ///   versions: [{name: v1beta2}, {name: v1beta2}]
    /// ```
    ///
    /// `message: duplicate CRD "etcd.database.coreos.com/v1beta2, Kind=EtcdCluster" in bundle
    /// "etcdoperator.v0.9.4"`
    RBF_09: Deny {
        name: "unique-crd-versions-in-bundle",
        on: [BUNDLE: Create | Update],
        source: ["api pkg/validation/internal/bundle.go"],
    }
}

/// The maximum number of unreadable files that are compared with each missing CRD. A bundle has at
/// most a few.
const MAX_FAILED: usize = 16;

/// Whether the name of a file contains a kind, like the usual name of the file of a CRD:
/// `etcdclusters.crd.yaml`.
fn is_named_in(files: &[&File], kind: &str) -> bool {
    let kind = kind.to_lowercase();
    !kind.is_empty()
        && files.iter().take(MAX_FAILED).any(|file| file.name().to_lowercase().contains(&kind))
}

/// Evaluates one directory. The directory of a version of a package (`is_bundle` is false) can
/// contain other CRDs. `failed` are its unreadable files: RBF-12 reports these, and one of them can
/// contain the CRD.
pub(crate) fn check(
    directory: &BundleDirectory<'_>,
    manifests: &[Manifest<'_>],
    is_bundle: bool,
    failed: &[&File],
    report: &mut Report<'_>,
) {
    let mut defined = Vec::new();
    for crd in manifests.iter().filter(|manifest| manifest.kind == CRD) {
        if let Some(object) = directory.first_document(crd.file) {
            add_versions(&object, crd, &mut defined);
        }
    }
    let keys: BTreeSet<&ApiKey> = defined.iter().map(|found| &found.key).collect();
    let mut owned_kinds = BTreeSet::new();
    let mut bundle = None;
    let mut is_unknown = false;
    for csv in manifests.iter().filter(|manifest| manifest.kind == CSV) {
        let Some(object) = directory.first_document(csv.file) else { continue };
        let name = quote(&csv.name);
        for LocatedKey { key, field } in owned_keys(&object, csv) {
            if keys.contains(&key) {
                owned_kinds.insert(key.group_kind());
            } else if is_named_in(failed, &key.kind) {
                is_unknown = true;
            } else {
                let message = format!("owned CRD {} not found in bundle {name}", key.quoted());
                report.add(&RBF_07, field, message);
            }
        }
        bundle.get_or_insert(name);
    }
    if is_unknown {
        report.skip(&RBF_07, "", "a file that may hold the CRD cannot be read");
    }
    if !is_bundle {
        return;
    }
    let name = bundle.clone().unwrap_or_else(|| quote(""));
    let mut seen = BTreeSet::new();
    for LocatedKey { key, field } in &defined {
        if !seen.insert(key) {
            let message = format!("duplicate CRD {} in bundle {name}", key.quoted());
            report.add(&RBF_09, field.as_str(), message);
        // Without a ClusterServiceVersion (RBF-06) no CRD is owned, and no CRD is superfluous.
        } else if bundle.is_some() && !owned_kinds.contains(&key.group_kind()) {
            let message =
                format!("CRD {} is present in bundle {name} but not defined in CSV", key.quoted());
            report.add(&RBF_08, field.as_str(), message);
        }
    }
}

/// The versions that a CRD defines. A `v1beta1` CRD can have one version and no list.
fn add_versions(crd: &Document, manifest: &Manifest<'_>, found: &mut Vec<LocatedKey>) {
    let group = crd.text_or_empty("/spec/group");
    let kind = crd.text_or_empty("/spec/names/kind");
    let mut add = |version: String, field: &str| {
        let key = ApiKey { group: group.clone(), version, kind: kind.clone() };
        found.push(LocatedKey { key, field: manifest.file.within(field) });
    };
    let has_list = crd.kind("/spec/versions") == Kind::List
        && crd.length("/spec/versions").unwrap_or_default() > 0;
    if has_list {
        for (index, version) in crd.items("/spec/versions").enumerate() {
            add(version.text_or_empty("/name"), &format!("spec.versions[{index}].name"));
        }
    } else if manifest.api_version.ends_with("/v1beta1") {
        add(crd.text_or_empty("/spec/version"), "spec.version");
    }
}

/// The APIs that a `ClusterServiceVersion` owns. The name is `<plural>.<group>`.
fn owned_keys(csv: &Document, manifest: &Manifest<'_>) -> Vec<LocatedKey> {
    let list = "spec.customresourcedefinitions.owned";
    let entries = csv.items("/spec/customresourcedefinitions/owned").enumerate();
    let found = entries.map(|(index, entry)| {
        let name = entry.text_or_empty("/name");
        let group = name.split_once('.').map_or(name.as_str(), |(_, group)| group).to_owned();
        let (version, kind) = (entry.text_or_empty("/version"), entry.text_or_empty("/kind"));
        let field = manifest.file.within(&format!("{list}[{index}]"));
        LocatedKey { key: ApiKey { group, version, kind }, field }
    });
    found.collect()
}
