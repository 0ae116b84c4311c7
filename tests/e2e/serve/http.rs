//! The webhook port as clients see it: what is answered to good, odd and broken requests.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use testkit::{
    Client, HOST, Server, builtin_policy, configuration, create_bundle, good_spec, misbehaves,
    recorded_review, tls,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::BINARY;

const JSON: &str = "application/json";

#[tokio::test]
async fn changed_tag_is_denied_as_documented() {
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    let answer = client.review(recorded_review("007")).await.unwrap();
    assert_eq!((answer.status, answer.headers["content-type"].to_str().unwrap()), (200, JSON));
    let expected = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "a76a74ab-31ae-47fe-87df-e33ee319f64b",
            "allowed": false,
            "status": {
                "apiVersion": "v1",
                "kind": "Status",
                "status": "Failure",
                "code": 403,
                "reason": "bundle.spec is immutable",
                "message": "bundle.spec is immutable",
                "details": {
                    "name": "combo-tag-ref",
                    "group": "core.rukpak.io",
                    "kind": "Bundle",
                    "causes": [{"reason": "RPK-01", "field": "spec", "message": "bundle.spec is immutable"}],
                },
            },
            "auditAnnotations": {"bundle-immutability": "deny RPK-01: bundle.spec is immutable"},
        },
    });
    assert_eq!(serde_json::from_str::<Value>(&answer.body).unwrap(), expected);
    for allowed in ["006", "008", "009", "010", "011", "012", "013", "014", "041"] {
        let answer = client.review(recorded_review(allowed)).await.unwrap();
        assert_eq!(
            (answer.status, answer.response()["allowed"].clone()),
            (200, true.into()),
            "{allowed}"
        );
    }
}

/// A review with one part replaced or removed.
fn review_with(pointer: &str, value: Option<Value>) -> String {
    let mut review = create_bundle("u-1", "b", &good_spec());
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let object = review.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => object.insert(name.to_owned(), value),
        None => object.remove(name),
    };
    review.to_string()
}

#[tokio::test]
async fn invalid_review_returns_status_and_one_line_message() {
    let server = Server::start(BINARY, None, &[]);
    let deep = "[".repeat(100_000);
    let nested = review_with("/request/object", None)
        .replace("\"dryRun\"", &format!("\"x\":{}{},\"dryRun\"", "[".repeat(600), "]".repeat(600)));
    let cut = &recorded_review("007")[..1_000];
    let cases: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("empty", vec![], 400, "the body is empty"),
        ("white space", b" \n".to_vec(), 400, "not JSON"),
        ("text", b"hello".to_vec(), 400, "not JSON: expected value at line 1 column 1"),
        ("cut", cut.into(), 400, "not JSON: EOF while parsing"),
        ("twice", recorded_review("007").repeat(2).into(), 400, "trailing characters"),
        ("not UTF-8", b"{\"a\": \"\xff\"}".to_vec(), 400, "not UTF-8: invalid byte at offset 7"),
        ("deep", deep.into(), 400, "deeper than 512 levels at offset 512"),
        ("deep inside", nested.into(), 400, "deeper than 512 levels"),
        ("list", b"[]".to_vec(), 422, "expected an object"),
        (
            "fields in order",
            b"[\"admission.k8s.io/v1\",\"AdmissionReview\",{}]".to_vec(),
            422,
            "expected an object",
        ),
        (
            "request as list",
            review_with("/request", Some(json!([]))).into(),
            422,
            "expected an object",
        ),
        ("null", b"null".to_vec(), 422, "not an AdmissionReview"),
        (
            "other object",
            b"{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}".to_vec(),
            422,
            "apiVersion is \"v1\"",
        ),
        ("kind", review_with("/kind", Some("Review".into())).into(), 422, "kind is \"Review\""),
        (
            "version",
            review_with("/apiVersion", Some("admission.k8s.io/v2".into())).into(),
            422,
            "admission.k8s.io/v2",
        ),
        ("no version", review_with("/apiVersion", None).into(), 422, "apiVersion is \"\""),
        ("no request", review_with("/request", None).into(), 422, "request is missing"),
        (
            "null request",
            review_with("/request", Some(Value::Null)).into(),
            422,
            "request is missing",
        ),
        ("no uid", review_with("/request/uid", None).into(), 422, "request.uid is missing"),
        (
            "empty uid",
            review_with("/request/uid", Some("".into())).into(),
            422,
            "request.uid is missing",
        ),
        (
            "uid of another type",
            review_with("/request/uid", Some(1.into())).into(),
            422,
            "not an AdmissionReview",
        ),
        (
            "no operation",
            review_with("/request/operation", None).into(),
            422,
            "request.operation is missing",
        ),
        (
            "operation",
            review_with("/request/operation", Some("PATCH".into())).into(),
            422,
            "\"PATCH\"",
        ),
        (
            "no resource",
            review_with("/request/resource", None).into(),
            422,
            "request.resource is missing",
        ),
        ("no kind", review_with("/request/kind", None).into(), 422, "request.kind is missing"),
        (
            "controls",
            review_with("/kind", Some("a\nb\u{1b}[2J".into())).into(),
            422,
            "kind is \"a b [2J\"",
        ),
    ];
    let mut client = server.connect().await;
    for (what, body, status, says) in cases {
        let answer = client.review(body).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        assert!(answer.body.contains(says), "{what}: {}", answer.body);
        assert!(!answer.body.contains(['\n', '\u{1b}']), "{what}: {}", answer.body);
    }
    // All of them on one connection, which still serves.
    assert_eq!(client.review(recorded_review("006")).await.unwrap().status, 200);
}

