//! Files that other programs change, as `git checkout` does: the editor reports them, and the server evaluates what
//! they belong to once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use testkit::editor::Editor;

use crate::BINARY;

const CSV: &str =
    include_str!("../../fixtures/bundle-valid/manifests/etcdoperator.clusterserviceversion.yaml");
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: etcdclusters.etcd.database.coreos.com}\nspec:\n  group: etcd.database.coreos.com\n  scope: Namespaced\n  names: {kind: EtcdCluster, plural: etcdclusters, singular: etcdcluster, listKind: EtcdClusterList}\n  versions:\n  - {name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n";

const CREATED: u8 = 1;
const CHANGED: u8 = 2;
const DELETED: u8 = 3;

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn report(editor: &mut Editor, changes: &[(PathBuf, u8)]) {
    let changes: Vec<_> =
        changes.iter().map(|(path, kind)| json!({"uri": uri(path), "type": kind})).collect();
    editor.notify("workspace/didChangeWatchedFiles", json!({"changes": changes}));
}

fn wait_checked(editor: &mut Editor) {
    editor.receive(|message| {
        message["params"]["message"].as_str().is_some_and(|text| text.starts_with("checked"))
    });
}

/// Returns the diagnostics of a file that are published next.
fn published(editor: &mut Editor, path: &Path) -> Value {
    let uri = uri(path);
    let message = editor.receive(|message| {
        message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri
    });
    message["params"]["diagnostics"].clone()
}

/// Writes a bundle whose annotations miss something. Returns the files of it.
fn write_bundle(bundle: &Path) -> [PathBuf; 4] {
    let files = [
        ("metadata/annotations.yaml", "annotations: {}\n"),
        ("manifests/csv.yaml", CSV),
        ("manifests/crd.yaml", CRD),
        ("manifests/config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"),
    ];
    files.map(|(name, text)| {
        let path = bundle.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    })
}

/// Files of ten bundles change, bundles are added and removed, and the editor reports all of them.
#[test]
fn files_that_change_together_are_evaluated_once() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let bundle = |number: usize| root.join(format!("bundle-{number:02}"));
    (0..10).for_each(|number| drop(write_bundle(&bundle(number))));
    let mut editor = Editor::open(BINARY, &root);
    wait_checked(&mut editor);
    let mut changes = Vec::new();
    for number in 0..8 {
        changes.extend(write_bundle(&bundle(number)).map(|path| (path, CHANGED)));
        let added = bundle(number).join("manifests/added.yaml");
        fs::write(&added, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n").unwrap();
        changes.push((added, CREATED));
        let deleted = bundle(number).join("manifests/config.yaml");
        fs::remove_file(&deleted).unwrap();
        changes.push((deleted, DELETED));
    }
    fs::remove_dir_all(bundle(8)).unwrap();
    let gone = ["metadata/annotations.yaml", "manifests/csv.yaml", "manifests/crd.yaml"];
    changes.extend(gone.map(|name| (bundle(8).join(name), DELETED)));
    for number in 10..13 {
        changes.extend(write_bundle(&bundle(number)).map(|path| (path, CREATED)));
    }
    report(&mut editor, &changes);
    // The new bundles are found after all others are evaluated.
    let is_published = |message: &Value, bundle: &Path| {
        message["method"] == "textDocument/publishDiagnostics"
            && message["params"]["uri"] == uri(&bundle.join("metadata/annotations.yaml"))
    };
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut last = Value::Null;
    let mut receive = |editor: &mut Editor, until: &Path, last: &mut Value| loop {
        let message =
            editor.receive(|message| (0..13).any(|number| is_published(message, &bundle(number))));
        let number = (0..13).find(|number| is_published(&message, &bundle(*number))).unwrap();
        *counts.entry(number).or_default() += 1;
        *last = message["params"]["diagnostics"].clone();
        if bundle(number) == until {
            return;
        }
    };
    receive(&mut editor, &bundle(12), &mut last);
    assert!(!last.as_array().unwrap().is_empty());
    // Nothing waits behind it.
    report(&mut editor, &[(bundle(9).join("manifests/csv.yaml"), CHANGED)]);
    receive(&mut editor, &bundle(9), &mut last);
    let expected: BTreeMap<_, _> = (0..13).map(|number| (number, 1)).collect();
    assert_eq!(counts, expected);
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn deleted_main_file_has_no_findings() {
    for is_open in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let csv = write_bundle(&root.join("bundle"))[1].clone();
        let text = CSV.replacen("type: MultiNamespace", "type: ManyNamespaces", 1);
        fs::write(&csv, &text).unwrap();
        let mut editor = Editor::open(BINARY, &root);
        if is_open {
            editor.open_text(&uri(&csv), &text);
        }
        assert_ne!(published(&mut editor, &csv), json!([]));
        wait_checked(&mut editor);
        fs::remove_file(&csv).unwrap();
        report(&mut editor, &[(csv.clone(), DELETED)]);
        assert_eq!(published(&mut editor, &csv), json!([]), "open: {is_open}");
        if is_open {
            // Saved again.
            fs::write(&csv, &text).unwrap();
            report(&mut editor, &[(csv.clone(), CREATED)]);
            editor.notify("textDocument/didSave", json!({"textDocument": {"uri": uri(&csv)}}));
            assert_ne!(published(&mut editor, &csv), json!([]));
        }
        assert_eq!(editor.end(), Some(0));
    }
}

/// Definitions, after the file that declares a name was moved, and after its directory was deleted.
#[test]
fn names_follow_files() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let catalog = root.join("catalog");
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let channel = "schema: olm.channel\npackage: etcd\nname: stable\nentries:\n- name: etcd.v1\n";
    let bundle = "schema: olm.bundle\npackage: etcd\nname: etcd.v1\nimage: x\n";
    write(&catalog.join("channel.yaml"), channel);
    write(&catalog.join("bundles/a.yaml"), bundle);
    let mut editor = Editor::open(BINARY, &root);
    wait_checked(&mut editor);
    let channel_uri = uri(&catalog.join("channel.yaml"));
    editor.open_text(&channel_uri, channel);
    let targets = |editor: &mut Editor| {
        let position = json!({"line": 4, "character": 10});
        let parameters = json!({"textDocument": {"uri": channel_uri}, "position": position});
        let found = editor.request("textDocument/definition", parameters);
        let places = found["result"].as_array().unwrap();
        let target = |place: &Value| {
            let path = place["uri"].as_str().unwrap().rsplit("catalog/").next().unwrap();
            format!("{path}:{}", place["range"]["start"]["line"])
        };
        places.iter().map(target).collect::<Vec<_>>()
    };
    let wait_indexed = |editor: &mut Editor| {
        editor.receive(|message| {
            message["params"]["message"].as_str().is_some_and(|text| text.starts_with("found"))
        });
    };
    assert_eq!(targets(&mut editor), ["bundles/a.yaml:2"]);
    let (old, new) = (catalog.join("bundles/a.yaml"), catalog.join("bundles/b.yaml"));
    fs::rename(&old, &new).unwrap();
    report(&mut editor, &[(old, DELETED), (new.clone(), CREATED)]);
    wait_indexed(&mut editor);
    assert_eq!(targets(&mut editor), ["bundles/b.yaml:2"]);
    fs::write(&new, format!("---\n# moved\n{bundle}")).unwrap();
    report(&mut editor, &[(new.clone(), CHANGED)]);
    // An answer about another file is behind the names.
    report(&mut editor, &[(new, CREATED)]);
    wait_indexed(&mut editor);
    assert_eq!(targets(&mut editor), ["bundles/b.yaml:4"]);
    // Of a directory, editors report nothing else.
    write(&catalog.join("other/c.yaml"), bundle);
    report(&mut editor, &[(catalog.join("other/c.yaml"), CREATED)]);
    wait_indexed(&mut editor);
    fs::remove_dir_all(catalog.join("bundles")).unwrap();
    report(&mut editor, &[(catalog.join("bundles"), DELETED)]);
    wait_indexed(&mut editor);
    assert_eq!(targets(&mut editor), ["other/c.yaml:2"]);
    assert_eq!(editor.end(), Some(0));
}

