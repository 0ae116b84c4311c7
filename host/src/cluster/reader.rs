//! What one policy sees: its own declarations over the kinds that all share, and one reader per call.

use std::collections::HashMap;
use std::sync::Arc;

use opgate_context::{Key, Match, Object, Query, Resource, Selector};
use opgate_document::Document;

use super::kind::NotCurrent;
use super::lens::{Lens, Scope};
use super::{Cluster, Kind, Question, Reading, Source};
use crate::engine::wit;

/// Documents and names that one answer has at the most, as `wit/policy.wit` says.
const DOCUMENTS: usize = 256;
const NAMES: usize = 16_384;

/// Questions of one call that are remembered, and values in them. One who asks more has asked about everything.
const MOST_VALUES: usize = 4_096;

/// The part of the cluster that one policy may read.
#[derive(Debug, Default)]
pub struct View {
    cluster: Option<Arc<Cluster>>,
    windows: HashMap<Resource, Window>,
    /// Declared, but only for rules that are off.
    off: Vec<Resource>,
}

#[derive(Debug)]
struct Window {
    kind: usize,
    reading: Reading,
    /// What the kind holds beyond the policy's own declaration is taken away.
    narrower: bool,
    /// Labels and namespace, where the kind has more.
    labels: Option<Selector>,
    namespace: Option<String>,
}

impl View {
    /// The view of a policy with these readings. `off` is what it declares only for rules that are
    /// off.
    #[must_use]
    pub fn new(cluster: &Arc<Cluster>, readings: &[Reading], off: Vec<Resource>) -> Self {
        let window = |reading: &Reading| {
            let kind = cluster.position(&reading.resource)?;
            let shared = cluster.kinds.get(kind)?;
            let window = Window {
                kind,
                narrower: !shared.declaration().is_within(&reading.declaration),
                labels: (shared.labels() != &reading.labels).then(|| reading.labels.clone()),
                namespace: reading
                    .namespace
                    .clone()
                    .filter(|ns| shared.namespace() != Some(ns.as_str())),
                reading: reading.clone(),
            };
            Some((reading.resource.clone(), window))
        };
        let windows = readings.iter().filter_map(window).collect();
        Self { cluster: Some(cluster.clone()), windows, off }
    }

    /// A reader for one call.
    #[must_use]
    pub fn reader(self: &Arc<Self>, lens: Lens) -> Reader {
        Reader {
            view: self.clone(),
            lens,
            asked: Vec::new(),
            questions: Vec::new(),
            values: 0,
            touched: Vec::new(),
            page: None,
        }
    }
}

/// The reads of one call.
#[derive(Debug)]
pub struct Reader {
    view: Arc<View>,
    lens: Lens,
    asked: Vec<(usize, Scope)>,
    questions: Vec<(usize, Question)>,
    /// Values in the queries among them.
    values: usize,
    touched: Vec<(usize, Key)>,
    /// Kind and last object of the last page, and how many copies of it were shown.
    page: Option<(usize, Key, usize)>,
}

/// The answer to a policy, or why the call must end.
type Answer<T> = Result<Result<T, ReadError>, NotCurrent>;

/// Why a policy gets no answer.
#[derive(Debug)]
pub(crate) enum ReadError {
    Absent(String),
    Denied(String),
    Invalid(String),
}

impl Reader {
    /// What was asked.
    #[must_use]
    pub fn asked(&self) -> &[(usize, Scope)] {
        &self.asked
    }

    /// The same, as exactly as it was asked.
    #[must_use]
    pub fn questions(self) -> Vec<(usize, Question)> {
        self.questions
    }

    /// Objects that make the answers other ones in other worlds.
    #[must_use]
    pub fn touched(&self) -> &[(usize, Key)] {
        &self.touched
    }

