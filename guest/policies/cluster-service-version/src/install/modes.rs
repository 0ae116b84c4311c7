//! Install modes: the sets of namespaces that an Operator can watch.

use std::collections::{HashMap, HashSet};

use opgate_sdk::corrections;
use opgate_sdk::go::quote;
use opgate_sdk::{Fix, InputType, Kind, Shape, rule, rules};

use super::schema::{required_error, type_error};
use crate::csv::Csv;
use crate::entries::{ChangedList, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_29, CSV_30, CSV_31, CSV_32];

const FIELD: &str = "spec.installModes";
const POINTER: &str = "/spec/installModes";
const COLUMNS: [&str; 3] = ["", "/type", "/supported"];
const MODE_TYPES: [&str; 4] =
    ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
const MODES: Shape =
    Shape::List(&Shape::Struct(&[("type", Shape::Scalar), ("supported", Shape::Scalar)]));
const ENTRY_COLUMN: usize = 0;
const TYPE_COLUMN: usize = 1;
const SUPPORTED_COLUMN: usize = 2;

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if csv.has_member_set("installModes") && are_changed(csv) {
        check_presence(csv);
        if let Some(modes) = ChangedList::read_first(csv, POINTER, &COLUMNS) {
            check_known(csv, &modes);
            check_distinct(csv, &modes);
            check_supported(csv, &modes);
        }
    }
}

/// Whether an UPDATE changes more of the modes than their order.
pub(crate) fn are_changed(csv: &Csv<'_, '_>) -> bool {
    csv.touches(POINTER, &MODES)
        && ChangedList::read_first(csv, POINTER, &COLUMNS).is_none_or(|modes| {
            !modes.is_unchanged_in(&[ENTRY_COLUMN, TYPE_COLUMN, SUPPORTED_COLUMN])
        })
}

