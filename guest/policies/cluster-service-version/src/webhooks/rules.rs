//! What the rules of a webhook definition must not intercept.

use opgate_sdk::{Shape, rule, rules};

use super::intercepted::{Part, offences};
use super::{Definition, Definitions};
use crate::csv::Csv;
use crate::entries::Findings;
use crate::targets::{CATALOG, CSV};

rules![CSV_87, CSV_88, CSV_89];

/// Rules that are compared with what they were: each takes some calls of the host. After so many
/// the others count as changed.
const COMPARED: usize = 1_000;
/// What an UPDATE is judged by.
const RULE: Shape = Shape::Struct(&[
    ("apiGroups", Shape::List(&Shape::Scalar)),
    ("resources", Shape::List(&Shape::Scalar)),
]);

rule! {
    /// a webhook does not intercept all API groups
    ///
    /// No entry of `spec.webhookdefinitions[].rules` has `*` in `apiGroups`. Definitions of every
    /// type count, as for OLM. One finding for each such entry, after that of CSV-90 for the same
    /// definition. An UPDATE is judged by the groups and resources of entries that it changes.
    ///
    /// # Why
    ///
    /// A webhook that fails would block every request, also those that repair or remove the
    /// Operator. OLM lets the CSV fail (OpenShift 4.12, Operators, *Admission webhook rules
    /// constraints*).
    ///
    /// # Repair
    ///
    /// List the groups that the webhook is for.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{rules: [{apiGroups: [""], resources: [configmaps]}]}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{rules: [{apiGroups: ["*"], resources: [pods]}]}]}
    /// ```
    ///
    /// `message: webhook rules cannot include all groups`
    CSV_87: Deny {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L20271-20274; OCP 4.15 L14861-15012; OCP 4.5 L2163-2169; OLM pkg/controller/install/webhook.go",
    }
}

rule! {
    /// a webhook does not intercept the objects of OLM
    ///
    /// No entry of `spec.webhookdefinitions[].rules` has `operators.coreos.com` in `apiGroups`.
    /// Only this text counts: `webhook.operators.coreos.io` and `a.operators.coreos.com` are other
    /// groups. Definitions of every type count. An UPDATE is judged as for CSV-87.
    ///
    /// # Why
    ///
    /// A webhook that fails could keep OLM from updating or removing the very Operator that serves
    /// it. OLM lets the CSV fail (OpenShift 4.12, Operators, *Admission webhook rules
    /// constraints*).
    ///
    /// # Repair
    ///
    /// Remove the group from the rule.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{rules: [{apiGroups: [webhook.operators.coreos.io]}]}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions: [{rules: [{apiGroups: [operators.coreos.com], resources: ["*"]}]}]
    /// ```
    ///
    /// `message: webhook rules cannot include the OLM group`
    CSV_88: Deny {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L20277; OCP 4.15 L14861-15012; OCP 4.5 L2163-2169; OLM pkg/controller/install/webhook.go",
    }
}

rule! {
    /// a webhook does not intercept the configurations of webhooks
    ///
    /// No entry of `spec.webhookdefinitions[].rules` with `admissionregistration.k8s.io` in
    /// `apiGroups` has one of these in `resources`, whatever the case of its letters: `*`, `*/*`,
    /// `mutatingwebhookconfiguration(s)`, `validatingwebhookconfiguration(s)`, or one of the last
    /// four with a subresource. With the setting `csv.webhookResources: upstream` only `*`,
    /// `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration` count, in this
    /// spelling, as for OLM. An UPDATE is judged as for CSV-87.
    ///
    /// # Why
    ///
    /// A webhook that fails could keep everybody from removing it. OLM wants to refuse such a rule
    /// but compares resources with the names of kinds, so the usual spelling passes there
    /// (OpenShift 4.12, Operators, *Admission webhook rules constraints*; OLM
    /// `pkg/controller/install/webhook.go`).
    ///
    /// # Repair
    ///
    /// List the other resources of the group, or remove the group from the rule.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - rules:
    ///     - {apiGroups: [admissionregistration.k8s.io], resources: [validatingadmissionpolicies]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - rules: [{apiGroups: [admissionregistration.k8s.io], resources: ["*"]}]
    /// ```
    ///
    /// `message: webhook rules cannot include MutatingWebhookConfiguration or
    /// ValidatingWebhookConfiguration resources`
    CSV_89: Deny {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L20280; OCP 4.15 L14861-15012; OCP 4.5 L2163-2169; OLM pkg/controller/install/webhook.go; operator-controller internal/operator-controller/rukpak/render/registryv1/validators/validator.go",
    }
}

/// The rules of definitions.
pub(super) struct Rules {
    is_on: bool,
    as_upstream: bool,
    findings: [Findings; 3],
    /// Rules that were compared with what they were before an UPDATE.
    compared: usize,
}

impl Rules {
    pub(super) fn of(csv: &Csv<'_, '_>) -> Self {
        let setting = csv.review.settings.text_or_empty("/csv/webhookResources");
        let rules = [&CSV_87, &CSV_88, &CSV_89];
        Self {
            is_on: rules.iter().any(|rule| csv.is_on(rule)),
            as_upstream: setting == "upstream",
            findings: rules.map(Findings::of),
            compared: 0,
        }
    }

    pub(super) fn judge(
        &mut self,
        csv: &mut Csv<'_, '_>,
        definitions: &Definitions<'_>,
        definition: &Definition,
    ) {
        if !definition.has_rules || !self.is_on {
            return;
        }
        let Some(json) = csv.object.raw(&definition.pointer("/rules")) else { return };
        let found = offences(&json, self.as_upstream);
        if found.is_empty() || !definitions.is_new_at(csv, definition, "/rules") {
            return;
        }
        for (index, part, at) in found {
            if !self.is_new(csv, definitions, definition, index) {
                continue;
            }
            let [all, olm, configurations] = &mut self.findings;
            let (findings, list) = match part {
                Part::AllGroups => (all, "apiGroups"),
                Part::OlmGroup => (olm, "apiGroups"),
                Part::Configurations => (configurations, "resources"),
            };
            findings.add(csv, || {
                let field = definition.field(&format!(".rules[{index}].{list}[{at}]"));
                [field, part.message().to_owned()]
            });
        }
    }

    /// Whether an UPDATE changed what a rule intercepts.
    fn is_new(
        &mut self,
        csv: &Csv<'_, '_>,
        definitions: &Definitions<'_>,
        definition: &Definition,
        index: usize,
    ) -> bool {
        let Some((before, old)) = definitions.before(definition) else { return true };
        self.compared += 1;
        let rule = format!("/rules/{index}");
        let now = csv.object.at(&definition.pointer(&rule));
        let then = before.at(&old.pointer(&rule));
        match (now, then) {
            (Some(now), Some(then)) if self.compared <= COMPARED => !RULE.equal(&now, &then, ""),
            _ => true,
        }
    }
}
