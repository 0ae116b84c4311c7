//! Documents beside `serde_json`, and what looks at them cost.
//!
//! An input is a JSON text, and pointers after it, one a line. The oracles: both read the same values;
//! `equal` says the same either way round; `table` finds what `get` finds; and work grows with the
//! text: a table with its rows and columns, a comparison with both values.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use opgate_document::{Document, Kind, Meter, Text, Watch, equal, table};
use serde_json::Value;

struct Never;

impl Watch for Never {
    fn is_over(&self) -> bool {
        false
    }
}

fuzz_target!(|input: &str| {
    let mut lines = input.lines();
    let json = lines.next().unwrap_or_default();
    let pointers: Vec<&str> = lines.take(16).collect();
    let theirs = serde_json::from_str::<Value>(json);
    let Ok(ours) = Document::parse(json) else { return };
    let twice = Text::new(json.to_owned()).is_ok_and(|text| text.twice().is_some());
    if let Ok(theirs) = &theirs
        && !twice
    {
        same(ours.root(), theirs);
    }
    let meter = Meter::new(Arc::new(Never));
    let root = ours.root_for(&meter);
    let again = Document::parse(json).expect("once more");
    assert!(equal(Some(root), Some(again.root())));
    let bytes = u64::try_from(json.len()).expect("bytes") + 1;
    assert!(meter.spent() <= 64 * bytes + 1_000, "equal: {} for {bytes}", meter.spent());
    let before = meter.spent();
    let mut cells = Vec::new();
    let done: Result<(), ()> = table(root, &pointers, |cell| {
        cells.push(cell.map(|value| value.raw().into_owned()));
        Ok(())
    });
    assert!(done.is_ok());
    let rows = u64::try_from(root.items().count()).expect("rows") + 1;
    let tokens: usize = pointers.iter().map(|pointer| pointer.matches('/').count() + 1).sum();
    let tokens = u64::try_from(tokens).expect("tokens") + 1;
    let most = 64 * (bytes + rows * tokens * 16) + 1_000;
    let spent = meter.spent() - before;
    assert!(spent <= most.saturating_add(bytes * tokens * 64), "table: {spent} for {most}");
    let mut cells = cells.into_iter();
    for element in again.root().items() {
        for pointer in &pointers {
            let found = element.get(pointer).map(|value| value.raw().into_owned());
            assert_eq!(cells.next(), Some(found), "{pointer}");
        }
    }
});

fn same(ours: opgate_document::Value<'_>, theirs: &Value) {
    match theirs {
        Value::Null => assert_eq!(ours.kind(), Kind::Null),
        Value::Bool(is_true) => assert_eq!(ours.boolean(), Some(*is_true)),
        Value::String(text) => assert_eq!(ours.text(), Some(text.as_str())),
        Value::Number(_) => assert_eq!(ours.kind(), Kind::Number),
        Value::Array(items) => {
            assert_eq!(ours.length(), Some(items.len()));
            ours.items().zip(items).for_each(|(ours, theirs)| same(ours, theirs));
        }
        Value::Object(members) => {
            assert_eq!(ours.length(), Some(members.len()));
            for (name, theirs) in members {
                let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                // Deep pointers may be refused.
                if let Some(ours) = ours.get(&pointer) {
                    same(ours, theirs);
                }
            }
        }
    }
}
