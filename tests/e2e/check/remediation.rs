//! The way of a bundle's author: from the findings of `opgate check` to a bundle without any.
//!
//! Nothing but what the command prints says where an edit goes: the file and line of the finding that
//! comes first, the page of its rule what to do there.

use serde_json::Value;
use tempfile::TempDir;

use crate::check::{check, command, directory, err, out, records, status, violations};

/// What an author changes at the line of a finding.
enum Edit {
    /// A text of the line. A line break in the new one adds lines.
    Replace(&'static str, &'static str),
    /// So many lines from there on.
    Remove(usize),
    /// The file.
    Delete,
    /// A text of the line above.
    ReplaceAbove(&'static str, &'static str),
}

use Edit::{Delete, Remove, Replace, ReplaceAbove};

/// Rule, words of what its page says under "Repair", and the edit.
type Fix = (&'static str, &'static str, Edit);

const DENIAL_FIXES: [Fix; 9] = [
    ("CSV-57", "Correct `apiVersion` or `kind` of the example", ReplaceAbove("v1beta1", "v1beta2")),
    ("CSV-06", "Write `MAJOR.MINOR.PATCH`", Replace("0.9", "0.9.5")),
    ("CSV-30", "Keep one entry of each type", Replace("OwnNamespace", "SingleNamespace")),
    ("RBF-07", "or remove the entry", Remove(3)),
    (
        "CSV-85",
        "Name the deployment that serves",
        Replace("etcd-operator-webhook", "etcd-operator"),
    ),
    ("RBF-10", "Remove the object", Delete),
    ("RBF-12", "Correct the place that the message names", Replace("\t", "  ")),
    (
        "RBF-03",
        "Add the key that the message names",
        Replace(
            "annotations:",
            "annotations:\n  operators.operatorframework.io.bundle.channels.v1: stable",
        ),
    ),
    ("CON-20", "a range such as `>0.5.1`", Replace("newer than 0.27", ">0.27.0")),
];

const WARNING_FIXES: [Fix; 1] =
    [("CSV-17", "Choose the level that fits this version", Replace("preview", "alpha"))];

/// Findings of one level, in the order in which they are printed.
fn violations_of_effect(directory: &TempDir, level: &str) -> Vec<Value> {
    let (_, found) = records(directory, &["bundle-broken"]);
    let all = found.iter().flat_map(violations);
    all.filter(|violation| violation["effect"] == level).cloned().collect()
}

/// The section "Repair" of a rule's page, its lines joined.
fn remediation_section(directory: &TempDir, rule: &str) -> String {
    let page = out(&command(directory.path(), &["rules", "explain", rule]).output().unwrap());
    let (_, repair) = page.split_once("### Remediation").expect(rule);
    let repair = repair.split("###").next().unwrap_or_default();
    repair.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn apply_edit(directory: &TempDir, finding: &Value, edit: &Edit) {
    let place = &finding["location"];
    let path = directory.path().join(place["file"].as_str().expect("a file"));
    if matches!(edit, Delete) {
        return std::fs::remove_file(path).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = usize::try_from(place["line"].as_u64().unwrap()).unwrap() - 1;
    let replace = |line: &mut String, from: &str, to: &str| {
        assert!(line.contains(from), "{finding}: {line:?} has no {from:?}");
        *line = line.replacen(from, to, 1);
    };
    match edit {
        Replace(from, to) => replace(&mut lines[at], from, to),
        Remove(count) => drop(lines.drain(at..at + count)),
        ReplaceAbove(from, to) => replace(&mut lines[at - 1], from, to),
        Delete => {}
    }
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Fixes the first finding of a level until there is none, and applies each fix once.
fn apply_fixes(directory: &TempDir, level: &str, fixes: &[Fix]) {
    let mut left: Vec<&Fix> = fixes.iter().collect();
    loop {
        let before = violations_of_effect(directory, level);
        let Some(first) = before.first() else { break };
        let rule = first["rule"].as_str().unwrap();
        let known = left.iter().position(|(id, ..)| *id == rule);
        let (_, says, edit) = left.remove(known.unwrap_or_else(|| panic!("no repair: {first}")));
        let page = remediation_section(directory, rule);
        assert!(!page.is_empty() && page.contains(says), "{rule}: {page}");
        apply_edit(directory, first, edit);
        let after = violations_of_effect(directory, level);
        assert!(after.len() < before.len(), "{rule}: {before:?}\n{after:?}");
    }
    assert!(
        left.is_empty(),
        "nothing to repair: {:?}",
        left.iter().map(|r| r.0).collect::<Vec<_>>()
    );
}

#[test]
fn following_the_messages_fixes_the_bundle() {
    let directory = directory();
    assert_eq!(status(&check(&directory, &["bundle-broken"])), 1);
    apply_fixes(&directory, "deny", &DENIAL_FIXES);
    assert_eq!(status(&check(&directory, &["bundle-broken"])), 0);
    assert_eq!(status(&check(&directory, &["--fail-on", "warn", "bundle-broken"])), 1);
    apply_fixes(&directory, "warn", &WARNING_FIXES);
    for path in ["bundle-broken", "bundle-valid"] {
        let output = check(&directory, &["--fail-on", "warn", path]);
        let table = out(&output);
        assert_eq!((status(&output), &*table), (0, ""), "{path}: {}", err(&output));
    }
}
