//! Values that OLM copies from a webhook definition into an object that the API server then
//! rejects.
//!
//! ```text
//! ValidatingAdmissionWebhook ─▶ ValidatingWebhookConfiguration ─┐
//! MutatingAdmissionWebhook ───▶ MutatingWebhookConfiguration ───┴─▶ all values
//! ConversionWebhook ──────────▶ spec.conversion of CRDs ──────────▶ path and versions
//! ```
//!
//! A value of another type than in the schema is not evaluated here, and neither is a missing one:
//! Kubernetes has defaults for optional values.

use opgate_sdk::{Fix, Kind, Row, corrections, go, lists, names, rule, rules};

use super::{Definition, Definitions, LIST};
use crate::csv::Csv;
use crate::entries::{Entries, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_104];

/// The values, each with its member. The order is that of the violations of one definition.
const MEMBERS: [&str; 8] = [
    "generateName",
    "failurePolicy",
    "matchPolicy",
    "sideEffects",
    "timeoutSeconds",
    "reinvocationPolicy",
    "webhookPath",
    "admissionReviewVersions",
];
const COLUMNS: [&str; 8] = [
    "/generateName",
    "/failurePolicy",
    "/matchPolicy",
    "/sideEffects",
    "/timeoutSeconds",
    "/reinvocationPolicy",
    "/webhookPath",
    "/admissionReviewVersions",
];
/// Versions of `AdmissionReview` that every API server sends.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// OLM labels the configuration with the name.
const MAX_LABEL_BYTES: usize = 63;
/// Bytes of a value that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;
/// Versions that a message repeats.
const MAX_SHOWN_VERSIONS: usize = 16;

