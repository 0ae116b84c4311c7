//! The values of a JSON text by their places in it, without a copy of anything.
//!
//! ```text
//! text ─▶ Tree: for each value its name, its start, its end, and the value behind it
//! ```
//!
//! A schema of 1.5 MiB has up to 200,000 values. A call of the host for each look-up would take
//! more than the time of a call; reading the text once takes some milliseconds. 16 bytes for each
//! value keep both schemas of a review within the memory of a call.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use opgate_upstream::json::{self, Kind, Reading, Sink};

/// Number of a value in its tree. The outermost has 0.
pub(super) type Place = u32;

#[derive(Clone, Copy)]
struct Node {
    /// Where its name starts; equal to `start` in a list.
    name: u32,
    start: u32,
    end: u32,
    /// The first value behind this one and everything in it.
    next: Place,
}

/// A text and its values, parents before children.
pub(super) struct Tree {
    text: Vec<u8>,
    nodes: Vec<Node>,
}

struct Builder {
    nodes: Vec<Node>,
    open: Vec<Place>,
    name: Option<u32>,
}

/// Levels that a document can have.
const DEPTH: usize = 512;

/// Bytes of text for each value in a schema with short descriptions.
const BYTES_EACH: usize = 24;

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn size(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

impl Builder {
    fn push(&mut self, range: &Range<usize>) -> Place {
        // Less than twice as much at a time: a text of nothing but brackets has half a million values.
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact(self.nodes.len() / 4 + 64);
        }
        let place = number(self.nodes.len());
        let start = number(range.start);
        let name = self.name.take().unwrap_or(start);
        self.nodes.push(Node {
            name,
            start,
            end: number(range.end),
            next: place.saturating_add(1),
        });
        place
    }
}

impl Sink for Builder {
    fn key(&mut self, key: Range<usize>) {
        self.name = Some(number(key.start));
    }

    fn open(&mut self, _: Kind, at: usize) {
        let place = self.push(&(at..at));
        self.open.push(place);
    }

    fn close(&mut self, _: Kind, end: usize) {
        let next = number(self.nodes.len());
        let Some(place) = self.open.pop() else { return };
        if let Some(node) = self.nodes.get_mut(size(place)) {
            (node.end, node.next) = (number(end), next);
        }
    }

    fn scalar(&mut self, _: Kind, range: Range<usize>) {
        // Elements of lists are read where somebody asks: an enum or a default can have very many.
        if self.name.is_some() || self.open.is_empty() {
            self.push(&range);
        }
    }
}

impl Tree {
    /// Reads a text that a document has. Text that is not JSON has no values behind its error.
    pub(super) fn of(text: Vec<u8>) -> Self {
        let mut builder = Builder {
            open: Vec::with_capacity(DEPTH),
            name: None,
            nodes: Vec::with_capacity(text.len() / BYTES_EACH),
        };
        // The document that the text is from has been checked.
        let _ = json::read(&text, Reading::WHOLE, &mut builder);
        Self { text, nodes: builder.nodes }
    }

    /// Bytes of the text.
    pub(super) fn size(&self) -> usize {
        self.text.len()
    }

    fn node(&self, place: Place) -> Option<Node> {
        self.nodes.get(size(place)).copied()
    }

    /// The text of a value.
    pub(super) fn raw(&self, place: Place) -> &[u8] {
        let node = self.node(place);
        node.and_then(|n| self.text.get(size(n.start)..size(n.end))).unwrap_or_default()
    }

    /// What a value is.
    pub(super) fn kind(&self, place: Place) -> Kind {
        json::kind(self.raw(place)).unwrap_or(Kind::Null)
    }

    /// Members of an object, or lists and objects in a list, in the order of the text.
    pub(super) fn children(&self, place: Place) -> impl Iterator<Item = Place> + '_ {
        let end = self.node(place).map_or(0, |node| node.next);
        let first = Some(place.saturating_add(1)).filter(|&first| first < end);
        std::iter::successors(first, move |&child| {
            self.node(child).map(|node| node.next).filter(|&next| next < end)
        })
    }

    /// The texts of the elements of a list.
    pub(super) fn elements(&self, place: Place) -> Vec<(Kind, &[u8])> {
        let mut elements = Vec::new();
        if self.kind(place) == Kind::List {
            // It is a part of a text that was read to its end.
            let _ =
                json::each_child(self.raw(place), |child| elements.push((child.kind, child.raw)));
        }
        elements
    }

    /// The name of a member as it is written, without quotes.
    fn written(&self, place: Place) -> &[u8] {
        let Some(node) = self.node(place) else { return &[] };
        let name = self.text.get(size(node.name)..size(node.start)).unwrap_or_default();
        let name = name.trim_ascii_end().strip_suffix(b":").unwrap_or_default().trim_ascii_end();
        name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or_default()
    }

    /// The name of a member.
    pub(super) fn name(&self, place: Place) -> Cow<'_, str> {
        json::decoded(self.written(place))
    }

    /// The order of two members of two trees by their names.
    pub(super) fn order(&self, place: Place, other: &Self, other_place: Place) -> Ordering {
        let (name, other_name) = (self.written(place), other.written(other_place));
        if name.contains(&b'\\') || other_name.contains(&b'\\') {
            json::decoded(name).cmp(&json::decoded(other_name))
        } else {
            name.cmp(other_name)
        }
    }

    /// Members of an object in the order of their names. The last one of a name counts.
    pub(super) fn members(&self, place: Place, into: &mut Vec<Place>) {
        into.clear();
        if self.kind(place) != Kind::Object {
            return;
        }
        into.extend(self.children(place));
        // As the API server writes them, they are in order.
        let ordered = |pair: &[Place]| match pair {
            [one, two] => self.order(*one, self, *two).is_lt(),
            _ => true,
        };
        if into.windows(2).all(ordered) {
            return;
        }
        into.sort_by(|&one, &two| self.order(one, self, two).then(two.cmp(&one)));
        into.dedup_by(|later, first| self.order(*later, self, *first).is_eq());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(json: &str) -> Vec<String> {
        let tree = Tree::of(json.as_bytes().to_vec());
        let mut members = Vec::new();
        tree.members(0, &mut members);
        let text = |place: &Place| String::from_utf8_lossy(tree.raw(*place)).into_owned();
        members.iter().map(|place| format!("{}={}", tree.name(*place), text(place))).collect()
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
        ] {
            assert_eq!(names(json), expected, "{json}");
        }
    }

    #[test]
    fn elements_are_read_where_they_are_asked_for() {
        let tree = Tree::of(br#"{"a":[1,[2],"x"],"b":5}"#.to_vec());
        let raw = |place| String::from_utf8_lossy(tree.raw(place)).into_owned();
        let [list, number] = tree.children(0).collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((raw(list), raw(number)), (r#"[1,[2],"x"]"#.to_owned(), "5".to_owned()));
        assert_eq!(tree.children(list).map(raw).collect::<Vec<_>>(), ["[2]"]);
        let elements: Vec<_> = tree.elements(list).into_iter().map(|(_, raw)| raw).collect();
        assert_eq!(elements, [&b"1"[..], b"[2]", br#""x""#]);
        assert_eq!(tree.elements(number), []);
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        let tree = Tree::of(b"[".to_vec());
        assert_eq!((tree.raw(9), tree.kind(9), tree.children(9).count()), (&[][..], Kind::Null, 0));
        assert_eq!((tree.name(0), tree.elements(9)), ("".into(), vec![]));
    }
}
