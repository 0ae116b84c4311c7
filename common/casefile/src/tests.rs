use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn files(of: &[(&str, &str)]) -> Vec<File> {
    let file = |(name, text): &(&str, &str)| File { name: (*name).into(), text: (*text).into() };
    of.iter().map(file).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "what a level may be")]
fn deny(_: &str) -> Option<&'static str> {
    Some("deny")
}

fn violation(rule: &str, field: &str, message: &str) -> Violation {
    let (level, at) = (Some("deny".to_owned()), Some(field.to_owned()));
    Violation { rule: rule.into(), level, field: at, message: message.into(), is_prefix: false }
}

const SHARED: (&str, &str) =
    ("objects.yaml", "pod: {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}}\n");

#[test]
fn invalid_case_files_report_line() {
    for (name, text, expected) in [
        ("A-1.yaml", "rule: A-1\naccept: [\n", "A-1.yaml:2: unclosed bracket"),
        ("A-1.yaml", "rule: A-2\naccept: []\n", "A-1.yaml:1: `rule` is \"A-2\""),
        ("A-1.yaml", "rule: A-1\nacept: []\n", "A-1.yaml:2: unknown field `acept`"),
        (
            "A-1.yaml",
            "rule: A-1\naccept:\n- name: x\n  creat: pod\n",
            "A-1.yaml:4: x: unknown field `creat`",
        ),
        (
            "A-1.yaml",
            "rule: A-1\naccept:\n# x\n- name: x\n",
            "A-1.yaml:4: x: there is nothing to evaluate",
        ),
        (
            "A-1.yaml",
            "rule: A-1\naccept:\n- name: x\n  create: pot\n",
            "A-1.yaml:3: x: objects.yaml has no pot",
        ),
        (
            "A-1.yaml",
            "rule: A-1\nreject:\n- name: x\n  create: pod\n",
            "A-1.yaml:3: x: a rejected case has no violation",
        ),
        (
            "A-1.yaml",
            "rule: A-1\naccept:\n- {name: x, create: pod, with: {spec: 1}}\n",
            "A-1.yaml:3: x: \"spec\" is no JSON pointer",
        ),
        (
            "A-1.yaml",
            "rule: A-1\naccept:\n- {name: x, create: pod, with: {/metadata/name/x: 1}}\n",
            "A-1.yaml:3: x: there is no place /metadata/name/x",
        ),
        (
            "A-1.yaml",
            "rule: A-1\naccept:\n- {name: x, create: pod}\n- {name: x, create: pod}\n",
            "A-1.yaml:4: x: two cases have this name",
        ),
        (
            "A-1.yaml",
            "rule: A-1\nreject:\n- name: x\n  create: pod\n  messagePrefix: no\n",
            "A-1.yaml:5: x: messagePrefix: invalid type: boolean `false`, expected a string",
        ),
        (
            "A-1.yaml",
            "rule: A-1\nreject:\n- name: x\n  violations:\n  - {message: a}\n  - {message: a,\n     level: 1}\n",
            "A-1.yaml:7: x: violations[1].level: invalid type: integer `1`",
        ),
        (
            "A-1.yaml",
            "rule: A-1\nreject:\n- name: x\n  violations:\n  - {massage: a}\n",
            "A-1.yaml:5: x: violations[0]: unknown field `massage`",
        ),
        ("A-1.yaml", "rule: A-1\naccept: x\n", "A-1.yaml:2: accept: invalid type: string"),
        ("objects.yaml", "- a\n", "objects.yaml:1: not objects"),
    ] {
        let mut files = files(&[SHARED]);
        files.retain(|file| file.name != name);
        files.push(File { name: name.into(), text: text.into() });
        let wrong = read(&files, &[]).unwrap_err().remove(0).to_string();
        assert!(wrong.starts_with(expected), "{wrong}");
    }
}

