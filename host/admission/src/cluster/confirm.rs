//! Confirms denials. What the watch shows is some milliseconds old: an object that a denial rests on may be gone,
//! have changed, or have come. So the API server is asked about a few objects before a request is denied;
//! an allowed request asks nothing.
//!
//! ```text
//! denial ─▶ Grounds (objects in the answers, objects and namespaces without one) ─▶ reads ─┬▶ as the watch: deny
//!                                                                                          └▶ news: evaluate again
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use opgate_cluster::{Key, Object};
use tokio::time::Instant;

use super::lens::Scope;
use super::{Cluster, Direct};

/// Maximum number of reads for one denial.
const MAX_READS: usize = 8;

/// Maximum number of objects in answers that are recorded for one call.
const MAX_OBJECTS: usize = 256;

/// Bytes of a message in which names of objects are looked for.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// A namespace with more objects than this is not listed to find a missing one.
const MAX_IN_NAMESPACE: usize = 64;

/// Maximum number of times that a request is evaluated again. An object that changes more often is in use.
pub(super) const MAX_ROUNDS: u32 = 3;

/// Maximum time of the reads. A denial that cannot be confirmed by then stands.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// What the answers to one call were made of.
#[derive(Debug, Clone, Default)]
pub struct Grounds {
    /// Objects that were returned.
    objects: Vec<(usize, Arc<Object>)>,
    /// Queries for one object or within a namespace that returned nothing.
    missing: Vec<(usize, Scope)>,
}

impl Grounds {
    /// Records the answer to a query.
    pub(super) fn add(&mut self, kind: usize, scope: &Scope, objects: &[Arc<Object>]) {
        if objects.is_empty() {
            let missing = (kind, scope.clone());
            if *scope != Scope::All
                && self.missing.len() < MAX_READS
                && !self.missing.contains(&missing)
            {
                self.missing.push(missing);
            }
            return;
        }
        let room = MAX_OBJECTS.saturating_sub(self.objects.len());
        self.objects.extend(objects.iter().take(room).map(|object| (kind, object.clone())));
    }

    /// The objects that a denial with this message rests on, those first that it names, and the queries that
    /// had no answer.
    #[must_use]
    pub fn of_denial(self, message: &str) -> Vec<(usize, Scope)> {
        let message =
            message.get(..message.floor_char_boundary(MAX_MESSAGE_BYTES)).unwrap_or(message);
        let is_named = |object: &Object| message.contains(&*object.key().name);
        let (named, others): (Vec<_>, Vec<_>) =
            self.objects.into_iter().partition(|(_, object)| is_named(object));
        let scope =
            |(kind, object): (usize, Arc<Object>)| (kind, Scope::Object(object.key().clone()));
        let all = named.into_iter().map(scope).chain(self.missing);
        let mut seen = BTreeSet::new();
        let all = all.chain(others.into_iter().map(scope));
        // Of many others, none is more likely than the rest.
        let new = all.filter(|(kind, scope)| seen.insert((*kind, format!("{scope:?}"))));
        new.take(MAX_READS).collect()
    }
}

/// What became of the objects that a denial rests on.
#[derive(Debug)]
pub(super) enum Confirmation {
    /// They are as they were, or the API server does not answer.
    Unchanged,
    /// The view knows more now. These namespaces are to be read directly.
    Changed(Vec<(usize, Scope)>),
}

/// Reads what a denial rests on.
pub(super) async fn confirm(
    cluster: &Cluster,
    direct: &Direct,
    grounds: &[(usize, Scope)],
    deadline: Instant,
) -> Confirmation {
    let object = |(kind, scope): &(usize, Scope)| match scope {
        Scope::Object(key) => Some((*kind, key.clone())),
        Scope::Namespace(_) | Scope::All => None,
    };
    let objects: Vec<(usize, Key)> = grounds.iter().filter_map(object).collect();
    let is_small = |(kind, scope): &&(usize, Scope)| match scope {
        Scope::Namespace(namespace) => cluster
            .kinds()
            .get(*kind)
            .is_some_and(|kind| !kind.has_more_than(MAX_IN_NAMESPACE, namespace)),
        Scope::Object(_) | Scope::All => false,
    };
    let namespaces: Vec<_> = grounds.iter().filter(is_small).cloned().collect();
    let until = deadline.min(Instant::now() + MAX_WAIT);
    let reads = objects.iter().map(|(kind, key)| direct.learn(cluster, *kind, key));
    let read = tokio::time::timeout_at(until, join_all(reads)).await.unwrap_or_default();
    let is_news = read.iter().any(|read| matches!(read, Ok(true)));
    if is_news || !namespaces.is_empty() {
        Confirmation::Changed(namespaces)
    } else {
        Confirmation::Unchanged
    }
}
