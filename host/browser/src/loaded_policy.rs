//! A policy with its configuration: which reviews it evaluates, with which settings, and what it reads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use opgate_cluster::{Declaration, Index, PatternError, Resource, SelectorError, parse_selector};
use opgate_document::Document;

use crate::bindings::types::{
    ClusterRead, DefaultLevel, Descriptor, Level, MatchRule, Rule, SettingsError,
};
use crate::call::Call;
use crate::cluster::{
    CallCluster, ClusterError, DeclaredRead, ResolvedRead, SampleAccess, SnapshotCache,
    UnavailableReason,
};
use crate::configuration::{Mode, PolicyConfig, RuleLevel};
use crate::matching::{EffectiveMatchRule, labels_of, setting_text};
use crate::review::{Review, ReviewError};
use crate::settings;

/// API group of documents for files.
const FILES_GROUP: &str = "opgate.dev";

/// The reason why a review cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BeginError {
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// An error in the descriptor of a policy.
#[derive(Debug, thiserror::Error)]
enum DeclarationError {
    #[error(transparent)]
    Field(#[from] PatternError),
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

/// A policy with its configuration.
pub(crate) struct LoadedPolicy {
    pub(crate) descriptor: Descriptor,
    pub(crate) mode: Mode,
    pub(crate) settings: Arc<Document>,
    config: PolicyConfig,
    matches: Vec<EffectiveMatchRule>,
    /// The reads with cluster state, and without.
    reads: Rc<[ResolvedRead]>,
    reads_without_cluster: Rc<[ResolvedRead]>,
    sample_access: SampleAccess,
    snapshots: SnapshotCache,
    /// The review of the call in progress.
    pub(crate) review: RefCell<Option<Review>>,
}

impl LoadedPolicy {
    /// Loads a policy.
    ///
    /// # Errors
    /// Everything in the configuration that does not fit the policy, a line each.
    pub(crate) fn load(descriptor: Descriptor, config: PolicyConfig) -> Result<Self, Vec<String>> {
        let mut errors = settings::check(&descriptor, &config.settings);
        let rules = resolve_rule_ids(&descriptor, &config, &mut errors);
        let config = PolicyConfig { rules, ..config };
        let settings = settings::with_common_settings(&descriptor, &config).to_string();
        let settings = Document::of(settings).unwrap_or_else(|error| {
            errors.push(format!("settings: {error}"));
            Document::default()
        });
        let loader = Loader { descriptor: &descriptor, config: &config, settings: &settings };
        let matches = loader.match_rules();
        let reads = [true, false].map(|with_cluster| {
            let read = |read| loader.read(read, with_cluster);
            descriptor.reads.iter().map(read).collect::<Result<Rc<[_]>, _>>()
        });
        let [Ok(reads), Ok(reads_without_cluster)] = reads else {
            return Err(vec![format!(
                "policy {} declares a read that is not valid",
                descriptor.name
            )]);
        };
        let sample_access = match &descriptor.sampling_rules {
            none if none.is_empty() => SampleAccess::Undeclared,
            rules if !loader.is_needed(rules) => SampleAccess::Off,
            _ => SampleAccess::On,
        };
        if !errors.is_empty() {
            return Err(errors);
        }
        let (mode, settings, review) = (config.mode, Arc::new(settings), RefCell::default());
        Ok(Self {
            descriptor,
            mode,
            settings,
            config,
            matches,
            reads,
            reads_without_cluster,
            sample_access,
            snapshots: SnapshotCache::default(),
            review,
        })
    }

    /// The lines for errors that the policy found in its settings.
    pub(crate) fn settings_errors(errors: &[SettingsError]) -> Vec<String> {
        let line = |error: &SettingsError| {
            let path = error.pointer.replace('/', ".");
            opgate_text::one_line(&format!("settings{path}: {}", error.message), 1_024)
        };
        errors.iter().take(64).map(line).collect()
    }

    /// Begins a call: the routes of a review, or none if the policy does not match it.
    pub(crate) fn begin(
        &self,
        review: &str,
        cluster: Option<String>,
    ) -> Result<Option<u64>, BeginError> {
        let review = Review::read(review)?;
        let reads = if cluster.is_some() { &self.reads } else { &self.reads_without_cluster };
        let snapshot = cluster.map(|json| self.snapshots.read(reads, json)).transpose()?;
        let cluster = CallCluster::new(reads.clone(), self.sample_access, snapshot);
        let labels = self.namespace_labels(&review, &cluster);
        let matching = self.matches.iter().filter(|rule| rule.matches(&review, labels.as_ref()));
        let routes: Vec<u64> = matching.map(EffectiveMatchRule::route).collect();
        let request = &review.request;
        let exclude = &self.config.exclude;
        let is_excluded = exclude.users.contains(&request.username)
            || !request.namespace.is_empty() && exclude.namespaces.contains(&request.namespace);
        if self.mode == Mode::Off || routes.is_empty() || is_excluded {
            return Ok(None);
        }
        Call::start(cluster);
        self.review.replace(Some(review));
        Ok(Some(routes.into_iter().fold(0, |all, route| all | route)))
    }

    /// The labels of the namespace of a review, as far as they count and are known.
    fn namespace_labels(
        &self,
        review: &Review,
        cluster: &CallCluster,
    ) -> Option<BTreeMap<String, String>> {
        if !cluster.is_known() || !self.matches.iter().any(EffectiveMatchRule::has_selector) {
            return None;
        }
        let request = &review.request;
        if review.is_namespace() {
            let namespace = review.object.as_ref().or(review.old_object.as_ref());
            return namespace.map(|namespace| labels_of(&request.name, namespace.root()));
        }
        let namespace = cluster.namespace(&request.namespace)?;
        Some(labels_of(&request.namespace, namespace.root()))
    }

    /// A rule by its id.
    pub(crate) fn rule(&self, id: &str) -> Option<&Rule> {
        self.descriptor.rules.iter().find(|rule| rule.id == id)
    }

    /// The level of a violation: the configured one of the rule, or else the one that the policy sets. A rule that
    /// is off by default stays off unless one of its settings is present.
    pub(crate) fn violation_level(&self, rule: &Rule, level: Level) -> RuleLevel {
        self.config.rules.get(&rule.id).copied().unwrap_or_else(|| {
            let is_present = |pointer: &String| self.settings.get(pointer).is_some();
            match level {
                _ if rule.default_level == DefaultLevel::Off
                    && !rule.enabled_by.iter().any(is_present) =>
                {
                    RuleLevel::Off
                }
                Level::Deny => RuleLevel::Deny,
                Level::Warn => RuleLevel::Warn,
            }
        })
    }
}

/// What a policy does with its configuration.
struct Loader<'l> {
    descriptor: &'l Descriptor,
    config: &'l PolicyConfig,
    settings: &'l Document,
}

impl Loader<'_> {
    /// Whether one of these settings is present, and is not `false`.
    fn is_any_set(&self, pointers: &[String]) -> bool {
        let is_set = |pointer: &String| {
            self.settings.get(pointer).is_some_and(|value| value.boolean() != Some(false))
        };
        pointers.iter().any(is_set)
    }

