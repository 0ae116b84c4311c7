//! `opgate config`: what is wrong with `opgate.yaml`, the schema of the file for editors, and a first one.
//!
//! ```text
//! FILE ─▶ Configuration::examine ─┬▶ errors of the file ──────────────────────────────┬▶ sorted, told at once
//!                                 └▶ what is left ─▶ policies ─▶ rules, settings ─────┘
//! ```

mod init;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::registry::RegistryArgs;
use super::verbosity::{self, note};
use crate::cli::args::ConfigArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::{stdout, text_or_json};
use opgate_admission::cluster::{ClusterOptions, Source};
use opgate_admission::policy::{Configuration, LoadProgress, Profile};
use opgate_builtin_policies::BUILTINS;
use opgate_server::DefaultLimits;

const AFTER_HELP: &str = "\
Examples:
  opgate config validate opgate.yaml
  opgate config validate --load opgate.yaml      Also with the components of files and registries
  opgate config schema > opgate.schema.json      For editors
  opgate config init --from-cluster > opgate.yaml

docs/configuration.md describes the file.";

const VALIDATE_AFTER_HELP: &str = "\
Examples:
  opgate config validate opgate.yaml
  opgate config validate --load clusters/*/opgate.yaml

Exit status: 0 everything is valid, 1 something is wrong, 2 wrong usage or a file that cannot be read,
3 the engine failed. docs/configuration.md describes the file.";

const SCHEMA_AFTER_HELP: &str = "\
Example:
  opgate config schema > opgate.schema.json

With `# yaml-language-server: $schema=opgate.schema.json` as its first line, editors complete and check
opgate.yaml. docs/configuration.md has the details.";

/// Arguments of `opgate config`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Validate configuration files and report all errors with line and column
    #[command(after_help = VALIDATE_AFTER_HELP)]
    Validate(Validate),
    /// Print an initial configuration
    #[command(after_help = init::AFTER_HELP)]
    Init(init::Init),
    /// Print the JSON Schema of opgate.yaml, with the rules and settings of the built-in policies
    #[command(after_help = SCHEMA_AFTER_HELP)]
    Schema,
}

#[derive(Debug, Args)]
struct Validate {
    /// Also load the policies from files and registries, for their rules and settings
    #[arg(long)]
    load: bool,
    /// Directory for compiled policies [default: the user's cache directory]
    #[arg(long, value_name = "DIR", env = "OPGATE_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Configurations
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// One list of errors
    Json,
}

/// An error.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConfigurationError {
    /// Line and column from 1; nothing for the file as a whole.
    position: Option<(u64, u64)>,
    text: String,
}

impl ConfigurationError {
    /// Splits the location from the text of a line.
    fn of(line: &str, path: &Path) -> Self {
        let rest = line.strip_prefix(&format!("{}:", path.display()));
        let found = rest.and_then(|rest| {
            let mut parts = rest.splitn(3, ':');
            let (line, column) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(((line, column), parts.next()?.trim_start()))
        });
        match (found, rest) {
            (Some((place, text)), _) => Self { position: Some(place), text: text.to_owned() },
            (None, Some(rest)) => Self { position: None, text: rest.trim_start().to_owned() },
            (None, None) => Self { position: None, text: line.to_owned() },
        }
    }
}

impl ConfigCommand {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        match self.command {
            Command::Validate(validate) => validate.run(),
            Command::Schema => print_schema(),
            Command::Init(init) => init.run(),
        }
    }
}

/// An error, with its line and column if it has a place.
pub(super) type PlacedError = (Option<(u64, u64)>, String);

/// Returns all errors of a text. Policies from files and registries are
/// not loaded.
///
/// # Errors
/// If the engine fails.
pub(super) fn validate_text(path: &Path, text: &str) -> Result<Vec<PlacedError>, CommandError> {
    let (config, files) = (ConfigArgs::default(), Vec::new());
    let ConfigArgs { cache_dir, registry, .. } = config;
    let validate = Validate { load: false, cache_dir, registry, output: Format::Json, files };
    let (_, errors) = validate.check_file(path, text)?;
    Ok(errors.into_iter().map(|error| (error.position, error.text)).collect())
}

impl Validate {
    fn run(self) -> Result<ExitStatus, CommandError> {
        let mut outcome = ExitStatus::Ok;
        let mut list = Vec::new();
        for path in &self.files {
            let text = match Configuration::text(path) {
                Ok(text) => text,
                Err(why) => {
                    outcome = outcome.max(ExitStatus::Usage);
                    verbosity::error(&why.to_string());
                    continue;
                }
            };
            let (policies, wrong) = self.check_file(path, &text)?;
            if !wrong.is_empty() {
                outcome = outcome.max(ExitStatus::Denied);
            }
            let shown = path.display().to_string();
            for ConfigurationError { position: place, text } in &wrong {
                let (line, column) = place.unwrap_or((1, 1));
                if self.output == Format::Text {
                    verbosity::error(&format!("{shown}:{line}:{column}: {text}"));
                }
                list.push(json!({"file": shown, "line": line, "column": column, "message": text}));
            }
            match (wrong.len(), policies) {
                (0, 1) => note(format!("{shown}: valid, 1 policy")),
                (0, count) => note(format!("{shown}: valid, {count} policies")),
                (1, _) => note(format!("{shown}: 1 error")),
                (count, _) => note(format!("{shown}: {count} errors")),
            }
        }
        if self.output == Format::Json {
            let mut out = stdout(Some(text_or_json(true)));
            writeln!(out, "{:#}", json!(list))?;
            out.flush()?;
        }
        Ok(outcome)
    }

    /// Returns the number of policies and all errors, in the order of the file.
    fn check_file(
        &self,
        path: &Path,
        text: &str,
    ) -> Result<(usize, Vec<ConfigurationError>), CommandError> {
        let (found, errors) = Configuration::parse_lenient(path, text, BUILTINS);
        let mut wrong: Vec<_> =
            errors.lines().map(|line| ConfigurationError::of(line, path)).collect();
        let mut policies = 0;
        if let Some(mut found) = found {
            policies = found.policies.len();
            if !self.load {
                let all = found.policies.len();
                found.policies.retain(|policy| !policy.module.is_foreign());
                let others = all - found.policies.len();
                if others > 0 && wrong.is_empty() {
                    note(format!(
                        "{}: policies from files or registries are not loaded ({others}); --load does that",
                        path.display()
                    ));
                }
            }
            let lines = self.load_policies(&mut found)?;
            wrong.extend(lines.iter().map(|line| ConfigurationError::of(line, path)));
        }
        wrong.sort();
        wrong.dedup();
        Ok((policies, wrong))
    }

    /// Loads the policies and checks the configuration against their rules and settings.
    fn load_policies(
        &self,
        configuration: &mut Configuration,
    ) -> Result<Vec<String>, CommandError> {
        let config = ConfigArgs {
            config: None,
            cache_dir: self.cache_dir.clone(),
            registry: self.registry.clone(),
        };
        config.resolve(configuration)?;
        let mut lines = Vec::new();
        // One by one, because a set stops at the first kind of error.
        for policy in std::mem::take(&mut configuration.policies) {
            configuration.policies = vec![policy];
            let (options, room) =
                (ClusterOptions::of(Source::Absent), DefaultLimits::of(Path::new("/")));
            match config.load_set_of(configuration, 1, options, room, &LoadProgress::default()) {
                Ok(set) => lines.extend(set.broken().iter().filter_map(|broken| {
                    let policy = configuration.policies.first()?;
                    let text = format!("policy {}: {}", broken.name, broken.error);
                    let part = if policy.module.is_foreign() { "/module" } else { "" };
                    Some(configuration.locate(policy, part, &text))
                })),
                Err(CommandError { outcome: ExitStatus::Usage, error }) => {
                    lines.extend(error.to_string().lines().map(str::to_owned));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(lines)
    }
}

/// Prints the schema.
fn print_schema() -> Result<ExitStatus, CommandError> {
    let config = ConfigArgs::default();
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let set = config.load_all_or_fail(&configuration, Source::Absent)?;
    let descriptors = set.policies().iter().map(|policy| &policy.descriptor);
    let mut out = stdout(Some(text_or_json(true)));
    writeln!(out, "{:#}", Configuration::schema(descriptors))?;
    out.flush()?;
    Ok(ExitStatus::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_location_is_split_into_line_and_column() {
        let path = Path::new("a:b/opgate.yaml");
        for (line, place, text) in [
            ("a:b/opgate.yaml:3:14: x: y", Some((3, 14)), "x: y"),
            ("a:b/opgate.yaml: not UTF-8: z", None, "not UTF-8: z"),
            ("policy x: y", None, "policy x: y"),
        ] {
            let expected = ConfigurationError { position: place, text: text.to_owned() };
            assert_eq!(ConfigurationError::of(line, path), expected);
        }
    }
}
