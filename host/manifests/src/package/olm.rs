//! opgate as an Operator: a bundle of the format registry+v1, and its entry in a catalog.
//!
//! OLM creates the account, the roles, the Deployment and the other objects of the bundle. The webhook
//! configuration is not part of it: the webhooks of a bundle have neither conditions nor selectors. The
//! servers fill in the one that the administrator has created, as in other installations. There is no
//! ConfigMap either, because OLM would overwrite it with each version: `spec.config` of the Subscription
//! mounts one.

use serde_json::{Value, json};

use super::{Files, kind, name, yaml};
use crate::installation::{Certificates, Installation, Registrar};
use opgate_admission::policy::Policy;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CHANNEL: &str = "alpha";

/// Stands for the digest that an image has when it is published.
const PLACEHOLDER_DIGEST: &str =
    "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// A gate of two posts and a bar.
const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40" viewBox="0 0 80 40"><g fill="#1a5fb4"><rect x="16" y="4" width="6" height="32"/><rect x="58" y="4" width="6" height="32"/><rect x="16" y="17" width="48" height="6"/></g></svg>"##;

const DESCRIPTION: &str = "\
opgate is a validating admission webhook for clusters that run Operators. It evaluates OperatorGroups, \
ClusterServiceVersions, Subscriptions, catalogs, bundles and what belongs to them, before they are stored, with \
policies that run in a sandbox.

## Before you install it

Create the webhook configuration that the servers fill in. Without it they serve, and no API server asks them:

    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingWebhookConfiguration
    metadata:
      name: opgate
      labels:
        app.kubernetes.io/name: opgate
        opgate.dev/installation: opgate-system
      annotations:
        opgate.dev/owner: opgate-system/opgate

## Before you uninstall it

Delete the webhook configuration. API servers then ask nobody while the servers end.
";

/// Returns an image by digest.
fn pin_image(image: &str) -> String {
    if image.contains('@') {
        return image.to_owned();
    }
    let (path, last) = image.rsplit_once('/').unwrap_or(("", image));
    let last = last.split_once(':').map_or(last, |(name, _)| name);
    let image = if path.is_empty() { last.to_owned() } else { format!("{path}/{last}") };
    format!("{image}@{PLACEHOLDER_DIGEST}")
}

/// Returns `metadata` without the namespace, which OLM chooses.
fn metadata_without_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
    object
}

/// Returns the Deployment without a configuration: without `--config` all built-in policies apply.
fn deployment(installation: &Installation) -> Value {
    let mut spec = installation.deployment_spec();
    let drop_config = |items: Option<&mut Value>| {
        if let Some(items) = items.and_then(Value::as_array_mut) {
            items.retain(|item| item.get("name") != Some(&json!("config")));
        }
    };
    drop_config(spec.pointer_mut("/template/spec/volumes"));
    drop_config(spec.pointer_mut("/template/spec/containers/0/volumeMounts"));
    let arguments = spec.pointer_mut("/template/spec/containers/0/args");
    if let Some(arguments) = arguments.and_then(Value::as_array_mut)
        && let Some(at) = arguments.iter().position(|argument| argument == "--config")
    {
        arguments.drain(at..at.saturating_add(2).min(arguments.len()));
    }
    spec
}

