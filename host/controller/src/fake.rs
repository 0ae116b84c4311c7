//! An API server in memory, and clocks that a test moves.
//!
//! Responses are immediate, so that a test needs neither a runtime nor time. A client ([`Fake::client`]) can
//! be cut off, and its requests can be executed without a response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, ApiFuture, Kind, label, text, version};
use crate::clock::Clock;

/// A clock that a test moves.
#[derive(Debug, Default)]
pub(crate) struct FakeClock(Mutex<(Duration, Duration)>);

impl FakeClock {
    /// Creates one whose calendar shows this Unix time.
    #[must_use]
    pub(crate) fn at(calendar: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new((Duration::ZERO, calendar))))
    }

    /// Advances the time.
    pub(crate) fn advance(&self, time: Duration) {
        let mut now = self.0.lock();
        now.0 += time;
        now.1 += time;
    }

    /// Sets the calendar, as a user would.
    pub(crate) fn set(&self, calendar: Duration) {
        self.0.lock().1 = calendar;
    }
}

impl Clock for FakeClock {
    fn elapsed(&self) -> Duration {
        self.0.lock().0
    }

    fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + self.0.lock().1
    }
}

type Key = (Kind, String, String);

/// Outcome of a client's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Connectivity {
    /// They are answered.
    #[default]
    Up,
    /// They do not arrive.
    Down,
    /// They arrive, and the answers are lost.
    ResponsesLost,
}

#[derive(Debug, Default)]
struct Store {
    version: u64,
    objects: BTreeMap<Key, Value>,
    connectivity: BTreeMap<String, Connectivity>,
    date: Option<SystemTime>,
    forbidden: Vec<Kind>,
    /// A kind of which nothing may be created.
    uncreatable: Option<Kind>,
    writes: Vec<(String, Kind, String)>,
    /// After this number of writes that are not for leases, this is the outcome of requests of the last
    /// writer.
    cut_off_after: Option<(usize, Connectivity)>,
}

/// The server. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeApiServer(Arc<Mutex<Store>>);

/// A client of it.
#[derive(Debug, Clone)]
pub(crate) struct FakeApiClient {
    server: FakeApiServer,
    name: String,
}

impl FakeApiServer {
    /// Returns a client of this name.
    #[must_use]
    pub(crate) fn client(&self, name: &str) -> FakeApiClient {
        FakeApiClient { server: self.clone(), name: name.to_owned() }
    }

    /// Sets the outcome of a client's future requests.
    pub(crate) fn set_connectivity(&self, client: &str, connectivity: Connectivity) {
        self.0.lock().connectivity.insert(client.to_owned(), connectivity);
    }

    /// Sets the calendar.
    pub(crate) fn set_date(&self, date: SystemTime) {
        self.0.lock().date = Some(date);
    }

    /// Forbids a kind to all, or allows it again.
    pub(crate) fn forbid(&self, kind: Kind, forbidden: bool) {
        let kinds = &mut self.0.lock().forbidden;
        kinds.retain(|known| *known != kind);
        if forbidden {
            kinds.push(kind);
        }
    }

    /// Forbids to create objects of a kind.
    pub(crate) fn forbid_creation(&self, kind: Kind) {
        self.0.lock().uncreatable = Some(kind);
    }

    /// Returns a stored object.
    #[must_use]
    pub(crate) fn stored(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        self.0.lock().objects.get(&key(kind, namespace, name)).cloned()
    }

    /// Stores an object without a precondition on its version.
    pub(crate) fn put(&self, kind: Kind, namespace: &str, object: Value) {
        let name = text(&object, "/metadata/name").to_owned();
        self.0.lock().store(kind, namespace, &name, object);
    }

    /// Removes an object without a precondition on its version.
    pub(crate) fn remove(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.0.lock().objects.remove(&key(kind, namespace, name)).is_some()
    }

    /// Cuts off the last writer after this number of writes that are not for leases.
    pub(crate) fn cut_off_after(&self, writes: usize, connectivity: Connectivity) {
        self.0.lock().cut_off_after = Some((writes, connectivity));
    }

    /// Reports whether that has not happened yet.
    pub(crate) fn has_pending_cut_off(&self) -> bool {
        self.0.lock().cut_off_after.is_some()
    }

    /// Returns all writes so far: client, kind, name.
    #[must_use]
    pub(crate) fn writes(&self) -> Vec<(String, Kind, String)> {
        self.0.lock().writes.clone()
    }
}

fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    let of_cluster = kind == Kind::ValidatingWebhookConfiguration;
    let namespace = if of_cluster { "" } else { namespace };
    (kind, namespace.to_owned(), name.to_owned())
}

