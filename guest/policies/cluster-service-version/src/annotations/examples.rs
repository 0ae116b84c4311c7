//! The annotation `alm-examples`, or `olm.examples` if that is absent, and its syntax.
//!
//! ```text
//! annotations ─▶ text ─▶ JSON? ─▶ valid for go-yaml? ─▶ Examples ─▶ example_apis
//! ```
//!
//! Upstream checks that the text is JSON and then reads it as YAML, because it begins with `[`.
//! Text that is JSON but not YAML is therefore rejected like a list of values that are not objects.

use std::borrow::Cow;

use opgate_compat::json::Kind;
use opgate_sdk::{Document, Fix, rule, rules};

use super::field;
use super::lists::{self, Element, JsonSpan};
use crate::csv::{Csv, annotation};
use crate::targets::{CATALOG, CSV};

rules![CSV_52, CSV_53, CSV_54, CSV_55];

/// The annotation with the examples.
pub(super) const EXAMPLES: &str = "alm-examples";
/// The annotation that is read if the first one is absent.
const OTHER_EXAMPLES: &str = "olm.examples";

/// Maximum number of characters that a message shows before the mark.
const MAX_SHOWN_CHARS: usize = 60;

/// Readable examples.
pub(super) struct Examples {
    /// The annotation.
    pub(super) name: &'static str,
    /// Whether the annotation must be evaluated.
    pub(super) is_new: bool,
    /// The examples, in order.
    pub(super) all: Vec<Example>,
    text: String,
}

/// An element of the list of examples.
pub(super) struct Example {
    api_version: JsonSpan,
    kind: JsonSpan,
    pub(super) has_metadata: bool,
    pub(super) has_spec: bool,
}

impl Examples {
    /// `apiVersion` and `kind` of an example.
    pub(super) fn api(&self, example: &Example) -> (Cow<'_, str>, Cow<'_, str>) {
        let text = |part: &JsonSpan| part.text(&self.text).unwrap_or_default();
        (text(&example.api_version), text(&example.kind))
    }
}

/// Evaluates the annotations. Returns the examples if they, or the APIs that are provided, must be
/// evaluated.
pub(super) fn check(csv: &mut Csv<'_, '_>, apis_are_new: bool) -> Option<Examples> {
    let (is_first, is_other) = (csv.has_annotation(EXAMPLES), csv.has_annotation(OTHER_EXAMPLES));
    // The content of the first annotation has no effect on the other, but its absence has.
    let is_first_new = csv.touches_annotation(EXAMPLES);
    let is_new = is_first_new || csv.touches_annotation(OTHER_EXAMPLES);
    check_presence(csv, is_first || is_other, is_new);
    check_single_annotation(csv, is_first && is_other && is_new);
    let (name, is_new) = if is_first { (EXAMPLES, is_first_new) } else { (OTHER_EXAMPLES, is_new) };
    if !(is_first || is_other) || !(is_new || apis_are_new) {
        return None;
    }
    // Go reads null as an empty text.
    let text = csv.annotation(name).unwrap_or_default();
    let all = check_examples(csv, name, &text, is_new)?;
    Some(Examples { name, is_new, all, text })
}

rule! {
    /// a ClusterServiceVersion has annotations, including examples
    ///
    /// There is at least one annotation, and `alm-examples` or `olm.examples` is set. An empty text
    /// counts as set. Copies are exempt. An UPDATE of an object without annotations is evaluated
    /// only if it changes the annotations as a whole, and any other UPDATE only if it changes one
    /// of these two.
    ///
    /// # Why
    ///
    /// The console uses the example as the initial content of a new custom resource. Without an
    /// example, a user starts with empty fields.
    ///
    /// # Remediation
    ///
    /// Add `alm-examples` with an example for each owned API. `operator-sdk generate bundle` makes
    /// it from `config/samples`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   annotations:
    ///     alm-examples: '[{"apiVersion":"etcd.database.coreos.com/v1beta2","kind":"EtcdCluster"}]'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   name: memcached-operator.v0.0.1
    /// ```
    ///
    /// `message: annotations not found`
    CSV_52: Warn {
        name: "csv-has-alm-examples",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L22672-22679", "OCP 4.15 L17241-17400", "api pkg/validation/internal/csv.go"],
    }
}

