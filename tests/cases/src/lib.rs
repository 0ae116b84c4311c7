//! Cases of rules: what each rule accepts and rejects, in one format for all policies.
//!
//! ```text
//! guest/policies/<policy>/cases/<RULE>.yaml ─▶ Case ─┬─▶ native: the policy's code, in milliseconds
//!                   objects.yaml (shared objects) ─┘ └─▶ review(): the same through the component
//! ```
//!
//! A file:
//!
//! ```yaml
//! rule: PBF-02                     # the name of the file
//! settings: {}                     # for all cases below, unless they have their own
//! cluster: none                    # the objects of the cluster, or none (there is no cluster to ask)
//! others: ignored                  # what other rules find does not count; otherwise left out
//! accept:                          # the rule finds nothing
//! - name: one object
//!   folder: {manifests/a.yaml: {apiVersion: v1, kind: Namespace, metadata: {name: a}}}
//! reject:                          # the rule finds this
//! - name: an empty directory
//!   folder: {}
//!   directories: [manifests]
//!   at: spec.files
//!   message: "invalid bundle: …"
//! skip:                            # the rule could not be evaluated
//! - name: without a cluster
//!   create: …
//! ```
//!
//! **What is judged** is one of:
//! * `create: OBJECT`, `update: [OLD, NEW]`, `delete: OBJECT`: an object, or the name of one in
//!   `objects.yaml`. `with` changes it (the new one) by JSON pointer, `null` takes away; `with-old` the
//!   old one. `request` says what does not follow from the object: `name`, `namespace`, `user`,
//!   `groups`, `subResource`, `resource`, `version`.
//! * `folder: FILES`: a bundle as files (`files`, `patch`, `directories` and `compressedSize` change a
//!   folder that has a name). Content by path: an object is one document, a list several, a text a
//!   file that is neither YAML nor JSON, `{$error: why}` one that cannot be read, `{$twice: why, …}` one
//!   document with a name that stands twice in it, `{$binary: SIZE}` one of bytes. Places in files are written `manifests/a.yaml#documents[0].kind`.
//! * `catalog: {blobs: […]}`: a package of a catalog, with `package`, `packages`, `files`,
//!   `directories`, `more` blobs after the others, and `baseline`, the blobs that were published. Each
//!   list of blobs may be the name of one in `objects.yaml`. The blob `{$bundle: a.v1.0.0}` is a bundle
//!   of that name, with a package, an image and a version that fit it; other members replace those.
//!
//! **The cluster** is a list of objects, or names of objects in `objects.yaml`. An element without a
//! kind, `{gitVersion: v1.25.4}`, is the version of the API server, as `/version` gives it.
//!
//! **What must be found**: everything, also of other rules unless `others: ignored`. `at`, `message` and `level` (by default the
//! rule's own) for one finding of the rule, `findings` for several, `also` for those of other rules,
//! each with its `rule`. `starts` in the place of `message` gives its beginning. `skipped` lists the
//! rules that are not evaluated, `notes` the audit annotations, `reason` that of the denial.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "tests may panic, and so may what they share"
)]

pub mod any;
mod documents;
pub mod native;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What a rule must find in a case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The rule.
    pub rule: String,
    /// `deny` or `warn`; none for the rule's own.
    pub level: Option<String>,
    /// The field; none for any.
    pub at: Option<String>,
    /// The message, or its beginning.
    pub message: String,
    /// Whether it is the beginning only.
    pub starts: bool,
}

/// What a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expects {
    /// The rule finds nothing.
    Accept,
    /// The rule finds something.
    Reject,
    /// The rule cannot be evaluated.
    Skip,
}

/// A case, written out.
#[derive(Debug, Clone)]
pub struct Case {
    /// The rule that it is about.
    pub rule: String,
    /// Its name, unique in its file.
    pub name: String,
    /// What it is about.
    pub expects: Expects,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// The object; on DELETE it is the old one.
    pub object: Option<Value>,
    /// The old object.
    pub old: Option<Value>,
    /// Who asks, and how the request names the object.
    pub request: RequestParts,
    /// The settings.
    pub settings: Value,
    /// The objects of the cluster; none where there is no cluster to ask.
    pub cluster: Option<Vec<Value>>,
    /// All findings.
    pub findings: Vec<Finding>,
    /// Rules that are not evaluated.
    pub skipped: BTreeSet<String>,
    /// Whether only findings of rules that `findings` names count, and those of the case's rule.
    pub alone: bool,
    /// Audit annotations.
    pub notes: Option<BTreeMap<String, String>>,
    /// Reason of the denial.
    pub reason: Option<String>,
}

