//! Validation of existing custom resources with the schemas of a new CRD.
//!
//! ```text
//! version ─▶ sample (the host lists, bounded) ─▶ each object ─▶ Validator ─▶ the first that breaks it
//! ```
//!
//! Memory contains only one sample at a time, and the text of one object.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{
    Document, GroupVersionResource, Level, Report, Review, Rule, names, rule, rules, sample,
};

use crate::crd::{Crd, Version};
use crate::owners::{self, OwnerCount};
use crate::reads::CSVS;
use crate::targets::CRD;
use crate::validation::json::{self, Json};
use crate::validation::{Validator, WorkBudget};

rules![CRD_11];

/// The maximum number of versions with compared schemas. Real CRDs have fewer than ten.
const MAX_COMPARED_VERSIONS: usize = 256;
/// The maximum number of versions of which objects are listed, for each rule.
const MAX_LISTED_VERSIONS: usize = 8;

rule! {
    /// existing objects are valid by the new schemas of a CRD that several Operators own
    ///
    /// If more than one ClusterServiceVersion of the cluster owns a CRD, and an UPDATE changes the
    /// schema of a version that is served before and after it, then the objects of the CRD, read in
    /// that version, are valid by the new schema. Owners are counted as for CRD-10. The setting
    /// `crd.validateExisting` extends the rule to CRDs with one owner (`olm-owned`) or to `all`. If
    /// `spec.conversion.strategy` of the new CRD is `Webhook`, the rule warns. The message names
    /// the first invalid object of each version.
    ///
    /// Objects of versions with equal schemas are not listed. The rule reads CSVs and the custom
    /// resources, and is skipped if the permission to list them is missing.
    ///
    /// # Gap
    ///
    /// The rule evaluates at most `crd.maxObjects` objects of a version; if there are more, the
    /// verdict reports it. Rules in CEL (`x-kubernetes-validations`) and patterns with classes of
    /// Unicode (`\pL`) are not evaluated. The API server reports other errors at the next write of
    /// an object.
    ///
    /// # Why
    ///
    /// An object that the new schema rejects can no longer be changed, and a different Operator can
    /// have created it. OLM documents valid objects as a condition of the upgrade, and stops the
    /// upgrade otherwise (OpenShift 4.12, Operators, *CRD upgrades*).
    ///
    /// # Remediation
    ///
    /// Change the objects first, relax the schema, or add a new version for the stricter one.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Before: maximum 9; my-crontab has replicas 10 in a version that is no longer served.
    /// replicas: {type: integer, maximum: 20}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Before: maximum 20; my-crontab has replicas 10, and two ClusterServiceVersions own the CRD.
    /// replicas: {type: integer, maximum: 9}
    /// ```
    ///
    /// `message: error validating existing CRs against new CRD's schema for
    /// "crontabs.stable.example.com": error validating stable.example.com/v1, Kind=CronTab
    /// "default/my-crontab": updated validation is too restrictive: [].spec.replicas: Invalid
    /// value: 10: spec.replicas in body should be less than or equal to 9`
    CRD_11: Deny {
        name: "shared-crd-accepts-existing-objects",
        on: [CRD: Update],
        reads: [CSVS],
        samples: true,
        source: ["OCP 4.12 L3060-3066, L20630-20636", "OCP 4.15 L2215-2221", "OCP 4.5 L783-789", "OLM pkg/controller/operators/catalog/operator.go, pkg/controller/operators/catalog/operator_test.go"],
    }
}

pub(crate) fn check(
    review: &Review<'_>,
    crd: &Crd<'_>,
    old: &Crd<'_>,
    work: &mut WorkBudget,
    report: &mut Report<'_>,
) {
    if !report.is_on(&CRD_11) {
        return;
    }
    if skip_if_too_many(&CRD_11, crd, old, report) {
        return;
    }
    let is_changed = |version: &&Version| {
        let before = old.version(&version.name).filter(|before| before.served && version.served);
        before.is_some_and(|before| !crd.has_schema_of(version, old, before))
    };
    // In v1beta1 all versions can share one schema, which is compared only once.
    let mut schemas: BTreeSet<String> = BTreeSet::new();
    let mut is_another = |version: &&Version| {
        crd.schema(version).is_some_and(|schema| schemas.insert(schema.pointer))
    };
    let changed: Vec<&Version> =
        crd.by_name().filter(is_changed).filter(|version| is_another(version)).collect();
    if changed.is_empty() {
        return;
    }
    let least = match review.settings.text_or_empty("/crd/validateExisting").as_str() {
        "all" => OwnerCount::None,
        "olm-owned" => OwnerCount::One,
        _ => OwnerCount::Several,
    };
    if least > OwnerCount::None {
        let owners = owners::of(&crd.name(), least);
        match report.or_skip(&[&CRD_11], "ClusterServiceVersions", owners) {
            Some(owners) if owners >= least => {}
            _ => return,
        }
    }
    let level = if crd.has_webhook() { Level::Warn } else { Level::Deny };
    let lister = ObjectLister { review, crd, rule: &CRD_11 };
    for version in limit_versions(&CRD_11, &changed, report) {
        let Some(invalid) = lister.first_invalid(&version.name, version, work, report) else {
            continue;
        };
        let (name, object) = (quote(&crd.name()), quote(&invalid.name()));
        let (api, why) = (invalid.api(), &invalid.why);
        let message = format!(
            "error validating existing CRs against new CRD's schema for {name}: error validating {api} {object}: updated validation is too restrictive: {why}"
        );
        report.add_as(level, &CRD_11, invalid.field, message);
    }
}

