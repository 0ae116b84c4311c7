//! What is published: the SDK with its crates, and the contract as a package that tools for
//! components read. `.ci/languages` packs them. These tests check that they belong together.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::registry::DockerRegistry;

use crate::BINARY;

/// The crates that are published. All others say `publish = false`.
const PUBLISHED_CRATES: [&str; 9] = [
    "opgate-casefile",
    "opgate-sdk-testing",
    "opgate-cluster",
    "opgate-document",
    "opgate-edit",
    "opgate-sdk",
    "opgate-alloc",
    "opgate-compat",
    "opgate-yaml",
];

/// Where SDKs of other languages say their version, and how.
const OTHER_SDKS: [(&str, &str); 3] = [
    ("guest/javascript/package.json", "\"version\": \"{}\""),
    ("guest/python/pyproject.toml", "version = \"{}\""),
    ("guest/c/Makefile", "VERSION = {}"),
];

fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn contract_text() -> String {
    std::fs::read_to_string(repository_root().join("wit/policy.wit")).unwrap()
}

/// `0.7.0`, of the contract.
fn contract_version() -> String {
    let text = contract_text();
    let (_, rest) = text.split_once("package opgate:policy@").unwrap();
    rest.split_once(';').unwrap().0.to_owned()
}

/// `0.7`, which SDKs and contract have in common.
fn minor_version(version: &str) -> &str {
    version.rsplit_once('.').unwrap().0
}

#[test]
fn published_packages_share_a_version_with_the_contract() {
    let asked = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(repository_root())
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let metadata: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |package: &Value| package["name"].as_str().unwrap().to_owned();
    let published: Vec<_> = packages.iter().filter(|it| it["publish"].is_null()).collect();
    let names: BTreeSet<_> = published.iter().map(|it| name(it)).collect();
    assert_eq!(names, PUBLISHED_CRATES.map(str::to_owned).into(), "say publish = false elsewhere");
    let versions: BTreeSet<_> =
        published.iter().map(|it| it["version"].as_str().unwrap()).collect();
    let [sdk] = versions.into_iter().collect::<Vec<_>>()[..] else {
        panic!("crates that are published have one version")
    };
    assert_eq!(minor_version(sdk), minor_version(&contract_version()));
    for package in published {
        for key in ["description", "license"] {
            assert!(package[key].is_string(), "{}: no {key}", name(package));
        }
        let dependencies = package["dependencies"].as_array().unwrap();
        // Dependencies of tests are left out of a package if they are paths alone.
        for dependency in dependencies.iter().filter(|it| it["kind"].is_null()) {
            if dependency["path"].is_string() {
                assert_eq!(dependency["req"], format!("={sdk}"), "{}", name(package));
                assert!(names.contains(&name(dependency)), "{}: {dependency}", name(package));
            }
        }
    }
    for (path, line) in OTHER_SDKS {
        let line = line.replace("{}", sdk);
        let Ok(text) = std::fs::read_to_string(repository_root().join(path)) else { continue };
        assert!(text.contains(&line), "{path} does not say {line}");
    }
}

fn opgate(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(BINARY)
        .args(arguments)
        .current_dir(directory)
        .env("HOME", directory)
        .env_remove("OPGATE_CONFIG")
        .env_remove("DOCKER_CONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {why}");
    output.stdout
}

#[test]
fn contract_is_printed_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    assert_eq!(String::from_utf8(opgate(directory, &["policy", "wit"])).unwrap(), contract_text());
    assert!(opgate(directory, &["policy", "wit", "--out", "policy.wit"]).is_empty());
    assert_eq!(std::fs::read_to_string(directory.join("policy.wit")).unwrap(), contract_text());
    opgate(directory, &["policy", "wit", "--out", "policy.wasm"]);
    assert_encodes_contract(&std::fs::read(directory.join("policy.wasm")).unwrap());
}

/// The package for JavaScript has a copy: npm packs no links. `node guest/javascript/build/copy-wit.js` writes it.
#[test]
fn package_for_javascript_has_the_contract() {
    let copy = repository_root().join("guest/javascript/wit/policy.wit");
    assert_eq!(std::fs::read_to_string(copy).unwrap(), contract_text());
}

/// As other tools read it: the package by its name, with worlds, interfaces and documentation.
fn assert_encodes_contract(package: &[u8]) {
    let decoded = wit_component::decode(package).unwrap();
    let wit_component::DecodedWasm::WitPackage(resolve, id) = &decoded else {
        panic!("not a package")
    };
    let found = &resolve.packages[*id];
    assert_eq!(found.name.to_string(), format!("opgate:policy@{}", contract_version()));
    assert_eq!(found.worlds.keys().collect::<Vec<_>>(), ["policy", "cluster-policy"]);
    let interfaces: Vec<_> = found.interfaces.keys().collect();
    assert_eq!(interfaces, ["types", "request", "document", "log", "cluster"]);
    let world = found.worlds["cluster-policy"];
    assert!(resolve.worlds[world].docs.contents.as_deref().is_some_and(|it| it.contains("reads")));
}

#[tokio::test(flavor = "multi_thread")]
async fn published_contract_can_be_fetched_from_a_registry() {
    let Some(registry) = DockerRegistry::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let tag = registry.reference(&format!("opgate/policy:{}", contract_version()));
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let (ca, credentials) = (path(registry.ca()), path(registry.credentials()));
    let how = ["--registry-ca", &ca, "--registry-config", &credentials];
    let run = |arguments: &[&str]| opgate(directory, &[arguments, &how].concat());
    let pinned = String::from_utf8(run(&["policy", "wit", "--push", &tag])).unwrap();
    assert!(pinned.starts_with(&format!("{tag}@sha256:")), "{pinned}");
    let again = String::from_utf8(run(&["policy", "wit", "--push", &tag])).unwrap();
    assert_eq!(pinned, again, "the same contract has the same digest");
    let pulled = run(&["policy", "pull", pinned.trim(), "--out", "pulled.wasm"]);
    assert_eq!(String::from_utf8(pulled).unwrap(), pinned);
    let pulled = std::fs::read(directory.join("pulled.wasm")).unwrap();
    assert_encodes_contract(&pulled);
    opgate(directory, &["policy", "wit", "--out", "own.wasm"]);
    assert!(pulled == std::fs::read(directory.join("own.wasm")).unwrap());
}
