//! Checks the files of certificates at an interval.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use opgate_certs::{Change, ClientVerifier, Reloader};
use tokio::sync::watch;

use super::app::App;

/// Files that are replaced while the server runs.
pub(super) struct CertificateFiles {
    pub(super) certificate: Arc<Reloader>,
    pub(super) client_verifier: Option<Arc<ClientVerifier>>,
    pub(super) interval: Duration,
    pub(super) app: Arc<App>,
}

impl CertificateFiles {
    /// Checks them when the interval is over or `told` is notified, while it is polled.
    pub(super) async fn watch(self: Arc<Self>, mut trigger: watch::Receiver<()>) {
        let mut is_trigger_open = true;
        let mut certificate_error = None;
        let mut clients_error = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                changed = trigger.changed(), if is_trigger_open => {
                    is_trigger_open = changed.is_ok();
                    if !is_trigger_open {
                        continue;
                    }
                }
            }
            self.reload_certificate(&mut certificate_error);
            if let Some(clients) = &self.client_verifier {
                self.reload_client_cas(clients, &mut clients_error);
            }
        }
    }

    fn reload_certificate(&self, last_error: &mut Option<String>) {
        let metrics = &self.app.metrics;
        match reload_outcome(self.certificate.reload(), last_error) {
            ReloadOutcome::Unchanged => {}
            ReloadOutcome::Recovered => {
                tracing::info!("the files of the certificate are good again");
            }
            ReloadOutcome::Replaced => {
                let current = self.certificate.current();
                tracing::info!(names = current.names().join(","), "certificate replaced");
                metrics.set_certificate_expiration(current.not_after());
                metrics.count_certificate_reload("replaced");
            }
            ReloadOutcome::Failed(error) => {
                tracing::error!(error, "the old certificate is kept");
                metrics.count_certificate_reload("failed");
            }
        }
    }

    fn reload_client_cas(&self, clients: &ClientVerifier, last_error: &mut Option<String>) {
        let metrics = &self.app.metrics;
        match reload_outcome(clients.reload(), last_error) {
            ReloadOutcome::Unchanged => {}
            ReloadOutcome::Recovered => tracing::info!("the CA bundle for clients is good again"),
            ReloadOutcome::Replaced => {
                tracing::info!("CA bundle for clients replaced");
                metrics.count_client_ca_reload("replaced");
            }
            ReloadOutcome::Failed(error) => {
                tracing::error!(error, "the old CA bundle for clients is kept");
                metrics.count_client_ca_reload("failed");
            }
        }
    }
}

/// A new result of a check.
enum ReloadOutcome {
    Unchanged,
    /// The files match the active ones again.
    Recovered,
    Replaced,
    Failed(String),
}

/// Reports each problem once.
fn reload_outcome<E: Display>(
    found: Result<Change, E>,
    last_error: &mut Option<String>,
) -> ReloadOutcome {
    match found {
        Ok(change) => {
            let had_failed = last_error.take().is_some();
            match change {
                Change::Replaced => ReloadOutcome::Replaced,
                Change::Unchanged if had_failed => ReloadOutcome::Recovered,
                Change::Unchanged => ReloadOutcome::Unchanged,
            }
        }
        Err(error) => {
            let error = error.to_string();
            if last_error.replace(error.clone()).as_ref() == Some(&error) {
                return ReloadOutcome::Unchanged;
            }
            ReloadOutcome::Failed(error)
        }
    }
}
