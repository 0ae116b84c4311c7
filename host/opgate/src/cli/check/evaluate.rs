//! Verdicts of policies on subjects, and their effects.
//!
//! ```text
//! Subject ─▶ evaluation ─▶ result ─▶ all results: waivers, dropped rules, objects that were not evaluated ─▶ report
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::decision_cache::DecisionCache;
use super::read_resources::ReadResources;
use super::report::{CheckRecord, Report};
use super::{template_violations, waivers};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::explanation;
use crate::cli::explanation::Explanation;
use crate::cli::fail_on::FailOn;
use crate::cli::report::UnreadableInput;
use crate::cli::runtime;
use crate::cli::stdin::Stdin;
use crate::cli::verbosity;
use opgate_admission::policy::{PolicySet, Violation};
use opgate_admission::review::{Review, ReviewError};
use opgate_document::{Document, TooDeep};
use opgate_files::{self as files, Subject};
use opgate_manifests::SYSTEM_NAMESPACE;
use opgate_text::one_line;

/// No client waits for a check; the limits of the policies still apply.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Why rules for objects of a cluster are skipped.
const NO_CLUSTER_REASON: &str = "they need other objects of a cluster";

/// The reason why rules were skipped. Reasons are in the order of their texts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SkipReason {
    text: String,
    /// Whether cluster state would help.
    needs_cluster: bool,
}

impl SkipReason {
    fn of_policy(text: &str) -> Self {
        Self { text: text.to_owned(), needs_cluster: false }
    }

    fn no_cluster() -> Self {
        Self { text: NO_CLUSTER_REASON.to_owned(), needs_cluster: true }
    }
}
/// Maximum number of lines about rules that were not evaluated.
const MAX_SKIPPED_RULE_LINES: usize = 20;

/// Result of a subject.
pub(in crate::cli) struct SubjectResult {
    pub(in crate::cli) record: CheckRecord,
    /// Whether there is a policy for such a bundle or catalog.
    pub(super) is_matched: bool,
    /// Unreadable files that no policy has reported, each with a one-line reason.
    pub(super) unreported: Vec<(String, String)>,
    /// Rules that were not evaluated, each after the reason.
    skipped_rules: Vec<(SkipReason, String)>,
    /// The resources that the result depends on in addition to the subject; none if they are not known, or if a
    /// call failed.
    pub(super) reads: Option<BTreeSet<String>>,
}

impl SubjectResult {
    /// Reports whether a rule was skipped for want of other objects.
    pub(super) fn has_skipped_rules(&self) -> bool {
        !self.skipped_rules.is_empty()
    }
}

/// Asks the policies.
pub(super) struct SubjectEvaluator<'s> {
    set: &'s PolicySet,
    explains: bool,
    decisions: Option<&'s DecisionCache>,
}

/// The reason why a subject has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum EvaluateError {
    /// It makes no review: one line with its source.
    #[error("{0}")]
    Unreadable(String),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] anyhow::Error),
}

impl EvaluateError {
    fn unreadable(source: &str, error: &ReviewError) -> Self {
        Self::Unreadable(format!("{source}: {error}"))
    }
}

impl<'s> SubjectEvaluator<'s> {
    pub(super) fn new(set: &'s PolicySet) -> Self {
        Self { set, explains: false, decisions: None }
    }

    /// Uses earlier decisions, and can be cancelled.
    pub(super) fn with_decisions(self, decisions: Option<&'s DecisionCache>) -> Self {
        Self { decisions, ..self }
    }

    /// Keeps an explanation of each policy for every subject if `explains` is set.
    pub(super) fn with_explanations(self, explains: bool) -> Self {
        Self { explains, ..self }
    }

