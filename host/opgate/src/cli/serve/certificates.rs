//! Arguments for the serving certificate and its source.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use opgate_certs::{Reloader, Source, verify};
use opgate_controller::certificates::{CertificateLifetimes, CertificateState};
use opgate_input::read::{self, ReadPurpose, Reader};
use opgate_server::StartupServer;
use opgate_text::units::parse_duration;
use tokio::sync::watch;

use super::controllers::Controllers;
use super::webhook_registration::CaBundleSource;
use crate::cli::certs::SourceArgs;
use crate::cli::exit::CommandError;

/// The serving certificate.
#[derive(Debug, Args)]
pub(super) struct CertificateArgs {
    #[command(flatten)]
    files: SourceArgs,
    /// Source of the serving certificate
    #[arg(long, value_name = "SOURCE", default_value = "files")]
    certificates: CertificateSource,
    /// With `self-managed`: how long API servers may take to notice a changed CA bundle
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    ca_propagation_delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CertificateSource {
    /// The files of `--tls-dir`, or of `--tls-cert` and `--tls-key`
    Files,
    /// Secret `opgate-tls` of the installation, which the servers keep; needs `--installation`
    SelfManaged,
}

/// Source of the certificate.
#[derive(Debug)]
pub(super) enum Certificates {
    /// Certificate files, and their directory.
    Files(Arc<Reloader>, Option<PathBuf>),
    /// The cluster, where it may not be yet.
    SelfManaged(CertificateLifetimes),
}

impl CertificateArgs {
    pub(super) fn certificates(self, has_installation: bool) -> Result<Certificates, CommandError> {
        match self.certificates {
            CertificateSource::Files => {
                let source = self.files.source()?;
                let directory = match &source {
                    Source::Directory(directory) => Some(directory.clone()),
                    Source::Files { certificate, .. } => certificate.parent().map(Path::to_owned),
                };
                let reloader = Reloader::new(source).map_err(CommandError::usage)?;
                Ok(Certificates::Files(Arc::new(reloader), directory))
            }
            CertificateSource::SelfManaged if self.files.source().is_ok() => Err(usage_error(
                "--certificates self-managed needs no files: leave out --tls-dir, --tls-cert and --tls-key",
            )),
            CertificateSource::SelfManaged if !has_installation => Err(usage_error(
                "--certificates self-managed needs --installation NAMESPACE/SERVICE, and a cluster",
            )),
            CertificateSource::SelfManaged => {
                let notice = self.ca_propagation_delay;
                Ok(Certificates::SelfManaged(CertificateLifetimes {
                    ca_propagation_delay: notice,
                    ..CertificateLifetimes::default()
                }))
            }
        }
    }
}

fn usage_error(text: &'static str) -> CommandError {
    CommandError::usage(anyhow::anyhow!(text))
}

impl Certificates {
    /// Returns the lifetimes of certificates, if they are self-managed.
    pub(super) fn lifetimes(&self) -> Option<CertificateLifetimes> {
        match self {
            Self::Files(..) => None,
            Self::SelfManaged(times) => Some(*times),
        }
    }

    /// Returns the directory of the files, if any.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        match self {
            Self::Files(_, directory) => directory.clone(),
            Self::SelfManaged(_) => None,
        }
    }

    /// Returns the certificate to begin with; waits for the first one. None if `stop` ends before.
    pub(super) async fn wait_first(
        self,
        duties: Option<&mut Controllers>,
        starting: &StartupServer,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<Arc<Reloader>>, CommandError> {
        if let Self::Files(files, _) = self {
            return Ok(Some(files));
        }
        let none =
            || usage_error("--certificates self-managed needs a cluster: it cannot be `none`");
        let duties = duties.ok_or_else(none)?;
        let mut states = duties.states().ok_or_else(none)?;
        loop {
            let state = states.borrow_and_update().clone();
            if let Some(served) = state.served {
                starting.set_wait_reason(None);
                return Ok(Some(duties.serve_certificates(served.certificate)));
            }
            let why = state.error.unwrap_or_else(|| "the Secret is being read".to_owned());
            starting.set_wait_reason(Some(format!("no serving certificate: {why}")));
            tokio::select! {
                changed = states.changed() => changed.map_err(anyhow::Error::from)?,
                () = stop.as_mut() => return Ok(None),
            }
        }
    }
}

/// Maximum bytes of a bundle in a file.
const MAX_BUNDLE_BYTES: usize = 1 << 20;

/// Returns the CA bundle that API servers need to trust this server: that of the Secret, or of `ca.crt` next
/// to the certificate. None while it does not match the serving certificate.
pub(super) fn bundle(
    directory: Option<PathBuf>,
    states: Option<watch::Receiver<CertificateState>>,
    served: Arc<Reloader>,
) -> CaBundleSource {
    Box::new(move || {
        let kept = states.as_ref().map(|states| states.borrow().bundle.clone().into_bytes());
        let in_file = || {
            let opened = read::open_named(&directory.as_ref()?.join("ca.crt")).ok()?;
            Reader::new(MAX_BUNDLE_BYTES).read(opened, true, ReadPurpose::Keep).ok()
        };
        let pem = kept.or_else(in_file)?;
        verify(&served.current(), &pem, None, SystemTime::now()).ok()?;
        Some(pem)
    })
}
