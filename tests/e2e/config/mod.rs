//! `opgate config`: it reports all errors at once, and its schema agrees with the loader.

mod files;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::cli::{directory, err, opgate, out, write};

const CONFIGURATION_HEADER: &str = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let output = opgate(Path::new("."), &["config", "schema"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        serde_json::from_str(&out(&output)).unwrap()
    })
}

/// What is wrong with a text by the schema.
fn schema_errors(text: &str) -> Vec<String> {
    static VALIDATOR: OnceLock<jsonschema::Validator> = OnceLock::new();
    let validator = VALIDATOR.get_or_init(|| jsonschema::draft202012::new(schema()).unwrap());
    // As editors read it: `off` is a text.
    let options = serde_saphyr::options! { strict_booleans: true };
    let value: Value = serde_saphyr::from_str_with_options(text, options).unwrap_or(Value::Null);
    validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// Blocks of a page that are configurations.
fn examples(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        match (line.strip_prefix("    "), line.trim().is_empty()) {
            (Some(line), _) => blocks.last_mut().unwrap().extend([line, "\n"]),
            (None, true) => *blocks.last_mut().unwrap() += "\n",
            (None, false) => blocks.push(String::new()),
        }
    }
    blocks
        .into_iter()
        .map(|block| block.trim_start().to_owned())
        .filter(|block| block.starts_with(CONFIGURATION_HEADER))
        .collect()
}

