//! `opgate manifests`: objects that a cluster needs for opgate, derived from the descriptors of the policies.
//!
//! `all` prints every object of an installation. `webhook` prints the webhook configuration that sends
//! policies exactly the requests that they match with their settings. `rbac` prints the permissions for reads
//! of the server, `network-policy` the restriction of its clients.
//!
//! `audit` prints the CronJob of `opgate audit`.
//!
//! `package` writes the objects of `all` as files. The crate `opgate-manifests` makes the objects.

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::args::ConfigArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use opgate_manifests::installation::InstallationArgs;
use opgate_manifests::installation::audit::AuditArgs;
use opgate_manifests::network::Network;
use opgate_manifests::read_roles::Permissions;
use opgate_manifests::registration::WebhookRegistration;
use opgate_manifests::registration::matches::PolicyFacts;
use opgate_manifests::registration::names::{namespace, object_name};
use opgate_manifests::registration::server::{ServerArgs, Target};
use opgate_manifests::{SYSTEM_NAMESPACE, ca, package, yaml};

/// Arguments of `opgate manifests`.
#[derive(Debug, Args)]
pub(super) struct Manifests {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every object of an installation
    ///
    /// Apply it with `kubectl apply -f -`. Nothing of it refuses a request: the servers register
    /// themselves once they are ready. Print and apply it again whenever you want something else.
    All(Box<All>),
    /// Print the webhook configuration for the configured policies
    ///
    /// Apply it with `kubectl apply -f -` once the servers are ready. Print and apply it again whenever
    /// the configuration changes: levels and settings decide which requests API servers send, modes and
    /// `onError` decide what happens without opgate.
    Webhook(Webhook),
    /// Write an installation as files: for kustomize, Helm and OLM
    ///
    /// The objects are those that `opgate manifests all` prints.
    Package(Box<Package>),
    /// Print the roles that permit the server to read what the configured policies need
    ///
    /// Apply it with `kubectl apply -f -` before the servers start. Print and apply it again whenever the
    /// configuration changes: levels, settings and `allowedSamples` decide what is read.
    Rbac(Rbac),
    /// Print a CronJob that runs `opgate audit`, with its ServiceAccount and roles
    ///
    /// Apply it with `kubectl apply -f -` after `opgate manifests all`, whose ConfigMap has the
    /// configuration. Print and apply it again whenever the configuration changes: levels and settings
    /// decide what is read.
    Audit(Audit),
    /// Print a network policy that admits only API servers to the webhook port
    ///
    /// Apply it with `kubectl apply -f -`. It works only if the network of the cluster enforces network
    /// policies. Kubelets probe from the pod's own node and need no rule.
    NetworkPolicy(NetworkPolicy),
}

#[derive(Debug, Args)]
struct All {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    installation: InstallationArgs,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Args)]
struct Package {
    /// Directory for the files
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    installation: InstallationArgs,
    /// Image of the bundle, for the catalog of OLM
    #[arg(long, value_name = "IMAGE", default_value = "registry.example.com/opgate-bundle")]
    bundle_image: String,
}

#[derive(Debug, Args)]
struct Rbac {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    permissions: Permissions,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Args)]
struct Audit {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    audit: AuditArgs,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Args)]
struct NetworkPolicy {
    #[command(flatten)]
    network: Network,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Args)]
struct Webhook {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
    /// CA that issued the serving certificate, PEM; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    ca: Vec<PathBuf>,
    /// With --url: namespace of the server, which the webhooks exempt
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, conflicts_with = "service")]
    namespace: Option<String>,
    /// Print no matchConditions, for API servers before Kubernetes 1.28
    ///
    /// Omits requests that only conditions limit, unless the configuration sets one of their
    /// rules to deny.
    #[arg(long)]
    no_match_conditions: bool,
    /// Name of the webhook configuration
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = "opgate")]
    name: String,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For kubectl and users
    Yaml,
    /// For programs
    Json,
}

impl Format {
    fn print(self, object: &impl Serialize) -> Result<ExitStatus, CommandError> {
        let printed = serde_json::to_value(object).map_err(CommandError::engine)?;
        let mut out = anstream::stdout();
        match self {
            Self::Yaml => write!(out, "{}", yaml::text(&printed).map_err(CommandError::engine)?)?,
            Self::Json => writeln!(out, "{printed:#}")?,
        }
        Ok(ExitStatus::Ok)
    }

    /// Returns several objects: a document each, or a list.
    fn print_all(self, objects: &[Value]) -> Result<ExitStatus, CommandError> {
        match self {
            Self::Yaml => {
                write!(
                    anstream::stdout(),
                    "{}",
                    yaml::documents(objects).map_err(CommandError::engine)?
                )?;
                Ok(ExitStatus::Ok)
            }
            Self::Json => {
                self.print(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
            }
        }
    }
}

impl Manifests {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        match self.command {
            Command::All(all) => {
                let All { config, installation, output } = *all;
                let installation =
                    installation.installation(config.config.as_deref(), config.configuration()?)?;
                let set = config.load_server_set()?;
                let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
                for namespace in installation.foreign_namespaces(&policies) {
                    tracing::warn!(
                        namespace,
                        "roles in another namespace come last; if the cluster does not have it, add --skip-roles-in {namespace}"
                    );
                }
                output.print_all(&installation.objects(&policies))
            }
            Command::Package(package) => {
                let Package { directory, config, installation, bundle_image } = *package;
                let installation =
                    installation.installation(config.config.as_deref(), config.configuration()?)?;
                let set = config.load_server_set()?;
                let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
                for path in package::write(&directory, &policies, &installation, &bundle_image)? {
                    writeln!(anstream::stdout(), "{}", path.display())?;
                }
                Ok(ExitStatus::Ok)
            }
            Command::Webhook(webhook) => webhook.run(),
            Command::Rbac(Rbac { config, permissions, output }) => {
                let set = config.load_server_set()?;
                let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
                output.print(&permissions.of(&policies, set.platform_query()))
            }
            Command::Audit(Audit { config, audit, output }) => {
                AuditArgs::warn_of_missing_modules(&config.read()?);
                let set = config.load_server_set()?;
                let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
                output.print_all(&audit.objects(&policies, set.platform_query()))
            }
            Command::NetworkPolicy(NetworkPolicy { network, output }) => {
                output.print(&network.policy().map_err(CommandError::usage)?)
            }
        }
    }
}

impl Webhook {
    fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { config, server, ca, namespace, no_match_conditions, name, output } = self;
        let server = server.target()?;
        let own = match &server {
            Target::Service(service) => Some(service.namespace.clone()),
            Target::Url(_) => namespace,
        };
        let exempt = [SYSTEM_NAMESPACE.to_owned()].into_iter().chain(own).collect();
        let conditions = !no_match_conditions;
        let registration = WebhookRegistration {
            name,
            target: server,
            exempt,
            supports_conditions: conditions,
            ca: ca::bundle(&ca)?,
        };
        let set = config.load_server_set()?;
        let policies: Vec<_> =
            set.policies().iter().map(|policy| PolicyFacts::of(policy)).collect();
        let printed = registration.of(&policies);
        if printed.webhooks.as_ref().is_none_or(Vec::is_empty) {
            tracing::warn!("no policy needs any request: API servers will send none");
        }
        output.print(&printed)
    }
}
