//! Objects, projections, indexes, queries.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use opgate_cluster::access::Access;
use opgate_cluster::{
    Declaration, Index, IndexMatch, Key, Object, Query, Store, UnreadableReason, parse_selector,
};
use opgate_document::Document;
use proptest::prelude::*;

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn index(name: &str, field: &str, separator: &str) -> Index {
    Index { name: name.into(), field: field.into(), separator: separator.into() }
}

fn project(declaration: &Declaration, json: &str) -> Object {
    declaration.project(Document::parse(json).unwrap().root()).unwrap()
}

#[test]
fn only_declared_fields_are_kept() {
    let always = r#""metadata":{"labels":{"a":"b"},"name":"n","namespace":"ns","uid":"u"}"#;
    let metadata = r#""metadata":{"uid":"u","name":"n","namespace":"ns","labels":{"a":"b"},"annotations":{"x/y":"1","z":"2"},"managedFields":[{}]}"#;
    let cases: [(&[&str], &[&str], &str, &str); 7] = [
        (&[], &[], r#""spec":{"a":1}"#, ""),
        (&["/spec"], &[], r#""spec":{"b":[1, 2]},"status":{}"#, r#","spec":{"b":[1, 2]}"#),
        (
            &["/spec/list/*/name"],
            &[],
            r#""spec":{"list":[{"name":"a","text":"long"},{"text":"b"},7],"other":1}"#,
            r#","spec":{"list":[{"name":"a"},{},null]}"#,
        ),
        (
            &["/spec/map/*/kept"],
            &[],
            r#""spec":{"map":{"a":{"kept":1,"not":2},"b":{}}}"#,
            r#","spec":{"map":{"a":{"kept":1},"b":{}}}"#,
        ),
        (
            &[],
            &["/data", "/binaryData"],
            r#""data":{"b":"secret","a\"":"long"}"#,
            r#","data":{"a\"":true,"b":true}"#,
        ),
        (&["/spec/a", "/spec"], &[], r#""spec":{"a":1,"b":2}"#, r#","spec":{"a":1,"b":2}"#),
        (&["/spec/a"], &[], r#""spec":null"#, ""),
    ];
    for (fields, keys, rest, kept) in cases {
        let declaration = Declaration::new(&owned(fields), &owned(keys), &[]).unwrap();
        let object = project(&declaration, &format!("{{{metadata},{rest}}}"));
        let (before, after) = kept
            .strip_prefix(r#","data""#)
            .map_or((String::new(), kept), |_| (format!("{},", kept.trim_start_matches(',')), ""));
        let expected = format!("{{{before}{always}{after}}}");
        assert_eq!(object.document().root().raw(), expected, "{fields:?} {keys:?}");
    }
    let declaration = Declaration::new(&owned(&["/metadata/annotations/x~1y"]), &[], &[]).unwrap();
    let object = project(&declaration, &format!("{{{metadata}}}"));
    let document = object.document();
    assert_eq!(document.get("/metadata/annotations").unwrap().raw(), r#"{"x/y":"1"}"#);
}

#[test]
fn invalid_pointer_is_rejected() {
    for pointer in ["", "spec", &"/x".repeat(33)] {
        assert!(Declaration::new(&owned(&[pointer]), &[], &[]).is_err(), "{pointer}");
        let index = index("i", pointer, "");
        assert!(Declaration::new(&[], &[], &[index]).is_err(), "{pointer}");
    }
}

#[test]
fn object_without_name_is_unreadable() {
    let declaration = Declaration::new(&[], &[], &[]).unwrap();
    for json in ["{}", r#"{"metadata":{"name":1}}"#, "[]", "null"] {
        let found = declaration.project(Document::parse(json).unwrap().root());
        assert_eq!(found.err(), Some(UnreadableReason::NoName), "{json}");
    }
}

#[test]
fn indexes_match_texts_lists_and_separated_texts() {
    let indexes = [
        index("provided", "/metadata/annotations/olm.providedAPIs", ","),
        index("targets", "/status/namespaces/*", ""),
    ];
    let declaration = Declaration::new(&[], &[], &indexes).unwrap();
    let mut store = Store::new(declaration.index_count());
    for (name, apis, targets) in [
        ("a", " Goose . v1.birds.com,, Moose.v1.mammals.com ", r#"["x","y"]"#),
        ("b", "Goose.v1.birds.com", "[\"\"]"),
        ("c", "", "null"),
    ] {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns-{name}","annotations":{{"olm.providedAPIs":"{apis}"}}}},"status":{{"namespaces":{targets}}}}}"#
        );
        store.insert(project(&declaration, &json));
    }
    let find = |conditions: &[(usize, &[&str], bool)]| {
        let condition = |(index, values, absent): &(usize, &[&str], bool)| IndexMatch {
            index: *index,
            values: Arc::new(owned(values).into_iter().collect()),
            include_missing: *absent,
        };
        let matches = conditions.iter().map(condition).collect();
        let found = store.select(&Query { matches, ..Query::default() });
        found.iter().map(|object| object.key().name.to_string()).collect::<String>()
    };
    assert_eq!(find(&[(0, &["Goose.v1.birds.com"], false)]), "ab");
    assert_eq!(find(&[(0, &["Moose.v1.mammals.com", "Goose.v1.birds.com"], false)]), "ab");
    assert_eq!(find(&[(0, &[], true)]), "c");
    assert_eq!(find(&[(1, &[""], false)]), "b", "the empty text is a value");
    assert_eq!(find(&[(1, &["x"], true)]), "ac");
    assert_eq!(find(&[(0, &["Goose.v1.birds.com"], false), (1, &["y"], false)]), "a");
    assert_eq!(find(&[(7, &["x"], true)]), "", "an index that is not there finds nothing");
}

/// A small domain of values, so that keys, labels and values collide.
#[derive(Debug, Clone)]
struct SmallObject {
    namespace: u8,
    name: u8,
    label: Option<u8>,
    values: Vec<u8>,
}

fn small_object() -> impl Strategy<Value = SmallObject> {
    let values = proptest::collection::vec(0..3u8, 0..3);
    (0..3u8, 0..4u8, proptest::option::of(0..2u8), values)
        .prop_map(|(namespace, name, label, values)| SmallObject { namespace, name, label, values })
}

fn json(small: &SmallObject) -> String {
    let label = small.label.map_or(String::new(), |label| format!(r#""l":"{label}""#));
    let values: Vec<_> = small.values.iter().map(|v| format!("\"{v}\"")).collect();
    format!(
        r#"{{"metadata":{{"name":"{}","namespace":"{}","labels":{{{label}}}}},"v":[{}]}}"#,
        small.name,
        small.namespace,
        values.join(",")
    )
}

type Condition = Option<(HashSet<String>, bool)>;

proptest! {
    /// Whatever was inserted, replaced and removed before, a query gives what looking at every object
    /// gives, in order, page by page.
    #[test]
    fn query_equals_a_scan_of_all_objects(
        inserted in proptest::collection::vec((small_object(), any::<bool>()), 0..24),
        namespace in proptest::option::of(0..3u8),
        label in proptest::option::of(0..2u8),
        condition in proptest::option::of((proptest::collection::hash_set("[0-2]", 0..3), any::<bool>())),
        page in 1..5usize,
    ) {
        let condition: Condition = condition;
        let declaration = Declaration::new(&[], &[], &[index("v", "/v/*", "")]).unwrap();
        let mut store = Store::new(1);
        let mut world = std::collections::BTreeMap::new();
        for (object, stays) in &inserted {
            let key = (object.namespace, object.name);
            if *stays {
                store.insert(project(&declaration, &json(object)));
                world.insert(key, object.clone());
            } else {
                let key = Key::new(&object.namespace.to_string(), &object.name.to_string());
                store.remove(&key);
                world.remove(&(object.namespace, object.name));
            }
        }
        let expected: Vec<_> = world
            .values()
            .filter(|o| namespace.is_none_or(|ns| ns == o.namespace))
            .filter(|o| label.is_none_or(|label| o.label == Some(label)))
            .filter(|o| condition.as_ref().is_none_or(|(values, absent)| {
                (*absent && o.values.is_empty())
                    || o.values.iter().any(|v| values.contains(&v.to_string()))
            }))
            .map(|o| (o.namespace.to_string(), o.name.to_string()))
            .collect();
        let labels = label.map_or_else(String::new, |l| format!(r#"{{"matchLabels":{{"l":"{l}"}}}}"#));
        let labels = if labels.is_empty() { "{}".to_owned() } else { labels };
        let labels = parse_selector(Document::parse(&labels).unwrap().root()).unwrap();
        let matches = condition.map(|(values, absent)| IndexMatch { index: 0, values: Arc::new(values), include_missing: absent });
        let mut query = Query {
            namespace: namespace.map(|ns| ns.to_string()),
            label_selector: labels,
            matches: matches.into_iter().collect(),
            after: None,
            limit: page,
        };
        let mut found = Vec::new();
        loop {
            let objects = store.select(&query);
            prop_assert!(objects.len() <= page);
            let keys = objects.iter().map(|o| (o.key().namespace.to_string(), o.key().name.to_string()));
            found.extend(keys);
            match objects.last() {
                Some(last) if objects.len() == page => query.after = Some(last.key().clone()),
                _ => break,
            }
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(store.len(), world.len());
        let empty = world.is_empty();
        prop_assert_eq!(store.bytes() == 0, empty, "bytes are those of the objects that are there");
    }
}

#[test]
fn undeclared_fields_may_nest_without_limit() {
    let deep = |levels: usize| format!("{}1{}", "{\"a\":[".repeat(levels), "]}".repeat(levels));
    let declaration = Declaration::new(&owned(&["/spec/kept"]), &[], &[]).unwrap();
    let object = |managed: usize, kept: usize| {
        let (managed, kept) = (deep(managed), deep(kept));
        let json = format!(
            r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{managed}}}],"name":"n"}},"spec":{{"kept":{kept},"other":{managed}}}}}"#
        );
        declaration.project(Document::parse_deep(json).unwrap().root())
    };
    let found = object(100_000, 10).unwrap();
    let expected = format!(r#"{{"metadata":{{"name":"n"}},"spec":{{"kept":{}}}}}"#, deep(10));
    assert_eq!(found.document().root().raw(), expected);
    assert_eq!(object(1, 300).err(), Some(UnreadableReason::TooDeep));
}

/// One value of several texts of the same element.
#[test]
fn index_can_use_member_names() {
    let labels = index("label", "/metadata/labels/#", "");
    let words = index("word", "/metadata/labels/#", ".");
    let declaration = Declaration::new(&[], &[], &[labels, words]).unwrap();
    let mut store = Store::new(declaration.index_count());
    for (name, labels) in
        [("a", r#"{"x.com/etcd.ns":"","y":"z"}"#), ("b", "{}"), ("c", "[\"y\"]"), ("d", "null")]
    {
        let json = format!(r#"{{"metadata":{{"name":"{name}","labels":{labels}}}}}"#);
        store.insert(project(&declaration, &json));
    }
    for (index, value, expected) in [
        (0, "x.com/etcd.ns", "a"),
        (0, "y", "a"),
        (0, "z", ""),
        (0, "com/etcd", ""),
        (1, "com/etcd", "a"),
        (1, "y", "a"),
    ] {
        let values = Arc::new(HashSet::from([value.to_owned()]));
        let matches = vec![IndexMatch { index, values, include_missing: false }];
        let found = store.select(&Query { matches, ..Query::default() });
        let names: Vec<_> = found.iter().map(|object| &*object.key().name).collect();
        assert_eq!(names.join(" "), expected, "{index} {value}");
    }
}

#[test]
fn index_can_combine_several_texts() {
    let index = index("service", "/owned/*/{group}~1{version}", "");
    let declaration = Declaration::new(&[], &[], &[index]).unwrap();
    let mut store = Store::new(1);
    store.insert(project(
        &declaration,
        r#"{"metadata":{"name":"n"},"owned":[{"group":"a.b","version":"v1"},{"version":"v2"},{"group":"c"},7,{"group":1}]}"#,
    ));
    for (value, found) in [
        ("a.b/v1", true),
        ("/v2", true),
        ("c/", true),
        ("a.b/v2", false),
        ("a.b", false),
        ("/", true),
    ] {
        let values = Arc::new(HashSet::from([value.to_owned()]));
        let matches = vec![IndexMatch { index: 0, values, include_missing: false }];
        let query = Query { matches, ..Query::default() };
        assert_eq!(!store.select(&query).is_empty(), found, "{value}");
    }
}

#[test]
fn objects_differing_only_in_version_are_equal() {
    let declaration = Declaration::new(&owned(&["/spec"]), &[], &[]).unwrap();
    let object = |version: &str, uid: &str, spec: &str| {
        project(
            &declaration,
            &format!(
                r#"{{"metadata":{{"name":"n","uid":"{uid}","resourceVersion":"{version}"}},"spec":{spec}}}"#
            ),
        )
    };
    let first = object("1", "u", r#"{"a":[1,2],"b":{}}"#);
    for (other, alike) in [
        (object("2", "u", r#"{"a":[1,2],"b":{}}"#), true),
        (object("", "u", r#"{"b":{},"a":[1, 2]}"#), true),
        (object("1", "v", r#"{"a":[1,2],"b":{}}"#), false),
        (object("1", "u", r#"{"a":[2,1],"b":{}}"#), false),
        (object("1", "u", r#"{"a":[1,2]}"#), false),
    ] {
        assert_eq!(first.is_equivalent(&other), alike, "{other:?}");
        assert_eq!(other.is_equivalent(&first), alike, "{other:?}");
        assert!(alike || content_hash(&other) != content_hash(&first), "{other:?}");
    }
    let newer = object("2", "u", r#"{"a":[1,2],"b":{}}"#);
    assert_eq!(content_hash(&newer), content_hash(&first));
    // Only the version of the object itself does not count.
    let reference = |version: &str| {
        let spec = format!(r#"{{"resourceVersion":"{version}"}}"#);
        content_hash(&object("7", "u", &spec))
    };
    assert_ne!(reference("7"), reference("8"));
}

fn content_hash(object: &Object) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.hash_content(&mut hasher);
    hasher.finish()
}

/// A server that makes up its objects gives them no uid, and need not give them names of their own.
#[test]
fn objects_with_equal_names_and_no_uid_are_all_kept() {
    let index = index("spec", "/spec", "");
    let declaration = Declaration::new(&owned(&["/spec"]), &[], &[index]).unwrap();
    let object = |name: &str, uid: &str, spec: &str| {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{uid}"}},"spec":"{spec}"}}"#
        );
        project(&declaration, &json)
    };
    let mut store = Store::new(1);
    for (name, uid, spec) in [
        ("b", "", "1"),
        ("a", "", "1"),
        ("a", "", "2"),
        ("a", "", "2"),
        ("aa", "", "1"),
        ("a", "", "1"),
        ("stored", "u", "1"),
        ("stored", "u", "2"),
    ] {
        store.add(object(name, uid, spec));
    }
    let spec = |o: &Arc<Object>| o.document().get("/spec").unwrap().text().unwrap().to_owned();
    let said = |query: &Query| {
        let found = store.select(query);
        found.iter().map(|o| format!("{}={}", o.key().name, spec(o))).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said(&Query::default()), "a=1 a=2 a=2 aa=1 b=1 stored=2");
    let values = Arc::new(HashSet::from(["2".to_owned()]));
    let matches = vec![IndexMatch { index: 0, values, include_missing: false }];
    assert_eq!(said(&Query { matches, ..Query::default() }), "a=2 a=2 stored=2");
    let first = store.get(&Key::new("ns", "a")).map(spec);
    assert_eq!(first.as_deref(), Some("1"), "the first one of the list");
}

/// However many values and labels an object has, it adds a bounded number of them to what is indexed.
#[test]
fn objects_with_more_values_than_are_indexed_are_found() {
    let declaration = Declaration::new(&[], &[], &[index("v", "/v/*", "")]).unwrap();
    let object = |name: &str, values: usize, labels: usize| {
        let values: Vec<_> = (0..values).map(|n| format!("\"v{n}\"")).collect();
        let labels: Vec<_> = (0..labels).map(|n| format!("\"l{n}\":\"x\"")).collect();
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{{}}}}},"v":[{}]}}"#,
            labels.join(","),
            values.join(",")
        );
        project(&declaration, &json)
    };
    let mut store = Store::new(1);
    for (name, count) in [("few", 3), ("many", 20_000), ("more", 30_000), ("none", 0)] {
        store.insert(object(name, count, count));
    }
    let find = |store: &Store, value: &str, label: &str| {
        let values = Arc::new(HashSet::from([value.to_owned()]));
        let matches = vec![IndexMatch { index: 0, values, include_missing: false }];
        let by_value = store.select(&Query { matches, ..Query::default() });
        let json = format!(r#"{{"matchLabels":{{"{label}":"x"}}}}"#);
        let labels = parse_selector(Document::parse(&json).unwrap().root()).unwrap();
        let by_label = store.select(&Query { label_selector: labels, ..Query::default() });
        [by_value, by_label].map(|found| {
            found.iter().map(|object| object.key().name.to_string()).collect::<Vec<_>>().join(" ")
        })
    };
    for (number, expected) in [
        (0, "few many more"),
        (2, "few many more"),
        (3, "many more"),
        (19_999, "many more"),
        (20_000, "more"),
        (30_000, ""),
    ] {
        let found = find(&store, &format!("v{number}"), &format!("l{number}"));
        assert_eq!(found, [expected; 2], "{number}");
    }
    let before = store.bytes();
    let replaced = store.insert(object("many", 1, 1)).unwrap();
    assert_eq!(replaced.key().name.as_ref(), "many");
    assert!(store.bytes() < before);
    assert_eq!(find(&store, "v19999", "l19999"), ["more"; 2]);
    store.remove(&Key::new("", "more"));
    assert_eq!(find(&store, "v19999", "l19999"), [""; 2]);
    assert_eq!(find(&store, "v0", "l0"), ["few many"; 2]);
}

/// Checks that a sketch still excludes queries that it cannot affect.
#[test]
fn sketch_excludes_queries_for_other_values() {
    let declaration =
        Declaration::new(&[], &[], &[index("v", "/v/*", ""), index("w", "/w", "")]).unwrap();
    let values: Vec<_> = (0..5_000).map(|n| format!("\"v{n}\"")).collect();
    let json =
        format!(r#"{{"metadata":{{"name":"n","namespace":"ns"}},"v":[{}]}}"#, values.join(","));
    let object = project(&declaration, &json);
    let (key, sketch) = (object.key(), object.sketch());
    assert!(sketch.size() < 25_000 && object.size() > 2 * sketch.size());
    let may = |namespace: Option<&str>, index: usize, value: &str, absent: bool| {
        let values = Arc::new(HashSet::from([value.to_owned()]));
        let matches = vec![IndexMatch { index, values, include_missing: absent }];
        let namespace = namespace.map(str::to_owned);
        let query = Query { namespace, matches, ..Query::default() };
        assert!(query.may_match(key, None, None) || query.namespace.as_deref() == Some("other"));
        query.may_match(key, Some(&sketch), None)
    };
    assert!((0..5_000).all(|n| may(None, 0, &format!("v{n}"), false)));
    let wrong = (0..5_000).filter(|n| may(None, 0, &format!("x{n}"), true)).count();
    assert!(wrong < 3, "{wrong}");
    assert!(may(Some("ns"), 0, "v1", false) && !may(Some("other"), 0, "v1", false));
    assert!(may(None, 1, "x", true) && !may(None, 1, "x", false));
    assert!(may(None, 2, "x", false), "an index of which it says nothing");
    assert!(Query::default().may_match(key, Some(&sketch), None));
}

/// Whatever is declared: where a read is allowed, the answer from what is kept is that from the object.
#[test]
fn allowed_reads_answer_as_the_whole_object() {
    let object = r#"{"metadata":{"name":"n","labels":{"a":"b"}},"spec":{"list":[{"x":1,"y":"t"},{"x":2}],"map":{"*":{"x":"s"},"p":{"x":true,"y":1.5}},"text":"t"}}"#;
    let object = Document::parse(object).unwrap();
    let patterns = [
        "/spec",
        "/spec/list",
        "/spec/list/*",
        "/spec/list/*/x",
        "/spec/list/0/y",
        "/spec/map/*/x",
        "/spec/map/p",
        "/spec/map/p/y",
        "/spec/map/*",
        "/spec/*/p",
        "/spec/text",
        "/metadata/labels/other",
    ];
    let pointers = [
        "",
        "/metadata",
        "/metadata/labels/a",
        "/spec",
        "/spec/list",
        "/spec/list/0",
        "/spec/list/0/x",
        "/spec/list/1/y",
        "/spec/list/7",
        "/spec/map",
        "/spec/map/p",
        "/spec/map/p/x",
        "/spec/map/p/y",
        "/spec/map/*/x",
        "/spec/map/q/x",
        "/spec/text",
        "/spec/other",
    ];
    let mut allowed = 0;
    for one in patterns {
        for other in patterns {
            let declaration = Declaration::new(&owned(&[one, other]), &[], &[]).unwrap();
            let kept = declaration.project(object.root()).unwrap().document();
            for pointer in pointers {
                let (whole, part) = (object.root().get(pointer), kept.root().get(pointer));
                let is_allowed = |access| declaration.check(pointer, access).is_ok();
                let says = format!("{pointer} with {one} and {other}");
                // A scalar where something with members is declared is kept as `null`.
                let is_scalar = whole.is_some_and(|v| v.length().is_none());
                if is_allowed(Access::Kind) && (!is_scalar || is_allowed(Access::Scalar)) {
                    assert_eq!(whole.map(|v| v.kind()), part.map(|v| v.kind()), "{says}");
                }
                if is_allowed(Access::Scalar) {
                    assert!(is_allowed(Access::Boolean) && is_allowed(Access::Whole), "{says}");
                }
                if is_allowed(Access::Members) {
                    assert_eq!(whole.map(|v| v.length()), part.map(|v| v.length()), "{says}");
                }
                if is_allowed(Access::Whole) {
                    allowed += 1;
                    assert_eq!(whole.map(|v| v.raw()), part.map(|v| v.raw()), "{says}");
                } else if let Some(whole) = whole {
                    // It is refused for a reason.
                    let is_less = part.is_none_or(|part| part.raw() != whole.raw());
                    let hides = [one, other].iter().any(|p| p.contains('*') || pointer.is_empty());
                    assert!(is_less || hides || pointer == "/metadata", "{says}");
                }
            }
        }
    }
    assert!(allowed > 100, "{allowed}");
}

#[test]
fn read_errors_name_the_missing_declaration() {
    let declaration =
        Declaration::new(&owned(&["/spec/list/*/name", "/spec/a~1b"]), &owned(&["/data"]), &[]);
    let declaration = declaration.unwrap();
    let text = |pointer: &str, access| {
        let resource = opgate_cluster::Resource {
            group: String::new(),
            version: "v1".into(),
            resource: "configmaps".into(),
        };
        declaration.check(pointer, access).err().map(|error| error.message(&resource))
    };
    for (pointer, access, expected) in [
        (
            "/kind",
            Access::Scalar,
            Some(
                "the policy read '/kind' of v1/configmaps, which its read does not declare: add \"/kind\" to `fields`",
            ),
        ),
        (
            "/spec/list/12/x",
            Access::Kind,
            Some(
                "the policy read '/spec/list/12/x' of v1/configmaps, which its read does not declare: add \"/spec/list/*/x\" to `fields`",
            ),
        ),
        (
            "/spec/list",
            Access::Scalar,
            Some(
                "the policy read '/spec/list' of v1/configmaps, which its read does not declare: add \"/spec/list\" to `fields`",
            ),
        ),
        (
            "/spec/list",
            Access::Whole,
            Some(
                "the policy read all of '/spec/list' of v1/configmaps, of which its read declares only parts: add \"/spec/list\" to `fields`, or read the parts by their pointers",
            ),
        ),
        ("/spec/list", Access::Members, None),
        ("/spec/list/3/name", Access::Scalar, None),
        ("/spec/a~1b/c", Access::Whole, None),
        (
            "/spec/a/b",
            Access::Kind,
            Some(
                "the policy read '/spec/a/b' of v1/configmaps, which its read does not declare: add \"/spec/a/b\" to `fields`",
            ),
        ),
        ("/data", Access::Whole, None),
        ("/data", Access::Members, None),
        ("/data/x", Access::Kind, None),
        ("/data/x", Access::Boolean, None),
        (
            "/data/x",
            Access::Scalar,
            Some(
                "the policy read the value of '/data/x' of v1/configmaps, of which its read declares only the name: add \"/data/x\" to `fields`",
            ),
        ),
        (
            "/data/x/y",
            Access::Kind,
            Some(
                "the policy read '/data/x/y' of v1/configmaps, which its read does not declare: add \"/data/x/y\" to `fields`",
            ),
        ),
        ("/metadata/labels", Access::Whole, None),
        ("/metadata/deletionTimestamp", Access::Scalar, None),
        (
            "/metadata/annotations",
            Access::Kind,
            Some(
                "the policy read '/metadata/annotations' of v1/configmaps, which its read does not declare: add \"/metadata/annotations\" to `fields`",
            ),
        ),
        ("", Access::Kind, None),
    ] {
        assert_eq!(text(pointer, access).as_deref(), expected, "{pointer} {access:?}");
    }
    let long = text(&format!("/{}", "é".repeat(2_000)), Access::Kind).unwrap();
    assert!(long.len() < 1_000 && long.contains('…'), "{long}");
}
