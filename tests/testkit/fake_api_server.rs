//! A stand-in for a Kubernetes API server: resource types, objects and their history in memory, over
//! plain HTTP, and the misfortunes that clients of a real one meet, when a test asks for them.
//!
//! It answers as a real one where clients can tell: lists in pages of one snapshot, watches that
//! replay and then follow, bookmarks, selectors, metadata alone, discovery, creation and changes,
//! and errors as `Status`. Types can be served by another server behind it. It accepts every token
//! that a test does not refuse, checks no schemas, speaks JSON only, treats every patch as a merge
//! patch, and knows no subresources but the proxy of a pod.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opgate_ledger::Document;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// The user as which the server authenticates every client.
const USER: &str = "system:serviceaccount:opgate:opgate";

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Group and plural, which name a resource type in all its versions.
type ResourceType = (String, String);

/// Namespace (empty for objects of the cluster) and name, in the order of lists.
type Key = (String, String);

type Objects = BTreeMap<Key, Arc<Value>>;

/// Where objects of a type live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster itself.
    Cluster,
    /// In a namespace.
    Namespaced,
}

/// What becomes of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchBehavior {
    /// They are served.
    Served,
    /// They are answered with 200 and end at once.
    ClosedImmediately,
    /// They are answered with 500.
    InternalError,
}

