//! Two replicas behind a Service while a client calls without a pause: the client must not notice
//! what happens to them. `cargo bench -p opgate-tests --bench replicas` does the same at 2,000
//! calls a second and prints the table of `docs/reliability.md`.

use std::time::Duration;

use testkit::fleet::{Fleet, load};
use testkit::recorded_review;
use testkit::webhook_client::Protocol;
use tokio::sync::oneshot;

use crate::{BINARY, wait_for_idle_machine};

/// No call takes this long; what does has failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Calls until a rollout, or another change of the fleet, is over; gives how many failed and why, and how many
/// did not.
async fn call_during(
    protocol: Protocol,
    fleet: &mut Fleet,
    change: impl AsyncFnOnce(&mut Fleet),
) -> (Vec<String>, usize) {
    let caller = fleet.caller(protocol, CALL_TIMEOUT);
    let (over, is_over) = oneshot::channel::<()>();
    let during = async { drop(is_over.await) };
    let load = tokio::spawn(load_of(caller, during));
    change(fleet).await;
    drop(over);
    let seen = load.await.unwrap();
    (seen.failed.into_keys().collect(), seen.times.len())
}

async fn load_of(
    caller: testkit::webhook_client::WebhookClient,
    during: impl Future<Output = ()> + Send + 'static,
) -> testkit::fleet::LoadResult {
    load(caller, "/validate", recorded_review("008"), 200, during).await
}

/// Two rollouts of two replicas, for both protocols.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_call() {
    let _turn = wait_for_idle_machine().await;
    let mut fleet = Fleet::start(BINARY, None, &[], 2).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (failed, answered) = call_during(protocol, &mut fleet, async |fleet| {
            for _ in 0..2 {
                fleet.roll(Duration::ZERO).await;
            }
        })
        .await;
        assert!(failed.is_empty(), "{protocol:?}: {failed:?} beside {answered}");
        assert!(answered > 0);
    }
    assert_eq!(fleet.wait_ended().await, 0, "servers that ended with an error");
}

/// Old pods are named for a while longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminating_replica_serves_while_endpoints_name_it() {
    let _turn = wait_for_idle_machine().await;
    let arguments = ["--drain-delay", "40s"];
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut fleet = Fleet::start(BINARY, None, &arguments, 2).await;
        let (failed, answered) = call_during(protocol, &mut fleet, async |fleet| {
            fleet.roll(Duration::from_secs(5)).await;
            fleet.wait_unnamed().await;
        })
        .await;
        assert!(failed.is_empty(), "{protocol:?}: {failed:?} beside {answered}");
    }
}
