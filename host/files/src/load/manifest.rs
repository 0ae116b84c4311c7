//! Manifests: every object of a file or of the files of a directory, as a request that creates it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::content::{File, ParseMode, has_documents};
use crate::location::Locator;
use crate::recorded_review::{GROUP, RecordedReview};
use crate::reviews::{Object, Request, RequestObject, Subject};
use crate::unsupported::{is_configuration, is_opgate_configuration, unsupported_type};
use crate::{directory, duplicate_keys, parallel, template};
use opgate_compat::kinds::plural;
use opgate_document::Value;
use opgate_input::objects::{self, TypedObject};
use opgate_input::read::{FilePath, Reader};
use opgate_platform::files::display_path;
use opgate_text::one_line;

/// The reason why a document is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ManifestError(String);

/// Maximum bytes of an error: a path has at most 4,096, and parsers say little.
const MAX_ERROR_BYTES: usize = 8 << 10;

/// Reads the manifests of a file, or of a directory.
///
/// # Errors
/// All files that cannot be read and documents that are not objects, one line each.
pub(super) fn load(
    root: &Path,
    directory: Option<&Path>,
    baseline: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Vec<Subject>> {
    let mut errors = Vec::new();
    let mut subjects = Vec::new();
    let is_directory = directory.is_some() || root.is_dir();
    let all = match directory {
        Some(directory) => vec![read_file_in(directory, root, reader)?],
        None => read_files(root, reader)?,
    };
    for file in all {
        // A template of another program, among the files of a repository.
        if directory.is_some() && template::is_template_file(&file) {
            return Ok(vec![Subject::not_evaluated(root, "a template: render it first")]);
        }
        errors.extend(template::error_line(&file));
        let count = file.documents().map_or(0, crate::content::Documents::len);
        for index in 0..count {
            let source = if count > 1 {
                format!("{}#{}", file.display_path, index + 1)
            } else {
                file.display_path.clone()
            };
            let root = file.documents().map(|documents| documents.document(index));
            let root = root.as_ref().map(opgate_document::Document::root);
            // Manifests may have opgate's configuration next to them. A configuration alone is a mistake.
            if is_directory && root.is_some_and(is_configuration) {
                let why = root.and_then(unsupported_type).unwrap_or_default();
                // The caller knows which configuration it uses.
                if root.is_some_and(is_opgate_configuration) {
                    tracing::debug!("{source}: left out: {why}");
                } else {
                    tracing::warn!("{source}: left out: {why}");
                }
                continue;
            }
            if let Some(why) = root.and_then(unsupported_type) {
                errors.push(format!("{source}: {why}"));
                continue;
            }
            match objects(&file, index) {
                Err(why) => errors.push(format!("{source}: {why}")),
                Ok(requests) => subjects.extend(requests.into_iter().map(|request| Subject {
                    source: source.clone(),
                    kind: request.kind.clone(),
                    name: request.name.clone(),
                    namespace: None,
                    requests: vec![Request { prefix: String::new(), ..request }],
                    unreadable: Vec::new(),
                    not_evaluated: None,
                })),
            }
        }
    }
    // A name can have line breaks, and an error is a line.
    let lines: Vec<_> = errors.iter().map(|error| one_line(error, MAX_ERROR_BYTES)).collect();
    anyhow::ensure!(lines.is_empty(), "{}", lines.join("\n"));
    if let Some(old) = baseline {
        let files = read_files(old, reader)?;
        let lines: Vec<_> = files.iter().filter_map(|file| template::error_line(file)).collect();
        anyhow::ensure!(lines.is_empty(), "{}", lines.join("\n"));
        let indices =
            |file: &Arc<File>| 0..file.documents().map_or(0, crate::content::Documents::len);
        let old = files.iter().flat_map(|f| indices(f).filter_map(|i| objects(f, i).ok()));
        let old: Vec<Request> = old.flatten().collect();
        let new = subjects.iter_mut().flat_map(|subject| &mut subject.requests);
        pair_with_baseline(new, old);
    }
    Ok(subjects)
}

/// Reads a file of a directory, by its path with that of the directory.
fn read_file_in(root: &Path, path: &Path, reader: &Reader) -> anyhow::Result<Arc<File>> {
    let inside = display_path(path.strip_prefix(root).unwrap_or(path));
    let found = directory::find_entry(root, &inside)?;
    let shown = display_path(path);
    // A readable directory has no entry for itself.
    let (directory, entry) = found.ok_or_else(|| match path.read_dir() {
        Err(error) => anyhow::anyhow!("{shown}: {error}"),
        Ok(_) => anyhow::anyhow!("{shown}: not there any more"),
    })?;
    Ok(Arc::new(duplicate_keys::reject_duplicates(entry.read(
        &directory,
        ParseMode::AllFiles,
        reader,
    ))))
}

fn read_files(root: &Path, reader: &Reader) -> anyhow::Result<Vec<Arc<File>>> {
    if !root.is_dir() {
        let shown = display_path(root);
        let file =
            File::read(FilePath::Named(root), shown.clone(), shown, ParseMode::AllFiles, reader);
        return Ok(vec![Arc::new(duplicate_keys::reject_duplicates(file))]);
    }
    let mut directory = directory::walk(root)?;
    // An entry that could contain files is reported, whatever its name.
    let is_directory =
        |entry: &directory::Entry| entry.rejection.as_ref().is_some_and(|r| r.can_be_directory);
    directory.files.retain(|entry| has_documents(&entry.path) || is_directory(entry));
    anyhow::ensure!(
        !directory.files.is_empty(),
        "{}: there is no file *.json, *.yaml or *.yml in it",
        root.display()
    );
    Ok(parallel::map(&directory.files, |entry| {
        Arc::new(duplicate_keys::reject_duplicates(entry.read(
            &directory,
            ParseMode::AllFiles,
            reader,
        )))
    }))
}

/// Assigns to each object the previous one with the same kind and name. An object without a name is new: the API server
/// generates its name.
pub(super) fn pair_with_baseline<'r>(
    new: impl IntoIterator<Item = &'r mut Request>,
    old: Vec<Request>,
) {
    let key = |r: &Request| (r.group.clone(), r.kind.clone(), r.namespace.clone(), r.name.clone());
    let old: std::collections::HashMap<_, _> =
        old.into_iter().map(|request| (key(&request), request.object)).collect();
    for request in new.into_iter().filter(|request| !request.name.is_empty()) {
        request.old = old.get(&key(request)).cloned();
    }
}

