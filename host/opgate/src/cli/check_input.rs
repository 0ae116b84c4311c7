//! Loads subjects from the paths of `opgate check`.
//!
//! ```text
//! PATH, - ─▶ files::detect, or --input-type ─┬▶ subjects, skipped files, or unreadable files
//!                                    └▶ files::waivers
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::evaluate::lines_about;
use super::report::UnreadableInput;
use super::stdin::{self, Stdin};
use opgate_files::dump::{self, Dump};
use opgate_files::waivers::Waivers;
use opgate_files::{self as files, As, Detection, Found, PassedOver, parallel};
use opgate_input::read::Reader;

/// Subjects and files at the paths.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Subjects of the check, each with the index of its waivers.
    pub(super) units: Vec<(Found, Option<usize>)>,
    /// Skipped files in directories.
    pub(super) passed_over: Vec<PassedOver>,
    /// Objects of a cluster, read part by part, each with the number of its waivers.
    pub(super) dumps: Vec<(Dump, Option<usize>)>,
    /// The waivers of their directories, each file once, and whether the check covers the whole directory.
    pub(super) waivers: Vec<(Waivers, bool)>,
    pub(super) unread: Vec<UnreadableInput>,
    /// Results of directories, one line each.
    pub(super) found: Vec<String>,
    /// Standard input, where it was named.
    pub(super) stdin: Option<Stdin>,
}

impl Loaded {
    /// Reads everything that is named. What cannot be read does not keep the rest from being checked.
    pub(super) fn of(
        paths: &[PathBuf],
        kind: Option<As>,
        since: Option<&Path>,
        reader: &Reader,
        waivers: &dyn Fn(&Path) -> Result<Option<Waivers>, String>,
    ) -> Self {
        let mut loaded = Self::default();
        if let Some(since) = since
            && let Err(error) = std::fs::metadata(since)
        {
            let source = since.display();
            loaded.fail(&source.to_string(), &format!("{source}: {error}"));
            return loaded;
        }
        let paths = loaded.with_stdin(paths, reader);
        let find = |path: &PathBuf| match kind {
            Some(As::Manifest) if path.is_dir() && since.is_none() => {
                let found = files::manifests(path)?;
                Ok(Detection { found, passed_over: Vec::new() })
            }
            Some(kind) => {
                let found = vec![Found::new(path, kind)];
                Ok(Detection { found, passed_over: Vec::new() })
            }
            None => files::detect(path, reader).map(|mut detection| {
                let all = &mut detection.found;
                let is_manifest = |found: &Found| matches!(found.kind, As::Cluster | As::Manifest);
                // To compare objects with older ones, all of them are read as what they are.
                if since.is_some() && all.iter().all(is_manifest) {
                    *all = vec![Found::new(path, As::Manifest)];
                }
                detection
            }),
        };
        let mut all = Vec::new();
        let mut folders = Vec::new();
        for (path, found) in paths.iter().zip(parallel::map(&paths, find)) {
            match found {
                Ok(Detection { found, .. }) if since.is_some() && found.len() > 1 => {
                    let shown = path.display();
                    let why = "--baseline compares one bundle or catalog, and there are several: name one of them";
                    loaded.fail(&shown.to_string(), &format!("{shown}: {why}"));
                }
                Ok(Detection { found, mut passed_over }) => {
                    loaded.passed_over.append(&mut passed_over);
                    let is_part = |found: &&Found| found.path != *path && found.folder.is_none();
                    let inner = found.iter().filter(is_part);
                    let line =
                        |found: &Found| format!("{}: {}", found.path.display(), found.kind.name());
                    loaded.found.extend(inner.map(line));
                    folders.extend(found.iter().map(|found| loaded.home(found, path)));
                    let is_waived = |found: &Found| found.path == *path || found.folder.is_some();
                    if files::waivers::is_in(path) && !found.iter().any(is_waived) {
                        let file = path.join(files::waivers::NAME);
                        let (file, why) = (
                            file.display(),
                            "it belongs in the directory of a bundle or a catalog",
                        );
                        tracing::warn!("{file}: it has no effect here: {why}");
                    }
                    all.extend(found);
                }
                Err(error) => loaded.fail(&path.display().to_string(), &format!("{error:#}")),
            }
        }
        let numbers = loaded.waivers(folders, waivers);
        for (found, number) in all.iter().zip(&numbers) {
            if found.kind == As::Cluster {
                match dump::open(&found.path, reader) {
                    Ok(dumps) => loaded.dumps.extend(dumps.into_iter().map(|d| (d, *number))),
                    Err(lines) => loaded.fail(&found.path.display().to_string(), &lines),
                }
            }
        }
        let units = all.into_iter().zip(numbers);
        loaded.units = units.filter(|(found, _)| found.kind != As::Cluster).collect();
        if loaded.units.is_empty() && loaded.dumps.is_empty() && loaded.unread.is_empty() {
            let named: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let named = named.join(", ");
            loaded.fail(&named, &format!("{named}: nothing to check found in it"));
        }
        loaded
    }

