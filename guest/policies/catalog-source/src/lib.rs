//! Policy `catalog-source`: CatalogSources, and the Secrets with which their images are pulled.
//!
//! ```text
//! CatalogSource ─▶ source ─┬─▶ types      the fields that each type requires
//!                          ├─▶ schema     types of fields, and the name
//!                          ├─▶ image      the image itself
//!                          ├─▶ template   the template of the image
//!                          ├─▶ polling    the update strategy
//!                          ├─▶ pod        its pod ─▶ namespace, priority   of the cluster
//!                          ├─▶ mirrors    the registry of its image
//!                          ├─▶ secrets    its pull secrets
//!                          └─▶ defaults   the default sources, and the OperatorHub
//! Secret ─────────▶ registries   the registries of a pull secret
//! ```
//!
//! `targets` declares the evaluated resources, `reads` the cluster objects that the policy queries.

mod defaults;
mod image;
mod mirrors;
mod namespace;
mod pod;
mod polling;
mod priority;
mod reads;
mod registries;
mod schema;
mod secrets;
mod source;
mod targets;
mod template;
mod types;

use opgate_sdk::{Report, Review};
use source::Source;
use targets::{CATALOG_SOURCE, SECRET, SECRET_IN_FILES};

opgate_sdk::policy! {
    name: "catalog-source",
    title: "catalog sources work: their type, image, pod, polling and pull secrets",
    rules: [
        types::RULES,
        pod::RULES,
        priority::RULES,
        template::RULES,
        polling::RULES,
        schema::RULES,
        namespace::RULES,
        secrets::RULES,
        registries::RULES,
        defaults::RULES,
        mirrors::RULES,
        image::RULES,
    ],
    routes: [
        CATALOG_SOURCE => check,
        SECRET => registries::check_in_requests,
        SECRET_IN_FILES => registries::check,
    ],
    settings: include_str!("settings.json"),
}

fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(source) = Source::of(review) else { return };
    types::check(&source, report);
    schema::check(&source, report);
    image::check(&source, report);
    template::check(&source, report);
    polling::check(&source, report);
    pod::check(&source, report);
    priority::check(&source, report);
    namespace::check(&source, report);
    mirrors::check(&source, report);
    secrets::check(&source, report);
    defaults::check(&source, report);
}
