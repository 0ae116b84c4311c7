//! A control group with a limit of memory, of version 1 or 2, where this user may make one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// It ends with this value: the processes in it must have ended before.
pub(crate) struct Cgroup {
    directory: PathBuf,
    is_v2: bool,
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

impl Cgroup {
    /// Creates one with at most this many bytes. Returns `None` and prints a line if that is not
    /// possible.
    pub(crate) fn create(bytes: u64) -> Option<Self> {
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("opgate-{}-{number}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory").join(&name);
        let second = Path::new("/sys/fs/cgroup").join(&name);
        for (directory, limit, is_second) in
            [(first, "memory.limit_in_bytes", false), (second, "memory.max", true)]
        {
            if fs::create_dir(&directory).is_err() {
                continue;
            }
            let group = Self { directory, is_v2: is_second };
            // A directory of any other file system has no such file.
            let limit = group.directory.join(limit);
            if limit.exists() && fs::write(limit, bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        println!("skipped: no control group with {} MiB can be made here", bytes >> 20);
        None
    }

    fn procs_file(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// Commands of the shell with which a process enters.
    pub(crate) fn enter_command(&self) -> String {
        format!("echo $$ > '{}'", self.procs_file().display())
    }

    /// Whether a process is in it.
    pub(crate) fn contains(&self, process: u32) -> bool {
        let members = fs::read_to_string(self.procs_file()).unwrap_or_default();
        members.lines().any(|member| member == process.to_string())
    }

    fn peak_file(&self) -> PathBuf {
        let name = if self.is_v2 { "memory.peak" } else { "memory.max_usage_in_bytes" };
        self.directory.join(name)
    }

    /// Peak memory of the group in bytes, including the pages of files that it has read.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let text = fs::read_to_string(self.peak_file()).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// Resets the peak, where the kernel supports it.
    pub(crate) fn reset_peak(&self) {
        let _ = fs::write(self.peak_file(), "0");
    }
}
