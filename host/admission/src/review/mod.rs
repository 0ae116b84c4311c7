//! AdmissionReviews: reads requests with little work, and responds in the version of the request.
//!
//! The envelope is read once and borrowed. The objects stay raw text until a policy reads them.
//! Facts about the format: there are `admission.k8s.io/v1` and `v1beta1`; `null` is the same as a
//! missing field; unknown fields are ignored; and `name` can be empty (DELETE of a collection,
//! CREATE with `generateName`) and is then in the object.

mod envelope;
mod fast_parser;
mod identity;
mod parse;
pub(crate) mod secret;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use opgate_document::{Account, Charge, Document, IndexError, Text, TooDeep};

use opgate_engine::{Inputs, RequestParts, RequestTexts, wit};

pub use identity::Controller;

/// Version of the review and of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `admission.k8s.io/v1`
    V1,
    /// `admission.k8s.io/v1beta1`
    V1beta1,
}

impl Version {
    /// The `apiVersion`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The operation on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// `CREATE`
    Create,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `CONNECT`
    Connect,
}

impl Operation {
    /// The name in the review.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Group, version and kind or resource. The core group is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupVersionName<'a> {
    /// API group.
    pub group: Cow<'a, str>,
    /// API version.
    pub version: Cow<'a, str>,
    /// `Bundle` or `bundles`.
    pub name: Cow<'a, str>,
}

impl GroupVersionName<'_> {
    fn texts(&self) -> [&str; 3] {
        [&self.group, &self.version, &self.name]
    }
}

/// The reason why a text is not a valid review. The text of the error includes the remediation.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// An empty text.
    #[error("the body is empty: send an AdmissionReview as JSON")]
    Empty,
    /// Not UTF-8.
    #[error("the body is not UTF-8: invalid byte at offset {0}")]
    Encoding(usize),
    /// It is nested too deep.
    #[error("the body nests deeper than {max} levels at offset {0}", max = opgate_document::MAX_DEPTH)]
    Depth(usize),
    /// Not JSON.
    #[error("the body is not JSON: {why} at line {line} column {column}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The error.
        why: String,
    },
    /// Its account has no memory left.
    #[error("the review needs more memory than there is for it")]
    Memory,
    /// JSON, but not a review.
    #[error("not an AdmissionReview: {0}")]
    Shape(String),
}

impl ReviewError {
    /// HTTP status: 400 if the text cannot be read, 422 if it is not a review, 503 if there is no
    /// memory for it.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Empty | Self::Encoding(_) | Self::Depth(_) | Self::Syntax { .. } => 400,
            Self::Shape(_) => 422,
            Self::Memory => 503,
        }
    }
}

/// Converts bytes to a text, and checks its nesting.
///
/// # Errors
/// If they are empty, not UTF-8, or nested too deep.
pub fn text(body: Vec<u8>) -> Result<Arc<Text>, ReviewError> {
    charged_text(body, Charge::default())
}

/// [`text`] of a body with an account. All later memory for it is charged to the same account.
///
/// # Errors
/// As for [`text`], and if the account has no memory left.
pub fn charged_text(body: Vec<u8>, charge: Charge) -> Result<Arc<Text>, ReviewError> {
    if body.is_empty() {
        return Err(ReviewError::Empty);
    }
    let json =
        String::from_utf8(body).map_err(|e| ReviewError::Encoding(e.utf8_error().valid_up_to()))?;
    Text::with_syntax_check(json, charge).map(Arc::new).map_err(|unfit| match unfit {
        IndexError::TooDeep(TooDeep(offset)) => ReviewError::Depth(offset),
        IndexError::BudgetExceeded => ReviewError::Memory,
    })
}

/// The group of documents that represent files.
const FILES_GROUP: &str = "opgate.dev";

/// The user of requests that a check creates from files.
const CHECK_USER: &str = "opgate:check";
/// The start of its groups.
const CHECK_GROUPS: &str = "opgate:";
/// The replacement of that name for any other user.
const CLAIMED_USER: &str = "opgate:check (claimed)";

/// A part of the text of a review for a recording. One after the other, they are a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// Text around the objects.
    Envelope(String),
    /// An object.
    Object(ReviewedText),
}

/// The text of an object under review, as the API server sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewedText {
    text: String,
    redaction: Redaction,
}

/// What policies do not receive of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redaction {
    /// They receive everything.
    Nothing,
    /// Values of the Secret.
    Secret,
    /// Values of Secrets among files.
    Files,
}

