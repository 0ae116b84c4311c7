//! CRDs that an UPDATE adds to a definition.
//!
//! Each CRD is compared by its name and not by its position, so a CRD that moves in the list
//! because another one is removed is not new.

use std::collections::BTreeMap;

use super::{Definition, Definitions};
use crate::csv::Csv;
use crate::entries::Entries;

/// The CRDs that a definition listed before an UPDATE. A CRD that moves in the list is not a new
/// one.
pub(super) enum OldCrds {
    /// The list is unchanged.
    Unchanged,
    /// The number of occurrences of each name; none for a new definition or another type.
    Names(BTreeMap<String, usize>),
}

impl OldCrds {
    pub(super) fn of(
        csv: &Csv<'_, '_>,
        definitions: &Definitions<'_>,
        definition: &Definition,
    ) -> Self {
        let before = definitions.old_definition(definition);
        let same = before.filter(|(_, old)| old.webhook_type == definition.webhook_type);
        let mut names = BTreeMap::new();
        if let Some((before, old)) = same {
            if !definitions.is_new_at(csv, definition, "/conversionCRDs") {
                return Self::Unchanged;
            }
            let crds = Entries::read_first(before, &old.pointer("/conversionCRDs"), &[""]);
            for name in crds.iter().filter_map(|(_, crd)| crd.text(0)) {
                *names.entry(name.to_owned()).or_default() += 1;
            }
        }
        Self::Names(names)
    }

    /// Whether a name was missing before, or occurs more often now.
    pub(super) fn mark_listed(&mut self, name: &str) -> bool {
        let Self::Names(names) = self else { return false };
        let Some(count) = names.get_mut(name).filter(|count| **count > 0) else { return true };
        *count -= 1;
        false
    }
}

/// Whether an UPDATE adds CRDs to a definition, or changes its type.
pub(super) fn adds_crds(
    csv: &Csv<'_, '_>,
    definitions: &Definitions<'_>,
    definition: &Definition,
) -> bool {
    if definitions.is_new(definition, |old| old.webhook_type != definition.webhook_type) {
        return true;
    }
    let mut known = OldCrds::of(csv, definitions, definition);
    if matches!(known, OldCrds::Unchanged) {
        return false;
    }
    let crds = Entries::read_first(csv.object, &definition.pointer("/conversionCRDs"), &[""]);
    crds.iter().filter_map(|(_, crd)| crd.text(0)).any(|name| known.mark_listed(name))
}
