//! Catalogs in files: the loader of `opgate check`, the native policies `file-based-catalog` and
//! `constraint-limits`, and the locations of their violations.
//!
//! An input is up to four files, separated by the control character FS (`\x1c`): `catalog.yaml`,
//! `more/catalog.json`, `.indexignore` and `notes`. An empty file is not written.
//!
//! Oracles: a loaded catalog is a readable review; every violation has a location inside of a file; a
//! member of JSON has the location of its name; a catalog has no difference to itself; values that are
//! written as YAML read the same.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use opgate::fuzzing::{Question, catalog, detect};
use opgate_constraint_limits::POLICY as CONSTRAINTS;
use opgate_file_based_catalog::POLICY as CATALOGS;
use opgate_fuzz::hash;
use opgate_sdk::{
    Document, GroupVersionResource, Operation, Policy, Request, RequestParts, Violation,
};
use serde_json::Value;

const FILES: [&str; 4] = ["catalog.yaml", "more/catalog.json", ".indexignore", "notes"];
/// File of the copy as YAML, next to the catalog.
const COPY_FILE: &str = "copy.yaml";
/// Values of a document whose locations are checked.
const MAX_LOCATED_VALUES: usize = 40;

/// Directory for the files of this process. `run` removes it, because libFuzzer ends the process without
/// destructors.
static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("opgate-fuzz-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(directory.join("catalog/more")).expect("a directory");
    directory
});

fuzz_target!(|input: &[u8]| -> Corpus { check_catalog(input) });

fn check_catalog(input: &[u8]) -> Corpus {
    let root = DIRECTORY.join("catalog");
    let mut parts = input.splitn(FILES.len(), |byte| *byte == 0x1c);
    let mut texts = BTreeMap::new();
    for name in FILES {
        let path = root.join(name);
        match parts.next().filter(|content| !content.is_empty()) {
            Some(content) => {
                fs::write(&path, content).expect("a file");
                let text = String::from_utf8_lossy(content).into_owned();
                texts.insert(path.display().to_string(), text);
            }
            None => drop(fs::remove_file(&path)),
        }
    }
    if texts.is_empty() {
        return Corpus::Reject;
    }
    if let Err(error) = detect(&root) {
        assert!(!error.to_string().is_empty());
    }
    let Ok(requests) = catalog(&root, None) else {
        return Corpus::Keep;
    };
    let mut values = Vec::new();
    for request in &requests {
        let [object, old] = request.documents().expect("a review");
        let object = object.expect("a document");
        assert_eq!(old, None);
        evaluate(request, &object, None, &texts);
        check_locations(request, &object, &texts);
        let object: Value = serde_json::from_str(&object).unwrap_or_default();
        let blobs = object.pointer("/spec/blobs").and_then(Value::as_array);
        values.extend(blobs.into_iter().flatten().map(|blob| blob["value"].clone()));
    }
    // The comparison and the copy double the time.
    if hash(input).is_multiple_of(4) {
        for request in catalog(&root, Some(&root)).into_iter().flatten() {
            let [object, old] = request.documents().expect("a review");
            let object = object.expect("a document");
            assert_eq!(old.as_ref(), Some(&object));
            let violations = evaluate(&request, &object, old.as_deref(), &texts);
            let is_difference = |violation: &Violation| violation.rule == "FBC-46";
            assert!(!violations.iter().any(is_difference), "{violations:?}");
        }
        check_yaml_copy(&values);
    }
    Corpus::Keep
}

/// File, line and column.
type Location = (String, u64, u64);

static RULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let rules = [&CATALOGS, &CONSTRAINTS].map(Policy::all_rules);
    rules.into_iter().flatten().map(|rule| rule.id).collect()
});

/// Evaluates the policies. Each violation must be of a known rule, and have a location unless it belongs to
/// the whole catalog.
fn evaluate(
    catalog: &Question,
    object: &str,
    old: Option<&str>,
    texts: &BTreeMap<String, String>,
) -> Vec<Violation> {
    let [group, version, resource] =
        ["opgate.dev", "v1alpha1", "filebasedcatalogs"].map(str::to_owned);
    let resource = GroupVersionResource { group, version, resource };
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let request = Request::from(RequestParts { resource, operation, ..RequestParts::default() });
    let parsed = |json: &str| Document::parse(json).expect("a document");
    let (object, old, settings) = (Some(parsed(object)), old.map(parsed), parsed("{}"));
    let verdicts = [&CATALOGS, &CONSTRAINTS].map(|policy| {
        let routes = policy.routes_of(&request, &settings);
        policy.validate(&request, routes, object.as_ref(), old.as_ref(), &settings)
    });
    let violations: Vec<Violation> =
        verdicts.into_iter().flat_map(|verdict| verdict.violations).collect();
    let fields: Vec<String> = violations.iter().map(|violation| violation.field.clone()).collect();
    for (violation, location) in violations.iter().zip(catalog.places(&fields)) {
        assert!(RULES.contains(&*violation.rule), "{violation:?}");
        assert!(!violation.message.is_empty(), "{violation:?}");
        let is_inside =
            ["spec.blobs[", "spec.files["].iter().any(|start| violation.field.starts_with(start));
        assert_eq!(location.is_some(), is_inside, "{violation:?}");
        // Errors of the JSON parser have columns in bytes, not in characters.
        let is_in_bytes = |(file, _, _): &&Location| {
            violation.field.starts_with("spec.files[") && !texts[file].is_ascii()
        };
        if let Some(location) = location.as_ref().filter(|location| !is_in_bytes(location)) {
            text_at(location, texts);
        }
    }
    violations
}

