//! Custom resource definitions that an Operator owns or requires.

use std::collections::BTreeMap;

use opgate_sdk::corrections;
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Fix, names, rule, rules};

use super::descriptors;
use super::schema::{RequiredTexts, lacks};
use crate::annotations::example_apis::CSV_58;
use crate::csv::{Csv, LazyViolation};
use crate::entries::{ChangedList, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_36, CSV_37, CSV_38, CSV_39, CSV_40, CSV_41];

const COLUMNS: [&str; 7] = [
    "/name",
    "/group",
    "/displayName",
    "/description",
    "/specDescriptors",
    "/statusDescriptors",
    "/actionDescriptors",
];
const NAME: usize = 0;
const GROUP: usize = 1;
const DISPLAY_NAME: usize = 2;
const DESCRIPTION: usize = 3;
const DESCRIPTORS: usize = 4;
const IDENTITY: [&str; 3] = ["name", "version", "kind"];

/// Bytes of a name that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;

const OWNED: &str = "/spec/customresourcedefinitions/owned";
const OWNED_FIELD: &str = "spec.customresourcedefinitions.owned";
const REQUIRED: &str = "/spec/customresourcedefinitions/required";
const REQUIRED_FIELD: &str = "spec.customresourcedefinitions.required";

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    check_owned_complete(csv);
    check_required_complete(csv);
    if let Some(owned) = ChangedList::read_first(csv, OWNED, &COLUMNS) {
        check_groups(csv, &owned);
        descriptors::check(csv, OWNED, OWNED_FIELD, &owned, [NAME, DESCRIPTORS]);
    }
    if let Some(required) = ChangedList::read_first(csv, REQUIRED, &COLUMNS) {
        check_required_presentation(csv, &required);
        descriptors::check(csv, REQUIRED, REQUIRED_FIELD, &required, [NAME, DESCRIPTORS]);
    }
}

