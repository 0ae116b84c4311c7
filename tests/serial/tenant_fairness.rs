//! One tenant's work is one tenant's problem: what tenants may do to the time of others, through the real
//! binary. `docs/security.md` lists the invariants.
//!
//! With `--nocapture` the loads print the figures of `docs/reliability.md`; `OPGATE_BINARY` measures another
//! build.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use testkit::reviews::{self, WriteMode};
use testkit::wait_until;
use testkit::{
    Client, Server, builtin_policy, configuration, create_bundle, good_spec, misbehaves,
};
use tokio::task::JoinSet;

use crate::{BINARY, wait_for_idle_machine};

/// The most time that the server takes: what is asserted is that nothing is refused or lost.
const VALIDATE_PATH: &str = "/validate?timeout=60s";

/// Calls that were given up because they took too long.
const POLICY_ERRORS_METRIC: &str = "opgate_policy_errors_total{policy=\"evil\",cause=\"deadline\"}";

fn binary() -> String {
    std::env::var("OPGATE_BINARY").unwrap_or_else(|_| BINARY.to_owned())
}

/// A review of an object in a namespace.
fn review(namespace: &str, name: &str, padding: usize) -> Bytes {
    let mut review = create_bundle("u", name, &good_spec());
    review["request"]["namespace"] = namespace.into();
    review["request"]["object"]["metadata"]["namespace"] = namespace.into();
    review["request"]["object"]["metadata"]["annotations"] =
        json!({"padding": "{\"[x]\":1} ".repeat(padding / 10)});
    review.to_string().into()
}

/// Burns its whole time for objects of the name `slow`.
fn slow_policy(name: &str, on_error: &str) -> Value {
    let mut policy = misbehaves(name, &json!({"do": "spin-for-name", "name": "slow"}));
    policy["onError"] = on_error.into();
    policy
}

/// Connections that send objects of 1 to 3 MiB, for which a policy needs all of its time, one after the other.
struct LongCallAttack {
    running: JoinSet<BTreeMap<u16, usize>>,
    stop: Arc<AtomicBool>,
}

impl LongCallAttack {
    async fn start(server: &Server, path: &'static str, namespaces: &[&str], count: usize) -> Self {
        let (mut running, stop) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        for number in 0..count {
            let mut client = server.connect().await;
            let namespace = namespaces[number % namespaces.len()];
            // An unoptimised build reads a tenth of it in the same time.
            let unit = if cfg!(debug_assertions) { 100 << 10 } else { 1 << 20 };
            let body = review(namespace, "slow", (1 + number % 3) * unit);
            let stop = stop.clone();
            running.spawn(async move {
                let mut answers = BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.post(path, "application/json", body.clone()).await.unwrap();
                    *answers.entry(answer.status).or_default() += 1;
                }
                answers
            });
        }
        Self { running, stop }
    }

    /// What was answered.
    async fn end(mut self) -> BTreeMap<u16, usize> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        while let Some(answers) = self.running.join_next().await {
            for (status, count) in answers.unwrap() {
                *all.entry(status).or_default() += count;
            }
        }
        all
    }
}

/// Reviews of a small object, one after the other with pauses, so that they meet any moment of the load.
async fn send_small_reviews(client: &mut Client, path: &str, what: &str, count: usize) {
    let (mut times, mut answers) = (Vec::new(), BTreeMap::<u16, usize>::new());
    let body = review("victim", "small", 100);
    for number in 0..count {
        let started = Instant::now();
        let answer = client.post(path, "application/json", body.clone()).await.unwrap();
        times.push(started.elapsed());
        *answers.entry(answer.status).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(u64::try_from(number % 7).unwrap())).await;
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what}: p50 {:?}, p99 {:?}, max {:?}, {answers:?}", at(50), at(99), at(100));
    assert_eq!(answers, BTreeMap::from([(200, count)]), "{what}");
}

/// Objects that burn the whole time of a policy: with 8 and with 80 connections, of one tenant and of many,
/// nothing of another tenant is refused or lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_calls_do_not_starve_other_tenants() {
    let _turn = wait_for_idle_machine().await;
    let policies = [slow_policy("evil", "failurePolicy"), builtin_policy()];
    for (connections, namespaces) in [
        (8, &["attacker"][..]),
        (80, &["attacker"]),
        (80, &["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10"]),
    ] {
        let server = Server::start(&binary(), Some(&configuration(&policies)), &[]);
        let mut client = server.connect().await;
        send_small_reviews(&mut client, VALIDATE_PATH, "alone", 100).await;
        let attack = LongCallAttack::start(&server, "/validate", namespaces, connections).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let what = format!("beside {connections} of {} tenants", namespaces.len());
        send_small_reviews(&mut client, VALIDATE_PATH, &what, 50).await;
        println!("  they got {:?}", attack.end().await);
    }
}

