//! Figures of the registration.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::RegistrationStatus;

/// Without a label. A family without members is not shown.
type OptionalGauge = Family<Vec<(String, String)>, Gauge>;

/// Metrics of a replica for the registration. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct RegistrationMetrics {
    stale: OptionalGauge,
    applied: Gauge,
    writes: Counter,
    restored: Counter,
}

impl RegistrationMetrics {
    /// Adds the figures to those of the server.
    pub fn register(&self, registry: &mut Registry) {
        let text = "Whether the registration differs from the policy set of this replica; absent if it is unknown";
        registry.register("registration_stale", text, self.stale.clone());
        let text = "When this replica last applied the registration, Unix time; 0 if it never did";
        registry.register_with_unit(
            "registration_last_applied_timestamp",
            text,
            Unit::Seconds,
            self.applied.clone(),
        );
        let text = "Times that this replica applied the registration";
        registry.register("registration_applied", text, self.writes.clone());
        let text = "Times that this replica restored the registration after an external change";
        registry.register("registration_restored", text, self.restored.clone());
    }

    /// Sets the current state; none if it is unknown.
    pub fn set_status(&self, status: Option<&RegistrationStatus>) {
        match status {
            Some(status) => {
                let stale = i64::from(*status != RegistrationStatus::Current);
                self.stale.get_or_create(&Vec::new()).set(stale);
            }
            None => self.stale.clear(),
        }
    }

    /// Records an applied registration.
    pub fn record_applied(&self, at: SystemTime, external_change: bool) {
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.applied.set(i64::try_from(at).unwrap_or(i64::MAX));
        self.writes.inc();
        if external_change {
            self.restored.inc();
        }
    }
}
