//! Configurations that `opgate check` does not use, although they are where a user may expect them to apply.
//!
//! ```text
//! current directory, PATHs, their directories ─┐
//! files that are a configuration ──────────────┴▶ is one? ─▶ a warning: name it with --config
//! ```
//!
//! A configuration names components to load, levels and settings. Files under review must not decide these, so only
//! `--config` does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opgate_admission::policy::Configuration;
use opgate_document::Document;
use opgate_text::one_line;

use crate::cli::report::page::shell_word;
use crate::cli::stdin;

/// The usual name of a configuration.
const FILE_NAME: &str = "opgate.yaml";

/// Maximum number of configurations that are reported.
const MAX_CONFIGURATIONS: usize = 20;

/// The configurations of a check without `--config`.
pub(super) struct UnusedConfigurations {
    is_configured: bool,
    /// By the path without links.
    files: BTreeMap<PathBuf, PathBuf>,
}

impl UnusedConfigurations {
    /// Finds them in the current directory, and at the paths of the command or next to them.
    pub(super) fn new(is_configured: bool, paths: &[PathBuf]) -> Self {
        let mut unused = Self { is_configured, files: BTreeMap::new() };
        let directory = |path: &PathBuf| {
            if path.is_dir() {
                Some(path.clone())
            } else if path.as_path() == Path::new(stdin::NAME) {
                None
            } else {
                path.parent().map(Path::to_owned)
            }
        };
        let directories = paths.iter().filter_map(directory);
        for directory in std::iter::once(PathBuf::new()).chain(directories) {
            unused.add(&directory.join(FILE_NAME));
        }
        unused
    }

    /// Adds a file if it is a configuration.
    pub(super) fn add(&mut self, path: &Path) {
        if self.is_configured || self.files.len() >= MAX_CONFIGURATIONS || !path.is_file() {
            return;
        }
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !self.files.contains_key(&real) && is_configuration(path) {
            self.files.insert(real, path.to_owned());
        }
    }

    /// Warns about them, and reports whether there are any.
    pub(super) fn warn(&self) -> bool {
        for path in self.files.values() {
            let shown = path.display().to_string();
            tracing::warn!(
                "{}: not used: its policies evaluate nothing here; to use it, add --config {}",
                one_line(&shown, 1_024),
                shell_word(&shown)
            );
        }
        !self.files.is_empty()
    }
}

fn is_configuration(path: &Path) -> bool {
    let Ok(text) = Configuration::text(path) else { return false };
    let Ok(parts) = opgate_input::yaml::LocatedValue::read(&text) else { return false };
    let document = Document::of(parts.value.to_string());
    document.is_ok_and(|document| opgate_files::is_opgate_configuration(document.root()))
}
