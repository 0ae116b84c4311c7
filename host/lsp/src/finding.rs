//! Violations and errors at places of a text, which move with the text while it is edited.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsp_types::{CodeDescription, Diagnostic, DiagnosticSeverity, Range as LspRange, Uri};

use crate::lines::LineIndex;
use crate::text_document::AppliedEdit;

/// The effect of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It denies, or is an error of a file.
    Error,
    /// It warns.
    Warning,
    /// It is only recorded.
    Information,
}

/// Something that is wrong in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule; empty for an error of the file itself.
    pub rule: String,
    /// The policy of the rule.
    pub policy: String,
    /// Its effect.
    pub severity: Severity,
    /// One line.
    pub message: String,
    /// Address of the rule's page, if it is published.
    pub url: Option<String>,
    /// The bytes in the text.
    pub range: Range<usize>,
    /// The range in the text that was evaluated, for a file that is not open.
    pub file_range: LspRange,
    /// The directory whose waivers apply; none if it cannot be waived.
    pub waivers: Option<PathBuf>,
    /// The fix, if there is one.
    pub fix: Option<Fix>,
}

/// Applies a fix to the text of a file. Fails with the reason why that is not certain.
pub type ApplyFix = dyn Fn(&Path, &str) -> Result<String, String> + Send + Sync;

/// A fix of a finding.
#[derive(Clone)]
pub struct Fix {
    /// What it does, in the imperative.
    pub title: String,
    /// Whether it keeps the meaning.
    pub is_safe: bool,
    /// What changes.
    pub effect: FixEffect,
    /// The bytes of its parts.
    pub size: usize,
}

/// What a fix changes.
#[derive(Clone)]
pub enum FixEffect {
    /// The texts of files.
    Edit {
        /// The files.
        paths: Vec<PathBuf>,
        /// Applies it to one of them.
        apply: Arc<ApplyFix>,
    },
    /// The place of a file, or of one of its documents, in the directory of a bundle.
    Move(FileMove),
}

/// A move of a file, or of a document to a separate file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMove {
    /// The file.
    pub path: PathBuf,
    /// The number of the document; none for the whole file.
    pub document: Option<usize>,
    /// The directory of the bundle.
    pub directory: PathBuf,
    /// The new place.
    pub target: PathBuf,
}

impl Fix {
    /// Returns whether it edits the text of this file, and does nothing else.
    #[must_use]
    pub fn edits_only(&self, path: &Path) -> bool {
        match &self.effect {
            FixEffect::Edit { paths, .. } => paths.iter().all(|edited| edited == path),
            FixEffect::Move(_) => false,
        }
    }
}

impl fmt::Debug for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fix").field("title", &self.title).finish_non_exhaustive()
    }
}

impl PartialEq for Fix {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.effect, &other.effect) {
            (FixEffect::Edit { paths, .. }, FixEffect::Edit { paths: others, .. }) => {
                paths == others
            }
            (FixEffect::Move(moved), FixEffect::Move(other)) => moved == other,
            _ => false,
        };
        is_same && (&self.title, self.is_safe) == (&other.title, other.is_safe)
    }
}

/// The source of all diagnostics.
pub const SOURCE: &str = "opgate";

