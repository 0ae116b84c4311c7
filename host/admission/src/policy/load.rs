//! Loads the policies of a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use opgate_cluster::Resource;
use opgate_document::Document;
use serde_json::{Map, Value};

use super::component_file;
use super::config::{ConfigErrors, Configuration, ModuleSource, PolicyConfig};
use super::descriptor::{DeclaredRead, DefaultLevel, Rule};
use super::dispatch::InstancePoolFull;
use super::match_rule::MatchRule;
use super::schema::SchemaError;
use super::{Builtin, Descriptor, Dispatcher, EffectiveMatchRule, Policy, RuleLevel, schema};
use crate::cluster::{
    ClusterState, PolicyView, ResolvedRead, SampleAccess, Source, UnavailableRead,
    UnavailableReason,
};
use opgate_engine::{Budget, CallError, Compiler, Engine, Limits, Module};

/// The reason why a policy cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyLoadError {
    /// Its settings cannot be checked.
    #[error(transparent)]
    Settings(#[from] SchemaError),
    /// It has no usable component.
    #[error("{0}")]
    Component(String),
}

/// The result for one policy of a configuration.
pub(super) enum LoadOutcome {
    /// It can serve.
    Loaded(Box<LoadedPolicy>),
    /// Its component failed to load. As far as opgate can determine, the configuration is not the
    /// cause.
    Broken(PolicyLoadError),
}

/// The common inputs for loading all policies of a set.
pub(super) struct LoadContext<'s> {
    pub(super) engine: Arc<Engine>,
    /// The compiler for components and schemas from files. An engine that several sets share has
    /// the compiler of the first.
    pub(super) compiler: Compiler,
    pub(super) queue: usize,
    pub(super) source: Source,
    /// The policies that serve until these do.
    pub(super) replaced: &'s [Arc<Policy>],
}

/// A policy that has no cluster state yet: that depends on the reads of all policies of the set.
pub(super) struct LoadedPolicy {
    config: PolicyConfig,
    pub(super) match_rules: Vec<EffectiveMatchRule>,
    pub(super) reads: Vec<ResolvedRead>,
    unavailable_reads: Vec<UnavailableRead>,
    pub(super) sample_access: SampleAccess,
    descriptor: Descriptor,
    module: Module,
    dispatcher: Dispatcher,
    settings: Arc<Document>,
    advisory_rules: BTreeSet<String>,
    settings_without_advisory: Arc<Document>,
    loaded_at: SystemTime,
}

impl LoadedPolicy {
    /// Returns the policy, which reads this cluster state.
    pub(super) fn with_cluster(self, cluster: &Arc<ClusterState>) -> Policy {
        let view = PolicyView::new(cluster, &self.reads, self.unavailable_reads)
            .with_sample_access(self.sample_access.clone());
        let config = self.config;
        Policy {
            name: config.name,
            source: config.module,
            match_rules: self.match_rules,
            reads: self.reads,
            sample_access: self.sample_access,
            view: Arc::new(view),
            descriptor: self.descriptor,
            mode: config.mode,
            on_error: config.on_error,
            limits: config.limits,
            loaded_at: self.loaded_at,
            module: self.module,
            dispatcher: self.dispatcher,
            levels: config.rules,
            settings: self.settings,
            advisory_rules: self.advisory_rules,
            settings_without_advisory: self.settings_without_advisory,
            excluded_namespaces: config.excluded_namespaces,
            excluded_users: config.excluded_users,
            last_error: parking_lot::Mutex::new(None),
        }
    }
}

