//! Reviews that are also sent to a server, whose responses are compared with the local decisions.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use opgate_certs::CertificateAuthority;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::reviews::{self, GOOSE_API, OPERATOR_GROUPS, WriteMode, group};
use testkit::{
    Server, builtin_policy, configuration, create_bundle, good_spec, recorded_review, wait_until,
};

use crate::BINARY;
use crate::check::{command, err, out};

/// A directory with a configuration and some reviews.
fn directory(configuration: &str, reviews: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("opgate.yaml"), configuration).unwrap();
    fs::create_dir(directory.path().join("reviews")).unwrap();
    for (name, review) in reviews {
        fs::write(directory.path().join("reviews").join(name), review).unwrap();
    }
    directory
}

/// A directory with a review that is allowed, and one that RPK-01 denies.
fn recorded_reviews() -> TempDir {
    let [create, update] = ["006", "007"].map(recorded_review);
    directory(&bundles(), &[("create.json", &create), ("update.json", &update)])
}

fn bundles() -> String {
    configuration(&[builtin_policy()])
}

/// Replays the reviews of a directory; gives exit status, stdout and stderr.
fn replay(directory: &TempDir, url: &str, more: &str) -> (Option<i32>, String, String) {
    let arguments = format!("replay --config opgate.yaml --against {url} {more} reviews");
    let arguments: Vec<_> = arguments.split_whitespace().collect();
    let output = command(directory.path(), &arguments).output().unwrap();
    (output.status.code(), out(&output), err(&output))
}

fn write_ca(directory: &Path, authority: &CertificateAuthority) {
    fs::write(directory.join("ca.crt"), authority.certificate()).unwrap();
}

/// A server with this configuration, whose CA is in the directory, and its URL.
fn serve(directory: &TempDir, configuration: &str, arguments: &[&str]) -> (Server, String) {
    let server = Server::start(BINARY, Some(configuration), arguments);
    write_ca(directory.path(), &server.certificates.authority);
    let url = format!("https://{}/validate?timeout=30s", server.address);
    (server, url)
}

#[test]
fn server_with_the_same_configuration_answers_equally() {
    let directory = recorded_reviews();
    let old = recorded_review("007").replace("admission.k8s.io/v1\"", "admission.k8s.io/v1beta1\"");
    fs::write(directory.path().join("reviews/v1beta1.json"), old).unwrap();
    let (server, url) = serve(&directory, &bundles(), &[]);
    let port = server.address.port();
    let by_service = "https://opgate.opgate-system.svc/validate?timeout=30s";
    for (url, more) in [
        (url.as_str(), "--ca ca.crt".to_owned()),
        (by_service, format!("--ca ca.crt --connect 127.0.0.1:{port}")),
    ] {
        let (code, stdout, stderr) = replay(&directory, url, &more);
        assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
        assert!(stderr.contains("3 reviews, 0 with another response"), "{stderr}");
    }
}

#[test]
fn other_configuration_of_the_server_is_a_difference() {
    let directory = recorded_reviews();
    let with_rules = |rules: Value| {
        let mut policy = builtin_policy();
        policy["rules"] = rules;
        configuration(&[policy])
    };
    let denies = with_rules(json!({"RPK-17": "off"}));
    fs::write(directory.path().join("opgate.yaml"), denies).unwrap();
    let warns = with_rules(json!({"RPK-01": "warn", "RPK-17": "off"}));
    let (_server, url) = serve(&directory, &warns, &[]);
    let (code, stdout, stderr) = replay(&directory, &url, "--ca ca.crt");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("2 reviews, 1 with another response"), "{stderr}");
    let expected =
        "~ reviews/update.json: UPDATE core.rukpak.io/v1alpha1/bundles combo-tag-ref: deny → allow
    - status.code: 403
    - status.reason: bundle.spec is immutable
    - status.message: bundle.spec is immutable
    - status.details.causes: RPK-01 spec: bundle.spec is immutable
    - auditAnnotations.bundle-immutability: deny RPK-01: bundle.spec is immutable
    + warnings: bundle.spec is immutable
    + auditAnnotations.bundle-immutability: warn RPK-01: bundle.spec is immutable
";
    assert_eq!(stdout, expected);
}

/// As API servers call the webhook of one policy.
#[test]
fn only_the_policies_in_the_url_decide() {
    let directory = recorded_reviews();
    let mut subscription = builtin_policy();
    subscription["name"] = "subscription".into();
    let both = configuration(&[builtin_policy(), subscription]);
    fs::write(directory.path().join("opgate.yaml"), &both).unwrap();
    let (server, _) = serve(&directory, &both, &[]);
    let url = |policy: &str| format!("https://{}/validate/{policy}", server.address);
    let (code, _, stderr) = replay(&directory, &url("subscription"), "--ca ca.crt");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("2 reviews, 0 with another response"), "{stderr}");
    let (code, _, stderr) = replay(&directory, &url("absent"), "--ca ca.crt");
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("the configuration has no policy \"absent\""), "{stderr}");
}

