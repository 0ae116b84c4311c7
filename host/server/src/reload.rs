//! Checks the files of certificates at an interval.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use opgate_certs::{Change, Clients, Reloader};
use tokio::sync::watch;

use super::app::App;

/// Files that are replaced while the server runs.
pub(super) struct Files {
    pub(super) certificate: Arc<Reloader>,
    pub(super) clients: Option<Arc<Clients>>,
    pub(super) interval: Duration,
    pub(super) app: Arc<App>,
}

impl Files {
    /// Checks them when the interval is over or `told` is notified, while it is polled.
    pub(super) async fn watch(self: Arc<Self>, mut told: watch::Receiver<()>) {
        let mut can_tell = true;
        let mut certificate_trouble = None;
        let mut clients_trouble = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                changed = told.changed(), if can_tell => {
                    can_tell = changed.is_ok();
                    if !can_tell {
                        continue;
                    }
                }
            }
            self.look_at_certificate(&mut certificate_trouble);
            if let Some(clients) = &self.clients {
                self.look_at_clients(clients, &mut clients_trouble);
            }
        }
    }

    fn look_at_certificate(&self, trouble: &mut Option<String>) {
        let metrics = &self.app.metrics;
        match news(self.certificate.look(), trouble) {
            News::None => {}
            News::GoodAgain => {
                tracing::info!("the files of the certificate are good again");
            }
            News::Replaced => {
                let current = self.certificate.current();
                tracing::info!(names = current.names().join(","), "certificate replaced");
                metrics.certificate_ends(current.not_after());
                metrics.reloaded("replaced");
            }
            News::Trouble(error) => {
                tracing::error!(error, "the old certificate is kept");
                metrics.reloaded("failed");
            }
        }
    }

    fn look_at_clients(&self, clients: &Clients, trouble: &mut Option<String>) {
        let metrics = &self.app.metrics;
        match news(clients.look(), trouble) {
            News::None => {}
            News::GoodAgain => tracing::info!("the CA bundle for clients is good again"),
            News::Replaced => {
                tracing::info!("CA bundle for clients replaced");
                metrics.client_ca_reloaded("replaced");
            }
            News::Trouble(error) => {
                tracing::error!(error, "the old CA bundle for clients is kept");
                metrics.client_ca_reloaded("failed");
            }
        }
    }
}

/// A new result of a check.
enum News {
    None,
    /// The files match the active ones again.
    GoodAgain,
    Replaced,
    Trouble(String),
}

/// Reports each problem once.
fn news<E: Display>(found: Result<Change, E>, trouble: &mut Option<String>) -> News {
    match found {
        Ok(change) => {
            let was_bad = trouble.take().is_some();
            match change {
                Change::Replaced => News::Replaced,
                Change::Unchanged if was_bad => News::GoodAgain,
                Change::Unchanged => News::None,
            }
        }
        Err(error) => {
            let error = error.to_string();
            if trouble.replace(error.clone()).as_ref() == Some(&error) {
                return News::None;
            }
            News::Trouble(error)
        }
    }
}
