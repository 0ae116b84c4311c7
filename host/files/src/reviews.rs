//! The subjects of a check: documents with their reviews, and the locations of their parts.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use opgate_compat::kinds::is_cluster_scoped;
use opgate_document::{Document, Kind, Text, TooDeep, Value};
use opgate_text::one_line;

use super::bundle::Bundle;
use super::catalog::Package;
use super::content::{File, Origin};
use super::field::{FieldTarget, path_tokens};
use super::json::{DocumentWriter, json_string};
use super::location::{Location, Locator};
use super::recorded_review::RecordedReview;

/// Maximum bytes of the title of a package that are shown.
const MAX_TITLE_BYTES: usize = 256;

/// A bundle, a catalog's package or a manifest.
#[derive(Debug)]
pub struct Subject {
    /// The origin: a directory, a file, `file#2`.
    pub source: String,
    /// Kind of the document or object.
    pub kind: String,
    /// Name of the document or object.
    pub name: String,
    /// Namespace of an object of a cluster, empty if it has none; `None` if it is something else.
    pub namespace: Option<String>,
    /// The requests for the policies: about a bundle, and about each of its manifests.
    pub requests: Vec<Request>,
    /// Files of it that could not be read. A policy or the caller must report them.
    pub unreadable: Vec<Arc<File>>,
    /// Why it is not evaluated, if it is not: then it has no requests.
    pub not_evaluated: Option<String>,
}

impl Subject {
    /// Creates a file that is not evaluated.
    pub(crate) fn not_evaluated(path: &Path, reason: &str) -> Self {
        Self {
            source: path.display().to_string(),
            kind: String::new(),
            name: String::new(),
            namespace: None,
            requests: Vec::new(),
            unreadable: Vec::new(),
            not_evaluated: Some(reason.to_owned()),
        }
    }

    /// Returns the title of a package in a tree of denials; empty for blobs without a package, none if this
    /// is not a catalog.
    pub fn package(&self) -> Option<String> {
        let is_catalog =
            self.requests.iter().any(|r| matches!(r.object, RequestObject::Package(_)));
        let title = || {
            if self.name.is_empty() {
                String::new()
            } else {
                one_line(&format!("package {:?}", self.name), MAX_TITLE_BYTES)
            }
        };
        is_catalog.then(title)
    }
}

impl Subject {
    /// Returns the detected type, as `--input-type` names it; `review` for an AdmissionReview.
    pub fn input_type(&self) -> &'static str {
        let Some(request) = self.requests.first() else { return "" };
        match (&request.object, self.kind.as_str()) {
            (RequestObject::Package(_), _) => "catalog",
            (RequestObject::Bundle(_), "PlainBundle") => "plain",
            (RequestObject::Bundle(_), "OperatorProject") => "project",
            (RequestObject::Bundle(_), _) => "bundle",
            (RequestObject::Object(_), _) if request.is_stored => "cluster",
            (RequestObject::Object(_), _) if request.recorded.is_some() => "review",
            (RequestObject::Object(_), _) => "manifest",
        }
    }

    /// Returns a line with the detected type: for an AdmissionReview, and with `all` for every subject.
    pub fn input_type_line(&self, all: bool) -> Option<String> {
        let request = self.requests.first()?;
        let source = &self.source;
        let operation = if request.old.is_some() { "UPDATE" } else { "CREATE" };
        let what = match (self.input_type(), &request.recorded) {
            (_, Some(RecordedReview { operation, user, .. })) => {
                let (shown, by) =
                    (request.display_name(), if user.is_empty() { "" } else { " by " });
                format!("an AdmissionReview, {operation} of {shown}{by}{user}")
            }
            _ if !all => return None,
            ("manifest", _) => format!("a manifest, evaluated as {operation} by opgate:check"),
            ("cluster", _) => {
                "an object of a cluster, evaluated as CREATE by opgate:check".to_owned()
            }
            ("catalog", _) => "a catalog".to_owned(),
            ("plain", _) => "a plain bundle".to_owned(),
            ("project", _) => "a project".to_owned(),
            (what, _) => format!("a {what}"),
        };
        Some(format!("{source}: {what}"))
    }
}

/// One request for the policies.
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
    /// The object.
    pub object: RequestObject,
    /// The published version.
    pub old: Option<RequestObject>,
    /// Path of the object in the document of its bundle, a prefix for the fields of violations.
    pub prefix: String,
    /// Whether it is an object that an API server has stored, written by any user.
    pub is_stored: bool,
    /// The review, if the file has one instead of an object.
    pub recorded: Option<RecordedReview>,
    /// The origin of a Pod that no file contains, but a pod template of a workload.
    pub template: Option<PodTemplate>,
}

