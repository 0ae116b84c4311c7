//! `opgate policy`: what policies there are, what they say about themselves, and how they get to others.

mod bench;
mod inspect;
mod language;
mod load;
mod new;
mod pack;
mod published;
mod reserved_names;
mod sdk;
mod source;
mod test;
mod wit;
mod world;

use std::io::Write as _;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::published::{Pull, Push, Verify};
use self::wit::Wit;
use crate::cli::args::ConfigArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::{stream, text_or_json};
use opgate_admission::cluster;
use opgate_admission::policy::{Policy, PolicySet};

const SCHEMA_AFTER_HELP: &str = "\
Example:
  opgate policy schema > cases.schema.json

With `# yaml-language-server: $schema=../cases.schema.json` as the first line of cases/RULE.yaml, editors
complete and check it. docs/policies/cases.md describes the cases.";

/// Arguments of `opgate policy`.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a policy project
    New(new::New),
    /// List the configured policies
    List {
        #[command(flatten)]
        config: ConfigArgs,
        /// Output format
        #[arg(long, short, value_name = "FORMAT", default_value = "table")]
        output: Format,
    },
    /// Show the rules, matches and permissions of a policy, and lint it
    Inspect(Box<inspect::Inspect>),
    /// Run the cases of a policy through its component
    Test(Box<test::Test>),
    /// Print the JSON Schema of the files with cases
    #[command(after_help = SCHEMA_AFTER_HELP)]
    Schema,
    /// Measure the cost of a policy: loading, evaluation, memory
    Bench(Box<bench::Bench>),
    /// Package a core module that was built with the SDK as a component
    Pack(pack::Pack),
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
    /// Human-readable text
    Table,
    /// For programs
    Json,
}

impl PolicyArgs {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        match self.command {
            Command::New(new) => new.run(),
            Command::List { config, output } => list(
                &config.load_set(cluster::ClusterOptions::of(cluster::Source::Absent))?,
                output,
            ),
            Command::Inspect(inspect) => inspect.run(),
            Command::Test(test) => test.run(),
            Command::Schema => print_schema(),
            Command::Bench(bench) => bench.run(),
            Command::Pack(pack) => pack.run(),
            Command::Push(push) => push.run(),
            Command::Pull(pull) => pull.run(),
            Command::Verify(verify) => verify.run(),
            Command::Wit(wit) => wit.run(),
        }
    }
}

/// Prints the schema of case files.
fn print_schema() -> Result<ExitStatus, CommandError> {
    let mut out = stream(Some(text_or_json(true)));
    write!(out, "{}", opgate_casefile::SCHEMA)?;
    Ok(ExitStatus::Ok)
}

fn list(set: &PolicySet, output: Format) -> Result<ExitStatus, CommandError> {
    let mut out = stream(Some(text_or_json(output == Format::Json)));
    if output == Format::Json {
        let policies = set.policies().iter().map(|p| summary(p));
        let broken = set.broken().iter().map(|b| {
            json!({"name": b.name, "source": b.source, "mode": b.mode.as_str(), "error": b.error.to_string()})
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
    Ok(if set.broken().is_empty() { ExitStatus::Ok } else { ExitStatus::Engine })
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

fn find_policy(set: &PolicySet, name: &str) -> Result<Arc<Policy>, CommandError> {
    if let Some(policy) = set.policies().iter().find(|p| p.name == name) {
        return Ok(policy.clone());
    }
    if let Some(broken) = set.broken().iter().find(|b| b.name == name) {
        return Err(CommandError::engine(anyhow::anyhow!("policy {name}: {}", broken.error)));
    }
    let hint = opgate_text::hint(name, set.policies().iter().map(|p| p.name.as_str()));
    Err(CommandError::usage(anyhow::anyhow!("there is neither a policy nor a file {name:?}{hint}")))
}
