//! YAML (and with it JSON) into JSON values that know their places.
//!
//! The only module that knows the YAML parser. What aliases may expand to is bounded by the size of
//! the text, nesting by [`MAX_DEPTH`].

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

/// A value with the places of its parts.
#[derive(Debug)]
pub(crate) struct Located {
    /// The value.
    pub(crate) value: Value,
    /// Line and column, from 1, by JSON pointer: of members the place of the name, of elements that
    /// of the value.
    places: HashMap<String, (u64, u64)>,
}

/// A text that is not YAML: what is wrong, and where.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct YamlError {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) why: String,
}

impl Located {
    /// Reads the first document of a part of a file, as [`parts`] gave it.
    pub(crate) fn read_part(yaml: &str) -> Option<Self> {
        let read = || {
            let options = options_for_files(yaml.len());
            let trees: Vec<Spanned<Tree>> = serde_saphyr::from_multiple_with_options(yaml, options)
                .map_err(|e| YamlError::of(&e))?;
            Ok(trees.into_iter().map(Self::of).find(|l| !l.value.is_null()))
        };
        with_room(read).ok().flatten()
    }

    /// Reads one document.
    pub(crate) fn read(yaml: &str) -> Result<Self, YamlError> {
        with_room(|| {
            let tree: Spanned<Tree> = serde_saphyr::from_str_with_options(yaml, options(yaml))
                .map_err(|e| YamlError::of(&e))?;
            Ok(Self::of(tree))
        })
    }

    /// Reads a stream of documents; empty ones are left out.
    pub(crate) fn read_all(yaml: &str) -> Result<Vec<Self>, YamlError> {
        with_room(|| {
            let trees: Vec<Spanned<Tree>> =
                serde_saphyr::from_multiple_with_options(yaml, options(yaml))
                    .map_err(|e| YamlError::of(&e))?;
            Ok(trees.into_iter().map(Self::of).filter(|l| !l.value.is_null()).collect())
        })
    }

    fn of(tree: Spanned<Tree>) -> Self {
        let mut places = HashMap::new();
        let (line, column) = place(&tree.referenced);
        places.insert(String::new(), (line, column));
        let value = tree.value.into_json(&mut String::new(), &mut places);
        Self { value, places }
    }

    /// Place of the value at a pointer, or of the nearest one around it.
    pub(crate) fn place(&self, pointer: &str) -> (u64, u64) {
        let mut pointer = pointer;
        loop {
            if let Some(&place) = self.places.get(pointer) {
                return place;
            }
            match pointer.rsplit_once('/') {
                Some((around, _)) => pointer = around,
                None => return (1, 1),
            }
        }
    }
}

impl YamlError {
    fn of(error: &serde_saphyr::Error) -> Self {
        let (line, column) = error.location().as_ref().map_or((1, 1), place);
        let text = error.without_snippet().to_string();
        // The place is reported beside the text.
        let why = text.split(" at line ").next().unwrap_or_default();
        let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Self { line, column, why: crate::text::one_line(&plain(why), 512) }
    }
}

/// What the parser says, without what it says to its caller.
fn plain(why: &str) -> String {
    if why.starts_with("budget breached: Depth") || why == "recursion limit exceeded" {
        format!("nests deeper than {MAX_DEPTH} levels")
    } else if why.starts_with("budget breached") || why.starts_with("alias replay") {
        "its aliases or anchors stand for more than a text of this size may hold: write it out"
            .to_owned()
    } else if why.starts_with("recursive references") {
        "an alias stands inside of what it stands for".to_owned()
    } else if let Some((number, _)) = why.split_once(" rejected by the configured policy") {
        format!("{number} is no number of JSON")
    } else {
        why.split(", set DuplicateKeyPolicy").next().unwrap_or_default().to_owned()
    }
}

/// A document of a file.
#[derive(Debug)]
pub(crate) struct Part {
    /// What it says.
    pub(crate) value: Value,
    /// Where its value starts, in bytes.
    pub(crate) offset: usize,
}

/// Reads the documents of a file of any size, without places; empty ones are left out.
pub(crate) fn parts(yaml: &str) -> Result<Vec<Part>, YamlError> {
    let values: Vec<Spanned<Value>> = with_room(|| {
        let options = options_for_files(yaml.len());
        serde_saphyr::from_multiple_with_options(yaml, options).map_err(|e| YamlError::of(&e))
    })?;
    let part = |spanned: Spanned<Value>| {
        let offset = spanned.referenced.span().byte_offset().unwrap_or_default();
        Part { value: spanned.value, offset: usize::try_from(offset).unwrap_or_default() }
    };
    Ok(values.into_iter().map(part).filter(|part| !part.value.is_null()).collect())
}

/// YAML as the tools of Kubernetes read it (`yes` is a truth value), in bounds that grow with the file:
/// a text can hold what it spells out, and aliases may add little to it.
fn options_for_files(bytes: usize) -> serde_saphyr::Options {
    let most = bytes.saturating_add(1_000);
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_events: most.saturating_mul(2),
            max_nodes: most.saturating_mul(2),
            max_documents: most,
            max_total_scalar_bytes: most.saturating_mul(2).saturating_add(8 << 20),
        },
    }
}

