//! Facts of a running cluster. Only reads are sent, one at a time, each with a bound and all within a time.
//!
//! ```text
//! webhooks ─▶ installation ─▶ its namespace ─▶ what Deployment, bindings and webhooks name
//! ```

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use opgate_admission::cluster::{Connection, ListFilter, PageBackoff, ReadFailure, ServerInfo};
use opgate_admission::policy::{Platform, PlatformQuery};
use opgate_cluster::Resource;
use opgate_document::Document;
use opgate_server::ClusterStatus;
use tokio::time::Instant;

use super::audit::ConfiguredAudit;
use super::lease;
use super::object::{Kind, Object};
use super::related_objects::{self, MAX_OBJECT_BYTES, MAX_OBJECTS};
use super::workload::Workload;
use super::{Clock, DEFAULT_SECRET, FactError, Facts, Installation, installations};

/// Kinds of which those in the namespace of the installation count.
const INSTALLATION_KINDS: [Kind; 8] = [
    Kind::Service,
    Kind::EndpointSlice,
    Kind::Deployment,
    Kind::Pod,
    Kind::PodDisruptionBudget,
    Kind::NetworkPolicy,
    Kind::ServiceAccount,
    Kind::Lease,
];

/// The default ops port.
const OPS_PORT: u16 = 8081;

/// Maximum number of pods to query, and the timeout for each.
const MAX_QUERIED_PODS: usize = 16;
const POD_TIMEOUT: Duration = Duration::from_secs(5);

/// A cluster that is read.
pub struct ClusterReader {
    connection: Connection,
    /// No request is sent after it.
    deadline: Instant,
    webhooks: Result<Vec<Object>, FactError>,
    release: Result<ServerInfo, ReadFailure>,
}

impl ClusterReader {
    /// Reads the webhooks and the facts about the API server.
    ///
    /// # Errors
    /// Fails if it does not respond.
    pub async fn open(connection: Connection, time: Duration) -> anyhow::Result<Self> {
        let end = Instant::now() + time;
        let release = connection.server_info().await;
        if let Err(refused) = &release
            && !refused.is_forbidden
        {
            anyhow::bail!("the cluster: {}", refused.reason);
        }
        let mut live = Self { connection, deadline: end, webhooks: Ok(Vec::new()), release };
        live.webhooks =
            live.list(Kind::ValidatingWebhookConfiguration, ListFilter::default(), |_| true).await;
        Ok(live)
    }

    /// Returns the installations that the webhooks call.
    pub fn installations(&self) -> Vec<Installation> {
        installations(self.webhooks.iter().flatten())
    }

    /// Returns the facts about one of them.
    pub async fn facts(mut self, installation: Installation) -> Facts {
        let mut facts = Facts::new(installation, true);
        match std::mem::replace(
            &mut self.release,
            Err(ReadFailure { is_forbidden: false, reason: String::new() }),
        ) {
            Ok(release) => {
                facts.clock = measure_clock(&release);
                facts.version = Some(release.version);
            }
            Err(refused) => {
                facts
                    .failed_reads
                    .push(("the version of the API server".to_owned(), refused.reason));
            }
        }
        let webhooks = std::mem::replace(&mut self.webhooks, Ok(Vec::new()));
        insert_objects(&mut facts, Kind::ValidatingWebhookConfiguration, webhooks);
        let namespace = facts.installation.namespace.clone();
        for kind in [Kind::MutatingWebhookConfiguration, Kind::Namespace, Kind::Node] {
            let all = self.list(kind, ListFilter::default(), |_| true).await;
            insert_objects(&mut facts, kind, all);
        }
        if facts.installation.url.is_none() {
            let own = ListFilter { namespace: Some(&namespace), labels: None };
            for kind in INSTALLATION_KINDS {
                let all = self.list(kind, own, |_| true).await;
                insert_objects(&mut facts, kind, all);
            }
            self.get_cron_jobs(&mut facts, own).await;
            self.get_named_objects(&mut facts).await;
            self.query_states(&mut facts).await;
            let olm = RefCell::new(BTreeSet::new());
            for kind in [Kind::ClusterRoleBinding, Kind::RoleBinding] {
                let is_needed = |binding: &Object| {
                    olm.borrow_mut().extend(related_objects::olm_accounts(binding));
                    related_objects::binds_account(binding, &namespace)
                };
                let all = self.list(kind, ListFilter::default(), is_needed).await;
                insert_objects(&mut facts, kind, all);
            }
            facts.olm_accounts = olm.into_inner();
            self.get_roles(&mut facts).await;
            self.get_api_groups(&mut facts).await;
        }
        self.get_third_party_services(&mut facts).await;
        let finding = Platform::read(&self.connection, PlatformQuery::ALL);
        facts.platform = Some(match tokio::time::timeout_at(self.deadline, finding).await {
            Ok(found) => found.map_err(|refused| FactError(refused.reason)),
            Err(_) => Err(FactError(DEADLINE_EXCEEDED.to_owned())),
        });
        facts
    }

