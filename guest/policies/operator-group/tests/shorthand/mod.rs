//! Short notations for objects, for tests that create many of them.
//!
//! The notation for a group is that of upstream's tables: `ns/name:[targets]{APIs} static`, with
//! `*` for all namespaces, `nil` for no status, and the birds and mammals without version and
//! group; `as account` at the end is its ServiceAccount.

use opgate_sdk::{Document, Verdict};
use opgate_sdk_testing::{Case, Expectation, RequestParts};
use serde_json::{Value, json};

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

pub(crate) fn parsed(value: &Value) -> Document {
    Document::parse(&value.to_string()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

/// A CREATE in this cluster without violations.
pub(crate) fn create(object: &Value, cluster: &[Value]) -> Case {
    Case {
        rule: String::new(),
        name: String::new(),
        expects: Expectation::Accept,
        operation: "CREATE",
        object: Some(object.clone()),
        old: None,
        request: RequestParts::default(),
        settings: json!({}),
        cluster: Some(cluster.to_vec()),
        has_cluster: true,
        violations: Vec::new(),
        skipped: std::collections::BTreeSet::new(),
        ignores_other_rules: false,
        fixes: None,
        is_evaluated: true,
        audit_annotations: None,
        reason: None,
        fixed: None,
        location: opgate_sdk_testing::Location::default(),
    }
}

/// An object of this kind, with the members of any object.
pub(crate) fn object(kind: &str, key: &str) -> Value {
    let version = match kind {
        "OperatorGroup" => "operators.coreos.com/v1",
        "ClusterServiceVersion" => "operators.coreos.com/v1alpha1",
        "Namespace" | "ServiceAccount" => "v1",
        _ => "rbac.authorization.k8s.io/v1",
    };
    let metadata = match key.split_once('/') {
        Some((namespace, name)) => json!({"namespace": namespace, "name": name}),
        None => json!({"name": key}),
    };
    json!({"apiVersion": version, "kind": kind, "metadata": metadata})
}

/// `Goose` in full.
fn api(name: &str) -> String {
    match name {
        "Goose" | "Egret" => format!("{name}.v1alpha1.birds.com"),
        "Moose" | "Goat" | "Cow" => format!("{name}.v1alpha1.mammals.com"),
        name => name.to_owned(),
    }
}

pub(crate) fn apis(names: &str) -> String {
    names.split(',').map(api).collect::<Vec<_>>().join(",")
}

/// `ns/name:[targets]{APIs} static`, or `as account` instead of `static`.
pub(crate) fn group(short: &str) -> Value {
    let (key, rest) = short.split_once(':').expect("a key");
    let (namespace, name) = key.split_once('/').unwrap_or((key, "g1"));
    let (targets, rest) = rest.split_once('{').expect("APIs");
    let (provided, flag) = rest.split_once('}').expect("an end");
    let mut object = object("OperatorGroup", &format!("{namespace}/{name}"));
    object["spec"] = json!({});
    match targets.trim_matches(['[', ']']) {
        "nil" => {}
        "*" => object["status"] = json!({"namespaces": [""]}),
        names => {
            let names: Vec<_> = names.split(' ').collect();
            object["spec"]["targetNamespaces"] = json!(names);
            object["status"] = json!({"namespaces": names});
        }
    }
    if !provided.is_empty() {
        object["metadata"]["annotations"] = json!({"olm.providedAPIs": apis(provided)});
    }
    match flag {
        "" => {}
        " static" => object["spec"]["staticProvidedAPIs"] = json!(true),
        other => {
            let account = other.strip_prefix(" as ").unwrap_or_else(|| panic!("{other}"));
            object["spec"]["serviceAccountName"] = json!(account);
        }
    }
    object
}

/// `OSMA`: own, single, multi, all; in lower case not supported.
pub(crate) fn modes(letters: &str) -> Vec<(String, bool)> {
    let mode = |letter: char| {
        let name = match letter.to_ascii_uppercase() {
            'O' => "OwnNamespace",
            'S' => "SingleNamespace",
            'M' => "MultiNamespace",
            'A' => "AllNamespaces",
            other => panic!("{other}"),
        };
        (name.to_owned(), letter.is_ascii_uppercase())
    };
    letters.chars().map(mode).collect()
}

/// A version with these install modes that owns these APIs.
pub(crate) fn csv(key: &str, letters: &str, own: &str) -> Value {
    let mut csv = object("ClusterServiceVersion", key);
    let modes = modes(letters).into_iter();
    let modes: Vec<_> = modes.map(|(mode, on)| json!({"type": mode, "supported": on})).collect();
    csv["spec"] = json!({"installModes": modes});
    if !own.is_empty() {
        let own = apis(own);
        let owned = own.split(',').map(|api| {
            let parts: Vec<_> = api.splitn(3, '.').collect();
            let name = format!("{}s.{}", parts[0].to_lowercase(), parts[2]);
            json!({"name": name, "version": parts[1], "kind": parts[0]})
        });
        csv["spec"]["customresourcedefinitions"] = json!({"owned": owned.collect::<Vec<_>>()});
    }
    csv
}

/// The version requests rules in its namespace.
pub(crate) fn asking(mut csv: Value, rules: &Value) -> Value {
    csv["spec"]["install"]["spec"]["permissions"] =
        json!([{"serviceAccountName": "operator", "rules": rules}]);
    csv
}

/// The expected result without violations.
pub(crate) fn nothing() -> Verdict {
    Verdict {
        violations: Vec::new(),
        reason: None,
        audit_annotations: Vec::new(),
        skipped: Vec::new(),
    }
}
