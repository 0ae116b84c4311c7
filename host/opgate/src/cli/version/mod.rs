//! `opgate version`: the version, and what the binary was built of.

use std::io::Write as _;

use clap::Args;
use serde::Serialize;

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::stdout;
use opgate_builtin_policies::{self as builtin, BUILTINS};

const VERSION_AFTER_HELP: &str = "\
Example:
  opgate version -o json

docs/command-line.md describes the members.";

/// Arguments of `opgate version`.
#[derive(Debug, Args)]
#[command(after_help = VERSION_AFTER_HELP)]
pub(super) struct Version {
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// One JSON object
    Json,
}

/// Build information. The members are part of the stable interface.
#[derive(Debug, Serialize)]
struct BuildInfo {
    version: &'static str,
    /// Commit of the sources, if the build sets `OPGATE_COMMIT`.
    commit: Option<&'static str>,
    /// The version of the contract with policies.
    contract: &'static str,
    /// Number of built-in policies.
    policies: usize,
    rules: usize,
    target: &'static str,
    wasmtime: &'static str,
}

impl Version {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let build = BuildInfo {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("OPGATE_COMMIT").filter(|commit| !commit.is_empty()),
            contract: opgate_engine::CONTRACT,
            policies: BUILTINS.len(),
            rules: builtin::rule_ids().len(),
            target: opgate_engine::TARGET,
            wasmtime: opgate_engine::WASMTIME,
        };
        let mut out = stdout(None);
        if self.output == Format::Json {
            serde_json::to_writer_pretty(&mut out, &build).map_err(CommandError::engine)?;
            writeln!(out)?;
        } else {
            let BuildInfo { version, commit, contract, policies, rules, target, wasmtime } = build;
            writeln!(out, "opgate {version}")?;
            writeln!(out, "commit    {}", commit.unwrap_or("unknown"))?;
            writeln!(out, "contract  opgate:policy@{contract}")?;
            writeln!(out, "built in  {rules} rules in {policies} policies")?;
            writeln!(out, "target    {target}")?;
            writeln!(out, "wasmtime  {wasmtime}")?;
        }
        out.flush()?;
        Ok(ExitStatus::Ok)
    }
}
