//! `InstallPlan`s: the properties of bundles that are looked up.
//!
//! They stand in the status, which the catalog operator writes: this is where a constraint from a
//! catalog is first seen by the API server.

use std::collections::BTreeSet;

use opgate_constraint::properties::Form;
use opgate_sdk::Document;

use crate::annotations;
use crate::findings::Findings;

const LOOKUPS: &str = "/status/bundleLookups";
/// JSON text, in a lookup.
const PROPERTIES: &str = "/properties";

/// Looks at every lookup whose properties are new.
pub(crate) fn judge(plan: &Document, old: Option<&Document>, findings: &mut Findings<'_>) {
    let properties = |lookup: &Document| lookup.text(PROPERTIES).filter(|text| !text.is_empty());
    let old: BTreeSet<String> = old
        .into_iter()
        .flat_map(|old| old.items(LOOKUPS))
        .filter_map(|lookup| properties(&lookup))
        .collect();
    for (index, lookup) in plan.items(LOOKUPS).enumerate() {
        let field = format!("status.bundleLookups[{index}].properties");
        if !findings.admits(&lookup, PROPERTIES, &field) {
            continue;
        }
        let Some(text) = properties(&lookup).filter(|text| !old.contains(text)) else { continue };
        annotations::list(&text, Form::Wrapped, &field, true, findings);
    }
}
