//! Values that can only mean one other value, for [`Fix`]es of several policies.
//!
//! ```text
//! wrong value ─▶ spelling, type or notation of the right one ─▶ the right value, if it is the only one ─▶ Fix
//! ```
//!
//! A function returns nothing if it would have to guess. The work is linear in the length of the value.

use opgate_compat::image;
use opgate_compat::nearest;
use opgate_compat::range::Range;
use opgate_compat::version::Version;

use crate::go::{base64, duration, quote, shorten};
use crate::{Document, Fix, Kind, escape};

/// Maximum length of a value that is corrected, in bytes.
const MAX_BYTES: usize = 1_024;
/// Maximum length of a value in the title of a fix, in bytes.
const MAX_SHOWN_BYTES: usize = 64;

/// Annotations whose value is JSON text.
const JSON_ANNOTATIONS: [&str; 7] = [
    "alm-examples",
    "olm.examples",
    "olm.properties",
    "operatorframework.io/initialization-resource",
    "operators.openshift.io/infrastructure-features",
    "operators.openshift.io/valid-subscription",
    "operators.operatorframework.io/internal-objects",
];

/// Returns a value for the title of a fix.
#[must_use]
pub fn shown(text: &str) -> String {
    quote(&shorten(text, MAX_SHOWN_BYTES))
}

/// Returns the safe fix that replaces a value by a text.
pub fn write(pointer: impl Into<String>, text: &str) -> Fix {
    Fix::safe(format!("write {}", shown(text))).set_text(pointer, text)
}

/// Returns the fix that replaces a value by a text, and that a person needs to review.
pub fn propose(pointer: impl Into<String>, text: &str) -> Fix {
    Fix::needs_review(format!("write {}", shown(text))).set_text(pointer, text)
}

/// Returns the only word that has the letters and digits of the text. Case, spaces, hyphens and
/// underscores make no difference.
#[must_use]
pub fn word<'k>(text: &str, words: &[&'k str]) -> Option<&'k str> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let letters = |text: &str| -> String {
        let is_part = |c: &char| !matches!(c, '-' | '_') && !c.is_whitespace();
        text.chars().filter(is_part).flat_map(char::to_lowercase).collect()
    };
    let wanted = letters(text);
    let mut same = words.iter().filter(|word| !wanted.is_empty() && letters(word) == wanted);
    let found = same.next()?;
    same.next().is_none().then_some(*found)
}

/// Returns the fix that corrects the spelling of a word: a safe one if only case, spaces, hyphens or
/// underscores differ.
pub fn spelling(pointer: &str, text: &str, words: &[&str]) -> Option<Fix> {
    word(text, words).map(|word| write(pointer, word))
}

/// Returns the word that is the most similar to a text, see [`nearest::nearest`].
#[must_use]
pub fn nearest<'k>(text: &str, words: &[&'k str]) -> Option<&'k str> {
    nearest::nearest(text, words.iter().copied())
}

/// Returns the boolean that a text means.
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Returns the safe fix that writes a text as the boolean that it means.
pub fn boolean_fix(document: &Document, pointer: &str) -> Option<Fix> {
    let is_true = boolean(&document.text(pointer)?)?;
    Some(Fix::safe(format!("write {is_true} without quotes")).set(pointer, is_true.to_string()))
}

/// Returns the safe fix that writes a text as the whole number that it contains.
pub fn integer_fix(document: &Document, pointer: &str) -> Option<Fix> {
    let number: i64 = document.text(pointer)?.trim().parse().ok()?;
    Some(Fix::safe(format!("write {number} without quotes")).set(pointer, number.to_string()))
}

/// A number or boolean as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalarText {
    /// The text.
    pub text: String,
    /// Whether the author cannot have written another text: `1.1` may have been `1.10`.
    pub is_certain: bool,
}

