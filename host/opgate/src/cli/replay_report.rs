//! Decisions on reviews, and the report of a replay.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::Duration;

use serde::Serialize;

use super::ExitStatus;
use super::explanation::Explanation;
use super::report::level::{HiddenCounts, MinEffect};
use super::report::page::RulePages;
use super::report::{
    Counts, Format, Out, PolicyErrorRecord, Region, ReportItem, ReportedViolation, ResultKind,
    UnreadableInput, Violation, github, junit, sarif, stdout, table,
};
use super::review_input::InputType;
use super::verbosity::{is_quiet, note};
use opgate_admission::evaluation::DecideError;
use opgate_admission::policy::{Configuration, Decision, Effect, PolicySet};
use opgate_admission::review::Review;
use opgate_text::one_line;

/// Result of one review. The members are part of the stable interface.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) source: String,
    pub(super) uid: String,
    pub(super) operation: &'static str,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) allowed: bool,
    status: Option<Status>,
    pub(super) violations: Vec<Violation>,
    warnings: Vec<String>,
    pub(super) error: Option<PolicyErrorRecord>,
    microseconds: u64,
    /// The detected type of its file.
    #[serde(rename = "inputType", skip_serializing_if = "Option::is_none")]
    pub(super) input_type: Option<InputType>,
    /// Why it was not evaluated, if so.
    #[serde(rename = "notEvaluated")]
    pub(super) not_evaluated: Option<String>,
    #[serde(rename = "explain", skip_serializing_if = "Option::is_none")]
    pub(super) explanation: Option<Explanation>,
    /// Whether the webhook would have returned no decision.
    #[serde(skip)]
    pub(super) failed: bool,
    /// Its location.
    #[serde(skip)]
    pub(super) line_range: Option<LineRange>,
}

/// The lines of a file that are a review, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineRange {
    pub(super) file: String,
    pub(super) start: u64,
    /// End of the line, if known.
    pub(super) end: Option<u64>,
}

impl LineRange {
    fn region(&self) -> Region<'_> {
        Region { file: &self.file, start: Some(self.start), end: self.end }
    }
}

#[derive(Debug, Serialize)]
struct Status {
    code: u16,
    reason: String,
    message: String,
}

impl Record {
    pub(super) fn new(
        review: &Review<'_>,
        source: &str,
        decided: Result<Decision, DecideError>,
        took: Duration,
    ) -> Self {
        let mut record = Self {
            source: source.to_owned(),
            uid: review.uid.clone().into_owned(),
            operation: review.operation.as_str(),
            resource: review.resource_path(),
            subresource: review.sub_resource.clone().into_owned(),
            namespace: review.namespace.clone().into_owned(),
            name: review.name.clone().into_owned(),
            allowed: true,
            status: None,
            violations: Vec::new(),
            warnings: Vec::new(),
            error: None,
            microseconds: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            input_type: None,
            not_evaluated: None,
            explanation: None,
            failed: false,
            line_range: None,
        };
        match decided {
            Ok(decision) => record.add_decision(decision),
            Err(error) => record.set_error(String::new(), error.to_string()),
        }
        record
    }

    fn add_decision(&mut self, decision: Decision) {
        self.warnings = decision.warnings;
        self.violations = decision.violations.into_iter().map(Violation::from).collect();
        if let Some(denial) = decision.denial {
            self.allowed = false;
            let (code, reason, message) = (denial.code, denial.reason, denial.message);
            self.status = Some(Status { code, reason, message });
        }
        let policy_error = decision.policy_errors.into_iter().next();
        self.error = policy_error.map(|f| PolicyErrorRecord { policy: f.policy, cause: f.cause });
        if let Some(policy_error) = decision.failure {
            self.set_error(policy_error.policy, policy_error.cause);
        }
    }

    /// Records an error: the webhook would have returned no decision.
    fn set_error(&mut self, policy: String, cause: String) {
        (self.allowed, self.failed) = (false, true);
        let message =
            if policy.is_empty() { cause.clone() } else { format!("policy {policy}: {cause}") };
        self.status = Some(Status { code: 500, reason: "InternalError".to_owned(), message });
        self.error = Some(PolicyErrorRecord { policy, cause });
    }

    pub(super) fn outcome(&self) -> ExitStatus {
        match (&self.error, self.allowed) {
            (Some(_), _) => ExitStatus::Engine,
            (None, false) => ExitStatus::Denied,
            (None, true) => ExitStatus::Ok,
        }
    }

    /// Reports whether a violation warns.
    pub(super) fn warns(&self) -> bool {
        self.violations.iter().any(|violation| violation.has_effect(Effect::Warn))
    }

