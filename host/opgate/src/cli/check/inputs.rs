//! Loads subjects from the paths of `opgate check`.
//!
//! ```text
//! PATH, - ─▶ files::detect, or --input-type ─┬▶ subjects, skipped files, or unreadable files
//!                                    └▶ files::waivers
//! ```

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::evaluate::error_lines;
use crate::cli::report::UnreadableInput;
use crate::cli::stdin;
use crate::cli::stdin::Stdin;
use opgate_files::dump::{self, Dump};
use opgate_files::waivers::{WaiverError, Waivers};

use super::waivers::DirectoryWaivers;
use opgate_files::{
    self as files, CheckInputType, DetectedInput, Detection, SkippedFile, parallel,
};
use opgate_input::read::Reader;
use opgate_platform::files::display_path;

/// A subject of the check, and the index of its waivers.
pub(super) type LoadedUnit = (DetectedInput, Option<usize>);

/// Subjects and files at the paths.
#[derive(Debug, Default)]
pub(super) struct LoadedInput {
    /// Subjects of the check.
    pub(super) units: Vec<LoadedUnit>,
    /// Skipped files in directories.
    pub(super) skipped: Vec<SkippedFile>,
    /// Objects of a cluster, read part by part, each with the number of its waivers.
    pub(super) dumps: Vec<(Dump, Option<usize>)>,
    /// The waivers of their directories, each file once.
    pub(super) waivers: Vec<DirectoryWaivers>,
    pub(super) unreadable: Vec<UnreadableInput>,
    /// Results of directories, one line each.
    pub(super) detection_lines: Vec<String>,
    /// Standard input, where it was named.
    pub(super) stdin: Option<Stdin>,
}

impl LoadedInput {
    /// Reads everything that is named. What cannot be read does not keep the rest from being checked.
    pub(super) fn of(
        paths: &[PathBuf],
        kind: Option<CheckInputType>,
        baseline: Option<&Path>,
        reader: &Reader,
        waivers: &dyn Fn(&Path) -> Result<Option<Waivers>, WaiverError>,
    ) -> Self {
        let mut loaded = Self::default();
        if let Some(baseline) = baseline
            && let Err(error) = std::fs::metadata(baseline)
        {
            let source = baseline.display();
            loaded.add_error(&source.to_string(), &format!("{source}: {error}"));
            return loaded;
        }
        let mut paths = loaded.replace_stdin(paths, reader);
        let mut seen = HashSet::new();
        paths.retain(|path| seen.insert(absolute(path)));
        let find = |path: &PathBuf| match kind {
            Some(CheckInputType::Manifest) if path.is_dir() && baseline.is_none() => {
                let found = files::find_manifests(path)?;
                Ok(Detection { inputs: found, skipped: Vec::new() })
            }
            Some(kind) => {
                let found = vec![DetectedInput::new(path, kind)];
                Ok(Detection { inputs: found, skipped: Vec::new() })
            }
            None => files::detect(path, reader).map(|mut detection| {
                let all = &mut detection.inputs;
                let is_manifest = |found: &DetectedInput| {
                    matches!(found.input_type, CheckInputType::Cluster | CheckInputType::Manifest)
                };
                // To compare objects with older ones, all of them are read as what they are.
                if baseline.is_some() && all.iter().all(is_manifest) {
                    *all = vec![DetectedInput::new(path, CheckInputType::Manifest)];
                }
                detection
            }),
        };
        let mut all = Vec::new();
        let mut directories = Vec::new();
        for (path, found) in paths.iter().zip(parallel::map(&paths, find)) {
            match found {
                Ok(Detection { inputs: found, .. }) if baseline.is_some() && found.len() > 1 => {
                    let shown = path.display();
                    let why = "--baseline compares one bundle or catalog, and there are several: name one of them";
                    loaded.add_error(&shown.to_string(), &format!("{shown}: {why}"));
                }
                Ok(Detection { inputs: found, skipped: mut passed_over }) => {
                    loaded.skipped.append(&mut passed_over);
                    let is_part =
                        |found: &&DetectedInput| found.path != *path && found.directory.is_none();
                    let inner = found.iter().filter(is_part);
                    let line = |found: &DetectedInput| {
                        format!("{}: {}", found.path.display(), found.input_type.name())
                    };
                    loaded.detection_lines.extend(inner.map(line));
                    directories
                        .extend(found.iter().map(|found| loaded.waiver_directory(found, path)));
                    let is_waived =
                        |found: &DetectedInput| found.path == *path || found.directory.is_some();
                    if files::waivers::exists_in(path) && !found.iter().any(is_waived) {
                        let file = path.join(files::waivers::FILE_NAME);
                        let (file, why) = (
                            file.display(),
                            "it belongs in the directory of a bundle or a catalog",
                        );
                        tracing::warn!("{file}: it has no effect here: {why}");
                    }
                    all.extend(found);
                }
                Err(error) => loaded.add_error(&path.display().to_string(), &format!("{error:#}")),
            }
        }
        let numbers = loaded.waivers(directories, waivers);
        for (found, number) in all.iter().zip(&numbers) {
            if found.input_type == CheckInputType::Cluster {
                match dump::open(&found.path, reader) {
                    Ok(dumps) => loaded.dumps.extend(dumps.into_iter().map(|d| (d, *number))),
                    Err(lines) => {
                        loaded.add_error(&found.path.display().to_string(), &lines.to_string());
                    }
                }
            }
        }
        let mut seen = HashSet::new();
        let mut is_new = |(found, waivers): &LoadedUnit| {
            let kind = found.input_type.name();
            kind != CheckInputType::Cluster.name()
                && seen.insert((absolute(&found.path), kind, *waivers))
        };
        loaded.units = all.into_iter().zip(numbers).filter(|unit| is_new(unit)).collect();
        if loaded.units.is_empty() && loaded.dumps.is_empty() && loaded.unreadable.is_empty() {
            let named: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let named = named.join(", ");
            loaded.add_error(&named, &format!("{named}: nothing to check found in it"));
        }
        loaded
    }

