//! Validation of the examples of a bundle with the schemas of its CRDs.
//!
//! ```text
//! manifests/, first documents ─┬─ CustomResourceDefinition ─▶ group, kind, version ─▶ fields of the schema ─┐
//!                              └─ ClusterServiceVersion ─▶ alm-examples ─▶ fields of spec and status ────────┴─▶ missing
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, Review, Row, escape, rule, rules};

use crate::crd::Crd;
use crate::targets::REGISTRY_BUNDLE;
use crate::validation::json::Json;

rules![CRD_27];

/// The parts of an object that are evaluated.
const PARTS: [&str; 2] = ["spec", "status"];

rule! {
    /// the CRDs of a bundle have schemas for the fields of its examples
    ///
    /// Every version of a CRD in `manifests/` has a schema (`spec.versions[].schema`, or
    /// `spec.validation` in `apiextensions.k8s.io/v1beta1`). For each object in the annotation
    /// `alm-examples` of a ClusterServiceVersion in `manifests/`, the CRD of its group and kind
    /// (case-insensitive) has, in the version of the object, a property for each member of `spec`
    /// and of `status`. Members of these members are not evaluated. Examples without such a CRD are
    /// not evaluated, and only the first document of each file counts. The rule is off by default.
    ///
    /// # Gap
    ///
    /// Bundles in catalogs are not evaluated, because `olm.csv.metadata` has no CRDs. Run `opgate
    /// check` on the files of the bundle instead.
    ///
    /// # Why
    ///
    /// The scorecard has the same test, `olm-crds-have-validation-test` (OpenShift 4.12, Operators,
    /// *Validating Operators using the scorecard tool*): without a schema, the API server drops the
    /// field or accepts any value.
    ///
    /// # Remediation
    ///
    /// Add the field to the schema. `make manifests` generates the schema from the types in Go.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The example: {kind: Memcached, spec: {size: 3}}
    /// openAPIV3Schema: {properties: {spec: {properties: {size: {type: integer}}}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The same example.
    /// openAPIV3Schema: {properties: {spec: {type: object}}}
    /// ```
    ///
    /// `message: CRD "memcacheds.cache.example.com" has no validation for spec.size`
    ///
    /// A version without a schema, if no example has a field of it: `message: CRD
    /// "memcacheds.cache.example.com" has no validation for version v1`
    CRD_27: Warn {
        name: "crd-schema-covers-examples",
        on: [REGISTRY_BUNDLE: Create | Update],
        enabled_by: [],
        source: ["OCP 4.12 L11480, L22207-22215", "OCP 4.15 L16942-16960"],
    }
}

/// A version of a CRD in the bundle.
struct ProvidedVersion {
    crd: String,
    version: String,
    /// The schema, or the field where it is missing.
    field: String,
    has_schema: bool,
    /// The properties of each part.
    properties: [BTreeSet<String>; 2],
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(directory) = review.subject().filter(|_| report.is_on(&CRD_27)) else { return };
    let files = directory.rows("/spec/files", &["/path", "/documents/0/kind", "/documents/0"]);
    let manifests = |kind: &'static str| {
        let is_wanted = move |(_, file): &(usize, Row<'_>)| {
            let name = file.text_or_empty(0).strip_prefix("manifests/");
            file.kind(2) == Kind::Object
                && file.text_or_empty(1) == kind
                && name.is_some_and(|name| !name.contains('/'))
        };
        files.iter().enumerate().filter(is_wanted).filter_map(move |(index, _)| {
            let document = directory.at(&format!("/spec/files/{index}/documents/0"))?;
            Some((document, format!("spec.files[{index}].documents[0]")))
        })
    };
    // By group, version and kind.
    let mut provided: BTreeMap<[String; 3], ProvidedVersion> = BTreeMap::new();
    for (document, place) in manifests("CustomResourceDefinition") {
        let crd = Crd::of(&document);
        let group = document.text_or_empty("/spec/group");
        let kind = document.text_or_empty("/spec/names/kind").to_ascii_lowercase();
        for version in crd.by_name() {
            let key = [group.clone(), version.name.clone(), kind.clone()];
            let schema = crd.schema(version);
            let has_schema = schema.is_some();
            let known = PARTS.map(|part| {
                let properties = |schema: &crate::crd::SchemaLocation| {
                    let at = format!("{}/properties/{part}/properties", schema.pointer);
                    document.keys(&at).into_iter().collect()
                };
                schema.as_ref().map(properties).unwrap_or_default()
            });
            let field = schema.map_or_else(|| version.member("schema"), |schema| schema.field);
            let field = format!("{place}.{field}");
            let (crd, version) = (crd.name(), version.name.clone());
            provided.insert(
                key,
                ProvidedVersion { crd, version, field, has_schema, properties: known },
            );
        }
    }
    let mut missing: BTreeSet<(String, String, String)> = BTreeSet::new();
    for (csv, _) in manifests("ClusterServiceVersion") {
        find_uncovered(&csv, &provided, &mut missing);
    }
    let places: BTreeSet<String> = missing.iter().map(|(_, field, _)| field.clone()).collect();
    for version in provided.values().filter(|version| !version.has_schema) {
        if !places.contains(&version.field) {
            let what = format!("version {}", version.version);
            missing.insert((version.crd.clone(), version.field.clone(), what));
        }
    }
    report.add_each(&CRD_27, missing, |(crd, field, what)| {
        (field, format!("CRD {} has no validation for {what}", quote(&crd)))
    });
}

/// Fields of the examples without a schema: the CRD, the field of its schema, and the field.
fn find_uncovered(
    csv: &Document,
    provided: &BTreeMap<[String; 3], ProvidedVersion>,
    missing: &mut BTreeSet<(String, String, String)>,
) {
    let annotation = format!("/metadata/annotations/{}", escape("alm-examples"));
    let text = csv.text_or_empty(&annotation);
    let Some(examples) = Json::parse(text.as_bytes()) else { return };
    for example in examples.items() {
        let of = |name: &str| example.member(name).and_then(Json::text).unwrap_or_default();
        let (group, version) = of("apiVersion").split_once('/').unwrap_or(("", of("apiVersion")));
        let kind = of("kind").to_ascii_lowercase();
        let key = [group.to_owned(), version.to_owned(), kind];
        let Some(version) = provided.get(&key) else { continue };
        for (part, known) in PARTS.iter().zip(&version.properties) {
            let members = example.member(part).map(Json::members).unwrap_or_default();
            for (name, _) in members.iter().filter(|(name, _)| !known.contains(&**name)) {
                let what = format!("{part}.{name}");
                missing.insert((version.crd.clone(), version.field.clone(), what));
            }
        }
    }
}
