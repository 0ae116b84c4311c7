//! One document of a file as a separate file.

use crate::Refusal;
use crate::source::Source;

/// A file without one of its documents, and that document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitFile {
    /// The file without the document.
    pub rest: String,
    /// The document, with the comments above it.
    pub moved: String,
}

/// Takes a document out of a file of YAML with several documents.
///
/// # Errors
/// Fails if the file has no other document, or if the text cannot be divided with certainty.
pub fn split_document(text: &str, name: &str, document: usize) -> Result<SplitFile, Refusal> {
    let source = Source::parse(text, name)?;
    let shown = || Refusal::Style(format!("document {}", document.saturating_add(1)));
    if source.is_json || source.len() < 2 {
        return Err(shown());
    }
    let starts = source.starts()?;
    let begin = |number: usize| {
        let start = *starts.get(number)?;
        let previous = number.checked_sub(1).and_then(|number| starts.get(number)).copied();
        Some(marker_before(text, previous.unwrap_or(0), start))
    };
    let start = begin(document).ok_or(Refusal::NoDocument(document))?;
    let end = begin(document.saturating_add(1)).unwrap_or(text.len());
    let inner = text.get(start..end).ok_or_else(shown)?;
    let moved = without_marker(inner).to_owned();
    let (before, after) = (text.get(..start), text.get(end..));
    let (before, after) = before.zip(after).ok_or_else(shown)?;
    // The first document needs no marker if there was none.
    let after =
        if before.is_empty() && !inner.starts_with("---") { without_marker(after) } else { after };
    let rest = format!("{before}{after}");
    let same = |text: &str, numbers: Vec<usize>| {
        let found = Source::parse(text, name).ok()?;
        let values = (0..found.len()).map(|number| found.value(number).ok());
        let expected = numbers.into_iter().map(|number| source.value(number).ok());
        Some(values.eq(expected))
    };
    let others = (0..source.len()).filter(|number| *number != document).collect();
    if same(&moved, vec![document]) == Some(true) && same(&rest, others) == Some(true) {
        Ok(SplitFile { rest, moved })
    } else {
        Err(Refusal::Different)
    }
}

/// Returns the start of the last line `---` between two offsets, or else the first offset.
fn marker_before(text: &str, from: usize, to: usize) -> usize {
    let (mut at, mut found) = (0, from);
    for line in text.split_inclusive('\n') {
        if at > to {
            break;
        }
        let is_marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']));
        if is_marker && at >= from {
            found = at;
        }
        at += line.len();
    }
    found
}

/// Returns a text without a first line `---`.
fn without_marker(text: &str) -> &str {
    match text.split_once('\n') {
        Some((line, rest)) if line.trim_end() == "---" => rest,
        _ => text,
    }
}
