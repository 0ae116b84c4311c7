//! CRDs of a bundle and what its `ClusterServiceVersion` owns: RBF-07 to RBF-09.
//! After api `pkg/validation/internal/bundle.go`.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::Folder;
use crate::manifests::{CRD, CSV, Manifest};

/// One version of an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: String,
    version: String,
    kind: String,
}

impl Key {
    /// `%q` of a `schema.GroupVersionKind`.
    fn quoted(&self) -> String {
        quote(&format!("{}/{}, Kind={}", self.group, self.version, self.kind))
    }

    fn group_kind(&self) -> (String, String) {
        (self.group.clone(), self.kind.clone())
    }
}

/// A key and where it stands.
struct Found {
    key: Key,
    field: String,
}

/// RBF-07 for one directory, and RBF-08 and RBF-09 where it is that of a bundle.
pub(crate) fn judge(
    folder: &Folder<'_>,
    manifests: &[Manifest<'_>],
    is_bundle: bool,
    findings: &mut Findings<'_>,
) {
    let mut defined = Vec::new();
    for crd in manifests.iter().filter(|manifest| manifest.kind == CRD) {
        if let Some(object) = folder.first(crd.file) {
            versions(&object, crd, &mut defined);
        }
    }
    let keys: BTreeSet<&Key> = defined.iter().map(|found| &found.key).collect();
    let mut owned_kinds = BTreeSet::new();
    let mut bundle = None;
    for csv in manifests.iter().filter(|manifest| manifest.kind == CSV) {
        let Some(object) = folder.first(csv.file) else { continue };
        let name = quote(&csv.name);
        for Found { key, field } in owned(&object, csv) {
            if keys.contains(&key) {
                owned_kinds.insert(key.group_kind());
            } else {
                let message = format!("owned CRD {} not found in bundle {name}", key.quoted());
                findings.deny("RBF-07", field, message);
            }
        }
        bundle.get_or_insert(name);
    }
    if !is_bundle {
        return;
    }
    let name = bundle.clone().unwrap_or_else(|| quote(""));
    let mut seen = BTreeSet::new();
    for Found { key, field } in &defined {
        if !seen.insert(key) {
            let message = format!("duplicate CRD {} in bundle {name}", key.quoted());
            findings.deny("RBF-09", field.as_str(), message);
        // Without a ClusterServiceVersion (RBF-06) nothing is owned, and nothing is superfluous.
        } else if bundle.is_some() && !owned_kinds.contains(&key.group_kind()) {
            let message =
                format!("CRD {} is present in bundle {name} but not defined in CSV", key.quoted());
            findings.deny("RBF-08", field.as_str(), message);
        }
    }
}

/// The versions that a CRD defines. `v1beta1` may have one version and no list.
fn versions(crd: &Document, manifest: &Manifest<'_>, found: &mut Vec<Found>) {
    let group = crd.text_or_empty("/spec/group");
    let kind = crd.text_or_empty("/spec/names/kind");
    let mut add = |version: String, field: &str| {
        let key = Key { group: group.clone(), version, kind: kind.clone() };
        found.push(Found { key, field: manifest.file.within(field) });
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

/// What a `ClusterServiceVersion` owns. The name is `<plural>.<group>`.
fn owned(csv: &Document, manifest: &Manifest<'_>) -> Vec<Found> {
    let list = "spec.customresourcedefinitions.owned";
    let entries = csv.items("/spec/customresourcedefinitions/owned").enumerate();
    let found = entries.map(|(index, entry)| {
        let name = entry.text_or_empty("/name");
        let group = name.split_once('.').map_or(name.as_str(), |(_, group)| group).to_owned();
        let (version, kind) = (entry.text_or_empty("/version"), entry.text_or_empty("/kind"));
        let field = manifest.file.within(&format!("{list}[{index}]"));
        Found { key: Key { group, version, kind }, field }
    });
    found.collect()
}
