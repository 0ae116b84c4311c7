//! Probes of the containers in deployments.

use opgate_sdk::go::quote;
use opgate_sdk::pods::{self, Container, PodSpec};
use opgate_sdk::{Document, Kind, Level, Shape, rule, rules};

use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_102];

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const COLUMNS: [&str; 6] = [
    "/livenessProbe/timeoutSeconds",
    "/livenessProbe/periodSeconds",
    "/readinessProbe/timeoutSeconds",
    "/readinessProbe/periodSeconds",
    "/startupProbe/timeoutSeconds",
    "/startupProbe/periodSeconds",
];
/// The defaults of Kubernetes for a missing value or 0.
const DEFAULT_TIMEOUT_SECONDS: i64 = 1;
const DEFAULT_PERIOD_SECONDS: i64 = 10;

rule! {
    /// a probe times out before the next one is due
    ///
    /// In each `livenessProbe`, `readinessProbe` and `startupProbe` of the containers and init
    /// containers in the pod templates of `spec.install.spec.deployments`, `timeoutSeconds` is
    /// lower than `periodSeconds`. If absent or 0, they have the defaults of Kubernetes, 1 and 10.
    /// In profile `ocp-4.5` the rule denies, in all others it warns. On UPDATE, a probe whose two
    /// numbers do not change is not evaluated.
    ///
    /// # Why
    ///
    /// If a probe can take as long as the time between two probes, a probe is always in progress,
    /// and failures are noticed late (OpenShift 4.5, Operators, *Enabling your Operator for
    /// restricted network environments*). Later editions omit the sentence.
    ///
    /// # Remediation
    ///
    /// Lower `timeoutSeconds`, or raise `periodSeconds`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// livenessProbe: {initialDelaySeconds: 10, periodSeconds: 30}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// readinessProbe: {timeoutSeconds: 10}
    /// ```
    ///
    /// `message: probe readinessProbe of container "etcd-operator": timeoutSeconds 10 must be lower
    /// than periodSeconds 10`
    CSV_102: Warn {
        name: "probe-timeout-below-period",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/profile"],
        source: ["OCP 4.5 L6434-6437"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>, specs: &[PodSpec]) {
    if !csv.is_on(&CSV_102) {
        return;
    }
    pods::each_container(csv.object, specs, &COLUMNS, |_, container| {
        let row = container.row;
        for (probe, column) in PROBES.iter().zip((0..).step_by(2)) {
            // The defaults of Kubernetes for both values satisfy the rule.
            if row.kind(column) == Kind::Number || row.kind(column + 1) == Kind::Number {
                check_timing(csv, &container, probe);
            }
        }
    });
}

fn check_timing(csv: &mut Csv<'_, '_>, container: &Container<'_>, probe: &str) {
    let pointer = format!("{}/{probe}", container.pointer());
    let members = ["timeoutSeconds", "periodSeconds"];
    let [timeout, period] =
        [(members[0], DEFAULT_TIMEOUT_SECONDS), (members[1], DEFAULT_PERIOD_SECONDS)]
            .map(|(member, default)| seconds(csv.object, &format!("{pointer}/{member}"), default));
    if timeout < period {
        return;
    }
    if csv.report.is_full(&CSV_102) {
        csv.report.add_count(&CSV_102, 1);
        return;
    }
    let is_new = |member: &&str| csv.touches(&format!("{pointer}/{member}"), &Shape::Scalar);
    if !members.iter().any(is_new) {
        return;
    }
    let name = quote(&csv.object.text_or_empty(&format!("{}/name", container.pointer())));
    let message = format!(
        "probe {probe} of container {name}: timeoutSeconds {timeout} must be lower than periodSeconds {period}"
    );
    let says_timeout = csv.object.has(&format!("{pointer}/{}", members[0]));
    let member = if says_timeout { members[0] } else { members[1] };
    let field = format!("{}.{probe}.{member}", container.field());
    let is_strict = csv.review.settings.text_or_empty("/profile") == "ocp-4.5";
    let level = if is_strict { Level::Deny } else { Level::Warn };
    csv.add_as(level, &CSV_102, &field, message);
}

fn seconds(csv: &Document, pointer: &str, default: i64) -> i64 {
    csv.integer(pointer).filter(|seconds| *seconds != 0).unwrap_or(default)
}
