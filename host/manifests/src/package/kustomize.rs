//! A base for kustomize, and one with monitoring on top of it.

use serde_json::{Value, json};

use super::{Files, documents, kind, name, yaml};
use crate::installation::Installation;
use opgate_admission::policy::Policy;

/// Comment with the fields that an overlay usually changes.
const BASE: &str = "\
# All of opgate. An overlay names the image, and the configuration:
#
#   resources: [../base]
#   images:
#     - name: registry.example.com/opgate
#       newName: registry.internal/opgate
#       digest: sha256:…
#   configMapGenerator:
#     - name: opgate
#       namespace: opgate-system
#       behavior: replace
#       files: [opgate.yaml]
#       options: {disableNameSuffixHash: true}
#
# Servers take over a changed ConfigMap without a restart, so its name needs no suffix. A configuration that
# reads more than the default one needs its own roles: opgate manifests rbac --config opgate.yaml
";

const MONITORING: &str = "\
# The base with a ServiceMonitor and alerts, for the Prometheus Operator, and a dashboard, for Grafana.
";

pub(super) fn files(policies: &[&Policy], installation: &Installation) -> anyhow::Result<Files> {
    let plain = Installation { monitoring: false, dashboard: false, ..installation.clone() }
        .objects(policies);
    let monitored = Installation { monitoring: true, dashboard: true, ..installation.clone() }
        .objects(policies);
    let of = |object: &Value| (kind(object).to_owned(), name(object).to_owned());
    let same = |object: &Value| plain.iter().find(|other| of(other) == of(object));
    let more: Vec<_> = monitored.iter().filter(|o| same(o).is_none()).cloned().collect();
    let changed = monitored.iter().filter(|o| same(o).is_some_and(|other| other != *o));
    let patches: anyhow::Result<Vec<_>> =
        changed.map(|object| Ok(json!({"patch": yaml(object)?}))).collect();
    let version = "kustomize.config.k8s.io/v1beta1";
    let base = json!({
        "apiVersion": version,
        "kind": "Kustomization",
        "resources": ["installation.yaml"],
    });
    let mut monitoring = json!({
        "apiVersion": version,
        "kind": "Kustomization",
        "resources": ["../base", "monitoring.yaml"],
    });
    // For the NetworkPolicy, if there is one.
    let patches = patches?;
    if let Some(members) = monitoring.as_object_mut().filter(|_| !patches.is_empty()) {
        members.insert("patches".to_owned(), json!(patches));
    }
    let at = |path: &str| format!("kustomize/{path}").into();
    Ok(vec![
        (at("base/kustomization.yaml"), format!("{BASE}{}", yaml(&base)?)),
        (at("base/installation.yaml"), documents(&plain)?),
        (at("monitoring/kustomization.yaml"), format!("{MONITORING}{}", yaml(&monitoring)?)),
        (at("monitoring/monitoring.yaml"), documents(&more)?),
    ])
}
