//! Recorded reviews from files, directories and standard input.
//!
//! A file holds one review (JSON or YAML), several documents, or one review per line (JSON Lines).
//! Directories are read recursively in the order of names. Every review keeps its source; unreadable input is
//! reported and the remaining files are read.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use opgate_document::Document;
use opgate_yaml::BooleanWords;
use serde::de::IgnoredAny;

use opgate_admission::cluster::{ClusterState, Snapshot};
use opgate_admission::review::{self, ReviewError};
use opgate_files as files;
use opgate_files::directory::{DirectoryListing, Entry};
use opgate_input::read::{FilePath, ReadPurpose, Reader};
use opgate_input::yaml::{self, YamlError};
use opgate_platform::files::display_path;
use opgate_recording::{DecompressError, Decompressed, RecordedLine, TextEnd};
use opgate_text::lines::{Lines, character_column, count_characters};

/// The reason why an item has no review and no object, as a complete line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InputError {
    /// There is no content at this source.
    #[error("{0}: {empty}", empty = ReviewError::Empty)]
    Empty(String),
    /// Any other error, after its source.
    #[error("{0}")]
    Line(String),
}

impl InputError {
    /// Describes empty content in the words of a command.
    pub(super) fn with_empty_text(self, text: &str) -> Self {
        match self {
            Self::Empty(source) => Self::Line(format!("{source}: {text}")),
            line @ Self::Line(_) => line,
        }
    }
}

/// A review's text, or why there is none.
pub(super) struct ReviewItem {
    /// `reviews/a.json`, `log.jsonl:17`, `all.yaml#2`, `-`.
    pub(super) source: String,
    /// The text, or the complete line of the error.
    pub(super) text: Result<Vec<u8>, InputError>,
    /// The file.
    file: String,
    /// Lines of the file in front of the text.
    pub(super) lines_before: usize,
    /// Characters in front of the text in its first line.
    columns_before: usize,
    /// Its own lines, if they are known.
    line_count: Option<usize>,
}

/// The lines of a file that are a review, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineRange {
    pub(super) file: String,
    pub(super) start: u64,
    /// End of the line, if known.
    pub(super) end: Option<u64>,
}

/// A context without anything in it.
const NO_OBJECTS_ERROR: &str =
    "no object found in it: a context holds objects as `kubectl get -o yaml` prints them";

/// Extensions of the files that are read in directories.
const REVIEW_EXTENSIONS: [&str; 6] =
    ["json", "jsonl", "ndjson", "yaml", "yml", COMPRESSED_EXTENSION];

/// Extension of recordings.
const COMPRESSED_EXTENSION: &str = "zst";

/// Start of the files of some editors, which is not part of the text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Starts of files in UTF-16, as Windows PowerShell writes the output of a command.
const UTF16_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

const UTF16_ERROR: &str =
    "UTF-16, as `>` of Windows PowerShell writes it: write UTF-8, for example with `cmd /c`";

/// A file that is meant.
#[derive(Debug)]
pub(super) struct Input {
    /// Its name in messages.
    path: PathBuf,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Stdin,
    Named,
    /// A file in a named directory, by index.
    Below(Rc<DirectoryListing>, usize),
}

/// Lists the named files, in order. Other files in the directories are skipped and counted.
///
/// # Errors
/// Fails if a named directory is unreadable.
pub(super) fn list_files(paths: &[PathBuf]) -> anyhow::Result<(Vec<Input>, usize)> {
    let mut inputs = Vec::new();
    let mut skipped = 0;
    for path in paths {
        if path == Path::new("-") {
            inputs.push(Input { path: path.clone(), origin: Origin::Stdin });
        } else if path.is_dir() {
            skipped += add_directory(path, &mut inputs)?;
        } else {
            inputs.push(Input { path: path.clone(), origin: Origin::Named });
        }
    }
    Ok((inputs, skipped))
}

/// Lists the files with reviews, and warns about those in directories that are left out.
///
/// # Errors
/// As for [`list_files`].
pub(super) fn list_review_files(paths: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    let (files, skipped) = list_files(paths)?;
    if skipped > 0 {
        tracing::warn!(
            files = skipped,
            "left out: not .json, .jsonl, .ndjson, .yaml, .yml or .zst"
        );
    }
    Ok(files)
}

