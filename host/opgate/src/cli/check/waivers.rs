//! Waivers of a check: the valid ones, the violations that they waive, and the notes.
//!
//! ```text
//! .opgate.yaml ─▶ files::waivers ─▶ File ─▶ CheckRecord::waive, for all results in its directory
//!                                     └───▶ notes: ignored, expired, unused
//! ```

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use time::{Date, OffsetDateTime};

use super::report::CheckRecord;
use crate::cli::report::{AppliedWaiver, ReportLocation};
use opgate_admission::policy::{Configuration, ModuleSource, PolicySet};
use opgate_builtin_policies::BUILTINS;
use opgate_files::waivers::{self, UnknownRule, Waiver, WaiverError, Waivers};
use opgate_input::read::Reader;
use opgate_text::hint;

/// Returns the current day in UTC, which is compared with the last day of waivers.
pub(super) fn today() -> Date {
    OffsetDateTime::now_utc().date()
}

/// The rules that exist: those of the configured policies, and of all built-in ones.
pub(super) struct KnownRules<'c> {
    configuration: &'c Configuration,
    configured: BTreeSet<&'c str>,
    /// Ids of configured rules by their names.
    ids: BTreeMap<&'c str, &'c str>,
    /// Read only if a rule is not among the configured ones.
    builtin: OnceCell<BTreeSet<String>>,
}

impl<'c> KnownRules<'c> {
    pub(super) fn of(configuration: &'c Configuration, set: &'c PolicySet) -> Self {
        let rules = set.policies().iter().flat_map(|policy| &policy.descriptor.rules);
        let configured = rules.clone().map(|rule| rule.id.as_str()).collect();
        let ids = rules.filter(|rule| !rule.name.is_empty());
        let ids = ids.map(|rule| (rule.name.as_str(), rule.id.as_str())).collect();
        Self { configuration, configured, ids, builtin: OnceCell::new() }
    }

    /// The rules of a built-in policy are those that it documents.
    fn builtin(&self) -> &BTreeSet<String> {
        self.builtin.get_or_init(|| {
            let modules = BUILTINS.iter().map(|b| ModuleSource::Builtin(b.name.to_owned()));
            let docs = modules.filter_map(|module| self.configuration.docs_of(&module).ok());
            docs.flat_map(BTreeMap::into_keys).collect()
        })
    }

    /// Returns the id of a rule, from its id or its name.
    pub(super) fn resolve(&self, rule: &str) -> Result<String, UnknownRule> {
        if let Some(id) = self.ids.get(rule) {
            return Ok((*id).to_owned());
        }
        if self.configured.contains(rule) || self.builtin().contains(rule) {
            return Ok(rule.to_owned());
        }
        let names = self.ids.keys().copied();
        let builtin = self.builtin().iter().map(String::as_str);
        let known = self.configured.iter().copied().chain(names).chain(builtin);
        Err(UnknownRule { hint: hint(rule, known) })
    }

    /// Reads the waivers of a directory.
    ///
    /// # Errors
    /// One line for each error in them.
    pub(super) fn waivers(
        &self,
        directory: &Path,
        reader: &Reader,
    ) -> Result<Option<Waivers>, WaiverError> {
        waivers::read(directory, &|rule| self.resolve(rule), reader)
    }
}

/// The waivers of a directory, as they are in its file.
#[derive(Debug)]
pub(super) struct DirectoryWaivers {
    pub(super) waivers: Waivers,
    /// Whether the check covers the whole directory.
    pub(super) is_whole: bool,
}

/// The active waivers of a directory.
pub(super) struct WaiverFile {
    waivers: Waivers,
    /// Whether they count at all.
    is_ignored: bool,
    today: Date,
    /// Number of violations for each, in the order of the list.
    violation_counts: Vec<usize>,
    /// Whether the check covers the whole directory.
    is_complete: bool,
    /// Numbers of evaluated and unreadable subjects.
    evaluated: usize,
    unreadable: usize,
}

