//! What a tenant, a neighbour in the cluster or a foreign policy may do to the server, each alone
//! and all at once, while another tenant continues to send requests. Prints the table of
//! `docs/reliability.md`:
//! `cargo test --release --workspace --test serial -- isolation --nocapture`
//!
//! ```text
//! attacks.rs: clients that attack ──┐
//! bystander.rs: another tenant ─────┼─▶ opgate, with 128 MiB where control groups can be made ─▶ fake API server
//! mod.rs: /livez, /readyz ─────────┘
//! ```
//!
//! The control group is one of version 1 or 2 that this user may create. Without one, the test
//! prints a line, gives the server the flags that it would choose, and compares resident memory
//! with 128 MiB instead. `OPGATE_SIEGE` chooses attacks by a part of their names,
//! `OPGATE_SIEGE_ALL` leaves only all at once.

mod attacks;
mod bystander;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use attacks::{ATTACKS, Attack, AttackTarget};
use bystander::BystanderResult;
use serde_json::{Value, json};
use testkit::fake_api_server::FakeCluster;
use testkit::reviews::{self, group};
use testkit::wait_until;
use testkit::{HOST, Server, configuration, misbehaves};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use crate::cgroup::Cgroup;
use crate::{BINARY, wait_for_idle_machine};

/// Bytes of a small container; `OPGATE_SIEGE_MIB` makes it another one.
fn memory_limit_bytes() -> u64 {
    let given = std::env::var("OPGATE_SIEGE_MIB").ok().and_then(|mib| mib.parse::<u64>().ok());
    given.unwrap_or(128) << 20
}

/// Requests of the victim in each row.
const BYSTANDER_REQUESTS: usize = if cfg!(debug_assertions) { 40 } else { 300 };

/// A built-in policy with its own limits, but with all the time that an unoptimised build may need.
fn policy_with_generous_time(name: &str) -> Value {
    let time = if cfg!(debug_assertions) { "5s" } else { "100ms" };
    json!({"name": name, "limits": {"time": time}})
}

fn policies() -> String {
    let mut foreign = misbehaves("foreign", &json!({"do": "spin"}));
    foreign["limits"] = json!({"time": "100ms"});
    configuration(&[
        policy_with_generous_time("bundle-immutability"),
        policy_with_generous_time("operator-group"),
        policy_with_generous_time("constraint-limits"),
        foreign,
    ])
}

/// A cluster with a group of the victim and one of the attacker, and what the attacker has stored.
fn cluster() -> FakeCluster {
    let cluster = reviews::cluster();
    for name in ["victim", "attacker"] {
        cluster.apply("", "v1", "namespaces", reviews::namespace(name));
        cluster.apply(reviews::OLM, "v1", "operatorgroups", group(name, "group", &[name], ""));
    }
    cluster
}

/// The server under attack.
struct AttackTest {
    server: Arc<Server>,
    cluster: FakeCluster,
    cgroup: Option<Cgroup>,
}

impl AttackTest {
    /// `is_heavy` says whether the attacker has stored his largest objects before the server starts.
    async fn start(is_heavy: bool) -> Self {
        let cluster = cluster();
        if is_heavy {
            attacks::store_objects(&cluster);
        }
        let cgroup = Cgroup::create(memory_limit_bytes());
        let kubeconfig = cluster.kubeconfig();
        let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
        if cgroup.is_none() {
            // What it would choose by itself in 128 MiB.
            arguments.extend(["--max-request-memory", "32Mi", "--max-connections", "512"]);
        }
        // A colon does nothing.
        let enter = cgroup.as_ref().map_or_else(|| ":".to_owned(), Cgroup::enter_command);
        let server = Server::start_after(&enter, BINARY, Some(&policies()), &arguments);
        let server = Arc::new(server);
        wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
        Self { server, cluster, cgroup }
    }

