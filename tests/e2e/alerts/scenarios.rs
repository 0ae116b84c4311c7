//! A problem for each alert: a real server has it, and then no longer.
//!
//! A few problems cannot be caused from outside, or take days. For these the samples of a real server are changed.

use std::collections::BTreeSet;
use std::future::{Future, ready};
use std::pin::Pin;
use std::thread::JoinHandle;

use opgate_certs::CertificateAuthority;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope, WatchBehavior};
use testkit::promql::Alert;
use testkit::reviews::{self, OLM, WriteMode, group};
use testkit::{
    Certificates, ConfigMap, HOST, SERVICE, Server, builtin_policy, configuration, create_bundle,
    good_spec, misbehaves, wait_until,
};

use super::alert_rules;
use super::episode::{Episode, QUIET_SECONDS, Scrape, check_quiet};
use crate::BINARY;

const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const WEBHOOKS: (&str, &str) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");

type Running = Pin<Box<dyn Future<Output = Episode>>>;

/// The origin of the samples that have the problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// A server that has the problem.
    Server,
    /// Samples of a server that the test has changed.
    Changed,
}

type Scenario = (&'static str, Origin, fn() -> Running);

/// The problem of each alert.
const SCENARIOS: &[Scenario] = &[
    ("OpgateDown", Origin::Server, || Box::pin(killed_server())),
    ("OpgatePolicyDown", Origin::Server, || Box::pin(broken_policy())),
    ("OpgateClusterCacheNotReady", Origin::Server, || Box::pin(forbidden_resource())),
    ("OpgateWatchFailing", Origin::Server, || Box::pin(failing_watch())),
    ("OpgateTokenRefused", Origin::Server, || Box::pin(refused_token())),
    ("OpgateReservationsNearlyFull", Origin::Server, || Box::pin(unstored_changes())),
    ("OpgateUnreadableObjects", Origin::Server, || Box::pin(unreadable_object())),
    ("OpgatePolicyErrors", Origin::Server, || Box::pin(panicking_policy())),
    ("OpgateRequestsShed", Origin::Server, || Box::pin(full_memory())),
    ("OpgateLeaseNotRenewed", Origin::Server, || Box::pin(forbidden_leases())),
    // opgate has no known panic, and its tasks do not end.
    ("OpgatePanics", Origin::Changed, || Box::pin(counted("opgate_panics_total"))),
    ("OpgateTaskRestarts", Origin::Changed, || Box::pin(counted("opgate_task_restarts_total"))),
    ("OpgateCertificateReloadFailed", Origin::Server, || Box::pin(invalid_certificate())),
    ("OpgateClientCaReloadFailed", Origin::Server, || Box::pin(invalid_client_ca())),
    ("OpgateClientsRejected", Origin::Server, || Box::pin(client_without_certificate())),
    // A metric of API servers.
    ("OpgateFailOpen", Origin::Changed, || Box::pin(ready(failed_open(0.0)))),
    ("OpgateFailOpen", Origin::Changed, || Box::pin(ready(failed_open(3.0)))),
    ("OpgateCertificateExpiringSoon", Origin::Server, || Box::pin(old_certificate(3))),
    ("OpgateCertificateExpiryImminent", Origin::Server, || Box::pin(old_certificate(1))),
    // A CA is valid for years.
    ("OpgateCaExpires", Origin::Changed, || Box::pin(old_ca())),
    ("OpgateCaNotTrusted", Origin::Server, || Box::pin(forbidden_webhooks())),
    // 15 minutes of errors.
    ("OpgateCertificateControllerErrors", Origin::Changed, || Box::pin(certificate_errors())),
    ("OpgateNoLeader", Origin::Server, || Box::pin(no_leader())),
    // A server ends before another one can take over its Lease.
    ("OpgateNoLeader", Origin::Changed, || Box::pin(two_leaders())),
    // The clock of the machine stays unchanged.
    ("OpgateClockSkew", Origin::Changed, || Box::pin(wrong_clock())),
    ("OpgateConfigurationStale", Origin::Server, || Box::pin(invalid_configuration())),
    ("OpgateRegistrationStale", Origin::Server, || Box::pin(missing_webhooks())),
];

/// Runs a scenario in a thread, because starting a server blocks.
fn run(scenario: fn() -> Running) -> JoinHandle<Episode> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(scenario())
    })
}

