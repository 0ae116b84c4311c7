//! The fixes of all cases of all policies, made in the text of the object of the case, as YAML and as JSON: the new
//! text means what the fix says, and differs only in the lines of its edits.
//!
//! `safety.tsv` has the safety of each fix.
//!
//! That the rule is silent after a fix, and no other rule reports more, is a test of each policy (`tests!`).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use opgate_casefile::File;
use opgate_edit::{Edit, Fix, Safety};
use serde_json::Value;

use crate::check::command;

/// Prints a value as YAML on lines.
fn yaml(value: &Value, indent: usize, out: &mut String) {
    let spaces = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                let _ = write!(out, "{spaces}{}:", Value::String(name.clone()));
                nested(value, indent + 2, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                let _ = write!(out, "{spaces}-");
                nested(value, indent + 2, out);
            }
        }
        other => writeln!(out, "{spaces}{other}").unwrap(),
    }
}

fn nested(value: &Value, indent: usize, out: &mut String) {
    let is_empty = match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    if is_empty {
        writeln!(out, " {value}").unwrap();
    } else {
        out.push('\n');
        yaml(value, indent, out);
    }
}

fn edit(edit: &Value) -> Edit {
    let text = |name: &str| edit[name].as_str().unwrap_or_default().to_owned();
    let (pointer, value) = (text("pointer"), edit["value"].to_string());
    match edit["op"].as_str().unwrap() {
        "set" => Edit::Set { pointer, value },
        "insert" => Edit::Insert { pointer, value },
        "remove" => Edit::Remove { pointer },
        "renameKey" => Edit::RenameKey { pointer, name: text("name") },
        _ => Edit::MoveFile { pointer, path: text("path") },
    }
}

/// The number of lines that a value has in YAML or JSON.
fn lines(value: Option<&Value>) -> usize {
    value.map_or(0, |value| serde_json::to_string_pretty(value).unwrap().lines().count())
}

/// Checks one fix in one text; returns an error.
fn check(name: &str, text: &str, object: &Value, fix: &Fix) -> Result<(), String> {
    let new = opgate_fix::apply(text, name, 0, &fix.edits).map_err(|why| why.to_string())?;
    let changes = opgate_fix::changed_lines(text, &new);
    if changes.is_empty() {
        return Err("nothing changes".to_owned());
    }
    let (mut removed, mut added) = (0, 0);
    for change in &changes {
        removed += change.removed;
        added += change.inserted.lines().count();
    }
    let mut fixed = object.clone();
    let mut most = 0;
    for edit in &fix.edits {
        let before = lines(fixed.pointer(edit.pointer()));
        opgate_edit::apply(&mut fixed, std::slice::from_ref(edit)).map_err(|it| it.to_string())?;
        let value: Value = match edit {
            Edit::Set { value, .. } | Edit::Insert { value, .. } => {
                serde_json::from_str(value).unwrap()
            }
            _ => Value::Null,
        };
        // The line of the name, and of new objects around it.
        most += before + lines(Some(&value)) + edit.pointer().matches('/').count() + 1;
    }
    if removed > most || added > most {
        return Err(format!("{removed} lines removed, {added} added, expected at most {most}"));
    }
    Ok(())
}

#[test]
fn fixes_of_all_cases_change_only_their_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    let mut safeties = BTreeSet::new();
    for entry in fs::read_dir(root.join("guest/policies")).unwrap() {
        let directory = entry.unwrap().path();
        let policy = directory.file_name().unwrap().to_str().unwrap().to_owned();
        let cases = directory.join("cases");
        let arguments = [
            "policy",
            "test",
            "-o",
            "json",
            "--policy",
            &policy,
            "--cases",
            cases.to_str().unwrap(),
        ];
        let home = tempfile::tempdir().unwrap();
        let output = command(home.path(), &arguments).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{policy}: {}", String::from_utf8_lossy(&output.stderr)));
        let files: Vec<_> = fs::read_dir(&cases)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| File {
                name: path.file_name().unwrap().to_str().unwrap().to_owned(),
                text: fs::read_to_string(&path).unwrap(),
            })
            .collect();
        let kinds =
            ["RegistryBundle", "PlainBundle", "OperatorProject"].into_iter().filter(|kind| {
                match policy.as_str() {
                    "plain-bundle" => *kind == "PlainBundle",
                    "platform-configuration" => *kind == "OperatorProject",
                    _ => *kind == "RegistryBundle",
                }
            });
        let all = opgate_casefile::read(&files, &kinds.collect::<Vec<_>>());
        let all = all.unwrap_or_else(|errors| panic!("{policy}: {}", errors[0]));
        for run in report["cases"].as_array().unwrap() {
            let case = all.iter().find(|it| run["rule"] == *it.rule && run["name"] == *it.name);
            let Some(object) = case.and_then(|case| case.object.as_ref()) else { continue };
            for fixed in run["decision"]["fixes"].as_array().into_iter().flatten() {
                let edits: Vec<_> =
                    fixed["fix"]["edits"].as_array().unwrap().iter().map(edit).collect();
                if fixed["rule"] == run["rule"] {
                    let [rule, name] = [&run["rule"], &run["name"]].map(|it| it.as_str().unwrap());
                    let safety = fixed["fix"]["safety"].as_str().unwrap();
                    safeties.insert(format!("{rule}\t{name}\t{safety}"));
                }
                if edits.iter().any(|edit| matches!(edit, Edit::MoveFile { .. })) {
                    continue;
                }
                let title = fixed["fix"]["title"].as_str().unwrap().to_owned();
                let fix = Fix { title, safety: Safety::Safe, edits };
                let mut lines = String::new();
                yaml(object, 0, &mut lines);
                let json = serde_json::to_string_pretty(object).unwrap();
                for (name, text) in [("a.yaml", &lines), ("a.json", &json)] {
                    count += 1;
                    if let Err(why) = check(name, text, object, &fix) {
                        let (rule, case) = (&run["rule"], &run["name"]);
                        wrong.push(format!("{name} {rule} {case}: {:?}: {why}", fix.edits));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 100, "{count}");
    check_safeties(&safeties);
}

/// A safe fix changes files without a review: `safety.tsv` lists which are safe.
fn check_safeties(found: &BTreeSet<String>) {
    let listed: BTreeSet<String> =
        include_str!("safety.tsv").lines().skip(1).map(str::to_owned).collect();
    let lines = |sign: char, lines: Vec<&String>| {
        lines.iter().map(|line| format!("{sign}{line}")).collect::<Vec<_>>().join("\n")
    };
    let missing = lines('+', found.difference(&listed).collect());
    let stale = lines('-', listed.difference(found).collect());
    assert!(missing.is_empty() && stale.is_empty(), "safety.tsv:\n{stale}\n{missing}");
}
