//! Requirements for every webhook definition: a type, the members of its schema, a deployment.

use opgate_sdk::{Kind, Shape, corrections, go, rule, rules};

use super::{Definition, Definitions, REQUIRED};
use crate::csv::Csv;
use crate::entries::{Entries, RuleViolations};
use crate::install;
use crate::targets::{CATALOG, CSV};

rules![CSV_83, CSV_84, CSV_85, CSV_86];

const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
const DEPLOYMENT_NAMES: Shape = Shape::List(&Shape::Struct(&[("name", Shape::Scalar)]));
const TYPES: [&str; 3] =
    ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"];
/// Bytes of a value that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;
/// Maximum number of deployments that a message names.
const MAX_SHOWN_DEPLOYMENTS: usize = 8;

rule! {
    /// a webhook definition has a type that OLM knows
    ///
    /// `spec.webhookdefinitions[].type` is `ValidatingAdmissionWebhook`, `MutatingAdmissionWebhook`
    /// or `ConversionWebhook`, in this spelling. CSV-84 reports a definition without a type. On
    /// UPDATE, the rule evaluates only types that the request changes.
    ///
    /// # Why
    ///
    /// The schema of ClusterServiceVersions rejects any other type, and OLM creates no webhook for
    /// it (OpenShift 4.12, Operators, *Webhook considerations for OLM*).
    ///
    /// # Remediation
    ///
    /// Write one of the three types.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{type: ValidatingAdmissionWebhook, generateName: v.kb.io}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {webhookdefinitions: [{type: AdmissionWebhook, generateName: v.kb.io}]}
    /// ```
    ///
    /// `message: spec.webhookdefinitions[0].type: Unsupported value: "AdmissionWebhook": supported
    /// values: "ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"`
    CSV_83: Deny {
        name: "known-webhook-types",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20096, L20247", "OCP 4.15 L14861-15012", "OCP 4.5 L2144-2146", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

rule! {
    /// a webhook definition has the members that its schema requires
    ///
    /// Every entry of `spec.webhookdefinitions` has `admissionReviewVersions`, `generateName`,
    /// `sideEffects` and `type`. An empty list or text counts as missing, except for `type`
    /// (CSV-83). `containerPort`, if set, is an integer from 1 to 65535. Other members are not
    /// evaluated, so an `objectSelector` without `matchLabels` and `matchExpressions` is accepted.
    /// On UPDATE, the rule evaluates only members that the request changes.
    ///
    /// # Why
    ///
    /// The schema of ClusterServiceVersions requires these members, because OLM copies them to the
    /// webhook configuration, which requires them (OpenShift 4.12, Operators, *Defining webhooks
    /// with Operator Lifecycle Manager*).
    ///
    /// # Remediation
    ///
    /// Add the member that the message names, or correct the port. Without `containerPort` the
    /// port is 443.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - type: ConversionWebhook
    ///     generateName: c.kb.io
    ///     sideEffects: None
    ///     admissionReviewVersions: [v1]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - {type: ConversionWebhook, sideEffects: None, admissionReviewVersions: [v1]}
    /// ```
    ///
    /// `message: spec.webhookdefinitions[0].generateName: Required value`
    CSV_84: Deny {
        name: "complete-webhook-definitions",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20129-20183", "OCP 4.5 L2109-2143", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

/// Types and members.
pub(super) fn check_members(csv: &mut Csv<'_, '_>, definitions: &Definitions<'_>) {
    if !csv.is_on(&CSV_83) && !csv.is_on(&CSV_84) {
        return;
    }
    let (mut types, mut members) = (RuleViolations::of(&CSV_83), RuleViolations::of(&CSV_84));
    for definition in &definitions.list {
        let has_type = !matches!(definition.kind, Kind::Missing | Kind::Null);
        // Go writes an empty type for a missing one.
        let was_wrong_type = |old: &Definition| {
            old.webhook_type == definition.webhook_type
                && (old.kind == definition.kind || old.has_no_type())
        };
        if has_type
            && !TYPES.contains(&definition.webhook_type.as_str())
            && definitions.is_new(definition, |old| !was_wrong_type(old))
        {
            let value = match definition.kind {
                Kind::Text => go::quote(&go::shorten(&definition.webhook_type, MAX_SHOWN_BYTES)),
                _ => value_text(csv, &definition.pointer("/type")),
            };
            types.add(csv, || {
                let field = definition.field(".type");
                let message = format!(
                    "{field}: Unsupported value: {value}: supported values: \"ValidatingAdmissionWebhook\", \"MutatingAdmissionWebhook\", \"ConversionWebhook\""
                );
                [field, message]
            });
            csv.fix(&CSV_83, || {
                let (pointer, found) = (definition.pointer("/type"), &definition.webhook_type);
                let spelt = corrections::spelling(&pointer, found, &TYPES);
                spelt.or_else(|| {
                    let begins = |start: &&str| found.to_lowercase().starts_with(*start);
                    let at = ["validating", "mutating", "conversion"].iter().position(begins);
                    Some(corrections::propose(pointer, TYPES.get(at?)?))
                })
            });
        }
        for (at, (member, _)) in REQUIRED.iter().enumerate() {
            let lacks = |it: &Definition| it.missing.get(at) == Some(&true);
            let lacked = |old: &Definition| lacks(old) || *member == "type" && old.has_no_type();
            if lacks(definition) && definitions.is_new(definition, |old| !lacked(old)) {
                members.add(csv, || {
                    let field = definition.field(&format!(".{member}"));
                    let message = format!("{field}: Required value");
                    [field, message]
                });
            }
        }
        if definition.has_port && !members.is_full() {
            check_port(csv, definitions, definition, &mut members);
        }
    }
}

fn check_port(
    csv: &mut Csv<'_, '_>,
    definitions: &Definitions<'_>,
    definition: &Definition,
    violations: &mut RuleViolations,
) {
    let pointer = definition.pointer("/containerPort");
    let is_port = csv.object.integer(&pointer).is_some_and(|port| (1..=65_535).contains(&port));
    if is_port || !definitions.is_new_at(csv, definition, "/containerPort") {
        return;
    }
    let value = value_text(csv, &pointer);
    violations.add(csv, || {
        let field = definition.field(".containerPort");
        let must = "must be between 1 and 65535, inclusive";
        let message = format!("{field}: Invalid value: {value}: {must}");
        [field, message]
    });
    let object = csv.object;
    csv.fix(&CSV_84, || {
        let port: i64 = object.text(&pointer)?.trim().parse().ok()?;
        let is_port = (1..=65_535).contains(&port);
        is_port.then(|| corrections::integer_fix(object, &pointer)).flatten()
    });
}

/// The beginning of a value, as written.
fn value_text(csv: &Csv<'_, '_>, pointer: &str) -> String {
    let json = csv.object.raw(pointer).unwrap_or_default();
    go::shorten(&String::from_utf8_lossy(&json), MAX_SHOWN_BYTES)
}

rule! {
    /// a webhook definition names a deployment of the CSV
    ///
    /// If `spec.install.spec.deployments` has entries, `deploymentName` of every entry of
    /// `spec.webhookdefinitions` is the `name` of one of them. CSV-86 reports a CSV without
    /// deployments. On UPDATE, the rule evaluates only names that the request changes, names whose
    /// deployment is removed, and all names if the CSV had no deployments before.
    ///
    /// # Why
    ///
    /// OLM mounts the certificates into this deployment and makes the Service of the webhook for
    /// it. Without it the CSV fails (OpenShift 4.12, Operators, *Webhook considerations for OLM*;
    /// OLM `pkg/controller/operators/olm/apiservices.go`).
    ///
    /// # Remediation
    ///
    /// Name the deployment that serves the webhook: one of the deployments that the message lists.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   install: {spec: {deployments: [{name: webhook-operator-webhook}]}}
    ///   webhookdefinitions: [{generateName: v.kb.io, deploymentName: webhook-operator-webhook}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   install: {spec: {deployments: [{name: webhook-operator-webhook}]}}
    ///   webhookdefinitions: [{generateName: v.kb.io, deploymentName: x}]
    /// ```
    ///
    /// `message: strategyDetailsDeployment is missing deployment x for WebhookDescription v.kb.io; there is
    /// webhook-operator-webhook`
    CSV_85: Deny {
        name: "webhook-deployment-exists",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20244-20250", "OCP 4.15 L14861-15012", "OCP 4.5 L2147-2148", "OLM pkg/controller/operators/olm/apiservices.go"],
    }
}

rule! {
    /// a CSV with webhook definitions has deployments
    ///
    /// A CSV with entries in `spec.webhookdefinitions` has at least one entry in
    /// `spec.install.spec.deployments`. The rule only warns: the documentation prints such a CSV as
    /// a fragment. On UPDATE, the rule evaluates only names of deployments that the request
    /// changes, or all of them if it changes the deployments.
    ///
    /// # Why
    ///
    /// The Operator has no pod that could respond to the API server: the webhook is never ready,
    /// and the CSV is never installed (OpenShift 4.12, Operators, *Webhook considerations for
    /// OLM*).
    ///
    /// # Remediation
    ///
    /// Add the deployment that serves the webhook, or remove the definition.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {install: {strategy: deployment}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - {generateName: example.webhook.com, deploymentName: example-webhook-deployment}
    /// ```
    ///
    /// `message: webhook definition example.webhook.com names deployment
    /// "example-webhook-deployment" but the CSV contains no deployments`
    CSV_86: Warn {
        name: "webhooks-need-deployments",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20250", "OCP 4.5 L2109-2148"],
    }
}

pub(super) fn check_deployments(csv: &mut Csv<'_, '_>, definitions: &Definitions<'_>) {
    if !csv.is_on(&CSV_85) && !csv.is_on(&CSV_86) {
        return;
    }
    let deployments = Entries::read_all(csv.object, DEPLOYMENTS, &["/name"]);
    let mut known: Vec<&str> = deployments.iter().map(|(_, row)| row.text_or_empty(0)).collect();
    known.sort_unstable();
    let is_none = known.is_empty();
    let had = OldDeployments::of(csv);
    let mut violations = RuleViolations::of(if is_none { &CSV_86 } else { &CSV_85 });
    for definition in &definitions.list {
        let (name, deployment) = (&definition.name, &definition.deployment);
        let is_known = !deployment.is_empty() && known.binary_search(&&**deployment).is_ok();
        let was_so = || {
            had.was_missing(deployment, is_none)
                && !definitions.is_new(definition, |old| old.deployment != *deployment)
        };
        if is_known || was_so() {
            continue;
        }
        violations.add(csv, || {
            let message = if is_none {
                let deployment = go::quote(deployment);
                format!(
                    "webhook definition {name} names deployment {deployment} but the CSV contains no deployments"
                )
            } else {
                format!(
                    "strategyDetailsDeployment is missing deployment {deployment} for WebhookDescription {name}; there is {}",
                    list_names(&known)
                )
            };
            [definition.field(".deploymentName"), message]
        });
        let object = csv.object;
        csv.fix(&CSV_85, || {
            let pointer = definition.pointer("/deploymentName");
            install::propose_deployment(object, pointer, deployment)
        });
    }
}

/// Names of deployments, for messages.
fn list_names(names: &[&str]) -> String {
    let shown = names.iter().take(MAX_SHOWN_DEPLOYMENTS).map(|name| match *name {
        "" => "one without a name".to_owned(),
        name => go::shorten(name, MAX_SHOWN_BYTES),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_SHOWN_DEPLOYMENTS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The names of the deployments before an UPDATE, if it changes them.
enum OldDeployments {
    None,
    Names(Vec<String>),
    Unchanged,
}

impl OldDeployments {
    fn of(csv: &Csv<'_, '_>) -> Self {
        let Some(old) = csv.review.ratchet_base() else { return Self::None };
        if !csv.touches(DEPLOYMENTS, &DEPLOYMENT_NAMES) {
            return Self::Unchanged;
        }
        let deployments = Entries::read_all(old, DEPLOYMENTS, &["/name"]);
        let names = deployments.iter().map(|(_, row)| row.text_or_empty(0).to_owned());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        Self::Names(names)
    }

    /// Whether a deployment was missing before, too, for the same reason.
    fn was_missing(&self, deployment: &str, there_are_none: bool) -> bool {
        match self {
            Self::None => false,
            Self::Unchanged => true,
            Self::Names(names) => {
                let is_absent =
                    |name: &str| names.binary_search_by(|n| n.as_str().cmp(name)).is_err();
                names.is_empty() == there_are_none
                    && (deployment.is_empty() || is_absent(deployment))
            }
        }
    }
}
