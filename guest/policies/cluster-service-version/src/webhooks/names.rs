//! Names of webhook definitions: unique, and of characters that OLM v1 accepts.

use std::collections::BTreeMap;

use opgate_sdk::{corrections, names, rule, rules};

use super::{Definition, Definitions, LIST};
use crate::csv::Csv;
use crate::entries::RuleViolations;
use crate::targets::{CATALOG, CSV};

rules![CSV_90, CSV_91];

rule! {
    /// names of webhook definitions are unique
    ///
    /// No two entries of `spec.webhookdefinitions` have the same `generateName`, regardless of
    /// their types. Entries without a name count as entries with the same name. Every entry after
    /// the first with its name is a violation. An UPDATE is evaluated only if more entries have a
    /// name than before.
    ///
    /// # Why
    ///
    /// OLM finds the configuration of a webhook by this name. It checks the name of each definition
    /// before its rules, and fails the CSV with the reason `InvalidWebhookDescription` (OLM
    /// `pkg/controller/operators/olm/operator.go`).
    ///
    /// # Remediation
    ///
    /// Give each definition a unique name.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{generateName: v.kb.io}, {generateName: m.kb.io}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{generateName: v.kb.io}, {generateName: v.kb.io}]}
    /// ```
    ///
    /// `message: CSV contains repeated WebhookDescription name`
    CSV_90: Deny {
        name: "unique-webhook-names",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OLM pkg/controller/operators/olm/operator.go, test/e2e/webhook_e2e_test.go"],
    }
}

/// The number of definitions that have a name so far, and the number that had it before an UPDATE.
pub(super) struct Names<'d> {
    now: BTreeMap<&'d str, usize>,
    /// The index of the first definition with each name.
    first: BTreeMap<&'d str, usize>,
    before: BTreeMap<&'d str, usize>,
    violations: RuleViolations,
}

impl<'d> Names<'d> {
    pub(super) fn of(definitions: &'d Definitions<'_>) -> Self {
        let mut before = BTreeMap::new();
        for definition in definitions.before.iter().flat_map(|before| &before.list) {
            *before.entry(definition.name.as_str()).or_default() += 1;
        }
        Self {
            now: BTreeMap::new(),
            first: BTreeMap::new(),
            before,
            violations: RuleViolations::of(&CSV_90),
        }
    }

    pub(super) fn check(&mut self, csv: &mut Csv<'_, '_>, definition: &'d Definition) {
        let name = definition.name.as_str();
        let count = self.now.entry(name).or_insert(0_usize);
        *count += 1;
        self.first.entry(name).or_insert(definition.index);
        if *count < 2 || self.before.get(name).is_some_and(|before| before >= count) {
            return;
        }
        self.violations.add(csv, || {
            let message = "CSV contains repeated WebhookDescription name";
            [definition.field(".generateName"), message.to_owned()]
        });
        let (object, first) = (csv.object, self.first.get(name).copied());
        csv.fix(&CSV_90, || corrections::remove_equal(object, LIST, first?, definition.index));
    }
}

rule! {
    /// the name of a webhook definition is a DNS-1123 subdomain
    ///
    /// `spec.webhookdefinitions[].generateName` has at most 253 characters: lower case letters,
    /// digits, `-` and `.`, with a letter or digit at the beginning and end of each part. This is a
    /// check of OLM v1, so the rule is off unless a level is configured. There is one violation for
    /// each type and name, in the order of both. On UPDATE, the rule evaluates only names that the
    /// request changes.
    ///
    /// # Why
    ///
    /// OLM v1 makes the name of the webhook configuration from it and rejects a bundle with any
    /// other name (operator-controller `rukpak/render/registryv1/validators/validator.go`).
    ///
    /// # Remediation
    ///
    /// Use a name such as `vwebhooktest.kb.io`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{generateName: vwebhooktest.kb.io}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{type: ConversionWebhook, generateName: -bad-name}]}
    /// ```
    ///
    /// `message: webhook of type 'ConversionWebhook' has invalid name '-bad-name': a lowercase RFC
    /// 1123 subdomain must consist of lower case alphanumeric characters, …`
    CSV_91: Deny {
        name: "valid-webhook-names",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: [],
        source: ["operator-controller internal/operator-controller/rukpak/render/registryv1/validators/validator.go"],
    }
}

pub(super) fn check_subdomains(csv: &mut Csv<'_, '_>, definitions: &Definitions<'_>) {
    if !csv.is_on(&CSV_91) {
        return;
    }
    let mut wrong = BTreeMap::new();
    for definition in &definitions.list {
        let name = definition.name.as_str();
        let is_wrong = !names::is_subdomain(name) || name.len() > 253;
        if is_wrong && definitions.is_new(definition, |old| old.name != name) {
            wrong.entry((definition.webhook_type.as_str(), name)).or_insert(definition);
        }
    }
    let mut violations = RuleViolations::of(&CSV_91);
    for ((webhook, name), definition) in wrong {
        violations.add(csv, || {
            let mut errors = names::subdomain_errors(name);
            errors.sort_unstable();
            let errors = errors.join(",");
            let message =
                format!("webhook of type '{webhook}' has invalid name '{name}': {errors}");
            [definition.field(".generateName"), message]
        });
    }
}