/// Returns the objects of a document: itself, or the elements of a list.
///
/// # Errors
/// If something in it is not an object.
pub(super) fn objects(file: &Arc<File>, index: usize) -> Result<Vec<Request>, ManifestError> {
    let document = file.documents().map(|documents| documents.document(index)).unwrap_or_default();
    let (mut requests, mut wrong, located) = (Vec::new(), None, Arc::default());
    objects::for_each_object(document.root(), None, &mut |found| match found {
        Ok(found) => match request(file, index, &located, &found) {
            Ok(request) => requests.push(request),
            Err(why) => drop(wrong.get_or_insert(why)),
        },
        Err(why) => drop(wrong.get_or_insert(ManifestError(why.to_string()))),
    });
    wrong.map_or(Ok(requests), Err)
}

fn request(
    file: &Arc<File>,
    index: usize,
    located: &Arc<OnceLock<Locator>>,
    found: &TypedObject<'_, '_>,
) -> Result<Request, ManifestError> {
    let text = |pointer: &str| found.value.get(pointer).and_then(|v| v.text()).unwrap_or_default();
    let (group, version) = found.group_version();
    let is_whole = found.pointer.is_empty();
    let elements = found.pointer.split("/items/").skip(1);
    let prefix = elements.fold(String::new(), |prefix, index| prefix + ".items[" + index + "]");
    let mut request = Request {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: found.kind.to_owned(),
        resource: plural(found.kind),
        namespace: text("/metadata/namespace").to_owned(),
        name: text("/metadata/name").to_owned(),
        object: RequestObject::Object(Object {
            file: file.clone(),
            index,
            pointer: found.pointer.to_owned(),
            locator: located.clone(),
            // A later search would read the whole list again for each of its elements.
            original_json: (!is_whole).then(|| found.value.raw().into()),
        }),
        old: None,
        prefix,
        is_stored: false,
        recorded: None,
        template: None,
    };
    if group == GROUP && found.kind == "AdmissionReview" {
        let below = use_recorded_review(&mut request, found.value)?;
        if let RequestObject::Object(object) = &mut request.object {
            object.pointer.push_str(below);
        }
    }
    Ok(request)
}