/// The origin of a request for a Pod.
#[derive(Debug, Clone)]
pub struct PodTemplate {
    /// JSON pointer of the template in the workload.
    pub pointer: &'static str,
    /// The workload: `Deployment dev/web`.
    pub workload: String,
    /// The workload.
    pub(crate) object: RequestObject,
}

/// Fields that a Pod has from its workload, not from the template.
const WORKLOAD_FIELDS: [&str; 2] = ["metadata.name", "metadata.namespace"];

impl PodTemplate {
    /// Returns the template as a field of the workload: `spec.template`.
    pub fn field(&self) -> String {
        self.pointer.trim_start_matches('/').replace('/', ".")
    }

    /// Returns a field of the Pod as a field of the workload.
    pub fn workload_field(&self, field: &str) -> String {
        if WORKLOAD_FIELDS.contains(&field) {
            return field.to_owned();
        }
        join_fields(&self.field(), field)
    }
}

/// Returns a field below another one. Either can be the whole object.
fn join_fields(above: &str, field: &str) -> String {
    let has_dot = !above.is_empty() && !field.is_empty() && !field.starts_with('[');
    format!("{above}{}{field}", if has_dot { "." } else { "" })
}

/// A document, and its parts.
#[derive(Debug, Clone)]
pub enum RequestObject {
    /// A directory with all its files.
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
    /// The document, prepared once for the lookup of the locations of all objects in it.
    pub(crate) locator: Arc<OnceLock<Locator>>,
    /// The object as written, if the request contains a different representation.
    pub original_json: Option<Arc<str>>,
}

impl Request {
    /// Reports whether it is a document that represents files, not an object of a cluster.
    pub fn represents_files(&self) -> bool {
        !matches!(self.object, RequestObject::Object(_))
    }

    /// Returns a field of the object as a field of the subject: in the document of its bundle, or in the workload of a
    /// Pod.
    pub fn subject_field(&self, field: &str) -> String {
        match &self.template {
            Some(template) => join_fields(&self.prefix, &template.workload_field(field)),
            None => join_fields(&self.prefix, field),
        }
    }

    /// Returns the object in which a field of the object has its place: the workload if a Pod has the field from it.
    pub fn object_with(&self, field: &str) -> &RequestObject {
        let template = self.template.as_ref().filter(|_| WORKLOAD_FIELDS.contains(&field));
        template.map_or(&self.object, |template| &template.object)
    }

    /// Returns `Pod default/web`, or `Pod of Deployment default/web`.
    pub fn display_name(&self) -> String {
        if let Some(template) = &self.template {
            return one_line(&format!("{} of {}", self.kind, template.workload), 512);
        }
        let Self { kind, namespace, name, .. } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        one_line(&format!("{kind} {namespace}{slash}{name}"), 512)
    }

