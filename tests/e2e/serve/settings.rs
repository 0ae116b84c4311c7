//! Settings and levels have the same effect on a request, recorded or live, and on the same object in a file:
//! an author who checks a manifest must see what the cluster will say.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Source};
use opgate::policy::{Configuration, PolicySet};
use opgate::review::{self, Review};
use opgate_sdk_testing::Case;
use serde_json::json;

use crate::policy::cases::{POLICIES, group_by_configuration};
use crate::rules::documented::documented_rules;

/// Rules that evaluate files even without the setting that makes an API server send the requests,
/// because files cost nothing: MSC-10, MSC-11, CAT-21 and MSC-03 would need each write of a custom
/// resource or of a Secret.
const ALWAYS_IN_FILES: [&str; 4] = ["CAT-21", "MSC-03", "MSC-10", "MSC-11"];

fn load(configuration: &str, is_for_files: bool) -> PolicySet {
    let path = Path::new("opgate.yaml");
    let mut configuration = Configuration::parse(path, configuration, BUILTINS).unwrap();
    if is_for_files {
        configuration.apply_file_limits(Duration::from_secs(20), 4);
    }
    PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Absent)).unwrap()
}

/// Whether the rule of a case finds something in a request of a user.
async fn is_violated(set: &PolicySet, case: &Case, user: &str) -> bool {
    let mut asked = case.review();
    asked["request"]["userInfo"] = json!({"username": user});
    asked["request"]["dryRun"] = json!(true);
    let text = review::text(asked.to_string().into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let decision = set.decide(&review, None, deadline, &()).await.unwrap();
    assert!(
        decision.policy_errors.is_empty(),
        "{} {}: {:?}",
        case.rule,
        case.name,
        decision.policy_errors
    );
    decision.violations.iter().any(|violation| violation.rule == case.rule)
}

#[tokio::test]
async fn settings_have_the_same_effect_on_requests_and_files() {
    let only_in_files: BTreeSet<&str> =
        documented_rules().iter().filter(|row| row.is_only_in_files()).map(|row| row.id).collect();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for policy in POLICIES {
        for (configuration, cases) in group_by_configuration(policy, false) {
            let is_plain = |case: &&Case| {
                let request = &case.request;
                let is_object = case.operation == "CREATE" && case.resource()[0] != "opgate.dev";
                let is_by_anybody = request.user.is_none() && request.groups.is_empty();
                is_object && is_by_anybody && request.sub_resource.is_none()
            };
            let is_same = |case: &&Case| {
                let rule = case.rule.as_str();
                !only_in_files.contains(rule) && !ALWAYS_IN_FILES.contains(&rule)
            };
            let has_settings = |case: &&Case| case.settings != json!({});
            let cases: Vec<_> =
                cases.iter().filter(is_plain).filter(is_same).filter(has_settings).collect();
            if cases.is_empty() {
                continue;
            }
            let (server, files) = (load(&configuration, false), load(&configuration, true));
            for case in cases {
                count += 1;
                let in_request = is_violated(&server, case, "alice").await;
                let in_file = is_violated(&files, case, "opgate:check").await;
                if in_request != in_file {
                    wrong.push(format!(
                        "{} {}: request {in_request}, file {in_file}: {configuration}",
                        case.rule, case.name
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 60, "{count}");
}
