//! Policies: their configuration, the ones that serve, and the effect of their verdicts.
//!
//! ```text
//! config ─▶ load (descriptor, settings) ─▶ Policy ─▶ PolicySet ─ decide(review) ─▶ Decision
//!                                            │                  ▲
//!                                            └─ Dispatcher: time, threads ─ FairPermits: permits by tenant
//! ```

mod builtin;
mod call_history;
mod component_file;
mod config;
mod decision;
mod declared_value;
mod descriptor;
mod digest;
mod dispatch;
mod fix;
mod load;
mod load_progress;
mod match_explanation;
mod match_rule;
mod measure;
mod names;
mod permits;
mod platform;
mod profile;
pub mod response;
mod review_time;
mod rule_docs;
mod schema;
mod scope;
mod set;
mod trust;
mod warnings;
mod worker_pool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use opgate_document::Document;
use serde::Deserialize;

pub use builtin::Builtin;
pub use component_file::read as read_component;
pub use config::{
    ConfigErrors, Configuration, DocsError, Identities, ModuleSource, PolicyConfig, PullError,
    RegistryReference, ReservationScope, ResolvedComponent, SignatureKey,
};
pub(crate) use decision::{AcceptedVerdict, DecisionBuilder};
pub use decision::{
    Cause, Decision, DecisionInputs, Denial, DroppedRules, Effect, PolicyError, SkippedRule,
    Violation,
};
pub use declared_value::Setting;
pub use descriptor::{DeclaredRead, DefaultLevel, Descriptor, Rule};
pub(crate) use dispatch::{CallContext, CallOutcome, call};
pub use dispatch::{Dispatcher, Overload};
pub(crate) use load::write_log_lines;
pub use load::{PolicyLoadError, describe};
pub use load_progress::LoadProgress;
pub use match_explanation::{MatchResult, MatchedRules, MismatchReason};
pub use match_rule::{MatchCondition, MatchRule};
pub use measure::Measurement;
pub use names::{NamePatternError, NamePatterns};
pub use opgate_engine::Docs;
pub(crate) use permits::Tenant;
pub use platform::{Platform, PlatformQuery};
pub use profile::Profile;
pub(crate) use review_time::ReviewTime;
pub use rule_docs::RuleDocs;
pub use schema::{SchemaError, run_settings_job};
pub use scope::{EffectiveMatchRule, Scope};
pub use set::{BrokenPolicy, PolicySet, SetError};
pub use trust::{Trust, TrustedUsers, ValueOrigin};

use crate::cluster::{PolicyView, ResolvedRead, SampleAccess};
use crate::review::Review;
use opgate_engine::{Limits, Module};

/// API group of documents for files.
const FILES_GROUP: &str = "opgate.dev";

/// The effect of a policy's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Denials deny.
    #[default]
    Enforce,
    /// Denials become warnings.
    Warn,
    /// Only log, metrics and audit annotations.
    Audit,
    /// The policy is not called.
    Off,
}

impl Mode {
    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
            Self::Audit => "audit",
            Self::Off => "off",
        }
    }
}

/// The effect of a policy error. In the modes warn and audit, a policy error never blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnError {
    /// The call of the webhook fails, so that its `failurePolicy` decides.
    #[default]
    FailurePolicy,
    /// The request is denied.
    Deny,
    /// The request is allowed, with a warning.
    Allow,
}

impl OnError {
    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FailurePolicy => "failurePolicy",
            Self::Deny => "deny",
            Self::Allow => "allow",
        }
    }
}

/// The level that a configuration sets for a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleLevel {
    /// Violations deny.
    Deny,
    /// Violations warn.
    Warn,
    /// Violations are dropped.
    Off,
}

