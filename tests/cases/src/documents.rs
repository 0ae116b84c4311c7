//! Documents as the host makes them of files: bundles and packages of catalogs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::{Entry, change, named};

/// Kinds of documents that stand for a folder.
const FOLDERS: [&str; 3] = ["RegistryBundle", "PlainBundle", "OperatorProject"];

/// A folder as a document, and its paths in the order of the document.
pub(crate) fn folder(
    folder: Value,
    entry: &Entry,
    kinds: &[&str],
    whose: &str,
) -> (Value, Vec<String>) {
    let Value::Object(folder) = folder else { panic!("{whose}: a folder is an object") };
    let mut files: BTreeMap<String, Value> = folder.into_iter().collect();
    for (path, content) in &entry.files {
        if content.is_null() {
            files.remove(path);
        } else {
            files.insert(path.clone(), content.clone());
        }
    }
    for (path, changes) in &entry.patch {
        let file = files.get_mut(path).unwrap_or_else(|| panic!("{whose}: no file {path}"));
        change(file, changes, whose);
    }
    let paths: Vec<_> = files.keys().cloned().collect();
    let mut directories: BTreeSet<String> = entry.directories.iter().cloned().collect();
    for path in &paths {
        for (end, _) in path.match_indices('/') {
            directories.insert(path.split_at(end).0.to_owned());
        }
    }
    let kind = kinds.iter().find(|kind| FOLDERS.contains(kind));
    let kind = kind.unwrap_or_else(|| panic!("{whose}: the policy does not look at folders"));
    let files: Vec<_> = files.iter().map(|(path, content)| file(path, content)).collect();
    let mut document = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "bundle"},
        "spec": {"files": files, "directories": directories},
    });
    if let Some(size) = &entry.compressed_size {
        document["spec"]["compressedSize"] = size.clone();
    }
    if let Some(is_more) = &entry.compressed_size_is_more {
        document["spec"]["compressedSizeIsMore"] = is_more.clone();
    }
    (document, paths)
}

fn file(path: &str, content: &Value) -> Value {
    let size = content.to_string().len();
    match content {
        Value::String(text) => json!({"path": path, "size": size, "text": text}),
        Value::Array(documents) => json!({"path": path, "size": size, "documents": documents}),
        Value::Object(map) if map.contains_key("$error") => {
            json!({"path": path, "size": size,
                "error": {"line": 3, "column": 7, "message": map["$error"]}})
        }
        Value::Object(map) if map.contains_key("$twice") => {
            let mut document = map.clone();
            let why = document.remove("$twice");
            json!({"path": path, "size": size, "documents": [document],
                "twice": {"line": 3, "column": 7, "message": why}})
        }
        Value::Object(map) if map.contains_key("$binary") => {
            json!({"path": path, "size": map["$binary"]})
        }
        document => json!({"path": path, "size": size, "documents": [document]}),
    }
}

/// A package of a catalog as a document, and what was published before.
pub(crate) fn catalog(
    catalog: &Map<String, Value>,
    objects: &Value,
    whose: &str,
) -> (Value, Option<Value>) {
    for key in catalog.keys() {
        let known = ["package", "packages", "blobs", "more", "baseline", "files", "directories"];
        assert!(known.contains(&key.as_str()), "{whose}: a catalog has no {key}");
    }
    let document = |blobs: &Value, more: Option<&Value>| {
        let package = catalog.get("package").and_then(Value::as_str).unwrap_or("foo");
        let own = if package.is_empty() { json!([]) } else { json!([package]) };
        let list = |blobs: &Value| match named(blobs.clone(), objects, whose) {
            Value::Array(blobs) => blobs.into_iter().map(|blob| bundle(blob, whose)).collect(),
            _ => panic!("{whose}: a list of blobs"),
        };
        let mut blobs: Vec<_> = list(blobs);
        blobs.extend(more.map(list).unwrap_or_default());
        let blob = |(index, value)| json!({"file": "index.yaml", "index": index, "value": value});
        let blobs: Vec<_> = blobs.iter().enumerate().map(blob).collect();
        let packages = catalog.get("packages").unwrap_or(&own);
        let mut spec = json!({"package": package, "packages": packages, "blobs": blobs});
        for key in ["files", "directories"] {
            if let Some(value) = catalog.get(key) {
                spec[key] = value.clone();
            }
        }
        json!({
            "apiVersion": "opgate.dev/v1alpha1",
            "kind": "FileBasedCatalog",
            "metadata": {"name": package},
            "spec": spec,
        })
    };
    let none = json!([]);
    let blobs = catalog.get("blobs").unwrap_or(&none);
    let old = catalog.get("baseline").map(|blobs| document(blobs, None));
    (document(blobs, catalog.get("more")), old)
}

/// A blob; `{$bundle: a.v1.0.0}` is a bundle, and other members beside it are put in their places.
fn bundle(blob: Value, whose: &str) -> Value {
    let Some(name) = blob.get("$bundle") else { return blob };
    let name = name.as_str().and_then(|name| Some((name, name.split_once(".v")?)));
    let (name, (package, version)) =
        name.unwrap_or_else(|| panic!("{whose}: the name of a bundle is like a.v1.0.0"));
    let mut bundle = json!({
        "schema": "olm.bundle",
        "package": package,
        "name": name,
        "image": format!("{package}-bundle:v{version}"),
        "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": version}},
        ],
    });
    let members = blob.as_object().into_iter().flatten().filter(|(key, _)| *key != "$bundle");
    for (key, value) in members {
        bundle[key] = value.clone();
    }
    bundle
}

/// `manifests/a.yaml#documents[0].kind` as a field of the document.
pub(crate) fn field(at: &str, paths: &[String], whose: &str) -> String {
    let split = at.split_once('#').filter(|_| !paths.is_empty());
    let Some((path, rest)) = split else { return at.to_owned() };
    let index = paths.iter().position(|known| known == path);
    let index = index.unwrap_or_else(|| panic!("{whose}: no file {path}"));
    let dot = if rest.is_empty() { "" } else { "." };
    format!("spec.files[{index}]{dot}{rest}")
}
