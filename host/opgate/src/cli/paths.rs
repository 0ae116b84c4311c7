//! From the paths of `opgate check` to what is judged.
//!
//! ```text
//! PATH, - ─▶ files::detect, or --as ─┬▶ files::load ────┬▶ subjects
//!                                    └▶ files::waivers ─┴▶ what cannot be read
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::report::Unread;
use super::stdin::{self, Stdin};
use opgate_files::dump::{self, Dump};
use opgate_files::waivers::Waivers;
use opgate_files::{self as files, As, Found, Subject, parallel};
use opgate_input::read::Reader;

/// What was found at the paths.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// What is judged, each with the number of its waivers.
    pub(super) subjects: Vec<(Subject, Option<usize>)>,
    /// Objects of a cluster, read part by part, each with the number of its waivers.
    pub(super) dumps: Vec<(Dump, Option<usize>)>,
    /// The waivers beside them, each file once, and whether the whole folder is under check.
    pub(super) waivers: Vec<(Waivers, bool)>,
    pub(super) unread: Vec<Unread>,
    /// What was found in folders, one line each.
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
            Some(kind) => Ok(vec![Found { path: path.clone(), kind }]),
            None => files::detect(path, reader).map(|mut all| {
                // To compare objects with older ones, both are read as what they are.
                for found in all.iter_mut().filter(|f| since.is_some() && f.kind == As::Cluster) {
                    found.kind = As::Manifest;
                }
                all
            }),
        };
        let mut all = Vec::new();
        let mut folders = Vec::new();
        for (path, found) in paths.iter().zip(parallel::map(&paths, find)) {
            match found {
                Ok(found) if since.is_some() && found.len() > 1 => {
                    let shown = path.display();
                    let why = "--since compares one bundle or catalog, and there are several: name one of them";
                    loaded.fail(&shown.to_string(), &format!("{shown}: {why}"));
                }
                Ok(found) => {
                    let inner = found.iter().filter(|found| found.path != *path);
                    let line =
                        |found: &Found| format!("{}: {}", found.path.display(), found.kind.name());
                    loaded.found.extend(inner.map(line));
                    folders.extend(found.iter().map(|found| loaded.home(found, path)));
                    if files::waivers::is_in(path) && found.iter().all(|found| found.path != *path)
                    {
                        let file = path.join(files::waivers::NAME);
                        let (file, why) =
                            (file.display(), "it belongs beside a bundle or a catalog");
                        tracing::warn!("{file}: it waives nothing here: {why}");
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
        let (all, numbers): (Vec<_>, Vec<_>) =
            all.into_iter().zip(numbers).filter(|(found, _)| found.kind != As::Cluster).unzip();
        let load = |found: &Found| files::load(&found.path, found.kind, since, reader);
        for ((found, number), subjects) in all.iter().zip(numbers).zip(parallel::map(&all, load)) {
            match subjects {
                Ok(subjects) => {
                    loaded.subjects.extend(subjects.into_iter().map(|subject| (subject, number)));
                }
                Err(error) => loaded.fail(&found.path.display().to_string(), &format!("{error:#}")),
            }
        }
        if loaded.subjects.is_empty() && loaded.dumps.is_empty() && loaded.unread.is_empty() {
            let named: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let named = named.join(", ");
            loaded.fail(&named, &format!("{named}: nothing to check found in it"));
        }
        loaded
    }

    /// Gives objects a namespace that name none, where their kind is in namespaces.
    pub(super) fn default_namespace(&mut self, namespace: Option<&str>) {
        let Some(namespace) = namespace else { return };
        for (subject, _) in &mut self.subjects {
            subject.requests.iter_mut().for_each(|request| request.default_namespace(namespace));
        }
    }

    /// The folder with the waivers of something that was found at a path: its own. A file has those of
    /// its folder if it is named: those of a repository are not for the catalogs in it. Gives as well
    /// whether that is the whole folder.
    fn home(&self, found: &Found, path: &Path) -> Option<(PathBuf, bool)> {
        // The copy of standard input is in a folder of everybody.
        let is_copy = self.stdin.as_ref().is_some_and(|stdin| stdin.path() == found.path);
        if found.path.is_dir() {
            Some((found.path.clone(), true))
        } else if found.path == path && !is_copy {
            Some((found.path.parent()?.to_path_buf(), false))
        } else {
            None
        }
    }

    /// Reads the waivers of folders, each once. Gives their numbers.
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

    /// The paths, with the copy of standard input for its name.
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
        let source = self.named(source);
        for line in lines.lines() {
            let line = self.named(line);
            self.unread.push(Unread { source: source.clone(), line });
        }
    }

    /// A text as people know it: standard input has its own name.
    pub(super) fn named(&self, text: &str) -> String {
        self.stdin.as_ref().map_or_else(|| text.to_owned(), |stdin| stdin.named(text))
    }
}
