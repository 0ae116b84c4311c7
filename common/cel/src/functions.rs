//! Operators and functions, and their errors: with the texts of cel-go.
//!
//! Before there are values, what is `dyn` fits everywhere; here it turns out whether it does.

use std::cmp::Ordering;
use std::rc::Rc;

use super::time::{Duration, Timestamp, is_part};
use super::value::{Value, truncate};
use opgate_compat::go::{self, shorten};
use opgate_compat::version::Version;

/// The reason why a function or an operator has no result, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct FunctionError(String);

/// Bytes of a value that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;
const NO_OVERLOAD: &str = "no such overload";
const INTEGER_OVERFLOW: &str = "integer overflow";
const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

type FunctionResult = Result<Value, FunctionError>;

fn no_overload<T>() -> Result<T, FunctionError> {
    Err(FunctionError(NO_OVERLOAD.to_owned()))
}

/// Returns the error for a value that does not support an operator. Some types have different errors.
fn unsupported_operand<T>(name: &str, value: &Value) -> Result<T, FunctionError> {
    match value {
        Value::Text(_) | Value::Duration(_) | Value::Timestamp(_) => no_overload(),
        _ => Err(FunctionError(format!("{NO_OVERLOAD}: {name}"))),
    }
}

fn text(text: String) -> Value {
    Value::Text(text.into())
}

/// Returns a value as Go prints it with `%v`.
pub(super) fn format_go(value: &Value) -> String {
    let joined = |items: Vec<String>| items.join(" ");
    match value {
        Value::Null => "NULL_VALUE".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => go::format_float(*value),
        Value::Text(text) => shorten(text, MAX_SHOWN_BYTES),
        Value::Bytes(bytes) => {
            format!("[{}]", joined(bytes.iter().take(MAX_SHOWN_BYTES).map(u8::to_string).collect()))
        }
        // Only one level of nested values is shown.
        Value::List(list) => {
            let shown = |item: &Value| match item {
                Value::List(_) | Value::Map(_) => "…".to_owned(),
                item => format_go(item),
            };
            shorten(
                &format!("[{}]", joined(list.items.iter().take(16).map(shown).collect())),
                MAX_SHOWN_BYTES,
            )
        }
        Value::Map(_) => "map[…]".to_owned(),
        Value::Duration(span) => span.to_text(),
        Value::Timestamp(stamp) => stamp.to_text(),
        Value::Type(name) => (*name).to_owned(),
    }
}

/// Evaluates `+`, `-`, `*`, `/` and `%`.
pub(super) fn arithmetic(sign: &str, left: &Value, right: &Value) -> FunctionResult {
    let name = format!("_{sign}_");
    match left {
        Value::Int(left) => match right {
            Value::Int(right) => integer_arithmetic(sign, *left, *right),
            _ => no_overload(),
        },
        Value::Uint(left) => match right {
            Value::Uint(right) => unsigned_arithmetic(sign, *left, *right),
            _ => no_overload(),
        },
        Value::Double(_) if sign == "%" => unsupported_operand(&name, left),
        Value::Double(left) => match right {
            Value::Double(right) => Ok(Value::Double(match sign {
                "+" => left + right,
                "-" => left - right,
                "*" => left * right,
                _ => left / right,
            })),
            _ => no_overload(),
        },
        Value::Duration(_) | Value::Timestamp(_) => time_arithmetic(sign, left, right),
        Value::Text(_) | Value::Bytes(_) | Value::List(_) if sign == "+" => concat(left, right),
        _ => unsupported_operand(&name, left),
    }
}

fn integer_arithmetic(sign: &str, left: i64, right: i64) -> FunctionResult {
    let result = match sign {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" if right == 0 => return Err(FunctionError("division by zero".to_owned())),
        "/" => left.checked_div(right),
        _ if right == 0 => return Err(FunctionError("modulus by zero".to_owned())),
        _ => left.checked_rem(right),
    };
    result.map(Value::Int).ok_or_else(|| FunctionError(INTEGER_OVERFLOW.to_owned()))
}

fn unsigned_arithmetic(sign: &str, left: u64, right: u64) -> FunctionResult {
    let result = match sign {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" if right == 0 => return Err(FunctionError("division by zero".to_owned())),
        "/" => left.checked_div(right),
        _ if right == 0 => return Err(FunctionError("modulus by zero".to_owned())),
        _ => left.checked_rem(right),
    };
    result.map(Value::Uint).ok_or_else(|| FunctionError(UNSIGNED_OVERFLOW.to_owned()))
}

