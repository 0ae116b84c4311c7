//! Rules for Pods, evaluated for the pod templates of workloads in files.

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{example_component, hostile_component};

use crate::check::{check, err, out, records, rules, status, violations, write};

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let module = hostile_component("workloads");
    let policies = [json!({"name": "workloads", "module": module})];
    write(&directory, "policies/opgate.yaml", testkit::configuration(&policies));
    directory
}

const CONFIG: [&str; 2] = ["--config", "policies/opgate.yaml"];

fn workload(api: &str, kind: &str, spec: &str) -> String {
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: web\n  namespace: dev\nspec:\n{spec}"
    )
}

const TEMPLATE: &str = concat!(
    "  template:\n",
    "    metadata:\n",
    "      labels: {app: web}\n",
    "    spec:\n",
    "      containers:\n",
    "        - name: web\n",
    "          resources: {}\n",
);

#[test]
fn violations_in_templates_have_their_locations() {
    let nested = format!("    {}\n", TEMPLATE.trim_end().replace('\n', "\n    "));
    let cron = format!("  jobTemplate:\n    spec:\n{nested}");
    for (api, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "ReplicationController"),
    ] {
        let directory = directory();
        let spec = if kind == "CronJob" { &cron } else { TEMPLATE };
        let text = workload(api, kind, spec);
        write(&directory, "web.yaml", &text);
        let (code, records) = records(&directory, &[&CONFIG[..], &["web.yaml"]].concat());
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!((code, record["kind"].as_str(), rules(record)), (0, Some(kind), vec!["WRK-2"]));
        let violation = &violations(record)[0];
        let prefix = if kind == "CronJob" { "spec.jobTemplate.spec" } else { "spec" };
        let field = format!("{prefix}.template.spec.containers[0].resources.limits");
        assert_eq!(violation["field"], field, "{record}");
        let line = text.lines().position(|line| line.trim() == "resources: {}").unwrap() + 1;
        assert_eq!(violation["location"]["line"], line, "{record}");
        // Otherwise the object is not evaluated at all, except for the rule for Deployments.
        let arguments = [&CONFIG[..], &["--no-expand", "--require-evaluated", "web.yaml"]].concat();
        let output = check(&directory, &arguments);
        assert_eq!(status(&output), i32::from(kind != "Deployment"), "{kind}: {}", out(&output));
        assert!(!out(&output).contains("WRK-2"), "{}", out(&output));
    }
}

#[test]
fn each_object_with_templates_is_one_result() {
    let directory = directory();
    let list = "\
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: one}
  spec:
    replicas: 11
    template: {spec: {containers: [{name: a}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: two}
  spec: {containers: [{name: a}]}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: three}
  spec: {template: {}}
---
apiVersion: apps.example.com/v1
kind: Deployment
metadata: {name: four}
spec: {template: {spec: {containers: [{name: a}]}}}
";
    write(&directory, "list.yaml", list);
    let (code, records) = records(&directory, &[&CONFIG[..], &["list.yaml"]].concat());
    let found: Vec<_> = records
        .iter()
        .map(|record| {
            let lines: Vec<_> =
                violations(record).iter().map(|v| v["location"]["line"].clone()).collect();
            (record["name"].as_str().unwrap(), rules(record), lines)
        })
        .collect();
    let expected: Vec<(&str, Vec<&str>, Vec<Value>)> = vec![
        ("one", vec!["WRK-1", "WRK-2"], vec![json!(8), json!(9)]),
        ("two", vec!["WRK-2"], vec![json!(13)]),
        ("three", vec![], vec![]),
        ("four", vec![], vec![]),
    ];
    assert_eq!((code, found), (1, expected));
}

/// PSA-09 evaluates Pods and Deployments, a `ReplicaSet` only by its Pods.
#[test]
fn rule_that_evaluates_the_workload_reports_once() {
    let directory = tempfile::tempdir().unwrap();
    let policies = [json!({
        "name": "pod-security",
        "rules": {"PSA-09": "deny"},
        "settings": {"psa": {"checkWorkloads": true}},
    })];
    write(&directory, "policies/opgate.yaml", testkit::configuration(&policies));
    let template = TEMPLATE.replace("resources: {}", "securityContext: {runAsUser: 1000}");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: dev, labels: {pod-security.kubernetes.io/enforce: restricted}}\n";
    let mut messages = Vec::new();
    for kind in ["Deployment", "ReplicaSet"] {
        let text = workload("apps/v1", kind, &template);
        write(&directory, "web.yaml", format!("{text}---\n{namespace}"));
        let (code, records) = records(&directory, &[&CONFIG[..], &["web.yaml"]].concat());
        assert_eq!((code, records[0]["kind"].as_str()), (1, Some(kind)));
        let found = violations(&records[0]).iter().filter(|v| v["rule"] == "PSA-09");
        let fields: Vec<_> =
            found.map(|v| (v["field"].to_string(), v["message"].to_string())).collect();
        let distinct: std::collections::BTreeSet<_> = fields.iter().collect();
        assert!(!fields.is_empty() && distinct.len() == fields.len(), "{kind}: {fields:?}");
        assert!(fields.iter().all(|(field, _)| field.contains("spec.template.spec")), "{fields:?}");
        messages.push(fields);
    }
    assert_eq!(messages[0].len(), messages[1].len(), "{messages:?}");
}

