//! YAML as JSON text, for the host and for policies: files, files in ConfigMaps, and objects inside of
//! catalogs. The only YAML that opgate reads with.
//!
//! ```text
//! text ─▶ scanner: tokens ─▶ parser: events ─┬▶ compose: JSON text, and places
//!                                             │   └▶ scalar: what a word or a number is
//!                                             └▶ tree: nodes as they are written, for edits of the text
//! ```
//!
//! Syntax, values and errors follow go-yaml v2, which the tools of Kubernetes use (`sigs.k8s.io/yaml`); a
//! duplicate name in a map is refused, as by v3. [`documents`] reads files, and [`documents_lenient`] files in which
//! upstream uses the last of duplicate names; [`read`] reads text without an author who could fix it, and
//! [`read_strict`] text with one.
//!
//! Work and memory grow with the text and with the resulting JSON, which is bounded; the content of an alias
//! counts each time. No function here is recursive.

mod compose;
mod error;
mod merge;
mod parser;
mod scalar;
mod scanner;
pub mod tree;

use compose::{ComposeOptions, Composer, DuplicateKeyHandling};
pub use error::Error;
use error::Mark;
pub use scalar::BooleanWords;

/// The reason why a text cannot be read as YAML, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// Levels that a document may nest. The schema of a CRD nests some 130 levels deep.
pub const MAX_DEPTH: usize = 256;

/// A document of a file.
#[derive(Debug)]
pub struct SourceDocument {
    /// Its content, without spaces.
    pub json: String,
    /// Positions, in bytes of the text: the document, and then, in the order of the JSON, the name of each
    /// member and each element. The content of an alias has the position of its anchor.
    pub offsets: Vec<u32>,
    /// Start of the document.
    pub offset: usize,
}

/// Why a text is no document.
enum ReadError {
    /// It is no YAML, or JSON cannot express it.
    Invalid(Error),
    /// Its JSON exceeds the available size.
    TooLarge(Mark),
    /// Nearly all of it is what aliases stand for.
    ExcessiveAliasing(Mark),
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Invalid(error)
    }
}

/// Reads all documents of a text, each with at most `room` bytes of JSON; empty documents are skipped.
///
/// # Errors
/// Fails if a document is no YAML, or if JSON cannot express it. A duplicate name in a map is such an error.
pub fn documents(
    text: &str,
    booleans: BooleanWords,
    room: usize,
) -> Result<Vec<SourceDocument>, Error> {
    read_all(
        text,
        ComposeOptions {
            duplicate_keys: DuplicateKeyHandling::Reject,
            booleans,
            with_offsets: true,
            max_json_bytes: room,
        },
    )
}

/// Reads documents as [`documents`] does, but of duplicate names in a map the last member counts, as in
/// go-yaml v2.
///
/// # Errors
/// Why it is no YAML, or not to be said in JSON.
pub fn documents_lenient(
    text: &str,
    booleans: BooleanWords,
    room: usize,
) -> Result<Vec<SourceDocument>, Error> {
    read_all(
        text,
        ComposeOptions {
            duplicate_keys: DuplicateKeyHandling::KeepLast,
            booleans,
            with_offsets: true,
            max_json_bytes: room,
        },
    )
}

fn read_all(text: &str, options: ComposeOptions) -> Result<Vec<SourceDocument>, Error> {
    let mut parts = Vec::new();
    let mut read = || {
        let mut composer = Composer::new(text, options)?;
        while let Some((mut composed, offset)) = composer.document()? {
            if composed.json == b"null" {
                continue;
            }
            // They grew by doubling, and are kept as long as the file.
            composed.json.shrink_to_fit();
            composed.offsets.shrink_to_fit();
            let json = String::from_utf8(composed.json).unwrap_or_default();
            parts.push(SourceDocument { json, offsets: composed.offsets, offset });
        }
        Ok(())
    };
    match read() {
        Ok(()) => Ok(parts),
        Err(ReadError::Invalid(error)) => Err(error),
        Err(ReadError::TooLarge(mark) | ReadError::ExcessiveAliasing(mark)) => {
            let why = "its aliases or anchors stand for more than a text of this size may hold: write it out";
            Err(Error::value(why, mark))
        }
    }
}

/// A document as JSON.
#[derive(Debug, PartialEq, Eq)]
pub enum Document {
    /// The text.
    Json(Vec<u8>),
    /// Its aliases stand for more than there is room for.
    TooLarge,
}

