//! Documents that are no subjects of a check, and hints for their use.

use opgate_document::{Kind, Value};

/// Returns the type of a document that no policy can evaluate; none for all others.
#[must_use]
pub fn unsupported_type(document: Value<'_>) -> Option<&'static str> {
    let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
    let has = |pointer: &str| document.get(pointer).is_some_and(|value| value.kind() != Kind::Null);
    let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        _ if is_configuration(document) => Some(match group {
            "opgate.dev" => "a configuration of opgate, nothing to evaluate: name it with --config",
            _ => {
                "a kubeconfig, nothing to evaluate: `opgate check --cluster --kubeconfig FILE` evaluates the objects of its cluster"
            }
        }),
        ("admission.k8s.io", "AdmissionReview") if !has("/request") && has("/response") => Some(
            "an AdmissionReview with a response and no request, as a webhook returns it: record the request of the API server",
        ),
        ("admission.k8s.io", "AdmissionReview") if !has("/request") => Some(
            "an AdmissionReview without request: record it as the API server sends it, or create one from a manifest with `opgate review new`",
        ),
        ("audit.k8s.io", "Event" | "EventList") => Some(
            "an event of an audit log, not a manifest: `opgate replay` evaluates the writes of an audit log",
        ),
        ("opgate.dev", "Recording" | "RecordedReview") => {
            Some("a line of a recording, not a manifest: `opgate replay` evaluates its reviews")
        }
        _ => None,
    }
}

/// Reports whether a document configures opgate or kubectl: next to manifests it is skipped.
pub(crate) fn is_configuration(document: Value<'_>) -> bool {
    let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
    let has = |pointer: &str| document.get(pointer).is_some();
    let is_kubeconfig = text("/kind") == Some("Config")
        && text("/apiVersion") == Some("v1")
        && (has("/clusters") || has("/users") || has("/contexts"));
    is_kubeconfig || is_opgate_configuration(document)
}

/// Reports whether a document configures opgate.
#[must_use]
pub fn is_opgate_configuration(document: Value<'_>) -> bool {
    let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
    let api_version = text("/apiVersion").unwrap_or_default();
    text("/kind") == Some("Configuration") && api_version.starts_with("opgate.dev/")
}
