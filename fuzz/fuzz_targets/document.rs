//! Documents beside `serde_json`, and what looks at them cost.
//!
//! An input is two JSON texts, a line each, and pointers after them, one a line. The oracles: both
//! readers read the same values, and the same names twice; `equal` says what a comparison of
//! `serde_json`'s values says, either way round, and that white space does not matter; `table` finds what
//! `get` finds. Work and memory grow with the text: reading, looking at everything and comparing are
//! paid by the byte, a table by its cells and the tokens of their pointers; nothing is left on the
//! account in the end. And a unit of work stays some nanoseconds: what is long is paid for.
#![no_main]

use std::collections::BTreeSet;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use opgate_document::{Account, Charge, Document, Kind, Meter, Text, Watch, equal, table};
use opgate_fuzz::{Json, large, processor_time};
use serde::de::IgnoredAny;
use serde_json::Value;

struct Never;

impl Watch for Never {
    fn is_over(&self) -> bool {
        false
    }
}

/// Units for a byte of text: to read it, to look at all that is in it, and to compare it with the same
/// text once that was looked at.
const READ: u64 = 1;
const LOOKED_AT: u64 = 32;
const COMPARED: u64 = 96;
/// Units for a column of a row, and for each token of its pointer.
const CELL: u64 = 8;
/// Bytes on the account for a byte of text: a list that is split has 24 for an element.
const MEMORY: usize = 64;
/// What an input may cost that says nothing.
const LEAST: u64 = 64;

/// Nanoseconds of the processor for a unit, with the fuzzer's counters in between. And what a large input may take beside that.
const UNIT: u64 = 500;
const SPARE: u64 = 50_000_000;

fuzz_target!(|input: &str| {
    let mut lines = input.lines();
    let (one, other) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pointers: Vec<&str> = lines.take(16).collect();
    reads(one);
    costs(one, &pointers);
    compares(one, other);
    if let Some(large) = large(one.as_bytes(), &[","]) {
        let many = String::from_utf8(large).expect("whole inputs");
        let began = processor_time();
        let units = costs(&format!("[{many}]"), &pointers);
        let took = processor_time() - began;
        assert!(took <= units * UNIT + SPARE, "{took} ns for {units} units");
    }
});

/// Both readers read the same.
fn reads(json: &str) {
    let ours = Document::parse(json);
    let is_json = serde_json::from_str::<IgnoredAny>(json).is_ok();
    match &ours {
        Ok(_) => assert!(is_json, "{json}"),
        Err(why) => assert!(!is_json || why.to_string().starts_with("nests deeper"), "{json}"),
    }
    let theirs = serde_json::from_str::<Value>(json);
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    same(ours.root(), &theirs);
    let Ok((text, _)) = Text::values(json.to_owned(), usize::MAX) else { panic!("{json} is JSON") };
    let is_twice = Json::read(json).expect("as before").has_twice();
    assert_eq!(text.twice().is_some(), is_twice, "{json}");
}

/// Work and memory grow with the text; gives the work.
fn costs(json: &str, pointers: &[&str]) -> u64 {
    let account = Account::new(usize::MAX);
    let meter = Meter::new(Arc::new(Never));
    let bytes = u64::try_from(json.len()).expect("bytes") + 1;
    let text = json.to_owned();
    let Ok(document) = Document::metered(text, Charge::on(&account), &meter) else {
        return meter.spent();
    };
    let mut before = 0;
    let mut spent = |what: &str, most: u64| {
        let spent = meter.spent() - before;
        before += spent;
        assert!(spent <= most + LEAST, "{what}: {spent} units of {most} for {bytes} bytes");
    };
    spent("read", READ * bytes);
    let root = document.root_for(&meter);
    let values = count(root);
    spent("looked at", LOOKED_AT * bytes);
    assert_eq!(count(root), values);
    // With spaces between, so that the texts differ.
    let spaced = format!(" {} ", spaced(json));
    let again = Document::charged(spaced, Charge::on(&account)).expect("it is the same");
    assert!(equal(Some(root), Some(again.root_for(&meter))), "{json}");
    spent("compared", COMPARED * bytes);
    let mut cells = Vec::new();
    let done: Result<(), ()> = table(root, pointers, |cell| {
        cells.push(cell.map(|value| value.raw().into_owned()));
        Ok(())
    });
    assert!(done.is_ok());
    let rows = u64::try_from(root.items().count()).expect("rows");
    let tokens: usize = pointers.iter().map(|pointer| 1 + pointer.matches('/').count()).sum();
    let letters: usize = pointers.iter().map(|pointer| pointer.len()).sum();
    let tokens = u64::try_from(tokens + letters).expect("tokens");
    spent("table", rows * tokens * CELL);
    let mut cells = cells.into_iter();
    for element in again.root().items() {
        for pointer in pointers {
            let expected = element.get(pointer).map(|value| unspaced(&value.raw()));
            assert_eq!(cells.next().map(|cell| cell.as_deref().map(unspaced)), Some(expected));
        }
    }
    let most = 2 * MEMORY * (json.len() + 64);
    assert!(account.used() <= most, "{} bytes for {}", account.used(), json.len());
    let work = meter.spent();
    drop((document, again));
    assert_eq!(account.used(), 0);
    work
}