/// Loads a policy.
///
/// # Errors
/// If the configuration does not fit the policy: an unknown rule, settings that violate its schema,
/// or a resource that it may not read.
pub(super) fn load(
    context: &LoadContext<'_>,
    configuration: &Configuration,
    config: &PolicyConfig,
) -> Result<LoadOutcome, ConfigErrors> {
    let LoadContext { engine, compiler, queue, source, replaced } = context;
    let (queue, source) = (*queue, *source);
    let module = match open_component(engine, compiler, configuration, config) {
        Ok(module) => module,
        Err(why) => return Ok(LoadOutcome::Broken(why)),
    };
    let descriptor = match describe(&module, &config.name, config.limits) {
        Ok(descriptor) => descriptor,
        Err(why) => return Ok(LoadOutcome::Broken(why)),
    };
    let mut errors = ConfigErrors::default();
    let config = &with_rule_ids(configuration, config, &descriptor, &mut errors);
    if descriptor.settings_schema.is_empty() {
        errors.extend(check_no_settings(configuration, config));
    } else {
        match check_settings(compiler, configuration, config, &descriptor.settings_schema) {
            Ok(wrong) => errors.extend(wrong),
            Err(why) => return Ok(LoadOutcome::Broken(why)),
        }
    }
    errors.or(())?;
    let advice = advice(config, &descriptor);
    let without_advice = policy_settings(configuration, config, &descriptor, &advice);
    let settings = policy_settings(configuration, config, &descriptor, &BTreeSet::new());
    let checked = module.validate_settings(&settings, Budget::of(config.limits));
    write_log_lines(&config.name, None, &checked.log);
    match checked.result {
        Err(fault) => {
            return Ok(LoadOutcome::Broken(call_error("validate-settings", &fault)));
        }
        Ok(Err(wrong)) => {
            let mut errors = ConfigErrors::default();
            for error in wrong.iter().take(64) {
                let pointer = opgate_text::one_line(&error.pointer, 256);
                let text = opgate_text::one_line(&error.message, 1_024);
                errors.push(configuration.locate(config, &format!("/settings{pointer}"), &text));
            }
            return Err(errors);
        }
        Ok(Ok(())) => {}
    }
    let is_needed = |rules: &[String]| {
        let rules: Vec<_> = rules.iter().filter_map(|id| descriptor.rule(id)).collect();
        rules.is_empty() || rules.iter().any(|rule| is_on(config, rule, &settings))
    };
    // For files and requests alike: one configuration has one result. A target of files names the
    // setting `files`, which is set for them.
    let is_enabled =
        |rule: &MatchRule| rule.enabled_by.is_empty() || is_any_set(&rule.enabled_by, &settings);
    let requests = descriptor.matches.iter();
    let requests = requests.filter(|rule| is_needed(&rule.rules) && is_enabled(rule));
    let requests = requests.map(|rule| {
        let namespace = rule.namespace.as_ref().map(|namespace| namespace.of(&settings));
        let denies = |id: &String| config.rules.get(id) == Some(&RuleLevel::Deny);
        let can_deny = !rule.advisory || rule.rules.iter().any(denies);
        EffectiveMatchRule::new(rule.clone(), namespace, can_deny, &config.scope)
    });
    let requests = requests.collect();
    // Packages of catalogs, for example. Otherwise a server would list a resource that no API
    // server has, and roles would permit it.
    let is_only_in_files = |resource: &Resource| {
        matches!(source, Source::Live | Source::Absent)
            && resource.group == "opgate.dev"
            && !resource.is_server_version()
    };
    // Objects in files need no permission.
    let is_wanted = |read: &DeclaredRead| {
        let is_enabled = || read.enabled_by.is_empty() || is_any_set(&read.enabled_by, &settings);
        matches!(source, Source::Snapshot | Source::PartialSnapshot)
            || !is_only_in_files(&read.resource) && is_enabled()
    };
    let (needed, off): (Vec<_>, Vec<_>) =
        descriptor.reads.iter().partition(|read| is_needed(&read.rules) && is_wanted(read));
    let mut errors = ConfigErrors::default();
    if config.module.is_foreign() {
        for read in &needed {
            if !config.allowed_reads.contains(&read.resource.to_string()) {
                let text = format!(
                    "policy {} reads {}, which is not granted: add it to `allowedReads`",
                    config.name, read.resource
                );
                errors.push(configuration.locate(config, "/allowedReads", &text));
            }
        }
    }
    errors.or(())?;
    let reading = |read: &DeclaredRead| ResolvedRead {
        resource: read.resource.clone(),
        declaration: read.declaration.clone(),
        labels: read.labels.clone(),
        namespace: read.namespace.as_ref().map(|namespace| namespace.of(&settings)),
        optional: !read.enabled_by.is_empty(),
    };
    let readings = needed.into_iter().map(reading).collect();
    let unavailable_read = |read: &DeclaredRead| UnavailableRead {
        resource: read.resource.clone(),
        reason: if !is_needed(&read.rules) {
            UnavailableReason::Off
        } else if is_only_in_files(&read.resource) {
            UnavailableReason::OnlyInFiles
        } else {
            UnavailableReason::NotSet(dotted_paths(&read.enabled_by))
        },
    };
    let off = off.into_iter().map(unavailable_read).collect();
    let sampling = match &descriptor.samples {
        none if none.is_empty() => SampleAccess::Undeclared,
        rules if !is_needed(rules) => SampleAccess::Off,
        _ => SampleAccess::On(config.allowed_samples.clone()),
    };
    let other = replaced.iter().find(|policy| policy.name == config.name);
    let other = other.map(|policy| &policy.dispatcher);
    let dispatcher = match Dispatcher::new(engine, config.limits, queue, config.is_for_files, other)
    {
        Ok(dispatcher) => dispatcher,
        Err(InstancePoolFull) => {
            return Ok(LoadOutcome::Broken(PolicyLoadError::Component(
                "the pool has no instances for it".to_owned(),
            )));
        }
    };
    Ok(LoadOutcome::Loaded(Box::new(LoadedPolicy {
        match_rules: requests,
        reads: readings,
        unavailable_reads: off,
        sample_access: sampling,
        descriptor,
        module,
        dispatcher,
        settings,
        advisory_rules: advice,
        settings_without_advisory: without_advice,
        loaded_at: SystemTime::now(),
        config: config.clone(),
    })))
}

