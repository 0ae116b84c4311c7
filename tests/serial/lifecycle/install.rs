//! The objects of an installation, by `opgate manifests all`, or manually as docs/operate has them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use opgate_certs::CertificateAuthority;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{SERVICE, configuration};

use super::cluster::NAMESPACE;

/// Who makes the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstallMethod {
    /// `opgate manifests all`: certificates and registration look after themselves.
    Generated,
    /// An administrator, with `opgate manifests rbac` and `opgate manifests webhook`.
    Manual,
}

/// A build of opgate, and the image that stands for it.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pub(crate) binary: PathBuf,
    pub(crate) image: String,
}

impl Build {
    pub(crate) fn new(binary: impl Into<PathBuf>, tag: &str) -> Self {
        Self { binary: binary.into(), image: format!("registry.example.com/opgate:{tag}") }
    }

    fn print(&self, arguments: &[&str]) -> Vec<Value> {
        let mut command = Command::new(&self.binary);
        command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBECONFIG");
        let printed = command.arg("manifests").args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&printed.stderr);
        assert!(printed.status.success(), "opgate manifests {arguments:?}: {error}");
        let text = String::from_utf8(printed.stdout).unwrap();
        let documents = text.split("\n---").map(|text| text.trim_start_matches("---"));
        let objects = documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let objects = objects.filter(|object| !object.is_null());
        // Alone, or in a List.
        objects.flat_map(|o| o["items"].as_array().cloned().unwrap_or_else(|| vec![o])).collect()
    }
}

/// What an installation is made of.
pub(crate) struct InstallPlan {
    pub(crate) method: InstallMethod,
    authority: CertificateAuthority,
    files: TempDir,
}

/// A configuration of these policies, with all the time that an unoptimised build needs.
pub(crate) fn policies(names: &[&str]) -> String {
    let patient = |name: &&str| json!({"name": name, "limits": {"time": "20s"}});
    configuration(&names.iter().map(patient).collect::<Vec<_>>())
}

impl InstallPlan {
    pub(crate) fn new(way: InstallMethod) -> Self {
        let files = tempfile::tempdir().unwrap();
        Self { method: way, authority: CertificateAuthority::create(1).unwrap(), files }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// All objects, in the order in which they are applied.
    pub(crate) fn objects(&self, build: &Build, configuration: &str) -> Vec<Value> {
        let config = self.file("opgate.yaml", configuration);
        match self.method {
            InstallMethod::Generated => {
                build.print(&["all", "--config", &config, "--image", &build.image])
            }
            InstallMethod::Manual => self.manual_objects(build, configuration, &config),
        }
    }

    /// A new certificate of the same CA.
    pub(crate) fn secret(&self) -> Value {
        let issued = self.authority.issue(&[SERVICE.to_owned()], 1).unwrap();
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": named("opgate-tls"),
            "type": "kubernetes.io/tls",
            "data": {
                "tls.crt": base64(issued.certificate.as_bytes()),
                "tls.key": base64(issued.key.as_bytes()),
            },
        })
    }

    fn manual_objects(&self, build: &Build, configuration: &str, config: &str) -> Vec<Value> {
        let place =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("opgate")});
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": named("opgate"),
            "data": {"opgate.yaml": configuration},
        });
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": named("opgate"),
            "spec": {
                "selector": {"app.kubernetes.io/name": "opgate"},
                "ports": [{"name": "webhook", "port": 443, "targetPort": 9443}],
            },
        });
        let ca = self.file("ca.crt", self.authority.certificate());
        let owner = format!("{NAMESPACE}/opgate");
        let mut objects = vec![place, account];
        objects.extend(build.print(&["rbac", "--config", config]));
        objects.extend([map, self.secret(), service, deployment(&build.image, configuration)]);
        objects.extend(build.print(&[
            "webhook",
            "--config",
            config,
            "--service",
            &owner,
            "--ca",
            &ca,
        ]));
        objects
    }
}

/// The configuration is part of the template, so that a change replaces the pods.
fn deployment(image: &str, configuration: &str) -> Value {
    let labels = json!({"app.kubernetes.io/name": "opgate"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named("opgate"),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": labels, "annotations": {"configuration": configuration}},
                "spec": {
                    "serviceAccountName": "opgate",
                    "containers": [{
                        "name": "opgate",
                        "image": image,
                        "args": [
                            "serve", "--config", "/etc/opgate/opgate.yaml", "--tls-dir", "/tls",
                            "--cache-dir", "/cache/opgate", "--log-format", "json",
                        ],
                        "volumeMounts": [
                            {"name": "config", "mountPath": "/etc/opgate", "readOnly": true},
                            {"name": "tls", "mountPath": "/tls", "readOnly": true},
                            {"name": "cache", "mountPath": "/cache"},
                        ],
                    }],
                    "volumes": [
                        {"name": "config", "configMap": {"name": "opgate"}},
                        {"name": "tls", "secret": {"secretName": "opgate-tls"}},
                        {"name": "cache", "emptyDir": {}},
                    ],
                },
            },
        },
    })
}

fn named(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "opgate"}})
}

/// The binaries of images.
pub(crate) fn binaries_by_image(builds: &[&Build]) -> BTreeMap<String, PathBuf> {
    builds.iter().map(|build| (build.image.clone(), build.binary.clone())).collect()
}

/// The build that an upgrade begins with: what `OPGATE_PREVIOUS` names, otherwise the same one under another tag.
pub(crate) fn previous_build(binary: &Path) -> Build {
    let previous = std::env::var_os("OPGATE_PREVIOUS").map(PathBuf::from);
    Build::new(previous.unwrap_or_else(|| binary.to_owned()), "previous")
}

/// Base64.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(padded);
        for place in 0..4 {
            if place <= three.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}
