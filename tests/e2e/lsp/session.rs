//! Replays recorded sessions.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use testkit::editor::Editor;

use crate::BINARY;

pub(super) const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/lsp/sessions");

/// Replays a session, or records it.
pub(super) fn replay(name: &str) {
    let file = Path::new(DIRECTORY).join(format!("{name}.jsonl"));
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let place = root.display().to_string();
    let is_recorded = std::env::var_os("OPGATE_RECORD").is_some();
    let mut recorded = String::new();
    let mut editor = Editor::start(BINARY, &root);
    for (index, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
        let number = index + 1;
        let step: Value = serde_json::from_str(&line.replace("WORKSPACE", &place))
            .unwrap_or_else(|error| panic!("{name}:{number}: {error}"));
        let mut line = line.to_owned();
        if let Some(fixture) = step["copy"].as_str() {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
            copy(&from, &root.join(step["to"].as_str().unwrap()));
        } else if let Some(path) = step["write"].as_str() {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, step["text"].as_str().unwrap()).unwrap();
        } else if let Some(path) = step["move"].as_str() {
            fs::rename(root.join(path), root.join(step["to"].as_str().unwrap())).unwrap();
        } else if let Some(message) = step.get("send") {
            editor.send(message);
        } else {
            let expected = step.get("expect").unwrap_or_else(|| panic!("{name}:{number}: {step}"));
            let key = key(expected);
            let mut received = editor.receive(|message| self::key(message) == key);
            received.as_object_mut().unwrap().remove("jsonrpc");
            if is_recorded {
                shorten(&mut received);
                line = json!({"expect": received}).to_string().replace(&place, "WORKSPACE");
            } else if !is_match(expected, &received) {
                let [received, expected] = [&received, expected].map(|m| format!("{m:#}"));
                assert_eq!(received, expected, "{name}:{number}");
            }
        }
        let _ = writeln!(recorded, "{line}");
    }
    if is_recorded {
        fs::write(&file, recorded).unwrap();
    }
    assert_eq!(editor.wait(), Some(0), "{name}");
}

/// Ends what is recorded of a long text or list.
const MORE: &str = "…";

/// Maximum characters of a text, and elements of a list of choices, that are recorded: pages of rules and lists of
/// settings have other tests.
const MAX_CHARACTERS: usize = 160;
const MAX_CHOICES: usize = 6;

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS) {
                text.truncate(end);
                text.push_str(MORE);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(shorten),
        Value::Object(members) => {
            for (name, member) in members {
                if let (Value::Array(list), "items") = (&mut *member, name.as_str())
                    && list.len() > MAX_CHOICES
                {
                    list.truncate(MAX_CHOICES);
                    list.push(MORE.into());
                }
                shorten(member);
            }
        }
        _ => {}
    }
}

/// Whether a message is as it was recorded.
fn is_match(expected: &Value, received: &Value) -> bool {
    match (expected, received) {
        (Value::String(expected), Value::String(received)) => match expected.strip_suffix(MORE) {
            Some(start) => received.starts_with(start),
            None => expected == received,
        },
        (Value::Array(expected), Value::Array(received)) => {
            let (expected, has_more) = match expected.split_last() {
                Some((last, start)) if last == MORE => (start, true),
                _ => (expected.as_slice(), false),
            };
            (has_more || expected.len() == received.len())
                && expected.len() <= received.len()
                && expected.iter().zip(received).all(|(a, b)| is_match(a, b))
        }
        (Value::Object(expected), Value::Object(received)) => {
            expected.len() == received.len()
                && expected.iter().all(|(name, member)| {
                    received.get(name).is_some_and(|other| is_match(member, other))
                })
        }
        _ => expected == received,
    }
}

/// Identifies the message that is expected: others can arrive before it.
fn key(message: &Value) -> Value {
    let parameters = &message["params"];
    match message["method"].as_str() {
        Some("textDocument/publishDiagnostics") => {
            json!([message["method"], parameters["uri"], parameters["version"]])
        }
        Some("window/logMessage") => {
            let text = parameters["message"].as_str().unwrap_or_default();
            json!([message["method"], text.split(' ').next()])
        }
        Some(method) => json!([method]),
        None => json!(["response", message["id"]]),
    }
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let target: PathBuf = to.join(from.file_name().unwrap());
        if from.is_dir() {
            copy(&from, &target);
        } else {
            fs::copy(&from, &target).unwrap();
        }
    }
}
