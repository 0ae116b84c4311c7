//! What shared reservations cost, with a real API server, where `KUBEBUILDER_ASSETS` names a directory
//! with one. Two replicas, the API server and the clients share the machine. Prints the lines of
//! `docs/performance.md`:
//!
//! `cargo test --release --workspace --test serial -- reservation_cost --nocapture`

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::iter;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::forwarder::Forwarder;
use testkit::objects::{csvs, group, groups, object, resource, subscriptions};
use testkit::{Server, configuration, reviews};

use crate::{BINARY, wait_for_idle_machine};

const NAMESPACES: usize = 400;

/// Creates that follow each other.
const SEQUENTIAL_CREATES: usize = 300;

/// Creates that begin in regular intervals.
const RATED_CREATES: usize = 2_000;
const CREATES_PER_SECOND: u32 = 200;

/// Operators that are installed at once.
const OPERATORS: usize = 100;

fn policies(reservations: &str) -> String {
    let names = ["operator-group", "subscription", "cluster-service-version"];
    let policies = names.map(|name| {
        let mut policy = json!({"name": name, "limits": {"time": "9s"}});
        if name == "subscription" {
            policy["rules"] = json!({"SUB-01": "off", "SUB-04": "off"});
        }
        policy
    });
    let mut whole: Value = serde_json::from_str(&configuration(&policies)).unwrap();
    whole["reservations"] = reservations.into();
    whole.to_string()
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    format!("p50 {:.1?}, p99 {:.1?}, max {:.1?}", at(50), at(99), at(100))
}

struct CostTest {
    plane: ControlPlane,
    admin: Client,
}

/// Replicas behind one address.
struct Replicas {
    servers: Vec<Server>,
    _forwarder: Forwarder,
}

impl Replicas {
    /// What both have counted of the ledger since their start.
    async fn ledger_figures(&self) -> String {
        let mut line = "ledger since the start:".to_owned();
        for metric in ["appends", "outdated_evaluations", "writes", "conflicts", "wait_seconds"] {
            let name = format!("opgate_ledger_{metric}_total");
            let mut sum = 0.0;
            for server in &self.servers {
                sum += server.metric(&name).await.unwrap_or_default();
            }
            let _ = write!(line, " {metric} {sum}");
        }
        line
    }
}

impl CostTest {
    async fn start(&self, reservations: &str) -> Replicas {
        let kubeconfig = self.plane.kubeconfig("opgate");
        let configuration = policies(reservations);
        let start = |pod: &str| {
            let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--pod-name", pod];
            let arguments = [&arguments[..], &["--installation", "opgate-system/opgate"]].concat();
            Server::start(BINARY, Some(&configuration), &arguments)
        };
        let servers: Vec<_> = ["a", "b"].map(start).into();
        for server in &servers {
            eventually("readiness", || async {
                (server.get("/readyz").await.0 == 200).then_some(())
            })
            .await;
        }
        let forwarder = Forwarder::start().await;
        forwarder.set_targets(servers.iter().map(|server| server.address));
        self.plane.enforce(BINARY, &configuration, forwarder.address, &servers).await;
        Replicas { servers, _forwarder: forwarder }
    }

