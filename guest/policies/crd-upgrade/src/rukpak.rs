//! CRDs that RukPak installed, with the checks of its webhook for CRDs.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Operation, Report, Review, rule, rules};

use crate::crd::{Crd, Version};
use crate::existing::{self, InvalidObject, ObjectLister};
use crate::reads::CRDS;
use crate::removal;
use crate::targets::CRD;
use crate::validation::WorkBudget;

rules![CRD_17];

const OWNER_KIND: &str = "/metadata/labels/core.rukpak.io~1owner-kind";
const ANNOTATION: &str = "core.rukpak.io/safe-crd-upgrade-validation";

rule! {
    /// an update of a CRD that RukPak installed is safe for its objects
    ///
    /// The rule applies to CRDs with the label `core.rukpak.io/owner-kind: BundleDeployment`,
    /// before or after an UPDATE, that already exist and do not have the annotation
    /// `core.rukpak.io/safe-crd-upgrade-validation: "false"`. All of these conditions are
    /// satisfied; the rule reports the first violation:
    ///
    /// * No version in `status.storedVersions` is removed.
    /// * Existing objects of each version that was served and has a changed schema are valid by the
    ///   new schema.
    /// * If versions are added and `spec.conversion.strategy` is `None` or missing, objects of the
    ///   remaining versions that were served are valid by the schemas of the added versions.
    ///
    /// If a CRD that is created already exists, the rule evaluates only its stored versions; the
    /// API server rejects it anyway. The rule reads CRDs and the custom resources, and is skipped
    /// if the permission to list them is missing.
    ///
    /// # Gap
    ///
    /// Existing objects are evaluated like by CRD-11, with the same limits.
    ///
    /// # Why
    ///
    /// RukPak's webhook `crdvalidator` rejects the same updates: clients could no longer change or
    /// read the objects (RukPak v0.16.0 `internal/crd/crd.go`).
    ///
    /// # Remediation
    ///
    /// Change the objects or the schema, or keep the version. If you know that the update is safe,
    /// set the annotation.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {core.rukpak.io/safe-crd-upgrade-validation: "false"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Before: [{name: v1alpha1}], and status.storedVersions: [v1alpha1]
    /// metadata: {name: as.example.com, labels: {core.rukpak.io/owner-kind: BundleDeployment}}
    /// spec: {versions: [{name: v1alpha2}]}
    /// ```
    ///
    /// `message: failed to validate safety of UPDATE for CRD "as.example.com" (NOTE: to disable
    /// this validation, set the "core.rukpak.io/safe-crd-upgrade-validation" annotation to
    /// "false"): error validating existing CRs against new CRD's schema for "as.example.com":
    /// cannot remove stored versions [v1alpha1]`
    CRD_17: Deny {
        name: "rukpak-crd-upgrade-safe",
        on: [CRD: Create | Update],
        reads: [CRDS],
        samples: true,
        source: ["rukpak v0.16.0 internal/crd/crd.go, cmd/crdvalidator/handlers/crd.go, test/e2e/crdvalidator_test.go"],
    }
}

