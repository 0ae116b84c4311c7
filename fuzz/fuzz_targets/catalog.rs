//! Catalogs in files: the loader of `opgate check`, the native policies `file-based-catalog` and
//! `constraint-limits` over what it made, and the places of what they find.
//!
//! An input is up to four files, parted by the control character FS (`\x1c`): `catalog.yaml`,
//! `more/catalog.json`, `.indexignore` and `notes`. An empty one is not there.
//!
//! The oracles: what was loaded is a review that can be read, every violation has a place inside of a
//! file, a member of JSON has the place of its name, a catalog does not change by being compared with
//! itself, and what is written as YAML reads as what it was.
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
use opgate_sdk::{Document, GroupVersionResource, Operation, Parts, Policy, Request, Violation};
use serde_json::Value;

const FILES: [&str; 4] = ["catalog.yaml", "more/catalog.json", ".indexignore", "notes"];
/// Where a catalog is written as YAML, beside the others.
const COPY: &str = "copy.yaml";
/// Values of a document whose places are looked at.
const VALUES: usize = 40;

/// A folder for the files of this process. It stays, for libFuzzer ends without a word; `run` takes it
/// away.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("opgate-fuzz-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("catalog/more")).expect("a folder");
    folder
});

fuzz_target!(|input: &[u8]| -> Corpus { judged(input) });

fn judged(input: &[u8]) -> Corpus {
    let root = FOLDER.join("catalog");
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
    let Ok(questions) = catalog(&root, None) else {
        return Corpus::Keep;
    };
    let mut values = Vec::new();
    for question in &questions {
        let [object, old] = question.documents().expect("a review");
        let object = object.expect("a document");
        assert_eq!(old, None);
        asked(question, &object, None, &texts);
        places(question, &object, &texts);
        let object: Value = serde_json::from_str(&object).unwrap_or_default();
        let blobs = object.pointer("/spec/blobs").and_then(Value::as_array);
        values.extend(blobs.into_iter().flatten().map(|blob| blob["value"].clone()));
    }
    // The rest costs as much again.
    if hash(input).is_multiple_of(4) {
        for question in catalog(&root, Some(&root)).into_iter().flatten() {
            let [object, old] = question.documents().expect("a review");
            let object = object.expect("a document");
            assert_eq!(old.as_ref(), Some(&object));
            let found = asked(&question, &object, old.as_deref(), &texts);
            assert!(found.iter().all(|found| found.rule != "FBC-46"), "{found:?}");
        }
        copied(&values);
    }
    Corpus::Keep
}

static RULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let rules = [&CATALOGS, &CONSTRAINTS].map(Policy::all_rules);
    rules.into_iter().flatten().map(|rule| rule.id).collect()
});

/// Asks the policies; every violation must be of a rule and, unless it is about the whole, at a place.
fn asked(
    question: &Question,
    object: &str,
    old: Option<&str>,
    texts: &BTreeMap<String, String>,
) -> Vec<Violation> {
    let [group, version, resource] =
        ["opgate.dev", "v1alpha1", "filebasedcatalogs"].map(str::to_owned);
    let resource = GroupVersionResource { group, version, resource };
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let request = Request::from(Parts { resource, operation, ..Parts::default() });
    let parsed = |json: &str| Document::parse(json).expect("a document");
    let (object, old, settings) = (Some(parsed(object)), old.map(parsed), parsed("{}"));
    let verdicts = [&CATALOGS, &CONSTRAINTS].map(|policy| {
        let routes = policy.routes_of(&request, &settings);
        policy.validate(&request, routes, object.as_ref(), old.as_ref(), &settings)
    });
    let all: Vec<Violation> = verdicts.into_iter().flat_map(|verdict| verdict.violations).collect();
    let fields: Vec<String> = all.iter().map(|violation| violation.field.clone()).collect();
    for (violation, place) in all.iter().zip(question.places(&fields)) {
        assert!(RULES.contains(&*violation.rule), "{violation:?}");
        assert!(!violation.message.is_empty(), "{violation:?}");
        let is_inside =
            ["spec.blobs[", "spec.files["].iter().any(|start| violation.field.starts_with(start));
        assert_eq!(place.is_some(), is_inside, "{violation:?}");
        // The parser of JSON counts the columns of what it cannot read in bytes, not in characters.
        let is_in_bytes = |(file, _, _): &&(String, u64, u64)| {
            violation.field.starts_with("spec.files[") && !texts[file].is_ascii()
        };
        if let Some(place) = place.as_ref().filter(|place| !is_in_bytes(place)) {
            after(place, texts);
        }
    }
    all
}

