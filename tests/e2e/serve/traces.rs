//! `opgate serve --otlp-endpoint`: spans and metrics of a collector, and that reviews never wait for it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http_body_util::Full;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::otlp_collector::{OtlpCollector, attribute};
use testkit::reviews::{GOOSE_API, OLM, WriteMode, create, group, policies, serve_with};
use testkit::{
    Certificates, Client, HOST, Server, configuration, create_bundle, good_spec, samples,
    wait_until,
};

use crate::BINARY;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT_SPAN: &str = "b7ad6b7169203331";

/// A value of an object that no span may have.
const OBJECT_VALUE: &str = "aHVudGVyMg";

fn sampled() -> String {
    format!("00-{TRACE}-{CLIENT_SPAN}-01")
}

/// Sends a review of a Bundle that is denied, with this header.
async fn review(client: &mut Client, uid: &str, traceparent: Option<&str>) -> Value {
    let spec = json!({"source": {"type": "image"}, "secret": OBJECT_VALUE});
    let body = create_bundle(uid, "b", &spec).to_string();
    let mut request = hyper::Request::post("/validate?timeout=60s")
        .header("host", HOST)
        .header("content-type", "application/json");
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.response()
}

fn start(collector: &OtlpCollector, arguments: &[&str]) -> Server {
    let endpoint = collector.endpoint();
    let mut all = vec!["--otlp-endpoint", &endpoint, "--drain-delay", "0s"];
    all.extend(arguments);
    Server::start(BINARY, None, &all)
}

/// Ends a server, which exports what waits.
fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let known = |key: &str| attribute(&span.attributes, key).unwrap();
    span.attributes.iter().map(|a| (a.key.clone(), known(&a.key))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sampled_review_continues_the_trace_of_the_client() {
    let collector = OtlpCollector::start().await;
    let server = start(&collector, &["--trace-sample", "0"]);
    let mut client = server.connect().await;
    assert_eq!(review(&mut client, "traced", Some(&sampled())).await["allowed"], false);
    let unsampled = sampled().replace("-01", "-00");
    for (uid, traceparent) in
        [("not", Some(unsampled.as_str())), ("none", None), ("bad", Some("00-x"))]
    {
        review(&mut client, uid, traceparent).await;
    }
    let log = |uid: &str| {
        let lines = server.log();
        lines.into_iter().find(|line| line["message"] == "review decided" && line["uid"] == uid)
    };
    wait_until("the log", async || log("bad").is_some()).await;
    assert_eq!(log("traced").unwrap()["trace_id"], TRACE);
    assert!(log("not").unwrap().get("trace_id").is_none_or(Value::is_null));
    stop(server);

    let spans = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let root = named("POST /validate");
    assert_eq!(
        (root.kind(), hex(&root.parent_span_id)),
        (SpanKind::Server, CLIENT_SPAN.to_owned())
    );
    let shown = attributes(root);
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/validate"),
        ("http.response.status_code", "200"),
        ("opgate.request.uid", "traced"),
        ("opgate.request.operation", "CREATE"),
        ("opgate.request.resource", "core.rukpak.io/v1alpha1/bundles"),
        ("opgate.request.name", "b"),
        ("opgate.decision", "denied"),
    ] {
        assert_eq!(shown.get(key).map(String::as_str), Some(value), "{key}: {shown:?}");
    }
    let call = named("evaluate bundle-immutability");
    assert_eq!(call.parent_span_id, root.span_id);
    assert!(attributes(call)["opgate.violated_rules"].contains("RPK-"), "{call:#?}");
    let wait = named("wait for permit");
    assert_eq!(wait.parent_span_id, call.span_id);
    assert!(spans.iter().all(|s| s.start_time_unix_nano <= s.end_time_unix_nano));
    assert!(!collector.has_bytes(OBJECT_VALUE.as_bytes()));
}