/// Cuts a stream before each line that begins a document; empty documents are left out.
#[must_use]
pub fn split_documents(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marker {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at;
        }
        at += line.len();
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Returns the first document of a text as JSON; none if there is none.
fn read_first(
    yaml: &str,
    room: usize,
    duplicate_keys: DuplicateKeyHandling,
) -> Result<Option<Vec<u8>>, ReadError> {
    let options = ComposeOptions {
        duplicate_keys,
        booleans: BooleanWords::Yaml11,
        with_offsets: false,
        max_json_bytes: room,
    };
    let mut composer = Composer::new(yaml, options)?;
    Ok(composer.document()?.map(|(composed, _)| composed.json))
}

/// Reads the first document of a text, with at most `room` bytes of JSON. `None` if it is empty, no YAML, or
/// if JSON cannot express it. Duplicate names are allowed, and stay in the JSON.
#[must_use]
pub fn read(yaml: &str, room: usize) -> Option<Document> {
    match read_first(yaml, room, DuplicateKeyHandling::KeepBoth) {
        Ok(json) => json.map(Document::Json),
        Err(ReadError::TooLarge(_) | ReadError::ExcessiveAliasing(_)) => Some(Document::TooLarge),
        Err(ReadError::Invalid(_)) => None,
    }
}

/// Reads the first document of a text, of which at most `room` bytes of JSON are made. Of an empty one
/// that is `null`.
///
/// # Errors
/// Fails if it is no YAML, or if JSON cannot express it, with upstream's text. A duplicate name in a map is
/// such an error.
pub fn read_strict(yaml: &str, room: usize) -> Result<Vec<u8>, YamlError> {
    match read_first(yaml, room, DuplicateKeyHandling::Reject) {
        Ok(json) => Ok(json.unwrap_or_else(|| b"null".to_vec())),
        Err(ReadError::Invalid(error)) => Err(YamlError(error.upstream_message())),
        Err(ReadError::ExcessiveAliasing(_)) => {
            Err(YamlError("yaml: document contains excessive aliasing".to_owned()))
        }
        Err(ReadError::TooLarge(_)) => Err(YamlError(format!(
            "yaml: it stands for more than {room} bytes of JSON: write it out"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lenient(yaml: &str) -> String {
        match read(yaml, 10_000) {
            Some(Document::Json(json)) => String::from_utf8(json).unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn documents_are_converted_to_json() {
        for (yaml, expected) in [
            ("a: 1\nb: [x, 'y\"', ~]\n", r#"{"a":1,"b":["x","y\"",null]}"#),
            ("a: |\n  {\"b\": 1}\n  c\n", r#"{"a":"{\"b\": 1}\nc\n"}"#),
            ("a: >-\n  b\n  c\n", r#"{"a":"b c"}"#),
            (
                "{a: &x {b: 1.0.0, c: 1.50}, d: *x}",
                r#"{"a":{"b":"1.0.0","c":1.5},"d":{"b":"1.0.0","c":1.5}}"#,
            ),
            (
                "a: &a {k: 1, l: 2}\nb:\n  <<: *a\n  l: 3\n",
                r#"{"a":{"k":1,"l":2},"b":{"k":1,"l":3}}"#,
            ),
            ("a: [0x10, +1, .5, 1e3, 010, x-, 1_0, .x]", r#"{"a":[16,1,0.5,1000,8,"x-",10,".x"]}"#),
            ("a: !!str 1\n\"b\\x41\": \"\\t\"", r#"{"a":"1","bA":"\t"}"#),
            ("# nothing\n", "None"),
            ("a: [1\n", "None"),
            ("a: &a [*a]\n", "None"),
            ("? {a: 1}\n: b\n", "None"),
        ] {
            assert_eq!(lenient(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn invalid_yaml_reports_cause() {
        for (yaml, why) in [
            ("a: 1\nb: c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
            ("{", "yaml: line 1: did not find expected node content"),
            ("a: 1\nb: {c: 1, 'c': 2}\n", "yaml: duplicate mapping key: c"),
            ("a: &a {}\n<<: *a\n<<: *a\n", "yaml: duplicate mapping key: <<"),
            ("a: &a [*a]\n", "yaml: anchor 'a' value contains itself"),
            ("? {a: 1}\n: b\n", "yaml: a key is no text: JSON has no other keys"),
            (
                "a: &a [xxxxxxxx, xxxxxxxx]\nb: [*a, *a]\n",
                "yaml: it stands for more than 60 bytes of JSON: write it out",
            ),
        ] {
            assert_eq!(read_strict(yaml, 60).unwrap_err().to_string(), why, "{yaml}");
        }
        for (yaml, expected) in [
            ("a: {b: 1}\nc: {b: 2}\n", r#"{"a":{"b":1},"c":{"b":2}}"#),
            ("a: &a {b: 1}\nc:\n  <<: *a\n  b: 2\n", r#"{"a":{"b":1},"c":{"b":2}}"#),
            ("# nothing\n", "null"),
            ("# license\n---\na: 1\n---\n{\n", r#"{"a":1}"#),
        ] {
            assert_eq!(read_strict(yaml, 100), Ok(expected.as_bytes().to_vec()), "{yaml}");
        }
        // Text that users do not edit is read leniently.
        assert_eq!(lenient("a: 1\na: 2\n"), r#"{"a":1,"a":2}"#);
    }

    #[test]
    fn last_of_duplicate_keys_counts_as_upstream() {
        let read = |yaml: &str| -> Vec<(String, Vec<u32>)> {
            let parts = documents_lenient(yaml, BooleanWords::Yaml11, 1_000).unwrap();
            parts.into_iter().map(|part| (part.json, part.offsets)).collect()
        };
        for (yaml, json, places) in [
            ("a: 1\nb: 2\na: 3\n", r#"{"a":3,"b":2}"#, &[0, 10, 5][..]),
            ("a: {b: 1, b: [x]}\n", r#"{"a":{"b":["x"]}}"#, &[0, 0, 10, 14]),
            ("a: &a {b: 1, b: 2}\nc: *a\n", r#"{"a":{"b":2},"c":{"b":2}}"#, &[0, 0, 13, 19, 13]),
            ("a: &a {b: 1}\n<<: *a\n<<: {b: 3}\n", r#"{"a":{"b":1},"b":3}"#, &[0, 0, 7, 25]),
            ("- a: 1\n- a: 2\n", r#"[{"a":1},{"a":2}]"#, &[0, 2, 2, 9, 9]),
        ] {
            assert_eq!(read(yaml), [(json.to_owned(), places.to_vec())], "{yaml}");
        }
        assert!(documents_lenient("a: 1\na: [\n", BooleanWords::Yaml11, 1_000).is_err());
    }

    #[test]
    fn streams_are_split_into_documents() {
        let stream = "---\na: 1\n--- # two\nb: 1\n---\n---\nc: |\n  x\n  ---\n---d\n";
        let found = ["---\na: 1\n", "--- # two\nb: 1\n", "---\n", "---\nc: |\n  x\n  ---\n---d\n"];
        assert_eq!(split_documents(stream), found);
    }

    #[test]
    fn yaml_bomb_is_reported_as_too_large() {
        let mut bomb = "a0: &a0 [olm.constraint, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let all = vec![format!("*a{}", level - 1); 9].join(", ");
            bomb.extend(["a", &level.to_string(), ": &a", &level.to_string(), " [", &all, "]\n"]);
        }
        assert_eq!(read(&bomb, 1 << 20), Some(Document::TooLarge));
        let members: Vec<_> = (0..100).map(|n| format!("k{n}: 1")).collect();
        let merges = "  - {<<: *a}\n".repeat(1_000);
        let bomb = format!("a: &a {{{}}}\nb:\n{merges}", members.join(", "));
        assert_eq!(read(&bomb, 200_000), Some(Document::TooLarge));
        assert_eq!(read(&"[".repeat(100_000), 1 << 20), None);
    }

    /// go-yaml counts what it decodes, and what of it aliases stand for: up to 99 % of it, and less in
    /// what is large.
    #[test]
    fn excessive_aliasing_is_rejected_like_upstream() {
        let text = |aliases: usize| {
            let all = vec!["*a"; aliases].join(", ");
            format!("a: &a [{}]\nb: [{all}]\n", vec!["x"; 100].join(", "))
        };
        // The text has 106 nodes, each alias is one and stands for 101: of 397,906 nodes 98.99 % are theirs.
        assert!(read_strict(&text(3_900), 1 << 21).is_ok());
        // With more than 400,000 nodes, less than 99 % are allowed.
        let refused = Err(YamlError("yaml: document contains excessive aliasing".to_owned()));
        assert_eq!(read_strict(&text(4_000), 1 << 22), refused);
        assert_eq!(read(&text(4_000), 1 << 22), Some(Document::TooLarge));
        let why = documents(&text(4_000), BooleanWords::Yaml11, 1 << 22)
            .unwrap_err()
            .message()
            .into_owned();
        assert!(why.starts_with("its aliases or anchors stand for more"), "{why}");
        // Levels of aliases are refused sooner.
        let levels: String =
            (1..5).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
                let all = vec![format!("*a{}", n - 1); 10].join(", ");
                text + &format!("a{n}: &a{n} [{all}]\n")
            });
        assert_eq!(read_strict(&levels, 1 << 21), refused);
    }

    proptest! {
        #[test]
        fn any_text_yields_valid_json_or_an_error(yaml in "([a'\"|:&*<\\[\\]{}\\\\ é\n,-]|a: |<<: |&a |\\*a){0,60}") {
            if let Some(Document::Json(json)) = read(&yaml, 10_000) {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
                let strict = read_strict(&yaml, 10_000);
                let last = documents_lenient(&yaml, BooleanWords::Yaml11, 10_000);
                match &strict {
                    Ok(strict) => prop_assert_eq!(strict, &json),
                    Err(why) => prop_assert!(why.to_string().contains("duplicate"), "{}", why),
                }
                // The parser takes the last member of a name, too.
                if let (Err(_), Ok(last)) = (&strict, &last)
                    && let Some(last) = last.first()
                    && !yaml.contains("<<")
                {
                    let value = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json);
                    prop_assert_eq!(value(last.json.as_bytes()).ok(), value(&json).ok());
                }
            }
        }
    }
}
