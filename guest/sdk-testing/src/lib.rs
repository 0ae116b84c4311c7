//! Cases of rules, for tests: what each rule accepts and rejects.
//!
//! ```text
//! guest/policies/<policy>/cases/<RULE>.yaml ─▶ opgate-casefile ─▶ Case ─┬─▶ native: the policy's code, in milliseconds
//!                                                                       └─▶ review(): the same through the component
//! ```
//!
//! The format, and what is expected, are those of `opgate-casefile`. Here they are read from a directory, and
//! what is wrong with them fails the test.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "tests may panic, and so may what they share"
)]

pub mod any;
mod fix;
pub mod native;

use std::fs;
use std::path::Path;

pub use opgate_casefile::{
    Case, Expectation, File, Location, PolicyResult, RequestParts, Violation, plural,
    server_version,
};
use serde_json::Value;

/// YAML as a value.
///
/// # Panics
/// Where it is none.
#[must_use]
pub fn yaml(text: &str, whose: &Path) -> Value {
    let json = opgate_yaml::read_strict(text, 64 << 20)
        .unwrap_or_else(|e| panic!("{}: {e}", whose.display()));
    serde_json::from_slice(&json).unwrap_or_else(|e| panic!("{}: {e}", whose.display()))
}

/// All cases of a policy, in the order of their files. `kinds` are those of its routes.
#[must_use]
pub fn read(directory: &Path, kinds: &[&str]) -> Vec<Case> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    paths.sort();
    let file = |path: &std::path::PathBuf| File {
        name: path.file_name().expect("a name").to_string_lossy().into_owned(),
        text: fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
    };
    let files: Vec<_> = paths.iter().map(file).collect();
    opgate_casefile::read(&files, kinds).unwrap_or_else(|wrong| {
        let lines: Vec<_> =
            wrong.iter().map(|wrong| format!("{}/{wrong}", directory.display())).collect();
        panic!("{}", lines.join("\n"))
    })
}
