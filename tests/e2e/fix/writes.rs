//! The files that `opgate check --fix` writes: links, several names of one file, owners, and files that cannot be
//! written.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

use super::*;

fn fixed() -> String {
    SUBSCRIPTION.replace(" manual ", " Manual ")
}

#[test]
fn fixes_of_an_unwritten_file_do_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let (good, read_only) = ("in/a.yaml", "in/b.yaml");
    let path = write(&directory, read_only, SUBSCRIPTION);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let good = write(&directory, good, SUBSCRIPTION);
    let output = run(&directory, &["--fix", "-v", "-o", "json", "in"]);
    let stderr = text(&output.stderr);
    assert_eq!(fs::read_to_string(&good).unwrap(), fixed(), "{stderr}");
    assert_eq!(fs::read_to_string(&path).unwrap(), SUBSCRIPTION);
    assert!(stderr.contains("in/b.yaml: not fixed: the file is read-only: make it"), "{stderr}");
    assert!(stderr.contains("\n1 violation fixed in 1 file"), "{stderr}");
    assert!(stderr.contains("in/a.yaml:11:3: fixed "), "{stderr}");
    assert!(!stderr.contains("in/b.yaml:11:3: fixed "), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
    let records: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rules = |source: &str| {
        let records = records.as_array().unwrap().iter().filter(|it| it["source"] == source);
        let violations = records.filter_map(|it| it["violations"].as_array()).flatten();
        violations.filter(|it| it.get("fix").is_some()).count()
    };
    assert_eq!((rules("in/a.yaml"), rules("in/b.yaml")), (0, 1), "{records}");
}

#[test]
fn a_file_with_several_paths_is_fixed_once() {
    for paths in [
        &["s.yaml", "./s.yaml"][..],
        &[".", "s.yaml"],
        &["s.yaml", "."],
        &["link.yaml", "s.yaml"],
        &["linked/s.yaml", "s.yaml"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let content = format!("{SUBSCRIPTION}---\n{}", SUBSCRIPTION.replace("etcd", "two"));
        let path = write(&directory, "in/s.yaml", &content);
        symlink("s.yaml", path.with_file_name("link.yaml")).unwrap();
        symlink(".", path.with_file_name("linked")).unwrap();
        let run = |first: &str| {
            let arguments = [&["check", first], paths].concat();
            command(path.parent().unwrap(), &arguments).output().unwrap()
        };
        let difference = text(&run("--diff").stdout);
        assert_eq!(difference.matches("\n+++ ").count(), 1, "{paths:?}: {difference}");
        let output = run("--fix");
        let stderr = text(&output.stderr);
        let expected = content.replace(" manual ", " Manual ");
        assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{paths:?}: {stderr}");
        assert!(stderr.contains("\n2 violations fixed in 1 file"), "{paths:?}: {stderr}");
        assert!(!stderr.contains("not fixed"), "{paths:?}: {stderr}");
        assert_eq!(output.status.code(), Some(0), "{paths:?}: {}", text(&output.stdout));
        assert!(fs::symlink_metadata(path.with_file_name("link.yaml")).unwrap().is_symlink());
    }
}

/// Both units have fixes of the same file; only the bundle has those of its other files.
#[test]
fn a_bundle_and_a_file_of_it_are_fixed_together() {
    let csv = "bundle/manifests/etcdoperator.clusterserviceversion.yaml";
    for paths in [["bundle", csv], [csv, "bundle"]] {
        let directory = planted();
        let output = run(&directory, &["--fix", paths[0], paths[1]]);
        let stderr = text(&output.stderr);
        assert_eq!(files(&directory.path().join("bundle")), files(&data("fixed")), "{stderr}");
        assert!(!stderr.contains("not fixed"), "{stderr}");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    }
}

#[test]
fn only_targets_of_links_inside_the_directory_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let outside = write(&directory, "outside/s.yaml", SUBSCRIPTION);
    let inside = write(&directory, "in/s.yaml", SUBSCRIPTION);
    symlink(&outside, directory.path().join("in/out.yaml")).unwrap();
    symlink("s.yaml", directory.path().join("in/link.yaml")).unwrap();
    let stderr = text(&run(&directory, &["--fix", "in/out.yaml"]).stderr);
    assert!(stderr.contains("a symbolic link to a file outside of the directory"), "{stderr}");
    assert!(stderr.contains("no violation fixed"), "{stderr}");
    run(&directory, &["--fix", "in"]);
    assert_eq!(fs::read_to_string(&outside).unwrap(), SUBSCRIPTION);
    assert_eq!(fs::read_to_string(&inside).unwrap(), fixed());
    write(&directory, "in/s.yaml", SUBSCRIPTION);
    let output = run(&directory, &["--fix", "in/link.yaml"]);
    assert_eq!(fs::read_to_string(&inside).unwrap(), fixed(), "{}", text(&output.stderr));
    assert!(fs::symlink_metadata(directory.path().join("in/link.yaml")).unwrap().is_symlink());
}

#[test]
fn a_file_with_hard_links_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(&directory, "s.yaml", SUBSCRIPTION);
    fs::hard_link(&path, directory.path().join("second")).unwrap();
    let output = run(&directory, &["--fix", "s.yaml"]);
    let stderr = text(&output.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), SUBSCRIPTION);
    assert!(stderr.contains("s.yaml:11:3: not fixed: "), "{stderr}");
    assert!(stderr.contains("the file has 2 names (hard links)"), "{stderr}");
}

#[test]
fn owner_group_and_permissions_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(&directory, "s.yaml", SUBSCRIPTION);
    // Only root can give a file away; for other users, it is theirs anyway.
    let _ = chown(&path, Some(12), Some(34));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&path).unwrap();
    run(&directory, &["--fix", "s.yaml"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), fixed());
    let after = fs::metadata(&path).unwrap();
    let of = |it: &fs::Metadata| (it.uid(), it.gid(), it.mode());
    assert_eq!(of(&after), of(&before));
}
