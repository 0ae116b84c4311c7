//! Input for evaluation: manifests and reviews alike, files that are neither, and the report on the
//! policies that evaluated the input. The files are next to this one, in `review_input`.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::check::{command, err, out};
use testkit::{configuration, misbehaves};

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/replay/review_input");
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(directory.path().join(name), bytes).unwrap();
    };
    write("utf16.json", b"\xff\xfe{\0}\0");
    write("mark.json", "\u{feff}[]".as_bytes());
    let pod = std::fs::read(directory.path().join("pod.yaml")).unwrap();
    write("mark.yaml", &["\u{feff}".as_bytes(), &pod].concat());
    directory
}

fn run(directory: &TempDir, line: &str) -> Output {
    let arguments: Vec<_> = line.split(' ').collect();
    command(directory.path(), &arguments).output().unwrap()
}

fn all_output(output: &Output) -> String {
    out(output) + &err(output)
}

fn json_lines(output: &Output) -> Vec<Value> {
    let text = out(output);
    match serde_json::from_str(&text) {
        Ok(Value::Array(all)) => all,
        Ok(one) => vec![one],
        Err(_) => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
    }
}

/// The commands detect the type of each file, and print what the user can do with it.
#[test]
fn detected_input_type_is_printed() {
    let directory = directory();
    for (line, status, expected) in [
        ("replay pod.yaml", 0, "pod.yaml: a manifest, evaluated as CREATE by kubernetes-admin"),
        ("check -v pod.yaml", 0, "pod.yaml: a manifest, evaluated as CREATE by opgate:check"),
        ("replay several.yaml", 0, "several.yaml#4#1: a manifest"),
        (
            "replay kubeconfig",
            2,
            "kubeconfig: a kubeconfig, nothing to evaluate: `opgate check --cluster --kube",
        ),
        (
            "check kubeconfig",
            2,
            "kubeconfig: a kubeconfig, nothing to evaluate: `opgate check --cluster --kube",
        ),
        (
            "replay opgate.yaml",
            2,
            "opgate.yaml: a configuration of opgate, nothing to evaluate: name it",
        ),
        (
            "check opgate.yaml",
            2,
            "opgate.yaml: a configuration of opgate, nothing to evaluate: name it",
        ),
        ("replay answer.json", 2, "answer.json: an AdmissionReview with a response and no request"),
        ("check answer.json", 2, "answer.json: an AdmissionReview with a response and no request"),
        (
            "replay no-request.json",
            2,
            "no-request.json: an AdmissionReview without request: record",
        ),
        ("check no-request.json", 2, "no-request.json: an AdmissionReview without request: record"),
        ("replay audit.json", 2, "1 that write no object"),
        (
            "check audit.json",
            2,
            "audit.json: an event of an audit log, not a manifest: `opgate replay`",
        ),
        (
            "replay --explain audit.log",
            0,
            "audit.log:4: an audit event, CREATE of operators.coreos.com",
        ),
        ("replay empty.yaml", 2, "empty.yaml: empty: it should hold AdmissionReviews or manifests"),
        ("check empty.yaml", 2, "empty.yaml: empty: it should hold manifests"),
        (
            "replay neither.yaml",
            2,
            "`opgate review new` creates an AdmissionReview from a manifest",
        ),
        ("check neither.yaml", 2, "neither.yaml: neither a manifest (apiVersion and kind) nor"),
        ("replay list.yaml", 2, "list.yaml: a list without objects"),
        ("replay utf16.json", 2, "utf16.json: UTF-16, as `>` of Windows PowerShell writes it"),
        ("report --html page.html utf16.json", 2, "utf16.json: UTF-16, as `>` of Windows"),
        ("report --html page.html mark.json", 0, ""),
        ("replay mark.yaml", 0, "1 allowed"),
        ("check typo.yaml", 0, "apps has no kind \"Deploymnet\"; did you mean \"Deployment\"?"),
        ("replay typo.yaml", 0, "apps has no kind \"Deploymnet\"; did you mean \"Deployment\"?"),
        ("review new -f kubeconfig", 2, "kubeconfig: a kubeconfig, nothing to evaluate"),
        ("review new -f pod.yaml --operation UPDATE", 2, "name it with --old"),
        ("review new -f pod.yaml --operation CONNECT", 2, "name it with --sub-resource"),
        ("review new -f pod.yaml --old namespace.yaml", 2, "--old has no Pod dev/web: it has Name"),
    ] {
        let output = run(&directory, line);
        let text = all_output(&output);
        assert_eq!(output.status.code(), Some(status), "{line}: {text}");
        assert!(text.contains(expected), "{line}: {text}");
    }
}

