//! Conditions and overrides, entry by entry.
//!
//! ```text
//! list of the object ─▶ unchanged? ─▶ one table of its entries ─▶ CND-01, CND-02, CND-03
//! ```

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, Review, Row, Rows, go_format, rule, rules};

use crate::targets::{CONDITION, CONDITION_STATUS};
use crate::upgradeable;

rules![CND_01, CND_02, CND_03];

const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// A list of an object: its field, its pointer, and the members that the CRD requires of its
/// entries.
struct ConditionList {
    field: &'static str,
    pointer: &'static str,
    is_spec: bool,
    required: &'static [(&'static str, usize)],
}

/// Maximum number of entries. No API server stores longer lists: with all required members, 1.5 MiB
/// hold 30,000 entries. The table of a list of numbers would not fit into the memory of a call.
const MAX_ENTRIES: u32 = 32_768;

const COLUMNS: [&str; 5] = ["/type", "/status", "/reason", "/message", "/lastTransitionTime"];
const TYPE_COLUMN: usize = 0;
const STATUS_COLUMN: usize = 1;

const SPEC_CONDITIONS: ConditionList = ConditionList {
    field: "spec.conditions",
    pointer: "/spec/conditions",
    is_spec: true,
    required: &[
        ("lastTransitionTime", 4),
        ("message", 3),
        ("reason", 2),
        ("status", STATUS_COLUMN),
        ("type", TYPE_COLUMN),
    ],
};

const OVERRIDES: ConditionList = ConditionList {
    field: "spec.overrides",
    pointer: "/spec/overrides",
    is_spec: true,
    required: &[("message", 3), ("reason", 2), ("status", STATUS_COLUMN), ("type", TYPE_COLUMN)],
};

const STATUS_CONDITIONS: ConditionList = ConditionList {
    field: "status.conditions",
    pointer: "/status/conditions",
    is_spec: false,
    required: &[],
};

pub(super) fn check(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    for list in [&SPEC_CONDITIONS, &OVERRIDES, &STATUS_CONDITIONS] {
        list.check(review, object, report);
    }
}

pub(super) fn check_status(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    STATUS_CONDITIONS.check(review, object, report);
}

impl ConditionList {
    fn check(&self, review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
        // Look-ups cost time, and one of the lists is usually absent.
        if object.kind(self.pointer) != Kind::List || !review.touches_json(object, self.pointer) {
            return;
        }
        let length = object.length(self.pointer).unwrap_or_default();
        if length > MAX_ENTRIES {
            let field = self.field;
            let message =
                format!("{field}: Too many: {length}: must have at most {MAX_ENTRIES} items");
            report.add(&CND_01, field, message);
            return;
        }
        let rows = object.rows(self.pointer, &COLUMNS);
        self.check_types(&rows, report);
        self.check_statuses(object, &rows, report);
        if self.is_spec {
            self.check_required_members(&rows, report);
            self.check_known_types(&rows, report);
        }
    }
}

rule! {
    /// conditions and overrides have a type, and a status that is True, False or Unknown
    ///
    /// In every entry of `spec.conditions`, `spec.overrides` and `status.conditions`, `status` is
    /// one of the strings `True`, `False` and `Unknown`, and `type` is a non-empty string. The
    /// arrays may be absent; they have at most 32,768 entries, which is more than an object can
    /// hold. The rule evaluates `v1` and `v2`. In requests for the subresource `status` it reads
    /// only `status.conditions`. On UPDATE, the rule evaluates only the arrays that the request
    /// changes.
    ///
    /// # Why
    ///
    /// OLM compares the status with the strings. In YAML, `True` and `false` without quotes are
    /// booleans, which the CRD of OperatorConditions rejects (OpenShift 4.12, Operators, *Operator
    /// conditions*; `crds/operators.coreos.com_operatorconditions.yaml` of the Operator Framework
    /// API).
    ///
    /// # Remediation
    ///
    /// Write the status in quotes. Give the entry the type `Upgradeable`, the only one that OLM
    /// interprets.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   overrides:
    ///   - {type: Upgradeable, status: "True", reason: upgradeIsSafe, message: a known issue}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   overrides:
    ///   - {type: Upgradeable, status: false}
    /// ```
    ///
    /// `message: spec.overrides[0].status: Unsupported value: false: supported values: "True",
    /// "False", "Unknown"`
    ///
    /// A missing or empty type has the message `spec.overrides[0].type: Required value`.
    CND_01: Deny {
        name: "valid-operator-condition-type-and-status",
        on: [CONDITION: Create | Update, CONDITION_STATUS: Update],
        source: ["OCP 4.12 L4136-4197, L7826, L7847-7863, L20005", "OCP 4.15 L2693-2733, L5535-5584", "api crds/operators.coreos.com_operatorconditions.yaml"],
    }
}

