//! What an UPDATE adds to the CRDs of a definition.
//!
//! Each CRD is compared by its name and not by its place, so that one that moves in the list, because
//! another one goes, is as old as it was.

use std::collections::BTreeMap;

use super::{Definition, Definitions};
use crate::csv::Csv;
use crate::entries::Entries;

/// The CRDs that a definition listed before an UPDATE. One that moves in the list is no other one.
pub(super) enum Known {
    /// The list is as it was.
    All,
    /// How often each name was there. Of a new definition or another type there is none.
    Names(BTreeMap<String, usize>),
}

impl Known {
    pub(super) fn of(
        csv: &Csv<'_, '_>,
        definitions: &Definitions<'_>,
        definition: &Definition,
    ) -> Self {
        let before = definitions.before(definition);
        let same = before.filter(|(_, old)| old.webhook == definition.webhook);
        let mut names = BTreeMap::new();
        if let Some((before, old)) = same {
            if !definitions.is_new_at(csv, definition, "/conversionCRDs") {
                return Self::All;
            }
            let crds = Entries::first(before, &old.pointer("/conversionCRDs"), &[""]);
            for name in crds.iter().filter_map(|(_, crd)| crd.text(0)) {
                *names.entry(name.to_owned()).or_default() += 1;
            }
        }
        Self::Names(names)
    }

    /// Whether a name was not there, or not once more.
    pub(super) fn lacks(&mut self, name: &str) -> bool {
        let Self::Names(names) = self else { return false };
        let Some(count) = names.get_mut(name).filter(|count| **count > 0) else { return true };
        *count -= 1;
        false
    }
}

/// Whether an UPDATE adds to what a definition converts, or changes its type.
pub(super) fn adds(
    csv: &Csv<'_, '_>,
    definitions: &Definitions<'_>,
    definition: &Definition,
) -> bool {
    if definitions.is_new(definition, |old| old.webhook != definition.webhook) {
        return true;
    }
    let mut known = Known::of(csv, definitions, definition);
    if matches!(known, Known::All) {
        return false;
    }
    let crds = Entries::first(csv.object, &definition.pointer("/conversionCRDs"), &[""]);
    crds.iter().filter_map(|(_, crd)| crd.text(0)).any(|name| known.lacks(name))
}
