//! Confirms denials. The watch is some milliseconds behind: an object that a denial depends on may
//! have been deleted, changed or created. So opgate reads a few objects from the API server before
//! it denies a request. An allowed request causes no such read.
//!
//! ```text
//! denial ─▶ GroundRecorder (objects in results, objects and namespaces without one) ─▶ reads ─┬▶ as the watch: deny
//!                                                                                      └▶ news: evaluate again
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use opgate_cluster::{Key, Object};
use tokio::time::Instant;

use crate::cluster::reservations::is_newer;
use crate::cluster::store::listing::{Listing, QueryScope};
use crate::cluster::{ClusterState, DirectReader, ResourceId};

/// Maximum number of reads for one denial.
const MAX_READS: usize = 8;

/// Maximum number of objects in query results that are recorded for one call.
const MAX_OBJECTS: usize = 256;

/// Bytes of a message that are searched for names of objects.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// A namespace with more objects than this is not listed to find a missing one.
const MAX_IN_NAMESPACE: usize = 64;

/// Maximum number of times that a request is evaluated again. An object that changes more often is in use.
pub(crate) const MAX_ROUNDS: u32 = 3;

/// Maximum time of the reads. A denial that cannot be confirmed by then stands.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// An object or namespace that a denial depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenialGround {
    /// Its resource.
    pub(in crate::cluster) cache: ResourceId,
    /// An object, or a namespace in which none was found.
    pub(in crate::cluster) scope: QueryScope,
    /// The version of the object that the evaluation was shown; none if there was none.
    pub(in crate::cluster) version: Option<Box<str>>,
}

impl DenialGround {
    fn of(cache: ResourceId, object: &Object) -> Self {
        let version = Some(object.resource_version().into());
        Self { cache, scope: QueryScope::Object(object.key().clone()), version }
    }

    /// Whether a read is newer than the evaluation.
    fn is_outdated_by(&self, key: &Key, found: &Listing) -> bool {
        match (&self.version, found.objects.get(key)) {
            (None, found_object) => found_object.is_some() || found.unreadable.contains_key(key),
            (Some(shown), Some(object)) => is_newer(object.resource_version(), shown),
            // A deletion is later than the deleted version.
            (Some(shown), None) => is_newer(&found.version, shown),
        }
    }
}

/// The objects in the query results of one call.
#[derive(Debug, Clone, Default)]
pub struct GroundRecorder {
    /// Objects that were returned.
    returned_objects: Vec<(ResourceId, Arc<Object>)>,
    /// Queries for one object or within a namespace that returned nothing.
    empty_scopes: Vec<(ResourceId, QueryScope)>,
}

impl GroundRecorder {
    /// Records the result of a query.
    pub(in crate::cluster) fn add(
        &mut self,
        cache: ResourceId,
        scope: &QueryScope,
        objects: &[Arc<Object>],
    ) {
        if objects.is_empty() {
            let missing = (cache, scope.clone());
            if *scope != QueryScope::All
                && self.empty_scopes.len() < MAX_READS
                && !self.empty_scopes.contains(&missing)
            {
                self.empty_scopes.push(missing);
            }
            return;
        }
        let room = MAX_OBJECTS.saturating_sub(self.returned_objects.len());
        self.returned_objects
            .extend(objects.iter().take(room).map(|object| (cache, object.clone())));
    }

    /// The grounds of a denial with this message: the objects that it names, or all if it names
    /// none, and the queries without a result.
    #[must_use]
    pub fn into_denial_grounds(self, message: &str) -> Vec<DenialGround> {
        let end = message.floor_char_boundary(MAX_MESSAGE_BYTES);
        let message = message.get(..end).unwrap_or(message);
        let is_named = |object: &Object| message.contains(&*object.key().name);
        let (mut named, others): (Vec<_>, Vec<_>) =
            self.returned_objects.into_iter().partition(|(_, object)| is_named(object));
        if named.is_empty() {
            named = others;
        }
        let shown = |(cache, object): (ResourceId, Arc<Object>)| DenialGround::of(cache, &object);
        let missing = |(cache, scope)| DenialGround { cache, scope, version: None };
        let missing = self.empty_scopes.into_iter().map(missing);
        let mut grounds: Vec<DenialGround> = Vec::new();
        // If there are several objects, none is more likely than the others.
        for ground in missing.chain(named.into_iter().map(shown)) {
            if grounds.len() == MAX_READS {
                break;
            }
            if !grounds.contains(&ground) {
                grounds.push(ground);
            }
        }
        grounds
    }
}

/// The result of reading the grounds of a denial.
#[derive(Debug, Default)]
pub(crate) struct Confirmation {
    /// Whether an object differs from the one that the evaluation was shown. The cache is updated.
    pub(crate) is_outdated: bool,
    /// Namespaces in which nothing was found, to be read directly.
    pub(crate) empty_namespaces: Vec<(ResourceId, QueryScope)>,
}

/// Reads the grounds of a denial.
pub(crate) async fn confirm(
    cluster: &ClusterState,
    direct: &DirectReader,
    grounds: &[DenialGround],
    deadline: Instant,
) -> Confirmation {
    // A polled resource has no versions that show which result is later.
    let kind_of = |ground: &DenialGround| cluster.cache(ground.cache).filter(|k| !k.is_polled());
    let namespace = |ground: &DenialGround| match (&ground.scope, kind_of(ground)) {
        (QueryScope::Namespace(namespace), Some(cache))
            if !cache.has_more_objects_than(MAX_IN_NAMESPACE, namespace) =>
        {
            Some((ground.cache, ground.scope.clone()))
        }
        _ => None,
    };
    let namespaces: Vec<_> = grounds.iter().filter_map(namespace).collect();
    let read = async |ground: &DenialGround| match &ground.scope {
        QueryScope::Object(key) if kind_of(ground).is_some() => {
            let found = direct.read_object(cluster, ground.cache, key).await;
            matches!(found, Ok(Some(found)) if ground.is_outdated_by(key, &found))
        }
        _ => false,
    };
    let until = deadline.min(Instant::now() + MAX_WAIT);
    let reads = join_all(grounds.iter().map(read));
    let outdated = tokio::time::timeout_at(until, reads).await.unwrap_or_default();
    Confirmation { is_outdated: outdated.contains(&true), empty_namespaces: namespaces }
}
