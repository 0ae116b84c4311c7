//! Arguments about the installation that this server belongs to.

use clap::Args;

use crate::cli::args::parse_installation;
use opgate_controller::Installation;

/// Flags that identify the installation of this server and its Pod.
#[derive(Debug, Clone, Args)]
pub(super) struct InstallationArgs {
    /// Namespace and Service of this installation: needed to write to the cluster, such as Events
    #[arg(long, value_name = "NAMESPACE/SERVICE", env = "OPGATE_INSTALLATION", value_parser = parse_installation)]
    installation: Option<(String, String)>,
    /// Name of this server: that of its pod [default: the host name]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pod_name: Option<String>,
}

impl InstallationArgs {
    /// Returns the installation of this server, if it is configured.
    pub(super) fn installation(&self) -> Option<Installation> {
        let (namespace, service) = self.installation.clone()?;
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let replica = self.pod_name.clone().unwrap_or_else(|| host().trim().to_owned());
        Some(Installation { namespace, service, replica })
    }
}
