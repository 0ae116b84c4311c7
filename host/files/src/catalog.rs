//! A file-based catalog: blobs from all files of a folder, one document for each package.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use opgate_document::{Document, Kind, Text};

use super::content::{Broken, Content, Expect, File};
use super::field::Step;
use super::ignore::{self, Ignore};
use super::json::{GROUP, Out, VERSION, list, problem, quoted};
use super::{folder, parallel, unique, waivers};
use opgate_input::read::{At, Reader};
use opgate_text::lines::line_and_column;

pub(super) const KIND: &str = "FileBasedCatalog";

/// The blobs of a package, or those without a package.
#[derive(Debug)]
pub struct Package {
    pub(super) name: String,
    /// Names of all packages, sorted; a shared list.
    packages: Arc<Document>,
    /// File, and position in it.
    pub(super) blobs: Vec<(Arc<File>, usize)>,
    /// Files that could not be read; only if the name is empty.
    pub(super) broken: Vec<Arc<File>>,
    /// Folders with blobs of several packages, and their names; only if the name is empty.
    shared: Vec<(String, Vec<String>)>,
}

/// The description of a blob.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    schema: String,
    package: String,
    name: String,
}

impl Head {
    /// None if it is not an object. The case of names does not matter, as in Go.
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

/// Reads all blobs, by package in the order of names. Those without a package come last.
pub(super) fn read(root: &Path, reader: &Reader) -> anyhow::Result<Vec<Arc<Package>>> {
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
    // An empty catalog is evaluated as well.
    if !rest.is_empty() || !broken.is_empty() || !shared.is_empty() || all.is_empty() {
        all.push(Package { broken, shared, ..package((String::new(), rest)) });
    }
    Ok(all.into_iter().map(Arc::new).collect())
}

/// A file, and the descriptions of its blobs.
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

/// Every file that is not ignored, whatever its name, as in `opm`.
fn files(root: &Path, reader: &Reader) -> anyhow::Result<Vec<Read>> {
    let mut folder = folder::walk(root)?;
    let ignored = Ignore::of(&folder, reader)
        .map_err(|(path, why)| anyhow::anyhow!("{}: {why}", folder::shown(root, &path)))?;
    if waivers::is_in(root) && !ignored.ignores(waivers::NAME) {
        let (file, list) = (folder::shown(root, waivers::NAME), ignore::NAME);
        tracing::warn!("{file}: opm takes it for a blob: list it in {list}");
    }
    folder.files.retain(|entry| {
        entry.path.rsplit('/').next() != Some(ignore::NAME) && !ignored.ignores_entry(entry)
    });
    let read = |entry: &folder::Entry| with_heads(entry.read(&folder, Expect::Documents, reader));
    Ok(parallel::map(&folder.files, read))
}

/// A file with a value that is not an object cannot be read as blobs.
fn without_objects(file: File, index: usize) -> File {
    let Content::Documents(documents) = &file.content else { return file };
    let start = documents.start(index);
    let (line, column) = line_and_column(&documents.text, start);
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
                if let Some(broken) = file.broken() {
                    problem(out, "error", broken);
                }
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
