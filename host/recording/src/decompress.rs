//! Reads the compressed text of a recording, within a limit.

use std::io::{self, Read as _};

/// The first bytes of a zstd frame (RFC 8878).
pub const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Maximum memory for the window of a frame: 2 to this power, as the reference decoder allows by default.
const MAX_WINDOW_LOG: u32 = 27;

/// The text of a compressed file.
#[derive(Debug)]
pub struct Decompressed {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the file ends before its end: the server was killed, or still writes. The bytes then end with a
    /// whole line.
    pub is_cut: bool,
}

/// Decompresses all frames of a file.
///
/// # Errors
/// If a frame is broken, or the text has more than `limit` bytes.
pub fn decompress(compressed: &[u8], limit: u64) -> io::Result<Decompressed> {
    let mut decoder = zstd::Decoder::with_buffer(compressed)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    let mut bytes = Vec::new();
    let read = decoder.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        let text = format!("the decompressed text has more than {limit} bytes");
        return Err(io::Error::other(text));
    }
    match read {
        Ok(_) => Ok(Decompressed { bytes, is_cut: false }),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            bytes.truncate(end);
            Ok(Decompressed { bytes, is_cut: true })
        }
        Err(error) => Err(error),
    }
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
        assert_eq!((found.bytes.as_slice(), found.is_cut), (&b"{}\n[]\n"[..], false));
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
        assert!(found.is_cut);
        assert!(!found.bytes.is_empty() && found.bytes.ends_with(b"\n"));
        assert!(lines.as_bytes().starts_with(&found.bytes));
        assert!(decompress(b"\x28\xb5\x2f\xfdxxxxxxxx", 100).is_err());
    }
}
