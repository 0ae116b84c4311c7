//! Custom resource definitions that a `ClusterServiceVersion` owns twice.

use std::collections::HashMap;

use opgate_sdk::corrections;
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::names::group_version_kind;
use opgate_sdk::{Row, rule, rules};

use super::schema::lacks;
use crate::csv::Csv;
use crate::entries::{ChangedList, Entries, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_106];

const OWNED: &str = "/spec/customresourcedefinitions/owned";
const OWNED_FIELD: &str = "spec.customresourcedefinitions.owned";
const COLUMNS: [&str; 3] = ["/name", "/version", "/kind"];
/// Bytes of a text that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;

rule! {
    /// a CSV owns each version of a CRD once
    ///
    /// No two entries of `spec.customresourcedefinitions.owned` have the same group, version and
    /// kind. The group is the part of `name` after the first dot. CSV-36 reports an entry that
    /// lacks one of the three. Every entry after the first is a violation. An UPDATE is evaluated
    /// only if more entries have the same group, version and kind than before.
    ///
    /// # Why
    ///
    /// Consoles show the API twice, with two descriptions. `operator-sdk bundle validate` matches
    /// each entry with a CRD of the bundle, finds none for the second entry, and rejects the bundle
    /// (OpenShift 4.12, Operators, *Owned CRDs*; api `pkg/validation/internal/bundle.go`).
    ///
    /// # Remediation
    ///
    /// Remove the second entry, or correct its `version` if it describes another version.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned:
    /// - {name: as.example.com, version: v1, kind: A}
    /// - {name: as.example.com, version: v2, kind: A}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// owned:
    /// - {name: as.example.com, version: v1, kind: A}
    /// - {name: as.example.com, version: v1, kind: A}
    /// ```
    ///
    /// `message: duplicate CRD "example.com/v1, Kind=A" in CSV "a.v1.0.0"`
    CSV_106: Deny {
        name: "unique-owned-crd-versions",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle],
        source: ["OCP 4.12 L20480-20560", "api pkg/validation/internal/bundle.go"],
    }
}

/// Group, version and kind.
type Key<'r> = [&'r str; 3];

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if !csv.is_on(&CSV_106) {
        return;
    }
    let Some(owned) = ChangedList::read_all(csv, OWNED, &COLUMNS) else { return };
    let before = counts(owned.old_entries());
    let mut seen: HashMap<Key<'_>, usize> = HashMap::new();
    let mut violations = RuleViolations::of(&CSV_106);
    for (index, row) in owned.entries().iter() {
        let Some(key) = key(row) else { continue };
        let count = seen.entry(key).or_default();
        *count = count.saturating_add(1);
        if *count < 2 || before.get(&key).is_some_and(|before| before >= count) {
            continue;
        }
        let name = quote(&shorten(&csv.name, MAX_SHOWN_BYTES));
        violations.add(csv, || {
            let [group, version, kind] = key;
            let crd = group_version_kind(group, version, kind);
            let crd = quote(&shorten(&crd, MAX_SHOWN_BYTES));
            [format!("{OWNED_FIELD}[{index}]"), format!("duplicate CRD {crd} in CSV {name}")]
        });
        let object = csv.object;
        csv.fix(&CSV_106, || {
            let mut entries = owned.entries().iter();
            let (first, _) = entries.find(|(_, row)| self::key(*row) == Some(key))?;
            corrections::remove_equal(object, OWNED, first, index)
        });
    }
}

/// The number of entries for each key.
fn counts(entries: Option<&Entries>) -> HashMap<Key<'_>, usize> {
    let mut counts: HashMap<Key<'_>, usize> = HashMap::new();
    for key in entries.into_iter().flat_map(Entries::iter).filter_map(|(_, row)| key(row)) {
        let count = counts.entry(key).or_default();
        *count = count.saturating_add(1);
    }
    counts
}

fn key(row: Row<'_>) -> Option<Key<'_>> {
    if (0..COLUMNS.len()).any(|column| lacks(row, column)) {
        return None;
    }
    let [name, version, kind] = [0, 1, 2].map(|column| row.text_or_empty(column));
    let group = name.split_once('.').map_or(name, |(_, group)| group);
    Some([group, version, kind])
}
