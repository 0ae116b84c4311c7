//! Dumps of all shapes give the same objects at their places.

use opgate_input::read::Reader;

use super::*;
use crate::detect;
use crate::kinds::CheckInputType;
use crate::reviews::LocationResolver;
use crate::testing::TempDirectory;

/// The objects of a file with the places of their names, and what is no object.
fn read_objects(name: &str, text: &str) -> Vec<String> {
    let directory = TempDirectory::new(&[(name, text)]);
    let path = directory.path().join(name);
    let reader = Reader::default();
    let mut dump = open(&path, &reader).unwrap().remove(0);
    let lists = dump.slots().iter().map(|slot| dump.read(slot, &reader));
    let broken: Vec<_> = lists.filter_map(|part| part.unreadable_list()).collect();
    dump.keep_whole(&broken);
    let mut all = Vec::new();
    for slot in dump.slots() {
        let part = dump.read(slot, &reader);
        all.extend(part.error_line());
        let subjects = part.subjects();
        for subject in &subjects.subjects {
            let request = &subject.requests[0];
            let place = LocationResolver::new(&request.object).resolve("metadata.name").unwrap();
            let at = format!("{}:{}", place.line, place.column);
            all.push(format!("{} {} {} {at}", request.group, subject.kind, subject.name));
        }
        all.extend(subjects.errors);
        all.extend((0..subjects.terminating).map(|_| "leaving".to_owned()));
    }
    let shown = path.display().to_string();
    all.into_iter().map(|line| line.replace(&shown, name)).collect()
}

const YAML_DUMP: &str = "\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: a
  spec: |
    - b
- apiVersion: g/v1
  kind: XList
  items:
  - metadata: {name: c}
- apiVersion: v1
  kind: Pod
  metadata:
    deletionTimestamp: now
kind: List
metadata:
  resourceVersion: \"\"
---
apiVersion: v1
kind: Pod
metadata:
  name: d
";

const JSON_DUMP: &str = r#"{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Pod", "metadata": {"name": "a"}, "spec": "],[\"{"
        }, {"apiVersion": "g/v1", "kind": "XList", "items": [{"metadata": {"name": "c"}}]},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"deletionTimestamp": "now"}}
    ],
    "kind": "List"
}
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}}
"#;

#[test]
fn objects_have_locations() {
    let expected = [" Pod a 6:5", "g X c 12:16", "leaving", " Pod d 24:3"];
    assert_eq!(read_objects("a.yaml", YAML_DUMP), expected);
    // Windows ends lines otherwise, and begins files with a mark.
    let windows = format!("\u{feff}{}", YAML_DUMP.replace('\n', "\r\n"));
    assert_eq!(read_objects("a.yaml", &windows), expected);
    // With indented elements, as others write them.
    let indent = |(index, line): (usize, &str)| {
        let indent = if (2..16).contains(&index) { "    " } else { "" };
        format!("{indent}{line}\n")
    };
    let indented = YAML_DUMP.lines().enumerate().map(indent).collect::<Vec<_>>().concat();
    let places = [" Pod a 6:9", "g X c 12:20", "leaving", " Pod d 24:3"];
    assert_eq!(read_objects("a.yaml", &indented), places);
    let places = [" Pod a 6:41", "g X c 7:76", "leaving", " Pod d 12:50"];
    assert_eq!(read_objects("a.json", JSON_DUMP), places);
    let line = JSON_DUMP.replace('\n', " ");
    let found = read_objects("a.json", &line);
    let column = line.find("\"name\": \"a\"").unwrap() + 1;
    assert_eq!(found[0], format!(" Pod a 1:{column}"));
    assert_eq!(found.len(), 4);
}

/// Elements that need each other are read together.
#[test]
fn lists_with_dependent_elements_are_parsed_as_a_whole() {
    let anchors = "apiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: &m {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: *m}\nkind: List\n";
    assert_eq!(read_objects("a.yaml", anchors), [" Pod a 3:45", " Pod a 3:45"]);
    let quotes = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  x: \"\n- y\"\nkind: List\n";
    assert_eq!(read_objects("a.yaml", quotes), [" Pod a 5:14"]);
    let flow =
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}\n";
    assert_eq!(read_objects("a.yaml", flow), [" Pod a 1:77"]);
    let directive = "%YAML 1.1\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n";
    assert_eq!(read_objects("a.yaml", directive), [" Pod a 6:42"]);
}

