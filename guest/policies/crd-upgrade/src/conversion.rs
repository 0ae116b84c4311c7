//! The conversion of a CRD: what a webhook needs of it.

use opgate_sdk::cluster::{Match, Query};
use opgate_sdk::{Kind, Report, Review, rule, rules};

use crate::crd::Crd;
use crate::owners::is_installed;
use crate::reads::CSVS;
use crate::targets::CRD;

rules![CRD_08, CRD_16];

pub(crate) fn judge(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    if review.creates() {
        webhook(crd, report);
    }
    preserving(review, crd, report);
}

rule! {
    /// a conversion webhook has review versions and an address
    ///
    /// If `spec.conversion.strategy` of a CRD in a file is `Webhook`, then
    /// `spec.conversion.webhook.conversionReviewVersions` has an entry, and
    /// `spec.conversion.webhook.clientConfig` is there with one of `url` and `service`. A CRD of
    /// `apiextensions.k8s.io/v1beta1` is not judged: that version has defaults, and other fields.
    /// The messages name the fields as the API server does.
    ///
    /// # Why
    ///
    /// The API server refuses such a CRD, so no request has it. In a bundle it would be noticed
    /// when the Operator is installed; the bundle validator of operator-framework/api finds it
    /// before.
    ///
    /// # Repair
    ///
    /// Add what is missing, or leave the conversion to the `webhookdefinitions` of the
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
        on: [CRD: Create],
        source: "api pkg/validation/internal/crd.go, pkg/validation/internal/crd_test.go",
    }
}

fn webhook(crd: &Crd<'_>, report: &mut Report<'_>) {
    if crd.is_v1beta1 || !crd.has_webhook() {
        return;
    }
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
        report.add(&CRD_08, "spec.conversion.webhook.clientConfig", message);
    }
    let versions = "/spec/conversion/webhook/conversionReviewVersions";
    if document.kind(versions) != Kind::List || document.length(versions) == Some(0) {
        let message = "spec.conversion.conversionReviewVersions: Required value";
        report.add(&CRD_08, "spec.conversion.webhook.conversionReviewVersions", message);
    }
}

rule! {
    /// a CRD that a conversion webhook converts prunes unknown fields
    ///
    /// `spec.preserveUnknownFields` of a CRD is not `true` while an installed
    /// ClusterServiceVersion of the cluster names the CRD in `conversionCRDs` of a webhook
    /// definition of type `ConversionWebhook`. Copies do not count, and neither does what is being
    /// deleted or has the phase `Replacing` or `Deleting`. An UPDATE is judged where it changes the
    /// field. Requests for the subresource `status` are not judged. The rule reads CSVs. CSV-95
    /// finds the same when the ClusterServiceVersion comes second.
    ///
    /// # Why
    ///
    /// The API server calls a conversion webhook only for a CRD that prunes unknown fields
    /// (OpenShift 4.12, Operators, *Conversion webhook constraints*), and OLM lets the
    /// ClusterServiceVersion fail (OLM `pkg/controller/install/webhook.go`).
    ///
    /// # Repair
    ///
    /// Set `spec.preserveUnknownFields` to `false`. Use `x-kubernetes-preserve-unknown-fields` in
    /// the schema where fields must stay open.
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
        on: [CRD: Create | Update],
        reads: [CSVS],
        source: "OCP 4.12 L20208-20210, L20292; OLM pkg/controller/install/webhook.go",
    }
}

fn preserving(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    const FIELD: &str = "/spec/preserveUnknownFields";
    if crd.document.boolean(FIELD) != Some(true)
        || !review.touches_json(crd.document, FIELD)
        || !report.is_on(&CRD_16)
    {
        return;
    }
    let names = [crd.name()];
    let matches = [Match { index: "conversion", values: &names, absent: false }];
    let mut is_converted = false;
    let answer = CSVS.each(Query { matches: &matches, ..Query::default() }, |csv| {
        let definitions = csv.rows("/spec/webhookdefinitions", &["/type"]);
        is_converted = is_installed(&csv)
            && definitions.iter().enumerate().any(|(index, definition)| {
                let crds = format!("/spec/webhookdefinitions/{index}/conversionCRDs");
                definition.text(0) == Some("ConversionWebhook")
                    && names.iter().any(|name| csv.texts(&crds).contains(name))
            });
        !is_converted
    });
    if report.answer(&[&CRD_16], "ClusterServiceVersions", answer).is_some() && is_converted {
        let message = "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion";
        report.add(&CRD_16, "spec.preserveUnknownFields", message);
    }
}