impl Redaction {
    /// The object as policies receive it.
    fn apply(self, document: Document) -> Document {
        match self {
            Self::Nothing => document,
            Self::Secret => secret::redact(&document),
            Self::Files => secret::redact_files(&document).unwrap_or(document),
        }
    }
}

impl TextPart {
    /// Bytes of the text.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Envelope(text) => text.len(),
            Self::Object(object) => object.text.len(),
        }
    }
}

impl ReviewedText {
    /// The text as policies receive it, without values of Secrets. `None` if it nests too deep.
    #[must_use]
    pub fn into_visible(self) -> Option<String> {
        if self.redaction == Redaction::Nothing {
            return Some(self.text);
        }
        let document = Document::parse(&self.text).ok()?;
        Some(self.redaction.apply(document).root().raw().into_owned())
    }
}

/// A request for review, borrowed from its text.
#[derive(Debug)]
pub struct Review<'a> {
    text: &'a Arc<Text>,
    /// Version of the response.
    pub version: Version,
    /// The ID that the response repeats.
    pub uid: Cow<'a, str>,
    /// Kind of the object.
    pub kind: GroupVersionName<'a>,
    /// Resource that the webhook was registered for.
    pub resource: GroupVersionName<'a>,
    /// `status`, `scale`, … or empty.
    pub sub_resource: Cow<'a, str>,
    /// Name of the object; from the object if the request has none.
    pub name: Cow<'a, str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Cow<'a, str>,
    /// The operation.
    pub operation: Operation,
    /// The user.
    pub username: Cow<'a, str>,
    user_uid: Cow<'a, str>,
    groups: Vec<Cow<'a, str>>,
    /// A dry run: nothing will be stored.
    pub dry_run: bool,
    object: Option<Range<usize>>,
    old_object: Option<Range<usize>>,
    /// The labels of its namespace, if they are known and no API server has evaluated them.
    pub(crate) namespace_labels: OnceLock<BTreeMap<String, String>>,
    /// Whether the values of Secrets were removed from the text before.
    is_redacted: bool,
}

impl<'a> Review<'a> {
    /// Reads the envelope of a text that [`text`] checked, of a client or from a recording:
    /// without the name and the groups that only a check of files gives to its requests
    /// ([`Review::read_check`]). Policies are more lenient with files.
    ///
    /// # Errors
    /// If it is not JSON, or not an AdmissionReview with a request.
    pub fn read(text: &'a Arc<Text>) -> Result<Self, ReviewError> {
        let mut review = parse::read(text)?;
        if review.username == CHECK_USER {
            review.username = Cow::Borrowed(CLAIMED_USER);
        }
        review.groups.retain(|group| !group.starts_with(CHECK_GROUPS));
        Ok(review)
    }

    /// Reads a review that this program has created from a file, or a case of a policy's tests,
    /// with the name and the groups that mark it. Never a review that a client has sent or
    /// recorded.
    ///
    /// # Errors
    /// As for [`Review::read`].
    pub fn read_check(text: &'a Arc<Text>) -> Result<Self, ReviewError> {
        parse::read(text)
    }

    /// Reads a review of a recording, with the parts of [`Review::parts_for_recording`]. Otherwise like
    /// [`Review::read`].
    ///
    /// # Errors
    /// As for [`Review::read`].
    pub fn read_recorded(text: &'a Arc<Text>) -> Result<Self, ReviewError> {
        Ok(Self { is_redacted: true, ..Self::read(text)? })
    }

    /// Copies of the parts of the text, for a recording. Values of Secrets are still in them.
    #[must_use]
    pub fn parts_for_recording(&self) -> Vec<TextPart> {
        let mut ranges: Vec<_> = [&self.object, &self.old_object].into_iter().flatten().collect();
        ranges.sort_by_key(|range| range.start);
        let text = |range: Range<usize>| self.text.get(range).unwrap_or_default().to_owned();
        let (mut parts, mut end) = (Vec::new(), 0);
        for range in ranges {
            parts.push(TextPart::Envelope(text(end..range.start)));
            let redaction = self.redaction();
            parts.push(TextPart::Object(ReviewedText { text: text(range.clone()), redaction }));
            end = range.end;
        }
        parts.push(TextPart::Envelope(text(end..self.text.len())));
        parts
    }

    /// What policies do not receive of the objects.
    fn redaction(&self) -> Redaction {
        if self.is_redacted {
            Redaction::Nothing
        } else if secret::is_secret(&self.resource, &self.kind) {
            Redaction::Secret
        } else if self.resource.group == FILES_GROUP {
            Redaction::Files
        } else {
            Redaction::Nothing
        }
    }