impl ConditionList {
    fn check_types(&self, rows: &Rows, report: &mut Report<'_>) {
        let wrong =
            rows.iter().enumerate().filter(|(_, row)| row.text_or_empty(TYPE_COLUMN).is_empty());
        report.add_each(&CND_01, wrong, |(index, row)| {
            let field = format!("{}[{index}].type", self.field);
            let why = match row.kind(TYPE_COLUMN) {
                Kind::Missing | Kind::Null | Kind::Text => "Required value",
                _ => "Invalid value: must be of type string",
            };
            let message = format!("{field}: {why}");
            (field, message)
        });
    }

    fn check_statuses(&self, object: &Document, rows: &Rows, report: &mut Report<'_>) {
        let is_known =
            |row: &Row<'_>| row.text(STATUS_COLUMN).is_some_and(|s| STATUSES.contains(&s));
        let wrong = rows.iter().enumerate().filter(|(_, row)| !is_known(row));
        report.add_each(&CND_01, wrong, |(index, _)| {
            let field = format!("{}[{index}].status", self.field);
            let value = go_format::format_value(object, &format!("{}/{index}/status", self.pointer), false);
            let message = format!(
                "{field}: Unsupported value: {value}: supported values: \"True\", \"False\", \"Unknown\""
            );
            (field, message)
        });
    }
}

rule! {
    /// conditions and overrides have every member that the CRD requires
    ///
    /// Entries of `spec.overrides` have `message`, `reason`, `status` and `type`. Entries of
    /// `spec.conditions` have `lastTransitionTime` as well. An empty `message` is accepted. CND-01
    /// also reports a missing type or status, and denies it. The rule does not evaluate requests
    /// for the subresource `status`. On UPDATE, the rule evaluates only the arrays that the request
    /// changes.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Overriding Operator conditions* requires only type and status,
    /// but the CRD requires the other members (`crds/operators.coreos.com_operatorconditions.yaml`
    /// of the Operator Framework API). An API server with that CRD rejects the object.
    ///
    /// # Remediation
    ///
    /// Add the member that the message names. `reason` is one word in CamelCase, `message` a text
    /// for people, and `lastTransitionTime` a time such as `"2020-08-24T23:15:55Z"`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   overrides:
    ///   - {type: Upgradeable, status: "True", reason: upgradeIsSafe, message: known issue}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   overrides:
    ///   - {type: Upgradeable, status: "True", reason: upgradeIsSafe}
    /// ```
    ///
    /// `message: spec.overrides[0].message: Required value`
    CND_02: Warn {
        name: "operator-condition-required-members",
        on: [CONDITION: Create | Update],
        source: ["OCP 4.12 L7826, L7853-7863", "OCP 4.15 L5535-5584", "api crds/operators.coreos.com_operatorconditions.yaml"],
    }
}

impl ConditionList {
    fn check_required_members(&self, rows: &Rows, report: &mut Report<'_>) {
        let lacks = |row: &Row<'_>, column| matches!(row.kind(column), Kind::Missing | Kind::Null);
        let missing = rows.iter().enumerate().flat_map(|(index, row)| {
            let required = self.required.iter().filter(move |(_, column)| lacks(&row, *column));
            required.map(move |(name, _)| (index, *name))
        });
        report.add_each(&CND_02, missing, |(index, name)| {
            let field = format!("{}[{index}].{name}", self.field);
            let message = format!("{field}: Required value");
            (field, message)
        });
    }
}

rule! {
    /// conditions and overrides are of a type that OLM interprets
    ///
    /// The type of each entry of `spec.conditions` and `spec.overrides` is `Upgradeable`. CND-01
    /// covers empty and missing types. The rule does not evaluate requests for the subresource
    /// `status`. On UPDATE, the rule evaluates only the arrays that the request changes.
    ///
    /// # Why
    ///
    /// OLM reads the condition `Upgradeable` and ignores every other one (OpenShift 4.12,
    /// Operators, *Supported conditions* and *Enabling Operator conditions*). An override of
    /// another type, or with another spelling, has no effect.
    ///
    /// # Remediation
    ///
    /// Use the type `Upgradeable`, with a capital letter, or remove the entry. If an Operator
    /// writes other conditions for people to read, keep them, or set the rule to `off`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {conditions: [{type: Upgradeable, status: "True"}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {conditions: [{type: Ready, status: "True"}]}
    /// ```
    ///
    /// `message: OLM currently supports only the Upgradeable condition, got "Ready"`
    CND_03: Warn {
        name: "known-operator-condition-types",
        on: [CONDITION: Create | Update],
        source: ["OCP 4.12 L4144-4197, L20051", "OCP 4.15 L2693-2733"],
    }
}

impl ConditionList {
    fn check_known_types(&self, rows: &Rows, report: &mut Report<'_>) {
        let types = rows.iter().enumerate();
        let types = types.filter_map(|(index, row)| Some((index, row.text(TYPE_COLUMN)?)));
        let unknown = types.filter(|(_, name)| !name.is_empty() && *name != upgradeable::TYPE);
        report.add_each(&CND_03, unknown, |(index, name)| {
            let field = format!("{}[{index}].type", self.field);
            let name = quote(name);
            let message =
                format!("OLM currently supports only the Upgradeable condition, got {name}");
            (field, message)
        });
    }
}
