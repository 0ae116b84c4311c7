//! The lines of `opgate check` about its input: results of directories, detected types, and skipped files.

use std::collections::BTreeMap;

use opgate_files::{PassedOver, Reason};
use opgate_text::one_line;

use super::check_input::Loaded;
use super::evaluate::CheckRun;
use super::units::Unit;
use super::verbosity::note;

/// Maximum number of lines of one sort.
const LINES: usize = 20;

/// Lines on stderr so far.
pub(super) struct Lines {
    is_table: bool,
    all: bool,
    said: usize,
    warned: usize,
    passed_over: Vec<PassedOver>,
}

impl Lines {
    /// Creates the lines for table output; with `all`, every line.
    pub(super) fn new(is_table: bool, all: bool) -> Self {
        Self { is_table, all, said: 0, warned: 0, passed_over: Vec::new() }
    }

    /// Reports the results of directories.
    pub(super) fn found(&mut self, loaded: &mut Loaded) {
        self.passed_over = std::mem::take(&mut loaded.passed_over);
        if self.is_table {
            for line in &loaded.found {
                note(one_line(line, 1_024));
            }
        }
    }

    /// Reports the detected type of a file: always for reviews, otherwise with `all`. Warns about a kind that
    /// Kubernetes does not have.
    pub(super) fn unit(&mut self, unit: &Unit, findings: &CheckRun<'_>) {
        for line in &unit.warnings {
            self.warned += 1;
            if self.warned <= LINES {
                tracing::warn!("{}", findings.named(line));
            }
        }
        if !self.is_table {
            return;
        }
        for (is_review, line) in &unit.said {
            if !*is_review && !self.all {
                continue;
            }
            self.said += 1;
            if self.all || self.said <= LINES {
                note(one_line(&findings.named(line), 1_024));
            } else if self.said == LINES + 1 {
                note("and more AdmissionReviews; --verbose names all");
            }
        }
    }

    /// Reports the skipped files: a count for each reason, or each file with `all`.
    pub(super) fn end(self) {
        if !self.is_table {
            return;
        }
        if self.all {
            for PassedOver { path, reason } in &self.passed_over {
                let line = format!("{}: passed over: {}", path.display(), reason.text());
                note(one_line(&line, 1_024));
            }
            return;
        }
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for PassedOver { reason, .. } in &self.passed_over {
            *counts.entry(group(reason)).or_default() += 1;
        }
        let more = counts.len().saturating_sub(LINES);
        for ((what, hint), count) in counts.into_iter().take(LINES) {
            let files = if count == 1 { "file" } else { "files" };
            note(one_line(&format!("{count} {files} passed over: {what}{hint}"), 1_024));
        }
        if more > 0 {
            note(format!("and files with {more} more reasons; --verbose names all"));
        }
    }
}

/// Returns a reason without its file, and what to do.
fn group(reason: &Reason) -> (String, String) {
    let (what, hint) = match reason {
        Reason::Unreadable(_) => ("neither JSON nor YAML", "-v names them"),
        Reason::NotObjects => ("no Kubernetes objects and no catalog", "-v names them"),
        Reason::HelmTemplate(chart) => {
            let chart = chart.display();
            return (
                format!("templates of the chart {chart}"),
                format!("; to check them, run `helm template {chart} | opgate check -`"),
            );
        }
        Reason::Template => ("templates", "render them first; -v names them"),
        Reason::CatalogTemplate => ("templates of opm", "to check them, render the catalog"),
        Reason::BesideBundles => {
            ("manifests next to bundles or projects", "name them to check them")
        }
    };
    (what.to_owned(), format!("; {hint}"))
}