    /// Evaluates the requests of a subject.
    ///
    /// # Errors
    /// If a request is no review, or the engine fails.
    pub(super) fn evaluate(&self, subject: &Subject) -> Result<SubjectResult, EvaluateError> {
        let Self { set, explains, decisions } = self;
        let started = Instant::now();
        let mut checked = CheckRecord::new(subject);
        let mut not_evaluated = Vec::new();
        let mut is_seen = true;
        let mut reads = Some(BTreeSet::new());
        let (mut is_evaluated, mut unevaluated) = (false, subject.not_evaluated.clone());
        let has_templates = subject.requests.iter().any(|request| request.template.is_some());
        // Those of the workload of the next pod template.
        let mut known: Vec<Violation> = Vec::new();
        for request in &subject.requests {
            if decisions.is_some_and(DecisionCache::is_cancelled) {
                let cancelled = anyhow::anyhow!("the input has changed");
                return Err(EvaluateError::Engine(cancelled));
            }
            let text = request.text();
            let text = text.map_err(|TooDeep(offset)| ReviewError::Depth(offset));
            let unreadable = |error| EvaluateError::unreadable(&subject.source, &error);
            let text = text.map_err(unreadable)?;
            // A recorded review has the identity of its sender.
            let read = if request.recorded.is_some() { Review::read } else { Review::read_check };
            let review = read(&text);
            let review = review.map_err(unreadable)?;
            if request.represents_files() {
                is_seen = set.policies().iter().any(|policy| policy.matches(&review));
            }
            let resources = ReadResources::new(set);
            let decide = || {
                let until = Instant::now() + REVIEW_TIMEOUT;
                let decided = set.decide(&review, None, until, &resources);
                let decision = runtime::block_on(decided).map_err(anyhow::Error::from)?;
                decision.map_err(anyhow::Error::from)
            };
            let decision = match decisions {
                Some(decisions) => {
                    let all = Document::part(text.clone(), 0..text.len());
                    decisions.decide(&all.root().raw(), decide)?
                }
                None => decide()?,
            };
            if !is_evaluated {
                let why = explanation::not_evaluated_reason(set, &review, &decision, None);
                is_evaluated = why.is_none();
                unevaluated = unevaluated.or(why);
            }
            if *explains {
                let explanation =
                    Explanation::of(set.match_results(&review), Some(&decision), &resources.trace);
                checked.explain(request.display_name(), explanation);
            }
            not_evaluated.extend(decision.skipped.iter().map(|skipped| {
                let is_file = request.represents_files();
                let reason = if is_file {
                    SkipReason::of_policy(&skipped.reason)
                } else {
                    SkipReason::no_cluster()
                };
                (reason, skipped.rule.clone())
            }));
            resources.add_to(&mut reads, &decision);
            let decision = if let Some(template) = &request.template {
                template_violations::without_known(decision, template, &known)
            } else {
                known = if has_templates { decision.violations.clone() } else { Vec::new() };
                decision
            };
            checked.add_decision(request, decision);
        }
        checked.set_duration(started.elapsed());
        if let Some(why) = unevaluated.filter(|_| !is_evaluated) {
            checked.set_not_evaluated(why);
        }
        let broken = subject.unreadable.iter().filter(|file| !checked.mentions(&file.display_path));
        let unreported =
            broken.filter_map(|file| Some((file.display_path.clone(), files::error_line(file)?)));
        let unreported: Vec<_> = unreported.collect();
        Ok(SubjectResult {
            record: checked,
            is_matched: is_seen,
            unreported,
            skipped_rules: not_evaluated,
            reads,
        })
    }
}

/// Results so far.
pub(in crate::cli) struct CheckRun<'s> {
    report: Report<'s>,
    waivers: Vec<waivers::WaiverFile>,
    fail_on: FailOn,
    /// Standard input, where it was named.
    pub(super) stdin: Option<Stdin>,
    /// Unreadable input.
    pub(in crate::cli) unreadable: Vec<UnreadableInput>,
    /// Number of objects of a cluster that are being deleted and are therefore not evaluated.
    pub(super) terminating: usize,
    /// Objects that no webhook matches.
    pub(super) exempt: usize,
    is_audit: bool,
    /// Whether objects that were not evaluated fail the check.
    pub(super) requires_evaluated: bool,
    /// Whether there is cluster state for the rules that need it.
    pub(super) has_cluster_state: bool,
    outcome: ExitStatus,
    skipped_rules: BTreeMap<SkipReason, BTreeSet<String>>,
    unreported: Vec<UnreadableInput>,
    unmatched: BTreeSet<String>,
}

impl<'s> CheckRun<'s> {
    /// Starts the results of a running cluster, which has no waivers.
    pub(in crate::cli) fn of_cluster(report: Report<'s>, fail_on: FailOn) -> Self {
        let mut run = Self::new(report, Vec::new(), fail_on);
        run.set_audit();
        run
    }

    pub(super) fn new(
        report: Report<'s>,
        waivers: Vec<waivers::WaiverFile>,
        fail_on: FailOn,
    ) -> Self {
        Self {
            report,
            waivers,
            fail_on,
            stdin: None,
            unreadable: Vec::new(),
            terminating: 0,
            exempt: 0,
            is_audit: false,
            requires_evaluated: false,
            has_cluster_state: false,
            outcome: ExitStatus::Ok,
            skipped_rules: BTreeMap::new(),
            unreported: Vec::new(),
            unmatched: BTreeSet::new(),
        }
    }

    /// Marks the subject as an object of a cluster: omissions have to be reported.
    pub(super) fn set_audit(&mut self) {
        self.is_audit = true;
        self.report.set_audit();
    }

    /// Tells nothing about fixes: the caller does.
    pub(super) fn omit_fix_hint(&mut self) {
        self.report.omit_fix_hint();
    }

    /// Writes no report: only the outcome counts.
    pub(super) fn silence(&mut self) {
        self.report.silence();
    }

