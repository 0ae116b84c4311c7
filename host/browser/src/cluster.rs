//! Other objects of the cluster, as a snapshot from files shows them.
//!
//! ```text
//! objects ─▶ declared fields of each read ─▶ Store ─ get, select ─▶ objects
//!       └──▶ whole custom resources ──────────────── sample ──────▶ documents
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use opgate_cluster::{
    Declaration, IndexMatch, Key, Object, Query, Resource, Selector, Store, parse_selector,
    server_version,
};
use opgate_compat::kinds::plural;
use opgate_document::{Document, Value};
use opgate_input::objects::for_each_object;
use opgate_text::one_line;

use crate::bindings::cluster::{GroupVersionResource, Query as WitQuery, ReadError};

/// Maximum number of sampled objects in a result, and bytes of them, as for a server.
const MAX_SAMPLE_OBJECTS: usize = 500;
const MAX_SAMPLE_BYTES: usize = 4 << 20;

/// Why a declared resource is not read.
#[derive(Debug, Clone)]
pub(crate) enum UnavailableReason {
    /// The rules that need it are off.
    Off,
    /// None of these settings is set.
    NotSet(Vec<String>),
    /// It is made of files.
    OnlyInFiles,
}

/// The fields that a policy declares to read from objects of a resource.
#[derive(Debug)]
pub(crate) struct DeclaredRead {
    pub(crate) resource: Resource,
    pub(crate) declaration: Declaration,
}

/// An object in a result, and the read of which it has the fields.
pub(crate) type StoredObject = (Arc<Object>, Arc<DeclaredRead>);

/// A declared read, with its settings applied.
#[derive(Debug)]
pub(crate) struct ResolvedRead {
    pub(crate) declared: Arc<DeclaredRead>,
    pub(crate) labels: Selector,
    pub(crate) namespace: Option<String>,
    pub(crate) unavailable: Option<UnavailableReason>,
}

/// The access of a policy to samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SampleAccess {
    /// It declares no sampling rule.
    #[default]
    Undeclared,
    /// These rules are off.
    Off,
    /// Custom resources.
    On,
}

/// The cluster state of one call.
#[derive(Default)]
pub(crate) struct CallCluster {
    reads: Rc<[ResolvedRead]>,
    sample_access: SampleAccess,
    /// None without cluster state.
    snapshot: Option<Rc<Snapshot>>,
    /// Read and last object of the last page.
    page: Option<(usize, Key)>,
}

/// The objects that a policy reads.
pub(crate) struct Snapshot {
    /// In the order of the reads.
    stores: Vec<Store>,
    /// Custom resources by group and resource.
    custom_resources: BTreeMap<(String, String), BTreeMap<Key, Arc<Document>>>,
    /// Namespaces.
    namespaces: BTreeMap<String, Arc<Document>>,
}

/// The last snapshot of a policy, with its text: the objects of one evaluation have the same cluster state.
#[derive(Default)]
pub(crate) struct SnapshotCache(RefCell<Option<(String, Rc<Snapshot>)>>);

/// An object of cluster state that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the cluster state is not valid: {0}")]
pub(crate) struct ClusterError(String);

impl CallCluster {
    /// The cluster state of a new call.
    pub(crate) fn new(
        reads: Rc<[ResolvedRead]>,
        sample_access: SampleAccess,
        snapshot: Option<Rc<Snapshot>>,
    ) -> Self {
        Self { reads, sample_access, snapshot, page: None }
    }

    /// A Namespace of the snapshot.
    pub(crate) fn namespace(&self, name: &str) -> Option<&Arc<Document>> {
        self.snapshot.as_ref()?.namespaces.get(name)
    }

    /// Whether there is cluster state.
    pub(crate) fn is_known(&self) -> bool {
        self.snapshot.is_some()
    }

    /// The read of a resource, by its position, and its objects.
    fn find(
        &self,
        wanted: &GroupVersionResource,
    ) -> Result<(usize, &ResolvedRead, &Store), ReadError> {
        let GroupVersionResource { group, version, resource } = wanted;
        let is_it = |read: &ResolvedRead| {
            let known = &read.declared.resource;
            known.resource == *resource && known.group == *group && known.version == *version
        };
        let line = |text: &String| one_line(text, 128);
        let named =
            Resource { group: line(group), version: line(version), resource: line(resource) };
        let Some(position) = self.reads.iter().position(is_it) else {
            return Err(ReadError::NotDeclared(format!("{named} is not among the declared reads")));
        };
        let store = self.snapshot.as_ref().and_then(|snapshot| snapshot.stores.get(position));
        match (self.reads.get(position), store) {
            (Some(ResolvedRead { unavailable: Some(why), .. }), _) => Err(why.error(&named)),
            (Some(read), Some(store)) => Ok((position, read, store)),
            _ => Err(ReadError::NoCluster(format!("{named}: there is no cluster to ask"))),
        }
    }

