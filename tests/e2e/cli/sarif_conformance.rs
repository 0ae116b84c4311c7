//! What SARIF 2.1.0 asks for, and what code scanners make of it, for check and replay; test results.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cli::{directory, err, opgate, out, write};

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Members that an object may have, by the specification.
fn assert_members(value: &Value, members: &[&str]) {
    for key in value.as_object().unwrap().keys() {
        assert!(members.contains(&key.as_str()), "{key} is no member: {value}");
    }
}

/// A relative reference (RFC 3986), or an absolute one with a scheme.
fn is_reference(uri: &str) -> bool {
    let rest = uri.strip_prefix("file://").unwrap_or(uri);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/%".contains(&b);
    let parts: Vec<_> = rest.split('%').skip(1).collect();
    let is_escape =
        |part: &&str| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    !uri.is_empty() && rest.bytes().all(is_plain) && parts.iter().all(is_escape)
}

/// The rules of the specification that a schema cannot be asked for here.
fn check_sarif(sarif: &Value) {
    assert_eq!(sarif["version"], "2.1.0");
    assert_members(sarif, &["$schema", "version", "runs"]);
    let run = &sarif["runs"][0];
    assert_members(run, &["tool", "results", "invocations", "columnKind", "automationDetails"]);
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    assert!(text(&run["automationDetails"]["id"]).ends_with('/'));
    let driver = &run["tool"]["driver"];
    assert_members(driver, &["name", "version", "semanticVersion", "rules"]);
    let rules = driver["rules"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for rule in rules {
        assert_members(
            rule,
            &[
                "id",
                "shortDescription",
                "fullDescription",
                "help",
                "helpUri",
                "name",
                "defaultConfiguration",
                "properties",
            ],
        );
        assert!(ids.insert(text(&rule["id"])), "{rule}");
        for part in ["shortDescription", "fullDescription", "help"] {
            assert!(!text(&rule[part]["text"]).is_empty(), "{rule}");
        }
        let configuration = &rule["defaultConfiguration"];
        assert_members(configuration, &["level", "enabled"]);
        let level = configuration.get("level").map(text);
        assert!(level.is_none_or(|level| ["none", "note", "warning", "error"].contains(&level)));
        assert!(level.is_some() || configuration["enabled"] == false);
    }
    let results = run["results"].as_array().unwrap();
    assert!(!results.is_empty());
    let mut prints = BTreeSet::new();
    for result in results {
        assert_members(
            result,
            &[
                "ruleId",
                "ruleIndex",
                "level",
                "message",
                "locations",
                "partialFingerprints",
                "suppressions",
                "fixes",
            ],
        );
        for fix in result["fixes"].as_array().into_iter().flatten() {
            check_fix(fix);
        }
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["note", "warning", "error"].contains(&text(&result["level"])));
        assert!(!text(&result["message"]["text"]).is_empty());
        let print = text(&result["partialFingerprints"]["opgateViolation/v1"]);
        assert_eq!(print.len(), 64);
        prints.insert(print);
        let physical = &result["locations"][0]["physicalLocation"];
        assert!(is_reference(text(&physical["artifactLocation"]["uri"])), "{physical}");
        if let Some(region) = physical.get("region") {
            assert_members(region, &["startLine", "startColumn", "endLine", "endColumn"]);
            let number = |name: &str| region.get(name).and_then(Value::as_u64);
            let (start, end) = (number("startLine").unwrap(), number("endLine"));
            assert!(start >= 1 && end.is_none_or(|end| end >= start), "{region}");
            if let (Some(from), Some(to)) = (number("startColumn"), number("endColumn")) {
                assert!(from >= 1 && to > from, "{region}");
            }
        }
    }
    assert!(prints.len() * 10 > results.len() * 9, "fingerprints differ");
}

/// A fix replaces whole lines of files, in their order.
fn check_fix(fix: &Value) {
    assert_members(fix, &["description", "artifactChanges"]);
    assert!(!text(&fix["description"]["text"]).is_empty());
    let changes = fix["artifactChanges"].as_array().unwrap();
    assert!(!changes.is_empty(), "{fix}");
    for change in changes {
        assert_members(change, &["artifactLocation", "replacements"]);
        assert!(is_reference(text(&change["artifactLocation"]["uri"])), "{change}");
        let replacements = change["replacements"].as_array().unwrap();
        assert!(!replacements.is_empty(), "{change}");
        let mut last = 1;
        for replacement in replacements {
            assert_members(replacement, &["deletedRegion", "insertedContent"]);
            let region = &replacement["deletedRegion"];
            assert_members(region, &["startLine", "startColumn", "endLine", "endColumn"]);
            let line = |name: &str| region[name].as_u64().unwrap();
            assert!(line("startLine") >= last && line("endLine") >= line("startLine"), "{region}");
            assert!(replacement["insertedContent"]["text"].is_string(), "{replacement}");
            last = line("endLine");
        }
    }
}

