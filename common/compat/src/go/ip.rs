//! IP addresses as Go's `net/netip` reads them, with its texts.
//!
//! Texts are bytes here: what a URL or an address of mail escapes need not be UTF-8.

use super::quote_bytes;

/// The reason why a text is no address, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IpError(String);

/// An address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    /// Four numbers.
    V4([u8; 4]),
    /// Eight groups, and whether a zone is named.
    V6([u8; 16], bool),
}

impl Ip {
    /// Parses as `netip.ParseAddr`.
    ///
    /// # Errors
    /// Go's text.
    pub fn parse(text: &[u8]) -> Result<Self, IpError> {
        match text.iter().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
            Some(b'.') => fields(text, text).map(Self::V4),
            Some(b':') => parse_v6(text),
            Some(_) => Err(error(text, "missing IPv6 address", b"")),
            None => Err(error(text, "unable to parse IP", b"")),
        }
    }

    /// Returns none if `net.ParseIP` rejects the text as an address, and otherwise whether `To4` converts it
    /// to version 4.
    #[must_use]
    pub fn is_ipv4(text: &str) -> Option<bool> {
        const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255];
        match Self::parse(text.as_bytes()) {
            Ok(Self::V4(_)) => Some(true),
            Ok(Self::V6(groups, false)) => Some(groups.starts_with(&MAPPED)),
            _ => None,
        }
    }
}

fn error(whole: &[u8], why: &str, at: &[u8]) -> IpError {
    let whole = quote_bytes(whole);
    if at.is_empty() {
        return IpError(format!("ParseAddr({whole}): {why}"));
    }
    IpError(format!("ParseAddr({whole}): {why} (at {})", quote_bytes(at)))
}

/// Returns the four numbers of version 4, in a part of the whole text.
fn fields(whole: &[u8], part: &[u8]) -> Result<[u8; 4], IpError> {
    let wrong = |why, at| Err(error(whole, why, at));
    let mut fields = [0_u8; 4];
    let (mut value, mut digits, mut position) = (0_u32, 0_u32, 0_usize);
    let mut before = b'.';
    for (index, &byte) in part.iter().enumerate() {
        let rest = part.get(index..).unwrap_or_default();
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return wrong("IPv4 field has octet with leading zero", b"");
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return wrong("IPv4 field has value >255", b"");
                }
            }
            b'.' => {
                if before == b'.' || rest.len() == 1 {
                    return wrong("IPv4 field must have at least one digit", rest);
                }
                if position == 3 {
                    return wrong("IPv4 address too long", b"");
                }
                set(&mut fields, position, value);
                position += 1;
                (value, digits) = (0, 0);
            }
            _ => return wrong("unexpected character", rest),
        }
        before = byte;
    }
    if position < 3 {
        return wrong("IPv4 address too short", b"");
    }
    set(&mut fields, 3, value);
    Ok(fields)
}

fn set(bytes: &mut [u8], index: usize, value: u32) {
    if let (Some(byte), Ok(value)) = (bytes.get_mut(index), u8::try_from(value & 255)) {
        *byte = value;
    }
}

/// Returns the hexadecimal number at the start, and the number of its digits.
fn group(whole: &[u8], rest: &[u8]) -> Result<(u32, usize), IpError> {
    let (mut value, mut digits) = (0_u32, 0_usize);
    for &byte in rest {
        let Some(digit) = char::from(byte).to_digit(16) else { break };
        if digits > 3 {
            return Err(error(whole, "each group must have 4 or less digits", rest));
        }
        value = value << 4 | digit;
        digits += 1;
    }
    if digits == 0 {
        let why = "each colon-separated field must have at least one digit";
        return Err(error(whole, why, rest));
    }
    Ok((value, digits))
}

