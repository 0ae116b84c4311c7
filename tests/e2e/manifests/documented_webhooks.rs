//! What API servers send with the default configuration: the table in docs/operate/webhook-requests.md
//! and the roles in docs/operate/permissions.md match the output of the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::BINARY;

/// A page of docs/operate.
fn page(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operate");
    std::fs::read_to_string(directory.join(name)).unwrap()
}

/// The JSON that a command prints, in a directory with a CA.
fn printed(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let opgate = |arguments: &[&str]| {
        let output = Command::new(BINARY)
            .args(arguments)
            .current_dir(directory.path())
            .env("OPGATE_CACHE_DIR", directory.path().join("cache"))
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
fn docs_list_the_default_webhooks() {
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
    let page = page("webhook-requests.md");
    let documented = page.lines().filter(|line| line.starts_with("| `v"));
    // The other columns are for people.
    let documented = documented.map(|line| {
        let cells: Vec<_> = line.split('|').take(4).collect();
        format!("{}|", cells.join("|"))
    });
    assert_eq!(documented.collect::<Vec<_>>(), webhooks);
}

/// The roles among printed or documented objects, by kind and namespace.
fn roles(objects: &[Value]) -> Roles {
    let roles = objects.iter().filter(|object| object["rules"].is_array());
    let named = |role: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ((text(&role["kind"]), text(&role["metadata"]["namespace"])), role["rules"].clone())
    };
    roles.map(named).collect()
}

type Roles = BTreeMap<(String, String), Value>;

/// What `opgate manifests rbac` prints without a configuration is what the page shows, and a role
/// for Secrets is one of a namespace.
#[test]
fn documented_roles_equal_the_printed_ones() {
    let items = |list: Value| list["items"].as_array().unwrap().clone();
    let printed = roles(&items(printed(&["manifests", "rbac", "--output", "json"])));
    let page = page("permissions.md");
    let blocks = page.split("\n\n").filter(|block| block.starts_with("    apiVersion: "));
    let documented = |block: &str| {
        let lines: Vec<_> = block.lines().map(|line| line.strip_prefix("    ").unwrap()).collect();
        let documents = lines.join("\n");
        let documents =
            documents.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap());
        roles(&documents.collect::<Vec<Value>>())
    };
    let documented: Vec<_> = blocks.map(documented).collect();
    let [all, secrets] = &documented[..] else { panic!("{}", documented.len()) };
    assert_eq!(*all, printed);
    let role = |namespace: &str| ("Role".to_owned(), namespace.to_owned());
    assert_eq!(secrets.keys().cloned().collect::<Vec<_>>(), [role("openshift-marketplace")]);
    assert!(secrets[&role("openshift-marketplace")].to_string().contains("secrets"));
    for ((kind, _), rules) in printed {
        assert!(kind == "Role" || !rules.to_string().contains("secrets"), "{rules}");
    }
}

/// The table lists for each resource the rules that read it. It has all resources that policies
/// read.
#[test]
fn documented_resources_equal_those_rules_read() {
    let listed = printed(&["policy", "list", "--output", "json"]);
    let mut read = BTreeSet::new();
    for policy in listed.as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        let inspected = printed(&["policy", "inspect", name, "--output", "json"]);
        // The version of the API server needs no permission, and no API server has the packages of
        // catalogs.
        let resources = texts(&inspected["reads"]);
        let of_servers =
            resources.into_iter().filter(|resource| !resource.starts_with("opgate.dev/"));
        read.extend(of_servers.map(|resource| resource.rsplit('/').next().unwrap().to_owned()));
    }
    let page = page("permissions.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter(|row| !row.starts_with("--"));
    let cells = rows.map(|row| row.split('|').next().unwrap());
    let words = cells.flat_map(|cell| cell.split('`').filter(|word| !word.contains([' ', ','])));
    let words = words.filter(|word| !word.is_empty() && !word.contains('.'));
    assert_eq!(words.map(str::to_owned).collect::<BTreeSet<_>>(), read);
}