    /// Calls `visit` with the object and its namespace, if the request creates or changes it.
    pub fn for_each_new_object(&self, visit: &mut impl FnMut(Value<'_>, &str)) {
        let RequestObject::Object(object) = &self.object else { return };
        let is_of_user = self.prefix.is_empty() && self.template.is_none();
        if !is_of_user || self.is_stored || self.recorded.is_some() {
            return;
        }
        if let Some(written) = &object.original_json {
            if let Ok(document) = Document::parse(written) {
                visit(document.root(), &self.namespace);
            }
        } else if let Some(documents) = object.file.documents() {
            visit(documents.document(object.index).root(), &self.namespace);
        }
    }

    /// Gives an object a namespace that names none, as `kubectl --namespace` does.
    pub fn set_default_namespace(&mut self, namespace: &str) {
        let RequestObject::Object(object) = &mut self.object else { return };
        if self.recorded.is_some() {
            return;
        }
        let is_in_none = is_cluster_scoped(&self.group, &self.kind);
        if is_in_none || !self.namespace.is_empty() || !self.prefix.is_empty() {
            return;
        }
        namespace.clone_into(&mut self.namespace);
        let json = match &object.original_json {
            Some(written) => written.to_string(),
            None => object.file.documents().map_or("null", |d| d.json(object.index)).to_owned(),
        };
        let Ok(document) = Document::of(json.clone()) else { return };
        let Some(metadata) = document.get("/metadata").filter(|m| m.kind() == Kind::Object) else {
            return;
        };
        if metadata.get("/namespace").is_some() {
            return;
        }
        let (start, comma) = (metadata.range().start + 1, metadata.length() != Some(0));
        let (before, after) = json.split_at_checked(start).unwrap_or((&json, ""));
        let comma = if comma { "," } else { "" };
        let written = format!("{before}\"namespace\":{}{comma}{after}", json_string(namespace));
        object.original_json = Some(written.into());
    }

    /// Returns the review, as an API server would send it. Parts of files are not copied.
    ///
    /// # Errors
    /// Fails if it is nested too deep.
    pub fn text(&self) -> Result<Arc<Text>, TooDeep> {
        if let Some(recorded) = &self.recorded {
            return Text::new(recorded.json.to_string()).map(Arc::new);
        }
        let Self { group, version, kind, resource, .. } = self;
        let [group, version, kind, resource] =
            [group, version, kind, resource].map(|t| json_string(t));
        // Only an object in a bundle has a prefix.
        let groups = match (self.is_stored, self.prefix.is_empty()) {
            (true, _) => r#","groups":["opgate:audit"]"#,
            (false, true) => "",
            (false, false) => r#","groups":["opgate:bundle"]"#,
        };
        let json = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":{},"kind":{{"group":{group},"version":{version},"kind":{kind}}},"resource":{{"group":{group},"version":{version},"resource":{resource}}},"name":{},"namespace":{},"operation":"{}","userInfo":{{"username":"opgate:check"{groups}}},"object":"#,
            // The log identifies a review by it.
            json_string(format!("{} {}", self.kind, self.name).trim_end()),
            json_string(&self.name),
            json_string(&self.namespace),
            if self.old.is_some() { "UPDATE" } else { "CREATE" },
        );
        let mut out = DocumentWriter { json, ..DocumentWriter::default() };
        self.object.write(&mut out);
        if let Some(old) = &self.old {
            out.json.push_str(",\"oldObject\":");
            old.write(&mut out);
        }
        out.json.push_str("}}");
        let text = Text::assemble(out.json, out.parts);
        text.map(Arc::new)
    }

    /// Returns the review as one text.
    #[cfg(test)]
    pub(crate) fn review(&self) -> String {
        let text = self.text().unwrap();
        Document::part(text.clone(), 0..text.len()).root().raw().into_owned()
    }
}

impl RequestObject {
    fn write(&self, out: &mut DocumentWriter) {
        match self {
            Self::Bundle(bundle) => bundle.write(&mut out.json),
            Self::Package(package) => package.write(out),
            Self::Object(Object { original_json: Some(written), .. }) => out.json.push_str(written),
            Self::Object(object) => {
                let json = object.file.documents().map_or("null", |d| d.json(object.index));
                out.json.push_str(json);
            }
        }
    }
}

/// Finds the places of the violations of one document.
pub struct LocationResolver<'l> {
    object: &'l RequestObject,
    locators: HashMap<(String, usize), Locator>,
}

impl<'l> LocationResolver<'l> {
    /// Creates it for the violations of a document.
    pub fn new(layout: &'l RequestObject) -> Self {
        Self { object: layout, locators: HashMap::new() }
    }

    /// Returns the location of a field; none for the directory as a whole.
    pub fn resolve(&mut self, field: &str) -> Option<Location> {
        let tokens = path_tokens(field);
        let (step, base) = match self.object {
            RequestObject::Bundle(bundle) => (bundle.find_target(&tokens)?, ""),
            RequestObject::Package(package) => (package.find_target(&tokens)?, ""),
            RequestObject::Object(Object { file, .. }) if file.origin == Origin::NoFile => {
                return None;
            }
            RequestObject::Object(Object { file, index, pointer, .. }) => {
                let step = FieldTarget { file, document: Some(*index), tokens: &tokens };
                (step, pointer.as_str())
            }
        };
        let (Some(index), Some(documents)) = (step.document, step.file.documents()) else {
            // A text has no documents, but lines: `text[2]` is the third line.
            if let [text, line] = step.tokens
                && text == "text"
                && let Ok(line) = line.parse()
            {
                return Some(Location::at_line(step.file, line));
            }
            let problem = step.file.read_error().or(step.file.duplicate_key.as_ref());
            let (line, column) = problem.map_or((1, 1), |b| (b.line, b.column));
            return Some(Location::new(step.file, line, column));
        };
        if let RequestObject::Object(Object { locator: located, .. }) = self.object {
            let places = located.get_or_init(|| Locator::of(documents, index));
            return Some(places.locate(step.file, (documents, index), base, step.tokens));
        }
        let places = self
            .locators
            .entry((step.file.path.clone(), index))
            .or_insert_with(|| Locator::of(documents, index));
        Some(places.locate(step.file, (documents, index), base, step.tokens))
    }
}
