//! Ranges and versions: `Range::parse`, `Version::parse` and `Version::parse_tolerant`.
//!
//! An input is lines: two ranges, then versions. Oracles: a reader of versions and simple ranges that is
//! written from their grammar; a printed version reads the same; two joined ranges contain the
//! intersection, or the union, of both.
#![no_main]

use std::cmp::Ordering;

use libfuzzer_sys::fuzz_target;
use opgate_fuzz::repeat_input;
use opgate_compat::range::Range;
use opgate_compat::version::{Identifier, Version};

fuzz_target!(|input: &str| {
    let lines: Vec<&str> = input.lines().take(12).collect();
    let (ranges, versions) = lines.split_at(lines.len().min(2));
    let versions: Vec<Version> =
        lines.iter().chain(versions).filter_map(|text| check_version(text)).collect();
    check_order(&versions);
    for text in ranges {
        check_range(text, &versions);
    }
    if let [left, right] = ranges {
        check_joined_ranges(left, right, &versions);
    }
    if let Some(repeated) = repeat_input(input.as_bytes(), &["", " ", "||", " || ", "."]) {
        let repeated = String::from_utf8(repeated).expect("complete inputs");
        if let Ok(range) = Range::parse(&repeated) {
            let _ = versions.iter().filter(|version| range.contains(version)).count();
            let _ = (range.has_minimum(), range.is_narrow());
        }
        let _ = (Version::parse(&repeated), Version::parse_tolerant(&repeated));
    }
});

