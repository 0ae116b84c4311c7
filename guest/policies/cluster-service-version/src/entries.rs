//! Lists of a ClusterServiceVersion, and the entries that an UPDATE changes.
//!
//! ```text
//! list of the object ─┐
//!                     ├─▶ Changed ─▶ new entries ─▶ rules ─▶ Findings ─▶ Csv
//! list of the old one ┘
//! ```
//!
//! An entry is compared by the values that a rule evaluates, and not by its position. An entry that
//! moves because another one is removed is not new.

use std::collections::{HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use opgate_sdk::{Document, Kind, Report, Row, Rows, Rule};

use crate::csv::Csv;
use crate::object::Lists;

/// Maximum length of a list of which every rule evaluates all entries.
const MAX_ENTRIES: u32 = 5_000;
/// Maximum length of a list of which rules that deny evaluate all entries. The smallest entry that
/// an API server admits to one of these lists has 34 bytes, so 1.5 MiB have no room for more of
/// them.
const MAX_ENTRIES_TO_DENY: u32 = 50_000;
/// Number of entries of a longer list that rules evaluate.
const FIRST_ENTRIES: u32 = 1_000;

/// The entries of a list, each with the values of some columns.
#[derive(Debug)]
pub(crate) struct Entries {
    tables: Vec<Rows>,
    is_complete: bool,
}

impl Entries {
    /// The entries of the list at the pointer, for rules that deny; none if there is no list.
    pub(crate) fn read_all(object: &impl Lists, pointer: &str, columns: &[&str]) -> Self {
        Self::read_up_to(MAX_ENTRIES_TO_DENY, object, pointer, columns)
    }

    /// The entries of the list at the pointer, for rules that warn; of a very long list only the
    /// first ones.
    pub(crate) fn read_first(object: &impl Lists, pointer: &str, columns: &[&str]) -> Self {
        Self::read_up_to(MAX_ENTRIES, object, pointer, columns)
    }

    /// [`Entries::read_first`] of a list of a known length.
    pub(crate) fn read_first_of(
        length: u32,
        document: &Document,
        pointer: &str,
        columns: &[&str],
    ) -> Self {
        Self::read(MAX_ENTRIES, length, document, pointer, columns)
    }

    fn read_up_to(max_length: u32, object: &impl Lists, pointer: &str, columns: &[&str]) -> Self {
        let length = object.length_of(pointer).unwrap_or_default();
        Self::read(max_length, length, object.document(), pointer, columns)
    }

    fn read(
        max_length: u32,
        length: u32,
        document: &Document,
        pointer: &str,
        columns: &[&str],
    ) -> Self {
        let tables = if length == 0 {
            Vec::new()
        } else if length <= max_length {
            vec![document.rows(pointer, columns)]
        } else {
            let entry = |index| document.fields(&format!("{pointer}/{index}"), columns);
            (0..FIRST_ENTRIES).map(entry).collect()
        };
        Self { tables, is_complete: length <= MAX_ENTRIES }
    }

    /// Whether the list is not very long. If it is, [`Entries::read_first`] has the first entries only.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The number of occurrences of each combination of values in these columns.
    fn counts(&self, columns: &[usize]) -> HashMap<Vec<Value<'_>>, usize> {
        let mut counts = HashMap::new();
        for (_, row) in self.iter() {
            let count: &mut usize = counts.entry(values(row, columns).collect()).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }

    /// The entries, each with its index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Row<'_>)> {
        self.tables.iter().flat_map(Rows::iter).enumerate()
    }
}

/// A list that is new, or that an UPDATE changes.
#[derive(Debug)]
pub(crate) struct ChangedList {
    current: Entries,
    old: Option<Entries>,
}

impl ChangedList {
    /// [`Entries::read_all`] of the list; none if an UPDATE does not change it.
    pub(crate) fn read_all(csv: &Csv<'_, '_>, pointer: &str, columns: &[&str]) -> Option<Self> {
        Self::of(MAX_ENTRIES_TO_DENY, csv, pointer, columns)
    }

    /// [`Entries::read_first`] of the list; none if an UPDATE does not change it.
    pub(crate) fn read_first(csv: &Csv<'_, '_>, pointer: &str, columns: &[&str]) -> Option<Self> {
        Self::of(MAX_ENTRIES, csv, pointer, columns)
    }

    fn of(max_length: u32, csv: &Csv<'_, '_>, pointer: &str, columns: &[&str]) -> Option<Self> {
        csv.touches_json(pointer).then(|| Self {
            current: Entries::read_up_to(max_length, csv.object, pointer, columns),
            old: csv
                .ratchet_base()
                .map(|old| Entries::read_up_to(max_length, old, pointer, columns)),
        })
    }

    /// The entries.
    pub(crate) fn entries(&self) -> &Entries {
        &self.current
    }

    /// The entries before an UPDATE.
    pub(crate) fn old_entries(&self) -> Option<&Entries> {
        self.old.as_ref()
    }

