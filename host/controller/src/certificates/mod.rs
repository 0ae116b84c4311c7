//! Certificates that look after themselves.
//!
//! ```text
//!                  ┌───────── Secret opgate-tls: bundle, key of the newest CA, leaf ◀── written by the leader
//!                  ▼                                                                        ▲
//! every replica: Stored ─▶ the leaf that it serves                                          │
//! the leader:    Stored, what it remembers, what our webhooks trust, time ─▶ step ─▶ one Step at a time
//!                                                                              └▶ trust: caBundle of our webhooks
//! ```
//!
//! * `stored`: the contents of the Secret, written by any client.
//! * `step`: the decision, without I/O.
//! * `keeper`: reads, decides, writes.
//!
//! A CA changes in this order: its certificate is added to the bundle; then to the `caBundle` of all our
//! webhooks; after a delay in which API servers notice it, a serving certificate of it is issued. The old CA
//! stays in the bundle until it has expired, so that a replica with an old certificate is trusted while that
//! certificate is valid.

mod controller;
mod plan;
mod stored;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use controller::{
    CertificateController, CertificateControllerError, CertificateMetrics, CertificateState,
    CertificateWithIssuer,
};

const DAY: Duration = Duration::from_secs(86_400);

/// Name of the Secret.
pub const SECRET_NAME: &str = "opgate-tls";

/// Interval at which each replica reads the Secret.
pub const SECRET_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Lifetimes of certificates. They are renewed after two thirds of their lifetime.
#[derive(Debug, Clone, Copy)]
pub struct CertificateLifetimes {
    /// A CA: short enough for its rotation to be nothing special.
    pub ca: Duration,
    /// A leaf.
    pub serving_certificate: Duration,
    /// Maximum time in which API servers use a changed `caBundle`. They watch the configurations, so that it
    /// usually takes a second at most.
    pub ca_propagation_delay: Duration,
}

impl Default for CertificateLifetimes {
    fn default() -> Self {
        Self {
            ca: DAY * 365,
            serving_certificate: DAY * 90,
            ca_propagation_delay: Duration::from_secs(30),
        }
    }
}
