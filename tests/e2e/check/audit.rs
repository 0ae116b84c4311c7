//! `opgate check` of what a cluster holds: as `kubectl get -A` prints it, and of a running one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use opgate::cluster::{Connection, PageBackoff};
use opgate_document::Document;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fake_api_server::{FakeCluster, Scope};

use crate::check::{check, configuration, err, out, records, rules, status, write};

const OLM: &str = "operators.coreos.com";

/// What a test cluster holds: resource type and object.
fn objects() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let object = |api: &str, kind: &str, namespace: &str, name: &str, more: Value| {
        let mut object = json!({
            "apiVersion": api, "kind": kind,
            "metadata": {
                "name": name, "uid": format!("{kind}-{namespace}-{name}"), "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 2,
                "managedFields": [{"manager": "kubectl", "fieldsType": "FieldsV1", "fieldsV1": {}}],
            },
        });
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        for (name, value) in more.as_object().unwrap() {
            match name.as_str() {
                "labels" | "annotations" | "deletionTimestamp" => {
                    object["metadata"][name] = value.clone();
                }
                _ => object[name] = value.clone(),
            }
        }
        object
    };
    let group = |namespace: &str, name: &str| {
        let more = json!({"spec": {"targetNamespaces": [namespace]}, "status": {"namespaces": [namespace]}});
        (
            OLM,
            "v1",
            "operatorgroups",
            object(&format!("{OLM}/v1"), "OperatorGroup", namespace, name, more),
        )
    };
    let csv = |namespace: &str, name: &str, more: Value| {
        let api = format!("{OLM}/v1alpha1");
        let csv = object(&api, "ClusterServiceVersion", namespace, name, more);
        (OLM, "v1alpha1", "clusterserviceversions", csv)
    };
    let namespace = |name: &str| {
        let more = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        ("", "v1", "namespaces", object("v1", "Namespace", "", name, more))
    };
    let bundle = |name: &str, more: Value| {
        let api = "core.rukpak.io/v1alpha1";
        ("core.rukpak.io", "v1alpha1", "bundles", object(api, "Bundle", "", name, more))
    };
    let sourceless = json!({"source": {"type": "image", "image": {"ref": "x@sha256:0123"}}});
    let strategy = json!({"strategy": "deployment", "spec": {"deployments": []}});
    let mode = |supported: bool| json!([{"type": "OwnNamespace", "supported": supported}]);
    let owned = json!({"owned": [{"name": "as.g.io", "version": "v1", "kind": "A"}]});
    let spec =
        |modes: Value| json!({"displayName": "x", "install": strategy, "installModes": modes});
    let mut replaced = spec(mode(true));
    replaced["customresourcedefinitions"] = owned.clone();
    let mut replacing = replaced.clone();
    replacing["replaces"] = json!("a.v1");
    vec![
        namespace("one"),
        namespace("two"),
        namespace("kube-system"),
        // Two in one namespace; one, which is none but itself.
        group("one", "first"),
        group("one", "second"),
        group("two", "only"),
        group("kube-system", "here"),
        group("kube-system", "there"),
        // OLM copied this object from a namespace that users cannot read.
        csv(
            "two",
            "copied.v1",
            json!({
                "labels": {"olm.copiedFrom": "elsewhere"},
                "annotations": {"olm.operatorNamespace": "elsewhere"},
                "spec": spec(mode(false)), "status": {"phase": "Succeeded", "reason": "Copied"},
            }),
        ),
        csv("two", "bad.v1", json!({"spec": spec(mode(false)), "status": {"phase": "Succeeded"}})),
        // One takes the place of the other.
        csv("two", "a.v1", json!({"spec": replaced, "status": {"phase": "Replacing"}})),
        csv("two", "a.v2", json!({"spec": replacing, "status": {"phase": "Succeeded"}})),
        bundle("gone", json!({"spec": sourceless, "deletionTimestamp": "2026-01-01T00:00:00Z"})),
        bundle("bad", json!({"spec": sourceless, "status": {"phase": "Unpacked"}})),
    ]
}

/// What would be refused of them, with the rules.
const DENIED_OBJECTS: [&str; 4] = [
    "OperatorGroup one/first OPG-01",
    "OperatorGroup one/second OPG-01",
    "ClusterServiceVersion two/bad.v1 CSV-32 OPG-22",
    "Bundle bad RPK-12",
];

