//! Documents as the host makes them of files: bundles and packages of catalogs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::entry::{CaseError, Entry, apply_changes, resolve_object};

/// Kinds of documents that represent a directory.
const DIRECTORY_KINDS: [&str; 3] = ["RegistryBundle", "PlainBundle", "OperatorProject"];

/// Builds the document for a directory, and its paths in the order of the document.
pub(crate) fn directory_document(
    directory: Value,
    entry: &Entry,
    kinds: &[&str],
) -> Result<(Value, Vec<String>), CaseError> {
    let Value::Object(directory) = directory else {
        return Err(CaseError("`directory` is an object: content by path".to_owned()));
    };
    let mut files: BTreeMap<String, Value> = directory.into_iter().collect();
    for (path, content) in &entry.files {
        if content.is_null() {
            files.remove(path);
        } else {
            files.insert(path.clone(), content.clone());
        }
    }
    for (path, changes) in &entry.patch {
        let file =
            files.get_mut(path).ok_or_else(|| CaseError(format!("`patch`: no file {path}")))?;
        apply_changes(file, changes)?;
    }
    let paths: Vec<_> = files.keys().cloned().collect();
    let mut directories: BTreeSet<String> = entry.directories.iter().cloned().collect();
    for path in &paths {
        for (end, _) in path.match_indices('/') {
            directories.extend(path.get(..end).map(str::to_owned));
        }
    }
    let kind = kinds.iter().find(|kind| DIRECTORY_KINDS.contains(kind));
    let kind = kind.ok_or_else(|| {
        CaseError("`directory`: the policy matches no kind of directory".to_owned())
    })?;
    let files: Vec<_> = files.iter().map(|(path, content)| file(path, content)).collect();
    let mut spec = Map::new();
    spec.insert("files".to_owned(), Value::Array(files));
    spec.insert("directories".to_owned(), json!(directories));
    if let Some(size) = &entry.compressed_size {
        spec.insert("compressedSize".to_owned(), size.clone());
    }
    if let Some(is_more) = &entry.compressed_size_is_more {
        spec.insert("compressedSizeIsMore".to_owned(), is_more.clone());
    }
    let document = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "bundle"},
        "spec": spec,
    });
    Ok((document, paths))
}

/// Builds a file of a directory.
pub(crate) fn file(path: &str, content: &Value) -> Value {
    let size = content.to_string().len();
    match content {
        Value::String(text) => json!({"path": path, "size": size, "text": text}),
        Value::Array(documents) => json!({"path": path, "size": size, "documents": documents}),
        Value::Object(map) if map.contains_key("$error") => {
            json!({"path": path, "size": size,
                "error": {"line": 3, "column": 7, "message": map.get("$error")}})
        }
        Value::Object(map) if map.contains_key("$twice") => {
            let mut document = map.clone();
            let why = document.remove("$twice");
            json!({"path": path, "size": size, "documents": [document],
                "twice": {"line": 3, "column": 7, "message": why}})
        }
        Value::Object(map) if map.contains_key("$binary") => {
            json!({"path": path, "size": map.get("$binary")})
        }
        document => json!({"path": path, "size": size, "documents": [document]}),
    }
}

/// Returns a package of a catalog as a document, and what was published before.
pub(crate) fn catalog_document(
    catalog: &Map<String, Value>,
    objects: &Value,
) -> Result<(Value, Option<Value>), CaseError> {
    for key in catalog.keys() {
        let known = ["package", "packages", "blobs", "more", "baseline", "files", "directories"];
        if !known.contains(&key.as_str()) {
            return Err(CaseError(format!("a catalog has no {key}, only {}", known.join(", "))));
        }
    }
    let document = |blobs: &Value, more: Option<&Value>| -> Result<Value, CaseError> {
        let package = catalog.get("package").and_then(Value::as_str).unwrap_or("foo");
        let own = if package.is_empty() { json!([]) } else { json!([package]) };
        let list = |blobs: &Value| match resolve_object(blobs.clone(), objects)? {
            Value::Array(blobs) => blobs.into_iter().map(bundle).collect::<Result<Vec<_>, _>>(),
            _ => Err(CaseError("blobs of a catalog are a list".to_owned())),
        };
        let mut blobs = list(blobs)?;
        blobs.extend(more.map(list).transpose()?.unwrap_or_default());
        let blob = |(index, value)| json!({"file": "index.yaml", "index": index, "value": value});
        let blobs: Vec<_> = blobs.iter().enumerate().map(blob).collect();
        let packages = catalog.get("packages").unwrap_or(&own);
        let mut spec = Map::new();
        spec.insert("package".to_owned(), json!(package));
        spec.insert("packages".to_owned(), packages.clone());
        spec.insert("blobs".to_owned(), Value::Array(blobs));
        for key in ["files", "directories"] {
            spec.extend(catalog.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        Ok(json!({
            "apiVersion": "opgate.dev/v1alpha1",
            "kind": "FileBasedCatalog",
            "metadata": {"name": package},
            "spec": spec,
        }))
    };
    let none = json!([]);
    let blobs = catalog.get("blobs").unwrap_or(&none);
    let old = catalog.get("baseline").map(|blobs| document(blobs, None)).transpose()?;
    Ok((document(blobs, catalog.get("more"))?, old))
}

/// Builds a blob; `{$bundle: a.v1.0.0}` is a bundle, and other members next to it are inserted at their
/// paths.
fn bundle(blob: Value) -> Result<Value, CaseError> {
    let Some(name) = blob.get("$bundle") else { return Ok(blob) };
    let name = name.as_str().and_then(|name| Some((name, name.split_once(".v")?)));
    let (name, (package, version)) =
        name.ok_or_else(|| CaseError("the name of a $bundle is like a.v1.0.0".to_owned()))?;
    let mut bundle = Map::new();
    bundle.insert("schema".to_owned(), json!("olm.bundle"));
    bundle.insert("package".to_owned(), json!(package));
    bundle.insert("name".to_owned(), json!(name));
    bundle.insert("image".to_owned(), json!(format!("{package}-bundle:v{version}")));
    let of_package = json!({"packageName": package, "version": version});
    let properties = json!([{"type": "olm.package", "value": of_package}]);
    bundle.insert("properties".to_owned(), properties);
    let members = blob.as_object().into_iter().flatten().filter(|(key, _)| *key != "$bundle");
    bundle.extend(members.map(|(key, value)| (key.clone(), value.clone())));
    Ok(Value::Object(bundle))
}

/// Returns `manifests/a.yaml#documents[0].kind` as a field of the document.
pub(crate) fn to_document_field(at: &str, paths: &[String]) -> Result<String, CaseError> {
    let split = at.split_once('#').filter(|_| !paths.is_empty());
    let Some((path, rest)) = split else { return Ok(at.to_owned()) };
    let index = paths.iter().position(|known| known == path);
    let index = index.ok_or_else(|| CaseError(format!("`at`: no file {path}")))?;
    let dot = if rest.is_empty() { "" } else { "." };
    Ok(format!("spec.files[{index}]{dot}{rest}"))
}

/// Returns the name of a document's field in a case.
pub(crate) fn to_case_field(field: &str, paths: &[String]) -> String {
    let file = || {
        let (index, rest) = field.strip_prefix("spec.files[")?.split_once(']')?;
        let path = paths.get(index.parse::<usize>().ok()?)?;
        let rest = rest.strip_prefix('.').or(rest.is_empty().then_some(""))?;
        Some(format!("{path}#{rest}"))
    };
    file().unwrap_or_else(|| field.to_owned())
}
