//! Number of pods that a PodDisruptionBudget keeps, as the disruption controller counts them.

use opgate_sdk::{Document, Kind, Selector, go};

use crate::workload::Workload;

/// A number of pods, or a share of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amount {
    Pods(i64),
    Percent(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    MinAvailable(Amount),
    MaxUnavailable(Amount),
    /// Neither is set, or it is not what an API server admits.
    Neither,
}

#[derive(Debug)]
pub(crate) struct Budget {
    selector: Option<Selector>,
    limit: Limit,
    /// The written value, for messages.
    written: String,
}

impl Budget {
    pub(crate) fn of(object: &Document) -> Self {
        let min = read_amount(object, "/spec/minAvailable");
        let max = read_amount(object, "/spec/maxUnavailable");
        // In the controller's order.
        let (limit, written) = match (max, min) {
            (Some((max, written)), _) => (Limit::MaxUnavailable(max), written),
            (None, Some((min, written))) => (Limit::MinAvailable(min), written),
            (None, None) => (Limit::Neither, String::new()),
        };
        // An API server rejects an invalid selector. An empty one selects all pods of the namespace.
        let selector = object.selector("/spec/selector").ok().flatten();
        Self { selector, limit, written }
    }

    pub(crate) fn selects(&self, workload: &Workload) -> bool {
        let label = |key: &str| workload.labels.get(key).map(String::as_str);
        self.selector.as_ref().is_some_and(|selector| selector.matches(label))
    }

    /// Returns how many of this number of pods must stay.
    pub(crate) fn min_available(&self, pods: i64) -> i64 {
        match self.limit {
            Limit::MinAvailable(min) => min.of(pods),
            Limit::MaxUnavailable(max) => pods.saturating_sub(max.of(pods)).max(0),
            Limit::Neither => pods,
        }
    }

    /// Reports whether none of this number of pods can be evicted although all are healthy.
    pub(crate) fn blocks(&self, pods: i64) -> bool {
        self.min_available(pods) >= pods
    }

    /// Reports whether no pod can be evicted, for every number of pods.
    pub(crate) fn always_blocks(&self) -> bool {
        match self.limit {
            Limit::MinAvailable(Amount::Percent(percent)) => percent >= 100,
            Limit::MinAvailable(Amount::Pods(_)) => false,
            Limit::MaxUnavailable(Amount::Pods(pods)) => pods <= 0,
            Limit::MaxUnavailable(Amount::Percent(percent)) => percent <= 0,
            Limit::Neither => true,
        }
    }

    pub(crate) fn field(&self) -> &'static str {
        match self.limit {
            Limit::MaxUnavailable(_) => "spec.maxUnavailable",
            Limit::MinAvailable(_) => "spec.minAvailable",
            Limit::Neither => "spec",
        }
    }

    /// Returns field and message for one that blocks always.
    pub(crate) fn remediation(&self) -> (&'static str, String) {
        let written = &self.written;
        let message = match self.limit {
            Limit::MaxUnavailable(_) => {
                format!(
                    "maxUnavailable {written} allows no eviction, so that nodes cannot be drained: use 1 or more"
                )
            }
            Limit::MinAvailable(_) => {
                format!(
                    "minAvailable {written} allows no eviction, so that nodes cannot be drained: use less than 100%"
                )
            }
            Limit::Neither => {
                "set minAvailable or maxUnavailable: without them no pod can go".to_owned()
            }
        };
        (self.field(), message)
    }
}

impl Amount {
    /// Shares are rounded up, both of those that stay and of those that go.
    fn of(self, pods: i64) -> i64 {
        match self {
            Self::Pods(number) => number,
            Self::Percent(percent) => {
                let hundredths = percent.saturating_mul(pods);
                hundredths.saturating_add(99).div_euclid(100)
            }
        }
    }
}

/// Returns an `IntOrString` and how it is written; none for anything else, which an API server does not
/// admit.
fn read_amount(object: &Document, pointer: &str) -> Option<(Amount, String)> {
    match object.kind(pointer) {
        Kind::Number => {
            let number = object.integer(pointer)?;
            Some((Amount::Pods(number), number.to_string()))
        }
        Kind::Text => {
            let text = object.text(pointer)?;
            let percent = text.strip_suffix('%')?;
            let is_number =
                !percent.is_empty() && percent.bytes().all(|byte| byte.is_ascii_digit());
            let percent = percent.parse().ok().filter(|_| is_number)?;
            Some((Amount::Percent(percent), go::quote(&text)))
        }
        _ => None,
    }
}
