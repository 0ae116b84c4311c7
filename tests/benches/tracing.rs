//! What traces cost the server: `cargo bench -p opgate-tests --bench tracing`
//!
//! Servers without `--otlp-endpoint`, with 1 % of the requests traced, and with all of them, get the same reviews in
//! turns. The CPU time is that of the server's process, with the export.

use serde_json::json;
use testkit::Server;
use testkit::compared_load::{Pace, compare, mixed_reviews};
use testkit::otlp_collector::OtlpCollector;
use testkit::reviews::{GOOSE_API, group, namespace};
use tokio::runtime::Builder;

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
/// All built-in policies with their default settings.
const ALL_POLICIES: &str = "{apiVersion: opgate.dev/v1alpha1, kind: Configuration}";
/// Names of the servers, and the share of requests that they trace; the first traces none.
const SERVERS: [(&str, Option<&str>); 3] =
    [("off", None), ("1 % traced", Some("0.01")), ("all traced", Some("1"))];

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let clients = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let collector = clients.block_on(OtlpCollector::start());
    let endpoint = collector.endpoint();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let objects = [namespace("a"), group("a", "first", &["a"], GOOSE_API)];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&state, list.to_string()).unwrap();
    let start = |ratio: Option<&str>| {
        let mut arguments = vec!["--cluster-state", state.to_str().unwrap(), "--drain-delay", "0s"];
        if let Some(ratio) = ratio {
            let more = ["--otlp-endpoint", &endpoint, "--trace-sample", ratio];
            arguments.extend(more);
            arguments.extend(["--max-traces-per-second", "1000000"]);
        }
        Server::start(BINARY, Some(ALL_POLICIES), &arguments)
    };
    let servers: Vec<_> = SERVERS.iter().map(|(_, ratio)| start(*ratio)).collect();
    let named: Vec<_> = SERVERS.iter().zip(&servers).map(|((name, _), one)| (*name, one)).collect();
    let reviews = mixed_reviews("a");
    for pace in [Pace::Even, Pace::Unlimited] {
        compare(&clients, &named, &reviews, pace);
        for ((name, _), server) in SERVERS.iter().zip(&servers) {
            for result in ["exported", "dropped", "failed"] {
                let metric = format!("opgate_spans_total{{result=\"{result}\"}}");
                let count = clients.block_on(server.metric(&metric)).unwrap_or_default();
                println!("  {name}: {count} spans {result}");
            }
        }
    }
}
