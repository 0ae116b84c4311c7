//! `opgate policy inspect`: the descriptor of a policy, its permissions and webhooks, and lint findings.
//!
//! ```text
//! component ─▶ Loaded: descriptor, size, imports ─┬─▶ lint ─▶ findings
//! cases ─────▶ updates between their objects ─────┤
//! settings ──▶ Set: validate-settings ────────────┴─▶ roles and webhooks, as `manifests` prints them ─▶ show
//! ```

mod known;
mod lint;
mod show;
mod updates;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::{Value, json};

use self::lint::{ComponentParts, Finding};
use self::show::{to_json, write_table};
use super::load::LoadedComponent;
use super::source::{PolicySubject, SourceArgs, policy_from_file};
use super::test::read_cases;
use super::test::run::Runner;
use super::{Format, find_policy};
use crate::cli::args::ConfigArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::{stream, text_or_json};
use crate::cli::registry::is_reference;
use opgate_admission::cluster;
use opgate_admission::policy::{
    Configuration, Descriptor, LoadProgress, ModuleSource, Policy, PolicyConfig, PolicyLoadError,
    Profile, SchemaError, SetError,
};
use opgate_builtin_policies::BUILTINS;
use opgate_engine::{docs, interfaces};
use opgate_input::read::{ReadPurpose, Reader};
use opgate_manifests::read_roles::Permissions;
use opgate_manifests::registration::WebhookRegistration;
use opgate_manifests::registration::matches::PolicyFacts;
use opgate_manifests::registration::server::Target;
use opgate_server::DefaultLimits;

const AFTER_HELP: &str = "\
Examples:
  opgate policy inspect house.component.wasm                        A component
  opgate policy inspect house.component.wasm --settings house.yaml  With settings (YAML or JSON)
  opgate policy inspect .                                           The component of a source directory
  opgate policy inspect operator-group -o json                      A configured or built-in policy

Exit status: 0 nothing is wrong, 1 there are findings, 2 wrong usage, 3 the policy does not load or
fails. docs/policies/inspect.md describes the findings.";

/// Bytes of a file with settings.
const MAX_SETTINGS_BYTES: usize = 4 << 20;

/// Arguments of `opgate policy inspect`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Inspect {
    #[command(flatten)]
    config: ConfigArgs,
    /// File with settings, YAML or JSON [default: those of the configuration, or else none]
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Use the existing component of a source directory, without a build
    #[arg(long)]
    no_build: bool,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Name of a configured policy, file of a component, source directory, or reference
    /// (`oci://HOST/REPOSITORY@sha256:…`)
    policy: String,
}

/// Facts that follow from the settings.
#[derive(Default)]
struct SettingsEffect {
    /// Errors in the settings.
    errors: Vec<String>,
    /// Rules of roles, each with its namespace if it has one.
    permissions: Vec<Value>,
    webhooks: Vec<Value>,
}

