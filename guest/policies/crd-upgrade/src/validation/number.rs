//! Numbers: bounds, multiples and formats.

use opgate_compat::go;

use super::float::{fits_float32, is_integer, to_f64, truncate};
use super::json::Json;
use super::outcome::{Outcome, Path};
use super::schema::{NumberLimits, Schema};

/// A number of an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    pub(super) fn of(value: &Json<'_>) -> Option<Self> {
        match value {
            Json::Integer(number) => Some(Self::Integer(*number)),
            Json::Float(number) => Some(Self::Float(*number)),
            _ => None,
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Integer(number) => to_f64(number),
            Self::Float(number) => number,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => go::format_float(number),
        }
    }
}

/// The limits of the schema for a number.
pub(super) fn validate(schema: &Schema<'_>, number: Number, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if !is_in_range(schema, number) {
        outcome.add_whole(&range_message(schema, "Checked", path));
    }
    let NumberLimits { multiple_of, minimum, maximum, .. } = schema.numbers;
    if let Some(factor) = multiple_of {
        let is_native = validate_format_bound(schema, factor, "MultipleOf", path, &mut outcome);
        validate_multiple(number, factor, is_native, path, &mut outcome);
    }
    let bounds = [
        (minimum, schema.numbers.exclusive_minimum, "Minimum boundary", false),
        (maximum, schema.numbers.exclusive_maximum, "Maximum boundary", true),
    ];
    for (bound, is_exclusive, what, is_maximum) in bounds {
        if let Some(bound) = bound {
            let is_native = validate_format_bound(schema, bound, what, path, &mut outcome);
            let bound = Bound { bound, is_exclusive, is_maximum, is_native };
            bound.check(number, path, &mut outcome);
        }
    }
    outcome.matches += 1;
    outcome
}

/// Whether a number has the type and format of the schema.
fn is_in_range(schema: &Schema<'_>, number: Number) -> bool {
    match (schema.single_type(), schema.format) {
        ("integer", format) => {
            let whole = match number {
                Number::Integer(number) => Some(number),
                Number::Float(number) => (number.fract() == 0.0
                    && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
                        .contains(&number))
                .then(|| truncate(number)),
            };
            whole.is_some_and(|whole| format != "int32" || i32::try_from(whole).is_ok())
        }
        ("number", "float") => fits_float32(number.float()),
        _ => true,
    }
}

fn range_message(schema: &Schema<'_>, what: &str, path: &Path<'_>) -> String {
    let (name, format) = (schema.single_type(), schema.format);
    if format.is_empty() {
        format!("{what} value must be of type {name} (default format) in {path}")
    } else {
        format!("{what} value must be of type {name} with format {format} in {path}")
    }
}

/// Whether a bound is a number of the type of the schema itself. Otherwise upstream reports it, and
/// compares floats.
fn validate_format_bound(
    schema: &Schema<'_>,
    bound: f64,
    what: &str,
    path: &Path<'_>,
    outcome: &mut Outcome,
) -> bool {
    let is_native = is_in_range(schema, Number::Float(bound));
    if !is_native {
        outcome.add_whole(&range_message(schema, what, path));
    }
    is_native
}

struct Bound {
    bound: f64,
    is_exclusive: bool,
    is_maximum: bool,
    is_native: bool,
}

impl Bound {
    fn check(&self, number: Number, path: &Path<'_>, outcome: &mut Outcome) {
        let (order, value, bound) = match number {
            Number::Integer(integer) if self.is_native => {
                let bound = truncate(self.bound);
                (integer.cmp(&bound), number, bound.to_string())
            }
            _ => {
                let value = number.float();
                let order = value.partial_cmp(&self.bound).unwrap_or(std::cmp::Ordering::Equal);
                (order, Number::Float(value), go::format_float(self.bound))
            }
        };
        let is_beyond = if self.is_maximum { order.is_gt() } else { order.is_lt() };
        if is_beyond || (self.is_exclusive && order.is_eq()) {
            let how = match (self.is_maximum, self.is_exclusive) {
                (true, false) => "less than or equal to",
                (true, true) => "less than",
                (false, false) => "greater than or equal to",
                (false, true) => "greater than",
            };
            let why = format!("{path} in body should be {how} {bound}");
            outcome.add_invalid(path, &value.text(), &why);
        }
    }
}

fn validate_multiple(
    number: Number,
    factor: f64,
    is_native: bool,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    let (is_positive, is_multiple, factor, value) = match number {
        Number::Integer(integer) if is_native => {
            let factor = truncate(factor);
            let is_multiple = factor > 0 && integer.checked_rem(factor) == Some(0);
            (factor > 0, is_multiple, factor.to_string(), number)
        }
        _ => {
            let value = number.float();
            let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
            (factor > 0.0, is_integer(times), go::format_float(factor), Number::Float(value))
        }
    };
    if !is_positive {
        let why = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        outcome.add_invalid(path, &factor, &why);
    } else if !is_multiple {
        let why = format!("{path} in body should be a multiple of {factor}");
        outcome.add_invalid(path, &value.text(), &why);
    }
}
