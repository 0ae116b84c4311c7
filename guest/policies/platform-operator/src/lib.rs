//! Policy `platform-operator`: platform Operators of OpenShift, and their requirements for the
//! cluster.
//!
//! ```text
//! PlatformOperator ─▶ operator ──┬─▶ package   its PackageManifest in redhat-operators
//!                                └─▶ catalogs  the other catalog sources
//! CatalogSource, OperatorHub ──────▶ catalogs
//! FeatureGate ────────────────────▶ feature_gate
//! ClusterVersion ─────────────────▶ cluster_version
//! ```
//!
//! `targets` declares the evaluated resources, `reads` the cluster objects that the policy queries.

mod catalogs;
mod cluster_version;
mod feature_gate;
mod operator;
mod package;
mod reads;
mod targets;

use targets::{CATALOG_SOURCE, CLUSTER_VERSION, FEATURE_GATE, OPERATOR, OPERATOR_HUB};

opgate_sdk::policy! {
    name: "platform-operator",
    title: "platform Operators fit the cluster, and the feature set that they need does not change",
    rules: [
        operator::RULES,
        package::RULES,
        catalogs::RULES,
        feature_gate::RULES,
        cluster_version::RULES,
    ],
    routes: [
        OPERATOR => operator::check,
        CATALOG_SOURCE => catalogs::check_catalog_source,
        OPERATOR_HUB => catalogs::check_operator_hub,
        FEATURE_GATE => feature_gate::check,
        CLUSTER_VERSION => cluster_version::check,
    ],
    settings: include_str!("settings.json"),
}
