//! `opgate diff`: what a change of the configuration would do, as administrators and pipelines see it.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{configuration, hostile_component, misbehaves};

use crate::cli::{directory, err, opgate, opgate_with_input, out, write};

const CONFIGURATION_HEADER: &str = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";

/// The two configurations, and the recorded reviews.
fn directory_with_configurations(old: &str, new: &str) -> TempDir {
    let directory = directory();
    write(&directory, "old.yaml", format!("{CONFIGURATION_HEADER}{old}"));
    write(&directory, "new.yaml", format!("{CONFIGURATION_HEADER}{new}"));
    directory
}

fn compare(directory: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["diff", "old.yaml", "new.yaml", "--output", "json"], more].concat();
    let output = opgate(directory, &arguments);
    let value = serde_json::from_str(&out(&output));
    (output.status.code(), value.unwrap_or_else(|e| panic!("{e}: {}", err(&output))))
}

/// The sections of a difference that are not empty.
fn changed_sections(difference: &Value) -> Vec<&str> {
    let all = difference.as_object().unwrap().iter();
    all.filter(|(_, value)| value.as_array().is_some_and(|list| !list.is_empty()))
        .map(|(name, _)| name.as_str())
        .collect()
}

#[test]
fn equivalent_configurations_show_no_difference() {
    for (old, new) in [
        ("", ""),
        ("policies: []\n", "# nothing\npolicies: []\n"),
        (
            "policies:\n- name: operator-group\n  mode: enforce\n  rules: {OPG-22: deny}\n",
            "policies:\n# the same\n- {rules: {}, name: operator-group, onError: failurePolicy}\n",
        ),
        (
            "policies:\n- name: subscription\n  limits: {time: 100ms, memory: 32Mi}\n",
            "policies:\n- name: subscription\n  module: builtin:subscription\n",
        ),
        (
            "policies:\n- name: misc\n  module: builtin:platform-configuration\n  exclude: {namespaces: [a, b]}\n",
            "policies:\n- name: misc\n  module: builtin:platform-configuration\n  exclude: {namespaces: [b, a]}\n",
        ),
    ] {
        let directory = directory_with_configurations(old, new);
        let (code, difference) = compare(directory.path(), &["--reviews", "reviews"]);
        assert_eq!(code, Some(0), "{old}{difference:#}");
        assert_eq!(difference["different"], json!(false));
        assert_eq!(difference["reviews"]["different"], json!([]));
        assert!(changed_sections(&difference).is_empty(), "{difference:#}");
        let output = opgate(directory.path(), &["diff", "old.yaml", "new.yaml"]);
        assert_eq!((output.status.code(), out(&output)), (Some(0), "no difference\n".to_owned()));
    }
}

/// Old, new, the sections, and a pointer with what must stand there.
type Case = (&'static str, &'static str, &'static [&'static str], &'static str, Value);

