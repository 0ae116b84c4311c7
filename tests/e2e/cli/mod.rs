//! The command line as people and pipelines use it: outputs, exit status, what goes where.

mod completions;
mod escaping;
mod help;
mod pipelines;
mod sarif;
mod verbosity;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{
    configuration, create_bundle, good_spec, hostile_component, misbehaves, recorded_review,
};

use crate::BINARY;

pub(crate) fn opgate(directory: &Path, arguments: &[&str]) -> Output {
    opgate_with_input(directory, arguments, "")
}

pub(crate) fn opgate_with_input(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(BINARY)
        .args(arguments)
        .current_dir(directory)
        .env("OPGATE_CACHE_DIR", directory.join("cache"))
        .env_remove("OPGATE_CONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses its arguments does not read.
    if let Err(error) = child.stdin.take().unwrap().write_all(input.as_bytes()) {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
    child.wait_with_output().unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A directory with the recorded reviews in `reviews/`.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let reviews = directory.path().join("reviews");
    std::fs::create_dir(&reviews).unwrap();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("reviews")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, reviews.join(path.file_name().unwrap())).unwrap();
    }
    directory
}

pub(crate) fn write(directory: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = directory.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

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
fn policies_are_listed_and_inspected() {
    let directory = directory();
    let table = out(&opgate(directory.path(), &["policy", "list"]));
    assert!(
        table.contains("bundle-immutability") && table.contains("builtin:bundle-immutability"),
        "{table}"
    );
    let shown = out(&opgate(
        directory.path(),
        &["policy", "inspect", "bundle-immutability", "--output", "json"],
    ));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["settingsSchema"]["properties"]["rukpak"]["type"], "object");
    let file = hostile_component("misbehaves");
    let shown = opgate(directory.path(), &["policy", "inspect", file.to_str().unwrap()]);
    assert!(out(&shown).starts_with("hostile 0.0.1: misbehaves"), "{}", err(&shown));
    let file = hostile_component("reads-cluster");
    let shown = opgate(directory.path(), &["policy", "inspect", file.to_str().unwrap()]);
    assert_eq!(shown.status.code(), Some(1), "{}", err(&shown));
    assert!(out(&shown).contains("no-reads: imports `cluster`"), "{}", out(&shown));
    let wrong = opgate(directory.path(), &["policy", "inspect", "bundle-imutability"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("did you mean \"bundle-immutability\"?"), "{}", err(&wrong));
}

/// Line, column and a hint for everything that is wrong, all at once where that is possible.
#[test]
fn invalid_configuration_reports_line_column_and_hint() {
    let directory = directory();
    let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    let policy = "policies:\n  - name: bundle-immutability\n";
    let cases = [
        (
            format!("{head}polices: []\n"),
            vec!["3:1: unknown field `polices`", "did you mean \"policies\"?"],
        ),
        (
            format!("{head}{policy}    mod: warn\n"),
            vec!["5:5: unknown field `mod`", "did you mean \"mode\"?"],
        ),
        (
            format!("{head}{policy}    mode: enforced\n"),
            vec!["5:5: unknown variant `enforced`", "did you mean \"enforce\"?"],
        ),
        (
            format!("{head}profile: ocp-4.16\n"),
            vec!["3:1: unknown variant `ocp-4.16`", "did you mean \"ocp-4.1"],
        ),
        (
            format!("{head}identities:\n  old: [a]\n"),
            vec!["4:3: unknown field `old`", "did you mean \"olm\"?"],
        ),
        (format!("{head}identities: {{olm: a}}\n"), vec!["3:14: invalid type: string \"a\""]),
        (
            format!("{head}identities:\n  olm: [a, \"\"]\n  rukpak: [\" b\"]\n"),
            vec!["4:12: \"\" is not the name of a user", "5:12: \" b\" is not the name of a user"],
        ),
        (
            format!("{head}{policy}    settings: {{identities: {{rukpak: [\"\"]}}}}\n"),
            vec!["5:38: \"\" is shorter than 1 character"],
        ),
        (
            format!("{head}{policy}    rules: {{RPK-1: off, RPK-02: off, RPX-99: warn}}\n"),
            vec!["5:13: policy bundle-immutability has no rule \"RPK-1\"", "RPX-99"],
        ),
        (
            format!("{head}{policy}    rules:\n      RPK-02: maybe\n"),
            vec!["6:7: unknown variant `maybe`"],
        ),
        (
            format!("{head}{policy}    settings:\n      rukpak:\n        strictPath: true\n"),
            vec!["7:9: unknown setting `strictPath`; did you mean \"strictPaths\"?"],
        ),
        (
            format!("{head}{policy}    settings: {{strictPaths: true}}\n"),
            vec![
                "5:16: unknown setting `strictPaths`; it belongs at `settings.rukpak.strictPaths`",
            ],
        ),
        (
            format!(
                "{head}{policy}    settings: {{rukpak: {{strictPaths: 1, bundleDeploymentNameMax: 0}}}}\n"
            ),
            vec!["5:25: 1 is not of type", "5:41: 0 is less than the minimum of 1"],
        ),
        (
            format!("{head}{policy}    settings: {{rules: {{}}}}\n"),
            vec!["5:16: the levels of rules do not belong in `settings`"],
        ),
        (
            format!("{head}{policy}    limits: {{memory: 32MB, time: 100, concurrency: 0}}\n"),
            vec!["5:28: invalid type: integer `100`, expected a string"],
        ),
        (
            format!("{head}{policy}    limits: {{memory: 32MB, time: 1d, concurrency: 0}}\n"),
            vec![
                "5:14: \"32MB\" is not a size",
                "5:28: \"1d\" is not a duration",
                "5:38: must be between 1 and 256",
            ],
        ),
        (
            format!("{head}{policy}    allowedReads: [configmaps]\n"),
            vec!["5:20: \"configmaps\" is not a resource: write group/version/resource"],
        ),
        (
            format!("{head}{policy}  - name: bundle-immutability\n"),
            vec!["5:5: a policy named \"bundle-immutability\" is already there"],
        ),
        (
            format!("{head}policies:\n  - name: X Y\n    module: builtin:bundle-immutability\n"),
            vec!["4:5: \"X Y\" is not a name"],
        ),
        (
            format!("{head}policies:\n  - name: bundle-imutability\n"),
            vec!["4:5: there is no built-in policy", "did you mean \"bundle-immutability\"?"],
        ),
        (format!("{head}policies:\n  - module: x\n"), vec!["4:5: missing field `name`"]),
        ("kind: Configuration\n".to_owned(), vec!["1:1: missing field `apiVersion`"]),
        (
            "apiVersion: v1\nkind: Config\n".to_owned(),
            vec!["1:1: apiVersion is \"v1\"", "2:1: kind is \"Config\""],
        ),
        (format!("{head}policies:\n"), vec!["3:1: policies has no value: name policies"]),
        (format!("{head}policies: ~\n"), vec!["3:1: policies has no value"]),
        (format!("{head}---\n{head}"), vec!["4:1: a second document: leave one"]),
        ("a: [\n".to_owned(), vec![":1:4: unclosed bracket"]),
        (format!("{head}kind: Configuration\n"), vec![":3:1: "]),
        (String::new(), vec!["1:1: "]),
    ];
    for (text, expected) in cases {
        write(&directory, "opgate.yaml", &text);
        for command in [
            &["rules", "--config", "opgate.yaml"][..],
            &["replay", "--config", "opgate.yaml", "reviews"],
        ] {
            let output = opgate(directory.path(), command);
            let errors = err(&output);
            assert_eq!(
                (output.status.code(), out(&output).as_str()),
                (Some(2), ""),
                "{text}\n{errors}"
            );
            for part in &expected {
                assert!(errors.contains(part), "{part} is not in\n{errors}\nof\n{text}");
            }
            assert!(errors.lines().all(|l| l.starts_with("error: opgate.yaml:")), "{errors}");
        }
    }
}

/// As the documentation prints it, with bare words.
#[test]
fn every_key_of_the_configuration_is_understood() {
    let directory = directory();
    let text = "\
apiVersion: opgate.dev/v1alpha1
kind: Configuration
profile: ocp-4.15                           # where editions contradict each other
identities: {olm: [me], rukpak: []}
policies:
  - name: bundle-immutability
    module: builtin:bundle-immutability
    mode: enforce
    onError: failurePolicy
    rules: {RPK-07: off, RPK-17: off}
    settings: {}
    limits: {memory: 32Mi, time: 100ms, concurrency: 4}
    exclude: {namespaces: [kube-system], users: []}
    allowedReads: [operators.coreos.com/v1/operatorgroups]
  - name: again
    module: builtin:bundle-immutability
    mode: off
";
    write(&directory, "opgate.yaml", text);
    let output = opgate(
        directory.path(),
        &["replay", "--config", "opgate.yaml", "--output", "jsonl", "reviews"],
    );
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), ""));
    assert!(lines(&output).iter().all(|r| r["warnings"] == json!([])));
    let rules = opgate(directory.path(), &["rules", "--config", "opgate.yaml"]);
    assert!(out(&rules).contains("RPK-17   off "), "{}", out(&rules));
    assert!(!directory.path().join("cache").exists(), "built-in policies need no cache");
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
            err(&output).contains("no AdmissionReview and no manifest found"),
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

