//! An OperatorGroup as the rules see it: what it selects, where it works, what it provides, and how
//! OLM reconciles the APIs of a member with it (OLM `pkg/controller/operators/olm/groups.go` and
//! `operatorgroup.go`).
//!
//! ```text
//! spec ───────────▶ Selection ─ names, or Namespaces by label ─┐
//! status.namespaces ───────────────────────────────────────────┴▶ targets ─ own namespace ─▶ Surface
//! ```

use opgate_sdk::{Document, Kind};

use crate::apis::ApiSet;
use crate::lists;
use crate::namespaces::NamespaceSet;

/// Annotation with the APIs that a group provides.
pub const PROVIDED_APIS: &str = "/metadata/annotations/olm.providedAPIs";
/// Namespaces that the group names.
pub const TARGETS: &str = "/spec/targetNamespaces";
/// Selector of the group's namespaces.
pub const SELECTOR: &str = "/spec/selector";
/// Whether OLM leaves the annotation alone.
pub const STATIC: &str = "/spec/staticProvidedAPIs";
/// What OLM found the targets to be.
pub const STATUS: &str = "/status/namespaces";

/// Which namespaces the spec of a group selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All.
    All,
    /// These, whether they exist or not; sorted, each once.
    Names(Vec<String>),
    /// Those with labels that this selector (JSON) selects.
    Labels(String),
}

impl Selection {
    /// What the spec selects.
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

    /// Whether two groups select the same: the order of names and the spelling of a selector make
    /// no difference.
    #[must_use]
    pub fn is_same(left: &Document, right: &Document) -> bool {
        left.equal("/spec", right, "/spec")
            || match (Self::of(left), Self::of(right)) {
                (Self::Labels(_), Self::Labels(_)) => left.equal(SELECTOR, right, SELECTOR),
                (left, right) => left == right,
            }
    }
}

/// Whether the selector asks for anything. Without it a group without names selects everything.
#[must_use]
pub fn has_requirements(group: &Document) -> bool {
    let some = |pointer: &str| group.length(pointer).is_some_and(|length| length > 0);
    some("/spec/selector/matchLabels") || some("/spec/selector/matchExpressions")
}

/// The targets that OLM wrote to the status, if there are any.
#[must_use]
pub fn synchronised(group: &Document) -> Option<NamespaceSet> {
    let names = lists::texts(group, STATUS);
    (!names.is_empty()).then(|| names.into_iter().collect())
}

/// Where a group works for the comparison with other groups: its targets, and its own namespace
/// unless it has no targets or is for all namespaces.
#[must_use]
pub fn reach(targets: &NamespaceSet, own: &str) -> NamespaceSet {
    let mut reach = targets.clone();
    if !reach.is_empty() && !reach.contains("") {
        reach.insert(own);
    }
    reach
}

/// A group by what it reaches and provides, upstream's `OperatorGroupSurface`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surface {
    /// Namespace of the group.
    pub namespace: String,
    /// Name of the group.
    pub name: String,
    /// Where it works.
    pub reach: NamespaceSet,
    /// What it provides.
    pub apis: ApiSet,
}

impl Surface {
    /// Upstream's `NewOperatorGroup`: what is not in the status is not known.
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

    /// Upstream's `GroupIntersection`: the others that work where this one does.
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

/// What OLM does with the APIs that a member brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The group provides them already.
    NoConflict,
    /// The group provides them from now on.
    Add,
    /// The group provides them no longer: another one does.
    Remove,
    /// Another group provides them.
    Conflict,
}

/// The outcome for APIs that a member brings, those of its group, and whether another group that
/// works in one of its namespaces provides one of them.
#[must_use]
pub fn reconcile(add: &ApiSet, group: &ApiSet, taken: bool) -> Outcome {
    match (add.is_subset(group), taken) {
        (true, true) => Outcome::Remove,
        (false, true) => Outcome::Conflict,
        (false, false) => Outcome::Add,
        (true, false) => Outcome::NoConflict,
    }
}

/// What a status says about the targets, judged by its start: there can be thousands of names.
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