    pub(super) fn object(&self) -> String {
        let sub = if self.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", self.subresource)
        };
        let namespace =
            if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let kind = self.resource.trim_start_matches('/');
        one_line(&format!("{} {kind}{sub} {namespace}{}", self.operation, self.name), 512)
    }

    fn item(&self) -> ReportItem<'_> {
        let line = |violation| ReportedViolation { violation, location: None };
        ReportItem {
            source: &self.source,
            region: self.line_range.as_ref().map(LineRange::region),
            object: self.object(),
            outcome: self.outcome(),
            message: self.status.as_ref().map(|s| s.message.clone()).unwrap_or_default(),
            time: Some(Duration::from_micros(self.microseconds)),
            lines: self.violations.iter().map(line).collect(),
            is_located: false,
            error: self.error.as_ref(),
            not_evaluated: self.not_evaluated.as_deref(),
            result_kind: self.result_kind(),
        }
    }

    /// Returns the outcome that the summary counts.
    fn result_kind(&self) -> ResultKind {
        match self.outcome() {
            ExitStatus::Engine => ResultKind::Failed,
            ExitStatus::Denied | ExitStatus::Usage => ResultKind::Denied,
            ExitStatus::Ok if self.not_evaluated.is_some() => ResultKind::NotEvaluated,
            ExitStatus::Ok if self.warns() => ResultKind::Warned,
            ExitStatus::Ok => ResultKind::Passed,
        }
    }
}

/// A report under way.
pub(super) struct Report<'s> {
    format: Format,
    level: MinEffect,
    set: &'s PolicySet,
    pages: RulePages,
    out: Out,
    records: Vec<Record>,
    unreadable: Vec<UnreadableInput>,
    hidden: HiddenCounts,
    counts: Counts,
    /// One violation of each rule that denied.
    denied: BTreeMap<(String, String), Violation>,
}

impl<'s> Report<'s> {
    pub(super) fn start(
        format: Format,
        level: MinEffect,
        configuration: &Configuration,
        set: &'s PolicySet,
    ) -> Self {
        let pages = RulePages::of(configuration, set, format == Format::Sarif);
        let (kept, denied) = (Vec::new(), BTreeMap::new());
        let (hidden, counts, out) =
            (HiddenCounts::default(), Counts::default(), stdout(format.form()));
        let unread = Vec::new();
        Self {
            format,
            level,
            set,
            pages,
            out,
            records: kept,
            unreadable: unread,
            hidden,
            counts,
            denied,
        }
    }

    pub(super) fn add(&mut self, mut record: Record) -> io::Result<()> {
        let (level, hidden) = (self.level, &mut self.hidden);
        self.counts.add(record.result_kind());
        record.violations.retain(|violation| level.show_or_count(violation, hidden));
        match self.format {
            Format::Table => {
                if !is_quiet()
                    || record.result_kind() != ResultKind::Passed
                    || !record.violations.is_empty()
                    || record.explanation.is_some()
                {
                    table::write_review(&mut self.out, &record.item())?;
                }
                if let Some(explanation) = &record.explanation {
                    explanation.write(&mut self.out, "       ")?;
                }
                for violation in record.violations.into_iter().filter(Violation::denies) {
                    let key = (violation.policy.clone(), violation.rule.clone());
                    self.denied.entry(key).or_insert(violation);
                }
                Ok(())
            }
            Format::Jsonl => {
                serde_json::to_writer(&mut self.out, &record)?;
                writeln!(self.out)
            }
            Format::Json | Format::Junit | Format::Sarif | Format::Github => {
                self.records.push(record);
                Ok(())
            }
        }
    }

    /// Notes what cannot be read.
    pub(super) fn add_unreadable(&mut self, unread: UnreadableInput) {
        self.unreadable.push(unread);
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let items: Vec<_> = self.records.iter().map(Record::item).collect();
        match self.format {
            Format::Table => {
                table::write_help_lines(&mut self.out, &self.pages, self.denied.values())?;
            }
            Format::Jsonl => {}
            Format::Json => {
                serde_json::to_writer_pretty(&mut self.out, &self.records)?;
                writeln!(self.out)?;
            }
            Format::Junit => {
                junit::write(
                    &mut self.out,
                    "opgate replay",
                    &items,
                    &self.unreadable,
                    &self.pages,
                )?;
            }
            Format::Github => github::write(&mut self.out, &items, &self.unreadable, &self.pages)?,
            Format::Sarif => {
                let log = sarif::build_log(
                    "opgate replay",
                    self.set,
                    &items,
                    &self.unreadable,
                    &self.pages,
                );
                serde_json::to_writer_pretty(&mut self.out, &log)?;
                writeln!(self.out)?;
            }
        }
        self.out.flush()?;
        if let Some(line) = self.hidden.summary() {
            note(line);
        }
        if self.format == Format::Table {
            note(self.counts.summary("allowed"));
        }
        Ok(())
    }
}
