//! Any system, with the standard library alone: Windows. What it cannot do is refused, or has no effect.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::shared::{
    ExitReason, OthersAccess, ProcessLimits, SignalFuture, not_below, not_regular,
};

pub(crate) const CAN_LIMIT: bool = false;
/// Windows finds the libraries of the system by it.
pub(crate) const NEEDED_VARIABLES: [&str; 1] = ["SystemRoot"];
pub(crate) const NULL_DEVICE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

pub(crate) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    ensure_regular(&fs::metadata(path)?)?;
    with_size(File::open(path)?)
}

pub(crate) fn open_without_link(path: &Path) -> io::Result<File> {
    ensure_regular(&fs::symlink_metadata(path)?)?;
    with_size(File::open(path)?).map(|(file, _)| file)
}

fn with_size(file: File) -> io::Result<(File, u64)> {
    let found = file.metadata()?;
    ensure_regular(&found)?;
    Ok((file, found.len()))
}

fn ensure_regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    Err(not_regular(if found.is_dir() {
        "a directory"
    } else if found.is_symlink() {
        "a symbolic link"
    } else {
        "something else"
    }))
}

/// Each name of a path is checked before the file is opened, and the whole path afterwards. A link that
/// someone creates in between, and removes before the end, is not noticed.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Directory {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let real = fs::canonicalize(path)?;
        if !fs::metadata(&real)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path: path.to_path_buf(), real })
    }

    pub(crate) fn open_below(&self, path: &Path) -> io::Result<(File, u64)> {
        let (mut full, mut real) = (self.path.clone(), self.real.clone());
        let mut names = path.components().peekable();
        if names.peek().is_none() {
            return Err(not_regular("a directory"));
        }
        while let Some(name) = names.next() {
            let Component::Normal(name) = name else { return Err(not_below()) };
            full.push(name);
            real.push(name);
            let found = fs::symlink_metadata(&full)?;
            if names.peek().is_none() {
                ensure_regular(&found)?;
            } else if !found.is_dir() {
                return Err(io::Error::new(io::ErrorKind::NotADirectory, "Not a directory"));
            }
        }
        let opened = with_size(File::open(&full)?)?;
        if fs::canonicalize(&full)? != real {
            return Err(not_below());
        }
        Ok(opened)
    }
}

/// Moves the position of the file: no two threads read one file.
pub(crate) fn read_at(mut file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    file.read(bytes)
}

pub(crate) fn display_path(path: &Path) -> String {
    with_slashes(&path.display().to_string())
}

pub(crate) fn with_slashes(path: &str) -> String {
    path.replace('\\', "/")
}

/// A drive has a slash before it: `/C:/a`. Editors also write `/c:/a`.
pub(crate) fn from_address(path: &str) -> PathBuf {
    let drive = path.strip_prefix('/').filter(|rest| rest.as_bytes().get(1) == Some(&b':'));
    PathBuf::from(drive.unwrap_or(path))
}

pub(crate) fn to_address(path: &Path) -> String {
    let text = display_path(path);
    // `canonicalize` names no drive without this prefix.
    let text = text.strip_prefix("//?/").unwrap_or(&text);
    if text.starts_with('/') { text.to_owned() } else { format!("/{text}") }
}

pub(crate) fn home_directory() -> Option<PathBuf> {
    std::env::home_dir()
}

pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub(crate) fn set_mode(_: &mut OpenOptions, _: u32) {}

pub(crate) fn link_count(_: &Metadata) -> u64 {
    1
}

pub(crate) fn copy_owner(_: &File, _: &Metadata) {}

/// What is below the directory of the user belongs to the user. Of other places, the standard library does
/// not tell the owner.
pub(crate) fn ensure_owned(path: &Path, _: &Metadata, _: OthersAccess) -> io::Result<()> {
    ensure_below(path, home_directory().as_deref())
}

pub(crate) fn ensure_below(path: &Path, home: Option<&Path>) -> io::Result<()> {
    let home = home.map(fs::canonicalize).transpose()?;
    let real = fs::canonicalize(path)?;
    if home.is_some_and(|home| real.starts_with(home)) {
        return Ok(());
    }
    let why = format!(
        "{}: must be below your home directory, or nothing in it can be trusted",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[expect(clippy::unnecessary_wraps, reason = "other systems can refuse it")]
pub(crate) fn limit(_: &ProcessLimits) -> io::Result<()> {
    Ok(())
}

pub(crate) fn exit_reason(status: ExitStatus) -> ExitReason {
    status.code().map_or(ExitReason::Other, exit_reason_of_code)
}

/// Windows ends a process with the exception as its code.
pub(crate) fn exit_reason_of_code(code: i32) -> ExitReason {
    match code.cast_unsigned() {
        // Access violation, no memory, stack overflow, and what `abort` raises.
        0xC000_0005 | 0xC000_0017 | 0xC000_00FD | 0xC000_0409 => ExitReason::Memory,
        _ => ExitReason::Other,
    }
}

pub(crate) fn program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn lower_priority(_: i32) {}

#[expect(clippy::unnecessary_wraps, reason = "other systems can refuse it")]
pub(crate) fn disable_core_dumps() -> io::Result<()> {
    Ok(())
}

#[inline]
pub(crate) fn thread_cpu_time() -> Option<Duration> {
    None
}

pub(crate) fn raise_descriptor_limit() -> usize {
    usize::MAX
}

pub(crate) fn is_out_of_descriptors(_: &io::Error) -> bool {
    false
}

#[expect(clippy::unnecessary_wraps, reason = "other systems can refuse it")]
pub(crate) fn termination() -> io::Result<SignalFuture> {
    Ok(Box::pin(async {
        // Without a handler, the system ends the process.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }))
}

#[derive(Debug)]
pub(crate) struct Hangup;

impl Hangup {
    #[expect(clippy::unnecessary_wraps, reason = "other systems can refuse it")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn recv(&mut self) {
        std::future::pending::<()>().await;
    }
}
