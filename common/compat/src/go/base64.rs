//! Base64 as Go's `StdEncoding` decodes it: line breaks do not count, padding is required.

fn digit(byte: u8) -> Option<u8> {
    let (from, value) = match byte {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'+' => (b'+', 62),
        b'/' => (b'/', 63),
        _ => return None,
    };
    Some(byte - from + value)
}

/// Marks a byte that is no digit.
const NOT_A_DIGIT: u8 = 64;

/// Decodes whole groups of four digits, up to other characters. Returns the bytes read. Manifests in a
/// catalog are nearly all of its text: this function is performance-critical.
fn decode_groups(text: &[u8], into: &mut Vec<u8>) -> usize {
    let all: [u8; 256] =
        std::array::from_fn(|byte| u8::try_from(byte).ok().and_then(digit).unwrap_or(NOT_A_DIGIT));
    let (groups, _) = text.as_chunks::<4>();
    into.reserve(groups.len().saturating_mul(3));
    for (index, group) in groups.iter().enumerate() {
        let digits = group.map(|byte| all.get(usize::from(byte)).copied().unwrap_or(NOT_A_DIGIT));
        if digits.contains(&NOT_A_DIGIT) {
            return index * 4;
        }
        let bits = digits.iter().fold(0, |bits, digit| bits << 6 | u32::from(*digit));
        let [_, decoded @ ..] = bits.to_be_bytes();
        into.extend_from_slice(&decoded);
    }
    groups.len() * 4
}

/// Appends the decoded text to a buffer.
///
/// # Errors
/// The offset that Go names.
pub fn decode(text: &str, into: &mut Vec<u8>) -> Result<(), usize> {
    let start = decode_groups(text.as_bytes(), into);
    let bytes = text.bytes().enumerate().skip(start);
    let mut bytes = bytes.filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let (mut bits, mut count) = (0_u32, 0_usize);
    while let Some((at, byte)) = bytes.next() {
        if let Some(digit) = digit(byte) {
            bits = bits << 6 | u32::from(digit);
            count += 1;
            if count == 4 {
                let [_, decoded @ ..] = bits.to_be_bytes();
                into.extend(decoded);
                (bits, count) = (0, 0);
            }
            continue;
        }
        if byte != b'=' || count < 2 {
            return Err(at);
        }
        if count == 2 {
            match bytes.next() {
                None => return Err(text.len()),
                Some((_, b'=')) => {}
                Some((second, _)) => return Err(second - 1),
            }
        }
        if let Some((rest, _)) = bytes.next() {
            return Err(rest);
        }
        // Two digits are one byte and four bits to spare, three are two bytes and two bits.
        let [_, first, second, _] = (bits << (6 * (4 - count))).to_be_bytes();
        into.push(first);
        if count == 3 {
            into.push(second);
        }
        return Ok(());
    }
    if count == 0 { Ok(()) } else { Err(text.len().saturating_sub(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<String, usize> {
        let mut bytes = Vec::new();
        decode(text, &mut bytes).map(|()| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn base64_is_decoded_like_go() {
        for (text, expected) in [
            ("", ""),
            ("YQ==", "a"),
            ("YWI=", "ab"),
            ("YW\nJj\r\n", "abc"),
            ("YWJjYWJj\nYWJj", "abcabcabc"),
            ("YWJjYWI=", "abcab"),
            ("eyJraW5kIjoiQ29uZmlnTWFwIn0=", r#"{"kind":"ConfigMap"}"#),
        ] {
            assert_eq!(decoded(text), Ok(expected.to_owned()), "{text}");
        }
        for (text, at) in
            [("%%%", 0), ("YQ", 0), ("YQ=", 3), ("YWI=YQ==", 4), ("Y===", 1), ("YWJjYW%=", 6)]
        {
            assert_eq!(decoded(text), Err(at), "{text}");
        }
    }
}
