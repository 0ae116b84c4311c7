//! Texts that a parser of YAML can take as another value if they have no quotes.
//!
//! YAML 1.1 and 1.2 differ in numbers and words, and parsers differ from both: go-yaml v2 and v3, which
//! `sigs.k8s.io/yaml` has, libyaml with Python, Ruby, JavaScript. A text that one of them reads as a number, a
//! boolean, nothing or a date gets quotes.

/// Words for nothing, booleans and numbers that are not finite, in any case.
const WORDS: &[&str] = &[
    "~", "null", "true", "false", "yes", "no", "y", "n", "on", "off", ".nan", ".inf", "+.inf",
    "-.inf", "+.nan", "-.nan",
];

/// Marks with a meaning: the default value, and a merge.
const MARKS: &[&str] = &["=", "<<"];

/// Reports whether a parser can take a text without quotes as another value.
pub(crate) fn is_ambiguous(text: &str) -> bool {
    text.is_empty()
        || MARKS.contains(&text)
        || WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
        || is_number(text)
        || is_date(text)
}

/// Reports whether a text can be a number: with a sign, with `_` or `,` between digits, in base 2, 8, 10, 16 or 60.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = unsigned.replace(['_', ','], "");
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return false;
    }
    let lower = digits.to_ascii_lowercase();
    for prefix in ["0x", "0o", "0b"] {
        if let Some(rest) = lower.strip_prefix(prefix) {
            return !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
        }
    }
    is_base_60(&lower) || is_float(&lower)
}

/// Reports whether a text is digits with colons between, and perhaps a fraction: `1:30`, `190:20:30.15`.
fn is_base_60(text: &str) -> bool {
    let whole = text.split_once('.').map_or(text, |(whole, fraction)| {
        if fraction.bytes().all(|byte| byte.is_ascii_digit()) { whole } else { "" }
    });
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    whole.contains(':') && whole.split(':').all(is_part)
}

/// Reports whether a text is digits with at most one dot, and perhaps an exponent.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && is_digits(digits)
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    is_exponent && is_digits(whole) && is_digits(fraction)
}

/// Reports whether a text begins with a year, month and day, and has no more, or a time behind.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_digits = |text: &str, least: usize, most: usize| {
        (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let day_length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, behind) = rest.split_at(day_length);
    is_digits(year, 4, 4)
        && is_digits(month, 1, 2)
        && is_digits(day, 1, 2)
        && (behind.is_empty() || behind.starts_with(['T', 't', ' ', '\t']))
}
