//! A control group with a limit of memory, where this user may make one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub(crate) struct Cgroup {
    folder: PathBuf,
    is_second: bool,
    files: TempDir,
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Who was in it has ended.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Cgroup {
    /// One that has at most so many bytes, without swap; `None`, with a line that says so, where that
    /// cannot be had.
    pub(crate) fn make(bytes: u64) -> Option<Self> {
        let name = format!("opgate-siege-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory").join(&name);
        let second = Path::new("/sys/fs/cgroup").join(&name);
        let files = tempfile::tempdir().unwrap();
        for (folder, limit, is_second) in
            [(first, "memory.limit_in_bytes", false), (second, "memory.max", true)]
        {
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            // A folder of any other file system has no such file.
            let limited = fs::OpenOptions::new().write(true).open(folder.join(limit)).is_ok()
                && fs::write(folder.join(limit), bytes.to_string()).is_ok();
            if limited {
                return Some(Self { folder, is_second, files });
            }
            let _ = fs::remove_dir(&folder);
        }
        println!("skipped: no control group with {} MiB can be made here", bytes >> 20);
        None
    }

    /// A program that enters the group, and then is another one.
    pub(crate) fn wrapper(&self, binary: &str) -> String {
        let path = self.files.path().join("opgate");
        let procs = self.folder.join("cgroup.procs");
        let text = format!("#!/bin/sh\necho $$ > '{}'\nexec '{binary}' \"$@\"\n", procs.display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn peak_file(&self) -> PathBuf {
        let name = if self.is_second { "memory.peak" } else { "memory.max_usage_in_bytes" };
        self.folder.join(name)
    }

    /// What it had at the most, with the pages of files that it has read.
    pub(crate) fn peak(&self) -> u64 {
        let text = fs::read_to_string(self.peak_file()).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// Begins that count anew, where the kernel lets it.
    pub(crate) fn reset_peak(&self) {
        let _ = fs::write(self.peak_file(), "0");
    }
}
