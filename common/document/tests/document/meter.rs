//! Interrupted reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opgate_document::{Account, Charge, Deadline, Document, Meter, Value, equal, table};

const ITEM_COUNT: usize = 200_000;

/// Expires after this number of checks.
struct ExpiresAfter(AtomicU64);

impl Deadline for ExpiresAfter {
    fn is_expired(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_err()
    }
}

fn meter(looks: u64) -> Meter {
    Meter::new(Arc::new(ExpiresAfter(AtomicU64::new(looks))))
}

fn list(item: &str) -> String {
    format!("[{}{item}]", format!("{item},").repeat(ITEM_COUNT - 1))
}

fn named(name: impl Fn(usize) -> String) -> String {
    let members: Vec<_> = (0..ITEM_COUNT).map(|n| format!("\"{}\":1", name(n))).collect();
    format!("{{{}}}", members.join(","))
}

fn count(value: Value<'_>) -> usize {
    let members: usize = value.members().map(|(_, value)| 1 + count(value)).sum();
    let items: usize = value.items().map(|value| 1 + count(value)).sum();
    members + items + value.text().map_or(0, str::len)
}

/// A look that costs much, at a text made for it.
type CostlyLookup = fn(Value<'_>);

fn costly_lookups() -> Vec<(&'static str, String, CostlyLookup)> {
    let first: CostlyLookup = |value| {
        let _ = value.get("/0");
    };
    let member: CostlyLookup = |value| {
        let _ = value.get("/a");
    };
    let text: CostlyLookup = |value| {
        let _ = value.text();
    };
    let all: CostlyLookup = |value| {
        count(value);
    };
    let to_itself: CostlyLookup = |value| {
        let _ = equal(value.get("/0"), value.get("/1"));
    };
    let columns: CostlyLookup = |value| {
        let pointer = "/".repeat(1_000);
        let _ = table(value, &vec![pointer; 64], |_| Ok::<_, ()>(()));
    };
    let pair = |one: &str, other: &str| format!("[{},{}]", list(one), list(other));
    let empty_names = format!("{}1{}", "{\"\":".repeat(500), "}".repeat(500));
    vec![
        ("a list is split", list("1"), first),
        ("a list of lists is split", list("[]"), first),
        ("a list of texts is split", list("\"some text that is longer\""), first),
        ("a list of long numbers is split", format!("[{}]", "1".repeat(ITEM_COUNT)), first),
        ("an object is split", named(|n| format!("{n:07}")), member),
        ("names are sorted", named(|n| format!("{:07}", (n * 7_919) % ITEM_COUNT)), member),
        ("names with escapes", named(|n| format!("\\n{n}")), member),
        ("escapes are read", format!("\"{}\"", "\\n".repeat(ITEM_COUNT)), text),
        ("all is looked at", list("[[{\"a\":[1]}]]"), all),
        ("values are compared", pair("{\"a\":[1]}", "{\"a\":[1.0]}"), to_itself),
        ("a table of nothing", list("1"), columns),
        ("a table of empty names", format!("[{}1]", format!("{empty_names},").repeat(20)), columns),
    ]
}

/// Checks that no loop continues after the watch has expired.
#[test]
fn lookups_stop_when_the_meter_is_exceeded() {
    for (what, json, work) in costly_lookups() {
        let account = Account::new(usize::MAX);
        let document = Document::parse_charged(json.clone(), Charge::on(&account)).unwrap();
        let before = account.used();
        let stopped = meter(0);
        work(document.root_metered(&stopped));
        assert!(stopped.is_stopped(), "{what}: {}", stopped.spent());
        // Between two checks of the watch, and for the largest step of all.
        assert!(stopped.spent() < 64 << 10, "{what}: {}", stopped.spent());
        if what != "all is looked at" && !what.starts_with("a table") && !what.starts_with("values")
        {
            assert_eq!(account.used(), before, "{what}: nothing of it is kept");
        }
        // Later checks of the watch are equally close.
        for looks in [1, 7, 40] {
            let (document, later) = (Document::parse(&json).unwrap(), meter(looks));
            work(document.root_metered(&later));
            let most = (looks + 1) * (64 << 10);
            assert!(later.spent() < most, "{what}: {} of {most}", later.spent());
        }
        // The next one is not misled by what was left undone.
        let patient = meter(u64::MAX);
        work(document.root_metered(&patient));
        assert!(!patient.is_stopped(), "{what}");
        assert!(patient.spent() > 100_000, "{what}: {}", patient.spent());
        drop(document);
        assert_eq!(account.used(), 0, "{what}");
    }
}

/// Checks that for every construction of a text, reads cost a constant number of units per byte of it, and a
/// table costs units per token of a cell.
#[test]
fn work_grows_with_the_text() {
    let backwards =
        (0..ITEM_COUNT).rev().map(|n| format!("\"{n:x}\":1")).collect::<Vec<_>>().join(",");
    let more: Vec<(&str, String, CostlyLookup)> = vec![
        ("short names, backwards", format!("{{{backwards}}}"), |value| _ = count(value)),
        ("one name", format!("{{{}\"\":1}}", "\"\":1,".repeat(ITEM_COUNT)), |value| {
            _ = count(value);
        }),
    ];
    for (what, json, work) in costly_lookups().into_iter().chain(more) {
        let document = Document::parse(&json).unwrap();
        let patient = meter(u64::MAX);
        work(document.root_metered(&patient));
        // Each value is split once, and read once.
        let bytes = 32 * u64::try_from(json.len()).unwrap();
        let cells =
            if what == "a table of nothing" { 64 * u64::try_from(ITEM_COUNT).unwrap() } else { 0 };
        let most = bytes + 16 * cells;
        assert!(patient.spent() <= most, "{what}: {} units of {most}", patient.spent());
    }
}

#[test]
fn parsing_stops_when_the_meter_is_exceeded() {
    let broken = |json: String| json.strip_suffix(']').unwrap().to_owned();
    for json in [list("[]"), list("\"a\""), "1 ".repeat(ITEM_COUNT), broken(list("[]"))] {
        let account = Account::new(usize::MAX);
        let stopped = meter(0);
        Document::parse_metered(json.clone(), Charge::on(&account), &stopped).unwrap_err();
        assert!(stopped.is_stopped() && stopped.spent() < 64 << 10, "{}", stopped.spent());
        assert_eq!(account.used(), 0);
        let patient = meter(u64::MAX);
        let read = Document::parse_metered(json, Charge::on(&account), &patient);
        assert!(!patient.is_stopped());
        if let Err(error) = read {
            assert!(error.to_string().starts_with("not one JSON value in "), "{error}");
        }
    }
}

/// Checks that a running meter does not change results.
#[test]
fn metered_lookup_sorts_like_an_unmetered_one() {
    let json = named(|n| format!("{}", (n * 7_919) % 50_000));
    let (stepwise, at_once) = (Document::parse(&json).unwrap(), Document::parse(&json).unwrap());
    let patient = meter(u64::MAX);
    let names = |value: Value<'_>| -> Vec<(String, usize)> {
        value.members().map(|(name, value)| (name.to_owned(), value.range().start)).collect()
    };
    let (one, other) = (names(stepwise.root_metered(&patient)), names(at_once.root()));
    assert_eq!(one.len(), 50_000);
    assert_eq!(one, other);
    assert!(one.is_sorted());
    // The last of several is the one that counts.
    let last: std::collections::BTreeMap<_, _> =
        (0..ITEM_COUNT).map(|n| (format!("{}", (n * 7_919) % 50_000), n)).collect();
    let mut by_place = one;
    by_place.sort_by_key(|(_, place)| *place);
    let mut expected: Vec<_> = last.into_iter().collect();
    expected.sort_by_key(|(_, n)| *n);
    let by_place: Vec<_> = by_place.into_iter().map(|(name, _)| name).collect();
    let expected: Vec<_> = expected.into_iter().map(|(name, _)| name).collect();
    assert_eq!(by_place, expected);
}

