//! Requirements of the CRD of ClusterServiceVersions, with the messages of the API server. No API
//! server has validated a manifest in a file yet.

pub(super) use opgate_sdk::schema::{required_error, type_error};
use opgate_sdk::{Kind, Row, Rule};

use crate::csv::Csv;
use crate::entries::{ChangedList, RuleViolations};

/// A list whose entries have texts that may not be empty.
pub(super) struct RequiredTexts<'c> {
    pub(super) rule: &'static Rule,
    pub(super) pointer: &'c str,
    pub(super) field: &'c str,
    pub(super) members: &'c [&'c str],
}

impl RequiredTexts<'_> {
    /// Evaluates the list. Returns it with the members as its columns, unless an UPDATE does not
    /// change it.
    pub(super) fn check(&self, csv: &mut Csv<'_, '_>) -> Option<ChangedList> {
        let Self { rule, pointer, field, members } = *self;
        let pointers: Vec<_> = members.iter().map(|member| format!("/{member}")).collect();
        let columns: Vec<_> = pointers.iter().map(String::as_str).collect();
        let list = ChangedList::read_all(csv, pointer, &columns)?;
        let object = csv.object;
        let mut wrong = RuleViolations::of(rule);
        let error = type_error(object, pointer, field, object.kind(pointer), Kind::List);
        if let Some(message) = error {
            wrong.add(csv, || [field.to_owned(), message]);
        }
        let columns: Vec<_> = (0..members.len()).collect();
        for (index, row) in list.new_entries(&columns) {
            for (column, member) in members.iter().enumerate().filter(|(c, _)| lacks(row, *c)) {
                wrong.add(csv, || {
                    let pointer = format!("{pointer}/{index}/{member}");
                    let field = format!("{field}[{index}].{member}");
                    let kind = row.kind(column);
                    let error = type_error(object, &pointer, &field, kind, Kind::Text);
                    let message = error.unwrap_or_else(|| required_error(&field));
                    [field, message]
                });
                csv.fix(rule, || {
                    let pointer = format!("{pointer}/{index}/{member}");
                    let is_absent = !matches!(row.kind(column), Kind::Boolean | Kind::Number);
                    let is_deployment = *member == "deploymentName" && is_absent;
                    is_deployment
                        .then(|| super::deployments::propose_deployment(object, pointer, ""))
                        .flatten()
                });
            }
        }
        Some(list)
    }
}

/// Whether the column has no text, or an empty one.
pub(super) fn lacks(row: Row<'_>, column: usize) -> bool {
    row.text_or_empty(column).is_empty()
}
