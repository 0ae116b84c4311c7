//! A folder as a `RegistryBundle` or a `PlainBundle`: one document with every file in it, and the
//! manifests once more as the objects that they will become.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::compressed::{self, Size};
use super::content::{Content, Expect, File};
use super::folder;
use super::manifest;
use super::parallel;
use super::subject::{GROUP, Layout, Request, Step, Subject, VERSION, error, list, quoted};
use super::template;
use super::unique;
use opgate_input::read::Reader;

/// What the folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleKind {
    /// `registry+v1`: manifests and metadata.
    Registry,
    /// `plain+v0`: manifests.
    Plain,
}

impl BundleKind {
    fn kind(self) -> &'static str {
        match self {
            Self::Registry => "RegistryBundle",
            Self::Plain => "PlainBundle",
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::Registry => "registrybundles",
            Self::Plain => "plainbundles",
        }
    }
}

/// A bundle, read.
#[derive(Debug)]
pub struct Bundle {
    kind: BundleKind,
    name: String,
    files: Vec<Arc<File>>,
    directories: Vec<String>,
    links: Vec<String>,
    /// What OLM unpacks; only of `registry+v1`, and where every file can be read.
    compressed: Option<Size>,
}

impl Bundle {
    fn read(root: &Path, kind: BundleKind, reader: &Reader) -> anyhow::Result<Self> {
        let folder = folder::walk(root)?;
        let read = |entry: &folder::Entry| {
            Arc::new(unique::checked(entry.read(&folder, Expect::ByName, reader)))
        };
        let files = parallel::map(&folder.files, read);
        let is_unpacked = kind == BundleKind::Registry;
        let compressed = is_unpacked.then(|| compressed::size(&folder)).flatten();
        Ok(Self {
            kind,
            name: name(root)?,
            files,
            directories: folder.directories,
            links: folder.links,
            compressed,
        })
    }

    /// The manifests among the files, each with its path in the document.
    fn objects(&self) -> Vec<Request> {
        // The legacy format has no such folder, but one for each version.
        let flat = self.directories.iter().any(|folder| folder == "manifests");
        let mut found = Vec::new();
        for (position, file) in self.files.iter().enumerate() {
            if flat && !file.path.starts_with("manifests/") {
                continue;
            }
            for index in 0..file.documents().map_or(0, super::content::Documents::len) {
                for mut request in manifest::objects(file, index).unwrap_or_default() {
                    let inner = request.prefix;
                    request.prefix = format!("spec.files[{position}].documents[{index}]{inner}");
                    found.push(request);
                }
            }
        }
        found
    }

