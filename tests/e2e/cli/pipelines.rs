//! The snippets of docs/pipelines.md and the hooks of pre-commit, run as scripts with the binary.
//!
//! ```text
//! page ─▶ blocks after a comment ─▶ `run:` and `script:` lines ─▶ sh -e, in a directory like the page's
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::BINARY;
use crate::cli::{directory, err, out, write};

const DENIED_REVIEW: &str = "007-update-bundles-combo-tag-ref.json";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The block after a comment.
fn block(kind: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/pipelines.md")).unwrap();
    let (_, rest) = page.split_once(&format!("<!-- {kind} -->\n")).unwrap();
    let lines = rest.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| line.strip_prefix("    ").unwrap_or("").to_owned() + "\n").collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// A repository as the page has it, with opgate on the PATH.
fn repository(bundle: &str) -> TempDir {
    let directory = directory();
    let reviews = directory.path().join("reviews");
    let all: Vec<_> =
        std::fs::read_dir(&reviews).unwrap().map(|entry| entry.unwrap().path()).collect();
    for (name, denied) in [("allowed", false), ("denied", true)] {
        std::fs::create_dir(reviews.join(name)).unwrap();
        for path in all.iter().filter(|path| path.ends_with(DENIED_REVIEW) == denied) {
            std::fs::rename(path, reviews.join(name).join(path.file_name().unwrap())).unwrap();
        }
    }
    copy(&root().join("tests/fixtures").join(bundle), &directory.path().join("bundle"));
    write(&directory, "opgate.yaml", "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n");
    std::fs::create_dir(directory.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(BINARY, directory.path().join("bin/opgate")).unwrap();
    directory
}

fn sh(directory: &TempDir, script: &str) -> Output {
    let bin = directory.path().join("bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(directory.path()).env("PATH", path);
    command.env_remove("OPGATE_CONFIG").output().unwrap()
}

/// The commands of a snippet, as the system runs them.
fn scripts(kind: &str) -> Vec<String> {
    let text = block(kind);
    if kind == "shell" {
        return vec![text];
    }
    let value: Value = serde_saphyr::from_str(&text).unwrap();
    if kind == "gitlab" {
        let lines = value["opgate"]["script"].as_array().unwrap().iter();
        return vec![lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")];
    }
    let steps = value["jobs"]["check"]["steps"].as_array().unwrap().iter();
    steps.filter_map(|step| Some(step.get("run")?.as_str()?.to_owned())).collect()
}

#[test]
fn snippets_fail_on_denied_input() {
    for (kind, steps) in [("github", 5), ("gitlab", 1), ("shell", 1)] {
        let scripts = scripts(kind);
        assert_eq!(scripts.len(), steps, "{kind}");
        for (bundle, ok) in [("bundle-valid", true), ("bundle-broken", false)] {
            let directory = repository(bundle);
            let mut failed = Vec::new();
            for script in &scripts {
                let output = sh(&directory, script);
                let said = format!("{kind} {bundle}: {script}: {}{}", out(&output), err(&output));
                match output.status.code() {
                    Some(0) => {}
                    Some(1) => failed.push(said),
                    other => panic!("{other:?}: {said}"),
                }
            }
            assert_eq!(failed.is_empty(), ok, "{failed:?}");
            assert!(failed.len() <= 1, "{failed:?}");
            let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
            assert!(read("reviews.xml").contains("<testsuites tests=\"13\" failures=\"0\""));
            if kind == "github" {
                let sarif: Value = serde_json::from_str(&read("opgate.sarif")).unwrap();
                let results = sarif["runs"][0]["results"].as_array().unwrap();
                assert_eq!(results.iter().any(|result| result["level"] == "error"), !ok);
            } else {
                assert_eq!(read("opgate.xml").contains("<failure"), !ok);
            }
        }
    }
}

/// The page is written also if the check fails.
#[test]
fn page_snippet_keeps_the_page_of_a_failed_check() {
    for (bundle, code, denied) in [("bundle-valid", 0, "0"), ("bundle-broken", 1, "1")] {
        let directory = repository(bundle);
        let output = sh(&directory, &block("page"));
        assert_eq!(output.status.code(), Some(code), "{bundle}: {}", err(&output));
        let page = std::fs::read_to_string(directory.path().join("opgate.html")).unwrap();
        let summary = format!("{denied} denied, 0 errors</title>");
        assert!(page.contains(&summary), "{bundle}: {page}");
    }
}

/// The hooks get the staged files, or none.
#[test]
fn pre_commit_hooks_run() {
    let text = std::fs::read_to_string(root().join(".pre-commit-hooks.yaml")).unwrap();
    let hooks: Value = serde_saphyr::from_str(&text).unwrap();
    let page = std::fs::read_to_string(root().join("docs/pipelines.md")).unwrap();
    let good = "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: a, namespace: b}\n";
    let bad = "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata: {name: x}\nspec: {source: {type: image}}\n";
    for hook in hooks.as_array().unwrap() {
        let id = hook["id"].as_str().unwrap();
        assert!(page.contains(&format!("`{id}`")), "{id} is not on the page");
        assert_eq!(hook["language"], "system");
        let args = hook.get("args").and_then(Value::as_array).into_iter().flatten();
        let args: Vec<_> = args.map(|arg| arg.as_str().unwrap()).collect();
        let files = if hook.get("pass_filenames") == Some(&Value::Bool(false)) {
            ""
        } else {
            "one.yaml two.yaml"
        };
        let command = format!("{} {} {files}", hook["entry"].as_str().unwrap(), args.join(" "));
        for (bundle, ok) in [("bundle-valid", true), ("bundle-broken", false)] {
            let directory = repository(bundle);
            let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
            let (one, two) = match (id, ok) {
                ("opgate-config", true) => (head.to_owned(), head.to_owned()),
                ("opgate-config", false) => (head.to_owned(), format!("{head}polices: []\n")),
                (_, true) => (good.to_owned(), good.to_owned()),
                (_, false) => (good.to_owned(), bad.to_owned()),
            };
            let one_more = one.clone();
            write(&directory, "one.yaml", one);
            write(&directory, "two.yaml", two);
            let output = sh(&directory, &command);
            let said = format!("{command}: {}{}", out(&output), err(&output));
            assert_eq!(output.status.code(), Some(i32::from(!ok)), "{said}");
            assert_eq!(err(&output).is_empty(), ok || id != "opgate-config", "{said}");
            // The name of a file in a pull request chooses no configuration.
            if !files.is_empty() && !ok {
                write(&directory, "--config=off.yaml", one_more);
                write(&directory, "off.yaml", format!("{head}policies: []\n"));
                let output = sh(&directory, &format!("{command} --config=off.yaml"));
                let said = format!("{id}: {}{}", out(&output), err(&output));
                assert_eq!(output.status.code(), Some(1), "{said}");
            }
        }
    }
}