/// A first look costs what it reads, however the text is made: names in any order, that are the same, that
/// begin alike, that have to be read without escapes.
#[test]
fn first_lookup_costs_at_most_a_linear_scan() {
    let begins_alike = |n: usize| format!("{}{:06}", "x".repeat(40), (n * 7_919) % ITEM_COUNT);
    let in_groups = |n: usize| format!("{}{:03}", format!("{:03}", n % 450).repeat(9), n / 450);
    for (what, json) in [
        ("numbers", list("1")),
        ("lists", list("[]")),
        ("objects", list("{\"\":1}")),
        ("names in their order", named(|n| format!("{n:06}"))),
        ("names in another order", named(|n| format!("{:06}", (n * 7_919) % ITEM_COUNT))),
        ("names backwards", named(|n| format!("{:06}", ITEM_COUNT - n))),
        ("names that begin alike", named(begins_alike)),
        ("names that begin alike in groups", named(in_groups)),
        ("equal names", named(|_| String::new())),
        ("equal long names", named(|_| "x".repeat(40))),
        ("names with escapes", named(|_| "\\n".to_owned())),
        ("names that get longer", named(|n| "x".repeat(n % 200))),
    ] {
        let document = Document::parse(&json).unwrap();
        let meter = meter(u64::MAX);
        assert!(document.root_metered(&meter).length().unwrap() > 0);
        let most = 9 * u64::try_from(json.len()).unwrap();
        assert!(meter.spent() < most, "{what}: {} of {most}", meter.spent());
    }
}