    /// What the victim sees while these attacks go on.
    async fn measure(&self, name: &str, attacks: &[&Attack]) -> BystanderResult {
        match &self.cgroup {
            Some(cgroup) => cgroup.reset_peak(),
            None => reset_peak(self.server.id()),
        }
        let stop = Arc::new(AtomicBool::new(false));
        let target = Arc::new(AttackTarget::of(&self.server, stop.clone()));
        let mut running_attacks = tokio::task::JoinSet::new();
        for attack in attacks {
            (attack.start)(&mut running_attacks, &target, &self.cluster);
        }
        if !attacks.is_empty() {
            target.wait_started(attacks.len()).await;
        }
        let (server, told) = (self.server.clone(), stop.clone());
        // On a thread of their own: what is measured is the server, and not the attackers' clients.
        let run_clients = move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let health = watch_health(&server, &told);
                let victim = async {
                    let seen = bystander::send_requests(&server, BYSTANDER_REQUESTS).await;
                    told.store(true, Ordering::Relaxed);
                    seen
                };
                tokio::join!(victim, health)
            })
        };
        let (mut seen, unhealthy) = tokio::task::spawn_blocking(run_clients).await.unwrap();
        running_attacks.shutdown().await;
        let lost = seen.failures.values().sum::<usize>();
        let peak = self.peak_bytes();
        println!(
            "| {name} | {:.1} and {:.1} ms | {} MiB | {lost} of {} | {} |",
            seen.milliseconds(50),
            seen.milliseconds(99),
            peak >> 20,
            seen.times.len() + lost,
            unhealthy.values().sum::<usize>(),
        );
        seen.failures.extend(unhealthy);
        if peak >= memory_limit_bytes() {
            seen.failures.insert(format!("{} MiB", peak >> 20), 1);
        }
        seen
    }

    /// Peak bytes since the last row began: what the control group is charged for or, without a
    /// control group, the resident memory.
    fn peak_bytes(&self) -> u64 {
        self.cgroup
            .as_ref()
            .map_or_else(|| process_peak_bytes(self.server.id()), Cgroup::peak_bytes)
    }

    /// It is the process that was started, and nothing in it has panicked.
    async fn assert_no_panics(self) {
        assert_eq!(self.server.metric("opgate_panics_total").await, Some(0.0));
    }
}

/// Answers of `/livez` and `/readyz` other than 200, until `stop` is set.
async fn watch_health(server: &Server, stop: &AtomicBool) -> BTreeMap<String, usize> {
    let mut unhealthy = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        for path in ["/livez", "/readyz"] {
            // A kubelet gives up after a second or a few.
            let asked = tokio::time::timeout(Duration::from_secs(5), probe(server.ops, path));
            let told = match asked.await {
                Ok(Ok(head)) if head.starts_with("HTTP/1.1 200") => continue,
                Ok(Ok(head)) => format!("{path}: {head}"),
                Ok(Err(error)) => format!("{path}: {error}"),
                Err(_) => format!("{path}: no answer"),
            };
            *unhealthy.entry(told).or_default() += 1;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unhealthy
}

/// A `GET` as a kubelet sends it: on a separate connection.
async fn probe(ops: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(ops).await?;
    let ask = format!("GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Peak resident memory of a process in bytes, without the pages of its binary.
fn process_peak_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    bytes("VmHWM:").saturating_sub(bytes("RssFile:"))
}

/// Resets the peak.
fn reset_peak(process: u32) {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_do_not_affect_other_tenants() {
    let _turn = wait_for_idle_machine().await;
    println!(
        "| attack | p50 and p99 of another tenant | memory at the most | its answers lost | ill |"
    );
    println!("|---|---|---|---|---|");
    let only = std::env::var("OPGATE_SIEGE").unwrap_or_default();
    let chosen: Vec<_> = ATTACKS.iter().filter(|attack| attack.name.contains(&only)).collect();
    let mut losses = Vec::new();
    let mut note = |name: &str, seen: BystanderResult| {
        if !seen.failures.is_empty() {
            losses.push(format!("{name}: {:?}", seen.failures));
        }
    };
    let attack_test = AttackTest::start(false).await;
    note("none", attack_test.measure("none", &[]).await);
    let alone = if std::env::var_os("OPGATE_SIEGE_ALL").is_some() { &chosen[..0] } else { &chosen };
    for attack in alone {
        note(attack.name, attack_test.measure(attack.name, &[attack]).await);
    }
    note("afterwards", attack_test.measure("none any more", &[]).await);
    attack_test.assert_no_panics().await;
    let attack_test = AttackTest::start(true).await;
    note("all at once", attack_test.measure("all at once", &chosen).await);
    note("afterwards", attack_test.measure("none any more", &[]).await);
    attack_test.assert_no_panics().await;
    assert!(losses.is_empty(), "{losses:#?}");
}