#[test]
fn verdicts_are_compared_as_sets() {
    let text = "rule: A-1\nreject:\n- name: x\n  create: pod\n  violations:\n  - {messagePrefix: a}\n  - {message: ab, field: f}\n";
    let case = read(&files(&[SHARED, ("A-1.yaml", text)]), &[]).unwrap().remove(0);
    assert_eq!((case.location.line, case.location.index), (3, 0));
    assert_eq!(case.review()["request"]["namespace"], "b");
    let answer = |findings: &[Violation]| PolicyResult {
        violations: findings.to_vec(),
        ..PolicyResult::default()
    };
    let right = [violation("A-1", "f", "ab"), violation("A-1", "g", "ac")];
    assert!(case.compare(&answer(&right), deny).is_empty());
    let diff =
        case.compare(&answer(&[violation("A-1", "f", "ac"), violation("A-2", "", "x")]), deny);
    assert_eq!(diff.missing[0].message, "ab");
    assert_eq!(diff.unexpected, [violation("A-2", "", "x")]);
    assert_eq!(case.compare(&answer(&right), |_| Some("warn")).missing.len(), 2);
    let skipped = PolicyResult { skipped: ["A-1".to_owned()].into(), ..answer(&right) };
    assert_eq!(
        case.compare(&skipped, deny).other_differences,
        ["not evaluated: A-1, expected none"]
    );
}

const BEFORE: &str = "\
# What A-1 looks at.
rule: A-1
accept:
- name: fine  # a comment
  create: pod
reject:
  # before
  - name: x
    create: pod
    # about the message
    message: old
    field: spec.old
    # behind it

  - name: two
    create: pod
    violations:
      - message: one # keep
      - {message: two}
    settings: {a: 1}
skip: []
";

#[test]
fn verdict_update_changes_only_its_case() {
    let all = files(&[SHARED, ("A-1.yaml", BEFORE)]);
    let cases = read(&all, &[]).unwrap();
    let [fine, x, list] = cases.as_slice() else { panic!("{cases:?}") };
    let answer = |findings: &[Violation]| PolicyResult {
        violations: findings.to_vec(),
        ..PolicyResult::default()
    };
    let written = |case: &Case, answer: &PolicyResult| update(&all, &[], case, answer, deny);
    let one = answer(&[violation("A-1", "spec.new", "new: text"), violation("B-1", "", "other")]);
    assert_eq!(
        written(x, &one).unwrap(),
        BEFORE.replace("message: old", "message: \"new: text\"").replace(
            "field: spec.old\n",
            "field: spec.new\n    otherViolations:\n    - rule: B-1\n      message: other\n"
        )
    );
    let two = answer(&[violation("A-1", "f", "one"), violation("A-1", "f[0]", "three")]);
    let changed = written(list, &two).unwrap();
    let expected = "    violations:\n    - message: one\n    - field: f[0]\n      message: three\n    settings: {a: 1}\nskip: []\n";
    assert!(changed.ends_with(expected), "{changed}");
    // Values that are already correct change nothing.
    let same = answer(&[violation("A-1", "spec.old", "old")]);
    assert_eq!(written(x, &same).unwrap(), BEFORE);
    // Results that a case cannot express.
    let finds = written(fine, &answer(&[violation("A-1", "", "x")])).unwrap_err().to_string();
    assert!(finds.contains("move it below `reject`"), "{finds}");
    assert!(written(x, &answer(&[])).unwrap_err().to_string().contains("finds nothing"));
    let braces = "rule: A-1\nreject:\n- {name: x, create: pod, message: old}\n";
    let all = files(&[SHARED, ("A-1.yaml", braces)]);
    let case = read(&all, &[]).unwrap().remove(0);
    let why = update(&all, &[], &case, &answer(&[violation("A-1", "", "x")]), deny).unwrap_err();
    assert!(why.to_string().contains("in braces"), "{why}");
}

#[test]
fn fields_of_a_directory_are_mapped_to_files() {
    let paths = ["a.yaml".to_owned(), "b.yaml".to_owned()];
    for (field, place) in [
        ("spec.files[1].documents[0].kind", "b.yaml#documents[0].kind"),
        ("spec.files[0]", "a.yaml#"),
        ("spec.files[7].x", "spec.files[7].x"),
        ("spec.files", "spec.files"),
    ] {
        assert_eq!(documents::to_case_field(field, &paths), place);
        assert_eq!(documents::to_document_field(place, &paths).unwrap(), field);
    }
}

