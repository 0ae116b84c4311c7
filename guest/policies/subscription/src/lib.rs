//! Policy `subscription`: Subscriptions, the InstallPlans that OLM makes for them, and what is
//! deleted before them.
//!
//! ```text
//! Subscription ─▶ subscription ─┬─ source    the catalog source, and whether it may be used
//!                               ├─ group     the OperatorGroup of the namespace
//!                               ├─ package   other Subscriptions, and what was left behind
//!                               ├─ approval  Automatic or Manual
//!                               ├─ channel   older channels, by name
//!                               ├─ catalog   what the PackageManifest says
//!                               ├─ provided  who provides its APIs already
//!                               └─ volumes, env, affinity  spec.config
//! InstallPlan ──▶ install_plan ─┬─ spec      types and approval
//!                               └─ querier   the group and its ServiceAccount
//! both ─────────▶ health          the CatalogSources that OLM needs
//! ClusterServiceVersion ─▶ csv    deleted before its Subscription
//! ```
//!
//! The kinds that are judged are in `targets`, what is asked of the cluster is in `reads`. A
//! cluster without OpenShift's kinds has no objects of them.

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
        SUBSCRIPTION => subscription::judge,
        INSTALL_PLAN => install_plan::judge,
        CSV => csv::judge,
    ],
    settings: include_str!("settings.json"),
}