/// A call that needs much CPU time, but within its limit, next to 8 connections to another policy
/// that use all processors. The call waits for a processor most of the time, and waiting uses no
/// CPU time. As long as waiting counted, 20 of 20 such calls failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_policy_use_no_time_of_another() {
    let _turn = wait_for_idle_machine().await;
    let mut evil = slow_policy("evil", "failurePolicy");
    evil["limits"] = json!({"concurrency": 8});
    let good = |time: &str| {
        let mut good = misbehaves("good", &json!({"do": "work", "number": 40_000_000}));
        good["limits"] = json!({"time": time});
        configuration(&[evil.clone(), good])
    };
    // What it takes on this machine; what a busy one takes is only more.
    let server = Server::start(&binary(), Some(&good("30s")), &[]);
    let mut client = server.connect().await;
    let mut took = Duration::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        send_small_reviews(&mut client, "/validate/good?timeout=60s", "alone", 1).await;
        took = took.min(started.elapsed());
    }
    drop((client, server));
    // A processor that threads share may be half as fast.
    let most = format!("{}ms", (took.as_millis() * 3).min(30_000));
    let server = Server::start(&binary(), Some(&good(&most)), &[]);
    let mut client = server.connect().await;
    let attack = LongCallAttack::start(&server, "/validate/evil", &["attacker"], 8).await;
    wait_until("burning", async || {
        server.metric(POLICY_ERRORS_METRIC).await.is_some_and(|count| count > 0.0)
    })
    .await;
    send_small_reviews(&mut client, "/validate/good?timeout=60s", "beside 8 of another policy", 20)
        .await;
    println!("  they got {:?}", attack.end().await);
}

/// A version that owns very many API services, and groups with very many targets and no status, stored by one
/// tenant: others ask about the same API group, and about the same API.
#[tokio::test(flavor = "multi_thread")]
async fn stored_objects_of_a_tenant_fail_no_requests_of_others() {
    let _turn = wait_for_idle_machine().await;
    let cluster = reviews::cluster();
    let service = |number: usize| json!({"group": "shared.example.com", "version": format!("v{number}"), "kind": "K"});
    let owns = |csv: &mut Value, services: Vec<Value>| {
        csv["spec"]["apiservicedefinitions"] = json!({"owned": services});
    };
    let many: Vec<_> = (0..18_000).map(|number| format!("namespace-{number:040}")).collect();
    let targets: Vec<_> = many.iter().map(String::as_str).collect();
    for number in 0..4 {
        let name = format!("evil-{number}");
        cluster.apply("", "v1", "namespaces", reviews::namespace(&name));
        let mut csv = reviews::csv(&name, "large", &["AllNamespaces"], &[]);
        owns(&mut csv, (10..18_000).map(service).collect());
        cluster.apply(reviews::OLM, "v1alpha1", "clusterserviceversions", csv);
        let group = reviews::group(&name, "large", &targets, reviews::GOOSE_API);
        cluster.apply(reviews::OLM, "v1", "operatorgroups", group);
    }
    cluster.apply(reviews::OLM, "v1", "operatorgroups", reviews::group("a", "own", &["a"], ""));
    // As it is by default, with time for an unoptimised build, and where what warns is to deny.
    let policy = |rules: Value| {
        let limits =
            if std::env::var("OPGATE_BINARY").is_ok() { json!({}) } else { json!({"time": "20s"}) };
        configuration(&[json!({"name": "operator-group", "limits": limits, "rules": rules})])
    };
    let kubeconfig = cluster.kubeconfig();
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    for (rules, taken) in [
        (json!({}), "allowed"),
        (json!({"OPG-29": "deny"}), "unable to adopt APIService: csv evil-0/large owns it"),
    ] {
        let server = Server::start(&binary(), Some(&policy(rules)), &arguments);
        wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
        for (version, crds, expected) in
            [(1, &["geese.birds.com"][..], "allowed"), (20_000, &[], "allowed"), (11, &[], taken)]
        {
            let mut csv = reviews::csv("a", "victim", &["OwnNamespace", "SingleNamespace"], crds);
            owns(&mut csv, vec![service(version)]);
            let review = reviews::create(&csv, WriteMode::DryRun);
            let started = Instant::now();
            let answer = server.connect().await.review(review).await.unwrap();
            println!("{version}: {:?}: {} {}", started.elapsed(), answer.status, answer.body);
            assert_eq!(answer.message(), expected, "{version}");
        }
        assert_eq!(server.metric("opgate_rules_dropped_total").await, None);
    }
}