/// A file that could not be read, or that was something else, is what it has become.
#[test]
fn changed_file_is_what_it_has_become() {
    let configuration = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: catalog-source\n  match: {namespaceSelector: {matchLabels: {team: a}}}\n- name: file-based-catalog\n";
    let source = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: cat, namespace: olm}\nspec: {sourceType: grpc}\n";
    let namespace =
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: olm, labels: {team: b}}\n".to_owned();
    let deep = format!("apiVersion: v1\nkind: Namespace\nmetadata: {}\n", "[".repeat(1_000));
    let blob = "schema: olm.package\nname: etcd\ndefaultChannel: stable\n".to_owned();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
    let (cat, ns) = (root.join("cat.yaml"), root.join("x/ns.yaml"));
    fs::create_dir(root.join("x")).unwrap();
    write("opgate.yaml", configuration);
    write("cat.yaml", source);
    write("x/ns.yaml", "values: 1\n");
    let mut editor = Editor::open(BINARY, &root);
    wait_checked(&mut editor);
    for (text, path, expected) in [
        (&deep, &ns, "nests deeper"),
        // Its objects are shared now: the label is not that of the policy.
        (&namespace, &cat, "[]"),
        (&deep, &cat, "CAT-"),
        (&namespace, &cat, "[]"),
        // Those of a catalog are not.
        (&blob, &cat, "CAT-"),
        (&blob, &ns, "FBC-"),
        (&namespace, &ns, "[]"),
        (&namespace, &cat, "[]"),
    ] {
        if fs::read_to_string(&ns).unwrap() != *text {
            fs::write(&ns, text).unwrap();
            report(&mut editor, &[(ns.clone(), CHANGED)]);
        }
        // What it was before can be evaluated first.
        while !published(&mut editor, path).to_string().contains(expected) {}
    }
    assert_eq!(editor.end(), Some(0));
}

