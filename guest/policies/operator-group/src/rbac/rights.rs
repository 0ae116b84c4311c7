//! The permissions that a role gives for a few resources, as bits: small and quick to compare for a
//! role of any size.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::Document;

use super::SearchError;
use super::budget::{Budget, CALL_STEPS};
use super::read::{for_each_text, length};

/// Resources that a rule watches, and the relevant verbs.
pub(super) struct WatchedResources {
    pub(super) verbs: &'static [&'static str],
    /// Group and resource.
    pub(super) resources: &'static [(&'static str, &'static str)],
}

/// Verbs of requests without an object name. A rule with `resourceNames` does not allow them,
/// unless the empty name is in the list.
const NAMELESS_VERBS: [&str; 2] = ["create", "deletecollection"];

/// Pairs of a watched resource and a verb, as bits, by the name of the object; those for all
/// objects have no name.
#[derive(Debug, Default)]
pub(super) struct Rights(BTreeMap<Option<String>, u32>);

impl Rights {
    pub(super) fn of(
        role: &Document,
        watched: &WatchedResources,
        budget: &mut Budget,
    ) -> Result<Self, SearchError> {
        let mut rights = Self::default();
        rights.add(role, watched, budget)?;
        Ok(rights)
    }

    pub(super) fn add(
        &mut self,
        role: &Document,
        watched: &WatchedResources,
        budget: &mut Budget,
    ) -> Result<(), SearchError> {
        for index in 0..length(role, "/rules") {
            let at = format!("/rules/{index}");
            let bits = watched.bits(role, &at, budget)?;
            if bits == 0 {
                continue;
            }
            let mut names = BTreeSet::new();
            for_each_text(role, &format!("{at}/resourceNames"), CALL_STEPS, budget, |name| {
                names.insert(name.to_owned());
            })?;
            if names.is_empty() {
                *self.0.entry(None).or_default() |= bits;
            }
            // A request without an object name has the empty name.
            let nameless = watched.nameless();
            for name in names {
                let bits = bits & if name.is_empty() { nameless } else { !nameless };
                if bits != 0 {
                    *self.0.entry(Some(name)).or_default() |= bits;
                }
            }
        }
        Ok(())
    }

    /// Whether these permissions allow anything that the others do not.
    pub(super) fn exceeds(&self, those: &Self) -> bool {
        let for_all = those.0.get(&None).copied().unwrap_or_default();
        self.0.iter().any(|(name, bits)| {
            let for_one = those.0.get(name).copied().unwrap_or_default();
            bits & !(for_all | for_one) != 0
        })
    }
}

impl WatchedResources {
    /// One bit for each pair of a resource and a verb in `wanted`.
    fn pairs(&self, wanted: impl Fn(usize, usize) -> bool) -> u32 {
        let all =
            (0..self.resources.len()).flat_map(|r| (0..self.verbs.len()).map(move |v| (r, v)));
        all.zip(0..).filter(|&((r, v), _)| wanted(r, v)).fold(0, |bits, (_, bit)| bits | 1 << bit)
    }

    fn nameless(&self) -> u32 {
        self.pairs(|_, verb| self.verbs.get(verb).is_some_and(|verb| NAMELESS_VERBS.contains(verb)))
    }

    /// The resources and verbs of a rule of a role.
    fn bits(&self, role: &Document, at: &str, budget: &mut Budget) -> Result<u32, SearchError> {
        let groups: Vec<&str> = self.resources.iter().map(|(group, _)| *group).collect();
        let resources: Vec<&str> = self.resources.iter().map(|(_, resource)| *resource).collect();
        let resources = named(role, &format!("{at}/resources"), &resources, budget)?;
        if !resources.contains(&true) {
            return Ok(0);
        }
        let groups = named(role, &format!("{at}/apiGroups"), &groups, budget)?;
        let verbs = named(role, &format!("{at}/verbs"), self.verbs, budget)?;
        let has = |found: &[bool], index: usize| found.get(index) == Some(&true);
        Ok(self.pairs(|r, v| has(&groups, r) && has(&resources, r) && has(&verbs, v)))
    }
}

/// The entries that a list contains, directly or by `*`.
fn named(
    role: &Document,
    pointer: &str,
    these: &[&str],
    budget: &mut Budget,
) -> Result<Vec<bool>, SearchError> {
    let mut found = vec![false; these.len()];
    for_each_text(role, pointer, 1, budget, |text| {
        for (found, this) in found.iter_mut().zip(these) {
            *found |= text == "*" || text == *this;
        }
    })?;
    Ok(found)
}
