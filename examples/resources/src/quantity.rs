//! Quantities of Kubernetes: `500m`, `1.5Gi`, `2e3`.

/// Billionths: the finest that Kubernetes keeps. More than fits is the most that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

/// Maximum number of digits: longer numbers do not occur in practice.
const MAX_DIGITS: usize = 40;
const UNITS_PER_ONE: i128 = 1_000_000_000;

impl Quantity {
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns none for an invalid quantity and for one below zero, which an API server rejects for
    /// resources.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at_checked(end)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + part.len() == 0 || number.len() > MAX_DIGITS || !is_number(part) {
            return None;
        }
        let (factor, exponent) = parse_suffix(suffix)?;
        let digits: i128 = format!("{whole}{part}").parse().ok()?;
        let places = i32::try_from(part.len()).ok()?;
        let value = digits.saturating_mul(factor).saturating_mul(UNITS_PER_ONE);
        Some(Self(shift(value, exponent.checked_sub(places)?)))
    }
}

/// Returns a factor, and a power of ten.
fn parse_suffix(suffix: &str) -> Option<(i128, i32)> {
    let binary = |power: u32| Some((1_i128.checked_shl(power.checked_mul(10)?)?, 0));
    match suffix {
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "" => Some((1, 0)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?;
            Some((1, power.parse().ok().filter(|power| (-64..=64).contains(power))?))
        }
    }
}

/// Times a power of ten; what is finer than a billionth is rounded up, as upstream does, so that
/// nothing but zero is zero.
fn shift(value: i128, power: i32) -> i128 {
    let ten = 10_i128.checked_pow(power.unsigned_abs());
    match (ten, power) {
        (Some(ten), 0..) => value.saturating_mul(ten),
        (Some(ten), _) => {
            value.div_euclid(ten).saturating_add(i128::from(value.rem_euclid(ten) > 0))
        }
        (None, 0..) if value > 0 => i128::MAX,
        (None, _) => i128::from(value > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn quantities_compare_as_upstream() {
        let equal = [
            ("1", "1000m"),
            ("0.1", "100m"),
            ("1k", "1e3"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1E", "1e18"),
            (".5", "500m"),
            ("5.", "5"),
            ("+5", "5"),
            ("1e-3", "1m"),
            ("0.0000000001", "1n"),
            ("00", "0m"),
        ];
        for (left, right) in equal {
            let both = (Quantity::parse(left), Quantity::parse(right));
            assert!(both.0.is_some() && both.0 == both.1, "{left} {right}: {both:?}");
        }
        let more =
            [("8Gi", "8G"), ("1m", "1u"), ("9999999999Ei", "1Ei"), ("1e64", "99Ei"), ("1n", "0")];
        for (more, less) in more {
            assert!(Quantity::parse(more) > Quantity::parse(less), "{more} {less}");
        }
        for none in
            ["", ".", "1.2.3", "1KiB", "Gi", "-1", "1 Gi", "0x10", "1ki", "1e", "1e999", "½"]
        {
            assert_eq!(Quantity::parse(none), None, "{none}");
        }
    }
}
