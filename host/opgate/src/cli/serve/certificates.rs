//! Arguments for the serving certificate and its source.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use opgate_certs::{Reloader, Source, verify};
use opgate_controller::certificates::{State, Times};
use opgate_input::read::{self, Reader, Use};
use opgate_server::Starting;
use opgate_text::units::parse_duration;
use tokio::sync::watch;

use super::super::CommandError;
use super::super::certs::SourceArgs;
use super::controllers::Controllers;
use super::webhook_registration::Bundle;

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
    SelfManaged(Times),
}

impl CertificateArgs {
    pub(super) fn certificates(self, has_installation: bool) -> Result<Certificates, CommandError> {
        match self.certificates {
            CertificateSource::Files => {
                let source = self.files.source()?;
                let folder = match &source {
                    Source::Directory(folder) => Some(folder.clone()),
                    Source::Files { certificate, .. } => certificate.parent().map(Path::to_owned),
                };
                let reloader = Reloader::new(source).map_err(CommandError::usage)?;
                Ok(Certificates::Files(Arc::new(reloader), folder))
            }
            CertificateSource::SelfManaged if self.files.source().is_ok() => Err(wrong(
                "--certificates self-managed needs no files: leave out --tls-dir, --tls-cert and --tls-key",
            )),
            CertificateSource::SelfManaged if !has_installation => Err(wrong(
                "--certificates self-managed needs --installation NAMESPACE/SERVICE, and a cluster",
            )),
            CertificateSource::SelfManaged => {
                let notice = self.ca_propagation_delay;
                Ok(Certificates::SelfManaged(Times { notice, ..Times::default() }))
            }
        }
    }
}

fn wrong(text: &'static str) -> CommandError {
    CommandError::usage(anyhow::anyhow!(text))
}

impl Certificates {
    /// Returns the lifetimes of certificates, if they are self-managed.
    pub(super) fn times(&self) -> Option<Times> {
        match self {
            Self::Files(..) => None,
            Self::SelfManaged(times) => Some(*times),
        }
    }

    /// Returns the directory of the files, if any.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Files(_, folder) => folder.clone(),
            Self::SelfManaged(_) => None,
        }
    }

    /// Returns the certificate to begin with; waits for the first one. None if `stop` ends before.
    pub(super) async fn first(
        self,
        duties: Option<&mut Controllers>,
        starting: &Starting,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<Arc<Reloader>>, CommandError> {
        if let Self::Files(files, _) = self {
            return Ok(Some(files));
        }
        let none = || wrong("--certificates self-managed needs a cluster: it cannot be `none`");
        let duties = duties.ok_or_else(none)?;
        let mut states = duties.states().ok_or_else(none)?;
        loop {
            let state = states.borrow_and_update().clone();
            if let Some(served) = state.served {
                starting.waits_for(None);
                return Ok(Some(duties.serve(served.pair)));
            }
            let why = state.trouble.unwrap_or_else(|| "the Secret is being read".to_owned());
            starting.waits_for(Some(format!("no serving certificate: {why}")));
            tokio::select! {
                changed = states.changed() => changed.map_err(anyhow::Error::from)?,
                () = stop.as_mut() => return Ok(None),
            }
        }
    }
}

/// Maximum bytes of a bundle in a file.
const BUNDLE: usize = 1 << 20;

/// Returns the CA bundle that API servers need to trust this server: that of the Secret, or of `ca.crt` next
/// to the certificate. None while it does not match the serving certificate.
pub(super) fn bundle(
    folder: Option<PathBuf>,
    states: Option<watch::Receiver<State>>,
    served: Arc<Reloader>,
) -> Bundle {
    Box::new(move || {
        let kept = states.as_ref().map(|states| states.borrow().bundle.clone().into_bytes());
        let in_file = || {
            let opened = read::named(&folder.as_ref()?.join("ca.crt")).ok()?;
            Reader::new(BUNDLE).read(opened, true, Use::Keep).ok()
        };
        let pem = kept.or_else(in_file)?;
        verify(&served.current(), &pem, None, SystemTime::now()).ok()?;
        Some(pem)
    })
}