/// Names that differ in ways in which numbers made of their bytes do not.
#[test]
fn names_of_all_lengths_are_sorted() {
    let pieces =
        ["", "\\u0000", "a", "b", "ab", "abcdefgh", "abcdefg\\u0000", "\u{e9}", "\\n", "~"];
    let mut state = 7_usize;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for count in [17, 255, 257, 3_000, 40_000] {
        let mut name = || {
            let begin = ["", "the same beginning of very many "][random(2)];
            let rest: Vec<_> = (0..random(7)).map(|_| pieces[random(pieces.len())]).collect();
            format!("{begin}{}", rest.concat())
        };
        let members: Vec<_> = (0..count).map(|n| format!("\"{}\":{n}", name())).collect();
        let json = format!("{{{}}}", members.join(","));
        let expected: std::collections::BTreeMap<String, i64> =
            serde_json::from_str(&json).unwrap();
        let document = Document::parse(&json).unwrap();
        let found: Vec<_> = document
            .root()
            .members()
            .map(|(name, value)| (name.to_owned(), value.integer().unwrap()))
            .collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{count}");
    }
}

/// A comparison of names is work that grows with the names, not with how many there are.
#[test]
fn comparing_long_names_is_charged() {
    const LENGTH: usize = 4_000;
    let name = |end: usize| format!("{}{end:04}", "n".repeat(LENGTH));
    let object = |count: usize| {
        let members: Vec<_> = (0..count).map(|n| format!("\"{}\":1", name(n))).collect();
        format!("{{{}}}", members.join(","))
    };
    let pointers: Vec<_> = (0..64).map(|n| format!("/{}", name(9_000 + n))).collect();
    for (members, compared) in [(16, 16), (1_000, 9)] {
        let json = format!("[{}]", vec![object(members); 8].join(","));
        let document = Document::parse(&json).unwrap();
        let look = || {
            let patient = meter(u64::MAX);
            table(document.root_metered(&patient), &pointers, |_| Ok::<_, ()>(())).unwrap();
            patient.spent()
        };
        look();
        let bytes = 8 * 64 * compared * LENGTH;
        let again = usize::try_from(look()).unwrap();
        assert!(again >= bytes / 1_024, "{members}: {again} units for {bytes} bytes");
    }
}

/// So are values that stand in one piece.
#[test]
fn comparing_long_values_is_charged() {
    const LENGTH: usize = 1 << 20;
    let (text, number) = ("x".repeat(LENGTH), "1".repeat(LENGTH));
    for (what, one, other, each) in [
        ("the same", format!("\"{text}\""), format!("\"{text}\""), 128),
        ("texts", format!("\"{text}a\""), format!("\"{text}b\""), 128),
        ("numbers", format!("1.{number}"), format!("1.{number}0"), 1),
    ] {
        let (one, other) = (Document::parse(&one).unwrap(), Document::parse(&other).unwrap());
        let patient = meter(u64::MAX);
        let _ = equal(Some(one.root_metered(&patient)), Some(other.root()));
        let (spent, least) = (usize::try_from(patient.spent()).unwrap(), LENGTH / each);
        assert!(spent >= least, "{what}: {spent} units for {LENGTH} bytes");
    }
}
