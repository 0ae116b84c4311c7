//! Policy `crd-upgrade`: CRDs are well-formed, and their upgrades are safe for clients and objects.
//!
//! ```text
//! CustomResourceDefinition ─▶ Crd ─┬─▶ header      name, API, scope, group
//!                                  ├─▶ names       the names of its kind, and the approval of its group
//!                                  ├─▶ versions    the list of versions
//!                                  ├─▶ columns     the columns of kubectl
//!                                  ├─▶ conversion  webhooks
//!                                  ├─▶ structural  the schemas of a file
//!                                  ├─▶ access      the user who creates it
//!                                  ├─▶ removal     dropped versions ─▶ owners
//!                                  ├─▶ existing    objects with new schemas ─▶ owners, validation
//!                                  ├─▶ rukpak      removed versions and objects of CRDs that RukPak installed
//!                                  └─▶ safety      differences between old and new schemas
//! RegistryBundle ─────────────────────▶ examples    examples with schemas
//! ```
//!
//! `targets` declares the evaluated kinds, `reads` the cluster state that the rules read.

mod access;
mod columns;
mod conversion;
mod crd;
mod examples;
mod existing;
mod header;
mod names;
mod owners;
mod reads;
mod removal;
mod rukpak;
mod safety;
mod schema;
mod structural;
mod targets;
mod validation;
mod versions;

use opgate_sdk::{Document, Report, Review};

use crd::Crd;
use targets::{CRD, REGISTRY_BUNDLE};
use validation::WorkBudget;

opgate_sdk::policy! {
    name: "crd-upgrade",
    title: "CRDs are well-formed, and their upgrades are safe for clients and objects",
    rules: [
        header::RULES,
        names::RULES,
        versions::RULES,
        columns::RULES,
        conversion::RULES,
        structural::RULES,
        access::RULES,
        removal::RULES,
        existing::RULES,
        rukpak::RULES,
        safety::RULES,
        examples::RULES,
    ],
    routes: [CRD => check, REGISTRY_BUNDLE => examples::check],
    settings: include_str!("settings.json"),
}

/// The maximum number of versions of a CRD that are read. A CRD in the API server has at most about
/// 20,000: its size is limited to 1.5 MiB, and each version has a schema.
const MAX_VERSIONS: u32 = 32_768;

fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(document) = review.subject() else { return };
    let count = |crd: &Document| crd.length("/spec/versions").unwrap_or_default();
    if review.old_of_update().is_some_and(|old| count(old) > MAX_VERSIONS)
        || count(document) > MAX_VERSIONS
    {
        header::check(review, document, report);
        access::check(review, report);
        let rules = [
            names::RULES,
            versions::RULES,
            columns::RULES,
            conversion::RULES,
            structural::RULES,
            removal::RULES,
            existing::RULES,
            rukpak::RULES,
            safety::RULES,
        ];
        for rule in rules.concat() {
            report.skip(rule, "spec.versions", "the CRD has too many versions to evaluate them");
        }
        return;
    }
    let crd = Crd::of(document);
    let old = review.old_of_update().map(Crd::of);
    header::check(review, document, report);
    versions::check(review, &crd, old.as_ref().filter(|_| review.ratchet_base().is_some()), report);
    names::check(review, &crd, report);
    columns::check(review, &crd, report);
    conversion::check(review, &crd, report);
    access::check(review, report);
    let mut work = WorkBudget::default();
    structural::check(review, &crd, &mut work, report);
    if let Some(old) = &old {
        removal::check(review, &crd, old, report);
        existing::check(review, &crd, old, &mut work, report);
    }
    rukpak::check(review, &crd, old.as_ref(), &mut work, report);
    safety::check(review, report);
}
