//! `opgate replay`: decides recorded reviews as the server would, and manifests as requests that create them.
//!
//! ```text
//! PATHs ─▶ input ─▶ ReviewInput ─▶ PolicySet::decide ─▶ ReviewRecord ─▶ report
//!                                           └▶ explained: matched policies, and skipped rules
//! ```

mod golden;
mod report;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use self::golden::GoldenDecisions;
use self::report::Report;
use super::explanation::{self, Explanation, Trace};
use super::fail_on::FailOn;
use super::report::level::MinEffect;
use super::report::{Format, UnreadableInput};
use super::review_input::{InputLines, ReviewFactory, ReviewInput};
use super::{input, runtime};
use crate::cli::args::{ConfigArgs, ReadArgs};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::report::review_record::{InputType, ReviewRecord};
use crate::cli::verbosity::note;
use opgate_admission::cluster::Source;
use opgate_admission::policy::{Decision, PolicySet};
use opgate_admission::review::{Review, ReviewError};

/// Examples and exit statuses after the help text.
const AFTER_HELP: &str = "\
Examples:
  opgate replay reviews                           Evaluate all reviews of a directory
  opgate replay pod.yaml                          Evaluate the request that creates a Pod
  opgate replay --explain pod.yaml                Explain which policies matched, and why
  opgate replay --cluster-state cluster.yaml reviews    Evaluate rules that need a cluster as well
  opgate replay --config new.yaml reviews         Test a configuration before you roll it out
  opgate replay --bless expected.jsonl reviews    Write the decisions to a file
  opgate replay --verify expected.jsonl reviews   Fail if a decision differs from the file

Exit status: 0 every review is allowed, 1 a review is denied (see --fail-on), 2 wrong usage or
unreadable input, 3 a policy or the engine failed. docs/replay.md has the details.";

/// Arguments of `opgate replay`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Replay {
    #[command(flatten)]
    config: ConfigArgs,
    /// Files with the objects of a cluster, as `kubectl get -A -o yaml` prints them; may be repeated
    #[arg(long, value_name = "PATH")]
    cluster_state: Vec<PathBuf>,
    /// Apply each allowed review to the cluster of `--cluster-state` (or to an empty one), so that later
    /// reviews see it
    #[arg(long)]
    apply_allowed: bool,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Lowest effect of the violations to show; does not change the exit status
    #[arg(long, value_name = "EFFECT", default_value = "audit")]
    min_effect: MinEffect,
    /// Lowest effect of a violation for exit status 1
    #[arg(long, value_name = "EFFECT", default_value = "deny")]
    fail_on: FailOn,
    /// Explain each result: matched policies, evaluated and skipped rules, duration, and cluster
    /// objects read
    #[arg(long)]
    explain: bool,
    /// Fail if a review was not evaluated: no policy matched it, or every rule was skipped
    #[arg(long)]
    require_evaluated: bool,
    /// Write the decisions to a file for `--verify`, instead of a report
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "min_effect", "fail_on", "explain", "require_evaluated", "verify"])]
    bless: Option<PathBuf>,
    /// Compare the decisions with those that `--bless` wrote: print the differences instead of a report, and fail
    /// if there are any
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "min_effect", "fail_on", "explain", "require_evaluated"])]
    verify: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    /// Files with reviews, manifests or audit logs (JSON, YAML, JSON Lines), directories, or - for standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// No client waits for a replay; the limits of the policies still apply.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(3_600);

