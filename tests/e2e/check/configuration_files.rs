//! A configuration next to the checked files: it applies only if the command names it.

use serde_json::json;
use testkit::hostile_component;

use crate::check::{check, check_stdin, err, out, status, write};

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: a}
spec: {containers: [{name: a}]}
";

/// A directory of a policy: its configuration, a manifest, and files that are none.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let module = hostile_component("workloads");
    let policies = [json!({"name": "workloads", "module": module})];
    write(&directory, "opgate.yaml", testkit::configuration(&policies));
    write(&directory, "pod.yaml", POD);
    write(&directory, "cases/WRK-2.yaml", "rule: WRK-2\naccept: []\n");
    directory
}

#[test]
fn configuration_that_is_not_used_is_reported() {
    let directory = directory();
    let hint = "opgate.yaml: not used: its policies evaluate nothing here; to use it, add --config";
    for paths in [&["."][..], &["pod.yaml"], &[".", "pod.yaml"]] {
        let output = check(&directory, paths);
        assert_eq!(status(&output), 0, "{paths:?}: {}", err(&output));
        assert_eq!(err(&output).matches(hint).count(), 1, "{paths:?}: {}", err(&output));
        let required = check(&directory, &[&["--require-evaluated"], paths].concat());
        assert_eq!(status(&required), 1, "{paths:?}: {}", err(&required));
    }
    let output = check_stdin(&directory, &["-"], POD.as_bytes());
    assert!(err(&output).contains(hint), "{}", err(&output));
    // From another directory.
    let path = directory.path().join("pod.yaml");
    let elsewhere = tempfile::tempdir().unwrap();
    let output = check(&elsewhere, &[path.to_str().unwrap()]);
    let named = format!("--config {}", directory.path().join("opgate.yaml").display());
    assert!(err(&output).contains(&named), "{}", err(&output));
    // It is used.
    for paths in [&["."][..], &["pod.yaml"]] {
        let arguments = ["--config", "opgate.yaml", "--require-evaluated"];
        let output = check(&directory, &[&arguments, paths].concat());
        assert!(out(&output).contains("warn WRK-2"), "{}", out(&output));
        assert_eq!((status(&output), err(&output).contains("not used")), (0, false));
    }
    // Another file of this name is no configuration.
    write(&directory, "opgate.yaml", "a: [\n");
    let output = check(&directory, &["--require-evaluated", "pod.yaml"]);
    assert_eq!((status(&output), err(&output).contains("not used")), (0, false));
}

#[test]
fn command_that_explains_a_rule_names_the_configuration() {
    let directory = directory();
    let deployment = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: a}
spec: {replicas: 11}
";
    write(&directory, "deployment.yaml", deployment);
    let output = check(&directory, &["--config", "opgate.yaml", "deployment.yaml"]);
    let command = "opgate rules explain --config opgate.yaml WRK-1";
    assert!(out(&output).contains(&format!("details: {command}\n")), "{}", out(&output));
    let html = check(&directory, &["--config", "opgate.yaml", "-o", "html", "deployment.yaml"]);
    assert!(out(&html).contains(command), "{}", out(&html));
    // The printed command works.
    let arguments: Vec<_> = command.split(' ').skip(1).collect();
    let explained = crate::check::command(directory.path(), &arguments).output().unwrap();
    assert_eq!(status(&explained), 0, "{}", err(&explained));
    // Built-in rules are known without it.
    write(
        &directory,
        "built-in.yaml",
        testkit::configuration(&[json!({"name": "bundle-immutability"})]),
    );
    write(&directory, "bundle.yaml", crate::check::BUNDLE_WITHOUT_CLASS);
    let output = check(&directory, &["--config", "built-in.yaml", "bundle.yaml"]);
    assert!(out(&output).contains("details: opgate rules explain RPK-12\n"), "{}", out(&output));
}