rule! {
    /// owned CRDs have a name, a version and a kind
    ///
    /// Each entry of `spec.customresourcedefinitions.owned` has a `name`, a `version` and a `kind`
    /// that are not empty. Copies are exempt if OLM writes them or the original exists. On UPDATE,
    /// the rule evaluates only entries in which one of the three values is new.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Owned CRDs*, calls the three required, and so does the CRD of
    /// ClusterServiceVersions. OLM finds the CustomResourceDefinition by its name, and the API by
    /// all three.
    ///
    /// # Remediation
    ///
    /// Add the missing values from the CustomResourceDefinition: `metadata.name`, the name of one
    /// of `spec.versions`, and `spec.names.kind`. Put a version that is a number into quotes.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned:
    /// - {name: webhooktests.webhook.operators.coreos.io, version: v1, kind: WebhookTest}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// owned: [{name: mongodbstandalones.mongodb.com, version: v1}]
    /// ```
    ///
    /// `message: spec.customresourcedefinitions.owned[0].kind: Required value`
    CSV_36: Deny {
        name: "complete-owned-crds",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20324-20358, L20481-20523", "OCP 4.15 L15018-15395", "OCP 4.5 L6565-6990", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

fn check_owned_complete(csv: &mut Csv<'_, '_>) {
    let list =
        RequiredTexts { rule: &CSV_36, pointer: OWNED, field: OWNED_FIELD, members: &IDENTITY };
    if let Some(owned) = list.check(csv) {
        check_names(csv, &owned, OWNED_FIELD);
    }
}

rule! {
    /// required CRDs have a name, a version and a kind
    ///
    /// Each entry of `spec.customresourcedefinitions.required` has a `name`, a `version` and a
    /// `kind` that are not empty. The list itself may be empty. Copies are exempt if OLM writes
    /// them or the original exists. On UPDATE, the rule evaluates only entries in which one of the
    /// three values is new.
    ///
    /// # Why
    ///
    /// OLM resolves another Operator that provides the API, and cannot do so without the three
    /// values. See OpenShift 4.12, Operators, *Required CRDs*.
    ///
    /// # Remediation
    ///
    /// Add the missing values from the CustomResourceDefinition of the other Operator: its
    /// `metadata.name`, the name of one of `spec.versions`, and `spec.names.kind`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// required:
    /// - name: etcdclusters.etcd.database.coreos.com
    ///   version: v1beta2
    ///   kind: EtcdCluster
    ///   displayName: etcd Cluster
    ///   description: Represents a cluster of etcd nodes.
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// required: [{name: etcdclusters.etcd.database.coreos.com, version: v1beta2}]
    /// ```
    ///
    /// `message: spec.customresourcedefinitions.required[0].kind: Required value`
    CSV_37: Deny {
        name: "complete-required-crds",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20533, L20544-20578, L20615-20620", "OCP 4.15 L15018-15395", "OCP 4.5 L6565-6990", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

fn check_required_complete(csv: &mut Csv<'_, '_>) {
    let list = RequiredTexts {
        rule: &CSV_37,
        pointer: REQUIRED,
        field: REQUIRED_FIELD,
        members: &IDENTITY,
    };
    if let Some(required) = list.check(csv) {
        check_names(csv, &required, REQUIRED_FIELD);
    }
}

rule! {
    /// names of owned and required CRDs have a plural and a group
    ///
    /// Each `name` in `spec.customresourcedefinitions.owned` and `required` has a dot:
    /// `<plural>.<group>`. CSV-36 and CSV-37 report missing and empty names. Copies are exempt if
    /// OLM writes them or the original exists. On UPDATE, the rule evaluates only new names.
    ///
    /// # Why
    ///
    /// OLM reads the group of the API from the name. If it cannot, it stops processing the
    /// ClusterServiceVersion, and reports this in its log only. The validators of
    /// operator-framework/api reject it with this text.
    ///
    /// # Remediation
    ///
    /// Write the full name of the CustomResourceDefinition.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned: [{name: cluster.example.com, version: v1, kind: Cluster}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// owned: [{name: etcdclusters, version: v1beta2, kind: EtcdCluster}]
    /// ```
    ///
    /// `message: couldn't parse plural.group from crd name: etcdclusters`
    CSV_38: Deny {
        name: "qualified-crd-names",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20328, L20674", "api pkg/validation/internal/csv.go", "OLM pkg/controller/operators/olm/labeler.go"],
    }
}

fn check_names(csv: &mut Csv<'_, '_>, crds: &ChangedList, place: &str) {
    let mut wrong = RuleViolations::of(&CSV_38);
    for (index, crd) in crds.new_entries(&[NAME]) {
        let name = crd.text_or_empty(NAME);
        if !name.is_empty() && !name.contains('.') {
            wrong.add(csv, || {
                let message = format!("couldn't parse plural.group from crd name: {name}");
                [format!("{place}[{index}].name"), message]
            });
            let object = csv.object;
            csv.fix(&CSV_38, || {
                let entry = format!("/{}/{index}", place.replace('.', "/"));
                let group = object.text(&format!("{entry}/group"))?;
                let is_group = names::is_subdomain(&group) && group.contains('.');
                let name = format!("{name}.{group}");
                is_group.then(|| corrections::write(format!("{entry}/name"), &name))
            });
        }
    }
}

rule! {
    /// the group of an owned CRD is the one in its name
    ///
    /// `group` of an entry of `spec.customresourcedefinitions.owned`, if set, is the part of the
    /// `name` after the first dot. The API server removes the field, so the rule concerns manifests
    /// in files.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Owned CRDs*, describes the field as optional. No program reads
    /// it: an author who writes another group expects an API that does not exist.
    ///
    /// # Remediation
    ///
    /// Correct the group, or remove the field.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned: [{group: mongodb.com, name: mongodbstandalones.mongodb.com}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// owned: [{group: database.example.com, name: mongodbstandalones.mongodb.com}]
    /// ```
    ///
    /// `message: owned CRD "mongodbstandalones.mongodb.com": group "database.example.com" does not
    /// match the CRD name`
    CSV_39: Warn {
        name: "owned-crd-group-matches-name",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20328, L20389-20393, L20482-20484"],
    }
}

fn check_groups(csv: &mut Csv<'_, '_>, owned: &ChangedList) {
    let mut wrong = RuleViolations::of(&CSV_39);
    for (index, crd) in owned.new_entries(&[NAME, GROUP]) {
        let (name, group) = (crd.text_or_empty(NAME), crd.text_or_empty(GROUP));
        let other = name.split_once('.').is_some_and(|(_, of_name)| of_name != group);
        if !group.is_empty() && other {
            wrong.add(csv, || {
                let (name, group) = (quote(name), quote(group));
                let message =
                    format!("owned CRD {name}: group {group} does not match the CRD name");
                [format!("{OWNED_FIELD}[{index}].group"), message]
            });
            csv.fix(&CSV_39, || {
                let fix = Fix::safe("remove the group, which no program reads");
                Some(fix.remove(format!("{OWNED}/{index}/group")))
            });
        }
    }
}

rule! {
    /// owned CRDs have a display name, and required ones also a description
    ///
    /// Each entry of `spec.customresourcedefinitions.owned` has a `displayName`, and each entry of
    /// `required` has a `displayName` and a `description`; none is empty. There is one violation
    /// for each entry. It also names CSV-41 and CSV-58 if an owned CRD has no description or no
    /// example. Copies are exempt if OLM writes them or the original exists. On UPDATE, the rule
    /// evaluates only entries whose name or text is new. With the setting `csv.requiredFields:
    /// deny` the rule denies.
    ///
    /// # Why
    ///
    /// The console shows these texts to users who install and use the Operator. OpenShift 4.12,
    /// Operators, *Owned CRDs* and *Required CRDs*, calls them required; this is only a warning,
    /// because examples in the same document have none.
    ///
    /// # Remediation
    ///
    /// Add the texts that the message names.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// required:
    /// - name: etcdclusters.etcd.database.coreos.com
    ///   displayName: etcd Cluster
    ///   description: Represents a cluster of etcd nodes.
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// owned: [{name: webhooktests.webhook.operators.coreos.io, version: v1, kind: WebhookTest}]
    /// ```
    ///
    /// `message: spec.customresourcedefinitions.owned[0].displayName is required`
    CSV_40: Warn {
        name: "crds-have-display-names",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L20363-20371, L20583-20604, L20107-20111", "OCP 4.15 L15018-15395"],
    }
}

fn check_required_presentation(csv: &mut Csv<'_, '_>, required: &ChangedList) {
    let members = [(DISPLAY_NAME, "displayName"), (DESCRIPTION, "description")];
    let mut missing = RuleViolations::of(&CSV_40);
    for (index, crd) in required.new_entries(&[NAME, DISPLAY_NAME, DESCRIPTION]) {
        let lacking = members.iter().filter(|(column, _)| lacks(crd, *column));
        let mut fields = lacking.map(|(_, member)| format!("{REQUIRED_FIELD}[{index}].{member}"));
        let Some(first) = fields.next() else { continue };
        missing.add(csv, || {
            let message = match fields.next() {
                Some(second) => format!("{first} is required; {second} is required"),
                None => format!("{first} is required"),
            };
            [first, message]
        });
    }
}

rule! {
    /// owned CRDs have a description
    ///
    /// `description` of each entry of `spec.customresourcedefinitions.owned` is not empty. An entry
    /// without a display name is one violation of CSV-40, which names this rule. Copies are exempt
    /// if OLM writes them or the original exists. On UPDATE, the rule evaluates only entries whose
    /// name or description is new.
    ///
    /// # Why
    ///
    /// The description explains the purpose of the API to users who choose one. The validator for
    /// good practices of the Operator Framework warns with this text, see OpenShift 4.12,
    /// Operators, *Bundle validation*.
    ///
    /// # Remediation
    ///
    /// Describe the API in a sentence.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned:
    /// - name: mongodbstandalones.mongodb.com
    ///   description: MongoDB Deployment consisting of only one host.
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// owned: [{name: k8sevents.k8s.k8sevent.com, description: ""}]
    /// ```
    ///
    /// `message: owned CRD "k8sevents.k8s.k8sevent.com" has an empty description`
    CSV_41: Warn {
        name: "owned-crds-have-descriptions",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20376-20384, L20672-20677, L22740, L22828", "OCP 4.15 L17398-17399", "api pkg/validation/internal/good_practices.go"],
    }
}

/// The missing texts and examples of an owned CRD.
#[derive(Default)]
struct MissingDetails {
    display_name: bool,
    /// The name of the CRD, if it has no description.
    description: Option<String>,
    example: bool,
}

/// Reports owned CRDs without a display name, a description or an example: one violation for each
/// CRD. `without_example` has the indexes of CRDs without an example.
pub(super) fn check_owned_presentation(csv: &mut Csv<'_, '_>, without_example: &[usize]) {
    let mut crds: BTreeMap<usize, MissingDetails> = BTreeMap::new();
    if !csv.is_unchanged("/spec")
        && let Some(owned) = ChangedList::read_first(csv, OWNED, &COLUMNS)
    {
        for (index, crd) in owned.new_entries(&[NAME, DISPLAY_NAME]) {
            if lacks(crd, DISPLAY_NAME) {
                crds.entry(index).or_default().display_name = true;
            }
        }
        for (index, crd) in owned.new_entries(&[NAME, DESCRIPTION]) {
            if lacks(crd, DESCRIPTION) {
                let name = quote(&shorten(crd.text_or_empty(NAME), MAX_SHOWN_BYTES));
                crds.entry(index).or_default().description = Some(name);
            }
        }
    }
    for index in without_example {
        crds.entry(*index).or_default().example = true;
    }
    for (index, lacking) in crds {
        let at = format!("{OWNED_FIELD}[{index}]");
        let not_shown = || {
            let field = format!("{at}.displayName");
            let message = format!("{field} is required");
            [field, message]
        };
        let not_described = || {
            let name = lacking.description.as_deref().unwrap_or_default();
            [format!("{at}.description"), format!("owned CRD {name} has an empty description")]
        };
        let no_example =
            || [at.clone(), "provided API should have an example annotation".to_owned()];
        let rules: [(bool, LazyViolation<'_>); 3] = [
            (lacking.display_name, (&CSV_40, &not_shown)),
            (lacking.description.is_some(), (&CSV_41, &not_described)),
            (lacking.example, (&CSV_58, &no_example)),
        ];
        let violations: Vec<_> =
            rules.into_iter().filter(|(is, _)| *is).map(|(_, it)| it).collect();
        csv.add_once(&violations);
    }
}
