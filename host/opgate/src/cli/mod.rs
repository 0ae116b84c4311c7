//! The command line. One module per subcommand; results on stdout, everything else on stderr.
//!
//! Exit status: 0 all allowed, 1 something denied, 2 wrong usage or unreadable input, 3 a policy or
//! the engine failed.

mod audit;
mod certs;
mod check;
mod check_input;
mod check_report;
mod config;
mod constraint;
mod demo;
mod diff;
mod doctor;
mod evaluate;
mod explanation;
mod fail_on;
mod help;
mod input;
mod lines;
mod log;
mod manifests;
mod policy;
mod published;
mod registry;
mod replay;
mod replay_report;
mod report;
mod review;
mod review_input;
mod rules;
mod serve;
mod stdin;
mod tools;
mod units;
mod verbosity;
mod waivers;
mod wit;
mod world;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, FromArgMatches as _, Parser, Subcommand};

use self::registry::RegistryArgs;
use self::verbosity::OutputArgs;
use crate::builtin::BUILTINS;
use opgate_admission::cluster;
use opgate_admission::policy::{
    Configuration, LoadProgress, PolicyConfig, PolicySet, Profile, SetError, run_settings_job,
};
use opgate_certs::error_text::with_causes;
use opgate_engine::subprocess::{self, Job};
use opgate_engine::{Compiler, EngineError, run_compile_job};
use opgate_input::read::{DEFAULT_MAX_INPUT_BYTES, DEFAULT_MAX_UNIT_BYTES, Reader};
use opgate_server::DefaultLimits;
use opgate_text::units::parse_bytes;

/// Admission webhook for Operators on Kubernetes, with sandboxed WebAssembly policies.
#[derive(Debug, Parser)]
#[command(name = "opgate", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    output_args: OutputArgs,
    #[command(subcommand)]
    command: Command,
}

/// Hints for new users after the help text.
const AFTER_HELP: &str = "\
Without a cluster:
  opgate demo                    See decisions in a few seconds
  opgate check PATH              Check a bundle, a catalog or manifests before you publish them
  opgate replay PATH             Evaluate recorded AdmissionReviews
  opgate rules                   List the rules and their levels
  opgate diff OLD NEW            Show the effect of a configuration change

In a cluster (docs/install.md):
  opgate manifests all --config opgate.yaml --image IMAGE | kubectl apply -f -
  opgate doctor

To install the webhook manually, in this order (docs/operate/start-a-server.md):
  opgate certs issue --out tls --service NAMESPACE/NAME
  opgate serve --config opgate.yaml --tls-dir tls
  opgate manifests webhook --config opgate.yaml --service NAMESPACE/NAME --ca tls/ca.crt
  opgate doctor                  Diagnose problems in the cluster

Exit status: 0 success, 1 something is denied, 2 wrong usage or unreadable input, 3 a policy or the
engine failed. `opgate COMMAND --help` describes a command.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve as an admission webhook
    Serve(Box<serve::Serve>),
    /// Evaluate recorded AdmissionReviews or manifests
    Replay(replay::Replay),
    /// Create AdmissionReviews from manifests
    Review(review::ReviewArgs),
    /// Show the effect of a configuration change
    Diff(diff::Diff),
    /// Check bundles, catalogs and manifests in files
    Check(check::Check),
    /// List the rules of the configured policies
    Rules(rules::Rules),
    /// List, inspect, package, push and pull policies
    Policy(policy::PolicyArgs),
    /// Issue and check certificates
    Certs(certs::Certs),
    /// Evaluate an olm.constraint against the properties of a bundle
    Constraint(constraint::ConstraintArgs),
    /// Print the Kubernetes manifests of an installation, or its webhooks, roles, network policy
    Manifests(manifests::Manifests),
    /// Diagnose problems in a cluster or in manifests
    Doctor(Box<doctor::Doctor>),
    /// Start a server, send it sample reviews over TLS, and print its decisions
    Demo(demo::Demo),
    /// Check configurations, and print the schema of opgate.yaml
    Config(config::ConfigCommand),
    /// Generate a shell completion script
    Completions(tools::Completions),
    /// Write man pages to a directory
    Man(tools::Man),
    /// Print version and build information
    Version(tools::Version),
}

