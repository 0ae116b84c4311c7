//! Other objects of the cluster. A policy declares what it reads as a [`ClusterRead`], and queries
//! it here.
//!
//! In native tests the results come from a [`Cluster`] that the test fills. It uses the same code as the
//! host. [`sample`](crate::sample()) reads undeclared kinds.

use crate::bindings::opgate::policy::cluster as wit;
use crate::{ClusterRead, Document};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// There is no cluster to query, or the rules that need the resource are off. The policy
    /// reports a rule that needs it as skipped.
    NoCluster,
    /// The query is invalid: the error in a selector, in the words of Kubernetes.
    Invalid(String),
    /// There is cluster state, but these objects are not part of it, or are unreadable now: the reason as one
    /// clause. The policy reports a rule that needs them as skipped.
    Unavailable(String),
}

/// Namespace (empty for a cluster-scoped object) and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Selects objects. All conditions that are set must hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'q> {
    /// Only objects in this namespace.
    pub namespace: Option<&'q str>,
    /// Only objects that this label selector (JSON) selects.
    pub label_selector: Option<&'q str>,
    /// Only objects with these values in indexes.
    pub matches: &'q [IndexMatch<'q>],
}

/// A condition on an index of the [`ClusterRead`].
#[derive(Debug, Clone, Copy)]
pub struct IndexMatch<'q> {
    /// Name of the index.
    pub index: &'q str,
    /// One of these values.
    pub values: &'q [String],
    /// Whether objects without a value match, too.
    pub include_missing: bool,
}

/// Maximum number of values of a [`IndexMatch`], see `wit/policy.wit`. Ask several times for more.
pub const MAX_INDEX_VALUES: usize = 65_536;

/// The host accepts no longer names, and no object has one: reviewed objects may refer to any text.
const MAX_NAME_BYTES: usize = 4 << 10;

/// Returns a name, or one that nothing has in the place of one that is too long.
fn name_or_none(name: &str) -> &str {
    if name.len() > MAX_NAME_BYTES { "" } else { name }
}

/// Maximum sizes of pages, see `wit/policy.wit`.
const DOCUMENTS_PER_PAGE: u32 = 256;
const NAMES_PER_PAGE: u32 = 16_384;

impl ClusterRead {
    /// Returns one object, if it exists. The names may be any texts.
    ///
    /// # Errors
    /// If there is no cluster to query.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Document>, ReadError> {
        let is_too_long = namespace.len().max(name.len()) > MAX_NAME_BYTES;
        let (namespace, name) = if is_too_long { ("", "") } else { (namespace, name) };
        self.convert_error(host::get(self, namespace, name))
    }

    /// Calls `visit` with each object that matches, in byte order of namespace and name, until it
    /// returns `false`.
    ///
    /// # Errors
    /// If there is no cluster to query, or a selector is invalid.
    pub fn each(
        &self,
        query: Query<'_>,
        mut visit: impl FnMut(Document) -> bool,
    ) -> Result<(), ReadError> {
        let mut after = None;
        loop {
            let page =
                self.convert_error(host::list(self, &query.page(after, DOCUMENTS_PER_PAGE)))?;
            let full = is_full(page.len(), DOCUMENTS_PER_PAGE);
            after = page.last().filter(|_| full).map(name_of);
            for document in page {
                if !visit(document) {
                    return Ok(());
                }
            }
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns the names of the objects that match, in byte order.
    ///
    /// # Errors
    /// If there is no cluster to query, or a selector is invalid.
    pub fn names(&self, query: Query<'_>) -> Result<Vec<ObjectName>, ReadError> {
        let mut names: Vec<ObjectName> = Vec::new();
        loop {
            let after = names.last().map(|last| wit::ObjectName {
                namespace: last.namespace.clone(),
                name: last.name.clone(),
            });
            let page = self.convert_error(host::names(self, &query.page(after, NAMES_PER_PAGE)))?;
            let full = is_full(page.len(), NAMES_PER_PAGE);
            let name =
                |from: wit::ObjectName| ObjectName { namespace: from.namespace, name: from.name };
            names.extend(page.into_iter().map(name));
            if !full {
                return Ok(names);
            }
        }
    }

    /// Reports whether any object matches.
    ///
    /// # Errors
    /// If there is no cluster to query, or a selector is invalid.
    pub fn any(&self, query: Query<'_>) -> Result<bool, ReadError> {
        Ok(!self.convert_error(host::names(self, &query.page(None, 1)))?.is_empty())
    }

    #[expect(clippy::panic, reason = "a policy that asks for what it did not declare is wrong")]
    fn convert_error<T>(&self, answer: Result<T, wit::ReadError>) -> Result<T, ReadError> {
        answer.map_err(|error| match error {
            wit::ReadError::NoCluster(_) => ReadError::NoCluster,
            wit::ReadError::Invalid(why) => ReadError::Invalid(why),
            wit::ReadError::NotGranted(why) | wit::ReadError::Unavailable(why) => {
                ReadError::Unavailable(why)
            }
            wit::ReadError::NotDeclared(why) => panic!("{}: {why}", self.resource),
        })
    }
}

impl Query<'_> {
    fn page(&self, after: Option<wit::ObjectName>, limit: u32) -> wit::Query {
        let matches = self.matches.iter().map(|m| wit::IndexMatch {
            index: m.index.to_owned(),
            values: m.values.to_vec(),
            include_missing: m.include_missing,
        });
        wit::Query {
            namespace: self.namespace.map(|namespace| name_or_none(namespace).to_owned()),
            label_selector: self.label_selector.map(str::to_owned),
            matches: matches.collect(),
            after,
            limit,
        }
    }
}

