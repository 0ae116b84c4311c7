//! Helpers of the fuzz targets.
//!
//! ```text
//! input ─▶ target ─▶ code under test ─▶ oracle: a second implementation, or an invariant
//! ```
//!
//! A target panics if code and oracle disagree. An input without an oracle is still read: it must
//! not crash or take long.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Size of repeated inputs, which show how the cost grows. Quadratic work needs seconds at this size, and
/// libFuzzer stops a run after five.
const REPEATED_INPUT_BYTES: usize = 256 << 10;
/// One input in this number is repeated: a repeated one takes as long as some thousand others.
const REPEAT_INTERVAL: u64 = 4_096;

/// Returns a hash of an input. It selects the inputs of slow checks, always the same ones, so that a
/// failure can be reproduced.
pub fn hash(input: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    input.iter().fold(0xcbf2_9ce4_8422_2325, fold) >> 20
}

/// Returns the input repeated to a large size, with one of the separators in between; none for most
/// inputs.
pub fn repeat_input(input: &[u8], separators: &[&str]) -> Option<Vec<u8>> {
    let hash = hash(input);
    let index = usize::try_from(hash / REPEAT_INTERVAL).unwrap_or_default() % separators.len();
    let separator = separators.get(index).filter(|_| hash % REPEAT_INTERVAL == 0)?.as_bytes();
    let unit = [input, separator].concat();
    let mut repeated = unit.repeat((REPEATED_INPUT_BYTES / unit.len().max(1)).max(1));
    repeated.truncate(repeated.len() - separator.len());
    Some(repeated)
}

/// Encodes bytes as base64, as in ConfigMaps.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = usize::try_from(bits >> (18 - 6 * index) & 63).map(|code| LETTERS[code]);
            text.push(if index <= chunk.len() { char::from(letter.unwrap_or(b'=')) } else { '=' });
        }
    }
    text
}

/// Packs a file as gzip in stored blocks, without compression.
pub fn gzip(file: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in file.chunks(0xffff) {
        let length = u16::try_from(block.len()).unwrap_or_default();
        packed.push(0);
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(block);
    }
    // The last block, and a checksum and a size that the reader ignores.
    packed.extend([1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    packed
}

/// Returns the CPU time of this thread, in nanoseconds.
///
/// # Panics
/// Panics if the system has no such clock.
pub fn cpu_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).expect("a time");
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("a time")
}

/// A JSON value in the order of its text, with duplicate members.
#[derive(Debug)]
pub enum Json {
    /// A scalar.
    Scalar,
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text; `None` if `serde_json` rejects it, for example because of its depth.
    pub fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Reports whether an object, at any depth, has a duplicate name.
    pub fn has_duplicate_names(&self) -> bool {
        match self {
            Self::Scalar => false,
            Self::List(items) => items.iter().any(Self::has_duplicate_names),
            Self::Object(members) => {
                let names: std::collections::BTreeSet<_> = members.iter().map(|m| &m.0).collect();
                names.len() < members.len()
                    || members.iter().any(|member| member.1.has_duplicate_names())
            }
        }
    }

    /// Returns the JSON pointers of this value and of all values in it, in the order of the text.
    pub fn pointers(&self) -> Vec<String> {
        let mut pointers = vec![String::new()];
        self.add_pointers(0, &mut pointers);
        pointers
    }

    fn add_pointers(&self, parent: usize, pointers: &mut Vec<String>) {
        let mut add = |name: &str, value: &Self| {
            let name = name.replace('~', "~0").replace('/', "~1");
            pointers.push(format!("{}/{name}", pointers[parent]));
            value.add_pointers(pointers.len() - 1, pointers);
        };
        match self {
            Self::Scalar => {}
            Self::List(items) => items.iter().enumerate().for_each(|(i, v)| add(&i.to_string(), v)),
            Self::Object(members) => members.iter().for_each(|(name, value)| add(name, value)),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Scalar)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Scalar)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Scalar)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Scalar)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Scalar)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Json, E> {
        Ok(Json::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Json::Object(object))
    }
}

/// Returns line and column of an offset, in characters from 1, counted from the start of the text.
///
/// # Panics
/// Panics if the text has more than `u64::MAX` lines.
pub fn line_and_column(text: &str, offset: usize) -> (u64, u64) {
    let before = &text[..offset];
    let line = before.rsplit('\n').next().unwrap_or_default();
    let number = |count: usize| u64::try_from(count + 1).expect("a number");
    (number(before.matches('\n').count()), number(line.chars().count()))
}