    /// Takes over what was found out, with the number of the waivers for it.
    pub(super) fn add_result(&mut self, result: SubjectResult, waivers: Option<usize>) {
        let SubjectResult {
            record: mut checked,
            is_matched: is_seen,
            unreported,
            skipped_rules: not_evaluated,
            reads: _,
        } = result;
        if let Some(waivers) = waivers.and_then(|number| self.waivers.get_mut(number)) {
            waivers.waive(&mut checked);
        }
        checked.conclude(self.fail_on == FailOn::Warn, unreported.is_empty());
        self.outcome = self.outcome.max(checked.outcome());
        if self.requires_evaluated && checked.is_not_evaluated() {
            self.outcome = self.outcome.max(ExitStatus::Denied);
        }
        if !is_seen {
            self.unmatched.insert(checked.kind().to_owned());
        }
        for (why, rule) in not_evaluated {
            self.skipped_rules.entry(why).or_default().insert(rule);
        }
        if let Some(stdin) = &self.stdin {
            checked.rename_paths(|text| stdin.with_stdin_name(text));
        }
        let unread = unreported.into_iter().map(|(source, line)| UnreadableInput { source, line });
        self.unreported.extend(unread);
        self.report.add(checked);
    }

    /// Notes that there are policies next to the files that are not used.
    pub(super) fn add_unused_configuration(&mut self) {
        if self.requires_evaluated {
            self.outcome = self.outcome.max(ExitStatus::Denied);
        }
    }

    /// Notes that something that was found cannot be read: a line each.
    pub(super) fn add_error(&mut self, path: &Path, lines: &str) {
        let source = path.display().to_string();
        for line in error_lines(&source, lines) {
            self.unreadable.push(UnreadableInput { source: source.clone(), line });
        }
    }

    /// Returns a text in which standard input has its name.
    pub(super) fn with_stdin_name(&self, text: &str) -> String {
        self.stdin.as_ref().map_or_else(|| text.to_owned(), |stdin| stdin.with_stdin_name(text))
    }

    /// Tells everything.
    pub(in crate::cli) fn finish(mut self) -> Result<ExitStatus, CommandError> {
        let unread = std::mem::take(&mut self.unreadable).into_iter();
        for unread in unread.chain(std::mem::take(&mut self.unreported)) {
            let UnreadableInput { source, line } = unread;
            let unread = UnreadableInput {
                source: self.with_stdin_name(&source),
                line: self.with_stdin_name(&line),
            };
            self.outcome = self.outcome.max(ExitStatus::Usage);
            tracing::error!("{}", unread.line);
            self.report.add_unreadable(unread);
        }
        for kind in &self.unmatched {
            tracing::warn!("no configured policy matches a {kind}");
        }
        for note in self.waivers.iter().flat_map(waivers::WaiverFile::notes) {
            tracing::warn!("{note}");
        }
        if self.terminating > 0 {
            let objects = self.terminating;
            tracing::warn!(objects, "not evaluated: objects that are being deleted or replaced");
        }
        if self.exempt > 0 {
            let objects = self.exempt;
            tracing::warn!(
                objects,
                "not evaluated: objects in {SYSTEM_NAMESPACE}, which webhooks do not match"
            );
        }
        let more = self.skipped_rules.len().saturating_sub(MAX_SKIPPED_RULE_LINES);
        for (why, rules) in self.skipped_rules.into_iter().take(MAX_SKIPPED_RULE_LINES) {
            let rules: Vec<_> = rules.iter().map(String::as_str).collect();
            let rules = explanation::list_some(&rules);
            let is_cluster = why.needs_cluster && !self.is_audit && !self.has_cluster_state;
            let with = if is_cluster { "; name files with --cluster-state" } else { "" };
            tracing::warn!(rules, "not evaluated: {}{with}", why.text);
        }
        if more > 0 {
            tracing::warn!("rules were not evaluated for {more} more reasons");
        }
        let outcome = self.fail_on.status(self.outcome);
        match self.report.finish() {
            // The reader closed the output early; the result so far counts.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(outcome),
            other => other.map(|()| outcome).map_err(CommandError::from),
        }
    }
}

/// Reports whether no webhook matches an object of a cluster: `opgate manifests webhook` exempts the
/// namespace that the cluster itself needs.
pub(super) fn is_exempt(subject: &Subject) -> bool {
    let is_it = |text: &String| text == SYSTEM_NAMESPACE;
    let is_namespace =
        subject.kind == "Namespace" && subject.requests.iter().all(|r| r.group.is_empty());
    subject.namespace.as_ref().is_some_and(is_it) || is_namespace && is_it(&subject.name)
}

/// Returns the lines of an error about a path, each with the path as one line: a name can have line breaks.
pub(super) fn error_lines(path: &str, lines: &str) -> Vec<String> {
    let shown = one_line(path, usize::MAX);
    lines.replace(path, &shown).lines().map(str::to_owned).collect()
}

/// Progress display.
pub(super) struct Progress {
    total: usize,
    done: AtomicUsize,
    is_visible: bool,
}

impl Progress {
    pub(super) fn of(all: usize) -> Self {
        let shows = all > 1 && io::stderr().is_terminal() && !verbosity::is_quiet();
        Self { total: all, done: AtomicUsize::new(0), is_visible: shows }
    }

    pub(super) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.total;
        if self.is_visible && (done.is_multiple_of((all / 100).max(1)) || done == all) {
            // Progress is best effort.
            let _ = write!(io::stderr(), "\rchecked {done} of {all}");
        }
    }

    pub(super) fn end(&self) {
        if self.is_visible {
            let _ = write!(io::stderr(), "\r{:40}\r", "");
        }
    }
}
