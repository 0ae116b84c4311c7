//! Files and directories from untrusted sources: what the commands read of them, and how much
//! memory and time that takes.
//!
//! Memory is bounded by the shell that starts the command (`ulimit -d`, which does not count what the
//! engine only reserves): what reads more ends with another message than the one that is expected.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::BINARY;

/// KiB of data that a command may have: it needs some 150 MiB itself, of which 64 are stacks.
const MAX_DATA_KIB: usize = 300 << 10;

/// Runs the command within the bound.
fn run_limited(directory: &TempDir, arguments: &[&str]) -> Output {
    let script = format!("ulimit -d {MAX_DATA_KIB}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, BINARY])
        .args(arguments)
        .current_dir(directory.path())
        .env("OPGATE_CACHE_DIR", directory.path().join(".cache"))
        .env_remove("OPGATE_CONFIG")
        .env_remove("OPGATE_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn all_output(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).unwrap()
}

fn write(directory: &TempDir, name: &str, content: &str) {
    let path = directory.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A file with a hole that takes no room on disk.
fn write_sparse(directory: &TempDir, name: &str, start: &str, size: u64) {
    write(directory, name, start);
    let path = directory.path().join(name);
    File::options().write(true).open(path).unwrap().set_len(size).unwrap();
}

fn create_pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

const PACKAGE_BLOB: &str = "schema: olm.package\nname: a\ndefaultChannel: b\n";
const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";

/// Six files of 1 GB, of which each has some bytes on disk.
#[test]
fn sparse_files_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..6 {
        write_sparse(&directory, &format!("catalog/{number}.yaml"), PACKAGE_BLOB, 1_000_000_000);
        write_sparse(&directory, &format!("manifests/{number}.yaml"), CONFIG_MAP, 1_000_000_000);
    }
    write_sparse(&directory, "one.yaml", CONFIG_MAP, 1_000_000_000);
    write_sparse(&directory, "reviews/a.json", "{}", 1_000_000_000);
    write_sparse(&directory, "opgate.yaml", "a: b\n", 1_000_000_000);
    for arguments in [
        &["check", "--input-type", "catalog", "catalog"][..],
        &["check", "catalog"],
        &["check", "--input-type", "manifest", "manifests"],
        &["check", "."],
        &["check", "one.yaml"],
        &["check", "--baseline", "one.yaml", "one.yaml"],
    ] {
        let output = run_limited(&directory, arguments);
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{arguments:?}: {}",
            all_output(&output)
        );
        let said = all_output(&output);
        let is_refused =
            said.contains("there is a byte 0 in it") || said.contains("more to read than 256Mi");
        assert!(is_refused, "{arguments:?}: {said}");
        assert!(!said.contains("out of memory"), "{arguments:?}: {said}");
    }
    for (arguments, said) in [
        (&["replay", "reviews"][..], "reviews/a.json"),
        (&["replay", "--cluster-state", "one.yaml", "reviews"], "one.yaml"),
        (&["rules", "--config", "opgate.yaml"], "opgate.yaml: "),
    ] {
        let output = run_limited(&directory, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", all_output(&output));
        assert!(all_output(&output).contains(said), "{arguments:?}: {}", all_output(&output));
        assert!(
            !all_output(&output).contains("out of memory"),
            "{arguments:?}: {}",
            all_output(&output)
        );
    }
}

#[test]
fn ignore_patterns_are_limited_and_fast() {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "large/a.yaml", PACKAGE_BLOB);
    write_sparse(&directory, "large/.indexignore", "*.md\n", 1_000_000_000);
    let output = run_limited(&directory, &["check", "--input-type", "catalog", "large"]);
    assert_eq!(output.status.code(), Some(2));
    let said = all_output(&output);
    assert!(said.contains("large/.indexignore: more than 64Ki of patterns"), "{said}");
    // Of many patterns none fits any of many files: the work is what a test can wait for.
    let patterns: String = (0..1_800).fold(String::new(), |mut text, number| {
        writeln!(text, "{}b{number}", "*a".repeat(6)).unwrap();
        text
    });
    write(&directory, "many/.indexignore", &patterns);
    for number in 0..300 {
        let name = format!("many/{}{number}.yaml", "a".repeat(180));
        write(&directory, &name, "schema: x.y\n");
    }
    let script = "ulimit -t 5; exec \"$0\" check --input-type catalog many";
    let mut command = Command::new("sh");
    let output =
        command.args(["-c", script, BINARY]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", all_output(&output));
}

/// A budget counts what all files of a command have together, and what YAML becomes.
#[test]
fn command_input_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..4 {
        write(
            &directory,
            &format!("catalog/{number}.yaml"),
            &format!("{PACKAGE_BLOB}#{}\n", "x".repeat(50_000)),
        );
        write(&directory, &format!("reviews/{number}.json"), &" ".repeat(50_000));
    }
    for (arguments, too_much) in [
        (&["check", "--max-input-size", "100Ki", "--input-type", "catalog", "catalog"][..], true),
        (&["check", "--max-input-size", "1Mi", "--input-type", "catalog", "catalog"], false),
        (&["check", "--max-input-size", "40Ki", "catalog/0.yaml"], true),
        (&["replay", "--max-input-size", "100Ki", "reviews"], true),
        (&["replay", "--max-input-size", "1Mi", "reviews"], false),
    ] {
        let output = run_limited(&directory, arguments);
        let said = all_output(&output).contains("allow more with --max-input-size");
        assert_eq!(said, too_much, "{arguments:?}: {}", all_output(&output));
    }
    let piped = |input: &str| {
        let script = format!("{input} | \"$0\" replay --max-input-size 64Ki -");
        Command::new("sh").args(["-c", &script, BINARY]).output().unwrap()
    };
    let output = piped("yes");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        all_output(&output).contains("-: with it there is more to read than 64Ki"),
        "{}",
        all_output(&output)
    );
}

