//! A bundle as reviews: of the document with every file in it, and of its manifests as the objects
//! that they will become.

use std::path::Path;
use std::sync::Arc;

use opgate_input::read::Reader;

use super::manifest;
use crate::bundle::{Bundle, BundleKind};
use crate::content::Documents;
use crate::json::{GROUP, VERSION};
use crate::reviews::{Request, RequestObject, Subject};
use crate::template;

/// Reads a bundle.
///
/// # Errors
/// Fails if the directory is unreadable.
pub(super) fn load(
    root: &Path,
    kind: BundleKind,
    baseline: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Subject> {
    anyhow::ensure!(root.is_dir(), "{}: not a directory: name that of the bundle", root.display());
    let bundle = Arc::new(Bundle::read(root, kind, reader)?);
    let old = baseline.map(|old| Bundle::read(old, kind, reader).map(Arc::new)).transpose()?;
    if let Some(old) = &old {
        ensure_readable(old)?;
    }
    let mut subject = subject(root, kind, &bundle, old.as_ref());
    let mut manifests = manifest_requests(&bundle);
    if let Some(old) = &old {
        manifest::pair_with_baseline(&mut manifests, manifest_requests(old));
    }
    subject.requests.extend(manifests);
    Ok(subject)
}

/// Returns the document that represents the directory in an evaluation.
pub(super) fn subject(
    root: &Path,
    kind: BundleKind,
    bundle: &Arc<Bundle>,
    old: Option<&Arc<Bundle>>,
) -> Subject {
    let request = Request {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        kind: kind.kind().to_owned(),
        resource: kind.resource().to_owned(),
        namespace: String::new(),
        name: bundle.name.clone(),
        object: RequestObject::Bundle(bundle.clone()),
        old: old.cloned().map(RequestObject::Bundle),
        prefix: String::new(),
        is_stored: false,
        recorded: None,
        template: None,
    };
    Subject {
        source: opgate_platform::files::display_path(root),
        kind: kind.kind().to_owned(),
        name: bundle.name.clone(),
        namespace: None,
        requests: vec![request],
        unreadable: bundle
            .files
            .iter()
            .filter(|file| file.read_error().is_some())
            .cloned()
            .collect(),
        not_evaluated: None,
    }
}

/// The baseline must be readable: an unreadable path must not count as an empty baseline.
pub(super) fn ensure_readable(old: &Bundle) -> anyhow::Result<()> {
    let unread = old.files.iter().filter_map(|file| template::error_line(file));
    let unread: Vec<_> = unread.collect();
    anyhow::ensure!(unread.is_empty(), "{}", unread.join("\n"));
    Ok(())
}

/// Returns the manifests among the files, each with its path in the document.
fn manifest_requests(bundle: &Bundle) -> Vec<Request> {
    // The legacy format has one such directory for each version instead.
    let flat = bundle.directories.iter().any(|directory| directory == "manifests");
    let mut found = Vec::new();
    for (position, file) in bundle.files.iter().enumerate() {
        if flat && !file.path.starts_with("manifests/") {
            continue;
        }
        for index in 0..file.documents().map_or(0, Documents::len) {
            for mut request in manifest::objects(file, index).unwrap_or_default() {
                let inner = request.prefix;
                request.prefix = format!("spec.files[{position}].documents[{index}]{inner}");
                found.push(request);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::reviews::LocationResolver;
    use crate::testing::{TempDirectory, fixture};

    fn object(request: &Request) -> Value {
        serde_json::from_str::<Value>(&request.review()).unwrap()["request"].clone()
    }

    #[test]
    fn last_of_duplicate_keys_counts_and_is_reported() {
        let directory = TempDirectory::new(&[
            ("manifests/a.json", "{\"kind\": \"A\",\n\"kind\": \"B\"}"),
            ("manifests/b.yaml", "kind: A\nmetadata: {name: x,\n  name: z}\n"),
            ("manifests/c.yaml", "kind: A\nkind: B\na: [\n"),
            ("metadata/annotations.yaml", "annotations: {a: b, a: c}\n"),
        ]);
        let load = |kind| load(directory.path(), kind, None, &Reader::default()).unwrap();
        let subject = load(BundleKind::Registry);
        let spec = object(&subject.requests[0])["object"]["spec"].clone();
        let twice = |line: u64, column: u64, name: &str| {
            let message = format!("duplicate mapping key: {name}");
            json!({"line": line, "column": column, "message": message})
        };
        assert_eq!(spec["files"][0]["documents"][0]["kind"], "B");
        assert_eq!(spec["files"][0]["twice"], twice(2, 1, "kind"));
        let last = json!([{"kind": "A", "metadata": {"name": "z"}}]);
        assert_eq!(spec["files"][1]["documents"], last);
        assert_eq!(spec["files"][1]["twice"], twice(3, 3, "name"));
        let mut resolver = LocationResolver::new(&subject.requests[0].object);
        for (field, line, column) in [
            ("spec.files[0].twice", 2, 1),
            ("spec.files[1].twice", 3, 3),
            ("spec.files[1].documents[0].metadata.name", 3, 3),
        ] {
            let place = resolver.resolve(field).unwrap();
            assert_eq!((place.line, place.column), (line, column), "{field}");
        }
        assert_eq!(spec["files"][3]["documents"], json!([{"annotations": {"a": "c"}}]));
        assert_eq!(spec["files"][3]["twice"], twice(1, 21, "a"));
        assert!(spec["files"][2]["error"].is_object(), "{}", spec["files"][2]);
        let plain = object(&load(BundleKind::Plain).requests[0])["object"]["spec"].clone();
        assert_eq!(plain["files"], spec["files"]);
    }

    #[test]
    fn bundle_reads_manifests_and_metadata_whatever_their_names() {
        let directory = TempDirectory::new(&[
            ("Dockerfile", "a: b\n"),
            ("manifests/README.md", "# Title\n\nA text.\n"),
            ("manifests/a.crd", "kind: A\n"),
            ("manifests/icon.png", "\0"),
            ("manifests/sub/b.crd", "kind: B\n"),
            ("metadata/LICENSE", "a: b: c\n"),
            ("metadata/annotations", "annotations: {}\n"),
            ("metadata/icon.svgz", "\0"),
        ]);
        let files = |kind| {
            let subject = load(directory.path(), kind, None, &Reader::default()).unwrap();
            object(&subject.requests[0])["object"]["spec"]["files"].clone()
        };
        let registry = files(BundleKind::Registry);
        assert_eq!(registry[0]["text"], "a: b\n");
        assert_eq!(registry[1]["documents"], json!(["A text."]));
        assert_eq!(registry[2]["documents"], json!([{"kind": "A"}]));
        assert!(registry[3]["error"].is_object(), "{}", registry[3]);
        assert_eq!(registry[4]["text"], "kind: B\n");
        assert_eq!(registry[5], json!({"path": "metadata/LICENSE", "size": 8}));
        assert_eq!(registry[6]["documents"], json!([{"annotations": {}}]));
        assert_eq!(registry[7], json!({"path": "metadata/icon.svgz", "size": 1}));
        let plain = files(BundleKind::Plain);
        assert_eq!(plain[2]["text"], "kind: A\n");
    }

    #[test]
    fn a_bundle_is_one_document_with_all_its_files() {
        let directory = TempDirectory::new(&[
            ("manifests/a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n---\n\n"),
            ("manifests/bad.yaml", "a:\n\tb\n"),
            ("metadata/annotations.yaml", "annotations: {}\n"),
            ("Dockerfile", "FROM scratch\nLABEL a=b \\\n  c=d\n"),
            ("logo.png", "\0"),
        ]);
        std::os::unix::fs::symlink("..", directory.path().join("manifests/up")).unwrap();
        let subject =
            load(directory.path(), BundleKind::Registry, None, &Reader::default()).unwrap();
        let review = object(&subject.requests[0]);
        assert_eq!(review["operation"], "CREATE");
        assert_eq!(review["resource"]["resource"], "registrybundles");
        let document = &review["object"];
        let name = directory.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(
            (&document["apiVersion"], &document["kind"]),
            (&json!("opgate.dev/v1alpha1"), &json!("RegistryBundle"))
        );
        assert_eq!(document["metadata"]["name"], name);
        let files = document["spec"]["files"].as_array().unwrap();
        assert_eq!(
            files[0],
            json!({"path": "Dockerfile", "size": 31, "text": "FROM scratch\nLABEL a=b \\\n  c=d\n"})
        );
        assert_eq!(files[1], json!({"path": "logo.png", "size": 1}));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
        assert_eq!(files[2]["documents"], json!([namespace]));
        assert_eq!(files[3]["error"]["line"], 2);
        assert_eq!((&files[4]["path"], &files[4]["size"]), (&json!("manifests/up"), &json!(0)));
        assert!(files[4]["error"]["message"].as_str().unwrap().starts_with("a symbolic link"));
        assert_eq!(files[5]["documents"], json!([{"annotations": {}}]));
        assert_eq!(document["spec"]["directories"], json!(["manifests", "metadata"]));
        assert_eq!(document["spec"]["links"], json!(["manifests/up"]));
        assert_eq!(subject.unreadable.len(), 2);

        let manifest = object(&subject.requests[1]);
        assert_eq!(subject.requests.len(), 2);
        assert_eq!(manifest["object"], namespace);
        assert_eq!(
            manifest["resource"],
            json!({"group": "", "version": "v1", "resource": "namespaces"})
        );
        assert_eq!(subject.requests[1].prefix, "spec.files[2].documents[0]");

        let mut resolver = LocationResolver::new(&subject.requests[0].object);
        let mut at = |field: &str| resolver.resolve(field).map(|p| (p.line, p.column, p.excerpt));
        assert_eq!(
            at("spec.files[2].documents[0].metadata.name"),
            Some((4, 3, "  name: x".to_owned()))
        );
        assert_eq!(at("spec.files[3].error").unwrap().0, 2);
        assert_eq!(at("spec.files[0]").unwrap(), (1, 1, "FROM scratch".to_owned()));
        assert_eq!(at("spec.files[0].text[2]").unwrap(), (3, 3, "  c=d".to_owned()));
        assert_eq!(at("spec.files[9]"), None);
        assert_eq!(at("spec.directories"), None);
    }

    #[test]
    fn baseline_becomes_the_old_object() {
        let old = fixture("bundle-valid");
        let subject =
            load(&fixture("bundle-broken"), BundleKind::Registry, Some(&old), &Reader::default())
                .unwrap();
        let review = object(&subject.requests[0]);
        assert_eq!(review["operation"], "UPDATE");
        assert_eq!(review["oldObject"]["metadata"]["name"], "bundle-valid");
        let of = |kind: &str| object(subject.requests.iter().find(|r| r.kind == kind).unwrap());
        assert_eq!(of("CustomResourceDefinition")["operation"], "UPDATE");
        assert_eq!(of("ClusterServiceVersion")["operation"], "CREATE");
    }

    #[test]
    fn fixtures_load_as_bundles() {
        let subject =
            load(&fixture("bundle-valid"), BundleKind::Registry, None, &Reader::default()).unwrap();
        assert!(subject.unreadable.is_empty(), "{:?}", subject.unreadable);
        let kinds: Vec<_> = subject.requests.iter().map(|r| r.kind.as_str()).collect();
        assert_eq!(kinds, ["RegistryBundle", "CustomResourceDefinition", "ClusterServiceVersion"]);
        let subject =
            load(&fixture("plain-valid"), BundleKind::Plain, None, &Reader::default()).unwrap();
        assert!(subject.unreadable.is_empty() && subject.requests.len() > 3);
        assert!(load(&fixture("missing"), BundleKind::Plain, None, &Reader::default()).is_err());
    }
}