#[tokio::test]
async fn unusual_valid_reviews_are_evaluated() {
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    let null = || Some(Value::Null);
    let beta = |uid: &str| {
        let mut review = create_bundle(uid, "b", &json!({}));
        review["apiVersion"] = "admission.k8s.io/v1beta1".into();
        review.to_string()
    };
    let mut connect = create_bundle("u-1", "p", &json!({}));
    connect["request"]["operation"] = "CONNECT".into();
    connect["request"]["subResource"] = "exec".into();
    connect["request"]["resource"] = json!({"group": "", "version": "v1", "resource": "pods"});
    let mut delete = create_bundle("u-1", "", &json!({}));
    delete["request"]["operation"] = "DELETE".into();
    let object = delete["request"]["object"].take();
    delete["request"]["oldObject"] = object;
    let mut converted = create_bundle("u-1", "b", &good_spec());
    converted["request"]["requestKind"]["version"] = "v1alpha9".into();
    let cases = [
        ("null object", review_with("/request/object", null())),
        ("no object", review_with("/request/object", None)),
        ("no oldObject", review_with("/request/oldObject", None)),
        ("null options", review_with("/request/options", null())),
        ("no user", review_with("/request/userInfo", None)),
        ("null user", review_with("/request/userInfo", null())),
        ("no dryRun", review_with("/request/dryRun", None)),
        ("null dryRun", review_with("/request/dryRun", null())),
        (
            "unknown members",
            review_with("/request/futureField", Some(json!({"a": [1, {"b": null}]}))),
        ),
        ("connect", connect.to_string()),
        ("delete without a name", delete.to_string()),
        ("converted", converted.to_string()),
    ];
    for (what, body) in cases {
        let answer = client.review(body).await.unwrap();
        assert_eq!(answer.status, 200, "{what}: {}", answer.body);
        assert_eq!(answer.response()["uid"], "u-1", "{what}");
    }
    let answer = client.review(beta("u-2")).await.unwrap();
    let review: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(review["apiVersion"], "admission.k8s.io/v1beta1");
    assert_eq!(review["response"]["uid"], "u-2");
    assert_eq!(review["response"]["allowed"], false);
}

