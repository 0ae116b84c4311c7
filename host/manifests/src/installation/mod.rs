//! `opgate manifests all`: every object of an installation, in the order in which they are applied.
//!
//! ```text
//!              ┌─▶ server_namespace  Namespace, quota, ServiceAccount ──────────────────────┐
//!              ├─▶ read_roles        roles for the reads of policies                        │
//!              ├─▶ server_roles      roles for the objects that servers write               │
//!              ├─▶ flow_control      the servers' share of the API server's concurrency     │
//! Installation ┼─▶ servers           ConfigMaps, Deployment, PodDisruptionBudget            ├─▶ objects
//!              ├─▶ traffic           Services, NetworkPolicy, webhook configuration         │
//!              ├─▶ certificates      the Secret of the servers, or what cert-manager needs  │
//!              ├─▶ monitoring        ServiceMonitor, PrometheusRule (alerts) ───────────────┤
//!              └─▶ dashboard         ConfigMap for Grafana ─────────────────────────────────┘
//! ```
//!
//! Applying the objects denies no request: the webhook configuration has no webhooks until the leader of
//! ready servers fills it in. It comes first, so that `kubectl delete -f`, which processes a file from top to
//! bottom, deletes it before the servers. The permission of the servers is limited to the object of this
//! name, and does not include its creation: an object that an administrator has deleted stays deleted.
//!
//! Roles in other namespaces come last: such a namespace may not exist, and all other objects are applied by
//! then. Servers treat a namespace that does not exist as empty.

pub(crate) mod alerts;
pub mod audit;
mod callers;
mod certificates;
pub(crate) mod dashboard;
mod flow_control;
mod monitoring;
mod server_namespace;
mod server_roles;
pub(crate) mod servers;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

pub(crate) use self::callers::ApiServers;
use self::callers::{ApiServer, ClientCa, api_server};
use self::flow_control::FlowControl;
use crate::network::label;
use crate::read_roles::{Permissions, Roles};
use crate::registration::names::{is_label, namespace, object_name};
use opgate_admission::policy::{Configuration, ModuleSource, PlatformQuery, Policy};
use opgate_controller::NAME_LABEL;

/// The reason why an argument of an installation is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct ArgumentError(String);

/// The configuration that an installation starts with if no other is given.
const DEFAULT_CONFIGURATION: &str = include_str!("default.yaml");

/// A placeholder image: the domain is reserved for examples, so no image can be pushed to it.
const PLACEHOLDER_IMAGE: &str = concat!("registry.example.com/opgate:", env!("CARGO_PKG_VERSION"));

/// Most bytes of a ConfigMap, in which the configuration is.
const MAX_CONFIGURATION_BYTES: usize = 1_000_000;

/// Arguments that describe an installation.
#[derive(Debug, Args)]
pub struct InstallationArgs {
    /// Image of the server, by tag or by digest
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<String>,
    /// Namespace, and name of the Service and of everything else that has no other name
    #[arg(long, value_name = "NAMESPACE/SERVICE", value_parser = installation, default_value = "opgate-system/opgate")]
    installation: (String, String),
    /// How the serving certificate is issued and renewed
    #[arg(long, value_name = "MODE", default_value = "self-managed")]
    certificates: Certificates,
    /// How the webhooks are registered
    #[arg(long, value_name = "MODE", default_value = "managed")]
    registration: Registrar,
    /// Number of servers
    #[arg(long, value_name = "NUMBER", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=100))]
    replicas: u16,
    /// The leader of the servers audits the cluster, with this pause between two audits, and writes reports
    /// [default: no audit]
    #[arg(long, value_name = "DURATION", value_parser = audit_interval)]
    audit_interval: Option<String>,
    /// Write Events for denied requests in the namespaces of their objects, with the permission for it
    #[arg(long)]
    events: bool,
    /// Address where you have published the documentation: alerts link to its run-book
    #[arg(long, value_name = "URL", value_parser = docs_url)]
    docs_url: Option<String>,
    /// Additional objects to print; may be repeated
    #[arg(long, value_name = "KIND")]
    with: Vec<Extra>,
    /// Addresses from which API servers reach the webhook port, or `any`; may be repeated [default: no network policy]
    #[arg(long, value_name = "CIDR", value_parser = api_server)]
    api_server: Vec<ApiServer>,
    /// Namespace whose pods may reach the ops port; may be repeated [default: none, with monitoring any]
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, requires = "api_server")]
    metrics_from: Vec<String>,
    /// CA bundle, PEM: only clients with a certificate from one of these CAs may connect to the webhook port
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Common name or DNS name that a client's certificate must have; may be repeated
    #[arg(long, value_name = "NAME", requires = "client_ca")]
    client_name: Vec<String>,
    /// Priority class of the pods; an empty name for none
    #[arg(long, value_name = "NAME", value_parser = class, default_value = "system-cluster-critical")]
    priority_class: String,
    /// API version of the `FlowSchema` of the servers, and of its priority level
    #[arg(long, value_name = "VERSION", default_value = "v1")]
    flow_control: FlowControl,
    /// Secret of the namespace with the credentials for the image; may be repeated
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pull_secret: Vec<String>,
    /// Additional label of every object; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Omit roles in this namespace, which does not exist; may be repeated
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    skip_roles_in: Vec<String>,
}

