//! The state of the fake cluster: objects, their history, open watches, and the failures that a
//! test asked for. A change of an object sends its event to all watches of the type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::WatchBehavior;
use super::prepared::PreparedObjects;
use super::read_request::{ReadRequest, line};
use super::resource::{Change, Key, Objects, Resource, ResourceType, api_version};

/// What the test and the server's thread share.
pub(super) struct Shared {
    pub(super) cluster: Mutex<ClusterState>,
    pub(super) changed: watch::Sender<()>,
}

impl Shared {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut ClusterState) -> T) -> T {
        let result = change(&mut self.cluster.lock().unwrap());
        self.changed.send_replace(());
        result
    }

    pub(super) async fn wait_until(&self, is_so: impl Fn(&ClusterState) -> bool) {
        let mut changed = self.changed.subscribe();
        while !is_so(&self.cluster.lock().unwrap()) {
            changed.changed().await.unwrap();
        }
    }
}

#[derive(Default)]
pub(super) struct ClusterState {
    /// The last version given, to objects of all types.
    pub(super) version: u64,
    /// The first version from which the history is known.
    pub(super) oldest_version: u64,
    pub(super) history: Vec<Change>,
    pub(super) resources: BTreeMap<ResourceType, Resource>,
    /// Types whose lists are prepared.
    pub(super) prepared: BTreeMap<ResourceType, PreparedObjects>,
    pub(super) watches: Vec<Watch>,
    pub(super) forbidden: BTreeSet<ResourceType>,
    pub(super) watch_forbidden: BTreeSet<ResourceType>,
    pub(super) aggregated: BTreeSet<ResourceType>,
    /// Groups.
    pub(super) unreachable_groups: BTreeSet<String>,
    pub(super) version_response: Option<Value>,
    pub(super) watch_behaviors: BTreeMap<ResourceType, WatchBehavior>,
    pub(super) next_failures: VecDeque<u16>,
    pub(super) requests: Vec<String>,
    /// Tokens.
    pub(super) refused_tokens: BTreeSet<String>,
    /// By `NAME:PORT`.
    pub(super) proxies: BTreeMap<String, PodEndpoint>,
    pub(super) paused: bool,
    /// Whether an expired list gets no token to continue with.
    pub(super) lacks_tokens: bool,
    /// Method and path whose next requests are answered with these codes.
    pub(super) failing_requests: BTreeMap<String, VecDeque<u16>>,
    /// Hashes of schemas, by group and version; without any, the server has no index of them.
    pub(super) schemas: BTreeMap<String, String>,
    /// Types whose next lists are answered with these codes.
    pub(super) failing_lists: BTreeMap<ResourceType, VecDeque<u16>>,
    /// Types whose lists are held.
    pub(super) held_lists: BTreeSet<ResourceType>,
    /// The type, and the number of lists of it after which the server forgets the history.
    pub(super) expiring_lists: Option<(ResourceType, usize)>,
    /// How often the watches were cut.
    pub(super) watch_cuts: u64,
}

pub(super) struct Watch {
    pub(super) view: ReadRequest,
    pub(super) lines: UnboundedSender<Bytes>,
}

/// Where a pod listens, if it can be reached.
#[derive(Clone, Copy)]
pub(super) struct PodEndpoint(pub(super) Option<SocketAddr>);

impl ClusterState {
    /// Completes and keeps an object under the name in its metadata.
    pub(super) fn put(
        &mut self,
        of: &ResourceType,
        version: &str,
        mut object: Value,
    ) -> Arc<Value> {
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
    pub(super) fn record(&mut self, of: &ResourceType, key: Key, new: Option<Arc<Value>>) {
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
    pub(super) fn snapshot(&self, of: &ResourceType, version: u64) -> Objects {
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

    pub(super) fn bookmark(&self, view: &ReadRequest, annotations: &Value) -> Bytes {
        let version = self.version.to_string();
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        let kind = &self.resources[&view.of].kind;
        line("BOOKMARK", &view.render(&json!({"kind": kind, "metadata": metadata})))
    }
}