/// The writes of an audit log are decided in their order, each with the previous version of its object. Events that
/// never reached a webhook, or lack an object, are counted.
#[test]
fn writes_of_an_audit_log_are_decided() {
    let directory = directory();
    let output = run(&directory, "replay --apply-allowed -o jsonl audit.log");
    let decisions: Vec<_> = json_lines(&output)
        .iter()
        .map(|record| {
            let text = |member: &str| record[member].as_str().unwrap().to_owned();
            let rules = record["violations"].as_array().unwrap().iter();
            let denying: Vec<_> = rules
                .filter(|violation| violation["effect"] == "deny")
                .map(|violation| violation["rule"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(record["inputType"], "auditEvent");
            let what = format!("{} {}/{}", text("operation"), text("resource"), text("name"));
            (text("source"), what, denying.join(" "))
        })
        .collect();
    let expected = [
        ("audit.log:3", "CREATE /v1/namespaces/one", ""),
        ("audit.log:4", "CREATE operators.coreos.com/v1/operatorgroups/g1", ""),
        // The log has an earlier one: it was created without opgate.
        ("audit.log:5", "CREATE operators.coreos.com/v1/operatorgroups/g2", "OPG-01"),
        ("audit.log:6", "UPDATE operators.coreos.com/v1/operatorgroups/g1", ""),
        ("audit.log:7", "UPDATE operators.coreos.com/v1/operatorgroups/g1", ""),
        ("audit.log:8", "UPDATE operators.coreos.com/v1/operatorgroups/g1", ""),
        // A dry run, and a request that another webhook denied.
        ("audit.log:10", "CREATE operators.coreos.com/v1/operatorgroups/g3", "OPG-01"),
        ("audit.log:11", "CREATE operators.coreos.com/v1/operatorgroups/g4", "OPG-01"),
        ("audit.log:12", "CREATE apps/v1/deployments/web", ""),
        ("audit.log:15", "CREATE /v1/pods/web-kw4pg", ""),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(source, what, denying)| (source.into(), what.into(), denying.to_owned()))
        .collect();
    assert_eq!(decisions, expected);
    assert_eq!(output.status.code(), Some(1));
    let summary = "audit log: 10 of 21 events evaluated; not evaluated: 1 that write no object, \
        1 of a stage other than ResponseComplete, 1 rejected by the API server itself, \
        1 that connect to a Pod, Service or Node, 1 that delete a collection, \
        1 without the object (it needs level RequestResponse), \
        2 without the previous version in an earlier event, 3 that no rule evaluates";
    assert!(err(&output).contains(summary), "{}", err(&output));

    // The user of a request is the one that the client impersonates.
    let output = run(&directory, "replay --explain audit.log");
    let text = err(&output);
    assert!(text.contains("audit.log:11: an audit event, CREATE of operators.coreos.com/v1/operatorgroups one/g4 by jane"), "{text}");

    // Both configurations of a comparison decide them. It counts events that one of them evaluates.
    let all = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    std::fs::write(directory.path().join("all.yaml"), all).unwrap();
    for (old, new, compared) in [
        ("reasons.yaml", "reasons.yaml", 3),
        ("reasons.yaml", "all.yaml", 10),
        ("all.yaml", "all.yaml", 10),
    ] {
        let output = run(&directory, &format!("diff {old} {new} --reviews audit.log"));
        let text = all_output(&output);
        assert!(text.contains(&format!("reviews: {compared} compared, ")), "{text}");
        assert!(text.contains(&format!("audit log: {compared} of 21 events evaluated")), "{text}");
    }
}

/// Errors have line and column of the file, in characters, wherever the document begins.
#[test]
fn location_of_a_json_error_is_that_in_the_file() {
    const POD: &str =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"ä","namespace":"dev"}}"#;
    let directory = directory();
    // `?` stands for a character that is not JSON.
    for (name, text) in [
        ("only.json", r#"{"a": ?}"#.to_owned()),
        ("second.json", format!(r#"{POD} {{"a": ?}}"#)),
        ("third.json", format!(r#"{POD}{POD}  {{"a": ?}}"#)),
        ("indented.json", format!("{POD}\n\n  {{\"a\": ?}}")),
        ("later.json", format!("{{\n{}\n{POD} {{\"a\":\n 1, \"ä\": ?}}", &POD[1..])),
        ("word.json", format!(r#"{POD} {{"ä": "ö", "a": ?}}"#)),
        ("member.json", r#"{"ä": "ö", "a": ?}"#.to_owned()),
        ("lines.jsonl", format!("{POD}\n  {{\"ä\": ?}}\n")),
        ("list.json", format!(r#"{{"apiVersion":"v1","kind":"List","items":[{POD},{{"a": ?}}]}}"#)),
    ] {
        let before = text.split('?').next().unwrap();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
        let expected = format!("error: {name}:{line}:{column}: not JSON");
        std::fs::write(directory.path().join(name), text).unwrap();
        for command in ["replay", "check", "replay --cluster-state"] {
            // A check reads no JSON Lines.
            if command != "check" || !name.ends_with("jsonl") {
                let paths = if command.ends_with("state") {
                    format!("{name} pod.yaml")
                } else {
                    name.to_owned()
                };
                let output = run(&directory, &format!("{command} {paths}"));
                assert_eq!(output.status.code(), Some(2), "{command} {name}");
                let said = err(&output);
                assert!(said.contains(&expected), "{command}: {expected}: {said}");
                assert!(!said.contains(" at line "), "{said}");
            }
        }
    }
    // A byte order mark is no text.
    std::fs::write(directory.path().join("mark.json"), format!("\u{feff}{POD}")).unwrap();
    let output = run(&directory, "replay mark.json");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

/// A policy that fails on an event is reported, and no event that no rule evaluates.
#[test]
fn policy_error_on_an_audit_event_is_reported() {
    let directory = directory();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let mut policy = misbehaves("evil", &json!({"do": "panic"}));
    policy["onError"] = "allow".into();
    write("evil.json", &configuration(&[policy]));
    let event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": "1",
        "stage": "ResponseComplete", "requestURI": "/apis/core.rukpak.io/v1alpha1/bundles",
        "verb": "create", "user": {"username": "jane"}, "responseStatus": {"code": 201},
        "objectRef": {"resource": "bundles", "name": "b", "apiGroup": "core.rukpak.io", "apiVersion": "v1alpha1"},
        "responseObject": {"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "b"}},
    });
    write("event.json", &event.to_string());
    for line in
        ["replay --config evil.json event.json", "replay --config evil.json --bless f event.json"]
    {
        let output = run(&directory, line);
        assert_eq!(output.status.code(), Some(3), "{line}: {}", all_output(&output));
    }
    assert!(!directory.path().join("f").exists());
}

/// A watched object that appears again is an update of its previous version.
#[test]
fn changes_of_watched_objects_are_decided() {
    let directory = directory();
    let decide = |line: &str| {
        let output = run(&directory, line);
        let records = json_lines(&output);
        let text = |record: &Value| {
            let text = |member: &str| record[member].as_str().unwrap().to_owned();
            let denied = if record["allowed"] == false { " denied" } else { "" };
            format!("{} {} {}{denied}", text("source"), text("operation"), text("name"))
        };
        (records.iter().map(text).collect::<Vec<_>>(), err(&output))
    };
    let (decisions, _) = decide("replay --apply-allowed -o jsonl watch.json");
    let expected = ["#1 CREATE g1", "#2 UPDATE g1", "#3 CREATE g2 denied", "#4 UPDATE g1"];
    assert_eq!(decisions, expected.map(|text| format!("watch.json{text}")));
    let (decisions, _) = decide("replay --apply-allowed -o jsonl watch-events.json");
    let expected = [":1 CREATE g1", ":2 UPDATE g1", ":3 CREATE g2 denied", ":4 DELETE g1"];
    assert_eq!(decisions, expected.map(|text| format!("watch-events.json{text}")));

    let write = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
    };
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    // The watch was interrupted within an object.
    let cut = read("watch.json").lines().take(30).collect::<Vec<_>>().join("\n");
    write("cut.json", &cut);
    let (decisions, said) = decide("replay -o jsonl cut.json");
    assert_eq!(decisions, ["cut.json#1 CREATE g1"]);
    assert!(said.contains("cut.json:30:"), "{said}");
    let events = read("watch-events.json");
    let (_, changes) = events.split_once('\n').unwrap();
    write(
        "later.jsonl",
        &format!(
            "{changes}{}\n{}\n",
            r#"{"type":"BOOKMARK","object":{"kind":"OperatorGroup","apiVersion":"operators.coreos.com/v1","metadata":{"resourceVersion":"9"}}}"#,
            r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","message":"too old resource version: 1 (9)","code":410}}"#
        ),
    );
    let (decisions, said) = decide("replay -o jsonl later.jsonl");
    assert_eq!(decisions, ["later.jsonl:2 CREATE g2", "later.jsonl:3 DELETE g1"]);
    for line in [
        "later.jsonl:1: a change of an object without its previous version: `kubectl get --watch`",
        "later.jsonl:5: the watch failed: too old resource version: 1 (9)",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

/// A review is what an API server sends, and the same whenever it is made.
#[test]
fn review_is_created_from_a_manifest() {
    let directory = directory();
    // Arguments, and what the request has at these pointers.
    let cases: [(&str, &[(&str, Value)]); 8] = [
        (
            "pod.yaml",
            &[
                ("/operation", json!("CREATE")),
                ("/kind", json!({"group": "", "version": "v1", "kind": "Pod"})),
                ("/resource", json!({"group": "", "version": "v1", "resource": "pods"})),
                ("/requestKind/kind", json!("Pod")),
                ("/requestResource/resource", json!("pods")),
                ("/name", json!("web")),
                ("/namespace", json!("dev")),
                ("/userInfo/username", json!("kubernetes-admin")),
                ("/oldObject", json!(null)),
                ("/dryRun", json!(false)),
                ("/options/kind", json!("CreateOptions")),
                ("/object/spec/containers/0/securityContext/runAsUser", json!(1000)),
            ],
        ),
        (
            "pod.yaml --old old.yaml --user jane --group devs --dry-run",
            &[
                ("/operation", json!("UPDATE")),
                ("/userInfo/groups", json!(["devs", "system:authenticated"])),
                ("/oldObject/spec/containers/0/image", json!("registry.example.com/web:0")),
                ("/dryRun", json!(true)),
                ("/options/dryRun", json!(["All"])),
            ],
        ),
        (
            "pod.yaml --operation delete",
            &[
                ("/operation", json!("DELETE")),
                ("/object", json!(null)),
                ("/oldObject/kind", json!("Pod")),
                ("/options/kind", json!("DeleteOptions")),
            ],
        ),
        (
            "pod.yaml --operation UPDATE --cluster-state old.yaml",
            &[("/oldObject/spec/containers/0/image", json!("registry.example.com/web:0"))],
        ),
        (
            "pod.yaml --sub-resource exec",
            &[
                ("/operation", json!("CONNECT")),
                ("/subResource", json!("exec")),
                ("/kind/kind", json!("PodExecOptions")),
                ("/resource/resource", json!("pods")),
                ("/options", json!(null)),
            ],
        ),
        (
            "namespace.yaml --user system:serviceaccount:ci:deployer",
            &[
                ("/name", json!("dev")),
                ("/namespace", json!("dev")),
                (
                    "/userInfo/groups",
                    json!([
                        "system:serviceaccounts",
                        "system:serviceaccounts:ci",
                        "system:authenticated"
                    ]),
                ),
            ],
        ),
        ("typo.yaml --resource deployments", &[("/resource/resource", json!("deployments"))]),
        ("typo.yaml --namespace other", &[("/namespace", json!("dev"))]),
    ];
    for (arguments, expected) in cases {
        let line = format!("review new -f {arguments}");
        let output = run(&directory, &line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", err(&output));
        let review = json_lines(&output).remove(0);
        for (pointer, value) in expected {
            let found = review["request"].pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, value, "{line}: {pointer}");
        }
        assert_eq!(out(&run(&directory, &line)), out(&output), "{line}");
    }
    let output = run(&directory, "review new -f several.yaml -n team");
    let all = json_lines(&output);
    let found: Vec<_> = all
        .iter()
        .map(|review| {
            let request = &review["request"];
            let [resource, namespace, name, object] = [
                &request["resource"]["resource"],
                &request["namespace"],
                &request["name"],
                &request["object"]["metadata"]["name"],
            ]
            .map(|text| text.as_str().unwrap_or("-"));
            format!("{resource} {namespace} {name} {}", object.split('-').next().unwrap())
        })
        .collect();
    let expected = [
        "customresourcedefinitions - sheep.example.com sheep.example.com",
        "sheep - dolly dolly",
        // The name is made by the API server: the request has none, the object has it.
        "goats team - goat",
        "pods team one one",
        "pods dev two two",
    ];
    assert_eq!(found, expected);
    assert!(
        err(&output).contains("Goat in example.com is not known: taken for goats; name another")
    );
    assert_eq!(err(&output).matches("taken for").count(), 1, "{}", err(&output));
}

/// A manifest, its review in each format, and the review in `check` get the same result.
#[test]
fn manifest_and_its_review_give_the_same_result() {
    let directory = directory();
    let context = "--config opgate.yaml --cluster-state namespace.yaml";
    for form in ["json", "jsonl", "yaml"] {
        let made = run(&directory, &format!("review new -f pod.yaml -o {form}"));
        std::fs::write(directory.path().join(format!("made.{form}")), &made.stdout).unwrap();
    }
    let mut first = None;
    for file in ["pod.yaml", "made.json", "made.jsonl", "made.yaml"] {
        let output = run(&directory, &format!("replay {context} --output jsonl {file}"));
        assert_eq!(output.status.code(), Some(1), "{file}: {}", err(&output));
        let mut record = json_lines(&output).remove(0);
        let taken = if file == "pod.yaml" { "manifest" } else { "review" };
        assert_eq!(record["inputType"].take(), taken, "{file}");
        (record["source"], record["microseconds"]) = (Value::Null, Value::Null);
        assert_eq!(*first.get_or_insert(record.clone()), record, "{file}");
        let output = run(&directory, &format!("check {context} --output jsonl {file}"));
        let record = json_lines(&output).remove(0);
        assert_eq!(
            (output.status.code(), &record["inputType"]),
            (Some(1), &json!(taken)),
            "{file}"
        );
        let found = &record["violations"][0];
        assert_eq!((&found["rule"], &record["name"]), (&json!("PSA-09"), &json!("web")), "{file}");
        assert!(found["location"]["line"].as_u64().unwrap() >= 1, "{file}: {found}");
    }
    let text = all_output(&run(&directory, &format!("check {context} made.json")));
    assert!(
        text.contains("made.json: an AdmissionReview, CREATE of Pod dev/web by kubernetes-admin"),
        "{text}"
    );
}

/// An object that no policy evaluated does not count as allowed.
#[test]
fn not_evaluated_objects_are_reported() {
    let directory = directory();
    std::fs::create_dir(directory.path().join("dev")).unwrap();
    for name in ["pod.yaml", "namespace.yaml"] {
        std::fs::copy(directory.path().join(name), directory.path().join("dev").join(name))
            .unwrap();
    }
    for (line, status, expected) in [
        (
            "replay --config reasons.yaml pod.yaml",
            0,
            &[
                "not evaluated CREATE v1/pods dev/web",
                "not evaluated: no policy matches CREATE of v1/pods (pod-security: the configuration excludes namespace dev",
                "0 allowed, 0 denied, 0 errors, 1 not evaluated",
            ][..],
        ),
        ("replay --config reasons.yaml --require-evaluated pod.yaml", 1, &["1 not evaluated"]),
        (
            "check --config opgate.yaml typo.yaml",
            0,
            &[
                "typo.yaml: not evaluated Deploymnet web: apps has no kind \"Deploymnet\"; did you mean \"Deployment\"?",
                "0 passed, 0 denied, 0 errors, 1 not evaluated",
            ],
        ),
        ("check --config opgate.yaml --require-evaluated typo.yaml", 1, &["1 not evaluated"]),
        // Rules for any manifest evaluate it. No policy evaluated the object that its author
        // intended.
        ("check typo.yaml", 0, &["0 passed, 0 denied, 0 errors, 1 not evaluated"]),
        ("check --require-evaluated typo.yaml", 1, &["1 not evaluated"]),
        ("replay --require-evaluated typo.yaml", 1, &["1 not evaluated"]),
        // First the Namespace is not known. Then it is next to the Pod, or in the cluster.
        (
            "check --config opgate.yaml pod.yaml",
            0,
            &["not evaluated", "PSA-09", "name files with --cluster-state", "1 passed, 0 denied"],
        ),
        // The labels of the Namespace also select the policies.
        (
            "check --config selects.yaml dev",
            0,
            &[
                "dev/pod.yaml: not evaluated Pod web: no policy matches CREATE of v1/pods (pod-security: the labels of the namespace do not fit the selector {",
                "0 passed, 0 denied, 0 errors, 2 not evaluated",
            ],
        ),
        (
            "replay --config selects.yaml --cluster-state namespace.yaml pod.yaml",
            0,
            &["the labels of the namespace do not fit", "1 not evaluated"],
        ),
        ("check --config selects.yaml pod.yaml", 0, &["1 passed, 0 denied, 0 errors"]),
        ("check --config opgate.yaml dev", 1, &["PSA-09", "1 passed, 1 denied, 0 errors"]),
        (
            "check --config opgate.yaml --cluster-state namespace.yaml pod.yaml",
            1,
            &["PSA-09", "0 passed, 1 denied, 0 errors"],
        ),
    ] {
        let output = run(&directory, line);
        let text = all_output(&output);
        assert_eq!(output.status.code(), Some(status), "{line}: {text}");
        for expected in expected {
            assert!(text.contains(expected), "{line}: {expected}: {text}");
        }
    }
}

/// Why each policy was asked or not, what it evaluated, and what it read.
#[test]
fn explain_shows_the_evaluation() {
    let directory = directory();
    let explained = |line: &str| {
        let output = run(&directory, line);
        let record = json_lines(&output).remove(0);
        let list = match &record["explain"] {
            Value::Array(all) => all[0]["policies"].clone(),
            one => one["policies"].clone(),
        };
        list.as_array().unwrap_or_else(|| panic!("{line}: {record}")).clone()
    };
    for command in ["replay", "check"] {
        let line = |rest: &str| format!("{command} --explain --output json {rest}");
        let policies = explained(&line("--config reasons.yaml pod.yaml"));
        let reason = |name: &str| {
            let found = policies.iter().find(|policy| policy["policy"] == name).unwrap();
            (
                found["matched"].as_bool().unwrap(),
                found["reason"].as_str().unwrap_or("-").to_owned(),
            )
        };
        for (name, expected) in [
            ("pod-security", "excluded-namespace"),
            ("operator-group", "mode"),
            ("subscription", "resource"),
        ] {
            assert_eq!(reason(name), (false, expected.to_owned()), "{command}: {name}");
        }
        let platform = if command == "check" { (true, "-") } else { (false, "setting") };
        assert_eq!(reason("platform-configuration"), (platform.0, platform.1.to_owned()));

        let context = "--config opgate.yaml --cluster-state namespace.yaml pod.yaml";
        let asked = &explained(&line(context))[0];
        let evaluated = asked["evaluated"].as_array().unwrap();
        assert!(evaluated.contains(&json!("PSA-09")), "{command}: {asked}");
        assert!(asked["durationMicroseconds"].is_u64(), "{command}: {asked}");
        let reads = asked["reads"].as_array().unwrap();
        let read = reads.iter().find(|read| read["resource"] == "v1/namespaces").unwrap();
        assert!(read["queries"].as_u64() >= Some(1) && read["objects"].as_u64() >= Some(1));
        assert_eq!(read["unanswered"], 0, "{command}: {asked}");

        let asked = &explained(&line("--config opgate.yaml pod.yaml"))[0];
        let mut skipped = asked["skipped"].as_array().unwrap().iter();
        let skipped = skipped.find(|skipped| skipped["rule"] == "PSA-09");
        let skipped = skipped.unwrap_or_else(|| panic!("{command}: {asked}"));
        assert!(skipped["reason"].as_str().unwrap().contains("not available"), "{skipped}");

        let table = out(&run(&directory, &format!("{command} --explain {context}")));
        for expected in ["matched pod-security: ", "PSA-09", " in ", "read v1/namespaces: "] {
            assert!(table.contains(expected), "{command}: {expected}: {table}");
        }
    }
}
