//! The registration follows the policy sets of all replicas.
//!
//! ```text
//! each replica: its policy set ─▶ DesiredRegistration ─▶ its digest in the lease of the replica
//! each replica: ValidatingWebhookConfiguration ─▶ Observation: owner, differences, names of policies
//! the leader:   Observation, DesiredRegistration, leases ─▶ reconcile ─▶ the object, based on the version that was read
//! ```
//!
//! **Never ahead of the slowest replica.** The leader writes a registration only if every live replica serves
//! its policy set. Until then the old one stays. Its paths name policies that new replicas may not have;
//! they know the names from [`Observation`].
//!
//! **Only an administrator creates the object, and opgate never recreates it.** An administrator who deletes
//! it ends the registration and can then remove the other objects at any time. The permission to write is
//! therefore limited to one name.
//!
//! **Never ahead of the Service.** An API server refuses each request of a webhook whose Service has no
//! endpoint. A replica is ready up to a probe interval before the Service leads to it, so the leader reads the
//! `EndpointSlice`s before the first webhook calls the Service.
//!
//! **Protection is never removed.** A configuration that needs no webhook leaves the last ones.
//!
//! Bundles of CAs belong to others: each webhook keeps its own, and a new one gets that of its neighbours.

mod compare;
mod figures;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, ApiError, Kind, annotation, text};
use crate::clock::Clock;
use crate::replicas::ReplicaStatus;
use crate::{Installation, trust};
pub use compare::DesiredRegistration;
use compare::{differences, policies_in_annotation, policies_in_path, service_port};
pub use figures::RegistrationMetrics;

/// The reason why the replicas do not have the policy set of a registration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct DisagreementError(String);

/// Annotation of the object: the digest of the registration that was written last.
pub const DIGEST_ANNOTATION: &str = "opgate.dev/registration";

/// Annotation of the object: the policies that the registration stands for.
pub const POLICIES_ANNOTATION: &str = "opgate.dev/policies";

/// Annotation of the object: policies that it named before. API servers may call them a moment longer.
pub const FORMER_POLICIES_ANNOTATION: &str = "opgate.dev/former-policies";

/// Label of an `EndpointSlice`: its Service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// The port of a Service.
const HTTPS_PORT: u64 = 443;

/// Number of changes by other clients in [`RESTORE_WINDOW`] after which the registration is restored only once in
/// [`RESTORE_INTERVAL`].
const MAX_RESTORES: usize = 5;
const RESTORE_WINDOW: Duration = Duration::from_secs(600);
const RESTORE_INTERVAL: Duration = Duration::from_secs(60);

/// The registration, compared with the policy set of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationStatus {
    /// It matches the policy set of the replica.
    Current,
    /// It differs: the differences, in a few words each.
    Stale(Vec<String>),
    /// There is none: the object was not created, or it was deleted.
    Absent,
    /// There is an object of this name, and it belongs to another owner.
    NotOurs,
}

/// Result of a check.
#[derive(Debug, Clone)]
pub struct Observation {
    /// State of the registration.
    pub status: RegistrationStatus,
    /// Policies that the registration stands for.
    pub policies: BTreeSet<String>,
    /// These names, and others that API servers may still call.
    pub known: BTreeSet<String>,
    object: Value,
}

/// Additional state of the leader.
pub struct LeaderContext<'c> {
    /// The replicas that are alive.
    pub live: &'c [ReplicaStatus],
    /// Whether this replica is ready, so that a server responds to the registered webhooks.
    pub ready: bool,
    /// CAs, PEM, that trust the certificate of this replica, if they are known.
    pub bundle: Option<&'c [u8]>,
    /// Asked right before the write.
    pub is_leader: &'c (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for LeaderContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaderContext").field("live", &self.live).finish_non_exhaustive()
    }
}

/// Result of the leader's actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// The registration was written.
    Applied {
        /// The differences, in a few words each.
        changes: Vec<String>,
        /// Whether another client changed the fields that a leader wrote.
        external_change: bool,
    },
    /// The registration was not written, for this reason.
    Deferred(String),
}

/// Keeps the registration of an installation.
#[derive(Debug)]
pub struct RegistrationController {
    installation: Installation,
    clock: Arc<dyn Clock>,
    /// Times at which changes of other clients were reverted.
    restored_at: Vec<Duration>,
}

impl RegistrationController {
    /// Creates it for this replica. The object has the name of the Service.
    #[must_use]
    pub fn new(installation: Installation, clock: Arc<dyn Clock>) -> Self {
        Self { installation, clock, restored_at: Vec::new() }
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.installation.service
    }

