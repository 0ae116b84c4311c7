//! A stand-in for a Kubernetes API server: resource types, objects and their history in memory, over
//! plain HTTP, and the misfortunes that clients of a real one meet, when a test asks for them.
//!
//! It answers as a real one where clients can tell: lists in pages of one snapshot, watches that
//! replay and then follow, bookmarks, selectors, metadata alone, discovery, creation and changes,
//! and errors as `Status`. Types can be served by another server behind it. It accepts every token
//! that a test does not refuse, checks no schemas, speaks JSON only, stores what is applied as the whole
//! object, treats every other patch as a merge patch, and knows no subresources but the proxy of a pod.
//!
//! ```text
//! test ─▶ FakeCluster, Writer ─▶ ClusterState ─▶ lines of watches ─▶ transport ─▶ client
//!                                     ▲
//!                             objects, discovery ─▶ Reply ─▶ transport ─▶ client
//!                                     ▲
//!            client ─▶ transport ─▶ routing
//! ```

mod discovery;
mod objects;
mod prepared;
mod read_request;
mod reply;
mod request;
mod resource;
mod routing;
mod state;
mod status;
mod transport;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use opgate_ledger::Document;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};

use prepared::PreparedObjects;
use resource::{Objects, Resource, api_version, resource_type};
use state::{ClusterState, PodEndpoint, Shared, Watch};
use transport::accept;

/// Where objects of a type live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster itself.
    Cluster,
    /// In a namespace.
    Namespaced,
}

/// How the server answers watches.
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

    /// Makes these the objects of an installed resource type, in one of its versions. Lists of them are prepared,
    /// and cheap; only objects with other names can be written in addition, and are not listed with them.
    pub fn prepare(&self, group: &str, version: &str, plural: &str, objects: Vec<Value>) {
        self.shared.change(|cluster| {
            let of = resource_type(group, plural);
            let kind = cluster.resources[&of].kind.clone();
            let mut objects = objects;
            for object in &mut objects {
                cluster.version += 1;
                object["apiVersion"] = json!(api_version(group, version));
                object["kind"] = json!(kind);
                let metadata = &mut object["metadata"];
                metadata["resourceVersion"] = json!(cluster.version.to_string());
                if metadata["uid"].is_null() {
                    metadata["uid"] =
                        json!(format!("00000000-0000-4000-8000-{:012}", cluster.version));
                }
            }
            cluster.prepared.insert(of, PreparedObjects::new(&kind, objects));
        });
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

    /// All stored objects of a type.
    pub fn objects(&self, group: &str, plural: &str) -> Vec<Value> {
        let cluster = self.shared.cluster.lock().unwrap();
        let resource = cluster.resources.get(&resource_type(group, plural));
        let objects = resource.into_iter().flat_map(|resource| resource.objects.values());
        objects.map(|object| Value::clone(object)).collect()
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

    /// Answers a list whose version is forgotten without a token that continues it in the current version.
    pub fn withhold_tokens(&self) {
        self.shared.change(|cluster| cluster.lacks_tokens = true);
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

    /// [`fail_next_requests`](Self::fail_next_requests) with this method and path (`GET /apis`) only.
    pub fn fail_next_requests_to(&self, method_and_path: &str, code: u16, times: usize) {
        self.shared.change(|cluster| {
            let failures = cluster.failing_requests.entry(method_and_path.to_owned()).or_default();
            failures.extend(std::iter::repeat_n(code, times));
        });
    }

    /// Sets the hash of the schemas of a group and version (`v1`, `apps/v1`) in the index at `/openapi/v3`, which the
    /// server lacks before.
    pub fn set_schema_hash(&self, group_version: &str, hash: &str) {
        self.shared.change(|cluster| {
            cluster.schemas.insert(group_version.to_owned(), hash.to_owned());
        });
    }

    /// [`fail_next_requests`](Self::fail_next_requests) of the lists of a resource type only.
    pub fn fail_next_lists(&self, group: &str, plural: &str, code: u16, times: usize) {
        self.shared.change(|cluster| {
            let failures = cluster.failing_lists.entry(resource_type(group, plural)).or_default();
            failures.extend(std::iter::repeat_n(code, times));
        });
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
