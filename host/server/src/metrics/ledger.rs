//! The metrics of the ledger, in which the servers of an installation share their reservations.

use std::sync::atomic::{AtomicU64, Ordering};

use opgate_admission::cluster::LedgerStatus;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The ledger, in which servers share their reservations.
#[derive(Debug, Default)]
pub(super) struct LedgerMetrics {
    ready: Gauge,
    entries: Gauge,
    bytes: Gauge,
    waiting: Gauge,
    appends: Counter,
    outdated: Counter,
    writes: Counter,
    conflicts: Counter,
    wait: Counter<f64, AtomicU64>,
}

impl LedgerMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let text = "Whether the ledger of shared reservations can be used; 0 also without one";
        registry.register("ledger_ready", text, self.ready.clone());
        registry.register("ledger_entries", "Reservations of all servers", self.entries.clone());
        let text = "Bytes of the reservations of all servers";
        registry.register_with_unit("ledger_size", text, Unit::Bytes, self.bytes.clone());
        let text = "Requests that wait for the ledger";
        registry.register("ledger_waiting_requests", text, self.waiting.clone());
        let text = "Requests whose change was added to the ledger";
        registry.register("ledger_appends", text, self.appends.clone());
        let text = "Requests that were evaluated again because another server reserved a change";
        registry.register("ledger_outdated_evaluations", text, self.outdated.clone());
        registry.register("ledger_writes", "Writes of the ledger", self.writes.clone());
        let text = "Writes of the ledger that came after one of another server";
        registry.register("ledger_conflicts", text, self.conflicts.clone());
        let text = "Time for which requests waited for the ledger";
        registry.register_with_unit("ledger_wait", text, Unit::Seconds, self.wait.clone());
    }

    pub(super) fn update(&self, status: Option<LedgerStatus>) {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let Some(status) = status else { return };
        self.ready.set(i64::from(status.problem.is_none()));
        self.entries.set(number(status.entries));
        self.bytes.set(number(status.bytes));
        self.waiting.set(number(status.waiting));
        self.appends.inner().store(status.appends, Ordering::Relaxed);
        self.outdated.inner().store(status.outdated, Ordering::Relaxed);
        self.writes.inner().store(status.writes, Ordering::Relaxed);
        self.conflicts.inner().store(status.conflicts, Ordering::Relaxed);
        self.wait.inner().store(status.wait.as_secs_f64().to_bits(), Ordering::Relaxed);
    }
}
