//! Reads the compressed text of a recording, within a limit.

use std::io::{self, Read as _};

/// The first bytes of a zstd frame (RFC 8878).
pub const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Maximum memory for the window of a frame: 2 to this power, as the reference decoder allows by default.
const MAX_WINDOW_LOG: u32 = 27;

/// The reason why a compressed file has no text.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// It has more bytes than allowed.
    #[error("the decompressed text has more than {0} bytes")]
    TooLarge(u64),
    /// No line can be read.
    #[error("not compressed with zstd, or damaged: {0}")]
    Broken(io::Error),
}

/// The text of a compressed file.
#[derive(Debug)]
pub struct Decompressed {
    /// The bytes. Without their end, they end with a whole line.
    pub bytes: Vec<u8>,
    /// How they end.
    pub end: TextEnd,
}

/// The end of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextEnd {
    /// That of the file.
    Complete,
    /// The file ends before its end: the server was killed, or still writes.
    Cut,
    /// The rest of the file is damaged, with this error.
    Damaged(String),
}

/// Decompresses all frames of a file.
///
/// # Errors
/// If the text has more than `limit` bytes, or the file is broken before the first whole line.
pub fn decompress(compressed: &[u8], limit: u64) -> Result<Decompressed, DecompressError> {
    let mut decoder = zstd::Decoder::with_buffer(compressed).map_err(DecompressError::Broken)?;
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(DecompressError::Broken)?;
    let mut bytes = Vec::new();
    let read = decoder.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(DecompressError::TooLarge(limit));
    }
    let Err(error) = read else { return Ok(Decompressed { bytes, end: TextEnd::Complete }) };
    let whole_lines = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(whole_lines);
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Ok(Decompressed { bytes, end: TextEnd::Cut });
    }
    if bytes.is_empty() {
        return Err(DecompressError::Broken(error));
    }
    Ok(Decompressed { bytes, end: TextEnd::Damaged(error.to_string()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 1).unwrap()
    }

    #[test]
    fn frames_of_a_file_are_one_text() {
        let file = [compressed(b"{}\n"), compressed(b"[]\n")].concat();
        let found = decompress(&file, 100).unwrap();
        assert_eq!((found.bytes.as_slice(), found.end), (&b"{}\n[]\n"[..], TextEnd::Complete));
        assert!(file.starts_with(&MAGIC));
    }

    #[test]
    fn text_over_the_limit_is_an_error() {
        let file = compressed(&vec![b' '; 1 << 20]);
        assert!(file.len() < 1_000);
        let error = decompress(&file, 1_000).unwrap_err().to_string();
        assert_eq!(error, "the decompressed text has more than 1000 bytes");
        assert!(decompress(&file, 1 << 20).is_ok());
    }

    #[test]
    fn file_that_is_cut_off_has_its_whole_lines() {
        let line = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string();
        let lines = (0..20_000).map(line).collect::<Vec<_>>().join("\n");
        let file = compressed(lines.as_bytes());
        let half = file.get(..file.len() / 2).unwrap();
        let found = decompress(half, 1 << 30).unwrap();
        assert_eq!(found.end, TextEnd::Cut);
        assert!(!found.bytes.is_empty() && found.bytes.ends_with(b"\n"));
        assert!(lines.as_bytes().starts_with(&found.bytes));
    }

    #[test]
    fn damaged_file_has_the_lines_before_the_damage() {
        let file = [&compressed(b"{}\n[]\n{\"cut"), &b"no frame"[..]].concat();
        let found = decompress(&file, 100).unwrap();
        assert_eq!(found.bytes, b"{}\n[]\n");
        assert!(matches!(&found.end, TextEnd::Damaged(_)), "{:?}", found.end);
        for file in [&b"\x28\xb5\x2f\xfdxxxxxxxx"[..], b"no frame"] {
            let error = decompress(file, 100).unwrap_err().to_string();
            assert!(error.starts_with("not compressed with zstd, or damaged: "), "{error}");
        }
    }
}
