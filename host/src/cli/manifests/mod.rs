//! `opgate manifests`: what a cluster has to know about opgate, from what the policies say about
//! themselves.
//!
//! `webhook` prints the configuration of validating webhooks that sends the policies what they want
//! to see with their settings, and nothing else.
//!
//! ```text
//! policies ─▶ wants  ─▶ plan  ─▶ webhook ─┐
//!                                         ├─▶ registration ─▶ yaml, or JSON
//! arguments ─▶ server, ca, names ─────────┘
//! ```

mod ca;
mod names;
mod plan;
mod registration;
mod server;
#[cfg(test)]
mod testing;
mod wants;
mod webhook;
mod yaml;

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::names::{namespace, object_name};
use self::registration::Registration;
use self::server::{ServerArgs, Target};
use self::wants::Facts;
use super::{ConfigArgs, Failure, Outcome};
use crate::cluster;

/// Must work whatever opgate does: without it nothing in the cluster recovers.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Arguments of `opgate manifests`.
#[derive(Debug, Args)]
pub(super) struct Manifests {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the webhook configuration that follows from the configured policies
    ///
    /// Apply it with `kubectl apply -f -`. Print it anew when the configuration changes: levels and
    /// settings decide which requests policies want to see, modes and `onError` what happens
    /// without opgate.
    Webhook(Webhook),
}

#[derive(Debug, Args)]
struct Webhook {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
    /// CA bundle that vouches for the serving certificate, PEM; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    ca: Vec<PathBuf>,
    /// Namespace of the server, which is exempt, where --service does not tell
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, conflicts_with = "service")]
    namespace: Option<String>,
    /// Name of the webhook configuration
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = "opgate")]
    name: String,
    /// Form of the output
    #[arg(long, value_name = "FORM", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For kubectl and people
    Yaml,
    /// For programs
    Json,
}

impl Manifests {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Command::Webhook(webhook) => webhook.run(),
        }
    }
}

impl Webhook {
    fn run(self) -> Result<Outcome, Failure> {
        let Self { config, server, ca, namespace, name, output } = self;
        let server = server.target()?;
        let own = match &server {
            Target::Service(service) => Some(service.namespace.clone()),
            Target::Url(_) => namespace,
        };
        let exempt = [SYSTEM_NAMESPACE.to_owned()].into_iter().chain(own).collect();
        let registration = Registration { name, server, exempt, ca: ca::bundle(&ca)? };
        let set = config.complete_set(cluster::Source::Absent)?;
        let policies: Vec<_> = set.policies().iter().map(|policy| Facts::of(policy)).collect();
        let printed = registration.of(&policies);
        let printed = printed.map_err(|why| Failure::engine(anyhow::anyhow!(why)))?;
        if printed.webhooks.as_ref().is_none_or(Vec::is_empty) {
            tracing::warn!("no policy wants to see any request: API servers will ask nothing");
        }
        let printed = serde_json::to_value(&printed).map_err(Failure::engine)?;
        let mut out = anstream::stdout();
        match output {
            Format::Yaml => write!(out, "{}", yaml::text(&printed).map_err(Failure::engine)?)?,
            Format::Json => writeln!(out, "{printed:#}")?,
        }
        Ok(Outcome::Ok)
    }
}
