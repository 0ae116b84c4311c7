//! Requests that are never stored, and what they cost others, on a real API server, where
//! `KUBEBUILDER_ASSETS` names a directory with one. It prints the figures of `docs/reliability.md`:
//!
//! `cargo test --release --workspace --test serial -- reservations --nocapture`
//!
//! `OPGATE_RESERVATION_WRITES` (300) is the number of writes in each table. A quota of 0 refuses
//! what opgate has allowed, after its webhook was called.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::Server;
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::{group, groups, object, resource};

use crate::{BINARY, wait_for_idle_machine};

/// What an evaluation may take in an unoptimised build.
const EVALUATION_TIME: &str = "20s";

/// Clients of the loop of create, 409 and update.
const CLIENT_COUNT: usize = 10;

/// The default of `--reservation-ttl`, and what an ended one may take beyond it.
const RESERVATION_TTL: Duration = Duration::from_secs(2);

fn write_count() -> usize {
    std::env::var("OPGATE_RESERVATION_WRITES").map_or(300, |text| text.parse().unwrap())
}

/// OperatorGroups of a namespace, as a separate user.
async fn groups_as(plane: &ControlPlane, user: &str, namespace: &str) -> Api<DynamicObject> {
    let client: Client = plane.client_as("admin", user).await;
    Api::namespaced_with(client, namespace, &groups())
}

fn own_group(namespace: &str, name: &str, text: &str) -> DynamicObject {
    let spec = json!({"targetNamespaces": [namespace]});
    let mut group = group(namespace, name, &spec, &format!("Kind.v1.{namespace}.example.com"));
    group.metadata.labels = Some([("text".to_owned(), text.to_owned())].into());
    group
}

/// The code of a write, or 0.
fn code<T>(result: &Result<T, kube::Error>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

/// Whether opgate had no room for a write, or the write ended in a policy error.
fn is_refused<T>(result: &Result<T, kube::Error>) -> bool {
    !matches!(code(result), 200..=299 | 403 | 409)
}

fn format_row(name: &str, times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = times.len().saturating_sub(1) * percent / 100;
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
    };
    format!(
        "{name}: {} writes, p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        times.len(),
        at(50),
        at(99),
        at(100)
    )
}

struct ReservationTest {
    plane: ControlPlane,
    servers: [Server; 1],
}

impl ReservationTest {
    /// Prints why calls of the API server got 503, and how many: the API server repeats them after a second, so that
    /// clients see only the time.
    async fn print_unavailable(&self) -> String {
        let [server] = &self.servers;
        let count = server.metric("opgate_requests_total{code=\"503\"}").await.unwrap_or_default();
        let count = count.to_string();
        println!("    calls answered with 503: {count}");
        for line in server.log().iter().filter(|line| line["message"] == "request shed") {
            println!("    {} (and {} more)", line["text"], line["more"]);
        }
        count
    }

    async fn prepare(namespaces: &[String]) -> Option<Self> {
        let plane = ControlPlane::start().await?;
        plane.install().await;
        plane.grant().await;
        plane.namespaces(namespaces.iter().cloned()).await;
        let kubeconfig = plane.kubeconfig("opgate");
        let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let configuration = ControlPlane::operator_group(EVALUATION_TIME);
        let servers = [Server::start(BINARY, Some(&configuration), &arguments)];
        plane.enforce(BINARY, &configuration, servers[0].address, &servers).await;
        eventually("readiness", || async {
            (servers[0].get("/readyz").await.0 == 200).then_some(())
        })
        .await;
        Some(Self { plane, servers })
    }

