//! Maps with `<<`: their own members and those that it refers to, as one.
//!
//! ```text
//! JSON of a map, and its places ─▶ member by member, the last of a name in the place of the first ─▶ JSON
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

/// The members of a map, of which the last one of a name counts.
pub(crate) struct MergedMap<'j> {
    json: &'j [u8],
    offsets: &'j [u32],
    order: Vec<(Range<usize>, Range<usize>)>,
    index: BTreeMap<&'j [u8], usize>,
}

impl<'j> MergedMap<'j> {
    pub(crate) fn new(json: &'j [u8], offsets: &'j [u32]) -> Self {
        Self { json, offsets, order: Vec::new(), index: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, json: Range<usize>, offsets: Range<usize>) {
        let text = self.json.get(json.clone()).unwrap_or_default();
        let name = text.get(..string_length(text)).unwrap_or_default();
        if let Some(member) = self.index.get(name).and_then(|at| self.order.get_mut(*at)) {
            *member = (json, offsets);
        } else {
            self.index.insert(name, self.order.len());
            self.order.push((json, offsets));
        }
    }

    /// Adds the members of a map, or of the maps in a list, of which the first ones come last. Returns the
    /// number of bytes read.
    pub(crate) fn add_all(
        &mut self,
        json: Range<usize>,
        offsets: Range<usize>,
    ) -> Result<usize, &'static str> {
        const WRONG: &str = "map merge requires map or sequence of maps as the value";
        let looked_at = json.len();
        let parts = match self.json.get(json.start) {
            Some(b'{') => vec![(json, offsets)],
            Some(b'[') => {
                let mut parts = children(self.json, self.offsets, json, offsets);
                // The element has a separate position.
                for (_, offsets) in &mut parts {
                    offsets.start = (offsets.start + 1).min(offsets.end);
                }
                parts.reverse();
                parts
            }
            _ => return Err(WRONG),
        };
        for (json, offsets) in parts {
            if self.json.get(json.start) != Some(&b'{') {
                return Err(WRONG);
            }
            for (json, offsets) in children(self.json, self.offsets, json, offsets) {
                self.set(json, offsets);
            }
        }
        Ok(looked_at)
    }

    /// Writes the map.
    pub(crate) fn write(&self, to_json: &mut Vec<u8>, to_offsets: &mut Vec<u32>) {
        to_json.push(b'{');
        for (at, (json, offsets)) in self.order.iter().enumerate() {
            if at > 0 {
                to_json.push(b',');
            }
            to_json.extend_from_slice(self.json.get(json.clone()).unwrap_or_default());
            to_offsets.extend_from_slice(self.offsets.get(offsets.clone()).unwrap_or_default());
        }
        to_json.push(b'}');
    }
}

/// Returns bytes of the string at the start of a text.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// Returns the members or elements of a value of our own JSON, each with its places.
fn children(
    json: &[u8],
    all: &[u32],
    range: Range<usize>,
    offsets: Range<usize>,
) -> Vec<(Range<usize>, Range<usize>)> {
    let mut found = Vec::new();
    let (mut depth, mut at) = (0usize, range.start);
    let (mut start, mut nodes) = (range.start + 1, 0usize);
    let first =
        |count: usize| if all.is_empty() { 0 } else { (offsets.start + count).min(offsets.end) };
    let mut before = 0;
    while at < range.end {
        match json.get(at) {
            Some(b'"') => {
                at += string_length(json.get(at..range.end).unwrap_or_default());
                continue;
            }
            Some(b'{' | b'[') => {
                depth += 1;
                nodes += usize::from(!matches!(json.get(at + 1), Some(b'}' | b']')));
            }
            Some(b',') => {
                if depth == 1 {
                    found.push((start..at, first(before)..first(nodes)));
                    (start, before) = (at + 1, nodes);
                }
                nodes += 1;
            }
            Some(b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    if nodes > 0 {
        found.push((start..range.end.saturating_sub(1), first(before)..first(nodes)));
    }
    found
}
