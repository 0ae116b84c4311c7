//! Whether Go decodes a text or a number into a type, and what it says if not.

use opgate_compat::json::Kind;

use crate::Type;

const QUANTITY_FORMAT_ERROR: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const QUANTITY_SUFFIXES: [&str; 16] =
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const QUANTITY_SUFFIX_ERROR: &str = "unable to parse quantity's suffix";

/// Go's error for a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The type does not match: `cannot unmarshal … into Go struct field …`. With the number, if it is out of
    /// the type's range.
    Type(bool),
    /// The type does not match, in a custom decoder, which does not know the field.
    Value(&'static str),
    /// The type's own words.
    Custom(String),
}

/// Returns why a scalar does not fit, if so; `text` is a decoded string, or a number as written.
pub(crate) fn decode_error(of: Type, kind: Kind, text: &str) -> Option<DecodeError> {
    let is = |wanted| (kind != wanted).then_some(DecodeError::Type(false));
    match of {
        _ if kind == Kind::Null => None,
        Type::Any | Type::Either(_) => None,
        Type::Boolean => is(Kind::Boolean),
        Type::String | Type::Bytes => is(Kind::Text),
        Type::Number => is(Kind::Number),
        Type::Int32 => {
            is(Kind::Number).or_else(|| check_integer(text, i32::MIN.into(), i32::MAX.into()))
        }
        Type::Int64 => is(Kind::Number).or_else(|| check_integer(text, i64::MIN, i64::MAX)),
        Type::IntOrString => match kind {
            Kind::Text => None,
            Kind::Number => {
                let refusal = check_integer(text, i32::MIN.into(), i32::MAX.into());
                refusal.map(|_| DecodeError::Value("int32"))
            }
            _ => Some(DecodeError::Value("int32")),
        },
        Type::Quantity => match kind {
            Kind::Text | Kind::Number => {
                quantity_error(text).map(|why| DecodeError::Custom(why.to_owned()))
            }
            _ => Some(DecodeError::Custom(QUANTITY_FORMAT_ERROR.to_owned())),
        },
        Type::Time => match kind {
            Kind::Text if is_time(text) => None,
            Kind::Text => {
                let shown = opgate_compat::go::quote(&opgate_compat::go::shorten(text, 64));
                Some(DecodeError::Custom(format!(
                    "parsing time {shown} as \"2006-01-02T15:04:05Z07:00\": cannot parse it"
                )))
            }
            _ => Some(DecodeError::Value("string")),
        },
        Type::List(_) | Type::Map(_) | Type::Struct(..) => Some(DecodeError::Type(false)),
    }
}

/// Checks a number without a fraction, in any notation: YAML's `1.0` and `1e3` reach Go's decoder as 1 and
/// 1000.
fn check_integer(text: &str, min: i64, max: i64) -> Option<DecodeError> {
    let fits = match text.parse::<i64>() {
        Ok(number) => (min..=max).contains(&number),
        // Beyond 2^53 a number with a point or an exponent is not exact, and does not occur in practice.
        Err(_) if text.contains(['.', 'e', 'E']) => text.parse::<f64>().is_ok_and(|number| {
            number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 && {
                let whole = format!("{number:.0}").parse::<i64>();
                whole.is_ok_and(|number| (min..=max).contains(&number))
            }
        }),
        Err(_) => false,
    };
    (!fits).then_some(DecodeError::Type(true))
}

/// Returns the error of Kubernetes' `resource.ParseQuantity`, if a text is no quantity.
#[must_use]
pub fn quantity_error(text: &str) -> Option<&'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Some(QUANTITY_FORMAT_ERROR);
    }
    let digits = |text: &str| -> usize { text.bytes().take_while(u8::is_ascii_digit).count() };
    let skip = |text: &'_ str, count: usize| -> String {
        text.get(count..).unwrap_or_default().to_owned()
    };
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = skip(unsigned, digits(unsigned));
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = skip(fraction, digits(fraction));
    }
    let letters = rest.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let (unit, power) = rest.split_at_checked(letters).unwrap_or((&rest, ""));
    let exponent = power.strip_prefix(['-', '+']).unwrap_or(power);
    if digits(exponent) != exponent.len() {
        return Some(QUANTITY_FORMAT_ERROR);
    }
    let is_unit = power.is_empty() && QUANTITY_SUFFIXES.contains(&unit);
    let is_exponent = matches!(unit, "e" | "E") && power.parse::<i64>().is_ok();
    (!is_unit && !is_exponent).then_some(QUANTITY_SUFFIX_ERROR)
}

