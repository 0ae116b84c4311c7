//! Prometheus metrics. The number of labels is limited: configured policies and rules, classes of
//! policy errors, and HTTP codes of the server.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use opgate_certs::ClientRejection;
use opgate_engine::CallError;
use parking_lot::{Mutex, RwLock};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use self::exemplars::TraceLabels;
pub(super) use self::exemplars::accepts_exemplars;
use self::exemplars::without_exemplars;
use self::ledger::LedgerMetrics;
pub(super) use self::request_totals::RequestTotals;
use self::series::{HasPolicyLabel, PolicyCounters};
use super::body_limiter::BodyError;
use super::bucket::TokenBucket;
use super::request_trace::ResponseTime;
use super::state::{reservation_usages, usage_percent};
use opgate_admission::cluster::ClusterState;
use opgate_admission::evaluation::Observer;
use opgate_admission::policy::{Decision, Policy, PolicySet, Violation};
use opgate_supervise::Supervisor;

mod exemplars;
mod ledger;
mod request_totals;
mod series;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CodeLabel {
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PolicyLabel {
    policy: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PolicyErrorLabels {
    policy: String,
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ViolationLabels {
    policy: String,
    rule: String,
    /// Empty for cluster-scoped objects.
    namespace: String,
    effect: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnnotationLabels {
    policy: String,
    key: String,
}

/// Maximum number of series of violations, and of one namespace. Violations of further namespaces count as those
/// of `OTHER`: tenants can create namespaces, and determine the rules that they violate.
const MAX_VIOLATION_SERIES: usize = 1_000;
const MAX_NAMESPACE_SERIES: usize = 100;

/// The label of violations and audit annotations beyond the limits. No Namespace and no annotation has this name.
const OTHER: &str = "_other";

/// Maximum bytes of the name of a Namespace.
const MAX_NAMESPACE_BYTES: usize = 63;

/// Maximum number of different audit annotations of a policy that are counted by name. A policy
/// determines its annotations, but not their memory.
const MAX_ANNOTATION_KEYS: usize = 16;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabel {
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DroppedRuleLabels {
    policy: String,
    rule: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DigestLabel {
    digest: String,
}

impl HasPolicyLabel for PolicyErrorLabels {
    fn policy(&self) -> &str {
        &self.policy
    }
}

impl HasPolicyLabel for ViolationLabels {
    fn policy(&self) -> &str {
        &self.policy
    }
}

impl HasPolicyLabel for AnnotationLabels {
    fn policy(&self) -> &str {
        &self.policy
    }
}

impl HasPolicyLabel for DroppedRuleLabels {
    fn policy(&self) -> &str {
        &self.policy
    }
}

/// 5 µs to 10 s: a call of a policy takes tens of microseconds, a deadline is tens of milliseconds.
const DURATION_BUCKETS: [f64; 19] = [
    5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5,
    1.0, 2.0, 10.0,
];

/// Maximum number of texts that are created at once, and in a second. Further requests get the
/// last one: newer values are not needed, and clients can request them at will.
const MAX_TEXTS_AT_ONCE: u64 = 20;
const MAX_TEXTS_PER_SECOND: u64 = 10;

/// Metrics of other components that the server returns with its metrics.
#[derive(Clone)]
pub struct ExternalMetrics(Arc<dyn Fn(&mut Registry) + Send + Sync>);

impl std::fmt::Debug for ExternalMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalMetrics").finish_non_exhaustive()
    }
}

impl ExternalMetrics {
    /// Creates metrics that `register` adds. Their names get the prefix of the server's.
    pub fn new(register: impl Fn(&mut Registry) + Send + Sync + 'static) -> Self {
        Self(Arc::new(register))
    }

    fn register(&self, registry: &mut Registry) {
        (self.0)(registry);
    }
}

/// The last text, shared by all requests for it.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricsText {
    pub(super) with_exemplars: Bytes,
    /// The same bytes if there are no exemplars.
    pub(super) plain: Bytes,
}

/// All metrics of a server.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<CodeLabel, Counter>,
    duration: HistogramWithExemplars<TraceLabels>,
    durations: Family<PolicyLabel, Histogram, fn() -> Histogram>,
    /// Durations of evaluations by name, for the active policies.
    evaluations: RwLock<HashMap<String, Histogram>>,
    up: Family<PolicyLabel, Gauge>,
    /// Policies of earlier sets, which may have been dropped, and broken ones.
    former_policies: Mutex<BTreeSet<String>>,
    policy_errors: PolicyCounters<PolicyErrorLabels>,
    violations: PolicyCounters<ViolationLabels>,
    dropped: PolicyCounters<DroppedRuleLabels>,
    audit_annotations: PolicyCounters<AnnotationLabels>,
    /// Audit annotations that are counted by name, by policy.
    annotation_keys: Mutex<HashMap<String, BTreeSet<String>>>,
    pub(super) shed: Counter,
    bodies_ended: Family<ReasonLabel, Counter>,
    pub(super) in_flight: Gauge,
    pub(super) connections: Gauge,
    pub(super) evicted: Counter,
    pub(super) memory_used: Gauge,
    pub(super) memory_limit: Gauge,
    handshake_failures: Counter,
    client_rejections: Family<ReasonLabel, Counter>,
    client_ca_reloads: Family<ResultLabel, Counter>,
    pub(super) panics: Counter,
    reloads: Family<ResultLabel, Counter>,
    not_after: Gauge,
    configuration: ConfigurationMetrics,
    cluster: ClusterMetrics,
    last_text: Mutex<MetricsText>,
    texts: TokenBucket,
}

/// The active configuration, and whether it is that of the files.
#[derive(Debug, Default)]
struct ConfigurationMetrics {
    reloads: Family<ResultLabel, Counter>,
    info: Family<DigestLabel, Gauge>,
    /// The digest that `info` has.
    digest: Mutex<Option<DigestLabel>>,
    stale: Gauge,
    loaded_at: Gauge,
}

impl ConfigurationMetrics {
    fn register(&self, registry: &mut Registry) {
        let text = "Reloads of the configuration, by result";
        registry.register("configuration_reloads", text, self.reloads.clone());
        for result in ["replaced", "failed"] {
            drop(self.reloads.get_or_create(&ResultLabel { result }));
        }
        let text = "1 for the active configuration, by its digest";
        registry.register("configuration_info", text, self.info.clone());
        let text =
            "Whether the files hold an invalid configuration, and the last good one is active";
        registry.register("configuration_stale", text, self.stale.clone());
        let text = "When the active configuration was loaded, Unix time";
        let loaded = self.loaded_at.clone();
        registry.register_with_unit("configuration_loaded_timestamp", text, Unit::Seconds, loaded);
    }

    fn set_active(&self, digest: &str, since: SystemTime) {
        let digest = DigestLabel { digest: digest.to_owned() };
        let mut known = self.digest.lock();
        if let Some(old) = known.replace(digest.clone()) {
            self.info.remove(&old);
        }
        self.info.get_or_create(&digest).set(1);
        self.stale.set(0);
        self.loaded_at.set(seconds(since));
    }
}

/// The objects that policies read from the cluster, by resource.
#[derive(Debug, Default)]
struct ClusterMetrics {
    /// The resources that have series.
    known: Mutex<BTreeSet<String>>,
    ready: Family<ResourceLabel, Gauge>,
    objects: Family<ResourceLabel, Gauge>,
    bytes: Family<ResourceLabel, Gauge>,
    last_event: Family<ResourceLabel, Gauge>,
    age: Family<ResourceLabel, Gauge>,
    polled: Family<ResourceLabel, Gauge>,
    interrupted: Family<ResourceLabel, Gauge>,
    unreadable: Family<ResourceLabel, Gauge>,
    by_name: Family<ResourceLabel, Gauge>,
    reservations: Family<ResourceLabel, Gauge>,
    reservation_ratio: Family<ResourceLabel, Gauge<f64, AtomicU64>>,
    unauthorized: Family<ResourceLabel, Gauge>,
    memory: Gauge,
    memory_limit: Gauge,
    ledger: LedgerMetrics,
}

impl ClusterMetrics {
    fn register(&self, registry: &mut Registry) {
        let text = "Whether the cluster cache of a resource is synced and not stale";
        registry.register("cluster_cache_ready", text, self.ready.clone());
        registry.register("cluster_cache_objects", "Objects in memory", self.objects.clone());
        let text = "Bytes of the objects in memory";
        registry.register_with_unit("cluster_cache_size", text, Unit::Bytes, self.bytes.clone());
        let text = "Time of the last list or event, Unix time";
        registry.register_with_unit(
            "cluster_cache_last_event_timestamp",
            text,
            Unit::Seconds,
            self.last_event.clone(),
        );
        let text = "Time since the last report of the API server for a resource";
        registry.register_with_unit("cluster_cache_age", text, Unit::Seconds, self.age.clone());
        let text = "Whether a resource is polled, because it cannot be watched";
        registry.register("cluster_cache_polled", text, self.polled.clone());
        let text = "Whether the watch of a resource has failed for longer than some seconds";
        registry.register("cluster_cache_watch_failing", text, self.interrupted.clone());
        let text = "Unreadable objects, and objects for which there is no memory";
        registry.register("cluster_cache_unreadable_objects", text, self.unreadable.clone());
        let text = "Objects for which there is no memory, so that only their names are kept";
        registry.register("cluster_cache_name_only_objects", text, self.by_name.clone());
        let text = "Memory of the objects of all resources";
        let memory = self.memory.clone();
        registry.register_with_unit("cluster_cache_memory", text, Unit::Bytes, memory);
        let text = "Maximum memory of the objects of all resources";
        let memory_limit = self.memory_limit.clone();
        registry.register_with_unit("cluster_cache_memory_limit", text, Unit::Bytes, memory_limit);
        let text = "Allowed changes that are not known to be stored";
        registry.register("reservations", text, self.reservations.clone());
        let text = "Share of its reservation limit that the tenant with the most reservations uses";
        registry.register("reservation_ratio", text, self.reservation_ratio.clone());
        let text = "Whether the API server rejects the token of this server for a resource";
        registry.register("cluster_cache_unauthorized", text, self.unauthorized.clone());
        self.ledger.register(registry);
    }

    fn update(&self, cluster: &ClusterState) {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let now = cluster.caches().iter().map(|cache| cache.name().to_owned()).collect();
        self.ledger.update(cluster.ledger_status());
        let (memory, limit) = cluster.memory();
        self.memory.set(number(memory));
        self.memory_limit.set(if limit == usize::MAX { 0 } else { number(limit) });
        let before = mem::replace(&mut *self.known.lock(), now);
        for resource in before.into_iter().filter(|old| !self.known.lock().contains(old)) {
            self.remove_resource(&ResourceLabel { resource });
        }
        let mut fullest: BTreeMap<String, usize> = BTreeMap::new();
        for usage in reservation_usages(cluster) {
            let percent = usage_percent(&usage);
            let known = fullest.entry(usage.resource).or_default();
            *known = percent.max(*known);
        }
        for cache in cluster.caches() {
            let status = cache.status();
            let read = ResourceLabel { resource: cache.name().to_owned() };
            self.ready.get_or_create(&read).set(i64::from(status.cache_status.is_ready()));
            self.objects.get_or_create(&read).set(number(status.objects));
            self.bytes.get_or_create(&read).set(number(status.bytes));
            self.last_event.get_or_create(&read).set(status.last_event.map_or(0, seconds));
            if let Some(age) = status.since_contact {
                let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
                self.age.get_or_create(&read).set(age);
            }
            self.polled.get_or_create(&read).set(i64::from(status.polled));
            let interrupted = status.interrupted.is_some();
            self.interrupted.get_or_create(&read).set(i64::from(interrupted));
            self.unreadable.get_or_create(&read).set(number(status.unreadable));
            self.by_name.get_or_create(&read).set(number(status.name_only));
            self.reservations.get_or_create(&read).set(number(status.reservations));
            let percent = fullest.get(cache.name()).copied().unwrap_or_default();
            let ratio = f64::from(u32::try_from(percent).unwrap_or(u32::MAX)) / 100.0;
            self.reservation_ratio.get_or_create(&read).set(ratio);
            self.unauthorized.get_or_create(&read).set(i64::from(status.unauthorized));
        }
    }

    /// Ends the series of a resource that is no longer read.
    fn remove_resource(&self, read: &ResourceLabel) {
        for family in [
            &self.ready,
            &self.objects,
            &self.bytes,
            &self.last_event,
            &self.age,
            &self.polled,
            &self.interrupted,
            &self.unreadable,
            &self.by_name,
            &self.reservations,
            &self.unauthorized,
        ] {
            family.remove(read);
        }
        self.reservation_ratio.remove(read);
    }
}

fn seconds(at: SystemTime) -> i64 {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Counts in a gauge while it exists, also if the client disconnects and everything is dropped.
pub(super) struct GaugeGuard<'g>(&'g Gauge);

impl<'g> GaugeGuard<'g> {
    pub(super) fn new(gauge: &'g Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(super) fn new(supervisor: &Supervisor, external: &[ExternalMetrics]) -> Self {
        let mut registry = Registry::with_prefix("opgate");
        let requests = Family::<CodeLabel, Counter>::default();
        registry.register("requests", "Responses by HTTP code", requests.clone());
        let duration = HistogramWithExemplars::new(DURATION_BUCKETS.into_iter());
        let text = "Time from the head of a request to its response";
        registry.register_with_unit("request_duration", text, Unit::Seconds, duration.clone());
        let new: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        let durations =
            Family::<PolicyLabel, Histogram, fn() -> Histogram>::new_with_constructor(new);
        let text = "Time of a policy call, including the wait for a permit";
        registry.register_with_unit("evaluation_duration", text, Unit::Seconds, durations.clone());
        let up = Family::<PolicyLabel, Gauge>::default();
        registry.register("policy_up", "Whether a configured policy serves", up.clone());
        let faults = PolicyCounters::<PolicyErrorLabels>::default();
        registry.register(
            "policy_errors",
            "Policy evaluations that ended in a policy error",
            faults.family(),
        );
        let violations = PolicyCounters::<ViolationLabels>::default();
        registry.register("violations", "Rule violations by effect", violations.family());
        let dropped = PolicyCounters::<DroppedRuleLabels>::default();
        let text = "Advisory rules dropped because the call failed with them";
        registry.register("rules_dropped", text, dropped.family());
        let notes = PolicyCounters::<AnnotationLabels>::default();
        let text = "Audit annotations of policies, by key";
        registry.register("audit_annotations", text, notes.family());
        let shed = Counter::default();
        registry.register("requests_shed", "Requests with the response 503", shed.clone());
        let bodies_ended = Family::<ReasonLabel, Counter>::default();
        let text = "Bodies that the server ended while they arrived, by reason";
        registry.register("bodies_ended", text, bodies_ended.clone());
        for reason in [BodyError::Slow, BodyError::Evicted, BodyError::Full].map(BodyError::as_str)
        {
            drop(bodies_ended.get_or_create(&ReasonLabel { reason }));
        }
        let in_flight = Gauge::default();
        registry.register("requests_in_flight", "Requests in progress", in_flight.clone());
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        let evicted = Counter::default();
        let text = "Connections that the server closed to free slots";
        registry.register("connections_evicted", text, evicted.clone());
        let memory_used = Gauge::default();
        let text = "Memory of requests, from their body to their response";
        registry.register_with_unit("request_memory", text, Unit::Bytes, memory_used.clone());
        let memory_limit = Gauge::default();
        let text = "Maximum memory of requests";
        let limit = memory_limit.clone();
        registry.register_with_unit("request_memory_limit", text, Unit::Bytes, limit);
        let handshake_failures = Counter::default();
        let text = "TLS handshakes that failed or timed out";
        registry.register("tls_handshake_failures", text, handshake_failures.clone());
        let client_rejections = Family::<ReasonLabel, Counter>::default();
        let text = "Clients rejected in the handshake, by reason";
        registry.register("client_rejections", text, client_rejections.clone());
        for refusal in ClientRejection::ALL {
            drop(client_rejections.get_or_create(&ReasonLabel { reason: refusal.as_str() }));
        }
        let text = "Tasks that failed and were restarted";
        registry.register("task_restarts", text, supervisor.restarts());
        let panics = Counter::default();
        registry.register(
            "panics",
            "Panics of the host; the request gets the response 500, or is only not reported",
            panics.clone(),
        );
        let reloads = Family::<ResultLabel, Counter>::default();
        let text = "Reloads of the certificate, by result";
        registry.register("certificate_reloads", text, reloads.clone());
        let client_ca_reloads = Family::<ResultLabel, Counter>::default();
        let text = "Reloads of the CA bundle for clients, by result";
        registry.register("client_ca_reloads", text, client_ca_reloads.clone());
        for result in ["replaced", "failed"] {
            drop(reloads.get_or_create(&ResultLabel { result }));
            drop(client_ca_reloads.get_or_create(&ResultLabel { result }));
        }
        let not_after = Gauge::default();
        let text = "End of the serving certificate's validity, Unix time";
        registry.register_with_unit(
            "certificate_expiration_timestamp",
            text,
            Unit::Seconds,
            not_after.clone(),
        );
        let configuration = ConfigurationMetrics::default();
        configuration.register(&mut registry);
        let cluster_metrics = ClusterMetrics::default();
        cluster_metrics.register(&mut registry);
        for figures in external {
            figures.register(&mut registry);
        }
        let info = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "This build", info);
        Self {
            registry,
            requests,
            duration,
            durations,
            evaluations: RwLock::default(),
            up,
            former_policies: Mutex::default(),
            policy_errors: faults,
            violations,
            dropped,
            audit_annotations: notes,
            annotation_keys: Mutex::default(),
            shed,
            bodies_ended,
            in_flight,
            connections,
            evicted,
            memory_used,
            memory_limit,
            handshake_failures,
            client_rejections,
            client_ca_reloads,
            panics,
            reloads,
            not_after,
            configuration,
            cluster: cluster_metrics,
            last_text: Mutex::default(),
            texts: TokenBucket::new(MAX_TEXTS_AT_ONCE, MAX_TEXTS_PER_SECOND),
        }
    }

    /// Counts a body that was not read to its end.
    pub(super) fn count_body_error(&self, ended: BodyError) {
        self.bodies_ended.get_or_create(&ReasonLabel { reason: ended.as_str() }).inc();
    }

    /// Counts for the policies of another set from now on. The series of policies in both sets
    /// continue. `since` is the time when its configuration, of this digest, became active.
    pub(super) fn set_active(&self, set: &PolicySet, digest: &str, since: SystemTime) {
        let named = |policy: &str| PolicyLabel { policy: policy.to_owned() };
        let evaluations = set.policies().iter().map(|policy| {
            let duration = self.durations.get_or_create_owned(&named(&policy.name));
            (policy.name.clone(), duration)
        });
        let evaluations: HashMap<_, _> = evaluations.collect();
        for policy in set.policies() {
            self.up.get_or_create(&named(&policy.name)).set(1);
            // From the start, so that the first increase is visible.
            for cause in CallError::CAUSES {
                let policy = policy.name.clone();
                self.policy_errors.start(PolicyErrorLabels { policy, cause });
            }
        }
        for broken in set.broken() {
            self.up.get_or_create(&named(&broken.name)).set(0);
            let policy = broken.name.clone();
            self.policy_errors.start(PolicyErrorLabels { policy, cause: "load" });
        }
        let old = mem::replace(&mut *self.evaluations.write(), evaluations);
        let broken = set.broken().iter().map(|broken| broken.name.clone());
        self.former_policies.lock().extend(old.into_keys().chain(broken));
        self.configuration.set_active(digest, since);
    }

    /// Ends the series of policies that this set does not have. Their last calls have ended.
    pub(super) fn remove_policies_not_in(&self, set: &PolicySet) {
        let is_there = |policy: &str| has_policy(set, policy);
        self.policy_errors.retain_policies(is_there);
        self.violations.retain_policies(is_there);
        self.dropped.retain_policies(is_there);
        self.audit_annotations.retain_policies(is_there);
        self.annotation_keys.lock().retain(|policy, _| is_there(policy));
        self.former_policies.lock().retain(|policy| {
            let stays = is_there(policy);
            if !stays {
                let named = PolicyLabel { policy: policy.clone() };
                self.durations.remove(&named);
                self.up.remove(&named);
            }
            stays
        });
    }

    /// Counts a reload: `replaced` or `failed`.
    pub(super) fn count_configuration_reload(&self, result: &'static str) {
        self.configuration.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    pub(super) fn set_configuration_stale(&self, stale: bool) {
        self.configuration.stale.set(i64::from(stale));
    }

    pub(super) fn count_response(&self, code: u16, time: &ResponseTime<'_>) {
        self.requests.get_or_create(&CodeLabel { code }).inc();
        let exemplar = time.trace.map(|trace| {
            let (trace_id, span_id) = trace.ids();
            TraceLabels { trace_id, span_id }
        });
        let now = exemplar.is_some().then(SystemTime::now);
        self.duration.observe(time.duration.as_secs_f64(), exemplar, now);
    }

    /// Counts a decision on an object of this namespace, which is empty for cluster-scoped objects.
    pub(super) fn count_decision(&self, namespace: &str, decision: &Decision) {
        for violation in &decision.violations {
            self.count_violation(namespace, violation);
        }
        for fault in &decision.policy_errors {
            let labels = PolicyErrorLabels { policy: fault.policy.clone(), cause: fault.class };
            self.policy_errors.count(labels);
        }
        for dropped in &decision.dropped {
            for rule in &dropped.rules {
                let labels =
                    DroppedRuleLabels { policy: dropped.policy.clone(), rule: rule.clone() };
                self.dropped.count(labels);
            }
        }
        // Annotations of the host only have the name of the policy.
        let notes = decision.audit_annotations.keys().filter_map(|key| key.split_once('.'));
        for (policy, note) in notes {
            let labels = AnnotationLabels {
                policy: policy.to_owned(),
                key: self.annotation_label(policy, note),
            };
            self.audit_annotations.count(labels);
        }
    }

    fn count_violation(&self, namespace: &str, violation: &Violation) {
        let is_name = namespace.len() <= MAX_NAMESPACE_BYTES;
        let labels = ViolationLabels {
            policy: violation.policy.clone(),
            rule: violation.rule.clone(),
            namespace: if is_name { namespace } else { OTHER }.to_owned(),
            effect: violation.effect.as_str(),
        };
        let has_room = |known: &HashSet<ViolationLabels>| {
            let of_namespace = |other: &&ViolationLabels| other.namespace == labels.namespace;
            known.len() < MAX_VIOLATION_SERIES
                && known.iter().filter(of_namespace).count() < MAX_NAMESPACE_SERIES
        };
        if !is_name || self.violations.has_room_for(&labels, has_room) {
            self.violations.count(labels);
        } else {
            self.violations.count(ViolationLabels { namespace: OTHER.to_owned(), ..labels });
        }
    }

    /// The name under which an annotation is counted.
    fn annotation_label(&self, policy: &str, note: &str) -> String {
        let mut named = self.annotation_keys.lock();
        let known = named.entry(policy.to_owned()).or_default();
        if !known.contains(note) {
            if known.len() >= MAX_ANNOTATION_KEYS {
                return OTHER.to_owned();
            }
            known.insert(note.to_owned());
        }
        note.to_owned()
    }

    pub(super) fn count_certificate_reload(&self, result: &'static str) {
        self.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    pub(super) fn count_client_ca_reload(&self, result: &'static str) {
        self.client_ca_reloads.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts a failed handshake. `refusal` is the error in the client's certificate, if that was
    /// the reason.
    pub(super) fn count_handshake_failure(&self, refusal: Option<ClientRejection>) {
        self.handshake_failures.inc();
        if let Some(refusal) = refusal {
            self.client_rejections.get_or_create(&ReasonLabel { reason: refusal.as_str() }).inc();
        }
    }

    pub(super) fn set_certificate_expiration(&self, at: SystemTime) {
        self.not_after.set(seconds(at));
    }

    /// The text for Prometheus, current or a moment old. One is created at a time.
    pub(super) fn encode_text(&self, cluster: &ClusterState) -> MetricsText {
        let mut last = self.last_text.lock();
        if last.with_exemplars.is_empty() || self.texts.try_take(1, Instant::now()) {
            self.cluster.update(cluster);
            let mut text = String::new();
            // Writing to a `String` does not fail.
            let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
            let with_exemplars = Bytes::from(text);
            let plain = without_exemplars(with_exemplars.clone());
            *last = MetricsText { with_exemplars, plain };
        }
        last.clone()
    }
}

fn has_policy(set: &PolicySet, policy: &str) -> bool {
    set.policies().iter().any(|known| known.name == *policy)
        || set.broken().iter().any(|known| known.name == *policy)
}

impl Observer for Metrics {
    fn on_call(&self, policy: &Policy, took: Duration) {
        if let Some(durations) = self.evaluations.read().get(&policy.name) {
            durations.observe(took.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_admission::cluster::{ClusterOptions, Source};
    use opgate_admission::policy::{Configuration, Effect, Profile};

    #[test]
    fn audit_annotation_keys_in_metrics_are_limited() {
        let configuration = Configuration::builtin(Profile::default(), &[]);
        let set =
            PolicySet::load(&configuration, None, 1, ClusterOptions::of(Source::Absent)).unwrap();
        let metrics = Metrics::new(&Supervisor::default(), &[]);
        for number in 0..100 {
            let mut decision = Decision::default();
            let key = format!("foreign.note-{number}");
            decision.audit_annotations.insert(key, "text".to_owned());
            decision.audit_annotations.insert("foreign".to_owned(), "what was found".to_owned());
            metrics.count_decision("", &decision);
        }
        let text = String::from_utf8(metrics.encode_text(set.cluster()).plain.to_vec()).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("opgate_audit_annotations_total{"));
        assert_eq!(lines.count(), MAX_ANNOTATION_KEYS + 1);
        let other = r#"opgate_audit_annotations_total{policy="foreign",key="_other"} 84"#;
        assert!(text.contains(other), "{text}");
    }

    #[test]
    fn clients_without_openmetrics_share_a_text() {
        let configuration = Configuration::builtin(Profile::default(), &[]);
        let set =
            PolicySet::load(&configuration, None, 1, ClusterOptions::of(Source::Absent)).unwrap();
        let mut metrics = Metrics::new(&Supervisor::default(), &[]);
        metrics.texts = TokenBucket::new(0, 0);
        let labels = TraceLabels { trace_id: "0a".to_owned(), span_id: "0b".to_owned() };
        metrics.duration.observe(0.1, Some(labels), None);
        let texts = [(); 2].map(|()| metrics.encode_text(set.cluster()));
        let text = |text: &Bytes| String::from_utf8(text.to_vec()).unwrap();
        for MetricsText { with_exemplars, plain } in &texts {
            assert!(text(with_exemplars).contains("trace_id=\"0a\""));
            assert!(!text(plain).contains("trace_id"));
        }
        let [first, second] = texts.map(|text| text.plain.as_ptr());
        assert_eq!(first, second);
    }

    fn violation(rule: usize) -> Decision {
        let violation = Violation {
            policy: "p".to_owned(),
            rule: format!("R-{rule}"),
            effect: Effect::Audit,
            would_deny: true,
            field: String::new(),
            message: String::new(),
            logical_location: Vec::new(),
            fix: None,
        };
        let mut decision = Decision::default();
        decision.violations.push(violation);
        decision
    }

    #[test]
    fn violation_series_are_limited_and_none_is_lost() {
        let metrics = Metrics::new(&Supervisor::default(), &[]);
        metrics.count_decision("quiet", &violation(0));
        for number in 0..2_000 {
            metrics.count_decision("loud", &violation(number % 150));
            metrics.count_decision(&format!("team-{number}"), &violation(0));
        }
        metrics.count_decision(&"x".repeat(64), &violation(0));
        metrics.count_decision("quiet", &violation(0));
        let counts = metrics.violations.counts();
        let total: u64 = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(total, 4_003);
        let of = |namespace: &str| {
            let of_it = counts.iter().filter(|(labels, _)| labels.namespace == namespace);
            (of_it.clone().count(), of_it.map(|(_, count)| count).sum::<u64>())
        };
        assert_eq!(of("quiet"), (1, 2));
        assert_eq!(of("loud").0, MAX_NAMESPACE_SERIES);
        // One for each rule that violations beyond the limit have.
        assert!(counts.len() <= MAX_VIOLATION_SERIES + 150, "{}", counts.len());
        let most = counts.iter().map(|(labels, _)| &labels.namespace);
        assert!(most.max_by_key(|name| name.len()).is_some_and(|name| name.len() < 64));
    }
}
