//! The list of versions of a CRD: names, what is served, and what is stored.

use opgate_sdk::go::quote;
use opgate_sdk::{Kind, Report, Review, rule, rules};
use opgate_upstream::names;

use crate::crd::Crd;
use crate::targets::CRD;

rules![CRD_04, CRD_06, CRD_07, CRD_14];

/// `old` is the CRD before an UPDATE of which what did not change is spared.
pub(crate) fn judge(
    review: &Review<'_>,
    crd: &Crd<'_>,
    old: Option<&Crd<'_>>,
    report: &mut Report<'_>,
) {
    let is_listed = review.creates() || review.is_of_a_file();
    version_names(crd, old, is_listed, report);
    unique(crd, old, report);
    unserved_storage(crd, old, report);
    if is_listed {
        list(crd, report);
    }
}

rule! {
    /// the name of a version can stand in a URL
    ///
    /// The `name` of each entry of `spec.versions` is a DNS-1035 label: at most 63 lower case
    /// letters, digits and `-`, first a letter, last a letter or a digit. A number at the end is
    /// not needed. An UPDATE is judged by the names that it adds. Requests for the subresource
    /// `status` are not judged. Where `spec.versions` is no list, but a mapping without a `name` or any other value,
    /// the rule says so. A mapping with a `name` is read as a list of one entry, and reported as CRD-07.
    ///
    /// # Why
    ///
    /// The version is a part of the path of each object (OpenShift 4.12, Operators, *Creating a
    /// custom resource definition*). The API server rejects other names; in a file, nothing does
    /// before the file is applied.
    ///
    /// # Repair
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
        on: [CRD: Create | Update],
        source: "OCP 4.12 L4901; OCP 4.15 L3019-3098",
    }
}

const VERSIONS: &str = "/spec/versions";

/// What `spec.versions` is, if it is no list, nor a mapping with a name that is read as a list of one version.
fn not_a_list(crd: &Crd<'_>) -> Option<&'static str> {
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

/// `is_evaluated`: whether CRD-07 is.
fn version_names(
    crd: &Crd<'_>,
    old: Option<&Crd<'_>>,
    is_evaluated: bool,
    report: &mut Report<'_>,
) {
    if let Some(found) = not_a_list(crd) {
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
    /// versions have different names, and not more than one is stored
    ///
    /// No two entries of `spec.versions` have the same `name`, and at most one has
    /// `storage: true`. CRD-07 is about none. An UPDATE is judged where it changes names or
    /// `storage` of the list. Requests for the subresource `status` are not judged.
    ///
    /// # Why
    ///
    /// The API server stores all objects of a CRD in one version, and rejects the CRD otherwise
    /// (OpenShift 4.12, Operators, *Adding a new version of a custom resource definition*). The
    /// bundle validator of operator-framework/api checks the same in files.
    ///
    /// # Repair
    ///
    /// Set `storage: false` for all versions but one.
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
    /// Two versions with one name: `message: spec.versions: Invalid value: must contain unique
    /// version names`
    CRD_06: Deny {
        on: [CRD: Create | Update],
        source: "OCP 4.12 L20652-20660, L20721-20727; api pkg/validation/internal/crd.go",
    }
}

fn unique(crd: &Crd<'_>, old: Option<&Crd<'_>>, report: &mut Report<'_>) {
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
    }
    if crd.versions.iter().filter(|version| version.storage).nth(1).is_some() {
        let message =
            "spec.versions: Invalid value: must have exactly one version marked as storage version";
        report.add(&CRD_06, "spec.versions", message);
    }
}

rule! {
    /// spec.versions is a list, and one of its versions is stored
    ///
    /// `spec.versions` of a CRD in a file is a list, and an entry has `storage: true`. A mapping,
    /// as some documents print it, is reported and then read as a list of one entry. In
    /// `apiextensions.k8s.io/v1beta1`, `spec.version` without a list is one version that is stored. In a bundle the
    /// rule denies, as `operator-sdk bundle validate` does. Elsewhere it warns: fragments of documents are copied
    /// into other files, too, and nobody installs those.
    ///
    /// # Why
    ///
    /// The API server accepts neither, so no request has it. The example of OpenShift 4.12,
    /// Operators, *Creating a custom resource definition*, has a mapping, and is copied.
    ///
    /// # Repair
    ///
    /// Write a list, and set `storage: true` for the version in which objects are stored.
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
        on: [CRD: Create | Update],
        denies_in: [Bundle],
        source: "OCP 4.12 L4866-4880",
    }
}

fn list(crd: &Crd<'_>, report: &mut Report<'_>) {
    if not_a_list(crd).is_some() {
        // One mistake: CRD-04 names this rule.
        return;
    }
    if crd.is_mapping || !crd.versions.iter().any(|version| version.storage) {
        let message = "spec.versions must be a list with one storage version";
        report.add(&CRD_07, "spec.versions", message);
    }
}

rule! {
    /// the version in which objects are stored is served
    ///
    /// No entry of `spec.versions` has `served: false` and `storage: true`. An UPDATE is judged by
    /// the entries whose `served` or `storage` it changes, and by new ones. Requests for the
    /// subresource `status` are not judged.
    ///
    /// # Why
    ///
    /// A version that is no longer served is about to be removed, and objects that are stored in it
    /// would be lost. OpenShift 4.12, Operators, *Deprecating or removing a version of a custom
    /// resource definition*, shows this state between two edits, so the rule only warns.
    ///
    /// # Repair
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
        on: [CRD: Create | Update],
        source: "OCP 4.12 L20704-20730; OCP 4.15 L15122-15214",
    }
}

fn unserved_storage(crd: &Crd<'_>, old: Option<&Crd<'_>>, report: &mut Report<'_>) {
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