impl ScalarText {
    /// Reads a number or boolean.
    #[must_use]
    pub fn read(document: &Document, pointer: &str) -> Option<Self> {
        let kind = document.kind(pointer);
        if !matches!(kind, Kind::Boolean | Kind::Number) {
            return None;
        }
        let text = String::from_utf8(document.raw(pointer)?).ok()?;
        let is_certain = kind == Kind::Boolean
            || match text.split_once('.') {
                None => !text.contains(['e', 'E']),
                Some((_, fraction)) => {
                    fraction.len() > 1 && fraction.bytes().all(|byte| byte.is_ascii_digit())
                }
            };
        Some(Self { text, is_certain })
    }

    /// Returns the fix that writes the value as a string.
    pub fn fix(&self, pointer: &str) -> Fix {
        if self.is_certain { write(pointer, &self.text) } else { propose(pointer, &self.text) }
    }
}

/// Returns the fix that writes a number or boolean as a string.
pub fn text_fix(document: &Document, pointer: &str) -> Option<Fix> {
    ScalarText::read(document, pointer).map(|value| value.fix(pointer))
}

/// Returns the fix that writes a value as a string: a list or an object as its JSON text, if `allows_json`. The list
/// of the annotation `categories` gets commas instead. This needs a review, unless the value of the annotation is JSON.
pub fn string_fix(document: &Document, pointer: &str, allows_json: bool) -> Option<Fix> {
    const MAX_JSON_BYTES: u32 = 16 << 10;
    let is_json = matches!(document.kind(pointer), Kind::List | Kind::Object);
    if !is_json {
        return text_fix(document, pointer);
    }
    let size = document.size(pointer).filter(|size| allows_json && *size <= MAX_JSON_BYTES);
    if size.is_some() && pointer.ends_with("/categories") && document.kind(pointer) == Kind::List {
        let categories = document.texts(pointer);
        let is_complete =
            document.length(pointer).map(usize::try_from) == Some(Ok(categories.len()));
        return is_complete.then(|| propose(pointer, &categories.join(", ")));
    }
    let json = size.and_then(|_| document.raw(pointer))?;
    let json = String::from_utf8(json).ok()?;
    let title = "write the value as JSON text";
    let fix = if holds_json(pointer) { Fix::safe(title) } else { Fix::needs_review(title) };
    Some(fix.set_text(pointer, &json))
}

/// Whether the pointer is that of an annotation whose value is JSON text.
fn holds_json(pointer: &str) -> bool {
    let name = pointer.rsplit('/').next().unwrap_or_default();
    JSON_ANNOTATIONS.iter().any(|known| escape(known) == name)
}

/// Returns the fix that gives a value the type that the rule requires.
pub fn type_fix(document: &Document, pointer: &str, wanted: Kind) -> Option<Fix> {
    match wanted {
        Kind::Text => text_fix(document, pointer),
        Kind::Boolean => boolean_fix(document, pointer),
        Kind::Number => integer_fix(document, pointer),
        _ => None,
    }
}

/// Returns the strict semantic version of a tolerant one: without spaces and `v`, with all three numbers, and
/// without leading zeroes.
#[must_use]
pub fn version(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > MAX_BYTES {
        return None;
    }
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = numbers.split('.').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if numbers.len() > 3 || !numbers.iter().all(is_number) || numbers.len() < 3 && !rest.is_empty()
    {
        return None;
    }
    numbers.resize(3, "0");
    let plain = numbers.iter().map(|number| {
        let trimmed = number.trim_start_matches('0');
        if trimmed.is_empty() { "0" } else { trimmed }
    });
    let version = format!("{}{rest}", plain.collect::<Vec<_>>().join("."));
    Version::parse(&version).is_ok().then_some(version)
}

/// Returns an unreadable range of versions without each `v` before a number, and without the comma between
/// a lower and an upper bound.
#[must_use]
pub fn version_range(text: &str) -> Option<String> {
    if text.len() > MAX_BYTES || Range::parse(text).is_ok() {
        return None;
    }
    let without_comma = without_comma(&without_v(text))?;
    let range = without_comma.split_whitespace().collect::<Vec<_>>().join(" ");
    let parsed = Range::parse(&range).ok()?;
    parsed.warnings.is_empty().then_some(range)
}

