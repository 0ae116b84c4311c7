//! Reads untrusted files, for `check`, `replay`, `--cluster-state` and `--baseline`. No other code does.
//!
//! ```text
//! named path ─▶ its target, through links ───────────┐
//! path below a directory ─▶ name by name, no links ──┴▶ regular file ─▶ Reader: budget ─▶ bytes
//! ```
//!
//! * Only regular files are read. A pipe, a device or a socket is an error, and no read blocks on it.
//! * A file below a directory is opened name by name, starting at the directory, so that no link leads out of
//!   it, not even one that is created at the same time.
//! * A file whose size exceeds the rest of the [`Reader`]'s budget is not read. Bytes are taken
//!   from the budget block by block. A text has no byte 0: holes are not read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use opgate_platform::files;
use opgate_text::units;

/// Maximum bytes of the files of a command together, unless a flag sets it: ten times the largest
/// published catalogs.
pub const DEFAULT_MAX_INPUT_BYTES: usize = 1 << 30;
/// Maximum bytes of one bundle, catalog or file of manifests, unless a flag sets it: four times the
/// largest published catalogs (55 MB) with the JSON made from them.
pub const DEFAULT_MAX_UNIT_BYTES: usize = 256 << 20;
/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Bytes that are read at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// The remaining budget of a command, or of one of the things that it reads.
#[derive(Debug)]
pub struct Reader {
    max_bytes: usize,
    /// Whether something was not read because of the budget.
    is_exceeded: AtomicBool,
    /// The budgets for files that are kept, and for files that are only searched.
    keep_budget: AtomicU64,
    scan_budget: AtomicU64,
    unsaved: Option<Arc<UnsavedTexts>>,
}

/// Texts that count instead of the content of regular files: those of an editor, or those that will be written.
#[derive(Debug, Default)]
pub struct UnsavedTexts {
    /// By the paths by which files are named or found below a directory.
    named: HashMap<PathBuf, Arc<str>>,
    /// By absolute paths without links. Each counts for all paths of its file.
    real: HashMap<PathBuf, Arc<str>>,
}

impl UnsavedTexts {
    /// Creates it from texts by path, as the files are named or found below a directory.
    #[must_use]
    pub fn new(texts: HashMap<PathBuf, Arc<str>>) -> Self {
        Self { named: texts, real: HashMap::new() }
    }

    /// Returns the text of a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&Arc<str>> {
        let real = (!self.real.is_empty()).then(|| path.canonicalize());
        let real = real.and_then(|real| self.real.get(&real.ok()?));
        real.or_else(|| self.named.get(path))
    }
}

/// The purpose of reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPurpose {
    /// Its bytes stay in memory.
    Keep,
    /// They are searched and dropped.
    Scan,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_INPUT_BYTES)
    }
}

impl Reader {
    /// Creates a reader with a budget of this many bytes.
    pub fn new(most: usize) -> Self {
        let budget = || AtomicU64::new(u64::try_from(most).unwrap_or(u64::MAX));
        Self {
            max_bytes: most,
            is_exceeded: AtomicBool::new(false),
            keep_budget: budget(),
            scan_budget: budget(),
            unsaved: None,
        }
    }

    /// Returns the reader with texts that count instead of files.
    #[must_use]
    pub fn with_unsaved(self, texts: Arc<UnsavedTexts>) -> Self {
        Self { unsaved: Some(texts), ..self }
    }

    /// Returns the reader with more texts, by absolute paths without links, which count before those that it has.
    #[must_use]
    pub fn with_more_unsaved(self, texts: HashMap<PathBuf, Arc<str>>) -> Self {
        let known = self.unsaved.as_deref();
        let named = known.map(|known| known.named.clone()).unwrap_or_default();
        let mut real = known.map(|known| known.real.clone()).unwrap_or_default();
        real.extend(texts);
        self.with_unsaved(Arc::new(UnsavedTexts { named, real }))
    }