impl Finding {
    /// Returns about how many bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        let texts = [self.rule.len(), self.policy.len(), self.message.len()];
        let url = self.url.as_ref().map_or(0, String::len);
        let waivers = self.waivers.as_ref().map_or(0, |path| path.as_os_str().len());
        let fix = self.fix.as_ref().map_or(0, |fix| fix.size);
        let parts = texts.iter().sum::<usize>().saturating_add(url).saturating_add(waivers);
        parts.saturating_add(fix).saturating_add(size_of::<Self>())
    }

    /// Moves it as an edit does. Returns whether it still has a place: not if its text was removed.
    #[must_use]
    pub fn follow(&mut self, edit: &AppliedEdit) -> bool {
        let AppliedEdit { replaced, inserted } = edit;
        let moved = |offset: usize| offset - replaced.len() + inserted;
        // It was made for the text before the edit.
        self.fix = None;
        let range = &mut self.range;
        if replaced.start >= range.end && (range.start != range.end || replaced.start != range.end)
        {
            return true;
        }
        if replaced.end <= range.start {
            *range = moved(range.start)..moved(range.end);
            return true;
        }
        if replaced.start <= range.start && replaced.end >= range.end {
            return false;
        }
        let start = range.start.min(replaced.start);
        let end = if replaced.end <= range.end { moved(range.end) } else { replaced.start };
        *range = start.max(range.start.min(replaced.start))..end.max(start);
        true
    }

    /// Returns it for the protocol, in an open text.
    #[must_use]
    pub fn diagnostic(&self, text: &str, lines: &LineIndex) -> Diagnostic {
        self.diagnostic_at(lines.range(text, &self.range))
    }

    /// Returns it for the protocol, in a text that is not open.
    #[must_use]
    pub fn diagnostic_of_file(&self) -> Diagnostic {
        self.diagnostic_at(self.file_range)
    }

    fn diagnostic_at(&self, range: LspRange) -> Diagnostic {
        let severity = match self.severity {
            Severity::Error => DiagnosticSeverity::Error,
            Severity::Warning => DiagnosticSeverity::Warning,
            Severity::Information => DiagnosticSeverity::Information,
        };
        Diagnostic {
            range,
            severity: Some(severity),
            code: (!self.rule.is_empty()).then(|| self.rule.as_str().into()),
            code_description: self
                .url
                .as_ref()
                .map(|url| CodeDescription { href: Uri::from(url.as_str()) }),
            source: Some(SOURCE.to_owned()),
            message: self.message.as_str().into(),
            tags: None,
            related_information: None,
            data: None,
        }
    }
}

/// Returns the bytes that are marked for a place: the name or the text that begins there.
#[must_use]
pub fn marked_range(text: &str, start: usize) -> Range<usize> {
    let rest = text.get(start..).unwrap_or_default();
    let line = rest.split(['\n', '\r']).next().unwrap_or_default();
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let name = crate::outline::split_name(line).map_or(line.len(), |(name, _)| name.len());
    start..start + name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(range: Range<usize>) -> Finding {
        Finding {
            rule: "A-1".to_owned(),
            policy: "a".to_owned(),
            severity: Severity::Warning,
            message: "x".to_owned(),
            url: None,
            range,
            file_range: LspRange::default(),
            waivers: None,
            fix: None,
        }
    }

    #[test]
    fn findings_move_with_their_text() {
        for (replaced, inserted, expected) in [
            (0..2, 5, Some(13..18)),
            (10..10, 3, Some(13..18)),
            (15..20, 1, Some(10..15)),
            (11..12, 0, Some(10..14)),
            (15..15, 4, Some(10..15)),
            (10..15, 9, None),
            (8..20, 0, None),
            (8..12, 1, Some(8..12)),
            (13..20, 1, Some(10..13)),
        ] {
            let mut found = finding(10..15);
            let edit = AppliedEdit { replaced, inserted };
            let is_there = found.follow(&edit);
            assert_eq!(is_there.then_some(found.range), expected, "{edit:?}");
        }
        let mut empty = finding(3..3);
        assert!(empty.follow(&AppliedEdit { replaced: 3..3, inserted: 2 }));
        assert_eq!(empty.range, 5..5);
    }

    #[test]
    fn name_or_text_of_a_place_is_marked() {
        for (text, start, marked) in [
            ("a: b # c\n", 0, "a"),
            ("- b # c\n", 2, "b"),
            ("\"a/b\": 1", 0, "\"a/b\""),
            ("a: b: c\r\n", 3, "b"),
            ("", 0, ""),
        ] {
            assert_eq!(text.get(marked_range(text, start)), Some(marked), "{text}");
        }
    }
}
