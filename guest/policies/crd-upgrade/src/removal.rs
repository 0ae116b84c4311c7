//! Versions that an UPDATE drops: removed from the CRD, or no longer served.
//!
//! ```text
//! old versions − new versions ─┬─▶ CRD_13   stored?
//!                              ├─▶ CRD_12   served, and the CRD has an owner
//!                              ├─▶ CRD_10   served, and the CRD has several owners
//!                              └─▶ CRD_15   named by a ClusterServiceVersion
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{IndexMatch, ReadError};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, Rule, rule, rules};

use crate::crd::{Crd, Version};
use crate::owners::{self, Budget, Key, OwnerCount};
use crate::reads::CSVS;
use crate::targets::CRD;

rules![CRD_10, CRD_12, CRD_13, CRD_15];

pub(crate) fn check(review: &Review<'_>, crd: &Crd<'_>, old: &Crd<'_>, report: &mut Report<'_>) {
    check_stored_versions(crd, old, report);
    let is_removed = |version: &&Version| crd.version(&version.name).is_none();
    let served: Vec<&str> = old
        .versions
        .iter()
        .filter(|version| version.served)
        .filter(is_removed)
        .map(|version| &*version.name)
        .collect();
    if !served.is_empty() {
        check_unserved_first(review, old, &served, report);
    }
    let mut gone: BTreeMap<&str, String> = BTreeMap::new();
    for version in old.by_name() {
        match crd.version(&version.name) {
            None => {
                gone.insert(&version.name, "spec.versions".to_owned());
            }
            Some(now) if version.served && !now.served => {
                gone.insert(&version.name, now.member("served"));
            }
            Some(_) => {}
        }
    }
    if !gone.is_empty() {
        check_references(&old.name(), &gone, report);
    }
}

rule! {
    /// no served version is removed from a CRD that several Operators own
    ///
    /// If more than one ClusterServiceVersion of the cluster owns a CRD, an UPDATE keeps every
    /// entry of `spec.versions` that had `served: true`. A ClusterServiceVersion owns the CRD if
    /// `spec.customresourcedefinitions.owned` names it, in any namespace. Copies do not count.
    /// ClusterServiceVersions that `spec.replaces` links, directly or through others, count once; a
    /// chain is followed for up to 16 of them. The message lists the missing versions. The rule
    /// also evaluates an object that is being deleted and the subresource `status`: an unchanged
    /// list removes no version. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// The other Operator still uses the version. OLM documents this requirement as a condition of
    /// the upgrade (OpenShift 4.12, Operators, *CRD upgrades*).
    ///
    /// # Remediation
    ///
    /// Keep the version. If no owner still needs it, set `served: false` first and remove it with
    /// the next update.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Before: [{name: v1, served: true}, {name: v1alpha1, served: false}]
    /// spec: {versions: [{name: v1, served: true}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Before: [{name: v1alpha1, served: true}, {name: v1beta1, served: true}]
    /// spec: {versions: [{name: v1beta1, served: true}]}
    /// ```
    ///
    /// `message: CRD "crontabs.stable.example.com" is owned by multiple ClusterServiceVersions:
    /// existing serving versions [v1alpha1] must be present in the new CRD`
    CRD_10: Deny {
        name: "shared-crd-keeps-served-versions",
        on: [CRD: Update],
        reads: [CSVS],
        source: ["OCP 4.12 L3060-3063, L20630-20633", "OCP 4.15 L2215-2221", "OCP 4.5 L783-789"],
    }
}

rule! {
    /// a version of an Operator's CRD is not removed while it is served
    ///
    /// If a ClusterServiceVersion of the cluster owns a CRD, a version that an UPDATE removes from
    /// `spec.versions` had `served: false` before. Copies do not count as owners. With the setting
    /// `crd.servedRemovalScope: all` the rule applies to every CRD, and does not read the cluster.
    /// The rule reports one violation for each version. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// Clients that use the version fail immediately. OLM documents the steps: first stop serving
    /// the version, then remove it (OpenShift 4.12, Operators, *Deprecating or removing a version
    /// of a custom resource definition*).
    ///
    /// # Remediation
    ///
    /// Set `served: false` for the version, and remove it with a later update.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Before: [{name: v1alpha1, served: false}, {name: v1beta1, served: true}]
    /// spec: {versions: [{name: v1beta1, served: true}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Before: [{name: v1alpha1, served: true}, {name: v1beta1, served: true}]
    /// spec: {versions: [{name: v1beta1, served: true}]}
    /// ```
    ///
    /// `message: Operator Lifecycle Manager (OLM) does not allow a serving version of a custom
    /// resource definition (CRD) to be removed right away: set served to false for "v1alpha1"
    /// first`
    CRD_12: Deny {
        name: "crd-version-unserved-before-removal",
        on: [CRD: Update],
        reads: [CSVS],
        source: ["OCP 4.12 L20697-20704, L20745-20750", "OCP 4.15 L15122-15214"],
    }
}

