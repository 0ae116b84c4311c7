//! The update strategy of a catalog: the interval at which OLM checks for a newer image.

use opgate_sdk::{Fix, Kind, Report, corrections, go, rule, rules};

use crate::source::{INTERVAL, POLL, STRATEGY, Source};
use crate::targets::CATALOG_SOURCE;

rules![CAT_14, CAT_15];

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    if !source.has(STRATEGY) {
        return;
    }
    if source.kind(POLL) == Kind::Object {
        check_interval(source, report);
    } else {
        check_strategy_set(source, report);
    }
}

rule! {
    /// the poll interval of a catalog is a Go duration
    ///
    /// `spec.updateStrategy.registryPoll.interval` is a Go duration: `30m`, `1h30m`, `15m0s`. A
    /// missing interval counts as an empty string, which is not a duration. The rule evaluates an
    /// UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// OLM polls every 15 minutes instead, and sets the reason `InvalidIntervalError` with this
    /// message (operator-framework/api `pkg/operators/v1alpha1/catalogsource_types.go`).
    ///
    /// # Remediation
    ///
    /// Write numbers with their units `h`, `m` and `s`, without spaces. Go has no unit for days.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {updateStrategy: {registryPoll: {interval: 30m0s}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {updateStrategy: {registryPoll: {}}}
    /// ```
    ///
    /// `message: error parsing spec.updateStrategy.registryPoll.interval. Using the default value of
    /// 15m0s instead. Error: time: invalid duration ""`
    CAT_14: Warn {
        name: "valid-catalog-source-poll-interval",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1613-1615, L1697-1699, L9344-9346, L21413-21415", "OCP 4.15 L1249-1331", "api pkg/operators/v1alpha1/catalogsource_types.go"],
    }
}

fn check_interval(source: &Source<'_>, report: &mut Report<'_>) {
    let value = if source.has(INTERVAL) { source.display_text(INTERVAL) } else { "".into() };
    let Err(why) = go::duration::check(&value) else { return };
    if source.touches(&[POLL]) {
        let message = format!(
            "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: {why}"
        );
        report.add(&CAT_14, INTERVAL.name(), message);
        report.set_fix(&CAT_14, || {
            let duration = corrections::go_duration(source.text(INTERVAL))?;
            Some(corrections::write(INTERVAL.pointer(), &duration))
        });
    }
}

rule! {
    /// an update strategy of a catalog has a registry poll
    ///
    /// `spec.updateStrategy`, if it is set, has an object `registryPoll`, which is not `null`. The
    /// rule evaluates an UPDATE only if it changes `spec.updateStrategy`.
    ///
    /// # Why
    ///
    /// The schema of CatalogSources accepts an empty `updateStrategy`. The type into which OLM
    /// decodes it reads `registryPoll` without checking that it exists (operator-framework/api
    /// `pkg/operators/v1alpha1/catalogsource_types.go`): a client that lists CatalogSources with
    /// that type crashes.
    ///
    /// # Remediation
    ///
    /// Remove `updateStrategy`, or add `registryPoll` with an interval.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {updateStrategy: {registryPoll: {interval: 30m}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {updateStrategy: {}}
    /// ```
    ///
    /// `message: spec.updateStrategy.registryPoll: Required value`
    CAT_15: Deny {
        name: "catalog-source-registry-poll-required",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1613-1615", "api pkg/operators/v1alpha1/catalogsource_types.go"],
    }
}

fn check_strategy_set(source: &Source<'_>, report: &mut Report<'_>) {
    if source.touches(&[STRATEGY]) {
        let message = "spec.updateStrategy.registryPoll: Required value";
        report.add(&CAT_15, POLL.name(), message);
        report.set_fix(&CAT_15, || {
            let is_empty = source.object.length(STRATEGY.pointer()) == Some(0);
            let fix = Fix::safe("remove the empty update strategy");
            is_empty.then(|| fix.remove(STRATEGY.pointer()))
        });
    }
}