#[tokio::test]
async fn wrong_media_type_method_or_path_is_rejected() {
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    for (media, status) in [
        (JSON, 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("application/yaml", 415),
        ("", 415),
    ] {
        let answer = client.post("/validate", media, recorded_review("006")).await.unwrap();
        assert_eq!(answer.status, status, "{media}: {}", answer.body);
    }
    let packed = hyper::Request::post("/validate")
        .header("host", HOST)
        .header("content-type", JSON)
        .header("content-encoding", "gzip")
        .body(Full::new(Bytes::from_static(b"\x1f\x8b")))
        .unwrap();
    assert_eq!(client.send(packed).await.unwrap().status, 415);
    for (path, status, says) in [
        ("/validate/bundle-immutability", 200, "\"allowed\":false"),
        ("/validate/bundle-imutability", 404, "did you mean \"bundle-immutability\"?"),
        ("/validate/x%0Ay", 404, "there is no policy"),
        ("/", 404, "POST /validate"),
        ("/validate/a/b", 404, "there is no policy \"a\""),
        ("/validate/bundle-immutability/", 404, "there is no policy \"\""),
    ] {
        let answer = client.post(path, JSON, recorded_review("007")).await.unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(says), "{path}: {}", answer.body);
    }
    let get = hyper::Request::get("/validate").header("host", HOST).body(Full::default()).unwrap();
    let answer = client.send(get).await.unwrap();
    assert_eq!((answer.status, &answer.headers["allow"]), (405, &"POST".parse().unwrap()));
}

/// The largest UPDATE that an API server sends is just under 7 MiB.
#[tokio::test]
async fn bodies_up_to_the_limit_are_read_and_larger_ones_get_413() {
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    let padded = |size: usize| {
        let mut review = create_bundle("u", "b", &good_spec());
        review["request"]["object"]["metadata"]["annotations"] = json!({"pad": ""});
        let pad = size - review.to_string().len();
        review["request"]["object"]["metadata"]["annotations"]["pad"] = "x".repeat(pad).into();
        review.to_string()
    };
    let limit = 7 << 20;
    assert_eq!(client.review(padded(limit)).await.unwrap().status, 200);
    // Announced is enough: the answer does not wait for what will not come.
    for expect in ["", "expect: 100-continue\r\n"] {
        let head = format!(
            "POST /validate HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: {JSON}\r\n{expect}content-length: 99999999999\r\n\r\nx"
        );
        let mut stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&start), "HTTP/1.1 413");
    }
    for size in [limit + 1, 20 << 20] {
        let mut client = server.connect().await;
        let answer = client.review(padded(size)).await.unwrap();
        assert_eq!(answer.status, 413, "{}", answer.body);
        assert_eq!(answer.body, "the body has more than 7340032 bytes");
    }
}