    /// Whether the entries have the same values in these columns as before, in any order.
    pub(crate) fn is_unchanged_in(&self, columns: &[usize]) -> bool {
        self.old
            .as_ref()
            .is_some_and(|before| self.current.counts(columns) == before.counts(columns))
    }

    /// The entries whose values in these columns no entry had before. In a very long list, an entry
    /// is compared with the old entry at the same position.
    pub(crate) fn new_entries<'c>(
        &'c self,
        columns: &'c [usize],
    ) -> impl Iterator<Item = (usize, Row<'c>)> {
        let mut known = HashSet::new();
        let mut old_rows = None;
        match &self.old {
            Some(before) if self.current.is_complete && before.is_complete => {
                let rows = before.iter();
                known.extend(rows.map(|(_, row)| values(row, columns).collect::<Vec<_>>()));
            }
            Some(before) => old_rows = Some(before.iter()),
            None => {}
        }
        self.current.iter().filter(move |(_, row)| {
            let old_row = old_rows.as_mut().and_then(Iterator::next);
            let is_old =
                old_row.is_some_and(|(_, old)| values(old, columns).eq(values(*row, columns)));
            !is_old
                && (known.is_empty() || !known.contains(&values(*row, columns).collect::<Vec<_>>()))
        })
    }
}

/// A value as Go decodes it: a missing value is the zero value.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Value<'r> {
    Zero,
    Text(&'r str),
    True,
    Other(Discriminant<Kind>),
}

fn values<'r>(row: Row<'r>, columns: &[usize]) -> impl Iterator<Item = Value<'r>> {
    columns.iter().map(move |&column| match (row.kind(column), row.text(column)) {
        (Kind::Missing | Kind::Null, _) | (_, Some("")) => Value::Zero,
        (_, Some(text)) => Value::Text(text),
        (Kind::Boolean, _) if row.boolean(column) == Some(true) => Value::True,
        (Kind::Boolean, _) => Value::Zero,
        (kind, _) => Value::Other(discriminant(&kind)),
    })
}

/// Adds the violations of a rule. Makes only as many texts as a report has room for.
#[derive(Debug)]
pub(crate) struct RuleViolations {
    rule: &'static Rule,
    count: usize,
}

impl RuleViolations {
    pub(crate) fn of(rule: &'static Rule) -> Self {
        Self { rule, count: 0 }
    }

    /// Adds a violation: its field and its message.
    pub(crate) fn add(&mut self, csv: &mut Csv<'_, '_>, violation: impl FnOnce() -> [String; 2]) {
        if self.is_full() {
            return csv.report.add_count(self.rule, 1);
        }
        self.count = self.count.saturating_add(1);
        let [field, message] = violation();
        csv.add(self.rule, &field, message);
    }

    /// Whether the report has no room for more violations.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= Report::MAX_VIOLATIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(now: &str, before: &str) -> Vec<usize> {
        let list = |json: &str| {
            Entries::read_all(&Document::parse(json).unwrap(), "", &["/name", "/kind", "/ready"])
        };
        let changed = ChangedList { current: list(now), old: Some(list(before)) };
        changed.new_entries(&[0, 2]).map(|(index, _)| index).collect()
    }

    #[test]
    fn an_entry_is_new_where_no_entry_had_its_values() {
        for (now, before, expected) in [
            ("[]", "[]", vec![]),
            (r#"[{"name":"a"}]"#, "[]", vec![0]),
            (r#"[{"name":"b"},{"name":"a"}]"#, r#"[{"name":"a"}]"#, vec![0]),
            // Another column.
            (r#"[{"name":"a","kind":"B"}]"#, r#"[{"name":"a","kind":"A"}]"#, vec![]),
            // Values that Go adds.
            (r#"[{"name":"","ready":false}]"#, "[{}]", vec![]),
            (r#"[{"name":null,"ready":true}]"#, "[{}]", vec![0]),
            (r#"[{"name":"true"}]"#, r#"[{"name":true}]"#, vec![0]),
            (r#"[{"name":1},{"name":[]}]"#, r#"[{"name":2}]"#, vec![1]),
            ("{}", "[{}]", vec![]),
        ] {
            assert_eq!(new(now, before), expected, "{before} to {now}");
        }
    }

    #[test]
    fn entries_of_very_long_lists_are_compared_by_place() {
        let list = |first: &str| format!("[{first}{}]", r#",{"name":"a"}"#.repeat(6_000));
        assert_eq!(new(&list(r#"{"name":"b"}"#), &list("{}")), [0]);
        assert_eq!(new(&list("{}"), &list("{}")), [0_usize; 0]);
        assert_eq!(new(&list("{}"), "[{}]").len(), 6_000);
    }

    #[test]
    fn list_over_the_limit_yields_its_first_entries() {
        let list = Document::parse(&format!("[0{}]", ",0".repeat(60_000))).unwrap();
        assert_eq!(Entries::read_all(&list, "", &["/name"]).iter().count(), 1_000);
    }
}
