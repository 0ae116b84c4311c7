//! Requests and objects, and which of them exclude each other.

use opgate_ledger::{AppendError, Content, Entry, ImportMark, Resource};

use crate::setup::TIMEOUT;

pub(crate) type Key = (usize, u64);

#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) color: u64,
    pub(crate) uid: u64,
    pub(crate) version: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Phase {
    Evaluating,
    Waiting,
    Appended,
    /// At this time of the API server.
    Allowed(u64),
    Stored,
    /// Not stored by the API server.
    Lost,
    Denied,
    Failed(AppendError),
    /// Its replica crashed.
    Crashed,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) replica: usize,
    pub(crate) key: Key,
    pub(crate) color: u64,
    pub(crate) tenant: u64,
    /// The uid of a new object, or the version that is changed.
    pub(crate) uid: u64,
    pub(crate) base: Option<u64>,
    pub(crate) arrival: u64,
    pub(crate) phase: Phase,
    /// The time at which its outcome was known to the API server.
    pub(crate) over_at: Option<u64>,
    pub(crate) attempt: u64,
    pub(crate) must_reach: u64,
    /// Whether its replica counts it as a pending change.
    pub(crate) is_reserved: bool,
    pub(crate) appended_at: u64,
    /// The time from the last append to the commit.
    pub(crate) commit_time: Option<u64>,
}

impl Request {
    pub(crate) fn deadline(&self) -> u64 {
        self.arrival + TIMEOUT
    }
}

/// What an evaluation has seen, from before its first query.
#[derive(Debug, Clone)]
pub(crate) struct Evaluation {
    pub(crate) mark: ImportMark,
    pub(crate) view: u64,
    pub(crate) made: usize,
    pub(crate) is_denied: bool,
    pub(crate) is_pending: bool,
}

pub(crate) fn resource(number: usize) -> Resource {
    Resource::new(["groups", "versions"][number])
}

fn resource_number(resource: &Resource) -> usize {
    usize::from(resource.as_str() == "versions")
}

/// The color of an entry, if it has the whole object.
fn color_of(entry: &Entry) -> Option<u64> {
    match &entry.content {
        Content::Whole(text) => Some(text.split('"').nth(3).unwrap().parse().unwrap()),
        Content::Reference(_) => None,
    }
}

pub(crate) fn key_of(entry: &Entry) -> Key {
    (resource_number(&entry.resource), entry.name.parse().unwrap())
}

pub(crate) fn affects(entry: &Entry, request: &Request) -> bool {
    let key = key_of(entry);
    key.0 == request.key.0
        && key != request.key
        && color_of(entry).is_none_or(|color| color == request.color)
}
