//! The checks: pure functions over facts, one file for each topic.

mod audit;
mod cache;
mod certificates;
mod cluster;
mod identities;
mod leases;
mod lockout;
mod network;
mod other_webhooks;
mod permissions;
mod pods;
mod reach;
mod registration;
mod replicas;
mod reservations;
mod servers;

use crate::facts::Facts;
use crate::finding::Findings;

pub use self::pods::{DRAIN_DELAY, GRACE_PERIOD};

/// Number of days before the expiration from which a certificate is reported.
#[derive(Debug, Clone, Copy)]
pub struct ExpiryDays {
    /// Of the servers.
    pub certificate: u32,
    /// Of the CA.
    pub ca: u32,
}

/// Returns all findings.
#[must_use]
pub fn run_all(facts: &Facts, days: ExpiryDays) -> Findings {
    let mut found = Findings::default();
    registration::check(facts, &mut found);
    certificates::check(facts, days, &mut found);
    lockout::check(facts, &mut found);
    if facts.installation.url.is_none() {
        reach::check(facts, &mut found);
        servers::check(facts, &mut found);
        pods::check(facts, &mut found);
        network::check(facts, &mut found);
        permissions::check(facts, &mut found);
        identities::check(facts, &mut found);
        audit::check(facts, &mut found);
        replicas::check(facts, &mut found);
        leases::check(facts, &mut found);
        cache::check(facts, &mut found);
    } else {
        let why = "the webhooks call a URL: the servers are not examined as pods";
        found.add_unchecked("servers, Service, permissions", why);
    }
    other_webhooks::check(facts, &mut found);
    cluster::check(facts, &mut found);
    found.into_sorted()
}
