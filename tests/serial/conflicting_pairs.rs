//! Pairs of groups that exclude each other, one pair after the other, through two replicas and a
//! real API server, where `KUBEBUILDER_ASSETS` names a directory with one. The test measures how
//! often the API server stores both, and the interval between the two requests from which on it
//! stores only one. Prints the lines of `docs/reliability.md`:
//!
//! `cargo test --release --workspace --test serial -- conflicting_pairs --nocapture`
//!
//! `OPGATE_RACE_PAIRS` (1000; 50 without optimisation) is the number of pairs in the lines with an
//! interval of 0 ms.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::json;
use testkit::Server;
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::{group, groups, resource};

use crate::{BINARY, wait_for_idle_machine};

/// Namespaces, which pairs use in turn: long after the last pair of one has been deleted.
const NAMESPACES: usize = 200;

/// Intervals between the first and the second request of a pair, in milliseconds. An interval other
/// than 0 has a fifth as many pairs.
const INTERVALS_MS: [u64; 8] = [0, 1, 2, 5, 10, 20, 50, 100];

fn pair_count(apart: u64) -> usize {
    let default = if cfg!(debug_assertions) { 50 } else { 1_000 };
    let pairs = std::env::var("OPGATE_RACE_PAIRS");
    let pairs = pairs.map_or(default, |text| text.parse().expect("a number"));
    if apart == 0 { pairs } else { pairs / 5 }
}

/// Which group of a pair it is, and so the replica that is asked about it.
const PAIR_SIDES: [&str; 2] = ["first", "second"];

fn group_of(namespace: &str, side: &str, number: usize) -> DynamicObject {
    let spec = json!({"targetNamespaces": [namespace]});
    let mut group = group(namespace, &format!("{side}-{number}"), &spec, "");
    group.metadata.uid = None;
    group.metadata.labels = Some([("side".to_owned(), side.to_owned())].into());
    group
}

struct PairTest {
    plane: ControlPlane,
    admin: Client,
    pair_number: usize,
}

impl PairTest {
    fn groups(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.admin.clone(), namespace, &groups())
    }

    fn webhooks(&self) -> Api<DynamicObject> {
        let kind = resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
        Api::all_with(self.admin.clone(), &kind)
    }

    /// Sends this many pairs; returns how many of them the API server stores completely.
    async fn count_both_stored(&mut self, pairs: usize, apart: Duration) -> usize {
        let mut both = 0;
        for _ in 0..pairs {
            self.pair_number += 1;
            let namespace = format!("pair-{}", self.pair_number % NAMESPACES);
            let groups = self.groups(&namespace);
            let create = async |side: &str| {
                let group = group_of(&namespace, side, self.pair_number);
                match groups.create(&PostParams::default(), &group).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == 403 => {}
                    Err(error) => panic!("{error}"),
                }
            };
            tokio::join!(create(PAIR_SIDES[0]), async {
                if !apart.is_zero() {
                    tokio::time::sleep(apart).await;
                }
                create(PAIR_SIDES[1]).await;
            });
            let stored = groups.list(&ListParams::default()).await.unwrap().items;
            assert!(matches!(stored.len(), 1 | 2), "{}", stored.len());
            both += usize::from(stored.len() == 2);
            for group in stored {
                let name = group.metadata.name.unwrap();
                groups.delete(&name, &DeleteParams::default()).await.unwrap();
            }
        }
        both
    }

    /// Two replicas. The API server asks each of them about one side of all pairs.
    async fn start(&self, consistent: bool) -> Vec<Server> {
        let kubeconfig = self.plane.kubeconfig("opgate");
        let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
        if consistent {
            arguments.push("--consistent-reads");
        }
        let configuration = ControlPlane::operator_group("20s");
        let start = |_| Server::start(BINARY, Some(&configuration), &arguments);
        let servers: Vec<_> = PAIR_SIDES.iter().map(start).collect();
        for server in &servers {
            eventually("readiness", || async {
                (server.get("/readyz").await.0 == 200).then_some(())
            })
            .await;
        }
        self.plane.register(BINARY, &configuration, servers[0].address, &servers).await;
        self.route_by_side(&servers).await;
        servers
    }

    async fn route_by_side(&self, servers: &[Server]) {
        let api = self.webhooks();
        let mut printed = api.get("opgate").await.unwrap();
        let webhooks = printed.data["webhooks"].as_array().unwrap().clone();
        let mut divided = Vec::new();
        for (side, server) in PAIR_SIDES.iter().zip(servers) {
            for webhook in &webhooks {
                let mut webhook = webhook.clone();
                webhook["name"] = format!("{side}.{}", webhook["name"].as_str().unwrap()).into();
                webhook["clientConfig"]["service"]["port"] = server.address.port().into();
                webhook["objectSelector"] = json!({"matchLabels": {"side": side}});
                divided.push(webhook);
            }
        }
        printed.data["webhooks"] = divided.into();
        api.replace("opgate", &PostParams::default(), &printed).await.unwrap();
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        for side in PAIR_SIDES {
            eventually("the webhook", || async {
                let second = group_of("probe", side, 0);
                match self.groups("probe").create(&dry, &second).await {
                    Err(kube::Error::Api(status)) if status.code == 403 => Some(()),
                    _ => None,
                }
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_through_two_replicas() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    plane.grant().await;
    let namespaces = (0..NAMESPACES).map(|number| format!("pair-{number}"));
    plane.namespaces(namespaces.chain(["probe".to_owned()])).await;
    plane.groups([group_of("probe", "stored", 0)]).await;
    let admin = plane.client("admin").await;
    let mut pair_test = PairTest { plane, admin, pair_number: 0 };
    for consistent in [false, true] {
        let servers = pair_test.start(consistent).await;
        for apart in INTERVALS_MS {
            let pairs = pair_count(apart);
            let both = pair_test.count_both_stored(pairs, Duration::from_millis(apart)).await;
            println!(
                "two replicas, consistent reads {consistent}, {apart} ms apart: both of {both} of {pairs} pairs"
            );
        }
        for server in &servers {
            assert!(server.metric("opgate_requests_total").await > Some(0.0));
        }
        // The next apply would keep webhooks that another field manager has written.
        pair_test.webhooks().delete("opgate", &DeleteParams::default()).await.unwrap();
    }
}
