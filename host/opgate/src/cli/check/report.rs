//! Results for bundles, catalogs and manifests, and the report of a check.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::cli::exit::ExitStatus;
use crate::cli::explanation::Explanation;
use crate::cli::output::{Out, stdout};
use crate::cli::report::fix::ReportedFix;
use crate::cli::report::html::{EvaluationCommand, Page};
use crate::cli::report::level::{HiddenCounts, MinEffect};
use crate::cli::report::page::RulePages;
use crate::cli::report::{
    AppliedWaiver, Counts, Format, PolicyErrorRecord, ReportItem, ReportLocation,
    ReportedViolation, ResultKind, UnreadableInput, Violation, complete, describe_object, table,
};
use crate::cli::verbosity::note;
use opgate_admission::policy::{Configuration, Decision, Effect, PolicySet};
use opgate_files::{LocationResolver, Request, Subject};
use opgate_text::one_line;

/// Number of recent violations that are searched for a duplicate.
const MAX_RECENT_VIOLATIONS: usize = 1_000;

/// Result of a bundle, a catalog's package or a manifest. The members are part of the stable interface.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct CheckRecord {
    source: String,
    kind: String,
    name: String,
    /// Namespace of an object of a cluster; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    ok: bool,
    violations: Vec<LocatedViolation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<PolicyErrorRecord>,
    /// The input type: `bundle`, `manifest`, `review`, …
    #[serde(rename = "inputType", skip_serializing_if = "str::is_empty")]
    input_type: &'static str,
    /// Why it was not evaluated, if so.
    #[serde(rename = "notEvaluated", skip_serializing_if = "Option::is_none")]
    not_evaluated: Option<String>,
    /// Explanation of each policy: for a bundle, and for each of its manifests.
    #[serde(rename = "explain", skip_serializing_if = "Vec::is_empty")]
    explanations: Vec<ObjectExplanation>,
    /// All policy errors, of which `error` is the first one.
    #[serde(skip)]
    policy_errors: Vec<PolicyErrorRecord>,
    /// Whether a warning that is not waived is among its violations, shown or not.
    #[serde(skip)]
    warns: bool,
    /// Package of a catalog, as its tree names it; empty for results outside packages.
    #[serde(skip)]
    package: Option<String>,
    /// Violations that are not shown.
    #[serde(skip)]
    hidden: HiddenCounts,
    /// Wall-clock time of the policies.
    #[serde(skip)]
    time: Duration,
}

/// Explanations of the policies for one of the objects.
#[derive(Debug, Serialize)]
struct ObjectExplanation {
    object: String,
    #[serde(flatten)]
    explanation: Explanation,
}

/// A violation and its place.
#[derive(Debug, Serialize)]
struct LocatedViolation {
    #[serde(flatten)]
    violation: Violation,
    #[serde(rename = "location", skip_serializing_if = "Option::is_none")]
    location: Option<ReportLocation>,
    /// Path of titles inside a package, for a denial.
    #[serde(skip)]
    about: Vec<String>,
}

impl CheckRecord {
    /// Creates an empty result.
    pub(super) fn new(subject: &Subject) -> Self {
        Self {
            source: subject.source.clone(),
            kind: subject.kind.clone(),
            name: subject.name.clone(),
            namespace: subject.namespace.clone(),
            ok: true,
            violations: Vec::new(),
            error: None,
            input_type: subject.input_type(),
            not_evaluated: None,
            explanations: Vec::new(),
            policy_errors: Vec::new(),
            warns: false,
            package: subject.package(),
            hidden: HiddenCounts::default(),
            time: Duration::ZERO,
        }
    }