/// Adds the files of a directory; returns the number of skipped files.
fn add_directory(path: &Path, inputs: &mut Vec<Input>) -> anyhow::Result<usize> {
    let directory = Rc::new(files::directory::walk(path)?);
    // Hidden files do not count.
    let is_hidden = |entry: &Entry| entry.path.split('/').any(|name| name.starts_with('.'));
    // An unreadable directory could contain reviews.
    let is_meant = |entry: &Entry| {
        let is_directory = entry.rejection.as_ref().is_some_and(|refused| refused.can_be_directory);
        is_directory || is_review_file(Path::new(&entry.path))
    };
    let seen = directory.files.iter().enumerate().filter(|(_, entry)| !is_hidden(entry));
    let (mut meant, others): (Vec<_>, Vec<_>) = seen.partition(|(_, entry)| is_meant(entry));
    // Compared name by name: the contents of a directory take its position.
    meant.sort_by_key(|(_, entry)| entry.path.split('/').collect::<Vec<_>>());
    inputs.extend(meant.into_iter().map(|(index, entry)| Input {
        path: path.join(&entry.path),
        origin: Origin::Below(directory.clone(), index),
    }));
    Ok(others.len())
}

impl Input {
    /// Reports whether the file was found in a directory, and is this one.
    pub(super) fn is_found_as(&self, path: &Path) -> bool {
        let is_same = || {
            let (ours, theirs) = (self.path.canonicalize().ok(), path.canonicalize().ok());
            ours.is_some() && ours == theirs
        };
        matches!(self.origin, Origin::Below(..))
            && self.path.file_name() == path.file_name()
            && is_same()
    }

    fn text(&self, reader: &Reader) -> io::Result<InputText> {
        let opened = match &self.origin {
            Origin::Stdin => {
                let bytes = reader.read_stdin()?;
                let is_compressed = bytes.starts_with(&opgate_recording::MAGIC);
                return if is_compressed {
                    Err(io::Error::other(COMPRESSED_STDIN))
                } else {
                    Ok(InputText { bytes: without_mark(bytes)?, damage: None })
                };
            }
            Origin::Named => FilePath::Named(&self.path).open()?,
            Origin::Below(directory, index) => {
                let entry = directory.files.get(*index).ok_or(io::ErrorKind::NotFound)?;
                if let Some(refused) = &entry.rejection {
                    return Err(io::Error::other(refused.message.clone()));
                }
                entry.file_path(directory).open()?
            }
        };
        if extension(&self.path) == COMPRESSED_EXTENSION {
            let compressed = reader.read(opened, false, ReadPurpose::Scan)?;
            return self.decompress(&compressed, &reader.with_full_budget());
        }
        let bytes = without_mark(reader.read(opened, true, ReadPurpose::Keep)?)?;
        Ok(InputText { bytes, damage: None })
    }

    fn decompress(&self, compressed: &[u8], reader: &Reader) -> io::Result<InputText> {
        // One file is in memory at a time.
        let found = opgate_recording::decompress(compressed, reader.remaining_bytes());
        let Decompressed { bytes, end } = found.map_err(|error| {
            let hint = match error {
                DecompressError::TooLarge(_) => ": allow more with --max-input-size",
                DecompressError::Broken(_) => "",
            };
            io::Error::other(format!("{error}{hint}"))
        })?;
        let damage = match end {
            TextEnd::Complete => None,
            TextEnd::Cut => {
                warn_of_cut(&display_path(&self.path));
                None
            }
            TextEnd::Damaged(error) => Some(format!(
                "damaged: {error}: only its first {} lines are evaluated",
                memchr::memchr_iter(b'\n', &bytes).count()
            )),
        };
        Ok(InputText { bytes, damage })
    }
}

/// The text of a file.
struct InputText {
    bytes: Vec<u8>,
    /// Why the text is not all of the file, if it is not.
    damage: Option<String>,
}

