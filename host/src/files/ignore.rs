//! `.indexignore`: which files of a catalog are none of it, in the syntax of `.gitignore`.
//!
//! Each folder can have such a file; its patterns hold below the folder. The last pattern that
//! matches decides, those of inner folders after those of outer ones; what is in an ignored
//! folder is ignored.

use std::collections::BTreeMap;

use super::folder::{Entry, Folder};

/// Name of the file.
pub(crate) const NAME: &str = ".indexignore";

/// Patterns of all folders.
#[derive(Debug, Default)]
pub(crate) struct Ignore {
    /// By the depth of their folders: outer ones first.
    patterns: BTreeMap<usize, Vec<Pattern>>,
}

#[derive(Debug)]
struct Pattern {
    /// Folder of the pattern, empty or ending in `/`.
    base: String,
    negated: bool,
    only_folders: bool,
    /// Parts between `/`; one that may stand at any depth starts with `**`.
    parts: Vec<String>,
}

impl Ignore {
    /// The patterns of a folder and of those in it. A file of patterns that cannot be read has none.
    pub(crate) fn of(folder: &Folder) -> Self {
        let mut ignore = Self::default();
        for entry in &folder.files {
            let base = entry.path.strip_suffix(NAME);
            if let Some(base) = base.filter(|base| base.is_empty() || base.ends_with('/'))
                && let Ok(bytes) = std::fs::read(&entry.full)
            {
                ignore.add(base, &String::from_utf8_lossy(&bytes));
            }
        }
        ignore
    }

    /// Adds the patterns of a folder (empty, or ending in `/`).
    pub(crate) fn add(&mut self, base: &str, text: &str) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let patterns = self.patterns.entry(base.matches('/').count()).or_default();
        patterns.extend(text.lines().filter_map(|line| Pattern::read(base, line)));
    }

    /// Whether a file is ignored.
    pub(crate) fn ignores(&self, path: &str) -> bool {
        let folders = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        folders.into_iter().any(|folder| self.decides(folder, true)) || self.decides(path, false)
    }

    /// Whether an entry of a folder is ignored; what is refused may be a folder.
    pub(crate) fn ignores_entry(&self, entry: &Entry) -> bool {
        let is_folder = entry.refused.as_ref().is_some_and(|refused| refused.is_folder);
        self.ignores(&entry.path) || is_folder && self.decides(&entry.path, true)
    }

    fn decides(&self, path: &str, is_folder: bool) -> bool {
        let mut patterns = self.patterns.values().flatten().rev();
        let last = patterns.find(|pattern| pattern.matches(path, is_folder));
        last.is_some_and(|pattern| !pattern.negated)
    }
}

impl Pattern {
    fn read(base: &str, line: &str) -> Option<Self> {
        let mut line = line.trim_end_matches('\r');
        while let Some(shorter) = line.strip_suffix(' ').filter(|rest| !rest.ends_with('\\')) {
            line = shorter;
        }
        if line.starts_with('#') {
            return None;
        }
        let (negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (only_folders, line) = line.strip_suffix('/').map_or((false, line), |l| (true, l));
        if line.is_empty() {
            return None;
        }
        let anchored = line.contains('/');
        let mut parts: Vec<String> =
            line.trim_start_matches('/').split('/').map(str::to_owned).collect();
        if !anchored {
            parts.insert(0, "**".to_owned());
        }
        // Everything inside, but not the folder itself.
        if anchored && parts.last().is_some_and(|part| part == "**") {
            parts.push("*".to_owned());
        }
        Some(Self { base: base.to_owned(), negated, only_folders, parts })
    }

    fn matches(&self, path: &str, is_folder: bool) -> bool {
        if self.only_folders && !is_folder {
            return false;
        }
        let Some(path) = path.strip_prefix(&self.base) else { return false };
        let parts: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        let names: Vec<&str> = path.split('/').collect();
        stars(&parts, &names, |part| *part == "**", |part, name| is_like(part, name))
    }
}

/// Matches a list of tokens of which some stand for any number of things. A failure goes back to
/// the last of those only, so that the work is bounded by the product of the lengths.
fn stars<P, T>(
    pattern: &[P],
    things: &[T],
    is_star: impl Fn(&P) -> bool,
    matches: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), things.get(t)) {
            (None, None) => return true,
            (Some(token), _) if is_star(token) => {
                back = Some((p, t));
                p += 1;
                continue;
            }
            (Some(token), Some(thing)) if matches(token, thing) => {
                p += 1;
                t += 1;
                continue;
            }
            _ => {}
        }
        match back {
            Some((star, taken)) if taken < things.len() => {
                back = Some((star, taken + 1));
                p = star + 1;
                t = taken + 1;
            }
            _ => return false,
        }
    }
}