/// CRD-10 and CRD-12.
fn check_unserved_first(
    review: &Review<'_>,
    old: &Crd<'_>,
    served: &[&str],
    report: &mut Report<'_>,
) {
    let is_for_all = review.settings.text_or_empty("/crd/servedRemovalScope") == "all";
    let mut asking: Vec<&'static Rule> = vec![&CRD_10];
    if !is_for_all {
        asking.push(&CRD_12);
    }
    asking.retain(|rule| report.is_on(rule));
    let owners = if asking.is_empty() {
        None
    } else {
        // CRD-12 needs to know only if there is an owner.
        let needed = if report.is_on(&CRD_10) { OwnerCount::Several } else { OwnerCount::One };
        report.or_skip(&asking, "ClusterServiceVersions", owners::of(&old.name(), needed))
    };
    if owners == Some(OwnerCount::Several) {
        let (name, missing) = (quote(&old.name()), served.join(" "));
        let message = format!(
            "CRD {name} is owned by multiple ClusterServiceVersions: existing serving versions [{missing}] must be present in the new CRD"
        );
        report.add(&CRD_10, "spec.versions", message);
    }
    if is_for_all || owners.is_some_and(|owners| owners > OwnerCount::None) {
        report.add_each(&CRD_12, served, |version| {
            let version = quote(version);
            let message = format!(
                "Operator Lifecycle Manager (OLM) does not allow a serving version of a custom resource definition (CRD) to be removed right away: set served to false for {version} first"
            );
            ("spec.versions".to_owned(), message)
        });
    }
}

rule! {
    /// a version in status.storedVersions is not removed
    ///
    /// An UPDATE keeps, in `spec.versions`, every version in `status.storedVersions` of the old CRD
    /// (`spec.version` also counts in `apiextensions.k8s.io/v1beta1`). The rule reports one
    /// violation for each version. It also evaluates requests of OLM.
    ///
    /// # Why
    ///
    /// Objects that are stored in the version can no longer be read: the data is lost. OLM stops
    /// the upgrade, and the API server rejects the update (OpenShift 4.12, Operators, *Deprecating
    /// or removing a version of a custom resource definition*).
    ///
    /// # Remediation
    ///
    /// Keep the version, write all objects again so that they are stored in the new version, remove
    /// the version from `status.storedVersions`, and then from `spec.versions`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Before: status: {storedVersions: [v1beta1]}
    /// spec: {versions: [{name: v1beta1}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Before: status: {storedVersions: [v1alpha1, v1beta1]}
    /// spec: {versions: [{name: v1beta1}]}
    /// ```
    ///
    /// `message: risk of data loss updating "crontabs.stable.example.com": new CRD removes version
    /// v1alpha1 that is listed as a stored version on the existing CRD`
    CRD_13: Deny {
        name: "crd-keeps-stored-versions",
        on: [CRD: Update],
        source: ["OCP 4.12 L20735-20737", "OCP 4.15 L15122-15214", "OLM pkg/lib/crd/storage.go, pkg/controller/operators/catalog/operator.go"],
    }
}

fn check_stored_versions(crd: &Crd<'_>, old: &Crd<'_>, report: &mut Report<'_>) {
    // If the list of versions is unchanged, missing versions were missing before.
    if ["/spec/versions", "/spec/version"].iter().all(|at| crd.document.equal(at, old.document, at))
    {
        return;
    }
    let lost = lost_stored_versions(crd, old);
    let name = quote(&crd.name());
    report.add_each(&CRD_13, &lost, |version| {
        let message = format!(
            "risk of data loss updating {name}: new CRD removes version {version} that is listed as a stored version on the existing CRD"
        );
        ("spec.versions".to_owned(), message)
    });
}

/// Stored versions that the CRD no longer has.
pub(crate) fn lost_stored_versions(crd: &Crd<'_>, old: &Crd<'_>) -> BTreeSet<String> {
    let stored = old.document.rows("/status/storedVersions", &[""]);
    let lost = stored.iter().filter_map(|row| row.text(0)).filter(|version| !crd.has(version));
    lost.map(str::to_owned).collect()
}

