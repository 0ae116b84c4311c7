//! `opgate replay`: decides recorded reviews as the server would.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use super::fail_on::FailOn;
use super::replayed::{Record, Report};
use super::report::level::Level;
use super::report::{Format, Unread};
use super::{ConfigArgs, Failure, Outcome, ReadArgs, input};
use opgate_admission::cluster::Source;
use opgate_admission::policy::{Decision, Set};
use opgate_admission::review::Review;

/// What to try, and what the status says.
const NEXT: &str = "\
Examples:
  opgate replay reviews                           Decide all reviews of a folder
  opgate replay --context cluster.yaml reviews    Evaluate rules that need a cluster as well
  opgate replay --config new.yaml reviews         Test a configuration before you roll it out

Exit status: 0 everything is allowed, 1 something is denied (see --fail-on), 2 wrong usage or
unreadable input, 3 a policy or the engine failed. docs/replay.md has the details.";

/// Arguments of `opgate replay`.
#[derive(Debug, Args)]
#[command(after_help = NEXT)]
pub(super) struct Replay {
    #[command(flatten)]
    config: ConfigArgs,
    /// Files with the objects of a cluster, as `kubectl get -A -o yaml` prints them; may be repeated
    #[arg(long, value_name = "PATH")]
    context: Vec<PathBuf>,
    /// Apply each allowed review to the cluster of `--context` (or to an empty one), so that later
    /// reviews see it
    #[arg(long)]
    evolve: bool,
    /// Output format
    #[arg(long, short, value_name = "FORM", default_value = "table")]
    output: Format,
    /// Lowest level of the violations to show; has no effect on the exit status
    #[arg(long, value_name = "LEVEL", default_value = "audit")]
    level: Level,
    /// Lowest level of a violation for exit status 1
    #[arg(long, value_name = "LEVEL", default_value = "deny")]
    fail_on: FailOn,
    #[command(flatten)]
    read: ReadArgs,
    /// Files with reviews (JSON, YAML, JSON Lines), folders, or - for standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// A replay waits for nobody; the policies' own limits hold.
const PATIENCE: Duration = Duration::from_secs(3_600);

impl Replay {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let Self { config, context, evolve, output, level, fail_on, read, paths } = self;
        let reader = read.reader();
        let source = if context.is_empty() && !evolve { Source::Absent } else { Source::Snapshot };
        let configuration = config.configuration()?;
        let set = config.complete_set_of(&configuration, source)?;
        let (files, skipped) = input::files(&paths)?;
        if skipped > 0 {
            tracing::warn!(files = skipped, "left out: not .json, .jsonl, .ndjson, .yaml or .yml");
        }
        input::fill(set.cluster(), &context, &reader)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let mut report = Report::start(output, level, &configuration, &set);
        let mut outcome = Outcome::Ok;
        let mut decisions = 0usize;
        let mut left_out = BTreeSet::new();
        for file in files {
            for item in input::read(&file, &reader) {
                let decided = item.checked().and_then(|text| {
                    let review = Review::read(&text).map_err(|e| item.error(&e))?;
                    Ok(runtime.block_on(decide(&set, &review, &item.source, evolve, &mut left_out)))
                });
                match decided {
                    Ok(mut record) => {
                        record.place = Some(item.place());
                        outcome = outcome.max(record.outcome());
                        if fail_on == FailOn::Warn && record.warns() {
                            outcome = outcome.max(Outcome::Denied);
                        }
                        decisions += 1;
                        match report.add(record) {
                            // Whoever reads the output has seen enough; what was found counts.
                            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                                return Ok(fail_on.status(outcome));
                            }
                            other => other?,
                        }
                    }
                    Err(why) => {
                        outcome = outcome.max(Outcome::Usage);
                        tracing::error!("{why}");
                        report.miss(Unread { source: item.place().file, line: why });
                    }
                }
            }
        }
        match report.end() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(fail_on.status(outcome));
            }
            other => other?,
        }
        if !left_out.is_empty() {
            let rules = left_out.into_iter().collect::<Vec<_>>().join(" ");
            tracing::warn!(
                rules,
                "not evaluated: they need other objects of the cluster; name files with --context"
            );
        }
        if decisions == 0 && outcome == Outcome::Ok {
            return Err(Failure::usage(anyhow::anyhow!("no review found in the given paths")));
        }
        Ok(fail_on.status(outcome))
    }
}

async fn decide(
    set: &Set,
    review: &Review<'_>,
    source: &str,
    evolve: bool,
    left_out: &mut BTreeSet<String>,
) -> Record {
    let started = Instant::now();
    let decided = set.decide(review, None, started + PATIENCE, &()).await;
    let took = started.elapsed();
    let allowed = |d: &Decision| d.denial.is_none() && d.failure.is_none();
    if evolve && decided.as_ref().is_ok_and(allowed) {
        set.cluster().evolve(review);
    }
    if let Ok(decision) = &decided {
        left_out.extend(decision.skipped.iter().map(|skipped| skipped.rule.clone()));
    }
    Record::new(review, source, decided, took)
}
