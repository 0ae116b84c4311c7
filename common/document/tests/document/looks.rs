//! Results of reads.

use std::sync::Arc;

use opgate_document::{Document, Kind, MAX_DEPTH, Text, Value, equal, table};
use proptest::prelude::*;

fn document(json: &str) -> Document {
    Document::parse(json).unwrap_or_else(|e| panic!("{json}: {e}"))
}

#[test]
fn pointers_lead_to_values() {
    let doc = document(r#" {"a/b": {"~": [10, {"x": "y"}]}, "": 1, "n": null, "0": "zero"} "#);
    let cases = [
        ("/a~1b/~0/0", Some("10")),
        ("/a~1b/~0/1/x", Some("\"y\"")),
        ("/", Some("1")),
        ("/n", Some("null")),
        ("/0", Some("\"zero\"")),
        ("/a~1b/~0/01", None),
        ("/a~1b/~0/+1", None),
        ("/a~1b/~0/-", None),
        ("/a~1b/~0/2", None),
        ("/a~1b/~0/4294967296", None),
        ("/n/x", None),
        ("a", None),
        ("/A", None),
    ];
    for (pointer, raw) in cases {
        assert_eq!(doc.get(pointer).map(|v| v.raw()).as_deref(), raw, "{pointer}");
        let mut path = vec![];
        let found = doc.root().resolve(pointer, &mut path).map(|v| v.raw());
        assert_eq!(found.as_deref(), raw, "{pointer}");
        let followed = raw.and_then(|_| doc.follow(&path)).map(|v| v.raw());
        assert_eq!(followed.as_deref(), raw, "{pointer}");
    }
    assert_eq!(doc.get("").map(|v| v.kind()), Some(Kind::Object));
}

#[test]
fn values_read_as_their_kind_only() {
    let doc = document(
        r#"{"t":"aA\n","s":"\ud800x","i":-7,"w":1e3,"f":1.5,"big":9223372036854775808,"b":true,"l":[1,2],"o":{"z":1,"a":2}}"#,
    );
    let at = |pointer: &str| doc.get(pointer).unwrap();
    assert_eq!(at("/t").text(), Some("aA\n"));
    assert_eq!(at("/s").text().map(|t| t.contains('\u{fffd}')), Some(true));
    assert_eq!(at("/i").integer(), Some(-7));
    assert_eq!(at("/w").integer(), Some(1000));
    assert_eq!(at("/f").integer(), None);
    assert_eq!(at("/f").number(), Some(1.5));
    assert_eq!(at("/big").integer(), None);
    assert_eq!(at("/b").boolean(), Some(true));
    assert_eq!(at("/b").text(), None);
    assert_eq!(at("/l").length(), Some(2));
    assert_eq!(at("/o").members().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "z"]);
    assert_eq!(at("/t").length(), None);
}

