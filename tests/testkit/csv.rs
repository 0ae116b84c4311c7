//! ClusterServiceVersions with the proportions of published ones, for benchmarks: examples as JSON in a
//! text, an icon in base64, descriptors of each API, deployments with related images, permissions.

use serde_json::{Map, Value, json};

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Owned CRDs, each with an example.
    pub apis: usize,
    /// Descriptors of the spec of each; half as many of its status.
    pub descriptors: usize,
    /// Deployments, each of one container.
    pub deployments: usize,
    /// Related images, which are environment variables of the first container, too.
    pub images: usize,
    /// Rules of the cluster's permissions; a quarter as many of the namespace's.
    pub rules: usize,
    /// Webhook definitions.
    pub webhooks: usize,
    /// Bytes of the icon, in base64.
    pub icon: usize,
    /// Bytes of the description.
    pub description: usize,
}

/// An Operator as there are many: 30 KB.
pub const USUAL_SHAPE: Shape = Shape {
    apis: 5,
    descriptors: 6,
    deployments: 2,
    images: 8,
    rules: 12,
    webhooks: 2,
    icon: 5_000,
    description: 2_500,
};

/// One of the largest: 1 MB.
pub const LARGE_SHAPE: Shape = Shape {
    apis: 130,
    descriptors: 16,
    deployments: 12,
    images: 150,
    rules: 300,
    webhooks: 60,
    icon: 150_000,
    description: 60_000,
};

/// The object, in a namespace.
pub fn csv(shape: Shape, namespace: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": "widget-operator.v1.4.2",
            "namespace": namespace,
            "annotations": {
                "alm-examples": examples(shape.apis),
                "capabilities": "Seamless Upgrades",
                "categories": "Database",
                "certified": "false",
                "containerImage": image(0),
                "createdAt": "2024-03-05T10:00:00Z",
                "description": "Creates and runs widgets.",
                "operators.openshift.io/infrastructure-features": "[\"disconnected\", \"proxy-aware\"]",
                "repository": "https://github.com/example/widget-operator",
                "support": "Example",
            },
            "labels": {
                "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/arch.arm64": "supported",
                "operatorframework.io/os.linux": "supported",
                format!("operators.coreos.com/widget-operator.{namespace}"): "",
            },
        },
        "spec": spec(shape),
    })
}

fn spec(shape: Shape) -> Value {
    let modes = [
        ("OwnNamespace", true),
        ("SingleNamespace", true),
        ("MultiNamespace", false),
        ("AllNamespaces", true),
    ];
    let modes = modes.map(|(mode, is)| json!({"type": mode, "supported": is}));
    let owned: Vec<_> = (0..shape.apis).map(|n| owned(n, shape.descriptors)).collect();
    let webhooks: Vec<_> = (0..shape.webhooks).map(webhook).collect();
    let images = (0..shape.images).map(|n| json!({"name": format!("part-{n}"), "image": image(n)}));
    json!({
        "displayName": "Widget Operator",
        "description": text(shape.description),
        "version": "1.4.2",
        "replaces": "widget-operator.v1.4.1",
        "minKubeVersion": "1.21.0",
        "maturity": "stable",
        "keywords": ["widget", "database", "storage"],
        "labels": {"operated-by": "widget-operator"},
        "selector": {"matchLabels": {"operated-by": "widget-operator"}},
        "links": [
            {"name": "Documentation", "url": "https://docs.example.com/widget"},
            {"name": "Source", "url": "https://github.com/example/widget-operator"},
        ],
        "maintainers": [{"name": "Example", "email": "widgets@example.com"}],
        "provider": {"name": "Example", "url": "https://example.com"},
        "icon": [{"base64data": "iVBORw0KGgo".repeat(shape.icon / 44 * 4), "mediatype": "image/png"}],
        "installModes": modes,
        "customresourcedefinitions": {"owned": owned},
        "install": {"strategy": "deployment", "spec": install(shape)},
        "webhookdefinitions": webhooks,
        "relatedImages": images.collect::<Vec<_>>(),
    })
}

fn kind(number: usize) -> String {
    format!("Widget{number}")
}

fn image(number: usize) -> String {
    format!("registry.example.com/widget/part-{number}@sha256:{:064x}", 0xabc_def + number)
}

/// Prose of a length.
fn text(length: usize) -> String {
    let line = "The Operator creates widgets, keeps them as they should be, and upgrades them.\n";
    line.chars().cycle().take(length).collect()
}

/// As authors write them: indented, in a text.
fn examples(apis: usize) -> String {
    let example = |n: usize| {
        json!({
            "apiVersion": "widget.example.com/v1alpha1", "kind": kind(n),
            "metadata": {"name": format!("example-{n}"), "labels": {"app": "widget"}},
            "spec": {
                "replicas": 3, "size": "10Gi", "enabled": true,
                "storage": {"class": "standard", "accessModes": ["ReadWriteOnce"]},
                "resources": {
                    "limits": {"cpu": "500m", "memory": "1Gi"},
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                },
                "backup": {"schedule": "0 3 * * *", "keep": 7},
            },
        })
    };
    serde_json::to_string_pretty(&(0..apis).map(example).collect::<Vec<_>>()).unwrap_or_default()
}

