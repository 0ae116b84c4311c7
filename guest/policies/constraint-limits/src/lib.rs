//! Policy `constraint-limits`: the requirements that Operators declare, in every object and file
//! that contains them.
//!
//! ```text
//! request ─┬─ ClusterServiceVersion ─▶ annotations ────────────────┐
//!          ├─ InstallPlan (status) ──▶ install_plan ─▶ annotations ─┤
//!          ├─ ConfigMap ─────────────▶ config_map ─┬─▶ annotations ─┼─▶ scan ─▶ crate opgate-constraint
//!          │                gzip, base64, YAML ◀───┘                │               │
//!          ├─ RegistryBundle ────────▶ files ─▶ dependencies ───────┤               ▼
//!          └─ FileBasedCatalog ──────▶ files ─▶ properties ─────────┘          checks ─▶ report
//! ```
//!
//! The crate `opgate-constraint` reads and checks constraints and has upstream's messages; it does
//! not depend on requests. This crate locates constraints, applies exemptions, and declares the
//! rules.

mod annotations;
mod checks;
mod config_map;
mod dependencies;
mod encoding;
mod files;
mod install_plan;
mod item;
mod properties;
mod required;
mod scan;
mod targets;

use targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

opgate_sdk::policy! {
    name: "constraint-limits",
    title: "constraints, dependencies and properties of Operators are small, valid and unambiguous",
    rules: [
        checks::limits::RULES,
        checks::shape::RULES,
        checks::types::RULES,
        checks::apis::RULES,
        checks::packages::RULES,
        checks::expressions::RULES,
        checks::required::RULES,
        checks::advice::RULES,
        annotations::RULES,
        dependencies::RULES,
        required::RULES,
    ],
    routes: [
        CSV => annotations::check,
        INSTALL_PLAN => install_plan::check,
        CONFIG_MAP => config_map::check,
        REGISTRY_BUNDLE => files::check_bundle,
        CATALOG => files::check_catalog,
    ],
    settings: include_str!("settings.json"),
}
