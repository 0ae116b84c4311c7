//! Metrics of the export itself.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

type ResultLabel = [(&'static str, &'static str); 1];
type ExportLabels = [(&'static str, &'static str); 2];

/// Counts spans and exports.
#[derive(Debug, Clone)]
pub struct Counts {
    spans: Family<ResultLabel, Counter>,
    exports: Family<ExportLabels, Counter>,
    pub(crate) limited: Counter,
}

impl Default for Counts {
    fn default() -> Self {
        let counts = Self {
            spans: Family::default(),
            exports: Family::default(),
            limited: Counter::default(),
        };
        for result in ["exported", "dropped", "failed"] {
            drop(counts.spans.get_or_create(&[("result", result)]));
        }
        for (signal, result) in
            [("traces", "ok"), ("traces", "failed"), ("metrics", "ok"), ("metrics", "failed")]
        {
            drop(counts.exports.get_or_create(&[("signal", signal), ("result", result)]));
        }
        counts
    }
}

impl Counts {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let text = "Spans of traced requests, by result: exported; dropped, because too many waited; failed, because the collector did not accept them";
        registry.register("spans", text, self.spans.clone());
        let text = "Exports to the OTLP endpoint, by signal and result";
        registry.register("otlp_exports", text, self.exports.clone());
        let text = "Sampled requests that were not traced because of the limits of traced requests";
        registry.register("traces_limited", text, self.limited.clone());
    }

    /// Counts spans: `exported`, `dropped` or `failed`.
    pub(crate) fn add_spans(&self, result: &'static str, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.spans.get_or_create(&[("result", result)]).inc_by(count);
    }

    pub(crate) fn count_export(&self, signal: &'static str, is_ok: bool) {
        let result = if is_ok { "ok" } else { "failed" };
        self.exports.get_or_create(&[("signal", signal), ("result", result)]).inc();
    }
}