#[test]
fn every_alert_fires_in_its_scenario_and_stops() {
    let alerts: Vec<_> = alert_rules(&[]).iter().map(Alert::of).collect();
    let names: BTreeSet<_> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    let known: BTreeSet<_> = SCENARIOS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, known);
    let real = SCENARIOS.iter().filter(|(_, origin, _)| *origin == Origin::Server);
    let real: BTreeSet<_> = real.map(|(name, ..)| *name).collect();
    let changed: Vec<_> = known.difference(&real).collect();
    assert!(changed.len() <= 6, "alerts without a real problem: {changed:?}");
    let mut wrong = Vec::new();
    for some in SCENARIOS.chunks(5) {
        let running: Vec<_> =
            some.iter().map(|(name, _, scenario)| (*name, run(*scenario))).collect();
        for (name, scenario) in running {
            let alert = alerts.iter().find(|alert| alert.name == name).unwrap();
            let checked = match scenario.join() {
                Ok(episode) => episode.check(alert),
                Err(_) => Err(format!("the scenario of {name} failed")),
            };
            wrong.extend(checked.err());
        }
    }
    assert_eq!(wrong, [""; 0]);
}

async fn wait_metric(server: &Server, metric: &str, is_it: impl Fn(Option<f64>) -> bool) {
    wait_until(metric, async || is_it(server.metric(metric).await)).await;
}

async fn wait_ready(server: &Server) {
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
}

fn of_groups(metric: &str) -> String {
    format!("opgate_cluster_cache_{metric}{{resource=\"{}\"}}", reviews::OPERATOR_GROUPS)
}

async fn killed_server() -> Episode {
    let mut server = Server::start(BINARY, None, &[]);
    let before = Scrape::of(&server).await;
    let during = Scrape::none();
    server.restart();
    Episode::new(before, during, Scrape::of(&server).await)
}

/// A server that reads its configuration from files that the test replaces.
fn server_with_files(files: &ConfigMap) -> Server {
    let path = files.path("opgate.yaml");
    let arguments = ["--config", path.to_str().unwrap(), "--reload-interval", "20ms"];
    Server::start(BINARY, None, &arguments)
}

async fn broken_policy() -> Episode {
    let broken = json!({"name": "broken", "module": "absent.wasm"});
    let broken = configuration(&[builtin_policy(), broken]);
    let mut files = ConfigMap::new(&[("opgate.yaml", &broken)]);
    let server = server_with_files(&files);
    let during = Scrape::of(&server).await;
    files.swap(&[("opgate.yaml", &configuration(&[builtin_policy()]))]);
    wait_metric(&server, "opgate_policy_up{policy=\"broken\"}", |up| up.is_none()).await;
    Episode::from_start(during, Scrape::of(&server).await)
}

async fn invalid_configuration() -> Episode {
    let good = configuration(&[builtin_policy()]);
    let mut files = ConfigMap::new(&[("opgate.yaml", &good)]);
    let server = server_with_files(&files);
    let before = Scrape::of(&server).await;
    files.swap(&[("opgate.yaml", "policies: none")]);
    wait_metric(&server, "opgate_configuration_stale", |stale| stale == Some(1.0)).await;
    let during = Scrape::of(&server).await;
    files.swap(&[("opgate.yaml", &good)]);
    wait_metric(&server, "opgate_configuration_stale", |stale| stale == Some(0.0)).await;
    Episode::new(before, during, Scrape::of(&server).await)
}

async fn forbidden_resource() -> Episode {
    let cluster = reviews::cluster();
    cluster.forbid(OLM, "operatorgroups");
    let server = reviews::serve(BINARY, &cluster, &["--sync-timeout", "0s"]);
    let ready = of_groups("ready");
    wait_metric(&server, &ready, |ready| ready == Some(0.0)).await;
    let during = Scrape::of(&server).await;
    cluster.allow(OLM, "operatorgroups");
    wait_ready(&server).await;
    wait_metric(&server, &ready, |ready| ready == Some(1.0)).await;
    Episode::from_start(during, Scrape::of(&server).await)
}