rule! {
    /// the API server accepts the objects that OLM creates from a webhook definition
    ///
    /// In each entry of `spec.webhookdefinitions` of type `ValidatingAdmissionWebhook` or
    /// `MutatingAdmissionWebhook`:
    ///
    /// * `generateName` is a DNS-1123 subdomain of at least three labels, and has at most 63
    ///   characters, because OLM also makes it the value of a label;
    /// * `sideEffects` is `None` or `NoneOnDryRun`;
    /// * `failurePolicy`, if set, is `Ignore` or `Fail`;
    /// * `matchPolicy`, if set, is `Exact` or `Equivalent`;
    /// * `timeoutSeconds`, if set, is 1 to 30;
    /// * `reinvocationPolicy` of a `MutatingAdmissionWebhook`, if set, is `Never` or `IfNeeded`.
    ///
    /// In these and in each entry of type `ConversionWebhook`:
    ///
    /// * `webhookPath`, if set and not empty, begins with `/`, and the parts between its slashes are
    ///   DNS-1123 subdomains;
    /// * `admissionReviewVersions` has `v1` or `v1beta1`.
    ///
    /// OLM does not use the other values of a `ConversionWebhook`, so they are not evaluated.
    /// CSV-84 reports missing values, and CSV-83 other types. On UPDATE, the rule evaluates only
    /// values that the request changes.
    ///
    /// # Why
    ///
    /// OLM copies these values into a webhook configuration, or into the CRDs that the webhook
    /// converts (OpenShift 4.12, Operators, *Defining webhooks with Operator Lifecycle Manager*).
    /// The API server rejects an invalid object after the Operator has been published and its
    /// deployments have been created, and the CSV fails.
    ///
    /// # Remediation
    ///
    /// Write one of the values that the message names. For `generateName`, write a name with three
    /// parts, such as `vwebhooktest.kb.io`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - type: ValidatingAdmissionWebhook
    ///     generateName: vwebhooktest.kb.io
    ///     sideEffects: None
    ///     timeoutSeconds: 10
    ///     webhookPath: /validate
    ///     admissionReviewVersions: [v1]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   webhookdefinitions:
    ///   - type: ValidatingAdmissionWebhook
    ///     generateName: vwebhooktest.kb.io
    ///     sideEffects: Some
    ///     admissionReviewVersions: [v1]
    /// ```
    ///
    /// `message: spec.webhookdefinitions[0].sideEffects: Unsupported value: "Some": supported values:
    /// "None", "NoneOnDryRun"`
    CSV_104: Deny {
        name: "valid-webhook-definition-values",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20129-20183, L20239-20250", "kubernetes pkg/apis/admissionregistration/validation/validation.go", "api pkg/operators/v1alpha1/clusterserviceversion_types.go"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>, definitions: &Definitions<'_>) {
    if !csv.is_on(&CSV_104) {
        return;
    }
    let mut violations = RuleViolations::of(&CSV_104);
    let rows = Entries::read_all(csv.object, LIST, &COLUMNS);
    for (definition, (_, row)) in definitions.list.iter().zip(rows.iter()) {
        for (column, member) in MEMBERS.iter().enumerate() {
            let Some(error) = member_error(csv, definition, row, column, member) else { continue };
            // Another type results in another object.
            let is_new = definitions
                .is_new(definition, |old| old.webhook_type != definition.webhook_type)
                || definitions.is_new_at(csv, definition, &format!("/{member}"));
            if is_new {
                violations.add(csv, || {
                    let field = definition.field(&format!(".{member}"));
                    let message = format!("{field}: {error}");
                    [field, message]
                });
                csv.fix(&CSV_104, || {
                    correct(&definition.pointer(&format!("/{member}")), member, row.text(column)?)
                });
            }
        }
    }
}

/// The error of the API server about a member, without its field.
fn member_error(
    csv: &Csv<'_, '_>,
    definition: &Definition,
    row: Row<'_>,
    column: usize,
    member: &str,
) -> Option<String> {
    let is_mutating = definition.webhook_type == "MutatingAdmissionWebhook";
    let is_admission = is_mutating || definition.webhook_type == "ValidatingAdmissionWebhook";
    if !is_admission && !definition.converts() {
        return None;
    }
    match member {
        "webhookPath" => path_error(row.text(column)?),
        "admissionReviewVersions" => versions_error(csv, definition, row.length(column)?),
        _ if !is_admission => None,
        "generateName" => name_error(row.text(column)?),
        // CSV-84 reports an empty value.
        "sideEffects" => unsupported_error(
            row.text(column).filter(|value| !value.is_empty())?,
            ["None", "NoneOnDryRun"],
        ),
        "failurePolicy" => unsupported_error(row.text(column)?, ["Fail", "Ignore"]),
        "matchPolicy" => unsupported_error(row.text(column)?, ["Equivalent", "Exact"]),
        "reinvocationPolicy" if is_mutating => {
            unsupported_error(row.text(column)?, ["IfNeeded", "Never"])
        }
        "timeoutSeconds" if row.kind(column) == Kind::Number => {
            timeout_error(csv.object.integer(&definition.pointer("/timeoutSeconds"))?)
        }
        _ => None,
    }
}

/// The value with the spelling of the API, and a path with a slash before it.
fn correct(pointer: &str, member: &str, value: &str) -> Option<Fix> {
    let words: &[&str] = match member {
        "sideEffects" => &["None", "NoneOnDryRun"],
        "failurePolicy" => &["Fail", "Ignore"],
        "matchPolicy" => &["Equivalent", "Exact"],
        "reinvocationPolicy" => &["IfNeeded", "Never"],
        "webhookPath" => {
            let path = format!("/{}", value.trim_start_matches('/'));
            return path_error(&path).is_none().then(|| corrections::write(pointer, &path));
        }
        _ => return None,
    };
    corrections::spelling(pointer, value, words)
}

fn invalid_message(value: &str, error: &str) -> String {
    let value = go::quote(&go::shorten(value, MAX_SHOWN_BYTES));
    format!("Invalid value: {value}: {error}")
}

fn unsupported_error(value: &str, supported: [&str; 2]) -> Option<String> {
    if supported.contains(&value) {
        return None;
    }
    let value = go::quote(&go::shorten(value, MAX_SHOWN_BYTES));
    let [one, other] = supported.map(go::quote);
    Some(format!("Unsupported value: {value}: supported values: {one}, {other}"))
}

fn name_error(name: &str) -> Option<String> {
    // CSV-84 reports a missing name.
    if name.is_empty() {
        return None;
    }
    let errors = names::subdomain_errors(name);
    if !errors.is_empty() {
        return Some(invalid_message(name, &errors.join(",")));
    }
    if name.split('.').count() < 3 {
        let error = "should be a domain with at least three segments separated by dots";
        return Some(invalid_message(name, error));
    }
    let is_too_long = name.len() > MAX_LABEL_BYTES;
    is_too_long.then(|| invalid_message(name, "must be no more than 63 characters"))
}

fn timeout_error(seconds: i64) -> Option<String> {
    let is_wrong = !(1..=30).contains(&seconds);
    is_wrong.then(|| {
        format!("Invalid value: {seconds}: the timeout value must be between 1 and 30 seconds")
    })
}

/// The first error of `ValidateWebhookService` about a path.
fn path_error(path: &str) -> Option<String> {
    if matches!(path, "" | "/") {
        return None;
    }
    let Some(parts) = path.strip_prefix('/') else {
        return Some(invalid_message(path, "must start with a '/'"));
    };
    let parts = parts.strip_suffix('/').unwrap_or(parts);
    for (index, part) in parts.split('/').enumerate() {
        if part.is_empty() {
            return Some(invalid_message(path, &format!("segment[{index}] may not be empty")));
        }
        if let Some(error) = names::subdomain_errors(part).first() {
            return Some(invalid_message(path, &format!("segment[{index}]: {error}")));
        }
    }
    None
}

fn versions_error(csv: &Csv<'_, '_>, definition: &Definition, length: u32) -> Option<String> {
    let versions = lists::texts(csv.object, &definition.pointer("/admissionReviewVersions"));
    let is_accepted = versions.iter().any(|version| VERSIONS.contains(&version.as_str()));
    // CSV-84 reports an empty list.
    let are_texts = usize::try_from(length) == Ok(versions.len());
    if versions.is_empty() || is_accepted || !are_texts {
        return None;
    }
    let shown = versions.iter().take(MAX_SHOWN_VERSIONS);
    let shown: Vec<_> =
        shown.map(|version| go::quote(&go::shorten(version, MAX_SHOWN_BYTES))).collect();
    let more = if versions.len() > MAX_SHOWN_VERSIONS { ",…" } else { "" };
    let shown = shown.join(",");
    Some(format!("Invalid value: [{shown}{more}]: must include at least one of v1, v1beta1"))
}
