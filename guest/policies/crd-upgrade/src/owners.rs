//! The ClusterServiceVersions that own a CRD: none, one, or several.
//!
//! ```text
//! CSVS, index crd ─▶ no copies ─▶ chains by spec.replaces, within a namespace ─▶ Owners
//! ```
//!
//! During an upgrade the old and the new version of an Operator are there, both own the CRD, and
//! the new one replaces the old one. They count once. A version between them may own other CRDs.

use std::collections::BTreeMap;

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

/// The owners of a CRD in the cluster.
pub(crate) fn of(crd: &str) -> Result<Owners, ReadError> {
    let mut owners: BTreeMap<Key, String> = BTreeMap::new();
    let names = [crd.to_owned()];
    let matches = [Match { index: "crd", values: &names, absent: false }];
    CSVS.each(Query { matches: &matches, ..Query::default() }, |csv| {
        if !is_copy(&csv) {
            owners.insert(key(&csv), csv.text_or_empty("/spec/replaces"));
        }
        true
    })?;
    Ok(match chains(&owners)? {
        0 => Owners::None,
        1 => Owners::One,
        _ => Owners::Several,
    })
}

/// The number of chains, at most 2. Every version is looked at once: a walk ends at one that an
/// earlier walk or itself has passed.
fn chains(owners: &BTreeMap<Key, String>) -> Result<usize, ReadError> {
    // The chain of each version that was passed.
    let mut passed: BTreeMap<Key, usize> = BTreeMap::new();
    let mut joined: BTreeMap<usize, usize> = BTreeMap::new();
    for (number, start) in owners.keys().enumerate() {
        let mut at = start.clone();
        let met = loop {
            if let Some(&chain) = passed.get(&at) {
                break chain;
            }
            let replaced = match owners.get(&at) {
                Some(replaced) => replaced.clone(),
                None => match CSVS.get(&at.0, &at.1)? {
                    Some(csv) => csv.text_or_empty("/spec/replaces"),
                    None => break number,
                },
            };
            passed.insert(at.clone(), number);
            if replaced.is_empty() {
                break number;
            }
            at.1 = replaced;
        };
        joined.insert(number, met);
    }
    // A chain that ends in an earlier one is a part of it; one that ends in itself is a cycle.
    Ok(joined.iter().filter(|(chain, met)| chain == met).take(2).count())
}