/// Flags that select and configure policies.
#[derive(Debug, Clone, Default, Args)]
struct ConfigArgs {
    /// Configuration file [default: all built-in policies with their default settings]
    #[arg(long, value_name = "FILE", env = "OPGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Directory for compiled policies [default: the user's cache directory]
    #[arg(long, value_name = "DIR", env = "OPGATE_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl ConfigArgs {
    /// Returns the configuration, with the components that registries have for it now.
    fn configuration(&self) -> anyhow::Result<Configuration> {
        let mut configuration = self.read()?;
        self.resolve(&mut configuration)?;
        Ok(configuration)
    }

    /// Reads the file. Contacts no registry.
    fn read(&self) -> anyhow::Result<Configuration> {
        match &self.config {
            Some(path) => Ok(Configuration::read(path, BUILTINS)?),
            None => Ok(Configuration::builtin(Profile::default(), BUILTINS)),
        }
    }

    /// Pulls the components that are in registries. One that cannot be had is no error here: its policy is broken.
    fn resolve(&self, configuration: &mut Configuration) -> anyhow::Result<()> {
        let cache = self.cache(configuration);
        self.registry.resolve(configuration, cache.as_deref())
    }

    /// Returns the cache for policies from files; the built-in ones need none.
    fn cache(&self, configuration: &Configuration) -> Option<PathBuf> {
        let user = || {
            let directory = std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
            Some(directory.join("opgate"))
        };
        let foreign = |p: &PolicyConfig| p.module.is_foreign();
        let needed = configuration.policies.iter().any(foreign);
        self.cache_dir.clone().or_else(user).filter(|_| needed)
    }

    /// Returns the cache for one policy.
    fn cache_of(&self, policy: &PolicyConfig) -> Option<PathBuf> {
        let mut configuration = Configuration::builtin(Profile::default(), BUILTINS);
        configuration.policies = vec![policy.clone()];
        self.cache(&configuration)
    }

    fn load_set(&self, options: cluster::ClusterOptions) -> Result<PolicySet, CommandError> {
        let room = DefaultLimits::of(Path::new("/"));
        self.load_set_of(&self.configuration()?, 1, options, room, &LoadProgress::default())
    }

    fn load_set_of(
        &self,
        configuration: &Configuration,
        queue: usize,
        options: cluster::ClusterOptions,
        room: DefaultLimits,
        loading: &LoadProgress,
    ) -> Result<PolicySet, CommandError> {
        let cache = self.cache(configuration);
        let compiler =
            Compiler::in_subprocess(room.subprocess_bytes).map_err(CommandError::engine)?;
        let set = PolicySet::load_with(configuration, cache, compiler, queue, options, loading);
        set.map_err(|error| match error {
            SetError::Config(error) => CommandError::usage(error),
            SetError::Engine(error) => CommandError::engine(error),
        })
    }

    /// Returns the set that is to replace one that serves. Processes that compile have this many bytes of
    /// memory together.
    ///
    /// # Errors
    /// Returns the errors of the configuration or of the machine.
    fn candidate_set(
        &self,
        served: &PolicySet,
        configuration: &Configuration,
        children: usize,
    ) -> Result<PolicySet, SetError> {
        let compiler = Compiler::in_subprocess(children).map_err(|e| EngineError::of(&e))?;
        let cache = self.cache(configuration);
        served.load_replacing(configuration, cache, compiler, &LoadProgress::default())
    }

    /// Loads the policies as servers do, for any platform.
    fn load_server_set(&self) -> Result<PolicySet, CommandError> {
        let mut configuration = self.configuration()?;
        configuration.assume_any_cluster();
        self.load_all_or_fail(&configuration, cluster::Source::Absent)
    }

    /// Returns the policies, all of which can be used.
    fn load_all_or_fail(
        &self,
        configuration: &Configuration,
        source: cluster::Source,
    ) -> Result<PolicySet, CommandError> {
        let room = DefaultLimits::of(Path::new("/"));
        let (options, loading) = (cluster::ClusterOptions::of(source), LoadProgress::default());
        let set = self.load_set_of(configuration, usize::MAX, options, room, &loading)?;
        let broken = set.broken().iter().map(|b| format!("policy {}: {}", b.name, b.error));
        let lines: Vec<_> = broken.collect();
        if lines.is_empty() {
            Ok(set)
        } else {
            Err(CommandError::engine(anyhow::anyhow!(lines.join("\n"))))
        }
    }
}

