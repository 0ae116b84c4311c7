//! The conversion of a CRD, and the fields that a conversion webhook requires.

use std::collections::BTreeSet;

use opgate_compat::names::dns1035_errors;
use opgate_sdk::cluster::IndexMatch;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, InputType, Kind, Report, Review, corrections, rule, rules};

use crate::crd::Crd;
use crate::owners::{Budget, INCOMPLETE_REASON, is_installed};
use crate::reads::CSVS;
use crate::targets::CRD;

rules![CRD_08, CRD_16, CRD_30, CRD_31];

pub(crate) fn check(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    if !review.is_update() || review.is_from_file() {
        check_webhook(review, crd, report);
    }
    if review.is_from_file() && !crd.is_v1beta1 {
        check_valid(crd, report);
    }
    if review.is_from_file() {
        check_pruning(review, crd, report);
    }
    check_preserving(review, crd, report);
}

rule! {
    /// a conversion webhook has review versions and an address
    ///
    /// If `spec.conversion.strategy` of a CRD in a file is `Webhook`, then
    /// `spec.conversion.webhook.conversionReviewVersions` has an entry, and
    /// `spec.conversion.webhook.clientConfig` is set with one of `url` and `service`. A CRD of
    /// `apiextensions.k8s.io/v1beta1` is not evaluated: that version has defaults and different
    /// fields. The messages name the fields like the API server.
    ///
    /// # Why
    ///
    /// The API server rejects such a CRD, so requests never contain it. In a bundle the error would
    /// occur when the Operator is installed; the bundle validator of operator-framework/api reports
    /// it earlier.
    ///
    /// # Remediation
    ///
    /// Add the missing fields, or define the conversion in the `webhookdefinitions` of the
    /// ClusterServiceVersion, which OLM writes into the CRD.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {conversion: {strategy: None}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {url: "https://x"}}}}
    /// ```
    ///
    /// `message: spec.conversion.conversionReviewVersions: Required value`
    ///
    /// Without an address: `message: spec.conversion.webhookClientConfig: Required value: required
    /// when strategy is set to Webhook`
    CRD_08: Deny {
        name: "crd-conversion-webhook-fields",
        on: [CRD: Create | Update],
        source: ["api pkg/validation/internal/crd.go, pkg/validation/internal/crd_test.go"],
    }
}

/// CRD-08 and CRD-30.
fn check_webhook(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    if crd.is_v1beta1 || !crd.has_webhook() {
        return;
    }
    let mut add = |member: &str, message: String| {
        let field = format!("spec.conversion.webhook.{member}");
        if review.is_from_file() {
            report.add_once(field, [(&CRD_08, message.clone()), (&CRD_30, message)]);
        } else {
            report.add(&CRD_08, field, message);
        }
    };
    let document = crd.document;
    let config = "/spec/conversion/webhook/clientConfig";
    let why = if document.kind(config) != Kind::Object {
        Some("required when strategy is set to Webhook")
    } else if document.has(&format!("{config}/url")) == document.has(&format!("{config}/service")) {
        Some("exactly one of url or service is required")
    } else {
        None
    };
    if let Some(why) = why {
        let message = format!("spec.conversion.webhookClientConfig: Required value: {why}");
        add("clientConfig", message);
    }
    if document.kind(REVIEW_VERSIONS) != Kind::List || document.length(REVIEW_VERSIONS) == Some(0) {
        let message = "spec.conversion.conversionReviewVersions: Required value";
        add("conversionReviewVersions", message.to_owned());
    }
}

rule! {
    /// the conversion of a CRD is valid in the Kubernetes API
    ///
    /// In a file, `spec.conversion.strategy` of a CRD of `apiextensions.k8s.io/v1` is `None` or
    /// `Webhook`. With `Webhook`, `webhook.clientConfig` has either a `url` with the scheme
    /// `https`, with a host and without user, query and fragment, or a `service` with `name` and
    /// `namespace`; `webhook.conversionReviewVersions` has `v1` or `v1beta1`, and no duplicate
    /// versions. With `None`, neither is set. CRD-08 reports a missing address or missing versions,
    /// and names this rule. A request for a CRD is not evaluated, because the API server has
    /// checked it.
    ///
    /// # Why
    ///
    /// The API server rejects the CRD when it is created, so the installation of the Operator
    /// fails.
    ///
    /// # Remediation
    ///
    /// Write `strategy: None` and remove `webhook`, or write `strategy: Webhook` and complete `webhook`. OLM writes
    /// the webhook into the CRD if the ClusterServiceVersion has a webhook definition of type `ConversionWebhook`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {conversion: {strategy: None}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {conversion: {strategy: Webhooks}}
    /// ```
    ///
    /// `message: spec.conversion.strategy: Unsupported value: "Webhooks": supported values: "None", "Webhook"`
    CRD_30: Deny {
        name: "valid-crd-conversion",
        on: [CRD: Create | Update],
        source: ["apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go", "OCP 4.12 L20120-20128"],
    }
}

const REVIEW_VERSIONS: &str = "/spec/conversion/webhook/conversionReviewVersions";