/// How the serving certificate is issued and renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Certificates {
    /// opgate: a CA and a certificate in the Secret opgate-tls, renewed in time
    SelfManaged,
    /// cert-manager, which must be installed: its objects are printed as well
    CertManager,
    /// You: the Secret opgate-tls must have tls.crt, tls.key and ca.crt
    Files,
}

/// How the webhooks are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Registrar {
    /// The leader of the servers, once they are ready, and whenever the configuration changes
    Managed,
    /// You: `opgate manifests webhook` prints them
    Manual,
}

/// The namespace of RukPak.
const RUKPAK_NAMESPACE: &str = "rukpak-system";

/// Objects that are printed on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Extra {
    /// Objects for the Prometheus Operator: what to collect, and what to alert on
    Monitoring,
    /// ConfigMap with the dashboard, for Grafana with a sidecar that loads dashboards
    Dashboard,
    /// The Role in rukpak-system, for rules that read the ConfigMaps of Bundles
    Rukpak,
}

/// Parameters of the objects of an installation.
#[derive(Debug, Clone)]
pub struct Installation {
    pub(crate) namespace: String,
    /// Name of the Service and of all objects without another name.
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) certificates: Certificates,
    pub(crate) registration: Registrar,
    pub(crate) replicas: u16,
    /// `--audit-interval` of the servers.
    pub(crate) audit_interval: Option<String>,
    /// Whether the servers write Events for denials.
    pub(crate) events: bool,
    pub(crate) monitoring: bool,
    /// Whether there is a ConfigMap with the dashboard.
    pub(crate) dashboard: bool,
    /// The start of addresses of the documentation, without a slash at the end.
    pub(crate) docs_url: Option<String>,
    pub(crate) api_servers: ApiServers,
    /// With it, clients need a certificate.
    pub(crate) client_ca: Option<ClientCa>,
    /// Namespaces.
    pub(crate) metrics_from: Vec<String>,
    /// Empty for none.
    pub(crate) priority_class: String,
    pub(crate) flow_control: FlowControl,
    pub(crate) pull_secrets: Vec<String>,
    /// Labels of every object, including [`NAME_LABEL`].
    pub(crate) labels: BTreeMap<String, String>,
    /// Namespaces that the cluster does not have.
    pub(crate) absent_namespaces: BTreeSet<String>,
    /// The text of the configuration.
    pub(crate) configuration: String,
    /// Resources that servers read to detect their platform.
    pub(crate) platform_reads: Option<PlatformQuery>,
}

