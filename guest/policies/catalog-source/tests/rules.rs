//! Runs the cases of the rules, and tests what no case can express.

use std::sync::LazyLock;

use opgate_catalog_source::POLICY;
use opgate_sdk_testing::Case;
use opgate_sdk_testing::native::verdict;
use serde_json::json;

opgate_sdk_testing::tests!(POLICY);

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| opgate_sdk_testing::native::cases(&POLICY, DIRECTORY));

fn case(rule: &str, name: &str) -> Option<Case> {
    CASES.iter().find(|case| case.rule == rule && case.name == name).cloned()
}

/// Names and values that the rules query.
const WORDS: [&str; 28] = [
    "grpc",
    "configmap",
    "internal",
    "legacy",
    "restricted",
    "default",
    "openshift-marketplace",
    "redhat-operators",
    "system-node-critical",
    "olm.catalogImageTemplate",
    "operatorframework.io/priorityclass",
    "a:{kube_major_version}",
    "sourceType",
    "image",
    "address",
    "configMap",
    "grpcPodConfig",
    "securityContextConfig",
    "priorityClassName",
    "nodeSelector",
    "updateStrategy",
    "registryPoll",
    "interval",
    "priority",
    "icon",
    "secrets",
    "type",
    ".dockerconfigjson",
];

#[test]
fn any_value_in_any_field_has_a_verdict() {
    opgate_sdk_testing::any::value_in_any_place_has_a_verdict(&POLICY, DIRECTORY, &WORDS);
}

/// An API server accepts a list of any length.
#[test]
fn a_list_of_very_many_secrets_is_not_evaluated() {
    let mut case = case("CAT-20", "a Secret that is not there").expect("a case");
    for (length, is_judged) in [(1_024, true), (1_025, false)] {
        case.object.as_mut().expect("an object")["spec"]["secrets"] =
            json!(vec!["missing"; length]);
        let verdict = verdict(&POLICY, &case);
        assert_eq!(!verdict.violations.is_empty(), is_judged, "{length}");
        let skipped: Vec<_> = verdict.skipped.iter().map(|s| s.rule.as_str()).collect();
        assert_eq!(skipped == ["CAT-20"], !is_judged, "{length}");
    }
}

/// Messages show no part of the credentials, wherever they occur.
#[test]
fn messages_have_hosts_only() {
    let mut case = case("CAT-21", "a manifest with plain text").expect("a case");
    let hosts: serde_json::Map<_, _> = (0..40)
        .map(|n| (format!("https://me:PASSWORD@host-{n}.io/PASSWORD"), json!({"auth": "PASSWORD"})))
        .collect();
    let text = json!({"auths": hosts, "PASSWORD": {"PASSWORD": 1}}).to_string();
    case.object.as_mut().expect("an object")["stringData"][".dockerconfigjson"] = json!(text);
    let verdict = verdict(&POLICY, &case);
    let [found] = verdict.violations.as_slice() else { panic!("{:?}", verdict.violations) };
    assert!(!found.message.contains("PASSWORD"), "{}", found.message);
    assert!(found.message.ends_with("host-22.io …]"), "{}", found.message);
}
