//! Metrics of the audit by the leader.
//!
//! ```text
//! results of objects ─▶ ViolationCounts, bounded ─▶ AuditResults ─▶ AuditMetrics ─▶ /metrics
//! ```
//!
//! The gauges are those of the last complete audit by this server, while it is the leader: otherwise, a sum over
//! servers would count violations twice.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::audit_reports::SyncSummary;

/// Maximum number of series of violations.
const MAX_SERIES: usize = 1_000;

/// Of these, series with the namespace of objects. The others are sums.
const MAX_NAMESPACED_SERIES: usize = 750;

/// Maximum bytes of a namespace.
const MAX_NAMESPACE_BYTES: usize = 63;

/// Label of the namespaces, and of the policies and rules, that have no series of their own. No Namespace has this
/// name.
const OTHER: &str = "_other";

/// Labels of a series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct ViolationLabels {
    policy: String,
    rule: String,
    /// Empty for objects of the cluster.
    namespace: String,
    effect: String,
}

/// Violations by policy, rule, namespace and effect.
#[derive(Debug, Default)]
pub struct ViolationCounts(BTreeMap<ViolationLabels, u64>);

impl ViolationCounts {
    /// Counts one more. `namespace` is empty for an object of the cluster.
    pub fn add(&mut self, policy: &str, rule: &str, namespace: &str, effect: &str) {
        let labels = |policy: &str, rule: &str, namespace: &str| ViolationLabels {
            policy: policy.to_owned(),
            rule: rule.to_owned(),
            namespace: namespace.to_owned(),
            effect: effect.to_owned(),
        };
        let limits = [
            (labels(policy, rule, namespace), MAX_NAMESPACED_SERIES),
            // The last sums, one for each effect, must fit.
            (labels(policy, rule, OTHER), MAX_SERIES - 3),
        ];
        let is_valid = namespace.len() <= MAX_NAMESPACE_BYTES;
        for (labels, limit) in limits.into_iter().skip(usize::from(!is_valid)) {
            let series = self.0.len();
            if let Some(count) = self.0.get_mut(&labels) {
                *count += 1;
                return;
            }
            if series < limit {
                self.0.insert(labels, 1);
                return;
            }
        }
        *self.0.entry(labels(OTHER, OTHER, OTHER)).or_default() += 1;
    }

    /// Returns the counts with their policies, rules, namespaces and effects.
    pub fn iter(&self) -> impl Iterator<Item = ([&str; 4], u64)> {
        self.0.iter().map(|(labels, count)| {
            let ViolationLabels { policy, rule, namespace, effect } = labels;
            ([policy.as_str(), rule, namespace, effect], *count)
        })
    }

    /// Returns the number of violations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Results of a complete audit.
#[derive(Debug)]
pub struct AuditResults {
    /// The violations.
    pub violations: ViolationCounts,
    /// Number of objects with results.
    pub objects: u64,
    /// Of these, objects with the results of the audit before: nothing that these depend on has changed.
    pub unchanged: u64,
    /// Number of policy errors, of lists that failed and of groups that could not be discovered.
    pub errors: u64,
    /// When it ended.
    pub ended: SystemTime,
    /// The time that it took.
    pub duration: Duration,
}

/// The end of an audit, or of a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Metrics of the audit. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct AuditMetrics {
    last: Arc<Mutex<Option<AuditResults>>>,
    runs: Family<ResultLabel, Counter>,
    writes: Family<ResultLabel, Counter>,
}

impl AuditMetrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        for result in ["complete", "failed"] {
            drop(self.runs.get_or_create(&ResultLabel { result }));
        }
        for result in ["written", "deleted", "failed"] {
            drop(self.writes.get_or_create(&ResultLabel { result }));
        }
        registry.register("audit_runs", "Audits by this server, by result", self.runs.clone());
        let text = "Writes of reports by this server, by result";
        registry.register("audit_report_writes", text, self.writes.clone());
        registry.register_collector(Box::new(LastResults(self.last.clone())));
    }

    /// Sets the results of a complete audit.
    pub fn complete(&self, results: AuditResults) {
        self.runs.get_or_create(&ResultLabel { result: "complete" }).inc();
        *self.last.lock() = Some(results);
    }

    /// Counts an audit that failed. The results of the last complete one stay.
    pub fn count_failure(&self) {
        self.runs.get_or_create(&ResultLabel { result: "failed" }).inc();
    }

    /// Counts writes of reports.
    pub fn count_writes(&self, summary: &SyncSummary) {
        let SyncSummary { written, deleted, failed, .. } = summary;
        for (result, count) in [("written", written), ("deleted", deleted), ("failed", failed)] {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            self.writes.get_or_create(&ResultLabel { result }).inc_by(count);
        }
    }

    /// Reads the results of the last complete audit, if there are any.
    pub fn with_last_results<T>(&self, read: impl FnOnce(&AuditResults) -> T) -> Option<T> {
        self.last.lock().as_ref().map(read)
    }

    /// Removes the results: another server is the leader.
    pub fn clear(&self) {
        *self.last.lock() = None;
    }
}