/// The configuration of a policy, in which names of rules are replaced by ids.
fn with_rule_ids(
    configuration: &Configuration,
    config: &PolicyConfig,
    descriptor: &Descriptor,
    errors: &mut ConfigErrors,
) -> PolicyConfig {
    let mut levels = BTreeMap::new();
    for (rule, level) in &config.rules {
        let text = if let Some(found) = descriptor.find_rule(rule) {
            if levels.insert(found.id.clone(), *level).is_none() {
                continue;
            }
            format!("{} and {} are the same rule: keep one", found.id, found.name)
        } else {
            let known = descriptor.rules.iter().flat_map(|r| [r.id.as_str(), r.name.as_str()]);
            let hint = opgate_text::hint(rule, known.filter(|known| !known.is_empty()));
            format!("policy {} has no rule {rule:?}{hint}", config.name)
        };
        errors.push(configuration.locate(config, &format!("/rules/{rule}"), &text));
    }
    let mut config = config.clone();
    config.rules = levels;
    config
}

/// Whether a rule can have violations: its level is not off, by the configuration or by default.
fn is_on(config: &PolicyConfig, rule: &Rule, settings: &Document) -> bool {
    match config.rules.get(&rule.id) {
        Some(level) => *level != RuleLevel::Off,
        None => rule.default != DefaultLevel::Off || is_any_set(&rule.enabled_by, settings),
    }
}

/// Whether one of these settings is present, and is not `false`: policies read them in the same way.
pub(super) fn is_any_set(pointers: &[String], settings: &Document) -> bool {
    pointers
        .iter()
        .any(|pointer| settings.get(pointer).is_some_and(|value| value.boolean() != Some(false)))
}

