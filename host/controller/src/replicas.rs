//! The policy sets of the replicas, so that the leader never gets ahead of the slowest one.
//!
//! ```text
//! replica ─▶ Report ─▶ Lease opgate-replica-POD, every 10 s ─▶ Replicas::live ─▶ the leader, doctor
//! ```
//!
//! A replica is alive while its lease has changed within [`REPLICA_EXPIRY`], measured as for the leader's lease: with
//! the clock of the observer, from the moment when it read the change. A new observer treats all replicas as
//! alive.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::Installation;
use crate::api::{Api, ApiError, Kind, annotation, text, version};
use crate::clock::{Clock, micro_time};
use crate::lease::Leadership;

/// Label of the leases of replicas.
pub const REPLICA_LABEL: (&str, &str) = ("opgate.dev/replica", "true");

/// Names of the leases begin like this, and end with the name of the pod.
pub const LEASE_NAME_PREFIX: &str = "opgate-replica-";

/// Interval at which a replica renews its lease.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// Time after which a lease expires.
pub const REPLICA_EXPIRY: Duration = Duration::from_secs(30);

/// The leader deletes a lease that has not changed for this long.
const DELETION_DELAY: Duration = Duration::from_secs(120);

/// Maximum bytes of an annotation that is believed.
const MAX_ANNOTATION_BYTES: usize = 256;

/// The status of a replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Its name: that of its pod.
    pub replica: String,
    /// The version of its program.
    pub version: String,
    /// `sha256:…` of the registration that belongs to what it serves.
    pub registration: String,
    /// `sha256:…` of the configuration that it serves.
    pub configuration: String,
    /// `sha256:…` of the CA bundle that it has seen.
    pub ca: String,
    /// `sha256:…` of the CA that issued the certificate that it serves.
    pub issuer: String,
    /// Errors of its cluster cache, as JSON; empty if there are none. For the doctor.
    pub state: String,
}

const VERSION_ANNOTATION: &str = "opgate.dev/version";
const REGISTRATION_ANNOTATION: &str = "opgate.dev/registration";
const CONFIGURATION_ANNOTATION: &str = "opgate.dev/configuration";
const CA_ANNOTATION: &str = "opgate.dev/ca";
const ISSUER_ANNOTATION: &str = "opgate.dev/issuer";

/// Annotation with [`ReplicaStatus::state`].
pub const STATE_ANNOTATION: &str = "opgate.dev/state";

impl ReplicaStatus {
    fn annotations(&self) -> [(&'static str, &str); 6] {
        [
            (VERSION_ANNOTATION, &self.version),
            (REGISTRATION_ANNOTATION, &self.registration),
            (CONFIGURATION_ANNOTATION, &self.configuration),
            (CA_ANNOTATION, &self.ca),
            (ISSUER_ANNOTATION, &self.issuer),
            (STATE_ANNOTATION, &self.state),
        ]
    }

    /// Parses a lease; ignores an annotation that is too long.
    #[must_use]
    pub fn of(lease: &Value) -> Option<Self> {
        let replica = text(lease, "/metadata/name").strip_prefix(LEASE_NAME_PREFIX)?.to_owned();
        let annotation_of = |key: &str| {
            let value = annotation(lease, key);
            if value.len() <= MAX_ANNOTATION_BYTES { value.to_owned() } else { String::new() }
        };
        Some(Self {
            replica,
            version: annotation_of(VERSION_ANNOTATION),
            registration: annotation_of(REGISTRATION_ANNOTATION),
            configuration: annotation_of(CONFIGURATION_ANNOTATION),
            ca: annotation_of(CA_ANNOTATION),
            issuer: annotation_of(ISSUER_ANNOTATION),
            // The leader does not need it.
            state: String::new(),
        })
    }
}

/// Renews the lease of this replica.
#[derive(Debug)]
pub struct Publisher {
    namespace: String,
    replica: String,
    /// UID of the pod, if it is known: Kubernetes deletes the lease with it.
    pod_uid: Option<String>,
    clock: Arc<dyn Clock>,
    /// Time at which the lease was renewed (Unix time).
    renewed: Gauge,
}

impl Publisher {
    /// Creates the lease of this replica. `pod` is the UID of its pod, if it is known.
    #[must_use]
    pub fn new(installation: &Installation, pod: Option<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            namespace: installation.namespace.clone(),
            replica: installation.replica.clone(),
            pod_uid: pod,
            clock,
            renewed: Gauge::default(),
        }
    }

    /// Adds its figure to those of the server.
    pub fn register(&self, registry: &mut Registry) {
        let text = "When the lease of this replica was last renewed, Unix time; 0 if it never was";
        let renewed = self.renewed.clone();
        registry.register_with_unit("lease_last_renewed", text, Unit::Seconds, renewed);
    }