/// Removes the mark at the start of a text.
///
/// # Errors
/// If it is that of another encoding than UTF-8.
pub(super) fn without_mark(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if UTF16_MARKS.iter().any(|mark| bytes.starts_with(mark)) {
        return Err(io::Error::other(UTF16_ERROR));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

fn warn_of_cut(source: &str) {
    tracing::warn!(
        "{source}: it ends early, because a server still writes it or was killed: its complete lines are evaluated"
    );
}

const COMPRESSED_STDIN: &str =
    "compressed: name the file, or decompress it: zstdcat FILE | opgate replay -";

/// Fills the cluster state with the objects in files and directories, and logs their numbers.
///
/// # Errors
/// Everything that cannot be read, one line each.
pub(super) fn load_cluster_state(
    cluster: &ClusterState,
    paths: &[PathBuf],
    reader: &Reader,
) -> anyhow::Result<()> {
    snapshot(paths, reader)?.replace_state(cluster);
    for kind in cluster.caches().iter().filter(|_| !paths.is_empty()) {
        let (resource, objects) = (kind.resource(), kind.status().objects);
        tracing::info!(%resource, objects, "in the cluster state");
    }
    Ok(())
}

/// Reads cluster state from files and directories, as `kubectl get -A -o yaml` prints it, and the packages of
/// catalogs.
pub(super) fn snapshot(paths: &[PathBuf], reader: &Reader) -> anyhow::Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    let mut errors = Vec::new();
    let (catalogs, paths): (Vec<_>, Vec<_>) =
        paths.iter().cloned().partition(|path| is_catalog(path, reader));
    for catalog in catalogs {
        match files::read_catalog_packages(&catalog, reader) {
            Ok(packages) => {
                for package in packages {
                    snapshot.add(package).map_err(anyhow::Error::msg)?;
                }
            }
            Err(why) => errors.push(why.to_string()),
        }
    }
    let (files, skipped) = list_files(&paths)?;
    if skipped > 0 {
        tracing::warn!(files = skipped, "not part of the cluster state: not .json, .yaml or .yml");
    }
    for file in files {
        for item in read(&file, reader) {
            let added = item.document().and_then(|document| {
                snapshot
                    .add(document)
                    .map_err(|why| InputError::Line(format!("{}: {why}", item.source)))
            });
            if let Err(why) = added {
                errors.push(why.to_string());
            }
        }
    }
    anyhow::ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(snapshot)
}

/// Reports whether a path is a file-based catalog. An unreadable path is reported when it is read as objects.
fn is_catalog(path: &Path, reader: &Reader) -> bool {
    let is_one = |found: &files::DetectedInput| found.input_type == files::CheckInputType::Catalog;
    path != Path::new("-")
        && files::detect(path, reader).is_ok_and(|all| all.inputs.iter().all(is_one))
}

fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

fn is_review_file(path: &Path) -> bool {
    REVIEW_EXTENSIONS.contains(&extension(path).as_str())
}

/// Returns the reviews of one file.
pub(super) fn read(input: &Input, reader: &Reader) -> Vec<ReviewItem> {
    let source = display_path(&input.path);
    match input.text(reader) {
        Ok(InputText { bytes, damage }) => {
            let mut items = split(&source, &extension(&input.path), bytes);
            items.extend(damage.map(|error| ReviewItem::unreadable(&source, &error)));
            items
        }
        Err(error) => vec![ReviewItem::unreadable(&source, &error)],
    }
}

fn split(source: &str, ending: &str, mut bytes: Vec<u8>) -> Vec<ReviewItem> {
    if remove_cut_line(&mut bytes) {
        warn_of_cut(source);
    }
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    let is_yaml = matches!(ending, "yaml" | "yml")
        || (!REVIEW_EXTENSIONS.contains(&ending) && first.is_some_and(|b| *b != b'{'));
    if is_yaml {
        return split_yaml(source, &bytes);
    }
    if matches!(ending, "jsonl" | "ndjson" | COMPRESSED_EXTENSION) || is_json_lines(&bytes) {
        return split_lines(source, &bytes);
    }
    let documents = split_json_documents(source, &bytes);
    if !documents.is_empty() {
        return documents;
    }
    let lines = memchr::memchr_iter(b'\n', bytes.trim_ascii_end()).count().saturating_add(1);
    vec![ReviewItem {
        source: source.to_owned(),
        file: source.to_owned(),
        text: Ok(bytes),
        lines_before: 0,
        columns_before: 0,
        line_count: Some(lines),
    }]
}

/// Removes the last line of a recording without its end, as of one that a server still writes. Returns whether it did.
fn remove_cut_line(bytes: &mut Vec<u8>) -> bool {
    if !bytes.starts_with(RecordedLine::START) {
        return false;
    }
    let Some(newline) = memchr::memrchr(b'\n', bytes) else { return false };
    let last = bytes.get(newline + 1..).unwrap_or_default().trim_ascii();
    let is_cut = serde_json::from_slice::<IgnoredAny>(last).is_err_and(|error| error.is_eof());
    let is_cut = is_cut && !last.is_empty();
    if is_cut {
        bytes.truncate(newline + 1);
    }
    is_cut
}

/// Reports whether the first line is a whole object and another one follows.
fn is_json_lines(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first = lines.next().unwrap_or_default();
    let whole = || serde_json::from_slice::<IgnoredAny>(first).is_ok();
    lines.next().is_some() && whole()
}

fn split_lines(source: &str, bytes: &[u8]) -> Vec<ReviewItem> {
    let lines = bytes.split(|b| *b == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let item = |(number, line): (usize, &[u8])| ReviewItem {
        source: format!("{source}:{}", number + 1),
        file: source.to_owned(),
        text: Ok(line.to_vec()),
        lines_before: number,
        columns_before: 0,
        line_count: Some(1),
    };
    lines.map(item).collect()
}

/// Maximum number of documents that follow each other in a file. More are an error.
const MAX_DOCUMENTS: usize = 100_000;

const TOO_MANY_DOCUMENTS: &str =
    "more than 100,000 documents: write each on one line, for example with `jq -c .`";

/// Returns JSON documents that follow each other, as `kubectl get --watch -o json` prints them. What follows the last
/// complete one is an item as well. Empty if there is only one, or the first is not complete.
fn split_json_documents(source: &str, bytes: &[u8]) -> Vec<ReviewItem> {
    let length = bytes.trim_ascii_end().len();
    let mut documents = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    let (mut ranges, mut start) = (Vec::new(), 0);
    while start < length && ranges.len() < MAX_DOCUMENTS {
        let end = match documents.next() {
            Some(Ok(_)) => documents.byte_offset(),
            _ if ranges.is_empty() => return Vec::new(),
            _ => length,
        };
        ranges.push(start..end);
        start = end;
    }
    if ranges.len() < 2 {
        return Vec::new();
    }
    let count_lines = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    // The location of the first byte of the range.
    let (mut lines_before, mut columns_before) = (0_usize, 0_usize);
    let mut advance = |text: &[u8]| {
        lines_before = lines_before.saturating_add(count_lines(text));
        columns_before = match memchr::memrchr(b'\n', text) {
            Some(newline) => count_characters(text.get(newline + 1..).unwrap_or_default()),
            None => columns_before.saturating_add(count_characters(text)),
        };
        (lines_before, columns_before)
    };
    let item = |(index, range): (usize, Range<usize>)| {
        let text = bytes.get(range).unwrap_or_default();
        let blank = text.len().saturating_sub(text.trim_ascii_start().len());
        let (before, text) = text.split_at_checked(blank).unwrap_or_default();
        let (lines_before, columns_before) = advance(before);
        advance(text);
        ReviewItem {
            source: format!("{source}#{}", index + 1),
            file: source.to_owned(),
            text: Ok(text.to_vec()),
            lines_before,
            columns_before,
            line_count: Some(count_lines(text).saturating_add(1)),
        }
    };
    let mut items: Vec<_> = ranges.into_iter().enumerate().map(item).collect();
    if start < length {
        items.push(ReviewItem::unreadable(source, &TOO_MANY_DOCUMENTS));
    }
    items
}

fn split_yaml(source: &str, bytes: &[u8]) -> Vec<ReviewItem> {
    let fail = |why: InputError| {
        vec![ReviewItem {
            source: source.to_owned(),
            file: source.to_owned(),
            text: Err(why),
            lines_before: 0,
            columns_before: 0,
            line_count: None,
        }]
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return fail(InputError::Line(format!("{source}: not UTF-8: {error}"))),
    };
    let parts = match yaml::parse_documents(text, BooleanWords::Yaml11) {
        Ok(parts) => parts,
        Err(error) => {
            let YamlError { line, column, message } = error;
            return fail(InputError::Line(format!("{source}:{line}:{column}: {message}")));
        }
    };
    if parts.is_empty() {
        return fail(InputError::Empty(source.to_owned()));
    }
    let several = parts.len() > 1;
    let lines = Lines::of(text);
    let item = |(index, part): (usize, yaml::YamlDocument)| {
        let (line, _) = lines.place(text, part.offset);
        ReviewItem {
            source: if several { format!("{source}#{}", index + 1) } else { source.to_owned() },
            file: source.to_owned(),
            text: Ok(part.json.as_bytes().to_vec()),
            lines_before: usize::try_from(line.saturating_sub(1)).unwrap_or_default(),
            columns_before: 0,
            line_count: None,
        }
    };
    parts.into_iter().enumerate().map(item).collect()
}

impl ReviewItem {
    /// Creates the item of a file that cannot be read.
    fn unreadable(source: &str, error: &dyn fmt::Display) -> Self {
        Self {
            source: source.to_owned(),
            text: Err(InputError::Line(format!("{source}: {error}"))),
            file: source.to_owned(),
            lines_before: 0,
            columns_before: 0,
            line_count: None,
        }
    }

    /// Returns its location in the file.
    pub(super) fn line_range(&self) -> LineRange {
        let line = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let end = self.line_count.map(|lines| line(self.lines_before.saturating_add(lines.max(1))));
        LineRange { file: self.file.clone(), start: line(self.lines_before).saturating_add(1), end }
    }

    /// Formats an error with its location.
    pub(super) fn error_line(&self, error: &ReviewError) -> InputError {
        InputError::Line(match error {
            ReviewError::Empty => return InputError::Empty(self.source.clone()),
            ReviewError::Syntax { line, column, why } => {
                format!("{}: not JSON: {why}", self.location(*line, *column))
            }
            ReviewError::Depth(offset) | ReviewError::Encoding(offset) => {
                let text = self.text.as_deref().unwrap_or_default();
                let before = text.get(..*offset).unwrap_or_default();
                let line = memchr::memchr_iter(b'\n', before).count() + 1;
                let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
                format!("{}: {error}", self.location(line, column))
            }
            other => format!("{}: {other}", self.source),
        })
    }

    /// Returns file, line and column, in characters, of a line and a column of the text, in bytes.
    fn location(&self, line: usize, byte_column: usize) -> String {
        let text = self.text.as_deref().unwrap_or_default();
        let column = character_column(text, line, byte_column);
        let columns_before = if line <= 1 { self.columns_before } else { 0 };
        let (line, column) = (line + self.lines_before, column + columns_before);
        format!("{}:{line}:{column}", self.file)
    }

    /// Returns the text as a document.
    pub(super) fn document(&self) -> Result<Document, InputError> {
        if self.text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
            return Err(InputError::Line(format!("{}: {NO_OBJECTS_ERROR}", self.source)));
        }
        let text = self.checked_text().map_err(|why| why.with_empty_text(NO_OBJECTS_ERROR))?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(|error| {
            let location = self.location(error.line(), error.column());
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            InputError::Line(format!("{location}: not JSON: {why}"))
        })?;
        let end = text.len();
        Ok(Document::part(text, 0..end))
    }

    /// Returns the checked text.
    pub(super) fn checked_text(&self) -> Result<Arc<opgate_document::Text>, InputError> {
        let bytes = self.text.clone()?;
        review::text(bytes).map_err(|error| self.error_line(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_beyond_the_limit_are_an_error() {
        let text = |count: usize| "{\n}\n".repeat(count).into_bytes();
        assert_eq!(split("a.json", "json", text(MAX_DOCUMENTS)).len(), MAX_DOCUMENTS);
        let items = split("a.json", "json", text(MAX_DOCUMENTS + 1));
        assert_eq!(items.len(), MAX_DOCUMENTS + 1);
        let error = items.last().unwrap().text.as_ref().unwrap_err().to_string();
        assert_eq!(error, format!("a.json: {TOO_MANY_DOCUMENTS}"));
        let lines = "{}\n".repeat(MAX_DOCUMENTS + 1).into_bytes();
        assert!(split("a.json", "json", lines).iter().all(|item| item.text.is_ok()));
    }
}