impl RuleLevel {
    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// A policy that serves.
#[derive(Debug)]
pub struct Policy {
    /// Name in URLs, logs and metrics.
    pub name: String,
    /// The origin of its component.
    pub source: ModuleSource,
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// The requests that it evaluates, with its settings and the levels of its rules.
    pub match_rules: Vec<EffectiveMatchRule>,
    /// The cluster objects that it reads with them.
    pub reads: Vec<ResolvedRead>,
    /// The custom resources that it may sample.
    pub sample_access: SampleAccess,
    /// The effect of its verdicts.
    pub mode: Mode,
    /// The effect of its policy errors.
    pub on_error: OnError,
    /// Limits of one call.
    pub limits: Limits,
    /// The time when it was loaded.
    pub loaded_at: SystemTime,
    /// Its code.
    pub module: Module,
    /// The dispatch of its calls.
    pub dispatcher: Dispatcher,
    levels: BTreeMap<String, RuleLevel>,
    settings: Arc<Document>,
    /// Rules that never deny, whatever the verdict: they warn by default, and have neither a level
    /// in the configuration nor any of the settings that could make them deny.
    advisory_rules: BTreeSet<String>,
    /// The settings with these rules off.
    settings_without_advisory: Arc<Document>,
    excluded_namespaces: Vec<String>,
    excluded_users: Vec<String>,
    view: Arc<PolicyView>,
    last_error: parking_lot::Mutex<Option<String>>,
}

impl Policy {
    /// Whether the policy evaluates a review.
    #[must_use]
    pub fn matches(&self, review: &Review<'_>) -> bool {
        self.mode != Mode::Off
            && self.match_rules.iter().any(|requests| requests.matches(review))
            && !(self.excluded_users.iter().any(|user| *user == review.username)
                || (!review.namespace.is_empty()
                    && self.excluded_namespaces.iter().any(|ns| *ns == review.namespace)))
    }

    /// The match rules that match a review, as bits: those that evaluate it with the settings and
    /// levels.
    pub(crate) fn routes(&self, review: &Review<'_>) -> u64 {
        let fits = self.match_rules.iter().filter(|requests| requests.matches(review));
        let bit = |requests: &EffectiveMatchRule| 1_u64.checked_shl(u32::from(requests.rule.route));
        fits.filter_map(bit).fold(0, |routes, bit| routes | bit)
    }

    /// The rules that evaluate a review and only warn.
    pub(crate) fn advisory_rules_for(&self, review: &Review<'_>) -> BTreeSet<&str> {
        let requests = self.match_rules.iter().filter(|requests| requests.matches(review));
        let looks_at = |rule: &String| {
            requests.clone().any(|r| r.rule.rules.is_empty() || r.rule.rules.contains(rule))
        };
        self.advisory_rules.iter().filter(|rule| looks_at(rule)).map(String::as_str).collect()
    }

    fn has_advisory_rules_for(&self, review: &Review<'_>) -> bool {
        !self.advisory_rules.is_empty() && !self.advisory_rules_for(review).is_empty()
    }

    /// Namespaces whose requests the policy does not evaluate.
    #[must_use]
    pub fn excluded_namespaces(&self) -> &[String] {
        &self.excluded_namespaces
    }

    /// Whether the policy can block a request, by a verdict or by a policy error.
    #[must_use]
    pub fn can_block(&self) -> bool {
        self.mode == Mode::Enforce && self.on_error != OnError::Allow
    }

    /// Whether a request of an API server fails without the policy. Documents for files never come
    /// from an API server.
    #[must_use]
    pub fn can_block_api_servers(&self) -> bool {
        let comes = |requests: &EffectiveMatchRule| {
            requests.can_deny && requests.rule.groups.iter().any(|group| group != FILES_GROUP)
        };
        self.can_block() && self.match_rules.iter().any(comes)
    }

    /// Whether a denial of the policy denies the request. A request for which such a policy had no
    /// time is not allowed, whatever the effect of its policy errors: the users whose requests it
    /// evaluates can determine its load.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.mode == Mode::Enforce
    }

    /// The level that the configuration sets for a rule, if any.
    #[must_use]
    pub fn level(&self, rule: &str) -> Option<RuleLevel> {
        self.levels.get(rule).copied()
    }

    /// The level of one of its rules with the configuration: `deny`, `warn` or `off`; `on` if a setting
    /// of the policy is present that decides the level.
    #[must_use]
    pub fn effective_level(&self, rule: &Rule) -> &'static str {
        match self.level(&rule.id) {
            Some(level) => level.as_str(),
            None if load::is_any_set(&rule.enabled_by, &self.settings) => "on",
            None => rule.default.as_str(),
        }
    }

    /// Whether one of these settings is present, and is not `false`.
    fn has_setting(&self, pointers: &[String]) -> bool {
        load::is_any_set(pointers, &self.settings)
    }

    /// The last policy error, for `/policies`.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    pub(crate) fn record_error(&self, error: String) {
        *self.last_error.lock() = Some(error);
    }
}
