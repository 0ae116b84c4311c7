//! APIs that an Operator requires or owns, and CRDs: those of the cluster, or of the same bundle.

use std::collections::{HashMap, HashSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Rule, rule, rules};

use crate::csv::Csv;
use crate::entries::{ChangedList, Entries, RuleViolations};
use crate::reads::{API_SERVICES, CRDS};
use crate::targets::{CATALOG, CSV, REGISTRY_BUNDLE};

rules![CSV_50, CSV_51];

const COLUMNS: [&str; 2] = ["/name", "/version"];
const OWNED: &str = "/spec/customresourcedefinitions/owned";
const REQUIRED: &str = "/spec/customresourcedefinitions/required";
const REQUIRED_SERVICES: &str = "/spec/apiservicedefinitions/required";
/// Maximum number of queries by name for one review. A bundle needs some dozens.
const MAX_QUERIES: usize = 2_000;

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    check_available(csv);
    check_served_by_cluster(csv);
}

rule! {
    /// required APIs are available in the cluster
    ///
    /// For each entry of `spec.customresourcedefinitions.required` the CustomResourceDefinition of
    /// that name is in the cluster and serves the version. For each entry of
    /// `spec.apiservicedefinitions.required` the APIService `<version>.<group>` is in the cluster.
    /// Copies are exempt if OLM writes them or the original exists. On UPDATE, the rule evaluates
    /// only entries whose name, version or group is new. The rule reads CustomResourceDefinitions
    /// and APIServices.
    ///
    /// # Why
    ///
    /// OLM keeps the ClusterServiceVersion pending until the APIs are available (OLM
    /// `pkg/controller/operators/olm/requirements.go`). This can be temporary, while OLM installs
    /// another Operator that provides them, so the rule does not deny.
    ///
    /// # Remediation
    ///
    /// Install an Operator that provides the API, or wait for it. With a Subscription, OLM finds
    /// one automatically.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # In the cluster, serving v1beta2.
    /// required: [{name: etcdclusters.etcd.database.coreos.com, version: v1beta2}]
    /// ```
    ///
    /// # Rejected
    ///
    /// The accepted entry while the CustomResourceDefinition is not in the cluster.
    ///
    /// `message: required API etcdclusters.etcd.database.coreos.com v1beta2 is not available in the
    /// cluster; the CSV stays pending until it is`
    ///
    /// For an API service: `message: required API v1alpha1.a.example.com is not available in the
    /// cluster; the CSV stays pending until it is`
    CSV_50: Warn {
        name: "required-apis-available",
        on: [CSV: Create | Update],
        reads: [CRDS, API_SERVICES],
        source: ["OCP 4.12 L2240-2256, L20533-20539, L21080, L25890-25902", "OLM pkg/controller/operators/olm/requirements.go"],
    }
}

fn check_available(csv: &mut Csv<'_, '_>) {
    if !csv.is_on(&CSV_50) {
        return;
    }
    let mut missing = RuleViolations::of(&CSV_50);
    if let Some(required) = ChangedList::read_first(csv, REQUIRED, &COLUMNS) {
        let mut known = VersionStates::default();
        for (index, crd) in required.new_entries(&[0, 1]) {
            let [name, version] = [0, 1].map(|column| crd.text_or_empty(column));
            let Some(state) = known.query_state(csv, &CSV_50, name, version) else { break };
            if state != VersionState::Served {
                let field = format!("spec.customresourcedefinitions.required[{index}].name");
                missing.add(csv, || [field, unavailable_message(&format!("{name} {version}"))]);
            }
            if missing.is_full() {
                return;
            }
        }
    }
    let Some(services) = ChangedList::read_first(csv, REQUIRED_SERVICES, &["/version", "/group"])
    else {
        return;
    };
    let mut known = HashSet::new();
    for (index, service) in services.new_entries(&[0, 1]) {
        let [version, group] = [0, 1].map(|column| service.text_or_empty(column));
        let name = format!("{version}.{group}");
        if version.is_empty() || group.is_empty() || known.contains(&name) {
            continue;
        }
        if known.len() >= MAX_QUERIES || missing.is_full() {
            return;
        }
        let answer = API_SERVICES.get("", &name);
        let Some(answer) = csv.report.or_skip(&[&CSV_50], "APIServices", answer) else { return };
        if answer.is_none() {
            let field = format!("spec.apiservicedefinitions.required[{index}]");
            missing.add(csv, || [field, unavailable_message(&name)]);
        }
        // Once for all kinds of the API service.
        known.insert(name);
    }
}

fn unavailable_message(api: &str) -> String {
    format!("required API {api} is not available in the cluster; the CSV stays pending until it is")
}

