//! `opgate policy new`: what it writes, and where it does not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::{err, opgate, out};

/// The languages that have a template of a size.
fn languages_of(size: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/opgate/templates").join(size);
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn languages() -> Vec<String> {
    languages_of("start")
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
    assert_eq!(languages_of("start"), languages_of("example"));
    let small = ["opgate.yaml", "cases/NS-1.yaml", "namespace.yaml", ".gitignore"];
    let large = ["opgate.yaml", "cases/objects.yaml", "pod.yaml", ".gitignore"];
    for (flags, names) in [(&[][..], small), (&["--example"], large)] {
        for language in languages() {
            let directory = tempfile::tempdir().unwrap();
            let mut arguments =
                vec!["policy", "new", "my-images", "--lang", &language, "--out", "deep/one"];
            arguments.extend(flags);
            let made = opgate(directory.path(), &arguments);
            assert_eq!(made.status.code(), Some(0), "{language}: {}", err(&made));
            let root = directory.path().join("deep/one");
            for (path, text) in files(&root) {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                let whole = format!("{name}\n{text}");
                assert!(!whole.contains("{{"), "{language}: {name} has a place to fill");
            }
            for name in names {
                assert!(root.join(name).is_file(), "{language}: no {name}");
            }
            let configuration = fs::read_to_string(root.join("opgate.yaml")).unwrap();
            assert!(configuration.contains("name: my-images"), "{language}: {configuration}");
            // The command prints the next steps.
            let said = out(&made);
            for text in ["cd deep/one", " policy test .", names[2], "Tools:"] {
                assert!(said.contains(text), "{language}: {said}");
            }
            // The command has written nothing next to the directory.
            assert_eq!(fs::read_dir(directory.path().join("deep")).unwrap().count(), 1);
        }
    }
}

/// A small policy has one rule, with one case that it accepts and one that it rejects.
#[test]
fn a_new_policy_is_small() {
    for language in languages() {
        let directory = tempfile::tempdir().unwrap();
        let made = opgate(directory.path(), &["policy", "new", "a", "--lang", &language]);
        assert_eq!(made.status.code(), Some(0), "{}", err(&made));
        let root = directory.path().join("a");
        let cases: Vec<_> = fs::read_dir(root.join("cases")).unwrap().collect();
        assert_eq!(cases.len(), 1, "{language}");
        let text = fs::read_to_string(root.join("cases/NS-1.yaml")).unwrap();
        assert_eq!(text.matches("- name:").count(), 2, "{language}: {text}");
        let lines = |(path, text): (PathBuf, String)| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_source = ["lib.rs", "policy.ts", "policy.js", "policy.c", "a.py"];
            is_source.contains(&name.as_str()).then(|| text.lines().count())
        };
        let lines: Vec<_> = files(&root).into_iter().filter_map(lines).collect();
        assert!(matches!(lines[..], [1..=70]), "{language}: {lines:?} lines");
    }
}

/// The program in a checkout names its SDK, other programs need the name of one or of published packages.
#[test]
fn build_files_name_a_source_of_the_sdk() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let checkout = root.to_str().unwrap();
    for (language, file, inside, published) in [
        ("rust", "Cargo.toml", "guest/sdk", "opgate-sdk = \"0."),
        ("typescript", "package.json", "guest/javascript", "\"@opgate/policy\": \"0."),
        ("python", "requirements.txt", "guest/python", "opgate-policy[cases]==0."),
        ("c", "Makefile", "guest/c", "OPGATE_SDK = opgate-policy-c-0."),
    ] {
        for (flags, expected, other) in [
            (&[][..], format!("{checkout}/{inside}"), None),
            (&["--sdk", checkout][..], format!("{checkout}/{inside}"), None),
            (&["--sdk", "packages"][..], published.to_owned(), Some(checkout)),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let mut arguments = vec!["policy", "new", "a", "--lang", language];
            arguments.extend(flags);
            let made = opgate(directory.path(), &arguments);
            assert_eq!(made.status.code(), Some(0), "{}", err(&made));
            let text = fs::read_to_string(directory.path().join("a").join(file)).unwrap();
            assert!(text.contains(&expected), "{language}: {text}");
            assert!(other.is_none_or(|other| !text.contains(other)), "{language}: {text}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let made = opgate(directory.path(), &["policy", "new", "a", "--lang", "c", "--sdk", "."]);
    assert_eq!(made.status.code(), Some(2));
    assert!(err(&made).contains(".: is no checkout of opgate"), "{}", err(&made));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was written");
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
    for (language, names) in [
        ("rust", &["trait", "type", "use", "while", "class", "opgate-sdk", "core"][..]),
        ("python", &["class", "trait", "operator", "json", "opgate-policy", "sre-parse", "pytest"]),
    ] {
        for name in names {
            let made = opgate(directory.path(), &["policy", "new", name, "--lang", language]);
            assert_eq!(made.status.code(), Some(2), "{language} {name}: {}", out(&made));
            let said = err(&made);
            assert!(said.contains("choose another name, such as house-"), "{name}: {said}");
        }
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was written");
    // Only Python has such a module.
    let made = opgate(directory.path(), &["policy", "new", "json", "--lang", "c"]);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
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