/// Raw bytes from the test: a body in chunks, a head that announces more than the client sends, two
/// requests at once, and text that is not HTTP.
#[tokio::test]
async fn unusual_http_requests_are_handled() {
    let server = Server::start(BINARY, None, &[]);
    let review = recorded_review("006");
    let head = format!("POST /validate HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: {JSON}\r\n");
    let (left, right) = review.split_at(700);
    let chunked = format!(
        "{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n{:x}\r\n{left}\r\n{:x}\r\n{right}\r\n0\r\n\r\n",
        left.len(),
        right.len()
    );
    let plain =
        |extra: &str| format!("{head}{extra}content-length: {}\r\n\r\n{review}", review.len());
    let pipelined = plain("") + &plain("connection: close\r\n");
    let expecting = plain("connection: close\r\nexpect: 100-continue\r\n");
    for (what, request, answers) in
        [("chunked", chunked, 1), ("pipelined", pipelined, 2), ("expecting", expecting, 1)]
    {
        let mut stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert_eq!(answer.matches("\"allowed\":true").count(), answers, "{what}: {answer}");
    }
    for (what, request) in [
        ("no HTTP", "hello\r\n\r\n".to_owned()),
        ("bad length", format!("{head}content-length: x\r\n\r\n")),
        ("long head", format!("{head}x: {}\r\n\r\n", "y".repeat(1 << 20))),
    ] {
        let mut stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{what}: {answer}");
    }
    let answer = server.connect().await.review(review).await.unwrap();
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn http2_is_served() {
    let server = Server::start(BINARY, None, &[]);
    let stream =
        tls(server.address, &server.certificates.authority, &[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let request = hyper::Request::post(format!("https://{HOST}/validate"))
            .header("content-type", JSON)
            .body(Full::new(Bytes::from(recorded_review("007"))))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("bundle.spec is immutable"));
    }
}

#[tokio::test]
async fn ops_port_serves_probes_policies_and_metrics() {
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    for review in ["006", "007"] {
        client.review(recorded_review(review)).await.unwrap();
    }
    assert_eq!(server.get("/livez").await, (200, "ok".to_owned()));
    assert_eq!(server.get("/readyz").await, (200, "ok".to_owned()));
    assert_eq!(server.get("/nothing").await.0, 404);
    let (status, policies) = server.get("/policies").await;
    let policies: Value = serde_json::from_str(&policies).unwrap();
    assert_eq!(status, 200);
    assert_eq!(policies["policies"][0]["name"], "bundle-immutability");
    assert_eq!(policies["policies"][0]["mode"], "enforce");
    assert!(policies["policies"][0]["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(policies["policies"][0]["lastError"], Value::Null);
    let loaded = policies["policies"][0]["loadedAt"].as_str().unwrap();
    assert!(loaded.starts_with("20") && loaded.ends_with('Z'), "{loaded}");
    let (status, metrics) = server.get("/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "opgate_requests_total{code=\"200\"} 2",
        "opgate_evaluation_duration_seconds_count{policy=\"bundle-immutability\"} 2",
        "opgate_violations_total{policy=\"bundle-immutability\",rule=\"RPK-01\",namespace=\"\",effect=\"deny\"} 1",
        "opgate_policy_up{policy=\"bundle-immutability\"} 1",
        "opgate_connections 1",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn policy_error_fails_the_call_and_names_policy_and_cause() {
    let text = configuration(&[misbehaves("evil", &json!({"do": "panic"})), builtin_policy()]);
    let server = Server::start(BINARY, Some(&text), &[]);
    let mut client = server.connect().await;
    let answer = client.review(create_bundle("u", "b", &good_spec()).to_string()).await.unwrap();
    assert_eq!(answer.status, 500);
    assert!(answer.body.starts_with("policy evil: panicked at "), "{}", answer.body);
    assert!(answer.body.ends_with("out of cheese  [31mredo from start"), "{}", answer.body);
    // What another policy denies stays denied, whatever the failurePolicy is.
    let answer = client.review(recorded_review("007")).await.unwrap();
    assert_eq!((answer.status, answer.response()["allowed"].clone()), (200, false.into()));
    let faults = server.metric("opgate_policy_errors_total{policy=\"evil\",cause=\"panic\"}").await;
    assert_eq!(faults, Some(2.0));
    let (_, policies) = server.get("/policies").await;
    assert!(policies.contains("out of cheese"), "{policies}");
    // The panic's own text reached the log, as one line.
    let logged = server
        .log()
        .iter()
        .any(|e| e["policy"] == "evil" && e["cause"].to_string().contains("out of cheese"));
    assert!(logged, "{:?}", server.log());
}

#[tokio::test]
async fn policy_that_fails_to_load_does_not_block_other_policies() {
    let broken =
        json!({"name": "broken", "module": testkit::hostile_component("loops-in-describe")});
    let text = configuration(&[broken.clone(), builtin_policy()]);
    let server = Server::start(BINARY, Some(&text), &[]);
    let mut client = server.connect().await;
    // A request that another policy denies is denied. The server returns an error for the others.
    assert_eq!(client.review(recorded_review("007")).await.unwrap().response()["allowed"], false);
    let cause = "policy broken: describe: exceeded the CPU time limit of 100ms: raise `limits.time` of the policy";
    let answer = client.review(recorded_review("006")).await.unwrap();
    assert_eq!((answer.status, &*answer.body), (500, cause));
    let path = "/validate/bundle-immutability";
    assert_eq!(client.post(path, JSON, recorded_review("006")).await.unwrap().status, 200);
    assert_eq!(server.get("/readyz").await, (503, cause.to_owned()));
    let answer = client.post("/validate/broken", JSON, recorded_review("007")).await.unwrap();
    assert_eq!((answer.status, &*answer.body), (500, cause));
    // Several policies, each once.
    for (path, status, says) in [
        ("/validate/bundle-immutability/bundle-immutability", 200, "\"allowed\":true"),
        ("/validate/bundle-immutability/broken", 500, cause),
        ("/validate/broken/bundle-imutability", 404, "did you mean \"bundle-immutability\"?"),
    ] {
        let answer = client.post(path, JSON, recorded_review("006")).await.unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(says), "{path}: {}", answer.body);
    }
    assert_eq!(server.metric("opgate_policy_up{policy=\"broken\"}").await, Some(0.0));

    let mut audited = broken;
    audited["mode"] = "audit".into();
    let off = json!({"name": "off", "module": "builtin:bundle-immutability", "mode": "off"});
    let server = Server::start(BINARY, Some(&configuration(&[audited, off])), &[]);
    assert_eq!(server.get("/readyz").await.0, 200);
    let mut client = server.connect().await;
    for path in ["/validate/broken", "/validate/off", "/validate"] {
        let answer = client.post(path, JSON, recorded_review("007")).await.unwrap();
        assert_eq!(
            (answer.status, answer.response()["allowed"].clone()),
            (200, true.into()),
            "{path}"
        );
    }
}

/// Policies are more lenient with the manifests of a bundle in files, which `opgate check` marks by a group.
#[tokio::test]
async fn client_cannot_impersonate_a_file_check() {
    let policy =
        json!({"name": "cluster-service-version", "module": "builtin:cluster-service-version"});
    let server =
        Server::start(BINARY, Some(&configuration(&[policy])), &["--cluster-source", "none"]);
    let mut client = server.connect().await;
    let container = json!({"name": "c", "image": "quay.io/example/etcd:v1"});
    let deployment =
        json!({"name": "d", "spec": {"template": {"spec": {"containers": [container]}}}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u",
        "kind": {"group": "operators.coreos.com", "version": "v1alpha1", "kind": "ClusterServiceVersion"},
        "resource": {"group": "operators.coreos.com", "version": "v1alpha1", "resource": "clusterserviceversions"},
        "name": "a.v1.0.0",
        "namespace": "team-a",
        "operation": "CREATE",
        "userInfo": {"username": "opgate:check", "groups": ["opgate:bundle"]},
        "object": {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": "a.v1.0.0",
                "namespace": "team-a",
                "annotations": {"features.operators.openshift.io/disconnected": "true"},
            },
            "spec": {"install": {"strategy": "deployment", "spec": {"deployments": [deployment]}}},
        },
    }});
    let answer = client.review(review.to_string()).await.unwrap();
    assert_eq!(answer.response()["allowed"], false, "{}", answer.body);
    assert!(answer.body.contains("must be referenced by a digest"), "{}", answer.body);
}

/// Nor by its name: files have no user, and a rule about users passes them over (CRD-09).
#[tokio::test]
async fn user_cannot_use_the_name_of_a_file_check() {
    let policy = json!({
        "name": "crd-upgrade", "module": "builtin:crd-upgrade",
        "settings": {"crd": {"adminGroups": ["admins"]}},
    });
    let text = configuration(&[policy]);
    let server = Server::start(BINARY, Some(&text), &["--cluster-source", "none"]);
    let mut client = server.connect().await;
    let names = json!({"plural": "tabs", "singular": "tab", "kind": "Tab", "listKind": "TabList"});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let crd = json!({"group": "apiextensions.k8s.io", "version": "v1"});
    let typed = |member: &str, name: &str| {
        let mut typed = crd.clone();
        typed[member] = name.into();
        typed
    };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u",
        "kind": typed("kind", "CustomResourceDefinition"),
        "resource": typed("resource", "customresourcedefinitions"),
        "name": "tabs.example.com",
        "operation": "CREATE",
        "userInfo": {"username": "opgate:check", "groups": ["system:authenticated"]},
        "object": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "tabs.example.com"},
            "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
        },
    }});
    let answer = client.review(review.to_string()).await.unwrap();
    assert_eq!(answer.response()["allowed"], false, "{}", answer.body);
    assert!(answer.body.contains("only cluster administrators can create CRDs"), "{}", answer.body);
    // A recording of it, and what a check says about the recording.
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opgate.yaml"), text).unwrap();
    std::fs::write(directory.path().join("review.json"), review.to_string()).unwrap();
    for command in ["replay", "check"] {
        let arguments = [command, "--config", "opgate.yaml", "review.json"];
        let output = crate::check::command(directory.path(), &arguments).output().unwrap();
        let said = crate::check::out(&output);
        assert!(output.status.code() == Some(1) && said.contains("CRD-09"), "{command}: {said}");
    }
}

