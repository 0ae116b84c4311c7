//! The subject of `opgate policy test` and `bench`: a component in a file, a source directory, or a policy of
//! a configuration.
//!
//! ```text
//! PATH ─┬ component ─▶ its opgate.yaml, if one names it ─┐
//!       └ directory ─▶ build ─▶ pack ─▶ its opgate.yaml ─┼▶ Subject: configuration of one policy, cases
//! --policy NAME ─▶ configuration ────────────────────────┘
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};
use clap::Args;

use super::language::Language;
use super::pack::pack_to;
use crate::cli::args::ConfigArgs;
use crate::cli::exit::CommandError;
use opgate_admission::policy::{Configuration, ModuleSource, PolicyConfig, Profile};
use opgate_builtin_policies::BUILTINS;

/// Directories above a component in which its `opgate.yaml` is looked for: cargo puts it four below.
const MAX_PARENT_DIRECTORIES: usize = 6;

/// Arguments that select the policy.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// Name of a policy: a built-in one, one of --config, or one of several in the directory's opgate.yaml
    #[arg(long, value_name = "NAME")]
    pub(super) policy: Option<String>,
    /// Directory with cases [default: `cases` in the directory of the component, or of its opgate.yaml]
    #[arg(long, value_name = "DIR")]
    pub(super) cases: Option<PathBuf>,
    /// Use the existing component, without a build
    #[arg(long)]
    pub(super) no_build: bool,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

/// A policy and its cases.
#[derive(Debug)]
pub(super) struct PolicySubject {
    pub(super) policy: PolicyConfig,
    pub(super) cases: PathBuf,
    /// The directory to build, with its language.
    pub(super) source_directory: Option<(PathBuf, Language)>,
}

impl SourceArgs {
    /// Finds the policy. Nothing is built yet.
    pub(super) fn subject(&self, path: Option<&Path>) -> Result<PolicySubject, CommandError> {
        let Some(path) = path else { return self.configured_subject() };
        if path.is_dir() { self.directory_subject(path) } else { self.component_subject(path) }
    }

    fn cases_or(&self, default: impl FnOnce() -> PathBuf) -> PathBuf {
        self.cases.clone().unwrap_or_else(default)
    }

    /// Returns a policy of a configuration, or a built-in one.
    fn configured_subject(&self) -> Result<PolicySubject, CommandError> {
        let Some(name) = &self.policy else {
            return Err(CommandError::usage(anyhow!(
                "name a component, a source directory, or a policy with --policy"
            )));
        };
        let configuration = self.config.read()?;
        let names = configuration.policies.iter().map(|policy| policy.name.as_str());
        let hint = opgate_text::hint(name, names);
        let policy = configuration.policies.into_iter().find(|policy| policy.name == *name);
        let policy = policy.ok_or_else(|| anyhow!("there is no policy {name:?}{hint}"))?;
        if matches!(policy.module, ModuleSource::Oci(_)) {
            let text = format!("{}: pull it first, with `opgate policy pull`", policy.module);
            return Err(CommandError::usage(anyhow!(text)));
        }
        let cases = self.cases.clone();
        let cases = cases.ok_or_else(|| anyhow!("name the directory with its cases: --cases"))?;
        Ok(PolicySubject { policy, cases, source_directory: None })
    }

    /// Selects a source directory, whose `opgate.yaml` names the component.
    fn directory_subject(&self, directory: &Path) -> Result<PolicySubject, CommandError> {
        let path = directory.join("opgate.yaml");
        if !path.is_file() {
            return Err(CommandError::usage(anyhow!(
                "{}: has no opgate.yaml, which says where the component is (`opgate policy new` writes one)",
                directory.display()
            )));
        }
        let configuration = Configuration::read(&path, BUILTINS).map_err(CommandError::usage)?;
        let is_file = |policy: &PolicyConfig| matches!(policy.module, ModuleSource::File(_));
        let is_meant = |policy: &PolicyConfig| {
            is_file(policy) && self.policy.as_ref().is_none_or(|name| *name == policy.name)
        };
        let mut found: Vec<_> = configuration.policies.into_iter().filter(is_meant).collect();
        let policy = match (found.pop(), found.len()) {
            (Some(policy), 0) => policy,
            (None, _) => {
                let text = format!("{}: no policy has a file as its `module`", path.display());
                return Err(CommandError::usage(anyhow!(text)));
            }
            (Some(_), _) => {
                let text =
                    format!("{}: has several policies: choose with --policy", path.display());
                return Err(CommandError::usage(anyhow!(text)));
            }
        };
        let cases = self.cases_or(|| directory.join("cases"));
        let directory =
            Language::detect(directory).map(|language| (directory.to_owned(), language));
        Ok(PolicySubject { policy, cases, source_directory: directory })
    }

    /// Returns a component in a file.
    fn component_subject(&self, path: &Path) -> Result<PolicySubject, CommandError> {
        let named = || path.display().to_string();
        let whole = path.canonicalize().with_context(named)?;
        let parent = whole.parent().unwrap_or(Path::new("/"));
        if let Some((directory, policy)) = find_configuration(&whole) {
            let cases = [parent.join("cases"), directory.join("cases")];
            let [_, last] = &cases;
            let found = cases.iter().find(|cases| cases.is_dir()).unwrap_or(last).clone();
            return Ok(PolicySubject {
                policy,
                cases: self.cases_or(|| found),
                source_directory: None,
            });
        }
        let cases = self.cases_or(|| parent.join("cases"));
        Ok(PolicySubject { policy: policy_from_file(whole)?, cases, source_directory: None })
    }
}