/// Reads where there is stack enough for a text that nests as deep as it may.
fn with_room<T: Send>(read: impl FnOnce() -> Result<T, YamlError> + Send) -> Result<T, YamlError> {
    let failed = |why| YamlError { line: 1, column: 1, why };
    crate::files::parallel::with_room(read).unwrap_or_else(|why| Err(failed(why)))
}

/// Deepest nesting. The schema of a CRD nests some 130 levels deep.
pub(crate) const MAX_DEPTH: usize = 256;

/// Nodes that any text may have, in bytes of text that a node without an alias takes at least.
const SPARE: usize = 250_000;

/// YAML 1.2: `off` and `no` are texts, as in `rules: {RPK-07: off}`. No node takes less than a byte
/// and no document less than four: what counts more than the text has bytes comes from aliases.
fn options(yaml: &str) -> serde_saphyr::Options {
    let nodes = yaml.len().saturating_add(SPARE);
    let budget = serde_saphyr::budget! {
        max_depth: MAX_DEPTH,
        flow_nesting_limit: MAX_DEPTH,
        max_nodes: nodes,
        max_events: nodes.saturating_mul(4),
        max_documents: nodes,
        max_total_scalar_bytes: nodes.saturating_mul(4),
    };
    serde_saphyr::options! { strict_booleans: true, budget: budget }
}

fn place(location: &Location) -> (u64, u64) {
    (location.line().max(1), location.column().max(1))
}

enum Tree {
    Leaf(Value),
    List(Vec<Spanned<Tree>>),
    Object(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl Tree {
    /// Recursion is bounded by the parser's bound on depth.
    fn into_json(self, pointer: &mut String, places: &mut HashMap<String, (u64, u64)>) -> Value {
        let before = pointer.len();
        match self {
            Self::Leaf(value) => value,
            Self::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    pointer.push('/');
                    pointer.push_str(&index.to_string());
                    places.insert(pointer.clone(), place(&item.referenced));
                    values.push(item.value.into_json(pointer, places));
                    pointer.truncate(before);
                }
                Value::Array(values)
            }
            Self::Object(members) => {
                let mut object = serde_json::Map::with_capacity(members.len());
                for (name, member) in members {
                    pointer.push('/');
                    pointer.push_str(&name.value.replace('~', "~0").replace('/', "~1"));
                    places.insert(pointer.clone(), place(&name.referenced));
                    object.insert(name.value, member.value.into_json(pointer, places));
                    pointer.truncate(before);
                }
                Value::Object(object)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_places() {
        let located = Located::read("a: 1\nb:\n  - x\n  - c/d: {e: true}\n").unwrap();
        assert_eq!(located.value, serde_json::json!({"a": 1, "b": ["x", {"c/d": {"e": true}}]}));
        for (pointer, expected) in [
            ("/a", (1, 1)),
            ("/b", (2, 1)),
            ("/b/0", (3, 5)),
            ("/b/1/c~1d", (4, 5)),
            ("/b/1/c~1d/e", (4, 11)),
            ("/b/1/c~1d/missing", (4, 5)),
        ] {
            assert_eq!(located.place(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn words_are_texts() {
        let located =
            Located::read("a: off\nb: no\nc: true\nd: null\ne: ~\nf: 1.5\ng: \"1\"\n").unwrap();
        let expected = serde_json::json!({"a": "off", "b": "no", "c": true, "d": null, "e": null, "f": 1.5, "g": "1"});
        assert_eq!(located.value, expected);
    }

    #[test]
    fn errors_speak_to_the_writer_of_the_file() {
        let why = |yaml: &str| parts(yaml).unwrap_err().why;
        assert_eq!(why(&"[".repeat(300)), "nests deeper than 256 levels");
        assert_eq!(why("a: &a\n  b: *a\n"), "an alias stands inside of what it stands for");
        assert_eq!(why("a: 1\na: 2\n"), "duplicate mapping key: a");
        assert_eq!(why("a: .nan\n"), "non-finite float `.nan` is no number of JSON");
        let bomb: String = (1..12).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
            let p = i - 1;
            text + &format!("a{i}: &a{i} [*a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}]\n")
        });
        assert!(why(&bomb).starts_with("its aliases or anchors stand for more"));
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_place() {
        let error = Located::read("a: 1\nb: [1\n").unwrap_err();
        assert!(error.line >= 2, "{error:?}");
        let error = Located::read("a: 1\na: 2\n").unwrap_err();
        assert_eq!(error.line, 2, "{error:?}");
    }

    /// The size of a text bounds what it may hold, nothing else does.
    #[test]
    fn large_texts_are_read_and_bombs_are_not() {
        let list = "- {a: 1, b: [x, y]}\n".repeat(60_000);
        assert_eq!(Located::read(&list).unwrap().value.as_array().map(Vec::len), Some(60_000));
        let stream = "---\na: 1\n".repeat(5_000);
        assert_eq!(Located::read_all(&stream).unwrap().len(), 5_000);
        let deep = |levels: usize| format!("{}x{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Located::read(&deep(200)).is_ok());
        let error = Located::read(&deep(300)).unwrap_err();
        assert_eq!(error.why, "nests deeper than 256 levels");
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let line = format!("*a{}, ", level - 1).repeat(10);
            bomb.extend([&format!("a{level}: &a{level} ["), line.trim_end_matches(", "), "]\n"]);
        }
        let error = Located::read(&bomb).unwrap_err();
        assert!(error.why.starts_with("its aliases or anchors stand for more"), "{}", error.why);
    }
}
