//! Upstream's tables, the documents' examples, and properties that hold for every input.

use opgate_constraint::Check;
use opgate_constraint::constraint::{Body, Options, check};
use opgate_constraint::properties::{self, ListFormat};
use proptest::prelude::*;

const LAST_ELEMENT_ERROR: &str = "Last element in range is '||'";

fn violations(raw: &[u8], options: &Options) -> Vec<(&'static str, String, String)> {
    check(raw, options)
        .violations
        .into_iter()
        .map(|f| (f.check.id(), f.pointer, f.message))
        .collect()
}

fn rules(json: &str) -> Vec<&'static str> {
    violations(json.as_bytes(), &Options::default()).into_iter().map(|f| f.0).collect()
}

const GVK: &str = r#"{"gvk":{"group":"a.b","version":"v1","kind":"K"}}"#;

#[test]
fn valid_constraints_are_accepted() {
    for json in [
        r#"{"failureMessage":"x","gvk":{"group":"example.com","version":"v1","kind":"Foo"}}"#,
        r#"{"package":{"packageName":"foo","versionRange":">=1.0.0"}}"#,
        r#"{"package":{"name":"blue","versionRange":"<1.0.0"}}"#,
        r#"{"package":{"name":"blue","version":"> 1.0.0 !1.2.1"}}"#,
        r#"{"failureMessage":"require to have \"certified\"","cel":{"rule":"properties.exists(p, p.type == \"certified\")"}}"#,
        r#"{"any":{"constraints":[{"all":{"constraints":[{"package":{"name":"blue","versionRange":">=1.0.0"}},{"gvk":{"group":"blues.example.com","version":"v1beta1","kind":"Blue"}}]}}]}}"#,
        r#"{"all":{"constraints":[{"not":{"constraints":[{"gvk":{"group":"greens.example.com","version":"v1alpha1","kind":"greens"}}]}}]}}"#,
        r#"{"gvk":null,"cel":{"rule":"true"},"failureMessage":null}"#,
    ] {
        assert_eq!(rules(json), Vec::<&str>::new(), "{json}");
    }
}

