//! Two replicas behind a Service under a fixed rate of calls, while things happen to them:
//! `cargo bench -p opgate-tests --bench replicas`
//!
//! Prints a table of `docs/reliability.md`. A call counts from the moment at which it was due, so that a
//! client that waits hides nothing. Client and servers share the processors of the machine.
//!
//! `OPGATE_RATE` (2000) calls a second, `OPGATE_ROLLOUTS` (20). Arguments choose rows by a part of their names.

use std::time::Duration;

use testkit::fleet::{Fleet, LoadResult, load};
use testkit::recorded_review;
use testkit::webhook_client::Protocol;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

/// The time-out of the webhooks that `opgate manifests webhook` prints.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A call that takes longer counts as late.
const LATE_THRESHOLD: Duration = Duration::from_millis(20);

/// Time until the Service of a cluster no longer lists an old pod, and the pause between two pods.
const ENDPOINT_LAG: Duration = Duration::from_secs(1);
const STEP_PAUSE: Duration = Duration::from_millis(500);

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// What happens to the replicas.
#[derive(Clone, Copy)]
enum Disruption {
    Nothing,
    /// The fleet replaces all replicas, `times` times; the Service lists an old one for `lag`.
    Rollouts {
        times: u32,
        lag: Duration,
    },
    /// The fleet kills the replica with most calls, and starts it again when the Service no longer
    /// lists it.
    Kill {
        times: u32,
        lag: Duration,
    },
    /// The replica with most calls stops answering on all its connections; the Service lists it for
    /// `lag`.
    Vanish {
        lag: Duration,
    },
}

impl Disruption {
    async fn apply_to(self, fleet: &mut Fleet) {
        tokio::time::sleep(STEP_PAUSE).await;
        match self {
            Self::Nothing => tokio::time::sleep(10 * ENDPOINT_LAG).await,
            Self::Rollouts { times, lag } => {
                for _ in 0..times {
                    for _ in 0..fleet.replicas.len() {
                        fleet.add_replica().await;
                        tokio::time::sleep(STEP_PAUSE).await;
                        fleet.retire(0, lag).await;
                        tokio::time::sleep(STEP_PAUSE).await;
                    }
                }
                let failed = fleet.wait_ended().await;
                assert_eq!(failed, 0, "servers that ended with an error");
            }
            Self::Kill { times, lag } => {
                for _ in 0..times {
                    let busiest = fleet.busiest_replica().await;
                    fleet.kill(busiest, lag).await;
                    tokio::time::sleep(ENDPOINT_LAG).await;
                }
            }
            Self::Vanish { lag } => {
                let busiest = fleet.busiest_replica().await;
                fleet.vanish(busiest, lag).await;
                tokio::time::sleep(lag).await;
            }
        }
    }
}

fn print_row(
    clients: &Runtime,
    (disruption, arguments): (Disruption, &[&str]),
    protocol: Protocol,
    rate: u32,
) -> LoadResult {
    let (over, is_over) = oneshot::channel::<()>();
    let (ready, is_ready) = oneshot::channel();
    // The clients have threads of their own.
    let seen = clients.spawn(async move {
        let caller = is_ready.await.unwrap();
        load(caller, "/validate", recorded_review("008"), rate, async { drop(is_over.await) }).await
    });
    let cluster = Builder::new_current_thread().enable_all().build().unwrap();
    cluster.block_on(async {
        let mut fleet = Fleet::start(BINARY, None, arguments, 2).await;
        assert!(ready.send(fleet.caller(protocol, TIMEOUT)).is_ok());
        disruption.apply_to(&mut fleet).await;
        drop(over);
        // Not before the last call has been answered.
        seen.await.unwrap()
    })
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let (rate, times) = (setting("OPGATE_RATE", 2_000), setting("OPGATE_ROLLOUTS", 20));
    let seconds = Duration::from_secs;
    let rows = [
        ("nothing".to_owned(), Disruption::Nothing),
        (
            format!("{times} rolling restarts; an old pod is named for 1 s"),
            Disruption::Rollouts { times, lag: ENDPOINT_LAG },
        ),
        (
            "a rolling restart; an old pod is named for 10 s".to_owned(),
            Disruption::Rollouts { times: 1, lag: seconds(10) },
        ),
        (
            "a rolling restart; an old pod is named for 30 s".to_owned(),
            Disruption::Rollouts { times: 1, lag: seconds(30) },
        ),
        (
            "the same with `--drain-delay 40s`".to_owned(),
            Disruption::Rollouts { times: 1, lag: seconds(30) },
        ),
        (
            "5 times kill -9; the pod is named for 1 s".to_owned(),
            Disruption::Kill { times: 5, lag: ENDPOINT_LAG },
        ),
        (
            "a node vanishes; its pod is named for 10 s".to_owned(),
            Disruption::Vanish { lag: seconds(10) },
        ),
    ];
    let clients = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    println!("{rate} calls a second, two replicas");
    println!("| what happens | protocol | calls | failed | later than 20 ms | p50 | p99 | max |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, disruption) in rows {
        if !arguments.is_empty() && !arguments.iter().any(|part| name.contains(part)) {
            continue;
        }
        let flags = name.split('`').nth(1).unwrap_or_default();
        let flags: Vec<_> = flags.split_whitespace().collect();
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let seen = print_row(&clients, (disruption, &flags), protocol, rate);
            let name_of = if protocol == Protocol::Http1 { "HTTP/1.1" } else { "HTTP/2" };
            println!(
                "| {name} | {name_of} | {} | {} | {} | {:.1} ms | {:.1} ms | {:.0} ms |",
                seen.times.len() + seen.count_failed(),
                seen.count_failed(),
                seen.count_late(LATE_THRESHOLD),
                seen.milliseconds(500),
                seen.milliseconds(990),
                seen.milliseconds(1_000),
            );
            for (why, count) in seen.failed {
                eprintln!("    {count} times: {why}");
            }
        }
    }
}
