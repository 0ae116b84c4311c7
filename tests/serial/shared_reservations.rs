//! Pairs of objects that exclude each other, through several replicas with one ledger and real API
//! servers, where `KUBEBUILDER_ASSETS` names a directory with one. The API servers store exactly one
//! object of each pair. Each test prints the lines of `docs/reliability.md`:
//!
//! `cargo test --workspace --test serial -- shared_reservations --nocapture`
//!
//! `OPGATE_RACE_PAIRS` (40) is the number of pairs in each line.
//!
//! ```text
//! two clients ─┬▶ API server 1 ─┬─ label ─▶ forwarder ─▶ replica 0
//!              └▶ API server 2 ─┘      └──▶ forwarder ─▶ replica 1 …
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::forwarder::Forwarder;
use testkit::objects::{csvs, group, groups, object, resource, subscriptions};
use testkit::{Server, configuration, reviews};

use crate::{BINARY, wait_for_idle_machine};

/// Namespaces, which pairs use in turn: long after the last pair of one has been deleted.
const NAMESPACES: usize = 200;

/// Pairs at a time.
const CONCURRENT_PAIRS: usize = 8;

/// Intervals between the two requests of a pair, in milliseconds.
const INTERVALS_MS: [u64; 5] = [0, 1, 5, 20, 100];

/// For this long, a client repeats a create that failed because a process was away.
const RETRY_TIMEOUT: Duration = Duration::from_secs(90);

/// The time of an evaluation in an unoptimised build.
const EVALUATION_TIME: &str = "9s";

fn pair_count() -> usize {
    std::env::var("OPGATE_RACE_PAIRS").map_or(40, |text| text.parse().expect("a number"))
}

/// Which objects exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PairRule {
    /// Two groups in one namespace.
    Opg01,
    /// Groups in two namespaces, with the same API for the same namespace.
    Opg18,
    /// CSVs in two namespaces, with a conversion webhook for the same CRD.
    Csv97,
    /// Two Subscriptions in one namespace, for the same package.
    Sub07,
}

impl PairRule {
    const ALL: [Self; 4] = [Self::Opg01, Self::Opg18, Self::Csv97, Self::Sub07];

    fn resource(self) -> ApiResource {
        match self {
            Self::Opg01 | Self::Opg18 => groups(),
            Self::Csv97 => csvs(),
            Self::Sub07 => subscriptions(),
        }
    }

    /// One of the two objects of a pair, for one of the replicas.
    fn object(self, pair: usize, second: bool, replica: usize) -> DynamicObject {
        let namespace = |apart: bool| {
            let moved = if apart && second { pair + NAMESPACES / 2 } else { pair };
            format!("pair-{}", moved % NAMESPACES)
        };
        let name = format!("{}-{pair}", if second { "second" } else { "first" });
        let mut object = match self {
            Self::Opg01 => {
                let own = namespace(false);
                group(&own, &name, &json!({"targetNamespaces": [own]}), "")
            }
            Self::Opg18 => {
                let api = format!("Goose{pair}.v1alpha1.birds.com");
                let spec = json!({"targetNamespaces": ["shared"]});
                group(&namespace(true), &name, &spec, &api)
            }
            Self::Csv97 => object(webhook_operator(&namespace(true), &name, pair)),
            Self::Sub07 => object(reviews::subscription(&namespace(false), &name, "goose")),
        };
        // The API server gives its own.
        object.metadata.uid = None;
        let labels = [("replica", format!("r{replica}")), ("pair", pair.to_string())];
        object.metadata.labels =
            Some(labels.map(|(key, value)| (key.to_owned(), value)).into_iter().collect());
        object
    }

    fn denial_text(self) -> &'static str {
        match self {
            Self::Opg01 => "Multiple OperatorGroup found in the same namespace",
            Self::Opg18 => "intersecting operatorgroups provide the same apis",
            Self::Csv97 => "only be one conversion webhook on the entire cluster",
            Self::Sub07 => "no two Operators may come from the same package",
        }
    }

    /// The policy of the rule, without rules that need other objects.
    fn configuration(self, reservations: &str) -> String {
        let mut policy = match self {
            Self::Opg01 | Self::Opg18 => json!({"name": "operator-group"}),
            Self::Csv97 => json!({"name": "cluster-service-version"}),
            Self::Sub07 => {
                json!({"name": "subscription", "rules": {"SUB-01": "off", "SUB-04": "off"}})
            }
        };
        policy["limits"] = json!({"time": EVALUATION_TIME});
        let mut whole: Value = serde_json::from_str(&configuration(&[policy])).unwrap();
        whole["reservations"] = reservations.into();
        whole.to_string()
    }
}

