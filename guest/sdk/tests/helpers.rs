//! The helpers for selectors, shapes and pods hold the cases in `guest/cases/helpers.json`, as those of
//! the other SDKs do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::fs;
use std::path::Path;

use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::{Document, Kind, Selector, SelectorError, Shape};

/// The cases of one list. There are some in each.
fn cases(list: &str) -> Vec<Document> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases/helpers.json");
    let table = Document::parse(&fs::read_to_string(path).unwrap()).unwrap();
    let cases: Vec<_> = table.items(list).collect();
    assert!(cases.len() > 5, "{list}");
    cases
}

/// The outcome of a case, in the words of the table.
fn outcome(case: &Document, selector: Result<Option<Selector>, SelectorError>) -> String {
    match selector {
        Err(error) => error.to_string(),
        Ok(None) => "none".to_owned(),
        Ok(Some(selector)) => case.matches("/labels", &selector).to_string(),
    }
}

fn expected(case: &Document) -> String {
    let matches = case.boolean("/matches").map(|matches| matches.to_string());
    let none = case.boolean("/none").map(|_| "none".to_owned());
    matches.or(none).or_else(|| case.text("/error")).unwrap()
}

#[test]
fn selectors_select_and_fail_as_in_kubernetes() {
    for case in cases("/selectors") {
        let found = outcome(&case, case.selector("/selector"));
        assert_eq!(found, expected(&case), "{}", case.text_or_empty("/case"));
    }
    for case in cases("/mapSelectors") {
        let found = outcome(&case, case.map_selector("/selector"));
        assert_eq!(found, expected(&case), "{}", case.text_or_empty("/case"));
    }
}

/// The shape of a case: `scalar`, or an object with one member.
fn shape(document: &Document) -> Shape {
    let Some(name) = document.keys("").into_iter().next() else { return Shape::Scalar };
    let inner = document.at(&format!("/{name}")).unwrap();
    // Shapes are constants of policies.
    let fields = || -> &'static [(&'static str, Shape)] {
        let names = inner.keys("").into_iter();
        let fields = names.map(|name| {
            let field = shape(&inner.at(&format!("/{name}")).unwrap());
            (&*name.leak(), field)
        });
        fields.collect::<Vec<_>>().leak()
    };
    match name.as_str() {
        "struct" => Shape::Struct(fields()),
        "pointer" => Shape::Pointer(fields()),
        "list" => Shape::List(Box::leak(Box::new(shape(&inner)))),
        other => panic!("{other}"),
    }
}

#[test]
fn shapes_compare_as_go_compares_decoded_values() {
    for case in cases("/shapes") {
        let shape = shape(&case.at("/shape").unwrap());
        // Both values are at one pointer.
        let side = |name: &str| {
            let value = case.raw(name).map(|raw| String::from_utf8(raw).unwrap());
            let member = value.map(|value| format!(r#""value":{value}"#)).unwrap_or_default();
            Document::parse(&format!("{{{member}}}")).unwrap()
        };
        let (left, right) = (side("/left"), side("/right"));
        let name = case.text_or_empty("/case");
        let equal = case.boolean("/equal").unwrap();
        assert_eq!(shape.equal(&left, &right, "/value"), equal, "{name}");
        assert_eq!(shape.equal(&right, &left, "/value"), equal, "{name}, in the other order");
    }
}

#[test]
fn pods_and_their_templates_have_their_containers() {
    for case in cases("/pods") {
        let (name, kind) = (case.text_or_empty("/case"), case.text_or_empty("/kind"));
        let object = case.at("/object").unwrap();
        let found: Vec<PodSpec> = match kind.as_str() {
            "ClusterServiceVersion" => pods::in_csv(&object),
            kind => pods::in_object(&object, kind).into_iter().collect(),
        };
        let specs: Vec<_> = case.items("/specs").collect();
        assert_eq!(found.len(), specs.len(), "{name}");
        for (spec, expected) in found.iter().zip(specs) {
            let texts = ["/name", "/pointer", "/field"].map(|it| expected.text_or_empty(it));
            assert_eq!([spec.name.clone(), spec.pointer(), spec.field()], texts, "{name}");
            let mut containers = expected.items("/containers");
            spec.each(&object, &["/image"], |container| {
                let expected = containers.next().unwrap();
                assert_eq!(Some(container.list), expected.text("/list").as_deref(), "{name}");
                assert_eq!(Some(i64::from(container.index)), expected.integer("/index"), "{name}");
                assert_eq!(Some(container.pointer()), expected.text("/pointer"), "{name}");
                assert_eq!(Some(container.field()), expected.text("/field"), "{name}");
                assert_eq!(container.row.text(0), expected.text("/image").as_deref(), "{name}");
                let is_null = expected.kind("/image") == Kind::Null;
                assert_eq!(container.row.text(0).is_none(), is_null, "{name}");
            });
            assert!(containers.next().is_none(), "{name}: a container is missing");
        }
    }
}
