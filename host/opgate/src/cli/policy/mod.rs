//! `opgate policy`: what policies there are, what they say about themselves, and how they get to others.

mod language;
mod new;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::published::{Pull, Push, Verify};
use super::registry::is_reference;
use super::wit::Wit;
use super::{ConfigArgs, Failure, Outcome};
use opgate_admission::cluster;
use opgate_admission::policy::{Descriptor, Policy, Set, describe, read_component};
use opgate_engine::{Compiler, Engine, Limits, Pool};
use opgate_server::Room;

/// From a module to a policy that serves.
const NEXT: &str = "\
Next (docs/write-a-policy.md):
  opgate policy inspect FILE            Test that the component loads
  opgate rules --config opgate.yaml     Test it with `module: FILE` in the configuration";

/// Arguments of `opgate policy`.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a new policy: a folder that builds and tests
    New(new::New),
    /// List the configured policies
    List {
        #[command(flatten)]
        config: ConfigArgs,
        /// Output format
        #[arg(long, value_name = "FORM", default_value = "table")]
        output: Format,
    },
    /// Show the rules, matches, reads and settings schema of a policy
    Inspect {
        #[command(flatten)]
        config: ConfigArgs,
        /// Output format
        #[arg(long, value_name = "FORM", default_value = "table")]
        output: Format,
        /// Name of a configured policy, file of a component, or its reference (`oci://HOST/REPOSITORY@sha256:…`)
        policy: String,
    },
    /// Package a core module that was built with the SDK as a component
    #[command(after_help = NEXT)]
    Pack {
        /// Module that cargo built for wasm32-unknown-unknown
        module: PathBuf,
        /// File for the component [default: the module's name, ending in .component.wasm]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Push a component to a registry
    Push(Push),
    /// Pull a component from a registry
    Pull(Pull),
    /// Verify that a component in a registry is signed with a key
    Verify(Verify),
    /// Print the contract between opgate and policies, or push it to a registry
    Wit(Wit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

impl PolicyArgs {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Command::New(new) => new.run(),
            Command::List { config, output } => {
                list(&config.set(cluster::Options::of(cluster::Source::Absent))?, output)
            }
            Command::Inspect { config, output, policy } => inspect(&config, output, &policy),
            Command::Pack { module, output } => pack(&module, output),
            Command::Push(push) => push.run(),
            Command::Pull(pull) => pull.run(),
            Command::Verify(verify) => verify.run(),
            Command::Wit(wit) => wit.run(),
        }
    }
}

fn list(set: &Set, output: Format) -> Result<Outcome, Failure> {
    let mut out = anstream::AutoStream::auto(std::io::stdout());
    if output == Format::Json {
        let policies = set.policies().iter().map(|p| summary(p));
        let broken = set.broken().iter().map(|b| {
            json!({"name": b.name, "source": b.source, "mode": b.mode.as_str(), "error": b.error})
        });
        let list: Vec<_> = policies.chain(broken).collect();
        writeln!(out, "{:#}", json!(list))?;
    } else {
        writeln!(out, "{:24} {:8} {:8} {:>5}  SOURCE", "NAME", "VERSION", "MODE", "RULES")?;
        for policy in set.policies() {
            writeln!(
                out,
                "{:24} {:8} {:8} {:>5}  {}",
                policy.name,
                policy.descriptor.version,
                policy.mode.as_str(),
                policy.descriptor.rules.len(),
                policy.source
            )?;
        }
        for broken in set.broken() {
            writeln!(
                out,
                "{:24} {:8} {:8} {:>5}  {}",
                broken.name, "-", "broken", "-", broken.error
            )?;
        }
    }
    Ok(if set.broken().is_empty() { Outcome::Ok } else { Outcome::Engine })
}

fn summary(policy: &Policy) -> Value {
    json!({
        "name": policy.name,
        "version": policy.descriptor.version,
        "digest": policy.module.digest(),
        "source": policy.source.to_string(),
        "mode": policy.mode.as_str(),
        "onError": policy.on_error.as_str(),
        "rules": policy.descriptor.rules.len(),
    })
}

/// What is shown of a policy.
struct Shown {
    source: String,
    digest: String,
    limits: Limits,
    descriptor: Descriptor,
}