#[test]
fn all_configuration_errors_are_reported_in_one_run() {
    let directory = directory();
    let text = format!(
        "{CONFIGURATION_HEADER}polices: []\ncheck: {{warningsAsError: true}}\npolicies:\n- name: bundle-immutability\n  mode: enforced\n  rules: {{RPK-1: off, RPK-02: maybe}}\n  settings: {{rukpak: {{strictPath: true}}}}\n- nam: x\n- name: operator-grup\n- name: y\n  module: https://example.com/x.wasm\n  limits: {{time: 1d}}\n"
    );
    write(&directory, "bad.yaml", &text);
    write(&directory, "good.yaml", format!("{CONFIGURATION_HEADER}policies:\n- name: olm-v1\n"));
    let output = opgate(directory.path(), &["config", "validate", "good.yaml", "bad.yaml"]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""));
    let said = err(&output);
    let expected = [
        "good.yaml: valid, 1 policy",
        "error: bad.yaml:3:1: unknown field `polices`, ",
        "error: bad.yaml:4:9: unknown field `warningsAsError`, ",
        "error: bad.yaml:7:3: unknown variant `enforced`, ",
        "error: bad.yaml:8:11: policy bundle-immutability has no rule \"RPK-1\"; did you mean \"RPK-01\"?",
        "error: bad.yaml:8:23: unknown variant `maybe`, ",
        "error: bad.yaml:9:23: unknown setting `strictPath`; did you mean \"strictPaths\"?",
        "error: bad.yaml:10:3: missing field `name`",
        "error: bad.yaml:10:3: unknown field `nam`, ",
        "error: bad.yaml:11:3: there is no built-in policy \"operator-grup\"; did you mean \"operator-group\"?",
        "error: bad.yaml:13:3: a module cannot be at https://: push the component to a registry",
        "error: bad.yaml:14:12: \"1d\" is not a duration: write a number with us, ms, s, m or h",
        "bad.yaml: 11 errors",
    ];
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for (line, expected) in said.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line} is not {expected}");
    }
    let output = opgate(directory.path(), &["config", "validate", "-o", "json", "bad.yaml"]);
    let list: Vec<Value> = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(list.len(), 11);
    assert_eq!((&list[2]["line"], &list[2]["column"]), (&json!(7), &json!(3)));
    let output = opgate(directory.path(), &["config", "validate", "nowhere.yaml", "bad.yaml"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn policy_files_are_loaded_on_request() {
    let directory = directory();
    let file = testkit::hostile_component("misbehaves");
    let text = format!(
        "{CONFIGURATION_HEADER}policies:\n- name: x\n  module: nowhere.wasm\n- name: y\n  module: {}\n  rules: {{NO-1: off}}\n",
        file.display()
    );
    write(&directory, "opgate.yaml", text);
    let output = opgate(directory.path(), &["config", "validate", "opgate.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("are not loaded (2); --load does that"), "{}", err(&output));
    let output = opgate(directory.path(), &["config", "validate", "--load", "opgate.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    for expected in [
        "error: opgate.yaml:5:3: policy x: nowhere.wasm: No such file",
        "error: opgate.yaml:8:11: policy y has no rule \"NO-1\"",
    ] {
        assert!(err(&output).contains(expected), "{}", err(&output));
    }
}

/// A place of the file, the schema for it, and a file with an unknown key there.
fn schema_objects() -> Vec<(&'static str, &'static str, String)> {
    let policy = |rest: &str| {
        format!("{CONFIGURATION_HEADER}policies:\n- name: x\n  module: oci://h.example/x:1\n{rest}")
    };
    vec![
        ("", "", format!("{CONFIGURATION_HEADER}unknown: 1\n")),
        (
            "/identities",
            "/properties/identities",
            format!("{CONFIGURATION_HEADER}identities: {{unknown: 1}}\n"),
        ),
        ("/check", "/properties/check", format!("{CONFIGURATION_HEADER}check: {{unknown: 1}}\n")),
        ("/policies/0", "/$defs/policy", policy("  unknown: 1\n")),
        (
            "/policies/0/signature",
            "/$defs/policy/properties/signature",
            policy("  signature: {unknown: 1}\n"),
        ),
        (
            "/policies/0/limits",
            "/$defs/policy/properties/limits",
            policy("  limits: {unknown: 1}\n"),
        ),
        (
            "/policies/0/exclude",
            "/$defs/policy/properties/exclude",
            policy("  exclude: {unknown: 1}\n"),
        ),
        ("/policies/0/match", "/$defs/policy/properties/match", policy("  match: {unknown: 1}\n")),
        (
            "/policies/0/match/namespaces",
            "/$defs/policy/properties/match/properties/namespaces",
            policy("  match: {namespaces: {unknown: 1}}\n"),
        ),
        (
            "/policies/0/match/names",
            "/$defs/policy/properties/match/properties/names",
            policy("  match: {names: {unknown: 1}}\n"),
        ),
    ]
}

/// The loader names the keys that it knows. The schema has the same ones, and no object is forgotten.
#[test]
fn schema_keys_equal_loader_keys() {
    let directory = directory();
    let mut known = BTreeSet::new();
    for (at, pointer, text) in schema_objects() {
        write(&directory, "opgate.yaml", &text);
        let output = opgate(directory.path(), &["config", "validate", "opgate.yaml"]);
        let said = err(&output);
        let line = said
            .lines()
            .find(|line| line.contains("unknown field `unknown`"))
            .unwrap_or_else(|| panic!("{at}: {said}"));
        let keys: BTreeSet<_> = line.split('`').skip(3).step_by(2).collect();
        let part = schema().pointer(pointer).unwrap();
        let properties: BTreeSet<_> =
            part["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, properties, "{at}");
        assert_eq!(part["additionalProperties"], false, "{at}");
        assert!(!schema_errors(&text).is_empty(), "{at}: the schema takes an unknown key");
        known.insert(pointer);
    }
    // Each object that defines keys is among them.
    let mut todo = vec![(String::new(), schema())];
    while let Some((pointer, part)) = todo.pop() {
        // A selector has the keys of Kubernetes, and separate errors.
        let is_settings = pointer.ends_with("-settings")
            || pointer.ends_with("-rules")
            || pointer.ends_with("/namespaceSelector");
        if part.get("additionalProperties") == Some(&json!(false)) && !is_settings {
            assert!(known.contains(pointer.as_str()), "{pointer} is not compared with the loader");
        }
        if !is_settings {
            let members = part.as_object().into_iter().flatten();
            todo.extend(members.map(|(key, value)| (format!("{pointer}/{key}"), value)));
        }
    }
}

/// Examples of the pages, and configurations of tests.
#[test]
fn schema_accepts_configurations_the_loader_accepts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts = Vec::new();
    let entries = |directory: &str| std::fs::read_dir(root.join(directory)).unwrap();
    for entry in entries("docs").chain(entries("docs/policies")) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "md") {
            let page = std::fs::read_to_string(&path).unwrap();
            texts.extend(examples(&page).into_iter().map(|text| (path.clone(), text)));
        }
    }
    assert!(texts.len() >= 3, "{texts:?}");
    texts.push(("builtin".into(), testkit::configuration(&[testkit::builtin_policy()])));
    let nulls = format!(
        "{CONFIGURATION_HEADER}profile: ~\ndocsUrl: ~\npolicies:\n- name: olm-v1\n  module: ~\n  settings: ~\n  limits: {{time: ~, memory: 1048576}}\n  match: {{namespaceSelector: {{matchExpressions: [{{key: a, operator: Exists}}]}}, names: {{include: [team-*]}}}}\n"
    );
    texts.push(("nulls".into(), nulls));
    let directory = directory();
    for (path, text) in texts {
        assert_eq!(schema_errors(&text), [""; 0], "{}", path.display());
        write(&directory, "opgate.yaml", &text);
        let output = opgate(directory.path(), &["config", "validate", "opgate.yaml"]);
        assert_eq!(output.status.code(), Some(0), "{}: {}", path.display(), err(&output));
    }
}

#[test]
fn schema_rejects_configurations_the_loader_rejects() {
    let directory = directory();
    let policy = "policies:\n- name: bundle-immutability\n";
    for text in [
        "kind: Configuration\n".to_owned(),
        "apiVersion: v1\nkind: Config\n".to_owned(),
        format!("{CONFIGURATION_HEADER}polices: []\n"),
        format!("{CONFIGURATION_HEADER}policies:\n"),
        format!("{CONFIGURATION_HEADER}profile: ocp-4.16\n"),
        format!("{CONFIGURATION_HEADER}identities: {{olm: a}}\n"),
        format!("{CONFIGURATION_HEADER}identities: {{olm: [a, \"\"]}}\n"),
        format!("{CONFIGURATION_HEADER}identities: {{olm: [\" b\"]}}\n"),
        format!("{CONFIGURATION_HEADER}docsUrl: docs.example.com\n"),
        format!("{CONFIGURATION_HEADER}check: {{warningsAsErrors: 1}}\n"),
        format!("{CONFIGURATION_HEADER}policies: [x]\n"),
        format!("{CONFIGURATION_HEADER}policies:\n- module: x\n"),
        format!("{CONFIGURATION_HEADER}policies:\n- name: X Y\n  module: builtin:olm-v1\n"),
        format!("{CONFIGURATION_HEADER}policies:\n- name: bundle-imutability\n"),
        format!("{CONFIGURATION_HEADER}policies:\n- name: x\n  module: builtin:nothing\n"),
        format!(
            "{CONFIGURATION_HEADER}policies:\n- name: x\n  module: https://example.com/x.wasm\n"
        ),
        format!(
            "{CONFIGURATION_HEADER}policies:\n- name: x\n  module: x.wasm\n  signature: {{key: a}}\n"
        ),
        format!(
            "{CONFIGURATION_HEADER}policies:\n- name: x\n  module: oci://h.example/x:1\n  signature:\n"
        ),
        format!(
            "{CONFIGURATION_HEADER}policies:\n- name: x\n  module: oci://h.example/x:1\n  signature: {{key: ' '}}\n"
        ),
        format!("{CONFIGURATION_HEADER}{policy}  mode: enforced\n"),
        format!("{CONFIGURATION_HEADER}{policy}  onError: ignore\n"),
        format!("{CONFIGURATION_HEADER}{policy}  rules: {{RPK-1: off}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  rules: {{RPK-02: maybe}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  settings: {{rukpak: {{strictPath: true}}}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  settings: {{rukpak: {{strictPaths: 1}}}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  settings: {{rules: {{}}}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  limits: {{memory: 32MB}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  limits: {{memory: 1}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  limits: {{time: 100}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  limits: {{time: 1d}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  limits: {{concurrency: 257}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  exclude: {{users: a}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  match: {{names: [a]}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  match: {{names: {{include: [a/b]}}}}\n"),
        format!("{CONFIGURATION_HEADER}{policy}  match: {{namespaces: {{exclude: [\"\"]}}}}\n"),
        format!(
            "{CONFIGURATION_HEADER}{policy}  match: {{namespaceSelector: {{matchLabel: {{a: b}}}}}}\n"
        ),
        format!(
            "{CONFIGURATION_HEADER}{policy}  match: {{namespaceSelector: {{matchExpressions: [{{key: a}}]}}}}\n"
        ),
        format!("{CONFIGURATION_HEADER}{policy}  allowedReads: [configmaps]\n"),
        format!("{CONFIGURATION_HEADER}{policy}  allowedReads: [a/b/c/d]\n"),
        format!("{CONFIGURATION_HEADER}{policy}  allowedSamples: [\"*\"]\n"),
        format!("{CONFIGURATION_HEADER}{policy}  allowedSamples: [widgets]\n"),
    ] {
        write(&directory, "opgate.yaml", &text);
        let output = opgate(directory.path(), &["config", "validate", "opgate.yaml"]);
        assert_eq!(output.status.code(), Some(1), "{text}{}", err(&output));
        assert_ne!(schema_errors(&text), [""; 0], "the schema takes\n{text}");
    }
}
