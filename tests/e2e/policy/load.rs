//! How commands load policies: the list, the cache of native code, and the address space.

use crate::BINARY;
use crate::cli::{directory, err, lines, opgate, out, write};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use testkit::{configuration, hostile_component, misbehaves};

#[test]
fn policies_are_listed_and_inspected() {
    let directory = directory();
    let table = out(&opgate(directory.path(), &["policy", "list"]));
    assert!(
        table.contains("bundle-immutability") && table.contains("builtin:bundle-immutability"),
        "{table}"
    );
    let shown = out(&opgate(
        directory.path(),
        &["policy", "inspect", "bundle-immutability", "--output", "json"],
    ));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["settingsSchema"]["properties"]["rukpak"]["type"], "object");
    let file = hostile_component("misbehaves");
    let shown = opgate(directory.path(), &["policy", "inspect", file.to_str().unwrap()]);
    assert!(out(&shown).starts_with("hostile 0.0.1: misbehaves"), "{}", err(&shown));
    let file = hostile_component("reads-cluster");
    let shown = opgate(directory.path(), &["policy", "inspect", file.to_str().unwrap()]);
    assert_eq!(shown.status.code(), Some(1), "{}", err(&shown));
    assert!(out(&shown).contains("no-reads: imports `cluster`"), "{}", out(&shown));
    let wrong = opgate(directory.path(), &["policy", "inspect", "bundle-imutability"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("did you mean \"bundle-immutability\"?"), "{}", err(&wrong));
}

/// Compiled once; what is in the cache is used only if this installation wrote it.
#[test]
fn cache_rejects_foreign_entries() {
    let directory = directory();
    let cache = directory.path().join("cache");
    write(&directory, "opgate.yaml", configuration(&[misbehaves("evil", &json!({}))]));
    let run = || {
        let output = opgate(directory.path(), &["policy", "list", "--config", "opgate.yaml"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        err(&output)
    };
    let image = || {
        let files = std::fs::read_dir(&cache).unwrap().map(|e| e.unwrap().path());
        files.into_iter().find(|p| p.extension().is_some_and(|e| e == "image")).unwrap()
    };
    assert_eq!(run(), "");
    let written = std::fs::read(image()).unwrap();
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(image()).unwrap());
    let first = inode();
    assert_eq!((run(), inode()), (String::new(), first), "read, not written again");
    assert_eq!(std::fs::metadata(image()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);

    let mut flipped = written.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for bad in [flipped, written[..100].to_vec(), vec![], written[32..].to_vec()] {
        std::fs::write(image(), &bad).unwrap();
        assert!(run().contains("not used from the cache"));
        assert_eq!(
            std::fs::read(image()).unwrap().len(),
            written.len(),
            "compiled and written anew"
        );
    }
    // The image of one policy under the name of another.
    let path = image();
    write(
        &directory,
        "opgate.yaml",
        configuration(&[
            json!({"name": "x", "module": hostile_component("loops-in-settings"), "mode": "off"}),
            misbehaves("evil", &json!({})),
        ]),
    );
    let _ = opgate(
        directory.path(),
        &["policy", "inspect", hostile_component("reads-cluster").to_str().unwrap()],
    );
    let other = path.with_file_name("sha256-0000.image");
    std::fs::rename(&path, &other).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(run(), "");
    // The command does not read a file that other users can write, a link, or a directory that is
    // open to all users.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(run().contains("must belong to the user"));
    let real = directory.path().join("real.image");
    std::fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert!(run().contains("not used from the cache"));
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(run().contains("policies are compiled at every start"));
}

/// Without room for a pool of instances the answers are the same.
#[test]
fn small_address_space_is_sufficient() {
    let directory = directory();
    let script = format!("ulimit -v 4000000 && exec {BINARY} replay --output jsonl reviews");
    let output =
        Command::new("sh").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("no pool of instances"), "{}", err(&output));
    assert_eq!(lines(&output).iter().filter(|r| r["allowed"] == false).count(), 1);
}
