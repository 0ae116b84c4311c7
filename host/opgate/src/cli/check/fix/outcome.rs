//! The fixes of all units: writes the files or prints the difference, and tells what was fixed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::unit::{FileTexts, Texts};
use super::write;
use crate::cli::output::stdout;
use crate::cli::verbosity::{is_verbose, note};
use opgate_text::one_line;
use opgate_text::printed::Form;

/// Maximum number of lines about fixes that were refused.
const MAX_REFUSED_LINES: usize = 20;

/// A fix for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FixNote {
    /// `file:line:column`, or the file.
    pub(super) place: String,
    pub(super) rule: String,
    pub(super) title: String,
    /// The real paths of its files.
    pub(super) files: Vec<PathBuf>,
}

/// The fixes of a unit.
#[derive(Debug, Default)]
pub(super) struct UnitFixes {
    /// The original and the new text of each changed file.
    pub(super) files: Texts,
    pub(super) applied: Vec<FixNote>,
    /// By the keys of the fixes, with the reasons.
    pub(super) refused: BTreeMap<String, (FixNote, String)>,
    /// The keys of the fixes that need --unsafe-fixes.
    pub(super) unsafe_fixes: BTreeSet<String>,
}

/// The fixes of a command.
#[derive(Debug, Default)]
pub(super) struct FixOutcome {
    files: Texts,
    applied: Vec<FixNote>,
    /// By the keys of the fixes: a fix that two units refuse counts once.
    refused: BTreeMap<String, (FixNote, String)>,
    unsafe_fixes: BTreeSet<String>,
    /// The real paths of the files that were not written.
    failed: BTreeSet<PathBuf>,
    /// Number of units for whose texts there was no room.
    unfixed_units: usize,
}

impl UnitFixes {
    /// Returns the size of the old and new texts of the files.
    pub(super) fn byte_size(&self) -> usize {
        let texts = self.files.values().flat_map(|file| [&file.original, &file.new]);
        texts.flatten().fold(0, |sum, text| sum.saturating_add(text.len()))
    }
}

impl FixOutcome {
    /// Adds the fixes of a unit, which were made after those of earlier units.
    pub(super) fn add(&mut self, fixes: UnitFixes) {
        let UnitFixes { files, applied, refused, unsafe_fixes } = fixes;
        self.files.extend(files);
        self.applied.extend(applied);
        self.refused.extend(refused);
        self.unsafe_fixes.extend(unsafe_fixes);
    }

    /// Counts a unit that is left unchanged, because all texts would exceed their limit.
    pub(super) fn add_unfixed_unit(&mut self) {
        self.unfixed_units = self.unfixed_units.saturating_add(1);
    }

    /// Returns the new texts of the files below a path, or of the file there.
    pub(super) fn texts_below(&self, path: &Path) -> Texts {
        let from = self.files.range(path.to_path_buf()..);
        let below = from.take_while(|(file, _)| file.starts_with(path));
        below.map(|(file, texts)| (file.clone(), texts.clone())).collect()
    }

    /// Reports whether a file below a path was not written.
    pub(super) fn has_failed_below(&self, path: &Path) -> bool {
        // Paths are sorted by their components.
        let mut from = self.failed.range(path.to_path_buf()..);
        from.next().is_some_and(|file| file.starts_with(path))
    }