/// A version by its grammar: three numbers, and pre-release identifiers. Build metadata is dropped.
#[derive(Debug)]
struct ModelVersion {
    numbers: [u64; 3],
    pre: Vec<String>,
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn parse_number(text: &str) -> Option<u64> {
    let is_number = is_digits(text) && (text == "0" || !text.starts_with('0'));
    if is_number { text.parse().ok() } else { None }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn parse_model(text: &str) -> Option<ModelVersion> {
    let (text, build) = text.split_once('+').map_or((text, None), |(l, r)| (l, Some(r)));
    if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
        return None;
    }
    let (core, pre) = text.split_once('-').map_or((text, None), |(l, r)| (l, Some(r)));
    let numbers = core.split('.').map(parse_number).collect::<Option<Vec<_>>>()?;
    let pre: Vec<_> = pre.into_iter().flat_map(|pre| pre.split('.')).map(str::to_owned).collect();
    let is_valid =
        |text: &String| is_identifier(text) && (!is_digits(text) || parse_number(text).is_some());
    pre.iter().all(is_valid).then_some(())?;
    Some(ModelVersion { numbers: numbers.try_into().ok()?, pre })
}

fn compare(left: &ModelVersion, right: &ModelVersion) -> Ordering {
    let pre = |left: &String, right: &String| match (parse_number(left), parse_number(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    };
    left.numbers.cmp(&right.numbers).then_with(|| {
        match (left.pre.is_empty(), right.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let mut pairs = left.pre.iter().zip(&right.pre).map(|(l, r)| pre(l, r));
                let first = pairs.find(|order| order.is_ne());
                first.unwrap_or_else(|| left.pre.len().cmp(&right.pre.len()))
            }
        }
    })
}

fn print(version: &Version) -> String {
    let identifier = |identifier: &Identifier| match identifier {
        Identifier::Number(number) => number.to_string(),
        Identifier::Text(text) => text.clone(),
    };
    let Version { major, minor, patch, pre, .. } = version;
    let pre: Vec<_> = pre.iter().map(identifier).collect();
    let dash = if pre.is_empty() { "" } else { "-" };
    format!("{major}.{minor}.{patch}{dash}{}", pre.join("."))
}

/// Parses a version, and compares the parsers with the model.
fn check_version(text: &str) -> Option<Version> {
    let found = Version::parse(text);
    let expected = parse_model(text);
    assert_eq!(found.is_ok(), expected.is_some(), "{text:?}: {found:?}");
    let tolerant = Version::parse_tolerant(text);
    if let Ok(tolerant) = &tolerant {
        assert_eq!(Version::parse(&print(tolerant)).as_ref(), Ok(tolerant), "{text:?}");
    }
    let (Ok(found), Some(expected)) = (&found, expected) else {
        if let Err(error) = found {
            assert!(!error.to_string().is_empty(), "{text:?}");
        }
        return tolerant.ok();
    };
    assert_eq!(tolerant.as_ref(), Ok(found), "{text:?}");
    assert_eq!([found.major, found.minor, found.patch], expected.numbers, "{text:?}");
    let pre = expected.pre.join(".");
    let [major, minor, patch] = expected.numbers;
    let dash = if pre.is_empty() { "" } else { "-" };
    assert_eq!(print(found), format!("{major}.{minor}.{patch}{dash}{pre}"), "{text:?}");
    // Three short numbers have a fast path; metadata bypasses it.
    if !text.contains('+') {
        assert_eq!(Version::parse(&format!("{text}+0")).as_ref(), Ok(found), "{text:?}");
    }
    Some(found.clone())
}

/// Asserts that versions are ordered as their grammar defines.
fn check_order(versions: &[Version]) {
    for left in versions {
        for right in versions {
            let models = [left, right].map(|v| parse_model(&print(v)).expect("a printed version"));
            let [l, r] = &models;
            assert_eq!(left.cmp(right), compare(l, r), "{models:?}");
            assert_eq!(left == right, left.cmp(right).is_eq(), "{models:?}");
        }
    }
}

const OPERATORS: [(&str, &[Ordering]); 9] = [
    (">=", &[Ordering::Greater, Ordering::Equal]),
    ("<=", &[Ordering::Less, Ordering::Equal]),
    ("!=", &[Ordering::Less, Ordering::Greater]),
    ("==", &[Ordering::Equal]),
    ("=", &[Ordering::Equal]),
    ("!", &[Ordering::Less, Ordering::Greater]),
    (">", &[Ordering::Greater]),
    ("<", &[Ordering::Less]),
    ("", &[Ordering::Equal]),
];

/// Reports whether a comparator (`>=1.2.3`, `<1.2.x`) holds for a version; `None` if it is beyond the
/// model.
fn comparator_contains(token: &str, with_wildcards: bool, version: &ModelVersion) -> Option<bool> {
    let (operator, admitted) = OPERATORS.iter().find(|(name, _)| token.starts_with(name))?;
    let text = token.get(operator.len()..)?;
    if let Some(bound) = parse_model(text).filter(|_| !with_wildcards || !text.contains('x')) {
        return Some(admitted.contains(&compare(version, &bound)));
    }
    let stem = text.strip_suffix(".x").filter(|_| with_wildcards)?;
    let numbers = stem.split('.').map(parse_number).collect::<Option<Vec<_>>>()?;
    let small = |number: u64| number < 1_000_000;
    if !numbers.iter().copied().all(small) {
        return None;
    }
    let (first, next) = match *numbers.as_slice() {
        [major] => ([major, 0, 0], [major + 1, 0, 0]),
        [major, minor] => ([major, minor, 0], [major, minor + 1, 0]),
        _ => return None,
    };
    let bound = |numbers| ModelVersion { numbers, pre: Vec::new() };
    let from_first = compare(version, &bound(first)).is_ge();
    let from_next = compare(version, &bound(next)).is_ge();
    Some(match *operator {
        ">" => from_next,
        ">=" => from_first,
        "<" => !from_first,
        "<=" => !from_next,
        "!" | "!=" => !from_first && from_next,
        _ => from_first && !from_next,
    })
}

/// Reports whether a range (alternatives with `||`, comparators with spaces) contains a version; `None` if
/// it is beyond the model.
fn model_contains(text: &str, version: &ModelVersion) -> Option<bool> {
    let with_wildcards = text.contains('x');
    let mut any = false;
    for alternative in text.split(" || ") {
        let mut all = true;
        for token in alternative.split(' ') {
            all &= comparator_contains(token, with_wildcards, version)?;
        }
        any |= all;
    }
    Some(any)
}

/// Parses a range, and compares its versions with the model.
fn check_range(text: &str, versions: &[Version]) {
    let zero = ModelVersion { numbers: [0; 3], pre: Vec::new() };
    let is_in_model = model_contains(text, &zero).is_some();
    let range = match Range::parse(text) {
        Ok(range) => range,
        Err(error) => {
            assert!(!is_in_model, "{text:?}: {error}");
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(!range.alternatives.is_empty() && range.warnings.len() <= 4, "{text:?}");
    let _ = (range.has_minimum(), range.is_narrow());
    for version in versions {
        let contained = range.contains(version);
        let version = parse_model(&print(version)).expect("a printed version");
        if let Some(expected) = model_contains(text, &version) {
            assert_eq!(contained, expected, "{text:?} {version:?}");
        }
    }
}

/// Asserts that two joined ranges contain the intersection, or the union, of both.
fn check_joined_ranges(left: &str, right: &str, versions: &[Version]) {
    let (Ok(l), Ok(r)) = (Range::parse(left), Range::parse(right)) else { return };
    // An operator applies to the next token, across spaces.
    if left.trim_end_matches(' ').ends_with(['<', '>', '=']) {
        return;
    }
    let either = Range::parse(&format!("{left} || {right}")).expect("two ranges");
    let both = Range::parse(&format!("{left} {right}")).expect("two ranges");
    let has_alternatives = l.alternatives.len() + r.alternatives.len() > 2;
    for version in versions {
        let (in_left, in_right) = (l.contains(version), r.contains(version));
        assert_eq!(either.contains(version), in_left || in_right, "{left:?} {right:?} {version:?}");
        if !has_alternatives {
            assert_eq!(
                both.contains(version),
                in_left && in_right,
                "{left:?} {right:?} {version:?}"
            );
        }
    }
}
