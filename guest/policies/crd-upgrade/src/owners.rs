//! The ClusterServiceVersions that own a CRD: none, one, or several.
//!
//! ```text
//! names, index crd ─▶ by namespace, without copies ─▶ two namespaces: several
//!                                                 └─▶ one: chains by spec.replaces ─▶ OwnerCount
//! ```
//!
//! During an upgrade the old and the new version of an Operator exist, both own the CRD, and the
//! new one replaces the old one. They count once. A version between them can own other CRDs.
//!
//! Any user with permission to write ClusterServiceVersions can claim a CRD, with documents of up
//! to 1.5 MiB each. So the query reads only their names: indexes determine the copies, and a
//! document is read only to follow a chain, with at most [`MAX_LINKS`] documents.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::copies::CopyMarks;
use opgate_sdk::{Document, is_terminating};

use crate::reads::CSVS;

/// The number of Operators that own a CRD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnerCount {
    None,
    One,
    Several,
}

/// Namespace and name.
pub(crate) type Key = (String, String);

pub(crate) fn key(csv: &Document) -> Key {
    (csv.text_or_empty("/metadata/namespace"), csv.text_or_empty("/metadata/name"))
}

/// Whether OLM treats a ClusterServiceVersion as a copy. It installs nothing from a copy.
pub(crate) fn is_copy(csv: &Document) -> bool {
    CopyMarks::of(csv, &csv.text_or_empty("/metadata/namespace")).claims_copy()
}

/// Whether a ClusterServiceVersion is neither a copy nor being removed.
pub(crate) fn is_installed(csv: &Document) -> bool {
    !is_copy(csv)
        && !is_terminating(csv)
        && !matches!(csv.text_or_empty("/status/phase").as_str(), "Replacing" | "Deleting")
}

/// The maximum number of versions of an Operator that are read to follow `spec.replaces`. OLM
/// deletes a version when the next one runs, so an Operator has two or three. More versions count
/// as several Operators.
const MAX_LINKS: usize = 16;

/// The owners of a CRD in the cluster. Reads only enough to determine whether there are at least
/// `needed`.
pub(crate) fn of(crd: &str, needed: OwnerCount) -> Result<OwnerCount, ReadError> {
    let names = [crd.to_owned()];
    let matches = [owner_index(&names)];
    let found = CSVS.names(Query { matches: &matches, ..Query::default() })?;
    let namespaces: BTreeSet<String> = found.into_iter().map(|name| name.namespace).collect();
    let mut first: Option<(String, BTreeSet<String>)> = None;
    for namespace in namespaces {
        let owners = original_owners(&namespace, &names)?;
        if owners.is_empty() {
            continue;
        }
        if needed <= OwnerCount::One {
            return Ok(OwnerCount::One);
        }
        if first.is_some() {
            return Ok(OwnerCount::Several);
        }
        first = Some((namespace, owners));
    }
    match first {
        None => Ok(OwnerCount::None),
        Some((namespace, owners)) => replacement_chains(&namespace, &owners),
    }
}

fn owner_index(crd: &[String]) -> IndexMatch<'_> {
    IndexMatch { index: "crd", values: crd, include_missing: false }
}

/// The versions in a namespace that claim a CRD and are not copies, see [`is_copy`].
fn original_owners(namespace: &str, crd: &[String]) -> Result<BTreeSet<String>, ReadError> {
    let (own, reasons) = ([namespace.to_owned()], ["Copied".to_owned()]);
    let names = |condition| {
        let matches = [owner_index(crd), condition];
        let query = Query { namespace: Some(namespace), matches: &matches, ..Query::default() };
        let names = CSVS.names(query)?.into_iter().map(|found| found.name);
        Ok::<BTreeSet<String>, ReadError>(names.collect())
    };
    // The group of a copy is in another namespace, or its status marks it as a copy.
    let at_home =
        names(IndexMatch { index: "operator-namespace", values: &own, include_missing: true })?;
    let copies = names(IndexMatch { index: "reason", values: &reasons, include_missing: false })?;
    Ok(&at_home - &copies)
}

/// The number of chains of a set of versions in a namespace. A walk ends at a version that an
/// earlier walk or itself has passed.
fn replacement_chains(namespace: &str, owners: &BTreeSet<String>) -> Result<OwnerCount, ReadError> {
    if owners.len() == 1 {
        return Ok(OwnerCount::One);
    }
    // The walk that passed each version.
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_one = false;
    for (number, start) in owners.iter().enumerate() {
        let mut at = start.clone();
        let met = loop {
            if let Some(&walk) = passed.get(&at) {
                break walk;
            }
            let Some(csv) = CSVS.get(namespace, &at)? else { break number };
            if passed.len() == MAX_LINKS {
                return Ok(OwnerCount::Several);
            }
            let replaced = csv.text_or_empty("/spec/replaces");
            passed.insert(at, number);
            if replaced.is_empty() {
                break number;
            }
            at = replaced;
        };
        // A walk that ends in an earlier one belongs to it. One that ends in itself is a cycle.
        if met == number {
            if is_one {
                return Ok(OwnerCount::Several);
            }
            is_one = true;
        }
    }
    Ok(if is_one { OwnerCount::One } else { OwnerCount::None })
}

/// The remaining budget of one query for ClusterServiceVersions that can name a CRD. Each can have
/// 1.5 MiB of names. The names of a real one take a few KiB.
#[derive(Debug)]
pub(crate) struct Budget {
    objects: usize,
    bytes: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { objects: 16, bytes: 256 << 10 }
    }
}

/// The reason why a rule was evaluated only in part.
pub(crate) const INCOMPLETE_REASON: &str = "some ClusterServiceVersions were looked at, there are more or larger ones that may name the CRD";

impl Budget {
    /// Calls `visit` with versions that match, until it returns `false`. Returns whether all
    /// required versions were visited: `false` if their number, or the size of their lists, exceeds
    /// the budget.
    pub(crate) fn visit_csvs(
        &mut self,
        matches: &[IndexMatch<'_>],
        list: &str,
        mut visit: impl FnMut(&Document) -> bool,
    ) -> Result<bool, ReadError> {
        let mut is_all = true;
        for name in CSVS.names(Query { matches, ..Query::default() })? {
            let Some(objects) = self.objects.checked_sub(1) else { return Ok(false) };
            self.objects = objects;
            let Some(csv) = CSVS.get(&name.namespace, &name.name)? else { continue };
            let Some(bytes) = self.bytes.checked_sub(csv.size(list).unwrap_or_default()) else {
                is_all = false;
                continue;
            };
            self.bytes = bytes;
            if !visit(&csv) {
                return Ok(true);
            }
        }
        Ok(is_all)
    }
}
