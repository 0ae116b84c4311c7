//! A file-based catalog as reviews, one for each package.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use opgate_input::read::Reader;

use crate::catalog::{self, Package};
use crate::directory;
use crate::json::{GROUP, VERSION};
use crate::reviews::{Request, RequestObject, Subject};

/// Reads a catalog.
///
/// # Errors
/// Fails if the directory is unreadable.
pub(super) fn load(
    root: &Path,
    baseline: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Vec<Subject>> {
    let source = opgate_platform::files::display_path(root);
    // A missing path must not count as an empty catalog.
    directory::directory_name(root)?;
    let mut old: BTreeMap<String, Arc<Package>> = BTreeMap::new();
    if let Some(baseline) = baseline {
        // A missing path, or files that cannot be read, must not count as nothing published.
        directory::directory_name(baseline)?;
        let published = catalog::read(baseline, reader)?;
        let broken = published.iter().flat_map(|package| &package.unreadable);
        let lines: Vec<_> = broken.filter_map(|file| file.error_line()).collect();
        anyhow::ensure!(lines.is_empty(), "{}", lines.join("\n"));
        old.extend(published.into_iter().map(|package| (package.name.clone(), package)));
    }
    let subject = |package: Arc<Package>| Subject {
        source: source.clone(),
        kind: catalog::KIND.to_owned(),
        name: package.name.clone(),
        namespace: None,
        unreadable: package.unreadable.clone(),
        not_evaluated: None,
        requests: vec![Request {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: catalog::KIND.to_owned(),
            resource: "filebasedcatalogs".to_owned(),
            namespace: String::new(),
            name: package.name.clone(),
            old: old.get(&package.name).cloned().map(RequestObject::Package),
            object: RequestObject::Package(package),
            prefix: String::new(),
            is_stored: false,
            recorded: None,
            template: None,
        }],
    };
    let packages = catalog::read(root, reader)?;
    // Probably the wrong directory: a pipeline must not pass because of it.
    anyhow::ensure!(
        packages.iter().any(|package| !package.blobs.is_empty() || !package.unreadable.is_empty()),
        "{source}: no catalog in it: there is no blob with schema"
    );
    for gone in missing_packages(&old, &packages) {
        tracing::warn!("{source}: the package {gone:?} is not there any more");
    }
    Ok(packages.into_iter().map(subject).collect())
}

/// Returns the names of packages that were published and are missing now. If a file cannot be read, which is
/// reported, any of them can be in it.
fn missing_packages(
    old: &BTreeMap<String, Arc<Package>>,
    packages: &[Arc<Package>],
) -> Vec<String> {
    if packages.iter().any(|package| !package.unreadable.is_empty()) {
        return Vec::new();
    }
    let names: BTreeSet<_> = packages.iter().map(|package| &package.name).collect();
    let gone = old.keys().filter(|name| !name.is_empty() && !names.contains(name));
    gone.cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::reviews::LocationResolver;
    use crate::testing::{TempDirectory, fixture};

    fn object(subject: &Subject) -> Value {
        serde_json::from_str::<Value>(&subject.requests[0].review()).unwrap()["request"].clone()
    }

    #[test]
    fn blobs_are_grouped_by_package() {
        let directory = TempDirectory::new(&[
            (
                "a/catalog.json",
                "{\"schema\": \"olm.package\", \"name\": \"a\"}{\"schema\": \"olm.channel\", \"package\": \"b\",\n \"name\": \"stable\"}",
            ),
            (
                "b.yaml",
                "---\nschema: olm.package\nname: b\n---\nSchema: olm.bundle\nPackage: a\nname: a.v1\n",
            ),
            ("c/bad.yaml", "a: [\n"),
            ("c/README.md", "text\n"),
            ("c/.indexignore", "*.txt\n"),
            ("c/x.txt", ":::"),
            ("c/twice.json", "{\"schema\": \"x\",\n \"value\": {\"a\": 1, \"a\": 2}}"),
            ("free.yaml", "schema: x\n"),
            ("link-target/.indexignore", "*\n"),
            ("link-target/y", "{"),
        ]);
        let subjects = load(directory.path(), None, &Reader::default()).unwrap();
        assert_eq!(
            object(&subjects[2])["object"]["spec"]["directories"],
            json!([{"path": "", "packages": ["a", "b"]}, {"path": "a", "packages": ["a", "b"]}])
        );
        let names: Vec<_> = subjects.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["a", "b", ""]);
        let a = object(&subjects[0]);
        assert_eq!(a["resource"]["resource"], "filebasedcatalogs");
        assert_eq!(
            a["object"]["spec"],
            json!({"package": "a", "packages": ["a", "b"], "blobs": [
                {"file": "a/catalog.json", "index": 0, "value": {"schema": "olm.package", "name": "a"}},
                {"file": "b.yaml", "index": 1, "value": {"Schema": "olm.bundle", "Package": "a", "name": "a.v1"}},
            ]})
        );
        let b = object(&subjects[1]);
        assert_eq!(b["object"]["spec"]["blobs"][0]["index"], 1);
        let rest = object(&subjects[2]);
        let blobs = &rest["object"]["spec"]["blobs"];
        assert_eq!(blobs[0]["value"], json!({"schema": "x", "value": {"a": 2}}));
        assert_eq!(blobs[1]["file"], "free.yaml");
        let files = rest["object"]["spec"]["files"].as_array().unwrap();
        assert_eq!(files[0]["path"], "c/README.md");
        assert!(files[0]["error"]["message"].as_str().unwrap().starts_with("not a blob: "));
        assert_eq!(files[1]["path"], "c/bad.yaml");
        assert_eq!(
            files[2],
            json!({"path": "c/twice.json", "twice": {
                "line": 2, "column": 20, "message": "duplicate mapping key: a",
            }})
        );
        assert_eq!(files.len(), 3);

        let mut resolver = LocationResolver::new(&subjects[0].requests[0].object);
        let place = resolver.resolve("spec.blobs[1].value.name").unwrap();
        assert!(place.file.ends_with("/b.yaml"));
        assert_eq!((place.line, place.column), (7, 1));
        assert_eq!(resolver.resolve("spec.blobs[1].file").unwrap().line, 5);
        assert_eq!(resolver.resolve("spec.package"), None);
        let mut resolver = LocationResolver::new(&subjects[1].requests[0].object);
        let place = resolver.resolve("spec.blobs[0].value.name").unwrap();
        assert_eq!((place.line, place.column), (2, 2));
        let mut resolver = LocationResolver::new(&subjects[2].requests[0].object);
        assert_eq!(
            resolver.resolve("spec.files[1]").unwrap().file,
            subjects[2].unreadable[1].display_path
        );
    }

    #[test]
    fn files_are_read_like_upstream() {
        let directory = TempDirectory::new(&[
            ("a.json", "schema: olm.package\nname: a\n"),
            ("a2.json", "{\"schema\": \"x\",\n\"name\": \"b\", \"name\": \"c\"}"),
            ("a3.json", "{\"schema\": \"x\",}\n"),
            ("b.json", "{\"schema\": \"olm.package\", \"name\": \"b\"}\n---\nschema: x\n"),
            ("c.yaml", "# comment\n---\nschema: olm.package\nname: c\n---\n\n"),
            ("d.yaml", "---\nschema: olm.package\nname: d\n---\n"),
            ("e.yaml", "schema: x\n--- {schema: y}\n"),
            ("f.yaml", "# comment\n---\nschema: olm.template.basic\nentries: []\n"),
            ("g.yaml", "schema: x\nvalue: {a: 1, a: {b: 2}}\n"),
        ]);
        let subjects = load(directory.path(), None, &Reader::default()).unwrap();
        let names: Vec<_> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", ""]);
        let spec = object(&subjects[4])["object"]["spec"].clone();
        let twice = |line: u64, column: u64, name: &str| {
            let message = format!("duplicate mapping key: {name}");
            json!({"line": line, "column": column, "message": message})
        };
        assert_eq!(
            spec["files"],
            json!([
                {"path": "e.yaml", "error": {
                    "line": 2, "column": 1,
                    "message": "invalid Yaml document separator: {schema: y}",
                }},
                {"path": "a2.json", "twice": twice(2, 14, "name")},
                {"path": "c.yaml", "empty": {"line": 1}},
                {"path": "g.yaml", "twice": twice(2, 15, "a")},
            ])
        );
        assert_eq!(spec["blobs"][4]["value"], json!({"schema": "x", "value": {"a": {"b": 2}}}));
        assert_eq!(subjects[4].unreadable.len(), 1);
        let mut resolver = LocationResolver::new(&subjects[4].requests[0].object);
        for (field, name, line, column) in [
            ("spec.files[0].error", "e.yaml", 2, 1),
            ("spec.files[1].twice", "a2.json", 2, 14),
            ("spec.files[2].text[0]", "c.yaml", 1, 1),
            ("spec.files[3].twice", "g.yaml", 2, 15),
        ] {
            let place = resolver.resolve(field).unwrap();
            assert!(place.file.ends_with(name), "{field}");
            assert_eq!((place.line, place.column), (line, column), "{field}");
        }
        assert_eq!(resolver.resolve("spec.files[4].twice"), None);
    }

    #[test]
    fn empty_catalog_is_an_error_and_baseline_is_matched() {
        let directory = TempDirectory::empty();
        let error = load(directory.path(), None, &Reader::default()).unwrap_err().to_string();
        assert!(error.contains("no catalog in it"), "{error}");
        directory.write("a.yaml", "schema: olm.package\nname: a\n");
        let old = TempDirectory::new(&[("x.yaml", "schema: olm.package\nname: a\nicon: 1\n")]);
        let subjects = load(directory.path(), Some(old.path()), &Reader::default()).unwrap();
        let review = object(&subjects[0]);
        assert_eq!(review["operation"], "UPDATE");
        assert_eq!(review["oldObject"]["spec"]["blobs"][0]["value"]["icon"], 1);
        assert!(load(&directory.path().join("missing"), None, &Reader::default()).is_err());
    }

    #[test]
    fn missing_packages_are_gone_unless_a_file_is_unreadable() {
        let packages = |files: &[(&str, &str)]| {
            let packages =
                catalog::read(TempDirectory::new(files).path(), &Reader::default()).unwrap();
            packages.into_iter().map(|package| (package.name.clone(), package)).collect()
        };
        let [a, b] = ["a", "b"].map(|name| format!("schema: olm.package\nname: {name}\n"));
        let old: BTreeMap<_, _> = packages(&[("a.yaml", &a), ("b.yaml", &b)]);
        for (files, expected) in [
            (vec![("a.yaml", a.as_str()), ("b.yaml", &b)], vec![]),
            (vec![("a.yaml", a.as_str())], vec!["b"]),
            (vec![("c.yaml", "schema: x\n")], vec!["a", "b"]),
            (vec![("a.yaml", a.as_str()), ("b.yaml", "a: [\n")], vec![]),
        ] {
            let new: BTreeMap<_, _> = packages(&files);
            let new: Vec<_> = new.into_values().collect();
            assert_eq!(missing_packages(&old, &new), expected, "{files:?}");
        }
    }

    #[test]
    fn fixtures_load_as_catalogs() {
        let subjects = load(&fixture("catalog-valid"), None, &Reader::default()).unwrap();
        assert_eq!(subjects.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["etcd"]);
        let subjects = load(&fixture("catalog-broken"), None, &Reader::default()).unwrap();
        assert_eq!(subjects.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["etcd", ""]);
        assert_eq!(subjects[1].unreadable.len(), 1);
    }
}
