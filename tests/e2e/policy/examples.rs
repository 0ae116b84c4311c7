//! The examples in `examples/`: their cases through their components, and their shape.
//!
//! Examples in Rust are members of the workspace: their native tests run their cases, and these here run
//! them again through what `tests/build.rs` built. Examples in other languages have the same shape; the
//! script of the languages builds and runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Connection, Snapshot, Source};
use opgate::policy::{Configuration, PolicySet};
use opgate::review::{self, Review};
use opgate::supervise::Supervisor;
use opgate_document::Document;
use opgate_sdk::Policy;
use opgate_sdk_testing::{Case, native};
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{configuration, example_component};

use crate::policy::cases::{case_mismatch, wait_up_to_date};

/// The examples in Rust. A test compares them with the directories.
static POLICIES: [&Policy; 4] = [
    &disruption_budgets::POLICY,
    &ingress_hosts::POLICY,
    &resources::POLICY,
    &service_accounts::POLICY,
];

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn directories() -> BTreeSet<String> {
    let entries = fs::read_dir(repository_root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let directories = entries.filter(|path| path.is_dir());
    directories.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// The entry of a policy, with what it declares to read granted.
fn entry(policy: &Policy, settings: &Value) -> Value {
    let granted = policy.reads().into_iter().map(|read| {
        let group = if read.group.is_empty() { String::new() } else { format!("{}/", read.group) };
        format!("{group}{}/{}", read.version, read.resource)
    });
    let mut settings = settings.clone();
    let rules = settings.as_object_mut().unwrap().remove("rules").unwrap_or_else(|| json!({}));
    json!({
        "name": policy.name,
        "module": example_component(policy.name),
        "allowedReads": granted.collect::<Vec<_>>(),
        "rules": rules,
        "settings": settings,
        "limits": {"time": "20s"},
    })
}

fn load(policy: &Policy, settings: &Value, source: Source) -> PolicySet {
    let text = configuration(&[entry(policy, settings)]);
    let configuration = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS).unwrap();
    let options =
        ClusterOptions { poll_interval: Duration::from_millis(10), ..ClusterOptions::of(source) };
    PolicySet::load(&configuration, None, 64, options).unwrap()
}

#[tokio::test]
async fn every_case_holds_through_the_component() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for policy in POLICIES {
        let directory = repository_root().join("examples").join(policy.name);
        let mut by_settings: BTreeMap<(String, bool), Vec<Case>> = BTreeMap::new();
        for case in native::cases(policy, directory.to_str().unwrap()) {
            let key = (case.settings.to_string(), case.cluster.is_some());
            by_settings.entry(key).or_default().push(case);
        }
        for ((_, with_cluster), cases) in by_settings {
            let source = if with_cluster { Source::Snapshot } else { Source::Absent };
            let set = load(policy, &cases[0].settings, source);
            for case in cases {
                if let Some(objects) = &case.cluster {
                    let mut snapshot = Snapshot::default();
                    for object in objects {
                        snapshot.add(Document::parse(&object.to_string()).unwrap()).unwrap();
                    }
                    snapshot.replace_state(set.cluster());
                }
                wrong.extend(case_mismatch(&set, policy, &case).await);
                count += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 180, "{count} cases");
}

/// Of two requests for one host, at the same time, one is allowed: before any watch shows its Ingress.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_do_not_get_the_same_host() {
    let cluster = FakeCluster::start();
    cluster.install("networking.k8s.io", "v1", "ingresses", "Ingress", Scope::Namespaced);
    let connection = Connection::kubeconfig(&[cluster.kubeconfig()], None).await.unwrap();
    let set = load(&ingress_hosts::POLICY, &json!({}), Source::Live);
    let _watches = connection.watch(set.cluster(), &Supervisor::default());
    wait_up_to_date(&set, &cluster).await;
    let ingress = |namespace: &str, host: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "shop", "namespace": namespace},
            "spec": {"rules": [{"host": host}]},
        })
    };
    let hosts = [
        ("a", "shop.example.com", true),
        ("b", "shop.example.com", false),
        ("b", "*.example.com", false),
        ("a", "*.example.com", true),
        ("c", "cart.example.com", false),
        ("c", "example.com", true),
    ];
    for (namespace, host, allowed) in hosts {
        let object = ingress(namespace, host);
        let kind = json!({"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"});
        let resource =
            json!({"group": "networking.k8s.io", "version": "v1", "resource": "ingresses"});
        let mut asked = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": format!("{namespace}-{host}"),
                "kind": kind,
                "resource": resource,
                "name": format!("of-{}", host.replace('*', "all")),
                "namespace": namespace,
                "operation": "CREATE",
                "userInfo": {"username": "jo"},
                "object": object,
            },
        });
        asked["request"]["object"]["metadata"]["name"] = asked["request"]["name"].clone();
        let text = review::text(asked.to_string().into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let decision = set.decide(&review, None, deadline, &()).await.unwrap();
        assert!(decision.policy_errors.is_empty(), "{:?}", decision.policy_errors);
        assert_eq!(decision.violations.is_empty(), allowed, "{namespace} {host}");
    }
}

