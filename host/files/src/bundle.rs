//! A directory as a `RegistryBundle` or a `PlainBundle`, one document with every file in it, or as an
//! `OperatorProject`, with its project file and the charts that it names.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use super::compressed::{self, CompressedSize};
use super::content::{self, Content, Documents, File, ParseMode};
use super::directory;
use super::duplicate_keys;
use super::field::FieldTarget;
use super::json::{GROUP, VERSION, json_string, write_list, write_problem};
use super::parallel;
use opgate_document::Text;
use opgate_input::read::{FilePath, Reader};

/// The format of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleKind {
    /// `registry+v1`: manifests and metadata.
    Registry,
    /// `plain+v0`: manifests.
    Plain,
    /// The project of an Ansible or Helm Operator.
    Project,
}

/// The file from which Ansible and Helm Operators read what they watch.
pub(super) const WATCHES: &str = "watches.yaml";

impl BundleKind {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Registry => "RegistryBundle",
            Self::Plain => "PlainBundle",
            Self::Project => "OperatorProject",
        }
    }

    /// Returns the files that are read as YAML or JSON. A registry reads all files directly in `manifests/`
    /// and `metadata/`, whatever their names; other files, such as a `Dockerfile`, are text.
    fn parse_mode(self, path: &str) -> ParseMode {
        match (self, path.split_once('/')) {
            (Self::Registry, Some(("manifests" | "metadata", name))) if !name.contains('/') => {
                ParseMode::AllFiles
            }
            _ => ParseMode::ByName,
        }
    }

    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Registry => "registrybundles",
            Self::Plain => "plainbundles",
            Self::Project => "operatorprojects",
        }
    }
}

/// Returns a `watches.yaml` that is YAML only after environment variables are put in: Ansible Operators do
/// that before they read it, so that `{key: ${KEY}}` is a map with a text. The marks of a variable become
/// letters, which keeps all places.
fn with_variables(file: File, reader: &Reader) -> File {
    let text = file.read_error().and_then(|broken| broken.text.as_deref());
    let Some(text) = text.filter(|text| text.contains("${")) else { return file };
    let Some(mut documents) = Documents::parse_tolerant(&mark_variables(text), reader) else {
        return file;
    };
    documents.text = Arc::new(Text::unindexed(text.to_owned()));
    File { content: Content::Documents(documents), ..file }
}

/// Returns the text with `$_NAME_` for each `${NAME}`.
fn mark_variables(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        marked.push_str(before);
        let is_name = |name: &str| name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
        // A name ends soon, or is none.
        let end = after.bytes().take(MAX_VARIABLE_NAME_BYTES).position(|byte| byte == b'}');
        let name = end.and_then(|end| after.get(..end)).filter(|name| is_name(name));
        rest = after;
        if let Some(name) = name {
            marked.extend(["$_", name, "_"]);
            rest = after.get(name.len().saturating_add(1)..).unwrap_or_default();
        } else {
            marked.push_str("${");
        }
    }
    marked.push_str(rest);
    marked
}

/// Maximum number of charts that are looked for. A project has a few; more of them count as there.
const MAX_CHARTS: usize = 1_024;

/// Returns the charts that entries of a `watches.yaml` name and that are in the directory, as written.
fn charts(directory: &Path, watches: &File) -> Vec<String> {
    let document = watches.documents().and_then(|documents| documents.documents().next());
    let mut named = BTreeSet::new();
    for entry in document.iter().flat_map(|document| document.root().items()) {
        let charts = entry.members().filter(|(name, _)| name.eq_ignore_ascii_case("chart"));
        named.extend(charts.filter_map(|(_, chart)| chart.text().map(str::to_owned)));
    }
    if named.len() > MAX_CHARTS {
        return named.into_iter().collect();
    }
    let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(root) = here.canonicalize() else { return Vec::new() };
    // No path outside the directory is revealed, neither by the path nor through a link.
    let is_inside = |chart: &String| {
        let found = root.join(chart).canonicalize();
        found.is_ok_and(|found| found.starts_with(&root))
    };
    named.into_iter().filter(is_inside).collect()
}

/// Longest name of a variable.
const MAX_VARIABLE_NAME_BYTES: usize = 256;

/// Reports whether the first document of a YAML text is empty, as a registry splits it: a document ends
/// before a line `---`, unless that is the first line. A comment above `---` is therefore a separate
/// document, and the only one that a registry reads.
fn starts_with_empty_document(text: &str) -> bool {
    for (number, line) in text.lines().enumerate() {
        let is_blank = |text: &str| text.is_empty() || text.starts_with('#');
        match line.strip_prefix("---") {
            Some(rest) if is_blank(rest.trim()) => {
                if number > 0 {
                    return true;
                }
            }
            _ if is_blank(line.trim()) => {}
            _ => return false,
        }
    }
    false
}

/// A bundle that was read.
#[derive(Debug)]
pub struct Bundle {
    kind: BundleKind,
    pub(super) name: String,
    pub(super) files: Vec<Arc<File>>,
    /// The existing charts of a project.
    pub(super) directories: Vec<String>,
    links: Vec<String>,
    /// The size as OLM unpacks it; only for `registry+v1`, and if every file can be read.
    compressed_size: Option<CompressedSize>,
}