    /// Returns the name of the lease. Names of pods are good names; a host may be called anything.
    fn name(&self) -> String {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
        let lower = self.replica.to_ascii_lowercase();
        let name: String = lower.chars().map(|c| if good(c) { c } else { '-' }).take(200).collect();
        format!("{LEASE_NAME_PREFIX}{}", name.trim_end_matches(['.', '-']))
    }

    /// Says it, now. `report.replica` is of no importance.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected.
    pub async fn publish(&self, api: &dyn Api, report: &ReplicaStatus) -> Result<(), ApiError> {
        let name = self.name();
        let owners = self.pod_uid.as_ref().map(
            |uid| json!([{"apiVersion": "v1", "kind": "Pod", "name": self.replica, "uid": uid}]),
        );
        let annotations: serde_json::Map<_, _> = report
            .annotations()
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        let mut lease = json!({
            "apiVersion": Kind::Lease.api_version(),
            "kind": Kind::Lease.name(),
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {crate::NAME_LABEL.0: crate::NAME_LABEL.1, REPLICA_LABEL.0: REPLICA_LABEL.1},
                "annotations": annotations,
                "ownerReferences": owners.unwrap_or_else(|| json!([])),
            },
            "spec": {
                "holderIdentity": self.replica,
                "leaseDurationSeconds": REPLICA_EXPIRY.as_secs(),
                "renewTime": micro_time(self.clock.system_time()),
            },
        });
        // The lease belongs to this replica alone: whatever else is in it is of an earlier life.
        let written = match api.get(Kind::Lease, &self.namespace, &name).await {
            Ok(old) => {
                if let Some(metadata) = lease.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("resourceVersion".to_owned(), json!(version(&old)));
                }
                api.replace(Kind::Lease, &self.namespace, lease).await.map(drop)
            }
            Err(ApiError::NotFound(_)) => {
                api.create(Kind::Lease, &self.namespace, lease).await.map(drop)
            }
            Err(trouble) => Err(trouble),
        };
        if written.is_ok() {
            let now = self.clock.system_time().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.renewed.set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        }
        written
    }

    /// Writes the status at an interval and on each change and, on the leader, removes replicas that are
    /// gone, until it is dropped. Only the first of consecutive errors is logged.
    pub async fn run(
        &self,
        api: &dyn Api,
        replicas: &mut Replicas,
        leader: &Leadership,
        mut reports: watch::Receiver<ReplicaStatus>,
    ) {
        let mut trouble = false;
        loop {
            let report = reports.borrow_and_update().clone();
            let mut done = self.publish(api, &report).await;
            if leader.is_leader() && done.is_ok() {
                done = replicas.delete_expired(api).await;
            }
            match done {
                Ok(()) => trouble = false,
                Err(error) => {
                    if !std::mem::replace(&mut trouble, true) {
                        let lease = self.name();
                        tracing::warn!(%error, lease, "the lease of this replica cannot be renewed");
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RENEW_INTERVAL) => {}
                Ok(()) = reports.changed() => {}
            }
        }
    }

    /// Takes it back: this replica ends.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected: then the lease expires.
    pub async fn withdraw(&self, api: &dyn Api) -> Result<(), ApiError> {
        let name = self.name();
        let lease = api.get(Kind::Lease, &self.namespace, &name).await?;
        api.delete(Kind::Lease, &self.namespace, &name, version(&lease)).await
    }
}

/// The replicas that were alive when their leases were read last. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct KnownReplicas(Arc<Mutex<Vec<ReplicaStatus>>>);

impl KnownReplicas {
    /// Returns a copy of the list, by name.
    #[must_use]
    pub fn list(&self) -> Vec<ReplicaStatus> {
        self.0.lock().clone()
    }
}

/// The replicas that can be seen.
#[derive(Debug)]
pub struct Replicas {
    namespace: String,
    clock: Arc<dyn Clock>,
    /// By name of the lease: its version, and when it was seen first.
    observed: HashMap<String, (String, Duration)>,
    known: KnownReplicas,
}

impl Replicas {
    /// Creates it for an installation.
    #[must_use]
    pub fn new(installation: &Installation, clock: Arc<dyn Clock>) -> Self {
        Self {
            namespace: installation.namespace.clone(),
            clock,
            observed: HashMap::new(),
            known: KnownReplicas::default(),
        }
    }

    /// Returns the replicas that are alive, as of the last read.
    #[must_use]
    pub fn known(&self) -> KnownReplicas {
        self.known.clone()
    }

    /// Returns the replicas that are alive, by name.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected.
    pub async fn live(&mut self, api: &dyn Api) -> Result<Vec<ReplicaStatus>, ApiError> {
        self.list_leases(api).await?;
        Ok(self.known.list())
    }

