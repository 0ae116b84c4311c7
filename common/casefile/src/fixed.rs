//! The object of a case after the fixes of its violations.

use std::collections::BTreeMap;

use opgate_edit::Fix;
use serde_json::{Map, Value, json};

use crate::documents::file;
use crate::entry::{CaseError, apply_changes, resolve_object};

/// Maximum number of differences that are listed.
const MAX_DIFFERENCES: usize = 8;

/// Builds the expected object: an object or its name, or changes of the object as in `with`. The files of a bundle
/// have their changes by path.
pub(crate) fn fixed_object(
    object: &Value,
    paths: &[String],
    fixed: Value,
    objects: &Value,
) -> Result<Value, CaseError> {
    let Value::Object(changes) = &fixed else { return resolve_object(fixed, objects) };
    let mut expected = object.clone();
    if are_changes(changes) {
        apply_changes(&mut expected, changes)?;
        return Ok(expected);
    }
    if paths.is_empty() {
        return Ok(fixed);
    }
    let files = expected.pointer_mut("/spec/files").and_then(Value::as_array_mut);
    let files = files.ok_or_else(|| CaseError("`fixed`: the bundle has no files".to_owned()))?;
    for (path, change) in changes {
        let index = files.iter().position(|file| file.get("path") == Some(&json!(path)));
        match (index, change) {
            (Some(index), Value::Null) => drop(files.remove(index)),
            (Some(index), Value::Object(changes)) if are_changes(changes) => {
                let documents = files.get_mut(index).and_then(|file| file.get_mut("documents"));
                let documents = documents
                    .and_then(Value::as_array_mut)
                    .ok_or_else(|| CaseError(format!("`fixed`: {path} has no documents")))?;
                change_documents(documents, changes)?;
            }
            (Some(index), content) => {
                files.remove(index);
                files.push(file(path, content));
            }
            (None, content) => files.push(file(path, content)),
        }
    }
    Ok(expected)
}

/// Reports whether the names are JSON pointers.
fn are_changes(members: &Map<String, Value>) -> bool {
    !members.is_empty() && members.keys().all(|name| name.starts_with('/'))
}

/// Changes the only document of a file, or the list of its documents.
fn change_documents(
    documents: &mut Vec<Value>,
    changes: &Map<String, Value>,
) -> Result<(), CaseError> {
    if let [only] = documents.as_mut_slice() {
        return apply_changes(only, changes);
    }
    let mut list = Value::Array(std::mem::take(documents));
    apply_changes(&mut list, changes)?;
    if let Value::Array(list) = list {
        *documents = list;
    }
    Ok(())
}

/// Applies the fixes of a rule that can be applied together to an object.
///
/// # Errors
/// Fails if an edit does not fit the object: the title of the fix, and the reason.
pub fn apply_fixes(object: &mut Value, fixes: &[&Fix]) -> Result<(), String> {
    for position in opgate_edit::select(fixes) {
        let Some(fix) = fixes.get(position) else { continue };
        let applied = opgate_edit::apply(object, &fix.edits);
        applied.map_err(|error| format!("the fix {:?} cannot be applied: {error}", fix.title))?;
    }
    Ok(())
}

/// Returns the differences of an object after the fixes of a rule from the expected one, if one is expected.
pub(crate) fn differences(
    rule: &str,
    object: &Value,
    expected: Option<&Value>,
    fixes: &[&Fix],
) -> Vec<String> {
    if fixes.is_empty() {
        let missing = || format!("fixed: no violation of {rule} has a fix");
        return expected.iter().map(|_| missing()).collect();
    }
    let mut found = object.clone();
    if let Err(error) = apply_fixes(&mut found, fixes) {
        return vec![error];
    }
    let Some(expected) = expected else { return Vec::new() };
    let mut all = Vec::new();
    list_differences("", &by_path(&found), &by_path(expected), &mut all);
    all.truncate(MAX_DIFFERENCES);
    all
}

/// Returns a document in which the files of a bundle are in the order of their paths, without their sizes.
fn by_path(document: &Value) -> Value {
    let mut document = document.clone();
    let Some(files) = document.pointer_mut("/spec/files") else { return document };
    let list = files.as_array().into_iter().flatten();
    let by_path: Option<BTreeMap<String, Value>> = list
        .map(|file| {
            let mut file = file.as_object()?.clone();
            let path = file.remove("path")?;
            file.remove("size");
            Some((path.as_str()?.to_owned(), Value::Object(file)))
        })
        .collect();
    if let Some(by_path) = by_path {
        *files = json!(by_path);
    }
    document
}

fn list_differences(pointer: &str, found: &Value, expected: &Value, all: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(left), Value::Object(right)) => {
            let names = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
            for name in names {
                let inner = format!("{pointer}/{}", opgate_edit::escape(name));
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => list_differences(&inner, left, right, all),
                    (Some(left), None) => {
                        all.push(format!("fixed: {inner}: {left}, expected none"));
                    }
                    (None, right) => {
                        let right = right.unwrap_or(&Value::Null);
                        all.push(format!("fixed: {inner}: none, expected {right}"));
                    }
                }
            }
        }
        (found, expected) if found == expected => {}
        (found, expected) => all.push(format!("fixed: {pointer}: {found}, expected {expected}")),
    }
}