/// A ClusterServiceVersion with a conversion webhook for the CRD of its pair.
fn webhook_operator(namespace: &str, name: &str, pair: usize) -> Value {
    let crd = format!("tests{pair}.example.com");
    let labels = json!({"name": name});
    let container = json!({"name": "manager", "image": "quay.io/olmtest/webhook-operator:0.0.3"});
    let mode = |name: &str| json!({"type": name, "supported": name == "AllNamespaces"});
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"].map(mode);
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "displayName": name,
            "version": "0.0.1",
            "customresourcedefinitions": {
                "owned": [{"kind": "Test", "name": crd, "version": "v1"}],
            },
            "install": {"strategy": "deployment", "spec": {"deployments": [{
                "name": "webhook",
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                },
            }]}},
            "installModes": modes,
            "webhookdefinitions": [{
                "type": "ConversionWebhook",
                "admissionReviewVersions": ["v1"],
                "containerPort": 443,
                "targetPort": 4343,
                "deploymentName": "webhook",
                "generateName": "convert.example.com",
                "sideEffects": "None",
                "webhookPath": "/convert",
                "conversionCRDs": [crd],
            }],
        },
    })
}

/// What happens while pairs are sent, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disruption {
    Nothing,
    /// A replica gets SIGKILL and is started again.
    ReplicaKilled,
    /// A replica gets SIGSTOP, and SIGCONT after the timeout of its calls.
    ReplicaSuspended,
    /// The first API server gets SIGKILL and is started again.
    ApiServerKilled,
    /// Each replica is replaced by a new one.
    RollingUpdate,
}

#[derive(Clone, Copy, Debug)]
struct PairTable {
    rule: PairRule,
    replicas: usize,
    reservations: &'static str,
    consistent: bool,
    disruption: Disruption,
}

/// How the requests of a table ended.
#[derive(Debug, Default)]
struct PairResult {
    /// Pairs by the number of their stored objects.
    stored: BTreeMap<usize, usize>,
    /// Pairs of which a client and the API server disagree.
    wrong: usize,
    retried: usize,
    times: Vec<Duration>,
    failed: BTreeMap<String, usize>,
}

impl PairResult {
    fn percentile(&self, percent: usize) -> u128 {
        let index = self.times.len().saturating_sub(1) * percent / 100;
        self.times.get(index).map_or(0, Duration::as_millis)
    }
}

/// A replica, behind an address that stays.
struct Replica {
    server: Server,
    forwarder: Forwarder,
}

struct PairTest {
    plane: ControlPlane,
    apiservers: usize,
    clients: Vec<Client>,
    next_pair: usize,
    failures: Vec<String>,
}

impl PairTest {
    async fn prepare(apiservers: usize) -> Option<Self> {
        let mut plane = ControlPlane::start().await?;
        plane.install().await;
        plane.grant_installation().await;
        if apiservers > 1 {
            plane.start_second_apiserver().await;
        }
        let namespaces = (0..NAMESPACES).map(|number| format!("pair-{number}"));
        let others = ["probe", "shared"].map(str::to_owned);
        plane.namespaces(namespaces.chain(others)).await;
        let mut clients = Vec::new();
        for apiserver in 0..apiservers {
            clients.push(plane.client_at(apiserver, "admin").await);
        }
        Some(Self { plane, apiservers, clients, next_pair: 0, failures: Vec::new() })
    }

    fn start_server(&self, table: &PairTable, replica: usize) -> Server {
        let kubeconfig = self.plane.kubeconfig_at(replica % self.apiservers, "opgate");
        let pod = format!("r{replica}");
        let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
        arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", &pod]);
        // Nothing but the forwarder knows the address of an old replica.
        arguments.extend(["--drain-delay", "1s"]);
        if table.consistent {
            arguments.push("--consistent-reads");
        }
        let configuration = table.rule.configuration(table.reservations);
        Server::start(BINARY, Some(&configuration), &arguments)
    }