/// `catalog.pullSecrets` for `/catalog/pullSecrets`.
fn dotted_paths(pointers: &[String]) -> Vec<String> {
    pointers.iter().map(|pointer| pointer.trim_start_matches('/').replace('/', ".")).collect()
}

/// Gets the descriptor of a policy.
///
/// # Errors
/// If the policy does not return one, or returns one that violates the contract.
pub fn describe(
    module: &Module,
    name: &str,
    limits: Limits,
) -> Result<Descriptor, PolicyLoadError> {
    let described = module.describe(Budget::of(limits));
    write_log_lines(name, None, &described.log);
    let descriptor = described.result;
    let descriptor = descriptor.map_err(|fault| call_error("describe", &fault))?;
    Descriptor::check(&descriptor).map_err(|why| PolicyLoadError::Component(why.to_string()))
}

/// The reason why a call at load time returned no result, and the remediation.
fn call_error(call: &str, fault: &CallError) -> PolicyLoadError {
    let remedy = match fault {
        CallError::Memory(..) => ": raise `limits.memory` of the policy",
        CallError::CpuTime(_) => ": raise `limits.time` of the policy",
        _ => "",
    };
    PolicyLoadError::Component(format!("{call}: {fault}{remedy}"))
}

fn open_component(
    engine: &Arc<Engine>,
    compiler: &Compiler,
    configuration: &Configuration,
    config: &PolicyConfig,
) -> Result<Module, PolicyLoadError> {
    let is_granted = !(config.allowed_reads.is_empty() && config.allowed_samples.is_empty());
    match &config.module {
        ModuleSource::Builtin(name) => {
            let found = configuration.builtins.iter().find(|b| b.name == name);
            let builtin = found.ok_or_else(|| {
                PolicyLoadError::Component(format!("there is no built-in policy {name:?}"))
            })?;
            let Builtin { digest, image, .. } = builtin;
            let component = || builtin.component();
            engine
                .load_builtin(component, digest, image)
                .map_err(|e| PolicyLoadError::Component(e.to_string()))
        }
        ModuleSource::File(path) => {
            let bytes = component_file::read(path)
                .map_err(|e| PolicyLoadError::Component(format!("{}: {e}", path.display())))?;
            engine
                .load_with(compiler, &bytes, is_granted)
                .map_err(|e| PolicyLoadError::Component(format!("{}: {e}", path.display())))
        }
        // A component that could not be pulled has its reference in the text.
        ModuleSource::Oci(remote) => {
            let bytes = configuration.resolved_component(&config.name);
            let bytes = bytes.map_err(|why| PolicyLoadError::Component(why.to_string()))?;
            engine
                .load_with(compiler, bytes, is_granted)
                .map_err(|e| PolicyLoadError::Component(format!("{remote}: {e}")))
        }
    }
}

/// Writes the log lines of a policy to the host's log.
pub(crate) fn write_log_lines(
    policy: &str,
    trace_id: Option<&str>,
    lines: &[opgate_engine::LogLine],
) {
    for (level, text) in lines {
        match *level {
            tracing::Level::ERROR => tracing::error!(policy, trace_id, "{text}"),
            tracing::Level::WARN => tracing::warn!(policy, trace_id, "{text}"),
            tracing::Level::INFO => tracing::info!(policy, trace_id, "{text}"),
            _ => tracing::debug!(policy, trace_id, "{text}"),
        }
    }
}

/// The advisory rules of a policy: those that warn by the configuration, or by default if none of
/// the settings is present that could make them deny.
fn advice(config: &PolicyConfig, descriptor: &Descriptor) -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(&descriptor.settings_schema).unwrap_or_default();
    if schema.pointer("/properties/rules").is_none() {
        return BTreeSet::new();
    }
    let only_warns = |rule: &&Rule| match config.rules.get(&rule.id) {
        Some(level) => *level == RuleLevel::Warn,
        None => {
            rule.default == DefaultLevel::Warn
                && rule.enabled_by.iter().all(|pointer| config.settings.pointer(pointer).is_none())
        }
    };
    descriptor.rules.iter().filter(only_warns).map(|rule| rule.id.clone()).collect()
}

