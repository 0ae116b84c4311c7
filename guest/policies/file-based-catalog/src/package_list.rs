//! The names of all packages of a catalog, which the host lists in order.

use std::cmp::Ordering;

use opgate_sdk::Document;

/// Most bytes by which a misspelt name is longer or shorter.
const MAX_LENGTH_DIFFERENCE: usize = 2;

/// Whether the list of all packages, which is sorted, has a name.
pub(crate) fn is_listed(document: &Document, name: &str) -> bool {
    let (mut from, mut to) = (0, document.length("/spec/packages").unwrap_or_default());
    while from < to {
        let middle = from.midpoint(to);
        let found = document.text_or_empty(&format!("/spec/packages/{middle}"));
        match found.as_str().cmp(name) {
            Ordering::Equal => return true,
            Ordering::Less => from = middle.saturating_add(1),
            Ordering::Greater => to = middle,
        }
    }
    false
}

/// The names of packages that a misspelt name can mean: those of about its length.
pub(crate) fn read_similar(document: &Document, name: &str) -> Vec<String> {
    let mut names = document.texts("/spec/packages");
    names.retain(|listed| listed.len().abs_diff(name.len()) <= MAX_LENGTH_DIFFERENCE);
    names
}