/// A fake API server on a separate thread, so that it answers while the test blocks. It stops,
/// and its port is closed, when it is dropped.
pub struct FakeCluster {
    address: SocketAddr,
    files: TempDir,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// See [`FakeCluster::writer`].
#[derive(Clone)]
pub struct Writer(Arc<Shared>);

impl Writer {
    /// [`FakeCluster::apply`].
    pub fn apply(&self, group: &str, version: &str, plural: &str, object: Value) {
        self.0.change(|cluster| {
            let of = resource_type(group, plural);
            let resource = cluster.resources.get(&of).expect("an installed resource type");
            let namespaced = resource.scope == Scope::Namespaced;
            assert_eq!(object["metadata"]["namespace"].is_string(), namespaced, "{object}");
            cluster.put(&of, version, object);
        });
    }
}

impl Drop for FakeCluster {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl FakeCluster {
    /// Starts one without any resource types, on a port of the system's choice.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let files = tempfile::tempdir().unwrap();
        // JSON is YAML, too.
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "opgate", "user": {"token": "not-checked"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "opgate"}}],
            "current-context": "fake",
        });
        std::fs::write(files.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        // Zero is no version: in a request it means "any".
        let cluster = Mutex::new(ClusterState { version: 1, ..ClusterState::default() });
        let shared = Arc::new(Shared { cluster, changed: watch::Sender::default() });
        let (stop, stopped) = oneshot::channel::<()>();
        let server = accept(listener, shared.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! { _ = stopped => (), () = server => () }
            });
        });
        Self { address, files, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Path of a kubeconfig that names this server and a user with a token; the file lives as long
    /// as the server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.files.path().join("kubeconfig")
    }

    /// Makes a version of a resource type exist. The versions of a type share its objects, which
    /// are shown in the version that is asked for; discovery prefers the first one.
    pub fn install(&self, group: &str, version: &str, plural: &str, kind: &str, scope: Scope) {
        self.shared.change(|cluster| {
            let (kind, objects) = (kind.to_owned(), Objects::new());
            let new = Resource { versions: BTreeSet::new(), kind, scope, objects };
            let resource = cluster.resources.entry(resource_type(group, plural)).or_insert(new);
            resource.versions.insert(version.to_owned());
        });
    }

    /// Makes ConfigMaps exist, and the ledger of an installation that has run for a while: servers use it
    /// at once.
    pub fn install_ledger(&self, namespace: &str) {
        self.install("", "v1", "configmaps", "ConfigMap", Scope::Namespaced);
        let uid = "ledger";
        let ledger = Document { revision: 1, established: Some(uid.into()), ..Document::default() };
        let object = json!({
            "metadata": {"name": "opgate-reservations", "namespace": namespace, "uid": uid},
            "data": {"ledger.json": ledger.encode().unwrap()},
        });
        self.apply("", "v1", "configmaps", object);
    }

    /// Removes a resource type as the removal of its definition does: watches see the objects
    /// deleted and end, requests are answered with 404.
    pub fn uninstall(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| {
            let of = resource_type(group, plural);
            for key in cluster.resources[&of].objects.clone().into_keys() {
                cluster.record(&of, key, None);
            }
            cluster.resources.remove(&of);
            cluster.watches.retain(|watch| watch.view.of != of);
        });
    }

    /// Creates an object or replaces the one of the same name: ADDED or MODIFIED for watches. Its
    /// `resourceVersion` is new, its `uid` that of the one it replaces, or its own. It has to have a namespace
    /// if its type is namespaced, and only then.
    pub fn apply(&self, group: &str, version: &str, plural: &str, object: Value) {
        self.writer().apply(group, version, plural, object);
    }

    /// Creates and replaces objects, for another task.
    pub fn writer(&self) -> Writer {
        Writer(self.shared.clone())
    }

    /// Deletes an object (`namespace` is empty for one of the cluster): DELETED for watches.
    pub fn delete(&self, group: &str, plural: &str, namespace: &str, name: &str) {
        self.shared.change(|cluster| {
            cluster.record(
                &resource_type(group, plural),
                (namespace.to_owned(), name.to_owned()),
                None,
            );
        });
    }

    /// A stored object.
    pub fn stored(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let cluster = self.shared.cluster.lock().unwrap();
        let key = (namespace.to_owned(), name.to_owned());
        cluster
            .resources
            .get(&resource_type(group, plural))?
            .objects
            .get(&key)
            .map(|o| Value::clone(o))
    }

    /// The last version that an object got.
    pub fn last_version(&self) -> u64 {
        self.shared.cluster.lock().unwrap().version
    }

    /// BOOKMARK, with the present version, for every watch that allows it.
    pub fn send_bookmarks(&self) {
        self.shared.change(|cluster| {
            let allowed = |watch: &&Watch| watch.view.call.has_flag("allowWatchBookmarks");
            for watch in cluster.watches.iter().filter(allowed) {
                let _ = watch.lines.send(cluster.bookmark(&watch.view, &json!({})));
            }
        });
    }

    /// Answers every request for a resource type with 403, as without a role for it. As with a real
    /// server, watches that are open stay open.
    pub fn forbid(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| cluster.forbidden.insert(resource_type(group, plural)));
    }

    /// Answers lists of a resource type only when [`release_lists`](Self::release_lists) is called; other
    /// requests are answered as ever.
    pub fn hold_lists(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| cluster.held_lists.insert(resource_type(group, plural)));
    }

    /// Answers the lists that are held.
    pub fn release_lists(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| cluster.held_lists.remove(&resource_type(group, plural)));
    }

    /// Forgets the history after this many more lists of a resource type: the tokens of their pages
    /// are too old from then on.
    pub fn expire_history_after(&self, group: &str, plural: &str, lists: usize) {
        self.shared
            .change(|cluster| cluster.expiring_lists = Some((resource_type(group, plural), lists)));
    }

    /// Takes [`forbid`](Self::forbid) back.
    pub fn allow(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| cluster.forbidden.remove(&resource_type(group, plural)));
    }

    /// Forgets the history, as a compaction does. The counter of versions moves on as well, so that
    /// every version that a client has seen is too old: 410.
    pub fn expire_history(&self) {
        self.shared.change(|cluster| {
            cluster.version += 1;
            cluster.oldest_version = cluster.version;
            cluster.history.clear();
        });
    }

    /// Cuts the connections of all open watches in the middle of the answer; what they have not
    /// sent yet is lost.
    pub fn cut_watches(&self) {
        self.shared.change(|cluster| {
            cluster.watch_cuts += 1;
            cluster.watches.clear();
        });
    }

    /// Falls silent: connections are accepted, but requests hang and watches say nothing more.
    pub fn pause(&self) {
        self.shared.change(|cluster| cluster.paused = true);
    }

    /// Answers what has come in since [`pause`](Self::pause), and continues.
    pub fn resume(&self) {
        self.shared.change(|cluster| cluster.paused = false);
    }

    /// From now on a resource type is served by another API server behind this one, which lists and
    /// gets, but knows no watches, no pages, no versions and no uids. What follows an `@` in a name
    /// is not shown, so that several objects can have one name.
    pub fn aggregate(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| {
            let of = resource_type(group, plural);
            cluster.watches.retain(|watch| watch.view.of != of);
            cluster.aggregated.insert(of);
        });
    }

    /// Takes [`aggregate`](Self::aggregate) back.
    pub fn unaggregate(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| cluster.aggregated.remove(&resource_type(group, plural)));
    }

    /// Whether the server behind this one that serves a group can be reached: without it everything
    /// below the group is answered with 503, and a text that is no `Status`.
    pub fn set_reachable(&self, group: &str, can: bool) {
        self.shared.change(|cluster| {
            if can {
                cluster.unreachable_groups.remove(group);
            } else {
                cluster.unreachable_groups.insert(group.to_owned());
            }
        });
    }

    /// Answers watches of a resource type with 403, as without that verb in a role.
    pub fn forbid_watch(&self, group: &str, plural: &str) {
        self.shared.change(|cluster| cluster.watch_forbidden.insert(resource_type(group, plural)));
    }

    /// The answer of `/version` from now on; 403 forbids it, 404 takes it away.
    pub fn set_version_response(&self, version: Value) {
        self.shared.change(|cluster| cluster.version_response = Some(version));
    }

    /// Answers the next requests, of any kind, with an HTTP error: 429 with `Retry-After: 1`.
    pub fn fail_next_requests(&self, code: u16, times: usize) {
        self.shared
            .change(|cluster| cluster.next_failures.extend(std::iter::repeat_n(code, times)));
    }

    /// Answers requests with this token with 401 from now on.
    pub fn refuse_token(&self, token: &str) {
        self.shared.change(|cluster| cluster.refused_tokens.insert(token.to_owned()));
    }

    /// Takes [`refuse_token`](Self::refuse_token) back.
    pub fn accept_token(&self, token: &str) {
        self.shared.change(|cluster| cluster.refused_tokens.remove(token));
    }

    /// Writes a kubeconfig of another user, by its token in it or by the file that has it.
    pub fn kubeconfig_of(&self, user: &Value) -> PathBuf {
        let mut kubeconfig: Value =
            serde_json::from_slice(&std::fs::read(self.kubeconfig()).unwrap()).unwrap();
        kubeconfig["users"][0]["user"] = user.clone();
        let number = std::fs::read_dir(self.files.path()).unwrap().count();
        let path = self.files.path().join(format!("kubeconfig-{number}"));
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// From now on `pods/NAME:PORT/proxy` of any namespace leads to this address; without one it is not reached.
    pub fn set_pod_proxy(&self, pod: &str, to: Option<SocketAddr>) {
        self.shared.change(|cluster| cluster.proxies.insert(pod.to_owned(), PodEndpoint(to)));
    }

    /// Method and path with the query of every request so far, refused ones included.
    pub fn requests(&self) -> Vec<String> {
        self.shared.cluster.lock().unwrap().requests.clone()
    }

    /// From now on watches of a resource type are answered like this; lists and single objects as ever.
    pub fn set_watch_behavior(&self, group: &str, plural: &str, behavior: WatchBehavior) {
        self.shared.change(|cluster| {
            let of = resource_type(group, plural);
            cluster
                .watches
                .retain(|watch| behavior == WatchBehavior::Served || watch.view.of != of);
            cluster.watch_behaviors.insert(of, behavior);
        });
    }

    /// Sets everything back to what it was when the counter of versions was lower, as an etcd that
    /// is restored from a backup does. Watches are cut; the server issues the following versions
    /// again.
    pub fn restore_version(&self, version: u64) {
        self.shared.change(|cluster| {
            let types: Vec<_> = cluster.resources.keys().cloned().collect();
            for of in types {
                let objects = cluster.snapshot(&of, version);
                cluster.resources.get_mut(&of).unwrap().objects = objects;
            }
            cluster.history.retain(|change| change.version <= version);
            cluster.version = version;
            cluster.watch_cuts += 1;
            cluster.watches.clear();
        });
    }

    /// Waits until at least this many requests that fulfil a condition have come in.
    pub async fn wait_requested(&self, count: usize, is_it: impl Fn(&str) -> bool) {
        let enough = |cluster: &ClusterState| {
            cluster.requests.iter().filter(|request| is_it(request)).count() >= count
        };
        self.shared.wait_until(enough).await;
    }

    /// Waits until no watch of a resource is open.
    pub async fn wait_unwatched(&self, plural: &str) {
        let is_it = |watch: &Watch| watch.view.of.1 == plural && !watch.lines.is_closed();
        crate::wait_until("the end of the watches", async || {
            self.shared.change(|cluster| !cluster.watches.iter().any(is_it))
        })
        .await;
    }

    /// Waits until at least this many watches of a resource are open.
    pub async fn wait_watching(&self, plural: &str, count: usize) {
        let is_it = |watch: &&Watch| watch.view.of.1 == plural && !watch.lines.is_closed();
        let enough = |cluster: &ClusterState| cluster.watches.iter().filter(is_it).count() >= count;
        self.shared.wait_until(enough).await;
    }
}