impl InstallationArgs {
    /// Returns the installation with its configuration: that of a file, or the default one.
    ///
    /// # Errors
    /// If the file is unreadable or larger than a `ConfigMap`, or flags contradict each other.
    pub fn installation(
        self,
        file: Option<&Path>,
        read: Configuration,
    ) -> anyhow::Result<Installation> {
        let configuration = match file {
            Some(path) => read_configuration(path)?,
            None => DEFAULT_CONFIGURATION.to_owned(),
        };
        let wanted = read.platform_query();
        for policy in read.policies {
            match &policy.module {
                ModuleSource::Builtin(_) => {}
                ModuleSource::File(path) => tracing::warn!(
                    policy = policy.name,
                    module = %path.display(),
                    "the module is not among the objects: mount it into the pods"
                ),
                ModuleSource::Oci(remote) => tracing::warn!(
                    policy = policy.name,
                    module = %remote,
                    "the pods pull the module: if its registry wants credentials or has a private CA, mount them, and name them with --registry-config and --registry-ca"
                ),
            }
        }
        let image = image_or_placeholder(self.image);
        if self.replicas == 1 {
            tracing::warn!(
                "a single server: whenever it or its node restarts, nothing is checked, or nothing can be written"
            );
        }
        let labels: BTreeMap<_, _> = self.label.iter().cloned().collect();
        if labels.len() != self.label.len() || labels.contains_key(NAME_LABEL.0) {
            let name = NAME_LABEL.0;
            let why = format!("--label names a key twice, or {name}, by which pods are selected");
            return Err(anyhow::anyhow!(why));
        }
        let (namespace, name) = self.installation;
        let mut absent: BTreeSet<_> = self.skip_roles_in.into_iter().collect();
        if !self.with.contains(&Extra::Rukpak) {
            // Few clusters have RukPak, and a Role cannot be applied where its namespace is missing.
            absent.insert(RUKPAK_NAMESPACE.to_owned());
        }
        let client_ca = self.client_ca.map(|path| ClientCa::read(path, self.client_name));
        Ok(Installation {
            namespace,
            name,
            image,
            certificates: self.certificates,
            registration: self.registration,
            replicas: self.replicas,
            audit_interval: self.audit_interval,
            events: self.events,
            monitoring: self.with.contains(&Extra::Monitoring),
            dashboard: self.with.contains(&Extra::Dashboard),
            docs_url: self.docs_url,
            api_servers: ApiServers::of(self.api_server)?,
            client_ca: client_ca.transpose()?,
            metrics_from: self.metrics_from,
            priority_class: self.priority_class,
            flow_control: self.flow_control,
            pull_secrets: self.pull_secret,
            labels: labels.into_iter().chain([own_label()]).collect(),
            absent_namespaces: absent,
            configuration,
            platform_reads: wanted,
        })
    }
}

impl Installation {
    /// Returns all objects for the policies of the configuration.
    pub fn objects(&self, policies: &[&Policy]) -> Vec<Value> {
        let roles = self.roles(policies);
        let (own, others): (Vec<_>, Vec<_>) =
            roles.namespaced_roles.into_iter().partition(|(place, _)| *place == self.namespace);
        let labelled = |(_, roles): (String, [Value; 2])| roles;
        let mut objects = Vec::new();
        objects.extend(self.webhook_configuration());
        objects.extend(self.namespace_and_service_account());
        objects.extend(roles.cluster_roles.into_iter().map(|role| self.with_labels(role)));
        objects.extend(own.into_iter().flat_map(labelled).map(|role| self.with_labels(role)));
        objects.extend(self.controller_roles());
        objects.extend(self.event_roles());
        objects.extend(self.flow_control_objects());
        objects.extend(self.secret());
        objects.extend(self.issuers());
        objects.push(self.config_map());
        objects.extend(self.client_ca_config_map());
        objects.extend(self.services());
        objects.extend(self.network_policy());
        objects.extend(self.disruption_budget());
        objects.push(self.deployment());
        objects.extend(self.monitoring_objects());
        objects.extend(self.dashboard_config_map());
        objects.extend(others.into_iter().flat_map(labelled).map(|role| self.with_labels(role)));
        objects
    }

    /// Namespaces of others in which there are roles.
    pub fn foreign_namespaces(&self, policies: &[&Policy]) -> Vec<String> {
        let places = self.roles(policies).namespaced_roles.into_iter().map(|(place, _)| place);
        let places: BTreeSet<_> = places.filter(|place| *place != self.namespace).collect();
        places.into_iter().collect()
    }