async fn failing_watch() -> Episode {
    let cluster = reviews::cluster();
    let server = reviews::serve(BINARY, &cluster, &[]);
    wait_ready(&server).await;
    let before = Scrape::of(&server).await;
    cluster.set_watch_behavior(OLM, "operatorgroups", WatchBehavior::InternalError);
    cluster.cut_watches();
    let failing = of_groups("watch_failing");
    wait_metric(&server, &failing, |failing| failing == Some(1.0)).await;
    let during = Scrape::of(&server).await;
    cluster.set_watch_behavior(OLM, "operatorgroups", WatchBehavior::Served);
    wait_metric(&server, &failing, |failing| failing == Some(0.0)).await;
    Episode::new(before, during, Scrape::of(&server).await)
}

async fn refused_token() -> Episode {
    const TOKEN: &str = "not-checked";
    let cluster = reviews::cluster();
    let server = reviews::serve(BINARY, &cluster, &[]);
    wait_ready(&server).await;
    let before = Scrape::of(&server).await;
    cluster.refuse_token(TOKEN);
    cluster.cut_watches();
    let refused = of_groups("unauthorized");
    wait_metric(&server, &refused, |refused| refused == Some(1.0)).await;
    let during = Scrape::of(&server).await;
    cluster.accept_token(TOKEN);
    wait_until("the end of it", async || {
        let (_, text) = server.get("/metrics").await;
        let mut lines = text.lines().filter(|line| line.contains("_cache_unauthorized{"));
        lines.all(|line| line.ends_with(" 0"))
    })
    .await;
    Episode::new(before, during, Scrape::of(&server).await)
}

async fn unstored_changes() -> Episode {
    let cluster = reviews::cluster();
    let server = reviews::serve(BINARY, &cluster, &["--reservation-ttl", "20s"]);
    wait_ready(&server).await;
    let before = Scrape::of(&server).await;
    let mut client = server.connect().await;
    let ratio = format!("opgate_reservation_ratio{{resource=\"{}\"}}", reviews::OPERATOR_GROUPS);
    let mut number = 0;
    while server.metric(&ratio).await < Some(0.8) {
        let name = format!("forged-{number}");
        let forged = group(&name, "g", &[&name], "");
        client.review(reviews::create(&forged, WriteMode::Persist)).await.unwrap();
        number += 1;
        assert!(number <= 512, "there is a limit");
    }
    let during = Scrape::of(&server).await;
    wait_metric(&server, &ratio, |ratio| ratio < Some(0.8)).await;
    Episode::new(before, during, Scrape::of(&server).await)
}

async fn unreadable_object() -> Episode {
    let cluster = reviews::cluster();
    let server = reviews::serve(BINARY, &cluster, &[]);
    wait_ready(&server).await;
    let before = Scrape::of(&server).await;
    let mut deep = group("a", "deep", &["a"], "");
    // A field that policies read.
    deep["spec"]["targetNamespaces"] = (0..600).fold(json!({}), |inner, _| json!({"a": inner}));
    cluster.apply(OLM, "v1", "operatorgroups", deep);
    let unreadable = of_groups("unreadable_objects");
    wait_metric(&server, &unreadable, |count| count == Some(1.0)).await;
    let during = Scrape::of(&server).await;
    cluster.delete(OLM, "operatorgroups", "a", "deep");
    wait_metric(&server, &unreadable, |count| count == Some(0.0)).await;
    Episode::new(before, during, Scrape::of(&server).await)
}

/// A counter that increases once. What comes after has the same value.
fn increased(before: Scrape, during: Scrape) -> Episode {
    Episode::new(before, during.clone(), during)
}

async fn panicking_policy() -> Episode {
    let text = configuration(&[misbehaves("evil", &json!({"do": "panic"}))]);
    let server = Server::start(BINARY, Some(&text), &[]);
    let before = Scrape::of(&server).await;
    let review = create_bundle("u", "b", &good_spec()).to_string();
    assert_eq!(server.connect().await.review(review).await.unwrap().status, 500);
    increased(before, Scrape::of(&server).await)
}

