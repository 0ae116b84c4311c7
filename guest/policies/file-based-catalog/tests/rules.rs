//! The verdicts of the policy: the cases of its rules, and properties that no case can show.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

use std::collections::BTreeMap;

use opgate_file_based_catalog::POLICY;
use opgate_sdk::{Document, Operation, Request, RequestParts, SkippedRule, Verdict};
use opgate_sdk_testing::native;
use serde_json::{Value, json};

opgate_sdk_testing::tests!(POLICY);

/// A package of these blobs, as a document of the host.
fn document(blobs: &Value) -> Value {
    let blobs = blobs.as_array().expect("a list of blobs").iter().enumerate();
    let blob = |(index, value)| json!({"file": "index.yaml", "index": index, "value": value});
    let blobs: Vec<_> = blobs.map(blob).collect();
    json!({"spec": {"package": "foo", "packages": ["foo"], "blobs": blobs}})
}

fn ask_json(object: &str, old: Option<&str>, settings: &Value) -> Verdict {
    let parsed = |json: &str| Document::parse(json).unwrap_or_else(|e| panic!("{json}: {e}"));
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let request = Request::from(RequestParts { operation, ..RequestParts::default() });
    let (object, old) = (parsed(object), old.map(parsed));
    POLICY.validate(&request, 1, Some(&object), old.as_ref(), &parsed(&settings.to_string()))
}

fn ask(object: &Value, old: Option<&Value>, settings: &Value) -> Verdict {
    ask_json(&object.to_string(), old.map(Value::to_string).as_deref(), settings)
}

/// For reports on files: the logical location of a violation, nested as in `opm`.
#[test]
fn violations_report_their_logical_location() {
    let long = "n".repeat(300);
    let document = document(&json!([
        {"schema": "olm.package", "name": "p", "defaultChannel": "fast", "icon": {}},
        {"schema": "olm.channel", "package": "p", "name": "one", "entries": [{"name": "p.v1"}, {}, 7]},
        {"Schema": "olm.channel", "Package": "p", "Name": "tw\u{1b}\"o", "entries": [{"name": "p.v1"}, {"name": "p.v2", "skips": ""}]},
        {"schema": "olm.bundle", "package": "p", "name": "p.v1"},
        {"schema": "olm.bundle", "package": "p", "name": "p.v2", "image": "x", "relatedImages": [{}]},
        {"schema": "olm.bundle", "package": "p", "name": "olm.channel", "image": ""},
        {"schema": "olm.deprecations", "package": "p"},
        {"schema": "olm.package", "name": "p"},
        {"schema": "olm.channel", "package": "p", "name": long},
    ]));
    let found = ask(&document, None, &json!({})).violations;
    let cut = format!("channel \"{}…", "n".repeat(244));
    let cases: [(&str, &str, &[&str]); 10] = [
        ("FBC-12", "spec.blobs[0].value.icon", &["icon"]),
        ("FBC-11", "spec.blobs[0].value.defaultChannel", &["channel \"fast\""]),
        ("FBC-10", "spec.blobs[7].value", &[]),
        ("FBC-16", "spec.blobs[1].value.entries[2]", &["channel \"one\""]),
        ("FBC-16", "spec.blobs[2].value.entries[1].skips", &["channel \"tw\\u{1b}\\\"o\""]),
        ("FBC-27", "spec.blobs[3].value", &["channel \"one\"", "bundle \"p.v1\""]),
        (
            "FBC-29",
            "spec.blobs[4].value.relatedImages[0]",
            &["channel \"tw\\u{1b}\\\"o\"", "bundle \"p.v2\"", "related image"],
        ),
        ("FBC-31", "spec.blobs[5].value.name", &["bundle \"olm.channel\""]),
        ("FBC-53", "spec.blobs[6].value", &[]),
        ("FBC-15", "spec.blobs[8].value", &[&cut]),
    ];
    for (rule, field, about) in cases {
        let violation = found.iter().find(|found| found.rule == rule && found.field == field);
        let violation = violation.unwrap_or_else(|| panic!("{rule} {field}: {found:#?}"));
        assert_eq!(violation.logical_location, about, "{rule} {field}");
    }
}

#[test]
fn unchanged_catalog_reports_no_changes() {
    for case in native::cases(&POLICY, DIRECTORY) {
        let same = ask(case.object.as_ref().expect("a document"), case.object.as_ref(), &json!({}));
        assert!(same.violations.iter().all(|found| found.rule != "FBC-46"), "{}", case.name);
    }
}