/// Also with the configuration of the new directory. What is in a removed one has no findings.
#[test]
fn directories_are_added_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let (first, second) = (root.join("first"), root.join("second"));
    let source = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: cat, namespace: olm}\nspec: {sourceType: grpc}\n";
    let configuration =
        "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- {name: subscription}\n";
    for directory in [&first, &second] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("cat.yaml"), source).unwrap();
    }
    let mut editor = Editor::open(BINARY, &first);
    let change = |editor: &mut Editor, added: &[&PathBuf], removed: &[&PathBuf]| {
        let folders = |paths: &[&PathBuf]| -> Vec<_> {
            paths.iter().map(|path| json!({"uri": uri(path), "name": "x"})).collect()
        };
        let event = json!({"added": folders(added), "removed": folders(removed)});
        editor.notify("workspace/didChangeWorkspaceFolders", json!({"event": event}));
    };
    assert_ne!(published(&mut editor, &first.join("cat.yaml")), json!([]));
    change(&mut editor, &[&second], &[]);
    assert_ne!(published(&mut editor, &second.join("cat.yaml")), json!([]));
    change(&mut editor, &[], &[&first]);
    assert_eq!(published(&mut editor, &first.join("cat.yaml")), json!([]));
    fs::write(first.join("opgate.yaml"), configuration).unwrap();
    change(&mut editor, &[&first], &[]);
    assert_eq!(published(&mut editor, &second.join("cat.yaml")), json!([]));
    change(&mut editor, &[], &[&first]);
    assert_ne!(published(&mut editor, &second.join("cat.yaml")), json!([]));
    assert_eq!(editor.end(), Some(0));
}
