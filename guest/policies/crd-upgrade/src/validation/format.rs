//! Formats of texts, with the checks of the API server.
//!
//! A format that it does not support for a type is not checked. Host names with characters outside
//! ASCII count as valid.

use opgate_compat::go::ip::Ip;
use opgate_compat::go::{duration, mail, url};
use opgate_compat::names;

use super::WorkBudget;
use super::pattern;

const HOSTNAME: &str = r"^([a-zA-Z0-9$+<=>^`|~](-?[a-zA-Z0-9$+<=>^`|~]{0,62})?|([a-zA-Z0-9$+<=>^`|~]([-a-zA-Z0-9$+<=>^`|~]{0,61}[a-zA-Z0-9$+<=>^`|~])?\.)+[a-zA-Z]{2,63})$";
const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID3: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID4: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const UUID5: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const CREDIT_CARD: &str = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$";
const SSN: &str = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
const HEX_COLOR: &str = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
const RGB_COLOR: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
const TIME: &str = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";

/// The formats of texts, without dashes.
const TEXT_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

fn normalize(format: &str) -> String {
    format.replace('-', "")
}

/// The format, if the API server supports it for these types.
pub(super) fn known_format<'s>(types: &[&str], format: &'s str) -> &'s str {
    let only = match types {
        [name] => name,
        _ => "",
    };
    let is_known = match only {
        "" | "string" => TEXT_FORMATS.binary_search(&normalize(format).as_str()).is_ok(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if is_known { format } else { "" }
}

/// Whether a text has a format, if that is known.
pub(super) fn matches_format(format: &str, text: &str, work: &mut WorkBudget) -> Option<bool> {
    if !work.spend(text.len() / 8) {
        return None;
    }
    let fits = match normalize(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "creditcard" => {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            return pattern::matches(CREDIT_CARD, &digits, work)
                .map(|fits| fits && is_luhn(&digits));
        }
        "date" => is_date(text),
        "datetime" => return is_time(text, work),
        "duration" => duration::check(text).is_ok() || is_long_duration(text),
        "email" => mail::check_address(text).is_ok(),
        "hexcolor" => return pattern::matches(HEX_COLOR, text, work),
        "hostname" => return is_hostname(text, work),
        "ipv4" => text.contains('.') && is_address(text),
        "ipv6" => text.contains(':') && is_address(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => text.len() <= 253 && names::is_subdomain(text),
        "k8sshortname" => text.len() <= 63 && names::is_label(text),
        "mac" => is_mac(text),
        "rgbcolor" => return pattern::matches(RGB_COLOR, text, work),
        "ssn" => return pattern::matches(SSN, text, work).map(|fits| fits && text.len() == 11),
        "uri" => url::check_request_uri(text).is_ok(),
        "uuid" => return pattern::matches(UUID, text, work),
        "uuid3" => return pattern::matches(UUID3, text, work),
        "uuid4" => return pattern::matches(UUID4, text, work),
        "uuid5" => return pattern::matches(UUID5, text, work),
        _ => true,
    };
    Some(fits)
}

fn is_hostname(text: &str, work: &mut WorkBudget) -> Option<bool> {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return Some(false);
    }
    if text.is_ascii() { pattern::matches(HOSTNAME, text, work) } else { Some(true) }
}

fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let padding = text.len() - data.len();
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && data.bytes().all(is_digit)
}