    /// Returns the text that counts instead of a file, if there is one, within the budget.
    ///
    /// # Errors
    /// If it exceeds the rest of the budget.
    pub fn unsaved_text(
        &self,
        at: &FilePath<'_>,
        what: ReadPurpose,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(texts) = &self.unsaved else { return Ok(None) };
        let Some(text) = texts.get(&at.path()) else { return Ok(None) };
        self.charge(u64::try_from(text.len()).unwrap_or(u64::MAX), what)?;
        Ok(Some(text.as_bytes().to_vec()))
    }

    /// Returns a reader with the whole budget of this one: for one of many things that are read one after
    /// another and dropped.
    #[must_use]
    pub fn with_full_budget(&self) -> Self {
        Self { unsaved: self.unsaved.clone(), ..Self::new(self.max_bytes) }
    }

    /// Reports whether everything was read.
    ///
    /// # Errors
    /// If something was not, because of the budget: the limit, and what to do.
    pub fn ensure_complete(&self) -> io::Result<()> {
        if self.is_exceeded.load(Ordering::Relaxed) {
            return Err(io::Error::other(format!(
                "more to read than {}: allow more with --max-input-size",
                units::bytes(self.max_bytes)
            )));
        }
        Ok(())
    }

    fn budget(&self, what: ReadPurpose) -> &AtomicU64 {
        match what {
            ReadPurpose::Keep => &self.keep_budget,
            ReadPurpose::Scan => &self.scan_budget,
        }
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    /// If there are not enough left.
    pub fn charge(&self, bytes: u64, what: ReadPurpose) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self.budget(what).fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| io::Error::other(self.limit_error()))
    }

    fn limit_error(&self) -> String {
        self.is_exceeded.store(true, Ordering::Relaxed);
        format!(
            "with it there is more to read than {}: name less, or allow more with --max-input-size",
            units::bytes(self.max_bytes)
        )
    }

    /// Returns the remaining bytes for files that are kept.
    pub fn remaining_bytes(&self) -> u64 {
        self.keep_budget.load(Ordering::Relaxed)
    }

    /// Reads a file. If it must be a text, it is read not much further than its first byte 0,
    /// because a text has none.
    ///
    /// # Errors
    /// Fails if it is unreadable, is too large, or exceeds the rest of the budget.
    pub fn read(&self, opened: OpenFile, is_text: bool, what: ReadPurpose) -> io::Result<Vec<u8>> {
        let OpenFile { file, size } = opened;
        ensure_small(size)?;
        // A file that is too large is not read at all.
        if size > self.budget(what).load(Ordering::Relaxed) {
            return Err(io::Error::other(self.limit_error()));
        }
        self.read_up_to(file, size, is_text, what)
    }

    /// Takes the size of a file from the budget, of which parts are read.
    ///
    /// # Errors
    /// Fails if it is too large, or exceeds the rest of the budget.
    pub fn charge_file(&self, opened: &OpenFile) -> io::Result<()> {
        ensure_small(opened.size)?;
        self.charge(opened.size, ReadPurpose::Keep)
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// Fails if it is unreadable, or exceeds the rest of the budget.
    pub fn read_stdin(&self) -> io::Result<Vec<u8>> {
        let most = self.remaining_bytes().min(MAX_FILE_BYTES);
        self.read_up_to(io::stdin().lock(), most.saturating_add(1), true, ReadPurpose::Keep)
    }

    /// Reads this many bytes, but a text no further than the block with its first byte 0.
    fn read_up_to(
        &self,
        file: impl io::Read,
        most: u64,
        is_text: bool,
        what: ReadPurpose,
    ) -> io::Result<Vec<u8>> {
        let mut file = file.take(most);
        let mut bytes = Vec::new();
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let count = match file.read(&mut block) {
                Ok(0) => return Ok(bytes),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.charge(u64::try_from(count).unwrap_or(u64::MAX), what)?;
            let read = block.get(..count).unwrap_or_default();
            bytes.extend_from_slice(read);
            if is_text && memchr::memchr(0, read).is_some() {
                // A read must not end inside a character.
                if let Err(error) = std::str::from_utf8(&bytes)
                    && error.error_len().is_none()
                {
                    bytes.truncate(error.valid_up_to());
                }
                bytes.shrink_to_fit();
                return Ok(bytes);
            }
        }
    }
}