#[test]
fn derived_case_is_the_rejected_one_with_changes() {
    let text = "\
rule: A-1
accept:
- {name: repaired, fixes: broken, with: {/spec/a: 2, /spec/b: null}}
- {name: repaired file, fixes: broken directory, patch: {a.yaml: {/b: 2}}}
reject:
- {name: broken, create: pod, request: {user: u}, with: {/spec/a: 1, /spec/b: 1, /spec/c: 1}, field: x, message: bad}
- {name: broken directory, directory: {a.yaml: {kind: A}}, patch: {a.yaml: {/a: 1}}, message: bad}
";
    let read = |text: &str| read(&files(&[SHARED, ("A-1.yaml", text)]), &["PlainBundle"]);
    let cases = read(text).unwrap();
    let [repaired, file, ..] = &cases[..] else { panic!("{cases:?}") };
    assert_eq!(repaired.fixes.as_deref(), Some("broken"));
    assert_eq!(repaired.object.as_ref().unwrap()["spec"], json!({"a": 2, "c": 1}));
    assert_eq!((repaired.request.user.as_deref(), repaired.violations.len()), (Some("u"), 0));
    let document = &file.object.as_ref().unwrap()["spec"]["files"][0]["documents"][0];
    assert_eq!(*document, json!({"kind": "A", "a": 1, "b": 2}));
    for (text, expected) in [
        ("accept:\n- {name: a, fixes: b}\n", "A-1.yaml:3: a: no rejected case has the name"),
        (
            "reject:\n- {name: a, fixes: a, create: pod, message: x}\n",
            "A-1.yaml:3: a: `fixes` is only for accepted cases",
        ),
    ] {
        let wrong = read(&format!("rule: A-1\n{text}")).unwrap_err();
        assert!(wrong[0].to_string().starts_with(expected), "{wrong:?}");
    }
}

/// The members that the parser knows, which its error lists.
fn parsed_members<T: serde::de::DeserializeOwned>() -> BTreeSet<String> {
    let error = serde_json::from_value::<T>(json!({"?": 1})).err().unwrap().to_string();
    let (_, known) = error.split_once("expected one of ").unwrap();
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn schema_has_the_members_of_the_parser() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let members = |pointer: &str| -> BTreeSet<String> {
        schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(members("/properties"), parsed_members::<entry::Content>());
    assert_eq!(members("/$defs/case/properties"), parsed_members::<entry::Entry>());
    assert_eq!(members("/$defs/violation/properties"), parsed_members::<entry::EntryViolation>());
    assert_eq!(members("/$defs/request/properties"), parsed_members::<RequestParts>());
}

#[test]
fn recorded_cluster_replaces_only_that_of_its_case() {
    let text = "rule: A-1\naccept:\n- name: one  # kept\n  create: pod\n  # of one\n\n- name: two\n  create: pod\n  cluster: none\nreject:\n- {name: three, create: pod, message: m}\n";
    let all = files(&[SHARED, ("A-1.yaml", text)]);
    let cases = read(&all, &[]).unwrap();
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b", "labels": {"on": "yes"}}}),
        json!({"gitVersion": "v1.33.1"}),
        json!({"kind": "X", "metadata": {"name": "# 1: \n"}, "spec": {"a": [], "b": {}, "c": [[1, {"d": null}], "e"]}}),
    ];
    let [one, two, three] = cases.as_slice() else { panic!("{cases:?}") };
    let written = set_cluster(&all, &[], one, &objects).unwrap();
    let block = "  cluster:\n    - apiVersion: v1\n      kind: Namespace\n      metadata:\n        labels:\n          \"on\": \"yes\"\n        name: b\n    - gitVersion: v1.33.1\n";
    assert!(written.contains(&format!("- name: one  # kept\n  create: pod\n{block}")), "{written}");
    let again = read(&files(&[SHARED, ("A-1.yaml", &written)]), &[]).unwrap();
    assert_eq!(again[0].cluster.as_deref(), Some(&objects[..]));
    assert_eq!(
        (&again[1].cluster, again[1].has_cluster, again[2].has_cluster),
        (&None, true, false)
    );
    let written = set_cluster(&all, &[], two, &[]).unwrap();
    assert!(written.contains("- name: two\n  create: pod\n  cluster: []\n"), "{written}");
    assert!(set_cluster(&all, &[], three, &[]).unwrap_err().to_string().contains("in braces"));
}
