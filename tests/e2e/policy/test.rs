//! `opgate policy test` and `bench`: cases of a component, as a test runner reports them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::hostile_component;

use crate::BINARY;
use crate::cli::{err, opgate, out, write};

const SHARED_OBJECTS: &str = "\
bundle:
  apiVersion: core.rukpak.io/v1alpha1
  kind: Bundle
  metadata: {name: a}
";

/// Cases of the hostile policy, which denies whatever its setting says.
const CASE_FILE: &str = "\
# Of the only rule.
rule: EVIL-1
accept:
- name: nothing to do
  create: bundle
reject:
- name: denies  # as told
  create: bundle
  settings: {do: many-violations, number: 1}
  message: old
skip: []
";

/// A source directory without sources: the component next to its configuration and its cases.
fn directory(cases: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(hostile_component("misbehaves"), directory.path().join("evil.component.wasm"))
        .unwrap();
    let configuration = "\
apiVersion: opgate.dev/v1alpha1
kind: Configuration
policies:
  - name: evil
    module: evil.component.wasm
";
    write(&directory, "opgate.yaml", configuration);
    write(&directory, "cases/objects.yaml", SHARED_OBJECTS);
    write(&directory, "cases/EVIL-1.yaml", cases);
    directory
}

/// What the command prints, after a status.
fn run(directory: &Path, arguments: &[&str], status: i32) -> String {
    let done = opgate(directory, &[&["policy", "test"], arguments].concat());
    assert_eq!(done.status.code(), Some(status), "{arguments:?}: {}{}", out(&done), err(&done));
    format!("{}{}", out(&done), err(&done))
}

const BUILTIN_ARGS: [&str; 4] = [
    "--policy",
    "plain-bundle",
    "--cases",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../guest/policies/plain-bundle/cases"),
];

#[test]
fn cases_of_a_built_in_policy_hold() {
    let directory = tempfile::tempdir().unwrap();
    let said = run(directory.path(), &BUILTIN_ARGS, 0);
    assert!(said.contains("PBF-01 / ") && said.contains(" ... ok"), "{said}");
    assert!(said.contains("result: ok. ") && said.contains("0 failed"), "{said}");
    let json = run(directory.path(), &[&BUILTIN_ARGS[..], &["-o", "json"]].concat(), 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["policy"], &json["failed"]), (&"plain-bundle".into(), &0.into()));
    assert_eq!(json["notCovered"], serde_json::json!([]));
    // The decision is there for cases that hold, too.
    for case in json["cases"].as_array().unwrap() {
        let violations = case["decision"]["violations"].as_array().unwrap();
        let is_violated = violations.iter().any(|violation| violation["rule"] == case["rule"]);
        assert_eq!(is_violated, case["expects"] == "reject", "{case}");
        assert!(case["decision"]["skipped"].is_array(), "{case}");
    }
    let junit = run(directory.path(), &[&BUILTIN_ARGS[..], &["-o", "junit"]].concat(), 0);
    assert!(junit.contains("classname=\"plain-bundle.PBF-01\""), "{junit}");
    assert!(junit.contains(" failures=\"0\" errors=\"0\" time=\""), "{junit}");
    // With a filter, the command runs fewer cases and does not report coverage.
    let said = run(directory.path(), &[&BUILTIN_ARGS[..], &["--filter", "PBF-01"]].concat(), 0);
    assert!(said.contains(" filtered out") && !said.contains("PBF-02"), "{said}");
    let said =
        run(directory.path(), &[&BUILTIN_ARGS[..], &["--filter", "no such case"]].concat(), 2);
    assert!(said.contains("has no such case"), "{said}");
}

#[test]
fn failing_case_is_reported_with_its_location() {
    let directory = directory(CASE_FILE);
    for path in [".", "evil.component.wasm"] {
        let said = run(directory.path(), &[path], 1);
        assert!(said.contains("EVIL-1 / nothing to do ... ok"), "{said}");
        assert!(said.contains("EVIL-1 / denies ... FAILED"), "{said}");
        assert!(
            said.contains("cases/EVIL-1.yaml:7: EVIL-1 / denies\n  - deny EVIL-1 old\n"),
            "{said}"
        );
        assert!(said.contains("result: FAILED. 1 passed, 1 failed"), "{said}");
    }
    let junit = run(directory.path(), &[".", "-o", "junit"], 1);
    assert!(junit.contains("file=\"./cases/EVIL-1.yaml\" line=\"7\""), "{junit}");
    assert!(junit.contains("<failure message=\"- deny EVIL-1 old\">"), "{junit}");
}

#[test]
fn uncovered_rule_fails_the_test() {
    let directory = directory("rule: EVIL-1\naccept:\n- name: nothing to do\n  create: bundle\n");
    let said = run(directory.path(), &["."], 1);
    assert!(said.contains("Not covered:\n  EVIL-1: no case below reject in EVIL-1.yaml"), "{said}");
    let json = run(directory.path(), &[".", "-o", "json"], 1);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["notCovered"][0]["lacks"], serde_json::json!(["reject"]));
}

#[test]
fn policy_error_fails_the_test_run() {
    let directory = directory(&CASE_FILE.replace("do: many-violations, number: 1", "do: recurse"));
    let said = run(directory.path(), &["."], 3);
    assert!(said.contains("EVIL-1 / denies ... ERROR"), "{said}");
    assert!(said.contains("no verdict: ran out of stack"), "{said}");
}

