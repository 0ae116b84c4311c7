//! The affinity of an Operator's pods.

use opgate_sdk::{Fix, Kind, Report, rule, rules};

use super::Subscription;
use crate::targets::SUBSCRIPTION;

rules![SUB_17];

const AFFINITY: &str = "/spec/config/affinity";

rule! {
    /// the affinity of a Subscription is not empty
    ///
    /// `spec.config.affinity`, if it is present, has `nodeAffinity`, `podAffinity` or
    /// `podAntiAffinity`. An empty value, such as `nodeAffinity: {}`, is sufficient: OLM then
    /// removes the affinity of the Operator. `null` counts as absent. The rule evaluates an UPDATE
    /// only if it changes the affinity.
    ///
    /// # Why
    ///
    /// Only these three place pods (OpenShift 4.12, Operators, *Controlling where an Operator is
    /// installed*). An affinity without them places nothing; at most OLM removes all that the
    /// author of the Operator has set.
    ///
    /// # Remediation
    ///
    /// Add one of the three, or remove `affinity`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: []}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// affinity: {}
    /// ```
    ///
    /// `message: spec.config.affinity has no effect; add a nodeAffinity, podAffinity, or
    /// podAntiAffinity`
    SUB_17: Warn {
        name: "no-empty-subscription-affinity",
        on: [SUBSCRIPTION: Create | Update],
        source: ["OCP 4.12 L6640, L6822", "OCP 4.15 L4655-4811"],
    }
}

impl Subscription<'_> {
    pub(super) fn check_affinity(&self, report: &mut Report<'_>) {
        let kinds = ["/nodeAffinity", "/podAffinity", "/podAntiAffinity"];
        if self.object.kind(AFFINITY) == Kind::Object
            && !kinds.iter().any(|kind| self.object.has(&format!("{AFFINITY}{kind}")))
            && self.review.touches_json(self.object, AFFINITY)
        {
            let message = "spec.config.affinity has no effect; add a nodeAffinity, podAffinity, or podAntiAffinity";
            report.add(&SUB_17, "spec.config.affinity", message);
            report.set_fix(&SUB_17, || {
                let is_empty = self.object.length(AFFINITY) == Some(0);
                // OLM removes the affinity of the deployments if the one of the Subscription is empty.
                let fix = Fix::needs_review("remove the empty affinity");
                is_empty.then(|| fix.remove(AFFINITY))
            });
        }
    }
}