/// Whether there are more versions than the limit. The report then contains it.
pub(crate) fn skip_if_too_many(
    rule: &'static Rule,
    crd: &Crd<'_>,
    old: &Crd<'_>,
    report: &mut Report<'_>,
) -> bool {
    let is_so = crd.versions.len().max(old.versions.len()) > MAX_COMPARED_VERSIONS;
    if is_so {
        report.skip(rule, "spec.versions", "the CRD has too many versions to compare them");
    }
    is_so
}

/// The versions of which objects are listed for one rule, up to the limit.
pub(crate) fn limit_versions<'v, T>(
    rule: &'static Rule,
    versions: &'v [T],
    report: &mut Report<'_>,
) -> &'v [T] {
    if versions.len() > MAX_LISTED_VERSIONS {
        let why = format!(
            "objects of {MAX_LISTED_VERSIONS} versions were looked at, there are more versions"
        );
        report.skip_part(rule, "", &why);
    }
    versions.get(..MAX_LISTED_VERSIONS).unwrap_or(versions)
}

/// An object that a schema rejects.
pub(crate) struct InvalidObject {
    pub(crate) object: Document,
    /// The version in which it was read. Snapshots contain it in the version of the file.
    version: String,
    /// The errors, as upstream prints them.
    pub(crate) why: String,
    /// The schema.
    pub(crate) field: String,
}

impl InvalidObject {
    /// `namespace/name`, or the name of an object of the cluster.
    fn name(&self) -> String {
        let name = self.object.text_or_empty("/metadata/name");
        match self.object.text_or_empty("/metadata/namespace").as_str() {
            "" => name,
            namespace => format!("{namespace}/{name}"),
        }
    }

    /// `stable.example.com/v1, Kind=CronTab`.
    fn api(&self) -> String {
        let written = self.object.text_or_empty("/apiVersion");
        let group = written.split_once('/').map_or("", |(group, _)| group);
        names::group_version_kind(group, &self.version, &self.object.text_or_empty("/kind"))
    }
}

/// Lists the objects of a CRD for a rule.
pub(crate) struct ObjectLister<'r> {
    pub(crate) review: &'r Review<'r>,
    pub(crate) crd: &'r Crd<'r>,
    pub(crate) rule: &'static Rule,
}

impl ObjectLister<'_> {
    /// The first object, read in a version, that the schema of a version rejects. Reports objects
    /// that were not evaluated.
    pub(crate) fn first_invalid(
        &self,
        read: &str,
        version: &Version,
        work: &mut WorkBudget,
        report: &mut Report<'_>,
    ) -> Option<InvalidObject> {
        let schema = self.crd.schema(version)?;
        let field = schema.field.clone();
        let skip_part = |report: &mut Report<'_>, why: &str| {
            report.skip_part(self.rule, &field, why);
        };
        let text = json::read_raw(self.crd.document, &schema.pointer);
        let Some(parsed) = text.as_deref().and_then(Json::parse) else {
            skip_part(report, "the schema is too large or too deep");
            return None;
        };
        let resource = GroupVersionResource {
            group: self.crd.document.text_or_empty("/spec/group"),
            version: read.to_owned(),
            resource: self.crd.document.text_or_empty("/spec/names/plural"),
        };
        let sampled = match sample(&resource, self.limit()) {
            Ok(sampled) => sampled,
            Err(error) => {
                report.skip(self.rule, "", &error.to_string());
                return None;
            }
        };
        let validator = Validator::of(&parsed);
        let mut looked = 0_usize;
        for object in sampled.objects {
            let text = json::read_raw(&object, "");
            if let Some(value) = text.as_deref().and_then(Json::parse) {
                if let Some(why) = validator.errors(&value, work) {
                    let version = read.to_owned();
                    return Some(InvalidObject { object, version, why, field: schema.field });
                }
                if work.is_exhausted() {
                    let why = format!("{looked} objects were looked at, more would take too long");
                    skip_part(report, &why);
                    return None;
                }
                looked = looked.saturating_add(1);
            } else {
                skip_part(report, "an object is too large or too deep");
            }
        }
        if !sampled.complete {
            skip_part(report, &format!("{looked} objects were looked at, there are more"));
        }
        None
    }

    fn limit(&self) -> u32 {
        let limit = self.review.settings.integer("/crd/maxObjects");
        limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(opgate_sdk::MAX_SAMPLE_OBJECTS)
    }
}
