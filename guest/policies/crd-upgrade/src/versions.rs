//! The list of versions of a CRD: names, served versions, and the stored version.

use std::collections::BTreeMap;

use opgate_compat::names;
use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, Report, Review, corrections, rule, rules};

use crate::crd::Crd;
use crate::targets::CRD;

rules![CRD_04, CRD_06, CRD_07, CRD_14];

/// `old` is the CRD before an UPDATE. Its unchanged values are exempt.
pub(crate) fn check(
    review: &Review<'_>,
    crd: &Crd<'_>,
    old: Option<&Crd<'_>>,
    report: &mut Report<'_>,
) {
    let is_listed = !review.is_update() || review.is_from_file();
    check_version_names(crd, old, is_listed, report);
    check_unique(crd, old, report);
    check_storage_served(crd, old, report);
    if is_listed {
        check_list(crd, report);
    }
}

rule! {
    /// the name of a version is a DNS-1035 label
    ///
    /// The `name` of each entry of `spec.versions` is a DNS-1035 label: at most 63 lower-case
    /// letters, digits and `-`, first a letter, last a letter or a digit. A number at the end is
    /// not needed. On UPDATE the rule evaluates the names that the request adds. Requests for the
    /// subresource `status` are not evaluated. If `spec.versions` is not a list, but a mapping
    /// without a `name` or any other value, the rule reports it. A mapping with a `name` is read as
    /// a list of one entry, and CRD-07 reports it.
    ///
    /// # Why
    ///
    /// The version is a part of the path of each object (OpenShift 4.12, Operators, *Creating a
    /// custom resource definition*). The API server rejects other names; no other check rejects the
    /// file before you apply it.
    ///
    /// # Remediation
    ///
    /// Name versions like `v1alpha1`, `v1beta1` and `v1`, in a list: `versions: [{name: v1, …}]`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {versions: [{name: v1alpha}, {name: v1beta}, {name: v1}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {versions: [{name: V1}]}
    /// ```
    ///
    /// `message: spec.versions[0].name: Invalid value: "V1": a DNS-1035 label must consist of lower
    /// case alphanumeric characters or '-', start with an alphabetic character, and end with an
    /// alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is
    /// '[a-z]([-a-z0-9]*[a-z0-9])?')`
    ///
    /// With `versions: {v1: {served: true, storage: true}}`: `message: spec.versions: Invalid value: "object": must be
    /// a list of versions, each with a name`
    CRD_04: Deny {
        name: "crd-version-name-dns-label",
        on: [CRD: Create | Update],
        source: ["OCP 4.12 L4901", "OCP 4.15 L3019-3098"],
    }
}

const VERSIONS: &str = "/spec/versions";

/// The type of `spec.versions`, if it is neither a list nor a mapping with a name, which is read as
/// a list of one version.
fn list_error(crd: &Crd<'_>) -> Option<&'static str> {
    match crd.document.kind(VERSIONS) {
        Kind::Missing | Kind::Null | Kind::List => None,
        Kind::Object => {
            crd.versions.iter().all(|version| version.name.is_empty()).then_some("object")
        }
        Kind::Boolean => Some("boolean"),
        Kind::Number => Some("number"),
        Kind::Text => Some("string"),
    }
}

/// `is_evaluated`: whether CRD-07 is evaluated.
fn check_version_names(
    crd: &Crd<'_>,
    old: Option<&Crd<'_>>,
    is_evaluated: bool,
    report: &mut Report<'_>,
) {
    if let Some(found) = list_error(crd) {
        let is_same = |old: &Crd<'_>| crd.document.equal(VERSIONS, old.document, VERSIONS);
        if !old.is_some_and(is_same) {
            let message = format!(
                "spec.versions: Invalid value: \"{found}\": must be a list of versions, each with a name"
            );
            let broken = [(&CRD_04, message.clone()), (&CRD_07, message)];
            let count = if is_evaluated { 2 } else { 1 };
            report.add_once("spec.versions", broken.into_iter().take(count));
        }
        return;
    }
    let is_known = |name: &str| old.is_some_and(|old| old.version(name).is_some());
    let wrong =
        crd.versions.iter().filter(|version| !is_known(&version.name)).filter_map(|version| {
            let errors = names::dns1035_errors(&version.name);
            (!errors.is_empty()).then(|| (version, errors.join(",")))
        });
    report.add_each(&CRD_04, wrong, |(version, why)| {
        let (index, name) = (version.index(), quote(&version.name));
        let message = format!("spec.versions[{index}].name: Invalid value: {name}: {why}");
        (version.member("name"), message)
    });
}

rule! {
    /// versions have different names, and at most one is the storage version
    ///
    /// No two entries of `spec.versions` have the same `name`, and at most one has `storage: true`.
    /// CRD-07 reports a list without one. On UPDATE the rule is evaluated if names or `storage` of
    /// the list change. Requests for the subresource `status` are not evaluated.
    ///
    /// # Why
    ///
    /// The API server stores all objects of a CRD in one version, and rejects a CRD with several
    /// storage versions (OpenShift 4.12, Operators, *Adding a new version of a custom resource
    /// definition*). The bundle validator of operator-framework/api checks the same in files.
    ///
    /// # Remediation
    ///
    /// Set `storage: false` for all versions except one.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// versions:
    /// - {name: v1alpha1, served: true, storage: false}
    /// - {name: v1beta1, served: true, storage: true}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// versions:
    /// - {name: v1, served: true, storage: true}
    /// - {name: v1beta1, served: true, storage: true}
    /// ```
    ///
    /// `message: spec.versions: Invalid value: must have exactly one version marked as storage
    /// version`
    ///
    /// Two versions with the same name: `message: spec.versions: Invalid value: must contain unique
    /// version names`
    CRD_06: Deny {
        name: "crd-unique-versions-one-storage",
        on: [CRD: Create | Update],
        source: ["OCP 4.12 L20652-20660, L20721-20727", "api pkg/validation/internal/crd.go"],
    }
}

fn check_unique(crd: &Crd<'_>, old: Option<&Crd<'_>>, report: &mut Report<'_>) {
    let is_same = |old: &Crd<'_>| {
        let pairs = || crd.versions.iter().zip(&old.versions);
        crd.versions.len() == old.versions.len()
            && pairs().all(|(now, old)| now.name == old.name && now.storage == old.storage)
    };
    if old.is_some_and(is_same) {
        return;
    }
    if crd.by_name().count() < crd.versions.len() {
        let message = "spec.versions: Invalid value: must contain unique version names";
        report.add(&CRD_06, "spec.versions", message);
        report.set_fix(&CRD_06, || {
            let mut seen = BTreeMap::new();
            let mut versions = crd.versions.iter().map(|version| (version.index(), &version.name));
            let (first, second) = versions
                .find_map(|(index, name)| seen.insert(name, index).map(|first| (first, index)))?;
            corrections::remove_equal(crd.document, VERSIONS, first, second)
        });
    }
    if crd.versions.iter().filter(|version| version.storage).nth(1).is_some() {
        let message =
            "spec.versions: Invalid value: must have exactly one version marked as storage version";
        report.add(&CRD_06, "spec.versions", message);
    }
}

