//! Positions of the values of a YAML text.

use std::fmt;

use opgate_yaml::BooleanWords;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::{CaseFileError, File, MAX_JSON_BYTES, line_of};

/// A value and its place: of a member that of its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// In bytes of the text.
    pub(crate) offset: usize,
    pub(crate) members: Vec<(String, Node)>,
    pub(crate) elements: Vec<Node>,
}

impl Node {
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, node)| node)
    }
}

/// Parses the only document of a file, with the positions of its values.
pub(crate) fn parse(file: &File) -> Result<(Value, Node), CaseFileError> {
    let wrong = |line, why: String| CaseFileError { file: file.name.clone(), line, message: why };
    let parts = opgate_yaml::documents(&file.text, BooleanWords::Yaml11, MAX_JSON_BYTES);
    let parts =
        parts.map_err(|e| wrong(line_of(&file.text, e.offset()), e.message().into_owned()))?;
    let part = match parts.as_slice() {
        [] => return Ok((Value::Null, Node::default())),
        [part] => part,
        [_, second, ..] => {
            let why = "a second document: write one".to_owned();
            return Err(wrong(line_of(&file.text, second.offset), why));
        }
    };
    let value = serde_json::from_str(&part.json).map_err(|e| wrong(1, e.to_string()))?;
    let offset = |place: &u32| usize::try_from(*place).unwrap_or_default();
    let places: Vec<_> = part.offsets.iter().map(offset).collect();
    let mut next = OffsetCursor { offsets: &places, next_index: 0 };
    let at = next.next_offset();
    let mut json = serde_json::Deserializer::from_str(&part.json);
    let node = NodeSeed { cursor: &mut next, offset: at };
    let node = node.deserialize(&mut json).map_err(|e| wrong(1, e.to_string()))?;
    Ok((value, node))
}

/// The places, in the order of the JSON.
struct OffsetCursor<'p> {
    offsets: &'p [usize],
    next_index: usize,
}

impl OffsetCursor<'_> {
    fn next_offset(&mut self) -> usize {
        let place = self.offsets.get(self.next_index).copied().unwrap_or_default();
        self.next_index += 1;
        place
    }
}

/// Reads a value with a known position.
struct NodeSeed<'n, 'p> {
    cursor: &'n mut OffsetCursor<'p>,
    offset: usize,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_, '_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_, '_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key()? {
            let at = self.cursor.next_offset();
            members.push((
                name,
                map.next_value_seed(NodeSeed { cursor: &mut *self.cursor, offset: at })?,
            ));
        }
        Ok(Node { offset: self.offset, members, ..Node::default() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        loop {
            // The place of an element comes before it; behind the last one there is none.
            let number = self.cursor.next_index;
            let at = self.cursor.next_offset();
            if let Some(node) =
                list.next_element_seed(NodeSeed { cursor: &mut *self.cursor, offset: at })?
            {
                elements.push(node);
            } else {
                self.cursor.next_index = number;
                return Ok(Node { offset: self.offset, elements, ..Node::default() });
            }
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node { offset: self.offset, ..Node::default() })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node { offset: self.offset, ..Node::default() })
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node { offset: self.offset, ..Node::default() })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node { offset: self.offset, ..Node::default() })
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node { offset: self.offset, ..Node::default() })
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node { offset: self.offset, ..Node::default() })
    }
}
