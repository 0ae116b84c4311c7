//! Floats, with the conversions of Go that upstream uses.

/// A 64-bit integer as a float: the bounds of schemas are floats.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "as Go converts it")]
pub(super) fn to_f64(number: i64) -> f64 {
    number as f64
}

/// A float without its fraction, in the precision of 64 bits.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "as Go converts it")]
pub(super) fn truncate(number: f64) -> i64 {
    number as i64
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "as Go converts it")]
pub(super) fn fits_float32(number: f64) -> bool {
    (number as f32).is_finite()
}

/// Whether a float has no fraction, or a fraction that is too small for upstream's check.
pub(super) fn is_integer(number: f64) -> bool {
    /// The integers that JSON numbers can represent exactly.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_991.0;
    if !(-MAX_EXACT_INTEGER..=MAX_EXACT_INTEGER).contains(&number) {
        return false;
    }
    let whole = number.trunc();
    let difference = number - whole;
    difference == 0.0 || (whole > 0.0 && difference / (number + whole) < 1e-9)
}