pub(super) fn files(
    policies: &[&Policy],
    installation: &Installation,
    bundle_image: &str,
) -> anyhow::Result<Files> {
    let installation = Installation {
        image: pin_image(&installation.image),
        certificates: Certificates::SelfManaged,
        registration: Registrar::Managed,
        monitoring: false,
        dashboard: false,
        // The bundle has no cluster role for them.
        events: false,
        ..installation.clone()
    };
    let objects = installation.objects(policies);
    let names = [installation.name.clone(), installation.leader_audit_role()];
    let is_read = |o: &&Value| kind(o) == "ClusterRole" && names.iter().any(|one| name(o) == one);
    let read = objects.iter().filter(is_read).filter_map(|role| role.get("rules")?.as_array());
    let read = read.flatten().cloned();
    let account = &installation.name;
    let rules: Vec<_> = read.chain(installation.cluster_rules()).collect();
    // OLM replaces the Secrets of a bundle with each update, and with them the certificates. So the
    // servers create theirs.
    let create = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]});
    let own: Vec<_> = installation.namespace_rules().into_iter().chain([create]).collect();
    let csv_name = format!("opgate.v{VERSION}");
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": csv_name,
            "annotations": {
                "alm-examples": "[]",
                "capabilities": "Seamless Upgrades",
                "categories": "Security",
                "containerImage": installation.image,
                "description": "Evaluates Operators, their bundles and catalogs",
                "features.operators.openshift.io/disconnected": "true",
                "features.operators.openshift.io/fips-compliant": "false",
                "features.operators.openshift.io/proxy-aware": "false",
                "features.operators.openshift.io/tls-profiles": "false",
                "features.operators.openshift.io/token-auth-aws": "false",
                "features.operators.openshift.io/token-auth-azure": "false",
                "features.operators.openshift.io/token-auth-gcp": "false",
                "operatorframework.io/suggested-namespace": installation.namespace,
            },
            "labels": {
                "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/arch.arm64": "supported",
                "operatorframework.io/os.linux": "supported",
            },
        },
        "spec": {
            "displayName": "opgate",
            "version": VERSION,
            "maturity": CHANNEL,
            "minKubeVersion": "1.28.0",
            "description": DESCRIPTION,
            "labels": Installation::pod_labels(),
            "selector": {"matchLabels": Installation::pod_labels()},
            "keywords": ["admission", "olm", "operators", "policy", "security"],
            "provider": {"name": "opgate"},
            "maintainers": [{"name": "opgate", "email": "opgate@example.com"}],
            "links": [{"name": "Documentation", "url": "https://docs.example.com/opgate"}],
            "icon": [{"base64data": base64(ICON), "mediatype": "image/svg+xml"}],
            "installModes": [
                {"type": "OwnNamespace", "supported": false},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": true},
            ],
            "install": {
                "strategy": "deployment",
                "spec": {
                    "permissions": [
                        {"serviceAccountName": account, "rules": own},
                    ],
                    "clusterPermissions": [{"serviceAccountName": account, "rules": rules}],
                    "deployments": [{"name": account, "spec": deployment(&installation)}],
                },
            },
            "relatedImages": [{"name": "opgate", "image": installation.image}],
        },
    });
    let package = |path: &str| format!("operators.operatorframework.io.bundle.{path}");
    let annotations = json!({"annotations": {
        package("mediatype.v1"): "registry+v1",
        package("manifests.v1"): "manifests/",
        package("metadata.v1"): "metadata/",
        package("package.v1"): "opgate",
        package("channels.v1"): CHANNEL,
        package("channel.default.v1"): CHANNEL,
    }});
    let image = pin_image(bundle_image);
    let catalog = [
        json!({
            "schema": "olm.package",
            "name": "opgate",
            "defaultChannel": CHANNEL,
            "description": DESCRIPTION,
            "icon": {"base64data": base64(ICON), "mediatype": "image/svg+xml"},
        }),
        json!({
            "schema": "olm.channel",
            "name": CHANNEL,
            "package": "opgate",
            "entries": [{"name": csv_name}],
        }),
        json!({
            "schema": "olm.bundle",
            "name": csv_name,
            "package": "opgate",
            "image": image,
            "properties": [
                {"type": "olm.package", "value": {"packageName": "opgate", "version": VERSION}},
                {"type": "olm.csv.metadata", "value": csv_metadata(&csv)},
            ],
            "relatedImages": [
                {"name": "opgate-bundle", "image": image},
                {"name": "opgate", "image": installation.image},
            ],
        }),
    ];
    let at = |path: &str| format!("olm/{path}").into();
    let mut files: Files = vec![
        (at("bundle/manifests/opgate.clusterserviceversion.yaml"), yaml(&csv)?),
        (at("bundle/metadata/annotations.yaml"), yaml(&annotations)?),
        (at("catalog/opgate/catalog.yaml"), super::documents(&catalog)?),
    ];
    for object in &objects {
        if matches!(kind(object), "Service" | "PodDisruptionBudget") {
            let path = format!("{}.{}.yaml", name(object), kind(object).to_lowercase());
            let path = at(&format!("bundle/manifests/{path}"));
            files.push((path, yaml(&metadata_without_namespace(object))?));
        }
    }
    Ok(files)
}

/// Returns the fields of a ClusterServiceVersion that a catalog keeps.
fn csv_metadata(csv: &Value) -> Value {
    let mut value = json!({
        "annotations": csv.pointer("/metadata/annotations"),
        "labels": csv.pointer("/metadata/labels"),
        "apiServiceDefinitions": {},
        "crdDescriptions": {},
    });
    if let Some(members) = value.as_object_mut() {
        for name in [
            "description",
            "displayName",
            "installModes",
            "keywords",
            "links",
            "maintainers",
            "maturity",
            "minKubeVersion",
            "provider",
        ] {
            let of_spec = csv.get("spec").and_then(|spec| spec.get(name)).cloned();
            members.insert(name.to_owned(), of_spec.unwrap_or_default());
        }
    }
    value
}

/// Encodes base64 as in JSON of Kubernetes.
fn base64(text: &str) -> Value {
    json!(k8s_openapi::ByteString(text.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_by_digest() {
        for (image, expected) in [
            ("opgate", "opgate@"),
            ("opgate:1", "opgate@"),
            ("r.example.com:5000/a/opgate:1", "r.example.com:5000/a/opgate@"),
            ("r.example.com:5000/opgate", "r.example.com:5000/opgate@"),
        ] {
            assert_eq!(pin_image(image), format!("{expected}{PLACEHOLDER_DIGEST}"));
        }
        let digest = "r/opgate@sha256:1234";
        assert_eq!(pin_image(digest), digest);
    }
}
