//! Lists in the text of an annotation, read in one pass.
//!
//! ```text
//! text ─▶ opgate_compat::json ─▶ each element: its kind, its position, and members by name
//! ```
//!
//! Elements are not stored. A list of a megabyte can have 700,000 of them, and a table of them
//! would take the host longer than one pass takes the guest, at roughly 10 ns per byte.

use std::ops::Range;

use opgate_compat::json::{self, Error, Kind, ReadOptions, Sink};

/// The limits of Go's decoder.
const GO_LIMITS: ReadOptions = ReadOptions { max_depth: 10_000, allow_trailing: false };

/// A value in the text.
#[derive(Debug, Clone)]
pub(super) struct JsonSpan {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

impl JsonSpan {
    /// The value, if it is a string.
    pub(super) fn text<'t>(&self, text: &'t str) -> Option<std::borrow::Cow<'t, str>> {
        let raw = text.as_bytes().get(self.range.clone()).unwrap_or_default();
        (self.kind == Kind::Text).then(|| json::decode_text(raw))
    }

    /// The JSON text of the value.
    pub(super) fn raw<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.range.clone()).unwrap_or_default()
    }
}

/// An element of the list.
#[derive(Debug)]
pub(super) struct Element<const N: usize> {
    pub(super) index: usize,
    pub(super) part: JsonSpan,
    /// The requested members. If several have the same name, the last one counts.
    pub(super) members: [Option<JsonSpan>; N],
}

impl<const N: usize> Element<N> {
    /// A member by its position among the requested members.
    pub(super) fn member(&self, at: usize) -> Option<&JsonSpan> {
        self.members.get(at).and_then(Option::as_ref)
    }

    /// The value of a member, if it is a string.
    pub(super) fn text<'t>(&self, at: usize, text: &'t str) -> Option<std::borrow::Cow<'t, str>> {
        self.member(at).and_then(|part| part.text(text))
    }
}

/// Calls `visit` with each element of a list. Returns the kind of the value, which may not be a
/// list.
///
/// # Errors
/// The error of Go's decoder if the text is not JSON. Elements before the error were visited.
pub(super) fn for_each_element<const N: usize>(
    text: &str,
    names: [&str; N],
    visit: impl FnMut(Element<N>),
) -> Result<Kind, Error> {
    let mut reader = ListReader {
        text,
        names,
        visit,
        depth: 0,
        kind: Kind::Null,
        start: 0,
        index: 0,
        members: [const { None }; N],
        member: None,
    };
    json::read(text.as_bytes(), GO_LIMITS, &mut reader)?;
    Ok(reader.kind)
}

struct ListReader<'t, const N: usize, V> {
    text: &'t str,
    names: [&'t str; N],
    visit: V,
    /// Number of open lists and objects.
    depth: usize,
    /// The kind of the value.
    kind: Kind,
    /// The start of the open element.
    start: usize,
    index: usize,
    members: [Option<JsonSpan>; N],
    /// The member that comes next or is open, and its start.
    member: Option<(usize, usize)>,
}

impl<const N: usize, V: FnMut(Element<N>)> ListReader<'_, N, V> {
    fn begin(&mut self, kind: Kind, at: usize) {
        match self.depth {
            0 => self.kind = kind,
            1 => self.start = at,
            2 => {
                if let Some((_, start)) = &mut self.member {
                    *start = at;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, kind: Kind, end: usize) {
        match self.depth {
            1 if self.kind == Kind::List => {
                let members = std::mem::replace(&mut self.members, [const { None }; N]);
                let part = JsonSpan { kind, range: self.start..end };
                (self.visit)(Element { index: self.index, part, members });
                self.index = self.index.saturating_add(1);
            }
            2 => {
                if let Some((at, start)) = self.member.take()
                    && let Some(member) = self.members.get_mut(at)
                {
                    *member = Some(JsonSpan { kind, range: start..end });
                }
            }
            _ => {}
        }
    }
}

impl<const N: usize, V: FnMut(Element<N>)> Sink for ListReader<'_, N, V> {
    fn key(&mut self, key: Range<usize>) {
        if self.depth == 2 && self.kind == Kind::List && N > 0 {
            let key = json::decode_text(self.text.as_bytes().get(key).unwrap_or_default());
            self.member = self.names.iter().position(|name| *name == key).map(|at| (at, 0));
        }
    }

    fn open(&mut self, kind: Kind, at: usize) {
        self.begin(kind, at);
        self.depth = self.depth.saturating_add(1);
    }

    fn close(&mut self, kind: Kind, end: usize) {
        self.depth = self.depth.saturating_sub(1);
        self.end(kind, end);
    }

    fn scalar(&mut self, kind: Kind, range: Range<usize>) {
        self.begin(kind, range.start);
        self.end(kind, range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_with_their_members() {
        let text =
            r#"[ 1, {"a":"x","b":{"a":[2]},"a":"\u0079"} , [{"a":3}], {"\u0061":null}, {}, "z"]"#;
        let mut found = Vec::new();
        let kind = for_each_element(text, ["a", "b"], |element| {
            let members: Vec<_> =
                (0..2).map(|at| element.member(at).map(|p| p.raw(text))).collect();
            found.push((element.index, element.part.raw(text), members, element.text(0, text)));
        });
        assert_eq!(kind, Ok(Kind::List));
        let expected = [
            ("1", None, None, None),
            (
                r#"{"a":"x","b":{"a":[2]},"a":"\u0079"}"#,
                Some(r#""\u0079""#),
                Some(r#"{"a":[2]}"#),
                Some("y"),
            ),
            (r#"[{"a":3}]"#, None, None, None),
            (r#"{"\u0061":null}"#, Some("null"), None, None),
            ("{}", None, None, None),
            (r#""z""#, None, None, None),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .enumerate()
            .map(|(index, (raw, a, b, text))| (index, raw, vec![a, b], text.map(Into::into)))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn other_values_have_no_elements() {
        for (text, kind) in [
            (r#"{"a":[1]}"#, Kind::Object),
            ("null", Kind::Null),
            ("\"[1]\"", Kind::Text),
            ("[]", Kind::List),
        ] {
            let found = for_each_element(text, ["a"], |element| panic!("{text}: {element:?}"));
            assert_eq!(found, Ok(kind), "{text}");
        }
        assert!(for_each_element("[", [], |_| {}).is_err());
    }
}