    fn api(&self, of: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.admin.clone(), namespace, of)
    }

    /// The time of a create that must succeed.
    async fn create(&self, of: &ApiResource, mut object: DynamicObject) -> Duration {
        object.metadata.uid = None;
        let api = self.api(of, object.metadata.namespace.as_deref().unwrap());
        let began = Instant::now();
        api.create(&PostParams::default(), &object).await.unwrap();
        began.elapsed()
    }

    async fn delete_all(&self) {
        for of in [groups(), subscriptions(), csvs()] {
            let all = Api::<DynamicObject>::all_with(self.admin.clone(), &of);
            let objects = all.list(&ListParams::default()).await.unwrap().items;
            iter(objects)
                .for_each_concurrent(16, async |object| {
                    let namespace = object.metadata.namespace.as_deref().unwrap();
                    let name = object.metadata.name.as_deref().unwrap();
                    if namespace != "probe" {
                        let api = self.api(&of, namespace);
                        api.delete(name, &DeleteParams::default()).await.unwrap();
                    }
                })
                .await;
        }
    }

    /// Whether the API server tracks the owners of the fields of the ledger, which each write would pay for.
    async fn tracks_field_owners(&self) -> bool {
        let api = self.api(&resource("", "v1", "ConfigMap"), "opgate-system");
        api.get("opgate-reservations").await.unwrap().metadata.managed_fields.is_some()
    }

    /// Writes of a ConfigMap, one after the other: what one write costs.
    async fn time_writes(&self) -> String {
        let of = resource("", "v1", "ConfigMap");
        let api = self.api(&of, "shared");
        let text = "x".repeat(8 << 10);
        let object = object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "write", "namespace": "shared"}, "data": {"ledger.json": text},
        }));
        let mut stored = api.create(&PostParams::default(), &object).await.unwrap();
        let mut times = Vec::new();
        for number in 0..SEQUENTIAL_CREATES {
            stored.data["data"]["number"] = number.to_string().into();
            let began = Instant::now();
            stored = api.replace("write", &PostParams::default(), &stored).await.unwrap();
            times.push(began.elapsed());
        }
        percentiles(&mut times)
    }

    async fn time_sequence(&self) -> String {
        let mut times = Vec::new();
        for number in 0..SEQUENTIAL_CREATES {
            times.push(self.create(&groups(), own_group(number)).await);
        }
        self.delete_all().await;
        percentiles(&mut times)
    }

    /// Creates at a rate, whatever the earlier ones do, in five turns through the namespaces.
    async fn time_rate(&self) -> String {
        let mut times = Vec::new();
        let mut elapsed = Duration::ZERO;
        for turn in 0..RATED_CREATES / NAMESPACES {
            let began = Instant::now();
            let creates = (0..NAMESPACES).map(async |number| {
                let due = Duration::from_secs(1) * u32::try_from(number).unwrap();
                tokio::time::sleep(due / CREATES_PER_SECOND).await;
                let due = Instant::now();
                self.create(&groups(), own_group(turn * NAMESPACES + number)).await;
                due.elapsed()
            });
            times.extend(join_all(creates).await);
            elapsed += began.elapsed();
            self.delete_all().await;
        }
        format!("{RATED_CREATES} creates in {elapsed:.1?}, {}", percentiles(&mut times))
    }

    /// For each Operator what OLM creates, one object after the other.
    async fn time_operators(&self) -> String {
        let began = Instant::now();
        let installs = (0..OPERATORS).map(async |number| {
            let namespace = namespace_of(number);
            let began = Instant::now();
            self.create(&groups(), own_group(number)).await;
            let package = format!("operator-{number}");
            let subscription = reviews::subscription(&namespace, &package, &package);
            self.create(&subscriptions(), object(subscription)).await;
            self.create(&csvs(), object(operator(&namespace, number))).await;
            began.elapsed()
        });
        let mut times = join_all(installs).await;
        let all = began.elapsed();
        self.delete_all().await;
        format!("{OPERATORS} Operators in {all:.2?}, {}", percentiles(&mut times))
    }
}

fn namespace_of(number: usize) -> String {
    format!("cost-{}", number % NAMESPACES)
}

/// A group that provides an API of its number to its namespace.
fn own_group(number: usize) -> DynamicObject {
    let namespace = namespace_of(number);
    let api = format!("Bird{number}.v1.birds.com");
    group(&namespace, "g", &json!({"targetNamespaces": [namespace]}), &api)
}

/// A ClusterServiceVersion that owns a CRD of its number.
fn operator(namespace: &str, number: usize) -> Value {
    let labels = json!({"name": "operator"});
    let container = json!({"name": "manager", "image": "quay.io/example/operator:1.0.0"});
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        .map(|name| json!({"type": name, "supported": name == "OwnNamespace"}));
    let crd = format!("birds{number}.example.com");
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("operator-{number}.v1.0.0"), "namespace": namespace},
        "spec": {
            "displayName": "Operator",
            "version": "1.0.0",
            "customresourcedefinitions": {"owned": [{"kind": "Bird", "name": crd, "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [{
                "name": "operator",
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                },
            }]}},
            "installModes": modes,
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_reservations_admit_everything_without_a_conflict() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    plane.grant_installation().await;
    let namespaces = (0..NAMESPACES).map(namespace_of);
    plane.namespaces(namespaces.chain(["shared".to_owned()])).await;
    let admin = plane.client("admin").await;
    let test = CostTest { plane, admin };
    println!("one write of a ConfigMap: {}", test.time_writes().await);
    for reservations in ["local", "shared", "local", "shared"] {
        let replicas = test.start(reservations).await;
        println!("{reservations}, one after the other: {}", test.time_sequence().await);
        println!("    {}", replicas.ledger_figures().await);
        println!("{reservations}, {CREATES_PER_SECOND} a second: {}", test.time_rate().await);
        println!("    {}", replicas.ledger_figures().await);
        println!("{reservations}, at once: {}", test.time_operators().await);
        println!("    {}", replicas.ledger_figures().await);
        if reservations == "shared" {
            assert!(!test.tracks_field_owners().await);
        }
    }
}
