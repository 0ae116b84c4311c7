//! What is judged: documents that know how they are written as a review, and where their parts are.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use opgate_document::{Document, Text, TooDeep};
use opgate_text::one_line;

use super::bundle::Bundle;
use super::catalog::Package;
use super::content::File;
use super::place::{Place, Places, tokens};
use super::template;

/// Bytes of the title of a package that are shown.
const MAX_TITLE: usize = 256;

/// API group of the documents that stand for files.
pub const GROUP: &str = "opgate.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";

/// A bundle, a catalog's package or a manifest.
#[derive(Debug)]
pub struct Subject {
    /// Where it came from: a folder, a file, `file#2`.
    pub source: String,
    /// Kind of the document or object.
    pub kind: String,
    /// Name of the document or object.
    pub name: String,
    /// What policies are asked: about a bundle, and about each of its manifests.
    pub requests: Vec<Request>,
    /// Files of it that could not be read. Somebody has to say so: a policy, or the caller.
    pub broken: Vec<Arc<File>>,
}

impl Subject {
    /// The title of a package in a tree of findings, empty for what belongs to no package; none where
    /// this is no catalog.
    pub fn package(&self) -> Option<String> {
        let is_catalog = self.requests.iter().any(|r| matches!(r.object, Layout::Package(_)));
        let title = || {
            if self.name.is_empty() {
                String::new()
            } else {
                one_line(&format!("package {:?}", self.name), MAX_TITLE)
            }
        };
        is_catalog.then(title)
    }
}

/// One question to the policies.
#[derive(Debug)]
pub struct Request {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Resource.
    pub resource: String,
    /// Namespace of an object.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What it is about.
    pub object: Layout,
    /// What was published before.
    pub old: Option<Layout>,
    /// Path of the object in the document of its bundle, in front of the fields of violations.
    pub prefix: String,
}

/// A document, and how it was put together.
#[derive(Debug, Clone)]
pub enum Layout {
    /// A folder with all its files.
    Bundle(Arc<Bundle>),
    /// The blobs of a package.
    Package(Arc<Package>),
    /// One object.
    Object(Object),
}

/// An object in a file.
#[derive(Debug, Clone)]
pub struct Object {
    /// The file.
    pub file: Arc<File>,
    /// The document in it.
    pub index: usize,
    /// JSON pointer of the object in the document.
    pub pointer: String,
}

impl Request {
    /// Whether it is about a document of ours, and not about an object of a cluster.
    pub fn stands_for_files(&self) -> bool {
        !matches!(self.object, Layout::Object(_))
    }

    /// The review, as an API server would send it. What stands in files is not copied.
    ///
    /// # Errors
    /// Where it nests too deep.
    pub fn text(&self) -> Result<Arc<Text>, TooDeep> {
        let Self { group, version, kind, resource, .. } = self;
        let [group, version, kind, resource] = [group, version, kind, resource].map(|t| quoted(t));
        let json = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":{},"kind":{{"group":{group},"version":{version},"kind":{kind}}},"resource":{{"group":{group},"version":{version},"resource":{resource}}},"name":{},"namespace":{},"operation":"{}","userInfo":{{"username":"opgate:check"}},"object":"#,
            // The log names a review by it.
            quoted(format!("{} {}", self.kind, self.name).trim_end()),
            quoted(&self.name),
            quoted(&self.namespace),
            if self.old.is_some() { "UPDATE" } else { "CREATE" },
        );
        let mut out = Out { json, ..Out::default() };
        self.object.write(&mut out);
        if let Some(old) = &self.old {
            out.json.push_str(",\"oldObject\":");
            old.write(&mut out);
        }
        out.json.push_str("}}");
        let text = Text::assembled(out.json, out.parts);
        text.map(Arc::new)
    }

    /// The review as one text.
    #[cfg(test)]
    pub(crate) fn review(&self) -> String {
        let text = self.text().unwrap();
        Document::part(text.clone(), 0..text.len()).root().raw().into_owned()
    }
}

/// A review while it is put together.
#[derive(Default)]
pub(super) struct Out {
    /// Its text, with a `null` for each of the parts.
    pub(super) json: String,
    parts: Vec<(usize, Arc<Document>)>,
}

impl Out {
    /// Adds a value that stands in another text.
    pub(super) fn part(&mut self, document: Arc<Document>) {
        self.parts.push((self.json.len(), document));
        self.json.push_str("null");
    }
}

impl Layout {
    fn write(&self, out: &mut Out) {
        match self {
            Self::Bundle(bundle) => bundle.write(&mut out.json),
            Self::Package(package) => package.write(out),
            Self::Object(object) => {
                let out = &mut out.json;
                let json = object.file.documents().map_or("null", |d| d.json(object.index));
                if object.pointer.is_empty() {
                    out.push_str(json);
                } else {
                    let text = Arc::new(Text::new(json.to_owned()).unwrap_or_default());
                    let end = text.len();
                    let document = Document::part(text, 0..end);
                    let found = document.get(&object.pointer);
                    out.push_str(&found.map_or("null".into(), |value| value.raw()));
                }
            }
        }
    }
}

/// Finds the places of the violations of one document.
pub struct Resolver<'l> {
    layout: &'l Layout,
    ready: HashMap<(String, usize), Places>,
}

/// What the first tokens of a field lead to.
pub(super) struct Step<'f, 't> {
    pub(super) file: &'f Arc<File>,
    /// The document in it, where the field is about one.
    pub(super) document: Option<usize>,
    /// The rest.
    pub(super) tokens: &'t [String],
}

impl<'l> Resolver<'l> {
    /// For the violations of a document.
    pub fn new(layout: &'l Layout) -> Self {
        Self { layout, ready: HashMap::new() }
    }

    /// The place of a field; none where it is about the folder as a whole.
    pub fn place(&mut self, field: &str) -> Option<Place> {
        let tokens = tokens(field);
        let (step, base) = match self.layout {
            Layout::Bundle(bundle) => (bundle.step(&tokens)?, ""),
            Layout::Package(package) => (package.step(&tokens)?, ""),
            Layout::Object(Object { file, index, pointer }) => {
                let step = Step { file, document: Some(*index), tokens: &tokens };
                (step, pointer.as_str())
            }
        };
        let (Some(index), Some(documents)) = (step.document, step.file.documents()) else {
            // A text has no documents, but lines: `text[2]` is the third one.
            if let [text, line] = step.tokens
                && text == "text"
                && let Ok(line) = line.parse()
            {
                return Some(Place::line(step.file, line));
            }
            let (line, column) = step.file.broken().map_or((1, 1), |b| (b.line, b.column));
            return Some(Place::new(step.file, line, column));
        };
        let places = self
            .ready
            .entry((step.file.path.clone(), index))
            .or_insert_with(|| Places::of(documents, index));
        Some(places.place(step.file, (documents, index), base, step.tokens))
    }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes a list.
pub(super) fn list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

/// Writes why a file cannot be read, as a member.
pub(super) fn error(out: &mut String, file: &File) {
    if let Some(broken) = file.broken() {
        let why = quoted(&one_line(&template::why(broken), 1_024));
        let (line, column) = (broken.line, broken.column);
        // Writing to a text does not fail.
        let _ = write!(out, r#","error":{{"line":{line},"column":{column},"message":{why}}}"#);
    }
}
