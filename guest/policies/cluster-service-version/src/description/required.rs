//! Fields that the documents require in every ClusterServiceVersion.

use opgate_sdk::{Shape, rule, rules};

use crate::csv::Csv;
use crate::object::is_blank;
use crate::targets::{CATALOG, CSV};

rules![CSV_09, CSV_10, CSV_11, CSV_13];

const PROVIDER: &str = "/spec/provider/name";

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    if is_missing(csv, "displayName") {
        csv.add(&CSV_09, "spec.displayName", "required field missing: Spec.DisplayName");
    }
    if is_missing(csv, "description") {
        let message = "spec.description is required: A short description of the functionality of the Operator";
        csv.add(&CSV_10, "spec.description", message);
    }
    for (member, is_applicable) in [("keywords", true), ("labels", requires_labels(csv))] {
        if is_applicable && is_missing(csv, member) {
            let field = format!("spec.{member}");
            csv.add(&CSV_11, &field, format!("{field} is required"));
        }
    }
    if csv.has_member_set("provider")
        && csv.object.text_or_empty(PROVIDER).trim().is_empty()
        && csv.touches(PROVIDER, &Shape::Scalar)
    {
        csv.add(&CSV_13, "spec.provider.name", "csv.Spec.Provider.Name not specified");
    }
}

/// Whether the setting requires `spec.labels`. No tool requires the field, and no generator writes
/// it.
fn requires_labels(csv: &Csv<'_, '_>) -> bool {
    csv.review.settings.boolean("/csv/requireLabels") == Some(true)
}

/// Whether a member of the spec is missing or empty, and was not before.
fn is_missing(csv: &Csv<'_, '_>, member: &str) -> bool {
    let pointer = format!("/spec/{member}");
    csv.has_member_set(member)
        && csv.object.is_blank(&pointer)
        && csv.ratchet_base().is_none_or(|old| !is_blank(old, &pointer))
}

rule! {
    /// spec.displayName is set
    ///
    /// `spec.displayName` is set and is not empty. A bundle without it is denied, as `operator-sdk
    /// bundle validate` does; elsewhere this is a warning, because OLM and opm accept it. The
    /// setting `csv.requiredFields: deny` makes this rule deny everywhere. Copies that OLM makes
    /// are exempt. An UPDATE is evaluated only if it changes the field.
    ///
    /// # Why
    ///
    /// The documents list the field as required, and mention that the Operator SDK warns if it is
    /// missing; some ClusterServiceVersions in the documents do not have it (OpenShift 4.12,
    /// Operators, *Manually-defined CSV fields*). The console shows this name, and the validators
    /// of operator-framework/api report an error.
    ///
    /// # Remediation
    ///
    /// Set the public name of the Operator.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {displayName: etcd}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: webhook-operator.v0.0.1}
    /// spec: {description: Webhook Operator}
    /// ```
    ///
    /// `message: required field missing: Spec.DisplayName`
    CSV_09: Deny {
        name: "csv-has-display-name",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        denies_in: [Bundle],
        source: ["OCP 4.12 L19185, L19211-19215, L20102-20183", "OCP 4.15 L14273, L14282", "api pkg/validation/internal/csv.go, crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

rule! {
    /// spec.description is set
    ///
    /// `spec.description` is set and is not empty. The setting `csv.requiredFields: deny` makes
    /// this rule deny. Copies that OLM makes are exempt. An UPDATE is evaluated only if it changes
    /// the field.
    ///
    /// # Why
    ///
    /// The documents list the field as required (OpenShift 4.12, Operators, *Manually-defined CSV
    /// fields*). The console shows it, in Markdown, to users who choose an Operator.
    ///
    /// # Remediation
    ///
    /// Describe the function of the Operator.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {description: Etcd Operator}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {displayName: etcd}
    /// ```
    ///
    /// `message: spec.description is required: A short description of the functionality of the
    /// Operator`
    CSV_10: Warn {
        name: "csv-has-description",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L19185, L19220-19224", "OCP 4.15 L14283"],
    }
}

rule! {
    /// spec.keywords is set, and spec.labels if the setting requires it
    ///
    /// `spec.keywords` has at least one keyword. If the setting `csv.requireLabels` is `true`,
    /// `spec.labels` has at least one label; by default the rule does not evaluate the labels. The
    /// setting `csv.requiredFields: deny` makes this rule deny. Copies that OLM makes are exempt.
    /// On UPDATE, the rule evaluates only those of the two fields that the request changes.
    ///
    /// # Why
    ///
    /// The documents list both fields as required (OpenShift 4.12, Operators, *Manually-defined CSV
    /// fields*). Users find an Operator in the console by its keywords. No tool requires the
    /// labels, and no generator writes them: most published Operators have none.
    ///
    /// # Remediation
    ///
    /// Add the words that users search for. If `csv.requireLabels` is set, add a label with the name of
    /// the Operator.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {keywords: [etcd], labels: {name: etcdoperator}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {labels: {name: etcdoperator}}
    /// ```
    ///
    /// `message: spec.keywords is required`
    CSV_11: Warn {
        name: "csv-has-keywords",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L19185, L19229-19233, L19256-19260", "OCP 4.15 L14284, L14287"],
    }
}

rule! {
    /// spec.provider has a name
    ///
    /// `spec.provider.name` is set and not blank. The setting `csv.requiredFields: deny` makes this
    /// rule deny. Copies that OLM makes are exempt. An UPDATE is evaluated only if it changes the
    /// name.
    ///
    /// # Why
    ///
    /// The documents list the provider as required, usually an organization (OpenShift 4.12,
    /// Operators, *Manually-defined CSV fields*). OperatorHub does not accept a bundle without
    /// its name.
    ///
    /// # Remediation
    ///
    /// Set the name of the provider of the Operator.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {provider: {name: Red Hat}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {provider: {}}
    /// ```
    ///
    /// `message: csv.Spec.Provider.Name not specified`
    CSV_13: Warn {
        name: "csv-has-provider-name",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L19185, L19247-19251", "OCP 4.15 L14286", "api pkg/validation/internal/operatorhub.go"],
    }
}
