//! Go's `time.ParseDuration`, limited to the errors in a text.

use std::fmt::Write as _;

/// The reason why a text is no duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DurationError(String);

/// The message of a violation is this text.
impl From<DurationError> for String {
    fn from(error: DurationError) -> Self {
        error.0
    }
}

/// Largest number of nanoseconds, and one more: as far as a negative duration reaches.
const NANOS_LIMIT: u64 = 1 << 63;

/// Reports whether a text is a duration as Go writes them: `10m`, `1h2.5s`, `-1.5h`.
///
/// # Errors
/// Go's text.
pub fn check(text: &str) -> Result<(), DurationError> {
    let invalid = || DurationError(format!("time: invalid duration {}", quote(text)));
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let value = number(whole).ok_or_else(invalid)?;
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end).unwrap_or((after, ""));
        if unit.is_empty() {
            return Err(DurationError(format!("time: missing unit in duration {}", quote(text))));
        }
        let nanoseconds = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            unit => {
                let (unit, text) = (quote(unit), quote(text));
                return Err(DurationError(format!("time: unknown unit {unit} in duration {text}")));
            }
        };
        let value =
            value.checked_mul(nanoseconds).and_then(|v| v.checked_add(part(fraction, nanoseconds)));
        let value = value.filter(|value| *value <= NANOS_LIMIT).ok_or_else(invalid)?;
        sum = sum.checked_add(value).filter(|sum| *sum <= NANOS_LIMIT).ok_or_else(invalid)?;
        rest = next;
    }
    if sum == NANOS_LIMIT && !negative { Err(invalid()) } else { Ok(()) }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Parses decimal digits; an empty text is zero. `None` if they do not fit.
fn number(digits: &str) -> Option<u64> {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() { Some(0) } else { digits.parse().ok().filter(|n| *n <= NANOS_LIMIT) }
}

/// Returns the digits behind the point as nanoseconds. Digits that no longer matter do not count.
fn part(digits: &str, unit: u64) -> u64 {
    let mut scale = unit;
    let mut sum: u64 = 0;
    for digit in digits.bytes() {
        scale /= 10;
        sum = sum.saturating_add(u64::from(digit.saturating_sub(b'0')).saturating_mul(scale));
    }
    sum
}

/// Returns the quotes of package `time`, which are not those of `%q`.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len().saturating_add(2));
    quoted.push('"');
    for c in text.chars() {
        if (' '..'\u{80}').contains(&c) {
            if matches!(c, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a String does not fail.
                let _ = write!(quoted, "\\x{byte:02x}");
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_match_go() {
        for text in [
            "0",
            "+0",
            "-0",
            "10m",
            "1h2m3s",
            "1.5h",
            ".5s",
            "5.s",
            "-1.5h",
            "100ns",
            "1us",
            "1\u{b5}s",
            "1\u{3bc}s",
            "3000000h2562047m",
            "0.100000000000000000000h",
            "9223372036854775807ns",
            "-9223372036854775808ns",
            "0.9223372036854775807h",
        ] {
            let expected = text != "3000000h2562047m";
            assert_eq!(check(text).is_ok(), expected, "{text}: {:?}", check(text));
        }
        let invalid = |text: &str| format!("time: invalid duration \"{text}\"");
        let cases = [
            ("10 minutes", "time: unknown unit \" minutes\" in duration \"10 minutes\"".to_owned()),
            ("10", "time: missing unit in duration \"10\"".to_owned()),
            ("", invalid("")),
            ("-", invalid("-")),
            (".", invalid(".")),
            (".s", invalid(".s")),
            ("+.s", invalid("+.s")),
            ("ten", invalid("ten")),
            ("1h x", "time: unknown unit \"h x\" in duration \"1h x\"".to_owned()),
            ("1h-5m", "time: unknown unit \"h-\" in duration \"1h-5m\"".to_owned()),
            ("9223372036854775808ns", invalid("9223372036854775808ns")),
            ("99999999999999999999h", invalid("99999999999999999999h")),
            ("1\u{e9}", "time: unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\"".to_owned()),
            ("a\"b\\c", invalid("a\\\"b\\\\c")),
        ];
        for (text, error) in cases {
            assert_eq!(check(text).unwrap_err().to_string(), error, "{text}");
        }
    }
}