#[test]
fn invalid_case_files_report_line() {
    for (cases, expected) in [
        (
            "rule: EVIL-1\naccept:\n- name: a\n  creat: bundle\n",
            "cases/EVIL-1.yaml:4: a: unknown field `creat`",
        ),
        ("rule: EVIL-2\naccept: []\n", "cases/EVIL-1.yaml:1: `rule` is \"EVIL-2\""),
        ("rule: EVIL-1\naccept: [\n", "cases/EVIL-1.yaml:2: "),
    ] {
        let directory = directory(cases);
        let said = run(directory.path(), &["."], 2);
        assert!(said.contains(expected), "{said}");
    }
    let directory = directory(CASE_FILE);
    fs::rename(
        directory.path().join("cases/EVIL-1.yaml"),
        directory.path().join("cases/EVIL-2.yaml"),
    )
    .unwrap();
    write(&directory, "cases/EVIL-2.yaml", CASE_FILE.replace("EVIL-1", "EVIL-2"));
    let said = run(directory.path(), &["."], 2);
    assert!(said.contains("hostile has no rule \"EVIL-2\"; did you mean \"EVIL-1\"?"), "{said}");
    for (arguments, expected) in [
        (&[][..], "name a component"),
        (&["nowhere"], "nowhere: No such file"),
        (&["cases"], "has no opgate.yaml"),
        (&["--policy", "nobody"], "there is no policy \"nobody\""),
        (&["opgate.yaml"], "text, not WebAssembly"),
    ] {
        let done = opgate(directory.path(), &[&["policy", "test"], arguments].concat());
        let said = err(&done);
        assert!(done.status.code() >= Some(2) && said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn update_writes_verdicts_into_failing_cases() {
    let directory = directory(CASE_FILE);
    let path = directory.path().join("cases/EVIL-1.yaml");
    let said = run(directory.path(), &[".", "--update"], 0);
    assert!(said.contains("updated EVIL-1 / denies in EVIL-1.yaml"), "{said}");
    assert!(said.contains("1 passed, 0 failed, 1 updated"), "{said}");
    let written = fs::read_to_string(&path).unwrap();
    let kept = |line: &str| written.lines().any(|other| other == line);
    assert!(CASE_FILE.lines().filter(|line| !line.contains("message")).all(kept), "{written}");
    assert!(!written.contains("message: old"), "{written}");
    run(directory.path(), &["."], 0);
    // What holds is left alone, and what a case cannot say is not written.
    run(directory.path(), &[".", "--update"], 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
    let moved = CASE_FILE
        .replace("settings: {do: many-violations, number: 1}\n  message: old", "message: old");
    fs::write(&path, &moved).unwrap();
    let said = run(directory.path(), &[".", "--update"], 1);
    assert!(said.contains("not updated EVIL-1 / denies: it is below `reject`"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), moved);
}

/// A directory that is tested can be anyone's.
#[test]
fn update_writes_through_no_link() {
    let directory = directory(CASE_FILE);
    let outside = directory.path().join("outside.yaml");
    let path = directory.path().join("cases/EVIL-1.yaml");
    fs::rename(&path, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    let said = run(directory.path(), &[".", "--update"], 1);
    let expected = "not updated EVIL-1 / denies: ";
    assert!(said.contains(expected) && said.contains("EVIL-1.yaml: not a regular file"), "{said}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), CASE_FILE);
}

#[test]
fn watch_reruns_tests_after_a_change() {
    let directory = directory(CASE_FILE);
    let mut child = Command::new(BINARY)
        .args(["policy", "test", ".", "--watch"])
        .current_dir(directory.path())
        .env("OPGATE_CACHE_DIR", directory.path().join("cache"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut results = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut result = || {
        let line = results.find(|line| line.as_ref().unwrap().starts_with("result: "));
        line.unwrap().unwrap()
    };
    assert!(result().contains("FAILED"));
    assert!(said.any(|line| line.unwrap().contains("watching ")));
    write(
        &directory,
        "cases/EVIL-1.yaml",
        CASE_FILE.replace("  message: old", "  messagePrefix: \"\""),
    );
    assert!(result().contains("result: ok"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn benchmark_reports_the_cost_of_a_policy() {
    let directory = directory(&CASE_FILE.replace("  message: old", "  messagePrefix: \"\""));
    let bench = |arguments: &[&str]| {
        opgate(directory.path(), &[&["policy", "bench", "--calls", "20"], arguments].concat())
    };
    let done = bench(&[".", "-o", "json"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let json: Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(
        (&json["calls"], &json["reviews"], &json["faults"]),
        (&20.into(), &2.into(), &0.into())
    );
    assert!(
        json["loadCachedMicroseconds"].is_number() && json["memory"].as_u64() > Some(0),
        "{json}"
    );
    let table = out(&bench(&["evil.component.wasm"]));
    for line in [
        "load, cold",
        "load, cached",
        "evaluation, p50",
        "evaluation, p99",
        "host calls",
        "fast path",
    ] {
        assert!(table.contains(line), "{line}: {table}");
    }
    write(&directory, "none.json", "[]");
    let none = bench(&[".", "none.json"]);
    assert_eq!(none.status.code(), Some(2), "{}", out(&none));
}
