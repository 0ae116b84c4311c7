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
        CATALOG_SOURCE => judge,
        SECRET => registries::in_requests,
        SECRET_IN_FILES => registries::judge,
    ],
    settings: include_str!("settings.json"),
}

fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(source) = Source::of(review) else { return };
    types::judge(&source, report);
    schema::judge(&source, report);
    image::judge(&source, report);
    template::judge(&source, report);
    polling::judge(&source, report);
    pod::judge(&source, report);
    priority::judge(&source, report);
    namespace::judge(&source, report);
    mirrors::judge(&source, report);
    secrets::judge(&source, report);
    defaults::judge(&source, report);
}
