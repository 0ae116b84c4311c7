//! The largest ClusterServiceVersions that an API server stores, in the built-in policies: what is in
//! an object is no error of a policy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Snapshot, Source};
use opgate::engine::reader::{ClusterReader, PolicyQuery, QueryResult, ReadResult, ResultAccounts};
use opgate::engine::{Budget, CallResult, Engine, Module, Pool, TimeLimit, wit};
use opgate::policy::{Configuration, PolicySet, response};
use opgate::review::{self, Review};
use opgate_document::Document;
use opgate_sdk::{GroupVersionResource, Operation, Policy, Request, RequestParts};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use testkit::csv::{Shape, csv};
use testkit::worst::csvs;

const MEMORY_BYTES: usize = 32 << 20;

/// A cluster without objects.
#[derive(Debug)]
struct EmptyCluster;

impl ClusterReader for EmptyCluster {
    fn get(
        &mut self,
        _: &wit::GroupVersionResource,
        _: &str,
        _: &str,
        _: ResultAccounts<'_>,
    ) -> ReadResult {
        Ok(Ok(QueryResult::default()))
    }

    fn list(
        &mut self,
        _: &wit::GroupVersionResource,
        _: PolicyQuery,
        _: ResultAccounts<'_>,
    ) -> ReadResult {
        Ok(Ok(QueryResult::default()))
    }

    fn names(
        &mut self,
        _: &wit::GroupVersionResource,
        _: PolicyQuery,
        _: ResultAccounts<'_>,
    ) -> ReadResult {
        Ok(Ok(QueryResult::default()))
    }
}

struct LoadedPolicy {
    policy: &'static Policy,
    module: Module,
    settings: Arc<Document>,
}

static POLICIES: LazyLock<Vec<LoadedPolicy>> = LazyLock::new(|| {
    let engine = Engine::start(Pool { instances: 4, memory: MEMORY_BYTES }, None).unwrap();
    let engine = Arc::new(engine);
    let policies: [&'static Policy; 5] = [
        &opgate_operator_group::POLICY,
        &opgate_constraint_limits::POLICY,
        &opgate_cluster_service_version::POLICY,
        &opgate_pod_security::POLICY,
        &opgate_operator_condition::POLICY,
    ];
    let load = |policy: &'static Policy| {
        let builtin = BUILTINS.iter().find(|builtin| builtin.name == policy.name).unwrap();
        let module =
            engine.load_builtin(|| builtin.component(), builtin.digest, &builtin.image).unwrap();
        LoadedPolicy { policy, module, settings: Arc::new(Document::parse("{}").unwrap()) }
    };
    policies.into_iter().map(load).collect()
});

/// All rules at their strictest level, including rules that are off by default.
fn strictest_settings(policy: &Policy) -> Arc<Document> {
    let rules: BTreeMap<_, _> =
        policy.all_rules().into_iter().map(|rule| (rule.id, "deny")).collect();
    Arc::new(Document::parse(&json!({"rules": rules}).to_string()).unwrap())
}

fn review(object: &str, old: Option<&str>) -> String {
    let resource = json!({
        "group": "operators.coreos.com", "version": "v1alpha1",
        "resource": "clusterserviceversions",
    });
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {
                "group": "operators.coreos.com", "version": "v1alpha1",
                "kind": "ClusterServiceVersion",
            },
            "resource": resource, "name": "a.v1.0.0", "namespace": "n",
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": "admin"},
            "object": "OBJECT", "oldObject": "OLD",
        },
    });
    let review = review.to_string().replace("\"OBJECT\"", object);
    review.replace("\"OLD\"", old.unwrap_or("null"))
}

impl LoadedPolicy {
    fn evaluate(&self, body: &str, settings: &Arc<Document>) -> CallResult<wit::Verdict> {
        let text = review::text(body.as_bytes().to_vec()).unwrap();
        let review = Review::read(&text).unwrap();
        let inputs = Arc::new(review.inputs());
        let is_update = inputs.old_object.is_some();
        let operation = if is_update { Operation::Update } else { Operation::Create };
        let resource = GroupVersionResource {
            group: "operators.coreos.com".to_owned(),
            version: "v1alpha1".to_owned(),
            resource: "clusterserviceversions".to_owned(),
        };
        let request =
            Request::from(RequestParts { operation, resource, ..RequestParts::default() });
        let known = opgate_sdk::Document::parse("{}").unwrap();
        let routes = self.policy.routes_of(&request, &known);
        let (processor, wall) = (Duration::from_secs(60), Duration::from_secs(600));
        let time = TimeLimit::Full { cpu_time: processor, wall_time: wall };
        let budget = Budget { memory: MEMORY_BYTES, time, worker: None, shared_time: None };
        self.module.validate(&inputs, routes, settings, EmptyCluster, budget)
    }
}

