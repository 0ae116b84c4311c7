//! Commands for the program rather than for policies: shell completions, man pages, the version.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Command};
use clap_complete::Shell;
use serde::Serialize;

use super::report::stdout;
use super::{CommandError, ExitStatus, doctor, help};
use crate::builtin::BUILTINS;
use opgate_admission::policy::{Configuration, ModuleSource, Profile};

const COMPLETIONS_AFTER_HELP: &str = "\
Examples:
  opgate completions bash > /etc/bash_completion.d/opgate
  opgate completions zsh > \"${fpath[1]}/_opgate\"
  opgate completions fish > ~/.config/fish/completions/opgate.fish
  opgate completions powershell >> $PROFILE

docs/command-line.md has the details.";

const MAN_AFTER_HELP: &str = "\
Example:
  opgate man /usr/local/share/man/man1

docs/command-line.md has the details.";

const VERSION_AFTER_HELP: &str = "\
Example:
  opgate version -o json

docs/command-line.md describes the members.";

/// Arguments of `opgate completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_AFTER_HELP)]
pub(super) struct Completions {
    /// Shell that completes commands, flags, formats, and the ids of rules and of findings of the doctor
    shell: Shell,
}

/// Arguments of `opgate man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_AFTER_HELP)]
pub(super) struct Man {
    /// The directory; files of the same names are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

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

/// Returns the rules of the built-in policies are those that they document. No policy is loaded for that.
fn builtin_rule_ids() -> BTreeSet<String> {
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let modules = BUILTINS.iter().map(|builtin| ModuleSource::Builtin(builtin.name.to_owned()));
    let docs = modules.filter_map(|module| configuration.docs_of(&module).ok());
    docs.flat_map(BTreeMap::into_keys).collect()
}

/// Returns the command with values for the first positional argument of a subcommand.
fn with_values(command: Command, name: &str, of: &str, values: Vec<String>) -> Command {
    // clap wants texts that live as long as the process, which ends here.
    let values: Vec<_> =
        values.into_iter().map(|value| PossibleValue::new(&*value.leak())).collect();
    command.mut_subcommand(name, |command| {
        command.mut_subcommand(of, |command| {
            let positional = command.get_positionals().next().map(|arg| arg.get_id().clone());
            match positional {
                Some(id) => {
                    command.mut_arg(id, |arg| arg.value_parser(PossibleValuesParser::new(values)))
                }
                None => command,
            }
        })
    })
}

impl Completions {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let rules: Vec<_> = builtin_rule_ids().into_iter().collect();
        let findings = doctor::ids().map(str::to_owned).collect();
        let policies = BUILTINS.iter().map(|builtin| builtin.name.to_owned()).collect();
        let values: [(&str, &str, Vec<String>); 3] = [
            ("rules", "explain", rules),
            ("doctor", "explain", findings),
            ("policy", "inspect", policies),
        ];
        let mut command = help::command_with_examples();
        let mut more = String::new();
        for (name, of, values) in values {
            if self.shell == Shell::Fish {
                // clap_complete leaves out what is no flag there.
                let (seen, all) = ("__fish_seen_subcommand_from", values.join(" "));
                let line = format!(
                    "complete -c opgate -n \"{seen} {name}; and {seen} {of}\" -a \"{all}\"\n"
                );
                more.push_str(&line);
            }
            command = with_values(command, name, of, values);
        }
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "opgate", &mut script);
        script.extend(more.bytes());
        // The script is written unchanged.
        let mut out = stdout(None);
        out.write_all(&script)?;
        out.flush()?;
        Ok(ExitStatus::Ok)
    }
}

impl Man {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { folder } = self;
        let written = || -> std::io::Result<()> {
            std::fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(help::command_with_examples(), &folder)
        };
        written().with_context(|| folder.display().to_string())?;
        Ok(ExitStatus::Ok)
    }
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
            rules: builtin_rule_ids().len(),
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