/// Returns a policy with a component and nothing else configured.
pub(super) fn policy_from_file(component: PathBuf) -> Result<PolicyConfig, CommandError> {
    let mut defaults = Configuration::builtin(Profile::default(), BUILTINS).policies;
    let mut policy = defaults.pop().ok_or_else(|| anyhow!("there are no built-in policies"))?;
    "policy".clone_into(&mut policy.name);
    policy.module = ModuleSource::File(component);
    Ok(policy)
}

/// Returns the configuration that names a component, from a directory above it, and that directory. Ignores
/// unreadable configurations and those for other components.
fn find_configuration(component: &Path) -> Option<(PathBuf, PolicyConfig)> {
    component.ancestors().skip(1).take(MAX_PARENT_DIRECTORIES).find_map(|directory| {
        let path = directory.join("opgate.yaml");
        let configuration = path.is_file().then(|| Configuration::read(&path, BUILTINS).ok())??;
        let is_it = |policy: &PolicyConfig| match &policy.module {
            ModuleSource::File(file) => file.canonicalize().is_ok_and(|file| file == component),
            _ => false,
        };
        Some((directory.to_owned(), configuration.policies.into_iter().find(is_it)?))
    })
}

impl PolicySubject {
    /// Returns the file of the component, if it is in one.
    pub(super) fn component(&self) -> Option<&Path> {
        match &self.policy.module {
            ModuleSource::File(path) => Some(path),
            _ => None,
        }
    }

    /// Builds the directory with the command of its language.
    pub(super) fn build(&self) -> Result<(), CommandError> {
        let Some((directory, language)) = &self.source_directory else { return Ok(()) };
        run_command(directory, language.build_command())?;
        let Some(component) = self.component().filter(|_| *language == Language::Rust) else {
            return Ok(());
        };
        // Cargo makes a module of it.
        let text = component.to_string_lossy();
        let module = text.strip_suffix(".component.wasm").map(|stem| format!("{stem}.wasm"));
        let Some(module) = module.map(PathBuf::from).filter(|module| module.is_file()) else {
            let text =
                format!("cargo did not write the module of {text}: check `module` in opgate.yaml");
            return Err(CommandError::usage(anyhow!(text)));
        };
        Ok(pack_to(&module, component)?)
    }

    /// Runs the tests of the language itself.
    pub(super) fn native_test(&self) -> Result<bool, CommandError> {
        let Some((directory, language)) = &self.source_directory else {
            return Err(CommandError::usage(anyhow!("--native is for source directories")));
        };
        Ok(spawn_command(directory, language.test_command())?.success())
    }

    /// Runs the tests of the language, and prints the lines that they run.
    pub(super) fn measure_coverage(&self) -> Result<bool, CommandError> {
        let Some((directory, language)) = &self.source_directory else {
            return Err(CommandError::usage(anyhow!("--coverage is for source directories")));
        };
        let Some(coverage) = language.coverage() else {
            let text = "--coverage: for C, there is no line coverage of a policy";
            return Err(CommandError::usage(anyhow!(text)));
        };
        if let Some(probe) = coverage.probe
            && !run_silently(directory, probe)
        {
            let command = coverage.command.join(" ");
            let text = format!("`{command}` needs a tool: {}", coverage.install);
            return Err(CommandError::usage(anyhow!(text)));
        }
        Ok(spawn_command(directory, coverage.command)?.success())
    }
}

/// Runs a command in a directory; the command must succeed.
fn run_command(directory: &Path, command: &[&str]) -> Result<(), CommandError> {
    let status = spawn_command(directory, command)?;
    if status.success() {
        return Ok(());
    }
    let text = format!("`{}` in {}: {status}", command.join(" "), directory.display());
    Err(CommandError::usage(anyhow!(text)))
}

/// Runs a command without output, and reports whether it succeeds.
fn run_silently(directory: &Path, command: &[&str]) -> bool {
    let [program, arguments @ ..] = command else { return false };
    let mut started = Command::new(Language::program(directory, program));
    started.args(arguments).current_dir(directory).stdin(Stdio::null());
    let status = started.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Its output is redirected to stderr. The command runs in the foreground without a timeout, so that Ctrl-C
/// ends both processes.
fn spawn_command(
    directory: &Path,
    command: &[&str],
) -> Result<std::process::ExitStatus, CommandError> {
    let [program, arguments @ ..] = command else {
        return Err(CommandError::usage(anyhow!("no command")));
    };
    let mut started = Command::new(Language::program(directory, program));
    started.args(arguments).current_dir(directory).stdin(Stdio::null()).stdout(std::io::stderr());
    // The Makefile of a policy in C packs the module with this program.
    if let (None, Ok(own)) = (std::env::var_os("OPGATE"), std::env::current_exe()) {
        started.env("OPGATE", own);
    }
    let status = started.status().with_context(|| format!("`{}`", command.join(" ")))?;
    Ok(status)
}
