//! `opgate manifests audit`: a `CronJob` that runs `opgate audit` with the configuration of an installation, and
//! its permissions.
//!
//! ```text
//! reads and matches of policies ─▶ read_roles ─▶ ClusterRole: list, and the reports ─┐
//! AuditArgs ─▶ ServiceAccount, CronJob ──────────────────────────────────────────────┴▶ objects
//! ```
//!
//! The servers have other roles: they watch, and write reports only with `--audit-interval`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use super::servers::{CACHE_VOLUME_SIZE, container_security, node_affinity, pod_security};
use super::{ArgumentError, image, image_or_placeholder, installation};
use crate::read_roles::{Permissions, Roles};
use crate::registration::names::object_name;
use opgate_admission::policy::{Configuration, ModuleSource, PlatformQuery, Policy};
use opgate_controller::NAME_LABEL;
use opgate_controller::audit_reports::ReportApi;

/// Memory of the pod unless a flag sets it: results of all objects stay in memory until the end.
const DEFAULT_POD_MEMORY: &str = "256Mi";

const POD_CPU_REQUEST: &str = "100m";

/// Seconds after which an audit is stopped. The next one continues with the reports that it has written.
const ACTIVE_DEADLINE_SECONDS: u32 = 3_000;

/// Seconds in which a run that was missed is started late.
const STARTING_DEADLINE_SECONDS: u32 = 600;

/// Verbs on reports: server-side apply creates with `create` and `patch`.
pub const REPORT_VERBS: [&str; 4] = ["create", "delete", "list", "patch"];

/// Macros that replace a schedule.
const SCHEDULE_MACROS: [&str; 7] =
    ["@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly"];

/// Arguments of `opgate manifests audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Image of opgate, by tag or by digest
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<String>,
    /// Installation whose configuration is used: its namespace and Service
    #[arg(long, value_name = "NAMESPACE/SERVICE", value_parser = installation, default_value = "opgate-system/opgate")]
    installation: (String, String),
    /// Schedule in the format of cron, in the time zone of the cluster
    #[arg(long, value_name = "CRON", value_parser = schedule, default_value = "0 * * * *")]
    schedule: String,
    /// Memory of the pod
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, default_value = DEFAULT_POD_MEMORY)]
    memory: String,
    /// Secret of the namespace with the credentials for the image; may be repeated
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pull_secret: Vec<String>,
}

impl AuditArgs {
    /// Warns of policies whose modules the `CronJob` does not have.
    pub fn warn_of_missing_modules(configuration: &Configuration) {
        for policy in &configuration.policies {
            match &policy.module {
                ModuleSource::Builtin(_) => {}
                ModuleSource::File(path) => tracing::warn!(
                    policy = policy.name,
                    module = %path.display(),
                    "the module is not among the objects: mount it into the CronJob, or every audit fails"
                ),
                ModuleSource::Oci(remote) => tracing::warn!(
                    policy = policy.name,
                    module = %remote,
                    "the CronJob pulls the module: if its registry wants credentials or has a private CA, mount them, and name them with --registry-config and --registry-ca"
                ),
            }
        }
    }

    /// Returns the objects, roles in other namespaces last.
    pub fn objects(self, policies: &[&Policy], wanted: Option<PlatformQuery>) -> Vec<Value> {
        let (namespace, installation) = self.installation;
        let job = AuditJob {
            name: format!("{installation}-audit"),
            namespace,
            installation,
            image: image_or_placeholder(self.image),
            schedule: self.schedule,
            memory: self.memory,
            pull_secrets: self.pull_secret,
        };
        let permissions = Permissions::new(&job.namespace, &job.name, &job.name);
        let Roles { cluster_roles, namespaced_roles } =
            permissions.audit_roles(policies, wanted, &report_rules());
        let mut objects = vec![job.service_account()];
        objects.extend(cluster_roles.into_iter().map(|role| job.with_labels(role)));
        objects.push(job.cron_job());
        let roles = namespaced_roles.into_iter().flat_map(|(_, roles)| roles);
        objects.extend(roles.map(|role| job.with_labels(role)));
        objects
    }
}