    /// Returns one object.
    pub(crate) fn get(
        &self,
        resource: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<StoredObject>, ReadError> {
        let (_, read, store) = self.find(resource)?;
        if !can_exist(read, Some(namespace), Some(name)) {
            return Ok(None);
        }
        let found = store.get(&Key::new(namespace, name));
        Ok(found.map(|object| (object.clone(), read.declared.clone())))
    }

    /// Returns at most this many objects that match.
    pub(crate) fn select(
        &mut self,
        resource: &GroupVersionResource,
        query: WitQuery,
        most: usize,
    ) -> Result<Vec<StoredObject>, ReadError> {
        let (position, read, store) = self.find(resource)?;
        let declared = read.declared.clone();
        if !can_exist(read, query.namespace.as_deref(), None) {
            return Ok(Vec::new());
        }
        let last = self.page.as_ref().filter(|(of, _)| *of == position).map(|(_, last)| last);
        let after = query.after.as_ref().map(|after| Key::new(&after.namespace, &after.name));
        // If several objects have one name, the one that ended the last page.
        let after = after.map(|key| match last {
            Some(last) if last.has_same_name(&key) => last.clone(),
            _ => key,
        });
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let mut wanted = Query {
            namespace: query.namespace,
            limit: if limit == 0 { most } else { limit.min(most) },
            after,
            ..Query::default()
        };
        if let Some(json) = query.label_selector {
            let json = Document::of(json).map_err(|e| ReadError::Invalid(e.to_string()))?;
            let selector = parse_selector(json.root());
            wanted.label_selector = selector.map_err(|e| ReadError::Invalid(e.to_string()))?;
        }
        for condition in query.matches {
            let declaration = &declared.declaration;
            let index = declaration.index(&condition.index);
            let index = index.and_then(|index| declaration.equivalent_index(index));
            let index = index.ok_or_else(|| {
                let name = one_line(&condition.index, 64);
                let resource = &declared.resource;
                ReadError::NotDeclared(format!("the read of {resource} declares no index {name:?}"))
            })?;
            let values = Arc::new(condition.values.into_iter().collect());
            let include_missing = condition.include_missing;
            wanted.matches.push(IndexMatch { index, values, include_missing });
        }
        let found = store.select(&wanted);
        self.page = found.last().map(|object| (position, object.key().clone()));
        Ok(found.into_iter().map(|object| (object, declared.clone())).collect())
    }

    /// Returns some objects of a kind, and whether these are all.
    pub(crate) fn sample(
        &self,
        resource: &GroupVersionResource,
        limit: u32,
    ) -> Result<(Vec<Arc<Document>>, bool), ReadError> {
        let GroupVersionResource { group, resource, .. } = resource;
        let named = format!("{}.{}", one_line(resource, 253), one_line(group, 253));
        match (self.sample_access, &self.snapshot) {
            (SampleAccess::Undeclared, _) => {
                Err(ReadError::NotDeclared("no rule is declared in `samples`".to_owned()))
            }
            (SampleAccess::Off, _) => Err(ReadError::NoCluster(format!(
                "{named} is not listed: the rules that need it are off"
            ))),
            (SampleAccess::On, None) => {
                Err(ReadError::NoCluster(format!("{named}: there is no cluster to ask")))
            }
            (SampleAccess::On, Some(snapshot)) => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let key = (group.clone(), resource.clone());
                Ok(snapshot.sample(&key, limit.clamp(1, MAX_SAMPLE_OBJECTS)))
            }
        }
    }
}

impl UnavailableReason {
    fn error(&self, resource: &Resource) -> ReadError {
        match self {
            Self::Off => ReadError::NoCluster(format!(
                "{resource} is not read: the rules that need it are off"
            )),
            Self::NotSet(settings) => ReadError::Unavailable(format!(
                "{resource} is read only with the setting {}",
                settings.join(" or ")
            )),
            Self::OnlyInFiles => {
                ReadError::Unavailable(format!("{resource} is made of files, no API server has it"))
            }
        }
    }
}

impl SnapshotCache {
    /// Returns the snapshot of a text, which is read again only if it differs from the last one.
    pub(crate) fn read(
        &self,
        reads: &[ResolvedRead],
        json: String,
    ) -> Result<Rc<Snapshot>, ClusterError> {
        let mut last = self.0.borrow_mut();
        if let Some((text, snapshot)) = &*last
            && *text == json
        {
            return Ok(snapshot.clone());
        }
        let snapshot = Rc::new(Snapshot::of(reads, json.clone())?);
        *last = Some((json, snapshot.clone()));
        Ok(snapshot)
    }
}

