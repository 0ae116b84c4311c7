//! Receivers of the results of a running cluster: reports are written while objects are evaluated, so that
//! memory does not grow with their number.

use opgate_admission::cluster::ListableResource;
use opgate_document::Document;

use crate::cli::check::report::CheckRecord;

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
    /// Takes the result of an object.
    fn add(&mut self, object: &ObjectIdentity, record: &CheckRecord);

    /// Notes that an object was not evaluated, or not by all rules: what is known of it stays.
    fn keep(&mut self, object: &ObjectIdentity);

    /// Notes that not all objects of a kind, or of all kinds of a group, are known.
    fn set_unknown(&mut self, group: &str, kind: Option<&str>);

    /// Writes the results so far. No response of the API server is open.
    async fn write(&mut self);
}

/// Writes nothing.
pub(super) struct NoReports;

impl ResultSink for NoReports {
    fn add(&mut self, _: &ObjectIdentity, _: &CheckRecord) {}

    fn keep(&mut self, _: &ObjectIdentity) {}

    fn set_unknown(&mut self, _: &str, _: Option<&str>) {}

    async fn write(&mut self) {}
}
