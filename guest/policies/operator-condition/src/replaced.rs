//! A ClusterServiceVersion that replaces another one, whose OperatorCondition may prevent it.
//!
//! ```text
//! marks of a copy ─▶ exempt?
//! spec.replaces, spec.skips ─▶ installed, with an OperatorCondition ─▶ upgradeable ─▶ violation
//! ```

use std::collections::HashSet;

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::copies::{CopyComparison, CopyMarks};
use opgate_sdk::{Document, Report, Review, Rule, Shape, rule, rules};

use crate::reads::{CONDITIONS, CSVS};
use crate::targets::{CSV, CSV_STATUS};
use crate::upgradeable;

rules![CND_06, CND_07];

static COPIES: CopyComparison = CopyComparison {
    read: &CSVS,
    compared_fields: &[
        ("/spec/replaces", Shape::Scalar),
        ("/spec/skips", Shape::List(&Shape::Scalar)),
    ],
    other_fields: &["/status/phase"],
};

const PENDING_PHASE: &str = "Pending";
const SKIPS: &str = "/spec/skips";

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(csv) = review.subject() else { return };
    let names_others = replaced_version(review, csv).is_some()
        || csv.length(SKIPS).is_some_and(|length| length > 0);
    if names_others && report.is_on(&CND_06) && !check_copy(review, csv, report) {
        check_replaced(&CND_06, find_objections(review, csv), report);
    }
}

pub(crate) fn check_status(review: &Review<'_>, report: &mut Report<'_>) {
    let (Some(csv), Some(old)) = (review.subject(), review.old_of_update()) else { return };
    let is_pending = |csv: &Document| csv.text_or_empty("/status/phase") == PENDING_PHASE;
    if !is_pending(old) || is_pending(csv) || !report.is_on(&CND_07) {
        return;
    }
    if let Some(replaced) = replaced_version(review, csv)
        && !check_copy(review, csv, report)
    {
        let why = upgrade_objection(review.namespace(), &replaced);
        let found = why.map(|why| why.map(|why| ("status.phase".to_owned(), why)));
        check_replaced(&CND_07, found.map(|found| found.into_iter().collect()), report);
    }
}

/// The version that a version replaces. OLM ignores its own name and an empty name.
fn replaced_version(review: &Review<'_>, csv: &Document) -> Option<String> {
    csv.text("/spec/replaces").filter(|name| !name.is_empty() && *name != review.name(csv))
}

fn check_copy(review: &Review<'_>, csv: &Document, report: &mut Report<'_>) -> bool {
    let marks = CopyMarks::of(csv, review.namespace());
    COPIES.check_copy(review, csv, &marks, report).is_exempt
}

/// Fields that name an installed version that is not upgradeable, each with the reason.
///
/// A list of skipped versions may be long, and few of them are installed. One query returns the
/// names of the namespace's conditions.
fn find_objections(
    review: &Review<'_>,
    csv: &Document,
) -> Result<Vec<(String, String)>, ReadError> {
    let namespace = review.namespace();
    let names = CONDITIONS.names(Query { namespace: Some(namespace), ..Query::default() })?;
    let mut names: HashSet<String> = names.into_iter().map(|name| name.name).collect();
    names.remove(&review.name(csv));
    let mut found = Vec::new();
    let mut ask = |name: &str, field: &dyn Fn() -> String| {
        // Each version once.
        if names.remove(name)
            && let Some(why) = upgrade_objection(namespace, name)?
        {
            found.push((field(), why));
        }
        Ok::<_, ReadError>(found.len() < Report::MAX_VIOLATIONS)
    };
    if let Some(replaced) = replaced_version(review, csv) {
        ask(&replaced, &|| "spec.replaces".to_owned())?;
    }
    for (index, row) in csv.rows(SKIPS, &[""]).iter().enumerate() {
        if !ask(row.text_or_empty(0), &|| format!("spec.skips[{index}]"))? {
            break;
        }
    }
    Ok(found)
}

/// The reason why an installed version is not upgradeable.
fn upgrade_objection(namespace: &str, name: &str) -> Result<Option<String>, ReadError> {
    if CSVS.get(namespace, name)?.is_none() {
        return Ok(None);
    }
    Ok(CONDITIONS.get(namespace, name)?.as_ref().and_then(upgradeable::upgrade_objection))
}

