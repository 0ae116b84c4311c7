//! The resources that the calls for a subject read: its result depends on their objects, too.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cli::explanation::Trace;
use opgate_admission::cluster::QueryStats;
use opgate_admission::evaluation::Observer;
use opgate_admission::policy::{Decision, Policy, PolicySet};

/// Resources of one call. If it has as many, more can be uncounted.
const MAX_COUNTED_RESOURCES: usize = 64;

/// Notes the resources that calls read, and what an explanation needs.
#[derive(Debug)]
pub(super) struct ReadResources {
    pub(super) trace: Trace,
    /// None if they are not all known.
    resources: Mutex<Option<BTreeSet<String>>>,
}

impl ReadResources {
    /// Notes the reads of a request, besides the Namespaces whose labels decide which policies match.
    pub(super) fn new(set: &PolicySet) -> Self {
        let namespaces = set.namespace_labels().map(|cache| cache.resource().to_string());
        let resources = Mutex::new(Some(namespaces.into_iter().collect()));
        Self { trace: Trace::default(), resources }
    }

    /// Adds the resources that a decision depends on to those of others; none if they are not known, or if a call
    /// failed: then the next one can succeed.
    pub(super) fn add_to(self, others: &mut Option<BTreeSet<String>>, decision: &Decision) {
        let is_sound = decision.policy_errors.is_empty() && decision.dropped.is_empty();
        match (others.as_mut(), self.resources.into_inner().filter(|_| is_sound)) {
            (Some(others), Some(resources)) => others.extend(resources),
            _ => *others = None,
        }
    }
}

impl Observer for ReadResources {
    fn on_call(&self, policy: &Policy, took: Duration) {
        self.trace.on_call(policy, took);
    }

    fn on_queries(&self, policy: &Policy, tallies: Vec<QueryStats>) {
        let mut known = self.resources.lock();
        if tallies.len() >= MAX_COUNTED_RESOURCES {
            *known = None;
        }
        if let Some(known) = &mut *known {
            known.extend(tallies.iter().map(|tally| tally.resource.clone()));
        }
        drop(known);
        self.trace.on_queries(policy, tallies);
    }
}