impl Bundle {
    pub(super) fn read(root: &Path, kind: BundleKind, reader: &Reader) -> anyhow::Result<Self> {
        let directory = directory::walk(root)?;
        let read = |entry: &directory::Entry| {
            let file = entry.read(&directory, kind.parse_mode(&entry.path), reader);
            // A registry takes the last one of a name, in all files, and so does the provisioner of
            // plain bundles.
            let file = duplicate_keys::tolerate_duplicates(file, reader);
            // A registry passes over what it cannot read in `metadata/`: a license is no mistake there.
            let is_other =
                file.path.starts_with("metadata/") && !content::has_documents(&file.path);
            if is_other && entry.rejection.is_none() && file.read_error().is_some() {
                return Arc::new(File { content: Content::Other, ..file });
            }
            Arc::new(file)
        };
        let files = parallel::map(&directory.files, read);
        let is_unpacked = kind == BundleKind::Registry;
        let compressed = is_unpacked.then(|| compressed::compressed_size(&directory)).flatten();
        Ok(Self {
            kind,
            name: directory::directory_name(root)?,
            files,
            directories: directory.directories,
            links: directory.rejected_links,
            compressed_size: compressed,
        })
    }

    /// Reads a project, by its directory or by its `watches.yaml`. Other files of a project are skipped: they
    /// are code, templates, and parts that kustomize combines.
    pub(super) fn read_project(root: &Path, reader: &Reader) -> anyhow::Result<Self> {
        let (name, file) = if root.is_dir() {
            let found = directory::find_entry(root, WATCHES)?;
            let (directory, entry) = found.ok_or_else(|| {
                let shown = root.display();
                anyhow::anyhow!(
                    "{shown}: there is no {WATCHES} in it: not the project of an Ansible or Helm Operator"
                )
            })?;
            (directory::directory_name(root)?, entry.read(&directory, ParseMode::AllFiles, reader))
        } else {
            let (path, shown) = (WATCHES.to_owned(), root.display().to_string());
            let file = File::read(FilePath::Named(root), path, shown, ParseMode::AllFiles, reader);
            (WATCHES.to_owned(), file)
        };
        // The Operators take the last one of a name, as a registry does for manifests.
        let file = with_variables(duplicate_keys::tolerate_duplicates(file, reader), reader);
        let directory = if root.is_dir() { Some(root) } else { root.parent() };
        Ok(Self {
            kind: BundleKind::Project,
            name,
            directories: charts(directory.unwrap_or(root), &file),
            files: vec![Arc::new(file)],
            links: Vec::new(),
            compressed_size: None,
        })
    }

    pub(super) fn write(&self, out: &mut String) {
        let (kind, name) = (self.kind.kind(), json_string(&self.name));
        // Writing to a text does not fail.
        let _ = write!(
            out,
            r#"{{"apiVersion":"{GROUP}/{VERSION}","kind":"{kind}","metadata":{{"name":{name}}},"spec":{{"files":"#
        );
        write_list(out, &self.files, |out, file| {
            let _ = write!(out, r#"{{"path":{},"size":{}"#, json_string(&file.path), file.size);
            match &file.content {
                Content::Documents(documents) => {
                    out.push_str(",\"documents\":");
                    write_list(out, documents.iter_json(), String::push_str);
                    if let Some(twice) = &file.duplicate_key {
                        write_problem(out, "twice", twice);
                    }
                    if starts_with_empty_document(&documents.text) {
                        out.push_str(",\"startsEmpty\":true");
                    }
                }
                Content::Unreadable(broken) => write_problem(out, "error", broken),
                Content::Text(text) => {
                    let _ = write!(out, ",\"text\":{}", json_string(text));
                }
                Content::Other => {}
            }
            out.push('}');
        });
        for (member, paths) in [("directories", &self.directories), ("links", &self.links)] {
            let _ = write!(out, ",\"{member}\":");
            write_list(out, paths, |out, path| out.push_str(&json_string(path)));
        }
        if let Some(CompressedSize::Exact(size) | CompressedSize::MoreThan(size)) =
            self.compressed_size
        {
            let _ = write!(out, ",\"compressedSize\":{size}");
        }
        if let Some(CompressedSize::MoreThan(_)) = self.compressed_size {
            out.push_str(",\"compressedSizeIsMore\":true");
        }
        out.push_str("}}");
    }

    pub(super) fn find_target<'f, 't>(
        &'f self,
        field: &'t [String],
    ) -> Option<FieldTarget<'f, 't>> {
        let [spec, files, position, rest @ ..] = field else { return None };
        if spec != "spec" || files != "files" {
            return None;
        }
        let file = self.files.get(position.parse::<usize>().ok()?)?;
        let (document, tokens) = match rest {
            [member, index, rest @ ..] if member == "documents" => (index.parse().ok(), rest),
            _ => (None, rest),
        };
        Some(FieldTarget { file, document, tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_above_a_marker_is_an_empty_first_document() {
        for text in ["# a\n---\na: b\n", "\n---\na: b", "---\n--- # c\na: b", "---\n# a\n\n---\n"] {
            assert!(starts_with_empty_document(text), "{text}");
        }
        for text in
            ["", "# a\n", "a: b\n---\n", "---\n# a\na: b", "# a\n--- {a: b}\n---", "{}\n---\n"]
        {
            assert!(!starts_with_empty_document(text), "{text}");
        }
    }
}
