//! CRDs of a bundle, and the APIs that its `ClusterServiceVersion` owns. After api
//! `pkg/validation/internal/bundle.go`.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Kind, Report, corrections, json_string, names, rule, rules};

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
struct LocatedKey<'f> {
    key: ApiKey,
    field: String,
    file: &'f File,
    /// The name of the CRD: `<plural>.<group>`.
    name: String,
    /// The position in `spec.versions` of a CRD, or in the list of owned ones.
    index: usize,
}

/// The kinds of the CRDs of a bundle by the names of the CRDs, which identify them.
struct NamesOfCrds<'d>(BTreeMap<&'d str, &'d ApiKey>);

impl<'d> NamesOfCrds<'d> {
    fn of(defined: &'d [LocatedKey<'_>]) -> Self {
        Self(defined.iter().map(|found| (found.name.as_str(), &found.key)).collect())
    }

    /// The kind of the CRD with this name and group, if it is not that of the key.
    fn kind_of(&self, name: &str, key: &ApiKey) -> Option<&'d str> {
        let found = self.0.get(name).filter(|found| found.group == key.group)?;
        (found.kind != key.kind && !found.kind.is_empty()).then_some(&found.kind)
    }
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
    /// `opgate check --fix` corrects this where only one value is possible.
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
    /// `opgate check --fix` corrects this where only one value is possible.
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
    let names_of_crds = NamesOfCrds::of(&defined);
    let mut owned_kinds = BTreeSet::new();
    let mut owned_names = BTreeSet::new();
    let mut bundle = None;
    let mut owner = None;
    let mut is_unknown = false;
    for csv in manifests.iter().filter(|manifest| manifest.kind == CSV) {
        let Some(object) = directory.first_document(csv.file) else { continue };
        let name = quote(&csv.name);
        owner.get_or_insert(csv);
        let entries = owned_keys(&object, csv);
        owned_names.extend(entries.iter().map(|entry| entry.name.clone()));
        let (found, missing): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| keys.contains(&entry.key));
        owned_kinds.extend(found.iter().map(|entry| entry.key.group_kind()));
        for LocatedKey { key, field, name: crd_name, file, index } in missing {
            if is_named_in(failed, &key.kind) {
                is_unknown = true;
            } else {
                let message = format!("owned CRD {} not found in bundle {name}", key.quoted());
                report.add(&RBF_07, field, message);
                report.set_fix(&RBF_07, || {
                    // A kind in lower case is the mistake of the CRD.
                    let kind = names_of_crds.kind_of(&crd_name, &key)?;
                    let kind = Some(kind).filter(|kind| kind.starts_with(char::is_uppercase))?;
                    let is_owned = owned_kinds.contains(&(key.group, kind.to_owned()));
                    let entry = format!("/spec/customresourcedefinitions/owned/{index}/kind");
                    (!is_owned).then(|| corrections::write(file.pointer(&entry), kind))
                });
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
    let mut seen = BTreeMap::new();
    let mut is_fixed = false;
    for located in &defined {
        let LocatedKey { key, field, .. } = located;
        if let Some(first) = seen.insert(key, located) {
            let message = format!("duplicate CRD {} in bundle {name}", key.quoted());
            report.add(&RBF_09, field.as_str(), message);
            report.set_fix(&RBF_09, || remove_duplicate(directory, first, located));
            seen.insert(key, first);
        // Without a ClusterServiceVersion (RBF-06) no CRD is owned, and no CRD is superfluous.
        } else if bundle.is_some() && !owned_kinds.contains(&key.group_kind()) {
            let message =
                format!("CRD {} is present in bundle {name} but not defined in CSV", key.quoted());
            report.add(&RBF_08, field.as_str(), message);
            if !is_fixed {
                report.set_fix(&RBF_08, || {
                    is_fixed = true;
                    own_crds(directory, owner?, &defined, &owned_kinds, &owned_names)
                });
            }
        }
    }
}

/// The versions that a CRD defines. A `v1beta1` CRD can have one version and no list.
fn add_versions<'f>(crd: &Document, manifest: &Manifest<'f>, found: &mut Vec<LocatedKey<'f>>) {
    let group = crd.text_or_empty("/spec/group");
    let kind = crd.text_or_empty("/spec/names/kind");
    let file = manifest.file;
    let mut add = |version: String, index: usize, field: &str| {
        let key = ApiKey { group: group.clone(), version, kind: kind.clone() };
        let name = manifest.name.clone();
        found.push(LocatedKey { key, field: file.within(field), file, name, index });
    };
    let has_list = crd.kind("/spec/versions") == Kind::List
        && crd.length("/spec/versions").unwrap_or_default() > 0;
    if has_list {
        for (index, version) in crd.items("/spec/versions").enumerate() {
            add(version.text_or_empty("/name"), index, &format!("spec.versions[{index}].name"));
        }
    } else if manifest.api_version.ends_with("/v1beta1") {
        add(crd.text_or_empty("/spec/version"), 0, "spec.version");
    }
}

