//! Fixes of violations for code scanners: the lines that each replaces, SARIF 2.1.0 section 3.55.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use opgate_fix::{EditBudget, LineChange};
use opgate_input::read::{ReadPurpose, Reader, open_named};
use opgate_platform::files::display_path;
use serde_json::{Value, json};

use super::fix::ReportedFix;

/// Maximum bytes of the files that are read for the lines of fixes.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// Maximum number of fixes in a log: each is compared with its file.
const MAX_FIXES: usize = 1_000;

/// The fixes of a log.
pub(super) struct SarifFixes {
    reader: Reader,
    texts: HashMap<PathBuf, Option<String>>,
    count: usize,
    budget: EditBudget,
}

impl SarifFixes {
    pub(super) fn new() -> Self {
        Self {
            reader: Reader::new(MAX_TEXT_BYTES),
            texts: HashMap::new(),
            count: 0,
            budget: EditBudget::default(),
        }
    }

    /// Returns the `fixes` of a result; none if the fix cannot be made in the text of its files. `uri` makes the
    /// address of a path.
    pub(super) fn of(&mut self, fix: &ReportedFix, uri: impl Fn(&str) -> String) -> Option<Value> {
        if self.count >= MAX_FIXES {
            return None;
        }
        self.count += 1;
        let edits = fix.edits()?.iter();
        let bytes = edits.map(|edit| self.text(&edit.path).map_or(0, str::len)).sum();
        if !self.budget.take(bytes) {
            return None;
        }
        let new = fix.new_texts(|path| self.text(path).map(str::to_owned))?;
        let changes = new.into_iter().map(|(path, text)| {
            let old = self.text(path).unwrap_or_default();
            let changes = opgate_fix::changed_lines(old, &text);
            let replacements: Vec<_> = changes.iter().map(replacement).collect();
            json!({
                "artifactLocation": {"uri": uri(&display_path(path))},
                "replacements": replacements,
            })
        });
        let changes: Vec<_> = changes.collect();
        Some(json!([{"description": {"text": fix.title()}, "artifactChanges": changes}]))
    }

    /// Returns the text of a file.
    fn text(&mut self, path: &Path) -> Option<&str> {
        let reader = &self.reader;
        let read = self.texts.entry(path.to_path_buf()).or_insert_with(|| {
            let opened = open_named(path).ok()?;
            String::from_utf8(reader.read(opened, true, ReadPurpose::Keep).ok()?).ok()
        });
        read.as_deref()
    }
}

/// Returns the replacement of whole lines.
fn replacement(change: &LineChange) -> Value {
    let LineChange { line, removed, inserted } = change;
    json!({
        "deletedRegion": {
            "startLine": line,
            "startColumn": 1,
            "endLine": line.saturating_add(*removed),
            "endColumn": 1,
        },
        "insertedContent": {"text": inserted},
    })
}