fn denied_objects(records: &[Value]) -> Vec<String> {
    let mut all = Vec::new();
    for record in records.iter().filter(|record| record["ok"] == false) {
        let text = |name: &str| record[name].as_str().unwrap();
        let namespace = text("namespace");
        let slash = if namespace.is_empty() { "" } else { "/" };
        let mut line = format!("{} {namespace}{slash}{}", text("kind"), text("name"));
        let found = record["violations"].as_array().unwrap().iter();
        let mut found: Vec<_> = found
            .filter(|violation| violation["effect"] == "deny")
            .map(|violation| violation["rule"].as_str().unwrap())
            .collect();
        found.sort_unstable();
        for rule in found {
            write!(line, " {rule}").unwrap();
        }
        all.push(line);
    }
    all
}

fn list(objects: impl IntoIterator<Item = Value>) -> Value {
    let items: Vec<_> = objects.into_iter().collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}})
}

/// JSON as `kubectl` prints YAML: block style, names in order.
fn yaml(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (name, value)) in map.iter().enumerate() {
                let pad = if index == 0 { "" } else { &*pad };
                write!(out, "{pad}{name}:").unwrap();
                yaml_value(value, indent, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, value) in list.iter().enumerate() {
                out.push_str(if index == 0 { "- " } else { "" });
                if index > 0 {
                    write!(out, "{pad}- ").unwrap();
                }
                yaml(value, indent + 2, out);
            }
        }
        other => writeln!(out, "{other}").unwrap(),
    }
}

fn yaml_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            write!(out, "\n{}", " ".repeat(indent + 2)).unwrap();
            yaml(value, indent + 2, out);
        }
        Value::Array(list) if !list.is_empty() => {
            write!(out, "\n{}", " ".repeat(indent)).unwrap();
            yaml(value, indent, out);
        }
        other => writeln!(out, " {other}").unwrap(),
    }
}

fn print_as_kubectl(value: &Value) -> String {
    let mut text = String::new();
    yaml(value, 0, &mut text);
    text
}

#[test]
fn all_kubectl_output_formats_are_evaluated_together() {
    let directory = tempfile::tempdir().unwrap();
    let all: Vec<Value> = objects().into_iter().map(|(.., object)| object).collect();
    let whole = list(all.clone());
    write(&directory, "list.yaml", print_as_kubectl(&whole));
    write(&directory, "list.json", serde_json::to_string_pretty(&whole).unwrap());
    write(&directory, "line.json", whole.to_string());
    let documents: Vec<_> = all.iter().map(print_as_kubectl).collect();
    write(&directory, "documents.yaml", documents.join("---\n"));
    let lines: Vec<_> = all.iter().map(Value::to_string).collect();
    write(&directory, "lines.json", lines.join("\n"));
    // One list for each kind. Its elements have no `kind` and no `apiVersion`.
    let typed = |api: &str, kind: &str| {
        let of = all.iter().filter(|object| object["kind"] == kind).cloned();
        let items = of.map(|mut object| {
            object
                .as_object_mut()
                .unwrap()
                .retain(|name, _| name != "kind" && name != "apiVersion");
            object
        });
        let mut typed = list(items);
        typed["apiVersion"] = json!(api);
        typed["kind"] = json!(format!("{kind}List"));
        typed
    };
    let lists = [
        typed("v1", "Namespace"),
        typed(&format!("{OLM}/v1"), "OperatorGroup"),
        typed(&format!("{OLM}/v1alpha1"), "ClusterServiceVersion"),
        typed("core.rukpak.io/v1alpha1", "Bundle"),
    ];
    write(&directory, "nested.yaml", print_as_kubectl(&list(lists.clone())));
    let documents: Vec<_> = lists.iter().map(print_as_kubectl).collect();
    write(&directory, "typed.yaml", documents.join("---\n"));
    for (index, list) in lists.iter().enumerate() {
        write(&directory, &format!("dump/{index}.json"), list.to_string());
    }
    for path in [
        "list.yaml",
        "list.json",
        "line.json",
        "documents.yaml",
        "lines.json",
        "nested.yaml",
        "typed.yaml",
        "dump",
    ] {
        let (status, records) = records(&directory, &[path]);
        assert_eq!(
            (status, denied_objects(&records)),
            (1, DENIED_OBJECTS.map(str::to_owned).to_vec()),
            "{path}"
        );
        // Neither those on their way out nor those in kube-system.
        assert_eq!(records.len(), 9, "{path}");
    }
    let output = check(&directory, &["list.yaml"]);
    let (said, shown) = (err(&output), out(&output));
    assert!(
        shown
            .contains("4 of 9 objects would be denied today:\n  OperatorGroup one/first  OPG-01\n"),
        "{shown}"
    );
    assert!(said.contains("3 passed, 2 warned, 4 denied, 0 errors"), "{said}");
    assert!(
        said.contains("not evaluated: objects that are being deleted or replaced objects=2"),
        "{said}"
    );
    assert!(
        said.contains(
            "not evaluated: objects in kube-system, which webhooks do not match objects=3"
        ),
        "{said}"
    );
    // Findings have the places of the file.
    let text = std::fs::read_to_string(directory.path().join("list.yaml")).unwrap();
    let (_, records) = records(&directory, &["list.yaml"]);
    let first = records.iter().find(|record| record["name"] == "second").unwrap();
    let place = &first["violations"][0]["location"];
    let line = text.lines().nth(usize::try_from(place["line"].as_u64().unwrap()).unwrap() - 1);
    assert_eq!(line, Some("    namespace: \"one\""), "{place}");
    assert_eq!(place["column"], 5);
    // As manifests they are not compared with each other.
    let (_, records) =
        crate::check::records(&directory, &["--input-type", "manifest", "list.yaml"]);
    assert!(!records.iter().flat_map(rules).any(|rule| rule == "OPG-01"));
}