/// Returns the rest of the line at a location, which must be inside of the file or right behind it;
/// `None` if the line numbers are ambiguous.
fn text_at<'t>(location: &Location, texts: &'t BTreeMap<String, String>) -> Option<&'t str> {
    let (file, line, column) = location;
    let text = texts.get(file).unwrap_or_else(|| panic!("{location:?}"));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // A lone carriage return ends a line in YAML, but not for the counter of the lines before a document.
    if text.replace("\r\n", "").contains('\r') {
        return None;
    }
    let index = |number: &u64| usize::try_from(*number - 1).expect("a number");
    let line = text.split('\n').nth(index(line));
    let line = line.unwrap_or_else(|| panic!("{location:?} is not in {text:?}"));
    // Columns count characters; the one behind the last is the end of the line.
    let mut chars = line.chars();
    let before = chars.by_ref().take(index(column)).count();
    assert_eq!(before, index(column), "{location:?} is not in {text:?}");
    Some(chars.as_str())
}

/// Asserts that all values have a location, and members of JSON the location of their names.
fn check_locations(catalog: &Question, object: &str, texts: &BTreeMap<String, String>) {
    let Ok(value) = serde_json::from_str::<Value>(object) else { return };
    let mut waiting = vec![(String::from("spec.blobs"), &value["spec"]["blobs"], None)];
    let (mut fields, mut names) = (Vec::new(), Vec::new());
    while let Some((field, value, name)) = waiting.pop() {
        if fields.len() >= MAX_LOCATED_VALUES {
            break;
        }
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                waiting.extend(items.map(|(i, item)| (format!("{field}[{i}]"), item, None)));
            }
            Value::Object(members) => {
                // Fields cannot express names with brackets or quotes.
                let members = members.iter().filter(|(name, _)| !name.contains(['[', ']', '"']));
                let members = members
                    .map(|(name, member)| (format!("{field}[{name}]"), member, Some(name.clone())));
                waiting.extend(members);
            }
            _ => {}
        }
        let blob_field = field.strip_prefix("spec.blobs[").and_then(|rest| rest.split_once(']'));
        let blob_field = blob_field.map_or("", |(_, rest)| rest);
        if blob_field.starts_with("[value]") {
            let is_outermost = blob_field == "[value]";
            names.push(name.filter(|_| !is_outermost));
            fields.push(field);
        }
    }
    for (location, name) in catalog.places(&fields).into_iter().zip(names) {
        let location = location.expect("a location");
        let text = text_at(&location, texts);
        // A name with an escape has the location of its value.
        let is_json = location.0.ends_with(".json") && !texts[&location.0].contains('\\');
        if let (Some(name), Some(text)) = (name.filter(|_| is_json), text) {
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
            let first = values.next().and_then(Result::ok);
            assert_eq!(first.as_ref(), Some(&name), "{location:?}: {text:?}");
        }
    }
}

/// Asserts that values written as YAML read the same.
fn check_yaml_copy(values: &[Value]) {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    // YAML forbids some characters that JSON allows, and reads others differently.
    let is_printable_ascii = |text: &String| text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if values.is_empty() || !texts.iter().all(is_printable_ascii) {
        return;
    }
    let path = DIRECTORY.join(COPY_FILE);
    fs::write(&path, texts.iter().map(|text| format!("--- {text}\n")).collect::<String>())
        .expect("a file");
    let requests = catalog(&path, None).expect("a catalog");
    let mut copies = Vec::new();
    for request in &requests {
        let [object, _] = request.documents().expect("a review");
        let object: Value = serde_json::from_str(&object.expect("a document")).expect("JSON");
        assert_eq!(object.pointer("/spec/files/0"), None, "{texts:?}");
        let blobs = object.pointer("/spec/blobs").and_then(Value::as_array);
        copies.extend(blobs.into_iter().flatten().map(|blob| blob["value"].to_string()));
    }
    let sorted = |mut texts: Vec<String>| {
        texts.sort();
        texts
    };
    assert_eq!(sorted(copies), sorted(texts));
}