fn check_presence(csv: &mut Csv<'_, '_>, is_there: bool, is_new: bool) {
    if csv.annotations().is_empty() {
        if csv.touches_json("/metadata/annotations") {
            csv.add(&CSV_52, "metadata.annotations", "annotations not found");
        }
    } else if !is_there && is_new {
        csv.add(&CSV_52, "metadata.annotations", "example annotations not found");
    }
}

rule! {
    /// examples are in one annotation only
    ///
    /// `alm-examples` and `olm.examples` are not both set. If they are, the rules for examples
    /// evaluate `alm-examples` only. Copies are exempt. An UPDATE is evaluated only if it changes
    /// one of these annotations.
    ///
    /// # Why
    ///
    /// No program reads the second annotation, so its content gets out of date.
    ///
    /// # Remediation
    ///
    /// Move the examples to `alm-examples`, and remove `olm.examples`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {alm-examples: '[]'}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {alm-examples: '[]', olm.examples: '[]'}}
    /// ```
    ///
    /// message: `` both `alm-examples` and `olm.examples` are present. Checking only
    /// `alm-examples` ``
    CSV_53: Warn {
        name: "examples-in-one-annotation",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["api pkg/validation/internal/csv.go"],
    }
}

fn check_single_annotation(csv: &mut Csv<'_, '_>, are_new: bool) {
    if are_new {
        let message =
            "both `alm-examples` and `olm.examples` are present. Checking only `alm-examples`";
        csv.add(&CSV_53, &field(OTHER_EXAMPLES), message);
        csv.fix_with(&CSV_53, |csv| {
            let title = format!("remove {OTHER_EXAMPLES}, which no program reads");
            let [first, other] = [EXAMPLES, OTHER_EXAMPLES].map(|name| csv.annotation(name));
            let fix = if first == other { Fix::safe(title) } else { Fix::needs_review(title) };
            Some(fix.remove(annotation(OTHER_EXAMPLES)))
        });
    }
}

rule! {
    /// examples are JSON
    ///
    /// The annotation `alm-examples`, or `olm.examples` if that is absent, is empty or JSON. The
    /// message has the number of bytes up to and including the first wrong one, its line and column
    /// in the text of the annotation, and the end of that line up to it. Copies are exempt. An
    /// UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// Neither the console nor OLM can read the examples. The validators of operator-framework/api
    /// reject the bundle with a message that begins in the same way, and repeats the whole text.
    ///
    /// # Remediation
    ///
    /// Correct the text before the mark in the message. Often it is a comma before a closing
    /// bracket, or a comment.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {alm-examples: '[]'}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {alm-examples: '[{"apiVersion":"a/v1",}]'}}
    /// ```
    ///
    /// `message: invalid character at 23: line 1, column 23: [{"apiVersion":"a/v1",}<--(see the invalid
    /// character)`
    CSV_54: Deny {
        name: "examples-are-json",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle, Manifest],
        source: [
            "OCP 4.12 L19374-19378, L20764-20775",
            "OCP 4.15 L14404, L15216-15342",
            "api pkg/validation/internal/csv.go",
        ],
    }
}

