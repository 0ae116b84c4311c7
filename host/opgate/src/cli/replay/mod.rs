//! `opgate replay`: decides recorded reviews as the server would, and manifests as requests that create them.
//!
//! ```text
//! PATHs ─▶ input ─▶ ReviewInput ─▶ PolicySet::decide ─▶ ReviewRecord ─┬▶ report
//!                                           │                         ├▶ golden: --bless, --verify
//!                                           │                         ├▶ against: responses of a server
//!                                           │                         └▶ recorded: answers in a recording
//!                                           └▶ explained: matched policies, and skipped rules
//! ```

mod against;
mod golden;
mod recorded;
mod recorded_sets;
mod report;

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use self::against::{AgainstArgs, Comparison, as_dry_run};
use self::golden::GoldenDecisions;
use self::recorded::RecordedComparison;
use self::recorded_sets::RecordedSets;
use self::report::Report;
use super::explanation::{self, Explanation, Trace};
use super::fail_on::FailOn;
use super::report::level::MinEffect;
use super::report::{Format, UnreadableInput, describe_paths};
use super::review_input::{InputLines, MissingReads, ReviewFactory, ReviewInput};
use super::{input, runtime};
use crate::cli::args::{ConfigArgs, ReadArgs};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::input::{Input, ReviewItem};
use crate::cli::report::review_record::{InputType, ReviewRecord};
use crate::cli::verbosity::note;
use opgate_admission::cluster::Source;
use opgate_admission::policy::{Decision, PolicySet, response};
use opgate_admission::review::ReviewError;

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
  opgate replay --verify-recorded recording       Fail if a recorded decision is not repeated
  opgate replay --against https://127.0.0.1:8443/validate --ca ca.crt reviews
                                                  Fail if a server answers differently

Exit status: 0 every review is allowed, 1 a review is denied (see --fail-on), 2 wrong usage or
unreadable input, 3 a policy or the engine failed. docs/replay.md has the details.";

/// Flags that compare decisions, or write them for a comparison, instead of a report.
#[derive(Debug, Args)]
struct ExpectedArgs {
    /// Write the decisions to a file for `--verify`, instead of a report
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "min_effect", "fail_on", "explain", "require_evaluated", "verify"])]
    bless: Option<PathBuf>,
    /// Compare the decisions with those that `--bless` wrote: print the differences instead of a report, and fail
    /// if there are any
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "min_effect", "fail_on", "explain", "require_evaluated"])]
    verify: Option<PathBuf>,
    /// Compare the decisions with those in a recording: print the differences and their causes instead of a
    /// report, and fail if there are any
    #[arg(long, conflicts_with_all = ["output", "min_effect", "fail_on", "explain", "require_evaluated", "bless", "verify", "against"])]
    verify_recorded: bool,
}

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
    #[command(flatten)]
    expected: ExpectedArgs,
    #[command(flatten)]
    against: AgainstArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Files with reviews, manifests, audit logs (JSON, YAML, JSON Lines) or recordings (zst), directories, or - for
    /// standard input
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
            expected: ExpectedArgs { bless, verify, verify_recorded },
            against,
            read,
            paths,
        } = self;
        let reader = read.reader();
        let expected =
            verify.as_deref().map(|file| GoldenDecisions::read(file, &reader)).transpose()?;
        let golden = (bless.is_some() || verify.is_some()).then(GoldenDecisions::default);
        let client = against.client()?;
        let source = if cluster_state.is_empty() && !apply_allowed {
            Source::Absent
        } else {
            Source::Snapshot
        };
        let files = list_files(&paths, bless.as_deref().or(verify.as_deref()))?;
        let mut items = files.iter().flat_map(|file| input::read(file, &reader)).peekable();
        let (sets, configuration, set) = RecordedSets::begin(config, source, items.peek())?;
        let set = Arc::new(set);
        let comparison = client.map(|client| Comparison::new(client, &set)).transpose()?;
        input::load_cluster_state(set.cluster(), &cluster_state, &reader)?;
        let mut report = Report::start(output, min_effect, &configuration, &set);
        report.set_subject(describe_paths(&paths));
        let mut run = Run {
            replayer: Replayer::new(set.clone(), apply_allowed, explain, comparison.as_ref()),
            report,
            golden,
            recorded: verify_recorded.then(RecordedComparison::new),
            sets,
            comparison,
            fail_on,
            require_evaluated,
            factory: ReviewFactory::default(),
            lines: InputLines::default(),
            outcome: ExitStatus::Ok,
            decisions: 0,
        };
        run.replayer.with_responses |= verify_recorded;
        for item in items {
            if run.add_item(&item)?.is_break() {
                return Ok(fail_on.status(run.outcome));
            }
        }
        run.finish(expected.as_ref(), bless.as_deref(), source)
    }
}

