//! Edits of texts, in the files of `tests`: what the text is before and after them, or why they are refused.
//!
//! Each edit is also made with other line ends, without a line break at the end of the text, and a second time.

use std::path::Path;

use opgate_edit::Edit;

use crate::{apply as apply_edits, has_comment, split_document};

/// An edit in a file of cases.
#[derive(Default)]
struct Case {
    name: String,
    file: String,
    document: usize,
    edits: Vec<Edit>,
    refused: Option<String>,
    before: String,
    after: String,
}

fn parse_edit(line: &str) -> Edit {
    let (operation, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
    let (pointer, argument) = rest.split_once(' ').unwrap_or((rest, ""));
    let (pointer, argument) = (pointer.to_owned(), argument.to_owned());
    match operation {
        "set" => Edit::Set { pointer, value: argument },
        "insert" => Edit::Insert { pointer, value: argument },
        "remove" => Edit::Remove { pointer },
        "rename" => Edit::RenameKey { pointer, name: argument },
        other => panic!("there is no operation {other}"),
    }
}

fn cases(name: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let mut part = "";
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        if let Some(title) = content.strip_prefix("=== ") {
            part = content;
            if !matches!(title, "before" | "after") {
                let file = "a.yaml".to_owned();
                cases.push(Case { name: title.to_owned(), file, ..Case::default() });
            }
            continue;
        }
        let case = cases.last_mut().unwrap();
        match part {
            "=== before" => case.before.push_str(line),
            "=== after" => case.after.push_str(line),
            _ => match content.split_once(": ") {
                Some(("edit", edit)) => case.edits.push(parse_edit(edit)),
                Some(("file", file)) => file.clone_into(&mut case.file),
                Some(("document", number)) => case.document = number.parse().unwrap(),
                Some(("refused", why)) => case.refused = Some(why.to_owned()),
                _ => panic!("{name}: {line}"),
            },
        }
    }
    // An empty line is between two cases.
    for case in &mut cases {
        let last = if case.refused.is_some() { &mut case.before } else { &mut case.after };
        last.truncate(last.trim_end().len() + 1);
    }
    cases
}

fn apply(case: &Case, text: &str) -> Result<String, String> {
    let edited = apply_edits(text, &case.file, case.document, &case.edits);
    edited.map_err(|refusal| refusal.to_string())
}

#[test]
fn edits_change_only_their_place() {
    let (mut count, mut wrong) = (0, Vec::new());
    for name in ["yaml-lines.txt", "yaml-brackets.txt", "json.txt"] {
        for case in cases(name) {
            let found = apply(&case, &case.before).unwrap_or_else(|why| why);
            if found != case.after {
                wrong.push(format!("{name}: {}:\n{found}", case.name));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "{count}");
}

#[test]
fn line_ends_and_byte_order_marks_are_kept() {
    for name in ["yaml-lines.txt", "yaml-brackets.txt", "json.txt"] {
        for case in cases(name) {
            let windows = |text: &str| text.replace('\n', "\r\n");
            let found = apply(&case, &windows(&case.before)).unwrap();
            assert_eq!(found, windows(&case.after), "{name}: {}", case.name);
            let marked = |text: &str| format!("\u{feff}{text}");
            let found = apply(&case, &marked(&case.before)).unwrap();
            assert_eq!(found, marked(&case.after), "{name}: {}", case.name);
            let open = |text: &str| text.trim_end().to_owned();
            let found = apply(&case, &open(&case.before)).unwrap();
            assert_eq!(found, open(&case.after), "{name}: {}", case.name);
        }
    }
}

/// In the file, `~` is the first character of `\r\n`.
#[test]
fn new_lines_end_as_the_lines_next_to_them() {
    let text = |shown: &str| shown.replace('~', "\r");
    let cases = cases("line-ends.txt");
    assert!(!cases.is_empty());
    for case in cases {
        let found = apply(&case, &text(&case.before)).unwrap();
        assert_eq!(found, text(&case.after), "{}", case.name);
    }
}

#[test]
fn texts_that_parsers_read_differently_are_quoted() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/ambiguous.tsv");
    let table = std::fs::read_to_string(path).unwrap();
    let rows = table.lines().filter(|line| !line.starts_with("# "));
    let rows: Vec<_> = rows.map(|row| row.split('\t').collect::<Vec<_>>()).collect();
    assert!(rows.len() > 100, "{}", rows.len());
    for row in rows {
        let [text, expected, _] = row[..] else { panic!("{row:?}") };
        let json = serde_json::to_string(text).unwrap();
        for (before, edit, is_value) in [
            ("a: x\n", format!("set /a {json}"), true),
            ("a:\n- x\n", format!("set /a/0 {json}"), true),
            ("a: [x]\n", format!("set /a/0 {json}"), false),
            ("a: {x: y}\n", format!("rename /a/x {text}"), false),
        ] {
            let case = Case {
                file: "a.yaml".to_owned(),
                edits: vec![parse_edit(&edit)],
                ..Case::default()
            };
            let found = apply(&case, before).unwrap();
            let quotes = [format!("'{}'", text.replace('\'', "''")), json.clone()];
            let is_quoted = quotes.iter().any(|quoted| found.contains(quoted));
            if expected == "quoted" || is_value {
                assert_eq!(is_quoted, expected == "quoted", "{text:?}: {found}");
            }
        }
    }
}

#[test]
fn set_values_are_not_set_again() {
    for name in ["yaml-lines.txt", "yaml-brackets.txt", "json.txt"] {
        for case in cases(name) {
            if case.edits.iter().all(|edit| matches!(edit, Edit::Set { .. })) {
                assert_eq!(apply(&case, &case.after).unwrap(), case.after, "{name}: {}", case.name);
            }
        }
    }
}

#[test]
fn uncertain_edits_are_refused() {
    for case in cases("refused.txt") {
        let why = case.refused.clone().unwrap();
        assert_eq!(apply(&case, &case.before).unwrap_err(), why, "{}", case.name);
    }
}

#[test]
fn documents_are_taken_out_of_a_file() {
    let text = "# first\na: 1\n---\n# second\nb: 1\n---\nc: 1\n";
    for (number, rest, moved) in [
        (0, "# second\nb: 1\n---\nc: 1\n", "# first\na: 1\n"),
        (1, "# first\na: 1\n---\nc: 1\n", "# second\nb: 1\n"),
        (2, "# first\na: 1\n---\n# second\nb: 1\n", "c: 1\n"),
    ] {
        let split = split_document(text, "a.yaml", number).unwrap();
        assert_eq!((split.rest.as_str(), split.moved.as_str()), (rest, moved), "{number}");
    }
    assert!(split_document("a: 1\n", "a.yaml", 0).is_err());
    assert!(split_document("{\"a\": 1}{\"b\": 1}", "a.json", 0).is_err());
}

#[test]
fn comments_inside_of_a_value_and_behind_it_are_found() {
    for (text, expected) in [
        ("a: {b: 1}\nc: 2 # other\n", false),
        ("a: 1 # of a\nc: 2\n", true),
        ("a:\n  # of b\n  b: 1\nc: 2\n", true),
        ("# before\na: \"# text\"\nc: 2\n", false),
    ] {
        let removal = Edit::Remove { pointer: "/a".to_owned() };
        assert_eq!(has_comment(text, "a.yaml", 0, &removal), Ok(expected), "{text}");
    }
}
