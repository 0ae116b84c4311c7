//! Arguments about the installation that this server belongs to.

use clap::Args;

use opgate_controller::Installation;

/// Flags that identify the installation of this server and its Pod.
#[derive(Debug, Clone, Args)]
pub(super) struct InstallationArgs {
    /// Namespace and Service of this installation: needed to write to the cluster, such as Events
    #[arg(long, value_name = "NAMESPACE/SERVICE", env = "OPGATE_INSTALLATION", value_parser = parse)]
    installation: Option<(String, String)>,
    /// Name of this server: that of its pod [default: the host name]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pod_name: Option<String>,
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
    /// Returns the installation of this server, if it is configured.
    pub(super) fn installation(&self) -> Option<Installation> {
        let (namespace, service) = self.installation.clone()?;
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let replica = self.pod_name.clone().unwrap_or_else(|| host().trim().to_owned());
        Some(Installation { namespace, service, replica })
    }
}