#[test]
fn invalid_constraints_report_upstream_errors() {
    let parse = |text: &str| format!("parse olm.constraint: {text}");
    let convert = |text: &str| format!("convert olm.constraint to resolver predicate: {text}");
    let one = |text: &str| {
        format!(
            "olm.constraint must set exactly one of gvk, package, cel, all, any, not; found {text}"
        )
    };
    for (json, rule, pointer, message) in [
        ("", "CON-02", "", parse("EOF")),
        ("{", "CON-02", "", parse("unexpected EOF")),
        (
            "[]",
            "CON-02",
            "",
            parse("json: cannot unmarshal array into Go value of type constraints.Constraint"),
        ),
        (
            r#""x""#,
            "CON-02",
            "",
            parse("json: cannot unmarshal string into Go value of type constraints.Constraint"),
        ),
        (
            "1",
            "CON-02",
            "",
            parse("json: cannot unmarshal number into Go value of type constraints.Constraint"),
        ),
        (
            "null",
            "CON-02",
            "",
            parse("json: cannot unmarshal null into Go value of type constraints.Constraint"),
        ),
        (
            "{} x",
            "CON-02",
            "",
            parse("invalid character 'x' after top-level value"),
        ),
        (
            r#"{"gvk":5}"#,
            "CON-02",
            "/gvk",
            parse("json: cannot unmarshal number into Go struct field Constraint.gvk of type constraints.GVKConstraint"),
        ),
        (
            r#"{"failureMessage":"something","arbitrary":{}}"#,
            "CON-03",
            "/arbitrary",
            parse(r#"json: unknown field "arbitrary""#),
        ),
        (
            r#"{"any":{"constraints":[{"gvk":{"group":"a.b","version":"v1","kind":"K","arbitrary":1}}]}}"#,
            "CON-03",
            "/any/constraints/0/gvk/arbitrary",
            parse(r#"json: unknown field "arbitrary""#),
        ),
        (r#"{"none":{"constraints":[]}}"#, "CON-03", "/none", parse(r#"json: unknown field "none""#)),
        (r#"{"GVK":{}}"#, "CON-03", "/GVK", parse(r#"json: unknown field "GVK""#)),
        (
            r#"{"cel":{"rule":"true"},"cel":{"rule":"true"}}"#,
            "CON-03",
            "/cel",
            parse(r#"json: duplicate field "cel""#),
        ),
        ("{}", "CON-04", "", convert("constraint is empty")),
        (r#"{"failureMessage":"nothing"}"#, "CON-04", "", convert("constraint is empty")),
        (r#"{"gvk":null}"#, "CON-04", "", convert("constraint is empty")),
        (
            r#"{"all":{"constraints":[null]}}"#,
            "CON-04",
            "/all/constraints/0",
            convert("constraint is empty"),
        ),
        (
            r#"{"gvk":{"group":"a.b","version":"v1","kind":"K"},"package":{"packageName":"foo","versionRange":">=1.0.0"}}"#,
            "CON-05",
            "",
            one("gvk, package"),
        ),
        (
            r#"{"failureMessage":5,"cel":{"rule":"true"}}"#,
            "CON-06",
            "/failureMessage",
            parse("json: cannot unmarshal number into Go struct field Constraint.failureMessage of type string"),
        ),
        (
            r#"{"gvk":{"group":"","version":"v1","kind":"K"}}"#,
            "CON-07",
            "/gvk/group",
            "olm.constraint gvk.group must be a non-empty string".to_owned(),
        ),
        (
            r#"{"package":{"versionRange":">=1.0.0"}}"#,
            "CON-08",
            "/package",
            "olm.constraint package.packageName must be a non-empty string".to_owned(),
        ),
        (
            r#"{"package":{"packageName":"a","versionRange":""}}"#,
            "CON-09",
            "/package/versionRange",
            convert(LAST_ELEMENT_ERROR),
        ),
        (r#"{"package":{"packageName":"a"}}"#, "CON-09", "/package", convert(LAST_ELEMENT_ERROR)),
        (
            r#"{"package":{"packageName":"a","versionRange":"^1.2.x"}}"#,
            "CON-10",
            "/package/versionRange",
            r#"range "^1.2.x" is accepted but does not mean what it says: "^1.2.x" means exactly 1.2.0"#.to_owned(),
        ),
        (
            r#"{"cel":{"rule":"doesnt_exist(properties)"}}"#,
            "CON-11",
            "/cel/rule",
            convert("ERROR: <input>:1:13: undeclared reference to 'doesnt_exist' (in container '')\n | doesnt_exist(properties)\n | ............^"),
        ),
        (
            r#"{"cel":{"rule":""}}"#,
            "CON-11",
            "/cel/rule",
            convert("ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"),
        ),
        (
            r#"{"cel":{"rule":"properties[0].value"}}"#,
            "CON-12",
            "/cel/rule",
            "cel expressions must have type Bool".to_owned(),
        ),
        (
            r#"{"all":{"constraints":[]}}"#,
            "CON-13",
            "/all/constraints",
            "olm.constraint all.constraints must contain one or more constraints".to_owned(),
        ),
        (
            r#"{"not":{"constraints":[{"gvk":{"group":"a.b","version":"v1","kind":"K"}}]}}"#,
            "CON-14",
            "/not",
            "the not compound constraint should only be used within all or any constraints".to_owned(),
        ),
    ] {
        let expected = [(rule, pointer.to_owned(), message)];
        assert_eq!(violations(json.as_bytes(), &Options::default()), expected, "{json}");
    }
    assert_eq!(rules(r#"{"gvk":{}}"#), ["CON-07"; 3]);
    assert_eq!(rules(r#"{"gvk":{"group":"Foo_Bar","version":"1","kind":"K"}}"#), ["CON-22"; 2]);
}

#[test]
fn upstream_options_accept_more_constraints() {
    let options = Options { upstream: true, max_bytes: 131_072, ..Options::default() };
    for json in [
        r#"{"GVK":{"Group":"a.b","version":"v1","kind":"K"}}"#,
        r#"{"gvk":{}}"#,
        r#"{"gvk":{},"package":{"versionRange":"nonsense"}}"#,
        r#"{"package":{"versionRange":">=1.0.0"}}"#,
        r#"{"all":{}}"#,
        r#"{"all":{"constraints":null}}"#,
        r#"{"gvk":{"group":"a.b"},"gvk":{"version":"v1"}}"#,
        r#"{"gvk":{}} garbage"#,
    ] {
        assert_eq!(violations(json.as_bytes(), &options), [], "{json}");
    }
    let null = violations(b"null", &options);
    assert_eq!(null[0].0, "CON-04", "{null:?}");
    let code = Options { documented_keys: false, ..Options::default() };
    let named = br#"{"package":{"name":"a","versionRange":">=1.0.0"}}"#;
    assert_eq!(
        violations(named, &code)[0].2,
        r#"parse olm.constraint: json: unknown field "name""#
    );
}

fn nested(levels: usize) -> String {
    let open = r#"{"all":{"constraints":["#.repeat(levels);
    format!("{open}{GVK}{}", "]}}".repeat(levels))
}

#[test]
fn depth_has_two_limits() {
    assert_eq!(rules(&nested(10)), Vec::<&str>::new());
    let eleven = violations(nested(11).as_bytes(), &Options::default());
    let message = "olm.constraint is nested 11 compound levels deep, more than 10";
    assert_eq!((eleven[0].0, eleven[0].2.as_str(), eleven.len()), ("CON-15", message, 1));
    // As deep as 64 KiB can be.
    let deepest = nested(2_500);
    assert!(deepest.len() > 65_000 && deepest.len() <= 65_536, "{}", deepest.len());
    assert_eq!(rules(&deepest), ["CON-15"]);
    let twice = Options { max_bytes: 131_072, ..Options::default() };
    let deep = violations(nested(3_340).as_bytes(), &twice);
    assert_eq!(
        (deep[0].0, deep[0].2.as_str()),
        ("CON-16", "parse olm.constraint: exceeded max depth")
    );
}

#[test]
fn size_limits_are_checked_first() {
    let message = "parse olm.constraint: olm.constraint value is greater than max constraint size 65536 bytes";
    let mut value = format!("{GVK}{}", " ".repeat(65_536 - GVK.len())).into_bytes();
    assert_eq!(violations(&value, &Options::default()), []);
    value.push(b' ');
    assert_eq!(violations(&value, &Options::default())[0].2, message);
    let huge = vec![b'['; 10 << 20];
    let start = std::time::Instant::now();
    assert_eq!(violations(&huge, &Options::default())[0].0, "CON-01");
    assert!(start.elapsed().as_millis() < 5, "{:?}", start.elapsed());
}

#[test]
fn hostile_breadth_is_read_once() {
    for part in [r#"{"package":{}}"#, "{}", "1", r#"{"x":1}"#, r#"{"not":{}}"#] {
        let count = 65_000 / (part.len() + 1);
        let json = format!(r#"{{"all":{{"constraints":[{}]}}}}"#, vec![part; count].join(","));
        let start = std::time::Instant::now();
        let report = check(json.as_bytes(), &Options::default());
        assert!(report.violations.len() <= 512, "{part}: {}", report.violations.len());
        // Every part is wrong, and counts.
        let first = report.violations[0].check;
        let shown = report.violations.iter().filter(|finding| finding.check == first).count();
        let more = report.omitted.iter().find(|(check, _)| *check == first).unwrap().1;
        assert_eq!(shown + more, count, "{part}");
        assert!(start.elapsed().as_secs() < 2, "{part}: {:?}", start.elapsed());
    }
}

/// Checks that few violations are written out if a path takes kilobytes, and that the rest is counted.
#[test]
fn violations_of_deep_constraints_use_little_memory() {
    let levels = 2_000;
    let opening = r#"{"not":{"x":1,"constraints":["#.repeat(levels);
    let json = format!("{opening}{{}}{}", "]}}".repeat(levels));
    let report = check(json.as_bytes(), &Options::default());
    let texts: usize = report.violations.iter().map(|f| f.pointer.len() + f.message.len()).sum();
    assert!(texts < 1 << 20, "{texts}");
    for check in [Check::Fields, Check::NestedNot] {
        let shown = report.violations.iter().filter(|finding| finding.check == check).count();
        let more = report.omitted.iter().find(|(left_out, _)| *left_out == check).unwrap().1;
        assert!(shown >= 20, "{check:?}: {shown}");
        assert_eq!(shown + more, levels, "{check:?}");
    }
}

#[test]
fn complex_constraint_is_split_into_nodes() {
    let json = r#"{"all":{"constraints":[
        {"package":{"packageName":"fuz","versionRange":">=1.0.0"}},
        {"gvk":{"group":"fals.example.com","version":"v1","kind":"Fal"}},
        {"all":{"constraints":[{"package":{"packageName":"foo","versionRange":">=1.0.0"}},
            {"package":{"packageName":"buf","versionRange":">=1.0.0"}},
            {"gvk":{"group":"foos.example.com","version":"v1","kind":"Foo"}}]}},
        {"any":{"constraints":[{"gvk":{"group":"foos.example.com","version":"v1beta1","kind":"Foo"}}]}},
        {"not":{"constraints":[{"gvk":{"group":"bazs.example.com","version":"v1alpha1","kind":"Baz"}}]}}]}}"#;
    let report = check(json.as_bytes(), &Options::default());
    assert_eq!(report.violations, []);
    let constraint = report.constraint.unwrap();
    let packages: Vec<_> = constraint.packages().map(|p| p.name.as_str()).collect();
    assert_eq!(packages, ["fuz", "foo", "buf"]);
    assert_eq!(constraint.gvks().count(), 4);
    assert!(matches!(&constraint.nodes[0].body, Body::All(children) if children.len() == 5));
}

#[test]
fn annotations_are_parsed_like_upstream() {
    let read = |json: &str, form| {
        let mut found = Vec::new();
        let result = properties::each(json.as_bytes(), form, |property| {
            let value = String::from_utf8_lossy(property.value).into_owned();
            found.push((property.index, property.kind.to_owned(), value));
        });
        result.map(|()| found).map_err(|error| error.to_string())
    };
    let wrong = |json: &str| read(json, ListFormat::Wrapped).unwrap_err();
    assert_eq!(wrong(""), "unexpected end of JSON input");
    assert_eq!(wrong("]"), "invalid character ']' looking for beginning of value");
    assert!(wrong("5").starts_with("json: cannot unmarshal number into Go value of type struct"));
    assert!(
        wrong(r#"{"properties":5}"#)
            .starts_with("json: cannot unmarshal number into Go struct field .properties")
    );
    assert!(wrong(r#"{"properties":[42]}"#).starts_with("json: cannot unmarshal number"));
    assert!(wrong(r#"{"properties":[{"type":1}]}"#).ends_with("of type string"));
    for none in ["{}", r#"{"properties":[]}"#, r#"{"properties":null}"#, "null", r#"{"x":[1]}"#] {
        assert_eq!(read(none, ListFormat::Wrapped), Ok(vec![]), "{none}");
    }
    let list = r#"[{"type":"a","value":4.8}, {"TYPE":"b","value": {"x": 1} ,"other":[]},{"type":"c"},{"type":"x","type":"d","value":null}]"#;
    let expected = [("a", "4.8"), ("b", r#"{"x": 1}"#), ("c", ""), ("d", "null")];
    let expected: Vec<_> = expected
        .iter()
        .enumerate()
        .map(|(index, (kind, value))| (index, (*kind).to_owned(), (*value).to_owned()))
        .collect();
    assert_eq!(read(list, ListFormat::Bare), Ok(expected.clone()));
    assert_eq!(read(&format!(r#"{{"Properties":{list}}}"#), ListFormat::Wrapped), Ok(expected));
}

proptest! {
    #[test]
    fn any_bytes_are_checked_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        for upstream in [false, true] {
            let _ = check(&bytes, &Options { upstream, ..Options::default() });
        }
    }

    #[test]
    fn any_json_is_checked_without_panic(json in r#"(\{|\}|\[|\]|:|,|"(all|any|not|gvk|package|cel|constraints|rule|name)"|null|1){0,40}"#) {
        for upstream in [false, true] {
            let _ = check(json.as_bytes(), &Options { upstream, advice: true, ..Options::default() });
        }
    }

    #[test]
    fn size_limit_counts_only_the_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let options = Options { max_bytes: 32, ..Options::default() };
        let large = violations(&bytes, &options).iter().any(|(rule, ..)| *rule == "CON-01");
        prop_assert_eq!(large, bytes.len() > 32);
    }
}