/// The groups and kinds of a list of CRDs of a `ClusterServiceVersion`.
fn listed_kinds(csv: &Document, list: &str) -> BTreeSet<(String, String)> {
    let rows = csv.rows(&format!("/spec/customresourcedefinitions/{list}"), &["/name", "/kind"]);
    let kinds = rows.iter().filter_map(|row| {
        let (_, group) = row.text(0)?.split_once('.')?;
        Some((group.to_owned(), row.text(1)?.to_owned()))
    });
    kinds.collect()
}

/// The APIs that a `ClusterServiceVersion` owns. The name is `<plural>.<group>`.
fn owned_keys<'f>(csv: &Document, manifest: &Manifest<'f>) -> Vec<LocatedKey<'f>> {
    let list = "spec.customresourcedefinitions.owned";
    let entries = csv.items("/spec/customresourcedefinitions/owned").enumerate();
    let found = entries.map(|(index, entry)| {
        let name = entry.text_or_empty("/name");
        let group = name.split_once('.').map_or(name.as_str(), |(_, group)| group).to_owned();
        let (version, kind) = (entry.text_or_empty("/version"), entry.text_or_empty("/kind"));
        let field = manifest.file.within(&format!("{list}[{index}]"));
        LocatedKey { key: ApiKey { group, version, kind }, field, file: manifest.file, name, index }
    });
    found.collect()
}

/// The removal of a version that is equal to an earlier one of the same CRD.
fn remove_duplicate(
    directory: &BundleDirectory<'_>,
    first: &LocatedKey<'_>,
    second: &LocatedKey<'_>,
) -> Option<Fix> {
    if first.file.path != second.file.path {
        return None;
    }
    let crd = directory.first_document(first.file)?;
    let fix = corrections::remove_equal(&crd, "/spec/versions", first.index, second.index)?;
    Some(fix.below(&first.file.pointer("")))
}