fn ensure_small(size: u64) -> io::Result<()> {
    if size > MAX_FILE_BYTES {
        let most = units::bytes(usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX));
        return Err(io::Error::other(format!("larger than {most}")));
    }
    Ok(())
}

/// A regular file.
#[derive(Debug)]
pub struct OpenFile {
    /// The opened file.
    pub file: File,
    /// Its size in bytes by its metadata.
    pub size: u64,
}

impl OpenFile {
    /// Returns the bytes of a part, fewer if the file has become shorter.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read_part(&self, part: Range<u64>) -> io::Result<Vec<u8>> {
        let length = part.end.min(self.size).saturating_sub(part.start);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let offset = part.start.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            match files::read_at(&self.file, rest, offset) {
                Ok(0) => break,
                Ok(count) => read = read.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// Opens a file that the user named. It can be a link.
///
/// # Errors
/// If there is none, or it is not a regular file.
pub fn open_named(path: &Path) -> io::Result<OpenFile> {
    files::open_regular(path).map(OpenFile::from)
}

impl From<(File, u64)> for OpenFile {
    fn from((file, size): (File, u64)) -> Self {
        Self { file, size }
    }
}

/// A directory that the user named.
#[derive(Debug)]
pub struct RootDirectory {
    path: PathBuf,
    directory: files::Directory,
}

impl RootDirectory {
    /// Opens a directory. It can be a link.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), directory: files::Directory::open(path)? })
    }

    /// Its path, as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file below the directory. No part of the path can be a link.
    ///
    /// # Errors
    /// If there is none, or it is not a regular file.
    pub fn open_below(&self, path: &Path) -> io::Result<OpenFile> {
        self.directory.open_below(path).map(OpenFile::from)
    }
}

/// The location of a file.
#[derive(Debug, Clone, Copy)]
pub enum FilePath<'p> {
    /// A path that the user named.
    Named(&'p Path),
    /// Below a directory.
    Below(&'p RootDirectory, &'p Path),
}

impl FilePath<'_> {
    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Named(path) => path.to_path_buf(),
            Self::Below(root, path) => root.path().join(path),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// If there is none, or it is not a regular file.
    pub fn open(&self) -> io::Result<OpenFile> {
        match self {
            Self::Named(path) => open_named(path),
            Self::Below(root, path) => root.open_below(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn write_sparse(directory: &Path, name: &str, start: &str, size: u64) -> PathBuf {
        let path = write(directory, name, start);
        File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
        path
    }

    #[test]
    fn input_budget_counts_file_sizes_and_kept_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let reader = Reader::new(3_000_000);
        let hole = write_sparse(directory.path(), "hole", "a: 1\n", 2_000_000);
        for _ in 0..10 {
            let read = reader.read(open_named(&hole).unwrap(), true, ReadPurpose::Keep).unwrap();
            assert_eq!(read.len(), BLOCK_BYTES);
        }
        let text = write(directory.path(), "text", "x".repeat(2_000_000));
        assert!(reader.read(open_named(&text).unwrap(), true, ReadPurpose::Keep).is_ok());
        let error = reader
            .read(open_named(&text).unwrap(), true, ReadPurpose::Keep)
            .unwrap_err()
            .to_string();
        assert!(error.contains("more to read than 3000000"), "{error}");
        // Files that are only searched do not count with those that are kept.
        assert!(reader.read(open_named(&text).unwrap(), true, ReadPurpose::Scan).is_ok());
        assert!(reader.read(open_named(&text).unwrap(), true, ReadPurpose::Scan).is_err());
    }
}
