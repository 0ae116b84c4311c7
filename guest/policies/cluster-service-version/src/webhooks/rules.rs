//! API groups and resources that the rules of a webhook definition must not intercept.

use std::collections::BTreeSet;

use opgate_sdk::{Document, rule, rules};

use super::intercepted::{ForbiddenPart, find_forbidden};
use super::{Definition, Definitions};
use crate::csv::Csv;
use crate::entries::RuleViolations;
use crate::targets::{CATALOG, CSV};

rules![CSV_87, CSV_88, CSV_89];

/// Maximum number of rules of the object and of the old one that are compared. Each takes two calls
/// of the host. Further rules count as changed.
const MAX_COMPARED_RULES: usize = 2_000;

rule! {
    /// a webhook does not intercept all API groups
    ///
    /// No entry of `spec.webhookdefinitions[].rules` has `*` in `apiGroups`. Definitions of every
    /// type count, as for OLM. There is one violation for each such entry, after the violation of
    /// CSV-90 for the same definition. On UPDATE, the rule evaluates only entries with groups or
    /// resources that no entry of the definition had before.
    ///
    /// # Why
    ///
    /// A failing webhook would block every request, including requests that fix or remove the
    /// Operator. OLM fails the CSV (OpenShift 4.12, Operators, *Admission webhook rules
    /// constraints*).
    ///
    /// # Remediation
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
        name: "no-webhook-for-all-api-groups",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20271-20274", "OCP 4.15 L14861-15012", "OCP 4.5 L2163-2169", "OLM pkg/controller/install/webhook.go"],
    }
}

rule! {
    /// a webhook does not intercept the objects of OLM
    ///
    /// No entry of `spec.webhookdefinitions[].rules` has `operators.coreos.com` in `apiGroups`.
    /// Only this text counts: `webhook.operators.coreos.io` and `a.operators.coreos.com` are other
    /// groups. Definitions of every type count. An UPDATE is evaluated as for CSV-87.
    ///
    /// # Why
    ///
    /// A failing webhook could prevent OLM from updating or removing the Operator that serves it.
    /// OLM fails the CSV (OpenShift 4.12, Operators, *Admission webhook rules constraints*).
    ///
    /// # Remediation
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
        name: "no-webhook-for-olm-resources",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20277", "OCP 4.15 L14861-15012", "OCP 4.5 L2163-2169", "OLM pkg/controller/install/webhook.go"],
    }
}

rule! {
    /// a webhook does not intercept the configurations of webhooks
    ///
    /// No entry of `spec.webhookdefinitions[].rules` with `admissionregistration.k8s.io` in
    /// `apiGroups` has one of these in `resources`, in any case: `*`, `*/*`,
    /// `mutatingwebhookconfiguration(s)`, `validatingwebhookconfiguration(s)`, or one of the last
    /// four with a subresource. With the setting `csv.webhookResources: upstream` only `*`,
    /// `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration` count, in this spelling,
    /// as for OLM. An UPDATE is evaluated as for CSV-87.
    ///
    /// # Why
    ///
    /// A failing webhook could prevent its own removal. OLM is meant to reject such a rule but
    /// compares resources with the names of kinds, so OLM accepts the usual spelling (OpenShift
    /// 4.12, Operators, *Admission webhook rules constraints*; OLM
    /// `pkg/controller/install/webhook.go`).
    ///
    /// # Remediation
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
        name: "no-webhook-for-webhook-configurations",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20280", "OCP 4.15 L14861-15012", "OCP 4.5 L2163-2169", "OLM pkg/controller/install/webhook.go", "operator-controller internal/operator-controller/rukpak/render/registryv1/validators/validator.go"],
    }
}

/// The rules of definitions.
pub(super) struct Rules {
    is_on: bool,
    as_upstream: bool,
    violations: [RuleViolations; 3],
    /// The number of rules that were compared with the rules before an UPDATE.
    compared: usize,
}

impl Rules {
    pub(super) fn of(csv: &Csv<'_, '_>) -> Self {
        let setting = csv.review.settings.text_or_empty("/csv/webhookResources");
        let rules = [&CSV_87, &CSV_88, &CSV_89];
        Self {
            is_on: rules.iter().any(|rule| csv.is_on(rule)),
            as_upstream: setting == "upstream",
            violations: rules.map(RuleViolations::of),
            compared: 0,
        }
    }

    pub(super) fn check(
        &mut self,
        csv: &mut Csv<'_, '_>,
        definitions: &Definitions<'_>,
        definition: &Definition,
    ) {
        if !definition.has_rules || !self.is_on {
            return;
        }
        let Some(json) = csv.object.raw(&definition.pointer("/rules")) else { return };
        let found = find_forbidden(&json, self.as_upstream);
        if found.is_empty() || !definitions.is_new_at(csv, definition, "/rules") {
            return;
        }
        let before = self.find_offending(definitions, definition);
        for (index, part, at) in found {
            let rule = definition.pointer(&format!("/rules/{index}"));
            if self.count_comparison()
                && before.contains(&(part, InterceptedResources::of(csv.object, &rule)))
            {
                continue;
            }
            let [all, olm, configurations] = &mut self.violations;
            let (violations, list) = match part {
                ForbiddenPart::AllGroups => (all, "apiGroups"),
                ForbiddenPart::OlmGroup => (olm, "apiGroups"),
                ForbiddenPart::Configurations => (configurations, "resources"),
            };
            violations.add(csv, || {
                let field = definition.field(&format!(".rules[{index}].{list}[{at}]"));
                [field, part.message().to_owned()]
            });
        }
    }

    /// The forbidden parts of the rules before an UPDATE. A rule that moves in the list is not a
    /// new one.
    fn find_offending(
        &mut self,
        definitions: &Definitions<'_>,
        definition: &Definition,
    ) -> BTreeSet<(ForbiddenPart, InterceptedResources)> {
        let Some((before, old)) = definitions.old_definition(definition) else {
            return BTreeSet::new();
        };
        let json = before.raw(&old.pointer("/rules")).unwrap_or_default();
        let found = find_forbidden(&json, self.as_upstream);
        let found = found.into_iter().take_while(|_| self.count_comparison());
        let intercepted = |index: usize| {
            InterceptedResources::of(before, &old.pointer(&format!("/rules/{index}")))
        };
        found.map(|(index, part, _)| (part, intercepted(index))).collect()
    }

    /// Whether another rule may be compared.
    fn count_comparison(&mut self) -> bool {
        self.compared = self.compared.saturating_add(1);
        self.compared <= MAX_COMPARED_RULES
    }
}

/// The groups and resources of a rule, in any order. An UPDATE of a rule is evaluated if they
/// change.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InterceptedResources([Vec<String>; 2]);

impl InterceptedResources {
    fn of(csv: &Document, rule: &str) -> Self {
        Self(["apiGroups", "resources"].map(|member| {
            let rows = csv.rows(&format!("{rule}/{member}"), &[""]);
            let mut texts: Vec<_> =
                rows.iter().filter_map(|row| row.text(0)).map(str::to_owned).collect();
            texts.sort_unstable();
            texts
        }))
    }
}
