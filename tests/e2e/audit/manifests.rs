//! `opgate manifests audit`: the CronJob, and roles that permit what it does and nothing else.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use testkit::fake_api_server::Scope;

use super::{OPEN_REPORTS, POLICY_REPORT, audit_with, cluster, err, out, status};
use crate::BINARY;

/// A policy that reads one namespace, and one that evaluates Secrets in another.
const CONFIGURATION: &str = "apiVersion: opgate.dev/v1alpha1
kind: Configuration
profile: upstream
policies:
  - name: operator-group
  - name: bundle-immutability
  - name: catalog-source
    settings: {catalog: {secretsNamespace: catalogs}}
";

fn print(arguments: &[&str]) -> std::process::Output {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opgate.yaml"), CONFIGURATION).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["manifests", "audit", "--config", "opgate.yaml", "--image", "x/opgate:1"]);
    command.args(arguments).current_dir(directory.path()).output().unwrap()
}

fn objects(arguments: &[&str]) -> Vec<Value> {
    let output = print(&[arguments, &["-o", "json"]].concat());
    assert_eq!(status(&output), 0, "{}", err(&output));
    let list: Value = serde_json::from_str(&out(&output)).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// What a request needs: verb, group, resource, and namespace, empty for all.
type Permission = (String, String, String, String);

/// The permission for a request, unless it is discovery.
fn needed(request: &str) -> Option<Permission> {
    let (method, path) = request.split_once(' ').unwrap();
    let path = path.split('?').next().unwrap();
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (group, rest) = match *segments.as_slice() {
        ["api", _, ref rest @ ..] => ("", rest),
        ["apis", group, _, ref rest @ ..] => (group, rest),
        _ => return None,
    };
    let (namespace, resource) = match *rest {
        ["namespaces", namespace, resource, ..] => (namespace, resource),
        [resource, ..] => ("", resource),
        [] => return None,
    };
    let verb = match method {
        "GET" => "list",
        "PATCH" => "patch",
        "DELETE" => "delete",
        other => panic!("{other}"),
    };
    Some((verb.to_owned(), group.to_owned(), resource.to_owned(), namespace.to_owned()))
}

/// What roles grant.
fn granted(objects: &[Value]) -> BTreeSet<Permission> {
    let mut granted = BTreeSet::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for role in objects.iter().filter(|object| object["rules"].is_array()) {
        let namespace = text(&role["metadata"]["namespace"]);
        for rule in role["rules"].as_array().unwrap() {
            let all = |name: &str| rule[name].as_array().unwrap().iter();
            for (group, resource) in
                all("apiGroups").flat_map(|group| all("resources").map(move |of| (group, of)))
            {
                for verb in all("verbs") {
                    granted.insert((text(verb), text(group), text(resource), namespace.clone()));
                }
            }
        }
    }
    granted
}

#[test]
fn printed_roles_permit_every_request_and_no_other() {
    let cluster = cluster();
    for (group, version, plural, kind, scope) in [
        ("", "v1", "configmaps", "ConfigMap", Scope::Namespaced),
        ("", "v1", "secrets", "Secret", Scope::Namespaced),
        ("", "v1", "serviceaccounts", "ServiceAccount", Scope::Namespaced),
        ("operators.coreos.com", "v1alpha1", "catalogsources", "CatalogSource", Scope::Namespaced),
        ("core.rukpak.io", "v1alpha1", "bundledeployments", "BundleDeployment", Scope::Cluster),
        ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", Scope::Cluster),
        ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", Scope::Cluster),
        (
            "rbac.authorization.k8s.io",
            "v1",
            "clusterrolebindings",
            "ClusterRoleBinding",
            Scope::Cluster,
        ),
        ("config.openshift.io", "v1", "operatorhubs", "OperatorHub", Scope::Cluster),
    ] {
        cluster.install(group, version, plural, kind, scope);
    }
    POLICY_REPORT.install(&cluster);
    OPEN_REPORTS.install(&cluster);
    let audit_both = || {
        for api in ["policyreport", "openreports"] {
            let output = audit_with(&cluster, CONFIGURATION, &["--reports", api]);
            assert_eq!(status(&output), 0, "{}", err(&output));
        }
    };
    audit_both();
    cluster.delete("core.rukpak.io", "bundles", "", "bad");
    audit_both();
    let needed: BTreeSet<_> = cluster.requests().iter().filter_map(|one| needed(one)).collect();
    let granted = granted(&objects(&[]));
    // A permission for all namespaces covers each of them.
    let covers = |all: &BTreeSet<Permission>, (verb, group, resource, namespace): &Permission| {
        let wide = (verb.clone(), group.clone(), resource.clone(), String::new());
        all.contains(&wide) || all.contains(&(wide.0, wide.1, wide.2, namespace.clone()))
    };
    let missing: Vec<_> = needed.iter().filter(|one| !covers(&granted, one)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // Secrets and ConfigMaps of one namespace only.
    let sensitive = granted
        .iter()
        .filter(|(_, _, resource, _)| ["secrets", "configmaps"].contains(&resource.as_str()));
    let sensitive: BTreeSet<_> =
        sensitive.map(|(verb, _, of, namespace)| [verb.as_str(), of, namespace]).collect();
    let expected = [["list", "configmaps", "rukpak-system"], ["list", "secrets", "catalogs"]];
    assert_eq!(sensitive, BTreeSet::from(expected));
    // A server-side apply needs the verb to create as well, and some reports are not deleted here.
    let is_exempt = |verb: &str, group: &str| {
        [POLICY_REPORT.group, OPEN_REPORTS.group].contains(&group)
            && ["create", "delete"].contains(&verb)
    };
    let unused = granted.iter().filter(|(verb, group, resource, namespace)| {
        let is_used = needed.iter().any(|(of, in_group, plural, place)| {
            (of, in_group, plural) == (verb, group, resource)
                && (namespace.is_empty() || namespace == place)
        });
        !(is_used || is_exempt(verb, group))
    });
    let unused: Vec<_> = unused.collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn leader_has_the_permissions_of_the_audit_only_with_the_flag() {
    let all = |flags: &[&str]| -> Vec<Value> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("opgate.yaml"), CONFIGURATION).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["manifests", "all", "--config", "opgate.yaml", "-o", "json", "--with"]);
        command.arg("rukpak").args(flags).current_dir(directory.path());
        let output = command.output().unwrap();
        assert_eq!(status(&output), 0, "{}", err(&output));
        let list: Value = serde_json::from_str(&out(&output)).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let (with, without) = (all(&["--audit-interval", "1h"]), all(&[]));
    let audit = granted(&objects(&[]));
    assert!(granted(&with).is_superset(&audit));
    let reports = |objects: &[Value]| {
        let is_report = |group: &str| [POLICY_REPORT.group, OPEN_REPORTS.group].contains(&group);
        granted(objects).iter().filter(|(_, group, ..)| is_report(group)).count()
    };
    assert_eq!((reports(&with), reports(&without)), (16, 0));
    for binding in with.iter().filter(|object| object["subjects"].is_array()) {
        assert_eq!(binding["subjects"][0]["name"], "opgate", "{binding}");
    }
    let deployment = with.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(arguments.to_string().contains(r#""--audit-interval","1h""#), "{arguments}");
}

#[test]
fn cron_job_runs_the_audit_of_an_installation() {
    let arguments = ["--installation", "gates/gate", "--schedule", "@daily", "--pull-secret", "s"];
    let objects = objects(&arguments);
    let job = objects.iter().find(|object| object["kind"] == "CronJob").unwrap();
    assert_eq!(job["metadata"]["name"], "gate-audit");
    assert_eq!(job["metadata"]["namespace"], "gates");
    let spec = &job["spec"];
    assert_eq!(
        (&spec["schedule"], &spec["concurrencyPolicy"]),
        (&json!("@daily"), &json!("Forbid"))
    );
    let template = &spec["jobTemplate"]["spec"]["template"];
    // The Services of the servers would select another value.
    assert_eq!(template["metadata"]["labels"]["app.kubernetes.io/name"], "gate-audit");
    let pod = &template["spec"];
    assert_eq!(pod["volumes"][0]["configMap"]["name"], "gate");
    assert_eq!(pod["imagePullSecrets"][0]["name"], "s");
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "x/opgate:1");
    assert_eq!(container["args"][0], "audit");
    // What the pod security standard `restricted` requires.
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["runAsNonRoot"], true);
    // Every role is bound to the account of the pod.
    let account = &pod["serviceAccountName"];
    for binding in objects.iter().filter(|object| object["subjects"].is_array()) {
        assert_eq!(binding["subjects"][0]["name"], *account, "{binding}");
    }
    for schedule in ["", "* * * *", "0 * * * *; x", "@often"] {
        let output = print(&["--schedule", schedule]);
        assert_eq!(status(&output), 2, "{schedule}");
        assert!(err(&output).contains("is not a schedule"), "{}", err(&output));
    }
}

#[test]
fn modules_that_the_cron_job_lacks_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let module = testkit::example_component("resources");
    let policies =
        [json!({"name": "resources", "module": module}), json!({"name": "operator-group"})];
    std::fs::write(directory.path().join("opgate.yaml"), testkit::configuration(&policies))
        .unwrap();
    let mut command = Command::new(BINARY);
    command.args(["manifests", "audit", "--config", "opgate.yaml", "--image", "x/opgate:1"]);
    command.env("OPGATE_CACHE_DIR", directory.path().join("cache"));
    let output = command.current_dir(directory.path()).output().unwrap();
    assert_eq!(status(&output), 0, "{}", err(&output));
    let warning = "the module is not among the objects: mount it into the CronJob";
    assert_eq!(err(&output).matches(warning).count(), 1, "{}", err(&output));
    assert!(!err(&print(&[])).contains("module"), "{}", err(&print(&[])));
}
