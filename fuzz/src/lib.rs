//! What the fuzz targets share.
//!
//! ```text
//! input ─▶ target ─▶ code under test ─▶ oracle: another way to the same answer, or what must hold
//! ```
//!
//! A target panics where code and oracle disagree. What it may not do is ask nothing: an input that
//! no oracle can judge is at least read, and must not crash or take long.

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