impl Inspect {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let (loaded, mut policy, cases) = self.load()?;
        if let Some(path) = &self.settings {
            policy.settings = read_settings(path)?;
        }
        let descriptor = &loaded.descriptor;
        let (imports, _) = interfaces(&loaded.bytes).map_err(CommandError::engine)?;
        let docs = docs(&loaded.bytes);
        let mentions_replicas = lint::mentions_replicas(&loaded.bytes, &docs);
        let parts = ComponentParts { docs: &docs, imports: &imports, mentions_replicas };
        let mut findings = lint::lint(descriptor, &parts);
        if let Some(subject) = &cases {
            findings.extend(self.evaluate_updates(subject, descriptor)?);
        }
        let spooled = SpooledComponent::of(&loaded, &mut policy)?;
        let followed = evaluate_settings(&self.config, &policy, descriptor);
        drop(spooled);
        let (follows, failed) = match followed {
            Ok(follows) => (follows, None),
            Err(SettingsEffectError::Policy(
                why @ PolicyLoadError::Settings(SchemaError::Invalid(_)),
            )) => {
                findings.insert(0, Finding::new("schema", why.to_string()));
                (SettingsEffect::default(), None)
            }
            Err(why) => (SettingsEffect::default(), Some(why.to_string())),
        };
        for wrong in &follows.errors {
            findings.push(Finding::new("settings", format!("the settings are wrong: {wrong}")));
        }
        let mut out = stream(Some(text_or_json(self.output == Format::Json)));
        if self.output == Format::Json {
            writeln!(out, "{:#}", to_json(&loaded, &imports, &follows, &findings))?;
        } else {
            write_table(&mut out, &loaded, &imports, &follows, &findings)?;
        }
        match failed {
            Some(why) => Err(CommandError::engine(anyhow!("{}: {why}", loaded.source))),
            None if findings.is_empty() => Ok(ExitStatus::Ok),
            None => Ok(ExitStatus::Denied),
        }
    }

    /// Returns the rules that accept an update to an object that they reject, as the cases of the policy show.
    fn evaluate_updates(
        &self,
        subject: &PolicySubject,
        descriptor: &Descriptor,
    ) -> Result<Vec<Finding>, CommandError> {
        let cases = match read_cases(subject, descriptor) {
            Ok(cases) => cases,
            Err(why) => {
                // `opgate policy test` reports what is wrong with them.
                let why = opgate_text::one_line(&why.error.to_string(), 1_024);
                tracing::warn!("the cases are not used: {why}");
                return Ok(Vec::new());
            }
        };
        let mut runner = Runner::load(&subject.policy, &self.config)?;
        Ok(updates::find_accepted_updates(&mut runner, &cases))
    }

    /// Loads the component with its configuration, and returns the policy with its cases if it has any.
    fn load(&self) -> Result<(LoadedComponent, PolicyConfig, Option<PolicySubject>), CommandError> {
        let (config, name) = (&self.config, self.policy.as_str());
        let path = Path::new(name);
        if is_reference(name) {
            let (reference, pulled) = config.registry.pull(name, None)?;
            let source = reference.with_digest(&pulled.digest).to_string();
            let policy = policy_from_file(PathBuf::new())?;
            let loaded =
                LoadedComponent::of_bytes(&source, pulled.component.clone(), policy.limits, None)?;
            return Ok((loaded, policy, None));
        }
        if path.is_dir() || path.is_file() {
            let source =
                SourceArgs { policy: None, cases: None, no_build: true, config: config.clone() };
            let subject = source.subject(Some(path))?;
            if path.is_dir() && !self.no_build {
                subject.build()?;
            }
            let mut policy = subject.policy.clone();
            if path.is_file() {
                // Under the configured limits.
                let limits = policy.limits;
                policy = policy_from_file(path.to_owned())?;
                policy.limits = limits;
            }
            policy.settings = json!({});
            let cases = subject.cases.is_dir().then_some(subject);
            return Ok((LoadedComponent::of(&policy, config)?, policy, cases));
        }
        let set = config.load_set(cluster::ClusterOptions::of(cluster::Source::Absent))?;
        find_policy(&set, name)?;
        let configuration = config.configuration()?;
        let mut policies = configuration.policies.into_iter();
        let policy = policies.find(|policy| policy.name == name);
        let mut policy = policy.ok_or_else(|| anyhow!("there is no policy {name:?}"))?;
        if let ModuleSource::Oci(remote) = &policy.module {
            // Pulled above already, so that it is in the cache.
            let source = find_policy(&set, name)?.source.to_string();
            let (_, pulled) = config.registry.pull(&remote.to_string(), None)?;
            let loaded =
                LoadedComponent::of_bytes(&source, pulled.component.clone(), policy.limits, None)?;
            policy.module = ModuleSource::File(PathBuf::new());
            return Ok((loaded, policy, None));
        }
        Ok((LoadedComponent::of(&policy, config)?, policy, None))
    }
}

/// A component from a registry as a file, as long as this exists.
struct SpooledComponent(PathBuf);

impl SpooledComponent {
    /// Gives a policy without a file one; none if it has one.
    fn of(loaded: &LoadedComponent, policy: &mut PolicyConfig) -> anyhow::Result<Option<Self>> {
        let is_without =
            matches!(&policy.module, ModuleSource::File(path) if path.as_os_str().is_empty());
        if !is_without {
            return Ok(None);
        }
        let name = format!("opgate-inspect-{}.component.wasm", std::process::id());
        let path = std::env::temp_dir().join(name);
        let whose = || path.display().to_string();
        // Never overwrites a file of another user, nor follows a link.
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(&path).with_context(whose)?;
        let spooled = Self(path.clone());
        file.write_all(&loaded.bytes).with_context(whose)?;
        policy.module = ModuleSource::File(path);
        Ok(Some(spooled))
    }
}

