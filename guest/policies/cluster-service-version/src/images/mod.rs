//! The containers in the deployments of a `ClusterServiceVersion`, and the platforms that they
//! support.
//!
//! ```text
//! features (annotations) ─┬─▶ disconnected   digests, CSV-67 to CSV-69
//!                         ├─▶ architectures  labels, CSV-73 to CSV-77
//!                         └─▶ credentials    permissions for tokens, CSV-98
//! relatedImages ────────────▶ related        CSV-71, CSV-72
//! pod templates ─┬──────────▶ probes         CSV-102
//!                └──────────▶ practices      CSV-103
//! ```

pub(crate) mod architectures;
pub(crate) mod credentials;
pub(crate) mod disconnected;
mod features;
pub(crate) mod practices;
pub(crate) mod probes;
pub(crate) mod related;

use opgate_sdk::{Fix, Rule, pods};

use crate::csv::Csv;

const DEPLOYMENTS: &str = "/spec/install/spec/deployments";

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    let specs = pods::in_csv(csv.object);
    // Most updates do not change the deployments.
    let are_deployments_new = csv.touches_json(DEPLOYMENTS);
    let invalid = disconnected::check(csv, &specs, are_deployments_new, related::find_invalid);
    related::check(csv, &invalid);
    architectures::check(csv);
    credentials::check(csv);
    if are_deployments_new {
        probes::check(csv, &specs);
    }
    practices::check(csv, &specs);
}

/// Adds to a fix that claims a feature what the claim needs. None if the author has to provide it.
pub(crate) fn claim(csv: &Csv<'_, '_>, feature: &str, fix: Fix) -> Option<Fix> {
    let settings = csv.review.settings;
    match feature {
        "disconnected" if !disconnected::is_claimed(csv.object, settings) => {
            disconnected::prepare(csv.object, fix)
        }
        "fips" | "fips-compliant" => architectures::allow_fips(csv).then_some(fix),
        "token-auth-aws" | "token-auth-azure" => {
            credentials::are_granted(csv.object).then_some(fix)
        }
        _ => Some(fix),
    }
}

/// Adds a violation of a rule that can have a hundred thousand of them. Makes the texts only for
/// violations that a verdict has room for.
fn add_violation(
    csv: &mut Csv<'_, '_>,
    rule: &'static Rule,
    texts: impl FnOnce() -> (String, String),
) {
    if csv.report.is_full(rule) {
        csv.report.add_count(rule, 1);
    } else {
        let (field, message) = texts();
        csv.add(rule, &field, message);
    }
}
