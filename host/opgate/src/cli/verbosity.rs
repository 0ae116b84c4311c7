//! Output of a command: `-q`, `-v`, `--color`, and the log.
//!
//! ```text
//! results ───────────────────────────▶ stdout
//! note: summaries, hints ─▶ not with -q ─┐
//! error ─────────────────────────────────┼▶ stderr
//! tracing ─▶ level: -q, -v, --log ───────┘
//! ```
//!
//! The setting applies to the process, as in `anstream`, which colours both streams.

use std::io;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, ColorChoice};
use opgate_text::printed::{Form, Printed};
use tracing::Level;

use super::log::{EventFormat, FieldFormat};
use opgate_admission::evaluation::POLICY_ERROR_LOG_TARGET;

/// Arguments of all commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct OutputArgs {
    /// Print only violations and errors, without summaries, hints and progress; log only errors
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Print every occurrence and the detected type of each file, and log at level info (-vv: debug)
    #[arg(long, short, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// When to use colors; auto is for terminals, and respects `NO_COLOR`
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    /// Lowest level to log, regardless of -q and -v [default: info for `serve`, otherwise warn]
    #[arg(long, global = true, env = "OPGATE_LOG", value_name = "LEVEL")]
    log: Option<Level>,
    /// Log format, on stderr
    #[arg(
        long,
        global = true,
        env = "OPGATE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Human-readable text
    Text,
    /// One JSON object a line
    Json,
}

/// Verbosity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or(Verbosity::Normal)
}

/// Reports whether only violations and errors are printed.
pub(super) fn is_quiet() -> bool {
    verbosity() == Verbosity::Quiet
}

/// Reports whether everything is printed.
pub(super) fn is_verbose() -> bool {
    verbosity() == Verbosity::Verbose
}

/// Prints a line for users on stderr that is neither a violation nor an error: a summary or a hint.
pub(super) fn note(line: impl AsRef<str>) {
    if !is_quiet() {
        super::output::print_error(format_args!("{}", line.as_ref()));
    }
}

/// Writes an error to stderr as one line: `error: LOCATION: error: fix`.
pub(super) fn error(line: &str) {
    let style = super::output::ERROR;
    super::output::print_error(format_args!("{style}error{style:#}: {line}"));
}

/// The reader of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogPurpose {
    /// An administrator, later.
    Serve,
    /// The user of a command, who also reads its results: these have the policy errors.
    Results,
    /// The user of any other command.
    Other,
}

impl OutputArgs {
    /// Configures the log of this process. A server logs more, and with the time. A command that reports policy errors
    /// in its results logs them only with -v.
    pub(super) fn apply(&self, matches: &ArgMatches, purpose: LogPurpose) {
        colors(self.color);
        let amount = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, _) => Verbosity::Verbose,
        };
        // Only one command runs in a process.
        let _ = VERBOSITY.set(amount);
        let level = self.level(matches, purpose == LogPurpose::Serve);
        init_log(self.log_format, level, purpose);
    }

    /// Returns the log level. A flag takes precedence over the environment.
    fn level(&self, matches: &ArgMatches, serves: bool) -> Level {
        let is_typed = matches.value_source("log") == Some(ValueSource::CommandLine);
        let is_asked = self.quiet || self.verbose > 0;
        if let Some(level) = self.log.filter(|_| is_typed || !is_asked) {
            return level;
        }
        match (self.quiet, self.verbose, serves) {
            (true, _, _) => Level::ERROR,
            (false, 0, false) => Level::WARN,
            (false, 0, true) | (false, 1, false) => Level::INFO,
            (false, 1, true) | (false, 2, false) => Level::DEBUG,
            (false, _, _) => Level::TRACE,
        }
    }
}

/// Sets the colours of both streams.
pub(super) fn colors(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

fn init_log(format: LogFormat, level: Level, purpose: LogPurpose) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::{
        Layer as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
    };
    // The caller logs messages of the API client once, with the resource.
    let is_repeated = purpose == LogPurpose::Results && level <= Level::WARN;
    let policy_errors = if is_repeated && format == LogFormat::Text {
        LevelFilter::OFF
    } else {
        LevelFilter::from_level(level)
    };
    let ours = Targets::new()
        .with_default(level)
        .with_target(POLICY_ERROR_LOG_TARGET, policy_errors)
        .with_target("kube_client", LevelFilter::OFF)
        .with_target("tower", LevelFilter::OFF);
    let form = if format == LogFormat::Json { Form::Json } else { Form::Text };
    let writer = move || Printed::new(io::stderr(), form);
    let lines = fmt::layer().with_writer(writer).with_target(false);
    let lines = match format {
        LogFormat::Text if purpose == LogPurpose::Serve => lines.fmt_fields(FieldFormat).boxed(),
        LogFormat::Text => lines.fmt_fields(FieldFormat).event_format(EventFormat::new()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(ours)).init();
}