async fn full_memory() -> Episode {
    let limits = ["--max-body", "64Ki", "--max-request-memory", "64Ki"];
    let server = Server::start(BINARY, None, &limits);
    let before = Scrape::of(&server).await;
    let mut review = create_bundle("u", "b", &good_spec());
    review["request"]["object"]["metadata"]["annotations"] = json!({"a": "x".repeat(60_000)});
    let answer = server.connect().await.review(review.to_string()).await.unwrap();
    assert_eq!(answer.status, 503, "{}", answer.body);
    increased(before, Scrape::of(&server).await)
}

/// A counter of opgate that only an error in it increases.
async fn counted(metric: &'static str) -> Episode {
    let server = Server::start(BINARY, None, &[]);
    let before = Scrape::of(&server).await;
    let during = before.with(metric, before.value(metric) + 1.0);
    increased(before, during)
}

async fn invalid_certificate() -> Episode {
    let mut server = Server::start(BINARY, None, &[]);
    let before = Scrape::of(&server).await;
    server.certificates.swap("no certificate", "no key");
    let failed = "opgate_certificate_reloads_total{result=\"failed\"}";
    wait_metric(&server, failed, |count| count >= Some(1.0)).await;
    let during = Scrape::of(&server).await;
    server.certificates.rotate();
    let replaced = "opgate_certificate_reloads_total{result=\"replaced\"}";
    wait_metric(&server, replaced, |count| count >= Some(1.0)).await;
    Episode::new(before, during, Scrape::of(&server).await)
}

/// A server that accepts clients of a CA, whose file is in the directory.
fn server_with_client_ca(directory: &tempfile::TempDir) -> Server {
    let path = directory.path().join("clients.crt");
    let authority = CertificateAuthority::create(1).unwrap();
    std::fs::write(&path, authority.certificate()).unwrap();
    Server::start(BINARY, None, &["--client-ca", path.to_str().unwrap()])
}

async fn invalid_client_ca() -> Episode {
    let directory = tempfile::tempdir().unwrap();
    let server = server_with_client_ca(&directory);
    let before = Scrape::of(&server).await;
    let new = directory.path().join("new");
    std::fs::write(&new, "no certificate").unwrap();
    std::fs::rename(new, directory.path().join("clients.crt")).unwrap();
    let failed = "opgate_client_ca_reloads_total{result=\"failed\"}";
    wait_metric(&server, failed, |count| count >= Some(1.0)).await;
    increased(before, Scrape::of(&server).await)
}

async fn client_without_certificate() -> Episode {
    let directory = tempfile::tempdir().unwrap();
    let server = server_with_client_ca(&directory);
    let before = Scrape::of(&server).await;
    let (address, authority) = (server.address, &server.certificates.authority);
    // The client learns of the rejection only with the response.
    let _ = testkit::Client::connect(address, authority).await;
    let rejected = "opgate_client_rejections_total{reason=\"none\"}";
    wait_metric(&server, rejected, |count| count >= Some(1.0)).await;
    increased(before, Scrape::of(&server).await)
}

/// An API server that allowed requests without a response, and then another one.
fn failed_open(earlier: f64) -> Episode {
    increased(Scrape::of_api_server(earlier), Scrape::of_api_server(earlier + 1.0))
}

#[test]
fn old_failures_are_not_reported_after_gaps_in_monitoring() {
    let rules = alert_rules(&[]);
    let rule = rules.iter().find(|rule| rule["alert"] == "OpgateFailOpen").unwrap();
    let failed = || (Scrape::of_api_server(3.0), QUIET_SECONDS);
    let gap_seconds = QUIET_SECONDS / 2.0;
    for (name, states) in [
        ("a new Prometheus", vec![failed()]),
        (
            "a Prometheus that stopped",
            vec![failed(), (Scrape::of_nothing(), gap_seconds), failed()],
        ),
        (
            "an API server that did not respond",
            vec![failed(), (Scrape::unreachable_api_server(), gap_seconds), failed()],
        ),
    ] {
        assert_eq!(check_quiet(&Alert::of(rule), &states), Ok(()), "{name}");
    }
}