#[test]
fn each_configuration_change_is_shown_in_its_section() {
    let cases: [Case; 10] = [
        (
            "policies: [{name: subscription}]",
            "policies: [{name: subscription}]\nprofile: ocp-4.12",
            &["general", "permissions"],
            "/general",
            json!([
                {"field": "identities.olm", "old": "auto", "new": ["system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount"]},
                {"field": "identities.rukpak", "old": "auto", "new": ["system:serviceaccount:openshift-rukpak:core-admin", "system:serviceaccount:openshift-rukpak:helm-provisioner-admin"]},
                {"field": "profile", "old": "auto", "new": "ocp-4.12"},
            ]),
        ),
        (
            "policies: [{name: subscription}, {name: operator-condition}]",
            "policies: [{name: operator-condition}, {name: subscription}]",
            &["general", "webhooks"],
            "/general/0/new",
            json!(["operator-condition", "subscription"]),
        ),
        (
            "policies: [{name: subscription}]",
            "policies: [{name: subscription, limits: {time: 10s}}]",
            &["policies", "webhooks"],
            "/webhooks/0/fields",
            json!([{"field": "timeoutSeconds", "old": 5, "new": 11}]),
        ),
        (
            "policies: [{name: operator-group}]",
            "policies: [{name: operator-group, rules: {OPG-22: off}}]",
            &["rules"],
            "/rules",
            json!([{
                "policy": "operator-group",
                "rule": "OPG-22",
                "title": "the install modes of a ClusterServiceVersion support the targets of its OperatorGroup",
                "old": "deny",
                "new": "off",
            }]),
        ),
        (
            "policies: [{name: operator-group}]",
            "policies: [{name: operator-group, mode: warn}]",
            &["policies", "requests", "webhooks"],
            "/policies/0/fields",
            json!([{"field": "mode", "old": "enforce", "new": "warn"}]),
        ),
        (
            "policies: [{name: operator-condition}]",
            "policies: [{name: operator-condition, exclude: {namespaces: [x]}}]",
            &["policies", "webhooks"],
            "/webhooks/0/fields/0/field",
            json!("namespaceSelector"),
        ),
        (
            "policies: [{name: operator-condition}]",
            "policies: [{name: operator-condition, mode: off}]",
            &["permissions", "policies", "reads", "requests", "rules", "webhooks"],
            "/requests/0/change",
            json!("removed"),
        ),
        (
            "policies: [{name: catalog-source}]",
            "policies: [{name: catalog-source, settings: {catalog: {secretsNamespace: olm}}}]",
            &["permissions", "policies", "reads", "requests", "webhooks"],
            "/permissions/1",
            json!({
                "change": "added",
                "namespace": "olm",
                "group": "",
                "resource": "secrets",
                "verbs": ["list", "watch"],
            }),
        ),
        (
            "policies: []",
            "policies: [{name: operator-condition}]",
            &["permissions", "policies", "reads", "requests", "rules", "webhooks"],
            "/webhooks/0/change",
            json!("added"),
        ),
        (
            "policies: [{name: crd-upgrade}]",
            "policies: [{name: crd-upgrade, allowedSamples: [widgets.example.com]}]",
            &["permissions", "policies"],
            "/permissions/0/group",
            json!("example.com"),
        ),
    ];
    for (old, new, expected, pointer, there) in cases {
        let directory = directory_with_configurations(old, new);
        let (code, difference) = compare(directory.path(), &[]);
        assert_eq!(code, Some(1), "{new}");
        assert_eq!(changed_sections(&difference), expected, "{new}: {difference:#}");
        assert_eq!(difference.pointer(pointer), Some(&there), "{new}: {difference:#}");
        assert_eq!(
            (&difference["different"], &difference["reviews"]),
            (&json!(true), &Value::Null)
        );
        // And back: what came goes.
        write(&directory, "third.yaml", format!("{CONFIGURATION_HEADER}{old}"));
        let back = opgate(directory.path(), &["diff", "new.yaml", "third.yaml"]);
        assert_eq!(back.status.code(), Some(1));
    }
}

