//! This process, and the children that it limits.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

pub use super::shared::{ExitReason, ProcessLimits};
use super::system;

/// Whether a child can limit its own CPU time and memory. Without that, its parent only ends it after a
/// time.
pub const CAN_LIMIT: bool = system::CAN_LIMIT;

/// Limits this process, which also writes no file and no core dump, and ends with its parent.
///
/// # Errors
/// If the system knows such limits, and refuses one.
pub fn limit(limits: &ProcessLimits) -> io::Result<()> {
    system::limit(limits)
}

/// Returns the reason of an exit.
#[must_use]
pub fn exit_reason(status: ExitStatus) -> ExitReason {
    system::exit_reason(status)
}

/// Removes all variables of the environment of a child but those without which no program starts.
pub fn clear_environment(command: &mut Command) -> &mut Command {
    command.env_clear();
    for name in system::NEEDED_VARIABLES {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Returns the program of this process, even if its file has been replaced, where the system can do that.
///
/// # Errors
/// If the system does not return its path.
pub fn program() -> io::Result<PathBuf> {
    system::program()
}

/// Lowers the priority of this thread, and of those that it starts. If the system does not allow it,
/// nothing changes.
pub fn lower_priority(by: i32) {
    system::lower_priority(by);
}

/// Switches core dumps of this process off.
///
/// # Errors
/// If the system does not allow it.
pub fn disable_core_dumps() -> io::Result<()> {
    system::disable_core_dumps()
}

/// Returns the CPU time of this thread, if the system tells it to safe code.
#[inline]
#[must_use]
pub fn thread_cpu_time() -> Option<Duration> {
    system::thread_cpu_time()
}

/// Raises the limit of file descriptors as far as possible, and returns it.
#[must_use]
pub fn raise_descriptor_limit() -> usize {
    system::raise_descriptor_limit()
}

/// Returns the number of open descriptors, if the system tells.
#[must_use]
pub fn open_descriptors() -> Option<usize> {
    std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count)
}

/// Reports whether an error means that no descriptors are left.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    system::is_out_of_descriptors(error)
}

/// Opens the device that holds nothing.
///
/// # Errors
/// If no descriptor is left.
pub fn open_null() -> io::Result<File> {
    File::open(system::NULL_DEVICE)
}