/// A server whose certificate is valid for this number of days, and is then renewed.
async fn old_certificate(days: u32) -> Episode {
    let mut certificates = Certificates::of(CertificateAuthority::create(365).unwrap());
    let names = [HOST, SERVICE, "127.0.0.1"].map(str::to_owned);
    let issue = |days| {
        let issued = certificates.authority.issue(&names, days).unwrap();
        (issued.certificate, issued.key)
    };
    let (new, old) = (issue(90), issue(days));
    certificates.swap(&new.0, &new.1);
    let mut server = Server::start_with(BINARY, None, &[], certificates);
    let before = Scrape::of(&server).await;
    let replaced = "opgate_certificate_reloads_total{result=\"replaced\"}";
    server.certificates.swap(&old.0, &old.1);
    wait_metric(&server, replaced, |count| count >= Some(1.0)).await;
    let during = Scrape::of(&server).await;
    server.certificates.swap(&new.0, &new.1);
    wait_metric(&server, replaced, |count| count >= Some(2.0)).await;
    Episode::new(before, during, Scrape::of(&server).await)
}

/// A cluster for an installation, with the object that the leader fills in.
fn installation() -> FakeCluster {
    let cluster = reviews::cluster();
    cluster.install_ledger("opgate-system");
    cluster.install(LEASES.0, "v1", LEASES.1, "Lease", Scope::Namespaced);
    cluster.install("events.k8s.io", "v1", "events", "Event", Scope::Namespaced);
    cluster.install("", "v1", "secrets", "Secret", Scope::Namespaced);
    let (slices, kind) = (("discovery.k8s.io", "endpointslices"), "EndpointSlice");
    cluster.install(slices.0, "v1", slices.1, kind, Scope::Namespaced);
    let slice = json!({
        "metadata": {
            "name": "opgate-1",
            "namespace": "opgate-system",
            "labels": {"kubernetes.io/service-name": "opgate"},
        },
        "endpoints": [{"conditions": {"ready": true}}],
    });
    cluster.apply(slices.0, "v1", slices.1, slice);
    let kind = "ValidatingWebhookConfiguration";
    cluster.install(WEBHOOKS.0, "v1", WEBHOOKS.1, kind, Scope::Cluster);
    cluster.apply(WEBHOOKS.0, "v1", WEBHOOKS.1, webhook_configuration());
    cluster
}

fn webhook_configuration() -> Value {
    json!({"metadata": {
        "name": "opgate",
        "labels": {"opgate.dev/installation": "opgate-system"},
        "annotations": {"opgate.dev/owner": "opgate-system/opgate"},
    }})
}

fn installed_server(cluster: &FakeCluster, more: &[&str]) -> Server {
    let kubeconfig = cluster.kubeconfig();
    let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", "opgate-0"]);
    arguments.extend(["--drain-delay", "0s"]);
    arguments.extend(more);
    let certificates = Certificates::new();
    let authority = &certificates.authority;
    let ca = certificates.directory.path().join("ca.crt");
    std::fs::write(ca, authority.certificate()).unwrap();
    Server::start_with(BINARY, None, &arguments, certificates)
}

async fn wait_leader(server: &Server) {
    wait_metric(server, "opgate_leader", |leads| leads == Some(1.0)).await;
    wait_metric(server, "opgate_lease_last_renewed_seconds", |at| at > Some(0.0)).await;
}

async fn forbidden_leases() -> Episode {
    let cluster = installation();
    let server = installed_server(&cluster, &[]);
    wait_leader(&server).await;
    let before = Scrape::of(&server).await;
    cluster.forbid(LEASES.0, LEASES.1);
    // What the server reports while it cannot renew its Lease.
    let log = "the lease of this replica cannot be renewed";
    wait_until(log, async || {
        server.log().iter().any(|line| line["message"].to_string().contains(log))
    })
    .await;
    let during = Scrape::of(&server).await;
    let last = server.metric("opgate_lease_last_renewed_seconds").await;
    cluster.allow(LEASES.0, LEASES.1);
    wait_metric(&server, "opgate_lease_last_renewed_seconds", |at| at > last).await;
    Episode::new(before, during, Scrape::of(&server).await)
}

