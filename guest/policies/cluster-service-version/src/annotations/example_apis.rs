//! Examples and the APIs that a ClusterServiceVersion provides.
//!
//! ```text
//! owned CRDs and API services ─▶ ProvidedApis (sorted) ◀── lookup ── examples
//! ```
//!
//! There can be tens of thousands of both, so neither list is searched from the start.

use std::collections::BTreeSet;

use opgate_sdk::go::shorten;
use opgate_sdk::{Report, Shape, rule, rules};

use super::examples::{EXAMPLES, Examples};
use super::{AnnotationViolations, field};
use crate::csv::Csv;
use crate::entries::Entries;
use crate::targets::{CATALOG, CSV};

rules![CSV_56, CSV_57, CSV_58];

/// Bytes of a kind, and of an API version, that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;

const CRDS: &str = "/spec/customresourcedefinitions/owned";
const SERVICES: &str = "/spec/apiservicedefinitions/owned";
const CRDS_FIELD: &str = "spec.customresourcedefinitions.owned";
const SERVICES_FIELD: &str = "spec.apiservicedefinitions.owned";

const OWNED_CRDS: Shape = Shape::List(&Shape::Struct(&[
    ("name", Shape::Scalar),
    ("version", Shape::Scalar),
    ("kind", Shape::Scalar),
]));
const OWNED_SERVICES: Shape = Shape::List(&Shape::Struct(&[
    ("group", Shape::Scalar),
    ("version", Shape::Scalar),
    ("kind", Shape::Scalar),
]));

/// Whether the provided APIs must be evaluated.
pub(super) fn are_touched(csv: &Csv<'_, '_>) -> bool {
    csv.touches(CRDS, &OWNED_CRDS) || csv.touches(SERVICES, &OWNED_SERVICES)
}

/// Returns the indexes of owned CRDs without an example.
pub(super) fn check(csv: &mut Csv<'_, '_>, examples: &Examples) -> Vec<usize> {
    if examples.is_new {
        check_metadata_and_spec(csv, examples);
    }
    let crds = Entries::read_all(csv.object, CRDS, &["/name", "/version", "/kind"]);
    let services = Entries::read_all(csv.object, SERVICES, &["/group", "/version", "/kind"]);
    let mut provided = ProvidedApis::of(&crds, &services);
    check_apis_provided(csv, examples, &mut provided);
    report_missing_examples(csv, provided)
}

rule! {
    /// an example has metadata and a spec
    ///
    /// Each element of `alm-examples`, or of `olm.examples` if that is absent, has objects
    /// `metadata` and `spec`. They may be empty. The message names `alm-examples` for both
    /// annotations. Copies are exempt. An UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// The console uses the example as a template. Users cannot create an object without a name and
    /// a spec from it. The scorecard of the Operator SDK reports a missing spec.
    ///
    /// # Remediation
    ///
    /// Write the values that a user needs to start: a name and the smallest useful spec.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// alm-examples: >-
    ///   [{"apiVersion":"etcd.database.coreos.com/v1beta2","kind":"EtcdCluster",
    ///   "metadata":{"name":"example"},"spec":{"size":3}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// alm-examples: '[{"apiVersion":"a/v1","kind":"A","metadata":{"name":"example"}}]'
    /// ```
    ///
    /// `message: alm-examples[0] has no spec block`
    CSV_56: Warn {
        name: "examples-have-metadata-and-spec",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20767, L22176-22184", "OCP 4.15 L16942-16960"],
    }
}

fn check_metadata_and_spec(csv: &mut Csv<'_, '_>, examples: &Examples) {
    let mut found = AnnotationViolations::of(&CSV_56);
    for (index, example) in examples.all.iter().enumerate() {
        for (block, is_there) in [("metadata", example.has_metadata), ("spec", example.has_spec)] {
            if !is_there {
                found.add(csv, || {
                    let message = format!("{EXAMPLES}[{index}] has no {block} block");
                    (format!("{}[{index}]", field(examples.name)), message)
                });
            }
        }
    }
    found.finish(csv);
}

/// Kind, group and version. The values that differ most come first, so comparisons end sooner.
type Api<'a> = (&'a str, &'a str, &'a str);

/// An owned API.
struct OwnedApi<'a> {
    api: Api<'a>,
    list: &'static str,
    index: usize,
    has_example: bool,
}

/// The APIs that a ClusterServiceVersion provides, each once, in the order of their names.
struct ProvidedApis<'a> {
    apis: Vec<OwnedApi<'a>>,
    /// Whether any are declared, including those with unreadable names.
    are_declared: bool,
}

impl<'a> ProvidedApis<'a> {
    fn of(crds: &'a Entries, services: &'a Entries) -> Self {
        let mut apis = Vec::new();
        let mut are_declared = false;
        for (index, row) in crds.iter() {
            are_declared = true;
            // Another rule reports a name without a group.
            if let Some((_, group)) = row.text_or_empty(0).split_once('.') {
                let api = (row.text_or_empty(2), group, row.text_or_empty(1));
                apis.push(OwnedApi { api, list: CRDS_FIELD, index, has_example: false });
            }
        }
        for (index, row) in services.iter() {
            are_declared = true;
            let api = (row.text_or_empty(2), row.text_or_empty(0), row.text_or_empty(1));
            apis.push(OwnedApi { api, list: SERVICES_FIELD, index, has_example: false });
        }
        // A stable sort: the first of several entries for an API stays first.
        apis.sort_by_key(|owned| owned.api);
        apis.dedup_by_key(|owned| owned.api);
        Self { apis, are_declared }
    }

