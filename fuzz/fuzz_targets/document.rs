//! Documents: their values, and the cost of reads.
//!
//! An input is two JSON texts, a line each, then pointers, one a line. Oracles: `serde_json` reads the same
//! values and duplicate names; `equal` agrees with a comparison of `serde_json`'s values, in both
//! directions, and ignores white space; `table` returns the same as `get`.
//!
//! Work and memory grow with the text: reads, lookups and comparisons cost units for each byte, a table for
//! each cell and the tokens of its pointer; all memory is released in the end. A unit takes some
//! nanoseconds, so that no work is uncharged.
#![no_main]

use std::collections::BTreeSet;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use opgate_document::{Account, Charge, Deadline, Document, Kind, Meter, Text, equal, table};
use opgate_fuzz::{Json, cpu_time, repeat_input};
use serde::de::IgnoredAny;
use serde_json::Value;

struct NoDeadline;

impl Deadline for NoDeadline {
    fn is_expired(&self) -> bool {
        false
    }
}

/// Maximum units for each byte of text: to read it, to look up all its values, and to compare it with an
/// equal text after that.
const MAX_READ_UNITS: u64 = 1;
const MAX_LOOKUP_UNITS: u64 = 32;
const MAX_COMPARISON_UNITS: u64 = 96;
/// Maximum units for each cell of a table, and each token and letter of its pointer.
const MAX_CELL_UNITS: u64 = 8;
/// Maximum charge for each byte of text: a parsed list needs 24 bytes for an element.
const MAX_CHARGE_BYTES: usize = 64;
/// Maximum units for an empty input.
const BASE_UNITS: u64 = 64;

/// Maximum CPU time for each unit, in nanoseconds, with the fuzzer's counters; and for an empty input.
const MAX_UNIT_NANOSECONDS: u64 = 500;
const BASE_NANOSECONDS: u64 = 50_000_000;

fuzz_target!(|input: &str| {
    let mut lines = input.lines();
    let (left, right) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pointers: Vec<&str> = lines.take(16).collect();
    check_values(left);
    check_cost(left, &pointers);
    check_equality(left, right);
    if let Some(repeated) = repeat_input(left.as_bytes(), &[","]) {
        let elements = String::from_utf8(repeated).expect("complete inputs");
        let start = cpu_time();
        let units = check_cost(&format!("[{elements}]"), &pointers);
        let elapsed = cpu_time() - start;
        let max = units * MAX_UNIT_NANOSECONDS + BASE_NANOSECONDS;
        assert!(elapsed <= max, "{elapsed} ns for {units} units");
    }
});

/// Asserts that a document has the values that `serde_json` reads.
fn check_values(json: &str) {
    let document = Document::parse(json);
    let is_json = serde_json::from_str::<IgnoredAny>(json).is_ok();
    match &document {
        Ok(_) => assert!(is_json, "{json}"),
        Err(error) => {
            assert!(!is_json || error.to_string().starts_with("nests deeper"), "{json}");
        }
    }
    let expected = serde_json::from_str::<Value>(json);
    let (Ok(document), Ok(expected)) = (document, expected) else { return };
    assert_same_value(document.root(), &expected);
    let Ok((text, _)) = Text::parse_values(json.to_owned(), usize::MAX) else {
        panic!("{json} is JSON")
    };
    let has_duplicates = Json::parse(json).expect("JSON").has_duplicate_names();
    assert_eq!(text.duplicate_name().is_some(), has_duplicates, "{json}");
}

/// Asserts that work and memory grow with the text; returns the units of work.
fn check_cost(json: &str, pointers: &[&str]) -> u64 {
    let account = Account::new(usize::MAX);
    let meter = Meter::new(Arc::new(NoDeadline));
    let bytes = u64::try_from(json.len()).expect("bytes") + 1;
    let text = json.to_owned();
    let Ok(document) = Document::parse_metered(text, Charge::on(&account), &meter) else {
        return meter.spent();
    };
    let mut before = 0;
    let mut assert_spent = |step: &str, max: u64| {
        let spent = meter.spent() - before;
        before += spent;
        assert!(spent <= max + BASE_UNITS, "{step}: {spent} units of {max} for {bytes} bytes");
    };
    assert_spent("read", MAX_READ_UNITS * bytes);
    let root = document.root_metered(&meter);
    let values = count_values(root);
    assert_spent("lookup", MAX_LOOKUP_UNITS * bytes);
    assert_eq!(count_values(root), values);
    // Additional spaces prevent a comparison of the texts.
    let spaced = format!(" {} ", add_spaces(json));
    let spaced = Document::parse_charged(spaced, Charge::on(&account)).expect("the same JSON");
    assert!(equal(Some(root), Some(spaced.root_metered(&meter))), "{json}");
    assert_spent("comparison", MAX_COMPARISON_UNITS * bytes);
    let mut cells = Vec::new();
    let result: Result<(), ()> = table(root, pointers, |cell| {
        cells.push(cell.map(|value| value.raw().into_owned()));
        Ok(())
    });
    assert!(result.is_ok());
    let rows = u64::try_from(root.items().count()).expect("rows");
    let tokens: usize = pointers.iter().map(|pointer| 1 + pointer.matches('/').count()).sum();
    let letters: usize = pointers.iter().map(|pointer| pointer.len()).sum();
    let tokens = u64::try_from(tokens + letters).expect("tokens");
    assert_spent("table", rows * tokens * MAX_CELL_UNITS);
    let mut cells = cells.into_iter();
    for element in spaced.root().items() {
        for pointer in pointers {
            let expected = element.get(pointer).map(|value| remove_spaces(&value.raw()));
            assert_eq!(cells.next().map(|cell| cell.as_deref().map(remove_spaces)), Some(expected));
        }
    }
    let max = 2 * MAX_CHARGE_BYTES * (json.len() + 64);
    assert!(account.used() <= max, "{} bytes for {}", account.used(), json.len());
    let units = meter.spent();
    drop((document, spaced));
    assert_eq!(account.used(), 0);
    units
}

