//! RBF-22: labels of `bundle.Dockerfile` that differ from the annotations.
//!
//! ```text
//! text ─▶ instructions (lines joined, comments left out) ─▶ LABEL ─▶ words ─▶ key, value
//! ```

use std::collections::BTreeMap;

use opgate_sdk::go::quote;

use crate::annotations::Annotations;
use crate::findings::Findings;
use crate::folder::Folder;

const DOCKERFILE: &str = "bundle.Dockerfile";

pub(crate) fn judge(
    folder: &Folder<'_>,
    annotations: &Annotations<'_>,
    findings: &mut Findings<'_>,
) {
    let Some(file) = folder.file(DOCKERFILE) else { return };
    let Some(text) = folder.text(file) else { return };
    for (key, label) in labels(&text) {
        // Whether a variable is the same nobody knows before the image is built.
        if label.contains('$') {
            continue;
        }
        if let Some(annotation) = annotations.get(&key)
            && annotation != label
        {
            let message = format!(
                "label {key} is {} in bundle.Dockerfile but {} in annotations.yaml, which is authoritative",
                quote(&label),
                quote(annotation)
            );
            findings.warn("RBF-22", file.text_field(), message);
        }
    }
}

/// The labels, the last value of each.
fn labels(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for instruction in instructions(text) {
        let instruction = instruction.trim();
        let Some((name, rest)) = instruction.split_once(char::is_whitespace) else { continue };
        if !name.eq_ignore_ascii_case("LABEL") {
            continue;
        }
        let words = words(rest);
        match words.as_slice() {
            // The old form, `LABEL key the rest of the line`.
            [first, _, ..] if !first.contains('=') => {
                let value = rest.trim_start().split_once(char::is_whitespace);
                let value = value.map_or("", |(_, value)| value).trim();
                let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                let value = value
                    .map_or_else(|| words.get(1..).unwrap_or_default().join(" "), str::to_owned);
                labels.insert(first.clone(), value);
            }
            words => {
                let pairs = words.iter().filter_map(|word| word.split_once('='));
                labels.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
            }
        }
    }
    labels
}

/// Instructions: a line that ends in a backslash goes on in the next one, comments between them do not
/// count.
fn instructions(text: &str) -> Vec<String> {
    let mut instructions = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || trimmed.is_empty() && !open.is_empty() {
            continue;
        }
        if let Some(start) = trimmed.strip_suffix('\\') {
            open.push_str(start);
            open.push(' ');
        } else {
            open.push_str(trimmed);
            instructions.push(std::mem::take(&mut open));
        }
    }
    instructions.push(open);
    instructions
}

/// Words as a shell cuts them, without quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match quote {
            None if c.is_whitespace() => words.extend(word.take()),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            Some(open) if c == open => quote = None,
            _ if c == '\\' && quote != Some('\'') => {
                word.get_or_insert_default().extend(characters.next());
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_a_build_reads_them() {
        let text = r#"FROM scratch
# LABEL a=comment
LABEL a=1 b="two words" c='th"ree'
label d=4 \
  # between
  e=5\ 5
LABEL f the "rest"
LABEL g "quoted rest"
LABEL a=last
LABEL
LABEL h
COPY x /y
LABEL i="open
LABEL j=\"#;
        let labels = labels(text);
        let labels: Vec<_> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            labels,
            [
                ("a", "last"),
                ("b", "two words"),
                ("c", "th\"ree"),
                ("d", "4"),
                ("e", "5 5"),
                ("f", "the rest"),
                ("g", "quoted rest"),
                ("i", "open"),
                ("j", ""),
            ]
        );
    }
}
