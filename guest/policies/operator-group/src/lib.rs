//! Policy `operator-group`: OperatorGroups and the ClusterServiceVersions that are their members.
//!
//! ```text
//! OperatorGroup ─────────▶ group ──┬─ access, spec, annotations     the request itself
//!                                  ├─ uniqueness, account, members  other objects
//!                                  └─ conflict ─────────────────────────────────┐
//! ClusterServiceVersion ─▶ csv ────┬─ copies         is it really a copy?       │
//!                                  ├─ group          the group of its namespace │
//!                                  ├─ provided_apis ────────────────────────────┴▶ rivals ─▶ targets
//!                                  └─ owners         other owners of the same APIs
//! Role, binding ─────────▶ grants ─── rbac           the permissions of ServiceAccounts
//! ```
//!
//! Modules that do not depend on requests port OLM's computations: [`namespaces`], [`apis`],
//! [`install_modes`] and [`group_surface`]. `kinds` declares the evaluated resources, `reads` the cluster
//! objects that the policy queries. The messages are upstream's, byte for byte.

pub mod apis;
mod conflicting_groups;
mod csv;
mod grants;
mod group;
pub mod group_surface;
mod kinds;
mod olm_reason;
mod rbac;
mod reads;
mod targets;

use opgate_sdk::lists;
pub use opgate_sdk::{install_modes, namespaces};

opgate_sdk::policy! {
    name: "operator-group",
    title: "OperatorGroups do not collide, and their members fit into them",
    rules: [
        group::access::RULES,
        group::spec::RULES,
        group::selection::RULES,
        group::annotations::RULES,
        group::uniqueness::RULES,
        group::account::RULES,
        group::members::RULES,
        group::conflict::RULES,
        csv::group_count::RULES,
        csv::install_modes::RULES,
        csv::provided_apis::RULES,
        csv::owners::RULES,
        csv::annotations::RULES,
        grants::RULES,
    ],
    routes: [
        kinds::GROUP => group::check,
        kinds::CSV => csv::check,
        kinds::CLUSTER_ROLE_BINDING => grants::check_cluster_role_binding,
        kinds::CLUSTER_ROLE => grants::check_cluster_role,
        kinds::ROLE => grants::check_role,
    ],
    settings: include_str!("settings.json"),
}
