//! API services that an Operator owns or requires.

use std::collections::{HashMap, HashSet};

use opgate_sdk::corrections;
use opgate_sdk::names::group_version_kind;
use opgate_sdk::{Document, Row, rule, rules};

use super::deployments::{DEPLOYMENTS, propose_deployment};
use super::descriptors;
use super::schema::{RequiredTexts, lacks};
use crate::csv::Csv;
use crate::entries::{ChangedList, Entries, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_44, CSV_45, CSV_46, CSV_47, CSV_48];

const COLUMNS: [&str; 10] = [
    "/group",
    "/version",
    "/kind",
    "/name",
    "/deploymentName",
    "/displayName",
    "/description",
    "/specDescriptors",
    "/statusDescriptors",
    "/actionDescriptors",
];
const GROUP: usize = 0;
const VERSION: usize = 1;
const KIND: usize = 2;
const NAME: usize = 3;
const DEPLOYMENT: usize = 4;
const DESCRIPTIVE_COLUMNS: [(usize, &str); 2] = [(5, "displayName"), (6, "description")];
const DESCRIPTORS: usize = 7;

const OWNED: &str = "/spec/apiservicedefinitions/owned";
const OWNED_FIELD: &str = "spec.apiservicedefinitions.owned";
const REQUIRED: &str = "/spec/apiservicedefinitions/required";
const REQUIRED_FIELD: &str = "spec.apiservicedefinitions.required";

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    check_owned_complete(csv);
    check_required_complete(csv);
    check_deployment_exists(csv);
    if let Some(owned) = ChangedList::read_first(csv, OWNED, &COLUMNS) {
        check_descriptions(csv, &owned, OWNED_FIELD);
        check_unique(csv, &owned);
        descriptors::check(csv, OWNED, OWNED_FIELD, &owned, [NAME, DESCRIPTORS]);
    }
    if let Some(required) = ChangedList::read_first(csv, REQUIRED, &COLUMNS) {
        check_descriptions(csv, &required, REQUIRED_FIELD);
        descriptors::check(csv, REQUIRED, REQUIRED_FIELD, &required, [NAME, DESCRIPTORS]);
    }
}

