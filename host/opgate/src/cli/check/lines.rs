//! The lines of `opgate check` about its input: results of directories, detected types, and skipped files.

use std::collections::BTreeMap;

use opgate_files::{SkipReason, SkippedFile};
use opgate_text::one_line;

use super::evaluate::CheckRun;
use super::inputs::LoadedInput;
use super::units::UnitResult;
use crate::cli::verbosity::note;

/// Maximum number of lines of one sort.
const MAX_LINES: usize = 20;

/// Lines on stderr so far.
pub(super) struct StatusLines {
    is_table: bool,
    all: bool,
    printed: usize,
    warned: usize,
    skipped: Vec<SkippedFile>,
}

impl StatusLines {
    /// Creates the lines for table output; with `all`, every line.
    pub(super) fn new(is_table: bool, all: bool) -> Self {
        Self { is_table, all, printed: 0, warned: 0, skipped: Vec::new() }
    }

    /// Reports the results of directories.
    pub(super) fn print_detection(&mut self, loaded: &mut LoadedInput) {
        self.skipped = std::mem::take(&mut loaded.skipped);
        if self.is_table {
            for line in &loaded.detection_lines {
                note(one_line(line, 1_024));
            }
        }
    }

    /// Reports the detected type of a file: always for reviews, otherwise with `all`. Warns about a kind that
    /// Kubernetes does not have.
    pub(super) fn print_unit(&mut self, unit: &UnitResult, findings: &CheckRun<'_>) {
        for line in &unit.warnings {
            self.warned += 1;
            if self.warned <= MAX_LINES {
                tracing::warn!("{}", findings.with_stdin_name(line));
            }
        }
        if !self.is_table {
            return;
        }
        for (is_review, line) in &unit.input_type_lines {
            if !*is_review && !self.all {
                continue;
            }
            self.printed += 1;
            if self.all || self.printed <= MAX_LINES {
                note(one_line(&findings.with_stdin_name(line), 1_024));
            } else if self.printed == MAX_LINES + 1 {
                note("and more AdmissionReviews; --verbose names all");
            }
        }
    }

    /// Reports the skipped files: a count for each reason, or each file with `all`.
    pub(super) fn finish(self) {
        if !self.is_table {
            return;
        }
        if self.all {
            for SkippedFile { path, reason } in &self.skipped {
                let line = format!("{}: passed over: {}", path.display(), reason.text());
                note(one_line(&line, 1_024));
            }
            return;
        }
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for SkippedFile { reason, .. } in &self.skipped {
            *counts.entry(group_key(reason)).or_default() += 1;
        }
        let more = counts.len().saturating_sub(MAX_LINES);
        for ((what, hint), count) in counts.into_iter().take(MAX_LINES) {
            let files = if count == 1 { "file" } else { "files" };
            note(one_line(&format!("{count} {files} passed over: {what}{hint}"), 1_024));
        }
        if more > 0 {
            note(format!("and files with {more} more reasons; --verbose names all"));
        }
    }
}

/// Returns a reason without its file, and what to do.
fn group_key(reason: &SkipReason) -> (String, String) {
    let (what, hint) = match reason {
        SkipReason::Unreadable(_) => ("neither JSON nor YAML", "-v names them"),
        SkipReason::NotObjects => ("no Kubernetes objects and no catalog", "-v names them"),
        SkipReason::HelmTemplate(chart) => {
            let chart = chart.display();
            return (
                format!("templates of the chart {chart}"),
                format!("; to check them, run `helm template {chart} | opgate check -`"),
            );
        }
        SkipReason::Template => ("templates", "render them first; -v names them"),
        SkipReason::CatalogTemplate => ("templates of opm", "to check them, render the catalog"),
        SkipReason::NextToBundles => {
            ("manifests next to bundles or projects", "name them to check them")
        }
    };
    (what.to_owned(), format!("; {hint}"))
}
