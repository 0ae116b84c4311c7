//! The directory as the host describes it: files in byte order of their paths, and directories. A
//! link that leads to no file of the directory is listed as an unreadable file.
//!
//! [`BundleDirectory::read`] makes one host call for all data that the rules need of a whole file. Documents
//! inside the files stay in the host; [`BundleDirectory::first_document`] returns a handle for one. Handles are
//! dropped when a rule no longer needs them: a call can have a thousand, and a directory can have
//! more files.

use std::collections::BTreeSet;

use opgate_sdk::{Document, Kind, Level, Report, Rule, Target};

/// The directory of the manifests.
pub(crate) const MANIFESTS: &str = "manifests";
/// The directory of the metadata.
pub(crate) const METADATA: &str = "metadata";

pub(crate) static BUNDLE: Target = Target::for_files("RegistryBundle", &["registrybundles"]);

/// The type of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// The number of YAML or JSON documents.
    Documents(u32),
    /// YAML or JSON that cannot be parsed, and the reason.
    Invalid(String),
    /// Neither YAML nor JSON.
    Other,
}

/// A file.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the directory, with `/`.
    pub(crate) path: String,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) content: Content,
    /// A duplicate key of a mapping, in a file that is readable nonetheless.
    pub(crate) duplicate_key: Option<String>,
    /// Whether an empty document precedes the first one.
    pub(crate) starts_empty: bool,
    index: u32,
}

impl File {
    /// The directory of the file, empty for the root.
    pub(crate) fn directory(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    /// The name without the directory.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }

    /// Whether the name is that of a YAML or JSON file.
    pub(crate) fn is_named_document(&self) -> bool {
        let ending = self.name().rsplit_once('.').map_or("", |(_, ending)| ending);
        ["json", "yaml", "yml"].iter().any(|known| ending.eq_ignore_ascii_case(known))
    }

    /// Whether the registry ignores the file.
    pub(crate) fn is_hidden(&self) -> bool {
        self.name().starts_with('.')
    }

    /// Reports a duplicate key in a mapping: upstream reads the last one.
    pub(crate) fn report_repeated_key(&self, rule: &'static Rule, report: &mut Report<'_>) {
        if let Some(why) = &self.duplicate_key {
            let message = format!("{}: {why}: the last one counts", self.path);
            report.add_as(Level::Warn, rule, self.duplicate_key_field(), message);
        }
    }

    /// The field of the file itself.
    pub(crate) fn field(&self) -> String {
        format!("spec.files[{}]", self.index)
    }

    /// The pointer of the file in the document.
    pub(crate) fn file_pointer(&self) -> String {
        format!("/spec/files/{}", self.index)
    }

    /// The pointer of a value of the first document: `rest` is a pointer in it.
    pub(crate) fn pointer(&self, rest: &str) -> String {
        format!("/spec/files/{}/documents/0{rest}", self.index)
    }

    /// A field of its first document; `rest` as in `metadata.name`, empty for the whole document.
    pub(crate) fn within(&self, rest: &str) -> String {
        let dot = if rest.is_empty() || rest.starts_with('[') { "" } else { "." };
        format!("spec.files[{}].documents[0]{dot}{rest}", self.index)
    }

    /// The field of the parser's error.
    pub(crate) fn error_field(&self) -> String {
        format!("spec.files[{}].error", self.index)
    }

    /// The field of the duplicate key.
    pub(crate) fn duplicate_key_field(&self) -> String {
        format!("spec.files[{}].twice", self.index)
    }

    /// The field of a further document.
    pub(crate) fn document_field(&self, index: u32) -> String {
        format!("spec.files[{}].documents[{index}]", self.index)
    }

    /// The field of a line of its text, from 0.
    pub(crate) fn line_field(&self, line: usize) -> String {
        format!("spec.files[{}].text[{line}]", self.index)
    }

    /// Whether the file is unreadable.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(self.content, Content::Invalid(_))
    }

    pub(crate) fn has_documents(&self) -> bool {
        matches!(self.content, Content::Documents(1..))
    }
}

/// The directory under review.
pub(crate) struct BundleDirectory<'d> {
    document: &'d Document,
    pub(crate) files: Vec<File>,
    directories: BTreeSet<String>,
}

impl<'d> BundleDirectory<'d> {
    pub(crate) fn read(document: &'d Document) -> Self {
        let mut files = Vec::new();
        for (index, file) in (0..).zip(document.items("/spec/files")) {
            // No host writes a file without a path; its index still counts.
            let Some(path) = file.text("/path") else { continue };
            let content = if file.kind("/error") == Kind::Object {
                Content::Invalid(file.text_or_empty("/error/message"))
            } else if file.kind("/documents") == Kind::List {
                Content::Documents(file.length("/documents").unwrap_or_default())
            } else {
                Content::Other
            };
            let twice = file.text("/twice/message");
            let starts_empty = file.boolean("/startsEmpty") == Some(true);
            let size = file.integer("/size").and_then(|size| u64::try_from(size).ok());
            let size = size.unwrap_or_default();
            files.push(File { path, size, content, duplicate_key: twice, starts_empty, index });
        }
        let mut directories: BTreeSet<_> =
            document.texts("/spec/directories").into_iter().collect();
        // A directory that contains a file exists, whether it is listed or not.
        for file in &files {
            if let Some((top, _)) = file.path.split_once('/') {
                if !directories.contains(top) {
                    directories.insert(top.to_owned());
                }
                if !directories.contains(file.directory()) {
                    directories.insert(file.directory().to_owned());
                }
            }
        }
        Self { document, files, directories }
    }

    pub(crate) fn has_directory(&self, path: &str) -> bool {
        self.directories.contains(path)
    }

    /// Directories directly below one (`""` for the root), as whole paths.
    pub(crate) fn directories_in<'f>(&'f self, parent: &'f str) -> impl Iterator<Item = &'f str> {
        self.directories.iter().map(String::as_str).filter(move |path| {
            path.rsplit_once('/').map_or("", |(directory, _)| directory) == parent
        })
    }

    /// Files directly below a directory (`""` for the root).
    pub(crate) fn files_in<'f>(&'f self, directory: &'f str) -> impl Iterator<Item = &'f File> {
        self.files.iter().filter(move |file| file.directory() == directory)
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The first document of a file: the only one that the registry reads.
    pub(crate) fn first_document(&self, file: &File) -> Option<Document> {
        if !file.has_documents() {
            return None;
        }
        self.document.at(&format!("/spec/files/{}/documents/0", file.index))
    }

    /// The text of a file that is neither YAML nor JSON.
    pub(crate) fn text(&self, file: &File) -> Option<String> {
        self.document.text(&format!("/spec/files/{}/text", file.index))
    }

    /// Bytes of the files that OLM unpacks.
    pub(crate) fn size(&self) -> u64 {
        let unpacked = [MANIFESTS, METADATA];
        let files = self.files.iter().filter(|file| unpacked.contains(&file.directory()));
        files.fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// The size of those files, each compressed separately, if the host provides it; and whether
    /// that size is only a lower bound.
    pub(crate) fn compressed_size(&self) -> Option<(u64, bool)> {
        let size = self.document.integer("/spec/compressedSize")?;
        let is_more = self.document.boolean("/spec/compressedSizeIsMore") == Some(true);
        Some((u64::try_from(size).ok()?, is_more))
    }
}