#[test]
fn failed_connections_are_errors_with_the_fix() {
    let directory = recorded_reviews();
    let (server, url) = serve(&directory, &bundles(), &[]);
    let other = CertificateAuthority::create(1).unwrap();
    fs::write(directory.path().join("other.crt"), other.certificate()).unwrap();
    fs::write(directory.path().join("leaf.crt"), "nothing").unwrap();
    let port = server.address.port();
    let (by_name, plain) =
        (format!("https://localhost:{port}/validate"), format!("http://127.0.0.1:{port}/validate"));
    let (ops, path) =
        (format!("https://{}/validate", server.ops), format!("https://{}/", server.address));
    for (url, more, expected) in [
        (url.as_str(), "", "name a file with its CA with --ca"),
        (&url, "--ca other.crt", "name a file with its CA with --ca"),
        (&url, "--ca absent.crt", "absent.crt: No such file"),
        (&url, "--ca leaf.crt", "leaf.crt: no certificate: put the CA of the server in it"),
        (&by_name, "--ca ca.crt", "use a name of the certificate in the URL"),
        (&plain, "", "no response from 127.0.0.1:"),
        (&ops, "--ca ca.crt", "name the port of the webhook"),
        (&path, "--ca ca.crt", "404 Not Found: there is POST /validate"),
        ("https://127.0.0.1:1/validate", "", "cannot connect to 127.0.0.1:1: Connection refused"),
        ("http://192.0.2.1/validate", "", "is not on this machine"),
        ("http://127.0.0.1/validate", "--connect 192.0.2.1:80", "is not on this machine"),
        ("127.0.0.1:8443", "", "write https://HOST:PORT/validate"),
    ] {
        let (code, stdout, stderr) = replay(&directory, url, more);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{url} {more}: {stderr}");
        assert!(stderr.contains(expected), "{url} {more}: {stderr}");
    }
}

#[test]
fn client_certificate_is_presented() {
    let directory = recorded_reviews();
    let path = |name: &str| directory.path().join(name);
    let clients = CertificateAuthority::create(1).unwrap();
    let client = clients.issue_client("replay", 1).unwrap();
    fs::write(path("clients.crt"), clients.certificate()).unwrap();
    fs::write(path("client.crt"), &client.certificate).unwrap();
    fs::write(path("client.key"), &client.key).unwrap();
    let client_ca = path("clients.crt");
    let arguments = ["--client-ca", client_ca.to_str().unwrap()];
    let (_server, url) = serve(&directory, &bundles(), &arguments);
    for (more, status, expected) in [
        ("--client-cert client.crt --client-key client.key", 0, "0 with another response"),
        ("", 2, "name it with --client-cert and --client-key"),
        ("--client-cert client.crt", 2, "--client-key <FILE>"),
        ("--client-cert client.crt --client-key client.crt", 2, "client.crt: no private key"),
    ] {
        let (code, _, stderr) = replay(&directory, &url, &format!("--ca ca.crt {more}"));
        assert_eq!(code, Some(status), "{more}: {stderr}");
        assert!(stderr.contains(expected), "{more}: {stderr}");
    }
}

