//! A control group with a limit of memory, of version 1 or 2, where this user may make one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// It ends with this value: the processes in it must have ended before.
pub(crate) struct Cgroup {
    folder: PathBuf,
    is_v2: bool,
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Cgroup {
    /// One that has at most so many bytes; `None`, with a line that says so, where that cannot be had.
    pub(crate) fn create(bytes: u64) -> Option<Self> {
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("opgate-{}-{number}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory").join(&name);
        let second = Path::new("/sys/fs/cgroup").join(&name);
        for (folder, limit, is_second) in
            [(first, "memory.limit_in_bytes", false), (second, "memory.max", true)]
        {
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self { folder, is_v2: is_second };
            // A folder of any other file system has no such file.
            let limit = group.folder.join(limit);
            if limit.exists() && fs::write(limit, bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        println!("skipped: no control group with {} MiB can be made here", bytes >> 20);
        None
    }

    fn procs_file(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
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
        self.folder.join(name)
    }

    /// What it had at the most, with the pages of files that it has read.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let text = fs::read_to_string(self.peak_file()).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// Begins that count anew, where the kernel lets it.
    pub(crate) fn reset_peak(&self) {
        let _ = fs::write(self.peak_file(), "0");
    }
}
