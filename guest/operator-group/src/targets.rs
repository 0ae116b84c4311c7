//! Target namespaces of groups where the status does not tell them: names from the spec, or the
//! Namespaces that a selector finds.

use opgate_sdk::Document;
use opgate_sdk::cluster::{Query, ReadError};

use crate::groups::{Selection, synchronised};
use crate::namespaces::NamespaceSet;
use crate::reads::NAMESPACES;

/// The targets of a group: those in the status, otherwise those that the spec selects.
pub(crate) fn of(group: &Document) -> Result<NamespaceSet, ReadError> {
    match synchronised(group) {
        Some(targets) => Ok(targets),
        None => selected(Selection::of(group)),
    }
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