/// Compiled once; what is in the cache is used only if this installation wrote it.
#[test]
fn cache_rejects_foreign_entries() {
    let directory = directory();
    let cache = directory.path().join("cache");
    write(&directory, "opgate.yaml", configuration(&[misbehaves("evil", &json!({}))]));
    let run = || {
        let output = opgate(directory.path(), &["policy", "list", "--config", "opgate.yaml"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        err(&output)
    };
    let image = || {
        let files = std::fs::read_dir(&cache).unwrap().map(|e| e.unwrap().path());
        files.into_iter().find(|p| p.extension().is_some_and(|e| e == "image")).unwrap()
    };
    assert_eq!(run(), "");
    let written = std::fs::read(image()).unwrap();
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(image()).unwrap());
    let first = inode();
    assert_eq!((run(), inode()), (String::new(), first), "read, not written again");
    assert_eq!(std::fs::metadata(image()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);

    let mut flipped = written.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for bad in [flipped, written[..100].to_vec(), vec![], written[32..].to_vec()] {
        std::fs::write(image(), &bad).unwrap();
        assert!(run().contains("not used from the cache"));
        assert_eq!(
            std::fs::read(image()).unwrap().len(),
            written.len(),
            "compiled and written anew"
        );
    }
    // The image of one policy under the name of another.
    let path = image();
    write(
        &directory,
        "opgate.yaml",
        configuration(&[
            json!({"name": "x", "module": hostile_component("loops-in-settings"), "mode": "off"}),
            misbehaves("evil", &json!({})),
        ]),
    );
    let _ = opgate(
        directory.path(),
        &["policy", "inspect", hostile_component("reads-cluster").to_str().unwrap()],
    );
    let other = path.with_file_name("sha256-0000.image");
    std::fs::rename(&path, &other).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(run(), "");
    // The command does not read a file that other users can write, a link, or a directory that is
    // open to all users.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(run().contains("must belong to the user"));
    let real = directory.path().join("real.image");
    std::fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert!(run().contains("not used from the cache"));
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(run().contains("policies are compiled at every start"));
}

/// Without room for a pool of instances the answers are the same.
#[test]
fn small_address_space_is_sufficient() {
    let directory = directory();
    let script = format!("ulimit -v 4000000 && exec {BINARY} replay --output jsonl reviews");
    let output =
        Command::new("sh").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("no pool of instances"), "{}", err(&output));
    assert_eq!(lines(&output).iter().filter(|r| r["allowed"] == false).count(), 1);
}

#[test]
fn certificates_are_issued_checked_and_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| opgate(directory.path(), arguments);
    let issue = [
        "certs",
        "issue",
        "--out",
        "tls",
        "--service",
        "opgate-system/opgate",
        "--name",
        "10.0.0.1",
    ];
    let output = run(&issue);
    assert_eq!(
        (output.status.code(), out(&output).as_str()),
        (Some(0), "tls\n"),
        "{}",
        err(&output)
    );
    let mode = |file: &str| {
        std::fs::metadata(directory.path().join("tls").join(file)).unwrap().permissions().mode()
            & 0o777
    };
    assert_eq!(
        (mode("ca.key"), mode("tls.key"), mode("ca.crt"), mode("tls.crt")),
        (0o600, 0o600, 0o644, 0o644)
    );
    let check = |name: &str| run(&["certs", "check", "--tls-dir", "tls", "--name", name]);
    for (name, code) in
        [("opgate.opgate-system.svc", 0), ("10.0.0.1", 0), ("other.svc", 1), ("10.0.0.2", 1)]
    {
        let output = check(name);
        assert_eq!(output.status.code(), Some(code), "{name}: {}{}", out(&output), err(&output));
    }
    let read = |file: &str| std::fs::read(directory.path().join("tls").join(file)).unwrap();
    let (ca, certificate) = (read("ca.crt"), read("tls.crt"));
    assert_eq!(run(&issue).status.code(), Some(0));
    assert_eq!(read("ca.crt"), ca, "the CA stays");
    assert_ne!(read("tls.crt"), certificate);
    assert_eq!(check("10.0.0.1").status.code(), Some(0));
    assert_eq!(run(&[&issue[..], &["--new-ca"]].concat()).status.code(), Some(0));
    assert_ne!(read("ca.crt"), ca);
    let wrong = run(&["certs", "issue", "--out", "tls", "--name", "not a name"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("neither a DNS name nor an IP address"), "{}", err(&wrong));
    let key = directory.path().join("tls/tls.key");
    std::fs::copy(directory.path().join("tls/ca.key"), &key).unwrap();
    let output = run(&["certs", "check", "--tls-dir", "tls"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("does not belong to the certificate in"), "{}", err(&output));
    let output = run(&["serve", "--tls-dir", "tls"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&run(&["serve"])).contains("no serving certificate"));
}

/// The command writes the CA for clients to a separate directory, so that no serving certificate is
/// from a CA that authenticates clients.
#[test]
fn client_certificates_are_issued_by_a_separate_ca() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| opgate(directory.path(), arguments);
    let issue = ["certs", "issue", "--out", "clients", "--client", "api-server"];
    let output = run(&issue);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "clients\n"));
    assert!(err(&output).contains("issued for api-server by a new CA"), "{}", err(&output));
    let path = |file: &str| directory.path().join("clients").join(file);
    let ca = std::fs::read(path("ca.crt")).unwrap();
    assert_eq!(run(&issue).status.code(), Some(0));
    assert_eq!(std::fs::read(path("ca.crt")).unwrap(), ca, "the CA stays");
    let mode = std::fs::metadata(path("client.key")).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode, path("tls.crt").exists()), (0o600, false));
    // What a client has is no serving certificate.
    let pair = ["--tls-cert", "clients/client.crt", "--tls-key", "clients/client.key"];
    let check = run(&[&["certs", "check", "--ca", "clients/ca.crt"], &pair[..]].concat());
    assert_eq!(check.status.code(), Some(1), "{}", out(&check));
    let wrong = run(&["certs", "issue", "--out", "clients", "--client", "a", "--name", "b"]);
    assert_eq!(wrong.status.code(), Some(2));
    let wrong = run(&["certs", "issue", "--out", "clients", "--client", ""]);
    assert_eq!(wrong.status.code(), Some(2));
    // A server does not start with names and no CA, or without the CA that its flag names.
    assert_eq!(run(&["certs", "issue", "--out", "tls", "--name", "a"]).status.code(), Some(0));
    let serve = |arguments: &[&str]| run(&[&["serve", "--tls-dir", "tls"], arguments].concat());
    for (arguments, says) in [
        (&["--client-name", "api-server"][..], "--client-ca"),
        (&["--client-ca", "nothing.crt"], "nothing.crt: No such file"),
        (&["--client-ca", "tls/tls.crt"], "tls.crt: certificate 1: not the certificate of a CA"),
        (&["--client-ca", "clients/ca.crt", "--client-name", ""], "cannot be the name of a client"),
    ] {
        let output = serve(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(says), "{arguments:?}: {}", err(&output));
    }
}

