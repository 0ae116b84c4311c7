//! Reports against an API server in the process, with time that passes only while it waits.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use opgate_document::Document;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::content::ObjectReport;
use super::stored::StoredReports;
use super::writer::{ReportWrite, ReportWriter};
use super::*;

const UID: &str = "0b6e3c0a-1f5d-4e1c-9b0a-5f6d7e8f9a0b";

/// A request that an API server got.
#[derive(Debug, Clone)]
struct Received {
    method: String,
    path: String,
    body: Value,
}

#[derive(Debug, Default)]
struct ServerState {
    received: Vec<Received>,
    in_flight: usize,
    max_in_flight: Vec<usize>,
    /// Codes of the next responses, then 200.
    codes: Vec<u16>,
    /// The body of each response.
    status: Value,
    latency: Duration,
}

/// An API server.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<ServerState>>);

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().answer(request));
        Client::new(service, "default")
    }

    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let latency = {
            let mut state = self.0.lock();
            state.received.push(Received {
                method: head.method.to_string(),
                path: head.uri.to_string(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            });
            state.in_flight += 1;
            let in_flight = state.in_flight;
            state.max_in_flight.push(in_flight);
            state.latency
        };
        tokio::time::sleep(latency).await;
        let mut state = self.0.lock();
        state.in_flight -= 1;
        let code = if state.codes.is_empty() { 200 } else { state.codes.remove(0) };
        let answer = Response::builder().status(code).header("Retry-After", "7");
        Ok(answer.body(Full::from(state.status.to_string())).unwrap())
    }

    fn received(&self) -> Vec<Received> {
        self.0.lock().received.clone()
    }
}

fn object(namespace: &str, uid: &str) -> ReportedObject {
    ReportedObject {
        api_version: "operators.coreos.com/v1".to_owned(),
        kind: "OperatorGroup".to_owned(),
        namespace: namespace.to_owned(),
        name: "g".to_owned(),
        uid: uid.to_owned(),
    }
}

fn result(rule: &str, message: &str) -> ReportResult {
    ReportResult {
        status: ResultStatus::Fail,
        policy: "operator-group".to_owned(),
        rule: rule.to_owned(),
        field: "spec.x".to_owned(),
        effect: "deny".to_owned(),
        message: message.to_owned(),
    }
}

fn report(namespace: &str, results: Vec<ReportResult>) -> ObjectReport {
    let object = object(namespace, UID);
    let owner = ReportOwner::default();
    ObjectReport::new(object.report_key(&owner).unwrap(), object, owner, results)
}

fn writes(count: usize) -> Vec<ReportWrite> {
    let apply = |_| ReportWrite::Apply(Box::new(report("ns", vec![result("OPG-01", "m")])));
    (0..count).map(apply).collect()
}

