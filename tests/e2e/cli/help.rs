//! The help of every command: examples, a page of the documentation, and nothing that the index in
//! docs/command-line.md leaves out.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::BINARY;
use crate::cli::{directory, err, opgate, out};

/// Every command with its help, by its path.
fn all_help_texts() -> Vec<(Vec<String>, String)> {
    let mut all = Vec::new();
    let mut todo = vec![Vec::new()];
    while let Some(path) = todo.pop() {
        let arguments: Vec<_> =
            path.iter().map(String::as_str).chain(std::iter::once("--help")).collect();
        let output = opgate(Path::new("."), &arguments);
        assert_eq!(output.status.code(), Some(0), "{path:?}: {}", err(&output));
        let help = out(&output);
        let commands = help.split("\nCommands:\n").nth(1).unwrap_or_default();
        for line in commands.lines().take_while(|line| line.starts_with("  ")) {
            // Descriptions go on in deeper lines.
            let name = line.trim_start().split(' ').next().unwrap();
            if line.starts_with("  ") && !line.starts_with("   ") && name != "help" {
                todo.push(path.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
        all.push((path, help));
    }
    assert!(all.len() > 30, "{}", all.len());
    all
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_help_has_examples_and_a_page() {
    let mut wrong = Vec::new();
    for (path, help) in all_help_texts() {
        let name = path.join(" ");
        let has_example = help.lines().any(|line| {
            let line = line.strip_prefix("  ").unwrap_or_default();
            line.contains(&format!("opgate {name}")) && !line.starts_with(' ')
        });
        let pages = help.split(|c: char| c.is_whitespace() || "()`,;:".contains(c));
        let pages: Vec<_> = pages.filter(|word| word.starts_with("docs/")).collect();
        let is_there = |page: &&str| {
            let page = page.trim_end_matches('.');
            Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page).exists()
        };
        if !has_example || pages.is_empty() || !pages.iter().all(is_there) {
            wrong.push(format!("opgate {name}: example {has_example}, pages {pages:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn index_lists_every_command_and_variable() {
    let index = page("command-line.md");
    let mut missing = BTreeSet::new();
    for (path, help) in all_help_texts() {
        let name = path.join(" ");
        if !name.is_empty() && !index.contains(&format!("`opgate {name}`")) {
            missing.insert(format!("`opgate {name}`"));
        }
        for part in help.split("[env: ").skip(1) {
            let variable = part.split(['=', ']']).next().unwrap();
            if !index.contains(&format!("`{variable}`")) {
                missing.insert(format!("`{variable}`"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// `-o` selects the output format in every command that has one. A flag has the same meaning in all
/// commands.
#[test]
fn flags_have_one_meaning() {
    for (path, help) in all_help_texts() {
        let short = |flag: &str| help.lines().find(|line| line.trim_start().starts_with(flag));
        for (flag, long) in [("-o", "--output"), ("-q", "--quiet"), ("-v", "--verbose")] {
            let line = short(flag);
            assert!(line.is_none_or(|line| line.contains(long)), "{path:?}: {line:?}");
        }
        if let Some(line) = short("--output") {
            panic!("{path:?}: no short form: {line}");
        }
        for flag in ["-q", "-v", "--color", "--log", "--log-format"] {
            assert!(short(flag).is_some(), "{path:?}: no {flag}");
        }
    }
}

/// As kubectl starts a plugin, commands are called as they are typed.
#[test]
fn kubectl_plugin_prints_kubectl_commands() {
    let directory = directory();
    let plugin = directory.path().join("kubectl-opgate");
    std::os::unix::fs::symlink(BINARY, &plugin).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&plugin);
        command.args(arguments).current_dir(directory.path()).env("KUBECONFIG", "nowhere.yaml");
        command.env_remove("OPGATE_CONFIG").output().unwrap()
    };
    let help = out(&run(&["check", "--help"]));
    assert!(help.contains("Usage: kubectl opgate check"), "{help}");
    assert!(help.contains("  kubectl opgate check bundle "), "{help}");
    assert!(!help.contains("  opgate check"), "{help}");
    let wrong = run(&["check", "--nonsense"]);
    assert!(err(&wrong).contains("Usage: kubectl opgate check"), "{}", err(&wrong));
    // Without a path the command evaluates the cluster of the kubeconfig.
    let cluster = run(&["check"]);
    assert_eq!(cluster.status.code(), Some(2));
    assert!(err(&cluster).contains("nowhere.yaml"), "{}", err(&cluster));
}
