//! Receivers of the results of a running cluster: reports are written while objects are evaluated, so that
//! memory does not grow with their number.

use opgate_admission::cluster::ListableResource;
use opgate_admission::policy::PolicySet;
use opgate_document::Document;

use crate::cli::check::audit::evaluation_memory::{RememberedResult, SkippedObject};
use crate::cli::check::evaluate::{CheckRun, SubjectResult};
use crate::cli::report::UnreadableInput;

/// The object that a result belongs to. Names come from the API server, or from one behind it: check them
/// before use.
pub(in crate::cli) struct ObjectIdentity {
    pub(in crate::cli) api_version: String,
    pub(in crate::cli) kind: String,
    /// Empty for objects of the cluster.
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    pub(in crate::cli) uid: String,
}

impl ObjectIdentity {
    /// Returns the identity of an object of a resource.
    pub(super) fn of(served: &ListableResource, document: &Document) -> Self {
        let text = |pointer: &str| {
            let value = document.get(pointer).and_then(|value| value.text());
            value.unwrap_or_default().to_owned()
        };
        let resource = &served.resource;
        let api_version = match resource.group.as_str() {
            "" => resource.version.clone(),
            group => format!("{group}/{}", resource.version),
        };
        Self {
            api_version,
            kind: served.kind.clone(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
        }
    }
}

/// Receives results while a cluster is evaluated.
pub(in crate::cli) trait ResultSink {
    /// Takes the result of an object. If it is not `complete`, a rule was skipped because a list failed: what
    /// is known of the object besides stays. Returns what the next audit needs to take the same result.
    fn add(
        &mut self,
        object: &ObjectIdentity,
        result: SubjectResult,
        complete: bool,
    ) -> Option<RememberedResult>;

    /// Takes the result of an object in the last audit, which an evaluation would repeat. Returns whether that is
    /// enough.
    fn recall(&mut self, _: &ObjectIdentity, _: &RememberedResult) -> bool {
        false
    }

    /// Notes that an object was not evaluated.
    fn skip(&mut self, object: &ObjectIdentity, reason: SkippedObject);

    /// Notes that not all objects of a kind, or of all kinds of a group, are known.
    fn set_unknown(&mut self, group: &str, kind: Option<&str>);

    /// Takes what could not be read.
    fn add_error(&mut self, error: UnreadableInput);

    /// Writes the results so far. No response of the API server is open.
    async fn write(&mut self);

    /// Reports whether the evaluation ends early. It is checked before each batch and each write.
    fn is_stopped(&mut self, _: &PolicySet) -> bool {
        false
    }
}

/// The results of a command that writes none to the cluster.
impl ResultSink for CheckRun<'_> {
    fn add(
        &mut self,
        _: &ObjectIdentity,
        result: SubjectResult,
        _: bool,
    ) -> Option<RememberedResult> {
        self.add_result(result, None);
        None
    }

    fn skip(&mut self, _: &ObjectIdentity, reason: SkippedObject) {
        match reason {
            SkippedObject::Terminating => self.terminating += 1,
            SkippedObject::Exempt => self.exempt += 1,
            SkippedObject::Unreadable => {}
        }
    }

    fn set_unknown(&mut self, _: &str, _: Option<&str>) {}

    fn add_error(&mut self, error: UnreadableInput) {
        self.unreadable.push(error);
    }

    async fn write(&mut self) {}
}
