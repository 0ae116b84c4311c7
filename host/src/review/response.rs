//! The answer to a review, as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Review, Version};
use crate::policy::{Decision, Denial};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<String, String>,
}

/// `metav1.Status` of a denial.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    api_version: &'static str,
    kind: &'static str,
    status: &'static str,
    message: &'a str,
    reason: &'a str,
    details: Details<'a>,
    code: u16,
}

#[derive(Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause<'a>>,
}

#[derive(Serialize)]
struct Cause<'a> {
    reason: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    field: &'a str,
}

/// The body that answers a review.
#[must_use]
pub fn body(review: &Review<'_>, decision: &Decision) -> Vec<u8> {
    let response = Response {
        uid: &review.uid,
        allowed: decision.denial.is_none(),
        status: decision.denial.as_ref().map(|denial| status(review, denial)),
        warnings: &decision.warnings,
        audit_annotations: &decision.audit_annotations,
    };
    serialize(review.version, response)
}

/// The body that allows a request without having looked at it; for the baseline of the benchmarks.
#[must_use]
pub fn allow(version: Version, uid: &str) -> Vec<u8> {
    let audit_annotations = &BTreeMap::new();
    serialize(
        version,
        Response { uid, allowed: true, status: None, warnings: &[], audit_annotations },
    )
}

fn serialize(version: Version, response: Response<'_>) -> Vec<u8> {
    let envelope =
        Envelope { api_version: version.api_version(), kind: "AdmissionReview", response };
    // Maps with text keys into memory: there is nothing that could fail.
    serde_json::to_vec(&envelope).unwrap_or_default()
}

fn status<'a>(review: &'a Review<'_>, denial: &'a Denial) -> Status<'a> {
    let cause = |cause: &'a crate::policy::Cause| Cause {
        reason: &cause.rule,
        message: &cause.message,
        field: &cause.field,
    };
    Status {
        api_version: "v1",
        kind: "Status",
        status: "Failure",
        message: &denial.message,
        reason: &denial.reason,
        details: Details {
            name: &review.name,
            group: &review.resource.group,
            kind: &review.kind.name,
            causes: denial.causes.iter().map(cause).collect(),
        },
        code: denial.code,
    }
}