    /// Refuses every new group in a namespace after its webhooks were called.
    async fn reject_in(&self, namespace: &str) {
        let none = json!({"count/operatorgroups.operators.coreos.com": "0"});
        let quota = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": none},
        });
        let quotas = resource("", "v1", "ResourceQuota");
        let admin = self.plane.client("admin").await;
        let api = Api::<DynamicObject>::namespaced_with(admin, namespace, &quotas);
        api.create(&PostParams::default(), &object(quota)).await.unwrap();
        // A controller would write it, and none runs. What a status does not have is not enforced.
        let status = json!({"status": {"hard": none, "used": none}});
        let patch = Patch::Merge(&status);
        api.patch_status("none", &PatchParams::default(), &patch).await.unwrap();
        let of_it = groups_as(&self.plane, "tenant", namespace).await;
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let probe = own_group(namespace, "probe", "x");
        eventually("the quota", || async {
            (code(&of_it.create(&dry, &probe).await) == 403).then_some(())
        })
        .await;
    }
}

/// Creates and deletes groups, one after the other. Returns how long each write took.
async fn write_groups(api: &Api<DynamicObject>, namespace: &str, writes: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..writes {
        let group = own_group(namespace, "own", &number.to_string());
        let began = Instant::now();
        let created = api.create(&PostParams::default(), &group).await;
        times.push(began.elapsed());
        created.unwrap();
        api.delete("own", &DeleteParams::default()).await.unwrap();
    }
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn unstored_burst_does_not_affect_other_tenants() {
    let _turn = wait_for_idle_machine().await;
    let names = ["victim", "a", "b", "c", "d"].map(str::to_owned);
    let Some(reservation_test) = ReservationTest::prepare(&names).await else { return };
    for namespace in ["a", "b", "c", "d"] {
        reservation_test.reject_in(namespace).await;
    }
    let victim = groups_as(&reservation_test.plane, "victim", "victim").await;
    let mut alone = write_groups(&victim, "victim", write_count()).await;
    let tenants = join_all(["a", "b", "c", "d"].map(async |namespace| {
        (namespace, groups_as(&reservation_test.plane, "tenant", namespace).await)
    }));
    let tenants = tenants.await;
    let burst = async || {
        let began = Instant::now();
        let creates = tenants.iter().flat_map(|(namespace, api)| {
            (0..200).map(async move |number| {
                let group = own_group(namespace, &format!("never-{number}"), "x");
                code(&api.create(&PostParams::default(), &group).await)
            })
        });
        let codes = join_all(creates).await;
        println!("    the burst: {:?}", began.elapsed());
        assert!(codes.iter().all(|code| *code != 200 && *code != 201), "{codes:?}");
    };
    let measure = async |name: &str| {
        let ((), mut times) = tokio::join!(burst(), write_groups(&victim, "victim", write_count()));
        println!("{}", format_row(name, &mut times));
        let later = times.iter().filter(|time| **time > Duration::from_millis(100)).count();
        println!("    later than 100 ms: {later}");
    };
    println!("{}", format_row("alone", &mut alone));
    measure("beside 800 creates of a tenant that are never stored").await;
    reservation_test.print_unavailable().await;
    let [server] = &reservation_test.servers;
    assert_eq!(server.metric("opgate_connections_evicted_total").await, Some(0.0));

    // One object, again and again: it can be written when the time is over.
    let (namespace, tenant) = &tenants[0];
    for number in 0..6 {
        let group = own_group(namespace, "one", &number.to_string());
        let refused = tenant.create(&PostParams::default(), &group).await;
        assert_eq!(code(&refused), 403, "{refused:?}");
    }
    let quotas = resource("", "v1", "ResourceQuota");
    let admin = reservation_test.plane.client("admin").await;
    let quotas = Api::<DynamicObject>::namespaced_with(admin, namespace, &quotas);
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    let began = Instant::now();
    let group = own_group(namespace, "one", "stored");
    eventually("the object", || async {
        let created = tenant.create(&PostParams::default(), &group).await;
        assert!(!is_refused(&created), "{created:?}");
        created.ok()
    })
    .await;
    println!("the object itself: {:?} after its last create", began.elapsed());
    assert!(began.elapsed() < RESERVATION_TTL + Duration::from_secs(3), "{:?}", began.elapsed());

    // What the burst costs without opgate, for comparison: clients and API server share two CPUs.
    reservation_test.reject_in(namespace).await;
    let webhooks = resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
    let webhooks =
        Api::<DynamicObject>::all_with(reservation_test.plane.client("admin").await, &webhooks);
    webhooks.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let before = server.metric("opgate_requests_total{code=\"200\"}").await;
    measure("the same without opgate").await;
    let after = server.metric("opgate_requests_total{code=\"200\"}").await;
    println!(
        "    calls of opgate meanwhile: {}",
        after.unwrap_or_default() - before.unwrap_or_default()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn create_conflict_update_loops_are_never_rejected() {
    let _turn = wait_for_idle_machine().await;
    let names: Vec<_> = (0..CLIENT_COUNT).map(|number| format!("n{number}")).collect();
    let Some(reservation_test) = ReservationTest::prepare(&names).await else { return };
    let began = Instant::now();
    let clients = (0..CLIENT_COUNT).map(async |number| {
        // Two clients share an object, as two controllers do.
        let namespace = format!("n{}", number / 2);
        let api =
            groups_as(&reservation_test.plane, &format!("controller-{number}"), &namespace).await;
        let mut times = Vec::new();
        for round in 0..write_count() / 3 {
            let wanted = own_group(&namespace, "g", &format!("{number}-{round}"));
            let began = Instant::now();
            let created = api.create(&PostParams::default(), &wanted).await;
            assert!(!is_refused(&created), "{created:?}");
            if created.is_err() {
                let apply = PatchParams::apply("controller").force();
                let patch: Value = json!({
                    "apiVersion": "operators.coreos.com/v1",
                    "kind": "OperatorGroup",
                    "metadata": {"labels": {"text": format!("{number}-{round}")}},
                });
                let patched = api.patch("g", &apply, &Patch::Apply(&patch)).await;
                assert!(!is_refused(&patched), "{patched:?}");
            }
            times.push(began.elapsed());
        }
        times
    });
    let mut times: Vec<_> = join_all(clients).await.into_iter().flatten().collect();
    println!("{}", format_row("create, 409, update by ten clients", &mut times));
    println!("{:.0} rounds a second", times.len() as f64 / began.elapsed().as_secs_f64());
    assert_eq!(reservation_test.print_unavailable().await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_object_denies_nothing() {
    let _turn = wait_for_idle_machine().await;
    let names: Vec<_> = (0..2 * CLIENT_COUNT).map(|number| format!("n{number}")).collect();
    let Some(reservation_test) = ReservationTest::prepare(&names).await else { return };
    let clients = (0..CLIENT_COUNT).map(async |number| {
        // Two groups that exclude each other, one after the other.
        let places = [format!("n{}", 2 * number), format!("n{}", 2 * number + 1)];
        let user = format!("user-{number}");
        let apis = [
            groups_as(&reservation_test.plane, &user, &places[0]).await,
            groups_as(&reservation_test.plane, &user, &places[1]).await,
        ];
        let (mut denied, mut writes_done) = (0, 0);
        for round in 0..write_count() / 3 {
            let place = round % 2;
            let spec = json!({"targetNamespaces": [places[0]]});
            let wanted =
                group(&places[place], "g", &spec, &format!("Kind.v1.u{number}.example.com"));
            let created = apis[place].create(&PostParams::default(), &wanted).await;
            assert!(!is_refused(&created), "{created:?}");
            writes_done += 1;
            if created.is_ok() {
                apis[place].delete("g", &DeleteParams::default()).await.unwrap();
            } else {
                denied += 1;
            }
        }
        (denied, writes_done)
    });
    let all = join_all(clients).await;
    let (denied, writes) = all.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("create right after a delete was answered: {writes} writes, {denied} denied");
    assert_eq!((denied, reservation_test.print_unavailable().await.as_str()), (0, "0"));
}