async fn no_leader() -> Episode {
    let cluster = installation();
    cluster.forbid(LEASES.0, LEASES.1);
    let server = installed_server(&cluster, &[]);
    wait_metric(&server, "opgate_leader", |leads| leads == Some(0.0)).await;
    let during = Scrape::of(&server).await;
    cluster.allow(LEASES.0, LEASES.1);
    wait_leader(&server).await;
    Episode::from_start(during, Scrape::of(&server).await)
}

async fn two_leaders() -> Episode {
    let cluster = installation();
    let server = installed_server(&cluster, &[]);
    wait_leader(&server).await;
    let leader = Scrape::of(&server).await;
    let follower = leader.with("opgate_leader", 0.0);
    let before = leader.with_replica(&follower);
    Episode::new(before.clone(), leader.with_replica(&leader), before)
}

async fn missing_webhooks() -> Episode {
    let cluster = installation();
    let mut server = installed_server(&cluster, &[]);
    wait_metric(&server, "opgate_registration_stale", |stale| stale == Some(1.0)).await;
    let during = Scrape::of(&server).await;
    server.signal(rustix::process::Signal::TERM);
    server.wait();
    let server = installed_server(&cluster, &["--manage-webhooks"]);
    wait_metric(&server, "opgate_registration_stale", |stale| stale == Some(0.0)).await;
    Episode::from_start(during, Scrape::of(&server).await)
}

fn self_managed_server(cluster: &FakeCluster) -> Server {
    let more = ["--certificates", "self-managed", "--ca-propagation-delay", "1s"];
    installed_server(cluster, &more)
}

async fn forbidden_webhooks() -> Episode {
    let cluster = installation();
    let mut webhook = webhook_configuration();
    let service = json!({"namespace": "opgate-system", "name": "opgate", "path": "/validate"});
    webhook["webhooks"] = json!([{"name": "v.opgate.dev", "clientConfig": {"service": service}}]);
    cluster.apply(WEBHOOKS.0, "v1", WEBHOOKS.1, webhook);
    // An earlier server has issued a certificate.
    let mut server = self_managed_server(&cluster);
    server.signal(rustix::process::Signal::TERM);
    server.wait();
    cluster.forbid(WEBHOOKS.0, WEBHOOKS.1);
    let server = self_managed_server(&cluster);
    let errors = "opgate_certificate_controller_errors_total";
    wait_metric(&server, errors, |count| count >= Some(1.0)).await;
    wait_leader(&server).await;
    let during = Scrape::of(&server).await;
    cluster.allow(WEBHOOKS.0, WEBHOOKS.1);
    wait_metric(&server, "opgate_ca_trusted", |trusted| trusted == Some(1.0)).await;
    Episode::from_start(during, Scrape::of(&server).await)
}

async fn old_ca() -> Episode {
    let cluster = installation();
    let server = self_managed_server(&cluster);
    let metric = "opgate_ca_expiration_timestamp_seconds";
    wait_metric(&server, metric, |at| at > Some(0.0)).await;
    let before = Scrape::of(&server).await;
    let certificate = before.value("opgate_certificate_expiration_timestamp_seconds");
    assert!(before.value(metric) > certificate);
    let during = before.with(metric, before.time() + 30.0 * 86_400.0);
    Episode::new(before.clone(), during, before)
}

async fn wrong_clock() -> Episode {
    let cluster = installation();
    let server = self_managed_server(&cluster);
    let before = Scrape::of(&server).await;
    let during = before.with("opgate_clock_skew_seconds", -301.0);
    Episode::new(before.clone(), during, before)
}

async fn certificate_errors() -> Episode {
    let cluster = installation();
    let server = self_managed_server(&cluster);
    let before = Scrape::of(&server).await;
    cluster.forbid("", "secrets");
    let metric = "opgate_certificate_controller_errors_total";
    wait_metric(&server, metric, |count| count >= Some(1.0)).await;
    let now = Scrape::of(&server).await;
    let later = (0..60).map(|number| now.with(metric, now.value(metric) + f64::from(10 * number)));
    let during: Vec<_> = later.collect();
    let after = during.last().unwrap().clone();
    Episode { before: Some(before), during, after }
}
