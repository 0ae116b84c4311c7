//! The kinds of files, and the kind of a document by its content.

use std::path::PathBuf;
use std::sync::Arc;

use opgate_document::{Document, Text};

use super::content::Expect;
use super::folder::{Entry, Folder};
use super::{template, unique};
use opgate_input::read::Reader;

/// What files are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum As {
    /// A folder with manifests and metadata (registry+v1)
    Bundle,
    /// A folder with manifests (plain+v0)
    Plain,
    /// A file-based catalog: a folder or one file
    Catalog,
    /// Kubernetes objects: a file or a folder of files
    Manifest,
}

impl As {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Plain => "plain bundle",
            Self::Catalog => "catalog",
            Self::Manifest => "manifests",
        }
    }
}

/// Something that can be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Its kind.
    pub kind: As,
}

/// Files of a folder that are searched.
pub(super) const LOOKS: usize = 1_000;

/// The error in a file of a folder, if there is one.
pub(super) fn complaint(folder: &Folder, entry: &Entry, reader: &Reader) -> Option<String> {
    template::complaint(&unique::checked(entry.read(folder, Expect::Documents, reader)))
}

/// The kind of a document by its content.
pub(super) fn what(json: &str) -> Option<As> {
    let text = Arc::new(Text::new(json.to_owned()).ok()?);
    let end = text.len();
    let document = Document::part(text, 0..end);
    let has = |pointer: &str| document.get(pointer).is_some_and(|value| value.text().is_some());
    if has("/apiVersion") && has("/kind") {
        Some(As::Manifest)
    } else if has("/schema") {
        Some(As::Catalog)
    } else {
        None
    }
}
