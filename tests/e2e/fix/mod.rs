//! `opgate check --fix`: what it changes in files, and what it leaves alone.
//!
//! `planted` is a bundle with twenty mistakes, and `fixed` what a reviewer would have made of it.

mod cases;
mod rounds;
mod writes;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::check::command;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/fix").join(name)
}

/// The files below a directory, by their paths.
fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn write(directory: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = directory.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

/// A copy of the bundle with the mistakes, in `bundle`.
fn planted() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files(&data("planted")) {
        write(&directory, &format!("bundle/{name}"), &content);
    }
    directory
}

fn run(directory: &TempDir, arguments: &[&str]) -> Output {
    let arguments = [&["check"], arguments].concat();
    command(directory.path(), &arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The rules of all violations.
fn rules(directory: &TempDir, path: &str) -> Vec<String> {
    let output = run(directory, &["-o", "json", path]);
    let records: Value = serde_json::from_slice(&output.stdout).unwrap();
    let violations =
        records.as_array().unwrap().iter().filter_map(|it| it["violations"].as_array());
    let rules = violations.flatten().map(|it| it["rule"].as_str().unwrap().to_owned());
    rules.collect()
}

/// A Subscription with a mistake in its last line.
const SUBSCRIPTION: &str = "# one
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata:
  name: etcd   # the name
  namespace: operators
spec:
  name: etcd
  source: catalog
  sourceNamespace: olm
  installPlanApproval: manual # by a person
";

#[test]
fn planted_mistakes_are_fixed_as_a_reviewer_would() {
    let directory = planted();
    let output = run(&directory, &["--fix", "bundle"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let found = files(&directory.path().join("bundle"));
    let expected = files(&data("fixed"));
    for (name, content) in &expected {
        assert_eq!(found.get(name), Some(content), "{name}\n{stdout}\n{stderr}");
    }
    assert_eq!(found.len(), expected.len(), "{:?}", found.keys());
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stderr.contains(" violations fixed in "), "{stderr}");
    // A second time, nothing is left to do.
    let again = run(&directory, &["--fix", "bundle"]);
    assert!(text(&again.stderr).contains("no violation fixed"), "{}", text(&again.stderr));
    assert_eq!(files(&directory.path().join("bundle")), found);
}

#[test]
fn a_difference_is_printed_and_nothing_is_written() {
    let directory = planted();
    let before = files(&directory.path().join("bundle"));
    let plain = run(&directory, &["bundle"]);
    for arguments in [&["--diff", "bundle"][..], &["--fix", "--diff", "bundle"]] {
        let output = run(&directory, arguments);
        let stdout = text(&output.stdout);
        assert!(stdout.starts_with("--- /dev/null\n+++ bundle/README.md\n"), "{stdout}");
        assert!(stdout.contains("\n+  maturity: alpha # 5 maturity\n"), "{stdout}");
        assert!(!stdout.contains("deny "), "{stdout}");
        assert!(text(&output.stderr).contains(" would be fixed in "), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), plain.status.code(), "{arguments:?}");
        assert_eq!(files(&directory.path().join("bundle")), before);
    }
}

#[test]
fn only_named_rules_and_unsafe_fixes_are_applied_on_request() {
    let directory = planted();
    let count = |rule: &str| rules(&directory, "bundle").iter().filter(|it| *it == rule).count();
    let before = (count("CSV-17"), count("CSV-22"));
    assert!(before.0 > 0 && before.1 > 0, "{before:?}");
    run(&directory, &["--fix", "--fix-only", "CSV-17", "bundle"]);
    assert_eq!((count("CSV-17"), count("CSV-22")), (0, before.1));
    let unknown = run(&directory, &["--fix", "--fix-only", "CSV-1700", "bundle"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no policy has a rule \"CSV-1700\""));
}

#[test]
fn arguments_that_do_not_fit_are_errors() {
    let directory = planted();
    for (arguments, why) in [
        (&["--unsafe-fixes", "bundle"][..], "need --fix"),
        (&["--fix-only", "CSV-17", "bundle"], "need --fix"),
        (&["--fix", "--cluster"], "not the objects of a cluster"),
        (&["--fix", "-"], "--fix cannot write to standard input"),
    ] {
        let output = run(&directory, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

#[test]
fn line_ends_and_permissions_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(&directory, "s.yaml", &SUBSCRIPTION.replace('\n', "\r\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let output = run(&directory, &["--fix", "s.yaml"]);
    let expected = SUBSCRIPTION.replace(" manual ", " Manual ").replace('\n', "\r\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{}", text(&output.stderr));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let left = fs::read_dir(directory.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("opgate-")), "{left:?}");
}

#[test]
fn a_place_with_an_anchor_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let content = SUBSCRIPTION.replace(" manual ", " &approval manual ");
    let path = write(&directory, "s.yaml", &content);
    let output = run(&directory, &["--fix", "s.yaml"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("s.yaml:11:3: not fixed: "), "{stderr}");
    assert!(stderr.contains("an anchor, an alias or a tag: edit it manually"), "{stderr}");
}

#[test]
fn waived_rules_are_not_fixed() {
    let directory = planted();
    write(&directory, "bundle/.opgate.yaml", "waivers:\n- rule: CSV-17\n  reason: on purpose\n");
    run(&directory, &["--fix", "bundle"]);
    let csv = "bundle/manifests/etcdoperator.clusterserviceversion.yaml";
    let csv = fs::read_to_string(directory.path().join(csv)).unwrap();
    assert!(csv.contains("maturity: Alpha") && csv.contains("minKubeVersion: 1.21.0"), "{csv}");
}

#[test]
fn json_and_sarif_have_the_fixes() {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "s.yaml", SUBSCRIPTION);
    let output = run(&directory, &["-o", "json", "s.yaml"]);
    let records: Value = serde_json::from_slice(&output.stdout).unwrap();
    let with_fix = |it: &&Value| it.get("fix").is_some();
    let violation = records[0]["violations"].as_array().unwrap().iter().find(with_fix).unwrap();
    let fix = &violation["fix"];
    assert_eq!(fix["safety"], "safe");
    let edit =
        serde_json::json!({"op": "set", "pointer": "/spec/installPlanApproval", "value": "Manual"});
    assert_eq!(fix["edits"], serde_json::json!([edit]));
    let output = run(&directory, &["-o", "sarif", "s.yaml"]);
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let result = results.iter().find(|it| it.get("fixes").is_some()).unwrap();
    let change = &result["fixes"][0]["artifactChanges"][0];
    assert_eq!(change["artifactLocation"]["uri"], "s.yaml");
    let expected = serde_json::json!([{
        "deletedRegion": {"startLine": 11, "startColumn": 1, "endLine": 12, "endColumn": 1},
        "insertedContent": {"text": "  installPlanApproval: Manual # by a person\n"},
    }]);
    assert_eq!(change["replacements"], expected);
}

#[test]
fn catalogs_of_concatenated_json_are_fixed() {
    let directory = tempfile::tempdir().unwrap();
    let before = "{
    \"schema\": \"olm.package\",
    \"name\": \"etcd\",
    \"defaultChannel\": \"Stable\"
}
{\"schema\": \"olm.channel\", \"package\": \"etcd\", \"name\": \"stable\", \"entries\": [{\"name\": \"etcd.v1.0.0\"}, {\"name\": \"etcd.v1.0.0\"}]}{
\t\"schema\": \"olm.bundle\",
\t\"package\": \"etcd\",
\t\"name\": \"etcd.v1.0.0\",
\t\"image\": \"quay.io/example/etcd@sha256:66a37fd61a06a43969854ee6d3e21087a98b93838e284a6086b13917f96b0d9b\",
\t\"properties\": [
\t\t{
\t\t\t\"type\": \"olm.package\",
\t\t\t\"value\": {\"packageName\": \"etcd\", \"version\": \"v1.0.0\"}
\t\t}
\t]
}
";
    let path = write(&directory, "catalog/catalog.json", before);
    let output = run(&directory, &["--fix", "catalog"]);
    let expected = before
        .replace("\"Stable\"", "\"stable\"")
        .replace("[{\"name\": \"etcd.v1.0.0\"}, ", "[")
        .replace("\"v1.0.0\"", "\"1.0.0\"");
    assert_eq!(fs::read_to_string(path).unwrap(), expected, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_misspelt_package_of_a_catalog_is_corrected_after_a_review() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = |channel: &str, bundle: &str| {
        format!(
            "schema: olm.package
name: widget
defaultChannel: stable
---
schema: olm.channel
package: {channel} # the channel
name: stable
entries:
- name: widget.v1.0.0
---
schema: olm.bundle
package: {bundle}
name: widget.v1.0.0
image: quay.io/example/widget-bundle:v1.0.0
properties:
- type: olm.package
  value:
    packageName: widget
    version: 1.0.0
"
        )
    };
    for (channel, bundle) in [("wigdet", "widget"), ("widget", "wigdet")] {
        let path = write(&directory, "catalog/widget.yaml", &blobs(channel, bundle));
        // A person needs to see it.
        run(&directory, &["--fix", "catalog"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), blobs(channel, bundle));
        let output = run(&directory, &["--fix", "--unsafe-fixes", "catalog"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), blobs("widget", "widget"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    }
    // The name of another package: its blob is missing, not its channel and bundle misspelt.
    let both = blobs("wigdet", "wigdet");
    let path = write(&directory, "catalog/widget.yaml", &both);
    run(&directory, &["--fix", "--unsafe-fixes", "catalog"]);
    assert!(fs::read_to_string(&path).unwrap().contains("package: wigdet # the channel"));
}

#[test]
fn standard_input_has_a_difference() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(directory.path(), &["check", "--diff", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let two = format!("{SUBSCRIPTION}---\n{}", SUBSCRIPTION.replace("etcd", "two"));
    child.stdin.take().unwrap().write_all(two.as_bytes()).unwrap();
    let stdout = text(&child.wait_with_output().unwrap().stdout);
    assert!(stdout.starts_with("--- -\n+++ -\n@@ "), "{stdout}");
    assert_eq!(
        stdout.matches("\n+  installPlanApproval: Manual # by a person\n").count(),
        2,
        "{stdout}"
    );
}

/// A Bundle for the policy of the tests, and a configuration with a task for the policy.
fn hostile(what: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "bundle.yaml", crate::check::VALID_BUNDLE);
    configure(&directory, &format!("settings: {{do: {what}}}"));
    directory
}

/// Writes a configuration of the policy of the tests.
fn configure(directory: &TempDir, policy: &str) {
    let module = testkit::hostile_component("misbehaves");
    let configuration = format!(
        "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: evil\n  module: {}\n  {policy}\n",
        module.display()
    );
    write(directory, "opgate.yaml", &configuration);
}

#[test]
fn invalid_fixes_are_dropped_and_the_violations_stay() {
    let directory = hostile("invalid-fixes");
    let output = run(&directory, &["--config", "opgate.yaml", "-o", "json", "bundle.yaml"]);
    let records: Value = serde_json::from_slice(&output.stdout).unwrap();
    let violations = records[0]["violations"].as_array().unwrap();
    let titles: Vec<_> = violations.iter().filter_map(|it| it["fix"]["title"].as_str()).collect();
    assert_eq!((violations.len(), titles), (8, vec!["good"]), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_fix_that_adds_a_violation_is_undone() {
    for (what, why) in [
        (
            "harmful-fix",
            "EVIL-1 add more: it adds or reveals a violation; make this change manually, and correct it: EVIL-1 no 1",
        ),
        // There are as many violations as before.
        (
            "swapping-fix",
            "EVIL-1 swap: it adds or reveals a violation; make this change manually, and correct it: EVIL-1 no b",
        ),
    ] {
        let directory = hostile(what);
        let output = run(&directory, &["--config", "opgate.yaml", "--fix", "bundle.yaml"]);
        let found = fs::read_to_string(directory.path().join("bundle.yaml")).unwrap();
        assert_eq!(found, crate::check::VALID_BUNDLE);
        let stderr = text(&output.stderr);
        assert!(stderr.contains(why), "{stderr}");
        assert!(stderr.contains("no violation fixed"), "{stderr}");
    }
}