const INVALID_BUNDLE: &str = "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata:\n  name: x\nspec:\n  provisionerClassName: core-rukpak-io-plain\n  source:\n    type: image\n";

#[test]
fn sarif_of_files_conforms_to_the_specification() {
    let directory = directory();
    write(&directory, "a b/ä#1.yaml", INVALID_BUNDLE);
    let run = |arguments: &[&str]| {
        let output = opgate(directory.path(), arguments);
        let sarif: Value =
            serde_json::from_str(&out(&output)).unwrap_or_else(|e| panic!("{e}: {}", err(&output)));
        check_sarif(&sarif);
        sarif
    };
    let sarif = run(&["check", "-o", "sarif", "./a b"]);
    let result = &sarif["runs"][0]["results"][0];
    let physical = &result["locations"][0]["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "a%20b/%C3%A4%231.yaml");
    assert_eq!(
        physical["region"],
        json!({"startLine": 7, "startColumn": 3, "endLine": 7, "endColumn": 10})
    );
    // Lines above do not make it another finding.
    write(&directory, "a b/ä#1.yaml", format!("# more\n\n{INVALID_BUNDLE}"));
    let moved = run(&["check", "-o", "sarif", "a b"]);
    let moved = &moved["runs"][0]["results"][0];
    assert_eq!(moved["locations"][0]["physicalLocation"]["region"]["startLine"], 9);
    assert_eq!(moved["partialFingerprints"], result["partialFingerprints"]);
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bundle-broken");
    let sarif = run(&["check", "-o", "sarif", fixtures]);
    let uri = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
        ["uri"];
    assert!(text(uri).starts_with("file:///"), "{uri}");
    // Descriptions are those of the pages.
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["id"] == "RPK-01").unwrap();
    assert!(text(&rule["help"]["markdown"]).contains("### Why"), "{rule}");
    assert_ne!(rule["fullDescription"], rule["shortDescription"]);
}

#[test]
fn sarif_of_reviews_conforms_to_the_specification() {
    let directory = directory();
    let review = std::fs::read_to_string(
        directory.path().join("reviews/007-update-bundles-combo-tag-ref.json"),
    )
    .unwrap();
    let line = serde_json::to_string(&serde_json::from_str::<Value>(&review).unwrap()).unwrap();
    let yaml = serde_json::from_str::<Value>(&review).unwrap();
    write(&directory, "a b/log.jsonl", format!("\n{line}\n\n{line}\n"));
    write(&directory, "a b/two.yaml", format!("---\n{yaml}\n---\n# one more\n{yaml}\n"));
    write(
        &directory,
        "a b/whole.json",
        format!("{:#}\n", serde_json::from_str::<Value>(&review).unwrap()),
    );
    let output = opgate(directory.path(), &["replay", "-o", "sarif", "a b"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let sarif: Value = serde_json::from_str(&out(&output)).unwrap();
    check_sarif(&sarif);
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let lines = format!("{:#}", serde_json::from_str::<Value>(&review).unwrap()).lines().count();
    let places: Vec<_> = results
        .iter()
        .filter(|result| result["ruleId"] == "RPK-01")
        .map(|result| {
            let physical = &result["locations"][0]["physicalLocation"];
            (text(&physical["artifactLocation"]["uri"]).to_owned(), physical["region"].clone())
        })
        .collect();
    let region = |start: u64, end: u64| json!({"startLine": start, "endLine": end});
    assert_eq!(places[0], ("a%20b/log.jsonl".to_owned(), region(2, 2)));
    assert_eq!(places[1], ("a%20b/log.jsonl".to_owned(), region(4, 4)));
    assert_eq!(places[2].0, "a%20b/two.yaml");
    assert_eq!(places[3].0, "a%20b/two.yaml");
    assert!(places[3].1["startLine"].as_u64() > places[2].1["startLine"].as_u64());
    assert_eq!(places[4], ("a%20b/whole.json".to_owned(), region(1, lines as u64)));
}

#[test]
fn test_results_have_times_that_add_up() {
    let directory = directory();
    write(&directory, "x/a.yaml", INVALID_BUNDLE);
    write(&directory, "x/b.yaml", INVALID_BUNDLE);
    for arguments in [&["check", "-o", "junit", "x"][..], &["replay", "-o", "junit", "reviews"]] {
        let xml = out(&opgate(directory.path(), arguments));
        let time = |line: &str| -> Option<f64> {
            line.split(" time=\"").nth(1)?.split('"').next()?.parse().ok()
        };
        let of = |tag: &str| -> Vec<f64> {
            let lines = xml.lines().filter(|line| line.trim_start().starts_with(tag));
            lines.map(|line| time(line).unwrap_or_else(|| panic!("no time: {line}"))).collect()
        };
        let (all, suite, cases) = (of("<testsuites "), of("<testsuite "), of("<testcase "));
        assert_eq!(all, suite, "{xml}");
        assert!(cases.len() >= 2);
        assert!((cases.iter().sum::<f64>() - all[0]).abs() < 1e-4, "{xml}");
    }
}