rule! {
    /// no ClusterServiceVersion names a version that an UPDATE drops
    ///
    /// A version that an UPDATE removes from `spec.versions`, or stops serving, is not the
    /// `version` of an entry for this CRD in `spec.customresourcedefinitions.owned` or `required`
    /// of an installed ClusterServiceVersion, in any namespace. Copies do not count, nor do
    /// ClusterServiceVersions that are being deleted or have the phase `Replacing` or `Deleting`.
    /// The rule reports one violation for each version and ClusterServiceVersion. The rule reads
    /// CSVs.
    ///
    /// # Gap
    ///
    /// The rule evaluates the lists of at most 16 ClusterServiceVersions, up to 256 KiB. If others
    /// can name a dropped version, the verdict reports that the rule was evaluated in part.
    ///
    /// # Why
    ///
    /// An Operator whose version of the CRD is not served fails, and OLM treats it as not installed
    /// (OpenShift 4.12, Operators, *Adding a new version of a custom resource definition*). During
    /// an upgrade OLM changes the CRD before it creates the new ClusterServiceVersion, so the rule
    /// only warns.
    ///
    /// # Remediation
    ///
    /// Keep the version in `spec.versions`, with `served: true` if it was served. Upgrade the
    /// Operators that the message names until their ClusterServiceVersions name another version,
    /// and remove the version, or stop serving it, with a later update.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # All ClusterServiceVersions name v1beta1. Before: [{name: v1alpha1}, {name: v1beta1}]
    /// spec: {versions: [{name: v1beta1}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// This UPDATE, while etcdoperator.v0.9.0 owns `v1alpha1`.
    ///
    /// `message: version "v1alpha1" of CRD "etcdclusters.etcd.database.coreos.com" is still
    /// referenced by ClusterServiceVersion operators/etcdoperator.v0.9.0`
    CRD_15: Warn {
        name: "crd-keeps-versions-named-by-csv",
        on: [CRD: Update],
        reads: [CSVS],
        source: ["OCP 4.12 L20670-20680, L20753", "OCP 4.15 L15122-15214"],
    }
}

/// `gone`: the dropped versions, each with the field that drops it.
fn check_references(name: &str, gone: &BTreeMap<&str, String>, report: &mut Report<'_>) {
    if !report.is_on(&CRD_15) {
        return;
    }
    let found = find_references(name, gone);
    let Some((found, is_all)) = report.or_skip(&[&CRD_15], "ClusterServiceVersions", found) else {
        return;
    };
    if !is_all {
        report.skip_part(&CRD_15, "spec.versions", owners::INCOMPLETE_REASON);
    }
    report.add_each(&CRD_15, found, |(version, (namespace, csv))| {
        let field = gone.get(version.as_str()).cloned().unwrap_or_default();
        let (version, crd) = (quote(&version), quote(name));
        let message = format!(
            "version {version} of CRD {crd} is still referenced by ClusterServiceVersion {namespace}/{csv}"
        );
        (field, message)
    });
}

/// Dropped versions, the ClusterServiceVersions that name them, and whether the list is complete.
fn find_references(
    crd: &str,
    gone: &BTreeMap<&str, String>,
) -> Result<(BTreeSet<(String, Key)>, bool), ReadError> {
    let mut found = BTreeSet::new();
    let mut is_all = true;
    let mut budget = Budget::default();
    let names = [crd.to_owned()];
    let removed: Vec<String> = gone.keys().map(|&version| version.to_owned()).collect();
    for (index, of_version, list) in [
        ("crd", "version", "/spec/customresourcedefinitions/owned"),
        ("required-crd", "required-version", "/spec/customresourcedefinitions/required"),
    ] {
        let matches = [
            IndexMatch { index, values: &names, include_missing: false },
            IndexMatch { index: of_version, values: &removed, include_missing: false },
        ];
        is_all &= budget.visit_csvs(&matches, list, |csv| {
            if owners::is_installed(csv) {
                for version in required_versions(csv, list, crd) {
                    if gone.contains_key(version.as_str()) {
                        found.insert((version, owners::key(csv)));
                    }
                }
            }
            true
        })?;
    }
    Ok((found, is_all))
}

/// The versions of a CRD that a list of a ClusterServiceVersion names.
fn required_versions(csv: &Document, list: &str, crd: &str) -> Vec<String> {
    let rows = csv.rows(list, &["/name", "/version"]);
    let own = rows.iter().filter(|row| row.text(0) == Some(crd));
    own.filter_map(|row| row.text(1).map(str::to_owned)).collect()
}