    /// Deletes the leases of replicas that have long gone. For the leader.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected.
    pub async fn delete_expired(&mut self, api: &dyn Api) -> Result<(), ApiError> {
        for (lease, age) in self.list_leases(api).await? {
            if age < DELETION_DELAY {
                continue;
            }
            let name = text(&lease, "/metadata/name");
            match api.delete(Kind::Lease, &self.namespace, name, version(&lease)).await {
                // It was recreated, or deleted.
                Err(trouble) if trouble.is_race() => {}
                Err(ApiError::NotFound(_)) | Ok(()) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// Returns all leases of replicas, and for how long each has not changed.
    async fn list_leases(&mut self, api: &dyn Api) -> Result<Vec<(Value, Duration)>, ApiError> {
        let leases = api.list(Kind::Lease, &self.namespace, REPLICA_LABEL).await?;
        let now = self.clock.elapsed();
        let mut observed = HashMap::new();
        let mut seen = Vec::new();
        for lease in leases {
            let name = text(&lease, "/metadata/name").to_owned();
            if !name.starts_with(LEASE_NAME_PREFIX) {
                continue;
            }
            let since = match self.observed.get(&name) {
                Some((known, since)) if known == version(&lease) => *since,
                _ => now,
            };
            observed.insert(name, (version(&lease).to_owned(), since));
            seen.push((lease, now.saturating_sub(since)));
        }
        self.observed = observed;
        let live = seen.iter().filter(|(_, age)| *age < REPLICA_EXPIRY);
        let mut live: Vec<_> = live.filter_map(|(lease, _)| ReplicaStatus::of(lease)).collect();
        live.sort_by(|a, b| a.replica.cmp(&b.replica));
        *self.known.0.lock() = live;
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeApiServer, FakeClock, run_ready};

    fn installation(replica: &str) -> Installation {
        Installation {
            namespace: "opgate-system".to_owned(),
            service: "opgate".to_owned(),
            replica: replica.to_owned(),
        }
    }

    #[test]
    fn replica_is_live_while_it_renews_its_lease() {
        let fake = FakeApiServer::default();
        let line = fake.client("any");
        let clock = FakeClock::at(Duration::from_secs(1_700_000_000));
        let mut replicas = Replicas::new(&installation("a"), clock.clone());
        let report = |name: &str| ReplicaStatus {
            replica: name.to_owned(),
            version: "0.1.0".to_owned(),
            registration: format!("sha256:{name}"),
            ca: "sha256:ca".to_owned(),
            ..ReplicaStatus::default()
        };
        let of = |name: &str| {
            Publisher::new(&installation(name), Some(format!("uid-{name}")), clock.clone())
        };
        let (a, b) = (of("a"), of("b"));
        run_ready(a.publish(&line, &report("a"))).unwrap();
        run_ready(b.publish(&line, &report("b"))).unwrap();
        assert_eq!(run_ready(replicas.live(&line)).unwrap(), [report("a"), report("b")]);
        assert_eq!(a.renewed.get(), 1_700_000_000);
        let lease = fake.stored(Kind::Lease, "opgate-system", "opgate-replica-a").unwrap();
        assert_eq!(text(&lease, "/metadata/ownerReferences/0/uid"), "uid-a");
        for _ in 0..20 {
            clock.advance(RENEW_INTERVAL);
            run_ready(a.publish(&line, &report("a"))).unwrap();
            run_ready(replicas.live(&line)).unwrap();
            run_ready(replicas.delete_expired(&line)).unwrap();
        }
        assert_eq!(run_ready(replicas.live(&line)).unwrap(), [report("a")]);
        assert!(fake.stored(Kind::Lease, "opgate-system", "opgate-replica-b").is_none());
        // It returns, changes, and stops.
        run_ready(b.publish(&line, &ReplicaStatus { version: "0.2.0".to_owned(), ..report("b") }))
            .unwrap();
        assert_eq!(run_ready(replicas.live(&line)).unwrap()[1].version, "0.2.0");
        run_ready(b.withdraw(&line)).unwrap();
        assert_eq!(run_ready(replicas.live(&line)).unwrap(), [report("a")]);
    }

    #[test]
    fn lease_annotations_are_bounded() {
        let lease = |name: &str, value: &str| json!({"metadata": {"name": name, "annotations": {VERSION_ANNOTATION: value, CA_ANNOTATION: ["no text"]}}});
        assert_eq!(ReplicaStatus::of(&lease("other", "1")), None);
        let report = ReplicaStatus::of(&lease("opgate-replica-x", &"1".repeat(300))).unwrap();
        assert_eq!(report, ReplicaStatus { replica: "x".to_owned(), ..ReplicaStatus::default() });
    }
}
