//! The registration follows the policy sets of all replicas.
//!
//! ```text
//! each replica: its policy set ─▶ Wanted ─▶ its digest in the lease of the replica
//! each replica: ValidatingWebhookConfiguration ─▶ Observation: owner, differences, names of policies
//! the leader:   Look, Wanted, leases ─▶ follow ─▶ the object, based on the version that was read
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
use crate::replicas::Report;
use crate::{Installation, trust};
pub use compare::Wanted;
use compare::{differences, named, names, port};
pub use figures::Figures;

/// Annotation of the object: the digest of the registration that was written last.
pub const DIGEST: &str = "opgate.dev/registration";

/// Annotation of the object: the policies that the registration stands for.
pub const POLICIES: &str = "opgate.dev/policies";

/// Annotation of the object: policies that it named before. API servers may call them a moment longer.
pub const FORMER: &str = "opgate.dev/former-policies";

/// The port of a Service.
const HTTPS: u64 = 443;

/// Number of changes by other clients in [`RESTORE_WINDOW`] after which the registration is restored only once in
/// [`PATIENCE`].
const MAX_RESTORES: usize = 5;
const RESTORE_WINDOW: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);

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
    pub standing: RegistrationStatus,
    /// Policies that the registration stands for.
    pub policies: BTreeSet<String>,
    /// These names, and others that API servers may still call.
    pub known: BTreeSet<String>,
    object: Value,
}

/// Additional state of the leader.
pub struct LeaderContext<'c> {
    /// The replicas that are alive.
    pub live: &'c [Report],
    /// Whether this replica is ready, so that a server responds to the registered webhooks.
    pub ready: bool,
    /// CAs, PEM, that trust the certificate of this replica, if they are known.
    pub bundle: Option<&'c [u8]>,
    /// Asked right before the write.
    pub is_leader: &'c (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for LeaderContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Circumstances").field("live", &self.live).finish_non_exhaustive()
    }
}

/// Result of the leader's actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The registration was written.
    Applied {
        /// The differences, in a few words each.
        changes: Vec<String>,
        /// Whether another client changed the fields that a leader wrote.
        by_hand: bool,
    },
    /// The registration was not written, for this reason.
    Waits(String),
}

/// Keeps the registration of an installation.
#[derive(Debug)]
pub struct RegistrationController {
    installation: Installation,
    clock: Arc<dyn Clock>,
    /// Times at which changes of other clients were reverted.
    healed: Vec<Duration>,
}

impl RegistrationController {
    /// Creates it for this replica. The object has the name of the Service.
    #[must_use]
    pub fn new(installation: Installation, clock: Arc<dyn Clock>) -> Self {
        Self { installation, clock, healed: Vec::new() }
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.installation.service
    }

    fn calls_us(&self, webhook: &Value) -> bool {
        trust::calls_us(webhook, &self.installation)
    }