    fn calls_our_service(&self, webhook: &Value) -> bool {
        trust::calls_our_service(webhook, &self.installation)
    }

    /// Looks at the registration.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected.
    pub async fn observe(
        &self,
        api: &dyn Api,
        desired: &DesiredRegistration,
    ) -> Result<Observation, ApiError> {
        let kind = Kind::ValidatingWebhookConfiguration;
        let nothing = |standing| Observation {
            status: standing,
            policies: BTreeSet::new(),
            known: BTreeSet::new(),
            object: Value::Null,
        };
        let object = match api.get(kind, "", self.name()).await {
            Ok(object) => object,
            Err(ApiError::NotFound(_)) => return Ok(nothing(RegistrationStatus::Absent)),
            Err(error) => return Err(error),
        };
        if !trust::is_ours(&object, &self.installation) {
            return Ok(nothing(RegistrationStatus::NotOurs));
        }
        if object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null()) {
            return Ok(nothing(RegistrationStatus::Absent));
        }
        let own_webhooks = self.own_webhooks(&object, desired);
        let mut policies = policies_in_annotation(annotation(&object, POLICIES_ANNOTATION));
        policies.extend(own_webhooks.values().flat_map(policies_in_path));
        let mut known = policies_in_annotation(annotation(&object, FORMER_POLICIES_ANNOTATION));
        known.extend(policies.iter().cloned());
        let differences = differences(&own_webhooks, desired);
        let standing = if differences.is_empty() {
            RegistrationStatus::Current
        } else {
            RegistrationStatus::Stale(differences)
        };
        Ok(Observation { status: standing, policies, known, object })
    }

    /// Returns the webhooks of an object of ours that are ours, by name: those that call us, and those that
    /// have the name of one that should.
    fn own_webhooks(
        &self,
        object: &Value,
        desired: &DesiredRegistration,
    ) -> BTreeMap<String, Value> {
        let is_ours = |webhook: &&Value| {
            self.calls_our_service(webhook) || desired.has_policy(text(webhook, "/name"))
        };
        let own_webhooks = webhooks(object).iter().filter(is_ours);
        own_webhooks.map(|webhook| (text(webhook, "/name").to_owned(), webhook.clone())).collect()
    }

    /// Makes the registration what is wanted, if that is safe. Only for the leader.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected. [`ApiError::is_race`] is no error: the next check
    /// reads the change of the other client.
    pub async fn reconcile(
        &mut self,
        api: &dyn Api,
        desired: &DesiredRegistration,
        observation: Observation,
        context: &LeaderContext<'_>,
    ) -> Result<RegistrationOutcome, ApiError> {
        let waits = |why: &str| Ok(RegistrationOutcome::Deferred(why.to_owned()));
        let RegistrationStatus::Stale(changes) = observation.status.clone() else {
            return waits("there is nothing to change");
        };
        if !context.ready {
            return waits("this replica is not ready");
        }
        if let Err(why) = self.ensure_replicas_agree(context.live, desired) {
            return waits(&why.to_string());
        }
        let own_webhooks = self.own_webhooks(&observation.object, desired);
        if desired.is_empty() {
            return waits(
                "the configuration needs no webhook: the last ones stay until an administrator deletes them",
            );
        }
        let neighbours = own_webhooks.values().filter(|webhook| self.calls_our_service(webhook));
        let neighbours: Vec<_> = neighbours.filter_map(ca_bundle).collect();
        let given = context.bundle.map(|pem| json!(k8s_openapi::ByteString(pem.to_vec())));
        let Some(common) = neighbours.first().cloned().or(given) else {
            return waits("no CA bundle is known that trusts the certificate of this replica");
        };
        if !own_webhooks.values().any(|webhook| self.calls_our_service(webhook))
            && !self.has_ready_endpoint(api).await?
        {
            let service = &self.installation.service;
            return waits(&format!("the Service {service} has no ready endpoint yet"));
        }
        let by_hand = annotation(&observation.object, DIGEST_ANNOTATION) == desired.digest();
        if by_hand && !self.may_restore() {
            return waits("another client changes it repeatedly");
        }
        let object = self.with_desired_webhooks(desired, &observation, &own_webhooks, &common);
        // No request is sent between this check and the write.
        if !(context.is_leader)() {
            return waits("this replica is not the leader any more");
        }
        api.replace(Kind::ValidatingWebhookConfiguration, "", object).await?;
        if by_hand {
            self.restored_at.push(self.clock.elapsed());
        }
        Ok(RegistrationOutcome::Applied { changes, external_change: by_hand })
    }

    /// Checks that every replica has the policy set of the registration. A replica that does not find its own
    /// lease cannot decide.
    fn ensure_replicas_agree(
        &self,
        live: &[ReplicaStatus],
        desired: &DesiredRegistration,
    ) -> Result<(), DisagreementError> {
        if !live.iter().any(|report| report.replica == self.installation.replica) {
            return Err(DisagreementError("the lease of this replica is not there yet".to_owned()));
        }
        let other = live.iter().find(|report| report.registration != desired.digest());
        other.map_or(Ok(()), |report| {
            let ReplicaStatus { replica, registration, .. } = report;
            Err(DisagreementError(match registration.as_str() {
                "" => format!("replica {replica} does not report its policy set"),
                _ => format!("replica {replica} has another policy set"),
            }))
        })
    }

    /// Reports whether the Service leads to a server.
    async fn has_ready_endpoint(&self, api: &dyn Api) -> Result<bool, ApiError> {
        let Installation { namespace, service, .. } = &self.installation;
        let slices =
            api.list(Kind::EndpointSlice, namespace, (SERVICE_NAME_LABEL, service)).await?;
        let mut endpoints = slices
            .iter()
            .filter_map(|slice| slice.get("endpoints").and_then(Value::as_array))
            .flatten();
        // An endpoint without the condition is ready.
        Ok(endpoints.any(|endpoint| endpoint.pointer("/conditions/ready") != Some(&json!(false))))
    }

    /// Reports whether a change of another client may be reverted now. Two writers that overwrite each other
    /// forever would be a load for API servers.
    fn may_restore(&mut self) -> bool {
        let now = self.clock.elapsed();
        self.restored_at.retain(|at| now.saturating_sub(*at) < RESTORE_WINDOW);
        let last = self.restored_at.last().map(|at| now.saturating_sub(*at));
        self.restored_at.len() < MAX_RESTORES || last.is_none_or(|since| since >= RESTORE_INTERVAL)
    }

    /// Returns the object with the desired webhooks. Everything that is not ours stays.
    fn with_desired_webhooks(
        &self,
        desired: &DesiredRegistration,
        observation: &Observation,
        own_webhooks: &BTreeMap<String, Value>,
        common: &Value,
    ) -> Value {
        let mut object = observation.object.clone();
        let port = service_port(own_webhooks.values()).unwrap_or(HTTPS_PORT);
        let mut list: Vec<Value> = webhooks(&object)
            .iter()
            .filter(|webhook| !own_webhooks.contains_key(text(webhook, "/name")))
            .cloned()
            .collect();
        for webhook in desired.webhooks() {
            let mut webhook = webhook.clone();
            let old =
                own_webhooks.get(text(&webhook, "/name")).filter(|old| self.calls_our_service(old));
            let bundle = old.and_then(ca_bundle).unwrap_or_else(|| common.clone());
            if let Some(client) = webhook.get_mut("clientConfig").and_then(Value::as_object_mut) {
                client.insert("caBundle".to_owned(), bundle);
            }
            if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
                set_member(service, "port", json!(port));
            }
            list.push(webhook);
        }
        set_member(&mut object, "webhooks", Value::Array(list));
        // A restored registration is no change: API servers still call the names of the previous one.
        let is_restored = annotation(&observation.object, DIGEST_ANNOTATION) == desired.digest();
        let before = if is_restored { &observation.known } else { &observation.policies };
        let former: Vec<_> = before.difference(desired.policies()).cloned().collect();
        let policies: Vec<_> = desired.policies().iter().cloned().collect();
        for (key, value) in [
            (DIGEST_ANNOTATION, desired.digest().to_owned()),
            (POLICIES_ANNOTATION, policies.join(" ")),
            (FORMER_POLICIES_ANNOTATION, former.join(" ")),
        ] {
            if let Some(annotations) = object.pointer_mut("/metadata/annotations") {
                set_member(annotations, key, json!(value));
            }
        }
        object
    }
}

/// Sets a member of an object.
fn set_member(value: &mut Value, name: &str, member: Value) {
    if let Some(members) = value.as_object_mut() {
        members.insert(name.to_owned(), member);
    }
}

/// Returns the webhooks of an object.
fn webhooks(object: &Value) -> &[Value] {
    object.get("webhooks").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the bundle of a webhook, if it has one, unchanged.
fn ca_bundle(webhook: &Value) -> Option<Value> {
    let bundle = webhook.pointer("/clientConfig/caBundle")?;
    bundle.as_str().is_some_and(|text| !text.is_empty()).then(|| bundle.clone())
}
