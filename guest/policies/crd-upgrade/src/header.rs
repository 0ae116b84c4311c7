//! The name of a CRD, its API version, group and scope.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, corrections, crd_conversion, rule, rules};

use crate::crd;
use crate::names::CRD_29;
use crate::targets::CRD;

rules![CRD_01, CRD_02, CRD_03, CRD_05];

pub(crate) fn check(review: &Review<'_>, crd: &Document, report: &mut Report<'_>) {
    check_name(review, crd, report);
    check_scope(review, crd, report);
    if !review.is_update() {
        check_api_version(review, crd, report);
        check_group(crd, report);
    }
}

rule! {
    /// the name of a CRD is its plural and its group
    ///
    /// `metadata.name` is `spec.names.plural`, a dot and `spec.group`. On UPDATE the rule is
    /// evaluated if one of the three changes. Requests for the subresource `status` are not
    /// evaluated.
    ///
    /// # Why
    ///
    /// The API server finds the definition of a resource by this name, and rejects any other
    /// (OpenShift 4.12, Operators, *Creating a custom resource definition*). No other check rejects
    /// the file before you apply it.
    ///
    /// # Remediation
    ///
    /// Rename the object, or correct `spec.names.plural` or `spec.group`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: crontabs.stable.example.com}
    /// spec: {group: stable.example.com, names: {plural: crontabs, kind: CronTab}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: crontab.stable.example.com}
    /// spec: {group: stable.example.com, names: {plural: crontabs, kind: CronTab}}
    /// ```
    ///
    /// `message: metadata.name: Invalid value: "crontab.stable.example.com": must be
    /// spec.names.plural+"."+spec.group`
    CRD_01: Deny {
        name: "crd-name-matches-plural-and-group",
        on: [CRD: Create | Update],
        source: ["OCP 4.12 L4866-4891", "OCP 4.15 L3019-3098", "OCP 4.5 L1485-1505"],
    }
}

fn check_name(review: &Review<'_>, crd: &Document, report: &mut Report<'_>) {
    let inspected = ["/metadata/name", "/spec/names/plural", "/spec/group"];
    if !inspected.iter().any(|pointer| review.touches_json(crd, pointer)) {
        return;
    }
    let [name, plural, group] = inspected.map(|pointer| crd.text_or_empty(pointer));
    if name.strip_prefix(&plural).and_then(|rest| rest.strip_prefix('.')) != Some(&group) {
        let name = quote(&name);
        let message = format!(
            "metadata.name: Invalid value: {name}: must be spec.names.plural+\".\"+spec.group"
        );
        if review.is_from_file() && !crd::is_v1beta1(crd) {
            report.add_once("metadata.name", [(&CRD_01, message.clone()), (&CRD_29, message)]);
        } else {
            report.add(&CRD_01, "metadata.name", message);
        }
        report.set_fix(&CRD_01, || {
            let is_named = !plural.is_empty() && !group.is_empty();
            let name = format!("{plural}.{group}");
            is_named.then(|| corrections::propose("/metadata/name", &name))
        });
    }
}

rule! {
    /// a CRD is of apiextensions.k8s.io/v1
    ///
    /// A CRD that is created, or is in a file, does not have the `apiVersion`
    /// `apiextensions.k8s.io/v1beta1`. The other rules read such a CRD like an API server that
    /// still supports it: `spec.version` counts if `spec.versions` is missing, and
    /// `spec.validation` if a version has no schema. For a CRD in a bundle RBF-26 reports the same
    /// violation instead of this rule.
    ///
    /// # Why
    ///
    /// Kubernetes 1.22 removed the old version. The documentation of OpenShift 4.5 still uses it;
    /// all later editions require `apiextensions.k8s.io/v1` (OpenShift 4.12, Operators, *Creating a
    /// custom resource definition*). Therefore the rule only warns.
    ///
    /// # Remediation
    ///
    /// Write the CRD for `apiextensions.k8s.io/v1`, with a schema for each version.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: apiextensions.k8s.io/v1
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: apiextensions.k8s.io/v1beta1
    /// ```
    ///
    /// `message: Use the apiextensions.k8s.io/v1 API.`
    CRD_02: Warn {
        name: "crd-api-version-v1",
        on: [CRD: Create],
        source: ["OCP 4.12 L4886", "OCP 4.5 L1485-1501"],
    }
}

