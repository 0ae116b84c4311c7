//! Reads the envelope of a review from JSON.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use opgate_document::{Document, Text};

use super::envelope::{Envelope, RawObject, Str};
use super::{GroupVersionName, Operation, Review, ReviewError, Version, fast_parser};
use crate::object::Object;

/// A longer uid is invalid, because each response repeats it.
const MAX_UID_BYTES: usize = 1 << 10;

fn or_empty(text: Option<Str<'_>>) -> Cow<'_, str> {
    text.map(|t| t.0).unwrap_or_default()
}

fn shape_error(why: impl Into<String>) -> ReviewError {
    ReviewError::Shape(why.into())
}

/// Reads the envelope of a text. `serde_json` reads everything unusual, and reports errors.
fn envelope(text: &Text) -> Result<Envelope<'_>, ReviewError> {
    if let Some(envelope) = fast_parser::read(text) {
        return Ok(envelope);
    }
    let Object(envelope) = serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            shape_error(opgate_text::one_line(&type_error(text, &error), 512))
        } else {
            let (line, column) = (error.line(), error.column().max(1));
            let text = error.to_string();
            let why = text.split(" at line ").next().unwrap_or_default().to_owned();
            ReviewError::Syntax { line, column, why }
        }
    })?;
    Ok(envelope)
}

/// The type error, after the name of its field. A column would be that of the JSON that was
/// generated from a YAML file. Only rejected texts are read again for this.
fn type_error(text: &Text, error: &serde_json::Error) -> String {
    let again: Result<Object<Envelope<'_>>, _> =
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text));
    let path = again.err().map(|error| error.path().to_string());
    let path = path.filter(|path| path != ".").map(|path| format!("{path}: "));
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    format!("{}{why}", path.unwrap_or_default())
}

pub(super) fn read(text: &Arc<Text>) -> Result<Review<'_>, ReviewError> {
    let envelope = envelope(text)?;
    let api_version = or_empty(envelope.api_version);
    let kind = or_empty(envelope.kind);
    let version = match &*api_version {
        "admission.k8s.io/v1" => Version::V1,
        "admission.k8s.io/v1beta1" => Version::V1beta1,
        other => {
            let other = opgate_text::one_line(other, 128);
            return Err(shape_error(format!(
                "apiVersion is {other:?}, not admission.k8s.io/v1 or admission.k8s.io/v1beta1"
            )));
        }
    };
    if kind != "AdmissionReview" {
        let kind = opgate_text::one_line(&kind, 128);
        return Err(shape_error(format!("kind is {kind:?}, not AdmissionReview")));
    }
    let Object(request) = envelope.request.ok_or_else(|| shape_error("request is missing"))?;
    let uid = or_empty(request.uid);
    if uid.is_empty() {
        return Err(shape_error("request.uid is missing"));
    }
    if uid.len() > MAX_UID_BYTES {
        return Err(shape_error(format!("request.uid has more than {MAX_UID_BYTES} bytes")));
    }
    let operation = match &*or_empty(request.operation) {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        "CONNECT" => Operation::Connect,
        "" => return Err(shape_error("request.operation is missing")),
        other => {
            let other = opgate_text::one_line(other, 128);
            return Err(shape_error(format!(
                "request.operation is {other:?}, not CREATE, UPDATE, DELETE or CONNECT"
            )));
        }
    };
    let Object(kind) = request.kind.ok_or_else(|| shape_error("request.kind is missing"))?;
    let Object(resource) =
        request.resource.ok_or_else(|| shape_error("request.resource is missing"))?;
    let user = request.user_info.map(|Object(user)| user).unwrap_or_default();
    let object = request.object.map(|part| range_of(text, &part));
    let old_object = request.old_object.map(|part| range_of(text, &part));
    let mut name = or_empty(request.name);
    if name.is_empty() {
        name = [&old_object, &object]
            .into_iter()
            .flatten()
            .find_map(|o| object_name(text, o))
            .unwrap_or_default();
    }
    Ok(Review {
        text,
        version,
        uid,
        kind: GroupVersionName {
            group: or_empty(kind.group),
            version: or_empty(kind.version),
            name: or_empty(kind.kind),
        },
        resource: GroupVersionName {
            group: or_empty(resource.group),
            version: or_empty(resource.version),
            name: or_empty(resource.resource),
        },
        sub_resource: or_empty(request.sub_resource),
        name,
        namespace: or_empty(request.namespace),
        operation,
        username: or_empty(user.username),
        user_uid: or_empty(user.uid),
        groups: user.groups.unwrap_or_default().0,
        dry_run: request.dry_run.unwrap_or_default(),
        object,
        old_object,
        namespace_labels: std::sync::OnceLock::new(),
        is_redacted: false,
    })
}

/// The position of a part of the text in it.
fn range_of(text: &str, RawObject(part): &RawObject<'_>) -> Range<usize> {
    let start = part.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    start..start.wrapping_add(part.len())
}

fn object_name<'a>(text: &Arc<Text>, object: &Range<usize>) -> Option<Cow<'a, str>> {
    let document = Document::part(text.clone(), object.clone());
    let name = document.get("/metadata/name")?.text()?;
    (!name.is_empty()).then(|| Cow::Owned(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    /// The error names the field of a review, not a position in generated JSON.
    #[test]
    fn invalid_field_is_named_in_the_error() {
        for (request, expected) in [
            (r#"{"uid": [1]}"#, "request.uid: invalid type: sequence, expected a string"),
            (r#"{"userInfo": {"groups": ["a", 5]}}"#, "request.userInfo.groups[1]: invalid type"),
            ("5", "request: invalid type: integer `5`, expected an object"),
        ] {
            let review =
                format!(r#"{{"apiVersion": "admission.k8s.io/v1", "request": {request}}}"#);
            let checked = text(review.into_bytes()).unwrap();
            let error = read(&checked).map(drop).unwrap_err().to_string();
            let expected = format!("not an AdmissionReview: {expected}");
            assert!(error.starts_with(&expected) && !error.contains(" column "), "{error}");
        }
    }
}
