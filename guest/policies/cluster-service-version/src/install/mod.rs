//! The objects that OLM installs: install modes, the install strategy with its deployments, and
//! APIs.
//!
//! ```text
//! spec.installModes ───────────▶ modes
//! spec.install ────────────────▶ strategy      its deployments, and their volume mounts
//!                    └─────────▶ created       objects that the API server rejects
//! spec.customresourcedefinitions ─▶ crds ─┐    duplicates
//! spec.apiservicedefinitions ─────▶ apis ─┴─▶ descriptors
//!                        alm-examples ──────▶ scorecard
//! ```

mod apis;
mod crds;
mod created;
mod deployments;
mod descriptors;
mod duplicates;
mod modes;
mod schema;
mod scorecard;
mod strategy;

pub(crate) use apis::RULES as APIS;
pub(crate) use crds::RULES as CRDS;
pub(crate) use created::RULES as CREATED;
pub(crate) use deployments::propose_deployment;
pub(crate) use descriptors::RULES as DESCRIPTORS;
pub(crate) use duplicates::RULES as DUPLICATES;
pub(crate) use modes::{RULES as MODES, are_changed as modes_differ};
pub(crate) use scorecard::RULES as SCORECARD;
pub(crate) use strategy::RULES as STRATEGY;

use crate::csv::Csv;

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    if !csv.is_unchanged("/spec") {
        modes::check(csv);
        strategy::check(csv);
        created::check(csv);
        crds::check(csv);
        duplicates::check(csv);
        apis::check(csv);
    }
    scorecard::check(csv);
}

/// Evaluates the texts and examples of owned CRDs that users see.
pub(crate) fn check_presentation(csv: &mut Csv<'_, '_>, without_example: &[usize]) {
    crds::check_owned_presentation(csv, without_example);
}
