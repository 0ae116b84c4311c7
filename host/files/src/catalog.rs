//! A file-based catalog: blobs from all files of a directory, one document for each package.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use opgate_document::{Document, Kind, Text};

use super::content::{Content, Documents, File, ParseMode, ReadError};
use super::field::FieldTarget;
use super::ignore::{self, IgnorePatterns};
use super::json::{DocumentWriter, GROUP, VERSION, json_string, write_list, write_problem};
use super::kinds::is_catalog_template;
use super::{directory, duplicate_keys, parallel, stream, waivers};
use opgate_input::read::{FilePath, Reader};
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
    pub(super) unreadable: Vec<Arc<File>>,
    /// Files that were read although something is wrong with them; only if the name is empty.
    issues: Vec<FileIssues>,
    /// Folders with blobs of several packages, and their names; only if the name is empty.
    shared_directories: Vec<(String, Vec<String>)>,
}

/// A file in which a name stands twice in a map, or a document is empty.
#[derive(Debug, Clone)]
struct FileIssues {
    file: Arc<File>,
    /// The line of the empty document, from 1.
    empty_document_line: Option<u64>,
}

/// The description of a blob.
#[derive(Debug, Default, PartialEq, Eq)]
struct BlobHeader {
    schema: String,
    package: String,
    name: String,
}

impl BlobHeader {
    /// Returns none if it is not an object. Names are case-insensitive, as in Go.
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

    /// Reports whether it is a template, from which `opm` renders a catalog.
    fn is_template(&self) -> bool {
        is_catalog_template(&self.schema)
    }
}

/// Reads all blobs, by package in the order of names. Those without a package come last.
pub(super) fn read(root: &Path, reader: &Reader) -> anyhow::Result<Vec<Arc<Package>>> {
    let files = if root.is_dir() {
        read_files(root, reader)?
    } else {
        parallel::map(&[root], |root| read_file(root, reader))
    };
    let mut names = BTreeSet::new();
    let mut groups: BTreeMap<String, Vec<(Arc<File>, usize)>> = BTreeMap::new();
    let (mut broken, mut noted) = (Vec::new(), Vec::new());
    let mut directories: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, heads, empty) in files {
        let stray = heads.iter().position(Option::is_none);
        let file = Arc::new(match stray {
            Some(index) => mark_unreadable(file, index),
            None => file,
        });
        if file.read_error().is_some() {
            broken.push(file);
            continue;
        }
        let is_template = heads.iter().flatten().any(BlobHeader::is_template);
        let empty = empty.filter(|_| !is_template);
        if empty.is_some() || file.duplicate_key.is_some() {
            noted.push(FileIssues { file: file.clone(), empty_document_line: empty });
        }
        for (index, head) in heads.into_iter().flatten().enumerate() {
            let package = if head.is_package() {
                names.insert(head.name.clone());
                head.name
            } else {
                head.package
            };
            let directory = file.path.rsplit_once('/').map_or("", |(directory, _)| directory);
            if !package.is_empty() {
                directories.entry(directory.to_owned()).or_default().insert(package.clone());
            }
            groups.entry(package).or_default().push((file.clone(), index));
        }
    }
    names.remove("");
    let mut packages = String::new();
    write_list(&mut packages, names, |out, name| out.push_str(&json_string(&name)));
    let end = packages.len();
    let packages = Text::new(packages).map(Arc::new).unwrap_or_default();
    let packages = Arc::new(Document::part(packages, 0..end));
    let rest = groups.remove("").unwrap_or_default();
    let shared = directories.into_iter().filter(|(_, packages)| packages.len() > 1);
    let shared: Vec<_> =
        shared.map(|(directory, packages)| (directory, packages.into_iter().collect())).collect();
    let package = |(name, blobs)| Package {
        name,
        packages: packages.clone(),
        blobs,
        unreadable: Vec::new(),
        issues: Vec::new(),
        shared_directories: Vec::new(),
    };
    let mut all: Vec<_> = groups.into_iter().map(package).collect();
    // An empty catalog is evaluated as well.
    let has_files = !broken.is_empty() || !noted.is_empty() || !shared.is_empty();
    if !rest.is_empty() || has_files || all.is_empty() {
        all.push(Package {
            unreadable: broken,
            issues: noted,
            shared_directories: shared,
            ..package((String::new(), rest))
        });
    }
    Ok(all.into_iter().map(Arc::new).collect())
}

/// A file, the descriptions of its blobs, and the line of its first empty document.
type ReadFile = (File, Vec<Option<BlobHeader>>, Option<u64>);