/// Every example has what a loop needs that builds and tests all of them, and its page.
#[test]
fn every_example_has_the_same_shape() {
    let rust: BTreeSet<String> = POLICIES.iter().map(|policy| policy.name.to_owned()).collect();
    let index = fs::read_to_string(repository_root().join("docs/gallery.md")).unwrap();
    for name in directories() {
        let directory = repository_root().join("examples").join(&name);
        let manifests = ["Cargo.toml", "package.json", "pyproject.toml", "Makefile"];
        let languages: Vec<_> =
            manifests.iter().filter(|it| directory.join(it).is_file()).collect();
        assert_eq!(languages.len(), 1, "{name}: {languages:?} say its language");
        assert_eq!(
            languages == [&"Cargo.toml"],
            rust.contains(&name),
            "{name}: add it to POLICIES"
        );
        assert!(
            index.contains(&format!("../examples/{name}/README.md")),
            "{name}: not in the index"
        );
        let page = fs::read_to_string(directory.join("README.md")).unwrap();
        for heading in ["# ", "## Settings", "## Install", "## Not covered"] {
            assert!(page.lines().any(|line| line.starts_with(heading)), "{name}: no {heading}");
        }
        let text = fs::read_to_string(directory.join("opgate.yaml")).unwrap();
        let configured = opgate_sdk_testing::yaml(&text, &directory);
        let policies = configured["policies"].as_array().unwrap();
        assert_eq!(policies.len(), 1, "{name}");
        assert_eq!(policies[0]["name"], json!(name));
        let module = Path::new(policies[0]["module"].as_str().unwrap());
        assert_eq!(module.extension().unwrap(), "wasm", "{name}");
        let cases = fs::read_dir(directory.join("cases")).unwrap();
        assert!(cases.count() > 1, "{name}");
    }
}

/// What an example configures loads: its settings fit, and it grants what the policy reads, nothing else.
#[test]
fn every_configuration_fits_its_policy() {
    for policy in POLICIES {
        let path = repository_root().join("examples").join(policy.name).join("opgate.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let configured = opgate_sdk_testing::yaml(&text, &path);
        let mut written = configured["policies"][0].clone();
        let names = |entry: &Value| {
            let granted = entry["cluster"].as_array().into_iter().flatten();
            granted.map(|name| name.as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        let declared = entry(policy, &json!({}));
        assert_eq!(names(&written), names(&declared), "{}", policy.name);
        written["module"] = json!(example_component(policy.name));
        let configuration =
            Configuration::parse(&path, &configuration(&[written]), BUILTINS).unwrap();
        let loaded =
            PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Snapshot));
        assert!(loaded.is_ok(), "{}: {:#}", policy.name, loaded.err().unwrap());
    }
}