fn check_valid(crd: &Crd<'_>, report: &mut Report<'_>) {
    let document = crd.document;
    if !document.has("/spec/conversion") {
        return;
    }
    let mut add = |member: &str, why: &str| {
        let field = format!("spec.conversion.{member}");
        let message = format!("{field}: {why}");
        report.add(&CRD_30, field, message);
        report.set_fix(&CRD_30, || correct(document, member));
    };
    match document.text_or_empty("/spec/conversion/strategy").as_str() {
        "" => add("strategy", "Required value"),
        "Webhook" => {
            check_address(document, &mut add);
            check_review_versions(document, &mut add);
        }
        "None" => {
            for member in ["clientConfig", "conversionReviewVersions"] {
                let at = format!("/spec/conversion/webhook/{member}");
                if document.has(&at) && document.length(&at) != Some(0) {
                    let why = "Forbidden: should not be set when strategy is not set to Webhook";
                    add(&format!("webhook.{member}"), why);
                }
            }
        }
        other => {
            let other = quote(other);
            add(
                "strategy",
                &format!("Unsupported value: {other}: supported values: \"None\", \"Webhook\""),
            );
        }
    }
}

/// The strategy or the path that a wrong one means, or the list without a duplicate.
fn correct(document: &Document, member: &str) -> Option<Fix> {
    let pointer = format!("/spec/conversion/{}", member.replace('.', "/"));
    if let Some((list, index)) = member.strip_suffix(']').and_then(|member| member.split_once('['))
    {
        let list = format!("/spec/conversion/{}", list.replace('.', "/"));
        let versions = document.texts(&list);
        let index: usize = index.parse().ok()?;
        let is_known = versions.iter().take(index).any(|known| versions.get(index) == Some(known));
        let fix = Fix::safe("remove the duplicate");
        return is_known.then(|| fix.remove(format!("{list}/{index}")));
    }
    let value = document.text(&pointer)?;
    match member {
        "strategy" => corrections::spelling(&pointer, &value, &["None", "Webhook"]),
        "webhook.clientConfig.service.path" => {
            Some(corrections::write(pointer, &format!("/{value}")))
        }
        _ => None,
    }
}

/// The URL or the service of a webhook. CRD-08 checks that exactly one of them is set.
fn check_address(document: &Document, add: &mut impl FnMut(&str, &str)) {
    const FIELD: &str = "webhook.clientConfig";
    let config = "/spec/conversion/webhook/clientConfig";
    if let Some(url) = document.text(&format!("{config}/url")) {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let why = if scheme != "https" {
            "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        } else if host.is_empty() {
            "host must be specified; desired format: https://host[/path]"
        } else if host.contains('@') {
            "user information is not permitted in the URL"
        } else if rest.split_once('#').is_some_and(|(_, fragment)| !fragment.is_empty()) {
            "fragments are not permitted in the URL"
        } else if rest.split_once('?').is_some_and(|(_, query)| !query.is_empty()) {
            "query parameters are not permitted in the URL"
        } else {
            return;
        };
        add(&format!("{FIELD}.url"), &format!("Invalid value: {}: {why}", quote(&url)));
        return;
    }
    if !document.has(&format!("{config}/service")) {
        return;
    }
    for member in ["name", "namespace"] {
        if document.text_or_empty(&format!("{config}/service/{member}")).is_empty() {
            add(&format!("{FIELD}.service.{member}"), "Required value");
        }
    }
    let port = document.integer(&format!("{config}/service/port"));
    if let Some(port) = port.filter(|port| !(1..=65_535).contains(port)) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        add(&format!("{FIELD}.service.port"), &format!("Invalid value: {port}: {why}"));
    }
    let path = document.text_or_empty(&format!("{config}/service/path"));
    if !path.is_empty() && !path.starts_with('/') {
        let why = format!("Invalid value: {}: must start with a '/'", quote(&path));
        add(&format!("{FIELD}.service.path"), &why);
    }
}

fn check_review_versions(document: &Document, add: &mut impl FnMut(&str, &str)) {
    let versions = document.texts(REVIEW_VERSIONS);
    let field = "webhook.conversionReviewVersions";
    let mut known = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let errors = dns1035_errors(version);
        let why = if !known.insert(version.as_str()) {
            "duplicate version".to_owned()
        } else if !errors.is_empty() {
            errors.join(",")
        } else {
            continue;
        };
        add(&format!("{field}[{index}]"), &format!("Invalid value: {}: {why}", quote(version)));
    }
    if !versions.is_empty() && !known.contains("v1") && !known.contains("v1beta1") {
        let listed: Vec<_> = versions.iter().map(|version| quote(version)).collect();
        let listed = listed.join(",");
        add(field, &format!("Invalid value: [{listed}]: must include at least one of v1, v1beta1"));
    }
}

