//! Linux and macOS.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown,
};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::signal::unix::{self, SignalKind};

use super::shared::{
    ExitReason, OthersAccess, ProcessLimits, SignalFuture, not_below, not_regular,
};

pub(crate) const CAN_LIMIT: bool = true;
pub(crate) const NEEDED_VARIABLES: [&str; 0] = [];
pub(crate) const NULL_DEVICE: &str = "/dev/null";

/// Opening a pipe does not wait for its other end.
const OPEN_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

pub(crate) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    // Only regular files are opened: to open a device can have an effect.
    ensure_regular(&rustix::fs::stat(path)?)?;
    with_size(rustix::fs::open(path, OPEN_FLAGS, Mode::empty())?)
}

pub(crate) fn open_without_link(path: &Path) -> io::Result<File> {
    let file = rustix::fs::open(path, OPEN_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
    with_size(file).map(|(file, _)| file)
}

fn with_size(file: OwnedFd) -> io::Result<(File, u64)> {
    let found = rustix::fs::fstat(&file)?;
    ensure_regular(&found)?;
    Ok((File::from(file), u64::try_from(found.st_size).unwrap_or_default()))
}

fn ensure_regular(found: &rustix::fs::Stat) -> io::Result<()> {
    Err(not_regular(match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something else",
    }))
}

/// Files below it are opened name by name, so that no link leads out of it, not even one that is created at
/// the same time.
#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

impl Directory {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OPEN_FLAGS | OFlags::DIRECTORY;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub(crate) fn open_below(&self, path: &Path) -> io::Result<(File, u64)> {
        let mut inner: Option<OwnedFd> = None;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            let Component::Normal(name) = name else { return Err(not_below()) };
            let directory = inner.as_ref().unwrap_or(&self.0);
            let flags = OPEN_FLAGS | OFlags::NOFOLLOW;
            if names.peek().is_some() {
                let flags = flags | OFlags::DIRECTORY;
                inner = Some(rustix::fs::openat(directory, name, flags, Mode::empty())?);
                continue;
            }
            ensure_regular(&rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
            return with_size(rustix::fs::openat(directory, name, flags, Mode::empty())?);
        }
        Err(not_regular("a directory"))
    }
}

pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}

pub(crate) fn display_path(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn from_address(path: &str) -> PathBuf {
    PathBuf::from(path)
}

pub(crate) fn to_address(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(crate) fn home_directory() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn set_mode(options: &mut OpenOptions, mode: u32) {
    options.mode(mode);
}

pub(crate) fn link_count(metadata: &Metadata) -> u64 {
    metadata.nlink()
}

pub(crate) fn copy_owner(file: &File, metadata: &Metadata) {
    let (owner, group) = (metadata.uid(), metadata.gid());
    if file.metadata().is_ok_and(|own| own.uid() == owner && own.gid() == group) {
        return;
    }
    // Only root may give a file away. Members of a group may give a file to it.
    if fchown(file, Some(owner), Some(group)).is_err() {
        let _ = fchown(file, None, Some(group));
    }
}

pub(crate) fn ensure_owned(
    path: &Path,
    metadata: &Metadata,
    others: OthersAccess,
) -> io::Result<()> {
    let forbidden = match others {
        OthersAccess::None => 0o077,
        OthersAccess::Read => 0o022,
    };
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own || metadata.mode() & forbidden != 0 {
        let why = format!(
            "{}: must belong to the user {own} and be closed to others, or nothing in it can be trusted",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

pub(crate) fn limit(limits: &ProcessLimits) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the system is short of memory, it can kill this process first. Not every system allows
        // this setting.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
    let at = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    let after = limits.cpu_seconds.saturating_add(1);
    let cpu = Rlimit { current: Some(limits.cpu_seconds), maximum: Some(after) };
    for (resource, limit) in [
        (Resource::Cpu, cpu),
        (Resource::Data, at(limits.memory)),
        (Resource::As, at(limits.address_space)),
        (Resource::Fsize, at(0)),
        (Resource::Nofile, at(limits.open_files)),
        (Resource::Core, at(0)),
    ] {
        let set = setrlimit(resource, limit);
        // macOS refuses limits of memory below what a new process has mapped.
        if cfg!(target_os = "linux") {
            set?;
        }
    }
    Ok(())
}

pub(crate) fn exit_reason(status: ExitStatus) -> ExitReason {
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    if is(Signal::XCPU) {
        ExitReason::CpuTime
    } else if is(Signal::ABORT) || is(Signal::SEGV) {
        ExitReason::Memory
    } else if is(Signal::KILL) {
        ExitReason::Killed
    } else {
        ExitReason::Other
    }
}

pub(crate) fn program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_path_buf()) } else { std::env::current_exe() }
}

pub(crate) fn lower_priority(by: i32) {
    let _ = rustix::process::nice(by);
}

pub(crate) fn disable_core_dumps() -> io::Result<()> {
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

#[inline]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
pub(crate) fn thread_cpu_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::try_from(time).unwrap_or_default())
}

pub(crate) fn raise_descriptor_limit() -> usize {
    // The soft limit is for programs that use `select`.
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

pub(crate) fn termination() -> io::Result<SignalFuture> {
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    Ok(Box::pin(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }))
}

#[derive(Debug)]
pub(crate) struct Hangup(unix::Signal);

impl Hangup {
    pub(crate) fn new() -> io::Result<Self> {
        unix::signal(SignalKind::hangup()).map(Self)
    }

    pub(crate) async fn recv(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
