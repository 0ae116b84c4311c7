//! Texts of one key in YAML, found by its lines.
//!
//! A policy has no YAML parser, and files in ConfigMaps are YAML more often than not. An annotation
//! that holds JSON is written in one of few ways though: in quotes, or as a block below the key.
//! Those are found; anything else is passed over, and so are the structures of YAML itself, such as
//! the properties of a catalog's bundles. What is found is a good guess at what a parser would read:
//! whether it is JSON at all must not be held against it.

use constraints::json;

/// The texts of a key anywhere in a YAML file.
pub(crate) fn texts(yaml: &str, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(value) = value(line, key) else { continue };
        let indent = indent(line);
        if let Some(quote @ ('\'' | '"')) = value.chars().next() {
            // A quoted text may go on in the lines that follow, which are folded.
            let mut text = String::new();
            let mut next = Some(value.get(1..).unwrap_or_default());
            while let Some(line) = next {
                if let Some(end) = closing(line, quote) {
                    text.push_str(line.get(..end).unwrap_or_default());
                    found.push(unquoted(&text, quote));
                    break;
                }
                text.push_str(line);
                text.push(' ');
                next = lines.next().map(str::trim);
            }
        } else if value.starts_with(['|', '>']) {
            let mut text = String::new();
            while let Some(line) =
                lines.next_if(|l| l.trim().is_empty() || self::indent(l) > indent)
            {
                text.push_str(line.trim());
                text.push('\n');
            }
            found.push(text);
        }
    }
    found
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// What follows `key:` on a line.
fn value<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    let line = line.trim();
    let quote = line.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let rest = match quote {
        Some(quote) => line.get(1..)?.strip_prefix(key)?.strip_prefix(quote)?,
        None => line.strip_prefix(key)?,
    };
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

/// Where the quote is that ends the text.
fn closing(line: &str, quote: char) -> Option<usize> {
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' => {
                chars.next();
            }
            '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
            }
            c if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

fn unquoted(text: &str, quote: char) -> String {
    match quote {
        '\'' => text.replace("''", "'"),
        // The escapes of YAML are those of JSON, and some that JSON does not need.
        _ => json::text(format!("\"{text}\"").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_found_however_they_are_written() {
        let yaml = r#"
metadata:
  annotations:
    a/b: '{"a": "it''s"}'
    "a/b": "{\"a\": \"\\n\"}"
    a/bc: '{}'
    a/b: |-
      {"a":
        [1]}

      x
    c: d
    a/b: '{"a":
      1}'
    a/b: {"a": 1}
    a/b : plain
    a/b: 'no end
"#;
        let expected =
            [r#"{"a": "it's"}"#, r#"{"a": "\n"}"#, "{\"a\":\n[1]}\n\nx\n", r#"{"a": 1}"#];
        assert_eq!(texts(yaml, "a/b"), expected);
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(yaml in "([a'\"|:\\\\ é\n]|a:){0,40}") {
            let _ = texts(&yaml, "a");
        }
    }
}
