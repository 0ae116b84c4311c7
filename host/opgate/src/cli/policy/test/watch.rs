//! `opgate policy test --watch`: runs again whenever a file changes.
//!
//! opgate polls the files twice a second: this needs no service of the system, works on every file system,
//! and costs little for a source directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use opgate_certs::error_text::with_causes;

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::policy::source::PolicySubject;

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of files to watch. A source directory has fewer files.
const MAX_FILES: usize = 20_000;

/// Directories with build output or files of tools.
const IGNORED_DIRECTORIES: [&str; 8] =
    ["target", "node_modules", "dist", "build", "out", "__pycache__", "venv", "cache"];

/// Size and time of change by path.
type FileStates = BTreeMap<PathBuf, (u64, SystemTime)>;

/// Runs now, and again after each change. Ends only with an error.
pub(super) fn watch(
    subject: &PolicySubject,
    once: impl Fn() -> Result<ExitStatus, CommandError>,
) -> Result<ExitStatus, CommandError> {
    loop {
        // You can fix an error while the watch continues.
        if let Err(failure) = once() {
            for line in with_causes(failure.error.as_ref()).lines() {
                crate::cli::verbosity::error(line);
            }
        }
        // The build may have written files itself, so that what counts is how they are behind it.
        let before = scan_files(subject)?;
        crate::cli::output::print_error(format_args!(
            "\nwatching {} files; Ctrl-C ends",
            before.len()
        ));
        while scan_files(subject)? == before {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns all files that can change the result.
fn scan_files(subject: &PolicySubject) -> Result<FileStates, CommandError> {
    let mut states = FileStates::new();
    let mut directories = vec![subject.cases.clone()];
    match (&subject.source_directory, subject.component()) {
        (Some((directory, _)), _) => directories.push(directory.clone()),
        (None, Some(component)) => record_file(component, &mut states),
        (None, None) => {}
    }
    while let Some(directory) = directories.pop() {
        // A deleted directory has no files; the next run reports it.
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && !name.starts_with('.') && !IGNORED_DIRECTORIES.contains(&&*name) {
                directories.push(entry.path());
            } else if kind.is_file() && subject.component() != Some(&entry.path()) {
                record_file(&entry.path(), &mut states);
            }
            if states.len() > MAX_FILES {
                let text = format!("{}: more than {MAX_FILES} files to watch", directory.display());
                return Err(CommandError::usage(anyhow!(text)));
            }
        }
    }
    Ok(states)
}

fn record_file(path: &Path, states: &mut FileStates) {
    if let Ok(found) = std::fs::metadata(path) {
        let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        states.insert(path.to_owned(), (found.len(), changed));
    }
}