/// More names than a policy may ask the cluster for at once, in 1.5 MiB.
#[test]
fn many_owned_apis_cause_no_policy_error() {
    let names = (0..100_000).map(|n| json!({"name": format!("{n:x}")}));
    let services =
        (0..70_000).map(|n| json!({"group": "g", "version": format!("v{n}"), "kind": "K"}));
    for (member, list) in [
        ("customresourcedefinitions", names.collect::<Vec<_>>()),
        ("apiservicedefinitions", services.collect()),
    ] {
        let object = json!({
            "metadata": {"name": "a.v1.0.0", "namespace": "n"},
            "spec": {member: {"owned": list}},
        });
        let body = review(&object.to_string(), None);
        for loaded in POLICIES.iter() {
            let call = loaded.evaluate(&body, &loaded.settings);
            assert!(call.result.is_ok(), "{member}: {}: {:?}", loaded.policy.name, call.result);
        }
    }
}

/// Thousands of violations of many rules in one object, by all policies that evaluate it, are one answer of
/// bounded size.
#[tokio::test]
async fn review_of_worst_objects_stays_in_memory_budget() {
    let policies = POLICIES.iter().map(|loaded| {
        let rules: BTreeMap<_, _> =
            loaded.policy.all_rules().into_iter().map(|rule| (rule.id, "deny")).collect();
        json!({"name": loaded.policy.name, "rules": rules, "limits": {"time": "30s"}})
    });
    let text = testkit::configuration(&policies.collect::<Vec<_>>());
    let configuration = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS).unwrap();
    let absent = ClusterOptions::of(Source::Absent);
    let set = PolicySet::load(&configuration, None, 64, absent).unwrap();
    let wanted =
        ["owned API services", "containers", "rules", "webhook definitions", "annotations"];
    let mut largest = 0;
    for (what, [object, _]) in csvs().filter(|(what, _)| wanted.contains(what)) {
        let text = review::text(review(&object, None).into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        let soon = Instant::now() + Duration::from_secs(600);
        let decision = set.decide(&review, None, soon, &()).await.unwrap();
        let answer = response::body(&review, &decision);
        assert!(answer.len() <= 96 << 10, "{what}: {}", answer.len());
        largest = largest.max(answer.len());
    }
    assert!(largest > 16 << 10, "{largest}");
}

/// By hand, of an optimised build: how long the worst objects take.
#[test]
#[ignore = "prints figures; see docs/performance.md"]
fn figures() {
    let mut rows = Vec::new();
    for (what, [object, old]) in csvs() {
        for (body, operation) in
            [(review(&object, None), "CREATE"), (review(&object, Some(&old)), "UPDATE")]
        {
            for loaded in POLICIES.iter() {
                let runs = (0..3).map(|_| {
                    let text = review::text(body.as_bytes().to_vec()).unwrap();
                    drop(text);
                    let started = Instant::now();
                    let call = loaded.evaluate(&body, &loaded.settings);
                    (started.elapsed(), call.work.units, call.work.memory)
                });
                let (time, units, memory) = runs.min().unwrap();
                rows.push((time, units, memory, loaded.policy.name, operation, what));
            }
        }
    }
    rows.sort_unstable();
    for (time, units, memory, policy, operation, what) in rows.iter().rev().take(60) {
        let memory = memory >> 10;
        println!("| {time:.1?} | {units} | {memory} KiB | {policy} | {operation} | {what} |");
    }
}

/// A small object that has every member which the policies read.
const FULL_SHAPE: Shape = Shape {
    apis: 1,
    descriptors: 1,
    deployments: 1,
    images: 1,
    rules: 4,
    webhooks: 1,
    icon: 44,
    description: 10,
};

