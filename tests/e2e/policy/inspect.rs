//! `opgate policy inspect` and `pack`: what follows from a policy, what is wrong with it, and what a file is
//! that is none.

use std::fs;

use serde_json::{Value, json};
use testkit::hostile_component;

use crate::cli::{directory, err, opgate, out, write};

/// What `inspect -o json` prints, after a status.
fn inspect_json(arguments: &[&str], status: i32) -> Value {
    let directory = directory();
    let done =
        opgate(directory.path(), &[&["policy", "inspect", "-o", "json"], arguments].concat());
    assert_eq!(done.status.code(), Some(status), "{arguments:?}: {}{}", out(&done), err(&done));
    serde_json::from_str(&out(&done)).unwrap()
}

fn kinds(inspected: &Value) -> Vec<&str> {
    let findings = inspected["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["kind"].as_str().unwrap()).collect()
}

#[test]
fn derived_imports_permissions_and_webhooks_are_shown() {
    let shown = inspect_json(&["bundle-immutability"], 0);
    assert_eq!(shown["findings"], json!([]));
    assert!(shown["size"].as_u64() > Some(10_000));
    let imports = shown["imports"].as_array().unwrap();
    assert!(imports.contains(&json!("opgate:policy/document@0.7.0")), "{imports:?}");
    let everywhere = json!({
        "apiGroups": ["core.rukpak.io"], "resources": ["bundles"], "verbs": ["list", "watch"],
    });
    assert_eq!(shown["rbac"][0], everywhere);
    assert_eq!(shown["rbac"][1]["namespace"], "rukpak-system");
    assert_eq!(shown["webhooks"][0]["name"], "vbundles.core.rukpak.io");
    assert_eq!(shown["webhooks"][0]["failurePolicy"], "Fail");
    assert_eq!(shown["matches"][0]["names"], json!({"include": [], "exclude": []}));
}

#[test]
fn builtin_policies_have_no_findings() {
    let directory = directory();
    for builtin in opgate::builtin::BUILTINS {
        let done = opgate(directory.path(), &["policy", "inspect", builtin.name]);
        assert_eq!(done.status.code(), Some(0), "{}: {}", builtin.name, out(&done));
    }
}

#[test]
fn policy_mistakes_yield_findings() {
    for (policy, expected) in [
        ("misbehaves", &["no-documentation"][..]),
        ("reads-cluster", &["no-reads", "no-documentation"]),
        ("explodes-in-schema", &["schema", "no-documentation"]),
        ("refers-in-schema", &["schema", "no-documentation"]),
    ] {
        let shown = inspect_json(&[hostile_component(policy).to_str().unwrap()], 1);
        assert_eq!(kinds(&shown), expected, "{policy}: {:#}", shown["findings"]);
    }
}

#[test]
fn settings_are_checked() {
    let directory = directory();
    write(&directory, "right.yaml", "rukpak: {allowedUsers: [me]}\n");
    write(&directory, "wrong.yaml", "rukpak: {allowedUser: [me]}\n");
    write(&directory, "list.yaml", "- a\n");
    let inspect = |file: &str| {
        let arguments = ["policy", "inspect", "bundle-immutability", "--settings", file];
        let done = opgate(directory.path(), &arguments);
        (done.status.code(), format!("{}{}", out(&done), err(&done)))
    };
    assert_eq!(inspect("right.yaml").0, Some(0), "{}", inspect("right.yaml").1);
    let (status, said) = inspect("wrong.yaml");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("unknown setting `allowedUser`"), "{said}");
    let (status, said) = inspect("list.yaml");
    assert!(status == Some(2) && said.contains("settings are an object"), "{said}");
    // A policy that fails at its settings does not load.
    let file = hostile_component("loops-in-settings");
    let done = opgate(directory.path(), &["policy", "inspect", file.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(3));
    assert!(err(&done).contains("validate-settings"), "{}", err(&done));
}

/// Files that people name by mistake.
#[test]
fn files_other_than_policies_get_a_hint() {
    let directory = directory();
    let module = |text: &str| wat::parse_str(text).unwrap();
    let wasip1 = "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func (param i32))))";
    let component = fs::read(hostile_component("misbehaves")).unwrap();
    for (name, content, of_inspect, of_pack) in [
        ("text.wasm", b"fn main() {}\n".to_vec(), "text, not WebAssembly", "text, not WebAssembly"),
        ("empty.wasm", Vec::new(), "the file is empty", "the file is empty"),
        (
            "wasip1.wasm",
            module(wasip1),
            "--target wasm32-unknown-unknown",
            "--target wasm32-unknown-unknown",
        ),
        ("bare.wasm", module("(module)"), "an empty module", "an empty module"),
        ("image.cwasm", b"\x7fELF\x02\x01\x01\0".to_vec(), "compiled code", "compiled code"),
        ("a.tgz", b"\x1f\x8b\x08\0\0".to_vec(), "an archive", "an archive"),
        ("other.bin", b"\0\0\0".to_vec(), "not WebAssembly", "not WebAssembly"),
        ("component.wasm", component, "", "is a component already"),
    ] {
        write(&directory, name, content);
        let inspect = opgate(directory.path(), &["policy", "inspect", name]);
        assert!(err(&inspect).contains(of_inspect), "{name}: {}", err(&inspect));
        let pack = opgate(directory.path(), &["policy", "pack", name, "--out", "packed"]);
        assert_eq!(pack.status.code(), Some(2), "{name}");
        assert!(err(&pack).contains(of_pack), "{name}: {}", err(&pack));
        assert!(!directory.path().join("packed").exists(), "{name}");
    }
}
