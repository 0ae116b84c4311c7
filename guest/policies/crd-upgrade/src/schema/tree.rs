//! The values of a JSON text by their offsets, without copying them.
//!
//! ```text
//! text ─▶ Tree: for each value its name, its start, its end, and the value after it
//! ```
//!
//! A schema of 1.5 MiB has up to 200,000 values. A host call for each look-up would exceed the time
//! limit of a call; reading the text once needs some milliseconds. With 16 bytes for each value,
//! both schemas of a review fit into the memory of a call.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::ops::Range;

use opgate_compat::json::{self, Kind};

/// Number of a value in its tree. The outermost has 0.
pub(crate) type NodeId = u32;

#[derive(Clone, Copy)]
struct Node {
    /// The offset of its name; equal to `start` in a list.
    name: u32,
    start: u32,
    end: u32,
    /// The first value after this one and its children.
    next: NodeId,
}

/// A text and its values, parents before children.
pub(crate) struct Tree {
    text: Vec<u8>,
    /// Computed when the first value is requested.
    nodes: OnceCell<Vec<Node>>,
}

/// Levels that a document can have.
const MAX_DEPTH: usize = 512;

/// Bytes of text for each value in a schema with short descriptions.
const BYTES_PER_VALUE: usize = 24;

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Finds the values of a text that has been checked. That takes a third of the time of a check.
struct Scanner<'t> {
    text: &'t [u8],
    nodes: Vec<Node>,
    /// The open lists and objects.
    open: Vec<NodeId>,
    /// Whether the innermost of them is an object.
    is_object: bool,
    /// The offset of the name of the next value.
    name: Option<u32>,
    /// Whether the value of a name is next.
    is_value: bool,
}

impl Scanner<'_> {
    fn push(&mut self, range: Range<usize>) {
        // Grows by less than a factor of two: a text of only brackets has half a million values.
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact(self.nodes.len() / 4 + 64);
        }
        let node_id = to_u32(self.nodes.len());
        let start = to_u32(range.start);
        let name = self.name.take().unwrap_or(start);
        self.nodes.push(Node {
            name,
            start,
            end: to_u32(range.end),
            next: node_id.saturating_add(1),
        });
        self.is_value = false;
    }

    /// Elements of lists are read on demand: an enum or a default can have very many.
    fn push_scalar(&mut self, range: Range<usize>) {
        if self.is_value || self.open.is_empty() {
            self.push(range);
        }
    }

    fn close(&mut self, end: usize) {
        let next = to_u32(self.nodes.len());
        let closed = self.open.pop().and_then(|node_id| self.nodes.get_mut(to_usize(node_id)));
        if let Some(node) = closed {
            (node.end, node.next) = (to_u32(end), next);
        }
        let around = self.open.last().and_then(|node_id| self.nodes.get(to_usize(*node_id)));
        let first = around.and_then(|node| self.text.get(to_usize(node.start)));
        self.is_object = first == Some(&b'{');
    }

    fn scan(&mut self) {
        let mut at = 0;
        while let Some(&byte) = self.text.get(at) {
            let start = at;
            at = match byte {
                b'"' => self.end_of_text(at),
                // A number, or a word.
                b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' if self.is_object => {
                    let rest = self.text.get(at..).unwrap_or_default();
                    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | ..=b' ');
                    at.saturating_add(rest.iter().position(ends).unwrap_or(rest.len()))
                }
                _ => at.saturating_add(1),
            };
            match byte {
                b'"' if self.is_object && !self.is_value => self.name = Some(to_u32(start)),
                b':' => self.is_value = true,
                b'{' | b'[' => {
                    let node_id = to_u32(self.nodes.len());
                    self.push(start..start);
                    self.open.push(node_id);
                    self.is_object = byte == b'{';
                }
                b'}' | b']' => self.close(at),
                b',' | ..=b' ' => {}
                _ => self.push_scalar(start..at),
            }
        }
    }

    /// The offset after the text that starts here. Reads eight bytes at a time: descriptions are
    /// most of a schema.
    fn end_of_text(&self, start: usize) -> usize {
        const LOW_BITS: u64 = 0x0101_0101_0101_0101;
        const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
        let mut at = start.saturating_add(1);
        loop {
            let rest = self.text.get(at..).unwrap_or_default();
            let chunks = rest.chunks_exact(8).take_while(|chunk| {
                let chunk = chunk.first_chunk().copied().map_or(0, u64::from_le_bytes);
                // The top bit of each byte that is zero, and perhaps of others.
                let zero = |of: u64| of.wrapping_sub(LOW_BITS) & !of & HIGH_BITS;
                zero(chunk ^ (LOW_BITS * u64::from(b'"')))
                    | zero(chunk ^ (LOW_BITS * u64::from(b'\\')))
                    == 0
            });
            let plain = chunks.count().saturating_mul(8);
            let rest = rest.get(plain..).unwrap_or_default();
            let Some(more) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
                return self.text.len();
            };
            at = at.saturating_add(plain).saturating_add(more).saturating_add(1);
            match rest.get(more) {
                Some(b'\\') => at = at.saturating_add(1),
                _ => return at,
            }
        }
    }
}

