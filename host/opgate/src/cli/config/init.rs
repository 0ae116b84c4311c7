//! `opgate config init`: a configuration to begin with. From a cluster, it fixes what a server would find there.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use clap::Args;

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::kubeconfig::kubeconfig_paths;
use crate::cli::output::stdout;
use opgate_admission::cluster::Connection;
use opgate_admission::policy::{Platform, PlatformQuery};

pub(super) const AFTER_HELP: &str = "\
Examples:
  opgate config init > opgate.yaml                   Servers read the profile from their cluster
  opgate config init --from-cluster > opgate.yaml    With the profile and the identities of a cluster

It reads the ClusterVersion and a few roles and their bindings by name. docs/configuration.md describes
the file.";

/// Time limit of all reads.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `opgate config init`.
#[derive(Debug, Args)]
pub(super) struct Init {
    /// Read the profile and the identities from a cluster, and fix them
    #[arg(long)]
    from_cluster: bool,
    /// Kubeconfig of the cluster; several are merged as by `kubectl` [default: KUBECONFIG, the service
    /// account in a pod, ~/.kube/config]
    #[arg(long, value_name = "FILE[:FILE]", requires = "from_cluster")]
    kubeconfig: Option<OsString>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "from_cluster")]
    kube_context: Option<String>,
}

impl Init {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let platform = if self.from_cluster { Some(self.platform()?) } else { None };
        let mut out = stdout(None);
        out.write_all(render(platform.as_ref()).as_bytes())?;
        out.flush()?;
        Ok(ExitStatus::Ok)
    }

    fn platform(&self) -> Result<Platform, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let named = self.kubeconfig.clone().unwrap_or_default();
            let is_named = !named.is_empty() || std::env::var_os("KUBECONFIG").is_some();
            let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
            let connection = if !is_named && self.kube_context.is_none() && is_in_pod {
                Connection::in_cluster()
            } else {
                let paths = kubeconfig_paths(&named)?;
                Connection::kubeconfig(&paths, self.kube_context.as_deref()).await
            };
            let connection = connection.map_err(CommandError::usage)?;
            let finding = Platform::read(&connection, PlatformQuery::ALL);
            let failed = |why: String| CommandError::usage(anyhow::anyhow!("the cluster: {why}"));
            match tokio::time::timeout(READ_TIMEOUT, finding).await {
                Ok(found) => found.map_err(|refused| failed(refused.reason)),
                Err(_) => Err(failed(format!("no answer within {} s", READ_TIMEOUT.as_secs()))),
            }
        })
    }
}

/// Returns the text of the file. Its user names are those that opgate defines, which need no escapes.
fn render(platform: Option<&Platform>) -> String {
    let mut text = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n".to_owned();
    let Some(Platform { profile, version, olm, rukpak }) = platform else {
        return format!(
            "{text}# Servers read it from their cluster, and as whom OLM and RukPak run.\nprofile: auto\n"
        );
    };
    let found = match version {
        Some(version) if version.chars().all(|c| c.is_ascii_graphic()) => {
            format!("OpenShift {version}")
        }
        Some(_) => "OpenShift".to_owned(),
        None => "Kubernetes without OpenShift".to_owned(),
    };
    // Writing to a text does not fail.
    let _ = writeln!(
        text,
        "# As found in the cluster: {found}. With `profile: auto` and without identities, servers follow it.\nprofile: {}\nidentities:",
        profile.as_str()
    );
    for (key, users) in [("olm", olm), ("rukpak", rukpak)] {
        let users: Vec<_> = users.iter().map(|user| format!("\"{user}\"")).collect();
        let _ = writeln!(text, "  {key}: [{}]", users.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use opgate_admission::policy::{Configuration, Profile};
    use opgate_builtin_policies::BUILTINS;

    #[test]
    fn printed_configuration_is_valid_and_pins_the_platform() {
        let user = "system:serviceaccount:olm:olm-operator-serviceaccount";
        let found = Platform {
            profile: Profile::Ocp412,
            version: Some("4.14.1\n: x".to_owned()),
            olm: vec![user.to_owned()],
            rukpak: Vec::new(),
        };
        let read = |platform| {
            Configuration::parse(Path::new("opgate.yaml"), &render(platform), BUILTINS).unwrap()
        };
        let fixed = read(Some(&found));
        assert_eq!((fixed.profile, fixed.platform_query()), (Profile::Ocp412, None));
        assert_eq!(fixed.identities.olm, Some(found.olm.clone()));
        assert_eq!(fixed.identities.rukpak, Some(Vec::new()));
        assert_eq!(read(None).platform_query(), Some(PlatformQuery::ALL));
    }
}