/// A comma can mean "and" or "or": only a lower and an upper bound must both be satisfied.
fn without_comma(range: &str) -> Option<String> {
    let Some((lower, upper)) = range.split_once(',') else {
        return Some(range.to_owned());
    };
    let is_bound = |text: &str, start: char| {
        text.trim_start().starts_with(start) && text.matches(['<', '>', '|', '!', ',']).count() == 1
    };
    (is_bound(lower, '>') && is_bound(upper, '<')).then(|| format!("{lower} {upper}"))
}

/// Returns a range of versions without each `v` that is directly before the first digit of a version.
#[must_use]
pub fn without_v(range: &str) -> String {
    let mut rest = range.chars().peekable();
    let mut text = String::with_capacity(range.len());
    let mut is_start = true;
    while let Some(character) = rest.next() {
        let has_number = rest.peek().is_some_and(char::is_ascii_digit);
        if !(character == 'v' && is_start && has_number) {
            text.push(character);
        }
        is_start = matches!(character, ' ' | '<' | '>' | '=' | '!' | '|' | ',');
    }
    text
}

/// Returns an invalid reference to an image without spaces around it, and without a scheme.
#[must_use]
pub fn image_reference(text: &str) -> Option<String> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let plain = text.trim();
    let schemes = ["docker://", "oci://", "https://", "http://"];
    let plain = schemes.iter().find_map(|scheme| plain.strip_prefix(scheme)).unwrap_or(plain);
    (plain != text && image::error(plain).is_none()).then(|| plain.to_owned())
}

/// Returns the duration of Go that a text means: `24h` for `1d` and `5m` for `5 minutes`.
#[must_use]
pub fn go_duration(text: &str) -> Option<String> {
    let mut rest = text.trim();
    let mut found = String::new();
    if rest.len() > MAX_SHOWN_BYTES {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        // Minutes or months.
        if unit == "M" {
            return None;
        }
        let unit = unit.to_ascii_lowercase();
        let hours: u64 = match unit.as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" | "m" | "min" | "mins" | "minute"
            | "minutes" | "h" | "hr" | "hrs" | "hour" | "hours" => 0,
            "d" | "day" | "days" => 24,
            "w" | "week" | "weeks" => 168,
            _ => return None,
        };
        if hours == 0 {
            found.push_str(number);
            found.push(unit.chars().next()?);
        } else {
            let number: u64 = number.parse().ok()?;
            found.push_str(&number.checked_mul(hours)?.to_string());
            found.push('h');
        }
        rest = after.trim_start_matches([' ', ',']);
    }
    (found != text && !found.is_empty() && duration::check(&found).is_ok()).then_some(found)
}

/// Returns the media type of an image in base64.
#[must_use]
pub fn media_type(data: &str) -> Option<&'static str> {
    const SVG: &str = "image/svg+xml";
    let data = data.trim_start();
    let known = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGODdh", "image/gif"),
        ("R0lGODlh", "image/gif"),
        ("PHN2Zy", SVG),
    ];
    let by_start = known.iter().find(|(start, _)| data.starts_with(start));
    by_start.map(|(_, media_type)| *media_type).or_else(|| {
        // A declaration or a comment can precede the image.
        let start = data.get(..data.len().min(4_096) / 4 * 4)?;
        let mut decoded = Vec::new();
        base64::decode(start, &mut decoded).ok()?;
        let text = String::from_utf8_lossy(&decoded);
        (text.trim_start_matches('\u{feff}').trim_start().starts_with('<') && text.contains("<svg"))
            .then_some(SVG)
    })
}