/// Names of policies differ in length. The table is readable only with aligned columns.
#[test]
fn rule_titles_are_aligned() {
    let directory = tempfile::tempdir().unwrap();
    let table = out(&opgate(directory.path(), &["rules"]));
    let list: Vec<Value> =
        serde_json::from_str(&out(&opgate(directory.path(), &["rules", "--output", "json"])))
            .unwrap();
    assert_eq!(table.lines().count(), list.len());
    let columns = table.lines().zip(&list).map(|(line, rule)| {
        let (policy, title) = (rule["policy"].as_str().unwrap(), rule["title"].as_str().unwrap());
        let names = [policy, title].map(|name| line.find(&format!(" {name}")));
        assert!(line.starts_with(rule["id"].as_str().unwrap()), "{line}");
        names
    });
    let columns: std::collections::BTreeSet<_> = columns.collect();
    assert_eq!(columns.len(), 1, "{table}");
}

#[test]
fn demo_prints_a_denial() {
    let directory = tempfile::tempdir().unwrap();
    let output = opgate(directory.path(), &["demo"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let shown = out(&output);
    let denials = [
        ("RPK-01", "bundle.spec is immutable\n"),
        ("OPG-18", "intersecting operatorgroups provide the same apis: "),
        ("CSV-92", "only AllNamespaces InstallModeType is supported when conversionCRDs is"),
        ("CRD-13", "risk of data loss updating \"clusters.example.com\": new CRD removes"),
        ("OL1-05", "OLM 1.0 does not support automatic updates to the next major version or"),
    ];
    for (rule, message) in denials {
        let (_, after) =
            shown.split_once(&format!("({rule}, ")).unwrap_or_else(|| panic!("{shown}"));
        let next = after.lines().nth(1).unwrap();
        assert!(format!("{next}\n").trim_start().starts_with(message), "{shown}");
    }
    assert_eq!(shown.matches("denied  ").count(), denials.len(), "{shown}");
    // One screen.
    assert!(shown.lines().count() <= 24, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
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

#[test]
fn closed_output_pipe_is_not_an_error() {
    let directory = directory();
    let line = create_bundle("u", "b", &good_spec()).to_string() + "\n";
    write(&directory, "many.jsonl", line.repeat(3_000));
    let script =
        format!("{BINARY} replay --output jsonl many.jsonl | head -1; exit ${{PIPESTATUS[0]}}");
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert_eq!((output.status.code(), lines(&output).len()), (Some(0), 1), "{}", err(&output));
    // What was found until then counts: a gate in a pipeline does not open because of a pager.
    let denied = create_bundle("u", "b", &json!({})).to_string() + "\n";
    write(&directory, "many.jsonl", denied.repeat(3_000));
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
}

const PROPERTIES: &str = "
- {type: olm.package, value: {packageName: etcd, version: 1.2.3}}
- {type: olm.gvk, value: {group: a.b, version: v1, kind: K}}
- {type: certified, value: true}
";

#[test]
fn a_constraint_is_evaluated_with_its_expressions() {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "properties.yaml", PROPERTIES);
    // More steps than an evaluation may take.
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let explodes = ["a", "b", "c", "d", "e", "f", "g"]
        .iter()
        .fold("true".to_owned(), |inner, name| format!("{ten}.all({name}, {inner})"));
    let rule = |rule: &str| json!({"failureMessage": "sorry", "cel": {"rule": rule}});
    for (constraint, status, expected) in [
        (rule("properties.exists(p, p.type == 'certified' && p.value)"), 0, "yes: cel "),
        (rule("properties.exists(p, p.type == 'stable')"), 1, "is false (sorry)"),
        (
            rule("properties.size() == 3 && properties[0].type == 'x'"),
            1,
            r#"is false because "properties[0].type == 'x'" is (sorry)"#,
        ),
        (rule("properties[3].value"), 1, "deny CON-12 /cel/rule: "),
        (rule("properties[3].value == 1"), 1, "fails: index out of bounds: 3 (sorry)"),
        (rule("semver_compare(properties[0].value.version, '1.3.0') < 0"), 0, "is true"),
        (rule("nothing == 1"), 1, "undeclared reference to 'nothing' (in container '')"),
        (rule(&explodes), 3, "is given up: the evaluation takes more than 1000000 steps"),
        (json!({"any": {"constraints": [rule(&explodes), rule("true")]}}), 0, "yes: any of"),
    ] {
        write(&directory, "constraint.json", constraint.to_string());
        let arguments =
            ["constraint", "eval", "constraint.json", "--properties", "properties.yaml"];
        let output = opgate(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(status), "{constraint}: {}", err(&output));
        assert!(out(&output).contains(expected), "{constraint}: {}", out(&output));
        // The same as an object.
        let output = opgate(directory.path(), &[&arguments[..], &["--output", "json"]].concat());
        assert_eq!(output.status.code(), Some(status), "{constraint}");
        let holds = [Value::Bool(true), Value::Bool(false), Value::Null, Value::Null];
        let document: Value = serde_json::from_str(&out(&output)).unwrap();
        let denied = document["violations"].as_array().is_some_and(|found| !found.is_empty());
        if !denied {
            assert_eq!(document["holds"], holds[usize::try_from(status).unwrap()], "{constraint}");
        }
    }
}

/// In a policy, with its small stack: as deep as it goes, and deeper.
#[test]
fn deep_expressions_get_a_verdict() {
    let directory = tempfile::tempdir().unwrap();
    for (open, inner, close) in [
        ("(", "true", ")"),
        ("!(", "true", ")"),
        ("[", "true", "] == []"),
        ("{1:", "true", "}"),
        ("true?true:", "true", ""),
        ("", "1", "+1"),
        ("", "properties[0]", ".a"),
        ("type(", "true", ")"),
        ("[1].exists(x,", "true", ")"),
        ("[1].map(x,[", "x", "])"),
    ] {
        for levels in [8, 28, 31, 60, 63, 64, 1_000] {
            let rule = format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
            let value = json!({"failureMessage": "x", "cel": {"rule": rule}});
            let properties = json!({"properties": [{"type": "olm.constraint", "value": value}]});
            let csv = json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "ClusterServiceVersion",
                "metadata": {
                    "name": "a.v1.0.0",
                    "namespace": "a",
                    "annotations": {"operatorframework.io/properties": properties.to_string()},
                },
                "spec": {"displayName": "a", "install": {"strategy": "deployment"}},
            });
            write(&directory, "csv.json", csv.to_string());
            write(
                &directory,
                "opgate.yaml",
                "{apiVersion: opgate.dev/v1alpha1, kind: Configuration, policies: [{name: constraint-limits}]}",
            );
            let output =
                opgate(directory.path(), &["check", "--config", "opgate.yaml", "csv.json"]);
            let status = output.status.code();
            assert!(matches!(status, Some(0 | 1)), "{open} {levels}: {status:?} {}", out(&output));
            if levels > 64 {
                assert_eq!(status, Some(1), "{open} {levels}");
                assert!(out(&output).contains("expression recursion limit exceeded: 64"), "{open}");
            }
        }
    }
}

/// Both ends of a terminal.
fn open_terminal() -> (std::fs::File, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = std::fs::File::options().read(true).write(true).open(name).unwrap();
    (ours.into(), theirs)
}

/// What a command shows on a terminal, and how it ends.
fn run_in_terminal(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let (mut ours, theirs) = open_terminal();
    let mut child = Command::new(BINARY)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let mut bytes = Vec::new();
    let mut block = [0; 4_096];
    // The last reader of the other end is gone.
    while let Ok(count @ 1..) = std::io::Read::read(&mut ours, &mut block) {
        bytes.extend_from_slice(&block[..count]);
    }
    let status = child.wait().unwrap();
    (status.code(), String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn commands_print_to_a_terminal() {
    let directory = directory();
    write(&directory, "bundle.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n");
    for (arguments, status, expected) in [
        (&["rules"][..], 0, "RPK-01"),
        (&["policy", "list"], 0, "operator-group"),
        (&["check", "bundle.yaml"], 0, "1 passed"),
        (&["check", "nowhere"], 2, "nowhere: No such file"),
        (&["replay", "nowhere"], 2, "nowhere: No such file"),
        (&["--log", "debug", "demo"], 0, "allowed"),
        (&["--help"], 0, "opgate"),
    ] {
        let (code, text) = run_in_terminal(directory.path(), arguments);
        assert!(
            !text.contains("panicked") && !text.contains("crate feature"),
            "{arguments:?}: {text}"
        );
        assert_eq!(code, Some(status), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

/// The reader of the output can stop before the end: the exit status of the command does not
/// change.
#[test]
fn closed_output_pipe_does_not_change_the_exit_status() {
    let directory = directory();
    write(&directory, "good.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n");
    for (arguments, status) in [
        ("rules", 0),
        ("rules --output json", 0),
        ("policy list", 0),
        ("policy inspect operator-group", 0),
        ("check good.yaml", 0),
        ("check --output json good.yaml", 0),
        ("check --output jsonl good.yaml", 0),
        ("check --output sarif good.yaml", 0),
        ("check --output junit good.yaml", 0),
        ("check nowhere", 2),
        ("replay nowhere", 2),
        ("--help", 0),
    ] {
        for to in ["| true", "2>&1 | true", "2>&1 >/dev/null | true"] {
            // The command starts after the reader has closed the pipe.
            let script = format!(
                "{{ read line < gate; {BINARY} {arguments}; echo $? > status; }} {to}; true"
            );
            let gate = directory.path().join("gate");
            let _ = std::fs::remove_file(&gate);
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &gate,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                0,
            )
            .unwrap();
            let script = script.replace("| true", "| { exec < /dev/null; echo > gate; }");
            let mut command = Command::new("bash");
            let run = command.args(["-c", &script]).current_dir(directory.path()).output().unwrap();
            let found = std::fs::read_to_string(directory.path().join("status")).unwrap();
            assert_eq!(found.trim(), status.to_string(), "{arguments} {to}: {}", err(&run));
        }
    }
}
