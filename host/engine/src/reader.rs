//! What a policy can ask about the cluster while it runs. Who knows the answers is not the engine's
//! business: a [`ClusterReader`] does, one for each call.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use opgate_cluster::{Declaration, Object};
use opgate_document::{Account, Document, Meter};

use crate::wit::GroupVersionResource;

/// Bytes that an object of an answer takes beside its content.
const EACH: usize = 64;

/// Answers the questions of one call, and notes what was asked.
pub trait ClusterReader: Any + fmt::Debug + Send {
    /// One object.
    ///
    /// # Errors
    /// Where there is no current view: the call must end.
    fn get(
        &mut self,
        resource: &GroupVersionResource,
        namespace: &str,
        name: &str,
        payer: Payer<'_>,
    ) -> Answer;

    /// Objects that match.
    ///
    /// # Errors
    /// Where there is no current view: the call must end.
    fn list(
        &mut self,
        resource: &GroupVersionResource,
        query: PolicyQuery,
        payer: Payer<'_>,
    ) -> Answer;

    /// Objects that match, of which only the names are wanted.
    ///
    /// # Errors
    /// Where there is no current view: the call must end.
    fn names(
        &mut self,
        resource: &GroupVersionResource,
        query: PolicyQuery,
        payer: Payer<'_>,
    ) -> Answer;
}

/// The answer to a policy, or why the call must end.
pub type Answer = Result<Result<Found, ReadError>, NotCurrent>;

/// A query as a policy puts it.
#[derive(Debug, Default)]
pub struct PolicyQuery {
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only with these labels: a selector as JSON.
    pub labels: Option<String>,
    /// Conditions: an index, values of which it has one, and whether it may also have none.
    pub matches: Vec<(String, Vec<String>, bool)>,
    /// Only behind this namespace and name.
    pub after: Option<(String, String)>,
    /// No more than so many; 0 for as many as one answer has.
    pub limit: usize,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotCurrent {
    /// The resource is being listed for the first time: ask again in a moment.
    Listing(String),
    /// There is no current view, or something in it cannot be read.
    Unknown(String),
}

/// Why a policy gets no answer, for the policy.
#[derive(Debug)]
pub enum ReadError {
    /// There is nobody to ask.
    Absent(String),
    /// It is not declared.
    Denied(String),
    /// The question makes no sense.
    Invalid(String),
}

/// Who pays for an answer. Where the meter stops or the account has no room, nobody believes it.
#[derive(Debug, Clone, Copy)]
pub struct Payer<'p> {
    /// The work.
    pub meter: &'p Meter,
    /// The memory.
    pub account: &'p Arc<Account>,
}

/// Objects as they are kept, for a policy that may see less of each.
#[derive(Debug, Default)]
pub struct Found {
    objects: Vec<Arc<Object>>,
    narrower: Option<Arc<Declaration>>,
}

impl Found {
    /// These objects. Where there is a `narrower` declaration than the one by which they are kept, the
    /// policy gets to see no more of them.
    #[must_use]
    pub fn new(objects: Vec<Arc<Object>>, narrower: Option<Arc<Declaration>>) -> Self {
        Self { objects, narrower }
    }

    /// The objects, all of each.
    #[must_use]
    pub fn objects(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// An object with the fields that the policy declares, and no others; none where that is too much
    /// for whoever pays. Its text counts, which may be a copy, and what is looked at in it does.
    #[must_use]
    pub fn document(&self, object: &Object, payer: Payer<'_>) -> Option<Document> {
        let whole = object.document().charged_to(payer.account);
        // A part is no larger than the whole.
        let is_paid = payer.meter.spend(EACH) && whole.pay(whole.size().saturating_add(EACH));
        if !is_paid {
            return None;
        }
        let Some(declaration) = &self.narrower else { return Some(whole) };
        if !payer.meter.spend(whole.size() / 4) {
            return None;
        }
        let own = declaration.keep(whole.root_for(payer.meter));
        let own = Arc::new(own.unwrap_or_default());
        let end = own.len();
        let own = Document::part(own, 0..end).charged_to(payer.account);
        own.pay(own.size().saturating_add(EACH)).then_some(own)
    }
}
