//! Target namespaces of groups, by the Namespaces of the cluster.

use opgate_sdk::Document;
use opgate_sdk::cluster::ReadError;
pub(crate) use opgate_sdk::operator_groups::status_without_spec;

use crate::group_surface::Selection;
use crate::namespaces::NamespaceSet;
use crate::reads::NAMESPACES;

/// The targets of a group.
pub(crate) fn of(group: &Document) -> Result<NamespaceSet, ReadError> {
    opgate_sdk::operator_groups::targets(group, &NAMESPACES)
}

/// The current selection of a spec. An invalid selector selects nothing.
pub(crate) fn select_namespaces(selection: Selection) -> Result<NamespaceSet, ReadError> {
    opgate_sdk::operator_groups::resolve_selection(selection, &NAMESPACES)
}
