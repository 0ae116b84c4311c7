//! `--baseline`: the change from one version of a catalog or a manifest to the next.

use serde_json::json;
use tempfile::TempDir;

use super::*;

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
