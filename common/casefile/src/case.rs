//! A case with all references resolved: the subject and the expected result.

use std::collections::{BTreeMap, BTreeSet};

use opgate_compat::kinds::plural;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use serde_path_to_error::Segment;

use crate::entry::{
    CaseError, Content, Entry, EntryViolation, OtherRules, RequestParts, apply_changes, merge_fix,
    resolve_object,
};
use crate::tree::{self, Node};
use crate::{CaseFileError, File, documents, fixed, line_of};

/// A violation that a rule must report in a case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The rule.
    pub rule: String,
    /// `deny` or `warn`; none for the rule's own.
    pub level: Option<String>,
    /// The field; none for any.
    pub field: Option<String>,
    /// The message, or its beginning.
    pub message: String,
    /// Whether it is the beginning only.
    pub is_prefix: bool,
}

/// Expected outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// The rule finds nothing.
    Accept,
    /// The rule finds something.
    Reject,
    /// The rule cannot be evaluated.
    Skip,
}

impl Expectation {
    /// Returns the member of a file that has such cases.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Skip => "skip",
        }
    }
}

/// Location of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The name of the file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// Among those of the same member of the file, from 0.
    pub index: usize,
    /// Paths of a directory, in the order of the document.
    pub paths: Vec<String>,
}

/// A case, written out.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The rule under test.
    pub rule: String,
    /// Its name, unique in its file.
    pub name: String,
    /// Location of the case.
    pub location: Location,
    /// The expected outcome.
    pub expects: Expectation,
    /// The rejected case of the same file that this case fixes, as described in the rule's remediation.
    pub fixes: Option<String>,
    /// Whether the rule evaluates the request. It does not if it is off, and with another kind, operation or scope.
    pub is_evaluated: bool,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// The object, as requests have it: on DELETE it is the old one.
    pub object: Option<Value>,
    /// The old object.
    pub old: Option<Value>,
    /// The user of the request, and how the request names the object.
    pub request: RequestParts,
    /// The settings.
    pub settings: Value,
    /// The objects of the cluster; none without cluster state.
    pub cluster: Option<Vec<Value>>,
    /// Whether the case or its file names the cluster state, or none.
    pub has_cluster: bool,
    /// All expected violations.
    pub violations: Vec<Violation>,
    /// Rules that are not evaluated.
    pub skipped: BTreeSet<String>,
    /// Whether only violations of the case's rule and of rules named in `violations` count.
    pub ignores_other_rules: bool,
    /// Audit annotations.
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// Reason of the denial.
    pub reason: Option<String>,
    /// The object after the fixes of the rule's violations.
    pub fixed: Option<Value>,
}

