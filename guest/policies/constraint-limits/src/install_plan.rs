//! `InstallPlan`s: the properties of bundles that are looked up.
//!
//! They are in the status, which the catalog operator writes. Its request is the first in which the
//! API server receives a constraint from a catalog.

use std::collections::BTreeSet;

use opgate_constraint::properties::ListFormat;
use opgate_sdk::{Document, Report, Review};

use crate::annotations;
use crate::scan::Scan;

const LOOKUPS: &str = "/status/bundleLookups";
/// JSON text, in a lookup.
const PROPERTIES: &str = "/properties";

/// Evaluates every lookup with new properties.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(plan) = review.subject() else { return };
    let mut scan = Scan::new(review, report);
    let properties = |lookup: &Document| lookup.text(PROPERTIES).filter(|text| !text.is_empty());
    let old: BTreeSet<String> = review
        .ratchet_base()
        .into_iter()
        .flat_map(|old| old.items(LOOKUPS))
        .filter_map(|lookup| properties(&lookup))
        .collect();
    for (index, lookup) in plan.items(LOOKUPS).enumerate() {
        let field = format!("status.bundleLookups[{index}].properties");
        if !scan.check_size(&lookup, PROPERTIES, &field) {
            continue;
        }
        let Some(text) = properties(&lookup).filter(|text| !old.contains(text)) else { continue };
        annotations::check_list(&text, ListFormat::Wrapped, &field, true, &mut scan);
    }
}
