//! Webhook definitions of a ClusterServiceVersion, `spec.webhookdefinitions`.
//!
//! ```text
//! spec.webhookdefinitions ─▶ Definition ─┬─ definitions  types, members, deployments
//!                                        ├─ names        unique, subdomains
//!                                        ├─ rules        resources that webhooks may intercept
//!                                        ├─ conversion   the CRDs of conversion webhooks
//!                                        └─ values       values that the API server accepts
//! ```
//!
//! OLM checks one definition after the other: first whether its name is new, then its rules. The
//! violations have that order. A property `olm.csv.metadata` has no webhook definitions.

pub(crate) mod conversion;
pub(crate) mod definitions;
mod intercepted;
mod listed;
pub(crate) mod names;
pub(crate) mod rules;
pub(crate) mod values;

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::{Document, Kind, Row};

use crate::csv::Csv;
use crate::entries::Entries;
use crate::object::Lists;

const LIST: &str = "/spec/webhookdefinitions";
/// The type of the webhooks that convert.
const CONVERSION_WEBHOOK: &str = "ConversionWebhook";
const COLUMNS: [&str; 8] = [
    "/type",
    "/generateName",
    "/deploymentName",
    "/admissionReviewVersions",
    "/sideEffects",
    "/containerPort",
    "/rules",
    "/conversionCRDs",
];
/// Members that the schema requires, each with its column.
const REQUIRED: [(&str, usize); 4] =
    [("admissionReviewVersions", 3), ("generateName", 1), ("sideEffects", 4), ("type", 0)];

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    if csv.is_unchanged("/spec") {
        return;
    }
    let definitions = Definitions::of(csv);
    if definitions.list.is_empty() {
        return;
    }
    definitions::check_members(csv, &definitions);
    definitions::check_deployments(csv, &definitions);
    let mut names = names::Names::of(&definitions);
    let mut rules = rules::Rules::of(csv);
    for definition in &definitions.list {
        names.check(csv, definition);
        rules.check(csv, &definitions, definition);
    }
    names::check_subdomains(csv, &definitions);
    conversion::check(csv, &definitions);
    values::check(csv, &definitions);
}

/// One element of the list.
#[derive(Debug)]
pub(crate) struct Definition {
    index: usize,
    /// Kind of the member `type`.
    kind: Kind,
    /// The member `type`; empty unless it is a text.
    webhook_type: String,
    /// `generateName`; empty unless it is a text.
    name: String,
    /// `deploymentName`; empty unless it is a text.
    deployment: String,
    /// The [`REQUIRED`] members that have no value.
    missing: [bool; 4],
    has_port: bool,
    has_rules: bool,
    has_crds: bool,
}

impl Definition {
    fn of((index, row): (usize, Row<'_>)) -> Self {
        let [webhook, name, deployment] = [0, 1, 2].map(|at| row.text_or_empty(at).to_owned());
        let has = |column: usize| {
            row.kind(column) == Kind::List && row.length(column).is_some_and(|length| length > 0)
        };
        let is_there = |column: usize| !matches!(row.kind(column), Kind::Missing | Kind::Null);
        let lacks = REQUIRED.map(|(member, column)| match row.kind(column) {
            Kind::Missing | Kind::Null => true,
            Kind::List => !has(column),
            // An empty type is not one of the types.
            Kind::Text => member != "type" && row.text_or_empty(column).is_empty(),
            _ => false,
        });
        Self {
            index,
            kind: row.kind(0),
            webhook_type: webhook,
            name,
            deployment,
            missing: lacks,
            has_port: is_there(5),
            has_rules: has(6),
            has_crds: has(7),
        }
    }

    /// Whether its type is missing or empty.
    fn has_no_type(&self) -> bool {
        matches!(self.kind, Kind::Missing | Kind::Null)
            || self.kind == Kind::Text && self.webhook_type.is_empty()
    }

    /// Whether it is of type `ConversionWebhook`.
    fn converts(&self) -> bool {
        self.webhook_type == CONVERSION_WEBHOOK
    }

    /// The pointer of a member, `/type`.
    fn pointer(&self, member: &str) -> String {
        format!("{LIST}/{}{member}", self.index)
    }

    /// The field of a member, `.type`.
    fn field(&self, member: &str) -> String {
        format!("spec.webhookdefinitions[{}]{member}", self.index)
    }
}

/// The definitions of an object.
fn read_all(csv: &impl Lists) -> Vec<Definition> {
    Entries::read_all(csv, LIST, &COLUMNS).iter().map(Definition::of).collect()
}

/// The definitions of a ClusterServiceVersion, and those before an UPDATE.
///
/// A definition is compared with the old definition of the same name, so that others can be
/// removed. A definition with a new name is compared with the old definition at its position, if no
/// definition has the name of the old one any more.
pub(crate) struct Definitions<'a> {
    list: Vec<Definition>,
    before: Option<OldDefinitions<'a>>,
}

struct OldDefinitions<'a> {
    csv: &'a Document,
    list: Vec<Definition>,
    by_name: BTreeMap<String, usize>,
    /// Names that definitions have now.
    new_names: BTreeSet<String>,
}

impl<'a> Definitions<'a> {
    fn of(csv: &Csv<'a, '_>) -> Self {
        let list = read_all(csv.object);
        let before = csv.ratchet_base().filter(|_| !list.is_empty()).map(|csv| {
            let now = list.iter().map(|definition| definition.name.clone()).collect();
            let list = read_all(csv);
            let names = list.iter().rev().map(|d| (d.name.clone(), d.index));
            OldDefinitions { csv, by_name: names.collect(), list, new_names: now }
        });
        Self { list, before }
    }

    /// The object before an UPDATE, and the definition in it; none for a new one.
    fn old_definition(&self, definition: &Definition) -> Option<(&'a Document, &Definition)> {
        let before = self.before.as_ref()?;
        let in_place = before.list.get(definition.index);
        let found = in_place
            .filter(|old| old.name == definition.name)
            .or_else(|| before.list.get(*before.by_name.get(&definition.name)?))
            .or_else(|| in_place.filter(|old| !before.new_names.contains(&old.name)))?;
        Some((before.csv, found))
    }

    /// Whether a definition is new, or differs from its old state.
    fn is_new(&self, definition: &Definition, differs: impl Fn(&Definition) -> bool) -> bool {
        self.old_definition(definition).is_none_or(|(_, old)| differs(old))
    }

    /// Whether a definition is new, or a list or scalar in it differs from its old state.
    fn is_new_at(&self, csv: &Csv<'_, '_>, definition: &Definition, member: &str) -> bool {
        self.old_definition(definition).is_none_or(|(before, old)| {
            !csv.object.equal(&definition.pointer(member), before, &old.pointer(member))
        })
    }
}
