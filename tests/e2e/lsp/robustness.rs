//! What a workspace or an editor does must not end the server, or lead it out of the workspace. Its findings are those of
//! `opgate check`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use testkit::editor::Editor;

use crate::BINARY;

const CSV: &str =
    include_str!("../../fixtures/bundle-valid/manifests/etcdoperator.clusterserviceversion.yaml");

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
    let mut editor = Editor::open(BINARY, &root);
    editor.open_text(&uri, CSV);
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
        editor.change(&uri, version, &json!([{"range": range, "text": text}]));
        let at = json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}});
        let method = ["completion", "hover", "definition", "documentSymbol"][version % 4];
        let response = editor.request(&format!("textDocument/{method}"), at);
        assert!(response.get("error").is_none(), "{response}");
    }
    // The same text as at the beginning has the same findings.
    editor.change(&uri, 500, &json!([{"text": CSV}]));
    let after = editor.findings(&uri, 500);
    let mut fresh = Editor::open(BINARY, &root);
    fresh.open_text(&uri, CSV);
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
    let mut editor = Editor::open(BINARY, &root);
    let uri = format!("file://{}", link.display());
    let found = editor.receive(|message| {
        message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri
    });
    let text = found.to_string();
    assert!(text.contains("leads out of the directory") && !text.contains("hunter2"), "{text}");
    // A waiver is not written through a link.
    let annotations = format!("file://{}", root.join("bundle/metadata/annotations.yaml").display());
    editor.open_text(&annotations, "annotations: {}\n");
    let diagnostics = editor.findings(&annotations, 1);
    let whole = json!({"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}});
    let actions = editor.request(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": annotations}, "range": whole, "context": {"diagnostics": diagnostics}}),
    );
    assert!(!actions.to_string().contains("Waive"), "{actions}");
    assert_eq!(editor.end(), Some(0));
}

fn expect_log(editor: &mut Editor, name: &str, why: &str) {
    let logged = editor.receive(|message| {
        message["params"]["message"].as_str().is_some_and(|text| text.contains(why))
    });
    assert!(logged.to_string().contains(name), "{logged}");
}

#[test]
fn deep_and_large_texts_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let uri = format!("file://{}", root.join("manifests/a.yaml").display());
    fs::create_dir_all(root.join("manifests")).unwrap();
    fs::write(root.join("manifests/a.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
        .unwrap();
    let mut editor = Editor::open(BINARY, &root);
    for (version, text, expected) in [
        (1, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n".to_owned(), None),
        (2, format!("apiVersion: v1\nkind: Pod\na: {}", "[".repeat(100_000)), Some("nests deeper")),
    ] {
        if version == 1 {
            editor.open_text(&uri, &text);
        } else {
            editor.change(&uri, version, &json!([{"text": text}]));
        }
        let found = json!(editor.findings(&uri, i64::try_from(version).unwrap())).to_string();
        if let Some(expected) = expected {
            assert!(found.contains(expected), "{version}: {found}");
        }
    }
    let large = format!("# {}\n", "x".repeat(17 << 20));
    editor.change(&uri, 4, &json!([{"text": large}]));
    expect_log(&mut editor, "a.yaml", "too large");
    // All of them together.
    let text = format!("# {}\n", "x".repeat(15 << 20));
    let uri = |number: usize| format!("file://{}", root.join(format!("{number}.yaml")).display());
    (0..5).for_each(|number| editor.open_text(&uri(number), &text));
    expect_log(&mut editor, "4.yaml", "all open texts exceed");
    editor.notify("textDocument/didClose", json!({"textDocument": {"uri": uri(0)}}));
    editor.open_text(&uri(4), "kind: Pod\n");
    editor.findings(&uri(4), 1);
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
        let mut editor = Editor::start(BINARY, &root);
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
        editor.open_text(&uri, POD);
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
    assert_eq!(Editor::start(BINARY, directory.path()).wait(), Some(0));
    assert_eq!(Editor::open(BINARY, directory.path()).wait(), Some(0));
    let mut editor = Editor::open(BINARY, directory.path());
    editor.request("shutdown", Value::Null);
    let late = editor.request("textDocument/hover", json!({}));
    assert_eq!(late["error"]["code"], -32_600, "{late}");
    editor.send(&json!({"method": "exit"}));
    assert_eq!(editor.wait(), Some(0));
    let mut editor = Editor::open(BINARY, directory.path());
    editor.send(&json!({"method": "exit"}));
    assert_eq!(editor.wait(), Some(1));
}

/// File, line from 1, and rule.
type Place = (String, u64, String);

fn violations_of_check(root: &Path) -> BTreeSet<Place> {
    let mut command = Command::new(BINARY);
    command.args(["check", "--output", "json"]).arg(root).env_remove("OPGATE_CONFIG");
    let configuration = root.join("opgate.yaml");
    if configuration.exists() {
        command.arg("--config").arg(configuration);
    }
    let output = command.output().unwrap();
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
    let mut editor = Editor::open(BINARY, root);
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

/// Manifests in several files: the label of the Namespace decides whether a policy evaluates the CatalogSource.
#[test]
fn findings_of_manifests_depend_on_other_files_as_in_check() {
    for (label, count) in [("a", 1), ("b", 0)] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::write(root.join("opgate.yaml"), MATCHED_NAMESPACES).unwrap();
        fs::write(root.join("source.yaml"), CATALOG_SOURCE).unwrap();
        fs::write(root.join("z-namespace.yaml"), namespace(label)).unwrap();
        // The last object of a name counts.
        fs::write(root.join("namespace.yaml"), namespace("c")).unwrap();
        let (found, expected) = (findings_of_workspace(&root), violations_of_check(&root));
        assert_eq!(found, expected);
        assert_eq!(found.len(), count, "{found:?}");
    }
}

const MATCHED_NAMESPACES: &str = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: catalog-source\n  match: {namespaceSelector: {matchLabels: {team: a}}}\n";
const CATALOG_SOURCE: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: cat, namespace: olm}\nspec: {sourceType: grpc}\n";

fn namespace(team: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: olm, labels: {{team: {team}}}}}\n")
}

