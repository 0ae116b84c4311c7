//! The rules' view of an OperatorGroup: its selection, the namespaces in which it works, its
//! provided APIs, and OLM's reconciliation of a member's APIs with it (OLM
//! `pkg/controller/operators/olm/groups.go` and `operatorgroup.go`).
//!
//! ```text
//! spec ───────────▶ Selection ─ names, or Namespaces by label ─┐
//! status.namespaces ───────────────────────────────────────────┴▶ targets ─ own namespace ─▶ Surface
//! ```

pub use opgate_sdk::operator_groups::{
    PROVIDED_APIS, SELECTOR, STATUS, Selection, TARGETS, has_requirements, reach, synchronised,
};
use opgate_sdk::{Document, Kind};

use crate::apis::ApiSet;
use crate::namespaces::NamespaceSet;

/// Whether OLM does not change the annotation.
pub const STATIC: &str = "/spec/staticProvidedAPIs";
/// The targets and provided APIs of a group, upstream's `OperatorGroupSurface`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surface {
    /// Namespace of the group.
    pub namespace: String,
    /// Name of the group.
    pub name: String,
    /// The namespaces in which it works.
    pub reach: NamespaceSet,
    /// The APIs that it provides.
    pub apis: ApiSet,
}

impl Surface {
    /// Upstream's `NewOperatorGroup`: targets that are not in the status are unknown.
    #[must_use]
    pub fn of(group: &Document) -> Self {
        let namespace = group.text_or_empty("/metadata/namespace");
        let targets = synchronised(group).unwrap_or_default();
        Self {
            reach: reach(&targets, &namespace),
            name: group.text_or_empty("/metadata/name"),
            apis: ApiSet::parse(&group.text_or_empty(PROVIDED_APIS)),
            namespace,
        }
    }

    /// Upstream's `GroupIntersection`: the other groups that work in the same namespaces.
    pub fn meeting<'o>(&self, others: &'o [Self]) -> impl Iterator<Item = &'o Self> {
        others.iter().filter(|other| {
            (&other.name, &other.namespace) != (&self.name, &self.namespace)
                && self.reach.meets(&other.reach)
        })
    }

    /// Upstream's `ReconcileAPIIntersection`.
    #[must_use]
    pub fn reconcile(&self, add: &ApiSet, others: &[Self]) -> Outcome {
        let taken = |other: &Self| other.apis.iter().any(|api| add.contains(api));
        reconcile(add, &self.apis, self.meeting(others).any(taken))
    }
}

/// OLM's reaction to the APIs that a member adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
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
pub fn reconcile(add: &ApiSet, group: &ApiSet, taken: bool) -> Outcome {
    match (add.is_subset(group), taken) {
        (true, true) => Outcome::Remove,
        (false, true) => Outcome::Conflict,
        (false, false) => Outcome::Add,
        (true, false) => Outcome::NoConflict,
    }
}

/// The content of a status for the targets, by its start: there can be thousands of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Nothing.
    Unknown,
    /// All namespaces.
    All,
    /// Names of namespaces.
    Names,
    /// The empty name and others. OLM does not write that. The own namespace is not added then.
    Mixed,
}

/// See [`Extent`]. OLM writes the names in byte order, the empty one first.
pub(crate) fn status_extent(group: &Document) -> Extent {
    if group.kind(STATUS) != Kind::List {
        return Extent::Unknown;
    }
    match group.text("/status/namespaces/0") {
        Some(first) if !first.is_empty() => Extent::Names,
        first => match (group.length(STATUS), first) {
            (None | Some(0), _) => Extent::Unknown,
            (Some(1), Some(_)) => Extent::All,
            _ => Extent::Mixed,
        },
    }
}
