//! What `opgate policy test`, `bench` and `inspect` report about mistakes of authors: cases that show nothing, errors,
//! and rules that miss requests.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use testkit::hostile_component;

use crate::cli::{err, opgate, out, write};

const SHARED_OBJECTS: &str = "\
namespace: {apiVersion: v1, kind: Namespace, metadata: {name: a}}
pod: {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: a}, spec: {containers: [{name: a}]}}
large:
  apiVersion: apps/v1
  kind: Deployment
  metadata: {name: a, namespace: a}
  spec: {replicas: 11}
";

const REPLICA_CASES: &str = "\
rule: WRK-1
accept:
- name: an approval
  create: large
  with: {/metadata/annotations: {approved: 'yes'}}
reject:
- name: no approval
  create: large
  message: more than 10 replicas need an approval
";

const POD_CASES: &str = "\
rule: WRK-2
accept:
- name: a limit
  create: pod
  with: {/spec/containers/0/resources: {limits: {memory: 1Gi}}}
reject:
- name: no limit
  create: pod
  message: the container has no limit of memory
";

/// The policy for Deployments and Pods, with its cases.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(hostile_component("workloads"), directory.path().join("workloads.wasm")).unwrap();
    let configuration = "\
apiVersion: opgate.dev/v1alpha1
kind: Configuration
policies:
  - name: workloads
    module: workloads.wasm
";
    write(&directory, "opgate.yaml", configuration);
    write(&directory, "cases/objects.yaml", SHARED_OBJECTS);
    write(&directory, "cases/WRK-1.yaml", REPLICA_CASES);
    write(&directory, "cases/WRK-2.yaml", POD_CASES);
    directory
}

fn run(directory: &TempDir, arguments: &[&str], status: i32) -> String {
    let done = opgate(directory.path(), arguments);
    assert_eq!(done.status.code(), Some(status), "{arguments:?}: {}{}", out(&done), err(&done));
    format!("{}{}", out(&done), err(&done))
}

#[test]
fn accepted_case_that_its_rule_does_not_evaluate_fails() {
    let directory = directory();
    run(&directory, &["policy", "test", "."], 0);
    for (case, reason) in [
        ("create: namespace", "it matches other resources: deployments.apps, pods"),
        ("delete: pod", "it matches other operations: CREATE"),
        ("create: large", "its policy matches the request for other rules: WRK-1"),
        ("create: pod\n  settings: {rules: {WRK-2: 'off'}}", "its rule for this is off: WRK-2"),
    ] {
        let more = format!("accept:\n- name: another\n  {case}\n");
        let cases = POD_CASES.replace("accept:\n", &more);
        // The object violates the other rule.
        let cases = cases.replace("rule: WRK-2\n", "rule: WRK-2\notherRules: ignored\n");
        write(&directory, "cases/WRK-2.yaml", &cases);
        let said = run(&directory, &["policy", "test", "."], 1);
        assert!(said.contains("WRK-2 / another ... FAILED"), "{case}: {said}");
        let vacuous = "vacuous: WRK-2 does not evaluate the request: ";
        assert!(said.contains(vacuous) && said.contains(reason), "{case}: {said}");
        // It is right if that is what the case shows.
        let stated = cases.replace("name: another\n", "name: another\n  matches: false\n");
        write(&directory, "cases/WRK-2.yaml", stated);
        run(&directory, &["policy", "test", "."], 0);
    }
    let wrong = POD_CASES.replace("name: a limit\n", "name: a limit\n  matches: false\n");
    write(&directory, "cases/WRK-2.yaml", wrong);
    let junit = run(&directory, &["policy", "test", ".", "-o", "junit"], 1);
    assert!(
        junit.contains("<failure message=\"it has `matches: false`, and WRK-2 evaluates the"),
        "{junit}"
    );
    let rejected = POD_CASES.replace("name: no limit\n", "name: no limit\n  matches: false\n");
    write(&directory, "cases/WRK-2.yaml", rejected);
    let said = run(&directory, &["policy", "test", "."], 2);
    assert!(said.contains("`matches: false` is only for accepted cases"), "{said}");
}

#[test]
fn partial_ratcheting_and_missing_scale_are_found() {
    let directory = directory();
    for path in [".", "workloads.wasm"] {
        let said = run(&directory, &["policy", "inspect", "-o", "json", path], 1);
        let shown: Value = serde_json::from_str(&said).unwrap();
        let findings: Vec<_> = shown["findings"].as_array().unwrap().iter().collect();
        let kinds: Vec<_> = findings.iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["scale", "ratcheting"], "{path}: {said}");
        let messages: Vec<_> = findings.iter().map(|it| it["message"].as_str().unwrap()).collect();
        assert!(messages[0].contains("not deployments/scale: `kubectl scale`"), "{messages:?}");
        let update = "WRK-1 accepts the update from the object of its accepted case \"an approval\" to that of its rejected case \"no approval\"";
        assert!(messages[1].starts_with(update), "{messages:?}");
    }
    // Without cases, the updates are unknown.
    fs::remove_dir_all(directory.path().join("cases")).unwrap();
    let said = run(&directory, &["policy", "inspect", "."], 1);
    assert!(said.contains("finding  scale") && !said.contains("ratcheting:"), "{said}");
}

