//! Sizes and durations in the usual notation: `32Mi`, `100ms`.

use std::time::Duration;

/// The reason why a text is no size or no duration, for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

/// Bytes of `64`, `512Ki`, `32Mi` or `1Gi`.
///
/// # Errors
/// The error in the text, for its author.
pub fn parse_bytes(text: &str) -> Result<usize, UnitError> {
    let (digits, unit) = split(text);
    let factor = match unit {
        "" => 1,
        "Ki" => 1usize << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => {
            return Err(UnitError(format!(
                "{text:?} is not a size: write a number with Ki, Mi or Gi"
            )));
        }
    };
    let number: usize = digits.parse().map_err(|_| {
        UnitError(format!("{text:?} is not a size: write a number with Ki, Mi or Gi"))
    })?;
    number.checked_mul(factor).ok_or_else(|| UnitError(format!("{text:?} is too large")))
}

/// Duration of `250us`, `100ms`, `2s`, `1m` or `1m30s`: the notation of Go, which the API server
/// uses, too.
///
/// # Errors
/// The error in the text, for its author.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wrong =
        || UnitError(format!("{text:?} is not a duration: write a number with us, ms, s, m or h"));
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(at)
}

/// `33554432` → `32Mi`, in the largest unit that is exact.
#[must_use]
pub fn bytes(bytes: usize) -> String {
    for (shift, unit) in [(30, "Gi"), (20, "Mi"), (10, "Ki")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print() {
        for (text, size) in [("64", 64), ("512Ki", 512 << 10), ("32Mi", 32 << 20), ("1Gi", 1 << 30)]
        {
            assert_eq!(parse_bytes(text), Ok(size));
            assert_eq!(bytes(size), text);
        }
        for text in ["", "Mi", "32MB", "-1", "1.5Mi", "99999999999Gi"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_read() {
        let cases = [
            ("100ms", Some(Duration::from_millis(100))),
            ("10s", Some(Duration::from_secs(10))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("1.5s", Some(Duration::from_millis(1500))),
            ("0s", Some(Duration::ZERO)),
            ("", None),
            ("10", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
            ("99999999999999999999h", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        }
    }
}