impl Store {
    fn written(&mut self, client: &str, kind: Kind, name: &str) {
        self.writes.push((client.to_owned(), kind, name.to_owned()));
        if kind == Kind::Lease {
            return;
        }
        if let Some((left, connectivity)) = &mut self.cut_off_after {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.connectivity.insert(client.to_owned(), *connectivity);
                self.cut_off_after = None;
            }
        }
    }

    fn store(&mut self, kind: Kind, namespace: &str, name: &str, mut object: Value) -> Value {
        self.version += 1;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), json!(self.version.to_string()));
        }
        self.objects.insert(key(kind, namespace, name), object.clone());
        object
    }
}

impl FakeApiClient {
    fn request<'a, T: Send + 'a>(
        &self,
        kind: Kind,
        operation: impl FnOnce(&mut Store, &str) -> Result<T, ApiError>,
    ) -> ApiFuture<'a, T> {
        let mut store = self.server.0.lock();
        let connectivity = store.connectivity.get(&self.name).copied().unwrap_or_default();
        let lost = || ApiError::Unavailable("no answer".to_owned());
        let result = match connectivity {
            Connectivity::Down => Err(lost()),
            _ if store.forbidden.contains(&kind) => {
                Err(ApiError::Forbidden(kind.resource().to_owned()))
            }
            Connectivity::Up => operation(&mut store, &self.name),
            Connectivity::ResponsesLost => operation(&mut store, &self.name).and(Err(lost())),
        };
        Box::pin(std::future::ready(result))
    }
}

fn missing(name: &str) -> ApiError {
    ApiError::NotFound(format!("{name} not found"))
}

impl Api for FakeApiClient {
    fn date(&self) -> Option<SystemTime> {
        self.server.0.lock().date
    }

    fn get<'a>(&'a self, kind: Kind, namespace: &'a str, name: &'a str) -> ApiFuture<'a, Value> {
        self.request(kind, |store, _| {
            store.objects.get(&key(kind, namespace, name)).cloned().ok_or_else(|| missing(name))
        })
    }

    fn list<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        (name, value): (&'a str, &'a str),
    ) -> ApiFuture<'a, Vec<Value>> {
        self.request(kind, |store, _| {
            let place = key(kind, namespace, "").1;
            let of_kind = store.objects.iter().filter(|(key, _)| key.0 == kind && key.1 == place);
            let labelled = of_kind.filter(|(_, object)| label(object, name) == value);
            Ok(labelled.map(|(_, object)| object.clone()).collect())
        })
    }

    fn create<'a>(&'a self, kind: Kind, namespace: &'a str, object: Value) -> ApiFuture<'a, Value> {
        let name = text(&object, "/metadata/name").to_owned();
        self.request(kind, |store, client| {
            if store.uncreatable == Some(kind) {
                return Err(ApiError::Forbidden(kind.resource().to_owned()));
            }
            if store.objects.contains_key(&key(kind, namespace, &name)) {
                return Err(ApiError::AlreadyExists(format!("{name} already exists")));
            }
            store.written(client, kind, &name);
            Ok(store.store(kind, namespace, &name, object))
        })
    }

    fn replace<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        object: Value,
    ) -> ApiFuture<'a, Value> {
        let name = text(&object, "/metadata/name").to_owned();
        self.request(kind, |store, client| {
            let old = store.objects.get(&key(kind, namespace, &name));
            let old = old.ok_or_else(|| missing(&name))?;
            if version(old) != version(&object) {
                return Err(ApiError::Conflict(format!("{name} has been modified")));
            }
            store.written(client, kind, &name);
            Ok(store.store(kind, namespace, &name, object))
        })
    }

    fn merge<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        name: &'a str,
        patch: Value,
    ) -> ApiFuture<'a, Value> {
        self.request(kind, |store, client| {
            let old = store.objects.get(&key(kind, namespace, name));
            let mut new = old.ok_or_else(|| missing(name))?.clone();
            if version(&new) != version(&patch) {
                return Err(ApiError::Conflict(format!("{name} has been modified")));
            }
            let members = patch.as_object().into_iter().flatten();
            for (member, value) in members.filter(|(member, _)| *member != "metadata") {
                new[member] = value.clone();
            }
            store.written(client, kind, name);
            Ok(store.store(kind, namespace, name, new))
        })
    }

    fn delete<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        name: &'a str,
        at: &'a str,
    ) -> ApiFuture<'a, ()> {
        self.request(kind, |store, client| {
            let old = store.objects.get(&key(kind, namespace, name));
            if version(old.ok_or_else(|| missing(name))?) != at {
                return Err(ApiError::Conflict(format!("{name} has been modified")));
            }
            store.written(client, kind, name);
            store.objects.remove(&key(kind, namespace, name));
            Ok(())
        })
    }
}

/// Returns the result of a future that waits for nothing.
pub(crate) fn run_ready<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).expect("nothing to wait for")
}