/// An object that the cluster stores does not show which user wrote it.
#[test]
fn rules_for_users_skip_stored_objects() {
    let directory = tempfile::tempdir().unwrap();
    let settings = json!({"operatorGroup": {"adminGroups": ["admins"]}});
    configuration(&directory, &json!([{"name": "operator-group", "settings": settings}]));
    let one = objects().into_iter().find(|(.., object)| object["metadata"]["name"] == "only");
    let mut group = one.unwrap().3;
    let found = |group: &Value, kind: &str| {
        write(&directory, "group.json", group.to_string());
        let arguments = ["--config", "opgate.yaml", "--input-type", kind, "group.json"];
        let (_, records) = records(&directory, &arguments);
        rules(&records[0]).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found(&group, "cluster"), [""; 0]);
    group["metadata"].as_object_mut().unwrap().retain(|name, _| name != "uid");
    assert_eq!(found(&group, "manifest"), ["OPG-35"]);
}

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    for (group, version, plural, kind, scope) in [
        ("", "v1", "namespaces", "Namespace", Scope::Cluster),
        ("", "v1", "secrets", "Secret", Scope::Namespaced),
        (OLM, "v1", "operatorgroups", "OperatorGroup", Scope::Namespaced),
        (OLM, "v1alpha1", "clusterserviceversions", "ClusterServiceVersion", Scope::Namespaced),
        ("core.rukpak.io", "v1alpha1", "bundles", "Bundle", Scope::Cluster),
    ] {
        cluster.install(group, version, plural, kind, scope);
    }
    for (group, version, plural, object) in objects() {
        cluster.apply(group, version, plural, object);
    }
    cluster
}

fn check_cluster(directory: &TempDir, cluster: &FakeCluster, more: &[&str]) -> (i32, Vec<Value>) {
    let kubeconfig = cluster.kubeconfig();
    let arguments = [&["--cluster", "--kubeconfig", kubeconfig.to_str().unwrap()], more].concat();
    records(directory, &arguments)
}

#[test]
fn running_cluster_is_evaluated_like_its_dump() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster();
    for number in 0..300 {
        let name = format!("ns-{number}");
        let object = json!({"metadata": {"name": name}});
        cluster.apply("", "v1", "namespaces", object);
    }
    let (status, records) = check_cluster(&directory, &cluster, &[]);
    let mut expected = DENIED_OBJECTS.map(str::to_owned).to_vec();
    let mut found = denied_objects(&records);
    expected.sort();
    found.sort();
    assert_eq!((status, found), (1, expected));
    let first = records.iter().find(|record| record["name"] == "first").unwrap();
    assert_eq!(first["source"], "OperatorGroup one/first");
    assert_eq!(first["violations"][0]["location"], Value::Null);
    let requests = cluster.requests();
    let asks = |what: &str| requests.iter().any(|request| request.contains(what));
    assert!(asks("/namespaces?&limit=") && asks("continue="), "{requests:?}");
    assert!(!asks("secrets"), "nobody needs them: {requests:?}");
    let output = check(
        &directory,
        &[
            "--cluster",
            "--kubeconfig",
            cluster.kubeconfig().to_str().unwrap(),
            "--kube-context",
            "nowhere",
        ],
    );
    assert_eq!(crate::check::status(&output), 2);
    assert!(err(&output).contains("nowhere"), "{}", err(&output));
    // One namespace, in the context of all.
    let (_, records) = check_cluster(&directory, &cluster, &["--namespace", "one"]);
    assert_eq!(denied_objects(&records), DENIED_OBJECTS[..2]);
}

