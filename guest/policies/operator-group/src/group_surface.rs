//! The rules' view of an OperatorGroup: its selection, the namespaces in which it works, its
//! provided APIs, and OLM's reconciliation of a member's APIs with it (OLM
//! `pkg/controller/operators/olm/groups.go` and `operatorgroup.go`).
//!
//! ```text
//! spec ───────────▶ Selection ─ names, or Namespaces by label ─┐
//! status.namespaces ───────────────────────────────────────────┴▶ targets ─ own namespace ─▶ Surface
//! ```

pub use opgate_sdk::operator_groups::{
    PROVIDED_APIS, SELECTOR, STATUS, Selection, TARGETS, has_requirements, status_targets,
    targets_with_own,
};
use opgate_sdk::{Document, Kind};

use crate::apis::ApiSet;
use crate::namespaces::NamespaceSet;

/// Whether OLM does not change the annotation.
pub const STATIC_PROVIDED_APIS: &str = "/spec/staticProvidedAPIs";
/// The targets and provided APIs of a group, upstream's `OperatorGroupSurface`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surface {
    /// Namespace of the group.
    pub namespace: String,
    /// Name of the group.
    pub name: String,
    /// The namespaces in which it works.
    pub targets: NamespaceSet,
    /// The APIs that it provides.
    pub apis: ApiSet,
}

impl Surface {
    /// Upstream's `NewOperatorGroup`: targets that are not in the status are unknown.
    #[must_use]
    pub fn of(group: &Document) -> Self {
        let namespace = group.text_or_empty("/metadata/namespace");
        let targets = status_targets(group).unwrap_or_default();
        Self {
            targets: targets_with_own(&targets, &namespace),
            name: group.text_or_empty("/metadata/name"),
            apis: ApiSet::parse(&group.text_or_empty(PROVIDED_APIS)),
            namespace,
        }
    }

    /// Upstream's `GroupIntersection`: the other groups that work in the same namespaces.
    pub fn overlapping<'o>(&self, others: &'o [Self]) -> impl Iterator<Item = &'o Self> {
        others.iter().filter(|other| {
            (&other.name, &other.namespace) != (&self.name, &self.namespace)
                && self.targets.intersects(&other.targets)
        })
    }

    /// Upstream's `ReconcileAPIIntersection`.
    #[must_use]
    pub fn reconcile(&self, add: &ApiSet, others: &[Self]) -> ApiReconciliation {
        let taken = |other: &Self| other.apis.iter().any(|api| add.contains(api));
        reconcile(add, &self.apis, self.overlapping(others).any(taken))
    }
}

/// OLM's reaction to the APIs that a member adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiReconciliation {
    /// The group already provides them.
    NoConflict,
    /// OLM adds them to the group.
    Add,
    /// OLM removes them from the group: another one provides them.
    Remove,
    /// Another group provides them.
    Conflict,
}

/// The outcome for the APIs of a member and of its group, and for whether another group that works
/// in one of its namespaces provides one of them.
#[must_use]
pub fn reconcile(add: &ApiSet, group: &ApiSet, taken: bool) -> ApiReconciliation {
    match (add.is_subset(group), taken) {
        (true, true) => ApiReconciliation::Remove,
        (false, true) => ApiReconciliation::Conflict,
        (false, false) => ApiReconciliation::Add,
        (true, false) => ApiReconciliation::NoConflict,
    }
}

/// The content of a status for the targets, by its start: there can be thousands of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetExtent {
    /// Nothing.
    Unknown,
    /// All namespaces.
    All,
    /// Names of namespaces.
    Names,
    /// The empty name and others. OLM does not write that. The own namespace is not added then.
    Mixed,
}

/// See [`TargetExtent`]. OLM writes the names in byte order, the empty one first.
pub(crate) fn status_extent(group: &Document) -> TargetExtent {
    if group.kind(STATUS) != Kind::List {
        return TargetExtent::Unknown;
    }
    match group.text("/status/namespaces/0") {
        Some(first) if !first.is_empty() => TargetExtent::Names,
        first => match (group.length(STATUS), first) {
            (None | Some(0), _) => TargetExtent::Unknown,
            (Some(1), Some(_)) => TargetExtent::All,
            _ => TargetExtent::Mixed,
        },
    }
}
