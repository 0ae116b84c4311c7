//! What a CRD is called, and in which group and scope.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::CRD;

rules![CRD_01];

pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    name(review, report);
}

rule! {
    /// the name of a CRD is its plural and its group
    ///
    /// `metadata.name` is `spec.names.plural`, a dot and `spec.group`. An UPDATE is judged where it
    /// changes one of the three. Requests for the subresource `status` are not judged.
    ///
    /// # Why
    ///
    /// The API server finds the definition of a resource by this name, and refuses any other
    /// (OpenShift 4.12, Operators, *Creating a custom resource definition*). In a file, nothing
    /// refuses it before the file is applied.
    ///
    /// # Repair
    ///
    /// Rename the object, or correct `spec.names.plural` or `spec.group`.
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
        on: [CRD: Create | Update],
        source: "OCP 4.12 L4866-4891; OCP 4.15 L3019-3098; OCP 4.5 L1485-1505",
    }
}

fn name(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(crd) = review.subject() else { return };
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
        report.add(&CRD_01, "metadata.name", message);
    }
}
