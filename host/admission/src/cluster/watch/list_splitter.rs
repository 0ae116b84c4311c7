//! Splits the text of a list into its objects while it arrives.
//!
//! ```text
//! {"kind":…,"metadata":{…},"items":[ {…}, {…} ]} ─┬▶ each object, once it is complete
//!                                                 └▶ frame: {"kind":…,"metadata":{…},"items":[]}
//! ```
//!
//! An API server behind the aggregation layer need not support pages: it sends all of its objects
//! in one response of any size. To keep only one object in memory, nothing here depends on the
//! size of the response. The parts are not validated: the caller parses them and finds out whether
//! they are JSON.

/// The name of the list, with room to see that a name is longer.
const ITEMS: &[u8] = b"items";

/// A response that has partly arrived.
#[derive(Debug, Default)]
pub(in crate::cluster) struct ListSplitter {
    /// The text without the objects.
    frame: Vec<u8>,
    /// The beginning of an object.
    item: Vec<u8>,
    /// The number of open brackets.
    depth: usize,
    in_items: bool,
    in_string: bool,
    is_escaped: bool,
    /// The beginning of the last text directly in the list: a name, or the value of one.
    last: Vec<u8>,
    /// The number of times that the name of the list occurred.
    lists: usize,
}

impl ListSplitter {
    /// Reads bytes until an object is complete, which it returns; `None` if there are no more
    /// bytes.
    pub(in crate::cluster) fn next(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let mut taken = 0;
        while let Some(byte) = bytes.get(taken).copied() {
            if self.in_string {
                taken =
                    taken.saturating_add(self.skip_string(bytes.get(taken..).unwrap_or_default()));
                continue;
            }
            let is_of_items = self.in_items && self.depth == 2;
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.last.clear();
                }
                b':' if self.depth == 1 && self.last == ITEMS => {
                    self.lists = self.lists.saturating_add(1);
                }
                b'[' if self.depth == 1 && self.lists == 1 && self.last == ITEMS => {
                    self.take(bytes, taken, true);
                    self.in_items = true;
                    self.depth = 2;
                    taken = 0;
                    continue;
                }
                b'[' | b'{' => self.depth = self.depth.saturating_add(1),
                b',' if is_of_items => {
                    self.take(bytes, taken, false);
                    *bytes = bytes.get(1..).unwrap_or_default();
                    return Some(std::mem::take(&mut self.item));
                }
                b']' | b'}' if is_of_items => {
                    self.take(bytes, taken, false);
                    self.in_items = false;
                    self.depth = 1;
                    self.frame.push(byte);
                    *bytes = bytes.get(1..).unwrap_or_default();
                    taken = 0;
                    let item = std::mem::take(&mut self.item);
                    if !item.trim_ascii().is_empty() {
                        return Some(item);
                    }
                    continue;
                }
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            taken = taken.saturating_add(1);
        }
        self.take(bytes, taken, false);
        None
    }

    /// Steps over the rest of a text; returns the number of bytes.
    fn skip_string(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(byte) = bytes.get(taken).copied() {
            taken = taken.saturating_add(1);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.in_string = false;
                    return taken;
                }
                _ if self.depth > 1 => {
                    // Only these two bytes matter here.
                    let rest = bytes.get(taken..).unwrap_or_default();
                    let next = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    taken = taken.saturating_add(next);
                    continue;
                }
                _ => {}
            }
            if self.depth <= 1 && self.last.len() <= ITEMS.len() {
                self.last.push(byte);
            }
        }
        taken
    }

    /// Moves the first `count` bytes, and the one after them if it `includes` it, to where they belong.
    fn take(&mut self, bytes: &mut &[u8], count: usize, includes: bool) {
        let count = count.saturating_add(usize::from(includes));
        let (taken, rest) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
        let to = if self.in_items { &mut self.item } else { &mut self.frame };
        to.extend_from_slice(taken);
        *bytes = rest;
    }

    /// The bytes of the object that is not complete.
    pub(in crate::cluster) fn item_bytes(&self) -> usize {
        self.item.len()
    }

    /// The bytes of the frame so far.
    pub(in crate::cluster) fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// The response without its objects. If the response was cut short, this is not JSON. `None`
    /// if there were several lists, of which the last one would count.
    pub(in crate::cluster) fn finish(self) -> Option<Vec<u8>> {
        (self.lists <= 1).then_some(self.frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Objects and frame of a text that arrives in parts of this size.
    fn split(text: &str, size: usize) -> (Vec<String>, String) {
        let mut split = ListSplitter::default();
        let mut items = Vec::new();
        for mut part in text.as_bytes().chunks(size) {
            while let Some(item) = split.next(&mut part) {
                items.push(String::from_utf8(item).unwrap());
            }
        }
        (
            items,
            split.finish().map_or("twice".to_owned(), |frame| String::from_utf8(frame).unwrap()),
        )
    }

    #[test]
    fn objects_come_one_by_one_and_the_rest_is_the_frame() {
        for (text, items, frame) in [
            (r#"{"items":[]}"#, &[][..], r#"{"items":[]}"#),
            (r#"{"items":[ ],"a":1}"#, &[], r#"{"items":[],"a":1}"#),
            (r#"{"items":null}"#, &[], r#"{"items":null}"#),
            (
                r#"{"a":[1],"items":[{"b":[1,2]},3]}"#,
                &[r#"{"b":[1,2]}"#, "3"],
                r#"{"a":[1],"items":[]}"#,
            ),
            (
                r#"{"items" : [{"a":"]},[\"\\"},{}],"metadata":{"items":[1,2]}}"#,
                &[r#"{"a":"]},[\"\\"}"#, "{}"],
                r#"{"items" : [],"metadata":{"items":[1,2]}}"#,
            ),
            // Other members with this name are no lists of objects.
            (
                r#"{"itemsx":[1],"xitems":[2],"a":"items"}"#,
                &[],
                r#"{"itemsx":[1],"xitems":[2],"a":"items"}"#,
            ),
            (r#"{"it\"ems":[1]}"#, &[], r#"{"it\"ems":[1]}"#),
            (r#"{"items":[1],"items":[2]}"#, &["1"], "twice"),
            (r#"{"items":[1],"items":null}"#, &["1"], "twice"),
            // Cut short: the frame is no JSON.
            (r#"{"items":[{"a":1},{"b"#, &[r#"{"a":1}"#], r#"{"items":["#),
            (r#"{"items":[1}"#, &["1"], r#"{"items":[}"#),
        ] {
            for size in [1, 2, 3, 7, 1_000] {
                let (found, rest) = split(text, size);
                assert_eq!(
                    (&found[..], &*rest),
                    (&items.iter().map(|&i| i.to_owned()).collect::<Vec<_>>()[..], frame),
                    "{text} by {size}"
                );
            }
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = || proptest::string::string_regex(r#"[a-c"\\\[\]{},: é]{0,8}|items"#).unwrap();
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i32>().prop_map(|n| json!(n)),
            text().prop_map(|t| json!(t))
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(|list| json!(list)),
                proptest::collection::btree_map(text(), inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_list_is_split_as_a_parser_reads_it(
            items in proptest::collection::vec(value(), 0..5),
            metadata in value(),
            size in 1_usize..40,
            is_pretty: bool,
        ) {
            let list = json!({"a": metadata, "items": items, "kind": "List", "z": [metadata]});
            let text = if is_pretty { format!("{list:#}") } else { list.to_string() };
            let (found, frame) = split(&text, size);
            let found: Vec<Value> = found.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
            prop_assert_eq!(&json!(found), &list["items"]);
            let mut rest = list;
            rest["items"] = json!([]);
            prop_assert_eq!(serde_json::from_str::<Value>(&frame).unwrap(), rest);
        }

        #[test]
        fn split_does_not_depend_on_chunk_size(text in r#"[\[\]{}",:\\a items]{0,60}"#, size in 1_usize..9) {
            let (whole, parts) = (split(&text, 1_000), split(&text, size));
            prop_assert_eq!(whole, parts);
        }
    }
}