/// Returns the safe fix that removes the second of two equal elements of a list.
pub fn remove_equal(document: &Document, list: &str, first: usize, second: usize) -> Option<Fix> {
    let [first, second] = [first, second].map(|index| format!("{list}/{index}"));
    let is_equal = document.equal(&first, document, &second);
    is_equal.then(|| Fix::safe("remove the duplicate").remove(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_meaning_or_none() {
        for (text, expected) in [
            ("full lifecycle", Some("Full Lifecycle")),
            ("AutoPilot", Some("Auto Pilot")),
            ("auto-pilot", Some("Auto Pilot")),
            ("Level 5", None),
            ("", None),
        ] {
            assert_eq!(word(text, &["Full Lifecycle", "Auto Pilot"]), expected, "{text}");
        }
        assert_eq!(word("a", &["A", "a"]), None);
        for (text, expected) in [
            ("v1.0.0", Some("1.0.0")),
            ("1.21", Some("1.21.0")),
            (" 01.002.0-rc.1+b ", Some("1.2.0-rc.1+b")),
            ("1", Some("1.0.0")),
            ("1.0-rc.1", None),
            ("1.0.0.0", None),
            ("latest", None),
            ("1..0", None),
            ("1.0.0-01", None),
        ] {
            assert_eq!(version(text).as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("<v1.4.0", Some("<1.4.0")),
            (">=v1.0.0, <v2.0.0", Some(">=1.0.0 <2.0.0")),
            (">=1.0.0,<2.0.0", Some(">=1.0.0 <2.0.0")),
            ("1.0.0,2.0.0", None),
            ("<1.0.0,>2.0.0", None),
            (">=1.0.0,<2.0.0,!1.5.0", None),
            (">=1.0.0 <1.5.0,<2.0.0", None),
            ("<1.4.0", None),
            ("4.1.x to 4.1.2", None),
            ("^1.2.3", None),
        ] {
            assert_eq!(version_range(text).as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("docker://quay.io/a/b:v1", Some("quay.io/a/b:v1")),
            (" quay.io/a/b ", Some("quay.io/a/b")),
            ("quay.io/a/b", None),
            ("https://quay.io/A/b", None),
            ("not an image", None),
        ] {
            assert_eq!(image_reference(text).as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("1d", Some("24h")),
            ("5 minutes", Some("5m")),
            ("1h 30 min", Some("1h30m")),
            ("2 days, 3 hours", Some("48h3h")),
            ("10m", None),
            ("10M", None),
            ("10", None),
            ("soon", None),
            ("1.5d", None),
            ("", None),
        ] {
            assert_eq!(go_duration(text).as_deref(), expected, "{text}");
        }
        for (text, expected) in [(" Yes ", Some(true)), ("off", Some(false)), ("maybe", None)] {
            assert_eq!(boolean(text), expected, "{text}");
        }
        for (data, expected) in [
            ("iVBORw0KGgoAAAA", Some("image/png")),
            ("PHN2Zz48L3N2Zz4=", Some("image/svg+xml")),
            // <?xml?><svg/>
            ("PD94bWw/Pjxzdmcv", Some("image/svg+xml")),
            ("aGVsbG8=", None),
        ] {
            assert_eq!(media_type(data), expected, "{data}");
        }
    }

    #[test]
    fn only_annotations_with_json_hold_json() {
        for (pointer, expected) in [
            ("/metadata/annotations/alm-examples", true),
            ("/operators.openshift.io~1valid-subscription", true),
            ("/metadata/annotations/a", false),
            ("", false),
        ] {
            assert_eq!(holds_json(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn numbers_are_written_as_their_author_did() {
        let document = Document::parse(r#"{"a":[1,true,1.21,1.1,1e3,"x",null]}"#).unwrap();
        let read = |at: usize| ScalarText::read(&document, &format!("/a/{at}"));
        let found: Vec<_> = (0..7).map(read).map(|v| v.map(|v| (v.text, v.is_certain))).collect();
        let expected =
            [("1", true), ("true", true), ("1.21", true), ("1.1", false), ("1e3", false)];
        let expected = expected.map(|(text, is_certain)| Some((text.to_owned(), is_certain)));
        assert_eq!(found[..5], expected);
        assert_eq!(found[5..], [None, None]);
    }
}