pub(crate) fn check(
    review: &Review<'_>,
    crd: &Crd<'_>,
    old: Option<&Crd<'_>>,
    work: &mut WorkBudget,
    report: &mut Report<'_>,
) {
    let is_owned = |crd: &Document| crd.text_or_empty(OWNER_KIND) == "BundleDeployment";
    let annotation = format!("/metadata/annotations/{}", opgate_sdk::escape(ANNOTATION));
    if !(is_owned(crd.document) || old.is_some_and(|old| is_owned(old.document)))
        || crd.document.text_or_empty(&annotation) == "false"
        || !report.is_on(&CRD_17)
    {
        return;
    }
    let found = match old {
        Some(old) => find_removed_version(crd, old)
            .or_else(|| find_invalid_object(review, crd, old, work, report))
            .or_else(|| find_lost_schema(crd, old)),
        // The target cluster of a file is unknown.
        None if review.is_from_file() => return,
        None => {
            let existing = CRDS.get("", &crd.name());
            let Some(existing) = report.or_skip(&[&CRD_17], "CustomResourceDefinitions", existing)
            else {
                return;
            };
            existing.and_then(|old| {
                let old = Crd::stored(&old);
                find_removed_version(crd, &old).or_else(|| find_lost_schema(crd, &old))
            })
        }
    };
    if let Some((field, why)) = found {
        let operation = match review.operation() {
            Operation::Update => "UPDATE",
            _ => "CREATE",
        };
        let (name, annotation) = (quote(&crd.name()), quote(ANNOTATION));
        let message = format!(
            "failed to validate safety of {operation} for CRD {name} (NOTE: to disable this validation, set the {annotation} annotation to \"false\"): {why}"
        );
        report.add(&CRD_17, field, message);
    }
}

/// Field and text.
type Violation = (String, String);

fn schema_violation_text(crd: &Crd<'_>, why: &str) -> String {
    let name = quote(&crd.name());
    format!("error validating existing CRs against new CRD's schema for {name}: {why}")
}

/// Stored versions that the UPDATE itself removes.
fn find_removed_version(crd: &Crd<'_>, old: &Crd<'_>) -> Option<Violation> {
    let lost = removal::lost_stored_versions(crd, old);
    let removed: Vec<&str> =
        lost.iter().filter(|version| old.has(version)).map(String::as_str).collect();
    let why = format!("cannot remove stored versions [{}]", removed.join(" "));
    (!removed.is_empty()).then(|| ("spec.versions".to_owned(), schema_violation_text(crd, &why)))
}

/// Stored versions that were missing before.
fn find_lost_schema(crd: &Crd<'_>, old: &Crd<'_>) -> Option<Violation> {
    let version = removal::lost_stored_versions(crd, old).into_iter().next()?;
    let name = quote(&crd.name());
    let why = format!(
        "risk of data loss updating {name}: new CRD removes version {version} that is listed as a stored version on the existing CRD"
    );
    Some(("spec.versions".to_owned(), why))
}

/// The first object that a changed or an added schema rejects.
fn find_invalid_object(
    review: &Review<'_>,
    crd: &Crd<'_>,
    old: &Crd<'_>,
    work: &mut WorkBudget,
    report: &mut Report<'_>,
) -> Option<Violation> {
    if existing::skip_if_too_many(&CRD_17, crd, old, report) {
        return None;
    }
    let shared = || crd.by_name().filter_map(|now| Some((now, old.version(&now.name)?)));
    // The version in which objects are read, and the version with the schema to use.
    let mut pairs: Vec<(&str, &Version)> = shared()
        .filter(|(now, before)| before.served && !crd.has_schema_of(now, old, before))
        .map(|(now, _)| (&*now.name, now))
        .collect();
    if matches!(&*crd.document.text_or_empty("/spec/conversion/strategy"), "" | "None") {
        let served = || shared().filter(|(_, before)| before.served);
        let added = crd.by_name().filter(|version| old.version(&version.name).is_none());
        pairs.extend(added.flat_map(|added| served().map(move |(read, _)| (&*read.name, added))));
    }
    let lister = ObjectLister { review, crd, rule: &CRD_17 };
    existing::limit_versions(&CRD_17, &pairs, report).iter().find_map(|(read, version)| {
        let InvalidObject { object, why, field, .. } =
            lister.first_invalid(read, version, work, report)?;
        let [namespace, name] =
            ["/metadata/namespace", "/metadata/name"].map(|pointer| object.text_or_empty(pointer));
        let version = &version.name;
        let why = format!(
            "existing custom object {namespace}/{name} failed validation for new schema version {version}: {why}"
        );
        Some((field, schema_violation_text(crd, &why)))
    })
}