/// What a case says of the request itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RequestParts {
    /// In the place of the object's.
    pub name: Option<String>,
    /// In the place of the object's.
    pub namespace: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The user's groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// `status`.
    pub sub_resource: Option<String>,
    /// Plural, where it does not follow from the kind.
    pub resource: Option<String>,
    /// Version of the resource, where it is not the object's.
    pub version: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: String,
    #[serde(default)]
    settings: Value,
    #[serde(default)]
    cluster: Option<Value>,
    #[serde(default)]
    others: Others,
    accept: Vec<Entry>,
    #[serde(default)]
    reject: Vec<Entry>,
    #[serde(default)]
    skip: Vec<Entry>,
}

/// Findings of other rules than the one of the file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Others {
    #[default]
    Counted,
    Ignored,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Entry {
    name: String,
    create: Option<Value>,
    update: Option<(Value, Value)>,
    delete: Option<Value>,
    #[serde(default)]
    with: Map<String, Value>,
    #[serde(default, rename = "with-old")]
    with_old: Map<String, Value>,
    #[serde(default)]
    request: RequestParts,
    pub(crate) folder: Option<Value>,
    pub(crate) catalog: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) files: Map<String, Value>,
    #[serde(default)]
    pub(crate) patch: BTreeMap<String, Map<String, Value>>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
    pub(crate) compressed_size: Option<Value>,
    pub(crate) compressed_size_is_more: Option<Value>,
    settings: Option<Value>,
    cluster: Option<Value>,
    at: Option<String>,
    message: Option<String>,
    starts: Option<String>,
    level: Option<String>,
    #[serde(default)]
    findings: Vec<Found>,
    #[serde(default)]
    also: Vec<Found>,
    #[serde(default)]
    skipped: BTreeSet<String>,
    notes: Option<BTreeMap<String, String>>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Found {
    rule: Option<String>,
    at: Option<String>,
    message: Option<String>,
    starts: Option<String>,
    level: Option<String>,
}

impl Found {
    fn finding(self, rule: &str) -> Finding {
        let starts = self.message.is_none();
        Finding {
            rule: self.rule.unwrap_or_else(|| rule.to_owned()),
            level: self.level,
            at: self.at,
            message: self.message.or(self.starts).expect("a finding has a message"),
            starts,
        }
    }
}

/// YAML as a value.
///
/// # Panics
/// Where it is none.
#[must_use]
pub fn yaml(text: &str, whose: &Path) -> Value {
    let json =
        opgate_yaml::strict(text, 64 << 20).unwrap_or_else(|e| panic!("{}: {e}", whose.display()));
    serde_json::from_slice(&json).unwrap_or_else(|e| panic!("{}: {e}", whose.display()))
}

/// All cases of a policy, in the order of their files. `kinds` are those of its routes.
#[must_use]
pub fn read(folder: &Path, kinds: &[&str]) -> Vec<Case> {
    let shared = folder.join("objects.yaml");
    let objects = fs::read_to_string(&shared).map(|text| yaml(&text, &shared)).unwrap_or_default();
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml") && *path != shared)
        .collect();
    files.sort();
    files.iter().flat_map(|path| read_file(path, &objects, kinds)).collect()
}

