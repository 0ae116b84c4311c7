//! Results of a unit as findings of files.
//!
//! ```text
//! CollectedResults ─▶ violations, errors: file, line, column ─▶ bytes of the text ─▶ Finding, by file
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_edit::Edit;
use opgate_input::read::{FilePath, ReadPurpose, Reader};
use opgate_lsp::finding::{FileMove, Finding, Fix, FixEffect, Severity, marked_range};
use opgate_lsp::lines::{LineIndex, offset_of_place};
use opgate_lsp::paths::{MAX_OPEN_BYTES, is_document};
use opgate_text::one_line;

use crate::cli::check::collected::CollectedResults;
use crate::cli::report::fix::{FileEdit, ReportedFix};
use crate::cli::report::page::RulePages;

/// Maximum bytes of a message.
const MAX_MESSAGE_BYTES: usize = 4 << 10;
/// Maximum bytes of the title of a fix.
const MAX_TITLE_BYTES: usize = 256;
/// Maximum number of findings of a file, and maximum bytes of those of a unit.
const MAX_FINDINGS: usize = 1_000;
const MAX_UNIT_BYTES: usize = 8 << 20;

/// Findings by file.
pub(super) type FileFindings = HashMap<PathBuf, Vec<Finding>>;

/// A text with its lines.
struct ReadText {
    text: Arc<str>,
    lines: LineIndex,
}

/// Collects the findings of a unit.
pub(super) struct FindingCollector<'c> {
    reader: &'c Reader,
    /// The file for what has no place.
    main_file: PathBuf,
    /// The directory whose waivers apply.
    waivers: Option<PathBuf>,
    /// The texts of the editor: only their findings need fixes.
    open: Option<&'c HashMap<PathBuf, Arc<str>>>,
    texts: HashMap<PathBuf, Option<ReadText>>,
    findings: FileFindings,
    bytes: usize,
}

impl<'c> FindingCollector<'c> {
    pub(super) fn new(reader: &'c Reader, main_file: PathBuf, waivers: Option<PathBuf>) -> Self {
        let (texts, findings) = (HashMap::new(), HashMap::new());
        Self { reader, main_file, waivers, open: None, texts, findings, bytes: 0 }
    }

    /// Keeps the fixes of findings in these texts.
    pub(super) fn with_fixes_of(self, open: &'c HashMap<PathBuf, Arc<str>>) -> Self {
        Self { open: Some(open), ..self }
    }

    /// Adds the results of a unit.
    pub(super) fn add_results(&mut self, results: &CollectedResults, pages: &RulePages) {
        for item in results.items() {
            for line in item.lines.iter().filter(|line| line.violation.waived.is_none()) {
                let violation = line.violation;
                let severity = match violation.effect {
                    "deny" => Severity::Error,
                    "warn" => Severity::Warning,
                    _ => Severity::Information,
                };
                let place = line.location.map(|at| (PathBuf::from(&at.file), at.line, at.column));
                let message = match &place {
                    None if !violation.field.is_empty() => {
                        format!("{}: {}", violation.field, violation.message)
                    }
                    _ => violation.message.clone(),
                };
                let url = pages.url(&violation.policy, &violation.rule).map(str::to_owned);
                let waivers = self.waivers.clone();
                let finding = Finding {
                    rule: violation.rule.clone(),
                    policy: violation.policy.clone(),
                    url,
                    waivers,
                    fix: violation.fix.as_ref().and_then(editor_fix),
                    ..error_finding(severity, &message)
                };
                self.add(place, finding);
            }
            if let Some(error) = item.error {
                let message = format!("policy {}: {}", error.policy, error.cause);
                self.add(None, error_finding(Severity::Error, &message));
            }
        }
        for unreadable in &results.unreadable {
            self.add_line(Severity::Error, &unreadable.line);
        }
        for note in &results.notes {
            self.add_line(Severity::Warning, note);
        }
    }

    /// Adds an error that begins with its place: `FILE:LINE:COLUMN: MESSAGE`.
    pub(super) fn add_line(&mut self, severity: Severity, line: &str) {
        let (place, message) = split_place(line);
        self.add(place, error_finding(severity, message));
    }

    /// Adds a finding at a file, line and column.
    pub(super) fn add(&mut self, place: Option<(PathBuf, u64, u64)>, mut finding: Finding) {
        let is_text = |(path, ..): &(PathBuf, u64, u64)| is_document(path);
        let (path, line, column) =
            place.filter(is_text).unwrap_or_else(|| (self.main_file.clone(), 1, 1));
        if !self.open.is_some_and(|open| open.contains_key(&path)) {
            finding.fix = None;
        }
        let reader = self.reader;
        let read = self.texts.entry(path.clone()).or_insert_with(|| read_text(&path, reader));
        if let Some(ReadText { text, lines }) = read {
            finding.range = marked_range(text, offset_of_place(text, line, column));
            finding.file_range = lines.range(text, &finding.range);
        }
        let list = self.findings.entry(path).or_default();
        let bytes = self.bytes.saturating_add(finding.size());
        if list.len() < MAX_FINDINGS && bytes <= MAX_UNIT_BYTES && !list.contains(&finding) {
            self.bytes = bytes;
            list.push(finding);
        }
    }

