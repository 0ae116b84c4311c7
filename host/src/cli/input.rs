//! Recorded reviews from files, folders and standard input.
//!
//! A file holds one review (JSON or YAML), several YAML documents, or one review a line (JSON
//! Lines). Folders are read recursively in the order of names. Every review keeps where it came
//! from; what cannot be read is reported and the rest goes on.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_document::Document;

use crate::cluster::Snapshot;
use crate::review::{self, ReviewError};
use crate::yaml::Located;

/// A review's text, or why there is none.
pub(super) struct Item {
    /// `reviews/a.json`, `log.jsonl:17`, `all.yaml#2`, `-`.
    pub(super) source: String,
    /// The text, or the complete line of the error.
    pub(super) text: Result<Vec<u8>, String>,
    /// The file.
    file: String,
    /// Lines of the file in front of the text.
    pub(super) lines_before: usize,
}

/// A context without anything in it.
const NO_OBJECT: &str = "there is no object in it: a context is what `kubectl get -o yaml` prints";

/// Endings of files that are read in folders.
const ENDINGS: [&str; 5] = ["json", "jsonl", "ndjson", "yaml", "yml"];

/// All files that are meant, in order. Files that a folder holds beside reviews are left out, and
/// counted.
pub(super) fn files(paths: &[PathBuf]) -> io::Result<(Vec<PathBuf>, usize)> {
    let mut files = Vec::new();
    let mut skipped = 0;
    let mut todo: Vec<(PathBuf, bool)> = paths.iter().rev().map(|p| (p.clone(), true)).collect();
    while let Some((path, named)) = todo.pop() {
        let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        if named && path == Path::new("-") {
            files.push(path);
        } else if fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
            let entries = fs::read_dir(&path).map_err(with_path)?;
            let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(with_path)?;
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
            for entry in entries {
                // Hidden files; among them the folders behind the links of a mounted volume.
                if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                // Links to folders are not followed: they could lead in a circle.
                let is_link = entry.file_type().map_err(with_path)?.is_symlink();
                if is_link && entry.path().is_dir() {
                    skipped += 1;
                } else {
                    todo.push((entry.path(), false));
                }
            }
        } else if named || is_review_file(&path) {
            files.push(path);
        } else {
            skipped += 1;
        }
    }
    Ok((files, skipped))
}

/// The objects of a cluster in files and folders, as `kubectl get -A -o yaml` prints them.
///
/// # Errors
/// Everything that cannot be read, one line each.
pub(super) fn context(paths: &[PathBuf]) -> anyhow::Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    let mut errors = Vec::new();
    let (files, skipped) = files(paths)?;
    if skipped > 0 {
        tracing::warn!(files = skipped, "left out of the context: not .json, .yaml or .yml");
    }
    for file in files {
        for item in read(&file) {
            let added = item.object().and_then(|document| {
                snapshot.add(document).map_err(|why| format!("{}: {why}", item.source))
            });
            if let Err(why) = added {
                errors.push(why);
            }
        }
    }
    anyhow::ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(snapshot)
}

fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

fn is_review_file(path: &Path) -> bool {
    ENDINGS.contains(&ending(path).as_str())
}

/// The reviews of one file.
pub(super) fn read(path: &Path) -> Vec<Item> {
    let source = path.display().to_string();
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    match bytes {
        Ok(bytes) => split(&source, &ending(path), bytes),
        Err(error) => {
            vec![Item {
                text: Err(format!("{source}: {error}")),
                file: source.clone(),
                source,
                lines_before: 0,
            }]
        }
    }
}

fn split(source: &str, ending: &str, bytes: Vec<u8>) -> Vec<Item> {
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    let is_yaml = matches!(ending, "yaml" | "yml")
        || (!ENDINGS.contains(&ending) && first.is_some_and(|b| *b != b'{'));
    if is_yaml {
        return split_yaml(source, &bytes);
    }
    if matches!(ending, "jsonl" | "ndjson") || is_lines(&bytes) {
        return split_lines(source, &bytes);
    }
    vec![Item {
        source: source.to_owned(),
        file: source.to_owned(),
        text: Ok(bytes),
        lines_before: 0,
    }]
}

/// Whether the first line is a whole object and another one follows.
fn is_lines(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first = lines.next().unwrap_or_default();
    let whole = || serde_json::from_slice::<serde::de::IgnoredAny>(first).is_ok();
    lines.next().is_some() && whole()
}

fn split_lines(source: &str, bytes: &[u8]) -> Vec<Item> {
    let lines = bytes.split(|b| *b == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let item = |(number, line): (usize, &[u8])| Item {
        source: format!("{source}:{}", number + 1),
        file: source.to_owned(),
        text: Ok(line.to_vec()),
        lines_before: number,
    };
    lines.map(item).collect()
}

fn split_yaml(source: &str, bytes: &[u8]) -> Vec<Item> {
    let fail = |why: String| {
        vec![Item {
            source: source.to_owned(),
            file: source.to_owned(),
            text: Err(why),
            lines_before: 0,
        }]
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return fail(format!("{source}: not UTF-8: {error}")),
    };
    let documents = match Located::read_all(text) {
        Ok(documents) => documents,
        Err(error) => {
            return fail(format!("{source}:{}:{}: {}", error.line, error.column, error.why));
        }
    };
    if documents.is_empty() {
        return fail(format!("{source}: {}", ReviewError::Empty));
    }
    let several = documents.len() > 1;
    let item = |(index, document): (usize, Located)| {
        let (line, _) = document.place("");
        Item {
            source: if several { format!("{source}#{}", index + 1) } else { source.to_owned() },
            file: source.to_owned(),
            text: Ok(document.value.to_string().into_bytes()),
            lines_before: usize::try_from(line.saturating_sub(1)).unwrap_or_default(),
        }
    };
    documents.into_iter().enumerate().map(item).collect()
}

impl Item {
    /// An error with its place in front.
    pub(super) fn error(&self, error: &ReviewError) -> String {
        let file = &self.file;
        match error {
            ReviewError::Syntax { line, column, why } => {
                format!("{file}:{}:{column}: not JSON: {why}", line + self.lines_before)
            }
            ReviewError::Depth(offset) | ReviewError::Encoding(offset) => {
                let text = self.text.as_deref().unwrap_or_default();
                let before = text.get(..*offset).unwrap_or_default();
                let lines = memchr::memchr_iter(b'\n', before).count();
                let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
                format!("{file}:{}:{column}: {error}", lines + 1 + self.lines_before)
            }
            other => format!("{}: {other}", self.source),
        }
    }

    /// The text as a document.
    fn object(&self) -> Result<Document, String> {
        if self.text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
            return Err(format!("{}: {NO_OBJECT}", self.source));
        }
        let text = self
            .checked()
            .map_err(|why| why.replace(&ReviewError::Empty.to_string(), NO_OBJECT))?;
        serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|error| {
            let (line, column) = (error.line() + self.lines_before, error.column());
            format!("{}:{line}:{column}: not JSON: {error}", self.file)
        })?;
        let end = text.len();
        Ok(Document::part(text, 0..end))
    }

    /// The checked text.
    pub(super) fn checked(&self) -> Result<Arc<opgate_document::Text>, String> {
        let bytes = self.text.clone()?;
        review::text(bytes).map_err(|error| self.error(&error))
    }
}
