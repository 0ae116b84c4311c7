//! The possible states: what an evaluation assumes of changes that may be stored or not.

use std::sync::Arc;

use opgate_cluster::{Key, Object, Outline};

use super::{ChangeContent, MAX_POSSIBLE_STATES, OverlayEntry, stored};

/// A combination of stored and unsettled changes that an evaluation assumes. Unsettled changes may
/// be stored or not. A verdict holds only if it holds in each of these possible states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PossibleState {
    /// Without unsettled changes: only the stored objects. A reservation never hides a stored
    /// object.
    #[default]
    Stored,
    /// With all of them, instead of the objects that they change. If there are several requests in
    /// progress about one object, the one with this number counts, or the last. The last possible
    /// state shows all further ones side by side, and the one after it none of them.
    Pending(usize),
    /// Lists show stored and changed objects side by side; single objects show the changed state.
    UnionPreferPending,
    /// Lists are as in `UnionPreferPending`; single objects show the stored state. A conflicting change may
    /// be stored, and a change that would resolve it may not.
    UnionPreferStored,
}

/// The view of one kind: a possible state, and one object of which only the stored state is shown.
#[derive(Debug, Clone, Copy)]
pub struct ResourceView<'s> {
    pub(in crate::cluster) state: PossibleState,
    pub(in crate::cluster) reviewed: Option<&'s Key>,
}

impl From<PossibleState> for ResourceView<'_> {
    fn from(world: PossibleState) -> Self {
        Self { state: world, reviewed: None }
    }
}

impl ResourceView<'_> {
    /// The visible part of the knowledge about an object.
    pub(in crate::cluster) fn visible<'r>(&self, shown: OverlayEntry<'r>) -> OverlayEntry<'r> {
        let is_reviewed = self.reviewed.is_some_and(|key| key.has_same_name(shown.key));
        if is_reviewed { shown.into_stored() } else { shown }
    }
}

/// The copies of one object in a possible state.
#[derive(Debug, Default)]
pub(in crate::cluster) struct ObjectCopies<'r> {
    /// At most one if the possible state has one version, all possible ones if it shows them side
    /// by side.
    pub(in crate::cluster) objects: Vec<&'r Arc<Object>>,
    /// Outlines of copies that are too large to be kept: the possible state cannot show them.
    pub(in crate::cluster) outlines: Vec<&'r Arc<Outline>>,
    /// Whether one of several objects can be stored, and the possible state does not determine
    /// which.
    pub(in crate::cluster) is_ambiguous: bool,
}

impl<'r> ObjectCopies<'r> {
    /// Returns the copies of an object in a possible state. `base` is the object that the watch or
    /// a list shows.
    pub(in crate::cluster) fn of(
        world: PossibleState,
        base: Option<&'r Arc<Object>>,
        shown: &OverlayEntry<'r>,
    ) -> Self {
        let stored = stored(base, shown.direct_read);
        let forms = || shown.pending(stored);
        let count = forms().count();
        let states: Vec<&ChangeContent> = match world {
            PossibleState::Stored => Vec::new(),
            PossibleState::UnionPreferPending | PossibleState::UnionPreferStored => {
                forms().collect()
            }
            // If there are many requests, one possible state shows all that have no separate one,
            // because they may conflict, and the next one shows none, because they may be
            // required.
            PossibleState::Pending(number) if count > MAX_POSSIBLE_STATES => {
                match MAX_POSSIBLE_STATES - 1 {
                    joined if number < joined => forms().skip(number).take(1).collect(),
                    joined if number == joined => forms().skip(joined).collect(),
                    _ => Vec::new(),
                }
            }
            PossibleState::Pending(number) => {
                forms().skip(number.min(count.saturating_sub(1))).take(1).collect()
            }
        };
        let is_beside = !matches!(world, PossibleState::Pending(_)) || count == 0;
        let objects = stored.into_iter().filter(|_| is_beside);
        let objects = objects.chain(states.iter().filter_map(|form| form.object()));
        let outlines = states.iter().filter_map(|form| form.outline());
        let is_joined = matches!(world, PossibleState::Pending(number) if number >= MAX_POSSIBLE_STATES - 1)
            && count > MAX_POSSIBLE_STATES;
        Self { objects: objects.collect(), outlines: outlines.collect(), is_ambiguous: is_joined }
    }
}
