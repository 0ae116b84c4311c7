//! Memory and time of reloads.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::core::DynamicObject;
use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Source};
use opgate::engine::Compiler;
use opgate::policy::{Configuration, LoadProgress, PolicySet};
use opgate::server;
use serde_json::{Value, json};
use testkit::control_plane::ControlPlane;
use testkit::objects::{group, groups, resource};
use testkit::{
    ConfigMap, Server, builtin_policy, configuration, create_bundle, good_spec, hostile_component,
    misbehaves, recorded_review, wait_until,
};

use crate::cgroup::Cgroup;
use crate::{BINARY, wait_for_idle_machine};

const MIB: usize = 1 << 20;

/// Every built-in policy, with all the time that an unoptimised build on a busy machine may need.
async fn builtin_policies() -> Vec<Value> {
    let files = ConfigMap::new(&[(
        "opgate.yaml",
        "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n",
    )]);
    let config = files.path("opgate.yaml");
    let arguments = ["--config", config.to_str().unwrap(), "--cluster-source", "none"];
    let server = Server::start(BINARY, None, &arguments);
    let told = policies_status(&server).await;
    let policies = told["policies"].as_array().unwrap().iter();
    policies.map(|policy| json!({"name": policy["name"], "limits": {"time": "20s"}})).collect()
}

async fn policies_status(server: &Server) -> Value {
    serde_json::from_str(&server.get("/policies").await.1).unwrap()
}

/// The times at which the last attempt ended and what serves was loaded, and the error.
async fn reload_state(server: &Server) -> (String, Option<String>) {
    let told = policies_status(server).await;
    let digest = told["configuration"]["digest"].to_string();
    let error = told["configuration"]["lastAttempt"]["error"].as_str().map(str::to_owned);
    (digest, error)
}

/// Long calls get the CPU time that other processes leave.
#[tokio::test(flavor = "multi_thread")]
async fn call_keeps_its_policy_set_during_a_reload() {
    let _turn = wait_for_idle_machine().await;
    let builtin = builtin_policy();
    let mut slow = misbehaves("slow", &json!({"do": "work", "number": 4_000_000_000_u64}));
    slow["limits"] = json!({"time": "30s"});
    let mut files = ConfigMap::new(&[("opgate.yaml", &configuration(&[builtin.clone(), slow]))]);
    let config = files.path("opgate.yaml");
    let arguments = ["--config", config.to_str().unwrap(), "--reload-interval", "20ms"];
    let server = Server::start(BINARY, None, &arguments);
    let (before, _) = reload_state(&server).await;
    let bundle = create_bundle("u", "b", &good_spec()).to_string();
    let (mut client, review) = (server.connect().await, bundle.clone());
    let running = tokio::spawn(async move { client.review(review).await.unwrap() });
    let requests_in_flight = async || server.metric("opgate_requests_in_flight").await;
    wait_until("the call", async || requests_in_flight().await == Some(1.0)).await;
    files.swap(&[("opgate.yaml", &configuration(&[builtin]))]);
    wait_until("another configuration", async || reload_state(&server).await.0 != before).await;
    let retired_sets = async || policies_status(&server).await["configuration"]["retired"].clone();
    if requests_in_flight().await == Some(1.0) {
        assert_eq!(retired_sets().await, 1);
    }
    let mut client = server.connect().await;
    assert_eq!(client.review(bundle).await.unwrap().message(), "allowed");
    assert_eq!(running.await.unwrap().status, 200);
    wait_until("the end of the old set", async || retired_sets().await == 0).await;
}

