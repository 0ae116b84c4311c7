//! The words of documentation and comments: those in `words.tsv` are replaced by the words of the field, and do not
//! come back.
//!
//! ```text
//! docs/, README.md, CHANGELOG.md ─▶ lines ──────────┐
//! host/, tests/, guest/, … *.rs ─▶ comment lines ──┴─▶ matches of each pattern ─▶ none
//! ```

use std::path::{Path, PathBuf};

use regex_lite::Regex;

const WORD_TABLE: &str = include_str!("words.tsv");

/// Generated pages, and pages that quote other projects.
const EXCLUDED_PAGES: [&str; 2] = ["docs/rules", "docs/coverage.md"];

/// Code whose comments quote other projects.
const EXCLUDED_CODE: [&str; 3] = ["common/compat", "common/cel", "common/yaml/src/error.rs"];

/// Directories of Rust code.
const CODE_DIRECTORIES: [&str; 8] =
    ["certs", "common", "examples", "fuzz", "guest", "host", "tests", "xtask"];

/// One line of the table.
struct RetiredWord {
    pattern: Regex,
    replacement: &'static str,
}

fn retired_words() -> Vec<RetiredWord> {
    let lines = WORD_TABLE.lines().filter(|line| !line.starts_with('#'));
    let word = |line: &'static str| {
        let (pattern, replacement) = line.split_once('\t').unwrap();
        RetiredWord { pattern: Regex::new(pattern).unwrap(), replacement }
    };
    lines.map(word).collect()
}

fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All files below a path with this extension, in order.
fn files(path: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let is_unread =
        |unread: &str| path.strip_prefix(repository_root()).unwrap().starts_with(unread);
    let name = path.file_name().unwrap().to_str().unwrap();
    if EXCLUDED_PAGES.iter().chain(&EXCLUDED_CODE).any(|unread| is_unread(unread))
        || ["node_modules", "target"].contains(&name)
    {
        return;
    }
    if !path.is_dir() {
        found.extend(path.extension().is_some_and(|is| is == extension).then(|| path.to_owned()));
        return;
    }
    let mut entries: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in &entries {
        files(entry, extension, found);
    }
}

/// Lines of files with their places.
fn lines(paths: &[&str], extension: &str, is_read: fn(&str) -> bool) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in paths {
        files(&repository_root().join(path), extension, &mut found);
    }
    let mut lines = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(repository_root()).unwrap().display().to_string();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_read(line)) {
            lines.push((format!("{name}:{}", number + 1), line.to_owned()));
        }
    }
    lines
}

/// A message in the documentation of a rule quotes another project.
fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//") && !line.contains("message:")
}

#[test]
fn replaced_words_stay_out_of_texts() {
    let documentation = lines(&["docs", "README.md", "CHANGELOG.md"], "md", |_| true);
    let comments = lines(&CODE_DIRECTORIES, "rs", is_comment);
    let mut wrong = Vec::new();
    for RetiredWord { pattern, replacement } in retired_words() {
        for (place, line) in documentation.iter().chain(&comments) {
            if pattern.is_match(line) {
                wrong.push(format!("{place}: {}\n    {pattern}: write {replacement}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
