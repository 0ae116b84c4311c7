//! `opgate check` as people and pipelines use it: bundles, catalogs and manifests in files, sound,
//! broken and hostile.

mod audit;
mod baseline;
mod cluster_state;
mod configuration_files;
mod directories;
mod documents;
mod inputs;
mod locations;
mod output;
mod pod_templates;
mod published_bundles;
mod remediation;
mod untrusted_files;
mod verdicts;
mod waivers;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::BINARY;

/// A Bundle in which nothing is wrong.
pub(super) const VALID_BUNDLE: &str = "apiVersion: core.rukpak.io/v1alpha1
kind: Bundle
metadata:
  name: good
spec:
  provisionerClassName: core-rukpak-io-plain
  source:
    type: image
    image:
      ref: quay.io/example/etcd@sha256:0123
";

/// A Bundle that RPK-12 denies.
pub(super) const BUNDLE_WITHOUT_CLASS: &str = "apiVersion: core.rukpak.io/v1alpha1
kind: Bundle
metadata:
  name: classless
spec:
  source:
    type: image
    image:
      ref: quay.io/example/etcd@sha256:0123
";

/// The rules that deny `bundle-broken`.
pub(super) const BROKEN_BUNDLE_RULES: [&str; 9] =
    ["CON-20", "CSV-06", "CSV-30", "CSV-57", "CSV-85", "RBF-03", "RBF-07", "RBF-10", "RBF-12"];

pub(super) fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(arguments)
        .current_dir(directory)
        .env("OPGATE_CACHE_DIR", directory.join(".cache"))
        .stdin(Stdio::null());
    for name in [
        "OPGATE_CONFIG",
        "OPGATE_LOG",
        "OPGATE_LOG_FORMAT",
        "KUBERNETES_SERVICE_HOST",
        "KUBECONFIG",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    command
}

pub(super) fn check(directory: &TempDir, arguments: &[&str]) -> Output {
    command(directory.path(), &[&["check"], arguments].concat()).output().unwrap()
}

pub(super) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(super) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The exit status. Nothing that is in a file ends the process in another way than these.
pub(super) fn status(output: &Output) -> i32 {
    let code = output.status.code();
    assert!(matches!(code, Some(0..=2)), "{:?}\n{}{}", output.status, out(output), err(output));
    code.unwrap()
}

/// Exit status, and records of evaluated inputs. A separate test covers unreadable inputs.
pub(super) fn records(directory: &TempDir, arguments: &[&str]) -> (i32, Vec<Value>) {
    let output = check(directory, &[&["--output", "jsonl"], arguments].concat());
    let mut records: Vec<Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.retain(|record| record.get("error").is_none());
    records.iter().for_each(assert_record_members);
    (status(&output), records)
}

fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The members of a record are part of the contract.
fn assert_record_members(record: &Value) {
    let expected = ["source", "kind", "name", "ok", "violations", "inputType"];
    // Objects of a cluster have a namespace. Objects that no policy evaluated have a reason.
    let is_optional = |member: &&str| matches!(*member, "namespace" | "notEvaluated");
    let names = members(record).into_iter().filter(|member| !is_optional(member));
    assert_eq!(sorted(names), sorted(expected), "{record}");
    let blocks = |v: &Value| v["effect"] == "deny" && v.get("waived").is_none();
    let denied = violations(record).iter().any(blocks);
    assert!(!(denied && record["ok"] == true), "{record}");
    for violation in violations(record) {
        let is_optional = |member: &&str| matches!(*member, "location" | "waived" | "fix");
        let names: Vec<_> = members(violation).into_iter().filter(|m| !is_optional(m)).collect();
        let expected = ["policy", "rule", "effect", "field", "message"];
        assert_eq!(sorted(names), sorted(expected), "{record}");
        assert!(!violation["message"].as_str().unwrap().is_empty(), "{record}");
        // The location in a file. A violation by a missing file has no location.
        if let Some(place) = violation.get("location") {
            assert_eq!(sorted(members(place)), ["column", "file", "line"], "{record}");
            assert!(place["line"].as_u64().unwrap() > 0 && place["column"].as_u64().unwrap() > 0);
        }
    }
}

fn sorted<'s>(names: impl IntoIterator<Item = &'s str>) -> Vec<&'s str> {
    names.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

pub(super) fn violations(record: &Value) -> &[Value] {
    record["violations"].as_array().unwrap()
}

pub(super) fn rules(record: &Value) -> Vec<&str> {
    violations(record).iter().map(|v| v["rule"].as_str().unwrap()).collect()
}

/// `file:line` of the first violation of a rule.
fn location_of(record: &Value, rule: &str) -> String {
    let found = violations(record).iter().find(|v| v["rule"] == rule);
    let place = &found.unwrap_or_else(|| panic!("no {rule}: {record}"))["location"];
    format!("{}:{}", place["file"].as_str().unwrap(), place["line"])
}

/// A directory with all fixtures, and a good and a bad manifest.
pub(super) fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"), directory.path());
    write(&directory, "good.yaml", VALID_BUNDLE);
    write(&directory, "classless.yaml", BUNDLE_WITHOUT_CLASS);
    directory
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(super) fn write(directory: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = directory.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Replaces a text of a file, which is in it.
fn edit(directory: &TempDir, name: &str, from: &str, to: &str) {
    let path = directory.path().join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{name} has no {from:?}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

pub(super) fn configuration(directory: &TempDir, policies: &Value) {
    write(directory, "opgate.yaml", testkit::configuration(policies.as_array().unwrap()));
}

pub(super) fn check_stdin(directory: &TempDir, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(directory.path(), &[&["check"], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("TMPDIR", directory.path())
        .spawn()
        .unwrap();
    // Who does not read it ends before all of it is written.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Names of the elements of a document, all of which are closed, and texts without what is reserved.
pub(super) fn elements(xml: &str) -> Vec<String> {
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"), "{xml}");
    assert!(!xml.contains(|c: char| c.is_control() && c != '\n'), "{xml:?}");
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for part in xml.split('<').skip(2) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("{part}"));
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        for piece in format!("{tag} {text}").split('&').skip(1) {
            let entity = piece.split_once(';').unwrap_or_else(|| panic!("{piece}")).0;
            let known = ["amp", "lt", "gt", "quot", "apos"].contains(&entity);
            assert!(known || entity.starts_with('#'), "{piece}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else {
            let name = tag.split([' ', '/']).next().unwrap().to_owned();
            all.push(name.clone());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    all
}
