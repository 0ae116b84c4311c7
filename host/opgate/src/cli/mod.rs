//! The command line: one directory for each command, one file for what commands share.
//!
//! ```text
//! main ─▶ help: parse arguments ─▶ CheckCommand, ServeCommand, …: run ─▶ exit: ExitStatus or CommandError
//!                                   └▶ args, input, registry ─▶ policies, reviews
//!                                   └▶ report, output ─▶ stdout;  verbosity, log ─▶ stderr
//! ```
//!
//! Shared files do not use commands. Exit status: 0 all allowed, 1 something denied, 2 wrong usage or unreadable
//! input, 3 a policy or the engine failed.

// Commands.
mod audit;
mod certs;
mod check;
mod completions;
mod config;
mod constraint;
mod demo;
mod diff;
mod doctor;
mod lsp;
mod man;
mod manifests;
mod policy;
mod replay;
mod review;
mod rules;
mod serve;
mod stored_report;
mod ui;
mod version;

// What commands share.
mod args;
mod exit;
mod explanation;
mod fail_on;
mod help;
mod input;
mod kinds;
mod kubeconfig;
mod log;
mod make_review;
mod output;
mod registry;
mod report;
mod review_input;
mod runtime;
mod stdin;
mod verbosity;
mod write_file;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::verbosity::{LogPurpose, OutputArgs};
use opgate_admission::policy::run_settings_job;
use opgate_certs::error_text::with_causes;
use opgate_engine::run_compile_job;
use opgate_engine::subprocess::{self, Job, WorkerError};

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
    /// Evaluate recorded AdmissionReviews, manifests or audit logs
    Replay(replay::Replay),
    /// Create AdmissionReviews from manifests
    Review(review::ReviewArgs),
    /// Show the effect of a configuration change
    Diff(diff::Diff),
    /// Check bundles, catalogs and manifests in files
    Check(check::Check),
    /// Write the result of a check or replay as an HTML page
    Report(stored_report::ReportArgs),
    /// Evaluate the stored objects of a cluster, and keep reports of violations in it
    Audit(audit::Audit),
    /// List the rules of the configured policies
    Rules(rules::Rules),
    /// Serve a local page to browse rules and to try manifests, bundles and reviews
    Ui(ui::Ui),
    /// Serve the Language Server Protocol to an editor
    Lsp(lsp::Lsp),
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
    Completions(completions::Completions),
    /// Write man pages to a directory
    Man(man::Man),
    /// Print version and build information
    Version(version::Version),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some((job, memory)) = worker_job() {
        return subprocess::run_child(&job, memory, |job, parts| match job {
            Job::Compile | Job::CompileLarge => run_compile_job(parts),
            Job::Settings => run_settings_job(parts).map_err(|error| WorkerError::of_job(&error)),
            // The child does that itself.
            Job::Confinement => Ok(Vec::new()),
        });
    }
    let parsed = help::command(Cli::command()).try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        // The message quotes arguments, which can include names of files.
        Err(error) if error.use_stderr() => {
            let text = error.render();
            output::print_error(format_args!("{}", text.ansi().to_string().trim_end_matches('\n')));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        Err(error) => error.exit(),
    };
    let purpose = match cli.command {
        Command::Serve(_) => LogPurpose::Serve,
        Command::Check(_) | Command::Replay(_) | Command::Policy(_) => LogPurpose::Results,
        _ => LogPurpose::Other,
    };
    cli.output_args.apply(&matches, purpose);
    let done = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Replay(replay) => replay.run(),
        Command::Review(review) => review.run(),
        Command::Diff(diff) => diff.run(),
        Command::Check(check) => check.run(),
        Command::Audit(audit) => audit.run(),
        Command::Report(report) => report.run(),
        Command::Rules(rules) => rules.run(),
        Command::Ui(ui) => ui.run(),
        Command::Lsp(lsp) => lsp.run(),
        Command::Policy(policy) => policy.run(),
        Command::Certs(certs) => certs.run(),
        Command::Constraint(constraint) => constraint.run(),
        Command::Manifests(manifests) => manifests.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Demo(demo) => demo.run(),
        Command::Config(config) => config.run(),
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
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