/// Lists the files to read. The file with the expected decisions can be in a directory with reviews.
fn list_files(paths: &[PathBuf], golden: Option<&Path>) -> anyhow::Result<Vec<Input>> {
    let mut files = input::list_review_files(paths)?;
    if let Some(golden) = golden {
        files.retain(|file| !file.is_found_as(golden));
    }
    Ok(files)
}

/// The decisions of one command, and their destination: a report, a file, or a comparison.
struct Run<'s> {
    replayer: Replayer,
    report: Report<'s>,
    golden: Option<GoldenDecisions>,
    recorded: Option<RecordedComparison>,
    sets: RecordedSets,
    comparison: Option<Comparison>,
    fail_on: FailOn,
    require_evaluated: bool,
    factory: ReviewFactory,
    lines: InputLines,
    outcome: ExitStatus,
    decisions: usize,
}

impl Run<'_> {
    /// Decides the reviews of an item. Breaks if the reader has closed the output: the result so far counts.
    fn add_item(&mut self, item: &ReviewItem) -> Result<ControlFlow<()>, CommandError> {
        let all = match self.factory.create_reviews(item) {
            Ok(all) => all,
            Err(why) => {
                self.add_unreadable(item, why.to_string());
                return Ok(ControlFlow::Continue(()));
            }
        };
        if let Some(header) = self.factory.recording_header()
            && let Some(set) = self.sets.next(header)?
        {
            self.replayer.set = Arc::new(set);
        }
        for review in all {
            if self.add_review(item, review)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn add_review(
        &mut self,
        item: &ReviewItem,
        review: ReviewInput,
    ) -> Result<ControlFlow<()>, CommandError> {
        self.lines.print(&review, self.replayer.explain);
        let source = review.source.clone();
        let review = if self.comparison.is_some() { as_dry_run(review) } else { Ok(review) };
        let decided = match review {
            Ok(review) => {
                runtime::block_on(self.replayer.decide(&review))?.map(|decision| (review, decision))
            }
            Err(error) => Err(error),
        };
        let (review, decision) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                self.add_unreadable(item, format!("{source}: {error}"));
                return Ok(ControlFlow::Continue(()));
            }
        };
        self.decisions = self.decisions.saturating_add(1);
        if self.compare(&review, &decision)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if let Some(comparison) = &mut self.recorded {
            let outcome = match comparison.compare(
                review.recorded.as_deref(),
                &decision,
                &self.replayer.set,
            )? {
                ControlFlow::Continue(outcome) => outcome,
                ControlFlow::Break(()) => {
                    self.outcome = self.outcome.max(ExitStatus::Denied);
                    return Ok(ControlFlow::Break(()));
                }
            };
            self.outcome = self.outcome.max(outcome);
            return Ok(ControlFlow::Continue(()));
        }
        let LocalDecision { mut record, .. } = decision;
        let is_unevaluated_event = review.input_type == InputType::AuditEvent
            && record.not_evaluated.is_some()
            && !self.replayer.explain
            && !self.require_evaluated;
        if is_unevaluated_event {
            self.factory.set_unevaluated_event();
            return Ok(ControlFlow::Continue(()));
        }
        record.line_range = Some(item.line_range());
        self.add_record(record)
    }

    /// Compares a decision with the response of the server, if there is one.
    fn compare(
        &mut self,
        review: &ReviewInput,
        decision: &LocalDecision,
    ) -> Result<ControlFlow<()>, CommandError> {
        let Some(comparison) = &mut self.comparison else { return Ok(ControlFlow::Continue(())) };
        let compared = comparison.compare(review, decision).map_err(|error| CommandError {
            outcome: self.outcome.max(ExitStatus::Usage),
            error,
        })?;
        let (outcome, flow) = match compared {
            ControlFlow::Continue(outcome) => (outcome, ControlFlow::Continue(())),
            // The reader closed the output early: after a difference.
            ControlFlow::Break(()) => (ExitStatus::Denied, ControlFlow::Break(())),
        };
        self.outcome = self.outcome.max(outcome);
        Ok(flow)
    }

    /// Adds a decision to the golden ones or to the report.
    fn add_record(&mut self, record: ReviewRecord) -> Result<ControlFlow<()>, CommandError> {
        if self.comparison.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(golden) = &mut self.golden {
            // A denial can be what is expected.
            self.outcome = self.outcome.max(record.engine_outcome());
            golden.add(&record);
            return Ok(ControlFlow::Continue(()));
        }
        self.outcome = self.outcome.max(record.outcome());
        let is_warned = self.fail_on == FailOn::Warn && record.warns();
        if is_warned || self.require_evaluated && record.not_evaluated.is_some() {
            self.outcome = self.outcome.max(ExitStatus::Denied);
        }
        match self.report.add(record) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            other => {
                other?;
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    /// Reports something unreadable, and continues.
    fn add_unreadable(&mut self, item: &ReviewItem, line: String) {
        self.outcome = self.outcome.max(ExitStatus::Usage);
        tracing::error!("{line}");
        self.report.add_unreadable(UnreadableInput { source: item.line_range().file, line });
    }

    /// Writes the rest of the output, and returns the exit status.
    fn finish(
        mut self,
        expected: Option<&GoldenDecisions>,
        bless: Option<&Path>,
        source: Source,
    ) -> Result<ExitStatus, CommandError> {
        let has_decisions = self.decisions > 0;
        if let Some(golden) = self.golden.as_ref().filter(|_| has_decisions) {
            self.outcome = golden_outcome(golden, expected, bless, self.outcome)?;
        } else if let Some(comparison) = self.comparison.as_ref().filter(|_| has_decisions) {
            comparison.finish();
        } else if let Some(comparison) = self.recorded.as_ref().filter(|_| has_decisions) {
            comparison.finish().map_err(CommandError::usage)?;
        } else {
            match self.report.finish() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(self.fail_on.status(self.outcome));
                }
                other => other?,
            }
        }
        self.lines.finish();
        if let Some(line) = self.factory.audit_log_summary() {
            note(line);
        }
        let skipped_rules = &self.replayer.skipped_rules;
        if !skipped_rules.is_empty() {
            let all: Vec<_> = skipped_rules.iter().map(String::as_str).collect();
            let rules = explanation::list_some(&all);
            let with =
                if source == Source::Absent { "; name files with --cluster-state" } else { "" };
            tracing::warn!(rules, "not evaluated: they need other objects of a cluster{with}");
        }
        self.replayer.missing_reads.warn();
        if !has_decisions && self.outcome == ExitStatus::Ok {
            let text = if self.factory.recording_header().is_some() {
                "the recording has no review"
            } else {
                "no AdmissionReview, manifest or write in an audit log found in the given paths"
            };
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        }
        Ok(self.fail_on.status(self.outcome))
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
        if golden.has_other_sources(expected) {
            tracing::warn!(
                "no source is in the file: name the same paths, in the same directory, as with --bless"
            );
        }
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
struct Replayer {
    set: Arc<PolicySet>,
    apply_allowed: bool,
    explain: bool,
    /// Whether the responses to clients are needed.
    with_responses: bool,
    /// The policies that decide, with `/` between them; all if none.
    policies: Option<String>,
    /// Rules that were not evaluated.
    skipped_rules: BTreeSet<String>,
    missing_reads: MissingReads,
}

/// A decision of this process.
struct LocalDecision {
    record: ReviewRecord,
    /// The body of a server's response; none if it is not needed, or if a server would respond with an error.
    response: Option<Vec<u8>>,
    /// Policies and reads of which the recording has no result.
    missing_reads: Vec<(String, String)>,
}

impl Replayer {
    fn new(
        set: Arc<PolicySet>,
        apply_allowed: bool,
        explain: bool,
        comparison: Option<&Comparison>,
    ) -> Self {
        let policies = comparison.and_then(Comparison::policies).map(str::to_owned);
        let with_responses = comparison.is_some();
        Self {
            set,
            apply_allowed,
            explain,
            with_responses,
            policies,
            skipped_rules: BTreeSet::new(),
            missing_reads: MissingReads::default(),
        }
    }

    async fn decide(&mut self, taken: &ReviewInput) -> Result<LocalDecision, ReviewError> {
        let review = taken.review()?;
        let (set, trace) = (&self.set, Trace::default());
        let started = Instant::now();
        let only = self.policies.as_deref();
        let decided = taken.decide(&review, set, only, started + REVIEW_TIMEOUT, &trace).await;
        let took = started.elapsed();
        let allowed = |d: &Decision| d.denial.is_none() && d.failure.is_none();
        if self.apply_allowed && decided.as_ref().is_ok_and(allowed) {
            set.cluster().apply_allowed(&review);
        }
        let (mut unevaluated, decision) = (None, decided.as_ref().ok());
        if let Some(decision) = decision {
            self.missing_reads.add(MissingReads::rules_of(decision));
            let skipped = decision.skipped.iter().filter(|_| taken.recorded.is_none());
            self.skipped_rules.extend(skipped.map(|skipped| skipped.rule.clone()));
            unevaluated =
                explanation::not_evaluated_reason(set, &review, decision, taken.addressed());
        }
        let explain = || {
            let results = explanation::match_results(set, &review, taken.addressed());
            Explanation::of(results, decision, &trace)
        };
        let explanation = self.explain.then(explain);
        let answered = decision.filter(|d| self.with_responses && d.failure.is_none());
        let response = answered.map(|decision| response::body(&review, decision));
        let inputs = decision.and_then(|decision| decision.inputs.as_ref());
        let missing_reads = inputs.map(|inputs| inputs.missing_reads.clone()).unwrap_or_default();
        let mut record = ReviewRecord::new(&review, &taken.source, decided, took);
        record.input_type = Some(taken.input_type);
        record.not_evaluated = unevaluated;
        record.explanation = explanation;
        Ok(LocalDecision { record, response, missing_reads })
    }
}
