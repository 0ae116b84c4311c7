//! `.indexignore`: the files of a directory that do not belong to the catalog, in the syntax of `.gitignore`.
//!
//! Each directory can have such a file. Its patterns apply below the directory. The last pattern that matches
//! decides; those of inner directories come after those of outer ones. The content of an ignored directory is
//! ignored. The crate `ignore` matches. This module adds features of git that the crate lacks: names of
//! classes, and literal braces.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::directory::{DirectoryListing, Entry};
use opgate_input::read::{ReadPurpose, Reader};

/// Name of the file.
pub const FILE_NAME: &str = ".indexignore";

/// Maximum bytes of all patterns of a catalog. This is enough in practice, and to compile patterns
/// takes time.
const MAX_PATTERN_BYTES: u64 = 64 << 10;

/// Patterns of all directories.
#[derive(Debug, Default)]
pub struct IgnorePatterns {
    /// By their directories, which are empty or end in `/`.
    patterns: BTreeMap<String, Gitignore>,
    /// Folders that were queried, and whether they are ignored.
    ignored_directories: RefCell<HashMap<String, bool>>,
}

impl IgnorePatterns {
    /// Reads the patterns of a directory and of its subdirectories.
    ///
    /// # Errors
    /// If a file of patterns cannot be read, or is too large: its path, and the reason.
    pub fn of(directory: &DirectoryListing, reader: &Reader) -> Result<Self, (String, String)> {
        let mut ignore = Self::default();
        let mut left = MAX_PATTERN_BYTES;
        for entry in &directory.files {
            let Some(base) = pattern_directory(&entry.path) else { continue };
            let fail = |why: String| (entry.path.clone(), why);
            let too_many = || {
                let most = opgate_text::units::bytes(64 << 10);
                fail(format!("more than {most} of patterns"))
            };
            if let Some(refused) = &entry.rejection {
                return Err(fail(refused.message.clone()));
            }
            let opened = entry.file_path(directory).open().map_err(|e| fail(e.to_string()))?;
            left = left.checked_sub(opened.size).ok_or_else(too_many)?;
            let bytes =
                reader.read(opened, true, ReadPurpose::Scan).map_err(|e| fail(e.to_string()))?;
            ignore.add(base, &String::from_utf8_lossy(&bytes));
        }
        Ok(ignore)
    }

    /// Adds the patterns of a directory (empty, or ending in `/`).
    pub fn add(&mut self, base: &str, text: &str) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines().filter_map(translate) {
            // An invalid pattern matches nothing, as in git.
            let _ = builder.add_line(None, &line);
        }
        if let Ok(patterns) = builder.build() {
            self.patterns.insert(base.to_owned(), patterns);
        }
        self.ignored_directories.borrow_mut().clear();
    }

    /// Reports whether a file is ignored.
    pub fn ignores(&self, path: &str) -> bool {
        let directory = path.rsplit_once('/').map(|(directory, _)| directory);
        directory.is_some_and(|directory| self.ignores_directory(directory))
            || self.is_ignored_by_innermost(path, false)
    }

    /// Reports whether a directory, or one around it, is ignored. The outer ones are checked first.
    fn ignores_directory(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for directory in ends.filter_map(|end| path.get(..end)) {
            let known = self.ignored_directories.borrow().get(directory).copied();
            let ignored = known.unwrap_or_else(|| {
                let ignored = self.is_ignored_by_innermost(directory, true);
                self.ignored_directories.borrow_mut().insert(directory.to_owned(), ignored);
                ignored
            });
            if ignored {
                return true;
            }
        }
        false
    }

    /// Reports whether an entry of a directory is ignored. A refused entry can be a directory.
    pub fn ignores_entry(&self, entry: &Entry) -> bool {
        let is_directory = entry.rejection.as_ref().is_some_and(|refused| refused.can_be_directory);
        self.ignores(&entry.path) || is_directory && self.is_ignored_by_innermost(&entry.path, true)
    }

    /// Returns the decision of the innermost directory that has one.
    fn is_ignored_by_innermost(&self, path: &str, is_directory: bool) -> bool {
        let ends = path.rmatch_indices('/').map(|(slash, _)| slash + 1).chain([0]);
        for end in ends {
            let Some((base, name)) = path.split_at_checked(end) else { continue };
            match self.patterns.get(base).map(|patterns| patterns.matched(name, is_directory)) {
                Some(Match::Ignore(_)) => return true,
                Some(Match::Whitelist(_)) => return false,
                Some(Match::None) | None => {}
            }
        }
        false
    }
}

