//! Policy `cluster-service-version`: the fields of a ClusterServiceVersion, and its relations to
//! other objects.
//!
//! ```text
//! ClusterServiceVersion ─▶ judge ─▶ Csv ─┬─ about        name, versions, texts for users
//! FileBasedCatalog ────▶ catalog ─▶ Csv ─┤─ install      modes, deployments, APIs
//! RegistryBundle ────────▶ files         ├─ annotations  examples, templates, features
//!                                        ├─ images       digests, architectures, probes
//!                                        ├─ webhooks     webhook definitions
//!                                        └─ neighbours   other versions, and the cluster
//! ClusterVersion ────────▶ neighbours
//! ```
//!
//! The messages equal upstream's, byte for byte.

mod about;
mod annotations;
mod catalog;
mod csv;
mod entries;
mod files;
mod images;
mod install;
mod judge;
mod kubernetes_version;
mod neighbours;
mod object;
mod reads;
mod targets;
mod webhooks;

use targets::{CATALOG, CLUSTER_VERSION, CSV, REGISTRY_BUNDLE};

opgate_sdk::policy! {
    name: "cluster-service-version",
    title: "ClusterServiceVersions are valid and complete for OLM, the console and the catalogs",
    rules: [
        about::names::RULES,
        about::versions::RULES,
        about::kube::RULES,
        about::required::RULES,
        about::contacts::RULES,
        about::looks::RULES,
        about::metadata::RULES,
        about::header::RULES,
        install::MODES,
        install::STRATEGY,
        install::CREATED,
        install::CRDS,
        install::DUPLICATES,
        install::DESCRIPTORS,
        install::SCORECARD,
        install::APIS,
        annotations::examples::RULES,
        annotations::example_apis::RULES,
        annotations::templates::RULES,
        annotations::features::RULES,
        annotations::properties::RULES,
        annotations::maximum::RULES,
        images::architectures::RULES,
        images::credentials::RULES,
        images::disconnected::RULES,
        images::practices::RULES,
        images::probes::RULES,
        images::related::RULES,
        webhooks::conversion::RULES,
        webhooks::definitions::RULES,
        webhooks::names::RULES,
        webhooks::rules::RULES,
        webhooks::values::RULES,
        neighbours::conversion::RULES,
        neighbours::dependants::RULES,
        neighbours::disconnected::RULES,
        neighbours::versions::RULES,
        neighbours::required::RULES,
        neighbours::cluster_version::RULES,
        neighbours::server_version::RULES,
    ],
    routes: [
        CSV => judge::request,
        REGISTRY_BUNDLE => files::bundle,
        CATALOG => catalog::judge,
        CLUSTER_VERSION => neighbours::cluster_version::request,
    ],
    settings: include_str!("settings.json"),
}
