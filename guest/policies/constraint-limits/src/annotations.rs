//! Properties in annotations of ClusterServiceVersions, and the range of versions to skip.

use opgate_compat::range::Range;
use opgate_constraint::constraint;
use opgate_constraint::properties::{self, ListFormat};
use opgate_sdk::copies::CopyMarks;
use opgate_sdk::{Document, Report, Review, escape, rule, rules};

use crate::checks::CON_10;
use crate::scan::Scan;
use crate::targets::{CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_17];

/// The annotation of OLM and the annotation in bundles.
pub(crate) const PROPERTIES: [(&str, ListFormat); 2] = [
    ("operatorframework.io/properties", ListFormat::Wrapped),
    ("olm.properties", ListFormat::Bare),
];
const SKIP_RANGE: &str = "olm.skipRange";
pub(crate) const ANNOTATIONS: &str = "/metadata/annotations";

/// Evaluates the annotations of a CSV. If there is an old object, evaluates only the annotations
/// that differ from it.
///
/// A copy has the same properties as its original, so evaluating it again is harmless. Only copies
/// that OLM writes are skipped. An update that drops or changes a mark of a copy is evaluated as a
/// whole.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(csv) = review.subject() else { return };
    let marks_of = |csv: &Document| CopyMarks::of(csv, review.namespace());
    let marks = marks_of(csv);
    let old = review.ratchet_base().filter(|old| marks.is_old_evaluated(&marks_of(old)));
    let is_same =
        |old: &Document| marks_of(old) == marks && csv.equal(ANNOTATIONS, old, ANNOTATIONS);
    if marks.claims_copy() {
        if review.may_be_olm() {
            return;
        }
        if old.is_none_or(|old| !is_same(old)) {
            report.warn_unlisted_user("writes what claims to be a copy");
        }
    }
    let mut scan = Scan::new(review, report);
    check_properties(csv, old, ANNOTATIONS, "metadata.annotations", &mut scan);
}

/// Evaluates the annotations at a pointer. `at` is their field.
pub(crate) fn check_properties(
    object: &Document,
    old: Option<&Document>,
    annotations: &str,
    at: &str,
    scan: &mut Scan<'_, '_>,
) {
    let names = PROPERTIES.map(|(name, form)| (name, Some(form)));
    for (name, form) in names.into_iter().chain([(SKIP_RANGE, None)]) {
        let pointer = format!("{annotations}/{}", escape(name));
        // Not `kind`, because that reads the value.
        if object.size(&pointer).is_none() {
            continue;
        }
        let field = format!("{at}[{name}]");
        let is_old = old.is_some_and(|old| object.equal(&pointer, old, &pointer));
        if is_old || !scan.check_size(object, &pointer, &field) {
            continue;
        }
        match (object.text(&pointer), form) {
            (Some(text), Some(form)) => check_list(&text, form, &field, true, scan),
            (Some(text), None) => check_skip_range(&text, || field, scan),
            (None, _) => {}
        }
    }
}

/// Reports a range of versions to skip that has an unexpected meaning. Other rules report
/// unreadable ranges.
pub(crate) fn check_skip_range(
    text: &str,
    field: impl FnOnce() -> String,
    scan: &mut Scan<'_, '_>,
) {
    let surprise =
        Range::parse(text).ok().and_then(|range| constraint::range_warning(text, &range));
    if let Some(message) = surprise {
        scan.add(&CON_10, field(), message);
    }
}

rule! {
    /// annotations with properties are lists of properties in JSON
    ///
    /// The annotation `operatorframework.io/properties` of a ClusterServiceVersion is a JSON object
    /// with the list `properties`, and `olm.properties` is the list itself; elements are objects,
    /// and their `type` is a string. An empty object or list is accepted, an empty annotation is
    /// not. The same applies to `properties` in `status.bundleLookups` of an `InstallPlan`, where
    /// empty counts as absent, and for ClusterServiceVersions inside ConfigMaps, bundles and
    /// catalogs. On UPDATE the rule evaluates only the annotations that the request changes, unless
    /// the setting `ratcheting` is off and the object is not being deleted. If the request drops or
    /// changes a mark of a copy (label `olm.copiedFrom`, annotation `olm.operatorNamespace`, status
    /// reason `Copied`), the rule evaluates the whole object. Copies are exempt only if OLM writes
    /// them, by its user names (`identities.olm` or the profile): the rule reads no other object,
    /// and a true copy has the same properties as its original.
    ///
    /// # Why
    ///
    /// OLM's resolver reads the properties of an installed Operator from the annotation, and fails
    /// with the same error if it cannot.
    ///
    /// # Remediation
    ///
    /// Write JSON of the documented structure, or remove the annotation. If requests of OLM itself
    /// are denied, add its user to `identities.olm`, or set the profile of the cluster.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   annotations:
    ///     operatorframework.io/properties: '{"properties":[{"type":"color","value":"red"}]}'
    ///     olm.properties: '[]'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   annotations:
    ///     operatorframework.io/properties: ''
    /// ```
    ///
    /// message: `failed to unmarshal properties annotation: unexpected end of JSON input`
    CON_17: Deny {
        name: "properties-annotation-json",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update,
        ],
        source: ["OLM pkg/controller/registry/resolver/projection/properties.go"],
    }
}

/// A list of properties as JSON text. `certain` is true if OLM reads this text.
pub(crate) fn check_list(
    json: &str,
    form: ListFormat,
    field: &str,
    certain: bool,
    scan: &mut Scan<'_, '_>,
) {
    let place = if form == ListFormat::Wrapped { ".properties" } else { "" };
    let read = properties::each(json.as_bytes(), form, |property| {
        let at = || format!("{field}{place}[{}].value", property.index);
        if scan.check_settled(at) {
            return;
        }
        let found = scan.evaluate_property(property);
        if !found.violations.is_empty() {
            scan.add_problems(&at(), found);
        }
    });
    if let Err(error) = read
        && certain
    {
        let message = format!("failed to unmarshal properties annotation: {error}");
        scan.add(&CON_17, field, message);
    }
}