    async fn start(&self, table: &PairTable) -> Vec<Replica> {
        let mut replicas = Vec::new();
        for number in 0..table.replicas {
            let server = self.start_server(table, number);
            let forwarder = Forwarder::start().await;
            forwarder.set_targets([server.address]);
            replicas.push(Replica { server, forwarder });
        }
        for replica in &replicas {
            wait_ready(&replica.server).await;
        }
        self.register(table, &replicas).await;
        replicas
    }

    fn webhooks(&self) -> Api<DynamicObject> {
        let kind = resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
        Api::all_with(self.clients[0].clone(), &kind)
    }

    /// Registers one webhook for each replica, which gets the objects with its label.
    async fn register(&self, table: &PairTable, replicas: &[Replica]) {
        let configuration = table.rule.configuration(table.reservations);
        let servers = replicas.iter().map(|replica| &replica.server);
        self.plane.register(BINARY, &configuration, replicas[0].forwarder.address, servers).await;
        let api = self.webhooks();
        let mut printed = api.get("opgate").await.unwrap();
        let webhooks = printed.data["webhooks"].as_array().unwrap().clone();
        let mut divided = Vec::new();
        for (number, replica) in replicas.iter().enumerate() {
            for webhook in &webhooks {
                let mut webhook = webhook.clone();
                webhook["name"] = format!("r{number}.{}", webhook["name"].as_str().unwrap()).into();
                webhook["clientConfig"]["service"]["port"] =
                    replica.forwarder.address.port().into();
                webhook["objectSelector"] =
                    json!({"matchLabels": {"replica": format!("r{number}")}});
                divided.push(webhook);
            }
        }
        printed.data["webhooks"] = divided.into();
        api.replace("opgate", &PostParams::default(), &printed).await.unwrap();
        for (number, replica) in replicas.iter().enumerate() {
            for client in &self.clients {
                let before = replica.server.metric("opgate_requests_total").await.unwrap_or(0.0);
                eventually("the webhook", || async {
                    let object = table.rule.object(0, false, number);
                    let dry = PostParams { dry_run: true, ..PostParams::default() };
                    let created = api_of(client, table.rule, &object).create(&dry, &object).await;
                    let after = replica.server.metric("opgate_requests_total").await;
                    if let Err(error) = &created
                        && after > Some(before)
                    {
                        panic!("{error}");
                    }
                    (after > Some(before)).then_some(())
                })
                .await;
            }
        }
    }

    /// Sends pairs through pairs of replicas, and counts what is stored.
    async fn run(&mut self, table: PairTable, apart: Option<u64>) {
        let mut replicas = self.start(&table).await;
        for interval in INTERVALS_MS.into_iter().filter(|ms| apart.is_none_or(|only| only == *ms)) {
            let mut result = PairResult::default();
            let apart = Duration::from_millis(interval);
            self.send_pairs(&table, apart, &mut replicas, &mut result).await;
            result.times.sort_unstable();
            let line = self.line(&table, interval, &result);
            println!("{line}");
            let is_right = result.wrong == 0 && result.failed.is_empty();
            let expected = if table.reservations == "local" {
                // Otherwise the test could not tell.
                result.stored.get(&2).is_some_and(|both| *both > 0)
            } else {
                result.stored.keys().all(|stored| *stored == 1)
            };
            if !is_right || !expected {
                self.failures.push(line);
            }
        }
        // The next apply would keep webhooks that another field manager has written.
        // The API server may just have been killed.
        eventually("a deletion", || async {
            self.webhooks().delete("opgate", &DeleteParams::default()).await.ok()
        })
        .await;
    }

    fn line(&self, table: &PairTable, interval: u64, result: &PairResult) -> String {
        format!(
            "{:?}, {} replicas, {} API servers, reservations {}, consistent reads {}, {:?}, {interval} ms: \
             stored objects of a pair: {:?}, wrong {}, repeated {}, p50 {} ms, p99 {} ms, failed {:?}",
            table.rule,
            table.replicas,
            self.apiservers,
            table.reservations,
            table.consistent,
            table.disruption,
            result.stored,
            result.wrong,
            result.retried,
            result.percentile(50),
            result.percentile(99),
            result.failed,
        )
    }

