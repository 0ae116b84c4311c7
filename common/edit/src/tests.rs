use serde_json::{Value, json};

use super::*;

fn set(pointer: &str, value: &str) -> Edit {
    Edit::Set { pointer: pointer.to_owned(), value: value.to_owned() }
}

fn insert(pointer: &str, value: &str) -> Edit {
    Edit::Insert { pointer: pointer.to_owned(), value: value.to_owned() }
}

fn remove(pointer: &str) -> Edit {
    Edit::Remove { pointer: pointer.to_owned() }
}

fn rename(pointer: &str, name: &str) -> Edit {
    Edit::RenameKey { pointer: pointer.to_owned(), name: name.to_owned() }
}

fn move_to(pointer: &str, path: &str) -> Edit {
    Edit::MoveFile { pointer: pointer.to_owned(), path: path.to_owned() }
}

fn fix(edits: Vec<Edit>) -> Fix {
    Fix { title: "fix it".to_owned(), safety: Safety::Safe, edits }
}

#[test]
fn edits_change_the_value_at_their_pointer() {
    let document = json!({"a": {"b": 1}, "list": [1, 2], "n": null, "x/y": {"~": 1}});
    for (edit, pointer, expected) in [
        (set("/a/b", "2"), "/a", json!({"b": 2})),
        (set("/a/c/d", "[]"), "/a", json!({"b": 1, "c": {"d": []}})),
        (set("/n/d", "true"), "/n", json!({"d": true})),
        (set("/list/1", "\"x\""), "/list", json!([1, "x"])),
        (set("", "{}"), "", json!({})),
        (set("/x~1y/~0", "2"), "/x~1y", json!({"~": 2})),
        (insert("/list/0", "0"), "/list", json!([0, 1, 2])),
        (insert("/list/-", "3"), "/list", json!([1, 2, 3])),
        (insert("/list/2", "3"), "/list", json!([1, 2, 3])),
        (remove("/list/0"), "/list", json!([2])),
        (remove("/a/b"), "/a", json!({})),
        (rename("/a/b", "c"), "/a", json!({"c": 1})),
    ] {
        assert_eq!(fix(vec![edit.clone()]).check(), Ok(()), "{edit:?}");
        let mut changed = document.clone();
        assert_eq!(apply(&mut changed, std::slice::from_ref(&edit)), Ok(()), "{edit:?}");
        assert_eq!(changed.pointer(pointer), Some(&expected), "{edit:?}");
    }
}

#[test]
fn edits_that_do_not_fit_are_errors() {
    let document = json!({"a": {"b": 1, "c": 2}, "list": [1], "spec": {"files": [{"path": "x"}]}});
    for (edit, why) in [
        (set("/a/b/c", "1"), "the value around /a/b/c is not an object"),
        (set("/list/1", "1"), "there is nothing at /list/1"),
        (set("/list/00", "1"), "there is nothing at /list/00"),
        (insert("/a/b", "1"), "the value around /a/b is not a list"),
        (insert("/list/2", "1"), "there is nothing at /list/2"),
        (remove("/a/d"), "there is nothing at /a/d"),
        (remove("/list/-"), "there is nothing at /list/-"),
        (rename("/a/b", "c"), "there is already a member \"c\""),
        (rename("/list/0", "c"), "the value around /list/0 is not an object"),
        (move_to("/spec/files/0", "x"), "there is already a file x"),
        (move_to("/spec/files/1", "y"), "there is nothing at /spec/files/1"),
        (move_to("/a", "y"), "there is nothing at /a"),
    ] {
        let error = apply(&mut document.clone(), std::slice::from_ref(&edit)).unwrap_err();
        assert_eq!(error.to_string(), why, "{edit:?}");
    }
}

#[test]
fn files_and_documents_are_moved() {
    let mut bundle = json!({"spec": {"files": [
        {"path": "a.yaml", "documents": [{"a": 1}, {"b": 1}]},
        {"path": "b.yaml", "documents": [{"c": 1}]},
    ]}});
    let edits =
        [move_to("/spec/files/0/documents/1", "c.yaml"), move_to("/spec/files/1", "d.yaml")];
    apply(&mut bundle, &edits).unwrap();
    let files = bundle.pointer("/spec/files").and_then(Value::as_array).unwrap();
    let shown: Vec<_> = files.iter().map(|file| (&file["path"], &file["documents"])).collect();
    assert_eq!(
        json!(shown),
        json!([["a.yaml", [{"a": 1}]], ["d.yaml", [{"c": 1}]], ["c.yaml", [{"b": 1}]]])
    );
}