    /// Whether a rule can have violations.
    fn is_on(&self, rule: &Rule) -> bool {
        match self.config.rules.get(&rule.id) {
            Some(level) => *level != RuleLevel::Off,
            None => rule.default_level != DefaultLevel::Off || self.is_any_set(&rule.enabled_by),
        }
    }

    /// Whether one of these rules is on, or there are none.
    fn is_needed(&self, ids: &[String]) -> bool {
        let mut rules =
            ids.iter().filter_map(|id| self.descriptor.rules.iter().find(|rule| rule.id == *id));
        ids.is_empty() || rules.any(|rule| self.is_on(rule))
    }

    fn match_rules(&self) -> Vec<EffectiveMatchRule> {
        let is_enabled = |rule: &&MatchRule| {
            self.is_needed(&rule.rules)
                && (rule.enabled_by.is_empty() || self.is_any_set(&rule.enabled_by))
        };
        let rules = self.descriptor.matches.iter().filter(is_enabled);
        rules.map(|rule| EffectiveMatchRule::new(rule, self.settings)).collect()
    }

    /// Applies the settings to a declared read. Objects in files need no permission.
    fn read(
        &self,
        read: &ClusterRead,
        with_cluster: bool,
    ) -> Result<ResolvedRead, DeclarationError> {
        let from = read.resource.clone();
        let resource =
            Resource { group: from.group, version: from.version, resource: from.resource };
        let index = |index: &crate::bindings::types::Index| Index {
            name: index.name.clone(),
            field: index.field.clone(),
            separator: index.separator.clone(),
        };
        let indexes: Vec<_> = read.indexes.iter().map(index).collect();
        let declaration = Declaration::new(&read.fields, &read.keys, &indexes)?;
        let labels = Document::parse(&read.label_selector).unwrap_or_default();
        let is_only_in_files =
            !with_cluster && resource.group == FILES_GROUP && !resource.is_server_version();
        let is_enabled =
            with_cluster || read.enabled_by.is_empty() || self.is_any_set(&read.enabled_by);
        let dotted = |pointer: &String| pointer.trim_start_matches('/').replace('/', ".");
        let unavailable = if !self.is_needed(&read.rules) {
            Some(UnavailableReason::Off)
        } else if is_only_in_files {
            Some(UnavailableReason::OnlyInFiles)
        } else if !is_enabled {
            Some(UnavailableReason::NotSet(read.enabled_by.iter().map(dotted).collect()))
        } else {
            None
        };
        Ok(ResolvedRead {
            declared: Arc::new(DeclaredRead { resource, declaration }),
            labels: parse_selector(labels.root())?,
            namespace: read.namespace.as_ref().map(|name| setting_text(name, self.settings)),
            unavailable,
        })
    }
}

/// The configured levels by the ids of rules, which the configuration can also name.
fn resolve_rule_ids(
    descriptor: &Descriptor,
    config: &PolicyConfig,
    errors: &mut Vec<String>,
) -> BTreeMap<String, RuleLevel> {
    let mut levels = BTreeMap::new();
    for (text, level) in &config.rules {
        let rules = || descriptor.rules.iter();
        let by_name = || rules().find(|rule| !rule.name.is_empty() && rule.name == *text);
        let Some(rule) = rules().find(|rule| rule.id == *text).or_else(by_name) else {
            let known = rules().flat_map(|rule| [rule.id.as_str(), rule.name.as_str()]);
            let hint = opgate_text::hint(text, known.filter(|known| !known.is_empty()));
            errors.push(format!("policy {} has no rule {text:?}{hint}", descriptor.name));
            continue;
        };
        if levels.insert(rule.id.clone(), *level).is_some() {
            errors.push(format!("{} and {} are the same rule: keep one", rule.id, rule.name));
        }
    }
    levels
}
