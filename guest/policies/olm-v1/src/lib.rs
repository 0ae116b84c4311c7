//! Policy `olm-v1`: the Operators and Catalogs of OLM 1.0, and bundles that are meant for it.
//!
//! ```text
//! Operator ─▶ operator ─┬─▶ version ─▶ upgrades   the constraint on versions, and its changes
//!                       └─▶ content               what the catalogs offer
//! Catalog ──▶ catalog ──┬─▶ polling               how often, and of what
//!                       └─▶ pull                  the pull secret
//! both ─────▶ cluster                             scope, and the feature set
//! ClusterServiceVersion, FileBasedCatalog ─▶ bundle
//! ```
//!
//! The kinds that are judged are in `targets`, what is asked of the cluster is in `reads`. Only the
//! groups `operators.operatorframework.io` and `catalogd.operatorframework.io` count (decision
//! H-11).

mod bundle;
mod catalog;
mod cluster;
mod content;
mod operator;
mod polling;
mod pull;
mod reads;
mod targets;
mod upgrades;
mod version;

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
        OPERATOR => operator::judge,
        CATALOG => catalog::judge,
        CSV => bundle::manifest,
        BUNDLES => bundle::catalog,
    ],
    settings: include_str!("settings.json"),
}