fn parse_v6(whole: &[u8]) -> Result<Ip, IpError> {
    let wrong = |why, at| Err(error(whole, why, at));
    let percent = whole.iter().position(|&byte| byte == b'%');
    let mut rest = whole.get(..percent.unwrap_or(whole.len())).unwrap_or_default();
    let has_zone = percent.is_some();
    if percent.is_some_and(|percent| percent + 1 == whole.len()) {
        return wrong("zone must be a non-empty string", b"");
    }
    let mut ip = [0_u8; 16];
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix(b"::") {
        if after.is_empty() {
            return Ok(Ip::V6(ip, has_zone));
        }
        (ellipsis, rest) = (Some(0), after);
    }
    let mut length = 0;
    while length < 16 {
        let (value, digits) = group(whole, rest)?;
        let after = rest.get(digits..).unwrap_or_default();
        if after.first() == Some(&b'.') {
            if ellipsis.is_none() && length != 12 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return wrong(why, rest);
            }
            if length > 12 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return wrong(why, rest);
            }
            for (index, field) in fields(whole, rest)?.into_iter().enumerate() {
                set(&mut ip, length + index, field.into());
            }
            (rest, length) = (b"", length + 4);
            break;
        }
        set(&mut ip, length, value >> 8);
        set(&mut ip, length + 1, value);
        length += 2;
        rest = after;
        rest = match rest {
            [] => break,
            [b':'] => return wrong("colon must be followed by more characters", rest),
            [b':', after @ ..] => after,
            _ => return wrong("unexpected character, want colon", rest),
        };
        if let Some(after) = rest.strip_prefix(b":") {
            if ellipsis.is_some() {
                return wrong("multiple :: in address", rest);
            }
            (ellipsis, rest) = (Some(length), after);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return wrong("trailing garbage after address", rest);
    }
    match ellipsis {
        None if length < 16 => wrong("address string too short", b""),
        Some(_) if length == 16 => wrong("the :: must expand to at least one field of zeros", b""),
        // The part after the two colons is at the end.
        Some(from) => {
            ip.get_mut(from..).unwrap_or_default().rotate_right(16 - length);
            Ok(Ip::V6(ip, has_zone))
        }
        None => Ok(Ip::V6(ip, has_zone)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_like_go() {
        for (text, expected) in [
            ("192.0.2.1", Some(true)),
            ("::ffff:192.0.2.1", Some(true)),
            ("::ffff:c000:201", Some(true)),
            ("2001:db8::1", Some(false)),
            ("1:2:3:4:5:6:7:8", Some(false)),
            ("1:2:3:4:5:6:7::", Some(false)),
            ("::", Some(false)),
            ("fe80::1%en0", None),
            ("1.2.3", None),
            ("", None),
        ] {
            assert_eq!(Ip::is_ipv4(text), expected, "{text}");
        }
        let Ok(Ip::V6(groups, true)) = Ip::parse(b"1:2::7:8%z") else { panic!("with a zone") };
        assert_eq!(groups, [0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8]);
    }

    #[test]
    fn errors_match_go() {
        for (text, error) in [
            ("", "unable to parse IP"),
            ("bad", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("500.0.0.1", "IPv4 field has value >255"),
            ("192.168.300.1", "IPv4 field has value >255"),
            ("192.168.1.1.1", "IPv4 address too long"),
            ("192.168.1", "IPv4 address too short"),
            ("192.168..1", "IPv4 field must have at least one digit (at \".1\")"),
            (".168.0.1", "IPv4 field must have at least one digit (at \".168.0.1\")"),
            ("192.168.0.", "IPv4 field must have at least one digit (at \".\")"),
            ("1.2.3.x", "unexpected character (at \"x\")"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("fe80::1cc0:3e8c:119f:c2e1%", "zone must be a non-empty string"),
            ("1:2:3:4:5:6:7", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1:2:3:4::5:6:7:8", "the :: must expand to at least one field of zeros"),
            ("fe801::1", "each group must have 4 or less digits (at \"fe801::1\")"),
            (
                "fe80:tail:scal:e::",
                "each colon-separated field must have at least one digit (at \"tail:scal:e::\")",
            ),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("1:2:", "colon must be followed by more characters (at \":\")"),
            ("1:2x", "unexpected character, want colon (at \"x\")"),
            ("::1.2.3.4.5", "IPv4 address too long"),
            (
                "1:1.2.3.4",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")",
            ),
            (
                "::1:2:3:4:5:6:7:1.2.3.4",
                "too many hex fields to fit an embedded IPv4 at the end of the address (at \"1.2.3.4\")",
            ),
        ] {
            let expected = format!("ParseAddr({text:?}): {error}");
            assert_eq!(Ip::parse(text.as_bytes()).unwrap_err().to_string(), expected);
        }
        assert_eq!(
            Ip::parse(b"\xff").unwrap_err().to_string(),
            r#"ParseAddr("\xff"): unable to parse IP"#
        );
    }
}
