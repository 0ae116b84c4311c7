//! Policy `bundle-immutability`: RukPak's Bundles and BundleDeployments, and the ConfigMaps that they
//! refer to.
//!
//! ```text
//! Bundle ───────────▶ bundle ──────┬─▶ class   the provisioner class
//! BundleDeployment ─▶ deployment ──┤   name    the length of names
//!                          │       └─▶ source  requirements on a `spec.source` ──────┐
//!                          └─▶ access  allowed users                                 ▼
//! ConfigMap ────────▶ config_map ──────────────────────────────────────────────▶ reads  the cluster
//! ```
//!
//! If RukPak has a message for a violation, opgate reports the same message, byte for byte.

mod access;
mod bundle;
mod class;
mod config_map;
mod deployment;
mod name;
mod reads;
mod source;
mod targets;

opgate_sdk::policy! {
    name: "bundle-immutability",
    title: "RukPak Bundles are immutable, and their sources and ConfigMaps are valid",
    rules: [
        bundle::RULES,
        source::webhook::RULES,
        source::schema::RULES,
        source::unpacking::RULES,
        source::pinned::RULES,
        class::RULES,
        name::RULES,
        config_map::RULES,
        deployment::RULES,
        access::RULES,
    ],
    routes: [
        targets::BUNDLE => bundle::check,
        targets::DEPLOYMENT => deployment::check,
        targets::CONFIG_MAP => config_map::check,
    ],
    settings: include_str!("settings.json"),
}