    pub(super) fn write(&self, out: &mut String) {
        let (kind, name) = (self.kind.kind(), quoted(&self.name));
        // Writing to a text does not fail.
        let _ = write!(
            out,
            r#"{{"apiVersion":"{GROUP}/{VERSION}","kind":"{kind}","metadata":{{"name":{name}}},"spec":{{"files":"#
        );
        list(out, &self.files, |out, file| {
            let _ = write!(out, r#"{{"path":{},"size":{}"#, quoted(&file.path), file.size);
            match &file.content {
                Content::Documents(documents) => {
                    out.push_str(",\"documents\":");
                    list(out, documents.all(), String::push_str);
                }
                Content::Broken(_) => error(out, file),
                Content::Text(text) => {
                    let _ = write!(out, ",\"text\":{}", quoted(text));
                }
                Content::Other => {}
            }
            out.push('}');
        });
        for (member, paths) in [("directories", &self.directories), ("links", &self.links)] {
            let _ = write!(out, ",\"{member}\":");
            list(out, paths, |out, path| out.push_str(&quoted(path)));
        }
        if let Some(Size::Exactly(size) | Size::MoreThan(size)) = self.compressed {
            let _ = write!(out, ",\"compressedSize\":{size}");
        }
        if let Some(Size::MoreThan(_)) = self.compressed {
            out.push_str(",\"compressedSizeIsMore\":true");
        }
        out.push_str("}}");
    }

    pub(super) fn step<'f, 't>(&'f self, field: &'t [String]) -> Option<Step<'f, 't>> {
        let [spec, files, position, rest @ ..] = field else { return None };
        if spec != "spec" || files != "files" {
            return None;
        }
        let file = self.files.get(position.parse::<usize>().ok()?)?;
        let (document, tokens) = match rest {
            [member, index, rest @ ..] if member == "documents" => (index.parse().ok(), rest),
            _ => (None, rest),
        };
        Some(Step { file, document, tokens })
    }
}

/// The name of a folder, also of `.`.
pub(super) fn name(root: &Path) -> anyhow::Result<String> {
    let full = root.canonicalize().with_context(|| root.display().to_string())?;
    Ok(full.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Reads a bundle.
///
/// # Errors
/// Where the folder cannot be read.
pub(super) fn load(
    root: &Path,
    kind: BundleKind,
    since: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Subject> {
    anyhow::ensure!(root.is_dir(), "{}: not a folder: name that of the bundle", root.display());
    let bundle = Arc::new(Bundle::read(root, kind, reader)?);
    let old = since.map(|old| Bundle::read(old, kind, reader).map(Arc::new)).transpose()?;
    // What cannot be read must not read as nothing published.
    let unread = old.iter().flat_map(|old| &old.files).filter_map(|file| template::complaint(file));
    let unread: Vec<_> = unread.collect();
    anyhow::ensure!(unread.is_empty(), "{}", unread.join("\n"));
    let mut requests = vec![Request {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        kind: kind.kind().to_owned(),
        resource: kind.resource().to_owned(),
        namespace: String::new(),
        name: bundle.name.clone(),
        object: Layout::Bundle(bundle.clone()),
        old: old.clone().map(Layout::Bundle),
        prefix: String::new(),
    }];
    let mut objects = bundle.objects();
    if let Some(old) = &old {
        manifest::pair(&mut objects, old.objects());
    }
    requests.extend(objects);
    let broken = bundle.files.iter().filter(|file| file.broken().is_some()).cloned().collect();
    let source = root.display().to_string();
    Ok(Subject {
        source,
        kind: kind.kind().to_owned(),
        name: bundle.name.clone(),
        requests,
        broken,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::subject::Resolver;
    use crate::testing::{Temporary, fixture};

    fn object(request: &Request) -> Value {
        serde_json::from_str::<Value>(&request.review()).unwrap()["request"].clone()
    }

    #[test]
    fn a_bundle_is_one_document_with_all_its_files() {
        let folder = Temporary::new(&[
            ("manifests/a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n---\n\n"),
            ("manifests/bad.yaml", "a:\n\tb\n"),
            ("metadata/annotations.yaml", "annotations: {}\n"),
            ("Dockerfile", "FROM scratch\nLABEL a=b \\\n  c=d\n"),
            ("logo.png", "\0"),
        ]);
        std::os::unix::fs::symlink("..", folder.path().join("manifests/up")).unwrap();
        let subject = load(folder.path(), BundleKind::Registry, None, &Reader::default()).unwrap();
        let review = object(&subject.requests[0]);
        assert_eq!(review["operation"], "CREATE");
        assert_eq!(review["resource"]["resource"], "registrybundles");
        let document = &review["object"];
        let name = folder.path().file_name().unwrap().to_str().unwrap();
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
        assert_eq!(subject.broken.len(), 2);

        let manifest = object(&subject.requests[1]);
        assert_eq!(subject.requests.len(), 2);
        assert_eq!(manifest["object"], namespace);
        assert_eq!(
            manifest["resource"],
            json!({"group": "", "version": "v1", "resource": "namespaces"})
        );
        assert_eq!(subject.requests[1].prefix, "spec.files[2].documents[0]");

        let mut places = Resolver::new(&subject.requests[0].object);
        let mut at = |field: &str| places.place(field).map(|p| (p.line, p.column, p.excerpt));
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
    fn what_was_published_is_the_old_object() {
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
    fn the_fixtures_are_bundles() {
        let subject =
            load(&fixture("bundle-valid"), BundleKind::Registry, None, &Reader::default()).unwrap();
        assert!(subject.broken.is_empty(), "{:?}", subject.broken);
        let kinds: Vec<_> = subject.requests.iter().map(|r| r.kind.as_str()).collect();
        assert_eq!(kinds, ["RegistryBundle", "CustomResourceDefinition", "ClusterServiceVersion"]);
        let subject =
            load(&fixture("plain-valid"), BundleKind::Plain, None, &Reader::default()).unwrap();
        assert!(subject.broken.is_empty() && subject.requests.len() > 3);
        assert!(load(&fixture("missing"), BundleKind::Plain, None, &Reader::default()).is_err());
    }
}