/// Returns all cases of a file.
pub(crate) fn read_file(
    file: &File,
    objects: &Value,
    kinds: &[&str],
) -> Result<Vec<Case>, Vec<CaseFileError>> {
    let (value, tree) = tree::parse(file).map_err(|wrong| vec![wrong])?;
    let wrong =
        |line: usize, why: String| CaseFileError { file: file.name.clone(), line, message: why };
    let content: Content = deserialize(value, &tree)
        .map_err(|(offset, why)| vec![wrong(line_of(&file.text, offset), why)])?;
    let stem = file.name.strip_suffix(".yaml").unwrap_or(&file.name);
    if stem != content.rule {
        let at = tree.member("rule").map_or(0, |node| node.offset);
        let why = format!(
            "`rule` is {:?}, and the file is that of {stem:?}: name both alike",
            content.rule
        );
        return Err(vec![wrong(line_of(&file.text, at), why)]);
    }
    let Content { rule, settings, cluster, others, accept, reject, skip } = content;
    let rejected = reject.clone();
    let expects =
        [(Expectation::Accept, accept), (Expectation::Reject, reject), (Expectation::Skip, skip)];
    let mut taken = BTreeSet::new();
    let (mut cases, mut all_wrong) = (Vec::new(), Vec::new());
    for (expects, entries) in expects {
        let nodes = tree.member(expects.as_str()).map_or(&[][..], |list| &list.elements);
        for (index, value) in entries.into_iter().enumerate() {
            let node = nodes.get(index).cloned().unwrap_or_default();
            let line = line_of(&file.text, node.offset);
            let read = || {
                let own = value.get("name").and_then(Value::as_str);
                let whose = own.map(|name| format!("{name}: ")).unwrap_or_default();
                let value = resolve_fix(value, expects, &rejected)
                    .map_err(|why| wrong(line, format!("{whose}{why}")))?;
                let mut entry: Entry = deserialize(value, &node).map_err(|(offset, why)| {
                    wrong(line_of(&file.text, offset), format!("{whose}{why}"))
                })?;
                if !taken.insert(entry.name.clone()) {
                    return Err(wrong(line, format!("{whose}two cases have this name")));
                }
                entry.settings.get_or_insert_with(|| settings.clone());
                if entry.cluster.is_none() {
                    entry.cluster.clone_from(&cluster);
                }
                let place = Location { file: file.name.clone(), line, index, paths: Vec::new() };
                let case = Case::of(&rule, expects, entry, objects, kinds, place);
                case.map_err(|why| wrong(line, format!("{whose}{why}")))
            };
            match read() {
                Ok(case) => {
                    cases.push(Case { ignores_other_rules: others == OtherRules::Ignored, ..case });
                }
                Err(why) => all_wrong.push(why),
            }
        }
    }
    if all_wrong.is_empty() { Ok(cases) } else { Err(all_wrong) }
}

/// Returns an entry unchanged, or the rejected one that it fixes, with its changes.
fn resolve_fix(entry: Value, expects: Expectation, rejected: &[Value]) -> Result<Value, CaseError> {
    let Some(name) = entry.get("fixes") else { return Ok(entry) };
    if expects != Expectation::Accept {
        return Err(CaseError("`fixes` is only for accepted cases".to_owned()));
    }
    let broken = rejected.iter().find(|broken| broken.get("name") == Some(name));
    let broken =
        broken.ok_or_else(|| CaseError(format!("no rejected case has the name {name}")))?;
    Ok(merge_fix(broken, &entry))
}

/// Reads a value. An error has the place of the wrong member, and names it.
fn deserialize<T: DeserializeOwned>(value: Value, node: &Node) -> Result<T, (usize, String)> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        // An entry that fixes another one has members of that one.
        let wrong = error.path().iter().try_fold(node, |at, segment| match segment {
            Segment::Map { key } => at.member(key),
            Segment::Seq { index } => at.elements.get(*index),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let (path, why) = (error.path().to_string(), error.inner().to_string());
        // The text names an unknown member.
        let unknown = why.split('`').nth(1).filter(|_| why.starts_with("unknown field"));
        let path = unknown.and_then(|name| path.strip_suffix(name)).unwrap_or(&path);
        let path = path.trim_end_matches('.');
        let text = if path.is_empty() { why } else { format!("{path}: {why}") };
        (wrong.unwrap_or(node).offset, text)
    })
}

impl EntryViolation {
    fn into_violation(self, rule: &str, paths: &[String]) -> Result<Violation, CaseError> {
        let starts = self.message.is_none();
        let message = self.message.or(self.message_prefix);
        let message = message.ok_or_else(|| {
            CaseError("a violation has a `message` or a `messagePrefix`".to_owned())
        })?;
        let at = self.field.map(|at| documents::to_document_field(&at, paths)).transpose()?;
        let rule = self.rule.unwrap_or_else(|| rule.to_owned());
        Ok(Violation { rule, level: self.level, field: at, message, is_prefix: starts })
    }
}

