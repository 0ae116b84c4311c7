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
        NAMESPACE => namespaces::check,
        NAMESPACE_PARTS => namespaces::check,
        CSV => csv::check,
        REGISTRY_BUNDLE => files::check_bundle,
        CATALOG => files::check_catalog,
        by_name::POD => projects::check_by_name,
        by_name::DEPLOYMENT => projects::check_by_name,
        by_name::DAEMON_SET => projects::check_by_name,
        by_name::STATEFUL_SET => projects::check_by_name,
        by_name::JOB => projects::check_by_name,
        by_name::CRON_JOB => projects::check_by_name,
        by_name::SUBSCRIPTION => projects::check_by_name,
        by_name::OPERATOR_GROUP => projects::check_by_name,
        by_run_level::POD => projects::check_by_run_level,
        by_run_level::DEPLOYMENT => projects::check_by_run_level,
        by_run_level::DAEMON_SET => projects::check_by_run_level,
        by_run_level::STATEFUL_SET => projects::check_by_run_level,
        by_run_level::JOB => projects::check_by_run_level,
        by_run_level::CRON_JOB => projects::check_by_run_level,
        by_run_level::SUBSCRIPTION => projects::check_by_run_level,
        by_run_level::OPERATOR_GROUP => projects::check_by_run_level,
        with_affinity::POD => workloads::check_affinity,
        with_affinity::DEPLOYMENT => workloads::check_affinity,
        with_affinity::DAEMON_SET => workloads::check_affinity,
        with_affinity::STATEFUL_SET => workloads::check_affinity,
        all::POD => workloads::check_platforms,
        all::DEPLOYMENT => workloads::check_platforms,
        all::DAEMON_SET => workloads::check_platforms,
        all::STATEFUL_SET => workloads::check_platforms,
        targets::restricted::POD => workloads::check_restricted,
        targets::restricted::DEPLOYMENT => workloads::check_restricted,
        targets::restricted::DAEMON_SET => workloads::check_restricted,
        targets::restricted::STATEFUL_SET => workloads::check_restricted,
        targets::restricted::JOB => workloads::check_restricted,
        targets::restricted::CRON_JOB => workloads::check_restricted,
    ],
    settings: include_str!("settings.json"),
}
