//! From a configuration to policies that serve.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use jsonschema::error::ValidationErrorKind;
use opgate_document::Document;
use serde_json::Value;

use super::config::{ConfigErrors, Configuration, ModuleSource, PolicyConfig};
use super::{Descriptor, Lane, Policy, Profile, builtin};
use crate::engine::{Budget, Engine, Module};

/// What came of one policy of a configuration.
pub(super) enum Loaded {
    /// It serves.
    Policy(Box<Policy>),
    /// Its component cannot be used: not the configuration's fault as far as one can see.
    Broken(String),
}

/// Loads a policy.
///
/// # Errors
/// Where the configuration does not fit the policy: a rule that it has not, settings that break its
/// schema, a resource that it may not read.
pub(super) fn load(
    engine: &Arc<Engine>,
    configuration: &Configuration,
    config: &PolicyConfig,
    queue: usize,
) -> Result<Loaded, ConfigErrors> {
    let module = match open(engine, config) {
        Ok(module) => module,
        Err(why) => return Ok(Loaded::Broken(why)),
    };
    let described = module.describe(Budget::of(config.limits));
    log(&config.name, &described.log);
    let descriptor = described.result.map_err(|fault| format!("describe: {fault}"));
    let descriptor = match descriptor.and_then(|d| Descriptor::check(&d)) {
        Ok(descriptor) => descriptor,
        Err(why) => return Ok(Loaded::Broken(why)),
    };
    let mut errors = ConfigErrors::default();
    for rule in config.rules.keys() {
        if descriptor.rule(rule).is_none() {
            let hint = crate::text::hint(rule, descriptor.rules.iter().map(|r| r.id.as_str()));
            let text = format!("policy {} has no rule {rule:?}{hint}", config.name);
            errors.push(configuration.at(config, &format!("/rules/{rule}"), &text));
        }
    }
    if let ModuleSource::File(_) = config.module {
        for read in &descriptor.reads {
            if !config.cluster.contains(read) {
                let text = format!(
                    "policy {} reads {read}, which is not granted: add it to `cluster`",
                    config.name
                );
                errors.push(configuration.at(config, "/cluster", &text));
            }
        }
    }
    errors.extend(check_schema(configuration, config, &descriptor));
    errors.or(())?;
    let settings = settings(config, &descriptor, configuration.profile);
    let checked = module.validate_settings(&settings, Budget::of(config.limits));
    log(&config.name, &checked.log);
    match checked.result {
        Err(fault) => return Ok(Loaded::Broken(format!("validate-settings: {fault}"))),
        Ok(Err(wrong)) => {
            let mut errors = ConfigErrors::default();
            for error in wrong.iter().take(64) {
                let pointer = crate::text::one_line(&error.pointer, 256);
                let text = crate::text::one_line(&error.message, 1_024);
                errors.push(configuration.at(config, &format!("/settings{pointer}"), &text));
            }
            return Err(errors);
        }
        Ok(Ok(())) => {}
    }
    Ok(Loaded::Policy(Box::new(Policy {
        name: config.name.clone(),
        source: config.module.clone(),
        descriptor,
        mode: config.mode,
        on_error: config.on_error,
        limits: config.limits,
        loaded_at: SystemTime::now(),
        module,
        lane: Lane::new(config.limits, queue),
        levels: config.rules.clone(),
        settings,
        excluded_namespaces: config.excluded_namespaces.clone(),
        excluded_users: config.excluded_users.clone(),
        last_error: parking_lot::Mutex::new(None),
    })))
}

fn open(engine: &Arc<Engine>, config: &PolicyConfig) -> Result<Module, String> {
    match &config.module {
        ModuleSource::Builtin(name) => {
            let found = builtin::BUILTINS.iter().find(|b| b.name == name);
            let builtin = found.ok_or_else(|| format!("there is no built-in policy {name:?}"))?;
            engine.load_builtin(builtin.component, &builtin.image).map_err(|e| e.to_string())
        }
        ModuleSource::File(path) => {
            let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
            engine
                .load(&bytes, !config.cluster.is_empty())
                .map_err(|e| format!("{}: {e}", path.display()))
        }
    }
}

