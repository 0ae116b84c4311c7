//! The `ValidatingWebhookConfiguration`: all webhooks that follow from the policies.
//!
//! ```text
//! policies ─▶ matches ─▶ plan ─▶ webhook ─┐
//!                                         ├─▶ registration
//! arguments ─▶ server, ca, names ─────────┘
//! ```
//!
//! `opgate manifests` prints it, `opgate diff` compares two, and servers that keep it apply it.

pub mod matches;
pub mod names;
mod plan;
pub mod server;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod webhook;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use opgate_controller::OWNER_ANNOTATION;

use self::matches::{Match, PolicyFacts};
use self::plan::plan;
use self::server::Target;
use self::webhook::{MAX_TIMEOUT_SECONDS, timeout_seconds_for};

/// Parameters of the registration that are independent of the policies.
#[derive(Debug)]
pub struct WebhookRegistration {
    /// Name of the object.
    pub name: String,
    /// Address of the server.
    pub target: Target,
    /// Namespaces that no webhook matches.
    pub exempt: Vec<String>,
    /// Whether API servers know `matchConditions`.
    pub supports_conditions: bool,
    /// PEM.
    pub ca: Vec<u8>,
}

impl WebhookRegistration {
    /// Returns the webhook configuration.
    #[must_use]
    pub fn of(&self, policies: &[PolicyFacts<'_>]) -> ValidatingWebhookConfiguration {
        let matches = self.matches(policies);
        let mut webhooks = Vec::new();
        for planned in plan(&matches) {
            let webhook = planned.webhook(self, &webhooks);
            webhooks.push(webhook);
        }
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            labels: Some(self.target.labels()),
            annotations: self
                .target
                .owner()
                .map(|owner| [(OWNER_ANNOTATION.to_owned(), owner)].into()),
            ..ObjectMeta::default()
        };
        ValidatingWebhookConfiguration { metadata, webhooks: Some(webhooks) }
    }

    /// Returns what the webhooks match: without conditions, for API servers that do not support them.
    #[must_use]
    pub fn matches<'p>(&self, policies: &'p [PolicyFacts<'p>]) -> Vec<Match<'p>> {
        let mut matches = Vec::new();
        for policy in policies {
            if timeout_seconds_for(policy.time) > MAX_TIMEOUT_SECONDS {
                let (policy, time) = (policy.name, policy.time);
                tracing::warn!(
                    policy,
                    ?time,
                    "limits.time is too long for a webhook: an API server waits {MAX_TIMEOUT_SECONDS}s at most and may time out before opgate responds"
                );
            }
            matches.extend(policy.matches());
        }
        if !self.supports_conditions {
            matches.retain_mut(Match::without_conditions);
        }
        matches
    }
}
