//! `opgate policy test --record`: the objects of a cluster that a case reads become part of it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fake_api_server::{FakeCluster, Scope};

use crate::cli::{err, opgate, out, write};

const OLM: &str = "operators.coreos.com";

const CASES: &str = "\
rule: OPG-01
otherRules: ignored
accept:
- name: the first group  # of a namespace
  create: group
  with: {/metadata/namespace: empty}
- name: no cluster needed
  matches: false
  update: [group, group]
reject:
- name: a second group
  # It is in the same namespace.
  create: group
  messagePrefix: ''
skip:
- name: without a cluster
  create: group
  cluster: none
";

const SHARED_OBJECTS: &str = "\
group:
  apiVersion: operators.coreos.com/v1
  kind: OperatorGroup
  metadata: {name: second, namespace: team}
  spec: {targetNamespaces: [team]}
";

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "cases/objects.yaml", SHARED_OBJECTS);
    write(&directory, "cases/OPG-01.yaml", CASES);
    directory
}

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install(OLM, "v1", "operatorgroups", "OperatorGroup", Scope::Namespaced);
    let group = |namespace: &str, name: &str| {
        json!({
            "apiVersion": "operators.coreos.com/v1",
            "kind": "OperatorGroup",
            "metadata": {
                "name": name, "namespace": namespace, "uid": "1", "labels": {"a": "b"},
                "annotations": {"confidential": "yes"},
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"targetNamespaces": [namespace]},
            "status": {"namespaces": [namespace]},
        })
    };
    cluster.apply(OLM, "v1", "operatorgroups", group("team", "first"));
    cluster.apply(OLM, "v1", "operatorgroups", group("other", "third"));
    cluster
}

/// What the command prints, after a status.
fn record(directory: &Path, kubeconfig: &str, more: &[&str], status: i32) -> String {
    let arguments = ["policy", "test", "--policy", "operator-group", "--cases", "cases"];
    let record = ["--record", "--kubeconfig", kubeconfig];
    let done = opgate(directory, &[&arguments, &record[..], more].concat());
    let said = format!("{}{}", out(&done), err(&done));
    assert_eq!(done.status.code(), Some(status), "{said}");
    said
}

#[test]
fn case_gets_the_objects_that_it_reads() {
    let (directory, cluster) = (directory(), cluster());
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    // All rules but one are not covered.
    let said = record(directory.path(), kubeconfig, &["-o", "json"], 1);
    let result: Value = serde_json::from_str(said.split("\nrecorded ").next().unwrap()).unwrap();
    assert_eq!((&result["failed"], &result["errors"]), (&json!(0), &json!(0)), "{result}");
    let lines: Vec<_> =
        result["updated"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let a_second = "recorded OPG-01 / a second group in OPG-01.yaml: 1 object";
    assert!(lines.contains(&a_second), "{lines:?}");
    let path = directory.path().join("cases/OPG-01.yaml");
    let written = fs::read_to_string(&path).unwrap();
    // Only declared fields of the object that was read, and no version.
    let recorded = "\
- name: a second group
  # It is in the same namespace.
  create: group
  messagePrefix: ''
  cluster:
    - apiVersion: operators.coreos.com/v1
      kind: OperatorGroup
      metadata:
";
    assert!(written.contains(recorded), "{written}");
    assert!(written.contains("        name: first\n"), "{written}");
    for other in ["third", "confidential", "managedFields", "resourceVersion", "uid"] {
        assert!(!written.contains(other), "{other}: {written}");
    }
    assert!(written.contains("# of a namespace") && written.contains("cluster: none"), "{written}");
    // From now on, the case holds without the cluster.
    drop(cluster);
    let done = opgate(
        directory.path(),
        &["policy", "test", "--policy", "operator-group", "--cases", "cases", "--filter", "OPG-01"],
    );
    assert_eq!(done.status.code(), Some(0), "{}", out(&done));
}

#[test]
fn recorded_case_is_recorded_again_only_if_it_is_selected() {
    let (directory, cluster) = (directory(), cluster());
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    record(directory.path(), kubeconfig, &[], 1);
    let path = directory.path().join("cases/OPG-01.yaml");
    let before = fs::read_to_string(&path).unwrap();
    cluster.delete(OLM, "operatorgroups", "team", "first");
    let said = record(directory.path(), kubeconfig, &[], 1);
    assert!(!said.contains("recorded OPG-01 / a second group"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    // There is no group any more, so that the case fails.
    let said = record(directory.path(), kubeconfig, &["--filter", "a second group"], 1);
    assert!(said.contains("recorded OPG-01 / a second group in OPG-01.yaml: 0 objects"), "{said}");
    assert!(fs::read_to_string(&path).unwrap().contains("  cluster: []\n"));
}

#[test]
fn unreadable_cluster_changes_nothing() {
    let (directory, cluster) = (directory(), cluster());
    let kubeconfig = cluster.kubeconfig();
    cluster.forbid(OLM, "operatorgroups");
    let said = record(directory.path(), kubeconfig.to_str().unwrap(), &[], 1);
    assert!(said.contains("not recorded OPG-01 / a second group: "), "{said}");
    assert!(said.contains("operatorgroups") && said.contains("grant list"), "{said}");
    let path = directory.path().join("cases/OPG-01.yaml");
    assert_eq!(fs::read_to_string(&path).unwrap(), CASES);
    let said = record(directory.path(), "nowhere", &[], 2);
    assert!(said.contains("nowhere"), "{said}");
}
