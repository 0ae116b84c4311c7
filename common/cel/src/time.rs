//! Points in time and spans of it, as Go's package `time` reads and prints them.
//!
//! The calendar is the Gregorian one, without leap seconds. Of time zones, `UTC` and differences in
//! hours and minutes are known; names of regions are not, because there is no database of them.

use std::fmt::Write as _;

use opgate_compat::go::{quote, shorten};

/// The reason why a text is no time zone, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ZoneError(String);

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// The first second of the year 1 and the last one of 9999.
const MIN_UNIX_SECONDS: i64 = -62_135_596_800;
const MAX_UNIX_SECONDS: i64 = 253_402_300_799;

/// A span of time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Duration(pub(super) i64);

/// A point in time, and the offset with which it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp {
    /// Since 1970.
    pub(super) seconds: i64,
    nanos: i64,
    /// Seconds east of UTC.
    offset: i64,
}

/// A point in time outside of the years 1 to 9999.
pub(super) const TIMESTAMP_OVERFLOW: &str = "timestamp overflow";
const INTEGER_OVERFLOW: &str = "integer overflow";

/// Getters of a point in time.
const TIMESTAMP_GETTERS: [&str; 10] = [
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];

/// Reports whether a function returns a part of a time.
pub(super) fn is_part(name: &str) -> bool {
    TIMESTAMP_GETTERS.contains(&name)
}

/// Returns the digits at the beginning of a text, and what follows.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Digits behind a point, in units. Eighteen of them are more than a nanosecond of an hour needs.
fn fraction(digits: &str, unit: i128) -> Option<i128> {
    let count = u32::try_from(digits.len().min(18)).ok()?;
    let digits = digits.get(..digits.len().min(18)).filter(|digits| !digits.is_empty());
    let value: i128 = digits.map_or(Ok(0), str::parse).ok()?;
    Some(value * unit / 10_i128.checked_pow(count)?)
}

impl Duration {
    /// Parses as `time.ParseDuration`: numbers with units, such as `1h30m` or `1.5s`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (whole, after) = split_digits(rest);
            let (part, after) = after.strip_prefix('.').map_or(("", after), split_digits);
            if whole.is_empty() && part.is_empty() {
                return None;
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at_checked(end)?;
            let unit = unit_nanos(unit)?;
            let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
            total = total.checked_add(whole.checked_mul(unit)?)?;
            total = total.checked_add(fraction(part, unit)?)?;
            rest = after;
        }
        i64::try_from(if negative { -total } else { total }).ok().map(Self)
    }

    /// Formats it in seconds, as `string(duration)` does.
    pub(super) fn to_text(self) -> String {
        let (seconds, nanos) =
            (self.0 / NANOS_PER_SECOND, (self.0 % NANOS_PER_SECOND).unsigned_abs());
        let sign = if self.0 < 0 && seconds == 0 { "-" } else { "" };
        let mut text = format!("{sign}{seconds}");
        push_fraction(&mut text, nanos);
        text.push('s');
        text
    }

    /// Returns a part of it; `None` for an unknown name.
    pub(super) fn part(self, name: &str) -> Option<i64> {
        Some(match name {
            "getHours" => self.0 / (3_600 * NANOS_PER_SECOND),
            "getMinutes" => self.0 / (60 * NANOS_PER_SECOND),
            "getSeconds" => self.0 / NANOS_PER_SECOND,
            "getMilliseconds" => self.0 / 1_000_000,
            _ => return None,
        })
    }
}

fn push_fraction(text: &mut String, nanos: u64) {
    if nanos > 0 {
        let digits = format!("{nanos:09}");
        text.push('.');
        text.push_str(digits.trim_end_matches('0'));
    }
}

/// Days since 1970 of a date, and back. Years begin in March here, so that leap days are at the end.
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Parses a number with exactly this number of digits; returns the rest, too.
fn parse_fixed_digits(text: &str, count: usize) -> Option<(i64, &str)> {
    let (number, rest) = text.split_at_checked(count)?;
    number.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
    Some((number.parse().ok()?, rest))
}