fn read_file(path: &Path, objects: &Value, kinds: &[&str]) -> Vec<Case> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: File = serde_json::from_value(yaml(&text, path))
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(
        path.file_stem().and_then(|s| s.to_str()),
        Some(file.rule.as_str()),
        "the name of a file is its rule"
    );
    let File { rule, settings, cluster, others, accept, reject, skip } = file;
    let expects = [(Expects::Accept, accept), (Expects::Reject, reject), (Expects::Skip, skip)];
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    for (expects, entries) in expects {
        for mut entry in entries {
            let whose = format!("{rule}: {}", entry.name);
            assert!(names.insert(entry.name.clone()), "{whose}: two cases have this name");
            entry.settings.get_or_insert_with(|| settings.clone());
            if entry.cluster.is_none() {
                entry.cluster.clone_from(&cluster);
            }
            let case = Case::of(&rule, expects, entry, objects, kinds, &whose);
            cases.push(Case { alone: others == Others::Ignored, ..case });
        }
    }
    cases
}

/// An object, or the one of this name.
fn named(value: Value, objects: &Value, whose: &str) -> Value {
    match value {
        Value::String(name) => {
            let found = objects.get(&name).cloned();
            found.unwrap_or_else(|| panic!("{whose}: objects.yaml has no {name}"))
        }
        value => value,
    }
}

/// Puts values in their places; null takes away.
pub(crate) fn change(document: &mut Value, changes: &Map<String, Value>, whose: &str) {
    for (pointer, new) in changes {
        let (parent, name) =
            pointer.rsplit_once('/').unwrap_or_else(|| panic!("{whose}: {pointer}"));
        let name = name.replace("~1", "/").replace("~0", "~");
        let mut at = &mut *document;
        for token in parent.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            at = match at {
                Value::Array(list) => {
                    let index: usize =
                        token.parse().unwrap_or_else(|_| panic!("{whose}: {pointer}"));
                    &mut list[index]
                }
                Value::Object(map) => map.entry(token).or_insert_with(|| json!({})),
                _ => panic!("{whose}: nothing at {pointer}"),
            };
        }
        match (at, new) {
            (Value::Object(map), Value::Null) => drop(map.remove(&name)),
            (Value::Object(map), new) => drop(map.insert(name, new.clone())),
            (Value::Array(list), new) => match name.parse::<usize>() {
                Ok(index) if index < list.len() && new.is_null() => drop(list.remove(index)),
                Ok(index) if index < list.len() => list[index] = new.clone(),
                _ => list.push(new.clone()),
            },
            (at, new) if at.is_null() => *at = json!({name: new}),
            _ => panic!("{whose}: nothing at {pointer}"),
        }
    }
}

impl Case {
    fn of(
        rule: &str,
        expects: Expects,
        mut entry: Entry,
        objects: &Value,
        kinds: &[&str],
        whose: &str,
    ) -> Self {
        let mut paths = Vec::new();
        let (with, with_old) =
            (std::mem::take(&mut entry.with), std::mem::take(&mut entry.with_old));
        let (operation, mut object, mut old) = if let Some(object) = entry.create.take() {
            ("CREATE", Some(named(object, objects, whose)), None)
        } else if let Some((old, new)) = entry.update.take() {
            let (old, new) = (named(old, objects, whose), named(new, objects, whose));
            ("UPDATE", Some(new), Some(old))
        } else if let Some(old) = entry.delete.take() {
            ("DELETE", None, Some(named(old, objects, whose)))
        } else if let Some(folder) = entry.folder.take() {
            let folder = named(folder, objects, whose);
            let (document, found) = documents::folder(folder, &entry, kinds, whose);
            paths = found;
            ("CREATE", Some(document), None)
        } else if let Some(catalog) = entry.catalog.take() {
            let (document, baseline) = documents::catalog(&catalog, objects, whose);
            (if baseline.is_some() { "UPDATE" } else { "CREATE" }, Some(document), baseline)
        } else {
            panic!("{whose}: there is nothing to judge");
        };
        if let Some(object) = &mut object {
            change(object, &with, whose);
        }
        if let Some(old) = &mut old {
            change(old, if operation == "DELETE" { &with } else { &with_old }, whose);
        }
        let at_of = |at: Option<String>| at.map(|at| documents::field(&at, &paths, whose));
        let mut findings = Vec::new();
        if let Some(message) = entry.message.or_else(|| entry.starts.clone()) {
            let (rule, starts) = (rule.to_owned(), entry.starts.is_some());
            let at = at_of(entry.at);
            findings.push(Finding { rule, level: entry.level, at, message, starts });
        }
        for found in entry.findings.into_iter().chain(entry.also) {
            let mut finding = found.finding(rule);
            finding.at = at_of(finding.at);
            findings.push(finding);
        }
        let cluster = entry.cluster.filter(|cluster| cluster != "none").map(|cluster| {
            let list = cluster.as_array().unwrap_or_else(|| panic!("{whose}: a list of objects"));
            list.iter().map(|object| named(object.clone(), objects, whose)).collect()
        });
        let settings = entry.settings.filter(|settings| !settings.is_null());
        let mut skipped = entry.skipped;
        if expects == Expects::Skip {
            skipped.insert(rule.to_owned());
        }
        let finds = findings.iter().any(|finding| finding.rule == rule);
        match expects {
            Expects::Accept => assert!(!finds, "{whose}: a case that is accepted has a finding"),
            Expects::Reject => assert!(finds, "{whose}: a case that is rejected has no finding"),
            Expects::Skip => {}
        }
        Self {
            rule: rule.to_owned(),
            name: entry.name,
            expects,
            operation,
            object,
            old,
            request: entry.request,
            settings: settings.unwrap_or_else(|| json!({})),
            cluster,
            findings,
            skipped,
            alone: false,
            notes: entry.notes,
            reason: entry.reason,
        }
    }

