//! The cases of the policy `operator-group` through the host: once with the cluster in files, as
//! `opgate replay --context` has it, and once with the cluster behind an API server. The verdicts are
//! the ones that the policy's own tests expect.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{Connection, Kind, Options, Snapshot, Source};
use opgate::policy::{Configuration, Effect, Set};
use opgate::review::{self, Review};
use opgate::supervise::Supervisor;
use opgate_document::Document;
use opgate_sdk::Operation;
use serde_json::{Value, json};
use testkit::fake::{FakeCluster, Scope};

use crate::cases::{Case, all_cases};

const OLM: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Resources of the cases, by plural.
const RESOURCES: [(&str, &str, &str, &str, Scope); 8] = [
    (OLM, "v1", "operatorgroups", "OperatorGroup", Scope::Namespaced),
    (OLM, "v1alpha1", "clusterserviceversions", "ClusterServiceVersion", Scope::Namespaced),
    ("", "v1", "namespaces", "Namespace", Scope::Cluster),
    ("", "v1", "serviceaccounts", "ServiceAccount", Scope::Namespaced),
    (RBAC, "v1", "clusterroles", "ClusterRole", Scope::Cluster),
    (RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", Scope::Cluster),
    (RBAC, "v1", "roles", "Role", Scope::Namespaced),
    (RBAC, "v1", "rolebindings", "RoleBinding", Scope::Namespaced),
];

fn resource(plural: &str) -> (&'static str, &'static str, &'static str, Scope) {
    let found = RESOURCES.iter().find(|(_, _, name, _, _)| *name == plural);
    let (group, version, _, kind, scope) = *found.unwrap_or_else(|| panic!("{plural}?"));
    (group, version, kind, scope)
}

/// The objects of a case's cluster, in full, with their resources.
fn objects(case: &Case) -> Vec<(&str, Value)> {
    let kinds = case.cluster.iter().flatten();
    let listed = kinds.flat_map(|(plural, list)| list.iter().map(move |o| (plural.as_str(), o)));
    let full = |(plural, object): (_, &Value)| {
        let (group, version, kind, scope) = resource(plural);
        let api = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let mut object = object.clone();
        object["apiVersion"] = json!(api);
        object["kind"] = json!(kind);
        if scope == Scope::Cluster {
            object["metadata"].as_object_mut().unwrap().remove("namespace");
        }
        (plural, object)
    };
    listed.map(full).collect()
}

/// The case's settings as a configuration: profile and levels stand beside the policy's settings.
fn configuration(case: &Case) -> String {
    let mut settings = case.settings.clone();
    let members = settings.as_object_mut().unwrap();
    let profile = members.remove("profile").unwrap_or_else(|| json!("ocp-4.15"));
    let rules = members.remove("rules").unwrap_or_else(|| json!({}));
    json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "profile": profile,
        "policies": [{
            "name": "operator-group",
            "rules": rules,
            "settings": settings,
            "limits": {"time": "20s"},
        }],
    })
    .to_string()
}

fn review(case: &Case) -> String {
    let request = &case.request;
    let operation = match request.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    };
    let (group, _, kind, _) = resource(&request.resource.resource);
    let version = &request.resource.version;
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": case.name,
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {
                "group": group, "version": version, "resource": request.resource.resource,
            },
            "subResource": request.sub_resource,
            "name": request.name,
            "namespace": request.namespace,
            "operation": operation,
            "userInfo": {"username": request.user.username, "groups": request.user.groups},
            "object": case.object,
            "oldObject": case.old,
            // One case is not in the way of the next.
            "dryRun": true,
        },
    })
    .to_string()
}