impl Snapshot {
    /// Reads the objects, a JSON list, as one policy sees them.
    fn of(reads: &[ResolvedRead], json: String) -> Result<Self, ClusterError> {
        let list = Document::of(json).map_err(|error| ClusterError(error.to_string()))?;
        let store = |read: &ResolvedRead| Store::new(read.declared.declaration.index_count());
        let (custom_resources, namespaces) = (BTreeMap::new(), BTreeMap::new());
        let stores = reads.iter().map(store).collect();
        let mut snapshot = Self { stores, custom_resources, namespaces };
        for item in list.root().items() {
            if let Some(version) = server_version(item) {
                snapshot.add(reads, version.root(), Resource::is_server_version)?;
                continue;
            }
            let mut wrong = None;
            for_each_object(item, None, &mut |found| {
                let added = found.map_err(|why| ClusterError(why.to_string())).and_then(|found| {
                    let (group, _) = found.group_version();
                    snapshot.add_object(reads, found.value, group, &plural(found.kind))
                });
                wrong = wrong.take().or(added.err());
            });
            wrong.map_or(Ok(()), Err)?;
        }
        Ok(snapshot)
    }

    /// Adds an object to the stores of the reads that include it.
    fn add(
        &mut self,
        reads: &[ResolvedRead],
        object: Value<'_>,
        is_it: impl Fn(&Resource) -> bool,
    ) -> Result<(), ClusterError> {
        for (read, store) in reads.iter().zip(&mut self.stores) {
            if !is_it(&read.declared.resource) {
                continue;
            }
            let kept = read.declared.declaration.project(object);
            let kept = kept.map_err(|why| ClusterError(why.to_string()))?;
            let is_inside = read.namespace.as_ref().is_none_or(|ns| **ns == *kept.key().namespace);
            if is_inside && read.labels.matches(|key| kept.label(key)) {
                store.add(kept);
            }
        }
        Ok(())
    }

    fn add_object(
        &mut self,
        reads: &[ResolvedRead],
        object: Value<'_>,
        group: &str,
        resource: &str,
    ) -> Result<(), ClusterError> {
        let text = |pointer: &str| object.get(pointer).and_then(|value| value.text());
        let Some(name) = text("/metadata/name").filter(|name| !name.is_empty()) else {
            return Err(ClusterError("an object has no metadata.name".to_owned()));
        };
        let whole = || {
            let document = Document::of(object.raw().into_owned());
            document.map(Arc::new).map_err(|error| ClusterError(error.to_string()))
        };
        if group.contains('.') {
            let key = Key::new(text("/metadata/namespace").unwrap_or_default(), name);
            let kind = (group.to_owned(), resource.to_owned());
            self.custom_resources.entry(kind).or_default().insert(key, whole()?);
        }
        if group.is_empty() && resource == "namespaces" {
            self.namespaces.insert(name.to_owned(), whole()?);
        }
        // Only the response of the API server determines its version.
        let is_it = |known: &Resource| {
            known.group == group && known.resource == resource && !known.is_server_version()
        };
        self.add(reads, object, is_it)
    }

    /// Some objects of a kind, and whether these are all.
    fn sample(&self, kind: &(String, String), limit: usize) -> (Vec<Arc<Document>>, bool) {
        let Some(objects) = self.custom_resources.get(kind) else { return (Vec::new(), true) };
        let mut bytes = 0_usize;
        let fits = |object: &&Arc<Document>| {
            bytes = bytes.saturating_add(object.size());
            bytes <= MAX_SAMPLE_BYTES
        };
        let found: Vec<_> = objects.values().take(limit).take_while(fits).cloned().collect();
        let complete = found.len() == objects.len();
        (found, complete)
    }
}

/// Whether such an object is possible: no server is asked for another.
fn can_exist(read: &ResolvedRead, namespace: Option<&str>, name: Option<&str>) -> bool {
    let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_namespace = |text: &str| text.len() <= 63 && text.bytes().all(label);
    let is_name = |text: &str| {
        !matches!(text, "" | "." | "..") && text.len() <= 253 && !text.contains(['/', '%'])
    };
    let is_read = |namespace: &str| read.namespace.as_deref().is_none_or(|read| read == namespace);
    namespace.is_none_or(|text| is_namespace(text) && is_read(text)) && name.is_none_or(is_name)
}