impl Case {
    fn of(
        rule: &str,
        expects: Expectation,
        mut entry: Entry,
        objects: &Value,
        kinds: &[&str],
        mut place: Location,
    ) -> Result<Self, CaseError> {
        let (with, with_old) =
            (std::mem::take(&mut entry.with), std::mem::take(&mut entry.with_old));
        let (operation, mut object, mut old) = if let Some(object) = entry.create.take() {
            ("CREATE", Some(resolve_object(object, objects)?), None)
        } else if let Some((old, new)) = entry.update.take() {
            ("UPDATE", Some(resolve_object(new, objects)?), Some(resolve_object(old, objects)?))
        } else if let Some(old) = entry.delete.take() {
            ("DELETE", None, Some(resolve_object(old, objects)?))
        } else if let Some(directory) = entry.directory.take() {
            let directory = resolve_object(directory, objects)?;
            let (document, found) = documents::directory_document(directory, &entry, kinds)?;
            place.paths = found;
            ("CREATE", Some(document), None)
        } else if let Some(catalog) = entry.catalog.take() {
            let (document, baseline) = documents::catalog_document(&catalog, objects)?;
            (if baseline.is_some() { "UPDATE" } else { "CREATE" }, Some(document), baseline)
        } else {
            return Err(
                CaseError("there is nothing to evaluate: write `create`, `update`, `delete`, `directory` or `catalog`"
                    .to_owned()),
            );
        };
        if let Some(object) = &mut object {
            apply_changes(object, &with)?;
        }
        if let Some(old) = &mut old {
            apply_changes(old, if operation == "DELETE" { &with } else { &with_old })?;
        }
        let fixed = entry.fixed.take();
        if fixed.is_some() && expects != Expectation::Reject {
            return Err(CaseError("`fixed` is only for rejected cases".to_owned()));
        }
        let fixed = fixed.map(|fixed| {
            let object = object
                .as_ref()
                .ok_or_else(|| CaseError("`fixed`: there is no object to fix".to_owned()))?;
            fixed::fixed_object(object, &place.paths, fixed, objects)
        });
        let fixed = fixed.transpose()?;
        let mut findings = Vec::new();
        let Entry { field, message, message_prefix, level, .. } = entry;
        if message.is_some() || message_prefix.is_some() {
            let found = EntryViolation { rule: None, field, message, message_prefix, level };
            findings.push(found.into_violation(rule, &place.paths)?);
        } else if field.is_some() || level.is_some() {
            return Err(CaseError(
                "`field` and `level` belong to a violation: add its `message`".to_owned(),
            ));
        }
        for found in entry.violations.into_iter().chain(entry.other_violations) {
            findings.push(found.into_violation(rule, &place.paths)?);
        }
        let levels = findings.iter().filter_map(|finding| finding.level.as_deref());
        if let Some(level) = levels.into_iter().find(|level| !["deny", "warn"].contains(level)) {
            return Err(CaseError(format!("`level` is deny or warn, not {level}")));
        }
        let has_cluster = entry.cluster.is_some();
        let cluster = match entry.cluster {
            None => None,
            Some(Value::String(none)) if none == "none" => None,
            Some(Value::Array(list)) => {
                let list = list.into_iter().map(|object| resolve_object(object, objects));
                Some(list.collect::<Result<Vec<_>, _>>()?)
            }
            Some(_) => return Err(CaseError("`cluster` is a list of objects, or none".to_owned())),
        };
        let settings = entry.settings.filter(|settings| !settings.is_null());
        let settings = settings.unwrap_or_else(|| json!({}));
        if !settings.is_object() {
            return Err(CaseError("`settings` is an object".to_owned()));
        }
        if entry.matches == Some(false) && expects != Expectation::Accept {
            return Err(CaseError(
                "`matches: false` is only for accepted cases: the rule reports nothing".to_owned(),
            ));
        }
        let mut skipped = entry.skipped;
        if expects == Expectation::Skip {
            skipped.insert(rule.to_owned());
        }
        let finds = findings.iter().any(|finding| finding.rule == rule);
        match expects {
            Expectation::Accept if finds => {
                return Err(CaseError("an accepted case has a violation of its rule".to_owned()));
            }
            Expectation::Reject if !finds => {
                return Err(CaseError("a rejected case has no violation of its rule".to_owned()));
            }
            _ => {}
        }
        Ok(Self {
            rule: rule.to_owned(),
            name: entry.name,
            location: place,
            expects,
            fixes: entry.fixes,
            is_evaluated: entry.matches != Some(false),
            operation,
            object,
            old,
            request: entry.request,
            settings,
            cluster,
            has_cluster,
            violations: findings,
            skipped,
            ignores_other_rules: false,
            audit_annotations: entry.audit_annotations,
            reason: entry.reason,
            fixed,
        })
    }

