//! The one reader of files that somebody else may have written: for `check`, `replay`, `--context` and
//! `--since`.
//!
//! ```text
//! path that was named ─▶ what it leads to ───────────┐
//! path below a folder ─▶ name by name, no links ─────┴▶ regular file ─▶ Reader: budget ─▶ bytes
//! ```
//!
//! * Only regular files are read. A pipe, a device or a socket is an error, and nothing waits for it.
//! * What is below a folder is opened name by name from the folder on, so that no link leads out of it,
//!   also none that appears meanwhile.
//! * A file that says to be larger than what is left of the [`Reader`]'s budget is not read; what is read
//!   is taken from it block by block. A text has no byte 0: holes are not read.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use opgate_text::units;

/// Most bytes of the files of a command together, unless it is told otherwise: ten times the largest
/// published catalogs.
pub const BUDGET: usize = 1 << 30;
/// Largest file.
const MAX_FILE: u64 = 1 << 30;
/// Bytes that are read at a time.
const BLOCK: usize = 64 << 10;

/// What a command may still read.
#[derive(Debug)]
pub struct Reader {
    most: usize,
    /// For what is kept, and for what is only looked into.
    kept: AtomicU64,
    looked: AtomicU64,
}

/// What a file is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Its bytes stay in memory.
    Keep,
    /// They are looked into, and dropped.
    Look,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl Reader {
    /// A reader of so many bytes together.
    pub fn new(most: usize) -> Self {
        let budget = || AtomicU64::new(u64::try_from(most).unwrap_or(u64::MAX));
        Self { most, kept: budget(), looked: budget() }
    }

    fn budget(&self, what: Use) -> &AtomicU64 {
        match what {
            Use::Keep => &self.kept,
            Use::Look => &self.looked,
        }
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    /// Where there are not so many left.
    pub fn take(&self, bytes: u64, what: Use) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self.budget(what).fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| io::Error::other(self.too_much()))
    }

    fn too_much(&self) -> String {
        format!(
            "with it there is more to read than {}: name less, or allow more with --max-read",
            units::bytes(self.most)
        )
    }

    /// Bytes that are left for what is kept.
    pub fn left(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Reads a file; where it is to be a text, not much further than its first byte 0: a text has none.
    ///
    /// # Errors
    /// Where it cannot be read, is too large, or there is not so much left of the budget.
    pub fn read(&self, opened: Opened, is_text: bool, what: Use) -> io::Result<Vec<u8>> {
        let Opened { file, size } = opened;
        if size > MAX_FILE {
            let most = units::bytes(usize::try_from(MAX_FILE).unwrap_or(usize::MAX));
            return Err(io::Error::other(format!("larger than {most}")));
        }
        // Nothing of what is too large is read.
        if size > self.budget(what).load(Ordering::Relaxed) {
            return Err(io::Error::other(self.too_much()));
        }
        self.up_to(file, size, is_text, what)
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// Where it cannot be read, or is more than there is left of the budget.
    pub fn stdin(&self) -> io::Result<Vec<u8>> {
        let most = self.left().min(MAX_FILE);
        self.up_to(io::stdin().lock(), most.saturating_add(1), true, Use::Keep)
    }

    /// Reads so many bytes; of a text no further than the block in which there is a byte 0.
    fn up_to(
        &self,
        file: impl io::Read,
        most: u64,
        is_text: bool,
        what: Use,
    ) -> io::Result<Vec<u8>> {
        let mut file = file.take(most);
        let mut bytes = Vec::new();
        let mut block = vec![0; BLOCK];
        loop {
            let count = match file.read(&mut block) {
                Ok(0) => return Ok(bytes),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.take(u64::try_from(count).unwrap_or(u64::MAX), what)?;
            let read = block.get(..count).unwrap_or_default();
            bytes.extend_from_slice(read);
            if is_text && memchr::memchr(0, read).is_some() {
                // No character is cut in two.
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

/// A regular file.
#[derive(Debug)]
pub struct Opened {
    /// To be read.
    pub file: File,
    /// In bytes, as it says.
    /// Bytes that it says to have.
    pub size: u64,
}

/// Nothing waits for the other end of a pipe.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens a file that somebody named; it may be a link.
///
/// # Errors
/// Where there is none, or it is no regular file.
pub fn named(path: &Path) -> io::Result<Opened> {
    // What is no file is not opened: to open a device may do something.
    is_regular(&rustix::fs::stat(path)?)?;
    opened(rustix::fs::open(path, FLAGS, Mode::empty())?)
}

fn opened(file: OwnedFd) -> io::Result<Opened> {
    let found = rustix::fs::fstat(&file)?;
    is_regular(&found)?;
    Ok(Opened { file: File::from(file), size: u64::try_from(found.st_size).unwrap_or_default() })
}

fn is_regular(found: &rustix::fs::Stat) -> io::Result<()> {
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something else",
    };
    Err(io::Error::other(format!("not a regular file, but {what}")))
}

/// A folder that somebody named.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    folder: OwnedFd,
}

impl Root {
    /// Opens a folder; it may be a link.
    ///
    /// # Errors
    /// Where there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = FLAGS | OFlags::DIRECTORY;
        Ok(Self { path: path.to_path_buf(), folder: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Its path, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file below the folder. No part of the path may be a link.
    ///
    /// # Errors
    /// Where there is none, or it is no regular file.
    pub fn below(&self, path: &Path) -> io::Result<Opened> {
        let mut inner: Option<OwnedFd> = None;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            let Component::Normal(name) = name else {
                return Err(io::Error::other("not below the folder"));
            };
            let folder = inner.as_ref().unwrap_or(&self.folder);
            let flags = FLAGS | OFlags::NOFOLLOW;
            if names.peek().is_some() {
                let flags = flags | OFlags::DIRECTORY;
                inner = Some(rustix::fs::openat(folder, name, flags, Mode::empty())?);
                continue;
            }
            is_regular(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
            return opened(rustix::fs::openat(folder, name, flags, Mode::empty())?);
        }
        Err(io::Error::other("not a regular file, but a folder"))
    }
}

/// Where a file is.
#[derive(Debug, Clone, Copy)]
pub enum At<'p> {
    /// Where somebody said.
    Named(&'p Path),
    /// Below a folder.
    Below(&'p Root, &'p Path),
}

impl At<'_> {
    /// Opens it.
    ///
    /// # Errors
    /// Where there is none, or it is no regular file.
    pub fn open(&self) -> io::Result<Opened> {
        match self {
            Self::Named(path) => named(path),
            Self::Below(root, path) => root.below(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn hole(folder: &Path, name: &str, start: &str, size: u64) -> PathBuf {
        let path = write(folder, name, start);
        File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
        path
    }

    #[test]
    fn only_regular_files_below_the_folder_are_opened() {
        let (outside, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(outside.path(), "secret", "x");
        write(folder.path(), "a/b.yaml", "b");
        symlink(outside.path(), folder.path().join("out")).unwrap();
        symlink("a", folder.path().join("in")).unwrap();
        symlink("/dev/zero", folder.path().join("zero")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("pipe"), FileType::Fifo, mode, 0)
            .unwrap();
        let root = Root::open(folder.path()).unwrap();
        assert_eq!(root.below(Path::new("a/b.yaml")).unwrap().size, 1);
        for (path, why) in [
            ("pipe", "not a regular file, but a pipe"),
            ("zero", "not a regular file, but a symbolic link"),
            ("a", "not a regular file, but a folder"),
            ("../x", "not below the folder"),
            ("/dev/zero", "not below the folder"),
            ("out/secret", "Not a directory"),
            ("in/b.yaml", "Not a directory"),
        ] {
            let error = root.below(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(why), "{path}: {error}");
        }
        let error = named(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "not a regular file, but a device");
        assert!(named(&folder.path().join("zero")).is_err());
        symlink("a/b.yaml", folder.path().join("link")).unwrap();
        assert_eq!(named(&folder.path().join("link")).unwrap().size, 1);
    }

    #[test]
    fn the_budget_counts_what_files_say_and_keeps_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let reader = Reader::new(3_000_000);
        let hole = hole(folder.path(), "hole", "a: 1\n", 2_000_000);
        for _ in 0..10 {
            let read = reader.read(named(&hole).unwrap(), true, Use::Keep).unwrap();
            assert_eq!(read.len(), BLOCK);
        }
        let text = write(folder.path(), "text", "x".repeat(2_000_000));
        assert!(reader.read(named(&text).unwrap(), true, Use::Keep).is_ok());
        let error = reader.read(named(&text).unwrap(), true, Use::Keep).unwrap_err().to_string();
        assert!(error.contains("more to read than 3000000"), "{error}");
        // What is only looked into does not count with what is kept.
        assert!(reader.read(named(&text).unwrap(), true, Use::Look).is_ok());
        assert!(reader.read(named(&text).unwrap(), true, Use::Look).is_err());
    }
}