rule! {
    /// a CRD in a file prunes unknown fields
    ///
    /// In a file, `spec.preserveUnknownFields` of a CRD of `apiextensions.k8s.io/v1` is not `true`.
    /// In a bundle, the field of a CRD of `apiextensions.k8s.io/v1beta1` is `false`, because its
    /// default is `true`. A request for a CRD is not evaluated, because the API server has checked
    /// it.
    ///
    /// # Why
    ///
    /// The field exists for CRDs of `apiextensions.k8s.io/v1beta1`, where its default was `true`.
    /// The API server rejects a new CRD with it, so the installation of the Operator fails.
    /// `operator-sdk bundle validate` also rejects bundles with such CRDs of `v1beta1`: Kubernetes
    /// 1.22 and later serve only `v1`.
    ///
    /// # Remediation
    ///
    /// Migrate the CRD to `apiextensions.k8s.io/v1`. Remove the field, or set it to `false`. Set
    /// `x-kubernetes-preserve-unknown-fields: true` in the schema of each value that can have any
    /// fields.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {preserveUnknownFields: false}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {preserveUnknownFields: true}
    /// ```
    ///
    /// `message: spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the
    /// schema`
    CRD_31: Deny {
        name: "crd-file-prunes-unknown-fields",
        on: [CRD: Create | Update],
        source: ["apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go"],
    }
}

fn check_pruning(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    const FIELD: &str = "spec.preserveUnknownFields";
    let value = crd.document.boolean("/spec/preserveUnknownFields");
    if !crd.is_v1beta1 && value == Some(true) {
        let message = format!(
            "{FIELD}: Invalid value: true: must be false in order to use defaults in the schema"
        );
        report.add(&CRD_31, FIELD, message);
        report.set_fix(&CRD_31, || {
            let fix = Fix::needs_review("remove the field: unknown fields are pruned");
            Some(fix.remove("/spec/preserveUnknownFields"))
        });
    }
    // The validator of bundles applies the default of v1beta1, and the rules of v1.
    if crd.is_v1beta1 && value != Some(false) && review.input_type() == InputType::Bundle {
        let message = format!(
            "{FIELD}: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        );
        report.add(&CRD_31, FIELD, message);
    }
}

rule! {
    /// a CRD that a conversion webhook converts prunes unknown fields
    ///
    /// `spec.preserveUnknownFields` of a CRD is not `true` while an installed ClusterServiceVersion
    /// of the cluster names the CRD in `conversionCRDs` of a webhook definition of type
    /// `ConversionWebhook`. Copies do not count, nor do ClusterServiceVersions that are being
    /// deleted or have the phase `Replacing` or `Deleting`. On UPDATE the rule is evaluated if the
    /// field changes. Requests for the subresource `status` are not evaluated. The rule reads CSVs.
    /// CSV-95 reports the same conflict if the ClusterServiceVersion is created later, and CRD-31
    /// rejects the field in every file.
    ///
    /// # Why
    ///
    /// The API server calls a conversion webhook only for a CRD that prunes unknown fields
    /// (OpenShift 4.12, Operators, *Conversion webhook constraints*), and OLM sets the
    /// ClusterServiceVersion to failed (OLM `pkg/controller/install/webhook.go`).
    ///
    /// # Remediation
    ///
    /// Set `spec.preserveUnknownFields` to `false`. Use `x-kubernetes-preserve-unknown-fields` in
    /// the schema of values that need unknown fields.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {preserveUnknownFields: false}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # webhook-operator.v0.0.1 converts the CRD.
    /// metadata: {name: webhooktests.webhook.operators.coreos.io}
    /// spec: {preserveUnknownFields: true}
    /// ```
    ///
    /// `message: crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do
    /// the conversion`
    CRD_16: Deny {
        name: "converted-crd-prunes-unknown-fields",
        on: [CRD: Create | Update],
        reads: [CSVS],
        source: ["OCP 4.12 L20208-20210, L20292", "OLM pkg/controller/install/webhook.go"],
    }
}

fn check_preserving(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    const FIELD: &str = "/spec/preserveUnknownFields";
    const DEFINITIONS: &str = "/spec/webhookdefinitions";
    let is_reported = review.is_from_file() && !crd.is_v1beta1 && report.is_on(&CRD_31);
    if is_reported
        || crd.document.boolean(FIELD) != Some(true)
        || !review.touches_json(crd.document, FIELD)
        || !report.is_on(&CRD_16)
    {
        return;
    }
    let names = [crd.name()];
    let matches = [IndexMatch { index: "conversion", values: &names, include_missing: false }];
    let mut is_converted = false;
    let answer = Budget::default().visit_csvs(&matches, DEFINITIONS, |csv| {
        let definitions = csv.rows(DEFINITIONS, &["/type"]);
        is_converted = is_installed(csv)
            && definitions.iter().enumerate().any(|(index, definition)| {
                let crds = format!("{DEFINITIONS}/{index}/conversionCRDs");
                definition.text(0) == Some("ConversionWebhook")
                    && names.iter().any(|name| csv.texts(&crds).contains(name))
            });
        !is_converted
    });
    let is_all = report.or_skip(&[&CRD_16], "ClusterServiceVersions", answer);
    if is_all == Some(false) {
        report.skip_part(&CRD_16, "spec.preserveUnknownFields", INCOMPLETE_REASON);
    }
    if is_all.is_some() && is_converted {
        let message = "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion";
        report.add(&CRD_16, "spec.preserveUnknownFields", message);
    }
}