    /// The labels of its namespace, if opgate evaluates selectors of namespaces itself.
    #[must_use]
    pub fn namespace_labels(&self) -> Option<&BTreeMap<String, String>> {
        self.namespace_labels.get()
    }

    /// Sets the labels of its namespace, unless they are known.
    pub(crate) fn set_namespace_labels(&self, labels: BTreeMap<String, String>) {
        // A review that is decided again has them already.
        let _ = self.namespace_labels.set(labels);
    }

    /// Bytes of its text.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// The account of the request, if there is one.
    #[must_use]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.text.account()
    }

    /// The namespace of the object, empty if there is none. The API server names a Namespace as its
    /// own namespace.
    #[must_use]
    pub fn own_namespace(&self) -> &str {
        if self.is_namespace() { "" } else { &self.namespace }
    }

    /// Whether the object is a Namespace.
    #[must_use]
    pub fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.name == "namespaces"
    }

    /// `group/version/resource`.
    #[must_use]
    pub fn resource_path(&self) -> String {
        let GroupVersionName { group, version, name } = &self.resource;
        format!("{group}/{version}/{name}")
    }

    /// Bytes of the envelope, both as read and as policies receive it, without the objects.
    #[must_use]
    pub fn envelope_bytes(&self) -> usize {
        let names =
            [&self.kind, &self.resource].map(|GroupVersionName { group, version, name }| {
                group.len().saturating_add(version.len()).saturating_add(name.len())
            });
        let texts = [
            &self.uid,
            &self.sub_resource,
            &self.name,
            &self.namespace,
            &self.username,
            &self.user_uid,
        ];
        let texts = texts.into_iter().chain(&self.groups).map(|text| text.len());
        let groups = self.groups.len().saturating_mul(size_of::<Cow<'_, str>>());
        let bytes = texts.chain(names).fold(groups, usize::saturating_add);
        // Once unescaped, once owned.
        bytes.saturating_mul(2)
    }

    /// The input of policies. The objects share the text of the review, except for Secrets, of which
    /// policies get no values.
    #[must_use]
    pub fn inputs(&self) -> Inputs {
        let redaction = self.redaction();
        let document = |range: &Range<usize>| {
            Arc::new(redaction.apply(Document::part(self.text.clone(), range.clone())))
        };
        Inputs {
            operation: match self.operation {
                Operation::Create => wit::Operation::Create,
                Operation::Update => wit::Operation::Update,
                Operation::Delete => wit::Operation::Delete,
                Operation::Connect => wit::Operation::Connect,
            },
            request: self.request(),
            object: self.object.as_ref().map(document),
            old_object: self.old_object.as_ref().map(document),
        }
    }

    fn request(&self) -> RequestParts {
        let texts = RequestTexts {
            uid: &self.uid,
            kind: self.kind.texts(),
            resource: self.resource.texts(),
            sub_resource: &self.sub_resource,
            name: &self.name,
            namespace: &self.namespace,
            username: &self.username,
            user_uid: &self.user_uid,
        };
        // A server, which accounts for the memory of a request, keeps no fixes.
        let wants_fixes = self.account().is_none();
        RequestParts::new(&texts, &self.groups, self.dry_run).wanting_fixes(wants_fixes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_user_and_groups_are_removed_from_requests() {
        for (user, groups, expected) in [
            ("opgate:check", "opgate:bundle", ("opgate:check (claimed)", &[][..])),
            ("opgate:check", "opgate:audit", ("opgate:check (claimed)", &[])),
            ("eve", "opgate:bundle", ("eve", &[])),
            ("opgate:checker", "dev", ("opgate:checker", &["dev"])),
        ] {
            let json = serde_json::json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {
                    "uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"},
                    "resource": {"resource": "pods"},
                    "userInfo": {"username": user, "groups": [groups]},
                },
            });
            let text = text(json.to_string().into_bytes()).unwrap();
            let review = Review::read(&text).unwrap();
            assert_eq!(
                (&*review.username, review.groups.as_slice()),
                (expected.0, &*expected.1.iter().map(|&g| Cow::Borrowed(g)).collect::<Vec<_>>())
            );
            let own = Review::read_check(&text).unwrap();
            assert_eq!((&*own.username, &*own.groups), (user, &[Cow::Borrowed(groups)][..]));
        }
    }
}