    /// Returns the roles for the declared reads of the policies, and for the audit.
    fn roles(&self, policies: &[&Policy]) -> Roles {
        let mut roles = Permissions::new(&self.namespace, &self.name, &self.name)
            .roles(policies, self.platform_reads);
        if self.audit_interval.is_some() {
            // Roles with another name: `opgate manifests rbac` prints those of the reads again.
            let name = self.leader_audit_role();
            let audit = Permissions::new(&self.namespace, &self.name, &name);
            let Roles { cluster_roles, namespaced_roles } =
                audit.audit_roles(policies, None, &audit::report_rules());
            roles.cluster_roles.extend(cluster_roles);
            roles.namespaced_roles.extend(namespaced_roles);
        }
        roles.namespaced_roles.retain(|(place, _)| !self.absent_namespaces.contains(place));
        roles
    }

    /// Returns the name of the roles for the audit of the leader.
    pub(crate) fn leader_audit_role(&self) -> String {
        format!("{}-leader-audit", self.name)
    }

    /// Returns `metadata` of an object of the namespace.
    fn namespaced_metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": self.labels})
    }

    /// Returns `metadata` of an object of the cluster.
    fn cluster_metadata(&self, name: &str) -> Value {
        json!({"name": name, "labels": self.labels})
    }

    /// Returns labels that select the pods, and no other object in the namespace.
    pub(crate) fn pod_labels() -> Value {
        let (key, value) = own_label();
        json!({ key: value })
    }

    fn with_labels(&self, mut object: Value) -> Value {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        object
    }

    /// Returns `NAMESPACE/SERVICE`.
    fn owner(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Reports whether a certificate is mounted.
    fn mounts_certificate(&self) -> bool {
        self.certificates != Certificates::SelfManaged
    }
}

fn own_label() -> (String, String) {
    (NAME_LABEL.0.to_owned(), NAME_LABEL.1.to_owned())
}

/// Reads a configuration for a ConfigMap.
fn read_configuration(path: &Path) -> anyhow::Result<String> {
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(named)?;
    anyhow::ensure!(
        text.len() <= MAX_CONFIGURATION_BYTES,
        "{}: {} bytes, and a ConfigMap holds {MAX_CONFIGURATION_BYTES}",
        path.display(),
        text.len()
    );
    Ok(text)
}

fn installation(text: &str) -> Result<(String, String), ArgumentError> {
    let wrong = || ArgumentError(format!("{text:?} is not in the format NAMESPACE/SERVICE"));
    let (namespace, name) = text.split_once('/').ok_or_else(wrong)?;
    if is_label(namespace) && is_label(name) {
        Ok((namespace.to_owned(), name.to_owned()))
    } else {
        Err(wrong())
    }
}

/// Checks an image reference, as far as its syntax allows.
fn image(text: &str) -> Result<String, ArgumentError> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b);
    if !text.is_empty() && text.len() <= 512 && text.bytes().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(ArgumentError(format!(
        "{text:?} is not an image: write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST"
    )))
}

/// Returns the image, or without one a placeholder with a warning.
fn image_or_placeholder(image: Option<String>) -> String {
    image.unwrap_or_else(|| {
        tracing::warn!(
            image = PLACEHOLDER_IMAGE,
            "no --image: name the image that your nodes can pull"
        );
        PLACEHOLDER_IMAGE.to_owned()
    })
}

/// Checks a duration, as far as its syntax allows: the server reads the rest.
fn audit_interval(text: &str) -> Result<String, ArgumentError> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_number = number.parse::<u32>().is_ok_and(|number| number > 0);
    if is_number && ["s", "m", "h"].iter().any(|unit| text.strip_prefix(number) == Some(unit)) {
        return Ok(text.to_owned());
    }
    Err(ArgumentError(format!("{text:?} is not an interval: write a number with s, m or h")))
}

/// Checks the start of addresses, as far as its syntax allows.
fn docs_url(text: &str) -> Result<String, ArgumentError> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/:~%".contains(&b);
    let is_address = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    if is_address && text.len() <= 512 && text.bytes().all(is_plain) {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(ArgumentError(format!(
        "{text:?} is not an address: write one such as https://docs.example.com/opgate"
    )))
}

fn class(text: &str) -> Result<String, ArgumentError> {
    if text.is_empty() {
        return Ok(String::new());
    }
    object_name(text).map_err(|why| ArgumentError(why.to_string()))
}
