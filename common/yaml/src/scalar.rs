//! Values of scalars, as go-yaml v2 resolves them, and their JSON notation in Go.
//!
//! A plain scalar may be a word (`yes`, `~`), an integer (also octal, hexadecimal and binary, with `_`), a
//! number with a point, or a text. Dates are texts, as `sigs.k8s.io/yaml` leaves them.

use std::borrow::Cow;

/// The reason why a scalar does not match its tag, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TagError(String);

/// Value of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'y> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Cow<'y, str>),
}

/// Words that are truth values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BooleanWords {
    /// All of YAML 1.1, as in the tools of Kubernetes: `yes`, `off`, `y` as well.
    Yaml11,
    /// `true` and `false` only: for files of our own, where `off` is a level.
    TrueFalse,
}

const PREFIX: &str = "tag:yaml.org,2002:";

/// Resolves a scalar.
///
/// # Errors
/// Fails if the value does not match its tag: upstream's text.
pub(crate) fn resolve<'y>(
    text: Cow<'y, str>,
    is_plain: bool,
    tag: Option<&str>,
    booleans: BooleanWords,
) -> Result<Value<'y>, TagError> {
    let Some(tag) = tag else {
        return Ok(if is_plain { resolve_plain(text, booleans) } else { Value::Text(text) });
    };
    let Some(name) = tag.strip_prefix(PREFIX) else { return Ok(Value::Text(text)) };
    let wrong = |found: &str, text: &str| {
        TagError(format!("cannot decode !!{found} `{text}` as a !!{name}"))
    };
    match name {
        "binary" => {
            let mut bytes = Vec::new();
            opgate_compat::go::base64::decode(&text, &mut bytes)
                .map_err(|_| TagError("!!binary value contains invalid base64 data".to_owned()))?;
            Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned().into()))
        }
        "bool" | "int" | "float" | "null" => {
            let found = resolve_plain(text.clone(), booleans);
            match (name, found) {
                ("float", Value::Int(number)) => Ok(Value::Float(from_int(number))),
                (_, found) if type_name(&found) == name => Ok(found),
                (_, found) => Err(wrong(type_name(&found), &text)),
            }
        }
        _ => Ok(Value::Text(text)),
    }
}

#[allow(clippy::cast_precision_loss, clippy::as_conversions, reason = "as Go converts")]
fn from_int(number: i64) -> f64 {
    number as f64
}

fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Uint(_) => "int",
        Value::Float(_) => "float",
        Value::Text(_) => "str",
    }
}

fn resolve_plain(text: Cow<'_, str>, booleans: BooleanWords) -> Value<'_> {
    let Some(first) = text.bytes().next() else { return Value::Null };
    let known = match first {
        b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'y' | b'Y' | b'o' | b'O' => {
            word(&text, booleans)
        }
        b'.' => parse_infinity(&text).or_else(|| float(&text)),
        b'+' | b'-' => parse_infinity(&text).or_else(|| number(&text)),
        b'0'..=b'9' => number(&text),
        _ => None,
    };
    known.unwrap_or(Value::Text(text))
}

fn word(text: &str, booleans: BooleanWords) -> Option<Value<'static>> {
    Some(match text {
        "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if booleans == BooleanWords::TrueFalse => return None,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        _ => return None,
    })
}

fn parse_infinity(text: &str) -> Option<Value<'static>> {
    Some(Value::Float(match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    }))
}

fn number(text: &str) -> Option<Value<'static>> {
    let digits: Cow<'_, str> =
        if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    integer(&digits).or_else(|| float(&digits))
}

/// Returns `strconv.ParseInt` and `ParseUint` with base 0.
fn integer(text: &str) -> Option<Value<'static>> {
    let (sign, unsigned) = match text.bytes().next()? {
        b'-' => ("-", text.get(1..)?),
        b'+' => ("+", text.get(1..)?),
        _ => ("", text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, unsigned.get(2..)?),
        [b'0', b'o' | b'O', _, ..] => (8, unsigned.get(2..)?),
        [b'0', b'b' | b'B', _, ..] => (2, unsigned.get(2..)?),
        [b'0'] => return Some(Value::Int(0)),
        [b'0', ..] => (8, unsigned.get(1..)?),
        _ => (10, unsigned),
    };
    // A second sign is no digit.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let found = u64::from_str_radix(digits, radix).ok()?;
    match (i64::try_from(found), sign) {
        (Ok(number), "-") => Some(Value::Int(-number)),
        (Ok(number), _) => Some(Value::Int(number)),
        (Err(_), "-") if found == i64::MIN.unsigned_abs() => Some(Value::Int(i64::MIN)),
        (Err(_), "") => Some(Value::Uint(found)),
        (Err(_), _) => None,
    }
}

/// Parses `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, with a value that a float can represent.
fn float(text: &str) -> Option<Value<'static>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_mantissa = match mantissa.split_once('.') {
        Some((whole, part)) => {
            is_digits(whole) && is_digits(part) && !(whole.is_empty() && part.is_empty())
        }
        None => is_digits(mantissa) && !mantissa.is_empty(),
    };
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && is_digits(digits)
    });
    if !is_mantissa || !is_exponent {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::Float)
}

/// Returns a finite number as `encoding/json` writes it.
pub(crate) fn float_json(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        format_exponent(&format!("{number:e}"), 1)
    } else {
        number.to_string()
    }
}

/// Returns a number as `sigs.k8s.io/yaml` writes it in a key: `%g` of half the precision.
pub(crate) fn float_key(number: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::as_conversions, reason = "as Go rounds")]
    let number = number as f32;
    if !number.is_finite() {
        let text = if number.is_nan() { ".nan" } else { ".inf" };
        return format!("{}{text}", if number < 0.0 { "-" } else { "" });
    }
    let scientific = format!("{number:e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    if (-4..6).contains(&exponent.unwrap_or(0)) {
        number.to_string()
    } else {
        format_exponent(&scientific, 2)
    }
}

/// Formats an exponent as Go does, with a sign and a minimum number of digits.
fn format_exponent(scientific: &str, min_digits: usize) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific.to_owned();
    };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>min_digits$}")
}