/// Entries for the CRDs that the ClusterServiceVersion does not own, as `operator-sdk` generates them. A CRD without
/// a description, or without an example where others have one, needs its author, and so does one that the Operator
/// requires. The fix needs a review if only the bundle indicates that the Operator serves the API.
fn own_crds(
    directory: &BundleDirectory<'_>,
    owner: &Manifest<'_>,
    defined: &[LocatedKey<'_>],
    owned_kinds: &BTreeSet<(String, String)>,
    owned_names: &BTreeSet<String>,
) -> Option<Fix> {
    const OWNED: &str = "/spec/customresourcedefinitions/owned";
    const MAX_ENTRIES: usize = 16;
    let csv = directory.first_document(owner.file)?;
    let examples = Examples::of(&csv);
    let required = listed_kinds(&csv, "required");
    let mut added = BTreeSet::new();
    let mut entries = Vec::new();
    let mut is_certain = true;
    for LocatedKey { key, file, index, name, .. } in defined {
        // An entry with another kind: the fix of RBF-07 corrects it.
        if owned_names.contains(name) && !owned_kinds.contains(&key.group_kind()) {
            continue;
        }
        let Some(crd) = directory.first_document(file) else { continue };
        let is_stored = crd.boolean(&format!("/spec/versions/{index}/storage")) != Some(false);
        let is_served = crd.boolean(&format!("/spec/versions/{index}/served")) != Some(false);
        let is_other =
            owned_kinds.contains(&key.group_kind()) || required.contains(&key.group_kind());
        let is_wanted = !is_other && is_stored && is_served;
        if !is_wanted || entries.len() >= MAX_ENTRIES || !added.insert(key.group_kind()) {
            continue;
        }
        let schemas = [
            format!("/spec/versions/{index}/schema/openAPIV3Schema/description"),
            "/spec/validation/openAPIV3Schema/description".to_owned(),
        ];
        let description = schemas.iter().find_map(|schema| crd.text(schema));
        let description = description.map(|text| text.trim().to_owned());
        let name = crd.text_or_empty("/metadata/name");
        let is_complete = name.split_once('.').is_some_and(|(_, group)| group == key.group)
            && !key.version.is_empty()
            && !key.kind.is_empty();
        let Some(description) = description.filter(|text| !text.is_empty()) else { continue };
        if is_complete && examples.allow(key) {
            let is_of_group = owned_kinds.iter().any(|(group, _)| *group == key.group);
            is_certain &= is_of_group || examples.has(key);
            let [description, display_name, kind, name, version] =
                [&description, &display_name(&key.kind), &key.kind, &name, &key.version]
                    .map(|text| json_string(text));
            entries.push(format!(
                "{{\"description\":{description},\"displayName\":{display_name},\"kind\":{kind},\"name\":{name},\"version\":{version}}}"
            ));
        }
    }
    let title = "list the CRDs of the bundle as owned";
    let fix = if is_certain { Fix::safe(title) } else { Fix::needs_review(title) };
    let list = owner.file.pointer(OWNED);
    match csv.kind(OWNED) {
        _ if entries.is_empty() => None,
        Kind::List => {
            let end = format!("{list}/-");
            Some(entries.into_iter().fold(fix, |fix, entry| fix.insert(end.clone(), entry)))
        }
        Kind::Missing | Kind::Null => Some(fix.set(list, format!("[{}]", entries.join(",")))),
        _ => None,
    }
}

/// The words of a kind with spaces between them: `Etcd Cluster`.
fn display_name(kind: &str) -> String {
    let mut name = String::new();
    let mut characters = kind.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(c) = characters.next() {
        let ends_word = before.is_some_and(|before| !before.is_uppercase());
        let begins_word = characters.peek().is_some_and(|next| next.is_lowercase());
        if c.is_uppercase() && before.is_some() && (ends_word || begins_word) {
            name.push(' ');
        }
        name.push(c);
        before = Some(c);
    }
    name
}

/// The APIs of the examples in the annotations of a ClusterServiceVersion; none without these annotations, and if
/// they cannot be read.
struct Examples(Option<BTreeSet<(String, String)>>);

impl Examples {
    fn of(csv: &Document) -> Self {
        const MAX_BYTES: usize = 1 << 20;
        let annotations = ["alm-examples", "olm.examples"];
        let texts = annotations.map(|name| csv.text(&format!("/metadata/annotations/{name}")));
        let Some(text) = texts.into_iter().flatten().next() else { return Self(None) };
        let list = (text.len() <= MAX_BYTES).then(|| Document::parse(&text).ok()).flatten();
        let Some(list) = list else { return Self(None) };
        let rows = list.rows("", &["/apiVersion", "/kind"]);
        let apis = rows
            .iter()
            .map(|row| (row.text_or_empty(0).to_owned(), row.text_or_empty(1).to_owned()));
        Self(Some(apis.collect()))
    }

    /// Whether there is an example of the API, or none at all.
    fn allow(&self, key: &ApiKey) -> bool {
        self.0.is_none() || self.has(key)
    }

    fn has(&self, key: &ApiKey) -> bool {
        let api = (format!("{}/{}", key.group, key.version), key.kind.clone());
        self.0.as_ref().is_some_and(|apis| apis.contains(&api))
    }
}
