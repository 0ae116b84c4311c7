//! Policy `pod-security`: namespaces, Operators and workloads are compatible with pod security
//! admission.
//!
//! ```text
//! Namespace ───────────────▶ namespaces   labels, and the catalogs in it
//! workloads, OLM's objects ▶ projects     default projects
//! ClusterServiceVersion ───▶ csv ───────┬─▶ restricted   fields that the level restricted forbids
//! FileBasedCatalog ────────▶ files ─────┤─▶ escalated    permissions that exceed it
//! Pod, workloads ──────────▶ workloads ─┴─▶ affinity     node affinity
//! RegistryBundle ──────────▶ files ───────▶ seccomp      profiles that 4.10 does not support
//! ```
//!
//! Pods and workloads are the most frequently written kinds of a cluster. The targets select, with
//! conditions and labels of namespaces, the requests that matter to the enabled rules.

mod affinity;
mod csv;
mod escalated;
mod files;
mod level;
mod namespaces;
mod projects;
mod reads;
mod restricted;
mod seccomp;
mod subject;
mod targets;
mod workloads;

use targets::{
    CATALOG, CSV, NAMESPACE, NAMESPACE_PARTS, REGISTRY_BUNDLE, all, by_name, by_run_level,
    with_affinity,
};

opgate_sdk::policy! {
    name: "pod-security",
    title: "namespaces, Operators and workloads are compatible with pod security admission",
    rules: [
        affinity::platforms::RULES,
        affinity::terms::RULES,
        escalated::RULES,
        namespaces::catalogs::RULES,
        namespaces::levels::RULES,
        namespaces::sync::RULES,
        projects::RULES,
        restricted::RULES,
        seccomp::RULES,
    ],
    routes: [
        NAMESPACE => namespaces::judge,
        NAMESPACE_PARTS => namespaces::judge,
        CSV => csv::judge,
        REGISTRY_BUNDLE => files::bundle,
        CATALOG => files::catalog,
        by_name::POD => projects::by_name,
        by_name::DEPLOYMENT => projects::by_name,
        by_name::DAEMON_SET => projects::by_name,
        by_name::STATEFUL_SET => projects::by_name,
        by_name::JOB => projects::by_name,
        by_name::CRON_JOB => projects::by_name,
        by_name::SUBSCRIPTION => projects::by_name,
        by_name::OPERATOR_GROUP => projects::by_name,
        by_run_level::POD => projects::by_run_level,
        by_run_level::DEPLOYMENT => projects::by_run_level,
        by_run_level::DAEMON_SET => projects::by_run_level,
        by_run_level::STATEFUL_SET => projects::by_run_level,
        by_run_level::JOB => projects::by_run_level,
        by_run_level::CRON_JOB => projects::by_run_level,
        by_run_level::SUBSCRIPTION => projects::by_run_level,
        by_run_level::OPERATOR_GROUP => projects::by_run_level,
        with_affinity::POD => workloads::with_affinity,
        with_affinity::DEPLOYMENT => workloads::with_affinity,
        with_affinity::DAEMON_SET => workloads::with_affinity,
        with_affinity::STATEFUL_SET => workloads::with_affinity,
        all::POD => workloads::all,
        all::DEPLOYMENT => workloads::all,
        all::DAEMON_SET => workloads::all,
        all::STATEFUL_SET => workloads::all,
        targets::restricted::POD => workloads::restricted,
        targets::restricted::DEPLOYMENT => workloads::restricted,
        targets::restricted::DAEMON_SET => workloads::restricted,
        targets::restricted::STATEFUL_SET => workloads::restricted,
        targets::restricted::JOB => workloads::restricted,
        targets::restricted::CRON_JOB => workloads::restricted,
    ],
    settings: include_str!("settings.json"),
}