/// Asserts that `equal` agrees with a comparison of `serde_json`'s values.
fn check_equality(left: &str, right: &str) {
    let (Ok(left_document), Ok(right_document)) = (Document::parse(left), Document::parse(right))
    else {
        return;
    };
    let (left_root, right_root) = (Some(left_document.root()), Some(right_document.root()));
    let found = equal(left_root, right_root);
    assert_eq!(equal(right_root, left_root), found, "{left} and {right}");
    let (Ok(left), Ok(right)) = (serde_json::from_str(left), serde_json::from_str(right)) else {
        return;
    };
    if let Some(expected) = expected_equality(Some(&left), Some(&right)) {
        assert_eq!(found, expected, "{left} and {right}");
    }
}

/// Reports whether two values are equal for every Go type; `None` if that depends on fractions, because
/// `serde_json` can differ in the last digit.
fn expected_equality(left: Option<&Value>, right: Option<&Value>) -> Option<bool> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let (Some(left), Some(right)) = (left, right) else {
        return Some(left.or(right).is_none_or(is_empty));
    };
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            let pairs = names.into_iter().map(|name| (left.get(name), right.get(name)));
            all_equal(pairs.map(|(left, right)| expected_equality(left, right)))
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right);
            all_equal(pairs.map(|(left, right)| expected_equality(Some(left), Some(right))))
        }
        (Value::Number(left), Value::Number(right)) => {
            (!left.is_f64() && !right.is_f64()).then(|| left == right)
        }
        _ => Some(left == right || is_empty(left) && is_empty(right)),
    }
}

/// Combines the results of pairs: one unequal pair decides, else one unknown pair does.
fn all_equal(pairs: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(true);
    for pair in pairs {
        match pair {
            Some(true) => {}
            Some(false) => return pair,
            None => result = None,
        }
    }
    result
}

/// Adds a space behind each comma, opening bracket and colon.
fn add_spaces(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let mut spaced = String::with_capacity(2 * json.len());
    for letter in json.chars() {
        spaced.push(letter);
        match letter {
            '"' if !is_escaped => is_text = !is_text,
            ',' | '[' | '{' | ':' if !is_text => spaced.push(' '),
            _ => {}
        }
        is_escaped = is_text && letter == '\\' && !is_escaped;
    }
    spaced
}

/// Removes all white space, also from strings.
fn remove_spaces(json: &str) -> String {
    json.split_ascii_whitespace().collect()
}

/// Returns the number of values in a value, after a read of each.
fn count_values(value: opgate_document::Value<'_>) -> usize {
    let _ = (value.text(), value.integer());
    let members: usize = value.members().map(|(_, value)| 1 + count_values(value)).sum();
    let items: usize = value.items().map(|value| 1 + count_values(value)).sum();
    members + items
}

fn assert_same_value(found: opgate_document::Value<'_>, expected: &Value) {
    match expected {
        Value::Null => assert_eq!(found.kind(), Kind::Null),
        Value::Bool(is_true) => assert_eq!(found.boolean(), Some(*is_true)),
        Value::String(text) => assert_eq!(found.text(), Some(text.as_str())),
        Value::Number(number) => {
            assert_eq!(found.kind(), Kind::Number);
            if number.is_i64() || number.is_u64() {
                assert_eq!(found.integer(), number.as_i64());
            }
        }
        Value::Array(items) => {
            assert_eq!(found.length(), Some(items.len()));
            found
                .items()
                .zip(items)
                .for_each(|(found, expected)| assert_same_value(found, expected));
        }
        Value::Object(members) => {
            assert_eq!(found.length(), Some(members.len()));
            for (name, expected) in members {
                let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                let found = found.get(&pointer);
                assert_same_value(found.unwrap_or_else(|| panic!("no {pointer}")), expected);
            }
        }
    }
}