    pub(super) fn finish(self) -> FileFindings {
        self.findings
    }
}

/// Returns a fix for an editor; none if it is not for files.
fn editor_fix(fix: &ReportedFix) -> Option<Fix> {
    let edits = fix.edits()?.to_vec();
    let size = edits.iter().map(|edit| edit.path.as_os_str().len() + edit.edit.byte_size()).sum();
    let effect = match edits.as_slice() {
        [] => return None,
        [FileEdit { path, document, edit: Edit::MoveFile { path: target, .. }, directory }] => {
            let directory = directory.clone()?;
            let target = directory.join(target);
            FixEffect::Move(FileMove { path: path.clone(), document: *document, directory, target })
        }
        edits if edits.iter().any(|edit| edit.document.is_none()) => return None,
        _ => text_effect(edits)?,
    };
    let title = one_line(fix.title(), MAX_TITLE_BYTES);
    Some(Fix { title, is_safe: fix.is_safe(), effect, size })
}

fn text_effect(edits: Vec<FileEdit>) -> Option<FixEffect> {
    if edits.iter().any(|edit| matches!(edit.edit, Edit::MoveFile { .. })) {
        return None;
    }
    let mut paths: Vec<_> = edits.iter().map(|edit| edit.path.clone()).collect();
    paths.dedup();
    let apply = move |path: &Path, text: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut text = text.to_owned();
        for FileEdit { document, edit, .. } in edits.iter().filter(|edit| edit.path == path) {
            let document = document.unwrap_or_default();
            let edited = opgate_fix::apply(&text, &name, document, std::slice::from_ref(edit));
            text = edited.map_err(|refusal| refusal.to_string())?;
        }
        Ok(text)
    };
    Some(FixEffect::Edit { paths, apply: Arc::new(apply) })
}

/// Returns a finding without a place.
pub(super) fn error_finding(severity: Severity, message: &str) -> Finding {
    Finding {
        rule: String::new(),
        policy: String::new(),
        severity,
        message: one_line(message, MAX_MESSAGE_BYTES),
        url: None,
        range: 0..0,
        file_range: lsp_types::Range::default(),
        waivers: None,
        fix: None,
    }
}

/// Splits `FILE:LINE:COLUMN: MESSAGE`, or `FILE: MESSAGE`.
fn split_place(line: &str) -> (Option<(PathBuf, u64, u64)>, &str) {
    let Some((place, message)) = line.split_once(": ") else { return (None, line) };
    let numbers = place.rsplit_once(':').and_then(|(rest, column)| {
        let (file, line) = rest.rsplit_once(':')?;
        Some((PathBuf::from(file), line.parse().ok()?, column.parse().ok()?))
    });
    let is_path = || Path::new(place).is_absolute();
    let file =
        || is_path().then(|| (PathBuf::from(place.split('#').next().unwrap_or(place)), 1, 1));
    match numbers.or_else(file) {
        Some(place) => (Some(place), message),
        None => (None, line),
    }
}

/// Reads a file, or its text in the editor.
fn read_text(path: &Path, reader: &Reader) -> Option<ReadText> {
    let at = FilePath::Named(path);
    let bytes = if let Some(bytes) = reader.unsaved_text(&at, ReadPurpose::Scan).ok()? {
        bytes
    } else {
        let opened = at.open().ok()?;
        let is_small = usize::try_from(opened.size).is_ok_and(|size| size <= MAX_OPEN_BYTES);
        is_small.then(|| reader.read(opened, true, ReadPurpose::Scan).ok()).flatten()?
    };
    let text: Arc<str> = String::from_utf8(bytes).ok()?.into();
    let lines = LineIndex::of(&text);
    Some(ReadText { text, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_unit_are_bounded() {
        let reader = Reader::default();
        let mut collector = FindingCollector::new(&reader, PathBuf::from("/none"), None);
        for file in 0..10 {
            for number in 0..2 * MAX_FINDINGS {
                let place = Some((PathBuf::from(format!("/none/{file}.yaml")), 1, 1));
                let message = format!("{number} {}", "x".repeat(MAX_MESSAGE_BYTES));
                collector.add(place, error_finding(Severity::Error, &message));
            }
        }
        let findings = collector.finish();
        assert_eq!(findings[Path::new("/none/0.yaml")].len(), MAX_FINDINGS);
        let bytes: usize = findings.values().flatten().map(Finding::size).sum();
        assert!(bytes <= MAX_UNIT_BYTES && bytes > MAX_UNIT_BYTES / 2, "{bytes}");
    }

    #[test]
    fn place_of_an_error_is_split_from_its_message() {
        for (line, place, message) in [
            ("/a b/c.yaml:3:14: x: y", Some(("/a b/c.yaml", 3, 14)), "x: y"),
            ("/a/c.yaml#2: not an object: y", Some(("/a/c.yaml", 1, 1)), "not an object: y"),
            ("policy a: y", None, "policy a: y"),
            ("y", None, "y"),
        ] {
            let place = place.map(|(file, line, column)| (PathBuf::from(file), line, column));
            assert_eq!(split_place(line), (place, message), "{line}");
        }
    }
}