/// An IP address. Numbers of version 4 can have leading zeros.
fn is_address(text: &str) -> bool {
    if text.contains(':') {
        return Ip::is_ipv4(text).is_some();
    }
    let is_part = |part: &str| {
        let digits = part.trim_start_matches('0');
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (digits.is_empty() || digits.parse::<u8>().is_ok())
    };
    text.split('.').count() == 4 && text.split('.').all(is_part)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { 128 } else { 32 };
    is_address(address)
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let is_group = |length: usize| {
        move |group: &str| group.len() == length && group.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let bytes = text.as_bytes();
    match (bytes.get(2), bytes.get(4)) {
        (Some(b':'), _) => text.split(':').all(is_group(2)) && matches!(text.len(), 17 | 23 | 59),
        (Some(b'-'), _) => text.split('-').all(is_group(2)) && matches!(text.len(), 17 | 23 | 59),
        (_, Some(b'.')) => text.split('.').all(is_group(4)) && matches!(text.len(), 14 | 19 | 49),
        _ => false,
    }
}

fn is_luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|digit| digit.to_digit(10))
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => digit,
            (_, twice @ 10..) => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// The digits of a book number, without white space and dashes.
fn isbn_chars(text: &str) -> Vec<char> {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_chars(text);
    let [first @ .., last] = digits.as_slice() else { return false };
    let value = |c: &char| c.to_digit(10);
    let last = if *last == 'X' { Some(10) } else { value(last) };
    let sum: Option<u32> = first.iter().zip(1..).map(|(c, weight)| Some(value(c)? * weight)).sum();
    first.len() == 9 && sum.zip(last).is_some_and(|(sum, last)| (sum + 10 * last) % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = isbn_chars(text).iter().map(|c| c.to_digit(10)).collect();
    let weights = [1, 3].into_iter().cycle();
    digits.is_some_and(|digits| {
        let sum: u32 = digits.iter().zip(weights).map(|(digit, weight)| digit * weight).sum();
        digits.len() == 13 && sum.is_multiple_of(10)
    })
}

/// `2006-01-02`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |part: &str, length: usize| {
        let is_number = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| is_number)
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// `2014-12-15T19:30:20.000Z`.
fn is_time(text: &str, work: &mut WorkBudget) -> Option<bool> {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return Some(false) };
    if !is_date(date) {
        return Some(false);
    }
    let is_time = pattern::matches(TIME, time, work)?;
    let is_below = |at: usize, most: &str| time.get(at..at + 2).is_some_and(|part| part <= most);
    Some(is_time && is_below(0, "23") && is_below(3, "59") && is_below(6, "59"))
}