impl WaiverFile {
    pub(super) fn new(read: DirectoryWaivers, is_ignored: bool, today: Date) -> Self {
        let DirectoryWaivers { waivers, is_whole } = read;
        let findings = vec![0; waivers.list.len()];
        Self {
            waivers,
            is_ignored,
            today,
            violation_counts: findings,
            is_complete: is_whole,
            evaluated: 0,
            unreadable: 0,
        }
    }

    fn is_expired(&self, waiver: &Waiver) -> bool {
        waiver.until.is_some_and(|until| until < self.today)
    }

    /// Returns the waived rules.
    pub(super) fn waived_rules(&self) -> BTreeSet<String> {
        let valid = self.waivers.list.iter().filter(|waiver| !self.is_expired(waiver));
        let rules = valid.filter(|_| !self.is_ignored);
        rules.map(|waiver| waiver.rule.clone()).collect()
    }

    /// Marks the waived violations.
    pub(super) fn waive(&mut self, checked: &mut CheckRecord) {
        self.evaluated += 1;
        self.unreadable += usize::from(!checked.is_evaluated());
        checked.apply_waivers(|rule| {
            let index = self.waivers.list.iter().position(|waiver| waiver.rule == rule)?;
            let waiver = self.waivers.list.get(index)?;
            *self.violation_counts.get_mut(index)? += 1;
            if self.is_ignored || self.is_expired(waiver) {
                return None;
            }
            Some(AppliedWaiver {
                reason: waiver.reason.clone(),
                until: waiver.until.map(|day| day.to_string()),
                at: ReportLocation {
                    file: self.waivers.file.clone(),
                    line: waiver.line,
                    column: waiver.column,
                    excerpt: String::new(),
                },
            })
        });
    }

    /// Returns the notes after the last violation, one line each.
    pub(super) fn notes(&self) -> Vec<String> {
        let file = &self.waivers.file;
        if self.is_ignored {
            let note = match self.waivers.list.len() {
                0 => return Vec::new(),
                1 => format!("{file}: 1 waiver is ignored: --no-waivers"),
                count => format!("{file}: {count} waivers are ignored: --no-waivers"),
            };
            return vec![note];
        }
        // A waiver without a violation may still be needed if files were not evaluated.
        let is_complete = self.is_complete && self.evaluated > 0 && self.unreadable == 0;
        let note = |(waiver, findings): (&Waiver, &usize)| {
            let Waiver { rule, line, column, .. } = waiver;
            let why = match waiver.until.filter(|_| self.is_expired(waiver)) {
                Some(until) => format!("the waiver of {rule} expired on {until} and has no effect"),
                None if *findings == 0 && is_complete => {
                    format!("{rule} is waived, but has no violation")
                }
                None => return None,
            };
            Some(format!("{file}:{line}:{column}: {why}"))
        };
        self.waivers.list.iter().zip(&self.violation_counts).filter_map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A waiver holds through its last day, in UTC.
    #[test]
    fn a_waiver_ends_after_its_day() {
        let day = |number| Date::from_calendar_date(2027, time::Month::January, number).unwrap();
        let waiver = Waiver {
            rule: "CSV-21".to_owned(),
            reason: "x".to_owned(),
            until: Some(day(30)),
            line: 2,
            column: 3,
        };
        for (today, expected) in [
            (day(29), &[][..]),
            (day(30), &[]),
            (day(31), &["x:2:3: the waiver of CSV-21 expired on 2027-01-30 and has no effect"]),
        ] {
            let waivers = Waivers { file: "x".to_owned(), list: vec![waiver.clone()] };
            let file = WaiverFile::new(DirectoryWaivers { waivers, is_whole: true }, false, today);
            assert_eq!(file.is_expired(&waiver), !expected.is_empty());
            assert_eq!(file.notes(), expected);
        }
    }
}
