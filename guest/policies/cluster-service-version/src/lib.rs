//! Policy `cluster-service-version`: the fields of a ClusterServiceVersion, and its relations to
//! other objects.
//!
//! ```text
//! ClusterServiceVersion ─▶ evaluate ─▶ Csv ─┬─ description   name, versions, texts for users
//! FileBasedCatalog ──────▶ catalog ──▶ Csv ─┤─ install       modes, deployments, APIs
//! RegistryBundle ────────▶ files            ├─ annotations   examples, templates, features
//!                                           ├─ images        digests, architectures, probes
//!                                           ├─ webhooks      webhook definitions
//!                                           └─ cross_object  other versions, and the cluster
//! ClusterVersion ────────▶ cross_object
//! ```
//!
//! The messages equal upstream's, byte for byte.

mod annotations;
mod catalog;
mod cross_object;
mod csv;
mod description;
mod entries;
mod evaluate;
mod files;
mod images;
mod install;
mod kubernetes_version;
mod object;
mod reads;
mod targets;
mod webhooks;

use targets::{CATALOG, CLUSTER_VERSION, CSV, REGISTRY_BUNDLE};

opgate_sdk::policy! {
    name: "cluster-service-version",
    title: "ClusterServiceVersions are valid and complete for OLM, the console and the catalogs",
    rules: [
        description::names::RULES,
        description::versions::RULES,
        description::kube::RULES,
        description::required::RULES,
        description::contacts::RULES,
        description::looks::RULES,
        description::metadata::RULES,
        description::header::RULES,
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
        cross_object::conversion::RULES,
        cross_object::dependants::RULES,
        cross_object::disconnected::RULES,
        cross_object::versions::RULES,
        cross_object::required::RULES,
        cross_object::cluster_version::RULES,
        cross_object::server_version::RULES,
    ],
    routes: [
        CSV => evaluate::check_request,
        REGISTRY_BUNDLE => files::check_bundle,
        CATALOG => catalog::check,
        CLUSTER_VERSION => cross_object::cluster_version::check_request,
    ],
    settings: include_str!("settings.json"),
}
