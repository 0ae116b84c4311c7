//! The kinds of files, and the kind of a document by its content.

use std::path::PathBuf;
use std::sync::Arc;

use opgate_document::{Document, Text, Value};

/// Input type of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckInputType {
    /// A directory with manifests and metadata (registry+v1)
    Bundle,
    /// A directory with manifests (plain+v0)
    Plain,
    /// A file-based catalog: a directory or one file
    Catalog,
    /// The watches.yaml of an Ansible or Helm Operator: its project, or the file
    Project,
    /// Kubernetes objects: a file or a directory of files
    Manifest,
    /// Objects that a cluster holds, as `kubectl get -A -o yaml` prints them
    Cluster,
}

impl CheckInputType {
    /// Returns the display name.
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
pub struct DetectedInput {
    /// Its path.
    pub path: PathBuf,
    /// Its kind.
    pub input_type: CheckInputType,
    /// The directory in which it was found, if it is a file: links cannot lead out of it.
    pub directory: Option<PathBuf>,
    /// Why its objects are not evaluated, if they are not.
    pub not_evaluated: Option<String>,
}

impl DetectedInput {
    /// Creates it with a kind.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, kind: CheckInputType) -> Self {
        Self { path: path.into(), input_type: kind, directory: None, not_evaluated: None }
    }
}

/// The subjects of a check in a directory or a file, and the other files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// To be checked.
    pub inputs: Vec<DetectedInput>,
    /// Files that are not.
    pub skipped: Vec<SkippedFile>,
}

/// A file that is not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Its path.
    pub path: PathBuf,
    /// Why it is not.
    pub reason: SkipReason,
}

/// Why a file is not checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// It contains no Kubernetes objects and no catalog.
    NotObjects,
    /// It is neither JSON nor YAML, and does not resemble an object: the error.
    Unreadable(String),
    /// A template of the Helm chart in this directory.
    HelmTemplate(PathBuf),
    /// A template that another program renders.
    Template,
    /// A template from which opm makes a catalog.
    CatalogTemplate,
    /// A manifest next to bundles or in a project.
    NextToBundles,
}

impl SkipReason {
    /// Returns the reason as one clause.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::NotObjects => "no Kubernetes objects and no catalog".to_owned(),
            Self::Unreadable(why) => why.clone(),
            Self::HelmTemplate(chart) => format!("a template of the chart {}", chart.display()),
            Self::Template => "a template".to_owned(),
            Self::CatalogTemplate => "a template of opm: not evaluated".to_owned(),
            Self::NextToBundles => {
                "a manifest next to bundles or projects: name it to check it".to_owned()
            }
        }
    }
}

/// Reports whether the first object of a list comes from an API server. One exported object is no cluster state: the
/// other files do not show the objects next to it.
fn is_stored_list(document: &Document) -> bool {
    is_stored_object(document, "/items/0")
}

/// Reports whether an object, or the first one of a list, comes from an API server: only stored objects have a version
/// and an identity.
pub(super) fn is_stored_object(document: &Document, pointer: &str) -> bool {
    let is_stored = |list: &str| {
        let text = |name: &str| document.get(&format!("{pointer}{list}/metadata/{name}"));
        let has = |name: &str| text(name).and_then(|value| value.text()).is_some();
        has("uid") && has("resourceVersion")
    };
    is_stored("") || is_stored("/items/0")
}

/// Reports whether a document is one object that an API server has stored.
pub(super) fn is_exported(json: &str) -> bool {
    let text = Arc::new(Text::new(json.to_owned()).unwrap_or_default());
    let end = text.len();
    let document = Document::part(text, 0..end);
    let has = |pointer: &str| document.get(pointer).is_some_and(|value| value.text().is_some());
    has("/kind") && has("/metadata/uid") && has("/metadata/resourceVersion")
}

/// The type of a document by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentType {
    /// It can be checked.
    Input(CheckInputType),
    /// A template of opm.
    CatalogTemplate,
    /// An object with placeholders where an object has its identity.
    Template,
    /// Input of kustomize.
    Kustomization,
}

/// Returns the type of a document by its content.
pub(super) fn document_type(json: &str) -> Option<DocumentType> {
    let text = Arc::new(Text::new(json.to_owned()).ok()?);
    let end = text.len();
    let document = Document::part(text, 0..end);
    let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
    if let (Some(api_version), Some(kind)) = (text("/apiVersion"), text("/kind")) {
        let name = text("/metadata/name").unwrap_or_default();
        let is_rendered = |text: &&str| !text.contains("{{") && !text.contains("<%");
        let is_kustomize = api_version.split('/').next() == Some("kustomize.config.k8s.io");
        return Some(if is_kustomize {
            DocumentType::Kustomization
        } else if ![api_version, kind, name].iter().all(is_rendered) {
            DocumentType::Template
        } else {
            DocumentType::Input(if is_stored_list(&document) {
                CheckInputType::Cluster
            } else {
                CheckInputType::Manifest
            })
        });
    }
    if let Some(schema) = text("/schema") {
        return Some(if is_catalog_template(schema) {
            DocumentType::CatalogTemplate
        } else {
            DocumentType::Input(CheckInputType::Catalog)
        });
    }
    let is_project = document.root().items().take(MAX_WATCHES).any(is_watch);
    is_project.then_some(DocumentType::Input(CheckInputType::Project))
}

/// Returns the input type of a document that is checked.
pub(super) fn input_type(json: &str) -> Option<CheckInputType> {
    match document_type(json) {
        Some(DocumentType::Input(kind)) => Some(kind),
        _ => None,
    }
}

/// Reports whether a schema is that of a template from which opm makes a catalog:
/// <https://olm.operatorframework.io/docs/reference/catalog-templates/>.
pub(super) fn is_catalog_template(schema: &str) -> bool {
    schema.starts_with("olm.template.") || schema == "olm.semver"
}

/// Entries of a list that are searched.
const MAX_WATCHES: usize = 100;

/// Reports whether an element of a list maps a kind to the code of an Operator.
fn is_watch(entry: Value<'_>) -> bool {
    let has = |pointer: &&str| entry.get(pointer).is_some_and(|value| value.text().is_some());
    ["/version", "/kind"].iter().all(has) && ["/role", "/playbook", "/chart"].iter().any(has)
}