#[test]
fn last_duplicate_member_wins() {
    let doc = document(r#"{"b":1,"a":1,"a":2,"b":{"x":3},"a":4}"#);
    assert_eq!(doc.get("/a").and_then(|v| v.integer()), Some(4));
    assert_eq!(doc.get("/b/x").and_then(|v| v.integer()), Some(3));
    assert_eq!(doc.root().length(), Some(2));
}

#[test]
fn invalid_json_is_rejected_with_position() {
    for (json, says) in [
        ("", "line 1 column 0"),
        ("{\"a\":}", "line 1 column 6"),
        ("{}\n{}", "line 2 column 1"),
        ("nul", "line 1 column 3"),
    ] {
        let error = Document::parse(json).unwrap_err().to_string();
        assert!(error.contains(says), "{json}: {error}");
    }
    let deep = "[".repeat(600) + &"]".repeat(600);
    let error = Document::parse(&deep).unwrap_err().to_string();
    assert_eq!(error, "nests deeper than 512 levels");
}

#[test]
fn equality_holds_for_every_go_type() {
    let cases = [
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true),
        (r#"{"a":null}"#, "{}", true),
        (r#"{"a":[]}"#, "{}", true),
        (r#"{"a":[]}"#, r#"{"a":null}"#, true),
        (r#"{"a":{}}"#, "{}", false),
        (r#"{"a":""}"#, "{}", false),
        (r#"{"a":0}"#, "{}", false),
        (r#"{"a":false}"#, "{}", false),
        ("[1,2]", "[2,1]", false),
        ("[1,2]", "[1,2,3]", false),
        ("[1]", "[1.0]", true),
        ("100", "1e2", true),
        ("9007199254740993", "9007199254740992", false),
        (r#""a""#, r#""a""#, true),
        (r#""1""#, "1", false),
        (r#"{"x":{"y":[{"z":"q"}]}}"#, r#"{ "x" : { "y" : [ { "z" : "q" } ] } }"#, true),
    ];
    for (left, right, expected) in cases {
        let (l, r) = (document(left), document(right));
        assert_eq!(equal(Some(l.root()), Some(r.root())), expected, "{left} {right}");
        assert_eq!(equal(Some(r.root()), Some(l.root())), expected, "{right} {left}");
    }
    let null = document("null");
    assert!(equal(None, None) && equal(Some(null.root()), None));
}

/// 500 levels around a megabyte, compared and walked a hundred times: if a level read all that is
/// in it, this would take minutes.
#[test]
fn depth_does_not_multiply_the_cost() {
    let nested = |last: &str| {
        let inner = format!("\"{}{last}\"", "x".repeat(1 << 20));
        document(&("{\"a\":".repeat(500) + &inner + &"}".repeat(500)))
    };
    for _ in 0..100 {
        let (left, right) = (nested("1"), nested("2"));
        assert!(!equal(Some(left.root()), Some(right.root())));
        assert_eq!(left.get(&"/a".repeat(500)).and_then(|v| v.length()), None);
    }
}

#[test]
fn table_cells_equal_single_lookups() {
    let list = r#"[{"a": {"b": 1, "c": "x"}, "d~/": null}, {"a": []}, 5, {"a": {"c": {"b": 2}}}]"#;
    let columns = ["", "/a", "/a/b", "/a/c", "/a/c/b", "/a/b", "a", "/d~0~1", "/a/0", "/a/c/b"];
    let doc = document(list);
    let mut found = Vec::new();
    let all = table(doc.root(), &columns, |cell| {
        found.push(cell.map(|value| value.raw().into_owned()));
        Ok::<_, ()>(())
    });
    assert_eq!(all, Ok(()));
    let one = |item: &Value<'_>, column: &str| item.get(column).map(|v| v.raw().into_owned());
    let expected: Vec<_> =
        doc.root().items().flat_map(|item| columns.map(|c| one(&item, c))).collect();
    assert_eq!(found, expected);
    let mut count = 0;
    let stopped = table(doc.root(), &columns, |_| {
        count += 1;
        if count == 3 { Err(count) } else { Ok(()) }
    });
    assert_eq!(stopped, Err(3));
}

/// Checks that parts of other texts read as if they were written at their offsets.
#[test]
fn inserted_documents_read_like_parts_of_the_text() {
    let text = r#"{"a": [null, 1, null], "b": null, "c": "x"}"#;
    let at = |nth: usize| text.match_indices("null").nth(nth).unwrap().0;
    let part = |json: &str| Arc::new(document(json));
    let parts = vec![(at(0), part(r#"{"n": [7]}"#)), (at(1), part("\"y\"")), (at(2), part(" {} "))];
    let text = Arc::new(Text::assemble(text.to_owned(), parts).unwrap());
    let doc = Document::part(text.clone(), 0..text.len());
    let whole = r#"{"a": [{"n": [7]}, 1, "y"], "b": {}, "c": "x"}"#;
    assert_eq!(doc.root().raw(), whole);
    for (pointer, raw) in [
        ("/a", Some(r#"[{"n": [7]}, 1, "y"]"#)),
        ("/a/0/n/0", Some("7")),
        ("/a/1", Some("1")),
        ("/a/2", Some("\"y\"")),
        ("/b", Some("{}")),
        ("/b/x", None),
        ("/c", Some("\"x\"")),
    ] {
        assert_eq!(doc.get(pointer).map(|v| v.raw()).as_deref(), raw, "{pointer}");
        let mut path = vec![];
        let found = doc.root().resolve(pointer, &mut path).map(|v| v.raw());
        assert_eq!(found.as_deref(), raw, "{pointer}");
    }
    let items: Vec<_> = doc.get("/a").unwrap().items().map(|v| v.kind()).collect();
    assert_eq!(items, [Kind::Object, Kind::Number, Kind::Text]);
    assert!(equal(Some(doc.root()), Some(document(whole).root())));
    assert!(!equal(Some(doc.root()), Some(document(&text).root())));
}

/// Checks that values may follow each other where the parser knows their ends.
#[test]
fn values_follow_brackets_and_quotes_without_a_space() {
    for (text, expected) in [
        ("true{}", Some(&["true", "{}"][..])),
        ("1[2]3", Some(&["1", "[2]", "3"])),
        ("1[2] 3", Some(&["1", "[2]", "3"])),
        ("null\"a\"null", Some(&["null", "\"a\"", "null"])),
        ("true false", Some(&["true", "false"])),
        ("truefalse", None),
        ("1}", None),
    ] {
        let found = Text::parse_values(text.to_owned(), MAX_DEPTH).ok();
        let found = found.map(|(text, ranges)| {
            ranges.into_iter().map(|range| text[range].to_owned()).collect::<Vec<_>>()
        });
        assert_eq!(found, expected.map(|e| e.iter().map(|&v| v.to_owned()).collect()), "{text}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(serde_json::Value::from),
        ".{0,12}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::hash_map(".{0,6}", inner, 0..6)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A document shows exactly what serde_json reads, at every pointer.
    #[test]
    fn document_equals_a_full_parse(value in json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.unwrap();
        let doc = document(&text);
        let written = value;
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut todo = vec![(String::new(), &value)];
        while let Some((pointer, expected)) = todo.pop() {
            let found = doc.get(&pointer).expect("the pointer leads somewhere");
            let reread: serde_json::Value = serde_json::from_str(&found.raw()).unwrap();
            prop_assert_eq!(&reread, expected);
            prop_assert_eq!(found.text(), expected.as_str());
            prop_assert_eq!(found.boolean(), expected.as_bool());
            match expected {
                serde_json::Value::Array(items) => {
                    prop_assert_eq!(found.length(), Some(items.len()));
                    todo.extend(items.iter().enumerate().map(|(i, v)| (format!("{pointer}/{i}"), v)));
                }
                serde_json::Value::Object(members) => {
                    prop_assert_eq!(found.length(), Some(members.len()));
                    todo.extend(members.iter().map(|(name, v)| {
                        (format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), v)
                    }));
                }
                _ => {}
            }
        }
        prop_assert!(equal(Some(doc.root()), Some(document(&written.to_string()).root())));
    }

    /// Checks that it accepts the same JSON as the parser.
    #[test]
    fn values_match_the_parser(
        text in "([\\[\\]{}\",: \n0-9eE.+\\-a-c\\\\\u{1}ä]|\\\\u00e4|\\\\n|true|null|\"abc\": ){0,30}",
    ) {
        let parser = serde_json::Deserializer::from_str(&text).into_iter::<&serde_json::value::RawValue>();
        let expected = parser.map(|value| value.map(|raw| raw.get().to_owned()));
        let expected = expected.collect::<Result<Vec<_>, _>>().ok();
        let found = Text::parse_values(text.clone(), MAX_DEPTH).ok();
        let found = found.map(|(text, ranges)| ranges.into_iter().map(|r| text[r].to_owned()).collect::<Vec<_>>());
        prop_assert_eq!(found, expected);
    }

    /// Checks that no text and no read causes a panic.
    #[test]
    fn any_text_is_parsed_or_rejected(text in "[\\[\\]{}\",:0-9a-z\\\\ ]{0,40}", pointer in "[/~01a-z]{0,8}") {
        if let Ok(doc) = Document::parse(&text) {
            let found = doc.get(&pointer);
            prop_assert!(equal(found, found));
        }
        if let Ok(indexed) = Text::new(text.clone()) {
            let _ = Document::part(indexed.into(), 0..text.len()).get(&pointer);
        }
    }
}
