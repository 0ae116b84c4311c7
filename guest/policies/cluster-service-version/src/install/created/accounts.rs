//! Permissions: OLM creates a service account and a Role or `ClusterRole` from each entry.

use opgate_sdk::{Document, Kind};

use super::{PERMISSIONS, Problem, is_full, lacks, required};
use crate::entries::Entries;

pub(super) fn check(object: &Document, problems: &mut Vec<Problem>) {
    for list in PERMISSIONS {
        let entries = Entries::read_all(object, list, &["", "/serviceAccountName", "/rules"]);
        for (index, row) in entries.iter().filter(|(_, row)| row.kind(0) == Kind::Object) {
            if is_full(problems) {
                return;
            }
            let pointer = format!("{list}/{index}");
            let place = || format!("{}[{index}]", list.trim_start_matches('/').replace('/', "."));
            let owner = row.text_or_empty(1);
            let mut add = |member: String, error: String| {
                let owner = owner.to_owned();
                problems.push(Problem {
                    place: place(),
                    owner,
                    member,
                    error,
                    ..Problem::default()
                });
            };
            let has_no_account = match row.kind(1) {
                Kind::Text => owner.is_empty(),
                Kind::Missing | Kind::Null => lacks(object, &pointer, &["serviceAccountName"]),
                _ => false,
            };
            if has_no_account {
                add("serviceAccountName".to_owned(), required());
            }
            match row.kind(2) {
                Kind::Missing | Kind::Null if lacks(object, &pointer, &["rules"]) => {
                    add("rules".to_owned(), required());
                }
                Kind::List => {
                    for rule in rules_without_verbs(object, &format!("{pointer}/rules")) {
                        let error = "Required value: verbs must contain at least one value";
                        add(format!("rules[{rule}].verbs"), error.to_owned());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Indices of the rules without verbs.
fn rules_without_verbs(object: &Document, pointer: &str) -> Vec<usize> {
    let rules = Entries::read_all(object, pointer, &["", "/verbs"]);
    let lacks_verbs = |index: usize, kind: Kind, length: Option<u32>| match kind {
        Kind::Missing | Kind::Null => lacks(object, &format!("{pointer}/{index}"), &["verbs"]),
        Kind::List => length == Some(0),
        _ => false,
    };
    let rules = rules.iter().filter(|(_, row)| row.kind(0) == Kind::Object);
    let without = rules.filter(|(index, row)| lacks_verbs(*index, row.kind(1), row.length(1)));
    without.map(|(index, _)| index).take(super::MAX_PROBLEMS).collect()
}
