//! The envelope of a review as JSON.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use opgate_document::{Document, Text};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::object::Object;

use super::{GroupVersionName, Operation, Review, ReviewError, Version, fast_parser};

/// A text that is borrowed if it has no escapes; `Cow` alone is always owned inside lists.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    pub(super) api_version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) request: Option<Object<Request<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    pub(super) uid: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Object<Kind<'a>>>,
    #[serde(borrow)]
    pub(super) resource: Option<Object<Resource<'a>>>,
    #[serde(borrow)]
    pub(super) sub_resource: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) namespace: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) operation: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) user_info: Option<Object<UserInfo<'a>>>,
    #[serde(borrow)]
    pub(super) object: Option<RawObject<'a>>,
    #[serde(borrow)]
    pub(super) old_object: Option<RawObject<'a>>,
    pub(super) dry_run: Option<bool>,
}

/// The text of an object, which is not parsed yet.
pub(super) struct RawObject<'a>(pub(super) &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get()))
    }
}

#[derive(Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow)]
    pub(super) group: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Str<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Resource<'a> {
    #[serde(borrow)]
    pub(super) group: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) resource: Option<Str<'a>>,
}

#[derive(Deserialize, Default)]
pub(super) struct UserInfo<'a> {
    #[serde(borrow)]
    pub(super) username: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) groups: Option<Groups<'a>>,
}

/// More groups than any user has. Each uses more memory than its two quotes.
pub(super) const MAX_GROUPS: usize = 10_000;

/// A longer uid is invalid, because each response repeats it.
const MAX_UID_BYTES: usize = 1 << 10;

#[derive(Default)]
pub(super) struct Groups<'a>(pub(super) Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Groups<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(GroupsVisitor)
    }
}

struct GroupsVisitor;

impl<'de> Visitor<'de> for GroupsVisitor {
    type Value = Groups<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut groups = Vec::new();
        while let Some(Str(group)) = list.next_element()? {
            if groups.len() == MAX_GROUPS {
                return Err(A::Error::custom(format!(
                    "request.userInfo.groups has more than {MAX_GROUPS} elements"
                )));
            }
            groups.push(group);
        }
        Ok(Groups(groups))
    }
}

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