rule! {
    /// owned API services have a group, a version, a kind, a name and a deployment
    ///
    /// Each entry of `spec.apiservicedefinitions.owned` has a `group`, a `version`, a `kind`, a
    /// `name` (the plural) and a `deploymentName` that are not empty. Copies are exempt if OLM
    /// writes them or the original exists. On UPDATE, the rule evaluates only entries in which one
    /// of the five values is new.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Owned API services*, calls the five required. OLM registers the
    /// API service by group and version, and directs it to the service of the deployment.
    ///
    /// # Remediation
    ///
    /// Add the missing values. `deploymentName` is the name of a deployment of the install
    /// strategy.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned:
    /// - group: packages.operators.coreos.com
    ///   version: v1
    ///   kind: PackageManifest
    ///   name: packagemanifests
    ///   deploymentName: packageserver
    /// ```
    ///
    /// # Rejected
    ///
    /// The accepted entry without `deploymentName`.
    ///
    /// `message: spec.apiservicedefinitions.owned[0].deploymentName: Required value`
    CSV_44: Deny {
        name: "complete-owned-api-services",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20913-20981", "OCP 4.15 L15018-15395", "OCP 4.5 L6565-6990", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

fn check_owned_complete(csv: &mut Csv<'_, '_>) {
    let members = ["group", "version", "kind", "name", "deploymentName"];
    RequiredTexts { rule: &CSV_44, pointer: OWNED, field: OWNED_FIELD, members: &members }
        .check(csv);
}

rule! {
    /// required API services have a group, a version and a kind
    ///
    /// Each entry of `spec.apiservicedefinitions.required` has a `group`, a `version` and a `kind`
    /// that are not empty. Copies are exempt if OLM writes them or the original exists. On UPDATE,
    /// the rule evaluates only entries in which one of the three values is new.
    ///
    /// # Why
    ///
    /// OLM waits for the API before it installs the Operator, and cannot find it without the three
    /// values. See OpenShift 4.12, Operators, *Required API services*.
    ///
    /// # Remediation
    ///
    /// Add the missing values.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// required: [{group: a.example.com, version: v1alpha1, kind: A}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// required: [{group: a.example.com, kind: A}]
    /// ```
    ///
    /// `message: spec.apiservicedefinitions.required[0].version: Required value`
    CSV_45: Deny {
        name: "complete-required-api-services",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L21085-21119", "OCP 4.15 L15018-15395", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

fn check_required_complete(csv: &mut Csv<'_, '_>) {
    let members = ["group", "version", "kind"];
    RequiredTexts { rule: &CSV_45, pointer: REQUIRED, field: REQUIRED_FIELD, members: &members }
        .check(csv);
}

rule! {
    /// owned and required API services have a display name and a description
    ///
    /// `displayName` and `description` of each entry of `spec.apiservicedefinitions.owned` and
    /// `required` are not empty. Copies are exempt if OLM writes them or the original exists. On
    /// UPDATE, the rule evaluates only entries whose API or text is new. With the setting
    /// `csv.requiredFields: deny` the rule denies.
    ///
    /// # Why
    ///
    /// The console shows these texts to users who install and use the Operator. OpenShift 4.12,
    /// Operators, *Owned API services* and *Required API services*, calls them required.
    ///
    /// # Remediation
    ///
    /// Add the text that the message names.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned:
    /// - {group: a.example.com, version: v1, kind: A, displayName: A, description: Makes an A.}
    /// ```
    ///
    /// # Rejected
    ///
    /// The accepted entry without `description`.
    ///
    /// `message: spec.apiservicedefinitions.owned[0].description is required`
    CSV_46: Warn {
        name: "described-api-services",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L20986-21007, L21124-21145"],
    }
}

fn check_descriptions(csv: &mut Csv<'_, '_>, apis: &ChangedList, place: &str) {
    let mut missing = RuleViolations::of(&CSV_46);
    let columns = [GROUP, VERSION, KIND, DESCRIPTIVE_COLUMNS[0].0, DESCRIPTIVE_COLUMNS[1].0];
    for (index, api) in apis.new_entries(&columns) {
        for (_, member) in DESCRIPTIVE_COLUMNS.iter().filter(|(column, _)| lacks(api, *column)) {
            missing.add(csv, || {
                let field = format!("{place}[{index}].{member}");
                let message = format!("{field} is required");
                [field, message]
            });
        }
    }
}

rule! {
    /// owned API services name a deployment of the install strategy
    ///
    /// `deploymentName` of each entry of `spec.apiservicedefinitions.owned` is the `name` of one of
    /// `spec.install.spec.deployments`. CSV-44 reports a missing or empty one. In a catalog the
    /// rule evaluates complete objects, and not `olm.csv.metadata`, which omits the deployments.
    /// Copies are exempt if OLM writes them or the original exists. On UPDATE, the rule evaluates
    /// only entries that are new, or whose deployment is removed.
    ///
    /// # Why
    ///
    /// OLM looks for the deployment while the ClusterServiceVersion is pending, and never reaches
    /// `InstallReady` without it: OpenShift 4.12, Operators, *Owned API services*, and OLM
    /// `pkg/controller/operators/olm/requirements.go`.
    ///
    /// # Remediation
    ///
    /// Correct `deploymentName`, or add the deployment.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiservicedefinitions: {owned: [{deploymentName: packageserver}]}
    /// install: {spec: {deployments: [{name: packageserver}]}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiservicedefinitions:
    ///   owned: [{group: packages.operators.coreos.com, version: v1, deploymentName: other}]
    /// install: {spec: {deployments: [{name: packageserver}]}}
    /// ```
    ///
    /// `message: strategyDetailsDeployment is missing deployment other for owned APIServices
    /// v1.packages.operators.coreos.com`
    CSV_47: Deny {
        name: "api-service-deployment-exists",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20913, L20973-20981", "OCP 4.15 L15018-15395", "OLM pkg/controller/operators/olm/apiservices.go"],
    }
}

fn check_deployment_exists(csv: &mut Csv<'_, '_>) {
    let is_new = csv.touches_json(OWNED) || csv.touches_json(DEPLOYMENTS);
    let owns_any = csv.object.length(OWNED).is_some_and(|count| count > 0);
    if !owns_any || !csv.has_member_set("install") || !is_new {
        return;
    }
    let before = csv.ratchet_base().map(ServedApis::of);
    let before: HashSet<_> =
        before.iter().flat_map(ServedApis::unserved).map(|(_, api)| api).collect();
    let mut wrong = RuleViolations::of(&CSV_47);
    for (index, api) in ServedApis::of(csv.object).unserved() {
        if before.contains(&api) {
            continue;
        }
        let [name, version, group] = api;
        wrong.add(csv, || {
            let message = format!(
                "strategyDetailsDeployment is missing deployment {name} for owned APIServices {version}.{group}"
            );
            [format!("{OWNED_FIELD}[{index}].deploymentName"), message]
        });
        // An old entry that changes is evaluated by all rules.
        let is_old = csv.ratchet_base().is_some();
        let object = csv.object;
        csv.fix(&CSV_47, || {
            let pointer = format!("{OWNED}/{index}/deploymentName");
            (!is_old).then(|| propose_deployment(object, pointer, name)).flatten()
        });
    }
}

/// The owned API services, and the deployments that can serve them.
struct ServedApis {
    owned: Entries,
    deployments: Entries,
}

impl ServedApis {
    fn of(csv: &Document) -> Self {
        let owned = Entries::read_all(csv, OWNED, &["/deploymentName", "/version", "/group"]);
        let deployments = Entries::read_all(csv, DEPLOYMENTS, &["/name"]);
        Self { owned, deployments }
    }

    /// The API services without their deployment, each with its index.
    fn unserved(&self) -> impl Iterator<Item = (usize, [&str; 3])> {
        let names = self.deployments.iter().map(|(_, deployment)| deployment.text_or_empty(0));
        // CSV-44 reports a service without a name.
        let names: HashSet<_> = names.chain([""]).collect();
        let owned = self.owned.iter();
        let owned = owned.map(|(index, api)| (index, [0, 1, 2].map(|c| api.text_or_empty(c))));
        owned.filter(move |(_, [name, ..])| !names.contains(name))
    }
}

rule! {
    /// owned API services are listed once for each kind, with one deployment for each version
    ///
    /// No two entries of `spec.apiservicedefinitions.owned` have the same group, version and kind,
    /// and entries of the same group and version name the same deployment. Copies are exempt if OLM
    /// writes them or the original exists. On UPDATE, the rule evaluates only entries in which one
    /// of these values is new.
    ///
    /// # Why
    ///
    /// Group and version are one API service, which may be listed for each of its kinds: OpenShift
    /// 4.12, Operators, *Owned API services*. An API service has one Service, so one of two
    /// deployments never gets a request.
    ///
    /// # Remediation
    ///
    /// Remove the entry, or name the same deployment.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned:
    /// - {group: a.example.com, version: v1, kind: A, name: as, deploymentName: server}
    /// - {group: a.example.com, version: v1, kind: B, name: bs, deploymentName: server}
    /// ```
    ///
    /// # Rejected
    ///
    /// The accepted entry with `kind: A` twice.
    ///
    /// `message: owned API service a.example.com/v1, Kind=A is listed more than once`
    ///
    /// With another deployment: `message: owned API services of a.example.com/v1 name different
    /// deployments`
    CSV_48: Warn {
        name: "unique-owned-api-services",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20916"],
    }
}

fn check_unique(csv: &mut Csv<'_, '_>, owned: &ChangedList) {
    let new: HashSet<_> =
        owned.new_entries(&[GROUP, VERSION, KIND, DEPLOYMENT]).map(|(index, _)| index).collect();
    let mut wrong = RuleViolations::of(&CSV_48);
    let mut listed: HashMap<[&str; 3], bool> = HashMap::new();
    let mut deployments: HashMap<[&str; 2], (&str, bool)> = HashMap::new();
    for (index, api) in owned.entries().iter() {
        if [GROUP, VERSION, KIND].iter().any(|column| lacks(api, *column)) {
            continue;
        }
        let [group, version, kind] = [GROUP, VERSION, KIND].map(|column| api.text_or_empty(column));
        let is_new = new.contains(&index);
        // An old entry becomes invalid if an entry is added before it.
        let first = listed.insert([group, version, kind], is_new);
        if let Some(is_first_new) = first
            && (is_new || is_first_new)
        {
            wrong.add(csv, || {
                let api = group_version_kind(group, version, kind);
                let message = format!("owned API service {api} is listed more than once");
                [format!("{OWNED_FIELD}[{index}]"), message]
            });
            let object = csv.object;
            csv.fix(&CSV_48, || {
                let key = [group, version, kind];
                let is_same = |(_, api): &(usize, Row<'_>)| {
                    [GROUP, VERSION, KIND].map(|column| api.text_or_empty(column)) == key
                };
                let (first, _) = owned.entries().iter().find(is_same)?;
                corrections::remove_equal(object, OWNED, first, index)
            });
        }
        let name = api.text_or_empty(DEPLOYMENT);
        if name.is_empty() {
            continue;
        }
        let (first, is_first_new) = *deployments.entry([group, version]).or_insert((name, is_new));
        if name != first && (is_new || is_first_new) {
            wrong.add(csv, || {
                let message =
                    format!("owned API services of {group}/{version} name different deployments");
                [format!("{OWNED_FIELD}[{index}].deploymentName"), message]
            });
        }
    }
}