/// Limits of the input.
#[derive(Debug, Args)]
struct ReadArgs {
    /// Maximum bytes to read, including the JSON made from YAML: from all files together, or for
    /// `opgate check` from each bundle, catalog or file [default: 1Gi; 256Mi for `opgate check`]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_input_size: Option<usize>,
}

impl ReadArgs {
    /// Returns a reader for all files of a command.
    fn reader(&self) -> Reader {
        Reader::new(self.max_input_size.unwrap_or(DEFAULT_MAX_INPUT_BYTES))
    }

    /// Returns a reader for many units in sequence: see [`Reader::with_full_budget`].
    fn unit_reader(&self) -> Reader {
        Reader::new(self.max_input_size.unwrap_or(DEFAULT_MAX_UNIT_BYTES))
    }
}

/// Calls wait at most this long for each policy in `serve`.
const DEFAULT_MAX_QUEUED_CALLS: usize = 64;

/// Result of a command; the numbers are part of the stable interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ExitStatus {
    /// All allowed.
    Ok = 0,
    /// Something denied.
    Denied = 1,
    /// Wrong usage or unreadable input.
    Usage = 2,
    /// A policy or the engine failed.
    Engine = 3,
}

impl From<ExitStatus> for ExitCode {
    fn from(outcome: ExitStatus) -> Self {
        Self::from(match outcome {
            ExitStatus::Ok => 0,
            ExitStatus::Denied => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Engine => 3,
        })
    }
}

/// A command that could not be carried out.
#[derive(Debug)]
struct CommandError {
    outcome: ExitStatus,
    error: anyhow::Error,
}

impl CommandError {
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { outcome: ExitStatus::Usage, error: error.into() }
    }

    fn engine(error: impl Into<anyhow::Error>) -> Self {
        Self { outcome: ExitStatus::Engine, error: error.into() }
    }
}

impl From<anyhow::Error> for CommandError {
    fn from(error: anyhow::Error) -> Self {
        Self::usage(error)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::usage(error)
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some((job, memory)) = worker_job() {
        return subprocess::run_child(&job, memory, |job, parts| match job {
            Job::Compile | Job::CompileLarge => run_compile_job(parts),
            Job::Settings => run_settings_job(parts),
            // The child does that itself.
            Job::Confinement => Ok(Vec::new()),
        });
    }
    let parsed = help::command().try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        // The message quotes arguments, which can include names of files.
        Err(error) if error.use_stderr() => {
            let text = error.render();
            report::print_error(format_args!("{}", text.ansi().to_string().trim_end_matches('\n')));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        Err(error) => error.exit(),
    };
    let serves = matches!(cli.command, Command::Serve(_));
    cli.output_args.apply(&matches, serves);
    let done = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Replay(replay) => replay.run(),
        Command::Review(review) => review.run(),
        Command::Diff(diff) => diff.run(),
        Command::Check(check) => check.run(),
        Command::Rules(rules) => rules.run(),
        Command::Policy(policy) => policy.run(),
        Command::Certs(certs) => certs.run(),
        Command::Constraint(constraint) => constraint.run(),
        Command::Manifests(manifests) => manifests.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Demo(demo) => demo.run(),
        Command::Config(config) => config.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
        Command::Version(version) => version.run(),
    };
    match done {
        Ok(outcome) => outcome.into(),
        // The reader closed the output early (`opgate replay … | head`).
        Err(failure) if is_broken_pipe(&failure.error) => ExitCode::SUCCESS,
        Err(failure) => {
            for line in with_causes(failure.error.as_ref()).lines() {
                verbosity::error(line);
            }
            failure.outcome.into()
        }
    }
}

/// Returns the job of a worker process and its memory limit in bytes. Only opgate itself starts such a
/// process, so neither help nor completions list it.
fn worker_job() -> Option<(String, u64)> {
    let mut arguments = std::env::args_os().skip(1).map_while(|text| text.into_string().ok());
    let is_it = arguments.next().as_deref() == Some("apart");
    let (job, memory) = (arguments.next()?, arguments.next()?.parse().ok()?);
    is_it.then_some((job, memory))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
