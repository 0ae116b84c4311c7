//! Base64 and gzip, as bundles are packed into ConfigMaps.
//!
//! OLM compresses a file, encodes it as base64, and puts the text into `binaryData`, where it is
//! encoded as base64 again: `value ─▶ base64 ─▶ (base64 ─▶) gzip ─▶ file`.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use opgate_compat::go::base64::decode;

/// The result of unpacking a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpacked<'v> {
    /// The file.
    File(&'v [u8]),
    /// More bytes than the limit.
    TooLarge,
    /// Data that OLM cannot read either.
    Invalid,
}

/// Decodes a base64 text like Go. `None` if it is not base64.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    decode(text, &mut bytes).ok().map(|()| bytes)
}

/// Unpacks bytes, compressed or not, into at most `room` bytes. Memory is never freed during a
/// call, so compressed data is unpacked into one buffer of the maximum size.
pub(crate) fn unpack<'v>(bytes: &'v [u8], limit: usize, buffer: &'v mut Vec<u8>) -> Unpacked<'v> {
    if is_gzip(bytes) {
        return gunzip(bytes, limit, buffer);
    }
    // Compressed, and encoded as base64 again: such data begins with `H4sI`.
    let text = bytes.starts_with(b"H4sI").then_some(bytes.trim_ascii());
    match text.and_then(|text| decode_base64(std::str::from_utf8(text).ok()?)) {
        Some(inner) if is_gzip(&inner) => gunzip(&inner, limit, buffer),
        _ => Unpacked::File(bytes),
    }
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b, 8])
}

/// Unpacks one member after the other, like Go's reader.
fn gunzip<'b>(bytes: &[u8], limit: usize, buffer: &'b mut Vec<u8>) -> Unpacked<'b> {
    if buffer.len() < limit {
        buffer.resize(limit, 0);
    }
    let Some(file) = buffer.get_mut(..limit) else { return Unpacked::TooLarge };
    let mut decoder = Box::<DecompressorOxide>::default();
    let (mut rest, mut length) = (bytes, 0);
    while is_gzip(rest) {
        let Some(data) = skip_header(rest) else { return Unpacked::Invalid };
        decoder.init();
        let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, read, written) = decompress(&mut decoder, data, file, length, flags);
        length += written;
        match status {
            TINFLStatus::Done => {}
            TINFLStatus::HasMoreOutput => return Unpacked::TooLarge,
            _ => return Unpacked::Invalid,
        }
        // A checksum and a size follow the data.
        rest = data.get(read.saturating_add(8)..).unwrap_or_default();
    }
    Unpacked::File(file.get(..length).unwrap_or_default())
}

/// The data after the header: ten bytes and the optional fields that its flags declare.
fn skip_header(bytes: &[u8]) -> Option<&[u8]> {
    let flags = *bytes.get(3)?;
    let mut rest = bytes.get(10..)?;
    if flags & 4 != 0 {
        let (length, after) = rest.split_first_chunk()?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for flag in [8, 16] {
        if flags & flag != 0 {
            let end = rest.iter().position(|&byte| byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & 2 != 0 { rest.get(2..) } else { Some(rest) }
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec;
    use proptest::prelude::*;

    use super::*;

    fn gzip(bytes: &[u8], size: u32, name: bool) -> Vec<u8> {
        let mut gzip = vec![0x1f, 0x8b, 8, if name { 8 } else { 0 }, 0, 0, 0, 0, 0, 255];
        if name {
            gzip.extend(b"name\0");
        }
        gzip.extend(compress_to_vec(bytes, 6));
        gzip.extend([0; 4]);
        gzip.extend(size.to_le_bytes());
        gzip
    }

    #[test]
    fn unpacked_size_limit_ignores_the_declared_size() {
        let file = b"a file ".repeat(1_000);
        for size in [7_000, 0, 10, u32::MAX] {
            for name in [false, true] {
                let packed = gzip(&file, size, name);
                let unpacked = Unpacked::File(&file);
                assert_eq!(unpack(&packed, 8_000, &mut Vec::new()), unpacked, "{size}");
                assert_eq!(unpack(&packed, 7_000, &mut Vec::new()), unpacked, "{size}");
                assert_eq!(unpack(&packed, 6_999, &mut Vec::new()), Unpacked::TooLarge, "{size}");
            }
        }
        let two = [gzip(b"one, ", 5, true), gzip(b"two", 3, false)].concat();
        assert_eq!(unpack(&two, 8, &mut Vec::new()), Unpacked::File(b"one, two"));
        assert_eq!(unpack(&two, 7, &mut Vec::new()), Unpacked::TooLarge);
        let bomb = gzip(&vec![0; 64 << 20], 1, false);
        assert!(bomb.len() < 100_000);
        assert_eq!(unpack(&bomb, 8 << 20, &mut Vec::new()), Unpacked::TooLarge);
        assert_eq!(unpack(b"plain", 10, &mut Vec::new()), Unpacked::File(b"plain"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_unpacked_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = unpack(&bytes, 100, &mut Vec::new());
            let header = [&[0x1f, 0x8b, 8], bytes.as_slice()].concat();
            let _ = unpack(&header, 100, &mut Vec::new());
        }
    }
}
