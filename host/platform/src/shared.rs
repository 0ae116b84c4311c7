//! Types and errors of both implementations.

use std::io;
use std::pin::Pin;

/// Access of others to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OthersAccess {
    /// Others can neither read nor write it.
    None,
    /// Others can read it.
    Read,
}

/// What a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Seconds of CPU time.
    pub cpu_seconds: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of address space.
    pub address_space: u64,
    /// Open files.
    pub open_files: u64,
}

/// The reason of an exit, as far as the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// It used up its CPU time.
    CpuTime,
    /// It had no memory, or no stack left.
    Memory,
    /// It was killed from outside.
    Killed,
    /// Anything else: the status says more.
    Other,
}

/// A future that a signal completes.
pub type SignalFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns the error of something that is not a regular file.
pub(crate) fn not_regular(what: &str) -> io::Error {
    io::Error::other(format!("not a regular file, but {what}"))
}

/// Returns the error of a path that leaves its directory.
pub(crate) fn not_below() -> io::Error {
    io::Error::other("not below the directory")
}