    /// Whether findings of a rule count, and whether it was skipped.
    #[must_use]
    pub fn counts(&self, rule: &str) -> bool {
        !self.alone
            || rule == self.rule
            || self.skipped.contains(rule)
            || self.findings.iter().any(|finding| finding.rule == rule)
    }

    /// Group, version, plural and kind of what is judged.
    #[must_use]
    pub fn resource(&self) -> [String; 4] {
        let object = self.object.as_ref().or(self.old.as_ref());
        let of = |member: &str| object.and_then(|o| o[member].as_str()).unwrap_or_default();
        let (group, version) = of("apiVersion").split_once('/').unwrap_or(("", of("apiVersion")));
        let kind = of("kind");
        let plural = self.request.resource.clone().unwrap_or_else(|| plural(kind));
        let version = self.request.version.as_deref().unwrap_or(version);
        [group.to_owned(), version.to_owned(), plural, kind.to_owned()]
    }

    /// Name and namespace of what is judged.
    #[must_use]
    pub fn key(&self) -> (String, String) {
        let object = self.object.as_ref().or(self.old.as_ref());
        let of = |member: &str| {
            object.and_then(|o| o["metadata"][member].as_str()).unwrap_or_default().to_owned()
        };
        let RequestParts { name, namespace, .. } = &self.request;
        let name = name.clone().unwrap_or_else(|| of("name"));
        (name, namespace.clone().unwrap_or_else(|| of("namespace")))
    }

    /// The request as an API server sends it.
    #[must_use]
    pub fn review(&self) -> Value {
        let [group, version, resource, kind] = self.resource();
        let (name, namespace) = self.key();
        let mut request = json!({
            "uid": "00000000-0000-0000-0000-000000000001",
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource},
            "name": name,
            "operation": self.operation,
            "userInfo": {
                "username": self.request.user.as_deref().unwrap_or_default(),
                "groups": self.request.groups,
            },
            "dryRun": false,
        });
        if !namespace.is_empty() {
            request["namespace"] = json!(namespace);
        }
        if let Some(sub) = &self.request.sub_resource {
            request["subResource"] = json!(sub);
        }
        if let Some(object) = &self.object {
            request["object"] = object.clone();
        }
        if let Some(old) = &self.old {
            request["oldObject"] = old.clone();
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    }
}

/// The answer of `/version` that an element of a cluster is; none for any other object.
#[must_use]
pub fn server_version(object: &Value) -> Option<Value> {
    let kind = object.get("kind").and_then(Value::as_str);
    let is_one =
        object["gitVersion"].is_string() && kind.is_none_or(|kind| kind == "ServerVersion");
    let mut answer = object.as_object().filter(|_| is_one)?.clone();
    answer.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    Some(Value::Object(answer))
}

/// `networkpolicies` for `NetworkPolicy`.
#[must_use]
pub fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}
