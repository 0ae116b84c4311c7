//! `opgate policy new`: what it writes, and where it does not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::{err, opgate, out};

/// The languages that have a template.
fn languages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/opgate/templates");
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// All files below a directory, with their contents.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

#[test]
fn a_new_policy_has_all_that_its_language_needs() {
    let languages = languages();
    assert!(!languages.is_empty());
    for language in languages {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["policy", "new", "my-images", "--lang", &language, "--out", "deep/one"];
        let made = opgate(directory.path(), &arguments);
        assert_eq!(made.status.code(), Some(0), "{language}: {}", err(&made));
        let root = directory.path().join("deep/one");
        for (path, text) in files(&root) {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            for place in ["{{name}}", "{{snake}}", "{{sdk}}"] {
                let whole = format!("{name}\n{text}");
                assert!(!whole.contains(place), "{language}: {name} has {place}");
            }
        }
        for name in ["opgate.yaml", "cases/objects.yaml", "pod.yaml", ".gitignore"] {
            assert!(root.join(name).is_file(), "{language}: no {name}");
        }
        let configuration = fs::read_to_string(root.join("opgate.yaml")).unwrap();
        assert!(configuration.contains("name: my-images"), "{language}: {configuration}");
        // The command prints the next steps.
        let said = out(&made);
        for command in ["cd deep/one", "opgate policy test .", "Tools:"] {
            assert!(said.contains(command), "{language}: {said}");
        }
        // The command has written nothing next to the directory.
        assert_eq!(fs::read_dir(directory.path().join("deep")).unwrap().count(), 1);
    }
}

#[test]
fn invalid_names_and_directories_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let language = languages().remove(0);
    let long = "a".repeat(41);
    for name in ["Upper", "1st", "a_b", "../up", "a/b", "-a", "a-", "", "fn", &long] {
        // A name may look like an argument.
        let arguments = ["policy", "new", "--lang", &language, "--", name];
        let made = opgate(directory.path(), &arguments);
        assert_eq!(made.status.code(), Some(2), "{name:?}: {}", out(&made));
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was written");
    let taken = directory.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine"), "mine").unwrap();
    let made = opgate(directory.path(), &["policy", "new", "taken", "--lang", &language]);
    assert_eq!(made.status.code(), Some(2));
    assert!(err(&made).contains("taken: is not empty"), "{}", err(&made));
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
    // Not through a link that leads nowhere, either.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("gone", &link).unwrap();
    let made = opgate(directory.path(), &["policy", "new", "link", "--lang", &language]);
    assert_eq!(made.status.code(), Some(2));
    assert!(!directory.path().join("gone").exists());
}
