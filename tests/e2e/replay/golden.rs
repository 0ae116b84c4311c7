//! Decisions in a file, with which later ones are compared.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::check::{command, err, out};

const LEVELS: &str = "apiVersion: opgate.dev/v1alpha1
kind: Configuration
policies:
  - name: bundle-immutability
    rules: {RPK-01: warn}
";

/// A directory with some reviews, and a configuration in which one of them is allowed.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let reviews = Path::new(env!("CARGO_MANIFEST_DIR")).join("reviews");
    fs::create_dir(directory.path().join("reviews")).unwrap();
    for name in ["006-create-bundles-combo-tag-ref.json", "007-update-bundles-combo-tag-ref.json"] {
        fs::copy(reviews.join(name), directory.path().join("reviews").join(name)).unwrap();
    }
    fs::write(directory.path().join("levels.yaml"), LEVELS).unwrap();
    directory
}

fn run(directory: &TempDir, line: &str) -> (Option<i32>, String) {
    let arguments: Vec<_> = line.split(' ').collect();
    let output: Output = command(directory.path(), &arguments).output().unwrap();
    (output.status.code(), out(&output) + &err(&output))
}

#[test]
fn changed_decisions_differ_from_the_expected_ones() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let (code, said) = run(&directory, "replay --bless expected.jsonl reviews");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("expected.jsonl: 2 decisions"), "{said}");
    let expected = fs::read_to_string(path("expected.jsonl")).unwrap();
    assert_eq!(expected.lines().count(), 2, "{expected}");

    // A denial that is expected is no failure.
    let (code, said) = run(&directory, "replay --verify expected.jsonl reviews");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 decisions, 0 differ from the expected ones"), "{said}");

    let (code, said) =
        run(&directory, "replay --config levels.yaml --verify expected.jsonl reviews");
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "~ reviews/007-update-bundles-combo-tag-ref.json: UPDATE core.rukpak.io/v1alpha1/bundles \
         combo-tag-ref: deny → allow\n",
        "    - deny RPK-01 spec: bundle.spec is immutable (policy bundle-immutability)\n",
        "    + warn RPK-01 spec: bundle.spec is immutable (policy bundle-immutability)\n",
        "2 decisions, 1 differ from the expected ones",
    ] {
        assert!(said.contains(line), "{said}");
    }

    // A review that is gone, and one that is new.
    fs::rename(
        path("reviews/006-create-bundles-combo-tag-ref.json"),
        path("reviews/008-create.json"),
    )
    .unwrap();
    let (code, said) = run(&directory, "replay --verify expected.jsonl reviews");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("- reviews/006-create-bundles-combo-tag-ref.json: CREATE"), "{said}");
    assert!(said.contains("+ reviews/008-create.json: CREATE"), "{said}");
}

#[test]
fn expected_decisions_can_be_among_the_reviews() {
    let directory = directory();
    for line in [
        "replay --bless reviews/expected.jsonl reviews",
        "replay --bless reviews/expected.jsonl ./reviews",
    ] {
        let (code, said) = run(&directory, line);
        assert_eq!(code, Some(0), "{said}");
    }
    for paths in ["reviews", "./reviews", "reviews/"] {
        let line = format!("replay --verify reviews/expected.jsonl {paths}");
        let (code, said) = run(&directory, &line);
        assert_eq!(code, Some(0), "{line}: {said}");
        assert!(said.contains("2 decisions, 0 differ"), "{said}");
    }
    // Other paths are no other decisions.
    let path = directory.path().join("reviews").display().to_string();
    let (code, said) = run(&directory, &format!("replay --verify reviews/expected.jsonl {path}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no source is in the file: name the same paths"), "{said}");
}

#[test]
fn unreadable_reviews_are_not_written_as_decisions() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("expected.jsonl"), "{}\n").unwrap();
    fs::write(path("reviews/broken.json"), "{").unwrap();
    let (code, said) = run(&directory, "replay --bless expected.jsonl reviews");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("expected.jsonl: not written"), "{said}");
    assert_eq!(fs::read_to_string(path("expected.jsonl")).unwrap(), "{}\n");

    // A file that no `--bless` wrote.
    let (code, said) = run(&directory, "replay --verify expected.jsonl reviews");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("expected.jsonl:1:2: not a decision"), "{said}");
    let (code, said) = run(&directory, "replay --verify absent.jsonl reviews");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("absent.jsonl: "), "{said}");
    let (code, said) = run(&directory, "replay --verify expected.jsonl -o json reviews");
    assert_eq!(code, Some(2), "{said}");
}
