//! Policy `subscription`: Subscriptions, the InstallPlans that OLM creates for them, and the order
//! of their deletion.
//!
//! ```text
//! Subscription ─▶ subscription ─┬─ source    the catalog source, and whether it is allowed
//!                               ├─ group     the OperatorGroup of the namespace
//!                               ├─ package   other Subscriptions, and remaining versions
//!                               ├─ approval  Automatic or Manual
//!                               ├─ channel   older channels, by name
//!                               ├─ catalog   the PackageManifest
//!                               ├─ provided  other providers of its APIs
//!                               └─ volumes, env, affinity  spec.config
//! InstallPlan ──▶ install_plan ─┬─ spec      types and approval
//!                               └─ querier   the group and its ServiceAccount
//! both ─────────▶ health          the CatalogSources that OLM needs
//! ClusterServiceVersion ─▶ csv    deleted before its Subscription
//! ```
//!
//! `targets` declares the evaluated resources, `reads` the cluster objects that the policy queries.
//! A cluster without OpenShift's kinds has no objects of them.

mod bounded;
mod csv;
mod health;
mod install_plan;
mod reads;
mod subscription;
mod targets;

use targets::{CSV, INSTALL_PLAN, SUBSCRIPTION};

opgate_sdk::policy! {
    name: "subscription",
    title: "Subscriptions and InstallPlans fit their catalogs, their namespace and each other",
    rules: [
        subscription::source::RULES,
        subscription::group::RULES,
        subscription::package::RULES,
        subscription::approval::RULES,
        subscription::channel::RULES,
        subscription::catalog::RULES,
        subscription::provided::RULES,
        subscription::volumes::RULES,
        subscription::trusted::RULES,
        subscription::env::RULES,
        subscription::affinity::RULES,
        health::RULES,
        csv::RULES,
        install_plan::spec::RULES,
        install_plan::querier::RULES,
    ],
    routes: [
        SUBSCRIPTION => subscription::check,
        INSTALL_PLAN => install_plan::check,
        CSV => csv::check,
    ],
    settings: include_str!("settings.json"),
}
