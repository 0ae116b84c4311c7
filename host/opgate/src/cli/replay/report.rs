//! Decisions on reviews, and the report of a replay.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use crate::cli::output::{Out, stdout};
use crate::cli::report::html::{EvaluationCommand, Page};
use crate::cli::report::level::{HiddenCounts, MinEffect};
use crate::cli::report::page::RulePages;
use crate::cli::report::review_record::ReviewRecord;
use crate::cli::report::{Counts, Format, ResultKind, UnreadableInput, Violation, complete, table};
use crate::cli::verbosity::{is_quiet, note};
use opgate_admission::policy::{Configuration, PolicySet};

/// A report under way.
pub(super) struct Report<'s> {
    format: Format,
    level: MinEffect,
    set: &'s PolicySet,
    pages: RulePages,
    out: Out,
    records: Vec<ReviewRecord>,
    unreadable: Vec<UnreadableInput>,
    hidden: HiddenCounts,
    subject: String,
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
        let pages = RulePages::of(configuration, set, format.has_rule_docs());
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
            subject: String::new(),
            counts,
            denied,
        }
    }

    /// Sets the text that names what is evaluated.
    pub(super) fn set_subject(&mut self, subject: String) {
        self.subject = subject;
    }

    pub(super) fn add(&mut self, mut record: ReviewRecord) -> io::Result<()> {
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
            Format::Json | Format::Junit | Format::Sarif | Format::Github | Format::Html => {
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
        let items: Vec<_> = self.records.iter().map(ReviewRecord::item).collect();
        match self.format {
            Format::Table => {
                table::write_help_lines(&mut self.out, &self.pages, self.denied.values())?;
            }
            Format::Jsonl => {}
            Format::Json => {
                serde_json::to_writer_pretty(&mut self.out, &self.records)?;
                writeln!(self.out)?;
            }
            Format::Junit | Format::Github | Format::Sarif | Format::Html => {
                let page = Page {
                    command: EvaluationCommand::Replay,
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
        if self.format == Format::Table {
            note(self.counts.summary("allowed"));
        }
        Ok(())
    }
}