/// The settings that the policy receives: the configured ones and, if its schema has such
/// properties, `profile`, `identities` and `rules` of its configuration, and `files` if it
/// evaluates files and not requests. A profile and lists in its settings have priority. The rules
/// in `off` are `off` whatever their configuration.
fn policy_settings(
    configuration: &Configuration,
    config: &PolicyConfig,
    descriptor: &Descriptor,
    off: &BTreeSet<String>,
) -> Arc<Document> {
    let mut settings = config.settings.as_object().cloned().unwrap_or_default();
    let schema: Value = serde_json::from_str(&descriptor.settings_schema).unwrap_or_default();
    let has = |name: &str| schema.pointer(&format!("/properties/{name}")).is_some();
    if configuration.is_profile_set && has("profile") {
        settings.entry("profile").or_insert_with(|| configuration.profile.as_str().into());
    }
    if config.is_for_files && has("files") {
        settings.insert("files".to_owned(), Value::Bool(true));
    }
    // The lists of a fixed profile are those of the SDK.
    let found =
        configuration.platform().map(|found| [("olm", &found.olm), ("rukpak", &found.rukpak)]);
    let found = found.into_iter().flatten().map(|(key, users)| (key, users.as_slice()));
    for (key, users) in configuration.identities.lists().chain(found) {
        if has(&format!("identities/properties/{key}")) {
            let own = settings.entry("identities").or_insert_with(|| Value::Object(Map::new()));
            if let Some(own) = own.as_object_mut() {
                own.entry(key).or_insert_with(|| users.into());
            }
        }
    }
    if has("rules") && !(config.rules.is_empty() && off.is_empty()) {
        let levels = config.rules.iter().map(|(id, level)| (id.as_str(), level.as_str()));
        let off = off.iter().map(|id| (id.as_str(), RuleLevel::Off.as_str()));
        let levels: BTreeMap<_, _> = levels.chain(off).collect();
        settings.insert("rules".to_owned(), serde_json::json!(levels));
    }
    // Settings that are too deep for a document are too deep for the parser of the configuration.
    let text = Value::Object(settings).to_string();
    Arc::new(Document::parse(&text).unwrap_or_default())
}

fn check_no_settings(configuration: &Configuration, config: &PolicyConfig) -> ConfigErrors {
    let mut errors = ConfigErrors::default();
    if config.settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        let text = format!("policy {} takes no settings", config.name);
        errors.push(configuration.locate(config, "/settings", &text));
    }
    errors
}

/// The errors in the settings by the policy's schema. An untrusted schema is parsed and used in a
/// subprocess.
///
/// # Errors
/// If the schema is invalid.
fn check_settings(
    compiler: &Compiler,
    configuration: &Configuration,
    config: &PolicyConfig,
    schema: &str,
) -> Result<ConfigErrors, PolicyLoadError> {
    let mut errors = ConfigErrors::default();
    let mut wrong = |pointer: &str, text: &str| {
        errors.push(configuration.locate(config, &format!("/settings{pointer}"), text));
    };
    if config.settings.get("rules").is_some() {
        wrong(
            "/rules",
            "the levels of rules do not belong in `settings`: set `rules` of the policy",
        );
        return Ok(errors);
    }
    let found = match (compiler, &config.module) {
        (Compiler::Subprocess(program), module) if module.is_foreign() => {
            schema::check_in_subprocess(program, schema, &config.settings)
        }
        _ => schema::check(schema, &config.settings),
    }?;
    for schema::SettingsError { pointer, text } in found {
        wrong(&pointer, &text);
    }
    Ok(errors)
}
