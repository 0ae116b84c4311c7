//! The fixes of all units: writes the files or prints the difference, and tells what was fixed.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::rounds::{FixNote, UnitFixes};
use super::unit::FileTexts;
use super::write;
use crate::cli::output::stdout;
use crate::cli::verbosity::{is_verbose, note};
use opgate_text::one_line;
use opgate_text::printed::Form;

/// Maximum number of lines about fixes that were refused.
const MAX_REFUSED_LINES: usize = 20;

/// The fixes of a command.
#[derive(Debug, Default)]
pub(in crate::cli::check) struct FixOutcome {
    files: BTreeMap<PathBuf, FileTexts>,
    applied: Vec<FixNote>,
    refused: Vec<(FixNote, String)>,
    unsafe_count: usize,
}

impl FixOutcome {
    /// Adds the fixes of a unit.
    pub(in crate::cli::check) fn add(&mut self, fixes: UnitFixes) {
        let UnitFixes { files, applied, refused, unsafe_count } = fixes;
        self.files.extend(files.into_iter().filter(|(_, texts)| texts.original != texts.new));
        self.applied.extend(applied);
        self.refused.extend(refused);
        self.unsafe_count = self.unsafe_count.saturating_add(unsafe_count);
    }

    /// Writes the files. Returns a line for each that cannot be written.
    pub(in crate::cli::check) fn write(&self) -> Vec<(&Path, String)> {
        // A file is removed after it was written in its new place.
        let (kept, removed): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|(_, texts)| texts.new.is_some());
        let mut errors: Vec<(&Path, String)> = Vec::new();
        for (path, texts) in kept {
            errors.extend(write::write(path, texts).err().map(|error| (path.as_path(), error)));
        }
        for (path, texts) in removed {
            // It stays if its new place was not written.
            let moved = self.files.iter().find(|(_, new)| new.source.as_ref() == Some(path));
            let is_lost = moved.is_none_or(|(new, _)| errors.iter().any(|(path, _)| path == new));
            if !is_lost {
                errors
                    .extend(write::remove(path, texts).err().map(|error| (path.as_path(), error)));
            }
        }
        errors
    }

    /// Prints the differences. `named` gives a path another name.
    pub(in crate::cli::check) fn print_diff(
        &self,
        named: impl Fn(&str) -> String,
    ) -> io::Result<()> {
        let mut out = stdout(Some(Form::Text));
        for (path, FileTexts { original, new, .. }) in &self.files {
            let name = one_line(&named(&path.display().to_string()), 4_096);
            let (old_name, old) = part(&name, original.as_deref());
            let (new_name, new) = part(&name, new.as_deref());
            out.write_all(opgate_fix::unified_diff(old_name, new_name, old, new).as_bytes())?;
        }
        out.flush()
    }

    /// Tells what was fixed, or would be, what was not, and what else could be.
    pub(in crate::cli::check) fn print_summary(&self, is_written: bool) {
        if is_verbose() {
            for FixNote { place, rule, title } in &self.applied {
                note(one_line(&format!("{place}: fixed {rule} {title}"), 1_024));
            }
        }
        for (FixNote { place, rule, title }, reason) in self.refused.iter().take(MAX_REFUSED_LINES)
        {
            tracing::warn!(
                "{}",
                one_line(&format!("{place}: not fixed: {rule} {title}: {reason}"), 1_024)
            );
        }
        let more = self.refused.len().saturating_sub(MAX_REFUSED_LINES);
        if more > 0 {
            tracing::warn!("{more} more violations were not fixed");
        }
        note(self.summary(is_written));
    }

    fn summary(&self, is_written: bool) -> String {
        let count = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        let (violations, files) =
            (count(self.applied.len(), "violation"), count(self.files.len(), "file"));
        let summary = match (self.applied.len(), is_written) {
            (0, _) => "no violation fixed".to_owned(),
            (_, true) => format!("{violations} fixed in {files}"),
            (_, false) => {
                format!("{violations} would be fixed in {files}; --fix without --diff writes")
            }
        };
        if self.unsafe_count > 0 {
            let more = if self.applied.is_empty() { "" } else { " more" };
            return format!("{summary}; --unsafe-fixes can fix {}{more}", self.unsafe_count);
        }
        summary
    }
}

/// Returns name and text of a file in a difference.
fn part<'t>(name: &'t str, text: Option<&'t str>) -> (&'t str, &'t str) {
    text.map_or(("/dev/null", ""), |text| (name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_violations_and_files() {
        let note = FixNote { place: "a".to_owned(), rule: "R".to_owned(), title: "t".to_owned() };
        let texts = FileTexts { original: Some("a".into()), new: Some("b".into()), source: None };
        let files = BTreeMap::from([(PathBuf::from("a"), texts)]);
        let applied = vec![note.clone(), note];
        let mut outcome = FixOutcome::default();
        assert_eq!(outcome.summary(true), "no violation fixed");
        outcome.unsafe_count = 3;
        assert_eq!(outcome.summary(true), "no violation fixed; --unsafe-fixes can fix 3");
        outcome.add(UnitFixes { files, applied, ..UnitFixes::default() });
        assert_eq!(
            outcome.summary(true),
            "2 violations fixed in 1 file; --unsafe-fixes can fix 3 more"
        );
        let dry = "2 violations would be fixed in 1 file; --fix without --diff writes; --unsafe-fixes can fix 3 more";
        assert_eq!(outcome.summary(false), dry);
    }
}
