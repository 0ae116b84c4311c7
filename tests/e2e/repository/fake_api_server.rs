//! The fake API server, seen as a client sees it.

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use tokio::net::TcpStream;

const GROUP: &str = "core.rukpak.io";
const BUNDLES: &str = "/apis/core.rukpak.io/v1alpha1/bundles";

fn cluster(bundles: &[&str]) -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install(GROUP, "v1alpha1", "bundles", "Bundle", Scope::Cluster);
    cluster.install("", "v1", "configmaps", "ConfigMap", Scope::Namespaced);
    for name in bundles {
        cluster.apply(GROUP, "v1alpha1", "bundles", bundle(name, "a"));
    }
    cluster
}

fn bundle(name: &str, team: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"team": team}}, "spec": {"of": name}})
}

async fn send(cluster: &FakeCluster, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let stream = TcpStream::connect(cluster.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

async fn call(cluster: &FakeCluster, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = Full::from(body.to_string());
    let request = Request::builder().method(method).uri(path).body(body).unwrap();
    let response = send(cluster, request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn get(cluster: &FakeCluster, path: &str) -> (u16, Value) {
    call(cluster, "GET", path, &Value::Null).await
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// An open watch.
struct OpenWatch {
    body: Incoming,
    rest: String,
}

impl OpenWatch {
    /// Opens one of bundles, from a version or an earlier list.
    async fn open(cluster: &FakeCluster, since: &Value, query: &str) -> Self {
        let since = since["metadata"]["resourceVersion"].as_str().unwrap_or("");
        let path = format!("{BUNDLES}?watch=true&resourceVersion={since}&{query}");
        let response = send(cluster, Request::get(path).body(Full::default()).unwrap()).await;
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), rest: String::new() }
    }

    /// The next line; none at the end, an error where the connection was cut.
    async fn next_line(&mut self) -> hyper::Result<Option<String>> {
        loop {
            if let Some((line, rest)) = self.rest.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.rest = rest;
                return Ok(Some(line));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let data = frame?.into_data().unwrap();
            self.rest.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// Type and name of the next event, and the event.
    async fn next_event(&mut self) -> (String, String, Value) {
        let line = self.next_line().await.unwrap().expect("an event");
        let event: Value = serde_json::from_str(&line).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        assert!(line.starts_with(&format!(r#"{{"type":"{kind}","object":{{"#)), "{line}");
        let object = event["object"].clone();
        (kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object)
    }

    async fn next_events(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..count {
            let (kind, name, _) = self.next_event().await;
            events.push(format!("{kind} {name}"));
        }
        events
    }
}

#[tokio::test]
async fn pages_hold_every_object_of_one_moment_once() {
    let all = ["a", "b", "c", "d", "e", "f", "g"];
    for limit in [1, 2, 3, 6, 7, 8] {
        let cluster = cluster(&all);
        let mut seen = Vec::new();
        let mut token = String::new();
        let mut versions = Vec::new();
        loop {
            let (code, page) =
                get(&cluster, &format!("{BUNDLES}?limit={limit}&continue={token}")).await;
            assert_eq!((code, &page["kind"]), (200, &json!("BundleList")));
            seen.extend(names(&page).into_iter().map(str::to_owned));
            versions.push(page["metadata"]["resourceVersion"].clone());
            // What changes in between is not in the pages that follow.
            cluster.delete(GROUP, "bundles", "", all[seen.len() - 1]);
            cluster.apply(GROUP, "v1alpha1", "bundles", bundle(&format!("g{}", seen.len()), "a"));
            let Some(next) = page["metadata"]["continue"].as_str() else { break };
            assert_eq!(page["metadata"]["remainingItemCount"], all.len() - seen.len());
            next.clone_into(&mut token);
        }
        assert_eq!(seen, all, "{limit}");
        versions.dedup();
        assert_eq!(versions.len(), 1, "{limit}");
    }
}

#[tokio::test]
async fn lists_contain_the_selected_objects() {
    let cluster = cluster(&["a1", "a2"]);
    cluster.apply(GROUP, "v1alpha1", "bundles", bundle("b1", "b"));
    cluster.apply(GROUP, "v1alpha1", "bundles", json!({"metadata": {"name": "none"}}));
    for (namespace, name) in [("x", "one"), ("y", "one"), ("y", "two")] {
        let metadata = json!({"namespace": namespace, "name": name});
        cluster.apply("", "v1", "configmaps", json!({"metadata": metadata}));
    }
    let cases = [
        (BUNDLES, "", "a1 a2 b1 none"),
        (BUNDLES, "resourceVersion=0&limit=1", "a1 a2 b1 none"),
        (BUNDLES, "labelSelector=team%3Da", "a1 a2"),
        (BUNDLES, "labelSelector=team%3D%3Db", "b1"),
        (BUNDLES, "labelSelector=team!=a", "b1 none"),
        (BUNDLES, "labelSelector=team", "a1 a2 b1"),
        (BUNDLES, "labelSelector=%21team", "none"),
        (BUNDLES, "labelSelector=team+in+%28a%2Cb%29%2Cteam+notin+%28a%29", "b1"),
        (BUNDLES, "labelSelector=team%20notin%20(a,c)", "b1 none"),
        (BUNDLES, "fieldSelector=metadata.name%3Da2", "a2"),
        (BUNDLES, "fieldSelector=metadata.name!=a2,metadata.name!=none", "a1 b1"),
        ("/api/v1/configmaps", "", "one one two"),
        ("/api/v1/configmaps", "fieldSelector=metadata.namespace=x", "one"),
        ("/api/v1/namespaces/y/configmaps", "", "one two"),
        ("/api/v1/namespaces/z/configmaps", "", ""),
    ];
    for (path, query, expected) in cases {
        let (code, list) = get(&cluster, &format!("{path}?{query}")).await;
        assert_eq!((code, &*names(&list).join(" ")), (200, expected), "{path}?{query}");
    }
}

#[tokio::test]
async fn a_watch_replays_and_then_follows() {
    let cluster = cluster(&["a", "b"]);
    let (_, list) = get(&cluster, BUNDLES).await;
    cluster.apply(GROUP, "v1alpha1", "bundles", bundle("c", "b"));
    cluster.apply(GROUP, "v1alpha1", "bundles", bundle("a", "b"));
    cluster.delete(GROUP, "bundles", "", "b");

    let bookmarks = "allowWatchBookmarks=true";
    let mut all = OpenWatch::open(&cluster, &list, bookmarks).await;
    let mut team = OpenWatch::open(&cluster, &list, "labelSelector=team%3Da").await;
    let mut new = OpenWatch::open(&cluster, &Value::Null, "").await;
    let initial = format!("{bookmarks}&sendInitialEvents=true");
    let mut streamed = OpenWatch::open(&cluster, &Value::Null, &initial).await;
    assert_eq!(all.next_events(3).await, ["ADDED c", "MODIFIED a", "DELETED b"]);
    assert_eq!(team.next_events(2).await, ["DELETED a", "DELETED b"]);
    assert_eq!(new.next_events(2).await, ["ADDED a", "ADDED c"]);
    assert_eq!(streamed.next_events(2).await, ["ADDED a", "ADDED c"]);
    let (kind, _, end) = streamed.next_event().await;
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(end["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));

    cluster.wait_watching("bundles", 4).await;
    cluster.apply(GROUP, "v1alpha1", "bundles", bundle("c", "a"));
    cluster.send_bookmarks();
    cluster.delete(GROUP, "bundles", "", "c");
    assert_eq!(team.next_events(2).await, ["ADDED c", "DELETED c"]);
    assert_eq!(new.next_events(2).await, ["MODIFIED c", "DELETED c"]);
    let versions = [all.next_event().await.2, all.next_event().await.2, all.next_event().await.2]
        .map(|object| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
    assert_eq!(versions, ["7", "7", "8"], "of the change, the bookmark and the deletion");
}

#[tokio::test]
async fn expired_lists_and_watches_return_gone() {
    let cluster = cluster(&["a", "b"]);
    let (_, page) = get(&cluster, &format!("{BUNDLES}?limit=1")).await;
    cluster.expire_history();

    let token = page["metadata"]["continue"].as_str().unwrap();
    let (code, status) = get(&cluster, &format!("{BUNDLES}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let mut watch = OpenWatch::open(&cluster, &page, "").await;
    let (kind, _, status) = watch.next_event().await;
    assert_eq!(
        (&*kind, &status["code"], &status["reason"]),
        ("ERROR", &json!(410), &json!("Expired"))
    );
    assert_eq!(watch.next_line().await.unwrap(), None);

    let (_, list) = get(&cluster, BUNDLES).await;
    assert_eq!(names(&list), ["a", "b"]);
    let mut watch = OpenWatch::open(&cluster, &list, "").await;
    cluster.delete(GROUP, "bundles", "", "a");
    assert_eq!(watch.next_events(1).await, ["DELETED a"]);
}

#[tokio::test]
async fn watches_end_like_those_of_an_api_server() {
    let cluster = cluster(&["a"]);
    let mut watch = OpenWatch::open(&cluster, &Value::Null, "").await;
    cluster.wait_watching("bundles", 1).await;
    assert_eq!(watch.next_events(1).await, ["ADDED a"]);
    cluster.cut_watches();
    watch.next_line().await.unwrap_err();

    let mut watch = OpenWatch::open(&cluster, &Value::Null, "timeoutSeconds=1").await;
    assert_eq!(watch.next_events(1).await, ["ADDED a"]);
    assert_eq!(watch.next_line().await.unwrap(), None);

    let mut watch = OpenWatch::open(&cluster, &Value::Null, "").await;
    cluster.uninstall(GROUP, "bundles");
    assert_eq!(watch.next_events(2).await, ["ADDED a", "DELETED a"]);
    assert_eq!(watch.next_line().await.unwrap(), None);

    let address = cluster.address();
    drop(cluster);
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn error_responses_match_an_api_server() {
    let cluster = cluster(&["a"]);
    cluster.install(GROUP, "v1alpha1", "bundledeployments", "BundleDeployment", Scope::Cluster);
    cluster.install("", "v1", "secrets", "Secret", Scope::Namespaced);
    cluster.forbid(GROUP, "bundledeployments");
    cluster.forbid("", "secrets");
    let missing = "the server could not find the requested resource";
    let cases = [
        (
            "GET /apis/core.rukpak.io/v1alpha1/bundledeployments?limit=500",
            json!({"code": 403, "reason": "Forbidden", "message": "bundledeployments.core.rukpak.io \
                is forbidden: User \"system:serviceaccount:opgate:opgate\" cannot list resource \
                \"bundledeployments\" in API group \"core.rukpak.io\" at the cluster scope"}),
        ),
        (
            "GET /api/v1/namespaces/x/secrets/y",
            json!({"code": 403, "reason": "Forbidden", "message": "secrets \"y\" is forbidden: User \
                \"system:serviceaccount:opgate:opgate\" cannot get resource \"secrets\" in API \
                group \"\" in the namespace \"x\""}),
        ),
        ("GET /api/v1/pods", json!({"code": 404, "reason": "NotFound", "message": missing})),
        ("GET /apis/other/v1/bundles", json!({"code": 404, "message": missing})),
        ("GET /apis/core.rukpak.io/v1/bundles", json!({"code": 404, "message": missing})),
        ("GET /apis/core.rukpak.io/v1", json!({"code": 404, "message": missing})),
        (
            "GET /apis/core.rukpak.io/v1alpha1/bundles/b",
            json!({"code": 404, "message": "bundles.core.rukpak.io \"b\" not found",
                "details": {"name": "b", "group": "core.rukpak.io", "kind": "bundles"}}),
        ),
        (
            "POST /apis/core.rukpak.io/v1alpha1/bundles",
            json!({"code": 409, "reason": "AlreadyExists",
                "message": "bundles.core.rukpak.io \"a\" already exists"}),
        ),
        ("PUT /apis/core.rukpak.io/v1alpha1/bundles/a", json!({"code": 409, "reason": "Conflict"})),
        (
            "GET /apis/core.rukpak.io/v1alpha1/bundles?fieldSelector=spec.of%3Da",
            json!({"code": 400, "reason": "BadRequest"}),
        ),
    ];
    let body = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    for (request, expected) in &cases {
        let (method, path) = request.split_once(' ').unwrap();
        let (code, status) = call(&cluster, method, path, &body).await;
        assert_eq!(json!(code), expected["code"], "{request}");
        assert_eq!(status["kind"], "Status", "{request}");
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(status[field], *value, "{request}");
        }
    }
    assert_eq!(cluster.requests(), cases.map(|(request, _)| request));

    cluster.allow("", "secrets");
    assert_eq!(get(&cluster, "/api/v1/secrets").await.0, 200);
    cluster.fail_next_requests(429, 1);
    cluster.fail_next_requests(503, 2);
    let throttled = send(&cluster, Request::get(BUNDLES).body(Full::default()).unwrap()).await;
    assert_eq!(
        (throttled.status().as_u16(), &throttled.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    for code in [503, 503, 200] {
        assert_eq!(get(&cluster, BUNDLES).await.0, code);
    }
}

#[tokio::test]
async fn paused_server_sends_nothing_until_it_resumes() {
    let cluster = cluster(&["a"]);
    let mut watch = OpenWatch::open(&cluster, &Value::Null, "").await;
    assert_eq!(watch.next_events(1).await, ["ADDED a"]);
    cluster.pause();
    cluster.apply(GROUP, "v1alpha1", "bundles", bundle("b", "a"));
    let mut pending = Box::pin(get(&cluster, BUNDLES));
    let asked = cluster.wait_requested(2, |request| request.starts_with("GET "));
    tokio::select! {
        biased;
        _ = &mut pending => panic!("an answer"),
        () = asked => {}
    }
    assert!(pending.as_mut().now_or_never().is_none());
    assert!(watch.next_line().now_or_never().is_none());
    cluster.resume();
    assert_eq!(names(&pending.await.1), ["a", "b"]);
    assert_eq!(watch.next_events(1).await, ["ADDED b"]);
}

#[tokio::test]
async fn objects_are_written_and_described() {
    let cluster = cluster(&[]);
    let (code, created) = call(&cluster, "POST", BUNDLES, &bundle("a", "a")).await;
    assert_eq!((code, &created["apiVersion"]), (201, &json!("core.rukpak.io/v1alpha1")));
    let path = &format!("{BUNDLES}/a");
    let change = json!({"metadata": {"labels": {"team": null, "x": "y"}}, "spec": {"of": [1]}});
    let (code, patched) = call(&cluster, "PATCH", path, &change).await;
    assert_eq!((code, &patched["metadata"]["labels"]), (200, &json!({"x": "y"})));
    assert_eq!(patched["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(call(&cluster, "PUT", path, &patched).await.0, 200);
    assert_eq!(call(&cluster, "PUT", path, &patched).await.0, 409);
    cluster.install(GROUP, "v1alpha2", "bundles", "Bundle", Scope::Cluster);
    let newer = path.replace("v1alpha1", "v1alpha2");
    assert_eq!(get(&cluster, &newer).await.1["apiVersion"], "core.rukpak.io/v1alpha2");

    for (what, path) in [("PartialObjectMetadata", &**path), ("PartialObjectMetadataList", BUNDLES)]
    {
        let accept = format!("application/json;as={what};g=meta.k8s.io;v=v1");
        let request = Request::get(path).header("accept", accept).body(Full::default()).unwrap();
        let body = send(&cluster, request).await.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["kind"], &body["apiVersion"]), (&json!(what), &json!("meta.k8s.io/v1")));
        let item = if body["items"].is_array() { &body["items"][0] } else { &body };
        assert_eq!(item["kind"], "PartialObjectMetadata");
        assert_eq!((&item["metadata"]["name"], &item["spec"]), (&json!("a"), &Value::Null));
    }

    assert_eq!(get(&cluster, "/version").await.1["major"], "1");
    assert_eq!(get(&cluster, "/api").await.1["versions"], json!(["v1"]));
    let (_, groups) = get(&cluster, "/apis").await;
    assert_eq!(groups["groups"][0]["preferredVersion"]["groupVersion"], "core.rukpak.io/v1alpha1");
    assert_eq!(get(&cluster, "/apis/core.rukpak.io").await.1, groups["groups"][0]);
    for (path, plural, namespaced) in
        [("/api/v1", "configmaps", true), ("/apis/core.rukpak.io/v1alpha2", "bundles", false)]
    {
        let (_, types) = get(&cluster, path).await;
        let found = &types["resources"][0];
        assert_eq!((&found["name"], &found["namespaced"]), (&json!(plural), &json!(namespaced)));
    }
    assert_eq!(call(&cluster, "DELETE", path, &Value::Null).await.1["status"], "Success");
    assert_eq!(call(&cluster, "DELETE", path, &Value::Null).await.0, 404);

    let kubeconfig = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    assert!(kubeconfig.contains(&format!("http://{}", cluster.address())), "{kubeconfig}");
}
