//! `opgate check` of any directory: what the command checks in a repository, what it skips, and the
//! limits.

use serde_json::Value;
use tempfile::TempDir;

use crate::check::{
    BUNDLE_WITHOUT_CLASS, VALID_BUNDLE, check, directory, err, out, records, rules, status, write,
};

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";

/// A part of a CRD, which kustomize puts into a whole one.
const CRD_PATCH: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things}
spec: {scope: Global}
";

/// A repository without bundles, with the files that repositories have.
fn repository() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [
        (".github/workflows/ci.yaml", "on: push\n"),
        ("OWNERS", "approvers: [a]\n"),
        ("README.md", "# x\n"),
        (".golangci.yaml", "linters: {}\n"),
        ("lint.yaml", "rules: [a, b]\n"),
        ("package.json", "{\"name\": \"x\"}"),
        ("broken.yaml", "a: [\n"),
        ("ansible/tasks.yaml", "- name: '{{ x }}'\n  debug: {}\n"),
        ("ansible/object.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: '{{ x }}'\n"),
        ("chart/Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n"),
        ("chart/values.yaml", "a: 1\n"),
        ("chart/templates/a.yaml", "kind: {{ .Values.kind }}\n"),
        ("config/crd/kustomization.yaml", "resources: [crd.yaml]\npatches: [{path: patch.yaml}]\n"),
        ("config/crd/crd.yaml", CRD),
        ("config/crd/patch.yaml", CRD_PATCH),
        ("config/crd/patch.json", "[{\"op\": \"remove\", \"path\": \"/spec/x\"}]"),
        ("catalog/x-template.yaml", "schema: olm.template.basic\nentries: []\n"),
        ("manifests/OWNERS", "reviewers: [a]\n"),
        ("manifests/good.yaml", VALID_BUNDLE),
    ] {
        write(&directory, name, content);
    }
    std::os::unix::fs::symlink("config", directory.path().join("link")).unwrap();
    directory
}

#[test]
fn repository_without_violations_passes_and_the_rest_is_counted() {
    let directory = repository();
    let output = check(&directory, &["."]);
    assert_eq!(status(&output), 0, "{}{}", out(&output), err(&output));
    for line in [
        "1 file passed over: templates of the chart ./chart; to check them, run `helm template ./chart | opgate check -`",
        "1 file passed over: templates of opm; to check them, render the catalog",
        "1 file passed over: neither JSON nor YAML; -v names them",
        "2 passed, 0 denied, 0 errors, 1 not evaluated",
    ] {
        assert!(err(&output).contains(line), "{line}: {}", err(&output));
    }
    let reason = "./config/crd/patch.yaml: not evaluated CustomResourceDefinition things: a patch of ./config/crd/kustomization.yaml, not an object";
    assert!(out(&output).contains(reason), "{}", out(&output));
    let output = check(&directory, &["-v", "."]);
    for line in [
        "./package.json: passed over: no Kubernetes objects and no catalog",
        "./ansible/object.yaml: passed over: a template",
        "./broken.yaml: passed over: 1:4: not YAML",
    ] {
        assert!(err(&output).contains(line), "{line}: {}", err(&output));
    }
    // What is named is meant.
    for (path, code) in [
        ("package.json", 2),
        ("lint.yaml", 2),
        ("broken.yaml", 2),
        ("config/crd/patch.yaml", 0),
        ("catalog/x-template.yaml", 0),
    ] {
        let output = check(&directory, &[path]);
        assert_eq!(status(&output), code, "{path}: {}", err(&output));
    }
    // Outside of the reach of a kustomization, it is an object.
    std::fs::remove_file(directory.path().join("config/crd/kustomization.yaml")).unwrap();
    let (code, found) = records(&directory, &["config/crd/patch.yaml"]);
    assert_eq!((code, rules(&found[0]).contains(&"CRD-03")), (1, true), "{found:?}");
}

#[test]
fn broken_manifest_fails_and_the_others_are_checked() {
    let directory = repository();
    write(&directory, "apps/broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n");
    write(&directory, "apps/classless.yaml", BUNDLE_WITHOUT_CLASS);
    let output = check(&directory, &["."]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    let error = "error: ./apps/broken.yaml:3:11: not YAML";
    assert!(err(&output).contains(error), "{}", err(&output));
    assert!(out(&output).contains("apps/classless.yaml:5:1: deny RPK-12"), "{}", out(&output));
}

const SUBSCRIPTION: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: NAME, namespace: operators EXPORTED}
spec: {name: etcd, source: community-operators, sourceNamespace: openshift-marketplace, channel: stable}
";

#[test]
fn exported_object_is_not_taken_as_cluster_state() {
    let directory = tempfile::tempdir().unwrap();
    for (name, exported) in [("a", ", uid: u, resourceVersion: '1'"), ("b", "")] {
        let text = SUBSCRIPTION.replace("NAME", name).replace(" EXPORTED", exported);
        write(&directory, &format!("apps/{name}.yaml"), text);
    }
    let broken = |found: &[Value]| found.iter().any(|record| rules(record).contains(&"SUB-07"));
    for arguments in [&["apps"][..], &["apps/a.yaml", "apps/b.yaml"]] {
        let (_, found) = records(&directory, arguments);
        assert!(found.len() == 2 && !broken(&found), "{found:?}");
    }
    let (_, found) = records(&directory, &["--input-type", "cluster", "apps"]);
    assert!(broken(&found), "{found:?}");
}

#[test]
fn size_limit_applies_to_each_bundle_as_one_error() {
    let directory = directory();
    for number in 0..4 {
        let status = std::process::Command::new("cp")
            .args(["-r", "bundle-valid", &format!("all-{number}")])
            .current_dir(directory.path())
            .status();
        assert!(status.unwrap().success());
    }
    let all = ["all-0", "all-1", "all-2", "all-3"];
    // One of them fits, all of them together do not.
    let (code, found) = records(&directory, &[&["--max-input-size", "48Ki"][..], &all].concat());
    assert_eq!((code, found.len()), (0, 4), "{found:?}");
    let large = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata: {{a: {}}}\n",
        "x".repeat(60_000)
    );
    for number in 0..3 {
        write(&directory, &format!("all-1/manifests/large-{number}.yaml"), &large);
    }
    let output =
        check(&directory, &[&["--max-input-size", "48Ki", "-o", "jsonl"][..], &all].concat());
    assert_eq!(status(&output), 2, "{}", err(&output));
    let errors: Vec<_> =
        err(&output).lines().filter(|l| l.starts_with("error")).map(str::to_owned).collect();
    assert_eq!(errors, ["error: all-1: more to read than 48Ki: allow more with --max-input-size"]);
    let records: Vec<Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let violations = records.iter().filter_map(|record| record["violations"].as_array());
    assert_eq!(violations.map(Vec::len).sum::<usize>(), 0, "{records:?}");
    assert_eq!(records.iter().filter(|record| record["ok"] == true).count(), 3);
}
