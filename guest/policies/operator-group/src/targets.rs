//! Target namespaces of groups, by the Namespaces of the cluster.

use opgate_sdk::Document;
use opgate_sdk::cluster::ReadError;
pub(crate) use opgate_sdk::operator_groups::only_status;

use crate::groups::Selection;
use crate::namespaces::NamespaceSet;
use crate::reads::NAMESPACES;

/// The targets of a group.
pub(crate) fn of(group: &Document) -> Result<NamespaceSet, ReadError> {
    opgate_sdk::operator_groups::targets(group, &NAMESPACES)
}

/// The current selection of a spec. An invalid selector selects nothing.
pub(crate) fn selected(selection: Selection) -> Result<NamespaceSet, ReadError> {
    opgate_sdk::operator_groups::selected(selection, &NAMESPACES)
}