fn check_api_version(review: &Review<'_>, crd: &Document, report: &mut Report<'_>) {
    if crd::is_v1beta1(crd) && !review.is_from_bundle() {
        report.add(&CRD_02, "apiVersion", "Use the apiextensions.k8s.io/v1 API.");
        report.set_fix(&CRD_02, || crd_conversion::to_v1(crd));
    }
}

rule! {
    /// the scope of a CRD is Namespaced or Cluster
    ///
    /// `spec.scope` is `Namespaced` or `Cluster`. In `apiextensions.k8s.io/v1beta1` it can be
    /// missing, which means `Namespaced`. On UPDATE the rule is evaluated if the field changes.
    /// Requests for the subresource `status` are not evaluated.
    ///
    /// # Why
    ///
    /// The API server supports no other scope (OpenShift 4.12, Operators, *Creating a custom
    /// resource definition*). No other check rejects the file before you apply it.
    ///
    /// # Remediation
    ///
    /// Write `Namespaced` for objects of projects, and `Cluster` for objects outside of projects.
    /// You cannot change the scope of an existing CRD.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {scope: Namespaced}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {scope: Global}
    /// ```
    ///
    /// `message: spec.scope: Unsupported value: "Global": supported values: "Cluster",
    /// "Namespaced"`
    ///
    /// Without a scope: `message: spec.scope: Required value`
    CRD_03: Deny {
        name: "crd-known-scope",
        on: [CRD: Create | Update],
        source: ["OCP 4.12 L4906", "OCP 4.15 L3019-3098"],
    }
}

fn check_scope(review: &Review<'_>, crd: &Document, report: &mut Report<'_>) {
    const SCOPE: &str = "/spec/scope";
    if !review.touches_json(crd, SCOPE) {
        return;
    }
    let message = match crd.text_or_empty(SCOPE).as_str() {
        "Cluster" | "Namespaced" => return,
        "" if crd::is_v1beta1(crd) => return,
        "" => "spec.scope: Required value".to_owned(),
        other => format!(
            "spec.scope: Unsupported value: {}: supported values: \"Cluster\", \"Namespaced\"",
            quote(other)
        ),
    };
    report.add(&CRD_03, "spec.scope", message);
    report.set_fix(&CRD_03, || {
        corrections::spelling(SCOPE, &crd.text(SCOPE)?, &["Cluster", "Namespaced"])
    });
}

rule! {
    /// the group of a CRD is a fully qualified domain name
    ///
    /// `spec.group` of a CRD that is created, or is in a file, has at least two labels:
    /// `stable.example.com`, not `stable`. Empty labels do not count.
    ///
    /// # Why
    ///
    /// If two vendors choose the same short name, only one of their CRDs can be installed
    /// (OpenShift 4.12, Operators, *Creating a custom resource definition*). The API server also
    /// rejects a group without a dot.
    ///
    /// # Remediation
    ///
    /// Use a domain of your organization for the group.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {group: stable.example.com}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {group: stable}
    /// ```
    ///
    /// `message: a good practice is to use a fully-qualified-domain name (FQDN) of your
    /// organization as spec.group, got "stable"`
    CRD_05: Warn {
        name: "crd-group-dns-subdomain",
        on: [CRD: Create],
        source: ["OCP 4.12 L4896", "OCP 4.15 L3019-3098"],
    }
}

fn check_group(crd: &Document, report: &mut Report<'_>) {
    let group = crd.text_or_empty("/spec/group");
    if group.split('.').filter(|label| !label.is_empty()).nth(1).is_none() {
        let group = quote(&group);
        let message = format!(
            "a good practice is to use a fully-qualified-domain name (FQDN) of your organization as spec.group, got {group}"
        );
        report.add(&CRD_05, "spec.group", message);
    }
}