/// What a client writes into a review does not become lines of the log, or megabytes of an answer.
#[tokio::test]
async fn client_texts_are_truncated_to_one_line() {
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    let mut review: Value = serde_json::from_str(&recorded_review("007")).unwrap();
    review["request"]["uid"] = format!("x\n2026-01-01 ERROR forged {}", "y".repeat(900)).into();
    assert_eq!(client.review(review.to_string()).await.unwrap().response()["allowed"], false);
    let logged = |log: Vec<Value>| log.into_iter().find(|e| e["message"] == "review decided");
    let mut entry = logged(server.log());
    while entry.is_none() {
        client.review(recorded_review("006")).await.unwrap();
        entry = logged(server.log());
    }
    let entry = entry.unwrap();
    let uid = entry["uid"].as_str().unwrap().to_owned();
    assert!(uid.starts_with("x 2026") && uid.len() <= 128, "{uid}");
    assert_eq!(entry["denial"], "bundle.spec is immutable");
    let answer =
        client.review(review_with("/request", Some("A".repeat(1 << 20).into()))).await.unwrap();
    assert_eq!(answer.status, 422);
    assert!(answer.body.len() < 1_000, "{}", answer.body.len());
}

/// The server reserves memory for received bytes, not for the announced length.
#[tokio::test]
async fn announced_bodies_do_not_block_other_requests() {
    let server = Server::start(BINARY, None, &["--max-request-memory", "8Mi"]);
    let head = format!(
        "POST /validate HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: {JSON}\r\ncontent-length: 7000000\r\n\r\n"
    );
    let mut announced = Vec::new();
    for _ in 0..10 {
        let mut stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        announced.push(stream);
    }
    while server.metric("opgate_requests_in_flight ").await != Some(10.0) {}
    let mut client = server.connect().await;
    assert_eq!(client.review(recorded_review("006")).await.unwrap().status, 200);
    // Two that really send come to more than there is.
    for stream in announced.iter_mut().take(2) {
        stream.write_all(&vec![b' '; 5_000_000]).await.unwrap();
        stream.flush().await.unwrap();
    }
    while server.metric("opgate_requests_shed_total").await < Some(1.0) {}
}

/// Certificates of any kind of key, and a client that does not name the server that it wants.
#[tokio::test]
async fn a_client_without_alpn_and_with_another_name_is_served() {
    let server = Server::start(BINARY, None, &[]);
    let stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    drop(stream);
    let mut client: Client = server.connect().await;
    assert_eq!(client.review(recorded_review("006")).await.unwrap().status, 200);
}