    /// Looks at the registration.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected.
    pub async fn look(&self, api: &dyn Api, wanted: &Wanted) -> Result<Observation, ApiError> {
        let kind = Kind::ValidatingWebhookConfiguration;
        let nothing = |standing| Observation {
            standing,
            policies: BTreeSet::new(),
            known: BTreeSet::new(),
            object: Value::Null,
        };
        let object = match api.get(kind, "", self.name()).await {
            Ok(object) => object,
            Err(ApiError::NotFound(_)) => return Ok(nothing(RegistrationStatus::Absent)),
            Err(trouble) => return Err(trouble),
        };
        if !trust::is_ours(&object, &self.installation) {
            return Ok(nothing(RegistrationStatus::NotOurs));
        }
        if object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null()) {
            return Ok(nothing(RegistrationStatus::Absent));
        }
        let ours = self.ours(&object, wanted);
        let mut policies = named(annotation(&object, POLICIES));
        policies.extend(ours.values().flat_map(names));
        let mut known = named(annotation(&object, FORMER));
        known.extend(policies.iter().cloned());
        let differences = differences(&ours, wanted);
        let standing = if differences.is_empty() {
            RegistrationStatus::Current
        } else {
            RegistrationStatus::Stale(differences)
        };
        Ok(Observation { standing, policies, known, object })
    }

    /// Returns the webhooks of an object of ours that are ours, by name: those that call us, and those that
    /// have the name of one that should.
    fn ours(&self, object: &Value, wanted: &Wanted) -> BTreeMap<String, Value> {
        let is_ours =
            |webhook: &&Value| self.calls_us(webhook) || wanted.has(text(webhook, "/name"));
        let ours = webhooks(object).iter().filter(is_ours);
        ours.map(|webhook| (text(webhook, "/name").to_owned(), webhook.clone())).collect()
    }

    /// Makes the registration what is wanted, if that is safe. Only for the leader.
    ///
    /// # Errors
    /// Fails if the API server does not respond as expected. [`ApiError::is_race`] is no error: the next check
    /// reads the change of the other client.
    pub async fn follow(
        &mut self,
        api: &dyn Api,
        wanted: &Wanted,
        look: Observation,
        circumstances: &LeaderContext<'_>,
    ) -> Result<Outcome, ApiError> {
        let waits = |why: &str| Ok(Outcome::Waits(why.to_owned()));
        let RegistrationStatus::Stale(changes) = look.standing.clone() else {
            return waits("there is nothing to change");
        };
        if !circumstances.ready {
            return waits("this replica is not ready");
        }
        if let Err(why) = self.ensure_replicas_agree(circumstances.live, wanted) {
            return waits(&why);
        }
        let ours = self.ours(&look.object, wanted);
        if wanted.is_empty() {
            return waits(
                "the configuration needs no webhook: the last ones stay until an administrator deletes them",
            );
        }
        let neighbours = ours.values().filter(|webhook| self.calls_us(webhook));
        let neighbours: Vec<_> = neighbours.filter_map(bundle).collect();
        let given = circumstances.bundle.map(|pem| json!(k8s_openapi::ByteString(pem.to_vec())));
        let Some(common) = neighbours.first().cloned().or(given) else {
            return waits("no CA bundle is known that trusts the certificate of this replica");
        };
        let by_hand = annotation(&look.object, DIGEST) == wanted.digest();
        if by_hand && !self.may_restore() {
            return waits("another client changes it repeatedly");
        }
        let object = self.written(wanted, &look, &ours, &common);
        // No request is sent between this check and the write.
        if !(circumstances.is_leader)() {
            return waits("this replica is not the leader any more");
        }
        api.replace(Kind::ValidatingWebhookConfiguration, "", object).await?;
        if by_hand {
            self.healed.push(self.clock.elapsed());
        }
        Ok(Outcome::Applied { changes, by_hand })
    }

    /// Checks that every replica has the policy set of the registration. A replica that does not find its own
    /// lease cannot decide.
    fn ensure_replicas_agree(&self, live: &[Report], wanted: &Wanted) -> Result<(), String> {
        if !live.iter().any(|report| report.replica == self.installation.replica) {
            return Err("the lease of this replica is not there yet".to_owned());
        }
        let other = live.iter().find(|report| report.registration != wanted.digest());
        other.map_or(Ok(()), |report| {
            let Report { replica, registration, .. } = report;
            Err(match registration.as_str() {
                "" => format!("replica {replica} does not report its policy set"),
                _ => format!("replica {replica} has another policy set"),
            })
        })
    }

    /// Reports whether a change of another client may be reverted now. Two writers that overwrite each other
    /// forever would be a load for API servers.
    fn may_restore(&mut self) -> bool {
        let now = self.clock.elapsed();
        self.healed.retain(|at| now.saturating_sub(*at) < RESTORE_WINDOW);
        let last = self.healed.last().map(|at| now.saturating_sub(*at));
        self.healed.len() < MAX_RESTORES || last.is_none_or(|since| since >= PATIENCE)
    }

    /// Returns the object with the desired webhooks. Everything that is not ours stays.
    fn written(
        &self,
        wanted: &Wanted,
        look: &Observation,
        ours: &BTreeMap<String, Value>,
        common: &Value,
    ) -> Value {
        let mut object = look.object.clone();
        let port = port(ours.values()).unwrap_or(HTTPS);
        let mut list: Vec<Value> = webhooks(&object)
            .iter()
            .filter(|webhook| !ours.contains_key(text(webhook, "/name")))
            .cloned()
            .collect();
        for webhook in wanted.webhooks() {
            let mut webhook = webhook.clone();
            let old = ours.get(text(&webhook, "/name")).filter(|old| self.calls_us(old));
            let bundle = old.and_then(bundle).unwrap_or_else(|| common.clone());
            if let Some(client) = webhook.get_mut("clientConfig").and_then(Value::as_object_mut) {
                client.insert("caBundle".to_owned(), bundle);
            }
            if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
                set(service, "port", json!(port));
            }
            list.push(webhook);
        }
        set(&mut object, "webhooks", Value::Array(list));
        // A restored registration is no change: API servers still call the names of the previous one.
        let is_restored = annotation(&look.object, DIGEST) == wanted.digest();
        let before = if is_restored { &look.known } else { &look.policies };
        let former: Vec<_> = before.difference(wanted.policies()).cloned().collect();
        let policies: Vec<_> = wanted.policies().iter().cloned().collect();
        for (key, value) in [
            (DIGEST, wanted.digest().to_owned()),
            (POLICIES, policies.join(" ")),
            (FORMER, former.join(" ")),
        ] {
            if let Some(annotations) = object.pointer_mut("/metadata/annotations") {
                set(annotations, key, json!(value));
            }
        }
        object
    }
}

/// Sets a member of an object.
fn set(value: &mut Value, name: &str, member: Value) {
    if let Some(members) = value.as_object_mut() {
        members.insert(name.to_owned(), member);
    }
}

/// Returns the webhooks of an object.
fn webhooks(object: &Value) -> &[Value] {
    object.get("webhooks").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the bundle of a webhook, if it has one, unchanged.
fn bundle(webhook: &Value) -> Option<Value> {
    let bundle = webhook.pointer("/clientConfig/caBundle")?;
    bundle.as_str().is_some_and(|text| !text.is_empty()).then(|| bundle.clone())
}
