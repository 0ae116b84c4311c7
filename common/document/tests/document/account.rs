//! Charges of reads to accounts.

use std::sync::Arc;

use opgate_document::{Account, Charge, Document, IndexError, Kind, Text, Value};

/// Bytes of a node, a member, and a pair of the index.
const NODE_BYTES: usize = 24;
const MEMBER_BYTES: usize = 40;
const INDEX_PAIR_BYTES: usize = 8;

const ITEM_COUNT: usize = 20_000;

/// Looks at everything there is.
fn visit_all(value: Value<'_>) -> usize {
    let members: usize = value.members().map(|(name, value)| name.len() + visit_all(value)).sum();
    let items: usize = value.items().map(visit_all).sum();
    members + items + value.text().map_or(1, str::len)
}

/// Texts that take many times their size, and what they take at least.
fn large_texts() -> Vec<(&'static str, String, usize)> {
    let list = |item: &str| format!("[{}{item}]", format!("{item},").repeat(ITEM_COUNT - 1));
    let named = |name: &dyn Fn(usize) -> String| {
        let members: Vec<_> = (0..ITEM_COUNT).map(|n| format!("{}:1", name(n))).collect();
        format!("{{{}}}", members.join(","))
    };
    vec![
        ("numbers", list("1"), ITEM_COUNT * NODE_BYTES),
        ("lists", list("[]"), ITEM_COUNT * (NODE_BYTES + INDEX_PAIR_BYTES + 16)),
        ("objects", list("{}"), ITEM_COUNT * (NODE_BYTES + INDEX_PAIR_BYTES + 16)),
        ("texts with escapes", list(r#""\n""#), ITEM_COUNT * (NODE_BYTES + 1 + 16)),
        ("a long text with escapes", format!("\"{}\"", r"\n".repeat(ITEM_COUNT)), ITEM_COUNT),
        ("members", named(&|n| format!("\"{n}\"")), ITEM_COUNT * MEMBER_BYTES),
        (
            "members, the last first",
            named(&|n| format!("\"{}\"", ITEM_COUNT - n)),
            ITEM_COUNT * MEMBER_BYTES,
        ),
        (
            "members with escapes",
            named(&|n| format!("\"\\n{n}\"")),
            ITEM_COUNT * (MEMBER_BYTES + 4),
        ),
        ("members of one name", named(&|_| "\"a\"".to_owned()), MEMBER_BYTES),
        ("nested", list("[[{\"a\":[1]}]]"), ITEM_COUNT * (5 * NODE_BYTES + 3 * INDEX_PAIR_BYTES)),
        ("long texts", list(&format!("\"{}\"", "x".repeat(600))), ITEM_COUNT * NODE_BYTES),
    ]
}

#[test]
fn lookup_indexes_are_charged_and_released() {
    for (what, json, least) in large_texts() {
        let account = Account::new(usize::MAX);
        let document = Document::parse_charged(json.clone(), Charge::on(&account)).unwrap();
        visit_all(document.root());
        let used = account.used();
        assert!(used >= least && used <= least * 5 + 4_096, "{what}: {used}, at least {least}");
        // The second look finds what the first one made.
        visit_all(document.root());
        assert_eq!(account.used(), used, "{what}");
        let text = Text::with_charge(json, Charge::on(&account)).unwrap();
        let text = Arc::new(text);
        let (one, other) = (
            Document::part(text.clone(), 0..text.len()),
            Document::part(text.clone(), 0..text.len()),
        );
        visit_all(one.root());
        visit_all(other.root());
        drop((one, other, document, text));
        assert_eq!(account.used(), 0, "{what}");
    }
}

#[test]
fn account_is_never_overdrawn_and_marks_refusals() {
    for (what, json, least) in large_texts() {
        for part in [3, 2, 1] {
            let limit = least / 4 * part;
            let account = Account::new(limit);
            let Ok(document) = Document::parse_charged(json.clone(), Charge::on(&account)) else {
                assert!(account.is_exhausted(), "{what}");
                assert_eq!(account.used(), 0, "{what}");
                continue;
            };
            visit_all(document.root());
            assert!(document.is_exhausted(), "{what}: {} of {limit}", account.used());
            assert!(account.used() <= limit, "{what}");
            drop(document);
            assert_eq!(account.used(), 0, "{what}");
        }
    }
    let account = Account::new(1_000);
    let full = Text::with_charge("[],".repeat(ITEM_COUNT), Charge::on(&account)).unwrap_err();
    assert_eq!(full, IndexError::BudgetExceeded);
    assert_eq!(account.used(), 0);
}

#[test]
fn values_over_the_budget_read_as_null() {
    let account = Account::new(10_000);
    let json = format!("{{\"small\":[1],\"large\":[{}1]}}", "1,".repeat(ITEM_COUNT));
    let document = Document::parse_charged(json, Charge::on(&account)).unwrap();
    assert_eq!(document.get("/small/0").and_then(|value| value.integer()), Some(1));
    assert!(!document.is_exhausted());
    let large = document.get("/large").unwrap();
    assert_eq!((large.kind(), large.length(), large.items().count()), (Kind::Null, None, 0));
    assert!(document.is_exhausted());
}

/// Bytes that a text takes itself are its maker's to charge, and go with it.
#[test]
fn charge_of_a_text_is_released_with_its_document() {
    let account = Account::new(1 << 20);
    let charge = Charge::on(&account);
    assert!(charge.grow(300));
    let document = Document::parse_charged("[1]".to_owned(), charge).unwrap();
    assert!(account.used() > 300);
    drop(document);
    assert_eq!(account.used(), 0);
    // A text without an account is not counted.
    let free = Document::of("[1]".to_owned()).unwrap();
    assert!(free.account().is_none() && !free.is_exhausted());
}