    /// One object.
    ///
    /// # Errors
    /// Where there is no current view: the call must end.
    pub(crate) fn get(
        &mut self,
        resource: &wit::GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Answer<Option<Arc<Document>>> {
        let key = Key::new(namespace, name);
        let view = self.view.clone();
        let window = match view.window(resource) {
            Ok(window) => window,
            Err(error) => return Ok(Err(error)),
        };
        let Some(kind) = view.cluster.as_ref().and_then(|c| c.kinds.get(window.kind)) else {
            return Ok(Ok(None));
        };
        if !is_possible(kind, Some(namespace), Some(name)) {
            return Ok(Ok(None));
        }
        let scope = Scope::Object(key.clone());
        let Lens { world, fresh } = self.lens.clone();
        let fresh = fresh.as_ref().and_then(|fresh| fresh.listing(window.kind, &scope));
        self.ask(window.kind, scope);
        self.note(window.kind, Question::Object(key.clone()), 1);
        let got = kind.get(&key, fresh, world)?;
        if got.touches {
            self.touch(window.kind, [key]);
        }
        let found = got.object.filter(|object| window.shows(object));
        Ok(Ok(found.map(|object| window.document(&object))))
    }

    /// Objects that match.
    ///
    /// # Errors
    /// Where there is no current view: the call must end.
    pub(crate) fn list(
        &mut self,
        resource: &wit::GroupVersionResource,
        query: &Asked,
    ) -> Answer<Vec<Arc<Document>>> {
        self.select(resource, query, DOCUMENTS, Window::document)
    }

    /// Names of objects that match.
    ///
    /// # Errors
    /// Where there is no current view: the call must end.
    pub(crate) fn names(
        &mut self,
        resource: &wit::GroupVersionResource,
        query: &Asked,
    ) -> Answer<Vec<(String, String)>> {
        self.select(resource, query, NAMES, |_, object| {
            (object.key().namespace.to_string(), object.key().name.to_string())
        })
    }

    fn select<T>(
        &mut self,
        resource: &wit::GroupVersionResource,
        asked: &Asked,
        most: usize,
        take: impl Fn(&Window, &Arc<Object>) -> T,
    ) -> Answer<Vec<T>> {
        let view = self.view.clone();
        let window = match view.window(resource) {
            Ok(window) => window,
            Err(error) => return Ok(Err(error)),
        };
        let Some(kind) = view.cluster.as_ref().and_then(|c| c.kinds.get(window.kind)) else {
            return Ok(Ok(Vec::new()));
        };
        let limit = if asked.limit == 0 { most } else { asked.limit.min(most) };
        if !is_possible(kind, asked.namespace.as_deref(), None) {
            return Ok(Ok(Vec::new()));
        }
        let mut query = Query {
            namespace: asked.namespace.clone().or_else(|| window.namespace.clone()),
            limit,
            after: asked.after.as_ref().map(|(namespace, name)| Key::new(namespace, name)),
            ..Query::default()
        };
        if let Some(json) = &asked.labels {
            let parsed = Document::parse(json).map_err(|e| e.to_string());
            match parsed.and_then(|json| opgate_context::selector(json.root())) {
                Ok(selector) => query.labels = selector,
                Err(why) => return Ok(Err(ReadError::Invalid(why))),
            }
        }
        for (name, values, absent) in &asked.matches {
            let index = window.reading.declaration.index(name);
            let Some(index) = index.and_then(|index| kind.declaration().index_like(index)) else {
                let name = crate::text::one_line(name, 64);
                let text = format!("the read of {} declares no index {name:?}", kind.resource());
                return Ok(Err(ReadError::Denied(text)));
            };
            let values = values.iter().cloned().collect();
            query.matches.push(Match { index, values, absent: *absent });
        }
        let scope = query.namespace.clone().map_or(Scope::All, Scope::Namespace);
        let Lens { world, fresh } = self.lens.clone();
        let fresh = fresh.as_ref().and_then(|fresh| fresh.listing(window.kind, &scope));
        self.ask(window.kind, scope);
        if query.after.is_none() {
            // A later page is of the same question.
            let values = query.matches.iter().map(|of| of.values.len()).sum::<usize>();
            self.note(window.kind, Question::Query(Box::new(query.clone())), values + 1);
        }
        let mut answer = Vec::new();
        loop {
            // A page may end amid the copies of an object; the next one shows the others.
            let goes_on = self
                .page
                .as_ref()
                .filter(|(of, last, _)| *of == window.kind && Some(last) == query.after.as_ref());
            let skip = goes_on.map_or(usize::MAX, |(_, _, copies)| *copies);
            let page = kind.select(&query, skip, fresh, world)?;
            self.touch(window.kind, page.touched);
            let page_end = page.objects.last().map(|object| object.key().clone());
            let full = page.objects.len() == query.limit;
            let shown = page.objects.iter().filter(|object| window.shows(object));
            answer.extend(shown.map(|object| take(window, object)));
            self.page = page_end.clone().map(|key| (window.kind, key, page.copies_of_last));
            // Where some were left out the page is filled up from what follows.
            query.limit = limit.saturating_sub(answer.len());
            if !full || query.limit == 0 || page_end < query.after {
                return Ok(Ok(answer));
            }
            query.after = page_end;
        }
    }

    fn touch(&mut self, kind: usize, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            let touched = (kind, key);
            if !self.touched.contains(&touched) {
                self.touched.push(touched);
            }
        }
    }

