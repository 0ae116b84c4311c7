//! From the paths of `opgate check` to what is judged.
//!
//! ```text
//! PATH, - ─▶ files::detect, or --as ─▶ files::load ─┬▶ subjects
//!                                                   └▶ what cannot be read
//! ```

use std::path::{Path, PathBuf};

use super::report::Unread;
use super::stdin::{self, Stdin};
use opgate_files::{self as files, As, Found, Subject, parallel};
use opgate_input::read::Reader;

/// What was found at the paths.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) subjects: Vec<Subject>,
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
            None => files::detect(path, reader),
        };
        let mut all = Vec::new();
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
                    all.extend(found);
                }
                Err(error) => loaded.fail(&path.display().to_string(), &format!("{error:#}")),
            }
        }
        let load = |found: &Found| files::load(&found.path, found.kind, since, reader);
        for (found, subjects) in all.iter().zip(parallel::map(&all, load)) {
            match subjects {
                Ok(subjects) => loaded.subjects.extend(subjects),
                Err(error) => loaded.fail(&found.path.display().to_string(), &format!("{error:#}")),
            }
        }
        if loaded.subjects.is_empty() && loaded.unread.is_empty() {
            let named: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let named = named.join(", ");
            loaded.fail(&named, &format!("{named}: nothing to check found in it"));
        }
        loaded
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