/// What the test and the server's thread share.
struct Shared {
    cluster: Mutex<ClusterState>,
    changed: watch::Sender<()>,
}

impl Shared {
    fn change<T>(&self, change: impl FnOnce(&mut ClusterState) -> T) -> T {
        let result = change(&mut self.cluster.lock().unwrap());
        self.changed.send_replace(());
        result
    }

    async fn wait_until(&self, is_so: impl Fn(&ClusterState) -> bool) {
        let mut changed = self.changed.subscribe();
        while !is_so(&self.cluster.lock().unwrap()) {
            changed.changed().await.unwrap();
        }
    }
}

#[derive(Default)]
struct ClusterState {
    /// The last version given, to objects of all types.
    version: u64,
    /// The first version from which the history is known.
    oldest_version: u64,
    history: Vec<Change>,
    resources: BTreeMap<ResourceType, Resource>,
    watches: Vec<Watch>,
    forbidden: BTreeSet<ResourceType>,
    watch_forbidden: BTreeSet<ResourceType>,
    aggregated: BTreeSet<ResourceType>,
    /// Groups.
    unreachable_groups: BTreeSet<String>,
    version_response: Option<Value>,
    watch_behaviors: BTreeMap<ResourceType, WatchBehavior>,
    next_failures: VecDeque<u16>,
    requests: Vec<String>,
    /// Tokens.
    refused_tokens: BTreeSet<String>,
    /// By `NAME:PORT`.
    proxies: BTreeMap<String, PodEndpoint>,
    paused: bool,
    /// Types whose lists are held.
    held_lists: BTreeSet<ResourceType>,
    /// The type, and the number of lists of it after which the server forgets the history.
    expiring_lists: Option<(ResourceType, usize)>,
    /// How often the watches were cut.
    watch_cuts: u64,
}

struct Resource {
    versions: BTreeSet<String>,
    kind: String,
    scope: Scope,
    objects: Objects,
}