    /// Takes over what the policies say about one document of the subject.
    pub(super) fn add_decision(&mut self, request: &Request, decision: Decision) {
        let mut places = LocationResolver::new(&request.object);
        // The waivers decide whether a violation denies. A policy error cannot be waived.
        let is_found = decision.violations.iter().any(|v| v.effect == Effect::Deny);
        let denied_by_fault =
            decision.denial.is_some() && !(is_found && decision.policy_errors.is_empty());
        self.ok &= decision.failure.is_none() && !denied_by_fault;
        for mut violation in decision.violations {
            let object = request.object_with(&violation.field);
            let place = if std::ptr::eq(object, &raw const request.object) {
                places.resolve(&violation.field)
            } else {
                LocationResolver::new(object).resolve(&violation.field)
            };
            let place = place.map(ReportLocation::from);
            let denies = violation.effect == Effect::Deny;
            let about = std::mem::take(&mut violation.logical_location);
            let about = if denies { about } else { Vec::new() };
            let mut violation = Violation::from(violation);
            violation.fix = violation.fix.take().and_then(|fix| fix.located(request));
            violation.field = request.subject_field(&violation.field);
            // A CSV is evaluated as part of its bundle and as a manifest: a violation of both is reported
            // once.
            let is_known = |known: &LocatedViolation| {
                known.violation.rule == violation.rule
                    && known.violation.message == violation.message
                    && known.location == place
                    && (place.is_some() || known.violation.field == violation.field)
            };
            let mut recent = self.violations.iter_mut().rev().take(MAX_RECENT_VIOLATIONS);
            match recent.find(|known| is_known(known)) {
                Some(known) if known.violation.fix.is_none() => {
                    known.violation.fix = violation.fix.take();
                }
                Some(_) => {}
                None => {
                    self.violations.push(LocatedViolation { violation, location: place, about });
                }
            }
        }
        let policy_errors = decision.policy_errors.into_iter();
        self.policy_errors.extend(
            policy_errors
                .map(|error| PolicyErrorRecord { policy: error.policy, cause: error.cause }),
        );
        if self.error.is_none() {
            self.error = self.policy_errors.first().cloned();
        }
    }

    /// Sets the total time of the policies, after the last document.
    pub(super) fn set_duration(&mut self, time: Duration) {
        self.time = time;
    }

    /// Marks the waived violations, after the last document.
    pub(super) fn apply_waivers(&mut self, mut waived: impl FnMut(&str) -> Option<AppliedWaiver>) {
        for LocatedViolation { violation, .. } in &mut self.violations {
            violation.waived = waived(&violation.rule);
        }
    }

    /// Marks it as not evaluated, with the reason.
    pub(super) fn set_not_evaluated(&mut self, why: String) {
        self.not_evaluated = Some(why);
    }

    /// Reports whether it was not evaluated.
    pub(super) fn is_not_evaluated(&self) -> bool {
        self.not_evaluated.is_some() && self.outcome() == ExitStatus::Ok
    }

    /// Keeps the explanations of the policies for one of the objects.
    pub(super) fn explain(&mut self, object: String, explanation: Explanation) {
        self.explanations.push(ObjectExplanation { object, explanation });
    }