rule! {
    /// the version of an owned CRD is one that the CustomResourceDefinition serves
    ///
    /// `version` of each entry of `spec.customresourcedefinitions.owned` is among the
    /// `spec.versions` of the CustomResourceDefinition of that name, with `served: true`. For a
    /// request, the CustomResourceDefinition is the one in the cluster; if it does not exist yet,
    /// the entry is not evaluated. For the files of a bundle, it is the one in `manifests/`. Copies
    /// are exempt if OLM writes them or the original exists. On UPDATE, the rule evaluates only
    /// entries whose name or version is new. The rule reads CustomResourceDefinitions.
    ///
    /// # Why
    ///
    /// OLM does not install the Operator while the version is not served (OLM
    /// `pkg/controller/operators/olm/requirements.go`). OpenShift 4.12, Operators, *Adding a new
    /// CRD version* and *Deprecating or removing a CRD version*, requires updating the version in
    /// the ClusterServiceVersion together with the CustomResourceDefinition.
    ///
    /// # Remediation
    ///
    /// Correct the version in the ClusterServiceVersion, or add it to the CustomResourceDefinition.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The CustomResourceDefinition serves v1beta1.
    /// owned: [{name: cluster.example.com, version: v1beta1, kind: Cluster}]
    /// ```
    ///
    /// # Rejected
    ///
    /// The accepted entry with `version: v1alpha1`.
    ///
    /// `message: owned CRD "cluster.example.com": version "v1alpha1" is not served by the CRD`
    CSV_51: Warn {
        name: "owned-crd-version-served",
        on: [CSV: Create | Update, REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update],
        reads: [CRDS],
        source: ["OCP 4.12 L20670-20680, L20753", "OCP 4.15 L15122-15214"],
    }
}

fn check_served_by_cluster(csv: &mut Csv<'_, '_>) {
    if !csv.is_on(&CSV_51) {
        return;
    }
    let Some(owned) = ChangedList::read_first(csv, OWNED, &COLUMNS) else { return };
    let mut known = VersionStates::default();
    let mut unserved = RuleViolations::of(&CSV_51);
    for (index, crd) in owned.new_entries(&[0, 1]) {
        let [name, version] = [0, 1].map(|column| crd.text_or_empty(column));
        let Some(state) = known.query_state(csv, &CSV_51, name, version) else { return };
        if state == VersionState::Unserved {
            unserved.add(csv, || unserved_violation(index, name, version));
        }
        if unserved.is_full() {
            return;
        }
    }
}

/// A CRD among the files of a bundle.
#[derive(Debug)]
pub(crate) struct Crd {
    name: String,
    served: HashSet<String>,
}

impl Crd {
    /// Reads a manifest. A manifest of `v1beta1` may have a single version.
    pub(crate) fn of(manifest: &Document) -> Self {
        let mut served: HashSet<_> = served_versions(manifest).collect();
        if manifest.length("/spec/versions").is_none_or(|count| count == 0) {
            served.extend(manifest.text("/spec/version"));
        }
        Self { name: manifest.text_or_empty("/metadata/name"), served }
    }
}

/// CSV-51 for a ClusterServiceVersion and the CRDs of its bundle.
pub(crate) fn check_in_bundle(csv: &mut Csv<'_, '_>, crds: &[Crd]) {
    let crds: HashMap<_, _> = crds.iter().map(|crd| (crd.name.as_str(), crd)).collect();
    let owned = Entries::read_first(csv.object, OWNED, &COLUMNS);
    let mut unserved = RuleViolations::of(&CSV_51);
    for (index, crd) in owned.iter() {
        let [name, version] = [0, 1].map(|column| crd.text_or_empty(column));
        let is_served = |crd: &&Crd| version.is_empty() || crd.served.contains(version);
        if crds.get(name).is_some_and(|crd| !is_served(crd)) {
            unserved.add(csv, || unserved_violation(index, name, version));
        }
    }
}

fn unserved_violation(index: usize, name: &str, version: &str) -> [String; 2] {
    let (name, version) = (quote(name), quote(version));
    let field = format!("spec.customresourcedefinitions.owned[{index}].version");
    [field, format!("owned CRD {name}: version {version} is not served by the CRD")]
}

/// The versions that a CRD serves.
fn served_versions(crd: &Document) -> impl Iterator<Item = String> {
    let versions = crd.rows("/spec/versions", &["/name", "/served"]);
    let served = versions.iter().filter(|row| row.boolean(1) == Some(true));
    served.map(|row| row.text_or_empty(0).to_owned()).collect::<Vec<_>>().into_iter()
}

/// The state of a version of a CRD in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionState {
    Absent,
    Unserved,
    Served,
}

/// The results of earlier queries.
#[derive(Debug, Default)]
struct VersionStates<'r>(HashMap<[&'r str; 2], VersionState>);

impl<'r> VersionStates<'r> {
    /// The state of a version; none without a cluster, or after too many queries. An incomplete
    /// entry is not evaluated.
    fn query_state(
        &mut self,
        csv: &mut Csv<'_, '_>,
        rule: &'static Rule,
        name: &'r str,
        version: &'r str,
    ) -> Option<VersionState> {
        if name.is_empty() || version.is_empty() {
            return Some(VersionState::Served);
        }
        if let Some(state) = self.0.get(&[name, version]) {
            return Some(*state);
        }
        if self.0.len() >= MAX_QUERIES {
            return None;
        }
        let answer = CRDS.get("", name);
        let crd = csv.report.or_skip(&[rule], "CustomResourceDefinitions", answer)?;
        let state = match crd {
            None => VersionState::Absent,
            Some(crd) if served_versions(&crd).any(|served| served == version) => {
                VersionState::Served
            }
            Some(_) => VersionState::Unserved,
        };
        self.0.insert([name, version], state);
        Some(state)
    }
}
