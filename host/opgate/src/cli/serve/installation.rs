//! Arguments about the installation that this server belongs to.

use std::sync::Arc;

use clap::Args;

use super::super::Failure;
use super::cluster::ClusterArgs;
use opgate_controller::Installation;
use opgate_controller::api::ApiServer;
use opgate_controller::events::Events;

/// Which installation this server belongs to, and which of its servers it is.
#[derive(Debug, Clone, Args)]
pub(super) struct InstallationArgs {
    /// Namespace and Service of this installation: needed to write to the cluster, such as Events
    #[arg(long, value_name = "NAMESPACE/SERVICE", env = "OPGATE_INSTALLATION", value_parser = parse)]
    installation: Option<(String, String)>,
    /// Name of this server: that of its pod [default: the host name]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    replica: Option<String>,
}

fn parse(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !name.is_empty() && name.len() <= 63 && name.chars().all(is_part)
    };
    match text.split_once('/') {
        Some((namespace, service)) if is_name(namespace) && is_name(service) => {
            Ok((namespace.to_owned(), service.to_owned()))
        }
        _ => Err("write NAMESPACE/SERVICE, such as opgate-system/opgate".to_owned()),
    }
}

impl InstallationArgs {
    /// Who this server is, if that is said.
    pub(super) fn installation(&self) -> Option<Installation> {
        let (namespace, service) = self.installation.clone()?;
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let replica = self.replica.clone().unwrap_or_else(|| host().trim().to_owned());
        Some(Installation { namespace, service, replica })
    }

    /// Where to write events; none without an installation, or without a cluster.
    pub(super) async fn events(
        &self,
        cluster: &ClusterArgs,
    ) -> Result<Option<Arc<Events>>, Failure> {
        let (Some(installation), Some(source)) = (self.installation(), cluster.source()?) else {
            return Ok(None);
        };
        let Some(connection) = cluster.connection(source).await? else { return Ok(None) };
        let uid = std::env::var("POD_UID").ok().filter(|uid| !uid.is_empty());
        let api = Arc::new(ApiServer::of(&connection));
        Ok(Some(Arc::new(Events::new(api, installation, uid))))
    }
}
