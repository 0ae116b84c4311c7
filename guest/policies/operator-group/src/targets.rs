//! Target namespaces of groups: names from the spec, or the Namespaces that a selector finds.
//!
//! OLM writes them to the status. The status can be older than the spec, and others than OLM may
//! write it. So it adds to what a selector finds, and takes nothing away. Only if there is no spec,
//! which no API server stores, the status alone counts.

use opgate_sdk::Document;
use opgate_sdk::cluster::{Query, ReadError};

use crate::groups::{Selection, synchronised};
use crate::namespaces::NamespaceSet;
use crate::reads::NAMESPACES;

/// The targets of a group.
pub(crate) fn of(group: &Document) -> Result<NamespaceSet, ReadError> {
    if let Some(status) = only_status(group) {
        return Ok(status);
    }
    let selection = Selection::of(group);
    let status = match &selection {
        Selection::Labels(_) => synchronised(group),
        Selection::All | Selection::Names(_) => None,
    };
    let selected = selected(selection)?;
    Ok(status.map_or(selected.clone(), |status| selected.union(&status)))
}

/// The status of a group that has no spec.
pub(crate) fn only_status(group: &Document) -> Option<NamespaceSet> {
    if group.has("/spec") { None } else { synchronised(group) }
}

/// What a spec selects now. A selector that is wrong selects nothing.
pub(crate) fn selected(selection: Selection) -> Result<NamespaceSet, ReadError> {
    match selection {
        Selection::All => Ok(NamespaceSet::all()),
        Selection::Names(names) => Ok(names.into_iter().collect()),
        Selection::Labels(labels) => {
            match NAMESPACES.names(Query { labels: Some(&labels), ..Query::default() }) {
                Ok(names) => Ok(names.into_iter().map(|found| found.name).collect()),
                Err(ReadError::Invalid(_)) => Ok(NamespaceSet::default()),
                Err(absent) => Err(absent),
            }
        }
    }
}