/// Equality is what it is for `serde_json`'s values.
fn compares(one: &str, other: &str) {
    let (Ok(ours), Ok(ours_too)) = (Document::parse(one), Document::parse(other)) else { return };
    let found = equal(Some(ours.root()), Some(ours_too.root()));
    assert_eq!(equal(Some(ours_too.root()), Some(ours.root())), found, "{one} and {other}");
    let (Ok(one), Ok(other)) = (serde_json::from_str(one), serde_json::from_str(other)) else {
        return;
    };
    if let Some(expected) = are_equal(Some(&one), Some(&other)) {
        assert_eq!(found, expected, "{one} and {other}");
    }
}

/// Whether two values are the same for every Go type; none where that takes numbers with a fraction,
/// of which `serde_json` reads the last digit in its own way.
fn are_equal(one: Option<&Value>, other: Option<&Value>) -> Option<bool> {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let (Some(one), Some(other)) = (one, other) else {
        return Some(one.or(other).is_none_or(is_nothing));
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            all(names.into_iter().map(|name| are_equal(one.get(name), other.get(name))))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            all(one.iter().zip(other).map(|(one, other)| are_equal(Some(one), Some(other))))
        }
        (Value::Number(one), Value::Number(other)) => {
            (!one.is_f64() && !other.is_f64()).then(|| one == other)
        }
        _ => Some(one == other || is_nothing(one) && is_nothing(other)),
    }
}

/// Whether all are so; what is not settles it, whatever is not known of others.
fn all(pairs: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for one in pairs {
        match one {
            Some(true) => {}
            Some(false) => return one,
            None => all = None,
        }
    }
    all
}

/// A space behind each comma, bracket and colon.
fn spaced(json: &str) -> String {
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

/// Without white space, in texts too.
fn unspaced(json: &str) -> String {
    json.split_ascii_whitespace().collect()
}

/// Looks at everything.
fn count(value: opgate_document::Value<'_>) -> usize {
    let _ = (value.text(), value.integer());
    let members: usize = value.members().map(|(_, value)| 1 + count(value)).sum();
    let items: usize = value.items().map(|value| 1 + count(value)).sum();
    members + items
}

fn same(ours: opgate_document::Value<'_>, theirs: &Value) {
    match theirs {
        Value::Null => assert_eq!(ours.kind(), Kind::Null),
        Value::Bool(is_true) => assert_eq!(ours.boolean(), Some(*is_true)),
        Value::String(text) => assert_eq!(ours.text(), Some(text.as_str())),
        Value::Number(number) => {
            assert_eq!(ours.kind(), Kind::Number);
            if number.is_i64() || number.is_u64() {
                assert_eq!(ours.integer(), number.as_i64());
            }
        }
        Value::Array(items) => {
            assert_eq!(ours.length(), Some(items.len()));
            ours.items().zip(items).for_each(|(ours, theirs)| same(ours, theirs));
        }
        Value::Object(members) => {
            assert_eq!(ours.length(), Some(members.len()));
            for (name, theirs) in members {
                let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                let ours = ours.get(&pointer);
                same(ours.unwrap_or_else(|| panic!("no {pointer}")), theirs);
            }
        }
    }
}