/// `22 ns`, `1 day`, `3weeks`: the longer notation. One valid pair of number and unit is enough.
fn is_long_duration(text: &str) -> bool {
    /// Units. The last unit of each line can have a suffix.
    const DURATION_UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let is_unit = |unit: &str| {
        let unit = unit.to_lowercase();
        DURATION_UNITS.iter().any(|names| {
            names.contains(&unit.as_str())
                || names.last().is_some_and(|name| unit.starts_with(name))
        })
    };
    let mut is_duration = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (_, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        let after = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == 'µ';
        let end = after.find(|c: char| !is_letter(c)).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        rest = after;
        if unit.is_empty() {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        is_duration |= is_unit(unit);
    }
    is_duration
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_the_api_server() {
        assert!(TEXT_FORMATS.is_sorted());
        for (format, good, bad) in [
            (
                "bsonobjectid",
                &["507f1f77bcf86cd799439011"][..],
                &["507f1f77", "zz7f1f77bcf86cd799439011"][..],
            ),
            ("byte", &["ZWxlcGhhbnQ=", "YQ==", "YWJj"], &["", "a", "YQ=", "Y===", "Y Q=", "ZW-_"]),
            (
                "cidr",
                &["192.168.254.0/24", "10.000.0.1/8", "2001:db8::/48"],
                &["1.2.3.4", "1.2.3.4/33", "1.2.3.4/", "1.2.3/8", "::/129", "1.2.3.4/+8"],
            ),
            (
                "creditcard",
                &["4111-1111-1111-1111", "5555 5555 5555 4444"],
                &["4111111111111112", "1", ""],
            ),
            (
                "date",
                &["2016-02-29", "1999-12-31"],
                &[
                    "2015-02-29",
                    "2016-2-1",
                    "2016-00-01",
                    "2016-13-01",
                    "2016-04-31",
                    "+016-01-01",
                    "",
                ],
            ),
            (
                "date-time",
                &["2014-12-15T19:30:20.000Z", "2014-12-15t08:00:00+01:00"],
                &[
                    "2014-12-15",
                    "2014-12-15T24:00:00Z",
                    "2014-12-15T08:60:00Z",
                    "2014-12-15T08:00:00",
                    "x",
                ],
            ),
            (
                "duration",
                &["10m", "1.5h", "22 ns", "1 day", "3weeks", "5 wk"],
                &["", "10", "ten minutes", "1 parsec", "99999999999999999999 s"],
            ),
            ("email", &["a@example.com", "Ann <ann@example.com>"], &["a", "@example.com"]),
            ("hexcolor", &["#FFF", "ffffff"], &["#ffff", "red"]),
            (
                "hostname",
                &["a", "example.com", "a-b.example.org", "1.example.com", "münchen.de"],
                &["", "-a.com", "a-.com", "example.c", "my-host-name", "a_b.com"],
            ),
            (
                "ipv4",
                &["1.2.3.4", "010.000.0.1"],
                &["1.2.3", "1.2.3.256", "::1", "1.2.3.4.5", "a.b.c.d"],
            ),
            ("ipv6", &["::1", "2001:db8::ff00:42:8329"], &["1.2.3.4", "::g"]),
            (
                "isbn",
                &["0321751043", "978-0321751041", "097522980X"],
                &["0321751044", "978-0321751042", "X"],
            ),
            ("isbn10", &["0321751043"], &["978-0321751041"]),
            ("isbn13", &["978 0321751041"], &["0321751043"]),
            ("k8s-long-name", &["a.b-c.d"], &["a.-", "A"]),
            ("k8s-short-name", &["a-b"], &["a-", "a.b"]),
            (
                "mac",
                &["01:23:45:67:89:ab", "01-23-45-67-89-AB-cd-ef", "0123.4567.89ab"],
                &["01:23:45:67:89", "01:23:45:67:89:zz", "01:23-45:67:89:ab", ""],
            ),
            ("password", &["", "anything"], &[]),
            ("rgbcolor", &["rgb(100,0, 255)"], &["rgb(256,0,0)", "rgb(1,2)"]),
            ("ssn", &["111-11-1111"], &["1111111111", "111111111"]),
            ("uri", &["https://example.com/a", "/a"], &["a", ""]),
            (
                "uuid",
                &["a8098c1a-f86e-11da-bd1a-00112444be1e", "A8098C1AF86E11DABD1A00112444BE1E"],
                &["a8098c1a"],
            ),
            (
                "uuid3",
                &["bcd02e22-68f0-3046-a512-327cca9def8f"],
                &["bcd02e22-68f0-4046-a512-327cca9def8f"],
            ),
            (
                "uuid4",
                &["025b0d74-00a2-4048-bf57-227c5111bb34"],
                &["025b0d74-00a2-5048-bf57-227c5111bb34"],
            ),
            (
                "uuid5",
                &["886313e1-3b8a-5372-9b90-0c9aee199e5d"],
                &["886313e1-3b8a-4372-9b90-0c9aee199e5d"],
            ),
        ] {
            assert_eq!(known_format(&["string"], format), format);
            assert_eq!(known_format(&["object"], format), "");
            for (texts, expected) in [(good, true), (bad, false)] {
                for text in texts {
                    let found = matches_format(format, text, &mut WorkBudget::default());
                    assert_eq!(found, Some(expected), "{format}: {text:?}");
                }
            }
        }
        for (types, format, expected) in [
            (&["integer"][..], "int32", true),
            (&["integer"], "date", false),
            (&["number"], "double", true),
            (&["number"], "int64", false),
            (&["string"], "int32", false),
            (&["string"], "regex", false),
            (&["integer", "string"], "date", true),
            (&[], "date", true),
        ] {
            assert_eq!(!known_format(types, format).is_empty(), expected, "{types:?} {format}");
        }
    }
}