fn inspect(config: &ConfigArgs, output: Format, name: &str) -> Result<Outcome, Failure> {
    let shown = if is_reference(name) {
        let (reference, pulled) = config.registry.pull(name, None)?;
        of_component(&reference.pinned(&pulled.digest).to_string(), &pulled.component)?
    } else if Path::new(name).is_file() {
        let path = Path::new(name);
        let bytes = read_component(path).with_context(|| path.display().to_string())?;
        of_component(&path.display().to_string(), &bytes)?
    } else {
        let set = config.set(cluster::Options::of(cluster::Source::Absent))?;
        let policy = named(&set, name)?;
        Shown {
            source: policy.source.to_string(),
            digest: policy.module.digest().to_owned(),
            limits: policy.limits,
            descriptor: policy.descriptor.clone(),
        }
    };
    let mut out = anstream::AutoStream::auto(std::io::stdout());
    let described = description(&shown);
    if output == Format::Json {
        writeln!(out, "{described:#}")?;
        return Ok(Outcome::Ok);
    }
    let (d, limits) = (&shown.descriptor, shown.limits);
    writeln!(out, "{} {}: {}", d.name, d.version, d.title)?;
    writeln!(out, "source   {}\ndigest   {}", shown.source, shown.digest)?;
    writeln!(
        out,
        "limits   {} of memory, {}ms, {} at a time",
        opgate_text::units::bytes(limits.memory),
        limits.time.as_millis(),
        limits.concurrency
    )?;
    for rule in &d.matches {
        let operations: Vec<_> = rule.operations.iter().map(|o| o.as_str()).collect();
        writeln!(
            out,
            "matches  {} of {}/{}: {}",
            rule.resources.join(", "),
            rule.groups.join(", "),
            rule.versions.join(", "),
            operations.join(", ")
        )?;
    }
    for read in &d.reads {
        writeln!(out, "reads    {}", read.resource)?;
    }
    if !d.samples.is_empty() {
        writeln!(out, "samples  custom resources of any kind")?;
    }
    for rule in &d.rules {
        writeln!(out, "rule     {:8} {:4} {}", rule.id, rule.default.as_str(), rule.title)?;
    }
    if !d.settings_schema.is_empty() {
        writeln!(out, "settings {:#}", described.get("settingsSchema").unwrap_or(&Value::Null))?;
    }
    Ok(Outcome::Ok)
}

/// Only what the policy says about itself is asked: no settings, and nothing is read.
fn of_component(source: &str, bytes: &[u8]) -> Result<Shown, Failure> {
    let limits = Limits::default();
    let pool = Pool { instances: 1, memory: limits.memory };
    let room = Room::of(Path::new("/"));
    let compiler = Compiler::apart(room.children).map_err(Failure::engine)?;
    let engine = Engine::start(pool, None).map_err(Failure::engine)?.with_compiler(compiler);
    let engine = Arc::new(engine);
    let of_it = |e: String| Failure::engine(anyhow::anyhow!("{source}: {e}"));
    let module = engine.load(bytes, true).map_err(|e| of_it(e.to_string()))?;
    let descriptor = describe(&module, "inspected", limits).map_err(of_it)?;
    Ok(Shown { source: source.to_owned(), digest: module.digest().to_owned(), limits, descriptor })
}

fn named(set: &Set, name: &str) -> Result<Arc<Policy>, Failure> {
    if let Some(policy) = set.policies().iter().find(|p| p.name == name) {
        return Ok(policy.clone());
    }
    if let Some(broken) = set.broken().iter().find(|b| b.name == name) {
        return Err(Failure::engine(anyhow::anyhow!("policy {name}: {}", broken.error)));
    }
    let hint = opgate_text::hint(name, set.policies().iter().map(|p| p.name.as_str()));
    Err(Failure::usage(anyhow::anyhow!("there is neither a policy nor a file {name:?}{hint}")))
}

fn description(policy: &Shown) -> Value {
    let d = &policy.descriptor;
    let operations = |operations: &[opgate_admission::review::Operation]| -> Vec<&str> {
        operations.iter().map(|o| o.as_str()).collect()
    };
    let rules = d.rules.iter().map(|rule| {
        json!({
            "id": rule.id,
            "title": rule.title,
            "default": rule.default.as_str(),
            "enabledBy": rule.enabled_by,
            "kinds": rule.kinds,
            "operations": operations(&rule.operations),
            "source": rule.source,
        })
    });
    let matches = d.matches.iter().map(|rule| {
        json!({
            "groups": rule.groups,
            "versions": rule.versions,
            "resources": rule.resources,
            "operations": operations(&rule.operations),
        })
    });
    json!({
        "name": d.name,
        "version": d.version,
        "title": d.title,
        "source": policy.source,
        "digest": policy.digest,
        "matches": matches.collect::<Vec<_>>(),
        "reads": d.reads.iter().map(|read| read.resource.to_string()).collect::<Vec<_>>(),
        "samples": !d.samples.is_empty(),
        "rules": rules.collect::<Vec<_>>(),
        "settingsSchema": serde_json::from_str::<Value>(&d.settings_schema).unwrap_or_default(),
    })
}

fn pack(module: &Path, output: Option<PathBuf>) -> Result<Outcome, Failure> {
    let named = |what: &str| format!("{}: {what}", module.display());
    let bytes = std::fs::read(module).map_err(|e| anyhow::anyhow!(named(&e.to_string())))?;
    let component = wit_component::ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|e| anyhow::anyhow!(named(&format!("cannot be made into a component: {e:#}"))))?;
    let output = output.unwrap_or_else(|| module.with_extension("component.wasm"));
    std::fs::write(&output, component).map_err(|e| anyhow::anyhow!("{}: {e}", output.display()))?;
    writeln!(anstream::stdout(), "{}", output.display())?;
    Ok(Outcome::Ok)
}
