//! A cluster in files: the output of `kubectl get -A -o yaml`, treated as complete, and that of
//! `kubectl get --raw /version`.

use opgate_cluster::{Key, server_version};
use opgate_compat::kinds::plural;
use opgate_document::{Document, Value};
use opgate_input::objects;
use tokio::time::Instant;

use crate::cluster::ClusterState;
use crate::cluster::store::cache::{ResourceCache, key_of};
use crate::cluster::store::listing::Listing;

/// The member that a document of a snapshot misses, with its JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SnapshotError(String);

/// Objects from files.
#[derive(Debug, Default)]
pub struct Snapshot {
    documents: Vec<Document>,
}

impl Snapshot {
    /// Adds an object, a list of objects, or the version of the API server; returns the number of
    /// objects.
    ///
    /// # Errors
    /// If it is neither: the missing member, with its JSON pointer.
    pub fn add(&mut self, document: Document) -> Result<usize, SnapshotError> {
        if server_version(document.root()).is_some() {
            self.documents.push(document);
            return Ok(1);
        }
        let (mut count, mut wrong) = (0, None);
        objects::for_each_object(document.root(), None, &mut |found| {
            let named = found.map_err(|wrong| SnapshotError(wrong.to_string())).and_then(|found| {
                let name = found.value.get("/metadata/name").and_then(|name| name.text());
                let pointer = found.pointer;
                let missing = || {
                    SnapshotError(format!(
                        "{pointer}/metadata/name is missing: not a Kubernetes object"
                    ))
                };
                name.filter(|name| !name.is_empty()).map(drop).ok_or_else(missing)
            });
            match named {
                Ok(()) => count += 1,
                Err(why) => drop(wrong.get_or_insert(why)),
            }
        });
        self.documents.push(document);
        wrong.map_or(Ok(count), Err)
    }

    /// Makes these the only objects of cluster state. Objects that no policy reads are left out,
    /// except for some custom resources of each kind, for samples.
    pub fn replace_state(&self, cluster: &ClusterState) {
        cluster.clear();
        for document in &self.documents {
            if let Some(version) = server_version(document.root()) {
                let versions = cluster.caches().iter();
                let versions = versions.filter(|kind| kind.resource().is_server_version());
                versions.for_each(|kind| kind.apply(version.root(), ""));
                continue;
            }
            let mut listings = ListingBuilder::of(cluster);
            // They were checked when they were added.
            objects::for_each_object(document.root(), None, &mut |found| {
                let Ok(found) = found else { return };
                listings.add(found.value, found.group_version().0, &plural(found.kind));
            });
            listings.merge();
        }
    }
}

impl ClusterState {
    /// Resets all knowledge: the cluster has no objects.
    pub fn clear(&self) {
        for kind in self.caches() {
            kind.replace(kind.empty(), Instant::now());
        }
        self.files.clear();
    }

    /// Returns the name of an object that will be applied; none if no policy reads such objects.
    #[must_use]
    pub fn unstored_name(
        &self,
        object: Value<'_>,
        namespace: &str,
        group: &str,
        resource: &str,
    ) -> Option<UnstoredName> {
        let (group, resource) = (group.to_owned(), resource.to_owned());
        let name = UnstoredName { group, resource, key: key_of(object, namespace)? };
        let is_kept = self.caches_of(&name).next().is_some();
        is_kept.then_some(name)
    }

    /// Forgets an object that will not be applied any more.
    pub fn forget(&self, name: &UnstoredName) {
        self.caches_of(name).for_each(|kind| kind.delete(&name.key, "", ""));
    }

    /// Returns the resources of an object, as the statistics of queries name them.
    pub fn resources_of(&self, name: &UnstoredName) -> impl Iterator<Item = String> {
        self.caches_of(name).map(|kind| kind.resource().to_string())
    }

    fn caches_of(&self, name: &UnstoredName) -> impl Iterator<Item = &ResourceCache> {
        let caches = self.caches().iter().map(AsRef::as_ref);
        caches.filter(|kind: &&ResourceCache| kind.holds_resource(&name.group, &name.resource))
    }
}

/// The name of an object that will be applied, and its kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnstoredName {
    group: String,
    resource: String,
    key: Key,
}

impl UnstoredName {
    /// Returns about how many bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        let Self { group, resource, key } = self;
        let texts = [group.len(), resource.len(), key.namespace.len(), key.name.len()];
        texts.into_iter().fold(size_of::<Self>(), usize::saturating_add)
    }
}

/// Objects that arrive one after another, as in the lists of an API server.
#[derive(Debug)]
pub struct ListingBuilder<'c> {
    cluster: &'c ClusterState,
    listings: Vec<Listing>,
}

impl<'c> ListingBuilder<'c> {
    /// Without objects.
    #[must_use]
    pub fn of(cluster: &'c ClusterState) -> Self {
        let listings = cluster.caches().iter().map(|kind| kind.empty()).collect();
        Self { cluster, listings }
    }

    /// Adds the parts that policies read of an object of this API group and resource.
    pub fn add(&mut self, object: Value<'_>, group: &str, resource: &str) {
        self.cluster.files.put(group, resource, object, "");
        for (kind, listing) in self.cluster.caches().iter().zip(&mut self.listings) {
            let known = kind.resource();
            // Only the response of the API server determines its version.
            if known.group == group && known.resource == resource && !known.is_server_version() {
                kind.add_object(listing, object, "");
            }
        }
    }

    /// Adds the parts that policies read of an object that will be applied. It is not a
    /// sample of existing objects.
    pub fn add_unstored(
        &mut self,
        object: Value<'_>,
        namespace: &str,
        group: &str,
        resource: &str,
    ) {
        for (kind, listing) in self.cluster.caches().iter().zip(&mut self.listings) {
            if kind.holds_resource(group, resource) {
                kind.add_object(listing, object, namespace);
            }
        }
    }

    /// Makes them visible to policies, instead of those with the same names.
    pub fn merge(self) {
        for (kind, listing) in self.cluster.caches().iter().zip(self.listings) {
            kind.merge(listing);
        }
    }

    /// Makes them visible to policies in addition to the known objects. If nothing else is known
    /// of a resource, they are not complete: a policy finds them by name, and a query for several
    /// objects has no result.
    pub fn merge_partial(self) {
        for (kind, listing) in self.cluster.caches().iter().zip(self.listings) {
            if !(listing.objects.is_empty() && listing.unreadable.is_empty()) {
                kind.merge_partial(listing);
            }
        }
    }
}
