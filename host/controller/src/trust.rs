//! The `caBundle` of our webhooks: whom API servers trust when they call us.
//!
//! Ownership of webhooks is determined only here. A configuration is ours if its label names our namespace
//! *and* its annotation names our Service; in it, only webhooks that call our Service are ours. opgate never
//! changes other parts of a configuration.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use opgate_certs::Root;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, Kind, annotation, label, text};
use crate::{INSTALLATION_LABEL, Installation, OWNER_ANNOTATION};

/// Reports whether a configuration belongs to an installation.
#[must_use]
pub fn is_ours(configuration: &Value, installation: &Installation) -> bool {
    label(configuration, INSTALLATION_LABEL) == installation.namespace
        && annotation(configuration, OWNER_ANNOTATION) == installation.owner()
}

/// Reports whether a webhook of a configuration of ours calls our Service.
pub(crate) fn calls_our_service(webhook: &Value, installation: &Installation) -> bool {
    webhook.pointer("/clientConfig/url").is_none_or(Value::is_null)
        && text(webhook, "/clientConfig/service/namespace") == installation.namespace
        && text(webhook, "/clientConfig/service/name") == installation.service
}

/// Returns the configurations of an installation.
///
/// # Errors
/// Fails if the API server does not respond as expected.
pub async fn list_configurations(
    api: &dyn Api,
    installation: &Installation,
) -> Result<Vec<Value>, ApiError> {
    let label = (INSTALLATION_LABEL, installation.namespace.as_str());
    let mut all = api.list(Kind::ValidatingWebhookConfiguration, "", label).await?;
    all.retain(|configuration| is_ours(configuration, installation));
    Ok(all)
}

/// Returns the `caBundle` of each webhook of ours, decoded; empty if it has none.
#[must_use]
pub fn ca_bundles(configuration: &Value, installation: &Installation) -> Vec<Vec<u8>> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array);
    let ours =
        webhooks.into_iter().flatten().filter(|webhook| calls_our_service(webhook, installation));
    ours.map(|webhook| decode_base64(webhook.pointer("/clientConfig/caBundle"))).collect()
}

/// Puts this bundle, PEM, into the webhooks of ours; gives whether that changed anything.
pub fn set_ca_bundle(configuration: &mut Value, installation: &Installation, bundle: &str) -> bool {
    if !is_ours(configuration, installation) {
        return false;
    }
    let mut changed = false;
    let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        if !calls_our_service(webhook, installation) {
            continue;
        }
        let Some(client) = webhook.get_mut("clientConfig").and_then(Value::as_object_mut) else {
            continue;
        };
        if decode_base64(client.get("caBundle")) != bundle.as_bytes() {
            client.insert("caBundle".to_owned(), encode_base64(bundle));
            changed = true;
        }
    }
    changed
}

/// Reports whether all webhooks of ours trust a CA.
pub(crate) fn all_trust(ca_bundles: &[Vec<u8>], root: &Root) -> bool {
    // They are the same text nearly always.
    let distinct: BTreeSet<_> = ca_bundles.iter().collect();
    distinct.into_iter().all(|bundle| Root::from_pem(bundle).contains(root))
}

/// Returns the text of bytes in JSON: base64.
pub(crate) fn encode_base64(text: &str) -> Value {
    serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap_or_else(|_| json!(""))
}

/// Decodes such a text; empty if it is no base64.
pub(crate) fn decode_base64(value: Option<&Value>) -> Vec<u8> {
    let bytes = value.and_then(|value| serde_json::from_value::<ByteString>(value.clone()).ok());
    bytes.map(|bytes| bytes.0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation() -> Installation {
        Installation {
            namespace: "opgate-system".to_owned(),
            service: "opgate".to_owned(),
            replica: "a".to_owned(),
        }
    }

    fn webhook(client: &Value) -> Value {
        json!({"name": "v.x", "failurePolicy": "Fail", "clientConfig": client, "unknown": [1]})
    }

    fn service(namespace: &str, name: &str) -> Value {
        json!({"service": {"namespace": namespace, "name": name, "path": "/validate"}})
    }

    fn configuration(label: &str, owner: &str, clients: &[Value]) -> Value {
        json!({
            "metadata": {
                "name": "opgate",
                "labels": {INSTALLATION_LABEL: label},
                "annotations": {OWNER_ANNOTATION: owner},
            },
            "webhooks": clients.iter().map(webhook).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn only_owned_configurations_are_changed() {
        let ours = || service("opgate-system", "opgate");
        let owner = "opgate-system/opgate";
        let url = json!({"url": "https://opgate.example.com"});
        let mut both = ours();
        both["url"] = json!("https://opgate.example.com");
        let strangers = vec![
            service("other", "opgate"),
            service("opgate-system", "other"),
            url,
            both,
            json!({}),
            json!("x"),
            json!(null),
        ];
        let untouched = [
            configuration("opgate-system", owner, &strangers),
            configuration("opgate-system", "", &[ours()]),
            configuration("opgate-system", "opgate-system/opgate2", &[ours()]),
            configuration("", owner, &[ours()]),
            configuration("other", owner, &[ours()]),
            json!({"metadata": {"labels": {INSTALLATION_LABEL: "opgate-system"}},
                "webhooks": [webhook(&ours())]}),
            json!({"metadata": {"annotations": {OWNER_ANNOTATION: owner}}, "webhooks": [webhook(&ours())]}),
            json!({"metadata": null, "webhooks": 7}),
            json!(null),
        ];
        for configuration in untouched {
            let mut changed = configuration.clone();
            assert!(!set_ca_bundle(&mut changed, &installation(), "PEM"), "{configuration}");
            assert_eq!(changed, configuration);
        }
        // Among strangers, ours alone; and nothing else of it.
        let mut clients = strangers;
        clients.push(ours());
        let before = configuration("opgate-system", owner, &clients);
        let mut after = before.clone();
        assert!(set_ca_bundle(&mut after, &installation(), "PEM"));
        assert!(!set_ca_bundle(&mut after, &installation(), "PEM"), "once is enough");
        assert_eq!(ca_bundles(&after, &installation()), [b"PEM"]);
        let last = before["webhooks"].as_array().unwrap().len() - 1;
        assert_eq!(after["webhooks"][last]["clientConfig"]["caBundle"], "UEVN");
        after["webhooks"][last]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
        assert_eq!(after, before);
    }
}
