//! The response to a review, as JSON. Its size is limited, because it is kept until the client has
//! received it, stored in audit logs and read by users. Reports of the command line are complete.
//!
//! ```text
//! 96 KiB ─▶ message (40) ─▶ causes (24) ─▶ names, warnings (short already) ─▶ audit annotations (the rest)
//! ```
//!
//! The denial comes first, because users need it for the fix. One line counts the omitted parts:
//! at the end of the message, as the last cause, as the last warning, in a separate annotation.
//! All sizes are those of the JSON text, in which a quote takes two bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use crate::policy::{self, Decision, Denial};
use crate::review::{Review, Version};
use opgate_text::one_line;

/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: usize = 96 << 10;

/// Maximum bytes of a message.
const MAX_MESSAGE_BYTES: usize = 40 << 10;

/// Maximum bytes of all causes.
const MAX_CAUSES_BYTES: usize = 24 << 10;

/// Key of the annotation that counts those that are left out.
const OMITTED_ANNOTATION: &str = "opgate.left-out";

/// Bytes for that annotation.
const OMITTED_ANNOTATION_BYTES: usize = 256;

/// Maximum number of causes, including the one that counts the omitted ones.
const MAX_CAUSES: usize = 32;

/// Maximum bytes that are omitted to end a message between two violations: the longest violation.
const MAX_CUT_BYTES: usize = 4_098;

/// Maximum bytes of each name in the details. A name in Kubernetes has 253.
const MAX_NAME_BYTES: usize = 1_024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<R> {
    api_version: &'static str,
    kind: &'static str,
    response: R,
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
    audit_annotations: BTreeMap<&'a str, Cow<'a, str>>,
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

/// The body of the response to a review.
#[must_use]
pub fn body(review: &Review<'_>, decision: &Decision) -> Vec<u8> {
    serialize(review.version, response(review, decision))
}

/// Bytes of [`body`], without building it.
#[must_use]
pub fn body_size(review: &Review<'_>, decision: &Decision) -> usize {
    json_bytes(&envelope(review.version, response(review, decision)))
}

/// Bytes of a value as JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    let mut size = ByteCounter(0);
    // A writer that only counts does not fail.
    let _ = serde_json::to_writer(&mut size, value);
    size.0
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn response<'a>(review: &'a Review<'_>, decision: &'a Decision) -> Response<'a> {
    let mut response = Response {
        uid: &review.uid,
        allowed: decision.denial.is_none(),
        status: decision.denial.as_ref().map(|denial| status(review, denial)),
        warnings: &decision.warnings,
        audit_annotations: BTreeMap::new(),
    };
    if !decision.audit_annotations.is_empty() {
        let used =
            json_bytes(&envelope(review.version, &response)) + r#","auditAnnotations":{}"#.len();
        let room = MAX_RESPONSE_BYTES.saturating_sub(used);
        response.audit_annotations = annotations(&decision.audit_annotations, room);
    }
    response
}

/// The annotations that fit, those of whole policies before those that policies write themselves.
fn annotations(all: &BTreeMap<String, String>, room: usize) -> BTreeMap<&str, Cow<'_, str>> {
    let size = |key: &str, value: &str| json_bytes(&key) + json_bytes(&value) + ":,".len();
    let whole: usize = all.iter().map(|(key, value)| size(key, value)).sum();
    let mut room =
        if whole <= room { whole } else { room.saturating_sub(OMITTED_ANNOTATION_BYTES) };
    let mut told = BTreeMap::new();
    let (mut left_out, mut left_out_bytes) = (0_usize, 0_usize);
    let is_own = |key: &&String| key.contains('.');
    let first = all.iter().filter(|(key, _)| !is_own(key));
    for (key, value) in first.chain(all.iter().filter(|(key, _)| is_own(key))) {
        let bytes = size(key, value);
        if bytes <= room {
            room -= bytes;
            told.insert(key.as_str(), Cow::Borrowed(value.as_str()));
        } else {
            left_out += 1;
            left_out_bytes += bytes;
        }
    }
    if left_out > 0 {
        let s = if left_out == 1 { "" } else { "s" };
        let rest = format!("{left_out} annotation{s} of {left_out_bytes} bytes did not fit");
        told.insert(OMITTED_ANNOTATION, rest.into());
    }
    told
}

/// The body that allows a request without an evaluation, for the baseline of the benchmarks.
#[must_use]
pub fn allow(version: Version, uid: &str) -> Vec<u8> {
    let audit_annotations = BTreeMap::new();
    serialize(
        version,
        Response { uid, allowed: true, status: None, warnings: &[], audit_annotations },
    )
}

fn serialize(version: Version, response: Response<'_>) -> Vec<u8> {
    // Maps with text keys, written into memory, cannot fail.
    serde_json::to_vec(&envelope(version, response)).unwrap_or_default()
}

fn envelope<R>(version: Version, response: R) -> Envelope<R> {
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
    if name.len() <= MAX_NAME_BYTES { name.into() } else { one_line(name, MAX_NAME_BYTES).into() }
}

