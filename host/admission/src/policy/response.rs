//! The answer to a review, as JSON. Its size is limited, because it is kept until the client takes
//! it, stored in audit logs and read by people. Reports of the command line are complete.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use crate::policy::{self, Decision, Denial};
use crate::review::{Review, Version};
use opgate_text::one_line;

/// Maximum bytes of a message.
const MAX_MESSAGE: usize = 64 << 10;

/// Maximum number of causes, including the one that says how many more there are.
const MAX_CAUSES: usize = 32;

/// Maximum bytes that are left out to end a message between two violations: the longest violation.
const MAX_CUT: usize = 4_098;

/// Maximum bytes of each name in the details. A name in Kubernetes has 253.
const MAX_NAME: usize = 1_024;

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
    message: Cow<'a, str>,
    reason: &'a str,
    details: Details<'a>,
    code: u16,
}

#[derive(Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause<'a>>,
}

#[derive(Serialize)]
struct Cause<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    field: &'a str,
}

/// The body that answers a review.
#[must_use]
pub fn body(review: &Review<'_>, decision: &Decision) -> Vec<u8> {
    serialize(review.version, response(review, decision))
}

/// Bytes of [`body`], without building it.
#[must_use]
pub fn size(review: &Review<'_>, decision: &Decision) -> usize {
    let mut size = Size(0);
    // A writer that only counts does not fail.
    let _ = serde_json::to_writer(&mut size, &envelope(review.version, response(review, decision)));
    size.0
}

struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn response<'a>(review: &'a Review<'_>, decision: &'a Decision) -> Response<'a> {
    Response {
        uid: &review.uid,
        allowed: decision.denial.is_none(),
        status: decision.denial.as_ref().map(|denial| status(review, denial)),
        warnings: &decision.warnings,
        audit_annotations: &decision.audit_annotations,
    }
}

/// The body that allows a request without an evaluation, for the baseline of the benchmarks.
#[must_use]
pub fn allow(version: Version, uid: &str) -> Vec<u8> {
    let audit_annotations = &BTreeMap::new();
    serialize(
        version,
        Response { uid, allowed: true, status: None, warnings: &[], audit_annotations },
    )
}

fn serialize(version: Version, response: Response<'_>) -> Vec<u8> {
    // Maps with text keys, written into memory, cannot fail.
    serde_json::to_vec(&envelope(version, response)).unwrap_or_default()
}

fn envelope(version: Version, response: Response<'_>) -> Envelope<'_> {
    Envelope { api_version: version.api_version(), kind: "AdmissionReview", response }
}

fn status<'a>(review: &'a Review<'_>, denial: &'a Denial) -> Status<'a> {
    Status {
        api_version: "v1",
        kind: "Status",
        status: "Failure",
        message: message(denial),
        reason: &denial.reason,
        details: Details {
            name: name(&review.name),
            group: name(&review.resource.group),
            kind: name(&review.kind.name),
            causes: causes(&denial.causes),
        },
        code: denial.code,
    }
}

fn name(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_NAME { name.into() } else { one_line(name, MAX_NAME).into() }
}

fn causes(all: &[policy::Cause]) -> Vec<Cause<'_>> {
    let told = if all.len() > MAX_CAUSES { MAX_CAUSES - 1 } else { all.len() };
    let mut causes = Vec::with_capacity(told + 1);
    for policy::Cause { rule, field, message } in all.iter().take(told) {
        causes.push(Cause { reason: rule, message: Cow::Borrowed(message), field });
    }
    if all.len() > told {
        let rest = Cow::Owned(format!("and {} more", all.len() - told));
        causes.push(Cause { reason: "", message: rest, field: "" });
    }
    causes
}

/// The message, as far as it fits, and the number of violations that it leaves out.
fn message(denial: &Denial) -> Cow<'_, str> {
    const ROOM_FOR_REST: usize = 64;
    let all = denial.message.as_str();
    if all.len() <= MAX_MESSAGE {
        return all.into();
    }
    let room = all.get(..all.floor_char_boundary(MAX_MESSAGE - ROOM_FOR_REST)).unwrap_or_default();
    // Cut between two violations, if that is near.
    let ends = [", ", "\n"].into_iter().filter_map(|between| room.rfind(between));
    let end = ends.max().filter(|end| room.len() - end <= MAX_CUT);
    let told = end.and_then(|end| room.get(..end)).unwrap_or(room);
    let is_told = |cause: &&policy::Cause| told.contains(cause.message.as_str());
    let left_out = denial.causes.len() - denial.causes.iter().filter(is_told).count();
    match left_out {
        0 => format!("{told}…").into(),
        some => format!("{told}\nand {some} more").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(messages: impl Iterator<Item = String>) -> Denial {
        let cause =
            |message| policy::Cause { rule: "A-1".to_owned(), field: "spec".to_owned(), message };
        let causes: Vec<_> = messages.map(cause).collect();
        let told: Vec<_> = causes.iter().map(|cause| cause.message.as_str()).collect();
        let message = format!("[{}]", told.join(", "));
        Denial { code: 403, message, reason: "Forbidden".to_owned(), causes }
    }

    #[test]
    fn an_answer_says_how_much_more_there_is() {
        let short = denial((0..32).map(|n| n.to_string()));
        assert_eq!(message(&short), short.message);
        assert_eq!(causes(&short.causes).len(), 32);
        let many = denial((0..33).map(|n| n.to_string()));
        assert_eq!(causes(&many.causes).len(), MAX_CAUSES);
        assert_eq!(causes(&many.causes)[31].message, "and 2 more");
        // Of violations of 4,096 bytes each, less than 16 fit.
        let long = denial((0..256).map(|n| format!("{n:04}{}", "é".repeat(2_046))));
        let told = message(&long);
        assert!(told.len() <= MAX_MESSAGE, "{}", told.len());
        assert!(told.ends_with("\nand 241 more"), "{}", told.len());
        // One text without a place to cut it.
        let one = denial(std::iter::once("é".repeat(MAX_MESSAGE)));
        let told = message(&one);
        assert!(told.len() <= MAX_MESSAGE && told.ends_with("\nand 1 more"));
    }

    #[test]
    fn a_name_is_told_as_far_as_names_go() {
        assert_eq!(name("my bundle"), "my bundle");
        assert_eq!(name(&"x".repeat(1 << 20)).len(), MAX_NAME);
    }
}