/// What is wrong with what a set of policies decides.
async fn complaint(set: &Set, case: &Case) -> Option<String> {
    let text = review::text(review(case).into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let decision = set.decide(&review, None, deadline, &()).await.unwrap();
    let found = decision.violations.iter().map(|violation| {
        let level = if violation.effect == Effect::Deny { "deny" } else { "warn" };
        (violation.rule.clone(), level.to_owned(), violation.message.clone())
    });
    let mut found: Vec<_> = found.collect();
    found.sort();
    let configured = |rule: &str| case.settings["rules"].get(rule).and_then(Value::as_str);
    let expected = case.expected.iter().filter(|e| configured(&e.finding.rule) != Some("off"));
    let mut expected: Vec<_> = expected
        .map(|expected| {
            let finding = &expected.finding;
            // The configuration has the last word on levels; the policy's tests see its own.
            let level = configured(&finding.rule).unwrap_or(&finding.level).to_owned();
            // Texts go out as one line.
            let message: String =
                finding.message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            (finding.rule.clone(), level, message, expected.starts)
        })
        .collect();
    expected.sort();
    let same = found.len() == expected.len()
        && found.iter().zip(&expected).all(|(found, (rule, level, message, starts))| {
            let fits = found.2 == *message || (*starts && found.2.starts_with(message));
            found.0 == *rule && found.1 == *level && fits
        });
    let faults = &decision.faults;
    (!same || !faults.is_empty())
        .then(|| format!("{}\n  expected {expected:#?}\n  found {found:#?} {faults:?}", case.name))
}

/// Cases by configuration, those without a cluster left out.
fn by_configuration() -> BTreeMap<String, Vec<Case>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for case in all_cases().filter(|case| case.cluster.is_some()) {
        all.entry(configuration(&case)).or_default().push(case);
    }
    assert!(all.values().map(Vec::len).sum::<usize>() > 400, "the cases were found");
    all
}

fn load(configuration: &str, source: Source) -> Set {
    let configuration =
        Configuration::parse(Path::new("opgate.yaml"), configuration, BUILTINS).unwrap();
    Set::load(&configuration, None, 64, Options::of(source)).unwrap()
}

#[tokio::test]
async fn files_give_the_verdicts_that_the_policy_expects() {
    let mut wrong = Vec::new();
    for (configuration, cases) in by_configuration() {
        let set = load(&configuration, Source::Snapshot);
        for case in cases {
            let mut snapshot = Snapshot::default();
            for (_, object) in objects(&case) {
                snapshot.add(Document::parse(&object.to_string()).unwrap()).unwrap();
            }
            snapshot.fill(set.cluster());
            wrong.extend(complaint(&set, &case).await);
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_gives_the_same_verdicts() {
    let mut wrong = Vec::new();
    for (configuration, cases) in by_configuration() {
        let cluster = FakeCluster::start();
        for (group, version, plural, kind, scope) in RESOURCES {
            cluster.install(group, version, plural, kind, scope);
        }
        let connection = Connection::kubeconfig(&[cluster.kubeconfig()], None).await.unwrap();
        let set = load(&configuration, Source::Live);
        let _watches = connection.watch(set.cluster(), &Supervisor::default());
        for kind in set.cluster().kinds() {
            cluster.watching(&kind.resource().resource, 1).await;
        }
        for case in cases {
            let objects = objects(&case);
            for (plural, object) in &objects {
                let (group, version, _, _) = resource(plural);
                cluster.apply(group, version, plural, object.clone());
            }
            up_to_date(&set, &cluster).await;
            wrong.extend(complaint(&set, &case).await);
            for (plural, object) in &objects {
                let (group, _, _, _) = resource(plural);
                let name = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
                cluster.delete(group, plural, name("namespace"), name("name"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Waits until the watches have heard everything.
async fn up_to_date(set: &Set, cluster: &FakeCluster) {
    let version = cluster.version();
    // For those of which nothing has changed.
    cluster.bookmark();
    let has_heard =
        |kind: &Arc<Kind>| kind.status().version.parse::<u64>().is_ok_and(|seen| seen >= version);
    while !set.cluster().kinds().iter().all(has_heard) {
        tokio::task::yield_now().await;
    }
}
