//! The names of all packages of a catalog, which the host lists in order.

use std::cmp::Ordering;

use opgate_sdk::Document;

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
