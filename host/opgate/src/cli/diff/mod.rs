//! `opgate diff`: what a change of the configuration would do.
//!
//! ```text
//! OLD ─▶ DiffSide ─▶ Facts ─┐
//!                       ├─▶ Difference ─▶ text, or JSON
//! NEW ─▶ DiffSide ─▶ Facts ─┤
//!          │            │
//!          └▶ reviews, decided by both sides
//! ```
//!
//! Facts are what follows from a configuration, not what it says: comments, the order of keys and defaults
//! that are written out are no difference.

mod change;
mod facts;
mod reviews;
mod text;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use self::change::Difference;
use self::facts::Facts;
use self::reviews::ReviewDifferences;
use super::registry::RegistryArgs;
use super::review_input::{recording_header, with_recorded_platform};
use crate::cli::args::{ConfigArgs, ReadArgs};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::input;
use crate::cli::output::{stdout, text_or_json};
use opgate_admission::cluster::Source;
use opgate_admission::policy::{Configuration, PolicySet};
use opgate_builtin_policies::BUILTINS;
use opgate_input::read::Reader;
use opgate_recording::RecordingHeader;

/// Examples and exit statuses after the help text.
const AFTER_HELP: &str = "\
Examples:
  opgate diff old.yaml new.yaml                      What would change
  opgate diff old.yaml new.yaml --reviews reviews    Also which recorded reviews are decided otherwise
  git show HEAD:opgate.yaml | opgate diff - opgate.yaml

Exit status: 0 no difference (or --fail-on never), 1 any difference, 2 wrong usage or unreadable input, 3 a policy or the
engine failed. docs/diff.md has the details.";

/// The name of standard input.
const STDIN: &str = "-";

/// Bytes of a configuration.
const MAX_CONFIGURATION_BYTES: usize = 4 << 20;

/// Arguments of `opgate diff`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Diff {
    /// Current configuration; - for standard input
    #[arg(value_name = "BEFORE")]
    old: PathBuf,
    /// Configuration as it would be; - for standard input
    #[arg(value_name = "AFTER")]
    new: PathBuf,
    /// Recorded AdmissionReviews, manifests or audit logs to decide with both, as `opgate replay` reads them; may be repeated
    #[arg(long, value_name = "PATH")]
    reviews: Vec<PathBuf>,
    /// Files with the objects of a cluster, as `kubectl get -A -o yaml` prints them; may be repeated
    #[arg(long, value_name = "PATH", requires = "reviews")]
    cluster_state: Vec<PathBuf>,
    /// Compare webhooks without matchConditions, for API servers before Kubernetes 1.28
    #[arg(long)]
    no_match_conditions: bool,
    /// Differences that result in exit status 1
    #[arg(long, value_name = "KIND", default_value = "any")]
    fail_on: FailOn,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Directory for compiled policies [default: the user's cache directory]
    #[arg(long, value_name = "DIR", env = "OPGATE_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// For programs
    Json,
}

/// Differences that result in exit status 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Any difference
    Any,
    /// No difference fails the command
    Never,
}

/// One of the two configurations.
struct DiffSide {
    /// Name on the command line.
    name: String,
    configuration: Configuration,
}

impl DiffSide {
    fn read(path: &Path, config: &ConfigArgs) -> Result<Self, CommandError> {
        let name = path.display().to_string();
        let configuration = if is_stdin(path) {
            let text = Reader::new(MAX_CONFIGURATION_BYTES)
                .read_stdin()
                .map_err(|e| anyhow::anyhow!("-: {e}"))?;
            let text = String::from_utf8(text);
            let text = text.map_err(|e| anyhow::anyhow!("-: not UTF-8: {}", e.utf8_error()))?;
            // Relative paths are resolved in the current directory.
            Configuration::parse(path, &text, BUILTINS)
        } else {
            Configuration::read(path, BUILTINS)
        };
        let mut configuration = configuration.map_err(CommandError::usage)?;
        config.resolve(&mut configuration)?;
        Ok(Self { name, configuration })
    }

    /// Applies the platform of a recording, unless the configuration sets it.
    fn with_platform_of(self, header: Option<&RecordingHeader>) -> Self {
        let Some(header) = header else { return self };
        Self { configuration: with_recorded_platform(self.configuration, header), ..self }
    }

    fn load(&self, source: Source, config: &ConfigArgs) -> Result<PolicySet, CommandError> {
        config.load_all_or_fail(&self.configuration, source).map_err(|failure| {
            let CommandError { outcome, error } = failure;
            // Errors in the file have their place already.
            let error = if outcome == ExitStatus::Engine {
                error.context(self.name.clone())
            } else {
                error
            };
            CommandError { outcome, error }
        })
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new(STDIN)
}

impl Diff {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self {
            old,
            new,
            reviews,
            cluster_state,
            no_match_conditions,
            fail_on,
            output,
            cache_dir,
            registry,
            read,
        } = self;
        let named = [&old, &new].into_iter().chain(&reviews).chain(&cluster_state);
        if named.filter(|path| is_stdin(path)).count() > 1 {
            let error = "standard input can be read only once: name it once";
            return Err(CommandError::usage(anyhow::anyhow!(error)));
        }
        let config = ConfigArgs { config: None, cache_dir, registry };
        let reader = read.reader();
        let files = input::list_review_files(&reviews)?;
        let mut items = files.iter().flat_map(|file| input::read(file, &reader)).peekable();
        let header = items.peek().and_then(recording_header);
        let read_side = |path: &Path| {
            let side = DiffSide::read(path, &config)?;
            Ok::<_, CommandError>(side.with_platform_of(header.as_ref()))
        };
        let (old, new) = (read_side(&old)?, read_side(&new)?);
        let load = |side: &DiffSide, source| side.load(source, &config);
        let mut sets = (load(&old, Source::Absent)?, load(&new, Source::Absent)?);
        let facts = |side: &DiffSide, set: &PolicySet| {
            let facts = Facts::of(&side.configuration, set, !no_match_conditions);
            facts.map_err(|why| CommandError::engine(anyhow::anyhow!("{}: {why}", side.name)))
        };
        let facts = (facts(&old, &sets.0)?, facts(&new, &sets.1)?);
        let mut difference = Difference::of(&facts.0, &facts.1);
        let mut outcome = ExitStatus::Ok;
        if !reviews.is_empty() {
            let from_files = header.as_ref().is_some_and(|header| header.from_files);
            if !cluster_state.is_empty() || from_files {
                // Reads that need no permission are compared, too.
                drop(sets);
                sets = (load(&old, Source::Snapshot)?, load(&new, Source::Snapshot)?);
                let snapshot = input::snapshot(&cluster_state, &reader)?;
                snapshot.replace_state(sets.0.cluster());
                snapshot.replace_state(sets.1.cluster());
            }
            let decided = ReviewDifferences::decide(&sets.0, &sets.1, items)?;
            outcome = decided.outcome;
            difference.reviews = Some(decided);
        }
        difference.update_different();
        if difference.different && fail_on == FailOn::Any {
            outcome = outcome.max(ExitStatus::Denied);
        }
        let mut out = stdout(Some(text_or_json(output == Format::Json)));
        let printed = match output {
            Format::Text => text::write(&mut out, &difference),
            Format::Json => serde_json::to_writer_pretty(&mut out, &difference)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out)),
        };
        match printed.and_then(|()| out.flush()) {
            // The reader closed the output early; the result so far counts.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(outcome),
            other => other.map(|()| outcome).map_err(CommandError::from),
        }
    }
}