/// The metadata of a stored report.
fn stored(report: &ObjectReport, change: impl FnOnce(&mut Value)) -> Document {
    let mut object = report.body(ReportApi::PolicyReport, 1);
    object["metadata"]["uid"] = json!("the-report");
    object["metadata"]["resourceVersion"] = json!("7");
    object["metadata"]["managedFields"] = json!([
        {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:results": {}}},
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
    ]);
    change(&mut object);
    Document::parse(&object.to_string()).unwrap()
}

#[test]
fn report_has_owner_scope_summary_and_results() {
    let warning = ReportResult { status: ResultStatus::Warn, ..result("OPG-02", "two\nlines") };
    let report = report("ns", vec![warning, result("OPG-01", "<b>&")]);
    let body = report.body(ReportApi::PolicyReport, 7);
    let owner = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "name": "g", "uid": UID,
        "blockOwnerDeletion": false,
    });
    assert_eq!(body["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(body["metadata"]["name"], format!("opgate-{UID}"));
    assert_eq!(body["scope"]["namespace"], "ns");
    assert_eq!(body["summary"], json!({"pass": 0, "fail": 1, "warn": 1, "error": 0, "skip": 0}));
    let first = json!({
        "source": "opgate", "policy": "operator-group", "rule": "OPG-01", "result": "fail",
        "message": "<b>&", "properties": {"effect": "deny", "field": "spec.x"},
        "timestamp": {"seconds": 7, "nanos": 0},
    });
    assert_eq!(body["results"][0], first);
    assert_eq!(body["results"][1]["message"], "two lines");
    // A member that the schema lacks would fail the whole request.
    assert_eq!(body["source"], Value::Null);
    let body = report.body(ReportApi::OpenReports, 7);
    assert_eq!((&body["kind"], &body["source"]), (&json!("Report"), &json!("opgate")));
    let of_cluster = self::report("", vec![result("OPG-01", "m")]);
    let body = of_cluster.body(ReportApi::PolicyReport, 7);
    assert_eq!(body["kind"], "ClusterPolicyReport");
    assert_eq!(
        (&body["metadata"]["namespace"], &body["scope"]["namespace"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn report_is_bounded_in_results_and_bytes() {
    let numbered = |count: usize, message: &str| -> Vec<_> {
        (0..count).map(|number| result(&format!("R-{number:05}"), message)).collect()
    };
    for (count, message, min_kept, min_bytes) in [
        (100, "m".to_owned(), 100, 0),
        (250, "m".to_owned(), 100, 0),
        // As JSON, a quote is two bytes.
        (90, "\"".repeat(10_000), 20, 55 << 10),
        (90, "é".repeat(10_000), 40, 55 << 10),
    ] {
        let report = report("ns", numbered(count, &message));
        let body = report.body(ReportApi::OpenReports, u64::from(u32::MAX));
        let bytes = body.to_string().len();
        assert!((min_bytes..=64 << 10).contains(&bytes), "{count}: {bytes} bytes");
        assert_eq!(body["summary"]["fail"], count);
        let results = body["results"].as_array().unwrap();
        let of_rules = results.iter().filter(|result| result["rule"].is_string());
        let omitted = count - of_rules.count();
        assert!(count - omitted >= min_kept, "{count}: {omitted} omitted");
        assert_eq!(results.len(), count - omitted + usize::from(omitted > 0), "{count}");
        if omitted > 0 {
            let last = results.last().unwrap()["message"].as_str().unwrap();
            assert!(last.starts_with(&format!("{omitted} more results are omitted")), "{last}");
        }
    }
}

#[test]
fn digest_depends_on_the_content_only() {
    let (one, two) = (result("OPG-01", "m"), result("OPG-02", "m"));
    let digest = |results: &[&ReportResult]| {
        report("ns", results.iter().map(|result| (*result).clone()).collect()).digest
    };
    let known = digest(&[&one, &two]);
    assert_eq!(known, digest(&[&two, &one]));
    assert_ne!(known, digest(&[&one]));
    assert_ne!(known, digest(&[&one, &result("OPG-02", "n")]));
}

#[test]
fn impossible_names_have_no_report() {
    for (namespace, uid, is_valid) in [
        ("ns", UID, true),
        ("", UID, true),
        ("ns", "", false),
        ("ns", "../x", false),
        ("ns", "Upper", false),
        ("a/b", UID, false),
        ("ns", &"a".repeat(300), false),
    ] {
        let key = object(namespace, uid).report_key(&ReportOwner::default());
        assert_eq!(key.is_some(), is_valid, "{namespace} {uid}");
    }
    let nameless = ReportedObject { name: String::new(), ..object("ns", UID) };
    assert_eq!(nameless.report_key(&ReportOwner::default()), None);
}

#[tokio::test(start_paused = true)]
async fn few_requests_are_sent_to_a_slow_server() {
    for (latency, first, last) in [(10, 8, 8), (2_000, 8, 1)] {
        let server = Server::default();
        server.0.lock().latency = Duration::from_millis(latency);
        let mut writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
        writer.write_all(&writes(40)).await;
        assert_eq!((writer.written, writer.failed), (40, 0));
        let in_flight = server.0.lock().max_in_flight.clone();
        assert_eq!(in_flight.iter().max(), Some(&first), "{latency} ms");
        assert_eq!(in_flight[24..].iter().max(), Some(&last), "{latency} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn busy_server_gets_the_pause_that_it_asks_for() {
    for (times, written, seconds) in [(1, 1, 7), (4, 1, 28), (5, 0, 28)] {
        let server = Server::default();
        server.0.lock().codes = vec![429; times];
        let mut writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
        let began = tokio::time::Instant::now();
        writer.write_all(&writes(1)).await;
        assert_eq!(writer.written, written, "{times}: {:?}", writer.failures);
        assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{times}");
        // Also for reads.
        server.0.lock().codes = vec![429; times];
        let began = tokio::time::Instant::now();
        let results = writer.read_results(&[report("ns", Vec::new()).key]).await;
        assert_eq!(results[0].is_ok(), written == 1, "{times}: {results:?}");
        assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{times}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_writes_do_not_stop_the_others() {
    let server = Server::default();
    server.0.lock().codes = vec![500, 403];
    let mut writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
    writer.write_all(&writes(40)).await;
    assert_eq!((writer.written, writer.failed), (38, 2));
    let line = &writer.failures[0];
    assert!(line.starts_with(&format!("PolicyReport ns/opgate-{UID}: not written: ")), "{line}");
    // Without any response, the rest is not sent.
    let server = Server::default();
    server.0.lock().latency = Duration::from_secs(3_600);
    let mut writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
    writer.write_all(&writes(40)).await;
    assert_eq!((writer.written, writer.failed, server.received().len()), (0, 40, 15));
    assert_eq!(writer.failures.len(), 15);
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_are_deleted_meanwhile_are_no_failure() {
    let terminating = json!({"details": {"causes": [{"reason": "NamespaceTerminating"}]}});
    for (code, status, failed) in [
        (403, terminating.clone(), 0),
        (404, json!({"details": {"kind": "namespaces"}}), 0),
        (403, json!({"message": "no"}), 1),
        (404, json!({"details": {"kind": "policyreports"}}), 1),
        (500, terminating, 1),
    ] {
        let server = Server::default();
        server.0.lock().codes = vec![code];
        server.0.lock().status = status;
        let mut writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
        writer.write_all(&writes(1)).await;
        assert_eq!((writer.written, writer.failed), (0, failed), "{code} {:?}", writer.failures);
    }
}

/// Runs a sync with one stored report. Returns the requests.
async fn synchronize<R>(
    stored: &[Document],
    results: impl FnOnce(&mut ReportSync) -> R,
) -> (SyncSummary, Vec<Received>) {
    let server = Server::default();
    let writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
    let mut sync = ReportSync::new(StoredReports::of(stored), writer);
    drop(results(&mut sync));
    let summary = sync.finish().await;
    (summary, server.received())
}

#[tokio::test(start_paused = true)]
async fn only_differences_are_written() {
    let found = || vec![result("OPG-01", "m")];
    let report = report("ns", found());
    let unchanged = stored(&report, |_| {});
    let (summary, requests) =
        synchronize(&[unchanged], |sync| sync.add(object("ns", UID), found())).await;
    assert_eq!((summary.unchanged, requests.len()), (1, 0), "{requests:?}");
    // A new object, and one with another result.
    let changed = stored(&report, |_| {});
    for stored in [&[][..], &[changed]] {
        let other = vec![result("OPG-02", "m")];
        let (summary, requests) =
            synchronize(stored, |sync| sync.add(object("ns", UID), other)).await;
        assert_eq!((summary.written, requests.len()), (1, 1), "{requests:?}");
        let Received { method, path, body } = &requests[0];
        assert_eq!(method, "PATCH");
        let path_of_report = format!(
            "/apis/wgpolicyk8s.io/v1alpha2/namespaces/ns/policyreports/opgate-{UID}?fieldManager=opgate-audit&force=true"
        );
        assert_eq!(*path, path_of_report);
        assert_eq!(body["results"][0]["rule"], "OPG-02");
    }
    // Another client has changed the content, with or without the digest.
    let tampered: [fn(&mut Value); 5] = [
        |object| object["metadata"]["managedFields"][1]["fieldsV1"] = json!({"f:results": {}}),
        |object| object["metadata"]["annotations"] = json!({}),
        // The record of writers is gone.
        |object| object["metadata"]["managedFields"] = json!([{}]),
        |object| {
            object["metadata"]["annotations"]["opgate.dev/digest"] = "x".repeat(1 << 20).into();
        },
        // A report that names an object of an impossible kind is not one of opgate.
        |object| object["metadata"]["ownerReferences"][0]["kind"] = "x".repeat(1 << 20).into(),
    ];
    for change in tampered {
        let stored = [stored(&report, change)];
        let (summary, _) = synchronize(&stored, |sync| sync.add(object("ns", UID), found())).await;
        assert_eq!(summary.written, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn stale_reports_are_deleted_and_unknown_ones_kept() {
    let report = report("ns", vec![result("OPG-01", "m")]);
    let kept: [fn(&mut ReportSync); 3] = [
        |sync| sync.set_unknown("operators.coreos.com", None),
        |sync| sync.set_unknown("operators.coreos.com", Some("OperatorGroup")),
        |sync| {
            sync.keep(&object("ns", UID));
            drop(sync.add(object("ns", UID), vec![result("OPG-02", "another")]));
        },
    ];
    for keep in kept {
        let (summary, requests) = synchronize(&[stored(&report, |_| {})], keep).await;
        assert_eq!((summary.deleted, requests.len()), (0, 0), "{requests:?}");
    }
    let deleted: [fn(&mut ReportSync); 3] = [
        |_| {},
        |sync| drop(sync.add(object("ns", UID), Vec::new())),
        |sync| sync.set_unknown("operators.coreos.com", Some("Subscription")),
    ];
    for delete in deleted {
        let (summary, requests) = synchronize(&[stored(&report, |_| {})], delete).await;
        assert_eq!((summary.deleted, requests.len()), (1, 1));
        let Received { method, path, body } = &requests[0];
        assert_eq!(method, "DELETE");
        assert!(path.ends_with(&format!("/namespaces/ns/policyreports/opgate-{UID}")), "{path}");
        assert_eq!(body["preconditions"], json!({"uid": "the-report", "resourceVersion": "7"}));
    }
    // Reports of others that have the label.
    let foreign: [fn(&mut Value); 2] = [
        |object| object["metadata"]["name"] = json!("mine"),
        |object| object["metadata"]["ownerReferences"] = json!([]),
    ];
    for change in foreign {
        let (_, requests) = synchronize(&[stored(&report, change)], |_| {}).await;
        assert!(requests.is_empty(), "{requests:?}");
    }
}

fn policy_error(policy: &str) -> ReportResult {
    ReportResult {
        status: ResultStatus::Error,
        policy: policy.to_owned(),
        rule: String::new(),
        field: String::new(),
        effect: String::new(),
        message: "deadline exceeded".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn policy_error_keeps_the_earlier_results_of_its_policy() {
    let of_other = ReportResult { policy: "other".to_owned(), ..result("OTH-01", "old") };
    let earlier = report("ns", vec![result("OPG-01", "old"), of_other]);
    for (code, is_tampered, expected) in [
        // A policy that succeeded has its new results only.
        (200, false, Some(vec!["operator-group", "operator-group OPG-01", "other OTH-02"])),
        // What another client has changed says nothing.
        (200, true, Some(vec!["operator-group", "other OTH-02"])),
        // What cannot be read stays.
        (500, false, None),
    ] {
        let server = Server::default();
        let body = earlier.body(ReportApi::PolicyReport, 1);
        server.0.lock().status = json!({"items": [body]});
        server.0.lock().codes = vec![code];
        let writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
        let stored = stored(&earlier, |object| {
            if is_tampered {
                object["metadata"]["managedFields"] = json!([]);
            }
        });
        let mut sync = ReportSync::new(StoredReports::of(&[stored]), writer);
        let new = ReportResult { policy: "other".to_owned(), ..result("OTH-02", "new") };
        let digest = sync.add(object("ns", UID), vec![new, policy_error("operator-group")]);
        assert_eq!(digest, None, "it is evaluated again");
        let summary = sync.finish().await;
        let mut received = server.received();
        received.retain(|request| request.method != "GET");
        let Some(expected) = expected else {
            assert_eq!((received.len(), summary.failed), (0, 1), "{received:?}");
            continue;
        };
        assert_eq!((received.len(), summary.written, summary.deleted), (1, 1, 0));
        let results = received[0].body["results"].as_array().unwrap();
        let name = |result: &Value| {
            let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("policy"), text("rule")).trim_end().to_owned()
        };
        assert_eq!(results.iter().map(name).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn few_earlier_results_are_in_memory_at_a_time() {
    let server = Server::default();
    let body = report("ns", vec![result("OPG-01", "old")]).body(ReportApi::PolicyReport, 1);
    server.0.lock().status = json!({"items": [body]});
    let uid = |number: u32| format!("0b6e3c0a-1f5d-4e1c-9b0a-5f6d7e8f9a{number}");
    let objects: Vec<_> = (10..60).map(|number| object("ns", &uid(number))).collect();
    let stored_report = |object: &ReportedObject| {
        let (owner, old) = (ReportOwner::default(), vec![result("OPG-01", "old")]);
        let key = object.report_key(&owner).unwrap();
        stored(&ObjectReport::new(key, object.clone(), owner, old), |_| {})
    };
    let reports: Vec<_> = objects.iter().map(stored_report).collect();
    let writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
    let mut sync = ReportSync::new(StoredReports::of(&reports), writer);
    for object in objects {
        drop(sync.add(object, vec![policy_error("operator-group")]));
    }
    let summary = sync.finish().await;
    assert_eq!((summary.written, summary.deleted, summary.failed), (50, 0, 0));
    let received = server.received();
    let rounds = received.chunk_by(|one, next| one.method == next.method);
    let reads: Vec<_> = rounds.filter(|round| round[0].method == "GET").map(<[_]>::len).collect();
    assert!(reads.iter().sum::<usize>() == 50 && reads.iter().all(|n| *n <= 16), "{reads:?}");
}

#[tokio::test(start_paused = true)]
async fn repeated_policy_error_is_written_once() {
    let both = vec![result("OPG-01", "old"), policy_error("operator-group")];
    let earlier = report("ns", both);
    let server = Server::default();
    server.0.lock().status = json!({"items": [earlier.body(ReportApi::PolicyReport, 1)]});
    let writer = ReportWriter::new(server.client(), ReportApi::PolicyReport);
    let mut sync = ReportSync::new(StoredReports::of(&[stored(&earlier, |_| {})]), writer);
    drop(sync.add(object("ns", UID), vec![policy_error("operator-group")]));
    let summary = sync.finish().await;
    assert_eq!((summary.written, summary.deleted, summary.unchanged), (0, 0, 1));
    assert!(server.received().iter().all(|request| request.method == "GET"));
}

#[tokio::test(start_paused = true)]
async fn report_is_kept_only_with_the_same_content() {
    let report = report("ns", vec![result("OPG-01", "m")]);
    for (digest, is_kept) in [(report.digest.as_str(), true), (&"0".repeat(64), false)] {
        let writer = ReportWriter::new(Server::default().client(), ReportApi::PolicyReport);
        let stored = StoredReports::of(&[stored(&report, |_| {})]);
        let mut sync = ReportSync::new(stored, writer);
        assert_eq!(sync.keep_same(&object("ns", UID), digest), is_kept);
        let summary = sync.finish().await;
        assert_eq!(
            (summary.unchanged, summary.deleted),
            (usize::from(is_kept), usize::from(!is_kept))
        );
    }
}

#[test]
fn installations_have_separate_reports() {
    let long = "x".repeat(60);
    let owners = [
        ReportOwner::default(),
        ReportOwner::installation("opgate-system", "opgate"),
        ReportOwner::installation("opgate-test", "opgate"),
        ReportOwner::installation(&long, &long),
    ];
    let names: BTreeSet<_> =
        owners.iter().map(|owner| object("ns", UID).report_key(owner).unwrap().name).collect();
    assert_eq!(names.len(), owners.len(), "{names:?}");
    assert!(names.contains(&format!("opgate-{UID}")));
    for owner in &owners {
        assert!(owner.labels().iter().all(|(_, value)| value.len() <= 63));
        // Of each report, one selector is right.
        let key = object("ns", UID).report_key(owner).unwrap();
        let report = ObjectReport::new(key, object("ns", UID), owner.clone(), vec![]);
        let labels = &report.body(ReportApi::PolicyReport, 1)["metadata"]["labels"];
        let installation = labels["opgate.dev/installation"].as_str();
        let selector = match installation {
            Some(label) => format!("opgate.dev/installation={label}"),
            None => "!opgate.dev/installation".to_owned(),
        };
        assert!(owner.selector().ends_with(&selector), "{}", owner.selector());
    }
}