/// Returns a text after edits.
fn edited(text: &str, edits: &Value) -> String {
    let offset = |position: &Value| {
        let number = |name: &str| usize::try_from(position[name].as_u64().unwrap()).unwrap();
        let lines = text.split_inclusive('\n').take(number("line"));
        lines.map(str::len).sum::<usize>() + number("character")
    };
    let mut edits: Vec<_> = edits.as_array().unwrap().iter().collect();
    edits.sort_by_key(|edit| offset(&edit["range"]["start"]));
    let mut new = text.to_owned();
    for edit in edits.iter().rev() {
        let range = offset(&edit["range"]["start"])..offset(&edit["range"]["end"]);
        new.replace_range(range, edit["newText"].as_str().unwrap());
    }
    new
}

/// Of a file with and without changes that are not saved.
#[test]
fn all_fixes_of_a_file_are_those_of_check() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle-valid");
    let misspelt = CSV.replace("  minKubeVersion", "  # kept\n  minKubeVersion");
    let annotations = fs::read_to_string(fixtures.join("metadata/annotations.yaml")).unwrap();
    let without_types: String = annotations
        .split_inclusive('\n')
        .filter(|line| !line.contains("mediatype.v1") && !line.contains("manifests.v1"))
        .collect();
    let duplicate = "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: a, namespace: b}\nspec:\n  targetNamespaces:\n  - b\n  - b # twice\n";
    for (file, text, is_fixed) in [
        ("metadata/annotations.yaml", without_types.as_str(), true),
        ("metadata/annotations.yaml", annotations.as_str(), false),
        ("manifests/etcdoperator.clusterserviceversion.yaml", misspelt.as_str(), false),
        ("group.yaml", duplicate, true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let bundle = root.join("bundle");
        super::session::copy(&fixtures, &bundle);
        let path = if file.contains('/') { bundle.join(file) } else { root.join(file) };
        fs::write(&path, "kind: Pod\napiVersion: v1\n").unwrap();
        let uri = format!("file://{}", path.display());
        let mut editor = Editor::open(BINARY, &root);
        editor.open_text(&uri, text);
        let actions = editor.fix_all(&uri);
        let edits = &actions[0]["edit"]["changes"][&uri];
        assert_eq!(edits.is_array(), is_fixed, "{file}: {actions}");
        let fixed = if is_fixed { edited(text, edits) } else { text.to_owned() };
        assert_eq!(editor.end(), Some(0));
        fs::write(&path, text).unwrap();
        let unit = if file.contains('/') { &bundle } else { &path };
        let status = Command::new(BINARY).args(["check", "--fix"]).arg(unit).output().unwrap();
        assert!(status.status.code().is_some_and(|code| code < 2), "{status:?}");
        assert_eq!(fixed, fs::read_to_string(&path).unwrap(), "{file}");
    }
}

#[test]
fn file_outside_of_the_workspace_has_findings_while_it_is_open() {
    let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = outside.path().canonicalize().unwrap();
    let uri = |name: &str| format!("file://{}", outside.join(name).display());
    for name in ["a.yaml", "b.yaml", "c.yaml"] {
        fs::write(outside.join(name), CATALOG_SOURCE).unwrap();
    }
    let mut editor = Editor::open(BINARY, &workspace.path().canonicalize().unwrap());
    // Half-written from the beginning.
    editor.open_text(&uri("c.yaml"), &format!("{CATALOG_SOURCE}x: [\n"));
    let found = editor.findings(&uri("c.yaml"), 1);
    assert!(json!(found).to_string().contains("not YAML"), "{found:?}");
    editor.open_text(&uri("a.yaml"), CATALOG_SOURCE);
    assert_eq!(editor.findings(&uri("a.yaml"), 1).len(), 1);
    editor.notify("textDocument/didClose", json!({"textDocument": {"uri": uri("a.yaml")}}));
    editor.open_text(&uri("b.yaml"), CATALOG_SOURCE);
    let mut last = Value::Null;
    loop {
        let published =
            editor.receive(|message| message["method"] == "textDocument/publishDiagnostics");
        if published["params"]["uri"] == uri("b.yaml") {
            break;
        }
        last = published["params"]["diagnostics"].clone();
    }
    assert_eq!(last, json!([]));
    assert_eq!(editor.end(), Some(0));
}