#[test]
fn unchanged_template_creates_no_pods() {
    let directory = directory();
    let before = workload("apps/v1", "Deployment", TEMPLATE);
    write(&directory, "old.yaml", &before);
    write(
        &directory,
        "same.yaml",
        before.replace("spec:\n  template", "spec:\n  replicas: 2\n  template"),
    );
    write(&directory, "changed.yaml", before.replace("app: web", "app: shop"));
    for (file, expected) in [("same.yaml", 0), ("changed.yaml", 1)] {
        let arguments = [&CONFIG[..], &["--baseline", "old.yaml", file]].concat();
        let (_, records) = records(&directory, &arguments);
        assert_eq!(violations(&records[0]).len(), expected, "{file}: {records:?}");
    }
}

#[test]
fn explanation_names_the_workload_of_the_pod() {
    let directory = directory();
    write(&directory, "web.yaml", workload("apps/v1", "Deployment", TEMPLATE));
    let output = check(&directory, &[&CONFIG[..], &["--explain", "web.yaml"]].concat());
    assert!(out(&output).contains("web.yaml: Pod of Deployment dev/web\n"), "{}", out(&output));
    assert_eq!(status(&output), 0, "{}", err(&output));
}

/// MSC-20 evaluates the metadata of all objects, also of the workload, which has no template in it.
#[test]
fn rule_reports_the_template_if_it_says_nothing_about_it() {
    let directory = tempfile::tempdir().unwrap();
    let workload = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: a
  labels: {size: 1}
spec:
  template:
    metadata:
      labels: {size: 1, ready: yes}
    spec: {containers: []}
";
    write(&directory, "web.yaml", workload);
    let (code, records) = records(&directory, &["web.yaml"]);
    let found: Vec<_> = violations(&records[0])
        .iter()
        .map(|violation| {
            let text = |name: &str| violation[name].as_str().unwrap();
            let pointer = violation["fix"]["edits"][0]["pointer"].as_str().unwrap();
            (text("rule"), text("field"), pointer, violation["location"]["line"].as_u64())
        })
        .collect();
    let expected = [
        ("MSC-20", "metadata.labels[size]", "/metadata/labels/size", Some(5)),
        (
            "MSC-20",
            "spec.template.metadata.labels[size]",
            "/spec/template/metadata/labels/size",
            Some(9),
        ),
        (
            "MSC-20",
            "spec.template.metadata.labels[ready]",
            "/spec/template/metadata/labels/ready",
            Some(9),
        ),
    ];
    assert_eq!((code, found), (0, expected.to_vec()));
}

/// A Deployment that had a violation may keep it, and its new Pods are denied as those of a `ReplicaSet`.
#[test]
fn kept_violation_of_a_workload_denies_its_new_pods() {
    let directory = tempfile::tempdir().unwrap();
    let policies = [json!({"name": "resources", "module": example_component("resources")})];
    write(&directory, "policies/opgate.yaml", testkit::configuration(&policies));
    for kind in ["Deployment", "ReplicaSet"] {
        let old = workload("apps/v1", kind, TEMPLATE);
        write(&directory, "old.yaml", &old);
        write(&directory, "new.yaml", old.replace("app: web", "app: shop"));
        let arguments = [&CONFIG[..], &["--baseline", "old.yaml", "new.yaml"]].concat();
        let (code, records) = records(&directory, &arguments);
        let fields: Vec<_> =
            violations(&records[0]).iter().map(|it| it["field"].as_str().unwrap()).collect();
        let container = "spec.template.spec.containers[0].resources";
        assert!(code == 1 && fields.len() == 3, "{kind}: {records:?}");
        assert!(fields.iter().all(|field| field.starts_with(container)), "{kind}: {fields:?}");
    }
}

/// PSA-09 and PSA-15 match a Deployment and its Pod, and PSA-09 cannot evaluate either.
#[test]
fn workload_without_evaluated_rules_is_not_evaluated() {
    let directory = tempfile::tempdir().unwrap();
    let off = ["PSA-08", "PSA-10", "PSA-11", "PSA-13", "PSA-14", "PSA-15", "PSA-16"];
    let off: serde_json::Map<_, _> =
        off.map(|rule| (rule.to_owned(), json!("off"))).into_iter().collect();
    let policies = [json!({
        "name": "pod-security",
        "rules": off,
        "settings": {"psa": {"checkWorkloads": true}},
    })];
    write(&directory, "policies/opgate.yaml", testkit::configuration(&policies));
    write(&directory, "web.yaml", workload("apps/v1", "Deployment", TEMPLATE));
    for expansion in [&[][..], &["--no-expand"]] {
        let arguments = ["--require-evaluated", "--explain", "web.yaml"];
        let output = check(&directory, &[&CONFIG[..], expansion, &arguments].concat());
        assert_eq!(status(&output), 1, "{expansion:?}: {}", out(&output));
        assert!(!out(&output).contains("1 rule evaluated (PSA-09)"), "{}", out(&output));
    }
}

/// PSA-08 reports the namespace, which no template has.
#[test]
fn namespace_of_a_pod_is_reported_in_its_workload() {
    let directory = tempfile::tempdir().unwrap();
    for (api, kind) in [("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet")] {
        let text = workload(api, kind, TEMPLATE).replace("namespace: dev", "namespace: default");
        write(&directory, "web.yaml", text);
        let (_, records) = records(&directory, &["web.yaml"]);
        let found = violations(&records[0]).iter().filter(|it| it["rule"] == "PSA-08");
        let found: Vec<_> =
            found.map(|it| (it["field"].clone(), it["location"]["line"].clone())).collect();
        assert_eq!(found, [(json!("metadata.namespace"), json!(5))], "{kind}: {records:?}");
    }
}
