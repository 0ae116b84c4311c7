//! Policy `olm-v1`: the Operators and Catalogs of OLM 1.0, and bundles for it.
//!
//! ```text
//! Operator ─┬─▶ operator              names of the package and the channel, the upgrade policy
//!           ├─▶ version ─▶ upgrades   the constraint on versions, and its changes
//!           └─▶ content               the content of the catalogs
//! Catalog ──┬─▶ catalog ─▶ reference  the source, and the reference to its image
//!           ├─▶ pull                  the pull secret
//!           └─▶ polling               the poll interval
//! both ─────▶ cluster                 scope, and the feature set
//! ClusterServiceVersion, FileBasedCatalog ─▶ bundle
//! ```
//!
//! `targets` declares the evaluated resources, `reads` the cluster objects that the policy queries.
//! The policy matches only the groups `operators.operatorframework.io` and
//! `catalogd.operatorframework.io`: the documents print `olm.operatorframework.io` and
//! `catalog.operatorframework.io` once each, by mistake, and the kind `Operator` of
//! `operators.coreos.com` is a different one.

mod bundle;
mod catalog;
mod cluster;
mod content;
mod operator;
mod polling;
mod pull;
mod reads;
mod reference;
mod targets;
mod upgrades;
mod version;

use opgate_sdk::{Report, Review};
use targets::{BUNDLES, CATALOG, CSV, OPERATOR};

opgate_sdk::policy! {
    name: "olm-v1",
    title: "Operators and Catalogs of OLM 1.0 can be resolved, updated and polled",
    rules: [
        operator::RULES,
        version::RULES,
        upgrades::RULES,
        cluster::RULES,
        content::RULES,
        bundle::RULES,
        catalog::RULES,
        pull::RULES,
        polling::RULES,
    ],
    routes: [
        OPERATOR => check_operator,
        CATALOG => check_catalog,
        CSV => bundle::check_manifest,
        BUNDLES => bundle::check_catalog,
    ],
    settings: include_str!("settings.json"),
}

fn check_operator(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(operator) = review.subject() else { return };
    cluster::check(review, operator, report);
    operator::check(review, operator, report);
    version::check(review, operator, report);
    upgrades::check(review, operator, report);
    content::check(review, operator, report);
}

fn check_catalog(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(catalog) = review.subject() else { return };
    cluster::check(review, catalog, report);
    catalog::check(review, catalog, report);
    pull::check(review, catalog, report);
    polling::check(review, catalog, report);
}