/// Returns the directory of a pattern file, if it is one.
pub(super) fn pattern_directory(path: &str) -> Option<&str> {
    path.strip_suffix(FILE_NAME).filter(|base| base.is_empty() || base.ends_with('/'))
}

/// Returns a pattern for the crate; none if it can match nothing.
fn translate(line: &str) -> Option<String> {
    let mut pattern = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => pattern.extend(['\\', rest.next()?]),
            // Git has no alternatives.
            '{' | '}' => pattern.extend(['\\', c]),
            '[' => parse_class(&mut rest, &mut pattern)?,
            c => pattern.push(c),
        }
    }
    Some(pattern)
}

/// Returns the ranges of `[:digit:]`: first and last characters. The names are those of git, for ASCII only.
fn character_range(name: &str) -> Option<&'static [(char, char)]> {
    Some(match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "cntrl" => &[('\0', '\u{1f}'), ('\u{7f}', '\u{7f}')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    })
}

/// Parses `[a-z]`, `[!a]`, `[^a]`, `[[:alpha:]_]`. A `]` directly at the start is literal. None if the end is
/// missing, or a name is unknown.
fn parse_class(rest: &mut std::str::Chars<'_>, pattern: &mut String) -> Option<()> {
    let is_negated = rest.as_str().starts_with(['!', '^']);
    if is_negated {
        rest.next();
    }
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let from = match rest.next()? {
            ']' if !ranges.is_empty() => break,
            '[' if rest.as_str().starts_with(':') => {
                let (inner, after) = rest.as_str().split_once(']')?;
                // Without the second colon, the bracket is literal.
                if let Some(name) = inner.get(1..).and_then(|inner| inner.strip_suffix(':')) {
                    ranges.extend(character_range(name)?);
                    *rest = after.chars();
                    continue;
                }
                '['
            }
            '\\' => rest.next()?,
            c => c,
        };
        let mut ahead = rest.clone();
        let to = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) if to != ']' => {
                *rest = ahead;
                if to == '\\' { rest.next()? } else { to }
            }
            _ => from,
        };
        ranges.push((from, to));
    }
    write_class(is_negated, &ranges, pattern);
    Some(())
}

/// Writes a class without escapes, which the crate does not support in a class. Special characters are placed
/// where they are literal.
fn write_class(is_negated: bool, ranges: &[(char, char)], pattern: &mut String) {
    let mut single = String::new();
    let mut inner = String::new();
    for &(from, to) in ranges {
        let (mut from, mut to) = (from, to);
        // Special characters at the ends of a range are separate.
        while from <= to && is_special(from) {
            single.push(from);
            let Some(next) = char::from_u32(u32::from(from) + 1) else { break };
            from = next;
        }
        while from <= to && is_special(to) {
            single.push(to);
            let Some(before) = u32::from(to).checked_sub(1).and_then(char::from_u32) else { break };
            to = before;
        }
        if from < to {
            inner.extend([from, '-', to]);
        } else if from == to {
            inner.push(from);
        }
    }
    let has = |c: char| single.contains(c);
    if inner.is_empty() && !is_negated && !has(']') {
        // These are literal only in the first place.
        for (index, c) in single.chars().enumerate() {
            pattern.push(if index == 0 { '{' } else { ',' });
            pattern.extend(['\\', c]);
        }
        pattern.push('}');
        return;
    }
    pattern.push('[');
    pattern.push_str(if is_negated { "!" } else { "" });
    pattern.push_str(if has(']') { "]" } else { "" });
    pattern.push_str(&inner);
    pattern.extend(['!', '^', '-'].into_iter().filter(|c| has(*c)));
    pattern.push(']');
}

