//! What a policy author relies on: documents, deserialising, equality by Go type, conventions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]

use std::borrow::Cow;

use opgate_sdk::cluster::{Cluster, Query};
use opgate_sdk::{
    ClusterRead, Document, GroupVersionResource, Kind, Operation, Request, RequestParts, Review,
    SampleError, Shape, escape, sample,
};

fn document(json: &str) -> Document {
    Document::parse(json).unwrap()
}

#[test]
fn documents_answer_by_pointer_and_handles_are_relative() {
    let doc = document(r#"{"a":{"b/c":[{"t":"x"},{"t":2},null]},"n":1.5,"f":false}"#);
    let list = format!("/a/{}", escape("b/c"));
    assert_eq!((doc.kind(&list), doc.length(&list)), (Kind::List, Some(3)));
    assert_eq!(doc.kind("/nowhere"), Kind::Missing);
    assert!(!doc.has("/a/b~1c/2") && doc.has("/f"));
    let inner = doc.at(&list).unwrap();
    assert_eq!((inner.text("/0/t").as_deref(), inner.integer("/1/t")), (Some("x"), Some(2)));
    let kinds: Vec<_> = doc.items(&list).map(|item| item.kind("/t")).collect();
    assert_eq!(kinds, [Kind::Text, Kind::Number, Kind::Missing]);
    assert_eq!(doc.items("/n").count(), 0);
    assert_eq!(
        (doc.number("/n"), doc.integer("/n"), doc.boolean("/f")),
        (Some(1.5), None, Some(false))
    );
    assert_eq!(doc.keys(""), ["a", "f", "n"]);
    assert_eq!(doc.raw("/a/b~1c/0").unwrap(), br#"{"t":"x"}"#);
    assert_eq!(document(r#"["x", 1, "y"]"#).texts(""), ["x", "y"]);
    assert!(Document::parse("{").unwrap_err().contains("line 1"));
}

#[test]
fn objects_are_deserialised_borrowed() {
    #[derive(serde::Deserialize)]
    struct Image<'a> {
        #[serde(borrow, rename = "ref")]
        reference: Cow<'a, str>,
    }
    let doc = document(r#"{"image":{"ref":"a@sha256:00","other":[1]},"broken":{"ref":1}}"#);
    let raw = doc.json("/image").unwrap();
    let image: Image<'_> = raw.parse().unwrap();
    assert!(matches!(image.reference, Cow::Borrowed("a@sha256:00")));
    let broken = doc.json("/broken").unwrap();
    assert!(broken.parse::<Image<'_>>().is_err());
    assert!(doc.json("/nowhere").is_none());
}

/// Absent and zero are the same for values, not for pointers; lists are ordered; members that the
/// type does not have make no difference.
#[test]
fn shapes_compare_as_go_compares_decoded_values() {
    const SHAPE: Shape = Shape::Struct(&[
        ("text", Shape::Scalar),
        ("value", Shape::Struct(&[("flag", Shape::Scalar)])),
        ("pointer", Shape::Pointer(&[("number", Shape::Scalar)])),
        ("list", Shape::List(&Shape::Struct(&[("name", Shape::Scalar)]))),
    ]);
    let cases = [
        ("{}", r#"{"text":"","value":{},"list":[]}"#, true),
        ("{}", r#"{"value":{"flag":false},"pointer":null}"#, true),
        ("{}", r#"{"pointer":{}}"#, false),
        (r#"{"pointer":{}}"#, r#"{"pointer":{"number":0}}"#, true),
        ("{}", r#"{"unknown":1}"#, true),
        ("{}", r#"{"text":"x"}"#, false),
        (r#"{"list":[{"name":"a"},{}]}"#, r#"{"list":[{"name":"a"},{"name":""}]}"#, true),
        (
            r#"{"list":[{"name":"a"},{"name":"b"}]}"#,
            r#"{"list":[{"name":"b"},{"name":"a"}]}"#,
            false,
        ),
        (r#"{"list":[{}]}"#, "{}", false),
        (r#"{"value":{}}"#, r#"{"value":"text"}"#, false),
        (r#"{"text":"1"}"#, r#"{"text":1}"#, false),
    ];
    for (left, right, equal) in cases {
        let (l, r) = (document(left), document(right));
        assert_eq!(SHAPE.equal(&l, &r, ""), equal, "{left} {right}");
        assert_eq!(SHAPE.equal(&r, &l, ""), equal, "{right} {left}");
    }
}

#[test]
fn update_is_evaluated_by_its_changes() {
    let object = document(r#"{"a":1,"metadata":{"deletionTimestamp":null}}"#);
    let leaving = document(r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#);
    let (none, lax) = (document("{}"), document(r#"{"ratcheting":false}"#));
    let update =
        Request::from(RequestParts { operation: Operation::Update, ..RequestParts::default() });
    let create = Request::from(RequestParts::default());
    for (request, object, settings, ratchet_base) in [
        (&update, &object, &none, true),
        (&update, &object, &lax, false),
        // Whatever the setting, what is on its way out can go.
        (&update, &leaving, &lax, true),
        (&create, &leaving, &none, false),
    ] {
        let review = Review { request, object: Some(object), old: Some(object), settings };
        assert_eq!(review.ratchet_base().is_some(), ratchet_base);
        assert_eq!(review.touches(object, "/a", &Shape::Scalar), !ratchet_base);
        assert_eq!(review.touches_json(object, ""), !ratchet_base);
    }
}

#[test]
fn the_version_of_the_api_server_is_read_like_any_object() {
    static VERSION: ClusterRead = ClusterRead {
        group: "opgate.dev",
        version: "v1alpha1",
        resource: "serverversions",
        fields: &["/gitVersion"],
        ..ClusterRead::EMPTY
    };
    let read = |inserted: Option<&str>| {
        let mut cluster = Cluster::new(&[&VERSION], &document("{}"));
        if let Some(json) = inserted {
            cluster.insert("serverversions", &document(json));
        }
        let found = cluster.run(|| VERSION.get("", "kubernetes")).unwrap();
        found.and_then(|object| object.text("/gitVersion"))
    };
    let answer = r#"{"major":"1","minor":"25","gitVersion":"v1.25.4"}"#;
    let object = r#"{"metadata":{"name":"kubernetes"},"gitVersion":"v1.25.4"}"#;
    for json in [answer, object] {
        assert_eq!(read(Some(json)).as_deref(), Some("v1.25.4"), "{json}");
    }
    assert_eq!(read(None), None);
}

#[test]
fn a_sample_has_all_objects_of_the_resource_in_any_version() {
    let cluster = |objects: &[(&str, &str, &str)]| {
        let mut cluster = Cluster::new(&[], &document("{}"));
        for (plural, version, name) in objects {
            let object = format!(r#"{{"apiVersion":"{version}","metadata":{{"name":"{name}"}}}}"#);
            cluster.insert(plural, &document(&object));
        }
        cluster
    };
    let objects = [
        ("widgets", "example.com/v1", "a"),
        ("widgets", "example.com/v1beta1", "b"),
        ("widgets", "example.com/v1", "a"),
        ("widgets", "example.org/v1", "c"),
        ("gadgets", "example.com/v1", "d"),
        ("widgets", "v1", "e"),
    ];
    let widgets = |group: &str| GroupVersionResource {
        group: group.into(),
        version: "v1".into(),
        resource: "widgets".into(),
    };
    let ask = |group, limit| {
        let sample = sample(&widgets(group), limit)?;
        let names = sample.objects.iter().map(|object| object.text_or_empty("/metadata/name"));
        Ok::<_, SampleError>((names.collect::<Vec<_>>().join(" "), sample.complete))
    };
    for (group, limit, names, complete) in [
        ("example.com", 500, "a b", true),
        ("example.com", 2, "a b", true),
        ("example.com", 1, "a", false),
        ("example.com", 0, "a", false),
        ("example.net", 0, "", true),
        ("", 500, "e", true),
    ] {
        let found = cluster(&objects).run(|| ask(group, limit)).unwrap();
        assert_eq!(found, (names.to_owned(), complete), "{group} {limit}");
    }
    assert_eq!(ask("example.com", 1), Err(SampleError::NoCluster));
    let refused = SampleError::NotGranted("grant list".to_owned());
    let cluster = cluster(&objects).with_sample_error(refused.clone());
    assert_eq!(cluster.run(|| ask("example.com", 1)), Err(refused));
}

/// The error of a read, with the line of its place.
fn error_of<T>(read: impl FnOnce() -> T) -> (String, u32) {
    use std::sync::{Arc, Mutex};
    let line = Arc::new(Mutex::new((String::new(), 0)));
    let seen = line.clone();
    let test = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() != test {
            return;
        }
        let place = info.location().map(|at| (at.file().to_owned(), at.line()));
        *seen.lock().unwrap() = place.unwrap_or_default();
    }));
    let panic =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(read()))).unwrap_err();
    std::panic::set_hook(before);
    let (file, line) = line.lock().unwrap().clone();
    assert!(file.ends_with("tests/sdk.rs"), "{file}");
    (panic.downcast_ref::<String>().unwrap().clone(), line)
}

/// The place is the line of the policy, not one of the SDK.
#[test]
fn reads_of_nothing_panic_at_the_line_of_the_policy() {
    static GROUPS: ClusterRead = ClusterRead {
        group: "operators.coreos.com",
        version: "v1",
        resource: "operatorgroups",
        fields: &["/spec/targetNamespaces"],
        ..ClusterRead::EMPTY
    };
    let group = Document::parse(
        r#"{"metadata":{"name":"a","namespace":"b"},"spec":{"targetNamespaces":["c"],"selector":{}}}"#,
    )
    .unwrap();
    for (pointer, text) in [
        ("spec/replicas", "'spec/replicas' is not a JSON pointer: write '/spec/replicas'"),
        ("$", "'$' is not a JSON pointer: write '/$'"),
    ] {
        assert_eq!(error_of(|| group.integer(pointer)), (text.to_owned(), line!()));
        assert_eq!(error_of(|| group.text_or_empty(pointer)), (text.to_owned(), line!()));
        assert_eq!(error_of(|| group.rows("", &[pointer])), (text.to_owned(), line!()));
        assert_eq!(error_of(|| group.items(pointer)), (text.to_owned(), line!()));
    }
    let mut cluster = Cluster::new(&[&GROUPS], &Document::parse("{}").unwrap());
    cluster.insert("operatorgroups", &group);
    cluster.run(|| {
        let stored = GROUPS.get("b", "a").unwrap().unwrap();
        assert_eq!(stored.texts("/spec/targetNamespaces"), ["c"]);
        assert_eq!(stored.kind("/spec"), Kind::Object);
        let text = "the policy read '/spec/selector' of operators.coreos.com/v1/operatorgroups, which its read does not declare: add \"/spec/selector\" to `fields`".to_owned();
        assert_eq!(error_of(|| stored.has("/spec/selector")), (text.clone(), line!()));
        assert_eq!(error_of(|| stored.json("/spec/selector")), (text.clone(), line!()));
        let spec = stored.at("/spec").unwrap();
        assert_eq!(error_of(|| spec.texts("/selector")), (text.clone(), line!()));
        assert_eq!(error_of(|| spec.equal("/selector", &group, "")), (text.clone(), line!()));
        let mut listed = Vec::new();
        GROUPS.each(Query::default(), |group| { listed.push(group); true }).unwrap();
        assert_eq!(error_of(|| listed[0].keys("/spec/selector")), (text, line!()));
        let (text, _) = error_of(|| stored.raw("/spec"));
        assert!(text.starts_with("the policy read all of '/spec' of "), "{text}");
    });
}
