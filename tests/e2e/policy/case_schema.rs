//! `opgate policy schema`: the schema of case files, for editors.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::{err, opgate, out};

fn validator() -> jsonschema::Validator {
    let directory = tempfile::tempdir().unwrap();
    let printed = opgate(directory.path(), &["policy", "schema"]);
    assert_eq!(printed.status.code(), Some(0), "{}", err(&printed));
    let schema: Value = serde_json::from_str(&out(&printed)).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below a directory.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() && name != "node_modules" && name != "target" {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

fn assert_valid(validator: &jsonschema::Validator, text: &str, whose: &Path) {
    let value = opgate_sdk_testing::yaml(text, whose);
    let errors: Vec<_> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}: {}", whose.display(), errors.join("\n"));
}

#[test]
fn all_cases_of_the_repository_conform() {
    let validator = validator();
    let mut found = Vec::new();
    for directory in ["guest/policies", "examples", "host/opgate/templates"] {
        files(&root().join(directory), &mut found);
    }
    let is_case = |path: &&PathBuf| {
        let directory = path.parent().unwrap().file_name().unwrap();
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
        directory == "cases" && is_yaml && path.file_name().unwrap() != "objects.yaml"
    };
    let cases: Vec<_> = found.iter().filter(is_case).collect();
    assert!(cases.len() > 400, "{}", cases.len());
    for path in cases {
        assert_valid(&validator, &fs::read_to_string(path).unwrap(), path);
    }
}

/// Indented blocks that begin with the rule of a file.
#[test]
fn examples_of_the_documentation_conform() {
    let validator = validator();
    let mut pages = Vec::new();
    files(&root().join("docs"), &mut pages);
    let mut count = 0;
    for path in pages.iter().filter(|path| path.extension().is_some_and(|it| it == "md")) {
        let text = fs::read_to_string(path).unwrap();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(first) = line.strip_prefix("    ").filter(|l| l.starts_with("rule: ")) else {
                continue;
            };
            let mut block = format!("{first}\n");
            while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with("    "))
            {
                block.push_str(line.get(4..).unwrap_or_default());
                block.push('\n');
            }
            assert_valid(&validator, &block, path);
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn mistakes_are_no_cases() {
    let validator = validator();
    let file = |section: &str, case: Value| json!({"rule": "A-1", section: [case]});
    let pod = || json!({"apiVersion": "v1", "kind": "Pod"});
    for (wrong, right) in [
        (json!({"accept": []}), json!({"rule": "A-1", "accept": []})),
        (
            file("accept", json!({"name": "a", "creat": pod()})),
            file("accept", json!({"name": "a", "create": pod()})),
        ),
        (file("accept", json!({"name": "a"})), file("accept", json!({"name": "a", "fixes": "b"}))),
        (
            file("accept", json!({"name": "a", "create": "pod", "message": "m"})),
            file(
                "accept",
                json!({"name": "a", "create": "pod", "otherViolations": [{"rule": "B-1", "message": "m"}]}),
            ),
        ),
        (
            file("accept", json!({"name": "a", "create": "pod", "with": {"spec": 1}})),
            file("accept", json!({"name": "a", "create": "pod", "with": {"/spec": 1}})),
        ),
        (
            file("reject", json!({"name": "a", "create": "pod"})),
            file("reject", json!({"name": "a", "create": "pod", "messagePrefix": ""})),
        ),
        (
            file("reject", json!({"name": "a", "create": "pod", "message": "m", "matches": false})),
            file("accept", json!({"name": "a", "create": "pod", "matches": false})),
        ),
        (
            file("reject", json!({"name": "a", "create": "pod", "message": "m", "level": "off"})),
            file("reject", json!({"name": "a", "create": "pod", "message": "m", "level": "warn"})),
        ),
        (
            file("skip", json!({"name": "a", "update": ["pod"]})),
            file("skip", json!({"name": "a", "update": ["pod", "pod"], "cluster": "none"})),
        ),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
        assert!(validator.is_valid(&right), "{right}");
    }
}