#[test]
fn invalid_list_elements_report_location() {
    let expected = [
        " Pod a 3:42",
        "a.yaml:4:3: /apiVersion is missing: not a Kubernetes object",
        "a.yaml:5:3: /kind is missing: not a Kubernetes object",
    ];
    let yaml = "apiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- 1\n- apiVersion: v1\nkind: List\n";
    assert_eq!(read_objects("a.yaml", yaml), expected);
    for (yaml, line) in [
        ("apiVersion: v1\nitems:\n- a: [\nkind: List\n", "a.yaml:3:6: not YAML"),
        ("apiVersion: v1\nitems:\n- a: 1\nkind: List\nitems: []\n", "a.yaml:5:1: not YAML"),
        ("apiVersion: v1\nitems:\n- a: 1\nkind: List\n---\n[", "a.yaml:"),
    ] {
        let found = read_objects("a.yaml", yaml);
        assert!(found.iter().any(|said| said.starts_with(line)), "{found:?}");
    }
    let json = "{\"apiVersion\":\"v1\",\n\"items\":[{\"a\":1},\n{\"b\":}],\"kind\":\"List\"}";
    assert!(
        read_objects("a.json", json)[0].starts_with("a.json:3:6: not JSON"),
        "{:?}",
        read_objects("a.json", json)
    );
    let twice = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{\"a\":1,\"a\":2}]}";
    assert!(read_objects("a.json", twice)[0].contains("duplicate mapping key: a"));
    // Cut short, as by a full disk.
    for end in 0..JSON_DUMP.len() {
        let _ = read_objects("a.json", JSON_DUMP.get(..end).unwrap());
    }
    for end in 0..YAML_DUMP.len() {
        let _ = read_objects("a.yaml", YAML_DUMP.get(..end).unwrap());
    }
}

/// Slots end between objects, however large these are.
#[test]
fn large_files_are_read_in_parts() {
    let pad = "x".repeat(100_000);
    let object = |n: usize| {
        format!("- apiVersion: v1\n  kind: Pod\n  metadata: {{name: p{n}}}\n  pad: {pad}\n")
    };
    let yaml: String = (0..20).map(object).collect();
    let yaml = format!("apiVersion: v1\nitems:\n{yaml}kind: List\n");
    let object = |n: usize| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{n}"}},"pad":"{pad}"}}"#)
    };
    let objects: Vec<_> = (0..20).map(object).collect();
    let json = format!(r#"{{"apiVersion":"v1","items":[{}],"kind":"List"}}"#, objects.join(","));
    let lines = objects.join("\n");
    for (name, text) in [("a.yaml", &yaml), ("a.json", &json), ("b.json", &lines)] {
        let directory = TempDirectory::new(&[(name, text)]);
        let dumps = open(&directory.path().join(name), &Reader::default()).unwrap();
        assert!((5..=10).contains(&dumps[0].slots().len()), "{name} {:?}", dumps[0].slots());
        let names: Vec<_> = read_objects(name, text)
            .iter()
            .map(|f| f.split(' ').nth(2).unwrap().to_owned())
            .collect();
        assert_eq!(names, (0..20).map(|n| format!("p{n}")).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn dumps_are_detected_by_their_content() {
    let stored = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u, resourceVersion: \"1\"}\n";
    let empty = "apiVersion: v1\nitems: []\nkind: List\n";
    // Of the first object, which has the longest text of all.
    let pad = "x".repeat(2 << 20);
    let yaml = |first: &str| YAML_DUMP.replace("    name: a\n", &format!("    name: a\n{first}"));
    let json =
        |first: &str| JSON_DUMP.replace(r#"{"name": "a"}"#, &format!(r#"{{"name": "a"{first}}}"#));
    let yaml_ids = "    uid: u\n    resourceVersion: '1'\n";
    let json_ids = r#", "uid": "u", "resourceVersion": "1""#;
    let nested = |first: &str| {
        format!(
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  items:\n  - metadata: {{name: a{first}}}\n  kind: PodList\nkind: List\n"
        )
    };
    for (text, kind) in [
        (yaml(yaml_ids).as_str(), CheckInputType::Cluster),
        (&yaml(yaml_ids).replace('\n', "\r\n"), CheckInputType::Cluster),
        (&yaml(&format!("    pad: {pad}\n{yaml_ids}")), CheckInputType::Cluster),
        (&json(json_ids), CheckInputType::Cluster),
        (&json(json_ids).replace('\n', ""), CheckInputType::Cluster),
        (&json(&format!(r#", "pad": "{pad}"{json_ids}"#)), CheckInputType::Cluster),
        (&nested(", uid: u, resourceVersion: '1'"), CheckInputType::Cluster),
        // Written by a person: no API server has seen the first object.
        (YAML_DUMP, CheckInputType::Manifest),
        (&yaml("    uid: u\n"), CheckInputType::Manifest),
        (&yaml(&format!("    pad: {pad}\n")), CheckInputType::Manifest),
        (JSON_DUMP, CheckInputType::Manifest),
        (&json(&format!(r#", "pad": "{pad}""#)), CheckInputType::Manifest),
        (&nested(""), CheckInputType::Manifest),
        // One exported object is not a cluster.
        (stored, CheckInputType::Manifest),
        (&format!("{stored}---\n{stored}"), CheckInputType::Cluster),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", CheckInputType::Manifest),
        (empty, CheckInputType::Manifest),
        ("schema: olm.package\nitems:\n- a\n", CheckInputType::Catalog),
    ] {
        let directory = TempDirectory::new(&[("a.yaml", text)]);
        let path = directory.path().join("a.yaml");
        let found = detect(&path, &Reader::default()).unwrap();
        let start = text.get(..text.len().min(500));
        assert_eq!(found.inputs[0].input_type, kind, "{start:?}");
    }
}