    /// Returns the objects of a kind that count.
    async fn list(
        &self,
        kind: Kind,
        selected: ListFilter<'_>,
        counts: impl Fn(&Object) -> bool,
    ) -> Result<Vec<Object>, FactError> {
        let (mut objects, mut bytes, mut wrong) = (Vec::new(), 0_usize, None);
        let visit = |document: Document| {
            match to_object(kind, &document) {
                Ok(object) if counts(&object) => {
                    bytes = bytes.saturating_add(document.size());
                    objects.push(object);
                }
                Ok(_) => {}
                Err(why) => drop(wrong.get_or_insert(why)),
            }
            if objects.len() >= MAX_OBJECTS || bytes >= MAX_OBJECT_BYTES {
                let why = "there are too many of them: the others are left out".to_owned();
                wrong.get_or_insert(FactError(why));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let resource = resource_of(kind);
        let listing = self.connection.for_each_selected(&resource, selected, visit);
        match tokio::time::timeout_at(self.deadline, listing).await {
            Ok(Ok(())) => {}
            Ok(Err(refused)) => return Err(FactError(refused.reason)),
            Err(_) => return Err(FactError(DEADLINE_EXCEEDED.to_owned())),
        }
        wrong.map_or(Ok(objects), Err)
    }

    /// Reads one object.
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>, FactError> {
        let resource = resource_of(kind);
        let namespace = Some(namespace).filter(|_| kind.is_namespaced());
        let reading = self.connection.get_object(&resource, namespace, name);
        match tokio::time::timeout_at(self.deadline, reading).await {
            Ok(Ok(document)) => document.map(|document| to_object(kind, &document)).transpose(),
            Ok(Err(refused)) => Err(FactError(refused.reason)),
            Err(_) => Err(FactError(DEADLINE_EXCEEDED.to_owned())),
        }
    }

    async fn get_into(&self, facts: &mut Facts, kind: Kind, namespace: &str, name: &str) {
        let one = self.get(kind, namespace, name).await;
        insert_objects(facts, kind, one.map(|one| one.into_iter().collect()));
    }

    /// Reads the Secret and the ConfigMap of the servers, and no others.
    async fn get_named_objects(&self, facts: &mut Facts) {
        let namespace = facts.installation.namespace.clone();
        let workload = Workload::of(facts);
        let secret =
            workload.as_ref().and_then(Workload::secret).unwrap_or(DEFAULT_SECRET).to_owned();
        let map = workload.as_ref().and_then(Workload::config_map);
        let map = map.map(|(name, _)| name.to_owned());
        self.get_into(facts, Kind::Secret, &namespace, &secret).await;
        if let Some(map) = map {
            self.get_into(facts, Kind::ConfigMap, &namespace, &map).await;
        }
    }

    /// Reads the state of cluster caches from the servers if no Lease reports it, usually because the token
    /// lacks permission. A network policy can block the ops port for API servers, so the first server that
    /// does not respond is the last one to be called.
    async fn query_states(&self, facts: &mut Facts) {
        let port = Workload::of(facts).map_or(OPS_PORT, |workload| workload.ops_port());
        let namespace = facts.installation.namespace.clone();
        for pod in lease::pods_without_state(facts).into_iter().take(MAX_QUERIED_PODS) {
            let end = self.deadline.min(Instant::now() + POD_TIMEOUT);
            let asking = self.connection.get_from_pod(&namespace, &pod, port, "/policies");
            let (state, is_last) = match tokio::time::timeout_at(end, asking).await {
                Ok(Ok(document)) => (parse_state(&document), false),
                Ok(Err(refused)) if refused.is_forbidden => {
                    facts.failed_reads.push(("pods/proxy".to_owned(), refused.reason.clone()));
                    (Err(FactError(refused.reason)), true)
                }
                Ok(Err(refused)) => (Err(FactError(refused.reason)), false),
                Err(_) => {
                    let seconds = POD_TIMEOUT.as_secs();
                    let why =
                        format!("its ops port does not answer the API server within {seconds} s");
                    (Err(FactError(why)), true)
                }
            };
            facts.cache_states.insert(pod, state);
            if is_last {
                return;
            }
        }
    }

    /// Lists the `CronJob`s, of which one can be an audit. A missing permission is no finding: most installations have
    /// no such CronJob.
    async fn get_cron_jobs(&self, facts: &mut Facts, own: ListFilter<'_>) {
        match self.list(Kind::CronJob, own, |_| true).await {
            Ok(all) => all.into_iter().for_each(|object| facts.insert(object)),
            Err(why) => facts.set_unread(Kind::CronJob, why.to_string()),
        }
    }

    /// Reads the API groups, which an audit needs for its reports.
    async fn get_api_groups(&self, facts: &mut Facts) {
        if ConfiguredAudit::all(facts).is_empty() {
            return;
        }
        let mut backoff = PageBackoff::none();
        let groups = self.connection.groups(&mut backoff);
        let groups = tokio::time::timeout_at(self.deadline, groups).await;
        facts.api_groups = Some(match groups {
            Ok(groups) => groups.map_err(|error| FactError(error.to_string())),
            Err(_) => Err(FactError(DEADLINE_EXCEEDED.to_owned())),
        });
    }

    async fn get_roles(&self, facts: &mut Facts) {
        for (kind, namespace, name) in related_objects::bound_roles(facts) {
            self.get_into(facts, kind, &namespace, &name).await;
        }
    }

    /// Reads the Services behind webhooks for the same requests.
    async fn get_third_party_services(&self, facts: &mut Facts) {
        let mut reported = BTreeSet::new();
        for (namespace, name) in related_objects::third_party_services(facts) {
            if namespace == facts.installation.namespace && facts.installation.url.is_none() {
                continue;
            }
            let label = format!("kubernetes.io/service-name={name}");
            let selected = ListFilter { namespace: Some(&namespace), labels: Some(&label) };
            let found = [
                self.get(Kind::Service, &namespace, &name)
                    .await
                    .map(|one| one.into_iter().collect()),
                self.list(Kind::EndpointSlice, selected, |_| true).await,
            ];
            for all in found {
                match all {
                    Ok(all) => all.into_iter().for_each(|object: Object| facts.insert(object)),
                    Err(why) => {
                        // A cause that applies to one of them applies to all.
                        if reported.insert(why.to_string()) {
                            let what = format!("the Service {namespace}/{name} of another webhook");
                            facts.failed_reads.push((what, why.to_string()));
                        }
                        facts.unreachable.insert((namespace.clone(), name.clone()));
                    }
                }
            }
        }
    }
}

/// Why nothing more is read.
const DEADLINE_EXCEEDED: &str = "there was no time left: allow more with --timeout";

/// Returns the state of the cluster cache from `/policies`.
fn parse_state(document: &Document) -> Result<ClusterStatus, FactError> {
    let cluster = document
        .get("/cluster")
        .ok_or_else(|| FactError("its /policies says nothing about the cluster".to_owned()))?;
    serde_json::from_str(&cluster.raw())
        .map_err(|error| FactError(format!("its /policies: {error}")))
}

/// Takes over what was read, or why it was not.
fn insert_objects(facts: &mut Facts, kind: Kind, objects: Result<Vec<Object>, FactError>) {
    match objects {
        Ok(objects) => objects.into_iter().for_each(|object| facts.insert(object)),
        Err(why) => {
            facts.failed_reads.push((kind.resource(), why.to_string()));
            facts.set_unread(kind, why.to_string());
        }
    }
}

fn to_object(kind: Kind, document: &Document) -> Result<Object, FactError> {
    let raw = document.root().raw();
    let value = serde_json::from_str(&raw)
        .map_err(|error| FactError(format!("a {kind} cannot be read: {error}")));
    value.and_then(|value| {
        Object::of(kind, value).ok_or_else(|| FactError(format!("a {kind} without a name")))
    })
}

fn resource_of(kind: Kind) -> Resource {
    let (group, resource, _) = kind.names();
    let text = str::to_owned;
    Resource { group: text(group), version: text("v1"), resource: text(resource) }
}

/// Returns no clock if the request took too long.
fn measure_clock(release: &ServerInfo) -> Option<Clock> {
    let (theirs, ours) = release.clocks?;
    let (apart, is_ahead) = match theirs.duration_since(ours) {
        Ok(apart) => (apart, true),
        Err(error) => (error.duration(), false),
    };
    // The response has a resolution of one second.
    let within = release.duration.saturating_add(Duration::from_secs(1));
    Some(Clock { skew: apart, is_ahead, uncertainty: within })
}