/// Pointers of all values in an object, itself not among them.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let mut visit = |name: &str, value: &Value| {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        all.push(pointer.clone());
        pointers(value, &pointer, all);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| visit(name, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| visit(&index.to_string(), value));
        }
        _ => {}
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let texts = prop_oneof![
        Just(String::new()),
        any::<String>(),
        "[a-z.:/@\\-\\[\\]{}\"'%\u{0}-\u{9f}]{0,40}",
        Just("1.2.3".to_owned()),
        Just("[{\"kind\":\"A\",\"apiVersion\":1}]".to_owned()),
        Just("a: [b\n- {".to_owned()),
    ];
    let scalars = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(1e300)),
        texts.prop_map(Value::from),
    ];
    scalars.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z./~]{0,12}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whatever stands in a member of a ClusterServiceVersion, every policy has an answer about it.
#[test]
fn any_value_in_any_field_causes_no_policy_error() {
    let whole = csv(FULL_SHAPE, "n");
    let mut all = Vec::new();
    pointers(&whole, "", &mut all);
    let config = Config { cases: 600, failure_persistence: None, ..Config::default() };
    let strict: Vec<_> = POLICIES.iter().map(|loaded| strictest_settings(loaded.policy)).collect();
    let case = (0..all.len(), any_json(), 0..3_usize);
    let evaluated = TestRunner::new(config).run(&case, |(field, value, operation)| {
        let mut object = whole.clone();
        *object.pointer_mut(&all[field]).unwrap() = value;
        let (object, whole) = (object.to_string(), whole.to_string());
        let body = match operation {
            0 => review(&object, None),
            1 => review(&object, Some(&whole)),
            _ => review(&whole, Some(&object)),
        };
        for (loaded, strict) in POLICIES.iter().zip(&strict) {
            for settings in [&loaded.settings, strict] {
                let call = loaded.evaluate(&body, settings);
                let name = loaded.policy.name;
                prop_assert!(call.result.is_ok(), "{name}: {:?}: {}", call.result, all[field]);
            }
        }
        Ok(())
    });
    evaluated.unwrap();
}

/// Any user with write access to ClusterServiceVersions can claim a CRD, here 72 times with 1 MiB
/// each.
#[tokio::test]
async fn crd_owned_by_many_csvs_can_be_updated() {
    let configuration = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "policies": [{"name": "crd-upgrade", "module": "builtin:crd-upgrade", "limits": {"time": "2s"}}],
    });
    let path = Path::new("opgate.yaml");
    let configuration = Configuration::parse(path, &configuration.to_string(), BUILTINS).unwrap();
    let set =
        PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Snapshot)).unwrap();
    let mut snapshot = Snapshot::default();
    for number in 0..72 {
        let pad = |n| json!({"name": format!("pads{number}x{n}.pad.example.com"), "version": "v1"});
        let mut owned: Vec<_> = (0..20_000).map(pad).collect();
        owned.push(json!({"name": "ducks.birds.example.com", "version": "v1"}));
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("claim{number}.v1.0.0"), "namespace": "mallory"},
            "spec": {"customresourcedefinitions": {"owned": owned}},
        });
        snapshot.add(Document::parse(&csv.to_string()).unwrap()).unwrap();
    }
    snapshot.replace_state(set.cluster());
    let crd = |versions: &[(&str, &str)]| {
        let version = |(index, (name, kind)): (usize, &(&str, &str))| {
            json!({"name": name, "served": true, "storage": index == 0,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": kind}}}}})
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "ducks.birds.example.com"},
            "spec": {
                "group": "birds.example.com", "scope": "Namespaced",
                "names": {"plural": "ducks", "singular": "duck", "kind": "Duck", "listKind": "DuckList"},
                "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
            },
        })
    };
    let before = crd(&[("v2", "string"), ("v1", "string")]);
    for (after, denied) in [
        (crd(&[("v2", "string"), ("v1", "string"), ("v3", "string")]), false),
        (crd(&[("v2", "integer"), ("v1", "string")]), false),
        (crd(&[("v2", "string")]), true),
    ] {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "operation": "UPDATE", "name": "ducks.birds.example.com",
                "kind": {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"},
                "resource": {"group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions"},
                "userInfo": {"username": "admin"}, "object": after, "oldObject": before,
            },
        });
        let text = review::text(review.to_string().into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let decision = set.decide(&review, None, deadline, &()).await.unwrap();
        assert!(decision.policy_errors.is_empty(), "{:?}", decision.policy_errors);
        assert_eq!(decision.denial.is_some(), denied);
    }
}
