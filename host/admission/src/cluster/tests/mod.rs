//! Cluster state, reservations and verdicts, without policies and without a network.

mod confirm;
mod decide;
mod kind;
mod ledger;
mod memory;
mod polled;
mod random_orders;
mod reader;
mod replacement;
mod shared;

use super::*;
use crate::evaluation::{Evaluate, Evaluation, EvaluationError, ReadConsistency, decide};

/// A resource of which `spec`, found by an index, is stored.
fn cluster(options: ClusterOptions) -> ClusterState {
    cluster_with_selector(options, "{}")
}

/// Cluster state for objects with some labels only.
fn cluster_with_selector(options: ClusterOptions, selector: &str) -> ClusterState {
    cluster_of(options, selector, None)
}

/// Cluster state for objects of one namespace, or of all, with some labels only.
fn cluster_of(options: ClusterOptions, selector: &str, namespace: Option<&str>) -> ClusterState {
    let resource = Resource { group: "g".into(), version: "v1".into(), resource: "r".into() };
    let index = opgate_cluster::Index {
        name: "spec".into(),
        field: "/spec".into(),
        separator: String::new(),
    };
    let declaration = Declaration::new(&["/spec".to_owned()], &[], &[index]).unwrap();
    let labels = opgate_cluster::parse_selector(Document::parse(selector).unwrap().root()).unwrap();
    let namespace = namespace.map(Into::into);
    let reading = ResolvedRead { resource, declaration, labels, namespace, optional: false };
    ClusterState::new(&[reading], options)
}

fn object(name: &str, version: &str, uid: &str, spec: &str) -> Arc<Document> {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}","uid":"{uid}"}},"spec":"{spec}"}}"#
    );
    Arc::new(Document::parse(&json).unwrap())
}

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

/// Replaces all objects by a list.
fn apply_list(kind: &ResourceCache, version: &str, objects: &[Arc<Document>]) {
    let mut listing = Listing { version: version.to_owned(), ..kind.empty() };
    for object in objects {
        kind.add_object(&mut listing, object.root(), "");
    }
    kind.replace(listing, tokio::time::Instant::now());
}

/// The reason why there is no decision.
#[derive(Debug, PartialEq, Eq)]
enum DecideFailure {
    Unsettled(EvaluationError),
    NoRoom(ReservationLimitReached),
}

impl From<EvaluationError> for DecideFailure {
    fn from(unsettled: EvaluationError) -> Self {
        Self::Unsettled(unsettled)
    }
}

/// A user without further information.
fn user() -> Arc<str> {
    "somebody".into()
}

/// Reserves the creation of an object, or the change of one of the version `before`.
fn reserve_for(
    kind: &ResourceCache,
    user: &str,
    key: &Key,
    object: &Document,
    before: &str,
) -> bool {
    let tenant = Tenant { namespace: key.namespace.clone(), user: user.into() };
    kind.reserve(AllowedChange {
        key,
        object,
        old: None,
        base_version: before,
        tenant: &tenant,
        id: None,
    })
    .is_ok()
}
