//! What a workspace or an editor does must not end the server, or lead it out of the workspace. Its findings are those of
//! `opgate check`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::client::Editor;
use crate::BINARY;

const CSV: &str =
    include_str!("../../fixtures/bundle-valid/manifests/etcdoperator.clusterserviceversion.yaml");

fn open(editor: &mut Editor, uri: &str, text: &str) {
    let document = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": text});
    editor.notify("textDocument/didOpen", json!({"textDocument": document}));
}

fn change(editor: &mut Editor, uri: &str, version: usize, changes: &Value) {
    let document = json!({"uri": uri, "version": version});
    editor.notify(
        "textDocument/didChange",
        json!({"textDocument": document, "contentChanges": changes}),
    );
}

/// Types and deletes at arbitrary places, as an author does.
#[test]
fn arbitrary_edits_leave_a_server_that_answers() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let path = root.join("bundle/manifests/csv.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::create_dir_all(root.join("bundle/metadata")).unwrap();
    fs::write(root.join("bundle/metadata/annotations.yaml"), "annotations: {}\n").unwrap();
    fs::write(&path, CSV).unwrap();
    let uri = format!("file://{}", path.display());
    let mut editor = Editor::open(&root);
    open(&mut editor, &uri, CSV);
    let pieces = [
        "[", "{", "\"", "- ", ": ", "\n", "\t", "|\n", "😀", "&a *a", "'", "---\n", "", "\r", "#",
        "}]",
    ];
    let lines = CSV.lines().count();
    // A generator of numbers that are the same in every run.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for version in 2..152 {
        let (line, character) = (next(lines + 3), next(40));
        let end = json!({"line": line + next(3), "character": character + next(6)});
        let range = json!({"start": {"line": line, "character": character}, "end": end});
        let text = pieces[next(pieces.len())];
        change(&mut editor, &uri, version, &json!([{"range": range, "text": text}]));
        let at = json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}});
        let method = ["completion", "hover", "definition", "documentSymbol"][version % 4];
        let response = editor.request(&format!("textDocument/{method}"), at);
        assert!(response.get("error").is_none(), "{response}");
    }
    // The same text as at the beginning has the same findings.
    change(&mut editor, &uri, 500, &json!([{"text": CSV}]));
    let after = editor.findings(&uri, 500);
    let mut fresh = Editor::open(&root);
    open(&mut fresh, &uri, CSV);
    assert_eq!(after, fresh.findings(&uri, 1));
    assert!(!after.is_empty());
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn links_out_of_the_workspace_are_not_read() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.yaml"), "kind: Secret\nstringData: {a: hunter2\n")
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("bundle/manifests")).unwrap();
    fs::create_dir_all(root.join("bundle/metadata")).unwrap();
    fs::write(root.join("bundle/metadata/annotations.yaml"), "annotations: {}\n").unwrap();
    fs::write(root.join("bundle/manifests/csv.yaml"), CSV).unwrap();
    let link = root.join("bundle/manifests/link.yaml");
    symlink(outside.path().join("secret.yaml"), &link).unwrap();
    symlink(outside.path().join("secret.yaml"), root.join("bundle/.opgate.yaml")).unwrap();
    let mut editor = Editor::open(&root);
    let uri = format!("file://{}", link.display());
    let found = editor.receive(|message| {
        message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri
    });
    let text = found.to_string();
    assert!(text.contains("leads out of the directory") && !text.contains("hunter2"), "{text}");
    // A waiver is not written through a link.
    let annotations = format!("file://{}", root.join("bundle/metadata/annotations.yaml").display());
    open(&mut editor, &annotations, "annotations: {}\n");
    let diagnostics = editor.findings(&annotations, 1);
    let whole = json!({"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}});
    let actions = editor.request(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": annotations}, "range": whole, "context": {"diagnostics": diagnostics}}),
    );
    assert!(!actions.to_string().contains("Waive"), "{actions}");
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn deep_and_large_texts_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let uri = format!("file://{}", root.join("manifests/a.yaml").display());
    fs::create_dir_all(root.join("manifests")).unwrap();
    fs::write(root.join("manifests/a.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
        .unwrap();
    let mut editor = Editor::open(&root);
    for (version, text, expected) in [
        (1, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n".to_owned(), None),
        (2, format!("apiVersion: v1\nkind: Pod\na: {}", "[".repeat(100_000)), Some("nests deeper")),
    ] {
        if version == 1 {
            open(&mut editor, &uri, &text);
        } else {
            change(&mut editor, &uri, version, &json!([{"text": text}]));
        }
        let found = json!(editor.findings(&uri, i64::try_from(version).unwrap())).to_string();
        if let Some(expected) = expected {
            assert!(found.contains(expected), "{version}: {found}");
        }
    }
    let large = format!("# {}\n", "x".repeat(17 << 20));
    change(&mut editor, &uri, 4, &json!([{"text": large}]));
    let logged = editor.receive(|message| {
        message["params"]["message"].as_str().is_some_and(|text| text.contains("too large"))
    });
    assert!(logged.to_string().contains("a.yaml"), "{logged}");
    assert_eq!(editor.end(), Some(0));
}

/// A component that the workspace names runs only if the user trusts the workspace, or names the configuration.
#[test]
fn modules_run_only_in_a_trusted_workspace() {
    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: [{name: c, image: d}]}\n";
    let configuration = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: resources\n  module: resources.wasm\n  settings: {require: [requests.cpu]}\n";
    for (options, runs) in [
        (json!({}), false),
        (json!({"trustWorkspace": false}), false),
        (json!({"trustWorkspace": true}), true),
        (json!({"config": "opgate.yaml"}), true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::copy(testkit::example_component("resources"), root.join("resources.wasm")).unwrap();
        fs::write(root.join("opgate.yaml"), configuration).unwrap();
        fs::write(root.join("pod.yaml"), POD).unwrap();
        let mut editor = Editor::start(&root);
        editor.request(
            "initialize",
            json!({
                "rootUri": format!("file://{}", root.display()),
                "capabilities": {},
                "initializationOptions": options,
            }),
        );
        editor.notify("initialized", json!({}));
        let uri = format!("file://{}", root.join("pod.yaml").display());
        open(&mut editor, &uri, POD);
        let found = editor.findings(&uri, 1);
        let is_found = found.iter().any(|finding| finding["code"] == "RES-1");
        assert_eq!(is_found, runs, "{options}: {found:?}");
        assert_eq!(editor.end(), Some(0));
    }
}

#[test]
fn session_ends_with_its_editor() {
    let directory = tempfile::tempdir().unwrap();
    // Before it began, and without `exit`.
    assert_eq!(Editor::start(directory.path()).wait(), Some(0));
    assert_eq!(Editor::open(directory.path()).wait(), Some(0));
    let mut editor = Editor::open(directory.path());
    editor.request("shutdown", Value::Null);
    let late = editor.request("textDocument/hover", json!({}));
    assert_eq!(late["error"]["code"], -32_600, "{late}");
    editor.send(&json!({"method": "exit"}));
    assert_eq!(editor.wait(), Some(0));
}

/// File, line from 1, and rule.
type Place = (String, u64, String);

fn violations_of_check(root: &Path) -> BTreeSet<Place> {
    let output = Command::new(BINARY)
        .args(["check", "--output", "json"])
        .arg(root)
        .env_remove("OPGATE_CONFIG")
        .output()
        .unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let violations = results.as_array().unwrap().iter().flat_map(|result| {
        result["violations"].as_array().unwrap().iter().filter(|violation| {
            let file = violation["location"]["file"].as_str().unwrap_or_default();
            Path::new(file).is_file()
        })
    });
    let place = |violation: &Value| {
        let location = &violation["location"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&location["file"]), location["line"].as_u64().unwrap(), text(&violation["rule"]))
    };
    violations.map(place).collect()
}

fn findings_of_workspace(root: &Path) -> BTreeSet<Place> {
    let mut editor = Editor::open(root);
    let mut found = std::collections::BTreeMap::new();
    loop {
        let message = editor.receive(|message| {
            message["method"] == "textDocument/publishDiagnostics"
                || message["params"]["message"].as_str().is_some_and(|m| m.starts_with("checked"))
        });
        if message["method"] != "textDocument/publishDiagnostics" {
            break;
        }
        let uri = message["params"]["uri"].as_str().unwrap().to_owned();
        found.insert(uri, message["params"]["diagnostics"].clone());
    }
    assert_eq!(editor.end(), Some(0));
    let mut places = BTreeSet::new();
    for (uri, findings) in found {
        for finding in findings.as_array().unwrap() {
            let Some(rule) = finding["code"].as_str() else { continue };
            let line = finding["range"]["start"]["line"].as_u64().unwrap() + 1;
            places.insert((uri.trim_start_matches("file://").to_owned(), line, rule.to_owned()));
        }
    }
    places
}

#[test]
fn findings_of_a_workspace_are_those_of_check() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for (fixture, least) in
        [("bundle-broken", 5), ("catalog-broken", 4), ("plain-broken", 1), ("bundle-valid", 0)]
    {
        let root = fixtures.join(fixture);
        let (found, expected) = (findings_of_workspace(&root), violations_of_check(&root));
        // What has no line of a file is shown at another place.
        let missing: Vec<_> = expected.difference(&found).collect();
        assert!(missing.is_empty(), "{fixture}: {missing:?}");
        assert!(found.len() >= least, "{fixture}: {found:?}");
    }
}
