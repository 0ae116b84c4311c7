//! A file-based catalog: blobs from all files of a folder, one document for each package.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use opgate_document::{Document, Kind, Text};

use super::content::{Broken, Content, Expect, File};
use super::ignore::{self, Ignore};
use super::subject::{GROUP, Layout, Out, Request, Step, Subject, VERSION, error, list, quoted};
use super::{bundle, folder, parallel, unique};
use opgate_input::read::{At, Reader};

const KIND: &str = "FileBasedCatalog";

/// The blobs of a package, or those of none.
#[derive(Debug)]
pub struct Package {
    name: String,
    /// Names of all packages, sorted: a list that all share.
    packages: Arc<Document>,
    /// File, and position in it.
    blobs: Vec<(Arc<File>, usize)>,
    /// Files that could not be read; only where the name is empty.
    broken: Vec<Arc<File>>,
    /// Folders with blobs of several packages, and which; only where the name is empty.
    shared: Vec<(String, Vec<String>)>,
}

/// What a blob says about itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    schema: String,
    package: String,
    name: String,
}

impl Head {
    /// None where it is not an object. Names are matched in any case, as Go does.
    fn of(blob: &Document) -> Option<Self> {
        let blob = blob.root();
        if blob.kind() != Kind::Object {
            return None;
        }
        let text = |name: &str| {
            let mut members = blob.members();
            let found = blob.get(&format!("/{name}")).or_else(|| {
                members.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            });
            found.and_then(|value| value.text()).unwrap_or_default().to_owned()
        };
        Some(Self { schema: text("schema"), package: text("package"), name: text("name") })
    }

    fn is_package(&self) -> bool {
        self.schema == "olm.package"
    }
}

/// Reads all blobs, by package in the order of names; those of no package come last.
fn read(root: &Path, reader: &Reader) -> anyhow::Result<Vec<Arc<Package>>> {
    let files = if root.is_dir() {
        files(root, reader)?
    } else {
        parallel::map(&[root], |root| file(root, reader))
    };
    let mut names = BTreeSet::new();
    let mut groups: BTreeMap<String, Vec<(Arc<File>, usize)>> = BTreeMap::new();
    let mut broken = Vec::new();
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, heads) in files {
        let stray = heads.iter().position(Option::is_none);
        let file = Arc::new(match stray {
            Some(index) => without_objects(file, index),
            None => file,
        });
        if file.broken().is_some() {
            broken.push(file);
            continue;
        }
        for (index, head) in heads.into_iter().flatten().enumerate() {
            let package = if head.is_package() {
                names.insert(head.name.clone());
                head.name
            } else {
                head.package
            };
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            if !package.is_empty() {
                folders.entry(folder.to_owned()).or_default().insert(package.clone());
            }
            groups.entry(package).or_default().push((file.clone(), index));
        }
    }
    names.remove("");
    let mut packages = String::new();
    list(&mut packages, names, |out, name| out.push_str(&quoted(&name)));
    let end = packages.len();
    let packages = Text::new(packages).map(Arc::new).unwrap_or_default();
    let packages = Arc::new(Document::part(packages, 0..end));
    let rest = groups.remove("").unwrap_or_default();
    let shared = folders.into_iter().filter(|(_, packages)| packages.len() > 1);
    let shared: Vec<_> =
        shared.map(|(folder, packages)| (folder, packages.into_iter().collect())).collect();
    let package = |(name, blobs)| Package {
        name,
        packages: packages.clone(),
        blobs,
        broken: Vec::new(),
        shared: Vec::new(),
    };
    let mut all: Vec<_> = groups.into_iter().map(package).collect();
    // A catalog in which there is nothing is judged as well.
    if !rest.is_empty() || !broken.is_empty() || !shared.is_empty() || all.is_empty() {
        all.push(Package { broken, shared, ..package((String::new(), rest)) });
    }
    Ok(all.into_iter().map(Arc::new).collect())
}

/// A file, and what its blobs say about themselves.
type Read = (File, Vec<Option<Head>>);

fn file(path: &Path, reader: &Reader) -> Read {
    let shown = path.display().to_string();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    with_heads(File::read(At::Named(path), name, shown, Expect::Documents, reader))
}

fn with_heads(file: File) -> Read {
    let file = unique::checked(file);
    let documents = file.documents();
    let heads = documents.map(|all| all.documents().map(|blob| Head::of(&blob)).collect());
    (file, heads.unwrap_or_default())
}

