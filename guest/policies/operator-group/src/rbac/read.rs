//! Objects of the cluster and lists in them, read within the budget.

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{ClusterRead, Document, Kind};

use super::SearchError;
use super::budget::{Budget, CALL_STEPS, OBJECT_QUERY_STEPS};

/// One object, if it exists.
pub(super) fn get(
    read: &ClusterRead,
    namespace: &str,
    name: &str,
    budget: &mut Budget,
) -> Result<Option<Document>, SearchError> {
    budget.spend(OBJECT_QUERY_STEPS)?;
    let found = read.get(namespace, name)?;
    if let Some(object) = &found {
        budget.start_object(read, object);
    }
    Ok(found)
}

/// Calls `visit` with each object that matches. An invalid selector matches nothing: the API server
/// rejects objects with one.
pub(super) fn for_each(
    read: &ClusterRead,
    query: Query<'_>,
    budget: &mut Budget,
    mut visit: impl FnMut(Document, &mut Budget) -> Result<(), SearchError>,
) -> Result<(), SearchError> {
    let mut outcome = Ok(());
    let read = read.each(query, |document| {
        budget.start_object(read, &document);
        outcome = budget.spend(OBJECT_QUERY_STEPS).and_then(|()| visit(document, budget));
        outcome.is_ok()
    });
    match read {
        Ok(()) | Err(ReadError::Invalid(_)) => outcome,
        Err(ReadError::NoCluster | ReadError::Unavailable(_)) => Err(SearchError::NoCluster),
    }
}

/// Elements of a list, none for anything else.
pub(super) fn length(document: &Document, pointer: &str) -> u32 {
    let is_list = document.kind(pointer) == Kind::List;
    document.length(pointer).filter(|_| is_list).unwrap_or_default()
}

/// Calls `visit` with each text of a list. Each costs `price`.
pub(super) fn for_each_text(
    document: &Document,
    pointer: &str,
    price: usize,
    budget: &mut Budget,
    mut visit: impl FnMut(&str),
) -> Result<(), SearchError> {
    budget.spend(CALL_STEPS)?;
    let raw = document.raw(pointer).and_then(|raw| String::from_utf8(raw).ok());
    let Some(list) = raw.as_deref().and_then(|raw| raw.strip_prefix('[')) else { return Ok(()) };
    // The API server writes a list of names without escapes. Then one host call reads all of it,
    // however long it is.
    if !list.contains(['\\', '[', '{']) {
        budget.spend(list.matches('"').count() / 2 * price)?;
        list.split('"').skip(1).step_by(2).for_each(visit);
        return Ok(());
    }
    for index in 0..length(document, pointer) {
        budget.spend(CALL_STEPS + price)?;
        if let Some(text) = document.text(&format!("{pointer}/{index}")) {
            visit(&text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::grants_group_writes;
    use super::super::testing::*;

    #[test]
    fn a_long_role_is_read_to_its_end() {
        let verbs = format!(
            r#"{{"apiGroups":["operators.coreos.com"],"resources":["operatorgroups"],"verbs":[{},"create"]}}"#,
            numbered_items(MANY_ELEMENTS)
        );
        let found = grants_group_writes(&parse(&role("ns", "r", &verbs)), None);
        assert_eq!(found.complete(), Ok(true));
    }
}