    async fn send_pairs(
        &mut self,
        table: &PairTable,
        apart: Duration,
        replicas: &mut [Replica],
        result: &mut PairResult,
    ) {
        let count = pair_count();
        let (mut sent, mut ended) = (0, 0);
        let mut running = FuturesUnordered::new();
        while ended < count {
            while sent < count && running.len() < CONCURRENT_PAIRS {
                self.next_pair += 1;
                sent += 1;
                let pair = Pair {
                    rule: table.rule,
                    number: self.next_pair,
                    replicas: [sent % table.replicas, (sent + 1) % table.replicas],
                    clients: [0, 1].map(|side| self.clients[side % self.apiservers].clone()),
                    apart,
                    is_patient: table.disruption != Disruption::Nothing,
                };
                running.push(tokio::spawn(pair.send()));
            }
            let pair = running.next().await.unwrap().unwrap();
            ended += 1;
            *result.stored.entry(pair.stored).or_default() += 1;
            result.wrong += usize::from(pair.created != pair.stored);
            for create in pair.creates {
                result.retried += usize::from(create.tries > 1);
                result.times.push(create.time);
                if let Err(error) = create.result {
                    *result.failed.entry(error).or_default() += 1;
                }
            }
            // Four times in each line.
            if ended % (count / 4).max(1) == count / 8 {
                self.disrupt(table, ended % table.replicas, replicas).await;
            }
        }
    }

    async fn disrupt(&mut self, table: &PairTable, which: usize, replicas: &mut [Replica]) {
        let replica = &mut replicas[which];
        match table.disruption {
            Disruption::Nothing => {}
            Disruption::ReplicaKilled => {
                replica.server.restart();
                replica.forwarder.set_targets([replica.server.address]);
            }
            Disruption::ReplicaSuspended => {
                replica.server.signal(Signal::STOP);
                tokio::time::sleep(Duration::from_secs(12)).await;
                replica.server.signal(Signal::CONT);
            }
            Disruption::ApiServerKilled => self.plane.restart_apiserver(),
            Disruption::RollingUpdate => {
                for (number, replica) in replicas.iter_mut().enumerate() {
                    let new = self.start_server(table, number);
                    wait_ready(&new).await;
                    let ca = new.certificates.authority.certificate().to_owned();
                    self.trust(&ca).await;
                    replica.forwarder.set_targets([new.address]);
                    let mut old = std::mem::replace(&mut replica.server, new);
                    old.signal(Signal::TERM);
                    tokio::task::spawn_blocking(move || old.wait()).await.unwrap();
                }
            }
        }
    }