#[test]
fn invalid_fixes_are_rejected() {
    let deep = "[".repeat(40) + &"]".repeat(40);
    for (edits, why) in [
        (vec![], "0 edits: a fix has at least one, and at most 16"),
        (vec![remove("/a"); 17], "17 edits: a fix has at least one, and at most 16"),
        (
            vec![set("/a", &format!("\"{}\"", "x".repeat(70_000)))],
            "70010 bytes are more than 65536",
        ),
        (vec![set("a", "1")], "\"a\" is no JSON pointer of at most 1024 bytes"),
        (vec![set("/a~2", "1")], "\"/a~2\" is no JSON pointer of at most 1024 bytes"),
        (vec![remove("")], "\"\" is no JSON pointer of at most 1024 bytes"),
        (vec![set("/a", "x")], "a value is not JSON: expected value at line 1 column 1"),
        (vec![set("/a", &deep)], "a value is not JSON: it nests deeper than 32 levels"),
        (vec![move_to("/a", "../x")], "\"../x\" is no path below the directory"),
        (vec![move_to("/a", "/x")], "\"/x\" is no path below the directory"),
        (vec![move_to("/a", ".git/x")], "\".git/x\" is no path below the directory"),
        (vec![move_to("/a", "a//x")], "\"a//x\" is no path below the directory"),
    ] {
        assert_eq!(fix(edits).check().unwrap_err().to_string(), why);
    }
    let untitled = Fix { title: String::new(), ..fix(vec![remove("/a")]) };
    assert_eq!(untitled.check(), Err(InvalidFix::Title));
}

#[test]
fn fixes_are_written_as_json() {
    let fix = fix(vec![set("/a", "{\"b\": 1}"), rename("/c", "d"), move_to("/e", "f")]);
    let expected = json!({"title": "fix it", "safety": "safe", "edits": [
        {"op": "set", "pointer": "/a", "value": {"b": 1}},
        {"op": "renameKey", "pointer": "/c", "name": "d"},
        {"op": "moveFile", "pointer": "/e", "path": "f"},
    ]});
    assert_eq!(serde_json::to_value(&fix).unwrap(), expected);
}

#[test]
fn fixes_that_do_not_meet_are_applied_together() {
    let one = |edit: Edit| fix(vec![edit]);
    for (left, right, expected) in [
        (set("/a/b", "1"), set("/a/c", "1"), false),
        (set("/a/b", "1"), set("/a/b", "1"), true),
        (set("/a", "1"), set("/a/b", "1"), true),
        (set("/ab", "1"), set("/a", "1"), false),
        (remove("/list/1"), set("/list/2/x", "1"), true),
        (remove("/list/1"), remove("/list/0"), true),
        (remove("/a/b"), set("/a/c", "1"), false),
        (insert("/list/0", "1"), set("/list/2", "1"), true),
        (insert("/list/-", "1"), set("/list/2", "1"), false),
        (insert("/list/-", "1"), insert("/list/-", "2"), true),
        (rename("/a/b", "c"), set("/a/c", "1"), true),
        (rename("/a/b", "c"), set("/a/d", "1"), false),
        (move_to("/spec/files/0", "a"), set("/spec/files/1/x", "1"), true),
    ] {
        assert_eq!(
            conflict(&one(left.clone()), &one(right.clone())),
            expected,
            "{left:?} {right:?}"
        );
        assert_eq!(
            conflict(&one(right.clone()), &one(left.clone())),
            expected,
            "{right:?} {left:?}"
        );
    }
    let fixes = [set("/a", "1"), set("/a/b", "1"), set("/c", "1")].map(one);
    let fixes: Vec<_> = fixes.iter().collect();
    assert_eq!(select(&fixes), [0, 2]);
}