/// Pipes, devices and links out of the directory: the commands report their names and do not wait
/// for them.
#[test]
fn irregular_files_are_reported_by_name() {
    let outside = tempfile::tempdir().unwrap();
    write(&outside, "secret.yaml", "password: hunter2\n");
    write(&outside, "secret.json", "{\"password\": \"hunter2\"}");
    let directory = tempfile::tempdir().unwrap();
    for ending in ["json", "yaml"] {
        let at = |name: &str| directory.path().join(format!("reviews/{name}.{ending}"));
        std::fs::create_dir_all(directory.path().join("reviews")).unwrap();
        create_pipe(&at("pipe"));
        symlink("/dev/zero", at("zero")).unwrap();
        symlink(outside.path().join(format!("secret.{ending}")), at("secret")).unwrap();
    }
    symlink(outside.path(), directory.path().join("reviews/out")).unwrap();
    create_pipe(&directory.path().join("named.json"));
    write(&directory, "review.json", "{}");
    for arguments in [
        &["replay", "reviews"][..],
        &["replay", "--cluster-state", "reviews", "review.json"],
        &["check", "--input-type", "manifest", "reviews"],
        &["check", "--input-type", "catalog", "reviews"],
    ] {
        let output = run_limited(&directory, arguments);
        let said = all_output(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {said}");
        for part in [
            "reviews/pipe.json",
            "not a regular file, but a pipe",
            "reviews/zero.yaml",
            "reviews/secret.json",
            "reviews/out",
            "that leads out of the directory",
        ] {
            assert!(said.contains(part), "{arguments:?}: {part} is not in {said}");
        }
        assert!(!said.contains("hunter2"), "{arguments:?}: {said}");
    }
    for arguments in [
        &["replay", "named.json"][..],
        &["replay", "--cluster-state", "named.json", "review.json"],
        &["check", "named.json"],
        &["check", "--input-type", "manifest", "named.json"],
        &["rules", "--config", "named.json"],
    ] {
        let output = run_limited(&directory, arguments);
        let said = all_output(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains("named.json: not a regular file, but a pipe")
                || said.contains("named.json:1:1: not a regular file, but a pipe"),
            "{arguments:?}: {said}"
        );
    }
    // A link that is named is meant.
    symlink(outside.path().join("secret.json"), directory.path().join("link.json")).unwrap();
    let output = run_limited(&directory, &["replay", "link.json"]);
    assert!(all_output(&output).contains("not an AdmissionReview"), "{}", all_output(&output));
}

/// Places of findings take neither memory nor time with the square of a file.
#[test]
fn locating_violations_takes_linear_time() {
    let directory = tempfile::tempdir().unwrap();
    // A pointer to each of many elements would be as long as this path.
    let mut text = "schema: olm.package\nname: a\nx:\n".to_owned();
    for level in 1..200 {
        writeln!(text, "{:level$}{}:", "", "k".repeat(200)).unwrap();
    }
    text.push_str(&format!("{:200}- a\n", "").repeat(5_000));
    write(&directory, "deep/a.yaml", &text);
    let output = run_limited(&directory, &["check", "--input-type", "catalog", "deep"]);
    assert_eq!(output.status.code(), Some(1), "{}", all_output(&output));
    assert!(
        all_output(&output).contains("deep/a.yaml:1:1: deny FBC-10"),
        "{}",
        all_output(&output)
    );
}

/// The kubeconfig of a user names programs that opgate runs. That of the checked directory is none.
#[test]
fn relative_home_directory_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let config = "apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users:
- name: u
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [RAN], interactiveMode: Never}}
";
    write(&directory, ".kube/config", config);
    let absolute = directory.path().as_os_str();
    for (home, runs) in [("".as_ref(), false), (".".as_ref(), false), (absolute, true)] {
        let output = Command::new(BINARY)
            .args(["check", "--cluster"])
            .current_dir(directory.path())
            .env("HOME", home)
            .env("OPGATE_CACHE_DIR", directory.path().join(".cache"))
            .env_remove("OPGATE_CONFIG")
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let ran = directory.path().join("RAN").exists();
        assert_eq!(ran, runs, "{}: {}", home.display(), all_output(&output));
        assert!(!output.status.success(), "{}", all_output(&output));
    }
}