enum Token {
    Star,
    Any,
    One(char),
    Class { negated: bool, sets: Vec<Set> },
}

/// Characters that a class stands for.
enum Set {
    /// Both ends belong to it.
    Range(char, char),
    /// `[:digit:]`
    Named(fn(&char) -> bool),
}

impl Set {
    fn has(&self, c: char) -> bool {
        match self {
            Self::Range(from, to) => (*from..=*to).contains(&c),
            Self::Named(is_in) => is_in(&c),
        }
    }

    /// The names that git knows. They are about ASCII.
    fn named(name: &str) -> Option<Self> {
        Some(Self::Named(match name {
            "alnum" => char::is_ascii_alphanumeric,
            "alpha" => char::is_ascii_alphabetic,
            "blank" => |c| matches!(c, ' ' | '\t'),
            "cntrl" => char::is_ascii_control,
            "digit" => char::is_ascii_digit,
            "graph" => char::is_ascii_graphic,
            "lower" => char::is_ascii_lowercase,
            "print" => |c| c.is_ascii_graphic() || *c == ' ',
            "punct" => char::is_ascii_punctuation,
            "space" => char::is_ascii_whitespace,
            "upper" => char::is_ascii_uppercase,
            "xdigit" => char::is_ascii_hexdigit,
            _ => return None,
        }))
    }
}

fn is_like(pattern: &str, name: &str) -> bool {
    let tokens = tokens(pattern);
    let characters: Vec<char> = name.chars().collect();
    stars(
        &tokens,
        &characters,
        |token| matches!(token, Token::Star),
        |token, c| match token {
            Token::Star => false,
            Token::Any => true,
            Token::One(one) => one == c,
            Token::Class { negated, sets } => sets.iter().any(|set| set.has(*c)) != *negated,
        },
    )
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        tokens.push(match c {
            '*' => Token::Star,
            '?' => Token::Any,
            '\\' => Token::One(rest.next().unwrap_or('\\')),
            '[' => match class(&mut rest.clone()) {
                Some((token, after)) => {
                    rest = after;
                    token
                }
                // Nothing fits such a pattern.
                None => return vec![Token::Class { negated: false, sets: Vec::new() }],
            },
            c => Token::One(c),
        });
    }
    tokens
}

/// `[a-z]`, `[!a]`, `[^a]`, `[[:alpha:]_]`; a `]` right at the start stands for itself. None where the
/// end is missing, or a name is unknown.
fn class<'p>(rest: &mut std::str::Chars<'p>) -> Option<(Token, std::str::Chars<'p>)> {
    let negated = rest.as_str().starts_with(['!', '^']);
    if negated {
        rest.next();
    }
    let mut sets = Vec::new();
    loop {
        let from = match rest.next()? {
            ']' if !sets.is_empty() => {
                return Some((Token::Class { negated, sets }, rest.clone()));
            }
            '[' if rest.as_str().starts_with(':') => {
                let (inner, after) = rest.as_str().split_once(']')?;
                // Without the second colon it is a bracket like any other character.
                if let Some(name) = inner.get(1..).and_then(|inner| inner.strip_suffix(':')) {
                    sets.push(Set::named(name)?);
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
        sets.push(Set::Range(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_hold_as_in_git() {
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
            // What is no name, and names that nobody knows.
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
            let mut ignore = Ignore::default();
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
    fn inner_folders_decide_after_outer_ones() {
        let mut ignore = Ignore::default();
        ignore.add("a/", "!x.md\n/only.yaml");
        ignore.add("", "*.md");
        assert!(ignore.ignores("x.md") && ignore.ignores("b/x.md"));
        assert!(!ignore.ignores("a/x.md"));
        assert!(ignore.ignores("a/only.yaml"));
        assert!(!ignore.ignores("only.yaml") && !ignore.ignores("a/b/only.yaml"));
    }

    #[test]
    fn many_stars_end() {
        let mut ignore = Ignore::default();
        ignore.add("", &format!("{}b\n{}b", "*a".repeat(64), "**/a/".repeat(64)));
        assert!(!ignore.ignores(&"a".repeat(256)));
        assert!(!ignore.ignores(&"a/".repeat(512)));
    }
}