impl Drop for SpooledComponent {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the settings in a file.
fn read_settings(path: &Path) -> Result<Value, CommandError> {
    let whose = || path.display().to_string();
    let opened = opgate_input::read::open_named(path).with_context(whose)?;
    let bytes = Reader::new(MAX_SETTINGS_BYTES)
        .read(opened, true, ReadPurpose::Keep)
        .with_context(whose)?;
    let text = String::from_utf8(bytes).with_context(whose)?;
    let located = opgate_input::yaml::LocatedValue::read(&text);
    let located =
        located.map_err(|e| anyhow!("{}:{}:{}: {}", whose(), e.line, e.column, e.message))?;
    match located.value {
        Value::Null => Ok(json!({})),
        value @ Value::Object(_) => Ok(value),
        _ => Err(CommandError::usage(anyhow!("{}: settings are an object", whose()))),
    }
}

/// The reason why the effect of settings is not known.
#[derive(Debug, thiserror::Error)]
enum SettingsEffectError {
    /// The policy cannot be loaded.
    #[error(transparent)]
    Policy(#[from] PolicyLoadError),
    /// There is nothing to load it with.
    #[error("{0}")]
    Other(String),
}

/// Loads the policy with its settings, and everything that it reads granted.
///
/// # Errors
/// Why the policy cannot be used. Wrong settings are no such error.
fn evaluate_settings(
    config: &ConfigArgs,
    policy: &PolicyConfig,
    descriptor: &Descriptor,
) -> Result<SettingsEffect, SettingsEffectError> {
    let mut policy = policy.clone();
    policy.name.clone_from(&descriptor.name);
    policy.allowed_reads = descriptor.reads.iter().map(|read| read.resource.to_string()).collect();
    if policy.allowed_reads.is_empty() {
        policy.allowed_reads = vec!["v1/namespaces".to_owned()];
    }
    let mut configuration = Configuration::builtin(Profile::default(), BUILTINS);
    configuration.policies = vec![policy];
    let (options, loading) =
        (cluster::ClusterOptions::of(cluster::Source::Absent), LoadProgress::default());
    let room = DefaultLimits::of(Path::new("/"));
    let compiler = opgate_engine::Compiler::in_subprocess(room.subprocess_bytes)
        .map_err(|e| SettingsEffectError::Other(e.to_string()))?;
    let cache = config.cache(&configuration);
    let set = opgate_admission::policy::PolicySet::load_with(
        &configuration,
        cache,
        compiler,
        1,
        options,
        &loading,
    );
    let set = match set {
        Ok(set) => set,
        Err(SetError::Config(wrong)) => {
            let wrong = wrong.to_string().lines().map(str::to_owned).collect();
            return Ok(SettingsEffect { errors: wrong, ..SettingsEffect::default() });
        }
        Err(SetError::Engine(error)) => return Err(SettingsEffectError::Other(error.to_string())),
    };
    if let Some(broken) = set.broken().first() {
        return Err(SettingsEffectError::Policy(broken.error.clone()));
    }
    let policies: Vec<&Policy> = set.policies().iter().map(AsRef::as_ref).collect();
    let granted = Permissions::with_defaults().of(&policies, None);
    let items = granted.get("items").and_then(Value::as_array).into_iter().flatten();
    let permissions = items.flat_map(|role| {
        let namespace = role.pointer("/metadata/namespace").cloned();
        let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten();
        rules.cloned().map(move |mut rule| {
            if let (Some(members), Some(namespace)) = (rule.as_object_mut(), namespace.clone()) {
                members.insert("namespace".to_owned(), namespace);
            }
            rule
        })
    });
    let permissions = permissions.collect();
    let facts: Vec<_> = policies.iter().map(|policy| PolicyFacts::of(policy)).collect();
    let registration = WebhookRegistration {
        name: "opgate".to_owned(),
        target: Target::Url("https://opgate.example".to_owned()),
        exempt: Vec::new(),
        supports_conditions: true,
        ca: Vec::new(),
    };
    let webhook_configuration = serde_json::to_value(registration.of(&facts))
        .map_err(|e| SettingsEffectError::Other(e.to_string()))?;
    let webhooks = webhook_configuration
        .get("webhooks")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let webhook = |mut webhook: Value| {
        if let Some(members) = webhook.as_object_mut() {
            // Fields for the server are the same for all webhooks.
            for name in ["clientConfig", "admissionReviewVersions", "sideEffects", "matchPolicy"] {
                members.remove(name);
            }
        }
        webhook
    };
    let webhooks = webhooks.into_iter().map(webhook).collect();
    Ok(SettingsEffect { errors: Vec::new(), permissions, webhooks })
}