/// Returns the permissions for reports, of whichever API the cluster has.
pub(super) fn report_rules() -> Vec<Value> {
    let rule = |api: ReportApi| {
        json!({
            "apiGroups": [api.group()],
            "resources": [api.resource(false), api.resource(true)],
            "verbs": REPORT_VERBS,
        })
    };
    ReportApi::ALL.into_iter().map(rule).collect()
}

/// Parameters of the objects.
struct AuditJob {
    /// Name of all objects.
    name: String,
    namespace: String,
    /// Name of the `ConfigMap` with the configuration.
    installation: String,
    image: String,
    schedule: String,
    memory: String,
    pull_secrets: Vec<String>,
}

impl AuditJob {
    /// Returns labels that the Services of the servers do not select.
    fn labels(&self) -> BTreeMap<&str, &str> {
        BTreeMap::from([(NAME_LABEL.0, self.name.as_str())])
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": self.labels()})
    }

    fn with_labels(&self, mut object: Value) -> Value {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("labels".to_owned(), json!(self.labels()));
        }
        object
    }

    fn service_account(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": self.metadata(),
            "automountServiceAccountToken": false,
        })
    }

    fn cron_job(&self) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": self.metadata(),
            "spec": {
                "schedule": self.schedule,
                "concurrencyPolicy": "Forbid",
                "startingDeadlineSeconds": STARTING_DEADLINE_SECONDS,
                "successfulJobsHistoryLimit": 1,
                "failedJobsHistoryLimit": 3,
                "jobTemplate": {"spec": {
                    "activeDeadlineSeconds": ACTIVE_DEADLINE_SECONDS,
                    // The next run is as good as another attempt.
                    "backoffLimit": 0,
                    "template": {
                        "metadata": {"labels": self.labels()},
                        "spec": self.pod_spec(),
                    },
                }},
            },
        })
    }

    fn pod_spec(&self) -> Value {
        let mut pod = json!({
            "serviceAccountName": self.name,
            "automountServiceAccountToken": true,
            "restartPolicy": "Never",
            "affinity": {"nodeAffinity": node_affinity()},
            "securityContext": pod_security(),
            "containers": [{
                "name": "audit",
                "image": self.image,
                "args": [
                    "audit", "--config", "/etc/opgate/opgate.yaml", "--cache-dir", "/cache/opgate",
                    "--log-format", "json", "-o", "jsonl",
                    "--installation", format!("{}/{}", self.namespace, self.installation),
                ],
                "resources": {
                    "requests": {"cpu": POD_CPU_REQUEST, "memory": self.memory},
                    "limits": {"memory": self.memory},
                },
                "securityContext": container_security(),
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/opgate", "readOnly": true},
                    {"name": "cache", "mountPath": "/cache"},
                ],
            }],
            "volumes": [
                {"name": "config", "configMap": {"name": self.installation}},
                {"name": "cache", "emptyDir": {"sizeLimit": CACHE_VOLUME_SIZE}},
            ],
        });
        if let Some(pod) = pod.as_object_mut().filter(|_| !self.pull_secrets.is_empty()) {
            let secrets: Vec<_> =
                self.pull_secrets.iter().map(|name| json!({"name": name})).collect();
            pod.insert("imagePullSecrets".to_owned(), json!(secrets));
        }
        pod
    }
}

/// Checks a schedule, as far as its syntax allows: the API server checks the rest.
/// Checks a size in the format of Kubernetes, in Mi or Gi.
fn parse_memory(text: &str) -> Result<String, ArgumentError> {
    let number = text.strip_suffix("Mi").or_else(|| text.strip_suffix("Gi"));
    match number.map(str::parse::<u32>) {
        Some(Ok(1..)) => Ok(text.to_owned()),
        _ => Err(ArgumentError(format!("{text:?} is not a size such as 256Mi or 1Gi"))),
    }
}

fn schedule(text: &str) -> Result<String, ArgumentError> {
    let is_field = |field: &str| {
        field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"*/,-?".contains(&byte))
    };
    let fields: Vec<_> = text.split_ascii_whitespace().collect();
    if SCHEDULE_MACROS.contains(&text) || fields.len() == 5 && fields.into_iter().all(is_field) {
        return Ok(text.to_owned());
    }
    Err(ArgumentError(format!(
        "{text:?} is not a schedule: write five fields, such as \"0 * * * *\" for every hour, or a macro such as @daily"
    )))
}
