//! What is printed: nothing of a Secret, and nothing that a runner of CI jobs or a terminal takes for a command.

use serde_json::{Value, json};

use crate::check::{BUNDLE_WITHOUT_CLASS, check, command, directory, err, out, status, write};

/// `{"auths":{"registry.redhat.io":{"auth":"hunter2"},"quay.io":{"auth":"hunter2"}}}`
const DOCKER_CONFIG: &str = "eyJhdXRocyI6eyJyZWdpc3RyeS5yZWRoYXQuaW8iOnsiYXV0aCI6Imh1bnRlcjIifSwicXVheS5pbyI6eyJhdXRoIjoiaHVudGVyMiJ9fX0=";

const FORMATS: [&str; 7] = ["table", "json", "jsonl", "junit", "sarif", "github", "html"];

const CATALOG_SOURCE: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: c, namespace: openshift-marketplace}
spec: {sourceType: grpc, image: 'quay.io/a/b:latest', secrets: [s]}
";

fn secret() -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  namespace: openshift-marketplace\ntype: kubernetes.io/dockerconfigjson\ndata:\n  .dockerconfigjson: {DOCKER_CONFIG}\n"
    )
}

/// Both streams.
fn run_and_capture(directory: &tempfile::TempDir, arguments: &[&str]) -> String {
    let output = check(directory, arguments);
    status(&output);
    out(&output) + &err(&output)
}

#[test]
fn secret_lines_are_not_printed() {
    let directory = directory();
    write(&directory, "catalog.yaml", CATALOG_SOURCE);
    write(&directory, "secret.yaml", secret());
    // The object of the violation and a Secret on one line, and in a list of several lines.
    let hidden = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "stringData": {"p": "hunter2"},
    });
    let classless = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "classless"},
        "spec": {"source": {"type": "image", "image": {"ref": "quay.io/example/etcd@sha256:0123"}}},
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [hidden, classless]});
    write(&directory, "line.json", list.to_string());
    write(&directory, "lines.json", format!("{list:#}"));
    // A manifest of a bundle, which is read with all others of it.
    write(&directory, "bundle-broken/manifests/secret.yaml", secret());
    write(&directory, "broken.yaml", secret() + "  [\n");
    let shown = run_and_capture(&directory, &["--cluster-state", "catalog.yaml", "secret.yaml"]);
    assert!(shown.contains("secret.yaml:8:3: ") && shown.contains("CAT-21"), "{shown}");
    let shown = run_and_capture(&directory, &["line.json", "lines.json", "classless.yaml"]);
    assert!(shown.matches("RPK-12").count() >= 3, "{shown}");
    assert!(shown.contains("5 | spec:"), "lines of other objects are shown: {shown}");
    for format in FORMATS {
        let all = ["secret.yaml", "line.json", "lines.json", "bundle-broken", "broken.yaml"];
        let mut arguments = vec!["--cluster-state", "catalog.yaml", "-v", "--output", format];
        if matches!(format, "json" | "jsonl") {
            arguments.push("--explain");
        }
        arguments.extend(all);
        let shown = run_and_capture(&directory, &arguments);
        for hidden in [DOCKER_CONFIG, "hunter2", "eyJhdXRo"] {
            assert!(!shown.contains(hidden), "{format}: {shown}");
        }
    }
}

/// Names of files that a runner or a terminal would act on.
const FILE_NAMES: [&str; 6] = [
    "::error file=x::owned.yaml",
    "a\n::add-mask::b.yaml",
    "##[group]c.yaml",
    "##vso[task.complete]d.yaml",
    "e\u{200e}\u{200f}\u{61c}\u{1b}[2Jf.yaml",
    "section_start:1:g\r\u{1b}[0K.yaml",
];

/// What the command line itself refuses quotes arguments.
#[test]
fn printed_arguments_are_not_runner_commands() {
    let directory = directory();
    for argument in ["--a\n::error::b", "--##[group]", "--a\u{1b}[2J"] {
        let output = command(directory.path(), &["check", argument]).output().unwrap();
        let said = err(&output);
        assert!(status(&output) == 2 && said.contains("unexpected argument"), "{said}");
        assert!(!said.lines().any(|line| line.starts_with("::")), "{said}");
        assert!(!said.contains("##[") && !said.contains("\u{1b}[2J"), "{said}");
    }
}

#[test]
fn printed_file_names_are_not_runner_commands() {
    let directory = directory();
    for name in FILE_NAMES {
        write(&directory, name, BUNDLE_WITHOUT_CLASS);
        write(&directory, &format!("{name}.broken.yaml"), "kind: [");
    }
    let names: Vec<String> = FILE_NAMES
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("{name}.broken.yaml")])
        .collect();
    for format in FORMATS {
        for color in ["never", "always"] {
            let mut arguments = vec!["check", "--color", color, "-v", "--output", format, "--"];
            arguments.extend(names.iter().map(String::as_str));
            let output = command(directory.path(), &arguments).output().unwrap();
            let (out, err) = (out(&output), err(&output));
            for (stream, text) in [("stdout", &out), ("stderr", &err)] {
                let shown = format!("{format} {color} {stream}: {text}");
                let acts = |line: &str| {
                    // The runner does not search the text after `::error` for more commands.
                    let is_looked_at = !line.starts_with("::error file=");
                    let is_command = line.contains("##[") || line.contains("##vso[");
                    let is_unseen = ["\u{200e}", "\u{200f}", "\u{61c}", "\u{1b}[2J", "\u{1b}[0K"];
                    is_looked_at && is_command || is_unseen.iter().any(|text| line.contains(text))
                };
                let found = text.split(['\n', '\r']).find(|line| acts(line));
                assert_eq!(found, None, "{shown}");
                for line in text.split(['\n', '\r']).filter(|line| line.trim().starts_with("::")) {
                    let is_annotation =
                        line.starts_with("::error file=") || line.starts_with("::warning file=");
                    assert!(
                        format == "github" && stream == "stdout" && is_annotation,
                        "{line} in {shown}"
                    );
                }
            }
            let count = |text: &str| out.matches(text).count();
            match format {
                "github" => {
                    assert!(out.contains("file=a%0A%3A%3Aadd-mask%3A%3Ab.yaml,line="), "{out}");
                }
                "sarif" => {
                    serde_json::from_str::<Value>(&out).unwrap();
                    assert!(out.contains("\"uri\": \"a%0A%3A%3Aadd-mask%3A%3Ab.yaml\""), "{out}");
                }
                "json" => {
                    let all: Vec<Value> = serde_json::from_str(&out).unwrap();
                    let sources: Vec<_> =
                        all.iter().filter_map(|one| one["source"].as_str()).collect();
                    // What cannot be read stands there once, by the name that it has.
                    for name in &names {
                        assert_eq!(
                            sources.iter().filter(|source| source == &name).count(),
                            1,
                            "{name:?} in {out}"
                        );
                    }
                }
                "table" if color == "never" => {
                    assert_eq!(count("deny RPK-12"), FILE_NAMES.len(), "{out}");
                }
                _ => {}
            }
        }
    }
}