rule! {
    /// spec.versions is a list with a storage version
    ///
    /// `spec.versions` of a CRD in a file is a list, and an entry has `storage: true`. The rule
    /// reports a mapping, as in some documents, and then reads it as a list of one entry. In
    /// `apiextensions.k8s.io/v1beta1`, `spec.version` without a list is one version with `storage:
    /// true`. In a bundle the rule denies, like `operator-sdk bundle validate`. In other files it
    /// warns: they can contain fragments from the documentation that are not installed.
    ///
    /// # Why
    ///
    /// The API server rejects both, so requests never contain them. The example of OpenShift 4.12,
    /// Operators, *Creating a custom resource definition*, has a mapping, and users copy it.
    ///
    /// # Remediation
    ///
    /// Write a list, and set `storage: true` for the version in which objects are stored.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {versions: [{name: v1, served: true, storage: true}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {versions: {name: v1}}
    /// ```
    ///
    /// `message: spec.versions must be a list with one storage version`
    CRD_07: Deny {
        name: "crd-has-storage-version",
        on: [CRD: Create | Update],
        denies_in: [Bundle],
        source: ["OCP 4.12 L4866-4880"],
    }
}

fn check_list(crd: &Crd<'_>, report: &mut Report<'_>) {
    if list_error(crd).is_some() {
        // One error: CRD-04 names this rule.
        return;
    }
    if crd.is_mapping || !crd.versions.iter().any(|version| version.storage) {
        let message = "spec.versions must be a list with one storage version";
        report.add(&CRD_07, "spec.versions", message);
        report.set_fix(&CRD_07, || store_only_version(crd));
    }
}

rule! {
    /// the storage version of a CRD is served
    ///
    /// No entry of `spec.versions` has `served: false` and `storage: true`. On UPDATE the rule
    /// evaluates new entries, and entries whose `served` or `storage` changes. Requests for the
    /// subresource `status` are not evaluated.
    ///
    /// # Why
    ///
    /// A version that is no longer served will usually be removed, and then objects that are stored
    /// in it are lost. OpenShift 4.12, Operators, *Deprecating or removing a version of a custom
    /// resource definition*, shows this state between two edits, so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Set `storage: true` for a version that is served, and `storage: false` for this one.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// versions:
    /// - {name: v1alpha1, served: false, storage: false}
    /// - {name: v1beta1, served: true, storage: true}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// versions: [{name: v1alpha1, served: false, storage: true}]
    /// ```
    ///
    /// `message: version "v1alpha1" is not served but is the storage version; switch the storage
    /// version to a serving version`
    CRD_14: Warn {
        name: "crd-storage-version-served",
        on: [CRD: Create | Update],
        source: ["OCP 4.12 L20704-20730", "OCP 4.15 L15122-15214"],
    }
}

fn check_storage_served(crd: &Crd<'_>, old: Option<&Crd<'_>>, report: &mut Report<'_>) {
    let wrong = crd.versions.iter().filter(|version| {
        let before = old.and_then(|old| old.version(&version.name));
        let was_so = before.is_some_and(|before| before.storage && !before.served);
        version.storage && !version.served && !was_so
    });
    report.add_each(&CRD_14, wrong, |version| {
        let name = quote(&version.name);
        let message = format!(
            "version {name} is not served but is the storage version; switch the storage version to a serving version"
        );
        (version.member("served"), message)
    });
}

/// The list with the version that a mapping describes, or the only version as the one that is stored.
fn store_only_version(crd: &Crd<'_>) -> Option<Fix> {
    const MAX_BYTES: u32 = 32 << 10;
    let [version] = &crd.versions[..] else { return None };
    if !crd.is_mapping {
        let storage = format!("{VERSIONS}/{}/storage", version.index());
        let is_list = crd.document.kind(VERSIONS) == Kind::List;
        return is_list.then(|| Fix::safe("store the only version").set(storage, "true"));
    }
    let is_complete = version.storage && !version.name.is_empty();
    let size = crd.document.size(VERSIONS).filter(|size| is_complete && *size <= MAX_BYTES);
    let mapping = size.and_then(|_| crd.document.raw(VERSIONS))?;
    let list = format!("[{}]", String::from_utf8(mapping).ok()?);
    Some(Fix::safe("write a list of versions").set(VERSIONS, list))
}