impl Replay {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self {
            config,
            cluster_state,
            apply_allowed,
            output,
            min_effect,
            fail_on,
            explain,
            require_evaluated,
            bless,
            verify,
            read,
            paths,
        } = self;
        let reader = read.reader();
        let expected =
            verify.as_deref().map(|file| GoldenDecisions::read(file, &reader)).transpose()?;
        let mut golden = (bless.is_some() || verify.is_some()).then(GoldenDecisions::default);
        let source = if cluster_state.is_empty() && !apply_allowed {
            Source::Absent
        } else {
            Source::Snapshot
        };
        let configuration = config.configuration()?;
        let set = config.load_all_or_fail(&configuration, source)?;
        let (files, skipped) = input::list_files(&paths)?;
        if skipped > 0 {
            tracing::warn!(files = skipped, "left out: not .json, .jsonl, .ndjson, .yaml or .yml");
        }
        input::load_cluster_state(set.cluster(), &cluster_state, &reader)?;
        let mut report = Report::start(output, min_effect, &configuration, &set);
        let mut outcome = ExitStatus::Ok;
        let mut decisions = 0usize;
        let (mut factory, mut lines) = (ReviewFactory::default(), InputLines::default());
        let mut replayer =
            Replayer { set: &set, apply_allowed, explain, skipped_rules: BTreeSet::new() };
        for item in files.iter().flat_map(|file| input::read(file, &reader)) {
            let all = match factory.create_reviews(&item) {
                Ok(all) => all,
                Err(why) => {
                    let why = why.to_string();
                    outcome = outcome.max(ExitStatus::Usage);
                    tracing::error!("{why}");
                    report.add_unreadable(UnreadableInput {
                        source: item.line_range().file,
                        line: why,
                    });
                    continue;
                }
            };
            for taken in all {
                lines.print(&taken, explain);
                let mut record = match runtime::block_on(replayer.decide(&taken))? {
                    Ok(record) => record,
                    Err(error) => {
                        outcome = outcome.max(ExitStatus::Usage);
                        let why = format!("{}: {error}", taken.source);
                        tracing::error!("{why}");
                        report.add_unreadable(UnreadableInput {
                            source: item.line_range().file,
                            line: why,
                        });
                        continue;
                    }
                };
                let is_unevaluated_event = taken.input_type == InputType::AuditEvent
                    && record.not_evaluated.is_some()
                    && !explain
                    && !require_evaluated;
                if is_unevaluated_event {
                    decisions += 1;
                    factory.set_unevaluated_event();
                    continue;
                }
                record.line_range = Some(item.line_range());
                if let Some(golden) = &mut golden {
                    decisions += 1;
                    // A denial can be what is expected.
                    outcome = outcome.max(record.engine_outcome());
                    golden.add(&record);
                    continue;
                }
                outcome = outcome.max(record.outcome());
                if fail_on == FailOn::Warn && record.warns() {
                    outcome = outcome.max(ExitStatus::Denied);
                }
                if require_evaluated && record.not_evaluated.is_some() {
                    outcome = outcome.max(ExitStatus::Denied);
                }
                decisions += 1;
                match report.add(record) {
                    // The reader closed the output early; the result so far counts.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        return Ok(fail_on.status(outcome));
                    }
                    other => other?,
                }
            }
        }
        if let Some(golden) = golden.as_ref().filter(|_| decisions > 0) {
            outcome = golden_outcome(golden, expected.as_ref(), bless.as_deref(), outcome)?;
        } else {
            match report.finish() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(fail_on.status(outcome));
                }
                other => other?,
            }
        }
        lines.finish();
        if let Some(line) = factory.audit_log_summary() {
            note(line);
        }
        if !replayer.skipped_rules.is_empty() {
            let all: Vec<_> = replayer.skipped_rules.iter().map(String::as_str).collect();
            let rules = explanation::list_some(&all);
            let with =
                if source == Source::Absent { "; name files with --cluster-state" } else { "" };
            tracing::warn!(rules, "not evaluated: they need other objects of a cluster{with}");
        }
        if decisions == 0 && outcome == ExitStatus::Ok {
            let text =
                "no AdmissionReview, manifest or write in an audit log found in the given paths";
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        }
        Ok(fail_on.status(outcome))
    }
}

/// Compares the decisions of a run with the `expected` ones, or writes them to a file. Returns the exit status.
fn golden_outcome(
    golden: &GoldenDecisions,
    expected: Option<&GoldenDecisions>,
    bless: Option<&Path>,
    outcome: ExitStatus,
) -> Result<ExitStatus, CommandError> {
    if let Some(expected) = expected {
        let differences = match golden.print_differences(expected) {
            // The reader closed the output early: after a difference.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(outcome.max(ExitStatus::Denied));
            }
            printed => printed?,
        };
        note(format!("{} decisions, {differences} differ from the expected ones", golden.len()));
        let found = if differences == 0 { ExitStatus::Ok } else { ExitStatus::Denied };
        return Ok(outcome.max(found));
    }
    let Some(file) = bless else { return Ok(outcome) };
    if outcome != ExitStatus::Ok {
        tracing::error!("{}: not written: the errors above are no decisions", file.display());
        return Ok(outcome);
    }
    golden.write(file)?;
    note(format!("{}: {} decisions", file.display(), golden.len()));
    Ok(outcome)
}

/// Decides one review after the other.
struct Replayer<'s> {
    set: &'s PolicySet,
    apply_allowed: bool,
    explain: bool,
    /// Rules that were not evaluated.
    skipped_rules: BTreeSet<String>,
}

impl Replayer<'_> {
    async fn decide(&mut self, taken: &ReviewInput) -> Result<ReviewRecord, ReviewError> {
        let review = Review::read(&taken.text)?;
        let (set, trace) = (self.set, Trace::default());
        let started = Instant::now();
        let decided = set.decide(&review, None, started + REVIEW_TIMEOUT, &trace).await;
        let took = started.elapsed();
        let allowed = |d: &Decision| d.denial.is_none() && d.failure.is_none();
        if self.apply_allowed && decided.as_ref().is_ok_and(allowed) {
            set.cluster().apply_allowed(&review);
        }
        let (mut unevaluated, decision) = (None, decided.as_ref().ok());
        if let Some(decision) = decision {
            self.skipped_rules.extend(decision.skipped.iter().map(|skipped| skipped.rule.clone()));
            unevaluated = explanation::not_evaluated_reason(set, &review, decision);
        }
        let explain = || Explanation::of(set.match_results(&review), decision, &trace);
        let explanation = self.explain.then(explain);
        let mut record = ReviewRecord::new(&review, &taken.source, decided, took);
        record.input_type = Some(taken.input_type);
        record.not_evaluated = unevaluated;
        record.explanation = explanation;
        Ok(record)
    }
}
