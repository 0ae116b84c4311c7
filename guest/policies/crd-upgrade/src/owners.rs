//! The ClusterServiceVersions that own a CRD: none, one, or several.
//!
//! ```text
//! names, index crd ─▶ by namespace, without copies ─▶ two namespaces: several
//!                                                 └─▶ one: chains by spec.replaces ─▶ Owners
//! ```
//!
//! During an upgrade the old and the new version of an Operator are there, both own the CRD, and
//! the new one replaces the old one. They count once. A version between them may own other CRDs.
//!
//! Anyone who can write ClusterServiceVersions can claim a CRD, with as many as 1.5 MiB each. So the
//! question costs no more than their names: indexes say which ones are copies, and a document is read
//! only to follow a chain, [`MAX_LINKS`] of them at most.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{Match, Query, ReadError};
use opgate_sdk::copies::Marks;
use opgate_sdk::{Document, is_terminating};

use crate::reads::CSVS;

/// How many Operators own a CRD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owners {
    None,
    One,
    Several,
}

/// Namespace and name.
pub(crate) type Key = (String, String);

pub(crate) fn key(csv: &Document) -> Key {
    (csv.text_or_empty("/metadata/namespace"), csv.text_or_empty("/metadata/name"))
}

/// Whether OLM takes a ClusterServiceVersion for a copy. It installs nothing from such a one.
pub(crate) fn is_copy(csv: &Document) -> bool {
    Marks::of(csv, &csv.text_or_empty("/metadata/namespace")).claim()
}

/// Whether a ClusterServiceVersion is neither a copy nor on its way out.
pub(crate) fn is_installed(csv: &Document) -> bool {
    !is_copy(csv)
        && !is_terminating(csv)
        && !matches!(csv.text_or_empty("/status/phase").as_str(), "Replacing" | "Deleting")
}

/// Versions of an Operator that are read to follow `spec.replaces`. OLM deletes a version once the
/// next one runs, so that an Operator has two or three. More of them are taken for several Operators.
const MAX_LINKS: usize = 16;

/// The owners of a CRD in the cluster. What is not needed to tell if there are as many as `needed` is
/// not read.
pub(crate) fn of(crd: &str, needed: Owners) -> Result<Owners, ReadError> {
    let names = [crd.to_owned()];
    let matches = [claims(&names)];
    let found = CSVS.names(Query { matches: &matches, ..Query::default() })?;
    let namespaces: BTreeSet<String> = found.into_iter().map(|name| name.namespace).collect();
    let mut first: Option<(String, BTreeSet<String>)> = None;
    for namespace in namespaces {
        let owners = originals(&namespace, &names)?;
        if owners.is_empty() {
            continue;
        }
        if needed <= Owners::One {
            return Ok(Owners::One);
        }
        if first.is_some() {
            return Ok(Owners::Several);
        }
        first = Some((namespace, owners));
    }
    match first {
        None => Ok(Owners::None),
        Some((namespace, owners)) => chains(&namespace, &owners),
    }
}

fn claims(crd: &[String]) -> Match<'_> {
    Match { index: "crd", values: crd, absent: false }
}

/// The versions in a namespace that claim a CRD and are no copies, see [`is_copy`].
fn originals(namespace: &str, crd: &[String]) -> Result<BTreeSet<String>, ReadError> {
    let (own, reasons) = ([namespace.to_owned()], ["Copied".to_owned()]);
    let names = |condition| {
        let matches = [claims(crd), condition];
        let query = Query { namespace: Some(namespace), matches: &matches, ..Query::default() };
        let names = CSVS.names(query)?.into_iter().map(|found| found.name);
        Ok::<BTreeSet<String>, ReadError>(names.collect())
    };
    // The group of a copy is in another namespace, or its status says that it is a copy.
    let at_home = names(Match { index: "operator-namespace", values: &own, absent: true })?;
    let copies = names(Match { index: "reason", values: &reasons, absent: false })?;
    Ok(&at_home - &copies)
}

/// How many chains some versions of a namespace form. A walk ends at a version that an earlier walk or
/// itself has passed.
fn chains(namespace: &str, owners: &BTreeSet<String>) -> Result<Owners, ReadError> {
    if owners.len() == 1 {
        return Ok(Owners::One);
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
                return Ok(Owners::Several);
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
                return Ok(Owners::Several);
            }
            is_one = true;
        }
    }
    Ok(if is_one { Owners::One } else { Owners::None })
}

/// What one question may still read of ClusterServiceVersions that may name a CRD. Each can have 1.5 MiB
/// of names. Those of a real one take a few KiB.
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

/// Why a rule was evaluated only in part.
pub(crate) const MORE: &str = "some ClusterServiceVersions were looked at, there are more or larger ones that may name the CRD";

impl Budget {
    /// Calls `visit` with versions that match, until it returns `false`. Returns whether all were
    /// visited that had to be: not if they are more, or if their lists are larger, than the budget.
    pub(crate) fn each(
        &mut self,
        matches: &[Match<'_>],
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