    /// Remembers a question, within bounds.
    fn note(&mut self, kind: usize, question: Question, values: usize) {
        self.values = self.values.saturating_add(values);
        if self.values <= MOST_VALUES {
            self.questions.push((kind, question));
        } else if !self
            .questions
            .iter()
            .any(|(of, known)| *of == kind && matches!(known, Question::Anything))
        {
            self.questions.push((kind, Question::Anything));
        }
    }

    fn ask(&mut self, kind: usize, scope: Scope) {
        let asked = (kind, scope);
        if !self.asked.contains(&asked) {
            self.asked.push(asked);
        }
    }
}

/// Whether there can be such an object: no API server is asked about a name that is none, or about
/// another namespace than the one that is read. Policies take names from what tenants write.
fn is_possible(kind: &Kind, namespace: Option<&str>, name: Option<&str>) -> bool {
    let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_namespace = |text: &str| text.len() <= 63 && text.bytes().all(label);
    // As API servers take it: a segment of a path.
    let is_name = |text: &str| {
        !matches!(text, "" | "." | "..") && text.len() <= 253 && !text.contains(['/', '%'])
    };
    let is_read = |namespace: &str| kind.namespace().is_none_or(|read| read == namespace);
    namespace.is_none_or(|text| is_namespace(text) && is_read(text)) && name.is_none_or(is_name)
}

/// A query as a policy puts it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) matches: Vec<(String, Vec<String>, bool)>,
    pub(crate) after: Option<(String, String)>,
    pub(crate) limit: usize,
}

impl View {
    fn window(&self, resource: &wit::GroupVersionResource) -> Result<&Window, ReadError> {
        let wit::GroupVersionResource { group, version, resource } = resource;
        let line = |text: &String| crate::text::one_line(text, 128);
        let asked =
            Resource { group: line(group), version: line(version), resource: line(resource) };
        match self.windows.get(&asked) {
            Some(_) if self.is_absent() => {
                Err(ReadError::Absent(format!("{asked}: there is no cluster to ask")))
            }
            Some(window) => Ok(window),
            None if self.off.contains(&asked) => Err(ReadError::Absent(format!(
                "{asked} is not read: the rules that need it are off"
            ))),
            None => Err(ReadError::Denied(format!("{asked} is not among the declared reads"))),
        }
    }

    fn is_absent(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.options.source == Source::Absent)
    }
}

impl Window {
    /// Whether the policy declares to read an object that the kind holds.
    fn shows(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|ns| *ns == *object.key().namespace)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(|key| object.label(key)))
    }

    /// An object with the fields that the policy declares, and no others.
    fn document(&self, object: &Arc<Object>) -> Arc<Document> {
        let document = object.document();
        if !self.narrower {
            return Arc::new(document);
        }
        let own = self.reading.declaration.project(document.root());
        Arc::new(own.map(|object| object.document()).unwrap_or_default())
    }
}
