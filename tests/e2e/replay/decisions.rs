//! Reviews, files of a cluster, and the decisions in each output format.

use crate::cli::{directory, err, lines, opgate, opgate_with_input, out, write};
use serde_json::{Value, json};
use testkit::{
    configuration, create_bundle, good_spec, hostile_component, misbehaves, recorded_review,
};

#[test]
fn replay_denies_exactly_the_changed_tag() {
    let directory = directory();
    let output = opgate(directory.path(), &["replay", "--output", "jsonl", "reviews"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let records = lines(&output);
    let sources: Vec<_> =
        records.iter().map(|r| r["source"].as_str().unwrap().to_owned()).collect();
    let mut sorted = sources.clone();
    sorted.sort();
    assert_eq!(sources, sorted, "in the order of names");
    let denied: Vec<_> = records.iter().filter(|r| r["allowed"] == false).collect();
    assert_eq!(denied.len(), 1);
    let mut denied = denied[0].clone();
    assert!(denied["microseconds"].take().is_u64());
    let expected = json!({
        "source": "reviews/007-update-bundles-combo-tag-ref.json",
        "uid": "a76a74ab-31ae-47fe-87df-e33ee319f64b",
        "operation": "UPDATE",
        "resource": "core.rukpak.io/v1alpha1/bundles",
        "subresource": "",
        "namespace": "",
        "name": "combo-tag-ref",
        "allowed": false,
        "status": {"code": 403, "reason": "bundle.spec is immutable", "message": "bundle.spec is immutable"},
        "violations": [{"policy": "bundle-immutability", "rule": "RPK-01", "effect": "deny", "field": "spec", "message": "bundle.spec is immutable"}],
        "warnings": [],
        "error": null,
        "microseconds": null,
        "inputType": "review",
        "notEvaluated": null,
    });
    assert_eq!(denied, expected);
    let members = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(records.iter().all(|r| members(r) == members(&expected)));
    let status = records.iter().find(|r| r["subresource"] == "status").unwrap();
    assert_eq!(status["name"], "my-bundle");
}

#[test]
fn replay_reads_every_input_format() {
    let directory = directory();
    let bundle = |name: &str| create_bundle("u", name, &good_spec()).to_string();
    let pretty = format!("{:#}", create_bundle("u", "pretty", &good_spec()));
    let yaml = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  uid: u\n  operation: CREATE\n  name: yaml\n  kind: {group: core.rukpak.io, version: v1alpha1, kind: Bundle}\n  resource: {group: core.rukpak.io, version: v1alpha1, resource: bundles}\n  object:\n    spec: {source: {type: git}}\n";
    write(&directory, "in/a.json", pretty);
    write(&directory, "in/b.jsonl", format!("{}\n\n{}\n", bundle("b1"), bundle("b2")));
    write(&directory, "in/c.yaml", format!("---\n{yaml}---\n{yaml}"));
    write(&directory, "in/sub/d.yml", yaml);
    write(&directory, "in/README.md", "not a review");
    write(&directory, "one-a-line.txt", format!("{}\n{}\n", bundle("t1"), bundle("t2")));
    let output = opgate(
        directory.path(),
        &[
            "replay",
            "--output",
            "jsonl",
            "in",
            "one-a-line.txt",
            "reviews/006-create-bundles-combo-tag-ref.json",
        ],
    );
    let found: Vec<_> = lines(&output)
        .iter()
        .map(|r| format!("{} {} {}", r["source"], r["name"], r["allowed"]).replace('"', ""))
        .collect();
    let expected = [
        "in/a.json pretty true",
        "in/b.jsonl:1 b1 true",
        "in/b.jsonl:3 b2 true",
        "in/c.yaml#1 yaml false",
        "in/c.yaml#2 yaml false",
        "in/sub/d.yml yaml false",
        "one-a-line.txt:1 t1 true",
        "one-a-line.txt:2 t2 true",
        "reviews/006-create-bundles-combo-tag-ref.json combo-tag-ref true",
    ];
    assert_eq!(found, expected, "{}", err(&output));
    for input in [
        recorded_review("007"),
        bundle("x") + "\n" + &recorded_review("007").replace('\n', " "),
        yaml.to_owned(),
    ] {
        let output =
            opgate_with_input(directory.path(), &["replay", "--output", "jsonl", "-"], &input);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    }
}

#[test]
fn unreadable_input_reports_location_and_replay_continues() {
    let directory = directory();
    write(&directory, "in/a.json", "{\n  \"kind\": \n}");
    write(
        &directory,
        "in/b.jsonl",
        format!(
            "{}\n{{\"x\": ]\n{}\n",
            create_bundle("u", "b1", &good_spec()),
            create_bundle("u", "b2", &good_spec())
        ),
    );
    write(&directory, "in/c.yaml", "kind: [a\n");
    write(&directory, "in/d.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}");
    write(&directory, "in/e.json", b"\n\xff\xfe");
    write(&directory, "in/f.json", "");
    write(&directory, "in/g.json", format!("{{\"a\":\n{}}}", "[".repeat(600)));
    let output = opgate(directory.path(), &["replay", "--output", "jsonl", "in"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(lines(&output).len(), 2, "the two good lines");
    let errors = err(&output);
    for expected in [
        "in/a.json:3:1: not JSON: expected value",
        "in/b.jsonl:2:7: not JSON: expected value",
        "in/c.yaml:",
        "in/d.json: a Pod without metadata.name: give it one",
        "in/e.json:2:1: the body is not UTF-8",
        "in/f.json: empty: it should hold AdmissionReviews or manifests",
        "in/g.json:2:512: the body nests deeper than 512 levels",
    ] {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
    let output = opgate(directory.path(), &["replay", "--cluster-state", "nowhere", "in"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("nowhere: No such file"), "{}", err(&output));
    let output = opgate(directory.path(), &["replay", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("nowhere: No such file or directory"), "{}", err(&output));
    assert_eq!(opgate(directory.path(), &["replay"]).status.code(), Some(2));
    assert_eq!(
        opgate(directory.path(), &["replay", "--output", "xml", "in"]).status.code(),
        Some(2)
    );
}

#[test]
fn policy_error_exits_replay_with_3() {
    let directory = directory();
    write(&directory, "opgate.yaml", configuration(&[misbehaves("evil", &json!({"do": "panic"}))]));
    let arguments = ["replay", "--config", "opgate.yaml", "--output", "jsonl", "reviews"];
    let output = opgate(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let records = lines(&output);
    let failed = records.iter().find(|r| r["error"] != Value::Null).unwrap();
    assert_eq!(failed["error"]["policy"], "evil");
    assert!(failed["error"]["cause"].as_str().unwrap().starts_with("panicked at "));
    assert_eq!((&failed["allowed"], &failed["status"]["code"]), (&json!(false), &json!(500)));

    write(
        &directory,
        "opgate.yaml",
        configuration(&[json!({"name": "x", "module": hostile_component("imports-wasi")})]),
    );
    let output = opgate(directory.path(), &arguments);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(3), ""));
    assert!(err(&output).contains("policy x: "), "{}", err(&output));
}

#[test]
fn every_output_format_contains_the_denial() {
    let directory = directory();
    let run = |form: &str| {
        let output = opgate(directory.path(), &["replay", "--output", form, "reviews"]);
        assert_eq!(output.status.code(), Some(1), "{form}: {}", err(&output));
        out(&output)
    };
    let table = run("table");
    assert!(
        table.contains("deny   UPDATE core.rukpak.io/v1alpha1/bundles combo-tag-ref"),
        "{table}"
    );
    assert!(table.contains("RPK-01 spec: bundle.spec is immutable"), "{table}");
    assert!(!table.contains('\u{1b}'), "no colours into a pipe");
    let list: Vec<Value> = serde_json::from_str(&run("json")).unwrap();
    assert_eq!(list.iter().filter(|r| r["allowed"] == false).count(), 1);
    let junit = run("junit");
    assert!(junit.starts_with("<?xml") && junit.contains("failures=\"1\" errors=\"0\""), "{junit}");
    assert!(junit.contains("<failure message=\"bundle.spec is immutable\">"), "{junit}");
    let sarif: Value = serde_json::from_str(&run("sarif")).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(sarif["version"], "2.1.0");
    let results = run["results"].as_array().unwrap();
    let denied = results.iter().find(|r| r["level"] == "error").unwrap();
    assert_eq!(denied["ruleId"], "RPK-01");
    assert!(run["tool"]["driver"]["rules"].as_array().unwrap().iter().any(|r| r["id"] == "RPK-01"));
}

/// A Bundle with more violations than a response can contain is denied. It is not a policy error.
#[test]
fn oversized_report_is_still_denied() {
    let directory = directory();
    let long = "../".to_owned() + &"\u{200b}".repeat(20_000);
    for (what, path, count, code) in
        [("denied", "../x", 1_000, 1), ("denied, long", &*long, 30, 1), ("warned", "/x", 1_000, 0)]
    {
        let entry = json!({"configMap": {"name": "a"}, "path": path});
        let source = json!({"type": "configMaps", "configMaps": vec![entry; count]});
        let spec = json!({"provisionerClassName": "core-rukpak-io-plain", "source": source});
        write(&directory, "many.json", create_bundle("u", "b", &spec).to_string());
        write(&directory, "opgate.yaml", configuration(&[testkit::builtin_policy()]));
        let output = opgate(
            directory.path(),
            &["replay", "--config", "opgate.yaml", "--output", "jsonl", "many.json"],
        );
        assert_eq!(output.status.code(), Some(code), "{what}: {}", out(&output));
        let record = lines(&output).remove(0);
        assert_eq!(record["error"], Value::Null, "{what}");
        assert!(record["violations"].as_array().unwrap().len() >= 30, "{what}");
    }
}

#[test]
fn empty_input_is_an_error_and_broken_link_is_reported() {
    let directory = directory();
    write(&directory, "empty/notes.md", "");
    write(&directory, "empty.jsonl", "\n");
    for path in ["empty", "empty.jsonl"] {
        let output = opgate(directory.path(), &["replay", path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(
            err(&output).contains("no AdmissionReview, manifest or write in an audit log found"),
            "{}",
            err(&output)
        );
    }
    std::os::unix::fs::symlink("nowhere", directory.path().join("reviews/000.json")).unwrap();
    std::os::unix::fs::symlink(".", directory.path().join("reviews/circle")).unwrap();
    write(&directory, "reviews/..hidden/x.json", "not JSON");
    let output = opgate(directory.path(), &["replay", "--output", "jsonl", "reviews"]);
    assert_eq!((output.status.code(), lines(&output).len()), (Some(2), 14));
    assert!(
        err(&output).contains("reviews/000.json: a symbolic link that leads nowhere"),
        "{}",
        err(&output)
    );
}

#[test]
fn configuration_changes_the_decision() {
    let directory = directory();
    let replay = |policy: Value| {
        let mut entry = json!({"name": "bundle-immutability"});
        entry.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
        write(&directory, "opgate.yaml", configuration(&[entry]));
        let output = opgate(
            directory.path(),
            &[
                "replay",
                "--config",
                "opgate.yaml",
                "--output",
                "jsonl",
                "reviews/007-update-bundles-combo-tag-ref.json",
            ],
        );
        let record = lines(&output).pop().unwrap_or_else(|| panic!("{}", err(&output)));
        let rules: Vec<_> = record["violations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| format!("{} {}", v["rule"], v["effect"]).replace('"', ""))
            .collect();
        (
            output.status.code().unwrap(),
            rules.join(", "),
            record["warnings"].as_array().unwrap().len(),
        )
    };
    let cases = [
        (json!({}), (1, "RPK-01 deny", 0)),
        (json!({"mode": "warn"}), (0, "RPK-01 warn", 1)),
        (json!({"mode": "audit"}), (0, "RPK-01 audit", 0)),
        (json!({"mode": "off"}), (0, "", 0)),
        (json!({"rules": {"RPK-01": "warn", "RPK-17": "off"}}), (0, "RPK-01 warn", 1)),
        (json!({"rules": {"RPK-01": "off"}}), (0, "RPK-17 warn", 1)),
        (json!({"rules": {"RPK-01": "off", "RPK-17": "deny"}}), (1, "RPK-17 deny", 0)),
        (json!({"exclude": {"users": ["admin"]}}), (0, "", 0)),
        (json!({"exclude": {"namespaces": ["x"]}}), (1, "RPK-01 deny", 0)),
        (json!({"settings": {"exempt": {"users": ["admin"]}}}), (1, "RPK-01 deny", 0)),
    ];
    for (policy, (code, rules, warnings)) in cases {
        assert_eq!(replay(policy.clone()), (code, rules.to_owned(), warnings), "{policy}");
    }
}

/// A replay reads the cluster state from all formats that `kubectl get -o yaml` prints.
#[test]
fn replay_reads_cluster_state_from_files() {
    let directory = directory();
    let group = |name: &str, namespace: &str| {
        format!(
            "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{targetNamespaces: [x]}}\n"
        )
    };
    let indented = group("other", "tenant-a").trim_end().replace('\n', "\n  ");
    let item = format!("- {indented}\n");
    let typed = json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroupList",
        "items": [{"metadata": {"name": "other", "namespace": "tenant-a"}}],
    });
    let contexts = [
        ("one.yaml", group("other", "tenant-a")),
        ("stream.yaml", format!("{}---\n{}", group("far", "away"), group("other", "tenant-a"))),
        ("list.yaml", format!("apiVersion: v1\nkind: List\nitems:\n{item}")),
        ("typed.json", typed.to_string()),
    ];
    let review = recorded_review("014");
    write(&directory, "review.json", &review);
    let replay = |context: &[&str]| {
        let mut arguments = vec!["replay", "--output", "jsonl", "review.json"];
        for path in context {
            arguments.extend(["--cluster-state", path]);
        }
        let output = opgate(directory.path(), &arguments);
        (output.status.code(), out(&output), err(&output))
    };
    for (name, text) in contexts {
        write(&directory, &format!("context/{name}"), text);
        let path = format!("context/{name}");
        let (code, shown, _) = replay(&[&path]);
        let denied =
            "Multiple OperatorGroup found in the same namespace: tenant-a already has other";
        assert!(code == Some(1) && shown.contains(denied), "{name}: {shown}");
    }
    assert_eq!(replay(&["context"]).0, Some(1), "a folder");
    write(&directory, "elsewhere.yaml", group("far", "away"));
    assert_eq!(replay(&["elsewhere.yaml"]).0, Some(0));
    assert_eq!(replay(&["elsewhere.yaml", "context/one.yaml"]).0, Some(1), "several");
    write(&directory, "none/readme.txt", "nothing");
    assert_eq!(replay(&["none"]).0, Some(0), "an empty cluster");
    let broken = [
        ("missing.yaml", "", "missing.yaml: No such file"),
        ("cut.yaml", "kind: [", "cut.yaml:1:"),
        ("cut.json", "{\"kind\": ", "cut.json:1:"),
        ("comment.yaml", "# nothing\n", "comment.yaml: no object found in it"),
        (
            "items.yaml",
            "apiVersion: v1\nkind: List\nitems: x\n",
            "items.yaml: /items is not a list",
        ),
        ("kind.yaml", "apiVersion: v1\n", "kind.yaml: /kind is missing"),
        ("name.yaml", "apiVersion: v1\nkind: Secret\n", "name.yaml: /metadata/name is missing"),
        (
            "item.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret}\n",
            "item.yaml: /items/0/metadata/name is missing",
        ),
    ];
    for (name, text, why) in broken {
        if !text.is_empty() {
            write(&directory, name, text);
        }
        let (code, _, error) = replay(&["context", name]);
        assert!(code == Some(2) && error.contains(why), "{name}: {error}");
    }
}

/// With `--apply-allowed` the cluster follows what was allowed.
#[test]
fn replay_applies_allowed_reviews_to_cluster_state() {
    let directory = directory();
    let mut create: Value = serde_json::from_str(&recorded_review("014")).unwrap();
    let mut review = |number: usize, operation: &str, name: &str, dry_run: bool| {
        let request = &mut create["request"];
        let mut object = request["object"].take();
        object["metadata"]["name"] = json!(name);
        request["operation"] = json!(operation);
        request["name"] = json!(name);
        request["dryRun"] = json!(dry_run);
        request["oldObject"] = if operation == "DELETE" { object.clone() } else { Value::Null };
        request["object"] = object;
        let mut sent = create.clone();
        if operation == "DELETE" {
            sent["request"]["object"] = Value::Null;
        }
        write(&directory, &format!("evolving/{number}.json"), sent.to_string());
    };
    review(0, "CREATE", "tried", true);
    review(1, "CREATE", "first", false);
    review(2, "CREATE", "second", false);
    review(3, "DELETE", "first", false);
    review(4, "CREATE", "third", false);
    let decided = |arguments: &[&str]| {
        let all = [&["replay", "--output", "jsonl", "evolving"], arguments].concat();
        let records = lines(&opgate(directory.path(), &all));
        records.iter().map(|r| r["allowed"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(decided(&["--apply-allowed"]), [true, true, false, true, true]);
    assert_eq!(decided(&[]), [true; 5], "without a cluster there is nothing to compare with");
    let group = "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: old, namespace: tenant-a}\n";
    write(&directory, "context.yaml", group);
    let context = ["--cluster-state", "context.yaml"];
    assert_eq!(decided(&context), [false, false, false, true, false], "nothing evolves");
    let both = [&context[..], &["--apply-allowed"]].concat();
    assert_eq!(decided(&both), [false, false, false, true, false]);
}