/// The examples; none if upstream cannot read them.
fn check_examples(
    csv: &mut Csv<'_, '_>,
    name: &str,
    text: &str,
    is_new: bool,
) -> Option<Vec<Example>> {
    let mut all = Vec::new();
    let mut wrong = None;
    if text.is_empty() {
        return Some(all);
    }
    let visit = |element: Element<4>| {
        if wrong.is_some() {
            return;
        }
        match parse_example(&element, text) {
            Some(example) => all.push(example),
            None => wrong = Some(element.index),
        }
    };
    let kind =
        match lists::for_each_element(text, ["apiVersion", "kind", "metadata", "spec"], visit) {
            Ok(kind) => kind,
            Err(error) => {
                if is_new {
                    let at = format!("{}.error", field(name));
                    csv.add(&CSV_54, &at, syntax_error(text, error.offset));
                }
                return None;
            }
        };
    let at = if !matches!(kind, Kind::List | Kind::Null) || is_refused_by_yaml(text) {
        field(name)
    } else if let Some(index) = wrong {
        format!("{}[{index}]", field(name))
    } else {
        return Some(all);
    };
    if is_new {
        csv.add(&CSV_55, &at, "error decoding example CustomResource");
        csv.fix(&CSV_55, || {
            let is_example = kind == Kind::Object && is_complete(text) && !is_refused_by_yaml(text);
            let fix = Fix::safe("put the example into a list");
            is_example.then(|| fix.set_text(annotation(name), &format!("[{}]", text.trim())))
        });
    }
    None
}

/// The beginning of upstream's message, and the location on one line. The offset counts the wrong
/// byte, unless the text ends too soon.
fn syntax_error(text: &str, at: usize) -> String {
    let offset = text.len().min(at.saturating_add(1));
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    // A text that ends too soon often has a line break at its end. The message then shows the line
    // before it.
    let trimmed = before.trim_ascii_end();
    let shown = if offset > at || trimmed.is_empty() { before } else { trimmed };
    // The wrong byte can be a line break.
    let (_, whole) = shown.split_last().unwrap_or((&0, &[]));
    let start = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
    let lines = whole.split(|byte| *byte == b'\n').count();
    let line = shown.get(start..).unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let column = line.chars().count();
    let skipped = column.saturating_sub(MAX_SHOWN_CHARS);
    let cut = if skipped > 0 { "…" } else { "" };
    let end: String = line.chars().skip(skipped).filter(|c| !c.is_control()).collect();
    format!(
        "invalid character at {offset}: line {lines}, column {column}: {cut}{}<--(see the invalid character)",
        end.trim_start()
    )
}

rule! {
    /// examples are a list of objects with apiVersion and kind
    ///
    /// The annotation `alm-examples`, or `olm.examples` if that is absent, is a list. Each element
    /// is an object with the strings `apiVersion` (`group/version` or `version`) and `kind`. An
    /// empty annotation and `null` are accepted, as upstream does. Upstream reads the list as YAML,
    /// so the escapes `\/` and `\ud800` to `\udfff`, control characters and a line break before a
    /// colon are rejected, too. Copies are exempt. An UPDATE is evaluated only if it changes the
    /// annotation.
    ///
    /// # Why
    ///
    /// The console finds the example for an API by `apiVersion` and `kind`. The validators of
    /// operator-framework/api cannot decode other values.
    ///
    /// # Remediation
    ///
    /// Put the objects into a list, and set `apiVersion` and `kind` of each. Write characters
    /// instead of their escapes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// alm-examples: '[{"apiVersion":"etcd.database.coreos.com/v1beta2","kind":"EtcdBackup"}]'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// alm-examples: '[{"metadata":{"name":"example"}}]'
    /// ```
    ///
    /// `message: error decoding example CustomResource`
    CSV_55: Deny {
        name: "examples-are-object-list",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle, Manifest],
        source: ["OCP 4.12 L20764-20775", "OCP 4.15 L15216-15342", "api pkg/validation/internal/csv.go"],
    }
}

/// An element that upstream reads as an object of an API.
fn parse_example(element: &Element<4>, text: &str) -> Option<Example> {
    let is_object = |at: usize| element.member(at).is_some_and(|part| part.kind == Kind::Object);
    let (api_version, kind) = (element.text(0, text)?, element.text(1, text)?);
    let is_version = !matches!(&*api_version, "" | "/")
        && api_version.bytes().filter(|b| *b == b'/').count() <= 1;
    if kind.is_empty() || !is_version {
        return None;
    }
    Some(Example {
        api_version: element.member(0)?.clone(),
        kind: element.member(1)?.clone(),
        has_metadata: is_object(2),
        has_spec: is_object(3),
    })
}

