//! Policy `crd-upgrade`: CRDs are well formed, and upgrades of them keep what clients and objects
//! need.
//!
//! ```text
//! CustomResourceDefinition ─▶ Crd ─┬─▶ header      name, API, scope, group
//!                                  ├─▶ versions    the list of versions
//!                                  ├─▶ conversion  webhooks
//!                                  ├─▶ access      who creates it
//!                                  ├─▶ removal     versions that go away ─▶ owners
//!                                  └─▶ safety      the old schemas against the new ones
//! ```
//!
//! The kinds that are judged are in `targets`, what is asked of the cluster is in `reads`.

mod access;
mod conversion;
mod crd;
mod header;
mod owners;
mod reads;
mod removal;
mod safety;
mod targets;
mod validation;
mod versions;

use opgate_sdk::{Report, Review};

use crd::Crd;
use targets::CRD;

opgate_sdk::policy! {
    name: "crd-upgrade",
    title: "CRDs are well formed, and upgrades of them keep what clients and objects need",
    rules: [
        header::RULES,
        versions::RULES,
        conversion::RULES,
        access::RULES,
        removal::RULES,
        safety::RULES,
    ],
    routes: [CRD => judge],
    settings: include_str!("settings.json"),
}

fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(document) = review.subject() else { return };
    let crd = Crd::of(document);
    header::judge(review, document, report);
    versions::judge(review, &crd, review.spares().map(Crd::of).as_ref(), report);
    conversion::judge(review, &crd, report);
    access::judge(review, report);
    if let Some(old) = review.updates_from() {
        removal::judge(review, &crd, &Crd::of(old), report);
    }
    safety::judge(review, report);
}
