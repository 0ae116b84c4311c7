//! The response of an AdmissionReview, as lines that can be compared.

use std::collections::BTreeMap;

use opgate_text::one_line;
use serde::Deserialize;

/// Maximum bytes of a text that is no AdmissionReview, in the error.
const MAX_EXCERPT_BYTES: usize = 200;

/// The reason why a body is not the response to a review.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli::replay) enum ResponseError {
    /// Not JSON, or of another shape.
    #[error(
        "the response is not an AdmissionReview ({why}): {excerpt:?}; is this the URL of a webhook?"
    )]
    Shape {
        /// The error.
        why: String,
        /// The start of the body.
        excerpt: String,
    },
    /// A response to another review.
    #[error("the response has {field} {actual:?}, not {expected:?} as the review")]
    Envelope {
        /// The field that differs.
        field: &'static str,
        /// Its value.
        actual: String,
        /// The value that it must have.
        expected: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    api_version: String,
    kind: String,
    response: Option<ResponseBody>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody {
    uid: String,
    allowed: bool,
    status: Option<Status>,
    warnings: Option<Vec<String>>,
    audit_annotations: Option<BTreeMap<String, String>>,
    /// opgate changes no object.
    patch: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    code: Option<i64>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    causes: Option<Vec<Cause>>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    field: String,
    #[serde(default)]
    message: String,
}

/// A response, of a server or of the local decision.
pub(in crate::cli::replay) struct AdmissionResponse {
    api_version: String,
    uid: String,
    allowed: bool,
    /// A line for each field that is set, and for each element of a list.
    lines: Vec<String>,
}

impl AdmissionResponse {
    /// Reads the body of a response.
    ///
    /// # Errors
    /// If it is no AdmissionReview with a response.
    pub(in crate::cli::replay) fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        let shape = |why: &str| {
            let start = body.get(..body.len().min(MAX_EXCERPT_BYTES)).unwrap_or_default();
            let excerpt = one_line(&String::from_utf8_lossy(start), MAX_EXCERPT_BYTES);
            ResponseError::Shape { why: one_line(why, MAX_EXCERPT_BYTES), excerpt }
        };
        let Envelope { api_version, kind, response } =
            serde_json::from_slice(body).map_err(|error| shape(&error.to_string()))?;
        if kind != "AdmissionReview" {
            return Err(shape(&format!("kind is {kind:?}")));
        }
        let response = response.ok_or_else(|| shape("it has no member \"response\""))?;
        let lines = lines(&response);
        let ResponseBody { uid, allowed, .. } = response;
        Ok(Self { api_version, uid, allowed, lines })
    }

    /// Checks that it answers the same review as another one.
    ///
    /// # Errors
    /// An API server would not accept the response.
    pub(super) fn check_envelope(&self, expected: &Self) -> Result<(), ResponseError> {
        for (field, actual, expected) in [
            ("apiVersion", &self.api_version, &expected.api_version),
            ("response.uid", &self.uid, &expected.uid),
        ] {
            if actual != expected {
                let [actual, expected] = [actual, expected].map(|text| one_line(text, 128));
                return Err(ResponseError::Envelope { field, actual, expected });
            }
        }
        Ok(())
    }

    /// Returns `allow` or `deny`.
    pub(in crate::cli::replay) fn decision(&self) -> &'static str {
        if self.allowed { "allow" } else { "deny" }
    }

    /// Returns a line for each field that is set, and for each element of a list.
    pub(in crate::cli::replay) fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// Reports whether both are the same, in any order of their lines.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        self.allowed == other.allowed
            && self.lines.len() == other.lines.len()
            && self.lines_missing_in(other).is_empty()
    }

    /// Returns the lines that another response does not have. Equal lines count.
    pub(super) fn lines_missing_in(&self, other: &Self) -> Vec<&str> {
        let mut others = BTreeMap::<&str, usize>::new();
        for line in &other.lines {
            let count = others.entry(line).or_default();
            *count = count.saturating_add(1);
        }
        let mut missing = Vec::new();
        for line in &self.lines {
            match others.get_mut(line.as_str()) {
                Some(count) if *count > 0 => *count = count.saturating_sub(1),
                _ => missing.push(line.as_str()),
            }
        }
        missing
    }
}

fn lines(response: &ResponseBody) -> Vec<String> {
    let ResponseBody { status, warnings, audit_annotations, patch, .. } = response;
    let mut lines = Vec::new();
    if let Some(Status { code, reason, message, details }) = status {
        lines.extend(code.map(|code| format!("status.code: {code}")));
        for (field, text) in [("reason", reason), ("message", message)] {
            lines.extend(text.as_ref().map(|text| format!("status.{field}: {text}")));
        }
        let causes = details.iter().flat_map(|details| &details.causes).flatten();
        lines.extend(causes.map(|Cause { reason, field, message }| {
            let place = [reason.as_str(), field].join(" ");
            format!("status.details.causes: {}: {message}", place.trim())
        }));
    }
    lines.extend(patch.as_ref().map(|patch| format!("patch: {patch}")));
    lines.extend(warnings.iter().flatten().map(|line| format!("warnings: {line}")));
    let annotations = audit_annotations.iter().flatten();
    lines.extend(annotations.map(|(key, value)| format!("auditAnnotations.{key}: {value}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(response: &str) -> AdmissionResponse {
        let kind = r#""apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview""#;
        AdmissionResponse::parse(format!("{{{kind},\"response\":{response}}}").as_bytes()).unwrap()
    }

    #[test]
    fn responses_differ_in_single_fields() {
        let base = r#"{"uid":"u","allowed":false,"status":{"code":403,"reason":"no","message":"m",
            "details":{"causes":[{"reason":"A-1","field":"spec","message":"m"}]}},
            "warnings":["w","w","x"],"auditAnnotations":{"p":"deny"},"patch":"W10="}"#;
        let one = parse(base);
        for (from, to, missing) in [
            ("403", "422", "status.code: 403"),
            ("\"no\"", "\"yes\"", "status.reason: no"),
            ("\"message\":\"m\",\n", "\"message\":\"n\",\n", "status.message: m"),
            ("A-1", "A-2", "status.details.causes: A-1 spec: m"),
            ("\"w\",\"w\",\"x\"", "\"w\",\"x\"", "warnings: w"),
            ("\"p\":\"deny\"", "", "auditAnnotations.p: deny"),
            (",\"patch\":\"W10=\"", "", "patch: W10="),
        ] {
            let other = parse(&base.replacen(from, to, 1));
            assert!(!one.is_equal(&other) && !other.is_equal(&one), "{from}");
            assert_eq!(one.lines_missing_in(&other), [missing], "{from}");
        }
        // Allowed by one of them, without any other field.
        assert!(
            !parse(r#"{"uid":"u","allowed":true}"#)
                .is_equal(&parse(r#"{"uid":"u","allowed":false}"#))
        );
        // The order of warnings, and null instead of an absent member.
        assert!(one.is_equal(&parse(&base.replace("\"w\",\"w\",\"x\"", "\"x\",\"w\",\"w\""))));
        let nulls =
            r#"{"uid":"u","allowed":true,"status":null,"warnings":null,"auditAnnotations":null}"#;
        assert!(parse(r#"{"uid":"u","allowed":true}"#).is_equal(&parse(nulls)));
    }
}
