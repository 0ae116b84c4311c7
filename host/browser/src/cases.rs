//! The cases of a policy, as `opgate policy test` evaluates them: examples, and the comparison with the binary.

use opgate_casefile::{Case, File, plural, server_version};
use serde_json::{Value, json};

use crate::bindings::types::{ClusterRead, Descriptor};

/// Reads the cases of files: JSON, a list.
///
/// # Errors
/// A line for each error.
pub(crate) fn read(
    descriptor: &Descriptor,
    files: Vec<(String, String)>,
) -> Result<Value, Vec<String>> {
    let files: Vec<_> = files.into_iter().map(|(name, text)| File { name, text }).collect();
    let cases = opgate_casefile::read(&files, &document_kinds(descriptor));
    let cases = cases.map_err(|wrong| wrong.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(cases.iter().map(|case| to_json(descriptor, case)).collect())
}

/// The document kinds that the policy matches, which determine the type of a bundle in a case.
fn document_kinds(descriptor: &Descriptor) -> Vec<&'static str> {
    let kind = |resource: &String| match resource.as_str() {
        "registrybundles" => Some("RegistryBundle"),
        "plainbundles" => Some("PlainBundle"),
        "operatorprojects" => Some("OperatorProject"),
        _ => None,
    };
    descriptor.matches.iter().flat_map(|rule| &rule.resources).filter_map(kind).collect()
}

fn to_json(descriptor: &Descriptor, case: &Case) -> Value {
    let mut settings = case.settings.clone();
    let mut take = |name: &str| settings.as_object_mut().and_then(|members| members.remove(name));
    let (rules, profile) = (take("rules"), take("profile"));
    let mut review = case.review();
    // One case is not in the way of the next.
    if let Some(request) = review.get_mut("request").and_then(Value::as_object_mut) {
        request.insert("dryRun".to_owned(), json!(true));
    }
    let cluster = case.cluster.as_ref().map(|objects| {
        let object = |object: &Value| complete_object(&descriptor.reads, object).to_string();
        format!("[{}]", objects.iter().map(object).collect::<Vec<_>>().join(","))
    });
    let configuration = json!({
        "profile": profile,
        "rules": rules.unwrap_or_else(|| json!({})),
        "settings": settings,
    });
    json!({
        "rule": case.rule,
        "name": case.name,
        "file": case.location.file,
        "line": case.location.line,
        "expects": case.expects.as_str(),
        "review": review.to_string(),
        "configuration": configuration.to_string(),
        "cluster": cluster,
    })
}

/// An object of a case. Those that the policy reads may omit their version.
fn complete_object(reads: &[ClusterRead], object: &Value) -> Value {
    let mut object = server_version(object).unwrap_or_else(|| object.clone());
    let Some(resource) = object.get("kind").and_then(Value::as_str).map(plural) else {
        return object;
    };
    let written = object.get("apiVersion").and_then(Value::as_str);
    let group = written.map(|api| api.split_once('/').map_or("", |(group, _)| group).to_owned());
    let is_it = |read: &&ClusterRead| {
        read.resource.resource == resource
            && group.as_ref().is_none_or(|group| read.resource.group == *group)
    };
    let Some(read) = reads.iter().find(is_it) else { return object };
    let (group, version) = (&read.resource.group, &read.resource.version);
    let api = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), json!(api));
    }
    object
}