fn is_full(length: usize, page: u32) -> bool {
    u32::try_from(length).is_ok_and(|length| length >= page)
}

fn name_of(document: &Document) -> wit::ObjectName {
    wit::ObjectName {
        namespace: document.text_or_empty("/metadata/namespace"),
        name: document.text_or_empty("/metadata/name"),
    }
}

/// The side of the host: imports in a component, the cluster of the test elsewhere.
#[cfg(target_arch = "wasm32")]
mod host {
    use super::wit;
    use crate::document::Part;
    use crate::{ClusterRead, Document};

    pub(super) fn get(
        read: &ClusterRead,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Document>, wit::ReadError> {
        let found = wit::get(&read.resource(), namespace, name)?;
        Ok(found.map(|handle| Document::new(handle, Some(Part::of(read.declared())))))
    }

    pub(super) fn list(
        read: &ClusterRead,
        query: &wit::Query,
    ) -> Result<Vec<Document>, wit::ReadError> {
        let part = Part::of(read.declared());
        let found = wit::list(&read.resource(), query)?.into_iter();
        Ok(found.map(|handle| Document::new(handle, Some(part.clone()))).collect())
    }

    pub(super) fn names(
        read: &ClusterRead,
        query: &wit::Query,
    ) -> Result<Vec<wit::ObjectName>, wit::ReadError> {
        wit::names(&read.resource(), query)
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod host {
    use std::cell::RefCell;

    use opgate_cluster as context;

    use super::{Cluster, wit};
    use crate::{ClusterRead, Document};

    thread_local! {
        pub(crate) static CLUSTER: RefCell<Option<Cluster>> = const { RefCell::new(None) };
    }

    fn with_store<T>(
        read: &ClusterRead,
        answer: impl FnOnce(&context::Declaration, &context::Store) -> Result<T, wit::ReadError>,
    ) -> Result<T, wit::ReadError> {
        CLUSTER.with_borrow(|cluster| {
            let resource = read.resource();
            let Some(cluster) = cluster else {
                return Err(wit::ReadError::NoCluster("there is no cluster".to_owned()));
            };
            let found = cluster.resources.iter().find(|kind| kind.resource == resource);
            let Some(kind) = found else {
                return Err(wit::ReadError::NotDeclared("not declared".to_owned()));
            };
            answer(&kind.declaration, &kind.store)
        })
    }

    pub(super) fn get(
        read: &ClusterRead,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Document>, wit::ReadError> {
        with_store(read, |_, store| {
            let found = store.get(&context::Key::new(namespace, name));
            Ok(found.map(|object| Document::from_stored(object.document(), read.declared())))
        })
    }

    fn select(
        read: &ClusterRead,
        query: &wit::Query,
    ) -> Result<Vec<std::sync::Arc<context::Object>>, wit::ReadError> {
        with_store(read, |declaration, store| {
            let mut store_query = context::Query {
                namespace: query.namespace.clone(),
                limit: usize::try_from(query.limit).unwrap_or_default(),
                ..context::Query::default()
            };
            store_query.after =
                query.after.as_ref().map(|a| context::Key::new(&a.namespace, &a.name));
            if let Some(labels) = &query.label_selector {
                let json = opgate_document::Document::parse(labels);
                let json = json.map_err(|e| wit::ReadError::Invalid(e.to_string()))?;
                store_query.label_selector = context::parse_selector(json.root())
                    .map_err(|e| wit::ReadError::Invalid(e.to_string()))?;
            }
            for m in &query.matches {
                let index =
                    declaration.index(&m.index).and_then(|i| declaration.equivalent_index(i));
                let index = index.ok_or_else(|| {
                    wit::ReadError::NotDeclared(format!("there is no index {:?}", m.index))
                })?;
                let values = std::sync::Arc::new(m.values.iter().cloned().collect());
                store_query.matches.push(context::IndexMatch {
                    index,
                    values,
                    include_missing: m.include_missing,
                });
            }
            Ok(store.select(&store_query))
        })
    }

    pub(super) fn list(
        read: &ClusterRead,
        query: &wit::Query,
    ) -> Result<Vec<Document>, wit::ReadError> {
        let found = select(read, query)?;
        Ok(found
            .iter()
            .map(|object| Document::from_stored(object.document(), read.declared()))
            .collect())
    }

    pub(super) fn names(
        read: &ClusterRead,
        query: &wit::Query,
    ) -> Result<Vec<wit::ObjectName>, wit::ReadError> {
        let name = |object: &std::sync::Arc<context::Object>| wit::ObjectName {
            namespace: object.key().namespace.to_string(),
            name: object.key().name.to_string(),
        };
        Ok(select(read, query)?.iter().map(name).collect())
    }
}

/// A cluster for native tests. Without one, every read is [`ReadError::NoCluster`].
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
pub struct Cluster {
    resources: Vec<StoredResource>,
    /// All objects, whole, each with its plural.
    pub(crate) all_objects: Vec<(String, Document)>,
    /// Why samples have no answer, for tests.
    pub(crate) sample_error: Option<wit::ReadError>,
}

#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
struct StoredResource {
    resource: crate::GroupVersionResource,
    label_selector: opgate_cluster::Selector,
    namespace: Option<String>,
    declaration: opgate_cluster::Declaration,
    store: opgate_cluster::Store,
}

#[cfg(not(target_arch = "wasm32"))]
impl Cluster {
    /// Creates an empty cluster for a policy that declares these reads. `settings` has the namespaces of
    /// reads that are limited to one.
    ///
    /// # Panics
    /// If a declaration is invalid.
    #[must_use]
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn new(reads: &[&ClusterRead], settings: &Document) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>();
        let watched = |read: &&ClusterRead| {
            let index = |index: &crate::Index| opgate_cluster::Index {
                name: index.name.to_owned(),
                field: index.field.to_owned(),
                separator: index.separator.to_owned(),
            };
            let indexes: Vec<_> = read.indexes.iter().map(index).collect();
            let declaration =
                opgate_cluster::Declaration::new(&owned(read.fields), &owned(read.keys), &indexes)
                    .expect("the pointers are good");
            let labels = if read.label_selector.is_empty() { "{}" } else { read.label_selector };
            let labels = opgate_document::Document::parse(labels).expect("JSON");
            StoredResource {
                resource: read.resource(),
                label_selector: opgate_cluster::parse_selector(labels.root()).expect("a selector"),
                namespace: read.namespace.map(|setting| setting.of(settings)),
                store: opgate_cluster::Store::new(declaration.index_count()),
                declaration,
            }
        };
        let kinds = reads.iter().map(watched).collect();
        Self { resources: kinds, all_objects: Vec::new(), sample_error: None }
    }

    /// Adds or replaces an object of a resource. Reads have it if the policy declares them, samples
    /// in any case. The version of the API server (`serverversions`) can also be an answer of
    /// `/version`.
    pub fn insert(&mut self, resource: &str, object: &Document) {
        let made = Some(resource).filter(|resource| *resource == "serverversions");
        let made = made.and_then(|_| opgate_cluster::server_version(object.root()));
        let kept = made.as_ref().map_or(object.root(), |made| made.root());
        let kinds = self.resources.iter_mut().filter(|kind| kind.resource.resource == resource);
        for kind in kinds {
            let Ok(kept) = kind.declaration.project(kept) else { continue };
            let inside = kind.namespace.as_ref().is_none_or(|ns| **ns == *kept.key().namespace);
            if inside && kind.label_selector.matches(|key| kept.label(key)) {
                kind.store.insert(kept);
            }
        }
        if made.is_none() {
            self.all_objects.retain(|(of, known)| {
                of != resource
                    || !["/apiVersion", "/metadata/namespace", "/metadata/name"]
                        .iter()
                        .all(|pointer| known.text(pointer) == object.text(pointer))
            });
            self.all_objects.push((resource.to_owned(), object.clone()));
        }
    }

    /// Runs `test` with this cluster for all policies on this thread.
    pub fn run<T>(self, test: impl FnOnce() -> T) -> T {
        host::CLUSTER.set(Some(self));
        let result = test();
        host::CLUSTER.set(None);
        result
    }
}