    /// Iterates over the violations.
    pub(in crate::cli) fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter().map(|located_violation| &located_violation.violation)
    }

    /// Returns the path of the object, or its name.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Iterates over the violations with a fix for files.
    pub(super) fn fixes(&self) -> impl Iterator<Item = FixCandidate<'_>> {
        self.violations.iter().filter_map(|LocatedViolation { violation, location, .. }| {
            let fix = violation.fix.as_ref().filter(|fix| fix.edits().is_some())?;
            if violation.waived.is_some() {
                return None;
            }
            let place = location.as_ref().map(ReportLocation::describe);
            Some(FixCandidate { policy: &violation.policy, rule: &violation.rule, fix, place })
        })
    }

    /// Returns the policy error, if there is one.
    pub(in crate::cli) fn policy_error(&self) -> Option<&PolicyErrorRecord> {
        self.error.as_ref()
    }

    /// Returns all policy errors.
    pub(in crate::cli) fn policy_errors(&self) -> &[PolicyErrorRecord] {
        &self.policy_errors
    }

    /// Reports whether the policies have evaluated it.
    pub(super) fn is_evaluated(&self) -> bool {
        self.error.is_none()
    }

    /// Computes the outcome, after the waivers. Input that is unreadable as a whole fails the check.
    pub(super) fn conclude(&mut self, warnings_as_errors: bool, is_complete: bool) {
        let counts = |effect| self.violations.iter().any(|v| v.violation.has_effect(effect));
        self.ok &= is_complete;
        self.warns = counts(Effect::Warn);
        let fails = counts(Effect::Deny) || warnings_as_errors && counts(Effect::Warn);
        self.ok &= !fails;
        // In the order of a reader of the files.
        self.violations.sort_by(|a, b| a.position().cmp(&b.position()));
    }

    /// Leaves out the violations below a level, and counts them.
    fn hide_below(&mut self, level: MinEffect) {
        let hidden = &mut self.hidden;
        self.violations
            .retain(|located_violation| level.show_or_count(&located_violation.violation, hidden));
    }

    /// Gives other names to paths.
    pub(super) fn rename_paths(&mut self, named: impl Fn(&str) -> String) {
        self.source = named(&self.source);
        for place in self.violations.iter_mut().filter_map(|v| v.location.as_mut()) {
            place.file = named(&place.file);
        }
        for fix in self.violations.iter_mut().filter_map(|v| v.violation.fix.as_mut()) {
            fix.rename_files(&named);
        }
    }

    /// Moves the edits of fixes from one directory to another.
    pub(super) fn move_fixes(&mut self, from: &Path, to: &Path) {
        for fix in self.violations.iter_mut().filter_map(|v| v.violation.fix.as_mut()) {
            fix.move_files(from, to);
        }
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// Reports whether a violation is located in a file.
    pub(super) fn mentions(&self, file: &str) -> bool {
        self.violations.iter().any(|v| v.location.as_ref().is_some_and(|place| place.file == file))
    }

    pub(super) fn outcome(&self) -> ExitStatus {
        match (&self.error, self.ok) {
            (Some(_), _) => ExitStatus::Engine,
            (None, false) => ExitStatus::Denied,
            (None, true) => ExitStatus::Ok,
        }
    }

    /// Unreadable input is listed together with evaluated subjects, so that one list shows everything that
    /// needs attention.
    fn from_unreadable(unread: &UnreadableInput) -> Self {
        Self {
            source: unread.source.clone(),
            kind: String::new(),
            name: String::new(),
            namespace: None,
            ok: false,
            violations: Vec::new(),
            error: Some(PolicyErrorRecord { policy: String::new(), cause: unread.line.clone() }),
            input_type: "",
            not_evaluated: None,
            explanations: Vec::new(),
            policy_errors: Vec::new(),
            warns: false,
            package: None,
            hidden: HiddenCounts::default(),
            time: Duration::ZERO,
        }
    }

    /// Reports whether it has nothing to show.
    fn is_empty(&self) -> bool {
        self.violations.is_empty() && self.error.is_none() && self.explanations.is_empty()
    }

    /// Returns the outcome that the summary counts.
    fn result_kind(&self) -> ResultKind {
        ResultKind::of(self.outcome(), self.not_evaluated.is_none(), self.warns)
    }

    pub(super) fn item(&self) -> ReportItem<'_> {
        let message = self
            .error
            .as_ref()
            .map(|PolicyErrorRecord { policy, cause }| format!("policy {policy}: {cause}"));
        let first = || {
            let mut counted = self.violations.iter().map(|v| &v.violation);
            let denied = counted.clone().find(|v| v.denies());
            let first = denied.or_else(|| counted.find(|v| v.waived.is_none()));
            first.map(|v| v.message.clone()).or_else(|| self.hidden.summary())
        };
        ReportItem {
            source: &self.source,
            region: None,
            object: describe_object(&self.kind, self.namespace.as_deref(), &self.name),
            outcome: self.outcome(),
            message: message.or_else(first).unwrap_or_default(),
            time: Some(self.time),
            lines: self.violations.iter().map(LocatedViolation::line).collect(),
            is_located: true,
            error: self.error.as_ref(),
            not_evaluated: self
                .not_evaluated
                .as_deref()
                .filter(|_| self.outcome() == ExitStatus::Ok),
            result_kind: self.result_kind(),
        }
    }

    /// Iterates over the denials of a catalog's package, each with the enclosing titles.
    fn denials(&self) -> impl Iterator<Item = (&str, Vec<&str>, ReportedViolation<'_>)> {
        let denials = self.violations.iter().filter(|v| v.violation.denies());
        let package = self.package.as_deref();
        denials.filter_map(move |located_violation| {
            let package = Some(package?).filter(|title| !title.is_empty());
            let about = located_violation.about.iter().map(String::as_str);
            Some((
                self.source.as_str(),
                package.into_iter().chain(about).collect(),
                located_violation.line(),
            ))
        })
    }
}