fn time_arithmetic(sign: &str, left: &Value, right: &Value) -> FunctionResult {
    use Value::{Duration, Timestamp};
    let spans = |result: Option<i64>| {
        result.map(super::time::Duration).map(Duration).ok_or(INTEGER_OVERFLOW)
    };
    let found = match (sign, left, right) {
        ("+", Duration(left), Duration(right)) => spans(left.0.checked_add(right.0)),
        ("-", Duration(left), Duration(right)) => spans(left.0.checked_sub(right.0)),
        ("+", Duration(span), Timestamp(stamp)) | ("+", Timestamp(stamp), Duration(span)) => {
            stamp.plus(*span).map(Timestamp)
        }
        ("-", Timestamp(stamp), Duration(span)) => {
            let back = span.0.checked_neg().map(super::time::Duration).ok_or(INTEGER_OVERFLOW);
            back.and_then(|span| stamp.plus(span)).map(Timestamp)
        }
        ("-", Timestamp(left), Timestamp(right)) => left.minus(*right).map(Duration),
        _ => Err(NO_OVERLOAD),
    };
    found.map_err(|why| FunctionError(why.to_owned()))
}

fn concat(left: &Value, right: &Value) -> FunctionResult {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Ok(text(format!("{left}{right}"))),
        (Value::Bytes(left), Value::Bytes(right)) => {
            Ok(Value::Bytes([left.as_ref(), right.as_ref()].concat().into()))
        }
        _ => no_overload(),
    }
}

/// Evaluates `<`, `<=`, `>` and `>=`.
pub(super) fn compare(sign: &str, left: &Value, right: &Value) -> FunctionResult {
    let ordered = matches!(
        left,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    );
    if !ordered {
        return unsupported_operand(&format!("_{sign}_"), left);
    }
    let is_nan = |value: &Value| matches!(value, Value::Double(value) if value.is_nan());
    let both = left.as_double().is_some() && right.as_double().is_some();
    if is_nan(left) || both && is_nan(right) {
        return Err(FunctionError("NaN values cannot be ordered".to_owned()));
    }
    let Some(order) = left.order(right) else { return no_overload() };
    Ok(Value::Bool(match sign {
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

/// Evaluates `-x`.
pub(super) fn negate(value: &Value) -> FunctionResult {
    match value {
        Value::Int(value) => value
            .checked_neg()
            .map(Value::Int)
            .ok_or_else(|| FunctionError(INTEGER_OVERFLOW.to_owned())),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(span) => {
            let back = span.0.checked_neg();
            back.map(Duration)
                .map(Value::Duration)
                .ok_or_else(|| FunctionError(INTEGER_OVERFLOW.to_owned()))
        }
        Value::Bool(_) => no_overload(),
        value => unsupported_operand("-_", value),
    }
}

/// Returns `x[y]` and `x.y`.
pub(super) fn index(value: &Value, index: &Value) -> FunctionResult {
    let plain = matches!(
        index,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Text(_)
    );
    if !plain {
        return Err(FunctionError(format!("invalid qualifier type: {}", go_type(index))));
    }
    match value {
        Value::Map(map) => {
            let found = map.get(index).cloned();
            found.ok_or_else(|| FunctionError(format!("no such key: {}", format_go(index))))
        }
        Value::List(list) => {
            let at = match index {
                Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
                    index.as_int().ok_or_else(|| {
                        FunctionError(format!(
                            "unsupported index value {} in list",
                            format_go(index)
                        ))
                    })?
                }
                _ => {
                    return Err(FunctionError(format!(
                        "unsupported index type '{}' in list",
                        index.type_name()
                    )));
                }
            };
            let found = usize::try_from(at).ok().and_then(|at| list.items.get(at)).cloned();
            found.ok_or_else(|| FunctionError(format!("index out of bounds: {}", format_go(index))))
        }
        _ => Err(FunctionError(format!("no such key: {}", format_go(index)))),
    }
}

/// Returns Go's name of a value's type.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::Text(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Type(_) => "*types.Type",
    }
}

/// Evaluates `has(x.y)`.
pub(super) fn has(value: &Value, field: &str) -> FunctionResult {
    match value {
        Value::Map(map) => Ok(Value::Bool(map.get(&Value::text(field)).is_some())),
        Value::List(_) => Err(FunctionError("unsupported index type 'string' in list".to_owned())),
        _ => Ok(Value::Bool(false)),
    }
}

/// Returns every function but `matches`.
pub(super) fn call_function(name: &str, args: &[Value]) -> FunctionResult {
    match (name, args) {
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Value::Type(value.type_name())),
        ("size", [value]) => size(value),
        ("contains" | "startsWith" | "endsWith", [value, part]) => {
            let (Value::Text(value), Value::Text(part)) = (value, part) else {
                return no_overload();
            };
            Ok(Value::Bool(match name {
                "contains" => value.contains(part.as_ref()),
                "startsWith" => value.starts_with(part.as_ref()),
                _ => value.ends_with(part.as_ref()),
            }))
        }
        ("semver_compare", [left, right]) => {
            let version = |value: &Value| {
                let text = match value {
                    Value::Text(text) => Rc::clone(text),
                    value => format_go(value).into(),
                };
                Version::parse_tolerant(&text).map_err(|_| {
                    FunctionError(format!(
                        "unable to parse '{}' to semver format",
                        format_go(value)
                    ))
                })
            };
            let (left, right) = (version(left)?, version(right)?);
            Ok(Value::Int(match left.cmp(&right) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            }))
        }
        (_, [value, zone @ ..]) if is_part(name) => time_part(name, value, zone),
        (_, [value]) => convert(name, value),
        _ => no_overload(),
    }
}

