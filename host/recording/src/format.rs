//! The lines of a recording.

use std::collections::BTreeMap;

use opgate_admission::cluster::{ReadRecord, Source};
use opgate_admission::policy::{Platform, PolicySet};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const API_VERSION: &str = "opgate.dev/v1alpha1";

/// What the following reviews were decided with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingHeader {
    api_version: String,
    kind: HeaderKind,
    /// The version of opgate.
    pub version: String,
    /// Digest of the configuration and the components of its policies.
    pub digest: String,
    /// The text of `opgate.yaml`; none for the built-in policies with their default settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// What the server had read from its cluster for the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Whether the objects of the cluster were read from files, which have all resources.
    #[serde(default)]
    pub from_files: bool,
    /// The policies, in the order in which they serve.
    pub policies: Vec<RecordedPolicy>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum HeaderKind {
    Recording,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum ReviewKind {
    RecordedReview,
}

/// One policy of a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPolicy {
    /// Its name in the configuration.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its component.
    pub digest: String,
}

impl RecordingHeader {
    /// The header of the reviews that this set decides.
    #[must_use]
    pub fn of(set: &PolicySet) -> Self {
        let policies = set.policies().iter().map(|policy| RecordedPolicy {
            name: policy.name.clone(),
            version: policy.descriptor.version.clone(),
            digest: policy.module.digest().to_owned(),
        });
        Self {
            api_version: API_VERSION.to_owned(),
            kind: HeaderKind::Recording,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            digest: set.digest().to_owned(),
            configuration: set.configuration_text().map(ToString::to_string),
            platform: set.platform().cloned(),
            from_files: set.cluster().options().source == Source::Snapshot,
            policies: policies.collect(),
        }
    }

    /// The differences between what the reviews were decided with and what now decides: one line each.
    #[must_use]
    pub fn differences(&self, set: &PolicySet) -> Vec<String> {
        let now = Self::of(set);
        let mut lines = Vec::new();
        if self.version != now.version {
            lines.push(format!("opgate {}, now {}", self.version, now.version));
        }
        if self.configuration != now.configuration {
            lines.push("another configuration".to_owned());
        }
        if self.platform != now.platform {
            lines.push("another platform, or other identities of controllers".to_owned());
        }
        for RecordedPolicy { name, version, digest } in &self.policies {
            let other = now.policies.iter().find(|other| other.name == *name);
            if let Some(other) = other.filter(|other| other.digest != *digest) {
                lines.push(format!(
                    "policy {name} {version} ({digest}), now {} ({})",
                    other.version, other.digest
                ));
            }
        }
        let (gone, new) = (self.names_missing_in(&now), now.names_missing_in(self));
        lines.extend((!gone.is_empty()).then(|| format!("policies that are missing now: {gone}")));
        lines.extend((!new.is_empty()).then(|| format!("no policies {new}")));
        lines
    }

    fn names_missing_in(&self, other: &Self) -> String {
        let is_missing =
            |policy: &&RecordedPolicy| !other.policies.iter().any(|p| p.name == policy.name);
        let names = self.policies.iter().filter(is_missing).map(|policy| policy.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// One review, with its decision and its inputs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedReview {
    api_version: String,
    kind: ReviewKind,
    /// When it was decided, in RFC 3339.
    pub time: String,
    /// The AdmissionReview, without values of Secrets.
    pub review: Box<RawValue>,
    /// The policies that its URL named; all if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addressed: Option<Vec<String>>,
    /// The labels of its namespace, if opgate evaluated them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_labels: Option<BTreeMap<String, String>>,
    /// The reads of each policy, with their results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reads: BTreeMap<String, Vec<ReadRecord>>,
    /// Objects of unsettled requests that a denial names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_objects: Vec<String>,
    /// The reason why the decision cannot be repeated, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_repeatable: Option<String>,
    /// The answer of the server.
    pub answer: RecordedAnswer,
}

/// The answer of a server to a review.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordedAnswer {
    /// The AdmissionReview with the response, as it was sent.
    Response(Box<RawValue>),
    /// The policy error because of which the call failed.
    Failure(String),
}

impl RecordedReview {
    /// A review with its answer, and without inputs.
    pub(crate) fn new(time: String, review: Box<RawValue>, answer: RecordedAnswer) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: ReviewKind::RecordedReview,
            time,
            review,
            addressed: None,
            namespace_labels: None,
            reads: BTreeMap::new(),
            pending_objects: Vec::new(),
            not_repeatable: None,
            answer,
        }
    }
}

/// A line of a recording.
#[derive(Debug)]
pub enum RecordedLine {
    /// What the following reviews were decided with.
    Header(Box<RecordingHeader>),
    /// A review.
    Review(Box<RecordedReview>),
}

impl RecordedLine {
    /// The first bytes of each line, as a server writes it.
    pub const START: &'static [u8] = br#"{"apiVersion":"opgate.dev/v1alpha1","kind":"Record"#;

    /// Whether a document with this `apiVersion` and `kind` is a line of a recording.
    #[must_use]
    pub fn is_kind(api_version: &str, kind: &str) -> bool {
        api_version == API_VERSION && matches!(kind, "Recording" | "RecordedReview")
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If it is none: the member and the error.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            kind: String,
        }
        let Head { kind } = serde_json::from_str(json)?;
        if kind == "Recording" {
            return Ok(Self::Header(Box::new(serde_json::from_str(json)?)));
        }
        Ok(Self::Review(Box::new(serde_json::from_str(json)?)))
    }
}
