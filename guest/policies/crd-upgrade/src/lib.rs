//! Policy `crd-upgrade`: CRDs are well formed, and upgrades of them keep what clients and objects
//! need.
//!
//! ```text
//! CustomResourceDefinition ─┬─▶ header   name, scope, group
//!                           └─▶ safety   the old schemas against the new ones
//! ```
//!
//! The kinds that are judged are in `targets`, what is asked of the cluster is in `reads`.

mod header;
mod reads;
mod safety;
mod targets;

use opgate_sdk::{Report, Review};
use targets::CRD;

opgate_sdk::policy! {
    name: "crd-upgrade",
    title: "CRDs are well formed, and upgrades of them keep what clients and objects need",
    rules: [
        header::RULES,
        safety::RULES,
    ],
    routes: [CRD => judge],
    settings: include_str!("settings.json"),
}

fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    header::judge(review, report);
    safety::judge(review, report);
}