/// The system ends a server that passes its limit. New components are compiled meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_in_a_128_mib_cgroup_reloads() {
    let _turn = wait_for_idle_machine().await;
    let builtins = builtin_policies().await;
    let Some(group) = Cgroup::create(128 << 20) else { return };
    let with = |others: &[Value], mode: &str| {
        let mut all = builtins.clone();
        for policy in &mut all {
            policy["mode"] = mode.into();
        }
        all.extend_from_slice(others);
        configuration(&all)
    };
    let file =
        |name: &str| json!({"name": name, "module": hostile_component(name), "mode": "audit"});
    let configurations = [
        with(&[], "enforce"),
        with(&[file("misbehaves")], "warn"),
        with(&[file("misbehaves"), file("advises")], "enforce"),
        with(&[file("floods")], "enforce"),
        with(&[], "warn"),
    ];
    let mut files = ConfigMap::new(&[("opgate.yaml", &configurations[0])]);
    let config = files.path("opgate.yaml");
    let arguments = [
        "--config",
        config.to_str().unwrap(),
        "--reload-interval",
        "20ms",
        "--cluster-source",
        "none",
    ];
    let server = Server::start_after(&group.enter_command(), BINARY, None, &arguments);
    if !group.contains(server.id()) {
        return println!("skipped: the control group takes no process");
    }
    let first = server.memory("RssAnon") / MIB;
    let (mut replaced, mut kept, mut times) = (0, Vec::new(), Vec::<Duration>::new());
    let mut client = server.connect().await;
    for number in 1..=20 {
        let before = reload_state(&server).await;
        let began = Instant::now();
        files.swap(&[("opgate.yaml", &configurations[number % configurations.len()])]);
        wait_until("an end of the attempt", async || {
            let answer = client.review(recorded_review("006")).await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.body);
            reload_state(&server).await != before
        })
        .await;
        match reload_state(&server).await {
            (_, None) => {
                replaced += 1;
                times.push(began.elapsed());
            }
            (_, Some(error)) => kept.push(error),
        }
    }
    wait_until("the end of old sets", async || {
        policies_status(&server).await["configuration"]["retired"] == 0
    })
    .await;
    times.sort_unstable();
    println!(
        "{replaced} reloads, {} kept; {first} MiB at first, {} MiB after, {} MiB at the most in the group; median {:?}, most {:?}",
        kept.len(),
        server.memory("RssAnon") / MIB,
        group.peak_bytes() >> 20,
        times.get(times.len() / 2),
        times.last(),
    );
    assert!(kept.iter().all(|error| error.contains("memory")), "{kept:?}");
    // Those with built-in policies alone fit in any case.
    assert!(replaced >= 8, "{replaced}: {kept:?}");
    assert_eq!(server.get("/livez").await.0, 200);
}

/// Where there is no room, the last good configuration stays, and the reason is the memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reload_without_memory_keeps_last_good() {
    let _turn = wait_for_idle_machine().await;
    let builtins = builtin_policies().await;
    let root = tempfile::tempdir().unwrap();
    let status = "RssAnon:\t   100000 kB\nRssShmem:\t 0 kB\n";
    for (name, content) in [
        ("proc/self/cgroup", "0::/kubepods/pod1\n"),
        ("proc/self/status", status),
        ("sys/fs/cgroup/kubepods/pod1/memory.max", "134217728\n"),
    ] {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let mut files = ConfigMap::new(&[("opgate.yaml", &configuration(&builtins[..1]))]);
    let (config, root_path) = (files.path("opgate.yaml"), root.path().to_str().unwrap());
    let config = config.to_str().unwrap();
    let arguments = ["--config", config, "--reload-interval", "20ms", "--system-root", root_path];
    let server = Server::start(BINARY, None, &arguments);
    let before = reload_state(&server).await;
    files.swap(&[("opgate.yaml", &configuration(&builtins))]);
    wait_until("the refusal", async || reload_state(&server).await != before).await;
    let (digest, error) = reload_state(&server).await;
    assert_eq!(digest, before.0);
    let error = error.unwrap();
    assert!(error.starts_with("not enough memory to load another configuration"), "{error}");
    assert!(error.contains("of 128Mi are left"), "{error}");
    // The server tries it again, and at once on SIGHUP.
    let status = status.replace("100000", "10000");
    std::fs::write(root.path().join("proc/self/status"), status).unwrap();
    server.signal(rustix::process::Signal::HUP);
    wait_until("the change", async || reload_state(&server).await.0 != before.0).await;
}