/// Writes what a policy logged to the host's log.
pub(super) fn log(policy: &str, lines: &[crate::engine::LogLine]) {
    for (level, text) in lines {
        match *level {
            tracing::Level::ERROR => tracing::error!(policy, "{text}"),
            tracing::Level::WARN => tracing::warn!(policy, "{text}"),
            tracing::Level::INFO => tracing::info!(policy, "{text}"),
            _ => tracing::debug!(policy, "{text}"),
        }
    }
}

/// The settings as the policy gets them: those of the configuration, with `profile` and `rules`
/// where its schema has such properties.
fn settings(config: &PolicyConfig, descriptor: &Descriptor, profile: Profile) -> Arc<Document> {
    let mut settings = config.settings.as_object().cloned().unwrap_or_default();
    let schema: Value = serde_json::from_str(&descriptor.settings_schema).unwrap_or_default();
    let has = |name: &str| schema.pointer(&format!("/properties/{name}")).is_some();
    if has("profile") {
        settings.entry("profile").or_insert_with(|| profile.as_str().into());
    }
    if has("rules") && !config.rules.is_empty() {
        let levels: BTreeMap<_, _> =
            config.rules.iter().map(|(id, level)| (id.as_str(), level.as_str())).collect();
        settings.insert("rules".to_owned(), serde_json::json!(levels));
    }
    let text = Arc::new(Value::Object(settings).to_string());
    let end = text.len();
    Arc::new(Document::part(text, 0..end))
}

fn check_schema(
    configuration: &Configuration,
    config: &PolicyConfig,
    descriptor: &Descriptor,
) -> ConfigErrors {
    let mut errors = ConfigErrors::default();
    let mut wrong = |pointer: &str, text: &str| {
        errors.push(configuration.at(config, &format!("/settings{pointer}"), text));
    };
    if config.settings.get("rules").is_some() {
        wrong(
            "/rules",
            "the levels of rules belong beside `settings`, under `rules` of the policy",
        );
        return errors;
    }
    if descriptor.settings_schema.is_empty() {
        if config.settings.as_object().is_some_and(|settings| !settings.is_empty()) {
            wrong("", &format!("policy {} takes no settings", config.name));
        }
        return errors;
    }
    let schema: Value = match serde_json::from_str(&descriptor.settings_schema) {
        Ok(schema) => schema,
        Err(error) => {
            wrong(
                "",
                &format!("the settings schema of policy {} is not JSON: {error}", config.name),
            );
            return errors;
        }
    };
    let validator = match jsonschema::draft202012::new(&schema) {
        Ok(validator) => validator,
        Err(error) => {
            wrong(
                "",
                &format!("the settings schema of policy {} is not valid: {error}", config.name),
            );
            return errors;
        }
    };
    for error in validator.iter_errors(&config.settings) {
        let at = error.instance_path().as_str();
        if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
            let rule = error.schema_path().as_str();
            let around = rule.strip_suffix("/additionalProperties").unwrap_or_default();
            for key in unexpected {
                let hint = key_hint(&schema, around, key);
                let escaped = key.replace('~', "~0").replace('/', "~1");
                wrong(&format!("{at}/{escaped}"), &format!("unknown setting `{key}`{hint}"));
            }
        } else {
            wrong(at, &error.to_string());
        }
    }
    errors
}

/// The nearest name beside an unknown key, or the place where a key of that name belongs.
fn key_hint(schema: &Value, around: &str, key: &str) -> String {
    let properties = schema.pointer(&format!("{around}/properties")).and_then(Value::as_object);
    let beside = properties.into_iter().flat_map(|p| p.keys().map(String::as_str));
    let hint = crate::text::hint(key, beside);
    if !hint.is_empty() {
        return hint;
    }
    let mut elsewhere = Vec::new();
    let mut todo = vec![(String::new(), schema)];
    while let Some((path, schema)) = todo.pop() {
        for (name, member) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if name == key || path == key {
                elsewhere.push(path.clone());
            }
            todo.push((path, member));
        }
    }
    elsewhere.sort();
    elsewhere.first().map(|path| format!("; it belongs at `settings.{path}`")).unwrap_or_default()
}