    /// Returns the directory whose waivers apply to a subject at a path: the directory itself. For a named
    /// file it is the parent directory: the waivers of a repository do not apply to the catalogs in it. Also
    /// returns whether the check covers the whole directory.
    fn waiver_directory(&self, found: &DetectedInput, path: &Path) -> Option<(PathBuf, bool)> {
        // The copy of standard input is in a shared directory.
        let is_copy = self.stdin.as_ref().is_some_and(|stdin| stdin.path() == found.path);
        if let Some(directory) = &found.directory {
            Some((directory.clone(), true))
        } else if found.path.is_dir() {
            Some((found.path.clone(), true))
        } else if found.path == path && !is_copy {
            Some((found.path.parent()?.to_path_buf(), false))
        } else {
            None
        }
    }

    /// Reads the waivers of directories, each once. Returns their indexes.
    fn waivers(
        &mut self,
        directories: Vec<Option<(PathBuf, bool)>>,
        read: &dyn Fn(&Path) -> Result<Option<Waivers>, WaiverError>,
    ) -> Vec<Option<usize>> {
        let mut known: HashMap<PathBuf, Option<usize>> = HashMap::new();
        let mut number = |(directory, is_whole): (PathBuf, bool)| {
            let path = if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
            let path = path.canonicalize().unwrap_or_else(|_| directory.clone());
            if let Some(number) = known.get(&path) {
                return *number;
            }
            let number = match read(&directory) {
                Ok(waivers) => waivers.map(|waivers| {
                    self.waivers.push(DirectoryWaivers { waivers, is_whole });
                    self.waivers.len() - 1
                }),
                Err(lines) => {
                    let file = display_path(&directory.join(files::waivers::FILE_NAME));
                    self.add_error(&file, &lines.to_string());
                    None
                }
            };
            known.insert(path, number);
            number
        };
        directories.into_iter().map(|directory| directory.and_then(&mut number)).collect()
    }

    /// Returns the paths, with the copy of standard input for its name.
    fn replace_stdin(&mut self, paths: &[PathBuf], reader: &Reader) -> Vec<PathBuf> {
        let is_stdin = |path: &&PathBuf| path.as_path() == Path::new(stdin::NAME);
        let mut read = Vec::with_capacity(paths.len());
        for path in paths {
            if !is_stdin(&path) {
                read.push(path.clone());
                continue;
            }
            if self.stdin.is_some() {
                self.add_error(
                    stdin::NAME,
                    "-: standard input can be read only once: name it once",
                );
                continue;
            }
            match Stdin::read(reader) {
                Ok(copy) => {
                    read.push(copy.path().to_path_buf());
                    self.stdin = Some(copy);
                }
                Err(error) => self.add_error(stdin::NAME, &format!("-: {error:#}")),
            }
        }
        read
    }

    fn add_error(&mut self, source: &str, lines: &str) {
        let lines = error_lines(source, lines);
        let source = self.with_stdin_name(source);
        for line in lines {
            let line = self.with_stdin_name(&line);
            self.unreadable.push(UnreadableInput { source: source.clone(), line });
        }
    }

    /// Replaces the path of standard input in a text by its name.
    pub(super) fn with_stdin_name(&self, text: &str) -> String {
        self.stdin.as_ref().map_or_else(|| text.to_owned(), |stdin| stdin.with_stdin_name(text))
    }
}

/// The path without `.`, from the root directory. A link is another path: names of directories matter.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