/// Whether go-yaml v2 rejects a text that is JSON: escapes that it does not know, surrogates,
/// control characters, and a tab before anything else.
fn is_refused_by_yaml(text: &str) -> bool {
    let before = text.split('[').next().unwrap_or_default();
    // Nearly all texts have none of these bytes. All control characters begin with one of them.
    let is_odd = |byte: u8| matches!(byte, 0x7f | 0xc2 | 0xef);
    let is_control =
        |c: char| matches!(c, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    before.contains('\t')
        || has_odd_escape(text)
        || has_key_on_other_line(text)
        || text.bytes().any(is_odd) && text.contains(is_control)
}

/// Whether a key and its colon are on different lines. No string of JSON has a line break in it.
fn has_key_on_other_line(text: &str) -> bool {
    text.match_indices(':').any(|(at, _)| {
        let before = text.as_bytes().get(..at).unwrap_or_default().iter().rev();
        let mut spaces = before.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        spaces.any(|byte| matches!(byte, b'\r' | b'\n'))
    })
}

/// Whether a string has the escape `\/`, or one of a surrogate. In JSON a backslash is in a string.
fn has_odd_escape(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('\\') {
        match after.as_bytes() {
            [b'/', ..] | [b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..] => {
                return true;
            }
            _ => {}
        }
        // The escaped character is ASCII.
        rest = after.get(1..).unwrap_or_default();
    }
    false
}

/// Whether a text of moderate size is an object with `apiVersion` and `kind`.
fn is_complete(text: &str) -> bool {
    const MAX_BYTES: usize = 32 << 10;
    let object = (text.len() <= MAX_BYTES).then(|| Document::parse(text).ok()).flatten();
    object.is_some_and(|object| {
        let has = |pointer: &str| !object.text_or_empty(pointer).is_empty();
        has("/apiVersion") && has("/kind")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_error_is_shown_on_one_line() {
        for (text, at, expected) in [
            ("[1,]", 3, "4: line 1, column 4: [1,]<--"),
            ("[", 1, "1: line 1, column 1: [<--"),
            ("[\n  {\n", 6, "6: line 2, column 3: {<--"),
            ("[\n  {},\n]", 8, "9: line 3, column 1: ]<--"),
            ("[\"a\n", 3, "4: line 1, column 4: [\"a<--"),
            ("  ", 2, "2: line 1, column 2: <--"),
            ("[\r\n\t,]", 4, "5: line 2, column 2: ,<--"),
            ("é", 0, "1: line 1, column 1: \u{fffd}<--"),
        ] {
            let message = format!("invalid character at {expected}(see the invalid character)");
            assert_eq!(syntax_error(text, at), message, "{text:?}");
        }
        let text = format!("[\"{}\",]", "é".repeat(5_000));
        let message = syntax_error(&text, text.len() - 1);
        assert!(message.starts_with("invalid character at 10005: line 1, column 5005: …é"));
        assert!(message.ends_with("é\",]<--(see the invalid character)"), "{message}");
        assert!(message.len() < 300);
    }

    #[test]
    fn json_that_is_no_yaml_is_known() {
        for (text, is_refused) in [
            (r#"["a\\/b\\ud83d", "\u00e9\ue000\n\t\"\\"]"#, false),
            (r#"["\/"]"#, true),
            (r#"["\\\/"]"#, true),
            (r#"["\ud83d\ude80"]"#, true),
            ("[\"\u{7f}\"]", true),
            ("[\"🚀\"]", false),
            (" \n\t[]", true),
            ("[\t\n\t]", false),
            ("[{\"a\"\n: 1}]", true),
            ("[{\"a\" :\n1, \"b\"\t: \" :\"\n}]", false),
        ] {
            assert_eq!(is_refused_by_yaml(text), is_refused, "{text}");
        }
    }
}
