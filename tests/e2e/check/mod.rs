//! `opgate check` as people and pipelines use it: bundles, catalogs and manifests in files, sound,
//! broken and hostile.

mod audit;
mod cluster_state;
mod directories;
mod documents;
mod files;
mod published_bundles;
mod remediation;
mod waivers;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
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
        let is_optional = |member: &&str| matches!(*member, "location" | "waived");
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

#[test]
fn valid_input_passes_and_broken_input_is_denied() {
    // Path, exit status, kind and name of each subject, rules that deny.
    type Case<'c> = (&'c str, i32, &'c [(&'c str, &'c str)], &'c [&'c str]);
    let directory = directory();
    let cases: [Case<'_>; 9] = [
        ("bundle-valid", 0, &[("RegistryBundle", "bundle-valid")], &[]),
        ("bundle-broken", 1, &[("RegistryBundle", "bundle-broken")], &BROKEN_BUNDLE_RULES),
        ("plain-valid", 0, &[("PlainBundle", "plain-valid")], &[]),
        ("plain-broken", 1, &[("PlainBundle", "plain-broken")], &["PBF-03", "PBF-04", "PBF-05"]),
        ("catalog-valid", 0, &[("FileBasedCatalog", "etcd")], &[]),
        (
            "catalog-broken",
            1,
            &[("FileBasedCatalog", "etcd"), ("FileBasedCatalog", "")],
            &["FBC-11", "FBC-18", "FBC-21", "FBC-35", "FBC-43"],
        ),
        ("catalog-broken/etcd/catalog.yaml", 1, &[("FileBasedCatalog", "etcd")], &["FBC-11"]),
        ("good.yaml", 0, &[("Bundle", "good")], &[]),
        ("classless.yaml", 1, &[("Bundle", "classless")], &["RPK-12"]),
    ];
    for (path, code, subjects, expected) in cases {
        let (status, found) = records(&directory, &[path]);
        let names: Vec<_> = found
            .iter()
            .map(|r| (r["kind"].as_str().unwrap(), r["name"].as_str().unwrap()))
            .collect();
        assert_eq!((status, &*names), (code, subjects), "{path}");
        assert!(found.iter().all(|r| r["source"] == path), "{path}: {found:?}");
        assert_eq!(found.iter().all(|r| r["ok"] == true), code == 0, "{path}: {found:?}");
        let denied = found.iter().flat_map(violations).filter(|v| v["effect"] == "deny");
        let denied = sorted(denied.map(|v| v["rule"].as_str().unwrap()));
        assert!(expected.iter().all(|rule| denied.contains(rule)), "{path}: {denied:?}");
        assert_eq!(denied.is_empty(), expected.is_empty(), "{path}: {denied:?}");
    }
}

#[test]
fn violations_have_locations() {
    let directory = directory();
    let (_, bundle) = records(&directory, &["bundle-broken"]);
    for (rule, place) in [
        ("CSV-06", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:23"),
        ("CSV-30", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:42"),
        ("CSV-57", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:15"),
        ("CSV-85", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:73"),
        ("RBF-03", "bundle-broken/metadata/annotations.yaml:1"),
        ("RBF-07", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:67"),
        ("RBF-10", "bundle-broken/manifests/lease.yaml:2"),
        ("RBF-12", "bundle-broken/manifests/service.yaml:4"),
    ] {
        assert_eq!(location_of(&bundle[0], rule), place);
    }
    let (_, catalog) = records(&directory, &["catalog-broken"]);
    for (rule, line) in [("FBC-11", 4), ("FBC-18", 18), ("FBC-35", 46)] {
        assert_eq!(
            location_of(&catalog[0], rule),
            format!("catalog-broken/etcd/catalog.yaml:{line}")
        );
    }
    assert_eq!(location_of(&catalog[1], "FBC-43"), "catalog-broken/prometheus/catalog.json:5");
    let (_, plain) = records(&directory, &["plain-broken"]);
    assert_eq!(location_of(&plain[0], "PBF-05"), "plain-broken/manifests/objects.yaml:3");
    let manifest = records(&directory, &["classless.yaml"]).1.remove(0);
    let expected = json!({
        "source": "classless.yaml",
        "kind": "Bundle",
        "name": "classless",
        "ok": false,
        "violations": [{
            "policy": "bundle-immutability",
            "rule": "RPK-12",
            "effect": "deny",
            "field": "spec.provisionerClassName",
            "message": "spec.provisionerClassName: Required value",
            "location": {"file": "classless.yaml", "line": 5, "column": 1},
        }],
        "inputType": "manifest",
    });
    assert_eq!(manifest, expected);
}

#[test]
fn input_type_flag_overrides_detection() {
    let directory = directory();
    let paths = ["bundle-valid", "plain-valid", "catalog-valid", "good.yaml"];
    let cases = [
        ("bundle", "RegistryBundle", [0, 1, 1, 2]),
        ("plain", "PlainBundle", [0, 0, 1, 2]),
        ("catalog", "FileBasedCatalog", [1, 1, 0, 1]),
        ("manifest", "", [2, 0, 2, 0]),
    ];
    for (kind, document, codes) in cases {
        for (path, code) in paths.iter().zip(codes) {
            let (status, found) = records(&directory, &["--input-type", kind, path]);
            assert_eq!(status, code, "--input-type {kind} {path}: {found:?}");
            // In a directory of manifests, the command checks the readable ones.
            let is_directory = kind == "manifest" && path != &"good.yaml";
            assert!(found.is_empty() == (code == 2) || is_directory, "--input-type {kind} {path}");
            if !document.is_empty() {
                assert!(found.iter().all(|r| r["kind"] == document), "{kind} {path}: {found:?}");
            }
        }
    }
    let (_, found) = records(&directory, &["--input-type", "manifest", "plain-valid"]);
    let sources: Vec<_> =
        found.iter().map(|r| format!("{} {}", r["source"], r["kind"]).replace('"', "")).collect();
    let expected = [
        "plain-valid/manifests/deployment.yaml Deployment",
        "plain-valid/manifests/namespace.yaml Namespace",
        "plain-valid/manifests/rbac.yaml#1 ServiceAccount",
        "plain-valid/manifests/rbac.yaml#2 Role",
        "plain-valid/manifests/rbac.yaml#3 RoleBinding",
        "plain-valid/manifests/service.json Service",
    ];
    assert_eq!(sources, expected);
    let wrong = check(&directory, &["--input-type", "helm", "bundle-valid"]);
    assert_eq!(status(&wrong), 2);
    for word in ["helm", "bundle", "plain", "catalog", "manifest"] {
        assert!(err(&wrong).contains(word), "{}", err(&wrong));
    }
}

/// The command reports a missing path, and a path without anything to check. In both cases it
/// fails.
#[test]
fn wrong_usage_ends_with_2() {
    let directory = directory();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    write(&directory, "other/values.yaml", "a: 1\n");
    write(&directory, "texts/README.md", "# x\n");
    write(&directory, "none.yaml", "# nothing\n");
    let cases: [(&[&str], &[&str]); 20] = [
        (&[], &["PATH"]),
        (&["nowhere"], &["nowhere: No such file"]),
        (&["--input-type", "manifest", "nowhere"], &["nowhere", "No such file"]),
        (&["--input-type", "catalog", "nowhere"], &["nowhere", "No such file"]),
        (&["--input-type", "bundle", "nowhere"], &[" nowhere: No such file"]),
        (&["--input-type", "plain", "nowhere"], &[" nowhere: No such file"]),
        (&["empty"], &["empty: ", "manifests/", "schema", "apiVersion", "--input-type"]),
        (&["--input-type", "manifest", "empty"], &["empty: it is empty"]),
        (&["--input-type", "bundle", "empty"], &["empty: it is empty"]),
        (&["--input-type", "plain", "empty"], &["empty: it is empty"]),
        (&["--input-type", "catalog", "empty"], &["empty: it is empty"]),
        (
            &["--input-type", "manifest", "texts"],
            &["texts: there is no file *.json, *.yaml or *.yml in it"],
        ),
        (&["other"], &["other: ", "--input-type"]),
        (&["none.yaml"], &["none.yaml: empty: it should hold manifests"]),
        (&["--input-type", "bundle", "good.yaml"], &["good.yaml: not a directory"]),
        (&["--input-type", "manifest", "other"], &["other/values.yaml: /apiVersion is missing"]),
        (&["--output", "xml", "good.yaml"], &["xml", "sarif"]),
        (&["--config", "nowhere.yaml", "good.yaml"], &["nowhere.yaml: No such file"]),
        (&["--baseline", "good.yaml", "good.yaml", "good.yaml"], &["--baseline"]),
        (&["--baseline", "catalog-valid", "nowhere"], &["nowhere: No such file"]),
    ];
    for (arguments, expected) in cases {
        let output = check(&directory, arguments);
        assert_eq!(status(&output), 2, "{arguments:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{arguments:?}");
        for text in expected {
            assert!(err(&output).contains(text), "{arguments:?}: {}", err(&output));
        }
    }
}

/// Bytes without any order in them, which nothing makes smaller.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..count).map(next).collect()
}

/// A bundle has to fit into one ConfigMap, compressed and in base64, however large its files are.
#[test]
fn bundle_size_is_the_compressed_size() {
    let directory = directory();
    let cases = [
        ("metadata/large.txt", vec![b'a'; 5_000_000], 0, None),
        ("metadata/noise", random_bytes(600_000), 0, None),
        ("metadata/noise", random_bytes(700_000), 0, Some(("RBF-15", "nearing maximum bundle"))),
        (
            "metadata/noise",
            random_bytes(800_000),
            1,
            Some(("RBF-14", "exceeded: size=~1.1 MB , max=1.0 MB")),
        ),
        (
            "metadata/noise",
            random_bytes(3_000_000),
            1,
            Some(("RBF-14", "exceeded: size=~4.0 MB , max=1.0 MB")),
        ),
        // By how much it is too large does not matter any more.
        (
            "metadata/noise",
            random_bytes(9_000_000),
            1,
            Some(("RBF-14", "exceeded: size=~more than 8.4 MB , max=1.0 MB")),
        ),
        // OLM does not unpack what is elsewhere.
        ("docs/noise", random_bytes(3_000_000), 0, None),
    ];
    for (name, content, code, expected) in cases {
        let path = format!("bundle-valid/{name}");
        write(&directory, &path, &content);
        let output = check(&directory, &["--log", "info", "--output", "jsonl", "bundle-valid"]);
        std::fs::remove_file(directory.path().join(&path)).unwrap();
        let case = format!("{name}, {} bytes", content.len());
        let record: Value = serde_json::from_str(out(&output).trim()).unwrap();
        assert_eq!(status(&output), code, "{case}: {record}");
        assert_eq!(rules(&record), Vec::from_iter(expected.map(|(rule, _)| rule)), "{case}");
        let told = expected.is_none_or(|(_, text)| record.to_string().contains(text));
        assert!(told, "{case}: {record}");
        // Neither rule is left out.
        assert!(!err(&output).contains("RBF-1"), "{case}: {}", err(&output));
    }
}

#[test]
fn several_paths_are_checked_at_once() {
    let directory = directory();
    let all = ["catalog-broken", "good.yaml", "bundle-valid", "classless.yaml", "plain-valid"];
    let (status, found) = records(&directory, &all);
    let sources: Vec<_> = found.iter().map(|r| r["source"].as_str().unwrap()).collect();
    let expected = [
        "catalog-broken",
        "catalog-broken",
        "good.yaml",
        "bundle-valid",
        "classless.yaml",
        "plain-valid",
    ];
    assert_eq!((status, &*sources), (1, &expected[..]), "in the order in which they are named");
    let (status, found) = records(&directory, &["good.yaml", "bundle-valid", "catalog-valid"]);
    assert_eq!((status, found.len()), (0, 3));
    // One that is missing does not keep the others from being checked.
    for arguments in [["nowhere", "classless.yaml"], ["classless.yaml", "nowhere"]] {
        let (status, found) = records(&directory, &arguments);
        assert_eq!((status, found.len(), rules(&found[0])), (2, 1, vec!["RPK-12"]));
    }
    let (status, found) = records(&directory, &["good.yaml", "good.yaml"]);
    assert_eq!((status, found.len()), (0, 2));
}

#[test]
fn the_table_shows_line_and_column() {
    let directory = directory();
    let output = check(&directory, &["bundle-broken", "classless.yaml", "good.yaml"]);
    assert_eq!(status(&output), 1);
    let table = out(&output);
    for lines in [
        "bundle-broken/manifests/lease.yaml:2:1: deny RBF-10 Value coordination.k8s.io/v1, Kind=Lease: unsupported media type registry+v1 for bundle object\n  2 | kind: Lease\n    | ^\n",
        "  67 |       - name: etcdbackups.etcd.database.coreos.com\n     |         ^\n",
        "classless.yaml:5:1: deny RPK-12 spec.provisionerClassName: Required value\n  5 | spec:\n    | ^\n",
    ] {
        assert!(table.contains(lines), "{lines}\nis not in\n{table}");
    }
    assert!(table.contains("bundle-broken/manifests/service.yaml:4:1: deny RBF-12 "), "{table}");
    assert!(!table.contains("good.yaml"), "{table}");
    assert!(err(&output).contains("1 passed, 2 denied, 0 errors"), "{}", err(&output));
    // Columns are characters, and a mark stands below the one that is meant.
    // The table does not show a line that contains a whole object, so the head is a separate line.
    let head = "{\"apiVersion\": \"core.rukpak.io/v1alpha1\", \"kind\": \"Bundle\",";
    let text = "\"metadata\": {\"name\": \"äöü\"}, \"spec\": {\"source\": {\"type\": \"image\", \"image\": {\"ref\": \"x@sha256:12\"}}}}";
    for (name, newline) in [("line.json", ""), ("line.yaml", "\r\n")] {
        write(&directory, name, format!("{head}\n{text}{newline}"));
        let table = out(&check(&directory, &[name]));
        let mut lines = table.lines();
        let place = lines.next().unwrap();
        let column = place.split(':').nth(2).unwrap().parse::<usize>().unwrap();
        let offset = text.char_indices().nth(column - 1).unwrap().0;
        assert!(text[offset..].starts_with("\"spec\": "), "{table}");
        let (shown, mark) = (lines.next().unwrap(), lines.next().unwrap());
        let mark = mark.chars().position(|c| c == '^').unwrap();
        assert!(shown.chars().skip(mark).collect::<String>().starts_with("\"spec\""), "{table}");
        assert!(!table.contains('\r'), "{table:?}");
    }
}

/// Who knows `opm validate` finds the errors of a catalog nested in the same way, each with its place.
#[test]
fn errors_of_a_catalog_are_a_tree() {
    let directory = directory();
    let tree = |path: &str, arguments: &[&str]| {
        let output = check(&directory, &[arguments, &[path]].concat());
        let table = out(&output);
        let (_, tree) = table.split_once("invalid index:\n")?;
        tree.split_once("\ndetails: ").map(|(tree, _)| tree.to_owned())
    };
    let file = "catalog-broken/etcd/catalog.yaml";
    let expected = format!(
        "\
├── catalog-broken/prometheus/catalog.json:5:1: FBC-43 not JSON: key must be a string
└── invalid package \"etcd\":
    ├── invalid channel \"fast\":
    │   └── {file}:4:1: FBC-11 channel must contain at least one bundle
    └── invalid channel \"stable\":
        ├── {file}:14:5: FBC-21 channel contains one or more stranded bundles: etcdoperator.v0.9.2, etcdoperator.v0.9.4
        ├── {file}:18:5: FBC-18 no olm.bundle blobs found in package \"etcd\" for olm.channel entries [etcdoperator.v0.9.5]
        └── invalid bundle \"etcdoperator.v0.9.4\":
            └── {file}:46:7: FBC-35 error parsing bundle \"etcdoperator.v0.9.4\" version \"nine\": No Major.Minor.Patch elements found
"
    );
    assert_eq!(tree("catalog-broken", &[]), Some(expected));
    // Violations of a package are directly below it. Those of a bundle or of the icon are nested
    // further.
    edit(&directory, "catalog-broken/etcd/catalog.yaml", "defaultChannel: fast\n", "");
    edit(&directory, "catalog-broken/etcd/catalog.yaml", "  mediatype: image/png\n", "");
    let text = tree("catalog-broken", &[]).unwrap();
    for line in [
        format!("    ├── {file}:2:1: FBC-10 default channel must be set\n    ├── invalid channel"),
        format!("    └── invalid icon:\n        └── {file}:4:1: FBC-12 "),
    ] {
        assert!(text.contains(&line), "{line}\nis not in\n{text}");
    }
    // Warnings are no errors, and other things have no index.
    configuration(&directory, &json!([{"name": "file-based-catalog", "mode": "warn"}]));
    assert_eq!(tree("catalog-broken", &["--config", "opgate.yaml"]), None);
    assert_eq!((tree("catalog-valid", &[]), tree("bundle-broken", &[])), (None, None));
}

/// A pipeline reads the output also where nothing could be read.
#[test]
fn every_output_format_reports_unreadable_input() {
    let directory = directory();
    write(&directory, "bad.yaml", "a: [\n");
    configuration(&directory, &json!([]));
    copy(&directory.path().join("bundle-broken"), &directory.path().join("unreported"));
    let unread = "unreported/manifests/service.yaml:4:1: not YAML";
    write(&directory, "empty.yaml", "");
    write(&directory, "zero.yaml", "a: \0\n");
    let neither = "empty.yaml: empty: it should hold manifests";
    // Arguments, the number of evaluated inputs, and the messages about the others.
    let cases: [(&[&str], usize, &[&str]); 10] = [
        (&["empty.yaml"], 0, &[neither]),
        (&["zero.yaml"], 0, &["zero.yaml:1:4: not a text"]),
        (&["empty.yaml", "zero.yaml"], 0, &[neither, "zero.yaml:1:4: not a text"]),
        (&["empty.yaml", "catalog-valid", "zero.yaml"], 1, &[neither, "zero.yaml:1:4: not a"]),
        (&["nowhere"], 0, &["nowhere: No such file"]),
        (&["nowhere", "bad.yaml"], 0, &["nowhere: No such file", "bad.yaml:1:4: not YAML"]),
        (&["--input-type", "bundle", "good.yaml"], 0, &["good.yaml: not a directory"]),
        (&["--baseline", "nowhere", "good.yaml"], 0, &["nowhere: No such file"]),
        (&["good.yaml", "nowhere"], 1, &["nowhere: No such file"]),
        (&["--config", "opgate.yaml", "unreported"], 1, &[unread]),
    ];
    for (arguments, evaluated, lines) in cases {
        let run = |form: &str| {
            let output = check(&directory, &[&["--output", form], arguments].concat());
            assert_eq!(status(&output), 2, "{arguments:?}: {}", err(&output));
            for line in lines {
                assert!(err(&output).contains(line), "{arguments:?}: {}", err(&output));
            }
            out(&output)
        };
        let mut listed: Vec<Value> = serde_json::from_str(&run("json")).unwrap();
        let each = run("jsonl");
        let each = each.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(each.eq(listed.iter().cloned()), "{arguments:?}: {listed:?}");
        assert_eq!(listed.len(), evaluated + lines.len(), "{arguments:?}");
        for (line, record) in lines.iter().zip(listed.split_off(evaluated)) {
            assert_eq!((&record["ok"], &record["violations"]), (&json!(false), &json!([])));
            assert_eq!((&record["kind"], &record["name"]), (&json!(""), &json!("")));
            assert_eq!(record["error"]["policy"], "");
            let (source, cause) = (record["source"].as_str(), record["error"]["cause"].as_str());
            assert!(cause.unwrap().starts_with(line), "{arguments:?}: {record}");
            assert!(line.starts_with(source.unwrap()), "{arguments:?}: {record}");
        }
        listed.iter().for_each(assert_record_members);

        let junit = run("junit");
        let names = elements(&junit);
        let count = |name: &str| names.iter().filter(|n| *n == name).count();
        assert_eq!((count("testcase"), count("error")), (evaluated + lines.len(), lines.len()));
        let counts = format!("tests=\"{}\"", evaluated + lines.len());
        let errors = format!("errors=\"{}\"", lines.len());
        assert!(junit.contains(&counts) && junit.contains(&errors), "{junit}");

        let sarif: Value = serde_json::from_str(&run("sarif")).unwrap();
        let invocation = &sarif["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false);
        let notifications = invocation["toolExecutionNotifications"].as_array().unwrap();
        assert_eq!(notifications.len(), lines.len(), "{arguments:?}");
        for (line, notification) in lines.iter().zip(notifications) {
            assert!(junit.contains(line), "{arguments:?}: {junit}");
            assert_eq!(notification["level"], "error");
            assert!(notification["message"]["text"].as_str().unwrap().starts_with(line));
        }
    }
    let sarif = out(&check(&directory, &["--output", "sarif", "good.yaml"]));
    assert!(!sarif.contains("invocations"), "{sarif}");
}

/// An unreadable directory does not prevent the check of the files next to it. No user can read a
/// path that is too long, unlike a path without permission.
#[test]
fn unreadable_directories_are_reported() {
    let cases = [
        ("catalog-broken", "etcd/deep", 1, "FBC-43"),
        ("bundle-broken", "manifests/deep", 2, ""),
        ("bundle-broken", "docs", 2, ""),
        ("plain-broken", "manifests/deep", 2, ""),
    ];
    for (fixture, at, code, rule) in cases {
        let directory = directory();
        let (_, before) = records(&directory, &[fixture]);
        nest_beyond_path_limit(&directory.path().join(fixture).join(at));
        let output = check(&directory, &["--output", "jsonl", fixture]);
        assert_eq!(status(&output), code, "{fixture}/{at}: {}", err(&output));
        let (_, found) = records(&directory, &[fixture]);
        // The command still reports all other violations.
        for (before, found) in before.iter().zip(&found) {
            assert!(rules(before).iter().all(|rule| rules(found).contains(rule)), "{found}");
        }
        let all = out(&output);
        assert!(all.contains(&format!("{fixture}/{at}/d")), "{all}");
        assert!(all.contains("File name too long"), "{all}");
        let told =
            |v: &Value| v["rule"] == rule && v["location"]["file"].to_string().contains("/dddd");
        assert!(rule.is_empty() || found.iter().flat_map(violations).any(told), "{all}");
    }
    let directory = directory();
    write(&directory, "manifests/good.yaml", VALID_BUNDLE);
    nest_beyond_path_limit(&directory.path().join("manifests/deep"));
    let output = check(&directory, &["manifests"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("error: manifests/deep/d"), "{}", err(&output));
}

/// Creates nested directories until the path of the innermost ones exceeds the limit for paths.
fn nest_beyond_path_limit(at: &Path) {
    let names = vec!["d".repeat(200); 12].join("/");
    let (outer, inner) = (at.join(&names), at.with_extension("inner"));
    std::fs::create_dir_all(&outer).unwrap();
    std::fs::create_dir_all(inner.join(&names)).unwrap();
    std::fs::rename(inner, outer.join("inner")).unwrap();
}

/// The command reports each reason once, with its location.
#[test]
fn bundle_violations_are_reported_once_with_location() {
    // File and content, exit status, and all that is said of it on the table.
    type Case<'c> = (&'c str, &'c str, i32, &'c [&'c str]);
    let key = "operators.operatorframework.io.bundle.package.v1";
    let label = format!(
        "RBF-22 label {key} is \"foo\" in bundle.Dockerfile but \"etcd\" in annotations.yaml, which is authoritative"
    );
    let csv = "manifests/etcdoperator.clusterserviceversion.yaml";
    let untyped = "deny RBF-17 couldn't parse dependency of type unknown:";
    let cases: [Case<'_>; 6] = [
        (
            "bundle.Dockerfile",
            &format!("FROM scratch\nLABEL a=b\nLABEL {key}=foo\n"),
            0,
            &[&format!("bundle.Dockerfile:3:1: warn {label}\n  3 | LABEL {key}=foo\n    | ^")],
        ),
        (
            "bundle.Dockerfile",
            &format!("FROM scratch\nlabel a=b \\\n  # more\n  {key}='foo'\n"),
            0,
            &[&format!("bundle.Dockerfile:4:3: warn {label}\n  4 |   {key}='foo'\n    |   ^")],
        ),
        (
            csv,
            "a: [\n",
            1,
            &[&format!("{csv}:1:4: deny RBF-12 {csv}: cannot parse manifest: not YAML: ")],
        ),
        (
            "metadata/dependencies.yaml",
            "dependency: []\n",
            1,
            &[&format!(
                "metadata/dependencies.yaml:1:1: {untyped} dependencies is missing: list below it what the bundle depends on, or remove the file"
            )],
        ),
        (
            "metadata/dependencies.yaml",
            "dependencies:\n- value: {}\n  type: 5\n",
            1,
            &[&format!("metadata/dependencies.yaml:3:3: {untyped} type is not a text")],
        ),
        (
            "manifests/a.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  labels:\n    x: '0123456789012345678901234567890123456789012345678901234567890123'\n",
            1,
            &[
                "manifests/a.yaml:6:5: deny RBF-12 error validating object metadata: metadata.labels: Invalid value: \"0123456789012345678901234567890123456789012345678901234567890123\": must be no more than 63 bytes. v1 Secret \"a\"",
            ],
        ),
    ];
    for (name, content, code, expected) in cases {
        let directory = directory();
        write(&directory, &format!("bundle-valid/{name}"), content);
        let output = check(&directory, &["bundle-valid"]);
        let table = out(&output);
        assert_eq!(status(&output), code, "{name}: {table}");
        for text in expected {
            assert!(table.contains(&format!("bundle-valid/{text}")), "{text}\nis not in\n{table}");
        }
        let findings = table.lines().filter(|line| line.starts_with("bundle-valid")).count();
        assert_eq!(findings, expected.len(), "{table}");
    }
    // The rules do not evaluate what is not in the annotations.
    let directory = directory();
    let settings = json!({"bundle": {"redHatCatalog": true}});
    configuration(&directory, &json!([{"name": "registry-bundle", "settings": settings}]));
    assert_eq!(records(&directory, &["--config", "opgate.yaml", "bundle-valid"]).0, 0);
    let info = ["--log", "info", "bundle-valid"];
    write(&directory, &format!("bundle-valid/{csv}"), "a: [\n");
    assert!(err(&check(&directory, &info)).contains("RBF-06"));
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

#[test]
fn standard_input_is_a_file() {
    let directory = directory();
    let catalog = std::fs::read(directory.path().join("catalog-broken/etcd/catalog.yaml")).unwrap();
    let json = br#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}"#;
    let cases: [(&[&str], &[u8], i32, &str); 9] = [
        (&["-"], BUNDLE_WITHOUT_CLASS.as_bytes(), 1, "-:5:1: deny RPK-12 "),
        (&["-"], VALID_BUNDLE.as_bytes(), 0, ""),
        (&["-"], json, 0, ""),
        (
            &["--input-type", "manifest", "-"],
            BUNDLE_WITHOUT_CLASS.as_bytes(),
            1,
            "-:5:1: deny RPK-12 ",
        ),
        (&["--input-type", "catalog", "-"], &catalog, 1, "└── -:4:1: FBC-11 "),
        (&["-", "good.yaml"], &catalog, 1, "-:4:1: deny FBC-11 "),
        (&["-"], b"a: [\n", 2, " -:1:4: not YAML"),
        (&["--input-type", "bundle", "-"], b"a: 1\n", 2, " -: not a directory"),
        (&["-", "-"], VALID_BUNDLE.as_bytes(), 2, "name it once"),
    ];
    let before = std::fs::read_dir(directory.path()).unwrap().count();
    for (arguments, input, code, expected) in cases {
        let output = check_stdin(&directory, arguments, input);
        let all = out(&output) + &err(&output);
        assert_eq!(status(&output), code, "{arguments:?}: {all}");
        assert!(all.contains(expected), "{arguments:?}: {all}");
        // The command has deleted the copy, and its output does not mention the copy.
        assert!(!all.contains(&*directory.path().to_string_lossy()), "{arguments:?}: {all}");
    }
    let cache = usize::from(directory.path().join(".cache").exists());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before + cache);
    let output =
        check_stdin(&directory, &["--output", "jsonl", "-"], BUNDLE_WITHOUT_CLASS.as_bytes());
    let record: Value = serde_json::from_str(out(&output).trim()).unwrap();
    assert_eq!(
        (&record["source"], location_of(&record, "RPK-12")),
        (&json!("-"), "-:5".to_owned())
    );
}

/// A repository contains bundles and catalogs next to other files.
#[test]
fn bundles_and_catalogs_below_a_directory_are_found() {
    let directory = directory();
    for (fixture, path) in [
        ("bundle-valid", "repo/bundle/0.1.0"),
        ("bundle-broken", "repo/bundle/0.2.0"),
        ("plain-valid", "repo/plain"),
        ("catalog-broken", "repo/catalog"),
    ] {
        copy(&directory.path().join(fixture), &directory.path().join(path));
    }
    write(&directory, "repo/config/classless.yaml", BUNDLE_WITHOUT_CLASS);
    write(&directory, "repo/Makefile", "all:\n");
    write(&directory, "repo/chart/templates/a.yaml", "name: {{ .Values.name }}\n");
    let expected = [
        ("repo/bundle/0.1.0", "RegistryBundle", true, "bundle"),
        ("repo/bundle/0.2.0", "RegistryBundle", false, "bundle"),
        ("repo/catalog", "FileBasedCatalog", false, "catalog"),
        ("repo/catalog", "FileBasedCatalog", false, "catalog"),
        ("repo/plain", "PlainBundle", true, "plain bundle"),
    ];
    let (code, found) = records(&directory, &["repo"]);
    assert_eq!((code, found.len()), (1, 5), "{found:?}");
    let output = check(&directory, &["repo"]);
    for ((source, kind, ok, name), record) in expected.into_iter().zip(&found) {
        assert_eq!((&record["source"], &record["kind"]), (&json!(source), &json!(kind)));
        assert_eq!(record["ok"], ok, "{record}");
        // The command prints the detected type to stderr.
        let line = format!("{source}: {name}\n");
        assert!(err(&output).contains(&line), "{line} is not in {}", err(&output));
    }
    for place in [
        "bundle/0.2.0/manifests/lease.yaml:2:1: deny RBF-10",
        "catalog/prometheus/catalog.json:5:1: deny FBC-43",
    ] {
        assert!(out(&output).contains(&format!("repo/{place}")), "{}", out(&output));
    }
    // What could have been of a catalog is not passed over in silence.
    let left = "warning: repo/chart/templates/a.yaml:1:8: not YAML";
    assert!(err(&output).contains(left), "{}", err(&output));
    let named = err(&check(&directory, &["repo/bundle/0.1.0"]));
    assert!(named.ends_with("\n1 passed, 0 denied, 0 errors\n"), "{named}");
    assert!(!named.contains("repo/"), "what is named is not found: {named}");
    // Old and new have to be one thing.
    let output = check(&directory, &["--baseline", "bundle-valid", "repo"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("repo: --baseline compares one"), "{}", err(&output));
    let output = check(&directory, &["--baseline", "bundle-valid", "repo/bundle/0.1.0"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
}

/// The project of an Operator is its `watches.yaml`, with the bundles next to it.
#[test]
fn projects_are_evaluated_by_their_watches() {
    let directory = directory();
    let watches = "# all\n- version: v1alpha1\n  group: app.example.com\n  kind: AppService\n  role: r\n  playbook: p.yml\n  manageStatus: 'yes'\n";
    write(&directory, "project/watches.yaml", watches);
    write(&directory, "project/PROJECT", "layout: [ansible.sdk.operatorframework.io/v1]\n");
    write(&directory, "project/config/manager/patch.yaml", BUNDLE_WITHOUT_CLASS);
    let found = [
        "watches.yaml:6:3: deny MSC-12 role and playbook are mutually exclusive for app.example.com/v1alpha1 AppService",
        "watches.yaml:7:3: warn MSC-13 watches.yaml entry 0: manageStatus must be a boolean",
    ];
    for args in
        [&["project"][..], &["--input-type", "project", "project"], &["project/watches.yaml"]]
    {
        let output = check(&directory, args);
        assert_eq!(status(&output), 1, "{args:?}");
        for line in found {
            assert!(out(&output).contains(&format!("project/{line}")), "{}", out(&output));
        }
    }
    copy(&directory.path().join("bundle-valid"), &directory.path().join("project/bundle"));
    let (code, found) = records(&directory, &["project"]);
    let kinds: Vec<_> = found.iter().map(|record| record["kind"].clone()).collect();
    assert_eq!((code, kinds), (1, vec![json!("OperatorProject"), json!("RegistryBundle")]));
    write(&directory, "project/watches.yaml", "- kind: {\n");
    let output = check(&directory, &["--input-type", "project", "project"]);
    assert_eq!(status(&output), 1, "{}", err(&output));
    let denied = "deny MSC-13 watches.yaml cannot be read: not YAML";
    assert!(out(&output).contains(denied), "{}", out(&output));
    let output = check(&directory, &["--input-type", "project", "bundle-valid"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("there is no watches.yaml in it"), "{}", err(&output));
}

/// Rules for every manifest evaluate files. They do not make the API server send requests.
#[test]
fn every_manifest_is_evaluated() {
    let directory = directory();
    let manifest = "apiVersion: cache.example.com/v1\nkind: Memcached\nmetadata:\n  name: a\n  labels: {tier: 1}\n  annotations:\n    ansible.operator-sdk/reconcile-period: soon\n    ansible.operator-sdk/max-runner-artifacts: '-1'\n";
    write(&directory, "memcached.yaml", manifest);
    let output = check(&directory, &["memcached.yaml"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    for line in [
        "memcached.yaml:5:12: warn MSC-20 metadata.labels[tier] must be a string",
        "memcached.yaml:7:5: warn MSC-10 annotation ansible.operator-sdk/reconcile-period \"soon\" is not a duration",
        "memcached.yaml:8:5: warn MSC-11 annotation ansible.operator-sdk/max-runner-artifacts \"-1\" is not a non-negative integer",
    ] {
        assert!(out(&output).contains(line), "{}", out(&output));
    }
}

/// A setting keeps Secrets away from the webhook, and not from a check that is given one.
#[test]
fn pull_secret_in_a_file_is_evaluated() {
    let directory = directory();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: openshift-marketplace}\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: '{\"auths\": {\"a.io\": {}, \"b.io\": {}}}'\n";
    write(&directory, "secret.yaml", secret);
    let source = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: c, namespace: openshift-marketplace}\nspec: {sourceType: grpc, image: x, secrets: [s]}\n";
    write(&directory, "cluster.yaml", source);
    let output = check(&directory, &["--cluster-state", "cluster.yaml", "secret.yaml"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    let line = "secret.yaml:6:3: warn CAT-21 include credentials for only one registry per secret: found [a.io b.io]";
    assert!(out(&output).contains(line), "{}", out(&output));
}

/// For a very large number of violations, the report contains some, and the number of the omitted
/// ones.
#[test]
fn omitted_violations_are_counted() {
    let directory = directory();
    let object = "apiVersion: v1\nkind: ConfigMap\n---\n";
    write(&directory, "plain-valid/manifests/many.yaml", object.repeat(500));
    for number in 0..200 {
        let text =
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: x\n  labels: {-a: b}\n---\na: 1\n";
        write(&directory, &format!("bundle-valid/manifests/{number}.yaml"), text);
        write(&directory, &format!("bundle-valid/manifests/{number}.json"), "{");
    }
    for (path, code, lines) in [
        (
            "plain-valid",
            1,
            vec!["244 more violations of this rule are omitted; manifests/many.yaml"],
        ),
        (
            "bundle-valid",
            // The log tells which files cannot be read besides.
            2,
            vec!["more violations of this rule are omitted; "],
        ),
    ] {
        let (status, found) = records(&directory, &[path]);
        let of_policy = violations(&found[0])
            .iter()
            .filter(|v| v["policy"].as_str().unwrap().ends_with("bundle"));
        let count = of_policy.count();
        assert!(status == code && count <= 256, "{path}: {status}, {count}");
        for line in lines {
            assert!(found[0].to_string().contains(line), "{path}: {line}: {}", found[0]);
        }
    }
}

/// Who has many packages has to know which one is too large.
#[test]
fn policy_errors_name_the_object() {
    let directory = directory();
    let small = json!([{"name": "file-based-catalog", "limits": {"memory": "4Mi"}}]);
    configuration(&directory, &small);
    let entries: Vec<_> = (0..50_000).map(|n| json!({"name": format!("huge.v0.0.{n}")})).collect();
    let channel =
        json!({"schema": "olm.channel", "package": "huge", "name": "c", "entries": entries});
    let package = json!({"schema": "olm.package", "name": "huge", "defaultChannel": "c"});
    write(&directory, "catalog-valid/huge/catalog.json", format!("{package}\n{channel}\n"));
    let output = check(&directory, &["--config", "opgate.yaml", "catalog-valid"]);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let log = err(&output);
    assert!(
        log.contains("FileBasedCatalog huge") && !log.contains("FileBasedCatalog etcd"),
        "{log}"
    );
    assert!(out(&output).contains("error FileBasedCatalog huge: "), "{}", out(&output));
}

/// The command prints escape codes neither into a pipe nor where the user disables them. It never
/// prints the content of files to a terminal unchanged.
#[test]
fn escape_codes_are_printed_only_if_enabled() {
    let directory = directory();
    write(&directory, "codes/\u{1b}[31m\nname.yaml", BUNDLE_WITHOUT_CLASS);
    let spec = "provisionerClassName: \"\\e[31mx\", source: {type: \"\\e[1m\"}";
    let text = format!(
        "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata: {{name: \"\\e[31m\\n\"}}\nspec: {{{spec}}}\n"
    );
    write(&directory, "codes/plain.yaml", text);
    let arguments = ["check", "codes", "bundle-broken", "nowhere"];
    for form in ["table", "json", "jsonl", "junit", "sarif"] {
        let mut command =
            command(directory.path(), &[&arguments[..], &["--output", form]].concat());
        for (name, value) in [("TERM", "xterm"), ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")] {
            let output = command.env(name, value).output().unwrap();
            let all = out(&output) + &err(&output);
            let wanted = (name, form) == ("CLICOLOR_FORCE", "table");
            assert!(wanted || !all.contains('\u{1b}'), "{form} {name}: {all:?}");
        }
    }
    let coloured = command(directory.path(), &["check", "classless.yaml"])
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    assert!(out(&coloured).contains("\u{1b}["), "{}", out(&coloured));
    let table = out(&check(&directory, &["codes"]));
    assert!(
        table.lines().all(|line| line.is_empty() || line.starts_with([' ', 'c', 'd'])),
        "{table}"
    );
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

#[test]
fn every_output_format_is_valid_and_names_file_and_line() {
    let directory = directory();
    write(
        &directory,
        "odd/a & <b> \"ä\".yaml",
        BUNDLE_WITHOUT_CLASS.replace("classless", "\"<&>\\\"\""),
    );
    let paths = ["bundle-broken", "catalog-broken", "odd", "good.yaml"];
    let run = |form: &str| {
        let output = check(&directory, &[&["--output", form], &paths[..]].concat());
        assert_eq!(status(&output), 1, "{form}: {}", err(&output));
        out(&output)
    };
    let listed: Vec<Value> = serde_json::from_str(&run("json")).unwrap();
    let lines: Vec<Value> =
        run("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed, lines);
    listed.iter().for_each(assert_record_members);

    let junit = run("junit");
    let names = elements(&junit);
    let count = |name: &str| names.iter().filter(|n| *n == name).count();
    assert_eq!((count("testsuites"), count("testsuite")), (1, 1), "{junit}");
    assert_eq!((count("testcase"), count("failure")), (5, 4), "{junit}");
    assert!(junit.contains("<testsuites tests=\"5\" failures=\"4\" errors=\"0\" time="), "{junit}");
    assert!(junit.contains("bundle-broken/manifests/lease.yaml:2:1: deny RBF-10 "), "{junit}");

    let sarif: Value = serde_json::from_str(&run("sarif")).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let known = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), listed.iter().flat_map(violations).count());
    for result in results {
        assert!(known.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()), "{result}");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty(), "{result}");
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].is_string(), "{result}");
    }
    let found = |rule: &str| {
        let result = results.iter().find(|r| r["ruleId"] == rule).unwrap();
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        format!("{uri}:{}", place["region"]["startLine"])
    };
    assert_eq!(found("RBF-10"), "bundle-broken/manifests/lease.yaml:2");
    assert_eq!(found("FBC-43"), "catalog-broken/prometheus/catalog.json:5");
    assert_eq!(found("RPK-12"), "odd/a%20%26%20%3Cb%3E%20%22%C3%A4%22.yaml:5");
}

/// Aliases that stand for more than there is memory.
fn yaml_bomb() -> String {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 8].join(", ");
        writeln!(text, "  a{level}: &a{level} [{aliases}]").unwrap();
    }
    text
}

/// Unreadable contents as a manifest, in a bundle and in a catalog: the command reports the
/// location.
#[test]
fn unreadable_files_report_location() {
    let head = "apiVersion: v1\nkind: ConfigMap\n";
    let blocks: String = (1..2_000).fold(String::new(), |mut text, level| {
        writeln!(text, "{:level$}a:", "").unwrap();
        text
    });
    let cases: [(&str, Vec<u8>, &str, &str); 23] = [
        ("tabs.yaml", format!("{head}metadata:\n\tname: x\n").into(), "4:", "not YAML"),
        ("bytes.yaml", [head.as_bytes(), b"a: \xff\xfe\n"].concat(), "3:4", "not UTF-8"),
        ("bytes.json", b"{\"kind\":\n\"\xc3\"}".to_vec(), "2:2", "not UTF-8"),
        ("wide.yaml", VALID_BUNDLE.encode_utf16().flat_map(u16::to_le_bytes).collect(), "1:", ""),
        ("binary.yaml", (0..=255).collect(), "2:118", "not UTF-8"),
        ("binary.json", b"\x7fELF\x02\x01\x01\0\0".to_vec(), "1:", ""),
        ("zero.yaml", format!("{head}data: \0\n").into(), "3:7", ""),
        ("bomb.yaml", yaml_bomb().into(), "", "aliases"),
        ("self.yaml", format!("{head}data: &a [*a]\n").into(), "3:", "not YAML"),
        ("alias.yaml", format!("{head}data: *nobody\n").into(), "3:", "anchor"),
        ("brackets.yaml", format!("{head}data: {}\n", "[".repeat(90_000)).into(), "3:", "256"),
        ("braces.yaml", format!("{head}data: {}\n", "{a: ".repeat(9_000)).into(), "3:", "256"),
        ("dashes.yaml", format!("{head}data:\n  {}\n", "- ".repeat(20_000)).into(), "4:", "256"),
        ("blocks.yaml", format!("{head}data:\n{blocks}").into(), "259:", "256"),
        (
            "deep.json",
            format!("{{\"a\":\n{}{}}}", "[".repeat(90_000), "]".repeat(90_000)).into(),
            "2:",
            "256",
        ),
        ("open.json", format!("{{\"a\":\n{}", "[".repeat(90_000)).into(), "", "JSON"),
        (
            "twice.yaml",
            format!("{head}metadata:\n  name: a\n  name: b\n").into(),
            "5:3",
            "duplicate",
        ),
        (
            "helm.yaml",
            format!("{head}metadata:\n  name: {{{{ .x }}}}\n").into(),
            "4:",
            "render it first",
        ),
        (
            "if.yaml",
            format!("{{{{- if .x }}}}\n{head}metadata:\n  name: x\n{{{{- end }}}}\n").into(),
            "",
            "render it first",
        ),
        ("yaml.json", "a: [\n".into(), "1:4", "not YAML"),
        ("list.json", "[1, ]".into(), "1:5", "not JSON"),
        ("comma.json", "{\n  \"a\": 1,\n}\n".into(), "3:1", "not JSON"),
        ("rest.json", "{\"a\": 1}\nx".into(), "2:1", "not JSON"),
    ];
    let directory = directory();
    for (name, content, place, why) in cases {
        write(&directory, name, &content);
        let mut said = None;
        for arguments in [&[name][..], &["--input-type", "manifest", name]] {
            let output = check(&directory, arguments);
            let errors = err(&output);
            assert_eq!((status(&output), &*out(&output)), (2, ""), "{arguments:?}: {errors}");
            assert!(errors.contains(&format!(" {name}:{place}")), "{arguments:?}: {errors}");
            assert!(errors.contains(why), "{arguments:?}: {errors}");
            assert!(errors.len() < 1_000 && errors.lines().count() == 1, "{errors}");
            // The detection of the input type reports the same error as the reader of manifests.
            let line = errors.split_once("error: ").unwrap().1.to_owned();
            assert_eq!(*said.get_or_insert_with(|| line.clone()), line, "{arguments:?}");
        }
        for (fixture, within, rule) in [
            ("bundle-valid", "manifests/", "RBF-12"),
            ("plain-valid", "manifests/", "PBF-04"),
            ("catalog-valid", "etcd/", "FBC-43"),
        ] {
            // opm reads YAML in a file of any name.
            if fixture == "catalog-valid" && ["list.json", "comma.json"].contains(&name) {
                continue;
            }
            let path = format!("{fixture}/{within}{name}");
            write(&directory, &path, &content);
            let (status, found) = records(&directory, &[fixture]);
            std::fs::remove_file(directory.path().join(&path)).unwrap();
            let last = found.last().unwrap();
            // Upstream's readers take the last of two equal names.
            let expected = match (fixture, name) {
                ("catalog-valid", "twice.yaml") => (1, vec!["FBC-01", rule]),
                (_, "twice.yaml") => (0, vec![rule]),
                _ => (1, vec![rule]),
            };
            assert_eq!((status, rules(last)), expected, "{path}: {found:?}");
            let of_rule = violations(last).iter().find(|v| v["rule"] == rule).unwrap();
            let message = of_rule["message"].as_str().unwrap();
            assert!(message.contains(why), "{path}: {message}");
            assert!(location_of(last, rule).starts_with(&path), "{path}: {last}");
            let line = place.split(':').next().unwrap();
            assert!(
                line.is_empty() || location_of(last, rule) == format!("{path}:{line}"),
                "{path}: {last}"
            );
        }
    }
    // The parser rejects a duplicate name in JSON, like in YAML.
    let twice = VALID_BUNDLE.trim_end().replace('\n', "\\n");
    let twice = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {{\"name\": \"x\"}},\n \"data\": {{\"a\": \"{twice}\", \"b\": 1,\n  \"a\": 2}}}}"
    );
    for name in ["twice.json", "twice.yaml"] {
        for path in [
            name.to_owned(),
            format!("bundle-valid/manifests/{name}"),
            format!("plain-valid/manifests/{name}"),
        ] {
            write(&directory, &path, &twice);
            let arguments = if path == name {
                vec!["--input-type", "manifest", name]
            } else {
                vec![path.split('/').next().unwrap()]
            };
            let output = check(&directory, &arguments);
            std::fs::remove_file(directory.path().join(&path)).unwrap();
            let code = match path.split('/').next() {
                Some("bundle-valid" | "plain-valid") => 0,
                _ => 2,
            };
            assert_eq!(status(&output), code, "{path}");
            let all = out(&output) + &err(&output);
            assert!(all.contains(&format!("{path}:3:3: ")), "{path}: {all}");
            assert!(all.contains("duplicate mapping key: a"), "{path}: {all}");
        }
    }
    // What only has braces in it is no template.
    write(
        &directory,
        "rule.yaml",
        format!("{VALID_BUNDLE}a: \"{{{{ $labels.x }}}}\"\nb: c\nd: [\n"),
    );
    let errors = err(&check(&directory, &["rule.yaml"]));
    assert!(errors.contains("not YAML") && !errors.contains("template"), "{errors}");
    // The command still evaluates the files next to it.
    write(&directory, "plain-valid/manifests/a.yaml", "a: [\n");
    write(&directory, "plain-valid/manifests/b.yaml", BUNDLE_WITHOUT_CLASS);
    let (_, found) = records(&directory, &["plain-valid"]);
    assert_eq!(rules(&found[0]), ["PBF-04", "RPK-12"]);
}

/// Unusual, and right.
#[test]
fn unusual_valid_yaml_is_read() {
    let directory = directory();
    let json = "{\"apiVersion\": \"core.rukpak.io/v1alpha1\", \"kind\": \"Bundle\", \"metadata\": {\"name\": \"b\"}, \"spec\": {}}";
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let cases = [
        ("crlf.yaml", BUNDLE_WITHOUT_CLASS.replace('\n', "\r\n")),
        ("bom.yaml", format!("\u{feff}{BUNDLE_WITHOUT_CLASS}")),
        ("bom.json", format!("\u{feff}{json}")),
        ("both.yaml", format!("\u{feff}{}", BUNDLE_WITHOUT_CLASS.replace('\n', "\r\n"))),
        ("json.yaml", json.to_owned()),
        ("tabs.yaml", json.replace(' ', "\t")),
        ("no-newline.yaml", BUNDLE_WITHOUT_CLASS.trim_end().to_owned()),
        ("start.yaml", format!("# comment\n\n---\n{BUNDLE_WITHOUT_CLASS}...\n---\n# nothing\n")),
        ("anchor.yaml", BUNDLE_WITHOUT_CLASS.replace("  name: classless", "  name: &n classless\n  labels: {app: *n}")),
        (
            "merge.yaml",
            format!("{BUNDLE_WITHOUT_CLASS}a: &a {{x: 1}}\nb: &b {{y: 2}}\nc:\n  <<: [*a, *b]\n  x: own\n"),
        ),
        (
            "merged-head.yaml",
            "head: &head\n  apiVersion: core.rukpak.io/v1alpha1\n  kind: Bundle\n<<: *head\nmetadata: {name: b}\nspec: {}\n".to_owned(),
        ),
        ("deep.yaml", format!("{BUNDLE_WITHOUT_CLASS}deep: {nested}\n")),
        ("deep.json", json.replace("{}", &format!("{{\"deep\": {nested}}}"))),
        ("long.yaml", format!("{BUNDLE_WITHOUT_CLASS}long: {}\n", "x".repeat(1_000_000))),
        (
            "list.yaml",
            format!("apiVersion: v1\nkind: List\nitems:\n- {}", BUNDLE_WITHOUT_CLASS.trim_end().replace('\n', "\n  ")),
        ),
    ];
    for (name, content) in cases {
        write(&directory, name, &content);
        let (status, found) = records(&directory, &[name]);
        assert_eq!((status, found.len()), (1, 1), "{name}: {found:?}");
        assert!(rules(&found[0]).contains(&"RPK-12"), "{name}: {found:?}");
        let place = location_of(&found[0], "RPK-12");
        let line = place.rsplit(':').next().unwrap().parse::<usize>().unwrap();
        assert!(content.lines().nth(line - 1).unwrap().contains("spec"), "{name}: {place}");
    }
    let both = format!("{VALID_BUNDLE}---\n{BUNDLE_WITHOUT_CLASS}");
    write(&directory, "two.yaml", &both);
    let (status, found) = records(&directory, &["two.yaml"]);
    assert_eq!((status, &found[0]["ok"], &found[1]["ok"]), (1, &json!(true), &json!(false)));
    assert_eq!(found[1]["source"], "two.yaml#2");
    let line = both.lines().enumerate().filter(|(_, l)| *l == "spec:").nth(1).unwrap().0 + 1;
    assert_eq!(location_of(&found[1], "RPK-12"), format!("two.yaml:{line}"));
}

/// A link to a file inside of the directory is that file. The command reports any other link, does
/// not show its target, and fails.
#[test]
fn links_are_followed_only_inside_the_directory() {
    // What is moved away first, the link and where it leads to, what is checked, exit status, and what is said.
    type Case<'c> = (Option<(&'c str, &'c str)>, (&'c str, &'c str), &'c [&'c str], i32, &'c str);
    let crds = "dependencies:\n- type: olm.crd\n  value: {}\n";
    let out = "a symbolic link that leads out of the directory: put the file itself there";
    let cases: [Case<'_>; 19] = [
        (
            None,
            ("bundle/manifests/x.yaml", "../../secret.yaml"),
            &["bundle"],
            1,
            &format!(
                "manifests/x.yaml:1:1: deny RBF-12 manifests/x.yaml: cannot parse manifest: {out}"
            ),
        ),
        (
            None,
            ("bundle/metadata/dependencies.yaml", "../../crds.yaml"),
            &["bundle"],
            1,
            &format!(
                "dependencies.yaml:1:1: deny RBF-17 couldn't parse dependency of type unknown: {out}"
            ),
        ),
        (
            Some(("crds.yaml", "bundle/crds")),
            ("bundle/metadata/dependencies.yaml", "../crds"),
            &["bundle"],
            1,
            "metadata/dependencies.yaml:2:3: deny RBF-18 couldn't parse dependency of type olm.crd\n  2 | - type: olm.crd\n",
        ),
        (
            None,
            ("bundle/metadata/properties.yaml", "/etc/passwd"),
            &["bundle"],
            1,
            "deny RBF-19 properties[0]: a symbolic link that leads out",
        ),
        (
            Some(("bundle/metadata/annotations.yaml", "annotations.yaml")),
            ("bundle/metadata/annotations.yaml", "../../annotations.yaml"),
            &["bundle"],
            1,
            &format!("deny RBF-02 Could not find annotations file: {out}"),
        ),
        (
            Some(("bundle/metadata/annotations.yaml", "bundle/annotations")),
            ("bundle/metadata/annotations.yaml", "../annotations"),
            &["bundle"],
            0,
            "1 passed, 0 denied, 0 errors\n",
        ),
        (
            Some(("bundle/manifests", "bundle/m")),
            ("bundle/manifests", "m"),
            &["bundle"],
            1,
            "bundle/manifests:1:1: deny RBF-01 Unable to locate manifests directory: a symbolic link to a directory: put the directory itself there",
        ),
        (
            Some(("bundle/metadata", "m")),
            ("bundle/metadata", "../m"),
            &["bundle"],
            1,
            "deny RBF-01 Unable to locate metadata directory: a symbolic link that leads out of the directory: put the directory",
        ),
        (
            None,
            ("bundle/docs", "."),
            &["bundle"],
            2,
            "error: bundle/docs:1:1: a symbolic link to a directory",
        ),
        (
            None,
            ("bundle/metadata/x", "x"),
            &["bundle"],
            2,
            "x:1:1: a symbolic link that cannot be followed",
        ),
        (
            None,
            ("plain/manifests/x.yaml", "/etc/passwd"),
            &["plain"],
            1,
            "deny PBF-04 manifests/x.yaml: not a static manifest: a symbolic link that leads out",
        ),
        (
            Some(("plain/manifests", "plain/m")),
            ("plain/manifests", "m"),
            &["--input-type", "plain", "plain"],
            1,
            "plain/manifests:1:1: deny PBF-01 get objects from bundle manifests: open manifests: a symbolic link to a directory",
        ),
        (
            Some(("classless.yaml", "plain/classless.yaml")),
            ("plain/manifests/x.yaml", "../classless.yaml"),
            &["plain"],
            1,
            "plain/manifests/x.yaml:5:1: deny RPK-12",
        ),
        (
            None,
            ("catalog/etcd/x.yaml", "../../secret.yaml"),
            &["catalog"],
            1,
            "catalog/etcd/x.yaml:1:1: deny FBC-43",
        ),
        (None, ("catalog/x", ".."), &["catalog"], 1, "catalog/x:1:1: deny FBC-43"),
        (
            Some(("catalog/etcd/catalog.yaml", "catalog/etcd/.catalog")),
            ("catalog/etcd/catalog.yaml", ".catalog"),
            &["catalog"],
            1,
            "deny FBC-04",
        ),
        (
            None,
            ("manifests/x.yaml", "../secret.yaml"),
            &["manifests"],
            2,
            &format!("error: manifests/x.yaml:1:1: {out}"),
        ),
        (
            None,
            ("manifests/x", "/etc"),
            &["manifests"],
            2,
            "error: manifests/x:1:1: a symbolic link that leads out",
        ),
        (
            None,
            ("manifests/x.yaml", "good.yaml"),
            &["manifests"],
            0,
            "2 passed, 0 denied, 0 errors\n",
        ),
    ];
    for (moved, (at, to), arguments, code, expected) in cases {
        let directory = directory();
        write(&directory, "secret.yaml", "password: hunter2\n");
        write(&directory, "crds.yaml", crds);
        write(&directory, "manifests/good.yaml", VALID_BUNDLE);
        for name in ["bundle", "plain", "catalog"] {
            let valid = directory.path().join(format!("{name}-valid"));
            std::fs::rename(valid, directory.path().join(name)).unwrap();
        }
        // What stands there makes room.
        let _ = std::fs::remove_file(directory.path().join("bundle/metadata/dependencies.yaml"));
        if let Some((from, to)) = moved {
            std::fs::rename(directory.path().join(from), directory.path().join(to)).unwrap();
        }
        symlink(to, directory.path().join(at)).unwrap();
        let output = check(&directory, arguments);
        let all = self::out(&output) + &err(&output);
        assert_eq!(status(&output), code, "{at} to {to}: {all}");
        assert!(!all.contains("hunter2") && !all.contains("root:"), "{at} to {to}: {all}");
        assert!(all.contains(expected), "{at} to {to}: {expected}\nis not in\n{all}");
    }
    let directory = directory();
    // The command follows a link that an argument names. It reports a link without a target.
    symlink("bundle-broken", directory.path().join("named")).unwrap();
    symlink("circle.yaml", directory.path().join("circle.yaml")).unwrap();
    assert_eq!(records(&directory, &["named"]).0, 1);
    let circle = check(&directory, &["circle.yaml"]);
    assert_eq!(status(&circle), 2);
    assert!(err(&circle).contains("circle.yaml: "), "{}", err(&circle));
    // The command neither reads nor skips a special file. No process ever writes into this pipe.
    write(&directory, "pipe/manifests/good.yaml", VALID_BUNDLE);
    let pipe = directory.path().join("pipe/manifests/pipe.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let piped = check(&directory, &["pipe"]);
    assert_eq!(status(&piped), 1, "{}", err(&piped));
    let line = "pipe/manifests/pipe.yaml:1:1: deny PBF-04 ";
    let table = std::str::from_utf8(&piped.stdout).unwrap();
    assert!(table.contains(line) && table.contains("not a regular file, but a pipe"), "{table}");
}

#[test]
fn indexignore_has_the_syntax_of_gitignore() {
    // Folder and text of each list, files that are left.
    type Case<'c> = (&'c [(&'c str, &'c str)], &'c [&'c str]);
    // What is left of a catalog with a text in each of these files.
    let files = [
        "README.md",
        "docs/a.md",
        "docs/deep/b.txt",
        "etcd/README.md",
        "etcd/docs/c.md",
        "etcd/keep.txt",
        "x.txt",
    ];
    let cases: [Case<'_>; 12] = [
        (&[], &files),
        (&[("", "*\n")], &[]),
        (&[("", "# README.md\n\n*.md\n")], &["docs/deep/b.txt", "etcd/keep.txt", "x.txt"]),
        (
            &[("", "*.txt\n!keep.txt\n")],
            &["README.md", "docs/a.md", "etcd/README.md", "etcd/docs/c.md", "etcd/keep.txt"],
        ),
        (
            &[("", "!keep.txt\n*.txt\n")],
            &["README.md", "docs/a.md", "etcd/README.md", "etcd/docs/c.md"],
        ),
        (&[("", "docs/\n")], &["README.md", "etcd/README.md", "etcd/keep.txt", "x.txt"]),
        (
            &[("", "/docs\n")],
            &["README.md", "etcd/README.md", "etcd/docs/c.md", "etcd/keep.txt", "x.txt"],
        ),
        // Files in an excluded directory stay excluded.
        (&[("", "docs\n!docs/a.md\n")], &["README.md", "etcd/README.md", "etcd/keep.txt", "x.txt"]),
        (&[("", "/*\n!/etcd/\n/etcd/*\n!/etcd/keep.txt\n")], &["etcd/keep.txt"]),
        (&[("", "**/*.md\nx.txt/\n?.txt\n")], &["etcd/keep.txt"]),
        (&[("", "*.md\r\n*.txt\r\n"), ("etcd/", "!README.md\n/docs\n")], &["etcd/README.md"]),
        (&[("etcd/", "*\n")], &["README.md", "docs/a.md", "docs/deep/b.txt", "x.txt"]),
    ];
    for (ignores, left) in cases {
        let directory = directory();
        std::fs::remove_file(directory.path().join("catalog-valid/.indexignore")).unwrap();
        for file in files {
            write(&directory, &format!("catalog-valid/{file}"), "just a text\n");
        }
        for (base, text) in ignores {
            write(&directory, &format!("catalog-valid/{base}.indexignore"), text);
        }
        let (status, found) = records(&directory, &["--input-type", "catalog", "catalog-valid"]);
        let unreadable: Vec<_> = found
            .iter()
            .flat_map(violations)
            .filter(|v| v["rule"] == "FBC-43")
            .map(|v| {
                v["location"]["file"].as_str().unwrap().strip_prefix("catalog-valid/").unwrap()
            })
            .collect();
        assert_eq!(unreadable, left, "{ignores:?}");
        // A directory in which every file is excluded is not a catalog.
        let code = if found.is_empty() { 2 } else { i32::from(!left.is_empty()) };
        assert_eq!(status, code, "{ignores:?}: {found:?}");
    }
    // Blobs are left out as well.
    let directory = directory();
    write(&directory, "catalog-broken/.indexignore", "/prometheus/\netcd/catalog.yaml\n");
    copy(
        &directory.path().join("catalog-valid/etcd"),
        &directory.path().join("catalog-broken/better"),
    );
    assert_eq!(records(&directory, &["catalog-broken"]).0, 0);
}

/// Blobs of a package can be anywhere: in nested directories, as JSON and YAML, several in a file.
#[test]
fn blobs_are_found_at_any_depth() {
    let directory = directory();
    let bundle = |package: &str, version: &str| {
        json!({
            "schema": "olm.bundle",
            "package": package,
            "name": format!("{package}.v{version}"),
            "image": format!("quay.io/example/{package}@sha256:{}", "0".repeat(64)),
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}],
        })
    };
    let package =
        |name: &str| json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"});
    let channel = |package: &str, entries: Value| json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries});
    let a =
        channel("a", json!([{"name": "a.v1.0.0"}, {"name": "a.v1.1.0", "replaces": "a.v1.0.0"}]));
    write(&directory, "catalog/a/package.json", format!("{}{a:#}\n", package("a")));
    write(&directory, "catalog/a/v1/0/bundle.json", format!("{:#}", bundle("a", "1.0.0")));
    write(
        &directory,
        "catalog/a/v1/1/bundle.yaml",
        format!("---\n# JSON is YAML\n{:#}\n", bundle("a", "1.1.0")),
    );
    let b = channel("b", json!([{"name": "b.v2.0.0"}]));
    // The name of a file says nothing.
    write(
        &directory,
        "catalog/all/of/b",
        format!("{}\n{b}\n\n{}", package("b"), bundle("b", "2.0.0")),
    );
    let (status, found) = records(&directory, &["catalog"]);
    let names: Vec<_> = found.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!((status, &*names), (0, &["a", "b"][..]), "{found:?}");

    // The third value of a file, and the second document of another.
    write(
        &directory,
        "catalog/all/of/b",
        format!("{}\n{b}\n\n{}", package("b"), bundle("b", "two")),
    );
    let one = serde_json::to_string(&bundle("a", "1.0.0")).unwrap();
    write(
        &directory,
        "catalog/a/v1/1/bundle.yaml",
        format!("---\n{one}\n---\n{}", bundle("a", "x")),
    );
    let (status, found) = records(&directory, &["catalog"]);
    assert_eq!(status, 1);
    assert_eq!(location_of(&found[1], "FBC-35"), "catalog/all/of/b:4");
    assert_eq!(location_of(&found[0], "FBC-35"), "catalog/a/v1/1/bundle.yaml:4");
    assert!(rules(&found[0]).contains(&"FBC-30"), "a bundle is there twice: {found:?}");
}

#[test]
fn baseline_is_compared_with_the_new_version() {
    let valid = "catalog-valid/etcd/catalog.yaml";
    let new = "new/etcd/catalog.yaml";
    let start = || {
        let directory = directory();
        copy(&directory.path().join("catalog-valid"), &directory.path().join("new"));
        directory
    };
    let since = |directory: &TempDir| records(directory, &["--baseline", "catalog-valid", "new"]);

    let directory = start();
    let (status, found) = since(&directory);
    assert_eq!((status, rules(&found[0])), (0, vec![]), "unchanged");

    // The same blobs in other files are the same catalog.
    let text = std::fs::read_to_string(directory.path().join(valid)).unwrap();
    std::fs::remove_file(directory.path().join(new)).unwrap();
    for (index, blob) in text.split("---\n").enumerate() {
        write(&directory, &format!("new/{index}/blob.yaml"), blob);
    }
    let (status, found) = since(&directory);
    assert_eq!((status, rules(&found[0])), (0, vec![]), "moved");

    // A promotion: the channel candidate gets what stable has, and another default.
    let directory = start();
    let candidate = "---\nschema: olm.channel\npackage: etcd\nname: candidate\nentries:\n  - name: etcdoperator.v0.9.4\n    skips: [etcdoperator.v0.9.2]\n";
    write(&directory, "new/etcd/candidate.yaml", candidate);
    edit(&directory, new, "defaultChannel: stable", "defaultChannel: candidate");
    let (status, found) = since(&directory);
    assert_eq!((status, rules(&found[0])), (0, vec![]), "promoted");

    // A new edge, and a new bundle.
    let directory = start();
    let edge = "    replaces: etcdoperator.v0.9.2\n";
    edit(&directory, new, edge, &format!("{edge}    skips: [etcdoperator.v0.9.3]\n"));
    let (status, found) = since(&directory);
    assert_eq!((status, rules(&found[0])), (0, vec![]), "a new edge");
    let directory = start();
    let added = "  - name: etcdoperator.v0.10.0\n    replaces: etcdoperator.v0.9.4\n";
    edit(
        &directory,
        new,
        "---\nschema: olm.bundle\npackage: etcd\nname: etcdoperator.v0.9.2",
        &format!("{added}---\nschema: olm.bundle\npackage: etcd\nname: etcdoperator.v0.9.2"),
    );
    let blob =
        text[text.rfind("---\n").unwrap()..].replace("0.9.4", "0.10.0").replace("094", "010");
    write(&directory, "new/etcd/new.yaml", blob);
    let (status, found) = since(&directory);
    assert_eq!((status, rules(&found[0])), (0, vec![]), "a new bundle: {found:?}");

    // Another image under the same name: how bad that is, the configuration says.
    let directory = start();
    edit(&directory, new, "sha256:094", "sha256:194");
    let (_, found) = since(&directory);
    assert_eq!(rules(&found[0]), ["FBC-46"], "{found:?}");
    assert_eq!(location_of(&found[0], "FBC-46"), "new/etcd/catalog.yaml:40");
    for (level, code) in [("deny", 1), ("warn", 0), ("off", 0)] {
        configuration(
            &directory,
            &json!([{"name": "file-based-catalog", "rules": {"FBC-46": level}}]),
        );
        let arguments = ["--config", "opgate.yaml", "--baseline", "catalog-valid", "new"];
        let (status, found) = records(&directory, &arguments);
        assert_eq!(
            (status, rules(&found[0]).len()),
            (code, usize::from(level != "off")),
            "{level}"
        );
    }
    let (status, found) = records(&directory, &["new"]);
    assert_eq!((status, rules(&found[0])), (0, vec![]), "nothing to compare with");

    // Clusters with the removed bundle have no upgrade path from it.
    let directory = start();
    let gone = text.find("---\nschema: olm.bundle").unwrap()..text.rfind("---\n").unwrap();
    edit(&directory, new, &text[gone], "");
    edit(&directory, new, "  - name: etcdoperator.v0.9.2\n", "");
    edit(&directory, new, edge, "");
    edit(&directory, new, "    skipRange: \">=0.9.0 <0.9.4\"\n", "");
    edit(
        &directory,
        "new/etcd/deprecations.json",
        "\"name\": \"etcdoperator.v0.9.2\"",
        "\"name\": \"etcdoperator.v0.9.4\"",
    );
    assert_eq!(records(&directory, &["new"]).0, 0);
    let (status, found) = since(&directory);
    assert_eq!((status, rules(&found[0])), (1, vec!["FBC-45"]), "{found:?}");

    // Manifests and bundles have a past, too.
    let changed = VALID_BUNDLE.replace("0123", "4567");
    write(&directory, "changed.yaml", &changed);
    let (status, found) = records(&directory, &["--baseline", "good.yaml", "changed.yaml"]);
    assert_eq!((status, rules(&found[0])), (1, vec!["RPK-01"]));
    write(&directory, "old/manifests/b.yaml", VALID_BUNDLE);
    write(&directory, "now/manifests/renamed.yaml", &changed);
    let (status, found) = records(&directory, &["--baseline", "old", "now"]);
    assert_eq!((status, rules(&found[0])), (1, vec!["RPK-01"]));
    for path in ["good.yaml", "bundle-valid", "plain-valid", "catalog-valid"] {
        let (status, found) = records(&directory, &["--baseline", path, path]);
        assert_eq!((status, rules(&found[0])), (0, vec![]), "{path}");
    }
}

/// Otherwise a wrong path in a pipeline would allow every change.
#[test]
fn unreadable_baseline_is_an_error() {
    let directory = directory();
    copy(&directory.path().join("catalog-valid"), &directory.path().join("old"));
    write(&directory, "old/etcd/more.yaml", "a: [\n");
    write(&directory, "old.yaml", "a: [\n");
    for (old, path, named) in [
        ("nowhere", "catalog-valid", "nowhere: No such file"),
        ("nowhere", "good.yaml", "nowhere: No such file"),
        ("nowhere", "bundle-valid", "nowhere: No such file"),
        ("old", "catalog-valid", "old/etcd/more.yaml:"),
        ("bundle-broken", "bundle-valid", "bundle-broken/manifests/service.yaml:4:1: not YAML"),
        ("old.yaml", "good.yaml", "old.yaml:"),
    ] {
        let output = check(&directory, &["--baseline", old, path]);
        assert_eq!(status(&output), 2, "--baseline {old} {path}: {}", err(&output));
        assert!(err(&output).contains(named), "--baseline {old} {path}: {}", err(&output));
    }
}

#[test]
fn configuration_sets_levels_and_policies() {
    let directory = directory();
    let policies = |name: &str, extra: Value| {
        let mut policy = json!({"name": name});
        policy.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!([policy])
    };
    let all = |rules: &[&str], level: &str| {
        let levels = rules.iter().map(|rule| ((*rule).to_owned(), json!(level)));
        json!({"rules": levels.collect::<serde_json::Map<_, _>>()})
    };
    let broken_bundle = ["RBF-03", "RBF-07", "RBF-10", "RBF-12"];
    let cases = [
        ("classless.yaml", policies("bundle-immutability", json!({})), 1, 1),
        ("classless.yaml", policies("bundle-immutability", all(&["RPK-12"], "warn")), 0, 1),
        ("classless.yaml", policies("bundle-immutability", all(&["RPK-12"], "off")), 0, 0),
        ("classless.yaml", policies("bundle-immutability", json!({"mode": "warn"})), 0, 1),
        ("classless.yaml", policies("operator-group", json!({})), 0, 0),
        ("bundle-broken", policies("registry-bundle", json!({})), 1, 4),
        ("bundle-broken", policies("registry-bundle", all(&broken_bundle, "warn")), 0, 4),
        ("bundle-broken", policies("registry-bundle", all(&broken_bundle[..3], "off")), 1, 1),
        ("plain-broken", policies("plain-bundle", json!({"mode": "warn"})), 0, 3),
        ("catalog-broken", policies("file-based-catalog", json!({"mode": "warn"})), 0, 5),
    ];
    for (path, policies, code, count) in cases {
        configuration(&directory, &policies);
        let (status, found) = records(&directory, &["--config", "opgate.yaml", path]);
        let reported = sorted(found.iter().flat_map(rules)).len();
        assert_eq!((status, reported), (code, count), "{path} {policies}: {found:?}");
    }
    // A file that no policy has told about is not passed over.
    configuration(&directory, &policies("registry-bundle", all(&broken_bundle, "off")));
    let output = check(&directory, &["--config", "opgate.yaml", "bundle-broken"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("bundle-broken/manifests/service.yaml:4:"), "{}", err(&output));
    // Without a policy for such a directory, the command reports that no policy evaluated it.
    configuration(&directory, &json!([]));
    let output = check(&directory, &["--config", "opgate.yaml", "catalog-valid"]);
    assert_eq!(status(&output), 0);
    assert!(err(&output).contains("FileBasedCatalog"), "{}", err(&output));
    // Warnings count as errors if the configuration sets this.
    let policy = policies("bundle-immutability", all(&["RPK-12"], "warn"));
    let strict = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "check": {"warningsAsErrors": true},
        "policies": policy,
    });
    write(&directory, "opgate.yaml", strict.to_string());
    for (path, code) in [("classless.yaml", 1), ("good.yaml", 0)] {
        assert_eq!(records(&directory, &["--config", "opgate.yaml", path]).0, code, "{path}");
    }
    write(
        &directory,
        "opgate.yaml",
        "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolices: []\n",
    );
    let output = check(&directory, &["--config", "opgate.yaml", "good.yaml"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("opgate.yaml:3:1"), "{}", err(&output));
}

/// A manifest in a bundle becomes an object of a cluster. The policies of its kind evaluate it as
/// one.
#[test]
fn bundle_manifests_are_evaluated_by_policies_of_their_kind() {
    let directory = directory();
    let group = "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata:\n  name: g\n  namespace: n\nspec:\n  targetNamespaces: [\"\"]\n";
    for (fixture, document) in [("bundle-valid", "RegistryBundle"), ("plain-valid", "PlainBundle")]
    {
        write(&directory, &format!("{fixture}/manifests/a.yaml"), BUNDLE_WITHOUT_CLASS);
        write(&directory, &format!("{fixture}/manifests/b.yaml"), group);
        let (status, found) = records(&directory, &[fixture]);
        assert_eq!((status, found.len(), &found[0]["kind"]), (1, 1, &json!(document)));
        for (rule, path, field) in [
            ("RPK-12", "manifests/a.yaml:5", ".documents[0].spec.provisionerClassName"),
            ("OPG-04", "manifests/b.yaml:7", ".documents[0].spec.targetNamespaces"),
        ] {
            assert_eq!(location_of(&found[0], rule), format!("{fixture}/{path}"));
            let violation = violations(&found[0]).iter().find(|v| v["rule"] == rule).unwrap();
            let shown = violation["field"].as_str().unwrap();
            assert!(shown.starts_with("spec.files[") && shown.ends_with(field), "{shown}");
        }
        // The manifests alone say the same.
        let alone =
            records(&directory, &["--input-type", "manifest", &format!("{fixture}/manifests")]).1;
        let of = |records: &[Value], policy: &str| {
            let all = records.iter().flat_map(violations).filter(|v| v["policy"] == policy);
            all.map(|v| (v["rule"].clone(), v["message"].clone(), v["location"].clone()))
                .collect::<Vec<_>>()
        };
        for policy in ["bundle-immutability", "operator-group"] {
            assert!(!of(&found, policy).is_empty(), "{policy}: {found:?}");
            assert_eq!(of(&found, policy), of(&alone, policy), "{policy}");
        }
    }
}

/// A manifest is denied here for what an API server would be told about it.
#[test]
fn manifest_and_its_review_get_the_same_verdict() {
    let directory = directory();
    let bundle = |spec: Value| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "b"}, "spec": spec});
    let group = |spec: Value| json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g", "namespace": "n", "annotations": {"olm.providedAPIs": "x"}}, "spec": spec});
    let class = "core-rukpak-io-plain";
    let cases = [
        ("bundles", bundle(testkit::good_spec())),
        ("bundles", bundle(json!({}))),
        ("bundles", bundle(json!({"provisionerClassName": "Not OK", "source": {"type": "git"}}))),
        (
            "bundles",
            bundle(
                json!({"provisionerClassName": class, "source": {"type": "git", "git": {"repository": "r", "directory": "../..", "ref": {"branch": "b", "tag": "t"}}}}),
            ),
        ),
        (
            "bundles",
            bundle(
                json!({"provisionerClassName": class, "source": {"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": "/x"}, {"configMap": {"name": "b"}, "path": "../y"}]}}),
            ),
        ),
        (
            "bundles",
            bundle(
                json!({"provisionerClassName": class, "source": {"type": "image", "image": {"ref": "x:latest"}}}),
            ),
        ),
        (
            "operatorgroups",
            group(json!({"targetNamespaces": ["a", "a", ""], "upgradeStrategy": "Nope"})),
        ),
        (
            "operatorgroups",
            group(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
        ),
        (
            "bundledeployments",
            json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "d".repeat(60)}, "spec": {"template": {"spec": {"source": {"type": "image"}}}}}),
        ),
        (
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}),
        ),
    ];
    let mut evaluated = 0;
    for (resource, object) in cases {
        let api_version = object["apiVersion"].as_str().unwrap();
        let (api_group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = json!({"group": api_group, "version": version, "resource": resource});
        let kind = json!({"group": api_group, "version": version, "kind": object["kind"]});
        let request = json!({
            "uid": "u",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": object["metadata"]["name"],
            "namespace": object["metadata"].get("namespace").unwrap_or(&json!("")),
            "operation": "CREATE",
            "userInfo": {"username": "admin"},
            "object": object,
            "oldObject": null,
        });
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        write(&directory, "review.json", review.to_string());
        write(&directory, "object.json", format!("{object:#}"));
        let replayed = command(directory.path(), &["replay", "--output", "jsonl", "review.json"])
            .output()
            .unwrap();
        let replayed: (i32, Value) =
            (status(&replayed), serde_json::from_str(out(&replayed).trim()).unwrap());
        let (code, found) = records(&directory, &["--input-type", "manifest", "object.json"]);
        let without_places = |v: &Value| {
            let mut v = v.clone();
            v.as_object_mut().unwrap().remove("location");
            v.to_string()
        };
        let set =
            |record: &Value| violations(record).iter().map(without_places).collect::<BTreeSet<_>>();
        assert_eq!(set(&found[0]), set(&replayed.1), "{object}");
        assert_eq!(violations(&found[0]).len(), violations(&replayed.1).len(), "{object}");
        assert_eq!((code, &found[0]["ok"]), (replayed.0, &replayed.1["allowed"]), "{object}");
        evaluated += violations(&found[0]).len();
    }
    assert!(evaluated > 15, "{evaluated}");
}
