//! The kinds of files, and the kind of a document by its content.

use std::path::PathBuf;
use std::sync::Arc;

use opgate_document::{Document, Text, Value};

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
    /// The watches.yaml of an Ansible or Helm Operator: its project, or the file
    Project,
    /// Kubernetes objects: a file or a folder of files
    Manifest,
    /// Objects that a cluster holds, as `kubectl get -A -o yaml` prints them
    Cluster,
}

impl As {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Plain => "plain bundle",
            Self::Catalog => "catalog",
            Self::Project => "project",
            Self::Manifest => "manifests",
            Self::Cluster => "objects of a cluster",
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

/// Whether an API server has stored an object, or the first one of a list: nobody else gives it a version
/// and an identity.
fn is_stored(document: &Document) -> bool {
    let is_first = |pointer: &str| {
        let text = |name: &str| document.get(&format!("{pointer}/metadata/{name}"));
        let is_said = |name: &str| text(name).and_then(|value| value.text()).is_some();
        is_said("uid") && is_said("resourceVersion")
    };
    is_first("") || is_first("/items/0") || is_first("/items/0/items/0")
}

/// The kind of a document by its content.
pub(super) fn what(json: &str) -> Option<As> {
    let text = Arc::new(Text::new(json.to_owned()).ok()?);
    let end = text.len();
    let document = Document::part(text, 0..end);
    let has = |pointer: &str| document.get(pointer).is_some_and(|value| value.text().is_some());
    if has("/apiVersion") && has("/kind") {
        Some(if is_stored(&document) { As::Cluster } else { As::Manifest })
    } else if has("/schema") {
        Some(As::Catalog)
    } else if document.root().items().take(WATCHES).any(is_watch) {
        Some(As::Project)
    } else {
        None
    }
}

/// Entries of a list that are searched.
const WATCHES: usize = 100;

/// Whether an element of a list says what an Operator runs for which kind.
fn is_watch(entry: Value<'_>) -> bool {
    let has = |pointer: &&str| entry.get(pointer).is_some_and(|value| value.text().is_some());
    ["/version", "/kind"].iter().all(has) && ["/role", "/playbook", "/chart"].iter().any(has)
}