fn size(value: &Value) -> FunctionResult {
    let size = match value {
        Value::Text(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries.len(),
        value => return unsupported_operand("size", value),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn time_part(name: &str, value: &Value, zone: &[Value]) -> FunctionResult {
    let part = |stamp: &Timestamp, zone| {
        stamp.part(name, zone).map(Value::Int).map_err(|why| FunctionError(why.to_string()))
    };
    match (value, zone) {
        (Value::Timestamp(stamp), []) => part(stamp, None),
        (Value::Timestamp(stamp), [Value::Text(zone)]) => part(stamp, Some(zone)),
        (Value::Duration(span), []) => {
            span.part(name).map(Value::Int).ok_or_else(|| FunctionError(NO_OVERLOAD.to_owned()))
        }
        (value, _) => unsupported_operand(name, value),
    }
}

/// Evaluates conversions such as `int(x)` and `string(x)`.
fn convert(name: &str, value: &Value) -> FunctionResult {
    let fails = |to: &str| {
        Err(FunctionError(format!("type conversion error from '{}' to '{to}'", value.type_name())))
    };
    let overflow = |text: &str| Err(FunctionError(text.to_owned()));
    let unsupported =
        || Err(FunctionError(format!("{NO_OVERLOAD}: {name}({})", value.type_name())));
    match name {
        "bool" => match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::Text(text) => match text.as_ref() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
                _ => fails("bool"),
            },
            _ => unsupported(),
        },
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::Text(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => unsupported(),
        },
        "int" => match value {
            Value::Int(_) => Ok(value.clone()),
            Value::Uint(value) => {
                i64::try_from(*value).map(Value::Int).or_else(|_| overflow(INTEGER_OVERFLOW))
            }
            Value::Double(value) => {
                // Both ends are out of range, as in cel-go.
                let whole = truncate(*value).filter(|v| *v > i128::from(i64::MIN));
                let whole = whole.and_then(|v| i64::try_from(v).ok());
                whole.map_or_else(|| overflow(INTEGER_OVERFLOW), |whole| Ok(Value::Int(whole)))
            }
            Value::Text(text) => text.parse().map(Value::Int).or_else(|_| fails("int")),
            Value::Timestamp(stamp) => Ok(Value::Int(stamp.instant().0)),
            Value::Duration(span) => Ok(Value::Int(span.0)),
            _ => unsupported(),
        },
        "uint" => match value {
            Value::Uint(_) => Ok(value.clone()),
            Value::Int(value) => {
                u64::try_from(*value).map(Value::Uint).or_else(|_| overflow(UNSIGNED_OVERFLOW))
            }
            Value::Double(value) => {
                let whole = truncate(*value).filter(|_| *value >= 0.0);
                let whole = whole.and_then(|v| u64::try_from(v).ok());
                whole.map_or_else(|| overflow(UNSIGNED_OVERFLOW), |whole| Ok(Value::Uint(whole)))
            }
            Value::Text(text) if text.starts_with('+') => fails("uint"),
            Value::Text(text) => text.parse().map(Value::Uint).or_else(|_| fails("uint")),
            _ => unsupported(),
        },
        "double" => match value {
            Value::Text(text) => match text.parse::<f64>() {
                // In Go, a number that is too large is an error; a literal infinity is not.
                Ok(found) if !found.is_infinite() || text.contains(['n', 'N']) => {
                    Ok(Value::Double(found))
                }
                _ => fails("double"),
            },
            value => value.as_double().map_or_else(unsupported, |found| Ok(Value::Double(found))),
        },
        "string" => match value {
            Value::Text(_) => Ok(value.clone()),
            Value::Bytes(bytes) => std::str::from_utf8(bytes).map(Value::text).map_err(|_| {
                FunctionError("invalid UTF-8 in bytes, cannot convert to string".to_owned())
            }),
            Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Timestamp(_) => Ok(text(format_go(value))),
            _ => unsupported(),
        },
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::Text(text) => {
                let span = Duration::parse(text).map(Value::Duration);
                span.map_or_else(|| fails("google.protobuf.Duration"), Ok)
            }
            Value::Int(_) => fails("google.protobuf.Duration"),
            _ => unsupported(),
        },
        "timestamp" => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::Text(text) => match Timestamp::parse(text) {
                Some(stamp) => {
                    stamp.map(Value::Timestamp).map_err(|why| FunctionError(why.to_owned()))
                }
                None => fails("google.protobuf.Timestamp"),
            },
            Value::Int(seconds) => Timestamp::from_unix(*seconds)
                .map(Value::Timestamp)
                .map_err(|why| FunctionError(why.to_owned())),
            _ => unsupported(),
        },
        _ => unsupported(),
    }
}