/// Neither the order nor the spelling of properties counts, regardless of their type.
#[test]
fn properties_are_a_set() {
    let constraint =
        |n: u32| json!({"type": "olm.constraint", "value": {"cel": {"rule": format!("{n} <= 1")}}});
    let gvk = |kind: &str| json!({"type": "olm.gvk", "value": {"group": "a.b", "version": "v1", "kind": kind}});
    let package =
        json!({"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.0"}});
    let object = json!({"type": "olm.bundle.object", "value": {"data": "YTogYg=="}});
    let bundle = |properties: Vec<Value>| {
        document(&json!([
            {"schema": "olm.package", "name": "foo", "defaultChannel": "a"},
            {"schema": "olm.channel", "package": "foo", "name": "a", "entries": [{"name": "foo.v1.0.0"}]},
            {"schema": "olm.bundle", "package": "foo", "name": "foo.v1.0.0", "image": "x", "properties": properties},
        ]))
    };
    let mut properties = vec![package, gvk("K"), object, gvk("L")];
    properties.extend((0..20).map(constraint));
    let old = bundle(properties.clone());
    properties.reverse();
    let changed = |new: &str, old: &str| {
        let found = ask_json(new, Some(old), &json!({})).violations;
        found.iter().any(|found| found.rule == "FBC-46")
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
    // The comparison of a large number of similar properties is limited.
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
    document(&json!(blobs))
}

#[test]
fn large_packages_are_evaluated() {
    let old = large(2_000, "quay.io/a/b:1");
    assert_eq!(ask(&old, Some(&old), &json!({})).violations, []);
    let new = large(2_000, "quay.io/a/b:2");
    let found = ask(&new, Some(&old), &json!({})).violations;
    assert_eq!(found.len(), 256);
    assert!(found.iter().all(|found| found.rule == "FBC-46"));
    let about = |n: usize| {
        ["channel \"c0\"".to_owned(), format!("bundle \"foo.v1.{}.{}\"", n / 100, n % 100)]
    };
    assert!(
        found.iter().enumerate().all(|(n, found)| found.logical_location == about(n)),
        "{found:?}"
    );
    assert!(found[255].message.starts_with("1744 more violations of this rule are omitted; "));
    // All of a large number of bundles are unreachable and in no range.
    let few = large(1, "quay.io/a/b:1");
    let found = ask(&few, Some(&old), &json!({})).violations;
    assert_eq!(found.len(), 256);
    assert!(found.iter().all(|found| found.rule == "FBC-45"));
}

/// Violations that do not fit are counted for each rule, and no rule hides another.
#[test]
fn violations_over_the_limit_are_counted_for_each_rule() {
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
    let document = document(&json!(blobs));
    for (settings, expected) in [
        (json!({}), vec![("FBC-11", 1), ("FBC-28", 1_000), ("FBC-30", 999)]),
        (json!({"rules": {"FBC-28": "off"}}), vec![("FBC-11", 1), ("FBC-30", 999)]),
    ] {
        let found = ask(&document, None, &settings).violations;
        assert!(found.len() <= 256);
        let mut all = BTreeMap::new();
        for violation in &found {
            let count = all.entry(violation.rule.as_str()).or_insert(0);
            let more = violation.message.split_once(" more violations of this rule are omitted; ");
            *count += 1 + more.map_or(0, |(more, _)| more.parse::<u32>().expect("a number"));
        }
        assert_eq!(all.into_iter().collect::<Vec<_>>(), expected);
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
        let document = document(&blobs);
        let found = ask(&document, Some(&document), &json!({})).violations;
        assert!(found.iter().any(|found| found.rule == rule), "{rule}");
        assert!(found.iter().all(|found| found.message.len() < 10_000));
    }
}

/// Objects are decoded up to a limit, and the limit is reported.
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
    let verdict = ask(&document(&blobs), None, &json!({}));
    assert_eq!(verdict.violations, []);
    let reason = "in part: the objects of the bundles are too large".to_owned();
    assert_eq!(verdict.skipped, [SkippedRule { rule: "FBC-41".to_owned(), reason }]);
}

/// Among a part of the channels, another one could be the most similar.
#[test]
fn a_channel_is_proposed_only_if_all_are_compared() {
    for (count, is_proposed) in [(256, true), (257, false)] {
        let mut blobs =
            vec![json!({"schema": "olm.package", "name": "foo", "defaultChannel": "channel-0"})];
        let channel = |n| {
            json!({"schema": "olm.channel", "package": "foo", "name": format!("channel-{n}"),
                "entries": [{"name": "foo.v1.0.0"}]})
        };
        blobs.extend((0..count).map(channel));
        blobs.push(json!({"schema": "olm.deprecations", "package": "foo",
            "entries": [{"reference": {"schema": "olm.channel", "name": "chanel-255"}, "message": "no"}]}));
        let found = ask(&document(&json!(blobs)), None, &json!({})).violations;
        let found = found.iter().find(|found| found.rule == "FBC-51").expect("a violation");
        let fix = found.fix.as_ref().map(|fix| format!("{:?}", fix.edits));
        assert_eq!(fix.is_some_and(|fix| fix.contains("channel-255")), is_proposed, "{count}");
    }
}