/// Time, in this process, to load a set while another one serves, and to replace that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reload_duration_of_builtin_policies_is_printed() {
    let _turn = wait_for_idle_machine().await;
    let text = |mode: &str| {
        let mut text =
            String::from("apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n");
        for builtin in BUILTINS {
            writeln!(text, "  - {{name: {}, mode: {mode}}}", builtin.name).unwrap();
        }
        text
    };
    let parse = |mode: &str| {
        let path = Path::new("opgate.yaml");
        Configuration::parse(path, &text(mode), BUILTINS).unwrap()
    };
    let options = ClusterOptions::of(Source::Absent);
    let first = PolicySet::load(&parse("enforce"), None, 64, options).unwrap();
    let certificates = testkit::Certificates::new();
    let source = opgate_certs::Source::Directory(certificates.directory.path().to_path_buf());
    let certificate = Arc::new(opgate_certs::Reloader::new(source).unwrap());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = server::Options { listen: any, ops_listen: any, ..Default::default() };
    let bound = server::Server::bind(options, first, certificate).await.unwrap();
    let serving = bound.active_set();
    let (mut looks, mut loads, mut swaps) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..20 {
        let mode = if number % 2 == 0 { "warn" } else { "enforce" };
        let began = Instant::now();
        let configuration = parse(mode);
        let digest = configuration.digest();
        looks.push(began.elapsed());
        let old = serving.current().set.clone();
        let began = Instant::now();
        let new =
            old.load_replacing(&configuration, None, Compiler::InProcess, &LoadProgress::default());
        loads.push(began.elapsed());
        let new = new.unwrap();
        assert_eq!(new.digest(), digest);
        let began = Instant::now();
        serving.replace(new);
        swaps.push(began.elapsed());
        assert_eq!(serving.current().configuration, digest);
    }
    for (what, times) in [("look", &mut looks), ("load", &mut loads), ("swap", &mut swaps)] {
        times.sort_unstable();
        println!("{what}: median {:?}, most {:?}", times[times.len() / 2], times[times.len() - 1]);
    }
}

/// Two configurations that read groups in different ways replace each other while many want to be the one group of
/// a namespace, at a real API server: there is one winner each time, and no call fails. Events are what it accepts.
#[tokio::test(flavor = "multi_thread")]
async fn conflicting_creates_during_reloads_admit_one() {
    const RACING_CREATES: usize = 12;
    const RELOAD_COUNT: usize = 12;
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    let one = ControlPlane::operator_group("20s");
    let mut both: Value = serde_json::from_str(&one).unwrap();
    let other = json!({"name": "subscription", "mode": "audit", "limits": {"time": "20s"}});
    both["policies"].as_array_mut().unwrap().push(other);
    let configurations = [one.clone(), both.to_string()];
    let mut files = ConfigMap::new(&[("opgate.yaml", &one)]);
    let (config, kubeconfig) = (files.path("opgate.yaml"), plane.kubeconfig("admin"));
    let arguments = [
        "--config",
        config.to_str().unwrap(),
        "--reload-interval",
        "20ms",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--reservation-ttl",
        "1s",
        "--installation",
        "default/opgate",
        "--pod-name",
        "opgate-1",
    ];
    let servers = [Server::start(BINARY, None, &arguments)];
    wait_until("readiness", async || servers[0].get("/readyz").await.0 == 200).await;
    plane.enforce(BINARY, &one, servers[0].address, &servers).await;
    let admin = plane.client("admin").await;
    let (stop, server) = (Arc::new(AtomicBool::new(false)), &servers[0]);
    let races = async {
        let mut rounds = 0;
        while !stop.load(Ordering::Relaxed) {
            let namespace = format!("r{rounds}");
            plane.namespaces([namespace.clone()]).await;
            let of = Api::<DynamicObject>::namespaced_with(admin.clone(), &namespace, &groups());
            let racing = (0..RACING_CREATES).map(|number| {
                let spec = json!({"targetNamespaces": [namespace]});
                let racer = group(&namespace, &format!("g{number}"), &spec, "");
                let of = of.clone();
                async move {
                    match of.create(&PostParams::default(), &racer).await {
                        Ok(_) => true,
                        Err(kube::Error::Api(status)) => {
                            let text = &status.message;
                            assert!(text.contains("Multiple OperatorGroup found"), "{text}");
                            false
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            let won = join_all(racing).await.into_iter().filter(|won| *won).count();
            assert_eq!(won, 1, "{namespace}");
            rounds += 1;
        }
        rounds
    };
    let changes = async {
        for number in 1..=RELOAD_COUNT {
            let before = reload_state(server).await;
            files.swap(&[("opgate.yaml", &configurations[number % 2])]);
            wait_until("the change", async || reload_state(server).await.0 != before.0).await;
            assert_eq!(reload_state(server).await.1, None);
        }
        files.swap(&[("opgate.yaml", "policies: [")]);
        wait_until("the trouble", async || reload_state(server).await.1.is_some()).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (rounds, ()) = tokio::join!(races, changes);
    println!("{rounds} races of {RACING_CREATES} during {RELOAD_COUNT} changes");
    let events = resource("events.k8s.io", "v1", "Event");
    let events = Api::<DynamicObject>::namespaced_with(admin, "default", &events);
    wait_until("the events", async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let reasons: Vec<_> = all.iter().map(|event| event.data["reason"].clone()).collect();
        let has = |reason: &str| reasons.iter().any(|known| known == reason);
        has("ConfigurationReloaded")
    })
    .await;
}