/// Returns how many violations can be fixed; none if no violation can.
fn fix_hint(records: &[CheckRecord]) -> Option<String> {
    let fixes = records.iter().flat_map(CheckRecord::fixes);
    let (safe, other): (Vec<_>, Vec<_>) = fixes.partition(|candidate| candidate.fix.is_safe());
    match (safe.len(), other.len()) {
        (0, 0) => None,
        (0, other) => Some(format!("{other} fixable with --fix --unsafe-fixes")),
        (safe, 0) => Some(format!("{safe} fixable with --fix")),
        (safe, other) => {
            Some(format!("{safe} fixable with --fix, {other} more with --unsafe-fixes"))
        }
    }
}

/// A fix of a violation.
pub(super) struct FixCandidate<'r> {
    pub(super) policy: &'r str,
    pub(super) rule: &'r str,
    pub(super) fix: &'r ReportedFix,
    /// The place of the violation, if it has one.
    pub(super) place: Option<String>,
}

impl LocatedViolation {
    fn line(&self) -> ReportedViolation<'_> {
        ReportedViolation { violation: &self.violation, location: self.location.as_ref() }
    }

    fn position(&self) -> Option<(&str, u64, u64)> {
        self.location.as_ref().map(|place| (place.file.as_str(), place.line, place.column))
    }
}

/// What a report writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportContent {
    All,
    /// All, but how to fix violations.
    WithoutFixHint,
    Nothing,
}

/// A report under way.
pub(in crate::cli) struct Report<'s> {
    format: Format,
    set: &'s PolicySet,
    pages: RulePages,
    is_verbose: bool,
    level: MinEffect,
    out: Out,
    /// All results, unless each is written at once.
    results: Vec<CheckRecord>,
    hidden: HiddenCounts,
    /// The first error while results were written.
    write_error: Option<io::Error>,
    unreadable: Vec<UnreadableInput>,
    is_audit: bool,
    content: ReportContent,
    /// Objects of an audit without anything to show, which are only counted: a cluster can have a million.
    counted: Counts,
    command: EvaluationCommand,
    subject: String,
}

impl<'s> Report<'s> {
    pub(in crate::cli) fn start(
        format: Format,
        is_verbose: bool,
        level: MinEffect,
        configuration: &Configuration,
        set: &'s PolicySet,
    ) -> Self {
        let pages = RulePages::of(configuration, set, format.has_rule_docs());
        let (kept, unread) = (Vec::new(), Vec::new());
        Self {
            format,
            set,
            pages,
            is_verbose,
            level,
            out: stdout(format.form()),
            results: kept,
            hidden: HiddenCounts::default(),
            write_error: None,
            unreadable: unread,
            is_audit: false,
            content: ReportContent::All,
            counted: Counts::default(),
            command: EvaluationCommand::Check,
            subject: String::new(),
        }
    }

    /// Sets the text that names what is evaluated.
    pub(in crate::cli) fn set_subject(&mut self, subject: String) {
        self.subject = subject;
    }