fn check_replaced(
    rule: &'static Rule,
    found: Result<Vec<(String, String)>, ReadError>,
    report: &mut Report<'_>,
) {
    let needed = "OperatorConditions and ClusterServiceVersions";
    for (field, why) in report.or_skip(&[rule], needed, found).into_iter().flatten() {
        report.add(rule, field, format!("operator is not upgradeable: {why}"));
    }
}

rule! {
    /// a version replaces only Operators that are upgradeable
    ///
    /// `spec.replaces` and `spec.skips` of a new ClusterServiceVersion name no installed version
    /// whose OperatorCondition prevents its replacement. The first of these entries of the type
    /// `Upgradeable` decides: that of `spec.overrides`, which must be `True`; that of
    /// `status.conditions`, which must not be `False`, and must be of the object's current
    /// generation; that of `spec.conditions`, which must not be `False`. Without an
    /// OperatorCondition, or without such an entry, an Operator is upgradeable.
    ///
    /// The rule exempts copies that OLM writes (`identities.olm` or the profile), and copies whose
    /// original is in the namespace that the marks name and replaces the same versions. Without
    /// cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// OLM keeps the new version in the phase `Pending` until the Operator reports that it can be
    /// replaced (OpenShift 4.12, Operators, *Upgradeable condition*; OLM
    /// `pkg/controller/operators/olm/operatorconditions.go`).
    ///
    /// # Remediation
    ///
    /// Wait until the Operator has completed the task in its message. If it reports the wrong
    /// state, add an override of the type `Upgradeable` with the status `True` to its
    /// OperatorCondition.
    ///
    /// # Accepted
    ///
    /// `replaces: my-operator.v1.0.0`, whose condition is `False` and whose override is `True`.
    ///
    /// # Rejected
    ///
    /// `replaces: my-operator.v1.0.0`, whose OperatorCondition has:
    ///
    /// ```yaml
    /// spec: {conditions: [{type: Upgradeable, status: "False", message: migrating}]}
    /// ```
    ///
    /// `message: operator is not upgradeable: the operator is not upgradeable: migrating`
    ///
    /// A condition of an earlier generation has the message `operator is not upgradeable: the
    /// operatorcondition status "Upgradeable"="True" is outdated`.
    CND_06: Warn {
        name: "csv-replaces-upgradeable-operator",
        on: [CSV: Create],
        reads: [CONDITIONS, CSVS],
        source: ["OCP 4.12 L4156, L4197, L7818, L7893", "OCP 4.15 L2693-2733", "OLM pkg/controller/operators/olm/operatorconditions.go, pkg/controller/operators/olm/operator.go"],
    }
}

rule! {
    /// a version stays Pending while the Operator that it replaces is not upgradeable
    ///
    /// An UPDATE of `clusterserviceversions/status` does not change `status.phase` from `Pending`
    /// to another value while the installed version that `spec.replaces` names is not upgradeable.
    /// CND-06 defines when a version is upgradeable, and which copies are exempt. Without cluster
    /// state, the policy skips the rule. The rule is off unless the configuration sets its level.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Upgradeable condition* promises that such a version does not
    /// leave the phase `Pending`. OLM itself enforces this. The rule protects against other users
    /// with write access to the status, and delays each status update of a ClusterServiceVersion.
    ///
    /// # Remediation
    ///
    /// Leave the status to OLM. To allow the new version, wait for the Operator, or override its
    /// condition `Upgradeable`.
    ///
    /// # Accepted
    ///
    /// `Pending` to `InstallReady`, where the condition of the replaced version is `True`.
    ///
    /// # Rejected
    ///
    /// `Pending` to `InstallReady`, where it is `False` with the message `migrating`.
    ///
    /// `message: operator is not upgradeable: the operator is not upgradeable: migrating`
    CND_07: Deny {
        name: "csv-install-waits-for-upgradeable",
        on: [CSV_STATUS: Update],
        reads: [CONDITIONS, CSVS],
        enabled_by: [],
        source: ["OCP 4.12 L4197", "OCP 4.15 L2693-2733"],
    }
}