fn read_file(path: &Path, reader: &Reader) -> ReadFile {
    let shown = opgate_platform::files::display_path(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = File::read(FilePath::Named(path), name, shown, ParseMode::AllFiles, reader);
    with_headers(read, reader)
}

fn with_headers(file: File, reader: &Reader) -> ReadFile {
    let file = parse_like_opm(file, reader);
    let Some(documents) = file.documents() else { return (file, Vec::new(), None) };
    let line = |offset| line_and_column(&documents.text, offset);
    match stream::find_empty_document(documents) {
        Err((offset, why)) => {
            let ((line, column), text) = (line(offset), Some((**documents.text).into()));
            let content = Content::Unreadable(ReadError { line, column, message: why, text });
            (File { content, ..file }, Vec::new(), None)
        }
        Ok(empty) => {
            let heads = documents.documents().map(|blob| BlobHeader::of(&blob)).collect();
            let empty = empty.map(|offset| line(offset).0);
            (file, heads, empty)
        }
    }
}

/// Reads the file as `opm` does: the last member of a name counts, and the name of the file does not
/// determine whether it is JSON or YAML.
fn parse_like_opm(file: File, reader: &Reader) -> File {
    let file = duplicate_keys::tolerate_duplicates(file, reader);
    let text = file.read_error().and_then(|broken| broken.text.as_deref());
    // The error of another file already matches its format.
    let text = text.filter(|_| file.path.to_ascii_lowercase().ends_with(".json"));
    match text.and_then(|text| Documents::parse_tolerant(text, reader)) {
        Some(documents) => File { content: Content::Documents(documents), ..file },
        None => file,
    }
}

/// Reads every file that is not ignored, with any name, as `opm` does.
fn read_files(root: &Path, reader: &Reader) -> anyhow::Result<Vec<ReadFile>> {
    let mut directory = directory::walk(root)?;
    let ignored = IgnorePatterns::of(&directory, reader).map_err(|(path, why)| {
        anyhow::anyhow!("{}: {why}", directory::display_path(root, &path))
    })?;
    if waivers::exists_in(root) && !ignored.ignores(waivers::FILE_NAME) {
        let (file, list) = (directory::display_path(root, waivers::FILE_NAME), ignore::FILE_NAME);
        tracing::warn!("{file}: opm treats it as a blob: list it in {list}");
    }
    directory.files.retain(|entry| {
        entry.path.rsplit('/').next() != Some(ignore::FILE_NAME) && !ignored.ignores_entry(entry)
    });
    let read = |entry: &directory::Entry| {
        with_headers(entry.read(&directory, ParseMode::AllFiles, reader), reader)
    };
    Ok(parallel::map(&directory.files, read))
}

/// Marks a file with a value that is not an object as unreadable for blobs.
fn mark_unreadable(file: File, index: usize) -> File {
    let Content::Documents(documents) = &file.content else { return file };
    let start = documents.start_offset(index);
    let (line, column) = line_and_column(&documents.text, start);
    let why = format!(
        "not a blob: an object with schema is expected; list files that are none in {}",
        ignore::FILE_NAME
    );
    let text = Some((**documents.text).into());
    File { content: Content::Unreadable(ReadError { line, column, message: why, text }), ..file }
}

impl Package {
    pub(super) fn write(&self, out: &mut DocumentWriter) {
        let name = json_string(&self.name);
        // Writing to a text does not fail.
        let _ = write!(
            out.json,
            r#"{{"apiVersion":"{GROUP}/{VERSION}","kind":"{KIND}","metadata":{{"name":{name}}},"spec":{{"package":{name},"packages":"#
        );
        out.add_part(self.packages.clone());
        out.json.push_str(",\"blobs\":[");
        for (position, (file, index)) in self.blobs.iter().enumerate() {
            let (comma, path) = (if position > 0 { "," } else { "" }, json_string(&file.path));
            let _ = write!(out.json, r#"{comma}{{"file":{path},"index":{index},"value":"#);
            let blob = file.documents().map(|documents| documents.document(*index));
            out.add_part(Arc::new(blob.unwrap_or_default()));
            out.json.push('}');
        }
        out.json.push(']');
        if self.name.is_empty() {
            let out = &mut out.json;
            out.push_str(",\"files\":");
            let broken = self.unreadable.iter().map(|file| (file, None));
            let noted = self.issues.iter().map(|noted| (&noted.file, noted.empty_document_line));
            write_list(out, broken.chain(noted), |out, (file, empty)| {
                let _ = write!(out, r#"{{"path":{}"#, json_string(&file.path));
                if let Some(broken) = file.read_error() {
                    write_problem(out, "error", broken);
                }
                if let Some(twice) = &file.duplicate_key {
                    write_problem(out, "twice", twice);
                }
                if let Some(line) = empty {
                    let _ = write!(out, r#","empty":{{"line":{line}}}"#);
                }
                out.push('}');
            });
            out.push_str(",\"directories\":");
            write_list(out, &self.shared_directories, |out, (path, packages)| {
                let _ = write!(out, r#"{{"path":{},"packages":"#, json_string(path));
                write_list(out, packages, |out, package| out.push_str(&json_string(package)));
                out.push('}');
            });
        }
        out.json.push_str("}}");
    }

    pub(super) fn find_target<'f, 't>(
        &'f self,
        field: &'t [String],
    ) -> Option<FieldTarget<'f, 't>> {
        let [spec, member, position, rest @ ..] = field else { return None };
        let position: usize = position.parse().ok()?;
        match (spec.as_str(), member.as_str()) {
            ("spec", "blobs") => {
                let (file, index) = self.blobs.get(position)?;
                let tokens = match rest {
                    [value, rest @ ..] if value == "value" => rest,
                    _ => &[],
                };
                Some(FieldTarget { file, document: Some(*index), tokens })
            }
            ("spec", "files") => {
                let noted = || self.issues.get(position.checked_sub(self.unreadable.len())?);
                let file = self.unreadable.get(position);
                let file = file.or_else(|| noted().map(|noted| &noted.file))?;
                Some(FieldTarget { file, document: None, tokens: rest })
            }
            _ => None,
        }
    }
}