    /// Sets the command that titles name.
    pub(in crate::cli) fn set_command(&mut self, command: EvaluationCommand) {
        self.command = command;
    }

    /// Marks the check as an audit of the objects of a cluster.
    pub(super) fn set_audit(&mut self) {
        self.is_audit = true;
    }

    /// Tells nothing about fixes: the caller does.
    pub(super) fn omit_fix_hint(&mut self) {
        self.content = ReportContent::WithoutFixHint;
    }

    /// Writes nothing: only the outcome counts.
    pub(super) fn silence(&mut self) {
        self.content = ReportContent::Nothing;
    }

    pub(super) fn add(&mut self, mut record: CheckRecord) {
        if self.content == ReportContent::Nothing {
            return;
        }
        record.hide_below(self.level);
        self.hidden.add(record.hidden);
        if self.is_audit && self.format == Format::Table && record.is_empty() {
            self.counted.add(record.result_kind());
        } else if self.format != Format::Jsonl {
            self.results.push(record);
        } else if self.write_error.is_none() {
            self.write_error = self.write_line(&record).err();
        }
    }

    fn write_line(&mut self, record: &CheckRecord) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, record)?;
        writeln!(self.out)
    }

    /// Notes what cannot be read.
    pub(super) fn add_unreadable(&mut self, unread: UnreadableInput) {
        self.unreadable.push(unread);
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.write_error.take() {
            return Err(error);
        }
        if self.content == ReportContent::Nothing {
            return Ok(());
        }
        let mut kept = std::mem::take(&mut self.results);
        if matches!(self.format, Format::Json | Format::Jsonl) {
            kept.extend(self.unreadable.iter().map(CheckRecord::from_unreadable));
        }
        let items: Vec<_> = kept.iter().map(CheckRecord::item).collect();
        match self.format {
            Format::Table => self.table(&kept, &items)?,
            Format::Jsonl => {
                for record in &kept {
                    self.write_line(record)?;
                }
            }
            Format::Json => {
                serde_json::to_writer_pretty(&mut self.out, &kept)?;
                writeln!(self.out)?;
            }
            Format::Junit | Format::Github | Format::Sarif | Format::Html => {
                let page = Page {
                    command: self.command,
                    subject: &self.subject,
                    items: &items,
                    unreadable: &self.unreadable,
                    hidden: self.hidden.summary(),
                    pages: &self.pages,
                };
                complete::write(&mut self.out, self.format, self.set, &page)?;
            }
        }
        self.out.flush()?;
        if let Some(line) = self.hidden.summary() {
            note(line);
        }
        if self.format == Format::Table && items.len() + self.counted.total() > 0 {
            note(table::summary(&items, self.counted, &self.unreadable));
        }
        if self.format == Format::Table
            && let Some(line) = fix_hint(&kept).filter(|_| self.content == ReportContent::All)
        {
            note(line);
        }
        Ok(())
    }

    fn table(&mut self, kept: &[CheckRecord], items: &[ReportItem<'_>]) -> io::Result<()> {
        let out = &mut self.out;
        table::write_violations(out, items, self.is_verbose)?;
        table::write_trees(out, kept.iter().flat_map(CheckRecord::denials))?;
        table::write_policy_errors(out, items)?;
        table::write_waived(out, items, self.is_verbose)?;
        if self.is_audit {
            table::write_denied_objects(out, items, self.counted.total())?;
        } else {
            table::write_not_evaluated(out, items, self.is_verbose)?;
        }
        for record in kept {
            for ObjectExplanation { object, explanation } in &record.explanations {
                writeln!(out, "{}: {object}", one_line(&record.source, 512))?;
                explanation.write(out, "  ")?;
            }
        }
        let violations = kept.iter().flat_map(|record| &record.violations);
        table::write_help_lines(
            out,
            &self.pages,
            violations.map(|located_violation| &located_violation.violation),
        )
    }
}