/// What stands at a place, which must be inside of the file or right behind it; `None` where lines are
/// not what they seem.
fn after<'t>(place: &(String, u64, u64), texts: &'t BTreeMap<String, String>) -> Option<&'t str> {
    let (file, line, column) = place;
    let text = texts.get(file).unwrap_or_else(|| panic!("{place:?}"));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // For YAML a carriage return alone ends a line, for what counts the lines before a document it
    // does not.
    if text.replace("\r\n", "").contains('\r') {
        return None;
    }
    let number = |number: &u64| usize::try_from(*number - 1).expect("a number");
    let line = text.split('\n').nth(number(line));
    let line = line.unwrap_or_else(|| panic!("{place:?} is not in {text:?}"));
    // A column counts characters, and one behind the last is the end of the line.
    let mut chars = line.chars();
    let before = chars.by_ref().take(number(column)).count();
    assert_eq!(before, number(column), "{place:?} is not in {text:?}");
    Some(chars.as_str())
}

/// Values of a document have places; those of JSON the place of their names.
fn places(question: &Question, object: &str, texts: &BTreeMap<String, String>) {
    let Ok(value) = serde_json::from_str::<Value>(object) else { return };
    let mut waiting = vec![(String::from("spec.blobs"), &value["spec"]["blobs"], None)];
    let (mut fields, mut names) = (Vec::new(), Vec::new());
    while let Some((field, value, name)) = waiting.pop() {
        if fields.len() >= VALUES {
            break;
        }
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                waiting.extend(items.map(|(at, item)| (format!("{field}[{at}]"), item, None)));
            }
            Value::Object(members) => {
                // A bracket in a name ends the name of a field.
                let members = members.iter().filter(|(name, _)| !name.contains(['[', ']', '"']));
                let members = members
                    .map(|(name, member)| (format!("{field}[{name}]"), member, Some(name.clone())));
                waiting.extend(members);
            }
            _ => {}
        }
        let is_value = field.strip_prefix("spec.blobs[").and_then(|rest| rest.split_once(']'));
        if is_value.is_some_and(|(_, rest)| rest.starts_with("[value]")) {
            let is_outermost = is_value.is_some_and(|(_, rest)| rest == "[value]");
            names.push(name.filter(|_| !is_outermost));
            fields.push(field);
        }
    }
    for (place, name) in question.places(&fields).into_iter().zip(names) {
        let place = place.expect("a place");
        let text = after(&place, texts);
        // A name that is written with an escape is not found, and has the place of its value.
        let is_json = place.0.ends_with(".json") && !texts[&place.0].contains('\\');
        if let (Some(name), Some(text)) = (name.filter(|_| is_json), text) {
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
            let first = values.next().and_then(Result::ok);
            assert_eq!(first.as_ref(), Some(&name), "{place:?}: {text:?}");
        }
    }
}

/// Writes values as YAML and reads them again.
fn copied(values: &[Value]) {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    // YAML forbids some characters that JSON allows, and has an opinion of its own on the others.
    let is_plain = |text: &String| text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if values.is_empty() || !texts.iter().all(is_plain) {
        return;
    }
    let path = FOLDER.join(COPY);
    fs::write(&path, texts.iter().map(|text| format!("--- {text}\n")).collect::<String>())
        .expect("a file");
    let questions = catalog(&path, None).expect("a catalog");
    let mut copies = Vec::new();
    for question in &questions {
        let [object, _] = question.documents().expect("a review");
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