/// Reports whether a text is a time of RFC 3339, as strictly as Go's parser.
fn is_time(text: &str) -> bool {
    let (date, rest) = (text.get(..10).unwrap_or_default(), text.get(10..).unwrap_or_default());
    let is_number = |text: &str, max: u32| {
        text.len() == 2
            && text.bytes().all(|b| b.is_ascii_digit())
            && text.parse::<u32>().is_ok_and(|n| n <= max)
    };
    let part = |text: &'_ str, at: usize| {
        text.get(at..at.saturating_add(2)).unwrap_or_default().to_owned()
    };
    let is_date = date.get(..4).is_some_and(|year| year.bytes().all(|b| b.is_ascii_digit()))
        && date.get(4..5) == Some("-")
        && is_number(&part(date, 5), 12)
        && date.get(7..8) == Some("-")
        && is_number(&part(date, 8), 31);
    let Some(rest) = rest.strip_prefix('T') else { return false };
    let is_clock = is_number(&part(rest, 0), 23)
        && rest.get(2..3) == Some(":")
        && is_number(&part(rest, 3), 59)
        && rest.get(5..6) == Some(":")
        && is_number(&part(rest, 6), 59);
    let mut zone = rest.get(8..).unwrap_or_default();
    if let Some(fraction) = zone.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return false;
        }
        zone = fraction.get(digits..).unwrap_or_default();
    }
    let is_zone = zone == "Z"
        || zone.strip_prefix(['-', '+']).is_some_and(|zone| {
            zone.len() == 5
                && is_number(&part(zone, 0), 24)
                && zone.get(2..3) == Some(":")
                && is_number(&part(zone, 3), 60)
        });
    is_date && is_clock && is_zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_match_kubernetes() {
        for text in [
            "0", "1", "+1", "-1.5", "64Mi", "1.G", ".5", "100m", "1e3", "1E+3", "1e-3", " 1Gi ",
            "5E", "1Ki", "0.1n",
        ] {
            assert_eq!(quantity_error(text), None, "{text}");
        }
        for (text, error) in [
            ("", QUANTITY_FORMAT_ERROR),
            ("64 Mi", QUANTITY_FORMAT_ERROR),
            ("64MB", QUANTITY_FORMAT_ERROR),
            ("x", QUANTITY_FORMAT_ERROR),
            ("{}", QUANTITY_FORMAT_ERROR),
            ("1.2.3", QUANTITY_FORMAT_ERROR),
            ("64mi", QUANTITY_SUFFIX_ERROR),
            ("1KiKi", QUANTITY_SUFFIX_ERROR),
            ("1e", QUANTITY_SUFFIX_ERROR),
            ("1+5", QUANTITY_SUFFIX_ERROR),
            ("1Mi5", QUANTITY_SUFFIX_ERROR),
        ] {
            assert_eq!(quantity_error(text), Some(error), "{text}");
        }
    }

    #[test]
    fn integers_may_be_written_as_floats() {
        let refused = |text| check_integer(text, i32::MIN.into(), i32::MAX.into()).is_some();
        for text in ["0", "-1", "2147483647", "1.0", "1e3", "-0.0"] {
            assert!(!refused(text), "{text}");
        }
        for text in ["1.5", "2147483648", "1e300", "99999999999999999999", "1e-3"] {
            assert!(refused(text), "{text}");
        }
    }

    #[test]
    fn times_match_rfc_3339() {
        for text in
            ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123Z", "2024-01-02T03:04:05+01:00"]
        {
            assert!(is_time(text), "{text}");
        }
        for text in [
            "",
            "2024-01-02",
            "2024-01-02 03:04:05Z",
            "2024-13-02T03:04:05Z",
            "2024-01-02T03:04:05",
            "é",
        ] {
            assert!(!is_time(text), "{text}");
        }
    }
}