fn causes(all: &[policy::Cause]) -> Vec<Cause<'_>> {
    let mut causes = Vec::new();
    let mut room = MAX_CAUSES_BYTES - OMISSION_NOTE_BYTES;
    for policy::Cause { rule, field, message } in all {
        let cause = Cause { reason: rule, message: Cow::Borrowed(message), field };
        let size = json_bytes(&cause) + ",".len();
        let is_last = causes.len() + 1 == all.len();
        if size > room || (causes.len() + 1 == MAX_CAUSES && !is_last) {
            break;
        }
        room -= size;
        causes.push(cause);
    }
    if all.len() > causes.len() {
        let rest = Cow::Owned(format!("and {} more", all.len() - causes.len()));
        causes.push(Cause { reason: "", message: rest, field: "" });
    }
    causes
}

/// Bytes for a line that counts the rest.
const OMISSION_NOTE_BYTES: usize = 64;

/// The message, as far as it fits, and the number of violations that it omits.
fn message(denial: &Denial) -> Cow<'_, str> {
    let all = denial.message.as_str();
    // Almost all messages are short enough that they need not be measured.
    if all.len() <= MAX_MESSAGE_BYTES / MAX_ESCAPED_BYTES || json_bytes(&all) <= MAX_MESSAGE_BYTES {
        return all.into();
    }
    let room =
        all.get(..fitting_length(all, MAX_MESSAGE_BYTES - OMISSION_NOTE_BYTES)).unwrap_or_default();
    // Cut between two violations, if that is near.
    let ends = [", ", "\n"].into_iter().filter_map(|between| room.rfind(between));
    let end = ends.max().filter(|end| room.len() - end <= MAX_CUT_BYTES);
    let told = end.and_then(|end| room.get(..end)).unwrap_or(room);
    let is_told = |cause: &&policy::Cause| told.contains(cause.message.as_str());
    let left_out = denial.causes.len() - denial.causes.iter().filter(is_told).count();
    match left_out {
        0 => format!("{told}…").into(),
        some => format!("{told}\nand {some} more").into(),
    }
}

/// Maximum bytes of a character's escape, for each byte of the character.
const MAX_ESCAPED_BYTES: usize = 6;

/// The length of the start of a text that takes at most `most` bytes in JSON.
fn fitting_length(text: &str, most: usize) -> usize {
    let mut room = most;
    for (at, c) in text.char_indices() {
        let bytes = match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..'\u{20}' => MAX_ESCAPED_BYTES,
            c => c.len_utf8(),
        };
        let Some(left) = room.checked_sub(bytes) else { return at };
        room = left;
    }
    text.len()
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
    fn response_reports_the_number_of_omitted_causes() {
        let short = denial((0..32).map(|n| n.to_string()));
        assert_eq!(message(&short), short.message);
        assert_eq!(causes(&short.causes).len(), 32);
        let many = denial((0..33).map(|n| n.to_string()));
        assert_eq!(causes(&many.causes).len(), MAX_CAUSES);
        assert_eq!(causes(&many.causes)[31].message, "and 2 more");
        // Nine violations of 4,096 bytes each fit, and five causes.
        let long = denial((0..256).map(|n| format!("{n:04}{}", "é".repeat(2_046))));
        let told = message(&long);
        assert!(told.len() <= MAX_MESSAGE_BYTES, "{}", told.len());
        assert!(told.ends_with("\nand 247 more"), "{}", told.len());
        let told = causes(&long.causes);
        assert_eq!((told.len(), told[5].message.as_ref()), (6, "and 251 more"));
        // In JSON, a quote is two bytes.
        let quoted = denial((0..256).map(|n| format!("{n:04}{}", "\"".repeat(4_092))));
        let told = message(&quoted);
        assert!(
            json_bytes(&told) <= MAX_MESSAGE_BYTES && told.len() > MAX_MESSAGE_BYTES / 3,
            "{}",
            told.len()
        );
        assert!(json_bytes(&causes(&quoted.causes)) <= MAX_CAUSES_BYTES);
        // One text without a position to cut it.
        let one = denial(std::iter::once("é".repeat(MAX_MESSAGE_BYTES)));
        let told = message(&one);
        assert!(told.len() <= MAX_MESSAGE_BYTES && told.ends_with("\nand 1 more"));
    }

    #[test]
    fn annotations_fill_the_remaining_bytes() {
        let all: BTreeMap<_, _> = (0..20)
            .map(|n| (if n < 2 { format!("p{n}") } else { format!("a.n{n}") }, "\"".repeat(2_000)))
            .collect();
        assert_eq!(annotations(&all, usize::MAX).len(), 20);
        let told = annotations(&all, 40 << 10);
        assert!(json_bytes(&told) <= 40 << 10 && json_bytes(&told) > 32 << 10);
        // The annotations of whole policies are included, though they are the last by their keys.
        assert!(told.contains_key("p0") && told.contains_key("p1"));
        assert!(
            told[OMITTED_ANNOTATION].starts_with("10 annotations of "),
            "{}",
            told[OMITTED_ANNOTATION]
        );
        assert_eq!(annotations(&all, 0).len(), 1);
    }

    #[test]
    fn long_name_is_truncated_to_the_name_limit() {
        assert_eq!(name("my bundle"), "my bundle");
        assert_eq!(name(&"x".repeat(1 << 20)).len(), MAX_NAME_BYTES);
    }
}
