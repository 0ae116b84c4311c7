//! Requests of Operators to the Cloud Credential Operator.

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Kind, Report, Review, escape, rule, rules};

use crate::targets::CREDENTIALS_REQUEST;

rules![MSC_14, MSC_15];

const NAMESPACE: &str = "openshift-cloud-credential-operator";

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    // The namespace of an object does not change. A file may have none: the user who applies it
    // chooses the namespace.
    let namespace = review.namespace();
    if review.ratchet_base().is_none() && !namespace.is_empty() && namespace != NAMESPACE {
        let message =
            "create CredentialsRequest objects in namespace openshift-cloud-credential-operator";
        report.add(&MSC_14, "metadata.namespace", message);
    }
    check_token_auth(review, object, report);
}

rule! {
    /// a CredentialsRequest is in the namespace of the Cloud Credential Operator
    ///
    /// The namespace is `openshift-cloud-credential-operator`. The rule does not evaluate a file
    /// without a namespace. It does not evaluate an UPDATE, because the namespace of an object does
    /// not change.
    ///
    /// # Why
    ///
    /// The documents put all requests there (OpenShift 4.15, Operators, *Token authentication*):
    /// the tool `ccoctl` and administrators search this namespace for them. The Secret for the
    /// Operator is created in the namespace of `spec.secretRef`.
    ///
    /// # Remediation
    ///
    /// Change `metadata.namespace`, and name the namespace of the Operator in `spec.secretRef`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: my-operator, namespace: openshift-cloud-credential-operator}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: my-operator, namespace: my-operator}
    /// ```
    ///
    /// `message: create CredentialsRequest objects in namespace
    /// openshift-cloud-credential-operator`
    MSC_14: Warn {
        name: "credentials-request-namespace",
        on: [CREDENTIALS_REQUEST: Create | Update],
        source: ["OCP 4.15 L16311-16327"],
    }
}

rule! {
    /// a CredentialsRequest has what token authentication needs
    ///
    /// With the setting `cluster.tokenAuth: aws-sts`, `spec.providerSpec.stsIAMRoleARN` and
    /// `spec.cloudTokenPath` are not empty. With `azure-workload-id`, `azureClientID`,
    /// `azureTenantID`, `azureRegion` and `azureSubscriptionID` of `spec.providerSpec`, and
    /// `spec.cloudTokenPath`, are not empty. The rule compares names in `providerSpec` without
    /// case. It does not evaluate a request whose `providerSpec.kind` is that of another cloud. The
    /// rule is off until you set `cluster.tokenAuth`. On UPDATE, the rule evaluates only the fields
    /// that the request changes.
    ///
    /// # Why
    ///
    /// On a cluster with short-lived tokens, the Cloud Credential Operator creates the Secret only
    /// for a request that has these fields (OpenShift 4.15, Operators, *Token authentication*).
    /// Without them, the Operator waits for a Secret that never appears.
    ///
    /// # Remediation
    ///
    /// Add the missing fields. Operators get the values as environment variables from their
    /// Subscription, such as `ROLEARN`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   cloudTokenPath: /var/run/secrets/openshift/serviceaccount/token
    ///   providerSpec: {kind: AWSProviderSpec, stsIAMRoleARN: "arn:aws:iam::1:role/x"}
    /// ```
    ///
    /// # Rejected
    ///
    /// The object above without `cloudTokenPath`.
    ///
    /// `message: CredentialsRequest "my-operator" lacks spec.cloudTokenPath required for token
    /// authentication`
    MSC_15: Warn {
        name: "credentials-request-supports-token-auth",
        on: [CREDENTIALS_REQUEST: Create | Update],
        enabled_by: ["/cluster/tokenAuth"],
        may_skip: true,
        source: ["OCP 4.15 L16170, L16182, L16286-16365, L16411-16419, L16778-16788"],
    }
}

const SPEC: &str = "/spec/providerSpec";
const PATH: &str = "/spec/cloudTokenPath";
/// Maximum number of members. More do not fit into the memory of a call. A request has about ten.
const MAX_MEMBERS: u32 = 1_024;

fn check_token_auth(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let (kind, needed): (_, &[&str]) =
        match review.settings.text_or_empty("/cluster/tokenAuth").as_str() {
            "aws-sts" => ("AWSProviderSpec", &["stsIAMRoleARN"]),
            "azure-workload-id" => (
                "AzureProviderSpec",
                &["azureClientID", "azureTenantID", "azureRegion", "azureSubscriptionID"],
            ),
            _ => return,
        };
    let own = object.text_or_empty(&format!("{SPEC}/kind"));
    if !(own.is_empty() || own == kind) {
        return;
    }
    if object.kind(SPEC) == Kind::Object && object.length(SPEC) > Some(MAX_MEMBERS) {
        report.skip(&MSC_15, "spec.providerSpec", "spec.providerSpec has too many members");
        return;
    }
    let is_text = |object: &Document, pointer: &str| !object.text_or_empty(pointer).is_empty();
    let mut lacks = |field: &str| {
        let name = quote(&shorten(&review.name(object), 256));
        let message =
            format!("CredentialsRequest {name} lacks {field} required for token authentication");
        report.add(&MSC_15, field, message);
    };
    let members = if object.kind(SPEC) == Kind::Object { object.keys(SPEC) } else { Vec::new() };
    let is_changed = review.touches_json(object, SPEC);
    for name in needed.iter().filter(|_| is_changed) {
        let mut same = members.iter().filter(|member| member.eq_ignore_ascii_case(name));
        if !same.any(|member| is_text(object, &format!("{SPEC}/{}", escape(member)))) {
            lacks(&format!("spec.providerSpec.{name}"));
        }
    }
    if !is_text(object, PATH) && review.touches_json(object, PATH) {
        lacks("spec.cloudTokenPath");
    }
}