impl Tree {
    /// A text of a document. A text that is not JSON has some values, or none.
    pub(crate) fn of(text: Vec<u8>) -> Self {
        Self { text, nodes: OnceCell::new() }
    }

    /// Whether two texts are the same.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        self.text == other.text
    }

    fn nodes(&self) -> &[Node] {
        self.nodes.get_or_init(|| {
            let mut scanner = Scanner {
                text: &self.text,
                open: Vec::with_capacity(MAX_DEPTH),
                is_object: false,
                name: None,
                is_value: false,
                nodes: Vec::with_capacity(self.text.len() / BYTES_PER_VALUE),
            };
            scanner.scan();
            scanner.nodes
        })
    }

    /// Bytes of the text.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    fn node(&self, node_id: NodeId) -> Option<Node> {
        self.nodes().get(to_usize(node_id)).copied()
    }

    /// The text of a value.
    pub(crate) fn raw(&self, node_id: NodeId) -> &[u8] {
        let node = self.node(node_id);
        node.and_then(|n| self.text.get(to_usize(n.start)..to_usize(n.end))).unwrap_or_default()
    }

    /// The type of a value.
    pub(crate) fn kind(&self, node_id: NodeId) -> Kind {
        json::kind(self.raw(node_id)).unwrap_or(Kind::Null)
    }

    /// Members of an object, or lists and objects in a list, in the order of the text.
    pub(crate) fn children(&self, node_id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.node(node_id).map_or(0, |node| node.next);
        let first = Some(node_id.saturating_add(1)).filter(|&first| first < end);
        std::iter::successors(first, move |&child| {
            self.node(child).map(|node| node.next).filter(|&next| next < end)
        })
    }

    /// The texts of the elements of a list.
    pub(crate) fn elements(&self, node_id: NodeId) -> Vec<(Kind, &[u8])> {
        let mut elements = Vec::new();
        if self.kind(node_id) == Kind::List {
            // It is a part of a text that was read completely.
            let _ =
                json::each_child(self.raw(node_id), |child| elements.push((child.kind, child.raw)));
        }
        elements
    }

    /// The raw name of a member, without quotes.
    fn text_of(&self, node_id: NodeId) -> &[u8] {
        let Some(node) = self.node(node_id) else { return &[] };
        let name = self.text.get(to_usize(node.name)..to_usize(node.start)).unwrap_or_default();
        let name = name.trim_ascii_end().strip_suffix(b":").unwrap_or_default().trim_ascii_end();
        name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or_default()
    }

    /// The name of a member.
    pub(crate) fn name(&self, node_id: NodeId) -> Cow<'_, str> {
        json::decode_text(self.text_of(node_id))
    }

    /// The order of two members of two trees by their names.
    pub(crate) fn compare_text(
        &self,
        node_id: NodeId,
        other: &Self,
        other_place: NodeId,
    ) -> Ordering {
        let (name, other_name) = (self.text_of(node_id), other.text_of(other_place));
        if name.contains(&b'\\') || other_name.contains(&b'\\') {
            json::decode_text(name).cmp(&json::decode_text(other_name))
        } else {
            name.cmp(other_name)
        }
    }

    /// Members of an object, sorted by name. The last member with a name counts.
    pub(crate) fn members(&self, node_id: NodeId, into: &mut Vec<NodeId>) {
        into.clear();
        if self.kind(node_id) != Kind::Object {
            return;
        }
        into.extend(self.children(node_id));
        // The API server writes them in this order.
        let ordered = |pair: &[NodeId]| match pair {
            [one, two] => self.compare_text(*one, self, *two).is_lt(),
            _ => true,
        };
        if into.windows(2).all(ordered) {
            return;
        }
        into.reverse();
        into.sort_by_cached_key(|&node_id| self.name(node_id));
        into.dedup_by(|later, first| self.compare_text(*later, self, *first).is_eq());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(json: &str) -> Vec<String> {
        let tree = Tree::of(json.as_bytes().to_vec());
        let mut members = Vec::new();
        tree.members(0, &mut members);
        let text = |node_id: &NodeId| String::from_utf8_lossy(tree.raw(*node_id)).into_owned();
        members.iter().map(|node_id| format!("{}={}", tree.name(*node_id), text(node_id))).collect()
    }

    #[test]
    fn members_are_in_the_order_of_their_names() {
        for (json, expected) in [
            ("{}", &[][..]),
            ("[1]", &[]),
            (r#"{"a":1,"b":{"c":[2,3]},"d":4}"#, &["a=1", r#"b={"c":[2,3]}"#, "d=4"]),
            (r#" { "b" : 1 , "a" : "x" } "#, &[r#"a="x""#, "b=1"]),
            (r#"{"b":1,"a":2,"b":3}"#, &["a=2", "b=3"]),
            (r#"{"\u0062":1,"a:":2,"c\"":3}"#, &["a:=2", "b=1", "c\"=3"]),
            (r#"{"":1," ":2}"#, &["=1", " =2"]),
            (
                r#"{"a\\":"\"{","b":"0123456789\\\"x\\","c":-1.5e+3,"d":null}"#,
                &[r#"a\="\"{""#, r#"b="0123456789\\\"x\\""#, "c=-1.5e+3", "d=null"],
            ),
        ] {
            assert_eq!(names(json), expected, "{json}");
        }
    }

    #[test]
    fn elements_are_read_where_they_are_asked_for() {
        let tree = Tree::of(br#"{"a":[1,[2],"x"],"b":5}"#.to_vec());
        let raw = |node_id| String::from_utf8_lossy(tree.raw(node_id)).into_owned();
        let [list, number] = tree.children(0).collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((raw(list), raw(number)), (r#"[1,[2],"x"]"#.to_owned(), "5".to_owned()));
        assert_eq!(tree.children(list).map(raw).collect::<Vec<_>>(), ["[2]"]);
        let elements: Vec<_> = tree.elements(list).into_iter().map(|(_, raw)| raw).collect();
        assert_eq!(elements, [&b"1"[..], b"[2]", br#""x""#]);
        assert_eq!(tree.elements(number), []);
    }

    #[test]
    fn invalid_json_does_not_panic() {
        for json in [
            "",
            "{",
            "]",
            "}}",
            "\"",
            "{\"a",
            "{\"a\":",
            "[1,,",
            "\"\\",
            "{:1}",
            "x",
            "{\"a\":\"b]}",
        ] {
            let tree = Tree::of(json.into());
            let mut members = Vec::new();
            for node_id in 0..4 {
                tree.members(node_id, &mut members);
                for &member in &members {
                    let _ = (tree.name(member), tree.elements(member));
                }
            }
        }
    }

    #[test]
    fn missing_nodes_read_as_empty() {
        let tree = Tree::of(b"[".to_vec());
        assert_eq!((tree.raw(9), tree.kind(9), tree.children(9).count()), (&[][..], Kind::Null, 0));
        assert_eq!((tree.name(0), tree.elements(9)), ("".into(), vec![]));
    }
}
