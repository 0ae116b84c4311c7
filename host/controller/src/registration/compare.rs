//! The desired registration, and its differences from the stored one.
//!
//! Two fields are not compared: `caBundle`, which the certificate controller manages, and the port of the
//! Service, which opgate does not know. Defaults that an API server adds are no difference either.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;

use crate::api::text;
use opgate_text::one_line;

/// Maximum number of names that are believed of an object.
const MAX_NAMES: usize = 256;

/// Maximum bytes of the name of a policy.
const MAX_NAME_BYTES: usize = 40;

/// Maximum number of reported differences.
const MAX_REPORTED_DIFFERENCES: usize = 16;

/// The registration that belongs to what a replica serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredRegistration {
    webhooks: Vec<Value>,
    policies: BTreeSet<String>,
    digest: String,
}

impl DesiredRegistration {
    /// Creates it from a `ValidatingWebhookConfiguration` as JSON, and the names of all its policies.
    #[must_use]
    pub fn of(configuration: &Value, policies: impl IntoIterator<Item = String>) -> Self {
        let webhooks = super::webhooks(configuration).iter().map(comparable).collect::<Vec<_>>();
        let text = Value::Array(webhooks.clone()).to_string();
        let mut sum = "sha256:".to_owned();
        for byte in digest(&SHA256, text.as_bytes()).as_ref() {
            // Writing to a `String` does not fail.
            let _ = write!(sum, "{byte:02x}");
        }
        Self { webhooks, policies: policies.into_iter().collect(), digest: sum }
    }

    /// Returns `sha256:…`; two replicas have the same digest if API servers would send the same requests on
    /// the same paths.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Reports whether no request is matched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.webhooks.is_empty()
    }

    pub(super) fn webhooks(&self) -> &[Value] {
        &self.webhooks
    }

    pub(super) fn policies(&self) -> &BTreeSet<String> {
        &self.policies
    }

    pub(super) fn has_policy(&self, name: &str) -> bool {
        self.webhooks.iter().any(|webhook| text(webhook, "/name") == name)
    }
}

/// Returns a webhook without the fields that are not compared.
fn comparable(webhook: &Value) -> Value {
    let mut webhook = webhook.clone();
    if let Some(client) = webhook.get_mut("clientConfig").and_then(Value::as_object_mut) {
        client.remove("caBundle");
        if let Some(service) = client.get_mut("service").and_then(Value::as_object_mut) {
            service.remove("port");
        }
    }
    if let Some(members) = webhook.as_object_mut() {
        // An API server sets an empty selector, and leaves out empty lists.
        let is_nothing = |value: &Value| match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        members.retain(|_, value| !is_nothing(value));
    }
    webhook
}

/// Returns the differences between the stored and the desired webhooks, in a few words each; empty if there
/// are none.
pub(super) fn differences(
    stored: &BTreeMap<String, Value>,
    desired: &DesiredRegistration,
) -> Vec<String> {
    let mut told = Vec::new();
    for webhook in &desired.webhooks {
        let name = text(webhook, "/name");
        let Some(old) = stored.get(name) else {
            told.push(format!("{name} is added"));
            continue;
        };
        let old = comparable(old);
        if old != *webhook {
            told.push(format!("{name} changes in {}", differing_members(&old, webhook).join(", ")));
        }
    }
    let gone = stored.keys().filter(|name| !desired.has_policy(name));
    told.extend(gone.map(|name| format!("{name} is removed")));
    if told.len() > MAX_REPORTED_DIFFERENCES {
        let more = told.len() - MAX_REPORTED_DIFFERENCES;
        told.truncate(MAX_REPORTED_DIFFERENCES);
        told.push(format!("and {more} more"));
    }
    // Names come from the cluster.
    told.iter().map(|text| one_line(text, 256)).collect()
}

/// Members of two objects that differ.
fn differing_members(a: &Value, b: &Value) -> Vec<String> {
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let all: BTreeSet<_> = keys(a).union(&keys(b)).cloned().collect();
    all.into_iter().filter(|key| a.get(key) != b.get(key)).collect()
}

/// Returns the policies that the path of a webhook names.
pub(super) fn policies_in_path(webhook: &Value) -> BTreeSet<String> {
    let path = text(webhook, "/clientConfig/service/path");
    let names = path.strip_prefix("/validate/").unwrap_or_default();
    bounded_names(names.split('/'))
}

/// Returns the policies that an annotation names.
pub(super) fn policies_in_annotation(annotation: &str) -> BTreeSet<String> {
    bounded_names(annotation.split(' '))
}

fn bounded_names<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let is_name = |name: &&str| {
        (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    names.filter(is_name).take(MAX_NAMES).map(str::to_owned).collect()
}

/// Returns the port that all webhooks have that call the Service; none if they differ.
pub(super) fn service_port<'w>(webhooks: impl Iterator<Item = &'w Value>) -> Option<u64> {
    let ports = webhooks.filter_map(|w| w.pointer("/clientConfig/service/port")?.as_u64());
    let ports: BTreeSet<_> = ports.collect();
    ports.first().copied().filter(|_| ports.len() == 1)
}
