//! Values of numbers, strings and bytes in an expression.

use std::rc::Rc;

/// A value that is written out.
#[derive(Debug, Clone)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
}

const UNESCAPE_ERROR: &str = "unable to unescape string";
const INVALID_CODE_POINT: &str = "invalid unicode code point";

/// Digits and their base.
fn digits(text: &str) -> (&str, u32) {
    text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16))
}

/// Returns a whole number, with the sign before it if there is one.
pub(super) fn int(text: &str, negative: bool) -> Result<Literal, &'static str> {
    let (digits, radix) = digits(text);
    // With its sign, because the smallest number has no positive counterpart.
    let value = i128::from_str_radix(digits, radix).ok();
    let value = value.map(|value| if negative { -value } else { value });
    value.and_then(|v| i64::try_from(v).ok()).map(Literal::Int).ok_or("invalid int literal")
}

/// Returns a whole number that ends in `u`.
pub(super) fn uint(text: &str) -> Result<Literal, &'static str> {
    let (digits, radix) = digits(text.trim_end_matches(['u', 'U']));
    u64::from_str_radix(digits, radix).map(Literal::Uint).map_err(|_| "invalid uint literal")
}

/// Parses any other number.
pub(super) fn double(text: &str, negative: bool) -> Result<Literal, &'static str> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    let value = value.map(|value| if negative { -value } else { value });
    value.map(Literal::Double).ok_or("invalid double literal")
}

/// Returns the content of a string literal, without its escapes.
pub(super) fn text(token: &str) -> Result<Literal, &'static str> {
    let bytes = unescape(token, false)?;
    let text = String::from_utf8(bytes).map_err(|_| UNESCAPE_ERROR)?;
    Ok(Literal::Text(text.into()))
}

/// Returns the content of a bytes literal, where escapes are bytes and not characters.
pub(super) fn bytes(token: &str) -> Result<Literal, &'static str> {
    let token = token.strip_prefix(['b', 'B']).unwrap_or(token);
    Ok(Literal::Bytes(unescape(token, true)?.into()))
}

fn unescape(token: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    // Ends of lines are the same everywhere.
    let token = token.replace("\r\n", "\n").replace('\r', "\n");
    let raw = token.strip_prefix(['r', 'R']);
    let quoted = raw.unwrap_or(&token);
    let marks = ["\"\"\"", "'''", "\"", "'"];
    let between = |quote: &&str| {
        let long = quoted.len() >= 2 * quote.len();
        quoted.strip_prefix(*quote).filter(|_| long)?.strip_suffix(*quote)
    };
    let inner = marks.iter().find_map(between).ok_or(UNESCAPE_ERROR)?;
    if raw.is_some() || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    let push = |out: &mut Vec<u8>, c: char| {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    };
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        let escaped = chars.next().ok_or(UNESCAPE_ERROR)?;
        let (first, count, radix) = match escaped {
            'x' | 'X' => (0, 2, 16),
            'u' if !bytes => (0, 4, 16),
            'U' if !bytes => (0, 8, 16),
            '0'..='3' => (escaped.to_digit(8).unwrap_or_default(), 2, 8),
            _ => {
                push(&mut out, control_character(escaped).ok_or(UNESCAPE_ERROR)?);
                continue;
            }
        };
        let mut code = first;
        for _ in 0..count {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or(UNESCAPE_ERROR)?;
            code = code.wrapping_mul(radix) | digit;
        }
        if bytes {
            out.push(u8::try_from(code).map_err(|_| UNESCAPE_ERROR)?);
        } else {
            push(&mut out, char::from_u32(code).ok_or(INVALID_CODE_POINT)?);
        }
    }
    Ok(out)
}

fn control_character(escaped: char) -> Option<char> {
    Some(match escaped {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' | '?' => escaped,
        _ => return None,
    })
}
