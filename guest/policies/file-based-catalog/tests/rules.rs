//! What the policy answers, rule by rule: `cases/*.json` hold the blobs of a document and everything
//! that must be found: rule, path and text. A text that ends with `*` may go on.
//!
//! A case is a package `foo` unless it says otherwise; `packages` are those of the whole catalog,
//! by default that one. With a `baseline`, the blobs that were published, it is an UPDATE.
//! `cases/upstream.json` are upstream's own tables (operator-registry, `declcfg_to_model_test.go`,
//! `model_test.go` and `versionrelease_test.go`), without what JSON cannot say.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

use std::collections::{BTreeMap, BTreeSet};

use opgate_file_based_catalog::FileBasedCatalog;
use opgate_sdk::{DefaultLevel, Document, Level, Operation, Policy, Request, Verdict};
use serde_json::{Value, json};

const TABLES: [(&str, &str); 7] = [
    ("upstream", include_str!("cases/upstream.json")),
    ("blobs", include_str!("cases/blobs.json")),
    ("packages", include_str!("cases/packages.json")),
    ("bundles", include_str!("cases/bundles.json")),
    ("deprecations", include_str!("cases/deprecations.json")),
    ("baseline", include_str!("cases/baseline.json")),
    ("documents", include_str!("cases/documents.json")),
];

fn parsed(value: &Value) -> Document {
    Document::parse(&value.to_string()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn cases_of(table: &str) -> Vec<Value> {
    let (_, json) = TABLES.iter().find(|(name, _)| *name == table).expect("a known table");
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{table}: {e}"))
}

fn all_cases() -> impl Iterator<Item = Value> {
    TABLES.iter().flat_map(|(table, _)| cases_of(table))
}

/// A document as the host makes it of these blobs.
fn document(case: &Value, blobs: &Value) -> Value {
    let package = case["package"].as_str().unwrap_or("foo");
    let default = if package.is_empty() { json!([]) } else { json!([package]) };
    let blobs = blobs.as_array().expect("a list of blobs").iter().enumerate();
    let blobs: Vec<_> = blobs
        .map(|(index, value)| json!({"file": "index.yaml", "index": index, "value": value}))
        .collect();
    let mut spec = json!({
        "package": package,
        "packages": case.get("packages").unwrap_or(&default),
        "blobs": blobs,
    });
    for key in ["files", "directories"] {
        if let Some(value) = case.get(key) {
            spec[key] = value.clone();
        }
    }
    json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "FileBasedCatalog",
        "metadata": {"name": package},
        "spec": spec,
    })
}

fn ask(object: &Value, old: Option<&Value>, settings: &Value) -> Verdict {
    let mut request = Request::default();
    request.resource.group = "opgate.dev".into();
    request.resource.version = "v1alpha1".into();
    request.resource.resource = "filebasedcatalogs".into();
    request.kind.kind = "FileBasedCatalog".into();
    if old.is_some() {
        request.operation = Operation::Update;
    }
    let (object, old) = (parsed(object), old.map(parsed));
    FileBasedCatalog::validate(&request, Some(&object), old.as_ref(), &parsed(settings))
}

fn verdict(case: &Value) -> Verdict {
    let settings = case.get("settings").cloned().unwrap_or_else(|| json!({}));
    let old = case.get("baseline").map(|blobs| document(case, blobs));
    ask(&document(case, &case["blobs"]), old.as_ref(), &settings)
}