/// Names of the spans of reviews that are sent to a server with this configuration. All waits for the cluster are parts
/// of a request.
async fn spans_with_cluster(
    cluster: &FakeCluster,
    configuration: &str,
    arguments: &[&str],
    reviews: Vec<String>,
) -> BTreeSet<String> {
    let collector = OtlpCollector::start().await;
    let endpoint = collector.endpoint();
    let mut all = vec!["--otlp-endpoint", &endpoint, "--trace-sample", "1", "--drain-delay", "0s"];
    all.extend(arguments);
    let server = serve_with(BINARY, cluster, configuration, &all);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let mut client = server.connect().await;
    for review in reviews {
        assert_eq!(client.review(review).await.unwrap().status, 200);
    }
    stop(server);
    let spans = collector.spans();
    let is_root =
        |id: &[u8]| spans.iter().any(|span| span.span_id == id && span.kind() == SpanKind::Server);
    for span in spans.iter().filter(|span| span.kind() == SpanKind::Internal) {
        assert!(span.name == "wait for permit" || is_root(&span.parent_span_id), "{span:?}");
    }
    spans.into_iter().map(|span| span.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_the_cluster_are_spans() {
    let cluster = testkit::reviews::cluster();
    cluster.install_ledger("opgate-system");
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    let arguments =
        ["--installation", "opgate-system/opgate", "--pod-name", "a", "--consistent-reads"];
    let reviews = vec![
        create(&group("b", "denied", &["shared"], GOOSE_API), WriteMode::Persist),
        create(&group("c", "allowed", &["c"], GOOSE_API), WriteMode::Persist),
    ];
    let names = spans_with_cluster(&cluster, &policies(), &arguments, reviews).await;
    for name in ["evaluate operator-group", "direct read", "confirmation", "ledger write"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }

    let cluster = FakeCluster::start();
    cluster.install("", "v1", "secrets", "Secret", Scope::Namespaced);
    cluster.install("example.com", "v1", "widgets", "Widget", Scope::Namespaced);
    let spec = json!({"source": {"type": "image", "image": {"ref": "widgets.example.com/v1/500"}}});
    let review = create_bundle("1", "b", &spec).to_string();
    let configuration = configuration(&[samples(&["*.example.com"], &json!({}))]);
    let names = spans_with_cluster(&cluster, &configuration, &[], vec![review]).await;
    assert!(names.contains("sample"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_trace_are_sampled_by_ratio_and_limit() {
    for (arguments, traces, limited) in [
        (["--trace-sample", "1", "--max-traces-per-second", "1000"], 3, 0.0),
        (["--trace-sample", "0", "--max-traces-per-second", "1000"], 0, 0.0),
        (["--trace-sample", "1", "--max-traces-per-second", "0"], 0, 3.0),
    ] {
        let collector = OtlpCollector::start().await;
        let server = start(&collector, &arguments);
        let mut client = server.connect().await;
        for uid in ["1", "2", "3"] {
            review(&mut client, uid, None).await;
        }
        assert_eq!(server.metric("opgate_traces_limited_total").await, Some(limited));
        stop(server);
        let spans = collector.spans();
        let roots: Vec<_> = spans.iter().filter(|s| s.name == "POST /validate").collect();
        let ids: BTreeSet<_> = spans.iter().map(|span| &span.trace_id).collect();
        assert_eq!((roots.len(), ids.len()), (traces, traces), "{arguments:?}");
        assert!(roots.iter().all(|root| root.parent_span_id.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_clients_in_spans_are_bounded() {
    let collector = OtlpCollector::start().await;
    let server = start(&collector, &[]);
    let mut client = server.connect().await;
    let mut body = create_bundle(&"u".repeat(9_000), "b", &good_spec());
    body["request"]["namespace"] = "n\n".repeat(9_000).into();
    let path = format!("/validate/{}", "a".repeat(5_000));
    for path in ["/validate?timeout=60s", &path] {
        let request = hyper::Request::post(path)
            .header("host", HOST)
            .header("content-type", "application/json")
            .header("traceparent", sampled())
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        client.send(request).await.unwrap();
    }
    stop(server);
    let spans = collector.spans();
    let roots: Vec<_> = spans.iter().filter(|span| span.name.starts_with("POST ")).collect();
    assert_eq!(roots.len(), 2, "{spans:#?}");
    for text in roots.iter().flat_map(|span| attributes(span).into_values()) {
        assert!(text.len() <= 256 && !text.contains('\n'), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_collector_fails_no_review() {
    let collector = OtlpCollector::start().await;
    for status in [503, OtlpCollector::SILENT] {
        collector.set_status(status);
        let shell = "export OTEL_EXPORTER_OTLP_TIMEOUT=100";
        let endpoint = collector.endpoint();
        let arguments = [
            "--otlp-endpoint",
            &endpoint,
            "--trace-sample",
            "1",
            "--otlp-metrics-interval",
            "100ms",
            "--drain-delay",
            "0s",
        ];
        let server = Server::start_after(shell, BINARY, None, &arguments);
        let mut client = server.connect().await;
        let failed = r#"opgate_otlp_exports_total{signal="metrics",result="failed"}"#;
        wait_until("three failures", async || server.metric(failed).await >= Some(3.0)).await;
        assert_eq!(review(&mut client, "1", Some(&sampled())).await["allowed"], false);
        assert_eq!(server.get("/readyz").await.0, 200);
        let lines = server.log();
        let lines = lines.iter().filter(|line| line["message"] == "OTLP export failed");
        assert_eq!(lines.count(), 1);
        stop(server);
    }
    assert!(collector.spans().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_export_does_not_keep_the_last_traces() {
    let collector = OtlpCollector::start().await;
    collector.set_status(OtlpCollector::SILENT);
    let server = start(&collector, &["--trace-sample", "1", "--otlp-metrics-interval", "100ms"]);
    wait_until("a hanging export", async || collector.requests() > 0).await;
    collector.set_status(200);
    let mut client = server.connect().await;
    review(&mut client, "1", None).await;
    stop(server);
    assert!(!collector.spans().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_variables_turn_only_telemetry_off() {
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_METRICS_EXPORTER", "console"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.crt"),
    ] {
        let endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1";
        let shell = format!("export {endpoint} {variable}={value}");
        let server = Server::start_after(&shell, BINARY, None, &["--drain-delay", "0s"]);
        let mut client = server.connect().await;
        assert_eq!(review(&mut client, "1", Some(&sampled())).await["allowed"], false);
        let off = |line: &Value| {
            line["level"] == "ERROR"
                && line["message"].as_str().unwrap().starts_with("telemetry is off")
                && line["error"].as_str().unwrap().contains(variable)
        };
        assert!(server.log().iter().any(off), "{variable}: {:#?}", server.log());
        stop(server);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exported_metrics_are_those_of_the_ops_port() {
    let collector = OtlpCollector::start().await;
    let server = start(&collector, &["--otlp-metrics-interval", "100ms"]);
    let mut client = server.connect().await;
    review(&mut client, "1", Some(&sampled())).await;
    let find = |name: &str| {
        let metrics = collector.metrics().into_iter();
        metrics.filter(|metric| metric.name == name).find_map(|metric| metric.data)
    };
    let requests = || match find("opgate_requests_total")? {
        metric::Data::Sum(sum) => Some(sum.data_points.first()?.value?),
        other => panic!("{other:?}"),
    };
    let one = Some(number_data_point::Value::AsInt(1));
    wait_until("the metrics", async || requests() == one).await;
    let Some(metric::Data::Histogram(durations)) = find("opgate_request_duration_seconds") else {
        panic!("{:#?}", collector.metrics())
    };
    let exemplars = durations.data_points.iter().flat_map(|point| &point.exemplars);
    assert_eq!(exemplars.map(|e| hex(&e.trace_id)).collect::<Vec<_>>(), [TRACE]);

    let (_, text) = server.get("/metrics").await;
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| line.split(['{', ' ']).next());
    let part = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        parts.iter().find_map(|part| name.strip_suffix(part).map(str::to_owned))
    };
    let exported: BTreeSet<_> = collector.metrics().into_iter().map(|m| m.name).collect();
    let missing: BTreeSet<_> = names
        .filter(|name| !exported.contains(*name))
        .filter(|name| part(name).is_none_or(|name| !exported.contains(&name)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    stop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn exemplars_are_for_clients_that_accept_openmetrics() {
    let collector = OtlpCollector::start().await;
    let server = start(&collector, &["--trace-sample", "0"]);
    let mut client = server.connect().await;
    review(&mut client, "1", Some(&sampled())).await;
    let exemplar = format!(" # {{trace_id=\"{TRACE}\",span_id=\"");
    for (accept, expected) in [
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", 1),
        ("text/plain;version=0.0.4", 0),
    ] {
        let text = server.get_as("/metrics", accept).await.1;
        assert_eq!(text.matches(&exemplar).count(), expected, "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
    stop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_variables_configure_the_export() {
    let certificates = Certificates::new();
    let ca = certificates.directory.path().join("ca.crt");
    std::fs::write(&ca, certificates.authority.certificate()).unwrap();
    let collector = OtlpCollector::start_tls(&certificates).await;
    let shell = format!(
        "export OTEL_EXPORTER_OTLP_ENDPOINT=https://{} OTEL_EXPORTER_OTLP_CERTIFICATE={} \
         OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20a OTEL_SERVICE_NAME=gate \
         OTEL_RESOURCE_ATTRIBUTES=k8s.namespace.name=opgate-system OTEL_TRACES_SAMPLER=always_on",
        collector.address,
        ca.display()
    );
    let server = Server::start_after(&shell, BINARY, None, &["--drain-delay", "0s"]);
    let mut client = server.connect().await;
    review(&mut client, "1", None).await;
    stop(server);
    let (resource, headers) = collector.sender().unwrap();
    assert_eq!(headers["authorization"], "Bearer a");
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(attribute(&resource, "service.name").as_deref(), Some("gate"));
    assert_eq!(attribute(&resource, "k8s.namespace.name").as_deref(), Some("opgate-system"));
    assert!(attribute(&resource, "service.version").is_some());
}