#[test]
fn unlistable_resources_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster();
    cluster.forbid(OLM, "operatorgroups");
    let kubeconfig = cluster.kubeconfig();
    let output = check(&directory, &["--cluster", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let (said, shown) = (err(&output), out(&output));
    assert_eq!(status(&output), 2, "{said}");
    assert!(
        said.contains("operators.coreos.com/v1/operatorgroups: not evaluated: forbidden: "),
        "{said}"
    );
    assert!(said.contains("not evaluated: they need other objects of a cluster"), "{said}");
    assert!(said.contains("OPG-22") && !said.contains(": error "), "{said}");
    assert!(shown.contains("2 of 6 objects would be denied today:"), "{shown}");
    let output = check(
        &directory,
        &["--output", "jsonl", "--cluster", "--kubeconfig", kubeconfig.to_str().unwrap()],
    );
    let told = out(&output).lines().filter(|line| line.contains("not evaluated")).count();
    assert_eq!(told, 1, "{}", out(&output));
    // Nothing is there to ask.
    drop(cluster);
    write(
        &directory,
        "config",
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "users": [{"name": "x", "user": {}}],
        })
        .to_string(),
    );
    let output = check(&directory, &["--cluster", "--kubeconfig", "config"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("the cluster: /apis: "), "{}", err(&output));
    for arguments in [
        &["--cluster", "--kubeconfig", "config", "list.yaml"][..],
        &["--kube-context", "x", "a"],
        &[],
    ] {
        assert_eq!(status(&check(&directory, arguments)), 2, "{arguments:?}");
    }
}

/// `kubectl -n`: the namespace of manifests that name none.
#[test]
fn namespace_flag_applies_to_manifests_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let all = objects();
    let context = all.iter().filter(|(_, _, plural, _)| *plural == "operatorgroups");
    write(&directory, "context.json", list(context.map(|(.., object)| object.clone())).to_string());
    let group = json!({"apiVersion": format!("{OLM}/v1"), "kind": "OperatorGroup", "metadata": {"name": "new"}, "spec": {}});
    write(&directory, "group.json", group.to_string());
    let found = |more: &[&str]| {
        let arguments = [&["--cluster-state", "context.json", "group.json"], more].concat();
        let (_, records) = records(&directory, &arguments);
        rules(&records[0]).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!found(&[]).contains(&"OPG-01".to_owned()));
    assert!(found(&["--namespace", "two"]).contains(&"OPG-01".to_owned()));
    assert!(!found(&["-n", "three"]).contains(&"OPG-01".to_owned()));
}

/// The API server may forget the version of a list while it is read.
#[tokio::test]
async fn expired_list_continues_or_is_read_again() {
    let cluster = cluster();
    for number in 0..100 {
        cluster.apply(
            "",
            "v1",
            "namespaces",
            json!({"metadata": {"name": format!("ns-{number}")}}),
        );
    }
    let connection = Connection::kubeconfig(&[cluster.kubeconfig()], None).await.unwrap();
    let all = connection.resources("", "v1", &mut PageBackoff::none()).await.unwrap();
    let served = all.iter().find(|served| served.resource.resource == "namespaces").unwrap();
    assert!(!served.is_namespaced && served.kind == "Namespace");
    let list = async |forgets: usize| {
        let (mut names, mut count) = (BTreeSet::new(), 0);
        let mut visit = |object: Document| {
            names.insert(object.get("/metadata/name").unwrap().text().unwrap().to_owned());
            count += 1;
            if count % 10 == 0 && count <= forgets * 10 {
                let name = format!("late-{forgets}-{count}");
                cluster.apply("", "v1", "namespaces", json!({"metadata": {"name": name}}));
                cluster.expire_history();
            }
        };
        let (mut pages, mut backoff) =
            (connection.pages(&served.resource, None), PageBackoff::default());
        let listed = loop {
            match pages.read_next(&mut backoff, &mut visit).await {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        (listed, names.len(), count)
    };
    assert_eq!(list(0).await, (Ok(()), 103, 103));
    // The new object is in front of the next page.
    assert_eq!(list(1).await, (Ok(()), 103, 103));
    cluster.withhold_tokens();
    let (listed, names, count) = list(1).await;
    assert!(listed.is_ok() && names == 104 && count > 104, "{listed:?} {names} {count}");
}
