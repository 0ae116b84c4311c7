//! Lines of a source that mutations delete.
//!
//! A line inside a function is deleted alone, if its brackets are closed on it, or together with all lines up
//! to the one that closes them: `if … {` is deleted with its block. Lines that only close something, or that
//! continue (`} else {`), are no mutations. Tests, declarations of rules, tables and comments are skipped,
//! and so is an early return for a rule that is off: it only avoids work.

use std::ops::RangeInclusive;

/// Returns the lines to delete, as indexes, for each mutation.
pub(crate) fn candidates(source: &str) -> Vec<RangeInclusive<usize>> {
    let code = blank_non_code(source);
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        let text = line.trim();
        if text == "#[cfg(test)]" {
            // The next item does not count.
            index = item_end(&lines, index + 1).map_or(lines.len(), |end| end + 1);
            continue;
        }
        if is_function(text) {
            let Some((open, end)) = body(&lines, index) else { break };
            let mut inside = open + 1;
            while inside < end {
                if let Some(last) = early_return_end(&lines, inside) {
                    inside = last + 1;
                    continue;
                }
                found.extend(statement(&lines, inside, end));
                inside += 1;
            }
            index = end;
        }
        index += 1;
    }
    found
}

fn is_function(line: &str) -> bool {
    let mut words = line.split([' ', '(']);
    let is_before = |word: &&str| ["pub", "const", "crate)", "super)", "unsafe"].contains(word);
    words.find(|word| !is_before(word)) == Some("fn")
}

/// Returns the lowest and the final depth of the brackets of a line.
fn depths(line: &str) -> (i32, i32) {
    let (mut lowest, mut depth) = (0, 0);
    for c in line.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        lowest = lowest.min(depth);
    }
    (lowest, depth)
}

/// Returns the line on which what a line opens is closed.
fn closing(lines: &[&str], start: usize) -> Option<usize> {
    let mut depth = 0;
    for (index, line) in lines.iter().enumerate().skip(start) {
        depth += depths(line).1;
        if depth <= 0 {
            return Some(index);
        }
    }
    None
}

/// Returns the last line of the item that starts here.
fn item_end(lines: &[&str], start: usize) -> Option<usize> {
    let mut at = start;
    // Parameters may stand on lines before the block.
    loop {
        let end = closing(lines, at)?;
        let text = lines.get(end)?.trim_end();
        if text.ends_with(['}', ';']) {
            return Some(end);
        }
        at = end + 1;
    }
}

/// Returns the lines on which the block of a function starts and ends.
fn body(lines: &[&str], start: usize) -> Option<(usize, usize)> {
    let end = item_end(lines, start)?;
    let opens = |line: &&str| line.trim_end().ends_with('{');
    let open = lines.get(start..=end)?.iter().position(opens);
    // A function on one line has no lines to delete.
    Some(open.map_or((end, end), |open| (start + open, end)))
}

/// Returns the last line of `if !report.is_on(&RULE) { return; }`.
fn early_return_end(lines: &[&str], start: usize) -> Option<usize> {
    let last = closing(lines, start)?;
    let head = lines.get(start)?.trim();
    let rest = lines.get(start + 1..=last)?;
    let ends = |line: &&str| line.trim().starts_with("return");
    let asks = |line: &&str| line.contains(".is_on(");
    let is_it = head.starts_with("if ") && (asks(&head) || rest.iter().any(asks));
    let inner = rest.iter().rev().nth(1)?;
    let is_short = rest.iter().filter(|line| line.trim().ends_with(';')).count() == 1;
    (is_it && is_short && ends(inner)).then_some(last)
}

fn statement(lines: &[&str], start: usize, end: usize) -> Option<RangeInclusive<usize>> {
    let line = lines.get(start)?;
    let text = line.trim();
    let (lowest, depth) = depths(line);
    let says_nothing = text.is_empty() || text.starts_with("#[");
    if says_nothing || lowest < 0 || is_function(text) {
        return None;
    }
    let mut last = if depth == 0 { start } else { closing(lines, start)? };
    // `} else {` belongs to the same statement.
    while let Some(line) = lines.get(last).filter(|line| depths(line).1 == 0 && last > start)
        && line.trim_end().ends_with('{')
    {
        last = lines.iter().enumerate().skip(last + 1).find(|(_, l)| depths(l).0 < 0)?.0;
    }
    (last < end).then_some(start..=last)
}

/// Returns the source with blanks in the place of comments and of what is in texts.
fn blank_non_code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| text(rest)).or_else(|| character(rest));
        let (part, after) = rest.split_at(skipped.unwrap_or(c.len_utf8()));
        match skipped {
            Some(_) => out.extend(part.chars().map(|c| if c == '\n' { c } else { ' ' })),
            None => out.push(c),
        }
        rest = after;
    }
    out
}

fn comment(rest: &str) -> Option<usize> {
    rest.starts_with("//").then(|| rest.find('\n').unwrap_or(rest.len()))
}

/// Returns the length of a string literal: `"…"`, `r"…"` or `r#"…"#`. Its type follows other code, so a name
/// that ends in `r` before a literal is not a concern.
fn text(rest: &str) -> Option<usize> {
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inside = raw.get(hashes..)?.strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(2 + hashes + inside.find(&end)? + end.len());
    }
    let inside = rest.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = inside.char_indices().find(|(_, c)| {
        let ends = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    Some(1 + end?.0 + 1)
}

/// Returns `'x'` or `'\n'`; a lifetime has no second quote so soon.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let mut chars = inside.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return Some(1 + inside.get(2..)?.find('\'')? + 3);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| 1 + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r##"//! fn no() {
rule! {
    /// fn docs() {
    A_01: Deny { on: [X: Create] }
}

const NAMES: [&str; 2] = [
    "a",
];

pub(crate) fn check(
    name: &str,
) -> bool {
    let brackets = "({[";
    // A comment.
    if name == r#"}"# || name.starts_with('{') {
        report.add(1);
    } else if name == "x" {
        return true;
    }
    if name.is_empty() || !report.is_on(&A_01) {
        return false;
    }
    let found = list
        .iter()
        .filter(|n| *n > 1);
    call(
        1,
        '\'',
    );
    found.count() > 0
}

fn short() -> u8 { 1 }

#[cfg(test)]
mod tests {
    fn test() {
        x();
    }
}

fn last() {
    y();
}
"##;

    #[test]
    fn statements_and_lines_of_functions_are_deleted() {
        let lines: Vec<_> = SOURCE.lines().collect();
        let shown = |range: RangeInclusive<usize>| {
            let rest = range.end() - range.start();
            format!("{}+{rest}", lines[*range.start()].trim())
        };
        let found: Vec<_> = candidates(SOURCE).into_iter().map(shown).collect();
        let expected = [
            "let brackets = \"({[\";+0",
            "if name == r#\"}\"# || name.starts_with('{') {+4",
            "report.add(1);+0",
            "return true;+0",
            "let found = list+0",
            ".iter()+0",
            ".filter(|n| *n > 1);+0",
            "call(+3",
            "1,+0",
            "'\\'',+0",
            "found.count() > 0+0",
            "y();+0",
        ];
        assert_eq!(found, expected);
    }
}
