//! `opgate check`: policies over bundles, catalogs and manifests in files.
//!
//! ```text
//! PATHs ─▶ files::load ─▶ subjects ─▶ judged on all processors ─▶ findings, each with its place ─▶ report
//! ```

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use super::findings::{Checked, Findings};
use super::report::Format;
use super::{ConfigArgs, Failure, Outcome};
use crate::cluster::Source;
use crate::files::{self, As, Subject, parallel};
use crate::policy::Set;
use crate::review::{self, Review};

/// Arguments of `opgate check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    config: ConfigArgs,
    /// What the paths are [default: found out for each of them]
    #[arg(long = "as", value_name = "WHAT")]
    kind: Option<As>,
    /// What was published before: rules about changes are checked as well
    #[arg(long, value_name = "OLD")]
    since: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Format,
    /// Folders of bundles and catalogs, files and folders of manifests
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Time of one call, unless the configuration says otherwise: catalogs are large.
const TIME: Duration = Duration::from_secs(10);

/// A check waits for nobody; the policies' own limits hold.
const PATIENCE: Duration = Duration::from_secs(3_600);

impl Check {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let Self { config, kind, since, output, paths } = self;
        if since.is_some() && paths.len() != 1 {
            let text = "--since compares one path with what was published: name one path";
            return Err(Failure::usage(anyhow::anyhow!(text)));
        }
        let mut configuration = config.configuration()?;
        configuration.for_files(TIME, parallel::workers().max(4));
        let set = config.complete_set_of(&configuration, Source::Absent)?;
        let load = |path: &PathBuf| {
            let kind = kind.map_or_else(|| files::detect(path), Ok)?;
            files::load(path, kind, since.as_deref())
        };
        let mut outcome = Outcome::Ok;
        let mut subjects = Vec::new();
        for loaded in parallel::map(&paths, load) {
            match loaded {
                Ok(found) => subjects.extend(found),
                // The other paths are checked all the same.
                Err(error) => {
                    outcome = Outcome::Usage;
                    for line in format!("{error:#}").lines() {
                        tracing::error!("{line}");
                    }
                }
            }
        }
        if subjects.is_empty() {
            if outcome == Outcome::Ok {
                return Err(Failure::usage(anyhow::anyhow!(
                    "there is nothing to check in what was named"
                )));
            }
            return Ok(outcome);
        }
        let progress = Progress::of(subjects.len());
        let judge = |subject: &Subject| {
            let checked = judge(&set, subject, configuration.warnings_as_errors);
            progress.step();
            checked
        };
        let all = parallel::map(&subjects, judge);
        progress.end();
        let mut findings = Findings::start(output, &set);
        let mut left_out = BTreeSet::new();
        for judged in all {
            let Judged { checked, unreported, not_evaluated } = judged.map_err(Failure::engine)?;
            outcome = outcome.max(checked.outcome());
            left_out.extend(not_evaluated);
            for line in unreported {
                outcome = outcome.max(Outcome::Usage);
                tracing::error!("{line}");
            }
            findings.add(checked);
        }
        if !left_out.is_empty() {
            let rules = left_out.into_iter().collect::<Vec<_>>().join(" ");
            tracing::info!(rules, "not evaluated: they need other objects of a cluster");
        }
        match findings.end() {
            // Whoever reads the output has seen enough; what was found counts.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(outcome),
            other => other.map(|()| outcome).map_err(Failure::from),
        }
    }
}

/// What was found out about a subject.
struct Judged {
    checked: Checked,
    /// Files that cannot be read and that no policy has told about, one line each.
    unreported: Vec<String>,
    /// Rules that need a cluster.
    not_evaluated: Vec<String>,
}

fn judge(set: &Set, subject: &Subject, warnings_as_errors: bool) -> anyhow::Result<Judged> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut checked = Checked::new(subject);
    let mut not_evaluated = Vec::new();
    let mut is_seen = false;
    for request in &subject.requests {
        let text = review::text(request.review().into_bytes());
        let text = text.map_err(|e| anyhow::anyhow!("{}: {e}", subject.source))?;
        let review = Review::read(&text).map_err(|e| anyhow::anyhow!("{}: {e}", subject.source))?;
        is_seen = is_seen || set.policies().iter().any(|policy| policy.matches(&review));
        let decided = set.decide(&review, None, Instant::now() + PATIENCE, &());
        let mut decision = runtime.block_on(decided)?;
        let notes = std::mem::take(&mut decision.audit_annotations);
        let rules = notes.iter().filter(|(key, _)| key.ends_with(".not-evaluated"));
        not_evaluated.extend(rules.flat_map(|(_, rules)| rules.split(' ').map(str::to_owned)));
        checked.take(request, decision);
    }
    checked.conclude(warnings_as_errors);
    if !is_seen {
        let Subject { source, kind, name, .. } = subject;
        tracing::warn!("{source}: no policy looks at {kind} {name:?}");
    }
    let broken = subject.broken.iter().filter(|file| !checked.mentions(&file.shown));
    let line = |file: &std::sync::Arc<files::File>| {
        let broken = file.broken()?;
        Some(format!("{}:{}:{}: {}", file.shown, broken.line, broken.column, broken.why))
    };
    let unreported = broken.filter_map(line).collect();
    Ok(Judged { checked, unreported, not_evaluated })
}

/// How far the work is, for people who wait.
struct Progress {
    all: usize,
    done: AtomicUsize,
    shows: bool,
}

impl Progress {
    fn of(all: usize) -> Self {
        Self { all, done: AtomicUsize::new(0), shows: all > 1 && io::stderr().is_terminal() }
    }

    fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.all;
        if self.shows && (done.is_multiple_of((all / 100).max(1)) || done == all) {
            // Nobody has to see it.
            let _ = write!(io::stderr(), "\rchecked {done} of {all}");
        }
    }

    fn end(&self) {
        if self.shows {
            let _ = write!(io::stderr(), "\r{:40}\r", "");
        }
    }
}