struct Change {
    version: u64,
    of: ResourceType,
    key: Key,
    old: Option<Arc<Value>>,
    new: Option<Arc<Value>>,
}

struct Watch {
    view: ReadRequest,
    lines: UnboundedSender<Bytes>,
}

/// What a request wants to see of a type's objects, and how.
#[derive(Clone)]
struct ReadRequest {
    of: ResourceType,
    version: String,
    namespace: Option<String>,
    call: ApiRequest,
}

/// A request, with path and query decoded.
#[derive(Clone)]
struct ApiRequest {
    method: String,
    path: Vec<String>,
    query: BTreeMap<String, String>,
    partial: bool,
    token: String,
    body: Bytes,
}

/// Where a pod listens, if it can be reached.
#[derive(Clone, Copy)]
struct PodEndpoint(Option<SocketAddr>);

enum Reply {
    Json(u16, Value),
    Text(u16, &'static str),
    Watch {
        lines: UnboundedReceiver<Bytes>,
        seconds: u64,
        cuts: u64,
        last: Option<Box<ReadRequest>>,
    },
}

/// A request's result; the error is a `Status`.
type ApiResult<T = Reply> = Result<T, Value>;

fn resource_type(group: &str, plural: &str) -> ResourceType {
    (group.to_owned(), plural.to_owned())
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let shared = shared.clone();
        let service = service_fn(move |request| answer(shared.clone(), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> hyper::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    shared.change(|cluster| cluster.requests.push(format!("{} {}", head.method, head.uri)));
    let call = ApiRequest::new(&head, body.collect().await?.to_bytes());
    shared.wait_until(|cluster| !cluster.paused && !cluster.is_held(&call)).await;
    if let Some(pod) = shared.change(|cluster| cluster.proxied(&call)) {
        let (code, body) = forward_to_pod(pod, head.uri.path()).await;
        return Ok(Response::builder().status(code).body(full_body(&body)).unwrap());
    }
    let (code, body) = match shared.change(|cluster| cluster.serve(call)) {
        Ok(Reply::Watch { lines, seconds, cuts, last }) => {
            (200, stream(shared, lines, seconds, cuts, last.map(|view| *view)))
        }
        Ok(Reply::Json(code, body)) => (code, full_body(&body)),
        Ok(Reply::Text(code, body)) => (code, full_body(&body)),
        Err(body) => (body["code"].as_u64().unwrap().try_into().unwrap(), full_body(&body)),
    };
    let mut response = Response::builder().status(code).header("content-type", "application/json");
    if code == 429 {
        response = response.header("retry-after", "1");
    }
    Ok(response.body(body).unwrap())
}

/// The answer of a pod, or that of an API server that does not reach it.
async fn forward_to_pod(PodEndpoint(to): PodEndpoint, path: &str) -> (u16, String) {
    let unreached = || (503, status(503, "error trying to reach service: no route").to_string());
    let Some(to) = to else { return unreached() };
    let Ok(mut stream) = tokio::net::TcpStream::connect(to).await else { return unreached() };
    let (_, path) = path.split_once("/proxy").unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn full_body(body: &impl ToString) -> Body {
    Full::from(body.to_string()).map_err(|never| match never {}).boxed_unsync()
}

/// The body of a watch. A cut is an error of the body, upon which the connection is closed without
/// the end of the answer.
fn stream(
    shared: Arc<Shared>,
    lines: UnboundedReceiver<Bytes>,
    seconds: u64,
    cuts: u64,
    last: Option<ReadRequest>,
) -> Body {
    // Without a timeout: longer than any test.
    let seconds = if seconds == 0 { 86_400 } else { seconds };
    let end = Instant::now() + Duration::from_secs(seconds);
    let step = move |(mut lines, mut last): (UnboundedReceiver<Bytes>, Option<ReadRequest>)| {
        let shared = shared.clone();
        async move {
            let cut = |cluster: &ClusterState| cluster.watch_cuts != cuts;
            let line = async {
                let line = lines.recv().await;
                shared.wait_until(|cluster| !cluster.paused || cut(cluster)).await;
                if cut(&shared.cluster.lock().unwrap()) {
                    return Some(Err(io::Error::other("the test cut the connection")));
                }
                line.map(|line| Ok(Frame::data(line)))
            };
            let item = tokio::select! {
                line = line => line,
                () = sleep_until(end) => {
                    let cluster = shared.cluster.lock().unwrap();
                    let last = last.take().filter(|_| !cluster.paused);
                    let last = last.filter(|view| cluster.resources.contains_key(&view.of));
                    last.map(|view| Ok(Frame::data(cluster.bookmark(&view, &json!({})))))
                }
            };
            item.map(|item| (item, (lines, last)))
        }
    };
    StreamBody::new(stream::unfold((lines, last), step)).boxed_unsync()
}

impl ApiRequest {
    fn new(head: &Parts, body: Bytes) -> Self {
        let query = head.uri.query().unwrap_or_default().replace('+', " ");
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let segments = head.uri.path().split('/').filter(|segment| !segment.is_empty());
        let header = |name| head.headers.get(name).map_or("", |value| value.to_str().unwrap());
        let (accept, token) = (header("accept"), header("authorization"));
        Self {
            token: token.trim_start_matches("Bearer ").to_owned(),
            method: head.method.to_string(),
            path: segments.map(decoded).collect(),
            query: pairs.map(|(name, value)| (decoded(name), decoded(value))).collect(),
            partial: accept.contains("as=PartialObjectMetadata"),
            body,
        }
    }

    fn query(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    fn has_flag(&self, name: &str) -> bool {
        matches!(self.query(name), "true" | "1")
    }

    /// A number in the query; 0 when it is missing.
    fn number(&self, name: &str) -> ApiResult<u64> {
        number(if self.query(name).is_empty() { "0" } else { self.query(name) })
    }

    fn object(&self) -> ApiResult<Value> {
        let object: Option<Value> = serde_json::from_slice(&self.body).ok();
        let bad = || status(400, "the object provided is unrecognized");
        object.filter(Value::is_object).ok_or_else(bad)
    }
}

fn number(text: &str) -> ApiResult<u64> {
    text.parse().map_err(|_| status(400, &format!("invalid number: {text}")))
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = String::from_utf8(bytes.by_ref().take(2).collect()).unwrap();
            decoded.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).unwrap()
}

/// A `Status` of failure.
fn status(code: u16, message: &str) -> Value {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 if message.ends_with("already exists") => "AlreadyExists",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn not_found() -> Value {
    status(404, "the server could not find the requested resource")
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

/// Whether a selector takes what has these values: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`,
/// `a notin (b,c)`, or many of them between commas.
fn selects<'a>(selector: &str, value: impl Fn(&str) -> Option<&'a str>) -> bool {
    let mut inside = false;
    let mut terms = selector.split(|c| {
        inside = c == '(' || (inside && c != ')');
        c == ',' && !inside
    });
    terms.all(|term| {
        let operators =
            [(" notin ", false), (" in ", true), ("!=", false), ("==", true), ("=", true)];
        for (operator, wanted) in operators {
            if let Some((key, values)) = term.split_once(operator) {
                let mut values = values.trim().trim_matches(['(', ')']).split(',');
                let value = value(key.trim());
                return values.any(|one| value == Some(one.trim())) == wanted;
            }
        }
        let key = term.trim().trim_start_matches('!');
        key.is_empty() || value(key).is_some() != term.contains('!')
    })
}

impl ReadRequest {
    fn is_selected(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let label = |key: &str| metadata["labels"][key].as_str();
        let field = |key: &str| metadata[key.trim_start_matches("metadata.")].as_str();
        self.namespace.as_ref().is_none_or(|namespace| metadata["namespace"] == **namespace)
            && selects(self.call.query("labelSelector"), label)
            && selects(self.call.query("fieldSelector"), field)
    }

    fn render(&self, object: &Value) -> Value {
        if self.call.partial {
            let (kind, metadata) = ("PartialObjectMetadata", &object["metadata"]);
            return json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        }
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version(&self.of.0, &self.version));
        object
    }

    /// The event that a watch sends for a change. An object that begins or ceases to match its
    /// selector counts as added or deleted.
    fn event_line(&self, change: &Change) -> Option<Bytes> {
        let seen = |object: &&Value| self.is_selected(object);
        let old = change.old.as_deref().filter(seen);
        match (old, change.new.as_deref().filter(seen)) {
            (None, None) => None,
            (None, Some(new)) => Some(line("ADDED", &self.render(new))),
            (Some(_), Some(new)) => Some(line("MODIFIED", &self.render(new))),
            (Some(old), None) => {
                let mut last = self.render(old);
                last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                Some(line("DELETED", &last))
            }
        }
    }
}

impl ClusterState {
    /// Completes and keeps an object under the name in its metadata.
    fn put(&mut self, of: &ResourceType, version: &str, mut object: Value) -> Arc<Value> {
        let resource = &self.resources[of];
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let key = (text("namespace").unwrap_or_default(), text("name").expect("a name"));
        let uid = json!(format!("00000000-0000-4000-8000-{:012}", self.version));
        let old = resource.objects.get(&key);
        let given = object["metadata"]["uid"].as_str().map_or(uid, |given| json!(given));
        object["metadata"]["uid"] = old.map_or(given, |old| old["metadata"]["uid"].clone());
        object["metadata"]["resourceVersion"] = json!((self.version + 1).to_string());
        object["apiVersion"] = json!(api_version(&of.0, version));
        object["kind"] = json!(resource.kind);
        let object = Arc::new(object);
        self.record(of, key, Some(object.clone()));
        object
    }

    /// Makes a change, without an object a deletion, and tells the watches.
    fn record(&mut self, of: &ResourceType, key: Key, new: Option<Arc<Value>>) {
        self.version += 1;
        let objects = &mut self.resources.get_mut(of).expect("an installed resource type").objects;
        let old = match &new {
            Some(new) => objects.insert(key.clone(), new.clone()),
            None => Some(objects.remove(&key).expect("an object to delete")),
        };
        let change = Change { version: self.version, of: of.clone(), key, old, new };
        self.watches.retain(|watch| !watch.lines.is_closed());
        for watch in self.watches.iter().filter(|watch| watch.view.of == *of) {
            let _ = watch.view.event_line(&change).map(|line| watch.lines.send(line));
        }
        self.history.push(change);
    }

    /// The objects of a type as they were at a version.
    fn snapshot(&self, of: &ResourceType, version: u64) -> Objects {
        let mut objects = self.resources[of].objects.clone();
        let later = self.history.iter().rev().take_while(|change| change.version > version);
        for change in later.filter(|change| change.of == *of) {
            match &change.old {
                Some(old) => objects.insert(change.key.clone(), old.clone()),
                None => objects.remove(&change.key),
            };
        }
        objects
    }

    /// Whether a call is a list that is held.
    fn is_held(&self, call: &ApiRequest) -> bool {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        let (group, plural) = match *path {
            ["api", _, .., plural] => ("", plural),
            ["apis", group, _, .., plural] => (group, plural),
            _ => return false,
        };
        self.held_lists.contains(&resource_type(group, plural)) && !call.has_flag("watch")
    }

    fn bookmark(&self, view: &ReadRequest, annotations: &Value) -> Bytes {
        let version = self.version.to_string();
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        let kind = &self.resources[&view.of].kind;
        line("BOOKMARK", &view.render(&json!({"kind": kind, "metadata": metadata})))
    }

    /// Where a call for a pod leads that may be made.
    fn proxied(&self, call: &ApiRequest) -> Option<PodEndpoint> {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        let ["api", "v1", "namespaces", _, "pods", pod, "proxy", ..] = *path else { return None };
        let is_permitted = !self.refused_tokens.contains(&call.token)
            && !self.forbidden.contains(&resource_type("", "pods/proxy"));
        self.proxies.get(pod).copied().filter(|_| is_permitted)
    }

    fn serve(&mut self, mut call: ApiRequest) -> ApiResult {
        if self.refused_tokens.contains(&call.token) {
            return Err(status(401, "Unauthorized"));
        }
        if call.path.get(6).is_some_and(|part| part == "proxy") {
            return Err(if self.forbidden.contains(&resource_type("", "pods/proxy")) {
                status(403, "pods/proxy is forbidden")
            } else {
                not_found()
            });
        }
        if let Some(code) = self.next_failures.pop_front() {
            return Err(status(code, "the test asked for this answer"));
        }
        let path = std::mem::take(&mut call.path);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if let ["apis", group, ..] = *path
            && self.unreachable_groups.contains(group)
        {
            return Ok(Reply::Text(503, "service unavailable\n"));
        }
        match *path {
            ["version"] => match self.version_response.clone().unwrap_or_else(release) {
                Value::Number(code) if code == 403.into() => {
                    let text = format!("forbidden: User \"{USER}\" cannot get path \"/version\"");
                    Err(status(403, &text))
                }
                Value::Number(_) => Err(not_found()),
                version => Ok(Reply::Json(200, version)),
            },
            ["readyz"] => Ok(Reply::Text(200, "ok")),
            ["api"] => Ok(Reply::Json(200, json!({"kind": "APIVersions", "versions": ["v1"]}))),
            ["apis"] => Ok(Reply::Json(200, self.groups())),
            ["apis", group] => Ok(Reply::Json(200, self.group(group).ok_or_else(not_found)?)),
            ["api", "v1", ref rest @ ..] => self.resource("", "v1", rest, call),
            ["apis", group, version, ref rest @ ..] => self.resource(group, version, rest, call),
            _ => Err(not_found()),
        }
    }

    /// Requests below a group and version.
    fn resource(
        &mut self,
        group: &str,
        version: &str,
        rest: &[&str],
        call: ApiRequest,
    ) -> ApiResult {
        let (namespace, plural, name) = match *rest {
            [] => return self.types(group, version),
            ["namespaces", namespace, plural] => (Some(namespace), plural, None),
            ["namespaces", namespace, plural, name] => (Some(namespace), plural, Some(name)),
            [plural] => (None, plural, None),
            [plural, name] => (None, plural, Some(name)),
            _ => return Err(not_found()),
        };
        let verb = match (call.method.as_str(), name) {
            ("GET", None) if call.has_flag("watch") => "watch",
            ("GET", None) => "list",
            ("GET", Some(_)) => "get",
            ("POST", None) => "create",
            ("PUT", Some(_)) => "update",
            ("PATCH", Some(_)) => "patch",
            ("DELETE", Some(_)) => "delete",
            _ => return Err(status(405, "the server does not allow this method")),
        };
        let of = resource_type(group, plural);
        if self.forbidden.contains(&of) || (verb == "watch" && self.watch_forbidden.contains(&of)) {
            let inside = |namespace| format!("in the namespace \"{namespace}\"");
            let place = namespace.map_or("at the cluster scope".to_owned(), inside);
            let message = format!(
                "{{}} is forbidden: User \"{USER}\" cannot {verb} resource \"{plural}\" in API \
                 group \"{group}\" {place}"
            );
            return Err(status_about(&of, name, 403, &message));
        }
        let collection = matches!(verb, "list" | "watch");
        let fits = |resource: &&Resource| match resource.scope {
            _ if !resource.versions.contains(version) => false,
            Scope::Cluster => namespace.is_none(),
            Scope::Namespaced => namespace.is_some() || collection,
        };
        self.resources.get(&of).filter(fits).ok_or_else(not_found)?;
        let mut fields = call.query("fieldSelector").split(',').map(str::trim_start);
        // Of "metadata.namespace", too.
        let strange = |term: &&str| !term.is_empty() && !term.starts_with("metadata.name");
        if let Some(term) = fields.find(strange) {
            return Err(status(400, &format!("field label not supported: {term}")));
        }
        let namespace = namespace.map(str::to_owned);
        let view = ReadRequest { of, version: version.to_owned(), namespace, call };
        match verb {
            "list" => {
                let answer = self.list(&view);
                if let Some((of, left)) = &mut self.expiring_lists
                    && *of == view.of
                {
                    *left -= 1;
                    if *left == 0 {
                        self.expiring_lists = None;
                        self.version += 1;
                        self.oldest_version = self.version;
                        self.history.clear();
                    }
                }
                answer
            }
            "watch" if self.aggregated.contains(&view.of) => {
                let kind = &self.resources[&view.of].kind;
                Err(status(405, &format!("watch is not supported on resources of kind \"{kind}\"")))
            }
            "watch" => self.watch(view),
            _ => self.serve_object(verb, name, &view),
        }
    }

    fn list(&self, view: &ReadRequest) -> ApiResult {
        let call = &view.call;
        let token: Vec<&str> = call.query("continue").split('/').collect();
        let (version, after) = match *token.as_slice() {
            [""] => (self.version, Bound::Unbounded),
            [version, namespace, name] => {
                (number(version)?, Bound::Excluded((namespace.to_owned(), name.to_owned())))
            }
            _ => return Err(status(400, "continue key is not valid")),
        };
        if version < self.oldest_version {
            let message = "The provided continue parameter is too old to display a consistent list \
                           result. You can start a new list without the continue parameter.";
            return Err(status(410, message));
        }
        // As a real server, which answers a list of any version from a cache that has no pages.
        let any = call.query("resourceVersion") == "0";
        let limit = usize::try_from(call.number("limit")?).unwrap();
        let is_aggregated = self.aggregated.contains(&view.of);
        let limit = if any || limit == 0 || is_aggregated { usize::MAX } else { limit };
        let objects = self.snapshot(&view.of, version);
        let mut rest =
            objects.range((after, Bound::Unbounded)).filter(|(_, o)| view.is_selected(o));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let remaining = rest.count();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(((namespace, name), _)) = page.last().filter(|_| remaining > 0) {
            metadata["continue"] = json!(format!("{version}/{namespace}/{name}"));
            if call.query("labelSelector").is_empty() && call.query("fieldSelector").is_empty() {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        if is_aggregated {
            metadata = json!({});
        }
        let show = |object: &Value| {
            let mut object = view.render(object);
            if is_aggregated {
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata.retain(|name, _| !matches!(name.as_str(), "uid" | "resourceVersion"));
                let name = metadata["name"].as_str().unwrap();
                metadata["name"] = json!(name.split('@').next().unwrap());
            }
            object
        };
        let items: Vec<_> = page.iter().map(|(_, object)| show(object)).collect();
        let mut list = view.render(&json!({"kind": self.resources[&view.of].kind}));
        list["kind"] = json!(format!("{}List", list["kind"].as_str().unwrap()));
        list["metadata"] = metadata;
        list["items"] = json!(items);
        Ok(Reply::Json(200, list))
    }

    fn watch(&mut self, view: ReadRequest) -> ApiResult {
        let since = view.call.number("resourceVersion")?;
        let seconds = view.call.number("timeoutSeconds")?;
        let initial = view.call.has_flag("sendInitialEvents");
        match self.watch_behaviors.get(&view.of) {
            None | Some(WatchBehavior::Served) => {}
            Some(WatchBehavior::ClosedImmediately) => {
                let (_, lines) = unbounded_channel();
                return Ok(Reply::Watch { lines, seconds, cuts: self.watch_cuts, last: None });
            }
            Some(WatchBehavior::InternalError) => {
                return Err(status(500, "the test asked for this answer"));
            }
        }
        // A real server says it shortly before the end, too.
        let allowed = view.call.has_flag("allowWatchBookmarks");
        let last = allowed.then(|| Box::new(view.clone()));
        let (sender, lines) = unbounded_channel();
        let send = |line| drop(sender.send(line));
        let reply = Reply::Watch { lines, seconds, cuts: self.watch_cuts, last };
        if since > self.version {
            let message = format!("Too large resource version: {since}, current: {}", self.version);
            return Err(status(504, &message));
        }
        if since == 0 || initial {
            let objects = self.resources[&view.of].objects.values();
            objects
                .filter(|o| view.is_selected(o))
                .for_each(|o| send(line("ADDED", &view.render(o))));
            if initial {
                send(self.bookmark(&view, &json!({"k8s.io/initial-events-end": "true"})));
            }
        } else if since < self.oldest_version {
            let message = format!("too old resource version: {since} ({})", self.oldest_version);
            send(line("ERROR", &status(410, &message)));
            return Ok(reply);
        } else {
            let missed = self.history.iter().filter(|change| change.version > since);
            let missed = missed.filter(|change| change.of == view.of);
            missed.filter_map(|change| view.event_line(change)).for_each(send);
        }
        self.watches.push(Watch { view, lines: sender });
        Ok(reply)
    }

    /// Requests that concern one object.
    fn serve_object(&mut self, verb: &str, name: Option<&str>, view: &ReadRequest) -> ApiResult {
        let reads = matches!(verb, "get" | "delete");
        let mut sent = if reads { Value::Null } else { view.call.object()? };
        let given = sent["metadata"]["name"].as_str().map(str::to_owned);
        let name = name.map(str::to_owned).or(given);
        let name = name.ok_or_else(|| status(400, "name must be provided"))?;
        let refused = |code, message| Err(status_about(&view.of, Some(&name), code, message));
        let key = (view.namespace.clone().unwrap_or_default(), name.clone());
        let old = self.resources[&view.of].objects.get(&key).cloned();
        match (verb, old.as_deref()) {
            ("create", Some(_)) => return refused(409, "{} already exists"),
            ("create", None) => {}
            (_, None) => return refused(404, "{} not found"),
            ("get", Some(old)) => return Ok(Reply::Json(200, view.render(old))),
            ("delete", Some(_)) => {
                self.record(&view.of, key, None);
                let done = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
                return Ok(Reply::Json(200, done));
            }
            ("patch", Some(old)) => {
                let patch = std::mem::replace(&mut sent, old.clone());
                merge(&mut sent, patch);
            }
            (_, Some(_)) => {}
        }
        let seen = sent["metadata"]["resourceVersion"].as_str().filter(|seen| !seen.is_empty());
        if let Some(old) = old
            && seen.is_some_and(|seen| old["metadata"]["resourceVersion"] != seen)
        {
            let message = "Operation cannot be fulfilled on {}: the object has been modified; \
                           please apply your changes to the latest version and try again";
            return refused(409, message);
        }
        sent["metadata"]["name"] = json!(name);
        if let Some(namespace) = &view.namespace {
            sent["metadata"]["namespace"] = json!(namespace);
        }
        let new = self.put(&view.of, &view.version, sent);
        Ok(Reply::Json(if verb == "create" { 201 } else { 200 }, view.render(&new)))
    }

    fn groups(&self) -> Value {
        let names: BTreeSet<&str> = self.resources.keys().map(|of| of.0.as_str()).collect();
        let groups: Vec<_> = names.into_iter().filter_map(|name| self.group(name)).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// Describes a group, unless it is the core group or there is none of that name.
    fn group(&self, name: &str) -> Option<Value> {
        let types = self.resources.iter().filter(|(of, _)| of.0 == name && !name.is_empty());
        let versions: BTreeSet<&String> = types.flat_map(|(_, r)| &r.versions).collect();
        let describe = |v: &String| json!({"groupVersion": api_version(name, v), "version": v});
        let versions: Vec<_> = versions.into_iter().map(describe).collect();
        let mut group = json!({"kind": "APIGroup", "apiVersion": "v1", "name": name});
        group["preferredVersion"] = versions.first()?.clone();
        group["versions"] = json!(versions);
        Some(group)
    }

    fn types(&self, group: &str, version: &str) -> ApiResult {
        let types = self.resources.iter().filter(|(of, _)| of.0 == group);
        let types = types.filter(|(_, resource)| resource.versions.contains(version));
        let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
        let describe = |(of, resource): (&ResourceType, &Resource)| {
            let verbs = if self.aggregated.contains(of) { &["get", "list"][..] } else { &all };
            let plural = &of.1;
            json!({
                "name": plural,
                "singularName": resource.kind.to_lowercase(),
                "kind": resource.kind,
                "namespaced": resource.scope == Scope::Namespaced,
                "verbs": verbs,
            })
        };
        let types: Vec<_> = types.map(describe).collect();
        if types.is_empty() && !group.is_empty() {
            return Err(not_found());
        }
        let mut list = json!({"kind": "APIResourceList", "apiVersion": "v1", "resources": types});
        list["groupVersion"] = json!(api_version(group, version));
        Ok(Reply::Json(200, list))
    }
}

/// A `Status` about a type or an object of it, which stands for `{}` in the message.
fn status_about(
    (group, plural): &ResourceType,
    name: Option<&str>,
    code: u16,
    message: &str,
) -> Value {
    let dot = if group.is_empty() { "" } else { "." };
    let quoted = name.map_or(String::new(), |name| format!(" \"{name}\""));
    let called = format!("{plural}{dot}{group}{quoted}");
    let mut status = status(code, &message.replace("{}", &called));
    // What is called kind there is the plural.
    status["details"] = json!({"name": name.unwrap_or_default(), "group": group, "kind": plural});
    status
}

/// RFC 7396.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(&name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

fn release() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "2025-01-01T00:00:00Z", "goVersion": "go1.24",
        "compiler": "gc", "platform": "linux/amd64",
    })
}
