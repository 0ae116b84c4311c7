//! What a server with every optional feature costs: `cargo bench -p opgate-tests --bench all_features`
//!
//! A server without them and one with all of them get the same reviews in turns. Arguments choose features, such as
//! `-- record ui`; `-- each` starts one more server for each feature. All servers write the JSON log, which has a line
//! for each denial (two of four reviews), and read the same cluster from a stand-in of an API server in this process.
//! The leader audits 1,000 objects every ten seconds.
//!
//! Goal: at 2,000 reviews a second, at least 90 % of the throughput of a server without the features.

use std::path::Path;

use testkit::Server;
use testkit::audited_cluster::AuditedCluster;
use testkit::compared_load::{Pace, compare, mixed_reviews};
use testkit::otlp_collector::OtlpCollector;
use tokio::runtime::Builder;

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
/// All built-in policies with their default settings.
const ALL_POLICIES: &str =
    "{apiVersion: opgate.dev/v1alpha1, kind: Configuration, profile: upstream}";
const AUDITED_OBJECTS: usize = 1_000;

/// An optional feature, and its flags.
struct Feature {
    name: &'static str,
    flags: Vec<String>,
}

fn features(recording: &Path, collector: &OtlpCollector) -> Vec<Feature> {
    let feature = |name, flags: &[&str]| Feature {
        name,
        flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
    };
    let endpoint = collector.endpoint();
    vec![
        feature("record", &["--record", recording.to_str().unwrap()]),
        feature("ui", &["--ui"]),
        feature("audit", &["--audit-interval", "10s"]),
        feature("events", &["--events"]),
        feature("otlp", &["--otlp-endpoint", &endpoint, "--otlp-metrics-interval", "10s"]),
    ]
}

/// Starts a server of a separate installation: servers of one installation would choose one leader.
fn start(cluster: &AuditedCluster, name: &str, features: &[&Feature]) -> Server {
    let namespace = format!("opgate-{name}");
    cluster.api_server.install_ledger(&namespace);
    let (kubeconfig, installation) =
        (cluster.api_server.kubeconfig(), format!("{namespace}/opgate"));
    let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap(), "--drain-delay", "0s"];
    arguments.extend(["--installation", &installation, "--pod-name", "a"]);
    arguments.extend(features.iter().flat_map(|feature| &feature.flags).map(String::as_str));
    Server::start(BINARY, Some(ALL_POLICIES), &arguments)
}

fn main() {
    let chosen: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let clients = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let collector = clients.block_on(OtlpCollector::start());
    let cluster = AuditedCluster::start(AUDITED_OBJECTS);
    let is_each = chosen.iter().any(|name| name == "each");
    let is_chosen =
        |name: &str| chosen.len() == usize::from(is_each) || chosen.iter().any(|c| c == name);
    let all = features(&directory.path().join("all"), &collector);
    let single = features(&directory.path().join("single"), &collector);
    let all: Vec<_> = all.iter().filter(|feature| is_chosen(feature.name)).collect();
    let mut servers = vec![("none", start(&cluster, "none", &[]))];
    for feature in single.iter().filter(|feature| is_each && is_chosen(feature.name)) {
        servers.push((feature.name, start(&cluster, feature.name, &[feature])));
    }
    servers.push(("all", start(&cluster, "all", &all)));
    let names: Vec<_> = all.iter().map(|feature| feature.name).collect();
    println!("features: {}", names.join(" "));
    let servers: Vec<_> = servers.iter().map(|(name, server)| (*name, server)).collect();
    // The second team has an OperatorGroup.
    let reviews = mixed_reviews("team-1");
    for pace in [Pace::Even, Pace::Unlimited] {
        compare(&clients, &servers, &reviews, pace);
    }
    let (_, server) = servers.last().unwrap();
    for counter in [
        "opgate_recorded_reviews_total{result=\"written\"}",
        "opgate_audit_runs_total{result=\"complete\"}",
    ] {
        println!("{counter}: {}", clients.block_on(server.metric(counter)).unwrap_or_default());
    }
}