#[test]
fn requests_sent_or_no_longer_sent_are_printed() {
    let directory = directory_with_configurations(
        "policies: [{name: operator-condition}]",
        "policies: [{name: operator-group}]",
    );
    let (_, difference) = compare(directory.path(), &[]);
    let told = |change: &str| -> Vec<String> {
        let requests = difference["requests"].as_array().unwrap().iter();
        let these = requests.filter(|one| one["change"] == change);
        these.map(|one| format!("{} {}", one["operations"], one["resource"])).collect()
    };
    assert!(told("added").contains(&r#"["CREATE","UPDATE"] "operatorgroups""#.to_owned()));
    assert!(told("removed").iter().any(|one| one.contains("operatorconditions")));
    let output = opgate(directory.path(), &["diff", "old.yaml", "new.yaml"]);
    let text = out(&output);
    for line in [
        "  + operator-group: mode enforce, onError failurePolicy\n",
        "  - operator-condition: mode enforce, onError failurePolicy\n",
        "  + CREATE, UPDATE operators.coreos.com/operatorgroups: operator-group\n",
        "  + list, watch operators.coreos.com/operatorgroups in all namespaces\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[test]
fn reviews_with_different_decisions_are_printed() {
    let directory = directory_with_configurations(
        "policies: [{name: bundle-immutability, limits: {time: 20s}, rules: {RPK-01: warn, RPK-17: off}}]",
        "policies: [{name: bundle-immutability, limits: {time: 20s}, rules: {RPK-17: off}}]",
    );
    let (code, difference) = compare(directory.path(), &["--reviews", "reviews"]);
    assert_eq!(code, Some(1));
    let reviews = &difference["reviews"];
    assert_eq!(
        (&reviews["compared"], reviews["different"].as_array().unwrap().len()),
        (&json!(14), 1)
    );
    let one = &reviews["different"][0];
    assert_eq!(one["source"], "reviews/007-update-bundles-combo-tag-ref.json");
    let finding = |level: &str| json!([{"policy": "bundle-immutability", "rule": "RPK-01", "effect": level, "count": 1}]);
    let decided = |decision: &str, level: &str| json!({"decision": decision, "violations": finding(level), "error": null});
    assert_eq!((&one["old"], &one["new"]), (&decided("allow", "warn"), &decided("deny", "deny")));
    let output =
        opgate(directory.path(), &["diff", "old.yaml", "new.yaml", "--reviews", "reviews"]);
    let text = out(&output);
    assert!(text.contains("reviews: 14 compared, 1 decided otherwise\n"), "{text}");
    assert!(text.contains("007-update-bundles-combo-tag-ref.json: UPDATE core.rukpak.io/v1alpha1/bundles combo-tag-ref: allow → deny\n"), "{text}");
    // The same decisions, whatever else is different.
    let (_, difference) =
        compare(directory.path(), &["--reviews", "reviews/006-create-bundles-combo-tag-ref.json"]);
    assert_eq!(difference["reviews"], json!({"compared": 1, "different": []}));
    assert_eq!(changed_sections(&difference), ["rules"]);
}

#[test]
fn one_configuration_may_be_standard_input() {
    let directory = directory_with_configurations(
        "policies: [{name: operator-group}]",
        "policies: [{name: operator-group}]",
    );
    let piped = |arguments: &[&str], input: &str| {
        let output = opgate_with_input(directory.path(), arguments, input);
        (output.status.code(), out(&output), err(&output))
    };
    let same = format!("{CONFIGURATION_HEADER}policies: [{{name: operator-group}}]");
    assert_eq!(piped(&["diff", "-", "new.yaml"], &same).0, Some(0));
    assert_eq!(piped(&["diff", "old.yaml", "-"], &same).0, Some(0));
    assert_eq!(piped(&["diff", "-", "new.yaml"], CONFIGURATION_HEADER).0, Some(1));
    for twice in [&["diff", "-", "-"][..], &["diff", "-", "new.yaml", "--reviews", "-"]] {
        let (code, _, said) = piped(twice, &same);
        assert!(code == Some(2) && said.contains("name it once"), "{said}");
    }
    let (code, _, said) = piped(&["diff", "-", "new.yaml"], "a: [");
    assert!(code == Some(2) && said.contains("-:1:"), "{said}");
    let large = format!("{same}\n#{}", "x".repeat(4 << 20));
    assert_eq!(piped(&["diff", "-", "new.yaml"], &large).0, Some(2));
}

#[test]
fn failed_comparison_exits_with_a_distinct_status() {
    let directory = directory_with_configurations(
        "policies: [{name: operator-group}]",
        "policies: [{name: operator-grup}]",
    );
    let status = |arguments: &[&str]| {
        let output = opgate(directory.path(), arguments);
        (output.status.code(), err(&output))
    };
    let (code, said) = status(&["diff", "old.yaml", "new.yaml"]);
    assert!(code == Some(2) && said.contains("new.yaml:3:12"), "{said}");
    assert_eq!(status(&["diff", "old.yaml", "absent.yaml"]).0, Some(2));
    assert_eq!(status(&["diff", "old.yaml"]).0, Some(2));
    assert_eq!(status(&["diff", "old.yaml", "old.yaml", "--reviews", "absent"]).0, Some(2));
    assert_eq!(status(&["diff", "old.yaml", "old.yaml", "--cluster-state", "reviews"]).0, Some(2));
    // A review that is none does not hide the others.
    write(&directory, "some/a.json", "{}");
    let recorded =
        std::fs::read(directory.path().join("reviews/013-delete-bundles-my-bundle.json"));
    write(&directory, "some/b.json", recorded.unwrap());
    let (code, said) = status(&["diff", "old.yaml", "old.yaml", "--reviews", "some"]);
    assert!(code == Some(2) && said.contains("some/a.json"), "{said}");
    let (code, said) =
        status(&["diff", "old.yaml", "old.yaml", "--reviews", "some", "--max-input-size", "1Ki"]);
    assert!(code == Some(2) && said.contains("--max-input-size"), "{said}");
    // A policy that cannot be loaded, and one that fails.
    write(&directory, "broken.wasm", "no component");
    write(
        &directory,
        "broken.yaml",
        format!("{CONFIGURATION_HEADER}policies: [{{name: broken, module: broken.wasm}}]"),
    );
    let (code, said) = status(&["diff", "old.yaml", "broken.yaml"]);
    assert!(
        code == Some(3) && said.contains("broken.yaml") && said.contains("policy broken"),
        "{said}"
    );
    write(&directory, "traps.yaml", configuration(&[misbehaves("traps", &json!({"do": "panic"}))]));
    let (code, said) = status(&["diff", "old.yaml", "traps.yaml", "--reviews", "reviews"]);
    assert_eq!(code, Some(3), "{said}");
}

#[test]
fn profile_of_a_recording_counts_wherever_its_header_is() {
    let directory = directory_with_configurations("profile: auto\n", "profile: ocp-4.12\n");
    let review =
        std::fs::read(directory.path().join("reviews/013-delete-bundles-my-bundle.json")).unwrap();
    let review: Value = serde_json::from_slice(&review).unwrap();
    let version = "opgate.dev/v1alpha1";
    let header = json!({
        "apiVersion": version, "kind": "Recording", "version": "0.1.0", "digest": "", "policies": [],
        "platform": {"profile": "ocp-4.12", "version": null, "olm": [], "rukpak": []},
    });
    let line = json!({
        "apiVersion": version, "kind": "RecordedReview", "time": "", "review": review,
        "answer": {"failure": ""},
    });
    let recording = format!("{header}\n{line}\n");
    // A server that was killed leaves an empty file.
    write(&directory, "rec/1.jsonl.zst", "");
    write(&directory, "rec/2.jsonl", &recording);
    for reviews in ["rec/2.jsonl", "rec", "-"] {
        let arguments = ["diff", "old.yaml", "new.yaml", "--output", "json", "--reviews", reviews];
        let output = opgate_with_input(directory.path(), &arguments, &recording);
        let difference: Value = serde_json::from_str(&out(&output)).unwrap();
        // Servers of that cluster have the same rules before and after.
        assert_eq!(difference["rules"], json!([]), "{reviews}: {}", err(&output));
        assert_eq!(difference["reviews"]["compared"], 1, "{reviews}");
    }
}

#[test]
fn a_component_is_compared_by_its_content() {
    let directory = directory();
    let policy = |module: &str| {
        format!("{CONFIGURATION_HEADER}policies: [{{name: mine, module: {module}}}]")
    };
    for (file, component) in
        [("a/x.wasm", "misbehaves"), ("b/y.wasm", "misbehaves"), ("c/x.wasm", "advises")]
    {
        write(&directory, file, std::fs::read(hostile_component(component)).unwrap());
    }
    write(&directory, "a/opgate.yaml", policy("x.wasm"));
    write(&directory, "b/opgate.yaml", policy("y.wasm"));
    write(&directory, "c/opgate.yaml", policy("x.wasm"));
    let status = |a: &str, b: &str| {
        let output = opgate(directory.path(), &["diff", a, b]);
        (output.status.code(), out(&output), err(&output))
    };
    let same = status("a/opgate.yaml", "b/opgate.yaml");
    assert_eq!(same.0, Some(0), "{same:?}");
    let other = status("a/opgate.yaml", "c/opgate.yaml");
    assert!(other.0 == Some(1) && other.1.contains("~ module: sha256:"), "{other:?}");
}

#[test]
fn policy_texts_stay_on_one_line() {
    let directory = directory_with_configurations(
        "policies: []",
        "policies: [{name: subscription, exclude: {users: [\"a\\nb\\e[31m\"]}}]",
    );
    let output = opgate(directory.path(), &["diff", "new.yaml", "old.yaml"]);
    write(
        &directory,
        "old.yaml",
        format!("{CONFIGURATION_HEADER}policies: [{{name: subscription}}]"),
    );
    let changed = opgate(directory.path(), &["diff", "new.yaml", "old.yaml"]);
    for text in [out(&output), out(&changed)] {
        assert!(!text.contains('\u{1b}') && !text.contains("\nb"), "{text}");
    }
}
