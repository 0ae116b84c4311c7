//! The names of a CRD, and the approval that groups of Kubernetes need.

use opgate_compat::go::url;
use opgate_compat::names::dns1035_errors;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, corrections, escape, rule, rules};

use crate::crd::Crd;
use crate::targets::CRD;

rules![CRD_29, CRD_32];

/// Evaluates a CRD of `apiextensions.k8s.io/v1` in a file.
pub(crate) fn check(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    if review.is_from_file() && !crd.is_v1beta1 {
        check_names(crd.document, report);
        check_approval(crd.document, report);
    }
}

rule! {
    /// the names of a CRD are valid in the Kubernetes API
    ///
    /// In a file, `spec.names` of a CRD of `apiextensions.k8s.io/v1` has a `plural` and a `kind`.
    /// `plural`, `singular`, `shortNames` and `categories` are DNS-1035 labels; so are `kind` and
    /// `listKind`, which can have upper-case letters. `listKind` differs from `kind`. With
    /// `spec.group`, `plural` is the name of the CRD: CRD-01 reports a difference, and names this
    /// rule. A request for a CRD is not evaluated, because the API server has checked it.
    ///
    /// # Why
    ///
    /// The API server rejects the CRD when it is created, so the installation of the Operator
    /// fails.
    ///
    /// # Remediation
    ///
    /// Write all names except `kind` and `listKind` in lower case, and name the list after the kind
    /// with the suffix `List`. If `singular` and `listKind` are not set, the API server sets them.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTab}
    /// ```
    ///
    /// `message: spec.names.listKind: Invalid value: "CronTab": kind and listKind may not be the same`
    pub(crate) CRD_29: Deny {
        name: "valid-crd-names",
        on: [CRD: Create | Update],
        source: ["apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go", "OCP 4.12 L4906"],
    }
}

fn check_names(crd: &Document, report: &mut Report<'_>) {
    if !report.is_on(&CRD_29) {
        return;
    }
    let [crd_name, group] = ["/metadata/name", "/spec/group"].map(|name| crd.text_or_empty(name));
    let is_name = |plural: &str| crd_name == format!("{plural}.{group}");
    let mut add = |field: String, name: &str, why: &str| {
        let pointer = field;
        let field = format!("spec.names.{pointer}");
        let message = format!("{field}: Invalid value: {}: {why}", quote(name));
        report.add(&CRD_29, field, message);
        report.set_fix(&CRD_29, || {
            let is_kind = matches!(pointer.as_str(), "kind" | "listKind");
            let pointer = format!("/spec/names/{}", pointer.replace('[', "/").replace(']', ""));
            let lower = name.trim().to_lowercase();
            // A plural is part of the name of the CRD.
            let is_free = pointer != "/spec/names/plural" || is_name(&lower);
            if why.starts_with("kind and listKind") {
                return Some(corrections::write(pointer, &format!("{name}List")));
            }
            let is_valid = dns1035_errors(&lower).is_empty();
            let right = if is_kind { name.trim() } else { &lower };
            (is_valid && is_free && right != name).then(|| corrections::write(pointer, right))
        });
    };
    let [plural, singular, kind, list_kind] = ["plural", "singular", "kind", "listKind"]
        .map(|name| crd.text_or_empty(&format!("/spec/names/{name}")));
    for (field, name) in [("plural", &plural), ("singular", &singular)] {
        let errors = dns1035_errors(name);
        if !name.is_empty() && !errors.is_empty() {
            add(field.to_owned(), name, &errors.join(","));
        }
    }
    for (field, name) in [("kind", &kind), ("listKind", &list_kind)] {
        let errors = dns1035_errors(&name.to_lowercase());
        if !name.is_empty() && !errors.is_empty() {
            let why = "may have mixed case, but should otherwise match: ";
            add(field.to_owned(), name, &format!("{why}{}", errors.join(",")));
        }
    }
    if !kind.is_empty() && kind == list_kind {
        add("listKind".to_owned(), &list_kind, "kind and listKind may not be the same");
    }
    for list in ["shortNames", "categories"] {
        for (index, row) in crd.rows(&format!("/spec/names/{list}"), &[""]).iter().enumerate() {
            let name = row.text_or_empty(0);
            let errors = dns1035_errors(name);
            if !errors.is_empty() {
                add(format!("{list}[{index}]"), name, &errors.join(","));
            }
        }
    }
    for (field, name) in [("plural", plural), ("kind", kind)] {
        // Without a plural, the name of the CRD differs: CRD-01.
        if name.is_empty()
            && (field == "kind" || crd.text_or_empty("/metadata/name").starts_with('.'))
        {
            let field = format!("spec.names.{field}");
            report.add(&CRD_29, &field, format!("{field}: Required value"));
        }
    }
}

const APPROVAL_ANNOTATION: &str = "api-approved.kubernetes.io";

rule! {
    /// a CRD of a group of Kubernetes has an approval annotation
    ///
    /// In a file, a CRD of `apiextensions.k8s.io/v1` whose `spec.group` is `k8s.io`, `kubernetes.io` or ends in
    /// `.k8s.io` or `.kubernetes.io` has the annotation `api-approved.kubernetes.io`: the URL of the pull request
    /// that approved it, or a text that begins with `unapproved`. A request for a CRD is not evaluated, because the
    /// API server has checked it.
    ///
    /// # Why
    ///
    /// These groups belong to the Kubernetes project. The API server rejects the CRD when it is
    /// created, so the installation of the Operator fails.
    ///
    /// # Remediation
    ///
    /// Use a group with your own domain. If the API belongs to Kubernetes, add the annotation with
    /// the URL of its approval.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: crontabs.stable.example.com}
    /// spec: {group: stable.example.com}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: crontabs.sigs.k8s.io}
    /// spec: {group: sigs.k8s.io}
    /// ```
    ///
    /// `message: protected groups must have approval annotation "api-approved.kubernetes.io", see
    /// https://github.com/kubernetes/enhancements/pull/1111`
    CRD_32: Deny {
        name: "crd-protected-group-approval",
        on: [CRD: Create | Update],
        source: ["apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go"],
    }
}

fn check_approval(crd: &Document, report: &mut Report<'_>) {
    let group = crd.text_or_empty("/spec/group");
    let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        let rest = group.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !is_protected {
        return;
    }
    let value =
        crd.text_or_empty(&format!("/metadata/annotations/{}", escape(APPROVAL_ANNOTATION)));
    let what = match value.as_str() {
        "" => "",
        text if text.starts_with("unapproved") || is_url(text) => return,
        _ => " with either a URL or a reason starting with \"unapproved\"",
    };
    let message = format!(
        "protected groups must have approval annotation \"{APPROVAL_ANNOTATION}\"{what}, see https://github.com/kubernetes/enhancements/pull/1111"
    );
    let field = if value.is_empty() {
        "metadata.annotations".to_owned()
    } else {
        format!("metadata.annotations[{APPROVAL_ANNOTATION}]")
    };
    report.add(&CRD_32, field, message);
}

/// Whether a text is a URL with a scheme and a host.
fn is_url(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, rest)| rest);
    let host = host.and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
    !host.is_empty() && url::check_request_uri(text).is_ok()
}
