//! `opgate policy test --watch`: runs again whenever a file changes.
//!
//! opgate polls the files twice a second: this needs no service of the system, works on every file system,
//! and costs little for a source directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use opgate_certs::error_text::causes;

use crate::cli::policy::source::Subject;
use crate::cli::{CommandError, ExitStatus};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of files to watch. A source directory has fewer files.
const MOST: usize = 20_000;

/// Directories with build output or files of tools.
const BUILT: [&str; 8] =
    ["target", "node_modules", "dist", "build", "out", "__pycache__", "venv", "cache"];

/// Size and time of change by path.
type Seen = BTreeMap<PathBuf, (u64, SystemTime)>;

/// Runs now, and again after each change. Ends only with an error.
pub(super) fn watch(
    subject: &Subject,
    once: impl Fn() -> Result<ExitStatus, CommandError>,
) -> Result<ExitStatus, CommandError> {
    loop {
        // You can fix an error while the watch continues.
        if let Err(failure) = once() {
            for line in causes(failure.error.as_ref()).lines() {
                crate::cli::verbosity::error(line);
            }
        }
        // The build may have written files itself, so that what counts is how they are behind it.
        let before = look(subject)?;
        crate::cli::report::complain(format_args!(
            "\nwatching {} files; Ctrl-C ends",
            before.len()
        ));
        while look(subject)? == before {
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Returns all files that can change the result.
fn look(subject: &Subject) -> Result<Seen, CommandError> {
    let mut seen = Seen::new();
    let mut folders = vec![subject.cases.clone()];
    match (&subject.folder, subject.component()) {
        (Some((folder, _)), _) => folders.push(folder.clone()),
        (None, Some(component)) => see(component, &mut seen),
        (None, None) => {}
    }
    while let Some(folder) = folders.pop() {
        // A deleted directory has no files; the next run reports it.
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && !name.starts_with('.') && !BUILT.contains(&&*name) {
                folders.push(entry.path());
            } else if kind.is_file() && subject.component() != Some(&entry.path()) {
                see(&entry.path(), &mut seen);
            }
            if seen.len() > MOST {
                let text = format!("{}: more than {MOST} files to watch", folder.display());
                return Err(CommandError::usage(anyhow!(text)));
            }
        }
    }
    Ok(seen)
}

fn see(path: &Path, seen: &mut Seen) {
    if let Ok(found) = std::fs::metadata(path) {
        let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        seen.insert(path.to_owned(), (found.len(), changed));
    }
}