    /// Reports whether violations and skips of a rule count.
    #[must_use]
    pub fn is_rule_counted(&self, rule: &str) -> bool {
        !self.ignores_other_rules
            || rule == self.rule
            || self.skipped.contains(rule)
            || self.violations.iter().any(|finding| finding.rule == rule)
    }

    /// Returns group, version, plural and kind of the subject.
    #[must_use]
    pub fn resource(&self) -> [String; 4] {
        let of = |member: &str| self.text(&[member]);
        let (group, version) = of("apiVersion").split_once('/').unwrap_or(("", of("apiVersion")));
        let kind = of("kind");
        let plural = self.request.resource.clone().unwrap_or_else(|| plural(kind));
        let version = self.request.version.as_deref().unwrap_or(version);
        [group.to_owned(), version.to_owned(), plural, kind.to_owned()]
    }

    /// Returns name and namespace of the subject.
    #[must_use]
    pub fn key(&self) -> (String, String) {
        let of = |member: &str| self.text(&["metadata", member]).to_owned();
        let RequestParts { name, namespace, .. } = &self.request;
        let name = name.clone().unwrap_or_else(|| of("name"));
        (name, namespace.clone().unwrap_or_else(|| of("namespace")))
    }

    /// Returns a text of the subject.
    fn text(&self, path: &[&str]) -> &str {
        let object = self.object.as_ref().or(self.old.as_ref());
        let found = path.iter().fold(object, |at, name| at?.get(name));
        found.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the request as an API server sends it.
    #[must_use]
    pub fn review(&self) -> Value {
        let [group, version, resource, kind] = self.resource();
        let (name, namespace) = self.key();
        let kind = json!({"group": group, "version": version, "kind": kind});
        let resource = json!({"group": group, "version": version, "resource": resource});
        let user = json!({
            "username": self.request.user.as_deref().unwrap_or_default(),
            "groups": self.request.groups,
        });
        let members = [
            ("uid", Some(json!("00000000-0000-0000-0000-000000000001"))),
            ("kind", Some(kind)),
            ("resource", Some(resource)),
            ("subResource", self.request.sub_resource.as_ref().map(|sub| json!(sub))),
            ("name", Some(json!(name))),
            ("namespace", Some(namespace).filter(|of| !of.is_empty()).map(|of| json!(of))),
            ("operation", Some(json!(self.operation))),
            ("userInfo", Some(user)),
            ("dryRun", Some(json!(false))),
            ("object", self.object.clone()),
            ("oldObject", self.old.clone()),
        ];
        let members = members.into_iter();
        let request: Map<_, _> =
            members.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    }
}

/// Returns the response of `/version` that an element of a cluster represents; none for any other object.
#[must_use]
pub fn server_version(object: &Value) -> Option<Value> {
    let kind = object.get("kind").and_then(Value::as_str);
    let is_text = object.get("gitVersion").is_some_and(Value::is_string);
    let is_one = is_text && kind.is_none_or(|kind| kind == "ServerVersion");
    let mut answer = object.as_object().filter(|_| is_one)?.clone();
    answer.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    Some(Value::Object(answer))
}
