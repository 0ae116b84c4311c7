//! What policies may ask about the cluster: exactly what their descriptors declare.
//!
//! ```text
//! descriptor.reads ─▶ Reading (per policy) ─▶ Kind (one per resource, however many policies read it)
//!
//!   live: list and watch ─┐
//!   snapshot: files       ┴▶ Kind: objects, and reservations of what was just allowed
//!                                │
//!                                └▶ Reader (per call) ─▶ policy
//! ```
//!
//! A policy gets an answer from a current view, or none: where a resource is not synced, or was last
//! heard of too long ago, the call ends as a fault and the policy's `onError` decides.
//!
//! Two requests that arrive together must not both be judged by a cluster without the other: what is
//! allowed is *reserved*, and a request whose evaluation did not see a reservation that was made
//! meanwhile is evaluated again ([`Cluster::reserve`]).

mod kind;
mod live;
pub(crate) mod reader;
mod snapshot;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use opgate_context::{Declaration, Key, Resource, Selector};
use opgate_document::Document;

pub use kind::{Kind, Status};
pub use live::{Connection, ConnectionError, Fresh, Needed, Watches};
pub use reader::{Reader, Scope, Seen, View};
pub use snapshot::Snapshot;
pub(crate) use snapshot::plural;

use crate::review::{Operation, Review};

/// What one policy reads of one resource, with its settings applied.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Which resource.
    pub resource: Resource,
    /// Fields and indexes.
    pub declaration: Declaration,
    /// Only objects with these labels.
    pub labels: Selector,
    /// Only in this namespace.
    pub namespace: Option<String>,
}

/// Where the objects come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From nowhere: rules that need the cluster are not evaluated.
    Absent,
    /// From files, complete as they are.
    Snapshot,
    /// From an API server.
    Live,
}

/// How a view of the cluster is kept.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Where the objects come from.
    pub source: Source,
    /// A resource that was not heard of for longer has no answer.
    pub max_age: Duration,
    /// How long an object that was allowed counts although the watch does not show it.
    pub reservation: Duration,
}

impl Options {
    /// The defaults: five minutes without a word are too old (a watch hears of its server at
    /// least every 100 s), and after ten seconds, the default time-out of a webhook, a request
    /// that was allowed is stored or was refused by somebody else.
    #[must_use]
    pub fn of(source: Source) -> Self {
        Self { source, max_age: Duration::from_secs(300), reservation: Duration::from_secs(10) }
    }
}

/// Everything that is read of the cluster, for all policies.
#[derive(Debug)]
pub struct Cluster {
    kinds: Vec<Arc<Kind>>,
    positions: HashMap<Resource, usize>,
    options: Options,
    /// Held while a reservation is compared and made.
    reserving: parking_lot::Mutex<()>,
}

/// A request that was allowed and changes an object.
#[derive(Debug)]
struct Write {
    key: Key,
    object: Option<Arc<Document>>,
    before: String,
}

impl Write {
    /// What a review does to its object; `None` where that is nothing to remember.
    fn of(review: &Review<'_>) -> Option<Self> {
        let inputs = review.inputs();
        let metadata = |object: &Option<Arc<Document>>, pointer: &str| {
            let text = object.as_ref().and_then(|o| o.get(pointer)?.text().map(str::to_owned));
            text.unwrap_or_default()
        };
        let before = metadata(&inputs.old_object, "/metadata/resourceVersion");
        let object = match review.operation {
            Operation::Create | Operation::Update => Some(inputs.object?),
            Operation::Delete => None,
            Operation::Connect => return None,
        };
        // The API server names a Namespace as its own namespace.
        let clustered = review.resource.group.is_empty() && review.resource.name == "namespaces";
        let namespace = if clustered { "" } else { &review.namespace };
        let key = Key::new(namespace, &review.name);
        Some(Self { key, object, before })
    }
}

impl Cluster {
    /// A view for all readings; one kind per resource, with what any of them needs.
    #[must_use]
    pub fn new(readings: &[Reading], options: Options) -> Self {
        let mut merged: Vec<Reading> = Vec::new();
        for reading in readings {
            match merged.iter_mut().find(|known| known.resource == reading.resource) {
                None => merged.push(reading.clone()),
                Some(known) => {
                    known.declaration = known.declaration.union(&reading.declaration);
                    if known.labels != reading.labels {
                        known.labels = Selector::default();
                    }
                    if known.namespace != reading.namespace {
                        known.namespace = None;
                    }
                }
            }
        }
        let positions = merged.iter().enumerate().map(|(i, r)| (r.resource.clone(), i)).collect();
        let kinds = merged.into_iter().map(|reading| Arc::new(Kind::new(reading, options)));
        Self { kinds: kinds.collect(), positions, options, reserving: parking_lot::Mutex::new(()) }
    }

    /// The resources that are read.
    #[must_use]
    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// Why there has never been an answer about what these readings need, a line for each that
    /// there has not. A view that was current once and is not any more is not among them: who
    /// sends traffic elsewhere then finds replicas that know no more.
    pub fn never_seen<'c>(&'c self, readings: &'c [Reading]) -> impl Iterator<Item = String> + 'c {
        let live = self.options.source == Source::Live;
        let kinds = readings.iter().filter_map(|r| self.kinds.get(self.position(&r.resource)?));
        kinds.filter(move |_| live).filter_map(|kind| {
            let status = kind.status();
            let why = status.error.unwrap_or_default();
            (!status.synced).then(|| format!("{} {why}", kind.resource()))
        })
    }

    /// How the view is kept.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    fn position(&self, resource: &Resource) -> Option<usize> {
        self.positions.get(resource).copied()
    }

    /// Kinds of the object under review, whatever the version in which it was sent.
    fn kinds_of(&self, review: &Review<'_>) -> impl Iterator<Item = &Arc<Kind>> {
        let (group, name) = (review.resource.group.clone(), review.resource.name.clone());
        self.kinds
            .iter()
            .filter(move |kind| kind.resource().group == group && kind.resource().resource == name)
    }

    /// Whether an allowed review changes what evaluations see, so that it has to be reserved.
    #[must_use]
    pub fn is_changed_by(&self, review: &Review<'_>) -> bool {
        self.options.source == Source::Live
            && !review.dry_run
            && review.sub_resource.is_empty()
            && matches!(review.operation, Operation::Create | Operation::Update)
            && self.kinds_of(review).next().is_some()
    }

    /// Remembers an allowed review until the watch shows it, provided that nothing was reserved
    /// since its evaluation among what the evaluation has read. Otherwise `false`: it has to be
    /// evaluated again.
    #[must_use]
    pub fn reserve(&self, review: &Review<'_>, seen: &[Seen]) -> bool {
        let Some(Write { key, object: Some(object), before }) = Write::of(review) else {
            return true;
        };
        let _one_at_a_time = self.reserving.lock();
        let is_old = |seen: &Seen| {
            self.kinds.get(seen.kind).is_some_and(|kind| kind.reservations() != seen.reservations)
        };
        if seen.iter().any(is_old) {
            return false;
        }
        for kind in self.kinds_of(review) {
            kind.reserve(&key, &object, &before);
        }
        true
    }

    /// Applies an allowed review to a snapshot, as the API server would have stored it.
    pub fn evolve(&self, review: &Review<'_>) {
        if review.dry_run {
            return;
        }
        let Some(write) = Write::of(review) else { return };
        for kind in self.kinds_of(review) {
            match &write.object {
                Some(object) => kind.apply(object.root(), &write.key.namespace),
                None if review.sub_resource.is_empty() => kind.delete(&write.key),
                None => {}
            }
        }
    }
}
