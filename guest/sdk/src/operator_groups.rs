//! OperatorGroups: which namespaces they select.
//!
//! ```text
//! spec ─▶ Selection ─ names, or Namespaces by label ─┬▶ targets
//! status.namespaces ─────────────────────────────────┘
//! ```
//!
//! OLM writes the targets to the status. The status can be older than the spec, and others than OLM
//! may write it. So it adds to what a selector finds, and takes nothing away. Only if there is no
//! spec, which no API server stores, the status alone counts.

use crate::cluster::{Query, ReadError};
use crate::namespaces::NamespaceSet;
use crate::{ClusterRead, Document, lists};

/// Namespaces that the group names.
pub const TARGETS: &str = "/spec/targetNamespaces";
/// Annotation with the APIs that a group provides: `<kind>.<version>.<group>`, with commas.
pub const PROVIDED_APIS: &str = "/metadata/annotations/olm.providedAPIs";
/// Selector of the group's namespaces.
pub const SELECTOR: &str = "/spec/selector";
/// The targets that OLM computed.
pub const STATUS: &str = "/status/namespaces";

/// The namespaces that the spec of a group selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All.
    All,
    /// These, whether they exist or not; sorted, each once.
    Names(Vec<String>),
    /// Namespaces whose labels match this selector (JSON).
    Labels(String),
}

impl Selection {
    /// Returns the selection of the spec.
    #[must_use]
    pub fn of(group: &Document) -> Self {
        let mut names = lists::texts(group, TARGETS);
        if !names.is_empty() {
            names.sort_unstable();
            names.dedup();
            return Self::Names(names);
        }
        match group.raw(SELECTOR) {
            Some(json) if has_requirements(group) => {
                Self::Labels(String::from_utf8_lossy(&json).into_owned())
            }
            _ => Self::All,
        }
    }

    /// Reports whether two groups select the same: the order of names and the spelling of a selector make no
    /// difference.
    #[must_use]
    pub fn selects_same(left: &Document, right: &Document) -> bool {
        left.equal("/spec", right, "/spec")
            || match (Self::of(left), Self::of(right)) {
                (Self::Labels(_), Self::Labels(_)) => left.equal(SELECTOR, right, SELECTOR),
                (left, right) => left == right,
            }
    }
}

/// Reports whether the selector has requirements. Without them a group without names selects everything.
#[must_use]
pub fn has_requirements(group: &Document) -> bool {
    let some = |pointer: &str| group.length(pointer).is_some_and(|length| length > 0);
    some("/spec/selector/matchLabels") || some("/spec/selector/matchExpressions")
}

/// Returns the targets that OLM wrote to the status, if there are any.
#[must_use]
pub fn status_targets(group: &Document) -> Option<NamespaceSet> {
    let names = lists::texts(group, STATUS);
    (!names.is_empty()).then(|| names.into_iter().collect())
}

/// Returns the targets of a group.
///
/// # Errors
/// If there is no cluster to query.
pub fn targets(group: &Document, namespaces: &ClusterRead) -> Result<NamespaceSet, ReadError> {
    if let Some(status) = status_without_spec(group) {
        return Ok(status);
    }
    let selection = Selection::of(group);
    let status = match &selection {
        Selection::Labels(_) => status_targets(group),
        Selection::All | Selection::Names(_) => None,
    };
    let selected = resolve_selection(selection, namespaces)?;
    Ok(status.map_or(selected.clone(), |status| selected.union(&status)))
}

/// Returns the namespaces of a group for the comparison with other groups: its targets, and its own namespace
/// unless it has no targets or is for all namespaces.
#[must_use]
pub fn targets_with_own(targets: &NamespaceSet, own: &str) -> NamespaceSet {
    let mut reach = targets.clone();
    if !reach.is_empty() && !reach.contains("") {
        reach.insert(own);
    }
    reach
}

/// Returns the status of a group that has no spec.
#[must_use]
pub fn status_without_spec(group: &Document) -> Option<NamespaceSet> {
    if group.has("/spec") { None } else { status_targets(group) }
}

/// Returns the namespaces that a spec selects now. An invalid selector selects nothing.
///
/// # Errors
/// If there is no cluster to query.
pub fn resolve_selection(
    selection: Selection,
    namespaces: &ClusterRead,
) -> Result<NamespaceSet, ReadError> {
    match selection {
        Selection::All => Ok(NamespaceSet::all()),
        Selection::Names(names) => Ok(names.into_iter().collect()),
        Selection::Labels(labels) => {
            match namespaces.names(Query { label_selector: Some(&labels), ..Query::default() }) {
                Ok(names) => Ok(names.into_iter().map(|found| found.name).collect()),
                Err(ReadError::Invalid(_)) => Ok(NamespaceSet::default()),
                Err(absent) => Err(absent),
            }
        }
    }
}