/// Every file that is not ignored, whatever its name, as `opm` does.
fn files(root: &Path, reader: &Reader) -> anyhow::Result<Vec<Read>> {
    let mut folder = folder::walk(root)?;
    let ignored = Ignore::of(&folder, reader)
        .map_err(|(path, why)| anyhow::anyhow!("{}: {why}", super::shown(root, &path)))?;
    folder.files.retain(|entry| {
        entry.path.rsplit('/').next() != Some(ignore::NAME) && !ignored.ignores_entry(entry)
    });
    let read = |entry: &folder::Entry| with_heads(entry.read(&folder, Expect::Documents, reader));
    Ok(parallel::map(&folder.files, read))
}

/// A file in which something is no object cannot be read as blobs.
fn without_objects(file: File, index: usize) -> File {
    let Content::Documents(documents) = &file.content else { return file };
    let start = documents.start(index);
    let (line, column) = super::place::line_and_column(&documents.text, start);
    let why = format!(
        "not a blob: an object with schema is expected; list files that are none in {}",
        ignore::NAME
    );
    let text = Some((**documents.text).into());
    File { content: Content::Broken(Broken { line, column, why, text }), ..file }
}

impl Package {
    pub(super) fn write(&self, out: &mut Out) {
        let name = quoted(&self.name);
        // Writing to a text does not fail.
        let _ = write!(
            out.json,
            r#"{{"apiVersion":"{GROUP}/{VERSION}","kind":"{KIND}","metadata":{{"name":{name}}},"spec":{{"package":{name},"packages":"#
        );
        out.part(self.packages.clone());
        out.json.push_str(",\"blobs\":[");
        for (position, (file, index)) in self.blobs.iter().enumerate() {
            let (comma, path) = (if position > 0 { "," } else { "" }, quoted(&file.path));
            let _ = write!(out.json, r#"{comma}{{"file":{path},"index":{index},"value":"#);
            let blob = file.documents().map(|documents| documents.document(*index));
            out.part(Arc::new(blob.unwrap_or_default()));
            out.json.push('}');
        }
        out.json.push(']');
        if self.name.is_empty() {
            let out = &mut out.json;
            out.push_str(",\"files\":");
            list(out, &self.broken, |out, file| {
                let _ = write!(out, r#"{{"path":{}"#, quoted(&file.path));
                error(out, file);
                out.push('}');
            });
            out.push_str(",\"directories\":");
            list(out, &self.shared, |out, (path, packages)| {
                let _ = write!(out, r#"{{"path":{},"packages":"#, quoted(path));
                list(out, packages, |out, package| out.push_str(&quoted(package)));
                out.push('}');
            });
        }
        out.json.push_str("}}");
    }

    pub(super) fn step<'f, 't>(&'f self, field: &'t [String]) -> Option<Step<'f, 't>> {
        let [spec, member, position, rest @ ..] = field else { return None };
        let position: usize = position.parse().ok()?;
        match (spec.as_str(), member.as_str()) {
            ("spec", "blobs") => {
                let (file, index) = self.blobs.get(position)?;
                let tokens = match rest {
                    [value, rest @ ..] if value == "value" => rest,
                    _ => &[],
                };
                Some(Step { file, document: Some(*index), tokens })
            }
            ("spec", "files") => {
                Some(Step { file: self.broken.get(position)?, document: None, tokens: rest })
            }
            _ => None,
        }
    }
}

/// Reads a catalog.
///
/// # Errors
/// Where the folder cannot be read.
pub(super) fn load(
    root: &Path,
    since: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Vec<Subject>> {
    let source = root.display().to_string();
    // A missing path must not read as an empty catalog.
    bundle::name(root)?;
    let mut old: BTreeMap<String, Arc<Package>> = BTreeMap::new();
    if let Some(since) = since {
        // A missing path, or files that cannot be read, must not read as nothing published.
        bundle::name(since)?;
        let published = read(since, reader)?;
        let broken = published.iter().flat_map(|package| &package.broken);
        let lines: Vec<_> = broken.filter_map(|file| file.complaint()).collect();
        anyhow::ensure!(lines.is_empty(), "{}", lines.join("\n"));
        old.extend(published.into_iter().map(|package| (package.name.clone(), package)));
    }
    let subject = |package: Arc<Package>| Subject {
        source: source.clone(),
        kind: KIND.to_owned(),
        name: package.name.clone(),
        broken: package.broken.clone(),
        requests: vec![Request {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: KIND.to_owned(),
            resource: "filebasedcatalogs".to_owned(),
            namespace: String::new(),
            name: package.name.clone(),
            old: old.get(&package.name).cloned().map(Layout::Package),
            object: Layout::Package(package),
            prefix: String::new(),
        }],
    };
    let packages = read(root, reader)?;
    // Most likely the wrong folder: a pipeline must not pass because of it.
    anyhow::ensure!(
        packages.iter().any(|package| !package.blobs.is_empty() || !package.broken.is_empty()),
        "{source}: no catalog in it: there is no blob with schema"
    );
    for gone in gone(&old, &packages) {
        tracing::warn!("{source}: the package {gone:?} is not there any more");
    }
    Ok(packages.into_iter().map(subject).collect())
}

/// Names of packages that were published and are not there any more. Where a file cannot be read,
/// which is reported, any of them may be in it.
fn gone(old: &BTreeMap<String, Arc<Package>>, packages: &[Arc<Package>]) -> Vec<String> {
    if packages.iter().any(|package| !package.broken.is_empty()) {
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
    use crate::subject::Resolver;
    use crate::testing::{Temporary, fixture};

    fn object(subject: &Subject) -> Value {
        serde_json::from_str::<Value>(&subject.requests[0].review()).unwrap()["request"].clone()
    }

    #[test]
    fn blobs_are_grouped_by_package() {
        let folder = Temporary::new(&[
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
        let subjects = load(folder.path(), None, &Reader::default()).unwrap();
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
        assert_eq!(rest["object"]["spec"]["blobs"][0]["file"], "free.yaml");
        let files = rest["object"]["spec"]["files"].as_array().unwrap();
        assert_eq!(files[0]["path"], "c/README.md");
        assert!(files[0]["error"]["message"].as_str().unwrap().starts_with("not a blob: "));
        assert_eq!(files[1]["path"], "c/bad.yaml");
        assert_eq!(
            files[2],
            json!({"path": "c/twice.json", "error": {
                "line": 2, "column": 20, "message": "not JSON: duplicate mapping key: a",
            }})
        );
        assert_eq!(files.len(), 3);

        let mut places = Resolver::new(&subjects[0].requests[0].object);
        let place = places.place("spec.blobs[1].value.name").unwrap();
        assert!(place.file.ends_with("/b.yaml"));
        assert_eq!((place.line, place.column), (7, 1));
        assert_eq!(places.place("spec.blobs[1].file").unwrap().line, 5);
        assert_eq!(places.place("spec.package"), None);
        let mut places = Resolver::new(&subjects[1].requests[0].object);
        let place = places.place("spec.blobs[0].value.name").unwrap();
        assert_eq!((place.line, place.column), (2, 2));
        let mut places = Resolver::new(&subjects[2].requests[0].object);
        assert_eq!(places.place("spec.files[1]").unwrap().file, subjects[2].broken[1].shown);
    }

    #[test]
    fn an_empty_catalog_is_none_and_old_packages_are_found() {
        let folder = Temporary::empty();
        let error = load(folder.path(), None, &Reader::default()).unwrap_err().to_string();
        assert!(error.contains("no catalog in it"), "{error}");
        folder.write("a.yaml", "schema: olm.package\nname: a\n");
        let old = Temporary::new(&[("x.yaml", "schema: olm.package\nname: a\nicon: 1\n")]);
        let subjects = load(folder.path(), Some(old.path()), &Reader::default()).unwrap();
        let review = object(&subjects[0]);
        assert_eq!(review["operation"], "UPDATE");
        assert_eq!(review["oldObject"]["spec"]["blobs"][0]["value"]["icon"], 1);
        assert!(load(&folder.path().join("missing"), None, &Reader::default()).is_err());
    }

    #[test]
    fn packages_are_gone_unless_they_may_be_in_a_file_that_cannot_be_read() {
        let packages = |files: &[(&str, &str)]| {
            let packages = read(Temporary::new(files).path(), &Reader::default()).unwrap();
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
            assert_eq!(gone(&old, &new), expected, "{files:?}");
        }
    }

    #[test]
    fn the_fixtures_are_catalogs() {
        let subjects = load(&fixture("catalog-valid"), None, &Reader::default()).unwrap();
        assert_eq!(subjects.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["etcd"]);
        let subjects = load(&fixture("catalog-broken"), None, &Reader::default()).unwrap();
        assert_eq!(subjects.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["etcd", ""]);
        assert_eq!(subjects[1].broken.len(), 1);
    }
}