    /// Writes the files. Returns the path and a line for each that cannot be written: its fixes do not count.
    pub(super) fn write(&mut self) -> Vec<(PathBuf, String)> {
        // A file is changed or removed after what was moved out of it was written.
        let (new, known): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|(_, texts)| texts.original.is_none());
        let (mut failed, mut errors) = (BTreeSet::new(), Vec::new());
        let mut all_moved: BTreeMap<&Path, Vec<&PathBuf>> = BTreeMap::new();
        for (moved, texts) in &self.files {
            if let Some(source) = &texts.source {
                all_moved.entry(source.as_path()).or_default().push(moved);
            }
        }
        for (path, texts) in new.into_iter().chain(known) {
            let moved = all_moved.get(path.as_path()).cloned().unwrap_or_default();
            let is_lost = moved.iter().any(|moved| failed.contains(*moved));
            let result = match &texts.new {
                _ if is_lost => Err(write::not_fixed(texts, &"its new place was not written")),
                Some(_) => write::write(path, texts),
                None => write::remove(path, texts),
            };
            if let Err(error) = result {
                failed.insert(path.clone());
                errors.push((texts.path.clone(), error));
                // It would be there twice. This is best effort.
                for moved in moved.into_iter().filter(|moved| failed.insert((*moved).clone())) {
                    let _ = std::fs::remove_file(moved);
                }
            }
        }
        self.applied.retain(|note| !note.files.iter().any(|file| failed.contains(file)));
        self.failed = failed;
        errors
    }

    /// Prints the differences. `named` gives a path another name.
    pub(super) fn print_diff(&self, named: impl Fn(&str) -> String) -> io::Result<()> {
        let mut out = stdout(Some(Form::Text));
        for FileTexts { path, original, new, .. } in self.files.values() {
            let name = one_line(&named(&path.display().to_string()), 4_096);
            let (old_name, old) = part(&name, original.as_deref());
            let (new_name, new) = part(&name, new.as_deref());
            out.write_all(opgate_fix::unified_diff(old_name, new_name, old, new).as_bytes())?;
        }
        out.flush()
    }

    /// Tells what was fixed, or would be, what was not, and what else could be.
    pub(super) fn print_summary(&self, is_written: bool) {
        if is_verbose() {
            for FixNote { place, rule, title, .. } in &self.applied {
                note(one_line(&format!("{place}: fixed {rule} {title}"), 1_024));
            }
        }
        let refused: BTreeSet<_> = self.refused.values().collect();
        for (FixNote { place, rule, title, .. }, reason) in refused.iter().take(MAX_REFUSED_LINES) {
            // The log would quote a text with `=`, and editors do not find the place then.
            let line = format!("warning: {place}: not fixed: {rule} {title}: {reason}");
            note(one_line(&line, 1_024));
        }
        let more = refused.len().saturating_sub(MAX_REFUSED_LINES);
        if more > 0 {
            note(format!("warning: {more} more violations were not fixed"));
        }
        if self.unfixed_units > 0 {
            tracing::warn!(
                "{} inputs were not fixed, because the changes of the others are large: run opgate check --fix again",
                self.unfixed_units
            );
        }
        note(self.summary(is_written));
    }

    fn summary(&self, is_written: bool) -> String {
        let count = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        // A file that is moved counts once.
        let written = self.files.iter().filter(|(path, _)| !self.failed.contains(*path));
        let files = written.filter(|(_, texts)| texts.new.is_some()).count();
        let (violations, files) = (count(self.applied.len(), "violation"), count(files, "file"));
        let summary = match (self.applied.len(), is_written) {
            (0, _) => "no violation fixed".to_owned(),
            (_, true) => format!("{violations} fixed in {files}"),
            (_, false) => {
                format!("{violations} would be fixed in {files}; --fix without --diff writes")
            }
        };
        match self.unsafe_fixes.len() {
            0 => summary,
            more if self.applied.is_empty() => format!("{summary}; --unsafe-fixes can fix {more}"),
            more => format!("{summary}; --unsafe-fixes can fix {more} more"),
        }
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
        let path = PathBuf::from("a");
        let note = FixNote {
            place: "a".to_owned(),
            rule: "R".to_owned(),
            title: "t".to_owned(),
            files: vec![path.clone()],
        };
        let (original, new) = (Some("a".into()), Some("b".into()));
        let texts = FileTexts { path: path.clone(), original, new, source: None };
        let files = BTreeMap::from([(path, texts)]);
        let applied = vec![note.clone(), note];
        let mut outcome = FixOutcome::default();
        assert_eq!(outcome.summary(true), "no violation fixed");
        outcome.unsafe_fixes.extend(["1", "2", "3"].map(str::to_owned));
        assert_eq!(outcome.summary(true), "no violation fixed; --unsafe-fixes can fix 3");
        outcome.add(UnitFixes { files, applied, ..UnitFixes::default() });
        assert_eq!(
            outcome.summary(true),
            "2 violations fixed in 1 file; --unsafe-fixes can fix 3 more"
        );
        let dry = "2 violations would be fixed in 1 file; --fix without --diff writes; --unsafe-fixes can fix 3 more";
        assert_eq!(outcome.summary(false), dry);
    }

    #[test]
    fn a_document_is_in_one_place_if_a_file_cannot_be_written() {
        for (content, has_target) in [("changed", false), ("original", true)] {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            let (old, new) = (root.join("old"), root.join("new"));
            std::fs::write(&old, content).unwrap();
            if has_target {
                std::fs::write(&new, "other").unwrap();
            }
            let texts = |path: &PathBuf, original: Option<&str>, new: &str, source| FileTexts {
                path: path.clone(),
                original: original.map(Into::into),
                new: Some(new.into()),
                source,
            };
            let files = BTreeMap::from([
                (old.clone(), texts(&old, Some("original"), "rest", None)),
                (new.clone(), texts(&new, None, "moved", Some(old.clone()))),
            ]);
            let mut outcome = FixOutcome::default();
            outcome.add(UnitFixes { files, ..UnitFixes::default() });
            assert!(!outcome.write().is_empty());
            assert_eq!(std::fs::read_to_string(&old).unwrap(), content);
            assert_eq!(new.exists(), has_target);
            assert!(outcome.has_failed_below(&old) && outcome.has_failed_below(&new));
        }
    }
}