fn is_special(c: char) -> bool {
    matches!(c, ']' | '!' | '^' | '-')
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_git() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("README.md", &["README.md", "a/README.md"], &["README.mdx"]),
            ("/README.md", &["README.md"], &["a/README.md"]),
            ("a/b", &["a/b", "a/b/c"], &["x/a/b"]),
            ("tmp/", &["tmp/x", "a/tmp/x/y"], &["tmp"]),
            ("*.txt", &["a.txt", "b/.txt"], &["a.txt.yaml"]),
            ("**/c", &["c", "a/b/c"], &["ac"]),
            ("a/**/c", &["a/c", "a/b/c", "a/b/b/c"], &["c", "b/a/c"]),
            ("a/**", &["a/x", "a/b/c"], &["a", "b/a/x"]),
            ("?[0-9].[!y]*", &["a1.json", "b2.x"], &["a1.yaml", "aa.json"]),
            ("*.md\n!keep.md", &["a.md"], &["keep.md", "a/keep.md"]),
            ("x\n!x/y", &["x/y"], &["y"]),
            ("\\#a\n\\!b\nc\\ \n# comment\n\n", &["#a", "!b", "c "], &["c", "# comment"]),
            ("a \r\n", &["a"], &["a "]),
            ("[", &[], &["[", "a"]),
            ("[ab", &[], &["[ab", "a"]),
            ("[[:alpha:]].txt", &["a.txt", "B.txt"], &["5.txt", "é.txt", ":.txt"]),
            ("[[:upper:][:digit:]_]*", &["A1", "1", "_x"], &["a", "-"]),
            ("[![:alpha:]]", &["5", "["], &["a", "Z"]),
            ("[[:alpha:]-z]", &["b", "-", "z"], &["]", "1"]),
            ("[a[:digit:]b]x", &["ax", "5x", "bx"], &["x", ":x"]),
            ("x[[:alnum:]][[:blank:]][[:cntrl:]]", &["x1\t\u{7}"], &["x1\t "]),
            ("x[[:graph:]][[:lower:]][[:print:]]", &["x!a "], &["x a ", "x!A "]),
            ("x[[:punct:]][[:space:]][[:xdigit:]]", &["x- F"], &["x- g", "xa F"]),
            // Invalid and unknown names.
            ("[[:alpha]", &["a", "[", "l"], &["x", "]"]),
            ("[[:]", &["[", ":"], &["x"]),
            ("[[:]]", &["[]", ":]"], &["[", "x"]),
            ("[[:nope:]]", &[], &["n", ":", "[", "]"]),
            ("[[:ALPHA:]]", &[], &["a"]),
            ("[[::]]", &[], &[":", ":]"]),
            ("[[:alpha:]", &[], &["a", "["]),
            ("[]a]", &["]", "a"], &["b"]),
        ];
        for (text, ignored, kept) in cases {
            let mut ignore = IgnorePatterns::default();
            ignore.add("", text);
            for path in *ignored {
                assert!(ignore.ignores(path), "{text:?} ignores {path}");
            }
            for path in *kept {
                assert!(!ignore.ignores(path), "{text:?} keeps {path}");
            }
        }
    }

    #[test]
    fn inner_ignore_files_override_outer_ones() {
        let mut ignore = IgnorePatterns::default();
        ignore.add("a/", "!x.md\n/only.yaml");
        ignore.add("", "*.md");
        assert!(ignore.ignores("x.md") && ignore.ignores("b/x.md"));
        assert!(!ignore.ignores("a/x.md"));
        assert!(ignore.ignores("a/only.yaml"));
        assert!(!ignore.ignores("only.yaml") && !ignore.ignores("a/b/only.yaml"));
    }

    #[test]
    fn patterns_with_many_wildcards_are_matched_quickly() {
        let mut ignore = IgnorePatterns::default();
        ignore.add("", &format!("{}b\n{}b", "*a".repeat(64), "**/a/".repeat(64)));
        assert!(!ignore.ignores(&"a".repeat(256)));
        assert!(!ignore.ignores(&"a/".repeat(512)));
    }
}
