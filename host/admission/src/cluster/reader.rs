//! What one policy sees: its own declarations over the kinds that all share, and one reader per call.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use opgate_cluster::{Declaration, Key, Match, Object, Query, Resource, Selector};
use opgate_document::{Charge, Document, Meter};

use super::lens::{Lens, Scope};
use super::{Cluster, Kind, Question, Reading, Source};
use opgate_engine::reader::{Answer, ClusterReader, Found, Payer, PolicyQuery, ReadError};
use opgate_engine::wit;

/// Documents and names that one answer has at the most, as `wit/policy.wit` says.
const DOCUMENTS: usize = 256;
const NAMES: usize = 16_384;

/// Questions of one call that are remembered, values in them, and how many bytes of them count as one
/// more. One who asks more has asked about everything.
const MOST_VALUES: usize = 4_096;
const VALUE: usize = 64;

/// The part of the cluster that one policy may read.
#[derive(Debug, Default)]
pub struct View {
    cluster: Option<Arc<Cluster>>,
    /// A few: to compare them takes less than to make a key for a map.
    windows: Vec<(Resource, Arc<Window>)>,
    /// Declared, but only for rules that are off.
    off: Vec<Resource>,
}

#[derive(Debug)]
struct Window {
    kind: usize,
    /// What the policy declares.
    declaration: Arc<Declaration>,
    /// What the kind holds beyond it is taken away.
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
                declaration: Arc::new(reading.declaration.clone()),
                narrower: !shared.declaration().is_within(&reading.declaration),
                labels: (shared.labels() != &reading.labels).then(|| reading.labels.clone()),
                namespace: reading
                    .namespace
                    .clone()
                    .filter(|ns| shared.namespace() != Some(ns.as_str())),
            };
            Some((reading.resource.clone(), Arc::new(window)))
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

impl Reader {
    /// The reader of a call that has ended.
    #[must_use]
    pub fn of(call: Box<dyn ClusterReader>) -> Option<Self> {
        let reader: Box<dyn Any> = call;
        reader.downcast().ok().map(|reader| *reader)
    }

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

    fn select(
        &mut self,
        resource: &wit::GroupVersionResource,
        asked: PolicyQuery,
        most: usize,
        payer: Payer<'_>,
    ) -> Answer {
        let Payer { meter, account } = payer;
        let view = self.view.clone();
        let window = match view.window(resource) {
            Ok(window) => window,
            Err(error) => return Ok(Err(error)),
        };
        let Some(kind) = view.cluster.as_ref().and_then(|c| c.kinds.get(window.kind)) else {
            return Ok(Ok(Found::default()));
        };
        let limit = if asked.limit == 0 { most } else { asked.limit.min(most) };
        if !is_possible(kind, asked.namespace.as_deref(), None) {
            return Ok(Ok(Found::default()));
        }
        let mut query = Query {
            namespace: asked.namespace.or_else(|| window.namespace.clone()),
            limit,
            after: asked.after.as_ref().map(|(namespace, name)| Key::new(namespace, name)),
            ..Query::default()
        };
        let mut bytes = asked.labels.as_ref().map_or(0, String::len);
        // It holds what the selector takes.
        let mut labels = None;
        if let Some(json) = asked.labels {
            let charge = Charge::on(account);
            if !charge.grow(json.len()) {
                return Ok(Ok(Found::default()));
            }
            let parsed = match Document::metered(json, charge, meter) {
                Ok(parsed) => labels.insert(parsed),
                Err(why) => return Ok(Err(ReadError::Invalid(why.to_string()))),
            };
            match opgate_cluster::selector(parsed.root_for(meter)) {
                Ok(selector) => query.labels = selector,
                Err(why) => return Ok(Err(ReadError::Invalid(why))),
            }
        }
        for (name, values, absent) in asked.matches {
            let index = window.declaration.index(&name);
            let Some(index) = index.and_then(|index| kind.declaration().index_like(index)) else {
                let name = opgate_text::one_line(&name, 64);
                let text = format!("the read of {} declares no index {name:?}", kind.resource());
                return Ok(Err(ReadError::Denied(text)));
            };
            bytes = values.iter().fold(bytes, |sum, value| sum.saturating_add(value.len()));
            // Of its size from the beginning: a set that grows is hashed again and again.
            let mut set = HashSet::with_capacity(values.len());
            set.extend(values.into_iter().take_while(|_| meter.spend(32)));
            query.matches.push(Match { index, values: Arc::new(set), absent });
        }
        let scope = query.namespace.clone().map_or(Scope::All, Scope::Namespace);
        let Lens { world, fresh } = self.lens.clone();
        let fresh = fresh.as_ref().and_then(|fresh| fresh.listing(window.kind, &scope));
        self.ask(window.kind, scope, meter);
        // A later page is of the same question.
        let is_first = query.after.is_none();
        let mut objects = Vec::new();
        loop {
            // A page may end amid the copies of an object; the next one shows the others.
            let goes_on = self
                .page
                .as_ref()
                .filter(|(of, last, _)| *of == window.kind && Some(last) == query.after.as_ref());
            let skip = goes_on.map_or(usize::MAX, |(_, _, copies)| *copies);
            let page = kind.select(&query, skip, fresh, world, Some(meter))?;
            self.touch(window.kind, page.touched, meter);
            let page_end = page.objects.last().map(|object| object.key().clone());
            let full = page.objects.len() == query.limit;
            objects.extend(page.objects.into_iter().filter(|object| window.shows(object, meter)));
            self.page = page_end.clone().map(|key| (window.kind, key, page.copies_of_last));
            // Where some were left out the page is filled up from what follows.
            query.limit = limit.saturating_sub(objects.len());
            if !full || query.limit == 0 || page_end < query.after || meter.is_stopped() {
                break;
            }
            query.after = page_end;
        }
        drop(labels);
        if is_first {
            let values = query.matches.iter().map(|of| of.values.len()).sum::<usize>();
            let values = values.saturating_add(bytes / VALUE).saturating_add(1);
            // Where there was no answer, the call has ended and rests on nothing.
            self.note(window.kind, values, || Question::Query(Box::new(query)));
        }
        Ok(Ok(window.found(objects)))
    }

