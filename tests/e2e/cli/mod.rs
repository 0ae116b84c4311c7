//! The command line: what all commands share, and helpers for the tests of commands.

mod completions;
mod escaping;
mod help;
mod pipelines;
mod sarif_conformance;
mod verbosity;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{create_bundle, good_spec};

use crate::BINARY;

pub(crate) fn opgate(directory: &Path, arguments: &[&str]) -> Output {
    opgate_with_input(directory, arguments, "")
}

pub(crate) fn opgate_with_input(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(BINARY)
        .args(arguments)
        .current_dir(directory)
        .env("OPGATE_CACHE_DIR", directory.join("cache"))
        .env_remove("OPGATE_CONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses its arguments does not read.
    if let Err(error) = child.stdin.take().unwrap().write_all(input.as_bytes()) {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
    child.wait_with_output().unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A directory with the recorded reviews in `reviews/`.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let reviews = directory.path().join("reviews");
    std::fs::create_dir(&reviews).unwrap();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("reviews")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, reviews.join(path.file_name().unwrap())).unwrap();
    }
    directory
}

pub(crate) fn write(directory: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = directory.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Names of policies differ in length. The table is readable only with aligned columns.
#[test]
fn rule_titles_are_aligned() {
    let directory = tempfile::tempdir().unwrap();
    let table = out(&opgate(directory.path(), &["rules"]));
    let list: Vec<Value> =
        serde_json::from_str(&out(&opgate(directory.path(), &["rules", "--output", "json"])))
            .unwrap();
    assert_eq!(table.lines().count(), list.len());
    let columns = table.lines().zip(&list).map(|(line, rule)| {
        let (policy, title) = (rule["policy"].as_str().unwrap(), rule["title"].as_str().unwrap());
        let names = [policy, title].map(|name| line.find(&format!(" {name}")));
        assert!(line.starts_with(rule["id"].as_str().unwrap()), "{line}");
        names
    });
    let columns: std::collections::BTreeSet<_> = columns.collect();
    assert_eq!(columns.len(), 1, "{table}");
}

#[test]
fn demo_prints_a_denial() {
    let directory = tempfile::tempdir().unwrap();
    let output = opgate(directory.path(), &["demo"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let shown = out(&output);
    let denials = [
        ("RPK-01", "bundle.spec is immutable\n"),
        ("OPG-18", "intersecting operatorgroups provide the same apis: "),
        ("CSV-92", "only AllNamespaces InstallModeType is supported when conversionCRDs is"),
        ("CRD-13", "risk of data loss updating \"clusters.example.com\": new CRD removes"),
        ("OL1-05", "OLM 1.0 does not support automatic updates to the next major version or"),
    ];
    for (rule, message) in denials {
        let (_, after) =
            shown.split_once(&format!("({rule}, ")).unwrap_or_else(|| panic!("{shown}"));
        let next = after.lines().nth(1).unwrap();
        assert!(format!("{next}\n").trim_start().starts_with(message), "{shown}");
    }
    assert_eq!(shown.matches("denied  ").count(), denials.len(), "{shown}");
    // One screen.
    assert!(shown.lines().count() <= 24, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn closed_output_pipe_is_not_an_error() {
    let directory = directory();
    let line = create_bundle("u", "b", &good_spec()).to_string() + "\n";
    write(&directory, "many.jsonl", line.repeat(3_000));
    let script =
        format!("{BINARY} replay --output jsonl many.jsonl | head -1; exit ${{PIPESTATUS[0]}}");
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert_eq!((output.status.code(), lines(&output).len()), (Some(0), 1), "{}", err(&output));
    // What was found until then counts: a gate in a pipeline does not open because of a pager.
    let denied = create_bundle("u", "b", &json!({})).to_string() + "\n";
    write(&directory, "many.jsonl", denied.repeat(3_000));
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
}

/// Both ends of a terminal.
fn open_terminal() -> (std::fs::File, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = std::fs::File::options().read(true).write(true).open(name).unwrap();
    (ours.into(), theirs)
}

/// What a command shows on a terminal, and how it ends.
fn run_in_terminal(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let (mut ours, theirs) = open_terminal();
    let mut child = Command::new(BINARY)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let mut bytes = Vec::new();
    let mut block = [0; 4_096];
    // The last reader of the other end is gone.
    while let Ok(count @ 1..) = std::io::Read::read(&mut ours, &mut block) {
        bytes.extend_from_slice(&block[..count]);
    }
    let status = child.wait().unwrap();
    (status.code(), String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn commands_print_to_a_terminal() {
    let directory = directory();
    write(&directory, "bundle.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n");
    for (arguments, status, expected) in [
        (&["rules"][..], 0, "RPK-01"),
        (&["policy", "list"], 0, "operator-group"),
        (&["check", "bundle.yaml"], 0, "1 passed"),
        (&["check", "nowhere"], 2, "nowhere: No such file"),
        (&["replay", "nowhere"], 2, "nowhere: No such file"),
        (&["--log", "debug", "demo"], 0, "allowed"),
        (&["--help"], 0, "opgate"),
    ] {
        let (code, text) = run_in_terminal(directory.path(), arguments);
        assert!(
            !text.contains("panicked") && !text.contains("crate feature"),
            "{arguments:?}: {text}"
        );
        assert_eq!(code, Some(status), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

/// The reader of the output can stop before the end: the exit status of the command does not
/// change.
#[test]
fn closed_output_pipe_does_not_change_the_exit_status() {
    let directory = directory();
    write(&directory, "good.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n");
    for (arguments, status) in [
        ("rules", 0),
        ("rules --output json", 0),
        ("policy list", 0),
        ("policy inspect operator-group", 0),
        ("check good.yaml", 0),
        ("check --output json good.yaml", 0),
        ("check --output jsonl good.yaml", 0),
        ("check --output sarif good.yaml", 0),
        ("check --output junit good.yaml", 0),
        ("check nowhere", 2),
        ("replay nowhere", 2),
        ("--help", 0),
    ] {
        for to in ["| true", "2>&1 | true", "2>&1 >/dev/null | true"] {
            // The command starts after the reader has closed the pipe.
            let script = format!(
                "{{ read line < gate; {BINARY} {arguments}; echo $? > status; }} {to}; true"
            );
            let gate = directory.path().join("gate");
            let _ = std::fs::remove_file(&gate);
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &gate,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                0,
            )
            .unwrap();
            let script = script.replace("| true", "| { exec < /dev/null; echo > gate; }");
            let mut command = Command::new("bash");
            let run = command.args(["-c", &script]).current_dir(directory.path()).output().unwrap();
            let found = std::fs::read_to_string(directory.path().join("status")).unwrap();
            assert_eq!(found.trim(), status.to_string(), "{arguments} {to}: {}", err(&run));
        }
    }
}
