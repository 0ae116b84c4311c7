//! Runs the cases of the rules, and tests what no case can express.

#![expect(clippy::expect_used, reason = "tests may panic, and so may what they share")]

use std::sync::LazyLock;

use opgate_sdk::Report;
use opgate_sdk_testing::Case;
use opgate_sdk_testing::native::verdict;
use opgate_subscription::POLICY;
use serde_json::{Value, json};

opgate_sdk_testing::tests!(POLICY);

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| opgate_sdk_testing::native::cases(&POLICY, DIRECTORY));

/// Names and values that the rules query.
const WORDS: [&str; 48] = [
    "Automatic",
    "Manual",
    "READY",
    "TRANSIENT_FAILURE",
    "AllNamespaces",
    "stable-4.9",
    "stable-4.10",
    "trusted-ca",
    "ca-bundle.crt",
    "tls-ca-bundle.pem",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ROLEARN",
    "openshift-marketplace",
    "etcd",
    "alpha",
    "metadata",
    "labels",
    "olm.copiedFrom",
    "deletionTimestamp",
    "spec",
    "status",
    "name",
    "source",
    "sourceNamespace",
    "channel",
    "startingCSV",
    "installedCSV",
    "currentCSV",
    "installPlanApproval",
    "approval",
    "approved",
    "clusterServiceVersionNames",
    "config",
    "env",
    "value",
    "valueFrom",
    "volumes",
    "volumeMounts",
    "configMap",
    "items",
    "key",
    "path",
    "affinity",
    "nodeAffinity",
    "entries",
    "deprecation",
];

#[test]
fn any_value_in_any_field_has_a_verdict() {
    opgate_sdk_testing::any::value_in_any_place_has_a_verdict(&POLICY, DIRECTORY, &WORDS);
}

/// The case of a rule with this name, changed.
fn case(rule: &str, name: &str, change: impl FnOnce(&mut Value)) -> Case {
    let found = CASES.iter().find(|case| case.rule == rule && case.name == name);
    let mut case = found.expect("a case").clone();
    change(case.object.as_mut().expect("an object"));
    case
}

fn found(case: &Case, rule: &str) -> Vec<String> {
    let found = verdict(&POLICY, case).violations;
    found.into_iter().filter(|found| found.rule == rule).map(|found| found.message).collect()
}

/// Many entries yield as many violations as a verdict can hold, and a count.
#[test]
fn lists_of_very_many_wrong_entries_are_counted() {
    let many = 16_384;
    let mounts = case("SUB-14", "a mount without a volume", |object| {
        object["spec"]["config"]["volumeMounts"] = json!(vec![json!({"name": "nope"}); many]);
    });
    let volumes = case("SUB-15", "another path", |object| {
        let volume = json!({"name": "trusted-ca", "configMap": {"items": []}});
        object["spec"]["config"]["volumes"] = json!(vec![volume; many]);
    });
    let names = case("SUB-26", "another spelling", |object| {
        object["spec"]["clusterServiceVersionNames"] = json!(vec![1; many]);
    });
    for (case, rule) in [(mounts, "SUB-14"), (volumes, "SUB-15"), (names, "SUB-26")] {
        let found = found(&case, rule);
        assert!(found.len() > Report::MAX_VIOLATIONS / 2, "{rule}");
        assert!(found.iter().any(|m| m.contains("more violations of this rule")), "{rule}");
    }
}

/// Lists that are too long for a result are skipped, and cause no policy error.
#[test]
fn lists_of_too_many_entries_are_not_evaluated() {
    let many = 16_385;
    let at = |pointer: &'static str| {
        move |object: &mut Value| {
            let list = object.pointer_mut(pointer).expect("a list");
            *list = json!(vec![json!({}); many]);
        }
    };
    for (rule, name, pointer) in [
        ("SUB-14", "a mount without a volume", "/spec/config/volumeMounts"),
        ("SUB-15", "another path", "/spec/config/volumes"),
        ("SUB-15", "another path", "/spec/config/volumes/0/configMap/items"),
        ("SUB-16", "one", "/spec/config/env"),
        ("SUB-21", "an empty role", "/spec/config/env"),
        ("SUB-26", "names that are none", "/spec/clusterServiceVersionNames"),
    ] {
        let case = case(rule, name, at(pointer));
        assert_eq!(found(&case, rule), [""; 0], "{rule} {pointer}");
        let skipped = verdict(&POLICY, &case).skipped;
        assert!(skipped.iter().any(|skipped| skipped.rule == rule), "{rule} {pointer}");
    }
}

/// No object has such a name, and it does not fit into a message.
#[test]
fn texts_of_any_size_are_evaluated() {
    let long = "\u{1}".repeat(1 << 20);
    let fields = ["name", "source", "sourceNamespace", "channel", "startingCSV"];
    let mut case = case("SUB-01", "no such source", |object| {
        for field in fields {
            object["spec"][field] = json!(long);
        }
        object["spec"]["installPlanApproval"] = json!(long);
    });
    for operation in ["CREATE", "UPDATE"] {
        case.operation = operation;
        let verdict = verdict(&POLICY, &case);
        let rules: Vec<_> = verdict.violations.iter().map(|found| found.rule.as_str()).collect();
        for rule in ["SUB-01", "SUB-02", "SUB-09", "SUB-10"] {
            assert!(rules.contains(&rule), "{operation} {rules:?}");
        }
        assert!(verdict.violations.iter().all(|found| found.message.len() <= 4_096));
        case.old.clone_from(&case.object);
        for field in ["source", "sourceNamespace", "installPlanApproval"] {
            case.old.as_mut().expect("an object")["spec"][field] = json!("a");
        }
    }
}

/// A version with more deployments than the limit does not make a mount invalid.
#[test]
fn version_with_many_deployments_is_not_searched() {
    let case = case("SUB-14", "a mount without a volume", |object| {
        object["spec"]["startingCSV"] = json!("etcdoperator.v0.9.4");
    });
    let csv = |deployments| {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "etcdoperator.v0.9.4", "namespace": "scoped"},
            "spec": {"install": {"spec": {"deployments": vec![json!({"name": "a", "spec": {}}); deployments]}}},
        })
    };
    for (deployments, findings) in [(2_000, 0), (1, 1)] {
        let mut cluster = case.cluster.clone().expect("a cluster");
        cluster.push(csv(deployments));
        let case = Case { cluster: Some(cluster), ..case.clone() };
        assert_eq!(found(&case, "SUB-14").len(), findings, "{deployments}");
    }
}
