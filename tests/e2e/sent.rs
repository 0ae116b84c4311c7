//! What API servers send with the default configuration: the table in docs/operate.md and the
//! permissions beside it say what the binary says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::BINARY;

/// docs/operate.md from a heading to the next one of the same level or above.
fn section(heading: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operate.md");
    let text = std::fs::read_to_string(file).unwrap();
    let (_, rest) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let ends = |line: &&str| line.starts_with("## ") || line.starts_with("### ");
    let lines: Vec<_> = rest.lines().take_while(|line| !ends(line)).collect();
    lines.join("\n")
}

/// The JSON that a command prints, in a folder with a CA.
fn printed(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let opgate = |arguments: &[&str]| {
        let output = Command::new(BINARY)
            .args(arguments)
            .current_dir(folder.path())
            .env("OPGATE_CACHE_DIR", folder.path().join("cache"))
            .env_remove("OPGATE_CONFIG")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        output.stdout
    };
    opgate(&["certs", "issue", "--out", "tls", "--service", "opgate-system/opgate"]);
    serde_json::from_slice(&opgate(arguments)).unwrap()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn the_documents_list_the_webhooks_of_the_default_configuration() {
    let service = ["--service", "opgate-system/opgate", "--ca", "tls/ca.crt", "--output", "json"];
    let printed = printed(&[&["manifests", "webhook"][..], &service].concat());
    let webhooks = printed["webhooks"].as_array().unwrap().iter().map(|webhook| {
        let rules = webhook["rules"].as_array().unwrap().iter();
        let requests = rules.map(|rule| {
            let resources = texts(&rule["resources"]).join(", ");
            format!("{resources}: {}", texts(&rule["operations"]).join(", "))
        });
        let requests: Vec<_> = requests.collect();
        let (name, policy) = (&webhook["name"], &webhook["failurePolicy"]);
        let (name, policy) = (name.as_str().unwrap(), policy.as_str().unwrap());
        format!("| `{name}` | {} | `{policy}` |", requests.join("; "))
    });
    let webhooks: Vec<_> = webhooks.collect();
    let section = section("### What the API server sends");
    let documented = section.lines().filter(|line| line.starts_with("| `v"));
    // The other columns are for people.
    let documented = documented.map(|line| {
        let cells: Vec<_> = line.split('|').take(4).collect();
        format!("{}|", cells.join("|"))
    });
    assert_eq!(documented.collect::<Vec<_>>(), webhooks);
}

/// The permissions of the server are for the resources that rules read unless they are off.
#[test]
fn the_documented_roles_are_for_what_rules_read() {
    let listed = printed(&["policy", "list", "--output", "json"]);
    let policies: Vec<_> = listed.as_array().unwrap().iter().collect();
    let mut read = BTreeSet::new();
    for policy in policies {
        let name = policy["name"].as_str().unwrap();
        let inspected = printed(&["policy", "inspect", name, "--output", "json"]);
        for resource in texts(&inspected["reads"]) {
            let parts: Vec<_> = resource.split('/').collect();
            let [group, resource] = match parts[..] {
                [group, _, resource] => [group, resource],
                [_, resource] => ["", resource],
                _ => panic!("{resource}"),
            };
            // The version of the API server needs no permission of its own.
            if group != "opgate.dev" {
                read.insert((group.to_owned(), resource.to_owned()));
            }
        }
    }
    // For OPG-37 and OPG-38, which are off: the table says so.
    for resource in ["roles", "rolebindings"] {
        let removed = read.remove(&("rbac.authorization.k8s.io".to_owned(), resource.to_owned()));
        assert!(removed, "{resource}");
    }

    let section = section("### Permissions");
    let documents = section.lines().filter_map(|line| line.strip_prefix("    "));
    let documents = documents.collect::<Vec<_>>().join("\n");
    let mut granted = BTreeMap::new();
    for document in documents.split("\n---\n") {
        let document: Value = serde_saphyr::from_str(document).unwrap();
        for rule in document["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let verbs = texts(&rule["verbs"]).join(" ");
                    granted.insert((group.to_owned(), resource.to_owned()), verbs);
                }
            }
        }
    }
    assert_eq!(granted.keys().cloned().collect::<BTreeSet<_>>(), read);
    for ((_, resource), verbs) in granted {
        // OLM serves it, and does not watch it.
        let expected = if resource == "packagemanifests" { "list" } else { "list watch" };
        assert_eq!(verbs, expected, "{resource}");
    }
}
