//! Annotations of a ClusterServiceVersion in which OLM stores its group.

use opgate_sdk::copies::CopyMarks;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Report, Review, escape, rule, rules};

use super::MemberCsv;
use crate::kinds::CSV;
use crate::namespaces::NamespaceSet;
use crate::reads::{CSVS, GROUPS, NAMESPACES};

rules![OPG_30, OPG_31];

/// The annotations.
pub(super) const GROUP_ANNOTATIONS: [&str; 3] =
    ["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces"];
const TARGETS_ANNOTATION: &str = "/metadata/annotations/olm.targetNamespaces";

rule! {
    /// the membership annotations of a ClusterServiceVersion are those of its OperatorGroup
    ///
    /// The annotations `olm.operatorGroup`, `olm.operatorNamespace` and `olm.targetNamespaces` of a
    /// CSV, if they are present, are the name and namespace of the OperatorGroup in its namespace,
    /// and its targets, sorted and separated by commas (the empty string for all namespaces). While
    /// the group has no targets, the rule does not evaluate `olm.targetNamespaces`. On UPDATE, it
    /// evaluates only the annotations that change. Copies are exempt as for OPG-20. The rule does
    /// not evaluate a namespace without exactly one group. It reads OperatorGroups, Namespaces for
    /// selectors, and CSVs for originals.
    ///
    /// # Why
    ///
    /// OLM writes these annotations and overwrites other values. It copies the target namespaces
    /// from there to the deployments of the Operator (OpenShift 4.12, Operators, *Operator group
    /// CSV annotations* and *About Operator groups*). A manifest with other values was written for
    /// another group.
    ///
    /// # Remediation
    ///
    /// Remove the three annotations from the manifest; OLM adds them.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: etcdoperator.v0.9.4, namespace: payments}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The group of the namespace is payments.
    /// metadata: {namespace: payments, annotations: {olm.operatorGroup: other}}
    /// ```
    ///
    /// `message: annotation olm.operatorGroup is "other", expected "payments" from operator group
    /// payments/payments`
    pub(crate) OPG_30: Warn {
        name: "csv-membership-annotations-match-group",
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        source: ["OCP 4.12 L2048, L3256, L3391-3420", "OCP 4.15 L2339-2642", "OLM pkg/controller/operators/olm/operatorgroup.go"],
    }
}

impl MemberCsv<'_> {
    pub(super) fn check_group_annotations(
        &self,
        group: &Document,
        targets: &NamespaceSet,
        report: &mut Report<'_>,
    ) {
        let namespace = self.review.namespace();
        let name = group.text_or_empty("/metadata/name");
        for (key, text) in &self.annotations {
            let expected = match *key {
                "olm.operatorGroup" => name.clone(),
                "olm.operatorNamespace" => namespace.to_owned(),
                // OLM writes no targets while there are none.
                _ if targets.is_empty() => continue,
                _ => targets.iter().map(String::as_str).collect::<Vec<_>>().join(","),
            };
            if *text != expected {
                let (text, expected) = (quote(text), quote(&expected));
                let message = format!(
                    "annotation {key} is {text}, expected {expected} from operator group {namespace}/{name}"
                );
                report.add(&OPG_30, format!("metadata.annotations[{key}]"), message);
                report.set_fix(&OPG_30, || {
                    let fix = Fix::safe("remove the annotation, which OLM adds");
                    Some(fix.remove(format!("/metadata/annotations/{}", escape(key))))
                });
            }
        }
    }
}

rule! {
    /// a copied ClusterServiceVersion does not have the target namespaces
    ///
    /// A CSV with the label `olm.copiedFrom`, or with `status.reason: Copied`, does not have the
    /// annotation `olm.targetNamespaces`. Its other annotations may stay. The rule does not
    /// evaluate an UPDATE of a copy that had the annotation before. The rule applies to every such
    /// CSV, including those that OLM writes, and reads no cluster objects.
    ///
    /// # Why
    ///
    /// A copy is visible to the users of the namespace it is in. The annotation would show one
    /// tenant the namespaces of another, so OLM omits it from copies (OpenShift 4.12, Operators,
    /// *Operator group CSV annotations* and *Copied CSVs*).
    ///
    /// # Remediation
    ///
    /// Remove the annotation from the copy. If you wrote the CSV yourself, remove the label
    /// `olm.copiedFrom` as well: only OLM creates copies.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   labels: {olm.copiedFrom: operators}
    ///   annotations: {olm.operatorGroup: global-operators, olm.operatorNamespace: operators}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   labels: {olm.copiedFrom: operators}
    ///   annotations: {olm.targetNamespaces: "a,b"}
    /// ```
    ///
    /// `message: copied CSV must not carry the olm.targetNamespaces annotation`
    OPG_31: Warn {
        name: "no-target-namespaces-on-copied-csv",
        on: [CSV: Create | Update],
        source: ["OCP 4.12 L3425, L3783", "OCP 4.15 L2339-2642"],
    }
}

pub(super) fn check_copy(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let was_so = |old: &Document| {
        CopyMarks::of(old, review.namespace()).are_explicit() && old.has(TARGETS_ANNOTATION)
    };
    if object.has(TARGETS_ANNOTATION) && !review.ratchet_base().is_some_and(was_so) {
        let message = "copied CSV must not carry the olm.targetNamespaces annotation";
        report.add(&OPG_31, "metadata.annotations[olm.targetNamespaces]", message);
        report.set_fix(&OPG_31, || {
            Some(Fix::safe("remove the annotation").remove(TARGETS_ANNOTATION))
        });
    }
}