/// The gauges, absent before the first results.
#[derive(Debug)]
struct LastResults(Arc<Mutex<Option<AuditResults>>>);

impl Collector for LastResults {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let last = self.0.lock();
        let Some(AuditResults { violations, objects, unchanged, errors, ended, duration }) = &*last
        else {
            return Ok(());
        };
        let (name, text) = ("audit_violations", "Violations by stored objects, in the last audit");
        let mut family = encoder.encode_descriptor(name, text, None, MetricType::Gauge)?;
        for (labels, count) in &violations.0 {
            ConstGauge::new(number(*count)).encode(family.encode_family(labels)?)?;
        }
        for (name, text, count) in [
            ("audit_objects", "Objects with results in the last audit", *objects),
            (
                "audit_unchanged_objects",
                "Objects whose results the last audit kept, because nothing has changed",
                *unchanged,
            ),
            ("audit_errors", "What the last audit could not evaluate", *errors),
        ] {
            let metric = encoder.encode_descriptor(name, text, None, MetricType::Gauge)?;
            ConstGauge::new(number(count)).encode(metric)?;
        }
        let seconds = Some(&Unit::Seconds);
        let text = "When the last audit ended, Unix time";
        let name = "audit_last_run_timestamp";
        let metric = encoder.encode_descriptor(name, text, seconds, MetricType::Gauge)?;
        let since = ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        ConstGauge::new(since.as_secs_f64()).encode(metric)?;
        let (name, text) = ("audit_last_run_duration", "Duration of the last audit");
        let metric = encoder.encode_descriptor(name, text, seconds, MetricType::Gauge)?;
        ConstGauge::new(duration.as_secs_f64()).encode(metric)
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &AuditMetrics) -> String {
        let mut registry = Registry::with_prefix("opgate");
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    fn results(violations: ViolationCounts) -> AuditResults {
        let (ended, duration) = (UNIX_EPOCH + Duration::from_secs(5), Duration::from_millis(1_500));
        AuditResults { violations, objects: 7, unchanged: 3, errors: 2, ended, duration }
    }

    /// Series of violations: labels and value.
    fn series(text: &str) -> Vec<(&str, u64)> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("opgate_audit_violations{"));
        lines
            .map(|line| line.rsplit_once(' ').unwrap())
            .map(|(l, n)| (l, n.parse().unwrap()))
            .collect()
    }

    #[test]
    fn series_of_violations_are_bounded_and_none_is_lost() {
        for (rules, namespaces) in [(10, 300), (300, 10), (2_000, 2)] {
            let mut violations = ViolationCounts::default();
            for rule in 0..rules {
                for namespace in 0..namespaces {
                    for effect in ["deny", "warn", "audit"] {
                        violations.add("p", &format!("R-{rule}"), &format!("n{namespace}"), effect);
                    }
                }
            }
            let metrics = AuditMetrics::default();
            metrics.complete(results(violations));
            let text = text(&metrics);
            let series = series(&text);
            assert!((MAX_NAMESPACED_SERIES..=MAX_SERIES).contains(&series.len()), "{rules}");
            let total: u64 = series.iter().map(|(_, count)| count).sum();
            assert_eq!(total, rules * namespaces * 3, "{rules} rules");
            let others =
                series.iter().filter(|(labels, _)| labels.contains("namespace=\"_other\""));
            assert!(others.count() > 0, "{rules} rules");
        }
    }

    #[test]
    fn namespace_that_cannot_exist_is_no_label() {
        let mut violations = ViolationCounts::default();
        violations.add("p", "R-1", &"n".repeat(64), "deny");
        violations.add("p", "R-1", "", "deny");
        assert_eq!(violations.total(), 2);
        let metrics = AuditMetrics::default();
        metrics.complete(results(violations));
        let expected = [
            ("policy=\"p\",rule=\"R-1\",namespace=\"\",effect=\"deny\"}", 1),
            ("policy=\"p\",rule=\"R-1\",namespace=\"_other\",effect=\"deny\"}", 1),
        ];
        assert_eq!(series(&text(&metrics)), expected);
    }

    #[test]
    fn gauges_are_those_of_the_last_complete_audit_of_a_leader() {
        let metrics = AuditMetrics::default();
        assert!(!text(&metrics).contains("opgate_audit_objects"));
        metrics.complete(results(ViolationCounts::default()));
        metrics.count_failure();
        let complete = text(&metrics);
        for line in [
            "opgate_audit_objects 7",
            "opgate_audit_unchanged_objects 3",
            "opgate_audit_errors 2",
            "opgate_audit_last_run_timestamp_seconds 5.0",
            "opgate_audit_last_run_duration_seconds 1.5",
            "opgate_audit_runs_total{result=\"complete\"} 1",
            "opgate_audit_runs_total{result=\"failed\"} 1",
        ] {
            assert!(complete.lines().any(|one| one == line), "{line} in {complete}");
        }
        metrics.clear();
        let text = text(&metrics);
        assert!(!text.contains("opgate_audit_objects"), "{text}");
        assert!(text.contains("opgate_audit_runs_total{result=\"complete\"} 1"), "{text}");
    }
}
