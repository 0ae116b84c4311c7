//! Cases of the policy, as the tables beside this file hold them: a request, what there is in the
//! cluster, and everything that must be found.
//!
//! Where a case needs no more of a group than upstream's tables say, it is written as they are:
//! `ns/name:[targets]{APIs} static`, with `*` for all namespaces, `nil` for no status, and the birds
//! and mammals without version and group; `as account` at the end is its ServiceAccount. A name alone,
//! `ns/name`, is an object of which nothing else counts. A ClusterServiceVersion is an object with the
//! member `csv`, a role one with the member `role`, a binding one with the member `binding`.
//! What is left out is a CREATE of a v1 OperatorGroup in an empty cluster with empty settings.

use std::collections::BTreeMap;

use opgate_sdk::{Document, GroupVersionResource, Operation, Request};
use serde_json::{Map, Value, json};

const TABLES: [(&str, &str); 3] = [
    ("group", include_str!("group.json")),
    ("csv", include_str!("csv.json")),
    ("rbac", include_str!("rbac.json")),
];

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

pub(crate) fn parsed(value: &Value) -> Document {
    Document::parse(&value.to_string()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

/// `Goose` in full.
pub(crate) fn api(name: &str) -> String {
    match name {
        "Goose" | "Egret" => format!("{name}.v1alpha1.birds.com"),
        "Moose" | "Goat" | "Cow" => format!("{name}.v1alpha1.mammals.com"),
        name => name.to_owned(),
    }
}

pub(crate) fn apis(names: &str) -> String {
    names.split(',').map(api).collect::<Vec<_>>().join(",")
}

/// A CREATE, as the API server sends it.
pub(crate) fn request(resource: &str) -> Request {
    let (group, version) = match resource {
        "operatorgroups" => ("operators.coreos.com", "v1"),
        "clusterserviceversions" => ("operators.coreos.com", "v1alpha1"),
        "roles" | "clusterroles" | "clusterrolebindings" => ("rbac.authorization.k8s.io", "v1"),
        other => panic!("nobody asks about {other}"),
    };
    Request {
        resource: GroupVersionResource {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        },
        ..Request::default()
    }
}

/// `ns/name`, or `name` in no namespace.
pub(crate) fn metadata(key: &str) -> Value {
    match key.split_once('/') {
        Some((namespace, name)) => json!({"namespace": namespace, "name": name}),
        None => json!({"name": key}),
    }
}

/// `ns/name:[targets]{APIs} static`, or `as account` in the place of `static`.
pub(crate) fn group(short: &str) -> Value {
    let (key, rest) = short.split_once(':').expect("a key");
    let (namespace, name) = key.split_once('/').unwrap_or((key, "g1"));
    let (targets, rest) = rest.split_once('{').expect("APIs");
    let (provided, flag) = rest.split_once('}').expect("an end");
    let mut object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": {}});
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

pub(crate) fn csv(short: &Map<String, Value>) -> Value {
    let mut csv = json!({"metadata": {}, "spec": {}, "status": {}});
    let owned = |names: &Value| {
        let names = apis(&text(names));
        let parts = names.split(',').map(|name| {
            let parts: Vec<_> = name.splitn(3, '.').map(str::to_owned).collect();
            (parts[0].clone(), parts[1].clone(), parts[2].clone())
        });
        parts.collect::<Vec<_>>()
    };
    for (key, value) in short {
        match key.as_str() {
            "csv" => csv["metadata"]["name"] = value.clone(),
            "namespace" | "labels" | "annotations" => csv["metadata"][key] = value.clone(),
            "deleted" => csv["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            "replaces" | "skips" => csv["spec"][key] = value.clone(),
            "phase" | "reason" => csv["status"][key] = value.clone(),
            "modes" => {
                let modes = modes(&text(value)).into_iter();
                let modes = modes.map(|(mode, on)| json!({"type": mode, "supported": on}));
                csv["spec"]["installModes"] = modes.collect();
            }
            "own" => {
                let owned = owned(value).into_iter().map(|(kind, version, group)| {
                    let name = format!("{}s.{group}", kind.to_lowercase());
                    json!({"name": name, "version": version, "kind": kind})
                });
                csv["spec"]["customresourcedefinitions"] =
                    json!({"owned": owned.collect::<Vec<_>>()});
            }
            "services" => {
                let owned = owned(value).into_iter().map(|(kind, version, group)| {
                    json!({"group": group, "version": version, "kind": kind})
                });
                csv["spec"]["apiservicedefinitions"] = json!({"owned": owned.collect::<Vec<_>>()});
            }
            "permissions" | "clusterPermissions" => {
                let asked = json!([{"serviceAccountName": "operator", "rules": rules(value)}]);
                csv["spec"]["install"]["spec"][key] = asked;
            }
            "pulls" => {
                let secrets = texts(value).into_iter().map(|name| json!({"name": name}));
                let pod = json!({"imagePullSecrets": secrets.collect::<Vec<_>>()});
                csv["spec"]["install"]["spec"]["deployments"] =
                    json!([{"name": "operator", "spec": {"template": {"spec": pod}}}]);
            }
            other => panic!("unknown key {other}"),
        }
    }
    csv
}

/// Rules of a role: `verbs resources groups names`, each with commas in between and `core` for the
/// group without a name, or `verbs paths`. What is no text stands for itself.
pub(crate) fn rules(value: &Value) -> Vec<Value> {
    let list = |names: &str| -> Vec<String> {
        let name = |name| if name == "core" { String::new() } else { String::from(name) };
        names.split(',').map(name).collect()
    };
    let rule = |rule: &Value| {
        let Some(short) = rule.as_str() else { return rule.clone() };
        let parts: Vec<_> = short.split(' ').map(list).collect();
        match &parts[..] {
            [verbs, urls] => json!({"verbs": verbs, "nonResourceURLs": urls}),
            [verbs, resources, groups] => {
                json!({"verbs": verbs, "resources": resources, "apiGroups": groups})
            }
            [verbs, resources, groups, names] => json!({"verbs": verbs, "resources": resources,
                "apiGroups": groups, "resourceNames": names}),
            _ => panic!("{short}"),
        }
    };
    value.as_array().expect("rules").iter().map(rule).collect()
}

pub(crate) fn role(short: &Map<String, Value>) -> Value {
    let mut role = json!({"metadata": metadata(&text(&short["role"])), "rules": []});
    for (key, value) in short {
        match key.as_str() {
            "role" => {}
            "rules" => role["rules"] = json!(rules(value)),
            "gathers" => role["aggregationRule"] = json!({"clusterRoleSelectors": value}),
            "labels" => role["metadata"][key] = value.clone(),
            "deleted" => role["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            other => panic!("unknown key {other}"),
        }
    }
    role
}

/// A subject of a binding: `ServiceAccount ns/name`, `Group name`, `User name`.
pub(crate) fn subject(value: &Value) -> Value {
    let Some((kind, key)) = value.as_str().and_then(|short| short.split_once(' ')) else {
        return value.clone();
    };
    let mut subject = metadata(key);
    subject["kind"] = json!(kind);
    subject
}

pub(crate) fn binding(short: &Map<String, Value>) -> Value {
    let mut binding = json!({"metadata": metadata(&text(&short["binding"]))});
    for (key, value) in short {
        match key.as_str() {
            "binding" => {}
            "to" => {
                let to = text(value);
                let (kind, name) = to.split_once(' ').expect("kind and name");
                binding["roleRef"] =
                    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
            }
            "subjects" => {
                let subjects = value.as_array().expect("subjects").iter().map(subject);
                binding["subjects"] = subjects.collect();
            }
            "labels" => binding["metadata"][key] = value.clone(),
            "deleted" => binding["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            other => panic!("unknown key {other}"),
        }
    }
    binding
}

pub(crate) fn object(value: &Value) -> Value {
    match value {
        Value::String(short) if short.contains(':') => group(short),
        Value::String(short) => json!({"metadata": metadata(short)}),
        Value::Object(members) if members.contains_key("csv") => csv(members),
        Value::Object(members) if members.contains_key("role") => role(members),
        Value::Object(members) if members.contains_key("binding") => binding(members),
        other => other.clone(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) rule: String,
    pub(crate) level: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) finding: Finding,
    pub(crate) field: Option<String>,
    /// The message starts like this.
    pub(crate) starts: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) request: Request,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
    pub(crate) settings: Value,
    pub(crate) cluster: Option<BTreeMap<String, Vec<Value>>>,
    pub(crate) expected: Vec<Expected>,
    pub(crate) not_evaluated: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Case {
    pub(crate) fn read(case: &Value) -> Self {
        let case = case.as_object().expect("a case is an object");
        let known = [
            "name",
            "operation",
            "kind",
            "version",
            "subResource",
            "user",
            "groups",
            "object",
            "oldObject",
            "settings",
            "cluster",
            "expected",
            "notEvaluated",
            "reason",
        ];
        for key in case.keys() {
            assert!(known.contains(&key.as_str()), "unknown key {key} in {case:?}");
        }
        let or = |key: &str, default: &str| case.get(key).map_or(default.to_owned(), text);
        let given = |key: &str| case.get(key).map(object);
        let (object, old) = (given("object"), given("oldObject"));
        let metadata = |key: &str| {
            let object = object.as_ref().or(old.as_ref()).expect("an object");
            object["metadata"].get(key).map(text).unwrap_or_default()
        };
        let kind = or("kind", "OperatorGroup");
        let mut request = request(&format!("{}s", kind.to_lowercase()));
        request.operation = match or("operation", "CREATE").as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            other => panic!("no operation: {other}"),
        };
        request.resource.version = or("version", &request.resource.version);
        request.sub_resource = or("subResource", "");
        request.user.username = or("user", "kubernetes-admin");
        request.user.groups = case.get("groups").map(texts).unwrap_or_default();
        (request.namespace, request.name) = (metadata("namespace"), metadata("name"));
        let cluster = match case.get("cluster") {
            None => Some(BTreeMap::new()),
            Some(Value::Null) => None,
            Some(kinds) => {
                let objects = |list: &Value| {
                    list.as_array().expect("a list").iter().map(self::object).collect()
                };
                let kinds = kinds.as_object().expect("kinds");
                Some(kinds.iter().map(|(kind, list)| (kind.clone(), objects(list))).collect())
            }
        };
        let expected = |value: &Value| Expected {
            finding: Finding {
                rule: text(&value["rule"]),
                level: text(&value["level"]),
                message: text(&value["message"]),
            },
            field: value.get("field").map(text),
            starts: value["starts"] == true,
        };
        Self {
            name: or("name", ""),
            request,
            object,
            old,
            settings: case.get("settings").cloned().unwrap_or_else(|| json!({})),
            cluster,
            expected: case["expected"].as_array().expect("a list").iter().map(expected).collect(),
            not_evaluated: case.get("notEvaluated").map(text),
            reason: case.get("reason").map(text),
        }
    }
}

pub(crate) fn cases_of(table: &str) -> Vec<Case> {
    let (_, json) = TABLES.iter().find(|(name, _)| *name == table).expect("a known table");
    let cases: Vec<Value> = serde_json::from_str(json).unwrap_or_else(|e| panic!("{table}: {e}"));
    cases.iter().map(Case::read).collect()
}

pub(crate) fn all_cases() -> impl Iterator<Item = Case> {
    TABLES.iter().flat_map(|(table, _)| cases_of(table))
}