impl Timestamp {
    /// Creates a point in time from a Unix time.
    pub(super) fn from_unix(seconds: i64) -> Result<Self, &'static str> {
        Self::new(seconds, 0, 0)
    }

    fn new(seconds: i64, nanos: i64, offset: i64) -> Result<Self, &'static str> {
        if (MIN_UNIX_SECONDS..=MAX_UNIX_SECONDS).contains(&seconds) {
            Ok(Self { seconds, nanos, offset })
        } else {
            Err(TIMESTAMP_OVERFLOW)
        }
    }

    /// Seconds and nanoseconds, by which points in time compare.
    pub(super) fn instant(self) -> (i64, i64) {
        (self.seconds, self.nanos)
    }

    /// Parses a text of RFC 3339; `None` for other texts.
    pub(super) fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        let (year, rest) = parse_fixed_digits(text, 4)?;
        let (month, rest) = parse_fixed_digits(rest.strip_prefix('-')?, 2)?;
        let (day, rest) = parse_fixed_digits(rest.strip_prefix('-')?, 2)?;
        let (hour, rest) = parse_fixed_digits(rest.strip_prefix('T')?, 2)?;
        let (minute, rest) = parse_fixed_digits(rest.strip_prefix(':')?, 2)?;
        let (second, rest) = parse_fixed_digits(rest.strip_prefix(':')?, 2)?;
        let (nanos, rest) = match rest.strip_prefix(['.', ',']) {
            Some(after) => {
                let (digits, rest) = split_digits(after);
                (!digits.is_empty()).then_some(())?;
                (i64::try_from(fraction(digits, i128::from(NANOS_PER_SECOND))?).ok()?, rest)
            }
            None => (0, rest),
        };
        let offset = if rest == "Z" {
            0
        } else {
            let sign = if rest.starts_with('-') { -1 } else { 1 };
            let (hours, rest) = parse_fixed_digits(rest.strip_prefix(['+', '-'])?, 2)?;
            let (minutes, rest) = parse_fixed_digits(rest.strip_prefix(':')?, 2)?;
            (rest.is_empty() && hours <= 24 && minutes < 60).then_some(())?;
            sign * (hours * 3_600 + minutes * 60)
        };
        let days = days_from_date(year, month, day);
        let is_date = (1..=12).contains(&month) && date_from_days(days) == (year, month, day);
        (is_date && hour < 24 && minute < 60 && second < 60).then_some(())?;
        let seconds = days * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second - offset;
        Some(Self::new(seconds, nanos, offset))
    }

    /// Formats it as in RFC 3339, with its original offset.
    pub(super) fn to_text(self) -> String {
        let local = self.seconds + self.offset;
        let (year, month, day) = date_from_days(local.div_euclid(SECONDS_PER_DAY));
        let rest = local.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        push_fraction(&mut text, self.nanos.unsigned_abs());
        if self.offset == 0 {
            text.push('Z');
        } else {
            let sign = if self.offset < 0 { '-' } else { '+' };
            let minutes = self.offset.abs() / 60;
            // Writing to a String does not fail.
            let _ = write!(text, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
        text
    }

    /// Returns the point in time after a positive or negative span.
    pub(super) fn plus(self, span: Duration) -> Result<Self, &'static str> {
        let nanos = self.nanos + span.0 % NANOS_PER_SECOND;
        let seconds =
            self.seconds.checked_add(span.0 / NANOS_PER_SECOND).ok_or(INTEGER_OVERFLOW)?;
        let seconds =
            seconds.checked_add(nanos.div_euclid(NANOS_PER_SECOND)).ok_or(INTEGER_OVERFLOW)?;
        Self::new(seconds, nanos.rem_euclid(NANOS_PER_SECOND), self.offset)
    }

    /// Returns the span since another point in time.
    pub(super) fn minus(self, other: Self) -> Result<Duration, &'static str> {
        let seconds = self.seconds - other.seconds;
        let nanos = seconds.checked_mul(NANOS_PER_SECOND);
        let nanos = nanos.and_then(|nanos| nanos.checked_add(self.nanos - other.nanos));
        nanos.map(Duration).ok_or(INTEGER_OVERFLOW)
    }

    /// Returns a part of it in some time zone, or in the one that it was written with. Months and days of the
    /// year, and of the month unless it is `getDate`, count from 0.
    pub(super) fn part(self, name: &str, zone: Option<&str>) -> Result<i64, ZoneError> {
        let offset = zone.map_or(Ok(self.offset), zone_offset)?;
        let local = self.seconds + offset;
        let (days, rest) = (local.div_euclid(SECONDS_PER_DAY), local.rem_euclid(SECONDS_PER_DAY));
        let (year, month, day) = date_from_days(days);
        Ok(match name {
            "getFullYear" => year,
            "getMonth" => month - 1,
            "getDate" => day,
            "getDayOfMonth" => day - 1,
            "getDayOfWeek" => (days + 4).rem_euclid(7),
            "getDayOfYear" => days - days_from_date(year, 1, 1),
            "getHours" => rest / 3_600,
            "getMinutes" => rest / 60 % 60,
            "getSeconds" => rest % 60,
            _ => self.nanos / 1_000_000,
        })
    }
}

/// Seconds east of UTC of a time zone.
fn zone_offset(zone: &str) -> Result<i64, ZoneError> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(0),
            _ => Err(ZoneError(format!("unknown time zone {}", shorten(zone, 64)))),
        };
    };
    let number = |text: &str| {
        let parsed: Result<i32, _> = text.parse();
        parsed.map(i64::from).map_err(|_| {
            ZoneError(format!(
                "strconv.Atoi: parsing {}: invalid syntax",
                quote(&shorten(text, 64))
            ))
        })
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if !(0..60).contains(&minutes) {
        let zone = shorten(zone, 64);
        return Err(ZoneError(format!("timezone offset minutes out of range [0, 59]: {zone}")));
    }
    let minutes = if zone.starts_with('-') { -minutes } else { minutes };
    Ok(hours * 3_600 + minutes * 60)
}