    /// Adds a CA to all webhooks.
    async fn trust(&self, ca: &str) {
        use base64::Engine as _;
        let api = self.webhooks();
        let mut registered = api.get("opgate").await.unwrap();
        for webhook in registered.data["webhooks"].as_array_mut().unwrap() {
            let bundle = &mut webhook["clientConfig"]["caBundle"];
            let engine = base64::engine::general_purpose::STANDARD;
            let mut all = engine.decode(bundle.as_str().unwrap()).unwrap();
            all.extend(ca.as_bytes());
            *bundle = engine.encode(all).into();
        }
        api.replace("opgate", &PostParams::default(), &registered).await.unwrap();
        // Both API servers read it from a watch.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    fn assert_no_failures(self) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}

async fn wait_ready(server: &Server) {
    eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
        .await;
}

fn api_of(client: &Client, rule: PairRule, object: &DynamicObject) -> Api<DynamicObject> {
    let namespace = object.metadata.namespace.as_deref().unwrap();
    Api::namespaced_with(client.clone(), namespace, &rule.resource())
}

/// A pair to send.
struct Pair {
    rule: PairRule,
    number: usize,
    replicas: [usize; 2],
    clients: [Client; 2],
    apart: Duration,
    /// Whether clients repeat failed requests.
    is_patient: bool,
}

/// How a pair ended.
struct SentPair {
    created: usize,
    stored: usize,
    creates: [Create; 2],
}

/// How a create ended: whether the object was stored, as far as the client knows.
struct Create {
    result: Result<bool, String>,
    tries: usize,
    time: Duration,
}

impl Pair {
    async fn send(self) -> SentPair {
        let [first, second] = [false, true].map(|second| {
            self.rule.object(self.number, second, self.replicas[usize::from(second)])
        });
        let creates: [Create; 2] = tokio::join!(self.create(&self.clients[0], &first), async {
            if !self.apart.is_zero() {
                tokio::time::sleep(self.apart).await;
            }
            self.create(&self.clients[1], &second).await
        })
        .into();
        let successes = creates.iter().filter(|create| matches!(create.result, Ok(true))).count();
        let all = Api::<DynamicObject>::all_with(self.clients[1].clone(), &self.rule.resource());
        let of_it = ListParams::default().labels(&format!("pair={}", self.number));
        let stored =
            eventually("a list", || async { Some(all.list(&of_it).await.ok()?.items) }).await;
        for object in &stored {
            let api = api_of(&self.clients[1], self.rule, object);
            let name = object.metadata.name.as_deref().unwrap();
            eventually("a deletion", || async {
                api.delete(name, &DeleteParams::default()).await.ok()
            })
            .await;
        }
        SentPair { created: successes, stored: stored.len(), creates }
    }

    async fn create(&self, client: &Client, object: &DynamicObject) -> Create {
        let started = Instant::now();
        let api = api_of(client, self.rule, object);
        for tries in 1.. {
            let created = api.create(&PostParams::default(), object).await;
            let result = match created {
                Ok(_) => Ok(true),
                // Stored by an earlier try, whose response was lost.
                Err(kube::Error::Api(status)) if status.code == 409 && tries > 1 => Ok(true),
                Err(kube::Error::Api(status))
                    if status.code == 403 && status.message.contains(self.rule.denial_text()) =>
                {
                    Ok(false)
                }
                Err(error) => Err(error.to_string().chars().take(600).collect()),
            };
            if result.is_ok() || !self.is_patient || started.elapsed() >= RETRY_TIMEOUT {
                return Create { result, tries, time: started.elapsed() };
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("the loop has no end")
    }
}

/// Runs tables in one control plane.
async fn run_tables(
    apiservers: usize,
    apart: Option<u64>,
    tables: impl IntoIterator<Item = PairTable>,
) {
    let _turn = wait_for_idle_machine().await;
    let Some(mut test) = PairTest::prepare(apiservers).await else { return };
    for table in tables {
        test.run(table, apart).await;
    }
    test.assert_no_failures();
}

/// All rules, with and without `--consistent-reads`.
fn all_rules(replicas: usize) -> impl Iterator<Item = PairTable> {
    let both = move |rule| {
        [false, true].map(|consistent| PairTable {
            rule,
            replicas,
            reservations: "shared",
            consistent,
            disruption: Disruption::Nothing,
        })
    };
    PairRule::ALL.into_iter().flat_map(both)
}

/// What the other tests would show without the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_with_local_reservations_store_both() {
    let table = PairTable {
        rule: PairRule::Opg01,
        replicas: 2,
        reservations: "local",
        consistent: false,
        disruption: Disruption::Nothing,
    };
    run_tables(1, Some(0), [table]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_store_one_of_each_pair() {
    run_tables(1, None, all_rules(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_at_two_api_servers_store_one_of_each_pair() {
    run_tables(2, None, all_rules(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_replicas_at_two_api_servers_store_one_of_each_pair() {
    run_tables(2, None, all_rules(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_at_two_api_servers_store_one_of_each_pair() {
    run_tables(2, None, all_rules(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_store_one_of_each_pair_despite_disruptions() {
    let disruptions = [
        Disruption::ReplicaKilled,
        Disruption::ReplicaSuspended,
        Disruption::ApiServerKilled,
        Disruption::RollingUpdate,
    ];
    let tables = disruptions.into_iter().flat_map(|disruption| {
        [PairRule::Opg01, PairRule::Opg18].map(|rule| PairTable {
            rule,
            replicas: 3,
            reservations: "shared",
            consistent: false,
            disruption,
        })
    });
    run_tables(2, Some(0), tables).await;
}
