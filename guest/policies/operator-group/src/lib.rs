//! Policy `operator-group`: OperatorGroups and the ClusterServiceVersions that are their members.
//!
//! ```text
//! OperatorGroup ─────────▶ group ──┬─ access, spec, annotations     what the request itself says
//!                                  ├─ uniqueness, account, members  what else there is
//!                                  └─ conflict ─────────────────────────────────┐
//! ClusterServiceVersion ─▶ csv ────┬─ copies         what only claims to be one │
//!                                  ├─ group          the group of its namespace │
//!                                  ├─ provided_apis ────────────────────────────┴▶ rivals ─▶ targets
//!                                  └─ owners         who else owns the same APIs
//! Role, binding ─────────▶ grants ─── rbac           what they let ServiceAccounts do
//! ```
//!
//! What OLM computes is ported in modules that know nothing of requests: [`namespaces`], [`apis`],
//! [`install_modes`] and [`groups`]. The kinds that are judged are in `kinds`, what is asked of the
//! cluster is in `reads`. The texts are upstream's, byte for byte.

pub mod apis;
mod csv;
mod grants;
mod group;
pub mod groups;
mod kinds;
mod olm_reason;
mod rbac;
mod reads;
mod rivals;
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
        csv::group::RULES,
        csv::install_modes::RULES,
        csv::provided_apis::RULES,
        csv::owners::RULES,
        csv::annotations::RULES,
        grants::RULES,
    ],
    routes: [
        kinds::GROUP => group::judge,
        kinds::CSV => csv::judge,
        kinds::CLUSTER_ROLE_BINDING => grants::cluster_role_binding,
        kinds::CLUSTER_ROLE => grants::cluster_role,
        kinds::ROLE => grants::role,
    ],
    settings: include_str!("settings.json"),
}
