//! What the fuzz targets share.
//!
//! ```text
//! input ─▶ target ─▶ code under test ─▶ oracle: another way to the same answer, or what must hold
//! ```
//!
//! A target panics where code and oracle disagree. What it may not do is ask nothing: an input that
//! no oracle can judge is at least read, and must not crash or take long.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Bytes to which an input is repeated to see how its cost grows. What takes time with the square of
/// the size needs seconds for so many, and libFuzzer ends a run of more than five.
const LARGE: usize = 256 << 10;
/// One input of so many is repeated: a large one takes as long as some thousand others.
const RARE: u64 = 4_096;

/// A number that an input has by its content: for what is too slow to do every time, and must be done
/// again when the input is tried again.
pub fn hash(input: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    input.iter().fold(0xcbf2_9ce4_8422_2325, fold) >> 20
}

/// Of a few inputs something large, which must not take long: the input again and again, with one of
/// these between.
pub fn large(input: &[u8], between: &[&str]) -> Option<Vec<u8>> {
    let hash = hash(input);
    let place = usize::try_from(hash / RARE).unwrap_or_default() % between.len();
    let between = between.get(place).filter(|_| hash % RARE == 0)?.as_bytes();
    let unit = [input, between].concat();
    let mut large = unit.repeat((LARGE / unit.len().max(1)).max(1));
    large.truncate(large.len() - between.len());
    Some(large)
}

/// Base64, as a writer of ConfigMaps makes it.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = usize::try_from(bits >> (18 - 6 * index) & 63).map(|at| LETTERS[at]);
            text.push(if index <= chunk.len() { char::from(letter.unwrap_or(b'=')) } else { '=' });
        }
    }
    text
}

/// A file as `gzip` writes it, in stored blocks: the content is not compressed.
pub fn gzip(file: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in file.chunks(0xffff) {
        let length = u16::try_from(block.len()).unwrap_or_default();
        packed.push(0);
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(block);
    }
    // The last block, and a checksum and a size that nobody looks at.
    packed.extend([1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    packed
}

/// Nanoseconds of the processor that this thread has had.
///
/// # Panics
/// Where the system has no such clock.
pub fn processor_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).expect("a time");
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("a time")
}

/// A value of JSON in the order of its text, with all members of one name.
#[derive(Debug)]
pub enum Json {
    /// A value that has none in it.
    Leaf,
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text; `None` for what `serde_json` does not read, as it nests too deep.
    pub fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Whether a name stands twice in an object, at any depth.
    pub fn has_twice(&self) -> bool {
        match self {
            Self::Leaf => false,
            Self::List(items) => items.iter().any(Self::has_twice),
            Self::Object(members) => {
                let names: std::collections::BTreeSet<_> = members.iter().map(|m| &m.0).collect();
                names.len() < members.len() || members.iter().any(|member| member.1.has_twice())
            }
        }
    }

    /// JSON pointers of this and of all that is in it, in the order of the text.
    pub fn pointers(&self) -> Vec<String> {
        let mut pointers = vec![String::new()];
        self.add(0, &mut pointers);
        pointers
    }

    fn add(&self, at: usize, pointers: &mut Vec<String>) {
        let mut one = |name: &str, value: &Self| {
            let name = name.replace('~', "~0").replace('/', "~1");
            pointers.push(format!("{}/{name}", pointers[at]));
            value.add(pointers.len() - 1, pointers);
        };
        match self {
            Self::Leaf => {}
            Self::List(items) => items.iter().enumerate().for_each(|(i, v)| one(&i.to_string(), v)),
            Self::Object(members) => members.iter().for_each(|(name, value)| one(name, value)),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Leaf)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Leaf)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Leaf)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Leaf)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Leaf)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Json, E> {
        Ok(Json::Leaf)
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

/// Line and column, in characters, of an offset, from 1: counted from the start of the text.
///
/// # Panics
/// Where a text has more lines than a number has values.
pub fn line_and_column(text: &str, offset: usize) -> (u64, u64) {
    let before = &text[..offset];
    let line = before.rsplit('\n').next().unwrap_or_default();
    let number = |count: usize| u64::try_from(count + 1).expect("a number");
    (number(before.matches('\n').count()), number(line.chars().count()))
}