fn check(table: &str) {
    let cases = cases_of(table);
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for case in &cases {
        for key in case.as_object().expect("a case").keys() {
            let known = [
                "name",
                "package",
                "packages",
                "blobs",
                "baseline",
                "files",
                "directories",
                "settings",
                "expected",
            ];
            assert!(known.contains(&key.as_str()), "unknown key {key}");
        }
        let name = case["name"].as_str().expect("a name");
        assert!(names.insert(name), "two cases of {table} are called {name}");
        let verdict = verdict(case);
        let mut found: Vec<_> =
            verdict.violations.into_iter().map(|v| (v.rule, v.field, v.message)).collect();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let expected = case["expected"].as_array().expect("a list of findings").iter();
        let mut expected: Vec<_> =
            expected.map(|e| (text(&e[0]), text(&e[1]), text(&e[2]))).collect();
        found.sort();
        expected.sort();
        let same = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(found, expected)| {
                found.0 == expected.0
                    && found.1 == expected.1
                    && expected.2.strip_suffix('*').map_or(found.2 == expected.2, |start| {
                        found.2.starts_with(start) && found.2.len() > start.len()
                    })
            });
        if !same || verdict.reason.is_some() || !verdict.audit_annotations.is_empty() {
            wrong.push(format!("{name}\n  expected {expected:#?}\n  found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn upstream_says_the_same() {
    check("upstream");
}

#[test]
fn every_blob_is_sound() {
    check("blobs");
}

#[test]
fn packages_and_channels_lead_somewhere() {
    check("packages");
}

#[test]
fn bundles_are_sound() {
    check("bundles");
}

#[test]
fn deprecations_refer_to_what_is_there() {
    check("deprecations");
}

#[test]
fn what_was_published_stays() {
    check("baseline");
}

#[test]
fn documented_examples() {
    check("documents");
}

#[test]
fn every_rule_has_a_case_that_breaks_it() {
    let broken: BTreeSet<_> = all_cases()
        .flat_map(|case| verdict(&case).violations.into_iter().map(|found| found.rule))
        .collect();
    let rules = FileBasedCatalog::describe().rules;
    assert_eq!(rules.len(), 53);
    for rule in rules {
        assert!(broken.contains(rule.id), "{}", rule.id);
    }
}

#[test]
fn levels_are_those_that_the_rules_declare() {
    let rules = FileBasedCatalog::describe().rules;
    for found in all_cases().flat_map(|case| verdict(&case).violations) {
        let rule = rules.iter().find(|rule| rule.id == found.rule).expect("a rule");
        // FBC-46 is declared as advice, and denies wherever somebody names what was published.
        let denies = rule.default_level == DefaultLevel::Deny || rule.id == "FBC-46";
        assert_eq!(found.level == Level::Deny, denies, "{}", rule.id);
        assert!(!found.message.is_empty() && found.message.len() < 10_000, "{found:?}");
    }
}

/// Every value of a document replaced by something else, one at a time.
fn mutations(value: &Value, replacement: &Value) -> Vec<Value> {
    fn paths(value: &Value, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    paths(item, &format!("{at}/{index}"), all);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    paths(member, &format!("{at}/{key}"), all);
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    paths(value, "", &mut all);
    let mutate = |path: String| {
        let mut mutated = value.clone();
        *mutated.pointer_mut(&path).expect("a path of the value") = replacement.clone();
        mutated
    };
    all.into_iter().map(mutate).collect()
}

#[test]
fn values_of_the_wrong_type_get_an_answer() {
    let rules = FileBasedCatalog::describe().rules;
    let replacements =
        json!([null, true, -1, 1e300, "", "x", "||", "\u{0}é", [], [null], [[]], {}, {"": {}}]);
    let sound = document(
        &json!({}),
        &json!([
            {"schema": "olm.package", "name": "foo", "defaultChannel": "alpha", "description": "d",
                "icon": {"base64data": "eA==", "mediatype": "y"}},
            {"schema": "olm.channel", "package": "foo", "name": "alpha", "properties": [{"type": "a", "value": 1}],
                "entries": [{"name": "foo.v1.0.0", "replaces": "b", "skips": ["c"], "skipRange": "<1.0.0"},
                    {"name": "foo.v1.0.1", "replaces": "foo.v1.0.0"}]},
            {"schema": "olm.bundle", "package": "foo", "name": "foo.v1.0.0", "image": "x",
                "relatedImages": [{"name": "a", "image": "b"}],
                "properties": [
                    {"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.0", "release": "1"}},
                    {"type": "olm.gvk", "value": {"group": "a.b", "version": "v1", "kind": "K"}},
                    {"type": "olm.package.required", "value": {"packageName": "p", "versionRange": "1.x"}},
                    {"type": "olm.bundle.object", "value": {"data": "eyJraW5kIjoiQ29uZmlnTWFwIn0="}},
                    {"type": "olm.csv.metadata", "value": {"crdDescriptions": {"owned": [{"name": "a.b", "version": "v1", "kind": "K"}]}}},
                    {"type": "olm.bundle.mediatype", "value": "plain+v0"}]},
            {"schema": "olm.bundle", "package": "foo", "name": "foo.v1.0.1", "image": "x",
                "properties": [{"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.1"}}]},
            {"schema": "olm.deprecations", "package": "foo",
                "entries": [{"reference": {"schema": "olm.channel", "name": "alpha"}, "message": "m"}]},
        ]),
    );
    let mut asked = 0;
    for replacement in replacements.as_array().expect("a list") {
        for mutated in mutations(&sound, replacement) {
            for (new, old) in [(&mutated, None), (&mutated, Some(&sound)), (&sound, Some(&mutated))]
            {
                for found in ask(new, old, &json!({})).violations {
                    assert!(rules.iter().any(|rule| rule.id == found.rule), "{found:?}");
                    assert!(found.field.starts_with("spec."), "{found:?}");
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 3_000, "{asked} questions");
}

#[test]
fn nothing_changes_by_itself() {
    for case in all_cases() {
        let document = document(&case, &case["blobs"]);
        let same = ask(&document, Some(&document), &json!({}));
        assert!(same.violations.iter().all(|found| found.rule != "FBC-46"), "{case}");
    }
}

/// Neither the order of properties nor how they are written counts, whatever they are.
#[test]
fn properties_are_a_set() {
    let constraint =
        |n: u32| json!({"type": "olm.constraint", "value": {"cel": {"rule": format!("{n} <= 1")}}});
    let gvk = |kind: &str| json!({"type": "olm.gvk", "value": {"group": "a.b", "version": "v1", "kind": kind}});
    let package =
        json!({"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.0"}});
    let object = json!({"type": "olm.bundle.object", "value": {"data": "YTogYg=="}});
    let bundle = |properties: Vec<Value>| {
        document(
            &json!({}),
            &json!([
                {"schema": "olm.package", "name": "foo", "defaultChannel": "a"},
                {"schema": "olm.channel", "package": "foo", "name": "a", "entries": [{"name": "foo.v1.0.0"}]},
                {"schema": "olm.bundle", "package": "foo", "name": "foo.v1.0.0", "image": "x", "properties": properties},
            ]),
        )
    };
    let mut properties = vec![package, gvk("K"), object, gvk("L")];
    properties.extend((0..20).map(constraint));
    let old = bundle(properties.clone());
    properties.reverse();
    let changed = |new: &str, old: &str| {
        let mut request = Request::default();
        request.resource.group = "opgate.dev".into();
        request.resource.resource = "filebasedcatalogs".into();
        request.operation = Operation::Update;
        let [new, old] = [new, old].map(|json| Document::parse(json).expect("JSON"));
        let settings = parsed(&json!({}));
        let found = FileBasedCatalog::validate(&request, Some(&new), Some(&old), &settings);
        found.violations.iter().any(|found| found.rule == "FBC-46")
    };
    // Indented, and with the escapes that Go writes.
    let new = serde_json::to_string_pretty(&bundle(properties.clone())).expect("JSON");
    let new = new.replace('<', "\\u003c");
    assert!(!changed(&new, &old.to_string()));
    for (at, other) in [(0, constraint(20)), (19, constraint(1)), (20, gvk("M")), (23, json!(null))]
    {
        let mut properties = properties.clone();
        properties[at] = other;
        assert!(changed(&bundle(properties).to_string(), &old.to_string()), "{at}");
    }
    // Very many that look alike are not compared with each other for ever.
    let mut many: Vec<_> = (0..5_000).map(constraint).collect();
    let old = bundle(many.clone()).to_string();
    many.swap(3, 50);
    assert!(!changed(&bundle(many.clone()).to_string(), &old));
    many.reverse();
    assert!(changed(&bundle(many).to_string(), &old));
}

/// A package with a long chain, in several channels.
fn large(bundles: usize, image: &str) -> Value {
    let name = |n: usize| format!("foo.v1.{}.{}", n / 100, n % 100);
    let mut blobs = vec![json!({"schema": "olm.package", "name": "foo", "defaultChannel": "c0"})];
    for channel in 0..5 {
        let entries = (0..bundles).map(|n| {
            let mut entry =
                json!({"name": name(n), "skipRange": format!("<1.{}.{}", n / 100, n % 100)});
            if n > 0 {
                entry["replaces"] = json!(name(n - 1));
            }
            entry
        });
        let entries: Vec<_> = entries.collect();
        blobs.push(json!({"schema": "olm.channel", "package": "foo", "name": format!("c{channel}"), "entries": entries}));
    }
    for n in 0..bundles {
        let version = format!("1.{}.{}", n / 100, n % 100);
        blobs.push(
            json!({"schema": "olm.bundle", "package": "foo", "name": name(n), "image": image,
            "properties": [
                {"type": "olm.package", "value": {"packageName": "foo", "version": version}},
                {"type": "olm.gvk", "value": {"group": "a.b", "version": "v1", "kind": "K"}},
            ]}),
        );
    }
    document(&json!({}), &json!(blobs))
}

#[test]
fn large_packages_are_judged() {
    let old = large(2_000, "quay.io/a/b:1");
    assert_eq!(ask(&old, Some(&old), &json!({})).violations, []);
    let new = large(2_000, "quay.io/a/b:2");
    let found = ask(&new, Some(&old), &json!({})).violations;
    assert_eq!(found.len(), 256);
    assert!(found.iter().all(|found| found.rule == "FBC-46"));
    assert!(found[255].message.starts_with("1744 more findings of this rule are left out; "));
    // Every one of very many is out of reach, and in no range.
    let few = large(1, "quay.io/a/b:1");
    let found = ask(&few, Some(&old), &json!({})).violations;
    assert_eq!(found.len(), 256);
    assert!(found.iter().all(|found| found.rule == "FBC-45"));
}

/// What does not fit is counted, rule by rule, and no rule hides another.
#[test]
fn very_many_findings_are_counted() {
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": "foo", "defaultChannel": "none"}),
        json!({"schema": "olm.channel", "package": "foo", "name": "a", "entries": [{"name": "foo.v1"}]}),
    ];
    blobs.extend((0..1_000).map(|n| {
        let properties = json!([
            {"type": "olm.package", "value": {"packageName": "foo", "version": format!("{n}.0.0")}},
        ]);
        json!({"schema": "olm.bundle", "package": "foo", "name": "foo.v1", "image": "not an image", "properties": properties})
    }));
    let document = document(&json!({}), &json!(blobs));
    for (settings, expected) in [
        (json!({}), vec![("FBC-11", 1), ("FBC-28", 1_000), ("FBC-30", 999)]),
        (json!({"rules": {"FBC-28": "off"}}), vec![("FBC-11", 1), ("FBC-30", 999)]),
    ] {
        let found = ask(&document, None, &settings).violations;
        assert!(found.len() <= 256);
        let mut all = BTreeMap::new();
        for violation in &found {
            let count = all.entry(violation.rule.as_str()).or_insert(0);
            let more = violation.message.split_once(" more findings of this rule are left out; ");
            *count += 1 + more.map_or(0, |(more, _)| more.parse::<u32>().expect("a number"));
        }
        assert_eq!(all.into_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn levels_are_those_of_the_configuration() {
    let blobs = json!([{"schema": "olm.package", "name": "foo.bar", "defaultChannel": "a"}]);
    let document = document(&json!({}), &blobs);
    for (level, expected) in
        [("deny", Some(Level::Deny)), ("warn", Some(Level::Warn)), ("off", None)]
    {
        let settings = json!({"rules": {"FBC-09": level}});
        let found = ask(&document, None, &settings).violations;
        let found = found.iter().find(|found| found.rule == "FBC-09").map(|found| found.level);
        assert_eq!(found, expected, "{level}");
    }
}

/// Shapes that make a walk long: a ring, a star, many channels, entries that skip everything.
#[test]
fn hostile_graphs_end() {
    const MANY: usize = 20_000;
    let ring: Vec<_> = (0..MANY)
        .map(|n| json!({"name": format!("e{n}"), "replaces": format!("e{}", (n + 1) % MANY)}))
        .chain([json!({"name": "head", "replaces": "e0"})])
        .collect();
    let star: Vec<_> =
        (0..MANY).map(|n| json!({"name": format!("e{n}"), "replaces": "e0"})).collect();
    let all: Vec<_> = (0..MANY).map(|n| format!("e{n}")).collect();
    let skipper = vec![json!({"name": "a.v1.0.0", "skips": all})];
    let deep: Vec<_> = (0..MANY)
        .map(|n| json!({"name": format!("a.v{}.{}.0", n / 2, n % 2), "replaces": format!("a.v{}.{}.0", n.saturating_sub(1) / 2, n.saturating_sub(1) % 2)}))
        .skip(1)
        .collect();
    for (entries, rule) in
        [(ring, "FBC-20"), (star, "FBC-19"), (skipper, "FBC-18"), (deep, "FBC-18")]
    {
        let blobs = json!([
            {"schema": "olm.package", "name": "foo", "defaultChannel": "alpha"},
            {"schema": "olm.channel", "package": "foo", "name": "alpha", "entries": entries},
        ]);
        let document = document(&json!({}), &blobs);
        let found = ask(&document, Some(&document), &json!({})).violations;
        assert!(found.iter().any(|found| found.rule == rule), "{rule}");
        assert!(found.iter().all(|found| found.message.len() < 10_000));
    }
}

#[test]
fn other_requests_are_not_judged() {
    let object = parsed(&json!({"spec": {"blobs": ["x"]}}));
    let settings = parsed(&json!({}));
    let verdict = FileBasedCatalog::validate(&Request::default(), Some(&object), None, &settings);
    assert_eq!(verdict, Verdict::default());
}

/// Objects are decoded up to a limit, and that is said.
#[test]
fn very_many_objects_are_left_out() {
    let data = format!("YTog{}", "YWFh".repeat(500_000));
    let properties: Vec<_> = (0..8)
        .map(|_| json!({"type": "olm.bundle.object", "value": {"data": data}}))
        .chain([
            json!({"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.0"}}),
        ])
        .collect();
    let blobs = json!([
        {"schema": "olm.package", "name": "foo", "defaultChannel": "alpha"},
        {"schema": "olm.channel", "package": "foo", "name": "alpha", "entries": [{"name": "foo.v1.0.0"}]},
        {"schema": "olm.bundle", "package": "foo", "name": "foo.v1.0.0", "image": "x", "properties": properties},
    ]);
    let verdict = ask(&document(&json!({}), &blobs), None, &json!({}));
    assert_eq!(verdict.violations, []);
    let noted = ("not-evaluated".to_owned(), "FBC-41".to_owned());
    assert_eq!(verdict.audit_annotations, [noted]);
}