#[test]
fn flags_of_a_report_conflict_with_a_comparison() {
    let directory = recorded_reviews();
    let url = "https://127.0.0.1:1/validate";
    for more in [
        "-o json",
        "--explain",
        "--fail-on warn",
        "--require-evaluated",
        "--apply-allowed",
        "--verify opgate.yaml",
        "--bless new.jsonl",
    ] {
        let (code, _, stderr) = replay(&directory, url, more);
        assert_eq!(code, Some(2), "{more}: {stderr}");
        assert!(stderr.contains("cannot be used with"), "{more}: {stderr}");
    }
    let output = command(directory.path(), &["replay", "--ca", "ca.crt", "reviews"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("--against <URL>"), "{}", err(&output));
}

/// A server that answers with fixed texts, one after the other, and then always with the last one.
struct FixedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FixedServer {
    fn start(responses: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = requests.clone();
        std::thread::spawn(move || {
            let mut responses = responses.into_iter();
            let mut response = String::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                seen.lock().unwrap().push(read_request(&mut stream));
                response = responses.next().unwrap_or(response);
                // The client may have read enough.
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/validate", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Head and body of a request.
fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4_096];
    loop {
        let count = stream.read(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if count == 0 || length.is_some_and(|length| body.len() >= length.parse().unwrap()) {
            return text.into_owned();
        }
    }
}

fn http(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

fn allowed(uid: &str) -> String {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true},
    });
    http("200 OK", "", &review.to_string())
}

/// A directory with two reviews that are allowed, of the uids `1` and `2`.
fn allowed_reviews() -> TempDir {
    let review = |uid| create_bundle(uid, "b", &good_spec()).to_string();
    directory(&bundles(), &[("1.json", &review("1")), ("2.json", &review("2"))])
}

#[test]
fn each_review_is_sent_as_a_dry_run() {
    let directory = allowed_reviews();
    let server = FixedServer::start(vec![allowed("1"), allowed("2")]);
    let (code, _, stderr) = replay(&directory, &server.url(), "");
    assert_eq!(code, Some(0), "{stderr}");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for (request, uid) in requests.iter().zip(["1", "2"]) {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /validate HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let mut expected = create_bundle(uid, "b", &good_spec());
        expected["request"]["dryRun"] = true.into();
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
    }
}

#[test]
fn unusable_responses_end_the_comparison() {
    let directory = allowed_reviews();
    let target = FixedServer::start(vec![allowed("1")]);
    let location = format!("location: {}\r\n", target.url());
    let html = "<html>\u{1b}[31mlogin</html>";
    let large = " ".repeat(5 << 20);
    let version = allowed("1").replace("io/v1", "io/v2");
    let kind = allowed("1").replace("AdmissionReview", "AdmissionAnswer");
    for (response, expected) in [
        ("hello\r\n\r\n".to_owned(), "no response from 127.0.0.1:"),
        (String::new(), "no response from 127.0.0.1:"),
        (http("200 OK", "", html), "not an AdmissionReview (expected value"),
        (http("200 OK", "", "{}"), "missing field `apiVersion`"),
        (kind, "kind is \"AdmissionAnswer\""),
        (allowed("7"), "response.uid \"7\", not \"1\" as the review"),
        (version, "apiVersion \"admission.k8s.io/v2\", not \"admission.k8s.io/v1\""),
        (http("200 OK", "", &large), "the response has more than 4 MiB"),
        (http("302 Found", &location, ""), "a redirect to \"http://127.0.0.1:"),
        (http("307 Temporary Redirect", &location, ""), "which opgate does not follow"),
        (http("403 Forbidden", "", "no\nentry"), "403 Forbidden: no entry"),
        (http("404 Not Found", "", ""), "404 Not Found: an empty response"),
        (http("403 Forbidden", "", &large), "403 Forbidden: "),
    ] {
        let server = FixedServer::start(vec![response]);
        let (code, stdout, stderr) = replay(&directory, &server.url(), "");
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{expected}: {stderr}");
        let line = stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
        let place = format!("error: reviews/1.json: {}: ", server.url());
        assert!(line.starts_with(&place) && line.contains(expected), "{expected}: {stderr}");
        assert!(!stderr.contains('\u{1b}') && stderr.len() < 4 << 10, "{stderr:?}");
        // The second review is not sent.
        assert_eq!(server.requests().len(), 1, "{expected}");
    }
    assert!(target.requests().is_empty());
}

#[test]
fn error_for_one_review_does_not_end_the_comparison() {
    let directory = allowed_reviews();
    let failure = http("500 Internal Server Error", "", "policy p: exceeded the CPU time limit");
    let server = FixedServer::start(vec![failure, allowed("2")]);
    let (code, _, stderr) = replay(&directory, &server.url(), "");
    assert_eq!(code, Some(2), "{stderr}");
    let error = "500 Internal Server Error: policy p: exceeded the CPU time limit";
    assert!(stderr.contains(error), "{stderr}");
    let summary = "1 review, 0 with another response, 1 more without a response";
    assert!(stderr.contains(summary), "{stderr}");
}

#[test]
fn overloaded_server_is_asked_again() {
    let directory = allowed_reviews();
    let overload = || http("503 Service Unavailable", "retry-after: 0\r\n", "try again");
    let server = FixedServer::start(vec![overload(), allowed("1"), allowed("2")]);
    let (code, _, stderr) = replay(&directory, &server.url(), "");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("2 reviews, 0 with another response"), "{stderr}");
    let server = FixedServer::start(vec![overload()]);
    let (code, _, stderr) = replay(&directory, &server.url(), "");
    assert_eq!((code, server.requests().len()), (Some(2), 4), "{stderr}");
    assert!(stderr.contains("503 Service Unavailable: try again (4 attempts)"), "{stderr}");
}

/// Two groups that provide the same API to one namespace exclude each other.
#[tokio::test(flavor = "multi_thread")]
async fn comparison_leaves_no_reservation() {
    let cluster = reviews::cluster();
    let server = reviews::serve(BINARY, &cluster, &[]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let create = |namespace: &str, mode| {
        reviews::create(&group(namespace, "geese", &["shared"], GOOSE_API), mode)
    };
    let review = create("a", WriteMode::Persist);
    let directory = directory(&reviews::policies(), &[("create.json", &review)]);
    write_ca(directory.path(), &server.certificates.authority);
    let namespaces = ["a", "b", "c", "shared"].map(reviews::namespace);
    let state = json!({"apiVersion": "v1", "kind": "List", "items": namespaces});
    fs::write(directory.path().join("state.json"), state.to_string()).unwrap();
    let url = format!("https://{}/validate?timeout=30s", server.address);
    let (code, stdout, stderr) = replay(&directory, &url, "--ca ca.crt --cluster-state state.json");
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert!(stderr.contains("1 review, 0 with another response"), "{stderr}");
    let metric = format!("opgate_reservations{{resource=\"{OPERATOR_GROUPS}\"}}");
    assert_eq!(server.metric(&metric).await, Some(0.0));
    let mut client = server.connect().await;
    let answer = client.review(create("b", WriteMode::Persist)).await.unwrap();
    assert_eq!(answer.message(), "allowed");
    assert_eq!(server.metric(&metric).await, Some(1.0));
}