/// Makes a request about a document that is a review the one that was sent. The object of a DELETE is the
/// old one.
///
/// # Errors
/// Fails if a member is missing.
fn use_recorded_review(
    request: &mut Request,
    review: Value<'_>,
) -> Result<&'static str, ManifestError> {
    if let Some(why) = unsupported_type(review) {
        return Err(ManifestError(why.to_owned()));
    }
    let text = |pointer: &str| review.get(pointer).and_then(|value| value.text());
    let [operation, kind] = ["/request/operation", "/request/kind/kind"].map(text);
    if operation.is_none() || kind.is_none() {
        return Err(ManifestError(
            "not an AdmissionReview: its request has no operation or no kind".to_owned(),
        ));
    }
    let owned = |pointer: &str| text(pointer).unwrap_or_default().to_owned();
    let object = if operation == Some("DELETE") { "/request/oldObject" } else { "/request/object" };
    request.group = owned("/request/resource/group");
    request.version = owned("/request/resource/version");
    request.kind = owned("/request/kind/kind");
    request.resource = owned("/request/resource/resource");
    request.namespace = owned("/request/namespace");
    request.name = owned("/request/name");
    for pointer in ["/metadata/name", "/metadata/generateName"] {
        if request.name.is_empty() {
            request.name = owned(&format!("{object}{pointer}"));
        }
    }
    request.recorded = Some(RecordedReview::of(review));
    Ok(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reviews::LocationResolver;
    use crate::testing::TempDirectory;

    #[test]
    fn every_object_is_created() {
        let directory = TempDirectory::new(&[
            (
                "a.yaml",
                "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: g, namespace: one}\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: networking.k8s.io/v1\n  kind: NetworkPolicy\n  metadata:\n    name: p\n",
            ),
            ("README.md", "# x"),
        ]);
        let subjects = load(directory.path(), None, None, &Reader::default()).unwrap();
        let seen: Vec<_> = subjects
            .iter()
            .map(|s| {
                let review: serde_json::Value =
                    serde_json::from_str(&s.requests[0].review()).unwrap();
                let r = &review["request"];
                json!([
                    s.kind,
                    s.name,
                    r["resource"]["resource"],
                    r["namespace"],
                    r["object"]["kind"]
                ])
            })
            .collect();
        assert_eq!(
            seen,
            [
                json!(["OperatorGroup", "g", "operatorgroups", "one", "OperatorGroup"]),
                json!(["NetworkPolicy", "p", "networkpolicies", "", "NetworkPolicy"]),
            ]
        );
        assert!(subjects[1].source.ends_with("a.yaml#2"));
        let mut resolver = LocationResolver::new(&subjects[1].requests[0].object);
        let place = resolver.resolve("metadata.name").unwrap();
        assert_eq!((place.line, place.column), (11, 5));
        let same =
            load(directory.path(), None, Some(directory.path()), &Reader::default()).unwrap();
        assert!(same.iter().all(|subject| subject.requests[0].review().contains("UPDATE")));
    }

    #[test]
    fn objects_without_names_have_no_baseline() {
        let job = |name: &str| format!("apiVersion: batch/v1\nkind: Job\nmetadata: {{{name}}}\n");
        let named = "name: a";
        for (old, new, expected) in [
            (named, named, "UPDATE"),
            ("generateName: a-", "generateName: b-", "CREATE"),
            ("generateName: a-", "generateName: a-", "CREATE"),
        ] {
            let directory = TempDirectory::new(&[("old.yaml", &job(old)), ("new.yaml", &job(new))]);
            let [old_path, new_path] = ["old.yaml", "new.yaml"].map(|it| directory.path().join(it));
            let subjects = load(&new_path, None, Some(&old_path), &Reader::default()).unwrap();
            assert!(subjects[0].requests[0].review().contains(expected), "{old} {new}");
        }
    }

    #[test]
    fn files_without_objects_are_errors() {
        let directory =
            TempDirectory::new(&[("a.yaml", "a: 1\n"), ("b.yaml", "a: [\n"), ("c.json", "1")]);
        let error = load(directory.path(), None, None, &Reader::default()).unwrap_err().to_string();
        let lines: Vec<_> = error.lines().collect();
        assert!(
            lines[0].ends_with("a.yaml: /apiVersion is missing: not a Kubernetes object"),
            "{error}"
        );
        assert!(lines[1].contains("b.yaml:") && lines[1].contains(": not YAML: "), "{error}");
        assert_eq!(lines.len(), 3);
    }
}