    /// Records an example. Returns whether its API is provided.
    fn mark_example(&mut self, api: Api<'_>) -> bool {
        let Ok(at) = self.apis.binary_search_by(|owned| owned.api.cmp(&api)) else { return false };
        if let Some(owned) = self.apis.get_mut(at) {
            owned.has_example = true;
        }
        true
    }
}

rule! {
    /// an example is of an API that the ClusterServiceVersion provides
    ///
    /// If the ClusterServiceVersion owns custom resource definitions or API services, the group,
    /// version and kind of each example are those of one of them. The group of a definition is the
    /// part of its name after the first dot. The violation is at the first example of an API.
    /// Copies are exempt. An UPDATE is evaluated only if it changes the annotation, or name,
    /// version and kind (or group, version and kind) of an owned definition.
    ///
    /// # Why
    ///
    /// The console offers examples of the provided APIs only, and cannot create an object of an API
    /// that is not served. The validators of operator-framework/api reject the bundle.
    ///
    /// # Remediation
    ///
    /// Correct `apiVersion` or `kind` of the example, add the definition to `owned`, or remove the
    /// example.
    ///
    /// # Accepted
    ///
    /// An example `etcd.database.coreos.com/v1beta2`, `EtcdCluster`, where
    /// `etcdclusters.etcd.database.coreos.com` with that version and kind is owned.
    ///
    /// # Rejected
    ///
    /// An example of kind `Foo` where only `EtcdCluster` is owned.
    ///
    /// `message: example must have a provided API: Foo of etcd.database.coreos.com/v1beta2 is not owned`
    CSV_57: Deny {
        name: "examples-of-provided-apis",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle, Manifest],
        source: ["OCP 4.12 L20764-20775", "api pkg/validation/internal/csv.go"],
    }
}

fn check_apis_provided(
    csv: &mut Csv<'_, '_>,
    examples: &Examples,
    provided: &mut ProvidedApis<'_>,
) {
    let mut found = AnnotationViolations::of(&CSV_57);
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for (index, example) in examples.all.iter().enumerate() {
        let (api_version, kind) = examples.api(example);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        if provided.mark_example((&kind, group, version)) || !provided.are_declared {
            continue;
        }
        // Reports each API once, as upstream does, while the report has room for violations.
        if seen.len() < Report::MAX_VIOLATIONS
            && !seen.insert((kind.to_string(), api_version.to_string()))
        {
            continue;
        }
        found.add(csv, || {
            let [kind, api_version] =
                [&kind, &api_version].map(|text| shorten(text, MAX_SHOWN_BYTES));
            (
                format!("{}[{index}].kind", field(examples.name)),
                format!("example must have a provided API: {kind} of {api_version} is not owned"),
            )
        });
    }
    found.finish(csv);
}

rule! {
    /// every provided API has an example
    ///
    /// Each owned custom resource definition and API service has an example with its group, version
    /// and kind. Without `alm-examples` and `olm.examples` only CSV-52 applies. An owned definition
    /// without a display name or a description is one violation of CSV-40 or CSV-41, which names
    /// this rule. Copies are exempt. An UPDATE is evaluated only if it changes the annotation, or
    /// name, version and kind (or group, version and kind) of an owned definition.
    ///
    /// # Why
    ///
    /// The console uses the example as the initial content of a new custom resource. Without an
    /// example, a user starts with empty fields.
    ///
    /// # Remediation
    ///
    /// Add an example for the API to `alm-examples`.
    ///
    /// # Accepted
    ///
    /// One example of `EtcdCluster`, the only owned API.
    ///
    /// # Rejected
    ///
    /// `EtcdBackup` is also owned.
    ///
    /// `message: provided API should have an example annotation`
    pub(crate) CSV_58: Warn {
        name: "provided-apis-have-examples",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20764, L22577-22592", "api pkg/validation/internal/csv.go"],
    }
}

/// Reports API services without an example. Returns the indexes of custom resource definitions
/// without one.
fn report_missing_examples(csv: &mut Csv<'_, '_>, provided: ProvidedApis<'_>) -> Vec<usize> {
    let mut missing = provided.apis;
    missing.retain(|owned| !owned.has_example);
    missing.sort_by_key(|owned| owned.index);
    let (crds, services): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|owned| owned.list == CRDS_FIELD);
    let mut found = AnnotationViolations::of(&CSV_58);
    for OwnedApi { list, index, .. } in services {
        found.add(csv, || {
            let message = "provided API should have an example annotation";
            (format!("{list}[{index}]"), message.to_owned())
        });
    }
    found.finish(csv);
    crds.into_iter().map(|owned| owned.index).collect()
}