rule! {
    /// each install mode has one of the four types and a boolean supported
    ///
    /// Each entry of `spec.installModes` has the `type` `OwnNamespace`, `SingleNamespace`,
    /// `MultiNamespace` or `AllNamespaces`, and a boolean `supported`. In a bundle and in a catalog
    /// `supported` may be missing: their readers use `false`, and OLM writes the value. Before it
    /// is published, a wrong entry is denied; at admission and in catalogs it is a warning, because
    /// OLM ignores the entry and installs the Operator. Copies are exempt if OLM writes them or the
    /// original exists. On UPDATE, the rule evaluates only entries that did not exist before.
    ///
    /// # Why
    ///
    /// OLM uses only the four types, see OpenShift 4.12, Operators, *Operator group membership*. An
    /// entry with another type has no effect, and the Operator does not watch the namespaces that
    /// its author intended. The CRD of ClusterServiceVersions requires both members, with their
    /// types.
    ///
    /// # Remediation
    ///
    /// Correct the `type`. Write `true` or `false` without quotes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// installModes:
    /// - {type: OwnNamespace, supported: false}
    /// - {type: AllNamespaces, supported: true}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// installModes: [{type: ClusterWide, supported: true}]
    /// ```
    ///
    /// `message: spec.installModes[0].type: Unsupported value: "ClusterWide": supported values:
    /// "OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"`
    CSV_29: Deny {
        name: "known-install-modes",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle, Manifest],
        source: ["OCP 4.12 L3275-3311, L20120-20128", "OCP 4.15 L2339-2642", "OCP 4.5 L901-1246", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

fn check_known(csv: &mut Csv<'_, '_>, modes: &ChangedList) {
    let object = csv.object;
    // Go's decoder reads a missing boolean as false; the API server requires it.
    let is_decoded = matches!(csv.review.input_type(), InputType::Bundle | InputType::Catalog);
    let mut wrong = RuleViolations::of(&CSV_29);
    let list = type_error(object, POINTER, FIELD, object.kind(POINTER), Kind::List);
    if let Some(message) = list {
        wrong.add(csv, || [FIELD.to_owned(), message]);
    }
    for (index, mode) in modes.new_entries(&[ENTRY_COLUMN, TYPE_COLUMN, SUPPORTED_COLUMN]) {
        let at = |member: &str| {
            let pointer = format!("{POINTER}/{index}/{member}");
            let pointer = pointer.strip_suffix('/').unwrap_or(&pointer).to_owned();
            let dot = if member.is_empty() { "" } else { "." };
            (pointer, format!("{FIELD}[{index}]{dot}{member}"))
        };
        let invalid = |member: &str, kind: Kind, expected: Kind| {
            let (pointer, field) = at(member);
            let error = type_error(object, &pointer, &field, kind, expected);
            let message = error.unwrap_or_else(|| required_error(&field));
            [field, message]
        };
        if !matches!(mode.kind(ENTRY_COLUMN), Kind::Object | Kind::Null) {
            wrong.add(csv, || invalid("", mode.kind(ENTRY_COLUMN), Kind::Object));
            continue;
        }
        match mode.text(TYPE_COLUMN) {
            None | Some("") => {
                wrong.add(csv, || invalid("type", mode.kind(TYPE_COLUMN), Kind::Text));
            }
            Some(known) if MODE_TYPES.contains(&known) => {}
            Some(other) => {
                wrong.add(csv, || {
                    let (_, field) = at("type");
                    let (other, types) = (quote(other), MODE_TYPES.map(quote).join(", "));
                    let message =
                        format!("{field}: Unsupported value: {other}: supported values: {types}");
                    [field, message]
                });
                csv.fix(&CSV_29, || {
                    // No API server stores another type, so the correction changes nothing that works.
                    let meant = corrections::word(other, &MODE_TYPES)
                        .or_else(|| corrections::nearest(other, &MODE_TYPES))?;
                    let mut entries = modes.entries().iter();
                    let is_listed = entries.any(|(_, mode)| mode.text(TYPE_COLUMN) == Some(meant));
                    (!is_listed).then(|| corrections::write(at("type").0, meant))
                });
            }
        }
        let is_absent = matches!(mode.kind(SUPPORTED_COLUMN), Kind::Missing | Kind::Null);
        if mode.kind(SUPPORTED_COLUMN) != Kind::Boolean && !(is_absent && is_decoded) {
            wrong.add(csv, || invalid("supported", mode.kind(SUPPORTED_COLUMN), Kind::Boolean));
            csv.fix(&CSV_29, || {
                let (pointer, _) = at("supported");
                if is_absent {
                    // What every reader assumes.
                    return Some(Fix::safe("set supported to false").set(pointer, "false"));
                }
                corrections::boolean_fix(object, &pointer)
            });
        }
    }
}

rule! {
    /// no install mode is listed twice
    ///
    /// The types in `spec.installModes` are distinct. Copies are exempt if OLM writes them or the
    /// original exists. An UPDATE is evaluated only if it changes the list.
    ///
    /// # Why
    ///
    /// OLM converts the list to a set before it installs anything, and fails with this text: the
    /// ClusterServiceVersion gets the phase `Failed` with the reason `InvalidInstallModes` (OLM
    /// `pkg/controller/operators/olm/operator.go`).
    ///
    /// # Remediation
    ///
    /// Keep one entry of each type.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// installModes:
    /// - {type: OwnNamespace, supported: true}
    /// - {type: AllNamespaces, supported: true}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// installModes:
    /// - {type: OwnNamespace, supported: true}
    /// - {type: OwnNamespace, supported: false}
    /// ```
    ///
    /// `message: InstallMode list contains duplicates, cannot make set: [{OwnNamespace true}
    /// {OwnNamespace false}]`
    CSV_30: Deny {
        name: "unique-install-modes",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L3275", "api pkg/operators/v1alpha1/clusterserviceversion.go", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

/// Maximum number of entries that a message shows. The report truncates longer messages.
const MAX_SHOWN_ENTRIES: usize = 256;

fn check_distinct(csv: &mut Csv<'_, '_>, modes: &ChangedList) {
    let mut seen = HashSet::new();
    let types =
        modes.entries().iter().map(|(index, mode)| (index, mode.text_or_empty(TYPE_COLUMN)));
    let Some((twice, _)) = types.into_iter().find(|(_, mode)| !seen.insert(*mode)) else { return };
    let printed = modes.entries().iter().take(MAX_SHOWN_ENTRIES).map(|(_, mode)| {
        let supported = mode.boolean(SUPPORTED_COLUMN).unwrap_or_default();
        format!("{{{} {supported}}}", mode.text_or_empty(TYPE_COLUMN))
    });
    let printed = printed.collect::<Vec<_>>().join(" ");
    let message = format!("InstallMode list contains duplicates, cannot make set: [{printed}]");
    csv.add(&CSV_30, &format!("{FIELD}[{twice}].type"), message);
    csv.fix(&CSV_30, || remove_equal_modes(modes));
}

/// The removal of modes that are listed before with the same value; none if the values of a mode differ.
fn remove_equal_modes(modes: &ChangedList) -> Option<Fix> {
    let mut values = HashMap::new();
    let mut twice = Vec::new();
    for (index, mode) in modes.entries().iter().take(MAX_SHOWN_ENTRIES) {
        let (name, value) = (mode.text_or_empty(TYPE_COLUMN), mode.boolean(SUPPORTED_COLUMN));
        match values.insert(name, value) {
            None => {}
            Some(before) if before == value && mode.length(ENTRY_COLUMN) == Some(2) => {
                twice.push(index);
            }
            Some(_) => return None,
        }
    }
    let fix = Fix::safe("remove the duplicates");
    twice.truncate(Fix::MAX_EDITS);
    // The last one first: a removal moves the elements behind it.
    let fix = twice.iter().rev().fold(fix, |fix, index| fix.remove(format!("{POINTER}/{index}")));
    (!twice.is_empty()).then_some(fix)
}

rule! {
    /// a ClusterServiceVersion has install modes
    ///
    /// `spec.installModes` has at least one entry. A bundle without any is denied, as `operator-sdk
    /// bundle validate` does; elsewhere this is a warning, because ClusterServiceVersions in the
    /// documents have no modes, for example the one in OpenShift 4.12, Operators, *Skipping
    /// updates*. Copies are exempt if OLM writes them or the original exists. An UPDATE is
    /// evaluated only if it changes the list.
    ///
    /// # Why
    ///
    /// A mode that is not listed is not supported, so an Operator without modes supports no
    /// OperatorGroup at all. The validators of operator-framework/api reject it.
    ///
    /// # Remediation
    ///
    /// List the four types, each with `supported: true` or `supported: false`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// installModes: [{type: AllNamespaces, supported: true}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {displayName: etcd, replaces: etcdoperator.v0.9.0}
    /// ```
    ///
    /// `message: install modes not found`
    CSV_31: Deny {
        name: "csv-has-install-modes",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle],
        source: ["OCP 4.12 L2436-2447, L20102-20128", "api pkg/validation/internal/csv.go"],
    }
}

fn check_presence(csv: &mut Csv<'_, '_>) {
    let is_missing = match csv.object.kind(POINTER) {
        Kind::Missing | Kind::Null => true,
        Kind::List => csv.object.length(POINTER) == Some(0),
        _ => false,
    };
    if is_missing {
        csv.add(&CSV_31, FIELD, "install modes not found");
    }
}

rule! {
    /// at least one install mode is supported
    ///
    /// If `spec.installModes` has entries, at least one of them has `supported: true`. Copies are
    /// exempt if OLM writes them or the original exists. An UPDATE is evaluated only if it changes
    /// the list.
    ///
    /// # Why
    ///
    /// No OperatorGroup suits an Operator that supports no mode, so OLM can never install it. The
    /// validators of operator-framework/api reject it with this text.
    ///
    /// # Remediation
    ///
    /// Set `supported: true` for each mode that the Operator can work in.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// installModes: [{type: AllNamespaces, supported: true}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// installModes:
    /// - {type: OwnNamespace, supported: false}
    /// - {type: AllNamespaces, supported: false}
    /// ```
    ///
    /// `message: none of InstallModeTypes are supported`
    CSV_32: Deny {
        name: "has-supported-install-mode",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["api pkg/validation/internal/csv.go"],
    }
}

fn check_supported(csv: &mut Csv<'_, '_>, modes: &ChangedList) {
    let mut entries = modes.entries().iter().peekable();
    // CSV-29 reports a value that is neither true nor false.
    let may_be = |kind| !matches!(kind, Kind::Missing | Kind::Null | Kind::Boolean);
    let is_supported = |mode: opgate_sdk::Row<'_>| {
        mode.boolean(SUPPORTED_COLUMN) == Some(true) || may_be(mode.kind(SUPPORTED_COLUMN))
    };
    if entries.peek().is_some() && !entries.any(|(_, mode)| is_supported(mode)) {
        csv.add(&CSV_32, FIELD, "none of InstallModeTypes are supported");
    }
}