fn descriptors(count: usize) -> Vec<Value> {
    let descriptor = |n: usize| {
        json!({
            "path": format!("storage.part{n}"),
            "displayName": format!("Part {n}"),
            "description": "What this part of the widget has to be like.",
            "x-descriptors": ["urn:alm:descriptor:com.tectonic.ui:text"],
        })
    };
    (0..count).map(descriptor).collect()
}

fn owned(number: usize, count: usize) -> Value {
    json!({
        "name": format!("widgets{number}.widget.example.com"),
        "kind": kind(number),
        "version": "v1alpha1",
        "displayName": format!("Widget {number}"),
        "description": "A widget that the Operator runs.",
        "resources": [
            {"kind": "Deployment", "version": "v1"},
            {"kind": "Service", "version": "v1"},
            {"kind": "ConfigMap", "version": "v1"},
        ],
        "specDescriptors": descriptors(count),
        "statusDescriptors": descriptors(count / 2),
    })
}

fn install(shape: Shape) -> Value {
    let deployment = |n: usize| {
        let images = if n == 0 { shape.images } else { 0 };
        json!({"name": format!("widget-{n}"), "spec": deployment(n, images)})
    };
    let permissions = |rules: usize| {
        json!([{
            "serviceAccountName": "widget-operator",
            "rules": (0..rules).map(rule).collect::<Vec<_>>(),
        }])
    };
    json!({
        "deployments": (0..shape.deployments).map(deployment).collect::<Vec<_>>(),
        "clusterPermissions": permissions(shape.rules),
        "permissions": permissions(shape.rules / 4),
    })
}

fn deployment(number: usize, images: usize) -> Value {
    let variable = |n: usize| json!({"name": format!("RELATED_IMAGE_PART_{n}"), "value": image(n)});
    let mut env: Vec<_> = (0..images).map(variable).collect();
    let field = json!({"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}});
    env.push(json!({"name": "WATCH_NAMESPACE", "valueFrom": field}));
    env.push(json!({"name": "OPERATOR_NAME", "value": "widget-operator"}));
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8081}, "initialDelaySeconds": 5, "periodSeconds": 10});
    let container = json!({
        "name": "manager",
        "image": image(number),
        "args": ["--leader-elect", "--health-probe-bind-address=:8081", "--zap-log-level=info"],
        "env": env,
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "limits": {"cpu": "500m", "memory": "512Mi"},
            "requests": {"cpu": "10m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/widget"}],
    });
    let labels = json!({"name": format!("widget-{number}")});
    json!({
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": "widget-operator",
                "securityContext": {
                    "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [{"name": "config", "emptyDir": {}}],
                "terminationGracePeriodSeconds": 10,
            },
        },
    })
}

fn rule(number: usize) -> Value {
    json!({
        "apiGroups": [if number.is_multiple_of(3) { "" } else { "widget.example.com" }],
        "resources": [format!("widgets{number}"), format!("widgets{number}/status")],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    })
}

fn webhook(number: usize) -> Value {
    let kinds = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"];
    let kind = if number.is_multiple_of(2) { kinds[0] } else { kinds[1] };
    json!({
        "type": kind,
        "generateName": format!("widget{number}.widget.example.com"),
        "deploymentName": "widget-0",
        "containerPort": 443,
        "targetPort": 9443,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "webhookPath": format!("/webhook-{number}"),
        "rules": [{
            "apiGroups": ["widget.example.com"], "apiVersions": ["v1alpha1"],
            "operations": ["CREATE", "UPDATE"], "resources": [format!("widgets{number}")],
        }],
    })
}

/// The object after a controller set a label.
#[must_use]
pub fn with_label(csv: &Value) -> Value {
    with_change(csv, "/metadata/labels", |labels| {
        drop(labels.insert("olm.managed".into(), json!("true")));
    })
}

/// The object after an author changed the description.
#[must_use]
pub fn with_description(csv: &Value) -> Value {
    with_change(csv, "/spec", |spec| {
        drop(spec.insert("description".into(), json!("Another text.")));
    })
}

/// The object after OLM wrote its status.
#[must_use]
pub fn with_status(csv: &Value) -> Value {
    let status = json!({"phase": "Succeeded", "reason": "InstallSucceeded", "conditions": []});
    with_change(csv, "", |csv| drop(csv.insert("status".into(), status)))
}

fn with_change(csv: &Value, pointer: &str, change: impl FnOnce(&mut Map<String, Value>)) -> Value {
    let mut csv = csv.clone();
    if let Some(object) = csv.pointer_mut(pointer).and_then(Value::as_object_mut) {
        change(object);
    }
    csv
}