    fn touch(&mut self, kind: usize, keys: impl IntoIterator<Item = Key>, meter: &Meter) {
        for key in keys {
            if !meter.spend(self.touched.len()) {
                return;
            }
            let touched = (kind, key);
            if !self.touched.contains(&touched) {
                self.touched.push(touched);
            }
        }
    }

    /// Remembers a question, within bounds.
    fn note(&mut self, kind: usize, values: usize, question: impl FnOnce() -> Question) {
        self.values = self.values.saturating_add(values);
        if self.values <= MOST_VALUES {
            self.questions.push((kind, question()));
        } else if !self
            .questions
            .iter()
            .any(|(of, known)| *of == kind && matches!(known, Question::Anything))
        {
            self.questions.push((kind, Question::Anything));
        }
    }

    fn ask(&mut self, kind: usize, scope: Scope, meter: &Meter) {
        if !meter.spend(self.asked.len()) {
            return;
        }
        let asked = (kind, scope);
        if !self.asked.contains(&asked) {
            self.asked.push(asked);
        }
    }
}

impl ClusterReader for Reader {
    fn get(
        &mut self,
        resource: &wit::GroupVersionResource,
        namespace: &str,
        name: &str,
        payer: Payer<'_>,
    ) -> Answer {
        let key = Key::new(namespace, name);
        let view = self.view.clone();
        let window = match view.window(resource) {
            Ok(window) => window,
            Err(error) => return Ok(Err(error)),
        };
        let Some(kind) = view.cluster.as_ref().and_then(|c| c.kinds.get(window.kind)) else {
            return Ok(Ok(Found::default()));
        };
        if !is_possible(kind, Some(namespace), Some(name)) {
            return Ok(Ok(Found::default()));
        }
        let scope = Scope::Object(key.clone());
        let Lens { world, fresh } = self.lens.clone();
        let fresh = fresh.as_ref().and_then(|fresh| fresh.listing(window.kind, &scope));
        self.ask(window.kind, scope, payer.meter);
        self.note(window.kind, 1, || Question::Object(key.clone()));
        let got = kind.get(&key, fresh, world)?;
        if got.touches {
            self.touch(window.kind, [key], payer.meter);
        }
        let objects = got.object.filter(|object| window.shows(object, payer.meter));
        let objects = objects.into_iter().collect();
        Ok(Ok(window.found(objects)))
    }

    fn list(
        &mut self,
        resource: &wit::GroupVersionResource,
        query: PolicyQuery,
        payer: Payer<'_>,
    ) -> Answer {
        self.select(resource, query, DOCUMENTS, payer)
    }

    fn names(
        &mut self,
        resource: &wit::GroupVersionResource,
        query: PolicyQuery,
        payer: Payer<'_>,
    ) -> Answer {
        self.select(resource, query, NAMES, payer)
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

impl View {
    fn window(&self, resource: &wit::GroupVersionResource) -> Result<&Arc<Window>, ReadError> {
        let wit::GroupVersionResource { group, version, resource } = resource;
        let is_it = |known: &Resource| {
            known.resource == *resource && known.group == *group && known.version == *version
        };
        let asked = || {
            let line = |text: &String| opgate_text::one_line(text, 128);
            Resource { group: line(group), version: line(version), resource: line(resource) }
        };
        match self.windows.iter().find(|(known, _)| is_it(known)) {
            Some(_) if self.is_absent() => {
                Err(ReadError::Absent(format!("{}: there is no cluster to ask", asked())))
            }
            Some((_, window)) => Ok(window),
            None if self.off.iter().any(is_it) => Err(ReadError::Absent(format!(
                "{} is not read: the rules that need it are off",
                asked()
            ))),
            None => Err(ReadError::Denied(format!("{} is not among the declared reads", asked()))),
        }
    }

    fn is_absent(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.options.source == Source::Absent)
    }
}

impl Window {
    fn found(&self, objects: Vec<Arc<Object>>) -> Found {
        Found::new(objects, self.narrower.then(|| self.declaration.clone()))
    }

    /// Whether the policy declares to read an object that the kind holds.
    fn shows(&self, object: &Object, meter: &Meter) -> bool {
        meter.spend(1)
            && self.namespace.as_deref().is_none_or(|ns| *ns == *object.key().namespace)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(|key| object.label(key)))
    }
}
