//! Completions, man pages, the version.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::BINARY;
use crate::cli::{directory, err, opgate, out, write};

#[test]
fn every_shell_completes_commands_flags_and_ids() {
    let directory = directory();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = opgate(directory.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let script = out(&output);
        for part in ["network-policy", "fail-on"] {
            assert!(script.contains(part), "{shell} has no {part}");
        }
        // PowerShell completes commands and flags only.
        for part in ["jsonl", "RPK-01", "DOC-12", "operator-group"] {
            assert!(shell == "powershell" || script.contains(part), "{shell} has no {part}");
        }
        assert!(!script.contains("apart"), "{shell} has what nobody types");
    }
    let wrong = opgate(directory.path(), &["completions", "tcsh"]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// Where there is a bash, it completes.
#[test]
fn bash_completes() {
    let directory = directory();
    write(&directory, "opgate.bash", out(&opgate(directory.path(), &["completions", "bash"])));
    for (words, expected) in [
        ("opgate rules explain RPK-0", "RPK-01"),
        ("opgate che", "check"),
        ("opgate replay -o ju", "junit"),
        ("opgate policy inspect operator-g", "operator-group"),
    ] {
        let script = format!(
            "source ./opgate.bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _opgate opgate \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        let run = bash.args(["--norc", "-c", &script]).current_dir(directory.path());
        let Ok(output) = run.stdin(Stdio::null()).output() else { return };
        assert!(
            out(&output).lines().any(|line| line == expected),
            "{words}: {}{}",
            out(&output),
            err(&output)
        );
    }
}

#[test]
fn each_command_has_a_man_page() {
    let directory = directory();
    let output = opgate(directory.path(), &["man", "man1"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for name in ["opgate", "opgate-check", "opgate-rules-explain", "opgate-config-validate"] {
        let page =
            std::fs::read_to_string(directory.path().join(format!("man1/{name}.1"))).unwrap();
        let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        let version = format!("\"opgate {}\"", env!("CARGO_PKG_VERSION"));
        assert!(title.contains(&version) && page.contains("docs/"), "{name}: {page}");
    }
    assert!(!directory.path().join("man1/opgate-apart.1").exists());
    write(&directory, "file", "");
    let wrong = opgate(directory.path(), &["man", "file/x"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).starts_with("error: file/x: "), "{}", err(&wrong));
}

#[test]
fn version_prints_contract_and_build_versions() {
    let directory = directory();
    let output = opgate(directory.path(), &["version", "-o", "json"]);
    let version: Value = serde_json::from_str(&out(&output)).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let contract = version["contract"].as_str().unwrap();
    assert!(read("wit/policy.wit").contains(&format!("package opgate:policy@{contract};")));
    let wasmtime = version["wasmtime"].as_str().unwrap();
    assert!(read("Cargo.lock").contains(&format!("name = \"wasmtime\"\nversion = \"{wasmtime}\"")));
    let rules: Value =
        serde_json::from_str(&out(&opgate(directory.path(), &["rules", "-o", "json"]))).unwrap();
    assert_eq!(version["rules"], rules.as_array().unwrap().len());
    assert_eq!(version["policies"], 15);
    assert_eq!(version["target"].as_str().unwrap().split('-').next(), Some(std::env::consts::ARCH));
    let short = Command::new(BINARY).arg("--version").output().unwrap();
    assert_eq!(out(&short), format!("opgate {}\n", version["version"].as_str().unwrap()));
    let text = out(&opgate(directory.path(), &["version"]));
    assert!(text.contains(&format!("opgate:policy@{contract}")), "{text}");
}
