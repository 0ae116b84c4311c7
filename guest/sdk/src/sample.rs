//! Samples of custom resources of any kind, for rules that depend on the existing objects.
//!
//! ```text
//! rule! { samples: true } ─▶ descriptor.samples
//! sample(resource, limit) ─▶ the host lists, and calls the policy again ─▶ Sample, or why there is none
//! ```
//!
//! In native tests the result comes from all objects of the test's [`Cluster`](crate::cluster::Cluster).

use std::fmt;

use crate::bindings::opgate::policy::cluster as wit;
use crate::{Document, GroupVersionResource};

/// Some objects of a kind, whole.
#[derive(Debug)]
pub struct Sample {
    /// In the order in which the API server lists them.
    pub objects: Vec<Document>,
    /// Whether these are all objects of the kind.
    pub complete: bool,
}

/// Why there is no sample. Its text is the reason to skip a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleError {
    /// There is no cluster to query, or the rules that need it are off.
    NoCluster,
    /// The administrator has not granted to list these objects: what to grant.
    NotGranted(String),
    /// The objects cannot be listed now: the reason as one clause.
    Unavailable(String),
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCluster => f.write_str("the cluster's custom resources are not available"),
            Self::NotGranted(why) | Self::Unavailable(why) => f.write_str(why),
        }
    }
}

/// The host accepts no longer names, and no API has one: reviewed objects may have any texts.
const MAX_NAME_BYTES: usize = 4 << 10;

/// Maximum number of objects, see `wit/policy.wit`.
pub const MAX_SAMPLE_OBJECTS: u32 = 500;

/// Returns the first objects of a resource, as one consistent list of the API server has them. More than
/// [`MAX_SAMPLE_OBJECTS`] are never in one sample.
///
/// The host lists the objects when a policy requests them: the call ends, and the host calls the policy again
/// with the result. Request a sample as early as possible, and only if the verdict depends on it. Drop a
/// sample before you request the next one: each of its objects is a handle, and a call may have 1,000.
///
/// # Errors
/// If the objects cannot be listed. Skip the rule, with the text of the error as the reason.
///
/// # Panics
/// If no rule of the policy declares `samples: true`.
#[expect(clippy::panic, reason = "a policy that asks for what it did not declare is wrong")]
pub fn sample(resource: &GroupVersionResource, limit: u32) -> Result<Sample, SampleError> {
    let names = [&resource.group, &resource.version, &resource.resource];
    if names.into_iter().any(|name| name.len() > MAX_NAME_BYTES) {
        return Ok(Sample { objects: Vec::new(), complete: true });
    }
    let answer = host::sample(resource, limit.clamp(1, MAX_SAMPLE_OBJECTS));
    answer.map_err(|error| match error {
        wit::ReadError::NoCluster(_) => SampleError::NoCluster,
        wit::ReadError::NotGranted(why) => SampleError::NotGranted(why),
        wit::ReadError::Unavailable(why) | wit::ReadError::Invalid(why) => {
            SampleError::Unavailable(why)
        }
        wit::ReadError::NotDeclared(why) => panic!("{}: {why}", resource.resource),
    })
}

#[cfg(not(target_arch = "wasm32"))]
impl crate::cluster::Cluster {
    /// Answers every [`sample`] with an error, as for a server without the permission.
    #[must_use]
    pub fn with_sample_error(mut self, why: SampleError) -> Self {
        self.sample_error = Some(match why {
            SampleError::NoCluster => wit::ReadError::NoCluster(String::new()),
            SampleError::NotGranted(why) => wit::ReadError::NotGranted(why),
            SampleError::Unavailable(why) => wit::ReadError::Unavailable(why),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_a_name_that_the_host_does_not_accept() {
        let resource = |resource: String| GroupVersionResource {
            group: "a.b".to_owned(),
            version: "v1".to_owned(),
            resource,
        };
        let found = sample(&resource("x".repeat(MAX_NAME_BYTES + 1)), 1).unwrap();
        assert!(found.objects.is_empty() && found.complete);
    }
}

#[cfg(target_arch = "wasm32")]
mod host {
    use super::{Document, GroupVersionResource, Sample, wit};

    pub(super) fn sample(
        resource: &GroupVersionResource,
        limit: u32,
    ) -> Result<Sample, wit::ReadError> {
        let wit::SampleResult { objects, complete } = wit::sample(resource, limit)?;
        let objects = objects.into_iter().map(|handle| Document::new(handle, None)).collect();
        Ok(Sample { objects, complete })
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod host {
    use super::{Document, GroupVersionResource, Sample, wit};
    use crate::cluster::host::CLUSTER;

    pub(super) fn sample(
        resource: &GroupVersionResource,
        limit: u32,
    ) -> Result<Sample, wit::ReadError> {
        CLUSTER.with_borrow(|cluster| {
            let Some(cluster) = cluster else {
                return Err(wit::ReadError::NoCluster("there is no cluster".to_owned()));
            };
            if let Some(why) = cluster.sample_error.clone() {
                return Err(why);
            }
            let is_requested = |(plural, object): &&(String, Document)| {
                let written = object.text_or_empty("/apiVersion");
                let group = written.split_once('/').map_or("", |(group, _)| group);
                *plural == resource.resource && group == resource.group
            };
            let mut found: Vec<_> = cluster.all_objects.iter().filter(is_requested).collect();
            let key = |object: &Document| {
                let text = |pointer| object.text_or_empty(pointer);
                (text("/metadata/namespace"), text("/metadata/name"))
            };
            found.sort_by_cached_key(|(_, object)| key(object));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let complete = found.len() <= limit;
            let objects = found.into_iter().take(limit).map(|(_, object)| object.clone()).collect();
            Ok(Sample { objects, complete })
        })
    }
}
