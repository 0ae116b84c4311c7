//! Policy `service-accounts`: pods have no rights that they do not need.
//!
//! ```text
//! Pod, template ─▶ violations ─▶ those that the old object does not have ─▶ SVA-1, SVA-3 to SVA-5
//! ServiceAccount ──────────────────────────────────────────────────────────▶ SVA-2
//! ```

mod pod;
mod rules;
mod targets;
mod tokens;

use std::collections::BTreeSet;

use opgate_sdk::{ClusterRead, Document, Report, Review, SettingsError, pods, policy};
use rules::SVA_1;
use targets::{
    CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, SERVICE_ACCOUNT, STATEFUL_SET,
};

pub(crate) static SERVICE_ACCOUNTS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "serviceaccounts",
    fields: &["/automountServiceAccountToken"],
    ..ClusterRead::EMPTY
};

policy! {
    name: "service-accounts",
    title: "pods have no rights that they do not need",
    rules: [rules::RULES],
    routes: [
        SERVICE_ACCOUNT => tokens::check_account,
        POD => check_pods,
        DEPLOYMENT => check_pods,
        STATEFUL_SET => check_pods,
        DAEMON_SET => check_pods,
        REPLICA_SET => check_pods,
        JOB => check_pods,
        CRON_JOB => check_pods,
    ],
    settings: include_str!("settings.json"),
    check_settings: validate_settings,
}

fn check_pods(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let kind = review.request.kind().kind.as_str();
    let Some(spec) = pods::in_object(object, kind) else { return };
    let old = review.ratchet_base().and_then(|old| Some((old, pods::in_object(old, kind)?)));
    let old = old.as_ref().map(|(old, spec)| (*old, spec));
    let directories = review.settings.texts("/hostPaths");
    let before: BTreeSet<String> = old
        .map(|(old, spec)| pod::find_violations(old, spec, &directories))
        .into_iter()
        .flatten()
        .map(|violation| violation.key)
        .collect();
    let faults = pod::find_violations(object, &spec, &directories);
    let new = faults.into_iter().filter(|violation| !before.contains(&violation.key));
    for violation in new {
        report.add(violation.rule, violation.field, violation.message);
    }
    if report.is_on(&SVA_1) {
        tokens::check_pod(review, report, object, &spec, old);
    }
}

/// Checks constraints that the schema cannot express.
fn validate_settings(settings: &Document) -> Result<(), Vec<SettingsError>> {
    let mut wrong = Vec::new();
    for (index, directory) in settings.texts("/hostPaths").iter().enumerate() {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        if directory != "/" && !directory.trim_start_matches('/').split('/').all(is_plain) {
            let message =
                "write the path of a directory without dots and without a slash at the end";
            wrong.push(SettingsError {
                pointer: format!("/hostPaths/{index}"),
                message: message.to_owned(),
            });
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}
