//! Performance profiles and the version of control groups, each checked against the other.

use opgate_sdk::cluster::Query;
use opgate_sdk::{Report, Review, rule, rules};

use crate::reads::{NODE_CONFIGS, PERFORMANCE_PROFILES};
use crate::targets::{NODE_CONFIG, PERFORMANCE_PROFILE};

rules![MSC_17];

const MODE: &str = "/spec/cgroupMode";
const MESSAGE: &str =
    "Enabling cgroup v2 is not recommended if you are using performance profiles.";

rule! {
    /// cgroup v2 and performance profiles are not combined
    ///
    /// If `spec.cgroupMode` of the Node `cluster` of `config.openshift.io` is `v2`, there is no
    /// PerformanceProfile. The rule evaluates a PerformanceProfile on CREATE, and the Node if the
    /// request changes the mode. The rule is off until `rules` sets its level. Without cluster
    /// state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// With cgroup v2, CPU load balancing cannot be disabled, so a profile does not have the effect
    /// that its author expects (OpenShift 4.12, Operators, *Node Tuning Operator*).
    ///
    /// # Remediation
    ///
    /// Set `spec.cgroupMode` to `v1`, or remove the profile.
    ///
    /// # Accepted
    ///
    /// `cgroupMode: v1` with a PerformanceProfile.
    ///
    /// # Rejected
    ///
    /// `cgroupMode: v2` with a PerformanceProfile.
    ///
    /// `message: Enabling cgroup v2 is not recommended if you are using performance profiles.`
    MSC_17: Warn {
        name: "no-cgroup-v2-with-performance-profile",
        on: [PERFORMANCE_PROFILE: Create | Update, NODE_CONFIG: Create | Update],
        reads: [PERFORMANCE_PROFILES, NODE_CONFIGS],
        enabled_by: [],
        source: ["OCP 4.12 L25656"],
    }
}

pub(crate) fn check_profile(review: &Review<'_>, report: &mut Report<'_>) {
    // Only the existence of a profile matters.
    if review.subject().is_none() || review.ratchet_base().is_some() || !report.is_on(&MSC_17) {
        return;
    }
    let mode = NODE_CONFIGS.get("", "cluster");
    let Some(config) = report.or_skip(&[&MSC_17], "Node configurations", mode) else { return };
    if config.is_some_and(|config| config.text(MODE).as_deref() == Some("v2")) {
        report.add(&MSC_17, "metadata.name", MESSAGE);
    }
}

pub(crate) fn check_nodes(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject().filter(|_| report.is_on(&MSC_17)) else { return };
    if review.name(object) != "cluster"
        || object.text(MODE).as_deref() != Some("v2")
        || !review.touches_json(object, MODE)
    {
        return;
    }
    let any = PERFORMANCE_PROFILES.any(Query::default());
    if report.or_skip(&[&MSC_17], "PerformanceProfiles", any) == Some(true) {
        report.add(&MSC_17, "spec.cgroupMode", MESSAGE);
    }
}