#[test]
fn source_directory_is_built_before_it_is_inspected() {
    let directory = directory();
    fs::rename(directory.path().join("workloads.wasm"), directory.path().join("source")).unwrap();
    write(&directory, "Makefile", "workloads.wasm: source\n\tcp source workloads.wasm\n");
    let said = run(&directory, &["policy", "inspect", ".", "--no-build"], 2);
    assert!(said.contains("workloads.wasm"), "{said}");
    run(&directory, &["policy", "inspect", "."], 1);
    assert!(directory.path().join("workloads.wasm").is_file());
    // Of another version, the old component would be a surprise.
    fs::copy(hostile_component("misbehaves"), directory.path().join("source")).unwrap();
    let said = run(&directory, &["policy", "inspect", ".", "--no-build"], 1);
    assert!(said.starts_with("workloads "), "{said}");
    let said = run(&directory, &["policy", "inspect", "."], 1);
    assert!(said.starts_with("hostile "), "{said}");
}

#[test]
fn policy_error_is_printed_once() {
    let directory = directory();
    fs::copy(hostile_component("misbehaves"), directory.path().join("workloads.wasm")).unwrap();
    fs::remove_dir_all(directory.path().join("cases")).unwrap();
    let cases = "\
rule: EVIL-1
accept:
- name: a
  create: {apiVersion: core.rukpak.io/v1alpha1, kind: Bundle, metadata: {name: a}}
  settings: {do: panic}
";
    write(&directory, "cases/EVIL-1.yaml", cases);
    let bundle = "{apiVersion: core.rukpak.io/v1alpha1, kind: Bundle, metadata: {name: a}}";
    write(&directory, "bundle.yaml", bundle);
    let settings = fs::read_to_string(directory.path().join("opgate.yaml")).unwrap();
    write(&directory, "opgate.yaml", format!("{settings}    settings: {{do: panic}}\n"));
    for arguments in [
        &["policy", "test", "."][..],
        &["policy", "bench", "."],
        &["check", "--config", "opgate.yaml", "bundle.yaml"],
        &["check", "--config", "opgate.yaml", "-o", "json", "bundle.yaml"],
    ] {
        let said = run(&directory, arguments, 3);
        assert_eq!(said.matches("panicked at").count(), 1, "{arguments:?}: {said}");
        // The log has it as well, if that is asked for.
        let verbose = run(&directory, &[arguments, &["-v"]].concat(), 3);
        let is_logged = verbose.contains("policy evaluation failed");
        assert_eq!(is_logged, !arguments.contains(&"bench"), "{arguments:?}: {verbose}");
    }
}

#[test]
fn benchmark_of_a_manifest_names_the_command_that_makes_a_review() {
    let directory = directory();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    write(&directory, "pod.yaml", pod);
    let said = run(&directory, &["policy", "bench", ".", "pod.yaml"], 2);
    assert!(said.contains("`opgate review new -f pod.yaml > review.json`"), "{said}");
    let review = opgate(directory.path(), &["review", "new", "-f", "pod.yaml"]);
    write(&directory, "review.json", out(&review));
    run(&directory, &["policy", "bench", "--calls", "20", ".", "review.json"], 0);
    write(&directory, "other.json", "{\"a\": 1}");
    let said = run(&directory, &["policy", "bench", ".", "other.json"], 2);
    assert!(!said.contains("review new"), "{said}");
}

/// Tools that the tests of a language need, as programs that print their arguments.
#[test]
fn coverage_is_measured_by_the_tool_of_the_language() {
    let directory = directory();
    let tool = "#!/bin/sh\necho \"tool: $0 $*\"\n";
    write(&directory, "bin/npm", tool);
    write(
        &directory,
        "bin/cargo",
        "#!/bin/sh\n[ \"$2\" = --version ] && exit 0\necho \"tool: $0 $*\"\n",
    );
    write(&directory, "bin/cargo-without", "#!/bin/sh\nexit 101\n");
    for name in ["npm", "cargo", "cargo-without"] {
        use std::os::unix::fs::PermissionsExt as _;
        let path = directory.path().join("bin").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let test = |files: &[&str]| {
        let all = ["package.json", "Cargo.toml", "Makefile"];
        for name in all {
            let _ = fs::remove_file(directory.path().join(name));
        }
        for name in files {
            write(&directory, name, "{}");
        }
        let mut command = std::process::Command::new(crate::BINARY);
        let bin = directory.path().join("bin");
        command.args(["policy", "test", ".", "--coverage", "--no-build"]);
        command.current_dir(directory.path()).env("PATH", bin.as_os_str());
        command.env("OPGATE_CACHE_DIR", directory.path().join("cache"));
        let done = command.output().unwrap();
        (done.status.code(), format!("{}{}", out(&done), err(&done)))
    };
    let (status, said) = test(&["package.json"]);
    assert!(status == Some(0) && said.contains("/npm test -- --coverage"), "{said}");
    let (status, said) = test(&["Cargo.toml"]);
    assert!(status == Some(0) && said.contains("/cargo llvm-cov test"), "{said}");
    let bin = directory.path().join("bin");
    fs::rename(bin.join("cargo-without"), bin.join("cargo")).unwrap();
    let (status, said) = test(&["Cargo.toml"]);
    assert!(status == Some(2) && said.contains("cargo install cargo-llvm-cov"), "{said}");
    let (status, said) = test(&["Makefile"]);
    assert!(status == Some(2) && said.contains("for C, there is no line coverage"), "{said}");
}
