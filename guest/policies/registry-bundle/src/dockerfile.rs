//! Labels of `bundle.Dockerfile`, compared with the annotations.
//!
//! ```text
//! text ─▶ instructions (lines joined, comments removed) ─▶ LABEL ─▶ words ─▶ key, value, line
//! ```

use std::collections::BTreeMap;

use opgate_sdk::go::quote;
use opgate_sdk::{Report, rule, rules};

use crate::annotations::Annotations;
use crate::directory::{BUNDLE, BundleDirectory};

rules![RBF_22];

const DOCKERFILE: &str = "bundle.Dockerfile";
/// The labels that describe the tool that generated the bundle.
const METRICS: &str = "operators.operatorframework.io.metrics.";

rule! {
    /// labels of bundle.Dockerfile agree with annotations.yaml
    ///
    /// A `LABEL` in `bundle.Dockerfile` at the top level of the bundle has the value of the
    /// annotation with the same key. Labels without such an annotation, values with a variable
    /// (`$`), and the labels `operators.operatorframework.io.metrics.*` are not compared. If
    /// several labels have the same key, the last one counts. A file of more than 64 KiB is not
    /// evaluated.
    ///
    /// # Why
    ///
    /// The registry on the cluster reads the annotations and not the labels of the image, so a
    /// different label misleads users who inspect the image. The annotations are authoritative, see
    /// OpenShift 4.12, Operators, *Bundle format*, Annotations.
    ///
    /// # Remediation
    ///
    /// Set the label to the value of the annotation, or generate both again with `make bundle`.
    ///
    /// # Accepted
    ///
    /// ```text
    /// LABEL operators.operatorframework.io.bundle.channels.v1="beta,stable"
    /// ```
    ///
    /// # Rejected
    ///
    /// The annotation is `beta,stable`:
    ///
    /// ```text
    /// LABEL operators.operatorframework.io.bundle.channels.v1=alpha
    /// ```
    ///
    /// `message: label operators.operatorframework.io.bundle.channels.v1 is "alpha" in
    /// bundle.Dockerfile but "beta,stable" in annotations.yaml, which is authoritative`
    RBF_22: Warn {
        name: "dockerfile-labels-match-annotations",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L470, L21755-21767", "OCP 4.15 L336-366", "OCP 4.5 L295-296", "OKD L77"],
    }
}

pub(crate) fn check(
    directory: &BundleDirectory<'_>,
    annotations: &Annotations<'_>,
    report: &mut Report<'_>,
) {
    let Some(file) = directory.file(DOCKERFILE) else { return };
    let Some(text) = directory.text(file) else { return };
    for (key, Label { value, line }) in labels(&text) {
        // A variable has a value only when the image is built, and no program reads the metrics.
        if value.contains('$') || key.starts_with(METRICS) {
            continue;
        }
        if let Some(annotation) = annotations.get(&key)
            && annotation != value
        {
            let message = format!(
                "label {key} is {} in bundle.Dockerfile but {} in annotations.yaml, which is authoritative",
                quote(&value),
                quote(annotation)
            );
            report.add(&RBF_22, file.line_field(line), message);
        }
    }
}

/// The values of the labels in `bundle.Dockerfile`.
pub(crate) fn label_values(directory: &BundleDirectory<'_>) -> BTreeMap<String, String> {
    let text = directory.file(DOCKERFILE).and_then(|file| directory.text(file));
    let labels = text.map(|text| labels(&text)).unwrap_or_default();
    labels.into_iter().map(|(key, label)| (key, label.value)).collect()
}

/// The value of a label, and the line of its key, counted from 0.
#[derive(Debug, PartialEq)]
struct Label {
    value: String,
    line: usize,
}

/// The labels, the last value of each.
fn labels(text: &str) -> BTreeMap<String, Label> {
    let mut labels = BTreeMap::new();
    for instruction in instructions(text) {
        let text = instruction.text.trim_start();
        let Some((name, rest)) = text.split_once(char::is_whitespace) else { continue };
        if !name.eq_ignore_ascii_case("LABEL") {
            continue;
        }
        let before = instruction.text.len() - rest.len();
        let line = |word: &Word| instruction.line(before + word.start);
        let words = words(rest);
        match words.as_slice() {
            // The old syntax, `LABEL key the rest of the line`.
            [first, others @ ..] if !others.is_empty() && !first.text.contains('=') => {
                let value = rest.trim_start().split_once(char::is_whitespace);
                let value = value.map_or("", |(_, value)| value).trim();
                let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                let all = || others.iter().map(|word| word.text.as_str()).collect::<Vec<_>>();
                let value = value.map_or_else(|| all().join(" "), str::to_owned);
                labels.insert(first.text.clone(), Label { value, line: line(first) });
            }
            words => labels.extend(words.iter().filter_map(|word| {
                let (key, value) = word.text.split_once('=')?;
                Some((key.to_owned(), Label { value: value.to_owned(), line: line(word) }))
            })),
        }
    }
    labels
}

/// An instruction on one line.
#[derive(Default)]
struct Instruction {
    text: String,
    /// The offsets in the text at which lines of the file start, and the numbers of the lines from
    /// 0, in order.
    starts: Vec<(usize, usize)>,
}

impl Instruction {
    fn push(&mut self, text: &str, line: usize) {
        self.starts.push((self.text.len(), line));
        self.text.push_str(text);
    }

    /// The line of the file that contains an offset.
    fn line(&self, offset: usize) -> usize {
        let after = self.starts.partition_point(|(start, _)| *start <= offset);
        self.starts.get(after.saturating_sub(1)).map_or(0, |(_, line)| *line)
    }
}

/// Instructions: a line that ends in a backslash continues in the next line, and comments between
/// them do not count.
fn instructions(text: &str) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    let mut open = Instruction::default();
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || trimmed.is_empty() && !open.text.is_empty() {
            continue;
        }
        if let Some(start) = trimmed.strip_suffix('\\') {
            open.push(start, number);
            open.text.push(' ');
        } else {
            open.push(trimmed, number);
            instructions.push(std::mem::take(&mut open));
        }
    }
    instructions.push(open);
    instructions
}

/// A word, and its offset in the text.
struct Word {
    text: String,
    start: usize,
}

/// Words, split like in a shell, without quotes.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.char_indices();
    while let Some((start, c)) = characters.next() {
        if quote.is_none() && c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = &mut word.get_or_insert_with(|| Word { text: String::new(), start }).text;
        match quote {
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ if c == '\\' && quote != Some('\'') => word.extend(characters.next().map(|(_, c)| c)),
            _ => word.push(c),
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
        let labels: Vec<_> = labels
            .iter()
            .map(|(k, label)| (k.as_str(), label.value.as_str(), label.line))
            .collect();
        assert_eq!(
            labels,
            [
                ("a", "last", 8),
                ("b", "two words", 2),
                ("c", "th\"ree", 2),
                ("d", "4", 3),
                ("e", "5 5", 5),
                ("f", "the rest", 6),
                ("g", "quoted rest", 7),
                ("i", "open", 12),
                ("j", "", 13),
            ]
        );
    }
}