    /// Returns the directory whose waivers apply to a subject at a path: the directory itself. For a named
    /// file it is the parent directory: the waivers of a repository do not apply to the catalogs in it. Also
    /// returns whether the check covers the whole directory.
    fn home(&self, found: &Found, path: &Path) -> Option<(PathBuf, bool)> {
        // The copy of standard input is in a shared directory.
        let is_copy = self.stdin.as_ref().is_some_and(|stdin| stdin.path() == found.path);
        if let Some(folder) = &found.folder {
            Some((folder.clone(), true))
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
        folders: Vec<Option<(PathBuf, bool)>>,
        read: &dyn Fn(&Path) -> Result<Option<Waivers>, String>,
    ) -> Vec<Option<usize>> {
        let mut known: HashMap<PathBuf, Option<usize>> = HashMap::new();
        let mut number = |(folder, is_whole): (PathBuf, bool)| {
            let path = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            let path = path.canonicalize().unwrap_or_else(|_| folder.clone());
            if let Some(number) = known.get(&path) {
                return *number;
            }
            let number = match read(&folder) {
                Ok(waivers) => waivers.map(|waivers| {
                    self.waivers.push((waivers, is_whole));
                    self.waivers.len() - 1
                }),
                Err(lines) => {
                    let file = folder.join(files::waivers::NAME).display().to_string();
                    self.fail(&file, &lines);
                    None
                }
            };
            known.insert(path, number);
            number
        };
        folders.into_iter().map(|folder| folder.and_then(&mut number)).collect()
    }

    /// Returns the paths, with the copy of standard input for its name.
    fn with_stdin(&mut self, paths: &[PathBuf], reader: &Reader) -> Vec<PathBuf> {
        let is_stdin = |path: &&PathBuf| path.as_path() == Path::new(stdin::NAME);
        let mut read = Vec::with_capacity(paths.len());
        for path in paths {
            if !is_stdin(&path) {
                read.push(path.clone());
                continue;
            }
            if self.stdin.is_some() {
                self.fail(stdin::NAME, "-: standard input can be read only once: name it once");
                continue;
            }
            match Stdin::read(reader) {
                Ok(copy) => {
                    read.push(copy.path().to_path_buf());
                    self.stdin = Some(copy);
                }
                Err(error) => self.fail(stdin::NAME, &format!("-: {error:#}")),
            }
        }
        read
    }

    fn fail(&mut self, source: &str, lines: &str) {
        let lines = lines_about(source, lines);
        let source = self.named(source);
        for line in lines {
            let line = self.named(&line);
            self.unread.push(UnreadableInput { source: source.clone(), line });
        }
    }

    /// Replaces the path of standard input in a text by its name.
    pub(super) fn named(&self, text: &str) -> String {
        self.stdin.as_ref().map_or_else(|| text.to_owned(), |stdin| stdin.named(text))
    }
}
